"""The Python kernel: values, output, errors, state, top-level await, pictures."""

import base64
import os
import pathlib

import pytest

from code_runs import interrupt, live, new_context, run

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def execd(code_execd):
    return code_execd


def test_last_expression_is_the_result_with_its_count(execd, context):
    first = run(execd, "result = 2 + 2\nresult", context)
    assert first.types == ["init", "execution_count", "result", "execution_complete"]
    assert first.id == context and first.results == [{"text": "4", "text/plain": "4"}]
    assert first.counts == [1] and first.number == 1
    second = run(execd, "result * 2", context)
    assert second.text == "8" and second.counts == [2]


@pytest.mark.parametrize("code", ["x = 5", "None", "import math", "5;", "# only a comment", "def f():\n    return 1", " "])
def test_code_without_a_value_has_no_result(execd, context, code):
    done = run(execd, code, context)
    assert done.types == ["init", "execution_complete"]


def test_output_keeps_its_newlines_and_streams(execd, context):
    done = run(execd, "import sys\nprint('a', 'b')\nprint('c', end='')\nprint('bad', file=sys.stderr)", context)
    assert (done.stdout, done.stderr) == ("a b\nc", "bad\n")
    assert done.types[-1] == "execution_complete"


def test_one_print_is_one_event(execd, context):
    assert run(execd, "print('a', 1, 'b')", context).types == ["init", "stdout", "execution_complete"]


def test_output_stands_in_front_of_the_result_and_the_error(execd, context):
    for count in range(20):
        done = run(execd, f"print('x' * {count * 5000})\n{count}", context)
        assert done.types[-3:] == ["execution_count", "result", "execution_complete"]
        assert len(done.stdout) == count * 5000 + 1
    assert run(execd, "print('before')\n1 / 0", context).types == ["init", "stdout", "error", "execution_complete"]


def test_output_comes_while_the_code_runs(execd, context):
    with live(execd, "import os\nprint('dots...', end='')\nos.read(os.open('%s', os.O_RDONLY), 1)\n'end'" %
              fifo(execd), context) as going:
        going.wait_output("dots...")
        (execd.tmp / "fifo").write_text("x")
        assert going.finish().text == "'end'"


def fifo(execd):
    os.mkfifo(execd.tmp / "fifo")
    return execd.tmp / "fifo"


def test_output_of_subprocesses_and_of_the_descriptor_counts(execd, context):
    done = run(execd, "import os, subprocess\nsubprocess.run(['echo', 'child'])\nos.write(1, b'raw\\n')\nos.system('echo shell >&2')",
               context)
    assert done.stdout == "child\nraw\n" and done.stderr == "shell\n"


def test_bytes_that_are_no_text_become_replacement_characters(execd, context):
    done = run(execd, "import os\nos.write(1, b'a\\xff\\xfeb\\n')\nos.write(1, '\\u20ac'.encode()[:2])\nNone", context)
    assert done.stdout == "a\ufffd\ufffdb\n\ufffd\ufffd"


def test_characters_are_not_cut_by_reads(execd, context):
    done = run(execd, "import sys\nfor _ in range(3000): sys.stdout.write('\u20ac\U0001f600' * 10)", context)
    assert done.stdout == "\u20ac\U0001f600" * 30000


def test_line_separators_and_controls_survive(execd, context):
    text = "a\u2028b\u2029c\u0085d\x00e\x1b[0m"
    assert run(execd, f"print({ascii(text)}, end='')", context).stdout == text


def test_errors_carry_name_value_and_a_traceback_of_the_cell(execd, context):
    run(execd, "def divide(a, b):\n    return a / b", context)
    done = run(execd, "x = 1\ndivide(x, 0)", context)
    assert done.types[-2:] == ["error", "execution_complete"]
    assert (done.error["ename"], done.error["evalue"]) == ("ZeroDivisionError", "division by zero")
    trace = done.error["traceback"]
    assert '  File "<cell 2>", line 2, in <module>' in trace and "    divide(x, 0)" in trace
    assert '  File "<cell 1>", line 2, in divide' in trace and "    return a / b" in trace
    assert trace[-1] == "ZeroDivisionError: division by zero"
    assert not any("opensandbox" in line for line in trace)


@pytest.mark.parametrize("code,name", [
    ("undefined_name", "NameError"), ("for", "SyntaxError"), ("  x = 1\n y = 2", "IndentationError"),
    ("raise SystemExit(3)", "SystemExit"), ("exit()", "SystemExit"), ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("def f(): return f()\nf()", "RecursionError"), ("class E(Exception): pass\nraise E('own')", "E"),
    ("class R:\n  def __repr__(self): raise ValueError('bad repr')\nR()", "ValueError"),
    ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "E"),
    ("input('name? ')", "EOFError")])
