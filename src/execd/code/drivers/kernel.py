# The Python kernel of execd: reads "run N" from descriptor 3, takes the code from the file on descriptor 4, runs it in
# __main__ and answers with frames (driver_protocol.h). Python 3.8 and newer; imports nothing at its start that Python
# itself has not loaded, because every context waits for that.
import _signal
import builtins
import io
import os
import sys

SOCKET, CODE = 3, 4
MAX_TEXT = (1 << 19) - 64  # characters of a repr; with the note it stays below the limit of execd
MAX_BINARY = 3 << 20  # bytes of a picture, before base64
KEPT_SOURCE = 4 << 20   # characters of earlier cells that tracebacks can show
AST_ONLY, TOP_LEVEL_AWAIT, IS_COROUTINE = 0x400, 0x2000, 0x80

main = sys.modules["__main__"]
main_pid = os.getpid()
saved_stdio = {}
sources = {}
sources_size = 0
display_formats = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"), ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"))


# ---- interrupts: SIGINT raises KeyboardInterrupt in the cell's code, once, and never in the middle of a frame.

interruptible = False
interrupt_pending = False


def on_interrupt(number, frame):
    global interruptible, interrupt_pending
    if interruptible:
        interruptible = False
        raise KeyboardInterrupt
    interrupt_pending = True


# ---- frames

try:
    from _json import encode_basestring_ascii as quote_ascii
except ImportError:
    from json.encoder import py_encode_basestring_ascii as quote_ascii


