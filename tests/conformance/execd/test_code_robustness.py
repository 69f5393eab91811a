"""Code that dies, floods, hangs, lies to execd or ignores it: the run says so, the context goes on, and so do others."""

import http.client
import json
import os
import pathlib
import signal

import pytest
from code_runs import Run, body, in_thread, interrupt, live, new_context, run
from test_commands import MIB, parse, process_gone


@pytest.fixture
def execd(code_execd):
    return code_execd


@pytest.mark.parametrize("code,says", [
    ("import os\nprint('last words')\nos._exit(3)", "exit status 3"),
    ("import os\nprint('last words')\nos._exit(0)", "exit status 0"),
    ("import ctypes\nprint('last words')\nctypes.string_at(0)", "segmentation fault"),
    ("import os, signal\nprint('last words')\nos.kill(os.getpid(), signal.SIGKILL)", "signal: killed")])
def test_kernel_that_dies_ends_its_run_and_the_next_one_says_that_the_state_is_gone(execd, context, code, says):
    run(execd, "x = 1", context)
    dead = run(execd, code, context)
    assert dead.stdout == "last words\n" and dead.types[-1] == "error"
    assert dead.ename == "KernelDied" and says in dead.error["evalue"] and "state is gone" in dead.error["evalue"]
    again = run(execd, "x", context)
    assert again.ename == "NameError" and says in again.stderr and "new process" in again.stderr
    assert run(execd, "1", context).stderr == ""


def test_kernel_that_dies_between_runs_is_replaced_and_said_so(execd, context):
    """execd reads the next run before it learns of the death: it stands still while both happen."""
    pid = int(run(execd, "import os\nos.getpid()", context).text)
    connection = http.client.HTTPConnection("127.0.0.1", execd.port, timeout=120)
    connection.request("GET", "/ping")
    connection.getresponse().read()
    os.kill(execd.pid, signal.SIGSTOP)
    try:
        connection.request("POST", "/code", json.dumps(body("2", context)), {"Content-Type": "application/json"})
        os.kill(pid, signal.SIGKILL)
        assert process_gone(pid)
    finally:
        os.kill(execd.pid, signal.SIGCONT)
    done = Run(parse(connection.getresponse().read()))
    assert done.error is None or done.ename == "KernelDied", done.error
    assert run(execd, "2", context).text == "2"


def test_children_of_a_kernel_die_with_it(execd, context):
    children = json.loads(run(execd, "import subprocess, os\n"
                                     "a = subprocess.Popen(['sleep', '600'])\n"
                                     "b = subprocess.Popen(['setsid', 'sleep', '600'])\n[a.pid, b.pid]", context).text)
    assert run(execd, "os._exit(1)", context).ename == "KernelDied"
    for pid in children:
        assert process_gone(pid)


def test_deleting_a_context_ends_its_run_and_all_of_its_processes(execd):
    context = new_context(execd)
    with live(execd, "import subprocess, time, os\nc = subprocess.Popen(['setsid', 'sleep', '600'])\n"
                     "print(os.getpid(), c.pid, flush=True)\ntime.sleep(600)", context) as going:
        assert going.next()["type"] == "init"
        pids = [int(word) for word in going.next()["text"].split()]
        answer = execd.client.delete(f"/code/contexts/{context}")
        assert answer.status_code == 200 and answer.headers["content-length"] == "0"
        for pid in pids:
            assert not pathlib.Path(f"/proc/{pid}").exists() or pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() == b""
        done = going.finish()
    assert done.ename == "KernelKilled" and "deleted" in done.error["evalue"]
    assert execd.client.get(f"/code/contexts/{context}").status_code == 404


@pytest.fixture
def impatient(start_execd):
    return start_execd(env={"EXECD_CODE_INTERRUPT_GRACE": "100ms"})


def test_code_that_ignores_the_interrupt_is_killed_and_the_error_says_so(impatient):
    execd, context = impatient, new_context(impatient)
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('on')\nwhile True: pass"
    with live(execd, code, context) as going:
        going.wait_output("on")
        interrupt(execd, context)
        done = going.finish()
    assert done.ename == "KernelKilled" and "interrupt" in done.error["evalue"] and "state is gone" in done.error["evalue"]
    assert "new process" in run(execd, "1", context).stderr


