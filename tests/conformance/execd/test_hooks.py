"""Lifecycle hooks of a bare execd: what it is told by its environment, and what it leaves for its parent."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import threading

import httpx
import pytest
from execd_process import binary


@pytest.fixture
def start(tmp_path):
    """start(hooks, *args, entrypoint) is an execd with its output in a pipe; its port is `port`."""
    made = []

    def start(hooks, *args, entrypoint=(), variable="OPENSANDBOX_LIFECYCLE"):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            text = hooks if isinstance(hooks, str) else json.dumps(hooks)
            process = subprocess.Popen(
                [binary(), f"--listen-fd={listener.fileno()}", *args, *(["--", *entrypoint] if entrypoint else [])],
                pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, env={**os.environ, variable: text})
            process.port = listener.getsockname()[1]
        made.append(process)
        return process

    yield start
    for process in made:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def wait_for(process, text):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError(f"ended with {process.wait(10)} before {text!r}:\n{''.join(lines)}")


def test_the_record_says_that_a_hook_failed(start, tmp_path):
    execd = start({"preStart": {"command": ["sh", "-c", "echo broken; exit 3"]}}, f"--exit-dir={tmp_path}",
                  "--after-entrypoint=end", entrypoint=["sh", "-c", "echo never"])
    out = execd.stdout.read()
    assert execd.wait(30) == 3
    assert "never\n" not in out
    record = json.loads((tmp_path / "exit.json").read_text())
    assert (record["code"], record["hook_failed"]) == (3, True)
    assert record["error"] == 'preStart hook ended with exit code 3; its last output: "broken"'


def test_without_an_entrypoint_a_failure_ends_execd(start):
    execd = start({"preStart": {"command": ["false"]}})
    out = execd.stdout.read()
    assert execd.wait(30) == 1
    assert "preStart hook ended with exit code 1" in out


def test_the_older_name_of_the_variable(start):
    wait_for(start({"preStart": {"command": ["echo", "ran"]}}, variable="OPEN_SANDBOX_LIFECYCLE"), "ran")


@pytest.mark.parametrize("hooks", ["{", "[]", '{"preStart":{}}', '{"periodic":[{"name":"a","schedule":"x","command":["b"]}]}',
                                   '{"periodic":[{"name":"a","schedule":"TZ=No/Where @daily","command":["b"]}]}'])
def test_hooks_that_cannot_be_read_fail_closed(start, hooks):
    execd = start(hooks, "--after-entrypoint=end", entrypoint=["sh", "-c", "echo never"])
    out = execd.stdout.read()
    assert execd.wait(30) == 126
    assert "never\n" not in out and "the lifecycle hooks cannot be used" in out


def test_no_process_sees_the_hooks(start):
    execd = start({"preStart": {"command": ["sh", "-c", "env; tr '\\0' '\\n' </proc/$PPID/environ; echo hook done"]}},
                  "--after-entrypoint=end", entrypoint=["sh", "-c", "env; tr '\\0' '\\n' </proc/$PPID/environ; echo all done"])
    lines = []
    while "all done" not in (line := wait_for(execd, "")):
        lines.append(line)
    #  The second has no readable text left.
    assert all("preStart\":" not in line for line in lines), lines
    assert all("LIFECYCLE=" not in line or line.rstrip().endswith("***") for line in lines), lines


def test_sigterm_ends_a_pre_start_that_runs(start, tmp_path):
    execd = start({"preStart": {"command": ["sh", "-c", "echo up; exec sleep 1000"], "timeoutSeconds": 3600}},
                  f"--exit-dir={tmp_path}", "--after-entrypoint=end", entrypoint=["sh", "-c", "echo never"])
    wait_for(execd, "up")
    assert httpx.get(f"http://127.0.0.1:{execd.port}/ping", trust_env=False).status_code == 200
    execd.send_signal(signal.SIGTERM)
    out = execd.stdout.read()
    assert execd.wait(30) == 0
    assert "never\n" not in out
    assert "hook_failed" not in json.loads((tmp_path / "exit.json").read_text())


@pytest.fixture
def startup(start, tmp_path):
    """startup(hooks) starts an execd that tells a start script how far it is, and returns it with what it tells."""
    clean_up = contextlib.ExitStack()

    def begin(hooks):
        os.mkfifo(tmp_path / "status")
        # Open for both, so that the pipe has no end while execd opens and closes it.
        told = clean_up.enter_context(os.fdopen(os.open(tmp_path / "status", os.O_RDWR)))
        execd = start(hooks, "--lifecycle-startup-status-file", str(tmp_path / "status"))

        def tell_end():
            execd.wait()
            (tmp_path / "status").write_text("ended\n" * 3)

        teller = threading.Thread(target=tell_end)
        teller.start()
        clean_up.callback(teller.join)
        clean_up.callback(execd.kill)
        return execd, told

    yield begin
    clean_up.close()


@pytest.mark.parametrize("hooks, lines", [
    ({"preStart": {"command": ["true"], "timeoutSeconds": 7}}, ["running 7", "done 0"]),
    ({"preStart": {"command": ["true"]}}, ["running 60", "done 0"]),
    ({"periodic": [{"name": "a", "schedule": "@daily", "command": ["true"]}]}, ["done 0"]),
    ("", ["done 0"])])
def test_a_start_script_is_told_how_far_the_start_is(startup, hooks, lines):
    execd, told = startup(hooks)
    assert [told.readline().rstrip() for _ in lines] == lines
    assert httpx.get(f"http://127.0.0.1:{execd.port}/ping", trust_env=False).status_code == 200


@pytest.mark.parametrize("hooks, lines, code", [
    ({"preStart": {"command": ["sh", "-c", "exit 3"]}}, ["running 60", "done 1"], 1),
    ({"preStart": {"command": ["/no/such/program"]}}, ["running 60", "done 1"], 1),
    ("{", ["done 1"], 1)])
def test_a_start_script_is_told_of_a_failure(startup, hooks, lines, code):
    execd, told = startup(hooks)
    assert [told.readline().rstrip() for _ in lines] == lines
    execd.stdout.read()
    assert execd.wait(30) == code


def test_a_start_script_whose_file_is_gone_starts_nothing(start, tmp_path):
    execd = start({"preStart": {"command": ["touch", str(tmp_path / "ran")]}},
                  f"--lifecycle-startup-status-file={tmp_path}/missing")
    out = execd.stdout.read()
    assert execd.wait(30) == 1 and f"{tmp_path}/missing" in out
    assert list(tmp_path.iterdir()) == [], "neither made nor run"


def test_a_file_of_hooks_is_refused_and_not_ignored(start, tmp_path):
    execd = start("", variable="EXECD_LIFECYCLE_CONFIG")
    execd.kill()
    (tmp_path / "lifecycle.toml").write_text("version = 1\n")
    refused = start(str(tmp_path / "lifecycle.toml"), variable="EXECD_LIFECYCLE_CONFIG")
    assert refused.wait(30) == 1
    out = refused.stdout.read()
    assert "EXECD_LIFECYCLE_CONFIG" in out and "OPENSANDBOX_LIFECYCLE" in out


def test_processes_that_a_hook_leaves_behind_go_on(start, tmp_path):
    """They hold its output open; its end is that of the program itself."""
    execd = start({"preStart": {"command": ["sh", "-c", f"sleep 1000 & echo $! >{tmp_path}/pid"]}},
                  "--after-entrypoint=end", entrypoint=["sh", "-c", "echo begun; exec sleep 1000"])
    wait_for(execd, "begun")
    os.kill(int((tmp_path / "pid").read_text()), 0)


def test_lines_of_hooks_stand_alone_in_a_log_with_times(start, tmp_path):
    log = tmp_path / "log"
    hook = {"name": "tick", "schedule": "@every 1s", "command": ["echo", "tick"]}
    execd = start({"periodic": [hook]}, f"--entrypoint-log={log}", "--entrypoint-log-times=lines", "--after-entrypoint=end",
                  entrypoint=["sh", "-c", f"printf half; until grep -q '] tick' {log}; do :; done; echo other; exit 0"])
    assert execd.wait(60) == 0
    lines = [line.split(" ", 1)[1] for line in log.read_text().splitlines()]
    assert lines[0] == "half" and lines[1].endswith("] tick") and lines[-1] == "other", lines


def test_output_of_pre_start_is_written_before_the_entrypoint_starts(start, tmp_path):
    execd = start({"preStart": {"command": ["sh", "-c", "seq -f 'line %g of the hook' 1500"]}}, "--after-entrypoint=end",
                  entrypoint=["echo", "the entrypoint"])
    fcntl.fcntl(execd.stdout, fcntl.F_SETPIPE_SZ, 4096)  # the hook's output is longer: its writer waits for the reader
    lines = [line for line in execd.stdout.read().splitlines() if line.startswith(("[preStart hook] ", "the entrypoint"))]
    assert execd.wait(30) == 0
    assert lines == [*(f"[preStart hook] line {number} of the hook" for number in range(1, 1501)), "the entrypoint"]