def quote(text):
    text = str.__str__(text)
    try:
        return quote_ascii(text) if text.isascii() else quote_ascii(text.encode("utf-8").decode("utf-8"))
    except UnicodeError:  # lone surrogates are no JSON
        return quote_ascii(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def send(body):
    global interruptible, interrupt_pending
    was, interruptible = interruptible, False
    data = body.encode("ascii")
    view = memoryview(b"%d\n%s" % (len(data), data))
    while view:
        view = view[os.write(SOCKET, view):]
    interruptible = was
    if was and interrupt_pending:
        interruptible = interrupt_pending = False
        raise KeyboardInterrupt


def send_bundle(kind, bundle):
    body = ",".join(quote(mime) + ":" + quote(text) for mime, text in bundle.items())
    send('{"type":"%s","run":%d,"data":{%s}}' % (kind, run, body))
    if kind == "display":  # what is printed next must not come first: wait until execd has it
        while read_line() != b"shown":
            pass


received = b""


def read_line():
    global received
    while b"\n" not in received:
        part = os.read(SOCKET, 4096)
        if not part:
            os._exit(0)
        received += part
    line, received = received.split(b"\n", 1)
    return line


# ---- values

def as_text(value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        import binascii
        if len(value) > MAX_BINARY:
            return None
        return binascii.b2a_base64(bytes(value), newline=False).decode("ascii")
    if isinstance(value, str):
        return str.__str__(value)
    import json
    return json.dumps(value)


def cut(text):
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "... [%d characters, cut]" % len(text)


def bundle_of(value):
    bundle = {}
    kind = type(value)
    try:
        bundle["text/plain"] = cut(repr(value))
    except Exception as error:
        if not hasattr(kind, "_repr_mimebundle_"):
            raise
        bundle["text/plain"] = "<%s without a repr: %s>" % (kind.__name__, type(error).__name__)
    if isinstance(value, type):
        return bundle
    found = []
    if hasattr(kind, "_repr_mimebundle_"):
        data = value._repr_mimebundle_()
        data = data[0] if isinstance(data, tuple) else data
        found.extend((data or {}).items())
    for method, mime in display_formats:
        if hasattr(kind, method):
            try:
                data = getattr(value, method)()
            except NotImplementedError:
                continue
            found.append((mime, data[0] if isinstance(data, tuple) else data))
    for mime, data in found:
        if data is None:
            continue
        text = as_text(data)
        if text is None or len(text) > MAX_BINARY * 3 // 2:
            complain("%s is too large to be shown; save it to a file" % mime)
        else:
            bundle[str(mime)] = text
    return bundle


def flush_output():
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:  # code may have put anything there
            pass


def complain(text):
    print("[%s]" % text, file=sys.stderr)


def display(*values, **ignored):
    """Shows values in the result of the run, as pictures or HTML where they can be."""
    for value in values:
        bundle = bundle_of(value)
        flush_output()
        send_bundle("display", bundle)


# ---- matplotlib: figures that are open at the end of a cell, or at show(), are pictures in its result.

def send_figures(*ignored, **also_ignored):
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        picture = io.BytesIO()
        try:
            figure.savefig(picture, format="png", bbox_inches="tight")
        finally:
            pyplot.close(figure)
        text = as_text(picture.getvalue())
        flush_output()
        if text is None:
            complain("the figure is too large to be shown; save it to a file")
        else:
            send_bundle("display", {"text/plain": repr(figure), "image/png": text})


class PyplotFinder:
    """Replaces matplotlib.pyplot.show as soon as that module is imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        sys.meta_path.remove(PyplotFinder)
        import importlib.util
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module if spec is not None and hasattr(spec.loader, "exec_module") else None
        if load is not None:
            def exec_module(module):
                load(module)
                if module.get_backend().lower() == "agg":
                    module.show = send_figures
            spec.loader.exec_module = exec_module
        return spec


# ---- errors

def remember(name, source):
    global sources_size
    sources[name] = source
    sources_size += len(source)
    while sources_size > KEPT_SOURCE and len(sources) > 1:
        oldest = next(iter(sources))
        sources_size -= len(sources.pop(oldest))
        if "linecache" in sys.modules:
            sys.modules["linecache"].cache.pop(oldest, None)
    if "linecache" in sys.modules:
        fill_line_cache()


def fill_line_cache():
    import linecache
    for name, source in sources.items():
        if name not in linecache.cache:
            linecache.cache[name] = (len(source), None, source.splitlines(True), name)


def send_error(error):
    try:
        value = cut(str(error))
    except BaseException:
        value = "<no text: __str__ failed>"
    try:
        import traceback
        fill_line_cache()
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace))
        if len(text) > MAX_TEXT:
            text = text[:MAX_TEXT // 2] + "\n... [cut]\n" + text[-MAX_TEXT // 2:]
        lines = text.rstrip("\n").split("\n")
    except BaseException:
        lines = [type(error).__name__ + ": " + value]
    send('{"type":"error","run":%d,"ename":%s,"evalue":%s,"traceback":[%s]}' % (
        run, quote(type(error).__name__), quote(value), ",".join(map(quote, lines))))


# ---- running code

def future_flags(source):
    if "__future__" not in source:
        return 0
    import __future__
    flags = 0
    for statement in compile(source, "<cell>", "exec", AST_ONLY | TOP_LEVEL_AWAIT, True).body:
        if type(statement).__name__ == "ImportFrom" and statement.module == "__future__":
            for name in statement.names:
                feature = getattr(__future__, name.name, None)
                flags |= feature.compiler_flag if feature is not None else 0
    return flags


kept_flags = 0
loop = None


def run_coroutine(coroutine):
    """The loop stays for the next cell, so that what one cell has opened can be awaited in another."""
    global loop
    import asyncio
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        try:
            loop.run_until_complete(task)
        except BaseException:
            pass
        raise


def evaluate(code):
    value = eval(code, main.__dict__)
    return run_coroutine(value) if code.co_flags & IS_COROUTINE else value


def execute(source, name):
    """The value of the last expression, None without one."""
    global kept_flags
    flags = kept_flags | TOP_LEVEL_AWAIT
    tree = compile(source, name, "exec", flags | AST_ONLY, True)
    kept_flags |= future_flags(source)
    flags = kept_flags | TOP_LEVEL_AWAIT
    last = tree.body[-1] if tree.body else None
    if type(last).__name__ != "Expr" or source.rstrip().endswith(";"):
        evaluate(compile(tree, name, "exec", flags, True))
        return None
    tree.body.pop()
    expression = type_of_expression(last.value)
    if tree.body:
        first = compile(tree, name, "exec", flags, True)
    second = compile(expression, name, "eval", flags, True)
    if tree.body:
        evaluate(first)
    return evaluate(second)


def type_of_expression(value):
    from _ast import Expression
    return Expression(value)


write_file = io.FileIO.write


class OutputFile(io.FileIO):
    """A signal may cut a write short: the rest follows."""

    def write(self, data):
        count = write_file(self, data)
        if count != len(data):
            data = memoryview(data).cast("B")
            while count < len(data):
                count += write_file(self, data[count:]) or 0
        return count


def open_output(number):
    """Standard output and error as text. Everything is written at once: execd joins the pieces of a line."""
    return io.TextIOWrapper(OutputFile(number, "w", closefd=False), encoding="utf-8", errors="backslashreplace", newline="\n",
                            write_through=True)


def restore_output():
    """Code may have closed them; what it redirected stays so."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(saved_stdio[number], number)
        stream = getattr(sys, name, None)
        if stream is None or getattr(stream, "closed", False):
            stream = open_output(number)
            setattr(sys, name, stream)
            setattr(sys, "__%s__" % name, stream)


def refuse_input(prompt=""):
    raise EOFError("input() is not available: code runs without a user to answer. "
                   "Assign the value in the code, or put it into a file or the environment.")


def take_code(head):
    size = os.fstat(CODE).st_size
    parts, at = [], 0
    while at < size:
        part = os.pread(CODE, min(size - at, 1 << 24), at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    data = b"".join(parts)
    return data[:head].split(b"\0")[:-1], data[head:].decode("utf-8", "replace")


class RunSettings:
    """The directory and the variables of one run. What was there before comes back after it."""

    def __init__(self, words):
        self.directory = words[0] if words else b""
        self.variables = [word.split(b"=", 1) for word in words[1:]]

    def __enter__(self):
        self.before = [(name, os.environb.get(name)) for name, value in self.variables]
        self.back = None
        for name, value in self.variables:
            os.environb[name] = value
        if self.directory:
            try:
                self.back = os.getcwd()
            except OSError:  # it was removed
                pass
            os.chdir(self.directory)

    def __exit__(self, *ignored):
        for name, value in self.before:
            if value is None:
                os.environb.pop(name, None)
            else:
                os.environb[name] = value
        if self.back is not None:
            try:
                os.chdir(self.back)
            except OSError:
                pass


def run_cell(head):
    global interruptible, interrupt_pending
    settings, source = take_code(head)
    name = "<cell %d>" % run
    _signal.signal(_signal.SIGINT, on_interrupt)
    restore_output()
    remember(name, source)
    interrupt_pending = False
    failure = None
    try:
        try:
            interruptible = True
            send('{"type":"started","run":%d}' % run)
            with RunSettings(settings):
                value = execute(source, name)
            if value is not None:
                builtins._ = value
                bundle = bundle_of(value)
                send_figures()
                flush_output()
                send_bundle("result", bundle)
            else:
                send_figures()
            interruptible = False
        finally:
            interruptible = False
    except BaseException as error:
        interruptible = False
        failure = error
    if os.getpid() != main_pid:
        leave_child(failure)
    flush_output()
    if failure is not None:
        send_error(failure)
    send('{"type":"done","run":%d}' % run)


def leave_child(failure):
    """A process that the code has forked off, and that ran to the end of the cell, is not a second kernel."""
    status = 0
    try:
        if isinstance(failure, SystemExit):
            status = failure.code if isinstance(failure.code, int) else 0 if failure.code is None else 1
        elif failure is not None:
            import traceback
            fill_line_cache()
            traceback.print_exception(type(failure), failure, failure.__traceback__)
            status = 1
        flush_output()
    finally:
        os._exit(status & 0xFF)


def close_in_child():
    for number in (SOCKET, CODE):
        try:
            os.close(number)
        except OSError:
            pass


def serve():
    global run
    while True:
        words = read_line().split()
        if len(words) >= 2 and words[0] == b"run":
            run = int(words[1])
            run_cell(int(words[2]) if len(words) > 2 else 0)


run = 0
for number in (SOCKET, CODE):
    os.set_inheritable(number, False)
for number in (1, 2):
    saved_stdio[number] = os.dup(number)
    os.set_inheritable(number, True)
sys.stdout = sys.__stdout__ = open_output(1)
sys.stderr = sys.__stderr__ = open_output(2)
os.register_at_fork(after_in_child=close_in_child)
os.environ.setdefault("MPLBACKEND", "Agg")
sys.meta_path.insert(0, PyplotFinder)
builtins.input = refuse_input
builtins.display = display
sys.argv = [""]
_signal.signal(_signal.SIGINT, on_interrupt)
send('{"type":"ready"}')
serve()
