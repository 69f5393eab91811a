"""deploy/execd/bootstrap.sh with the shells that images have, and with the real execd."""

import json
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

    def start(*args, env=None, script=SCRIPT):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("BOOTSTRAP_", "EXECD_", "OPENSANDBOX_"))}
        environment |= {"EXECD": "true", "EXECD_ENVS": str(tmp_path / "made" / ".env"), **(env or {})}
        return subprocess.Popen([*request.param, script, *args], cwd=tmp_path, env=environment, text=True,
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


@pytest.fixture
def quiet_execd(tmp_path):
    wrapper = tmp_path / "execd"
    wrapper.write_text(f"#!/bin/sh\nexec {binary()} --port=0 --log-level=3 \"$@\"\n")
    wrapper.chmod(0o755)
    return str(wrapper)


def test_execd_as_init_takes_the_place_of_the_script(bootstrap, quiet_execd):
    environment = {"EXECD": quiet_execd, "EXECD_INIT": "1"}
    process = bootstrap("sh", "-c", "read line; echo \"$line $PPID ${EXECD_INIT-none}\"; exit 7", env=environment)
    status, out, err = finish(process, "typed\n")
    assert (status, out) == (7, f"typed {process.pid} none\n"), err


@pytest.mark.parametrize("name", ["OPENSANDBOX_LIFECYCLE", "OPEN_SANDBOX_LIFECYCLE"])
@pytest.mark.parametrize("status", [0, 3])
def test_the_users_process_waits_for_the_pre_start_hook_and_sees_none(bootstrap, quiet_execd, name, status):
    hooks = {"preStart": {"command": ["sh", "-c", f"sleep 0.2; echo hook; exit {status}"]}}
    process = bootstrap("sh", "-c", f"echo user ${{{name}-none}}; exit 7", env={"EXECD": quiet_execd, name: json.dumps(hooks)})
    code, out, err = finish(process)
    lines = [line for line in out.splitlines() if line.endswith("hook") or line.startswith("user")]
    if status == 0:
        assert code == 7 and [line.split()[-1] for line in lines] == ["hook", "none"], (out, err)
    else:
        assert code == 3 and not [line for line in lines if line.startswith("user")], (out, err)


def test_the_users_process_does_not_start_without_the_hooks_of_a_file(bootstrap, quiet_execd, tmp_path):
    """They would be the condition of its start."""
    env = {"EXECD": quiet_execd, "EXECD_LIFECYCLE_CONFIG": str(tmp_path / "lifecycle.toml")}
    status, out, err = finish(bootstrap("echo", "user", env=env))
    assert (status, out) == (1, "") and "EXECD_LIFECYCLE_CONFIG" in err, err


@pytest.mark.parametrize("bootstrap", SHELLS[:1], indirect=True, ids=["sh"])
def test_java_trusts_the_egress_proxy(bootstrap, tmp_path):
    """With Java's own tool, and a list that is not the machine's."""
    keytool = os.path.realpath(shutil.which("keytool"))
    certificate = tmp_path / "ca" / "mitmproxy-ca-cert.pem"
    store = tmp_path / "java" / "lib" / "security" / "cacerts"
    for path in (certificate, store):
        path.parent.mkdir(parents=True)
    run = {"check": True, "capture_output": True, "text": True}
    for alias, place in (("old", store), ("ca", tmp_path / "made")):
        subprocess.run([keytool, "-genkeypair", "-alias", alias, "-keyalg", "EC", "-dname", f"CN={alias}", "-keystore", place,
                        "-storepass", "changeit"], **run)
    certificate.write_text(subprocess.run([keytool, "-exportcert", "-rfc", "-alias", "ca", "-keystore", tmp_path / "made", "-storepass",
                                           "changeit"], **run).stdout)
    # No tool that would change the lists of this machine.
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "bash", "id", "readlink", "mkdir", "cat", "true", "busybox", "keytool"):
        (programs / name).symlink_to(os.path.realpath(shutil.which(name)))
    environment = {"PATH": str(programs), "JAVA_HOME": str(tmp_path / "java"), "HOME": str(tmp_path),
                   "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT": "true"}
    # execd has run before the script and has changed the lists itself.
    done = finish(bootstrap("true", env=environment | {"NODE_EXTRA_CA_CERTS": str(certificate)}))
    assert done[0] == 0
    assert "opensandbox" not in subprocess.run([keytool, "-list", "-keystore", store, "-storepass", "changeit"], **run).stdout
    # The certificate is in a directory of the test, not of the machine.
    text = SCRIPT.read_text()
    script = tmp_path / "bootstrap.sh"
    script.write_text(text.replace("home=/opt/opensandbox\n", f"home={certificate.parent}\n"))
    assert script.read_text() != text
    for _ in range(2):  # the second replaces the first
        done = finish(bootstrap("sh", "-c", "echo $SSL_CERT_FILE", env=environment, script=script))
        assert done[0] == 0 and "Java" not in done[2], done
        assert pathlib.Path(done[1].strip()).parent == certificate.parent
        listed = subprocess.run([keytool, "-list", "-keystore", store, "-storepass", "changeit"], **run).stdout
        assert "opensandbox-mitmproxy," in listed and "old," in listed and "2 entries" in listed, listed