def test_errors_leave_the_state(execd, context, code, name):
    run(execd, "kept = 42", context)
    done = run(execd, code, context)
    assert done.ename == name
    assert run(execd, "kept", context).text == "42"


def test_input_is_refused_with_advice_and_standard_input_is_empty(execd, context):
    assert "input() is not available" in run(execd, "input()", context).error["evalue"]
    assert run(execd, "import sys\nsys.stdin.read()", context).text == "''"


def test_chained_errors_are_shown(execd, context):
    trace = "\n".join(run(execd, "try:\n  1/0\nexcept Exception as e:\n  raise KeyError('k') from e", context)
                      .error["traceback"])
    assert "ZeroDivisionError" in trace and "direct cause" in trace and "KeyError: 'k'" in trace


def test_contexts_share_nothing_and_default_context_is_one(execd, context):
    other = new_context(execd)
    run(execd, "secret = 1", context)
    assert run(execd, "secret", other).ename == "NameError"
    run(execd, "shared = 'default'")
    assert run(execd, "shared").text == "'default'"
    execd.client.delete(f"/code/contexts/{other}")


def test_top_level_await_keeps_its_loop(execd, context):
    assert run(execd, "import asyncio\nawait asyncio.sleep(0, 'slept')", context).text == "'slept'"
    run(execd, "queue = asyncio.Queue()\nasync def put(): await queue.put(7)\nawait put()", context)
    assert run(execd, "await queue.get()", context).text == "7"
    assert run(execd, "async def agen():\n  yield 1\n[i async for i in agen()]",
               context).text == "[1]"


def test_future_imports_stay(execd, context):
    run(execd, "from __future__ import annotations\ndef f(x: Missing): pass\nf.__annotations__", context)
    assert run(execd, "def g(x: AlsoMissing): pass\ng.__annotations__", context).text == "{'x': 'AlsoMissing'}"


def test_code_runs_in_main_with_the_directory_on_the_path(execd):
    (execd.tmp / "local_module.py").write_text("answer = 42\n")
    context = new_context(execd, cwd=str(execd.tmp))
    assert run(execd, "import local_module\n__name__, local_module.answer", context).text == "('__main__', 42)"
    assert run(execd, "import pickle\nclass P: pass\ntype(pickle.loads(pickle.dumps(P()))).__name__", context).text == "'P'"
    execd.client.delete(f"/code/contexts/{context}")


def test_rich_values_come_by_mime_type(execd, context):
    done = run(execd, "class Rich:\n  def _repr_html_(self): return '<b>x</b>'\n  def _repr_png_(self): return b'\\x89PNG'\n"
                      "  def _repr_json_(self): return {'a': [1]}\n  def __repr__(self): return 'rich'\nRich()", context)
    assert done.results == [{"text": "rich", "text/plain": "rich", "text/html": "<b>x</b>",
                             "image/png": base64.b64encode(b"\x89PNG").decode(), "application/json": '{"a": [1]}'}]
    shown = run(execd, "print('1')\ndisplay(Rich())\nprint('2')\n3", context)
    assert shown.types == ["init", "stdout", "result", "stdout", "execution_count", "result", "execution_complete"]
    bundle = run(execd, "class B:\n  def _repr_mimebundle_(self, include=None, exclude=None): return {'text/x': 'y', 'n': 1}\nB()", context)
    assert bundle.results[0]["text/x"] == "y" and bundle.results[0]["n"] == "1"


def test_large_values_are_cut_or_left_out(execd, context):
    done = run(execd, "'x' * 10_000_000", context)
    assert done.results[0]["text"].endswith("cut]") and len(done.results[0]["text"]) < 600_000
    left_out = run(execd, "class Big:\n  def _repr_png_(self): return b'x' * 5_000_000\n  def __repr__(self): return 'big'\nBig()",
                   context)
    assert left_out.results == [{"text": "big", "text/plain": "big"}] and "image/png" in left_out.stderr


def test_last_value_is_underscore(execd, context):
    run(execd, "20 + 1", context)
    assert run(execd, "_ * 2", context).text == "42"


def test_environment_and_directory_of_a_context(execd):
    place = execd.tmp / "made" / "for it"
    context = new_context(execd, cwd=str(place), envs={"FLAVOUR": "salt"})
    assert place.is_dir()
    assert run(execd, "import os\nos.getcwd(), os.environ['FLAVOUR']", context).text == repr((str(place), "salt"))
    assert execd.client.get(f"/code/contexts/{context}").json() == {"id": context, "language": "python", "cwd": str(place)}
    execd.client.delete(f"/code/contexts/{context}")


