"""Connections to a Jupyter server that break during a run: it goes on where the server can, and always says so."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from code_runs import Run, live, new_context, run  # noqa: E402
from cutting_proxy import CuttingProxy  # noqa: E402
from execd_process import Execd  # noqa: E402
from jupyter_process import Jupyter  # noqa: E402


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory):
    server = Jupyter(tmp_path_factory.mktemp("jupyter"))
    yield server.start()
    server.stop()


@pytest.fixture
def way(jupyter):
    """Between execd and the server."""
    with CuttingProxy(jupyter.port) as proxy:
        yield proxy


@pytest.fixture
def execd(jupyter, way, tmp_path):
    execd = Execd(env={**jupyter.env, "JUPYTER_HOST": f"http://{way.domain}"})
    execd.tmp = tmp_path
    yield execd
    way.refuse = False
    execd.stop()


def says_that_it_was_lost(done):
    return "connection to the Jupyter kernel was lost" in done.stderr or done.ename == "ConnectionLost"


def test_run_that_waits_goes_on_and_keeps_its_state(execd, way):
    context = new_context(execd)
    run(execd, "kept = 5", context)
    os.mkfifo(execd.tmp / "fifo")
    with live(execd, f"print('first', flush=True)\nopen('{execd.tmp}/fifo').read()\nprint('second')\nkept", context) as going:
        going.wait_output("first")
        way.cut()
        going.wait_output("was lost")
        (execd.tmp / "fifo").write_text("")
        done = going.finish()
    assert says_that_it_was_lost(done)
    assert done.ename in (None, "ConnectionLost") and done.types[-1] == "execution_complete"
    assert run(execd, "kept + 1", context).text == "6"


def test_output_is_never_doubled_and_a_gap_is_never_silent(execd, way):
    context = new_context(execd)
    os.mkfifo(execd.tmp / "fifo")
    code = f"for i in range(5000):\n  print(i, flush=True)\n  if i == 99: open('{execd.tmp}/fifo').read()\n'end'"
    with live(execd, code, context) as going:
        going.wait_output("99\n")
        way.cut()
        (execd.tmp / "fifo").write_text("")
        while (event := going.next()) is not None:
            if event["type"] == "stdout" and "00\n" in event["text"]:
                way.cut()
        done = Run(going.events)
    numbers = [int(line) for line in done.stdout.split()]
    assert numbers == sorted(set(numbers))
    assert says_that_it_was_lost(done)
    assert run(execd, "i", context).text == "4999"


def test_server_that_cannot_be_reached_again_ends_the_run(execd, way):
    context = new_context(execd)
    with live(execd, "print('on', flush=True)\nimport time\ntime.sleep(600)", context) as going:
        going.wait_output("on")
        way.refuse = True
        way.cut()
        done = going.finish()
    assert done.ename == "KernelDied" and "state is gone" in done.error["evalue"]
    way.refuse = False
    again = run(execd, "1 + 1", context)
    assert again.text == "2" and "earlier variables are gone" in again.stderr
