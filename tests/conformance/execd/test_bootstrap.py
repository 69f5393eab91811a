"""deploy/execd/bootstrap.sh with the shells that images have, and with the real execd."""

import os
import pathlib
import shutil
import signal
import subprocess

import httpx
import pytest
from execd_process import ROOT, binary

SCRIPT = ROOT / "deploy" / "execd" / "bootstrap.sh"
SHELLS = [shell for shell in (["sh"], ["bash"], ["busybox", "sh"]) if shutil.which(shell[0])]


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def bootstrap(request, tmp_path):
    """bootstrap(args, env) starts the script; execd is one that notes its end in the test's directory."""

    def start(*args, env=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("BOOTSTRAP_", "EXECD_", "OPENSANDBOX_"))}
        environment |= {"EXECD": "true", "EXECD_ENVS": str(tmp_path / "made" / ".env"), **(env or {})}
        return subprocess.Popen([*request.param, SCRIPT, *args], cwd=tmp_path, env=environment, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return start


def finish(process, given=""):
    out, err = process.communicate(given, timeout=30)
    return process.returncode, out, err


def catches(pid, number):
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["SigCgt"], 16) >> (number - 1) & 1


def test_arguments_run_as_they_are_and_the_status_is_theirs(bootstrap):
    assert finish(bootstrap("sh", "-c", "echo \"$1|$2\"; exit 7", "x", "a b", "$HOME"))[:2] == (7, "a b|$HOME\n")


def test_words_behind_c_are_one_command(bootstrap):
    assert finish(bootstrap("-c", "echo", "one;", "echo two"))[:2] == (0, "one\ntwo\n")


def test_a_command_in_the_environment_replaces_the_arguments(bootstrap):
    assert finish(bootstrap("false", env={"BOOTSTRAP_CMD": "echo hi; exit 3"}))[:2] == (3, "hi\n")


def test_the_users_process_gets_the_input(bootstrap):
    assert finish(bootstrap("cat"), "typed")[:2] == (0, "typed")


def test_the_file_of_variables_is_made_and_exported(bootstrap, tmp_path):
    path = str(tmp_path / "made" / ".env")
    assert finish(bootstrap("-c", "echo $EXECD_ENVS"))[:2] == (0, path + "\n")
    assert pathlib.Path(path).read_bytes() == b""


def test_a_script_is_sourced_first(bootstrap, tmp_path):
    (tmp_path / "pre.sh").write_text("export FROM_PRE=yes\n")
    for name in ("pre.sh", str(tmp_path / "pre.sh")):
        done = finish(bootstrap("-c", "echo $FROM_PRE", env={"EXECD_BOOTSTRAP_PRE_SCRIPT": name}))
        assert done[:2] == (0, "yes\n"), done
    status, out, err = finish(bootstrap("true", env={"EXECD_BOOTSTRAP_PRE_SCRIPT": "missing.sh"}))
    assert status == 0 and "missing.sh" in err


def test_sigterm_goes_to_the_users_process_and_the_status_is_0(bootstrap):
    process = bootstrap("sh", "-c", "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 60 & wait $!; done")
    assert process.stdout.readline() == "up\n"
    while not catches(process.pid, signal.SIGTERM):  # its next step
        assert process.poll() is None
        os.sched_yield()
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "bye\n"
    assert process.wait(30) == 0


def test_a_sigterm_before_the_users_process_ends_it_all(bootstrap, tmp_path):
    (tmp_path / "pre.sh").write_text("kill -TERM $$\n")
    done = finish(bootstrap("echo", "started", env={"EXECD_BOOTSTRAP_PRE_SCRIPT": "pre.sh"}))
    assert done[:2] == (0, ""), done


def test_execd_serves_next_to_the_users_process(bootstrap, tmp_path):
    # A port of the kernel's choice, told by the banner.
    wrapper = tmp_path / "execd"
    banner = tmp_path / "banner"
    os.mkfifo(banner)
    wrapper.write_text(f"#!/bin/sh\nexec {binary()} --port=0 >{banner}\n")
    wrapper.chmod(0o755)
    process = bootstrap("sh", "-c", "read line", env={"EXECD": str(wrapper)})
    with open(banner) as line:
        port = int(line.readline().rsplit(":", 1)[1])
    assert httpx.get(f"http://127.0.0.1:{port}/ping", trust_env=False).status_code == 200
    execd = httpx.post(f"http://127.0.0.1:{port}/command", json={"command": "echo $PPID"}, trust_env=False).text
    pid = int(next(line for line in execd.splitlines() if "stdout" in line).split('"text":"')[1].split('"')[0])
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.wait(30) == 0
    assert process.stdout.read() == ""
    os.kill(pid, signal.SIGTERM)  # the container would end it; here it goes by itself


def test_sigint_ends_the_users_process_too(bootstrap):
    process = bootstrap("sh", "-c", "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 60 & wait $!; done")
    assert process.stdout.readline() == "up\n"
    while not catches(process.pid, signal.SIGTERM):  # its next step, after that for SIGINT
        assert process.poll() is None
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "bye\n"
    assert process.wait(30) == 0


def test_execd_as_init_takes_the_place_of_the_script(bootstrap, tmp_path):
    wrapper = tmp_path / "execd"
    wrapper.write_text(f"#!/bin/sh\nexec {binary()} --port=0 --log-level=3 \"$@\"\n")
    wrapper.chmod(0o755)
    environment = {"EXECD": str(wrapper), "EXECD_INIT": "1"}
    process = bootstrap("sh", "-c", "read line; echo \"$line $PPID ${EXECD_INIT-none}\"; exit 7", env=environment)
    status, out, err = finish(process, "typed\n")
    assert (status, out) == (7, f"typed {process.pid} none\n"), err