def test_timeout_of_a_run_interrupts_it_and_keeps_the_state(execd, context):
    run(execd, "kept = 7", context)
    done = run(execd, "while True: pass", context, timeout=200)
    assert done.ename == "ExecutionTimeout" and "200 ms" in done.error["evalue"]
    assert done.error["traceback"][-1] == "ExecutionTimeout: " + done.error["evalue"]
    assert run(execd, "kept", context, timeout=60_000).text == "7"


def test_timeout_of_code_that_ignores_it_kills_it(impatient):
    execd, context = impatient, new_context(impatient)
    run(execd, "import _signal, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n_signal.signal = lambda *ignored: None", context)
    done = run(execd, "while True: pass", context, timeout=100)
    assert done.ename == "KernelKilled" and "100 ms" in done.error["evalue"]


@pytest.mark.parametrize("attack,ename", [
    ("os.write(3, b'garbage that is no frame at all')", "KernelKilled"),
    ("os.write(3, b'99999999\\n')", "KernelKilled"),
    ("os.write(3, b'-5\\n{}')", "KernelKilled"),
    ("os.write(3, b'5\\n{\"a\":')", "KernelKilled"),
    ("os.write(3, b'2\\n[]')", "KernelKilled"),
    ("os.write(3, b'1000000\\n' + b'[' * 1000000)", "KernelKilled"),
    ("os.close(3); import time; time.sleep(600)", "KernelKilled"),
    ("os.close(3)", "KernelDied")])
def test_code_that_breaks_the_protocol_hurts_its_own_context_only(execd, context, attack, ename):
    other = new_context(execd)
    run(execd, "x = 'safe'", other)
    done = run(execd, "import os\n" + attack, context)
    assert done.ename == ename
    assert run(execd, "1", context).text == "1"
    assert run(execd, "x", other).text == "'safe'"
    execd.client.delete(f"/code/contexts/{other}")


def frame(**fields):
    text = json.dumps(fields)
    return f"os.write(3, {f'{len(text)}{chr(10)}{text}'.encode()!r})"


def test_code_that_speaks_the_protocol_gets_at_most_its_own_run_wrong(execd, context):
    run(execd, "import os", context)  # run 1
    forged = run(execd, frame(type="result", run=2, data={"text/plain": "forged"}), context)
    assert {"text": "forged", "text/plain": "forged"} in forged.results
    run(execd, frame(type="result", run=2, data={"text/plain": "of another run"}) + ";", context)
    assert run(execd, frame(type="unknown", run=4) + ";", context).types == ["init", "execution_complete"]
    run(execd, frame(type="error", run=5, ename="A", evalue="b", traceback=[]) + "; 1/0", context)
    run(execd, frame(type="done", run=6) + ";", context)  # ends its run early
    run(execd, frame(type="done", run=8) + "; 5", context)
    many = run(execd, "for _ in range(3): " + frame(type="done", run=9), context)
    assert many.types == ["init", "execution_complete"]
    while run(execd, "21 * 2", context).results[-1:] != [{"text": "42", "text/plain": "42"}]:
        pass


def test_code_that_floods_the_socket_is_held_back_or_ended(execd, context):
    text = json.dumps({"type": "display", "run": 1, "data": {"text/plain": "y" * 100_000}})
    done = run(execd, f"import os\nfor _ in range(300): os.write(3, {f'{len(text)}{chr(10)}{text}'.encode()!r})", context)
    assert done.types[-1] in ("execution_complete", "error")
    assert run(execd, "1", new_context(execd)).text == "1"


def test_gigabyte_of_output_comes_through(execd, context):
    total, last = 0, b""
    with execd.client.stream("POST", "/code", json=body("line = 'x' * 1023 + chr(10)\nimport sys\n"
                                                       "for _ in range(1 << 10): sys.stdout.write(line * 1024)\n'end'", context),
                             timeout=300) as response:
        for chunk in response.iter_bytes():
            total += len(chunk)
            last = (last + chunk)[-4096:]
    assert total > 1 << 30
    events = [json.loads(piece) for piece in last.split(b"\n\n")[1:-1]]
    assert [event["type"] for event in events][-3:] == ["execution_count", "result", "execution_complete"]


