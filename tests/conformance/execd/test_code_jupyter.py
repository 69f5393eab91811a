"""Code in kernels of a real Jupyter server, as in the published code interpreter image."""

import base64
import json
import os
import pathlib
import signal
import sys

import httpx
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from code_runs import body, in_thread, interrupt, live, new_context, run  # noqa: E402
from execd_process import Execd  # noqa: E402
from jupyter_process import Jupyter  # noqa: E402
from test_commands import process_gone  # noqa: E402


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory):
    server = Jupyter(tmp_path_factory.mktemp("jupyter"))
    yield server.start()
    server.stop()


@pytest.fixture(scope="module")
def shared_jupyter_execd(jupyter):
    execd = Execd(env={**jupyter.env, "EXECD_CODE_INTERRUPT_GRACE": "60s", "EXECD_JUPYTER_IDLE_POLL_INTERVAL": "200ms"})
    yield execd
    execd.stop()


@pytest.fixture
def execd(shared_jupyter_execd, tmp_path):
    shared_jupyter_execd.tmp = tmp_path
    yield shared_jupyter_execd
    shared_jupyter_execd.check_alive()


def sessions(jupyter):
    answer = httpx.get(f"http://127.0.0.1:{jupyter.port}/api/sessions", headers={"Authorization": f"token {jupyter.token}"},
                       trust_env=False, timeout=60)
    return answer.json()


def test_state_results_output_and_errors(execd, context):
    assert run(execd, "x = 20", context).types == ["init", "execution_complete"]
    done = run(execd, "import sys\nprint('out', x)\nprint('err', file=sys.stderr)\nx * 2", context)
    assert done.id == context and done.stdout == "out 20\n" and done.stderr == "err\n" and done.text == "40"
    assert done.counts == [2] and done.types[-1] == "execution_complete"
    failed = run(execd, "1 / 0", context)
    assert failed.ename == "ZeroDivisionError" and failed.error["evalue"] == "division by zero" and failed.error["traceback"]
    assert failed.types[-1] == "execution_complete"
    assert run(execd, "y", new_context(execd)).ename == "NameError"


def test_context_is_listed_and_its_kernel_ends_with_it(jupyter, execd):
    before = len(sessions(jupyter))
    context = new_context(execd)
    assert execd.client.get(f"/code/contexts/{context}").json() == {"id": context, "language": "python"}
    assert len(sessions(jupyter)) == before + 1
    pid = int(run(execd, "import os\nos.getpid()", context).text)
    answer = execd.client.delete(f"/code/contexts/{context}", timeout=60)
    assert (answer.status_code, answer.headers["content-length"]) == (200, "0")
    assert len(sessions(jupyter)) == before and process_gone(pid)


def test_default_context_keeps_its_state_and_is_deleted_with_its_language(execd):
    assert execd.client.delete("/code/contexts", params={"language": "python"}, timeout=60).status_code == 200
    assert run(execd, "z = 7").error is None
    assert run(execd, "z").text == "7"
    assert [each["language"] for each in execd.client.get("/code/contexts").json()] == ["python"]
    assert execd.client.delete("/code/contexts", params={"language": "python"}, timeout=60).status_code == 200
    assert execd.client.get("/code/contexts").json() == []
    assert run(execd, "z").ename == "NameError"


def test_what_is_displayed_comes_as_results(execd, context):
    picture = base64.b64encode(b"\x89PNG not really").decode()
    done = run(execd, "from IPython.display import display\n"
                      f"display({{'image/png': '{picture}', 'text/plain': 'a figure', 'application/json': {{'a': 1}}}}, raw=True)\n"
                      "print('between')\n'value'", context)
    assert done.types == ["init", "result", "stdout", "execution_count", "result", "execution_complete"]
    assert done.results[0]["image/png"] == picture and done.results[0]["text"] == "a figure"
    assert json.loads(done.results[0]["application/json"]) == {"a": 1}


def test_events_come_while_the_code_runs_and_can_be_followed_again(execd, context):
    os.mkfifo(execd.tmp / "fifo")
    with live(execd, f"print('first', flush=True)\nopen('{execd.tmp}/fifo').read()\nprint('second')", context) as going:
        going.wait_output("first")
    assert "session is busy" in run(execd, "1", context).error["evalue"]
    (execd.tmp / "fifo").write_text("")
    whole = execd.client.get(f"/code/contexts/{context}/events", timeout=60).text
    assert "second" in whole and "execution_complete" in whole


def test_interrupt_stops_the_code_and_keeps_the_state(execd, context):
    run(execd, "kept = 5", context)
    with live(execd, "print('on', flush=True)\nwhile True: pass", context) as going:
        going.wait_output("on")
        interrupt(execd, context)
        done = going.finish()
    assert done.ename == "KeyboardInterrupt" and done.types[-1] == "execution_complete"
    assert run(execd, "kept", context).text == "5"