def test_forked_child_is_no_second_kernel(execd, context):
    done = run(execd, "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('child' if pid == 0 else 'parent')", context)
    assert sorted(done.stdout.split()) == ["child", "parent"]
    done = run(execd, "pid = os.fork()\nif pid == 0: raise ValueError('in the child')\nos.waitpid(pid, 0)[1]", context)
    assert done.text == "256" and "in the child" in done.stderr
    assert run(execd, "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as p: r = p.map(abs, [-1, -2])\nr",
               context).text == "[1, 2]"


def test_closed_and_replaced_output_does_not_break_the_context(execd, context):
    run(execd, "import sys, os\nsys.stdout.close()", context)
    assert run(execd, "print('again')", context).stdout == "again\n"
    run(execd, "os.close(1); os.close(2)", context)
    done = run(execd, "print('third'); print('e', file=sys.stderr)", context)
    assert (done.stdout, done.stderr) == ("third\n", "e\n")
    run(execd, "import io\nsys.stdout = io.StringIO()\nprint('hidden')", context)
    assert run(execd, "sys.stdout.getvalue()", context).text == "'hidden\\n'"
    run(execd, "sys.stdout = sys.__stdout__\ndel sys.stderr", context)
    assert run(execd, "print('fourth')", context).stdout == "fourth\n"


def test_threads_of_earlier_cells_go_on(execd, context):
    run(execd, "import threading\nstop = threading.Event()\ncount = 0\ndef work():\n  global count\n  while not stop.wait(0.001): count += 1\n"
               "t = threading.Thread(target=work); t.start()", context)
    assert run(execd, "a = count\nwhile count == a: stop.wait(0.001)\nstop.set(); t.join(); count > a", context).text == "True"


def test_interrupt_stops_the_cell_and_keeps_the_state(execd, context):
    run(execd, "kept = 1", context)
    for code in ["import time\nprint('on', flush=True)\ntime.sleep(600)", "print('on')\nwhile True: pass",
                 "import subprocess\nprint('on')\nsubprocess.run(['sleep', '600'])",
                 "import asyncio\nprint('on')\nawait asyncio.sleep(600)"]:
        with live(execd, code, context) as going:
            going.wait_output("on")
            interrupt(execd, context)
            done = going.finish()
        assert done.ename == "KeyboardInterrupt" and done.types[-1] == "execution_complete"
        assert run(execd, "kept", context).text == "1"
    assert run(execd, "import asyncio\nawait asyncio.sleep(0, 2)", context).text == "2"


def test_interrupt_right_after_the_start_is_not_lost(execd, context):
    for _ in range(20):
        with live(execd, "while True: pass", context) as going:
            assert going.next()["type"] == "init"
            interrupt(execd, context)
            assert going.finish().ename == "KeyboardInterrupt"
    assert run(execd, "1", context).text == "1"


def test_interrupt_of_an_idle_context_does_nothing(execd, context):
    interrupt(execd, context)
    assert run(execd, "1", context).text == "1"


def test_code_of_fifty_megabytes_runs(execd, context):
    done = run(execd, "x = '" + "y" * 50_000_000 + "'\nlen(x)", context)
    assert done.text == "50000000"


@pytest.fixture(scope="module")
def plotting(tmp_path_factory):
    """An execd whose python3 has matplotlib: that of the test environment."""
    from execd_process import Execd
    python = ROOT / "build" / "venv" / "bin"
    execd = Execd(env={"PATH": f"{python}:{os.environ['PATH']}", "MPLCONFIGDIR": str(tmp_path_factory.mktemp("mpl")),
                       "MPLBACKEND": None})
    yield execd
    execd.stop()


def test_figures_become_pictures(plotting):
    done = run(plotting, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);")
    assert [sorted(result) for result in done.results] == [["image/png", "text", "text/plain"]] and done.stderr == ""
    assert base64.b64decode(done.results[0]["image/png"]).startswith(b"\x89PNG\r\n\x1a\n")
    shown = run(plotting, "plt.figure(); plt.plot([1]); plt.show()\nprint('after')\nplt.figure(); plt.plot([2]); None")
    assert shown.types == ["init", "result", "stdout", "result", "execution_complete"]
    assert run(plotting, "plt.get_fignums()").text == "[]"


def test_show_in_the_cell_that_imports_pyplot_warns_about_nothing(plotting):
    context = new_context(plotting)
    done = run(plotting, "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2])\nplt.show()", context)
    assert len(done.results) == 1 and "image/png" in done.results[0] and done.stderr == ""