@pytest.mark.memory
def test_flood_without_a_reader_leaves_execds_memory_flat(start_execd):
    execd = start_execd()
    context = new_context(execd)
    run(execd, "import sys", context)
    before = resident(execd.pid)
    with live(execd, "for _ in range(200): sys.stdout.write('x' * 1048576 + chr(10))\nopen('%s', 'w').close()" % (execd.tmp / "end"),
              context) as going:
        assert going.next()["type"] == "init"
    # The reader is gone; the run goes on without it, and its events can be asked for.
    with execd.client.stream("GET", f"/code/contexts/{context}/events", params={"after": 1}) as response:
        rest = [event for event in parse(response.read()) if event["type"] != "ping"]
    assert rest[-1]["type"] == "execution_complete"
    assert resident(execd.pid) - before < 32 * MIB


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_reader_that_stops_holds_the_code_back(execd, context):
    counter = execd.tmp / "count"
    code = ("import os\nf = open('%s', 'w')\nfor i in range(512):\n  os.write(1, b'z' * 1048576)\n  os.pwrite(f.fileno(), b'%%5d' %% i, 0)\n"
            % counter)
    with live(execd, code, context) as going:
        assert going.next()["type"] == "init"
        # The pipe, the log and the socket take some MiB, then the code waits for us.
        last = -1
        while True:
            now = int(counter.read_text() or 0) if counter.exists() else -1
            if now == last and now > 0 and blocked_in_write(execd, context, counter):
                break
            last = now
        assert last < 300
        assert len(going.finish().stdout) == 512 * MIB


def blocked_in_write(execd, context, counter):
    for pid in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(counter) in [os.readlink(fd) for fd in (pid / "fd").iterdir()]:
                return pid.joinpath("wchan").read_text() in ("pipe_write", "anon_pipe_write")
        except OSError:
            continue
    return False


def test_busy_context_refuses_a_second_run_and_others_go_on(execd, context):
    with live(execd, "print('on')\nwhile True: pass", context) as going:
        going.wait_output("on")
        refused = run(execd, "1", context)
        assert refused.types == ["init", "error"] and refused.id == context
        assert "session is busy" in refused.error["evalue"]
        assert run(execd, "'elsewhere'", new_context(execd)).text == "'elsewhere'"
        interrupt(execd, context)
        assert going.finish().ename == "KeyboardInterrupt"
    assert run(execd, "1", context).text == "1"


def test_run_goes_on_when_its_client_leaves_and_can_be_followed_again(execd, context):
    os.mkfifo(execd.tmp / "fifo")
    with live(execd, f"print('first')\nopen('{execd.tmp}/fifo').read()\nprint('second')\n'end'", context) as going:
        init = going.next()
        assert going.next()["text"] == "first\n"
    assert run(execd, "1", context).ename == "RUNTIME_ERROR"  # still busy
    (execd.tmp / "fifo").write_text("")
    url = f"/code/contexts/{context}/events"
    with execd.client.stream("GET", url, params={"after": 2, "run": init["run"]}) as response:
        events = [event for event in parse(response.read()) if event["type"] != "ping"]
    assert [event["type"] for event in events] == ["stdout", "execution_count", "result", "execution_complete"]
    assert [event["seq"] for event in events] == [3, 4, 5, 6]
    whole = Run(parse(execd.client.get(url).content))
    assert whole.stdout == "first\nsecond\n" and whole.text == "'end'"
    assert execd.client.get(url, params={"after": 99}).status_code == 400
    assert execd.client.get(url, params={"after": "x"}).status_code == 400
    assert execd.client.get(url, params={"run": 99}).status_code == 404


def test_twenty_contexts_at_the_same_time(execd):
    contexts = [new_context(execd) for _ in range(20)]
    joins = [in_thread(lambda c=c, i=i: run(execd, f"import os\nx = {i}\nsum(range(10000)), x", c)) for i, c in enumerate(contexts)]
    assert [join().text for join in joins] == [f"(49995000, {i})" for i in range(20)]
    assert execd.client.delete("/code/contexts", params={"language": "python"}).status_code == 200
    assert execd.client.get("/code/contexts").json() == []


def test_interrupts_at_any_moment_end_every_run_once(execd, context):
    run(execd, "kept = 1\nimport time", context)
    for round in range(50):
        code = f"for i in range({round * 2000}): pass\nprint('x' * {round * 100})\n{round}"
        join = in_thread(lambda: run(execd, code, context))
        interrupt(execd, context)
        done = join()
        assert done.error is None or done.ename in ("KeyboardInterrupt",)
    assert run(execd, "kept", context).text == "1"


def test_end_of_execd_ends_kernels_and_their_children(start_execd):
    execd = start_execd()
    pids = json.loads(run(execd, "import subprocess, os\nc = subprocess.Popen(['setsid', 'sleep', '600'])\n[os.getpid(), c.pid]").text)
    execd.stop()
    for pid in pids:
        assert process_gone(pid)