def test_interrupts_at_any_moment_end_every_run_once(execd, context):
    run(execd, "kept = 1", context)
    for number in range(15):
        join = in_thread(lambda: run(execd, f"for i in range({number} * 200000): pass\n{number}", context))
        interrupt(execd, context)
        done = join()
        assert done.error is None or done.ename == "KeyboardInterrupt", done.error
    assert run(execd, "kept", context).text == "1"


def test_timeout_interrupts(execd, context):
    done = run(execd, "while True: pass", context, timeout=300)
    assert done.ename == "ExecutionTimeout"
    assert run(execd, "2", context).text == "2"


@pytest.mark.parametrize("code", ["import os\nprint('last words', flush=True)\nos._exit(3)",
                                  "import os, signal\nprint('last words', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"])
def test_kernel_that_dies_ends_its_run_and_the_next_one_says_so(execd, context, code):
    run(execd, "x = 1", context)
    dead = run(execd, code, context)
    assert dead.ename == "KernelDied" and "state is gone" in dead.error["evalue"] and dead.types[-1] == "error"
    again = run(execd, "x", context)
    assert again.ename == "NameError" and "earlier variables are gone" in again.stderr
    assert run(execd, "1", context).stderr == ""


def test_input_is_refused(execd, context):
    assert run(execd, "input('?')", context).ename == "StdinNotImplementedError"


def test_contexts_run_at_the_same_time(execd):
    contexts = [new_context(execd) for _ in range(3)]
    joins = [in_thread(lambda c=c, i=i: run(execd, f"x = {i}\nx * 10", c)) for i, c in enumerate(contexts)]
    assert [join().text for join in joins] == ["0", "10", "20"]
    for context in contexts:
        execd.client.delete(f"/code/contexts/{context}", timeout=60)


def test_stopped_server_goes_on_where_it_was(jupyter, execd, context):
    """A server that stands still is waited for; nothing is lost or doubled."""
    with live(execd, "for i in range(2000): print(i)\n'end'", context) as going:
        assert going.next()["type"] == "init"
        os.kill(jupyter._process.pid, signal.SIGSTOP)
        os.kill(jupyter._process.pid, signal.SIGCONT)
        done = going.finish()
    assert done.stdout.split() == [str(i) for i in range(2000)] and done.text == "'end'"


def test_variables_of_a_context_are_refused_with_the_reason(execd):
    answer = execd.client.post("/code/context", json={"language": "python", "envs": {"A": "b"}})
    assert answer.status_code == 400 and "Jupyter" in answer.json()["message"]


def test_large_code_and_unicode(execd, context):
    done = run(execd, "x = '" + "é" * (1 << 20) + "'\nlen(x)", context)
    assert done.text == str(1 << 20)


def test_first_run_waits_for_a_server_and_a_kernel_that_come_later(start_execd, tmp_path):
    late = Jupyter(tmp_path, kernels=())
    execd = start_execd(env=late.env)
    try:
        join = in_thread(lambda: run(execd, "6 * 7"))
        late.start()
        late.install("python")
        assert join().text == "42"
    finally:
        late.stop()


def test_server_that_ends_ends_its_runs(start_execd, tmp_path):
    server = Jupyter(tmp_path)
    execd = start_execd(env=server.env)
    server.start()
    try:
        context = new_context(execd)
        with live(execd, "print('on', flush=True)\nimport time\ntime.sleep(600)", context) as going:
            going.wait_output("on")
            server.kill()
            assert going.finish().ename == "KernelDied"
    finally:
        server.stop()


def test_wrong_token_is_named_and_no_token_is_shown(start_execd, jupyter):
    execd = start_execd(env={**jupyter.env, "JUPYTER_TOKEN": "wrong-token-of-the-test"})
    answer = execd.client.post("/code/context", json={"language": "python"}, timeout=60)
    assert answer.status_code == 500 and "JUPYTER_TOKEN" in answer.json()["message"]
    assert "wrong-token-of-the-test" not in answer.text + execd.log()


@pytest.mark.parametrize("host", ["https://127.0.0.1:1", "http://jupyter.example:44771"])
def test_server_that_execd_cannot_reach_is_an_error_of_code_only(start_execd, host):
    execd = start_execd(env={"JUPYTER_HOST": host, "JUPYTER_TOKEN": "t"})
    answer = execd.client.post("/code", json=body("1"))
    assert answer.status_code == 500 and "JUPYTER_HOST" in answer.json()["message"]
    assert execd.client.post("/command", json={"command": "true"}).status_code == 200


def test_language_without_a_kernel_names_those_that_there_are(execd):
    """Last: a young server may still get new kernels, and is waited for."""
    answer = execd.client.post("/code/context", json={"language": "cobol"}, timeout=60)
    assert answer.status_code == 500 and answer.json()["code"] == "RUNTIME_ERROR"
    assert '"cobol"' in answer.json()["message"] and "python" in answer.json()["message"]
