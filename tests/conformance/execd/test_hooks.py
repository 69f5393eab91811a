"""Lifecycle hooks of a bare execd: what it is told by its environment, and what it leaves for its parent."""

import fcntl
import json
import os
import signal
import socket
import subprocess

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
