"""execd as the first process of a sandbox and as an ordinary one: entrypoint, exit record, signals, orphans, the end of
the whole tree. Tests with namespaces need root."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys

import httpx
import pytest
from execd_process import binary

BUSYBOX = shutil.which("busybox")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces, which needs root")
needs_busybox = pytest.mark.skipif(BUSYBOX is None, reason="needs busybox-static")


class Started:
    """An execd with an entrypoint, reached over a socket that was listening before. `wrap` goes in front of it."""

    def __init__(self, tmp, args=(), entrypoint=(), wrap=(), program=None, env=None, pass_fds=()):
        self.exit_dir = tmp / "exit"
        self.exit_dir.mkdir(exist_ok=True)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            fd = listener.fileno()
            self.port = listener.getsockname()[1]
            self.process = subprocess.Popen(
                [*wrap, program or binary(), f"--listen-fd={fd}", *args, *(["--", *entrypoint] if entrypoint else [])],
                pass_fds=[fd, *pass_fds], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, env={**os.environ, "PATH": os.environ["PATH"] + ":/bin", **(env or {})})
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=30)
        self.lines = []
        self.wait_for("listening on")

    def wait_for(self, text):
        """Reads the output up to a line that contains `text`."""
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return line
            assert "not started" not in line, line
        raise AssertionError(f"ended with {self.process.wait(10)} before {text!r}:\n{''.join(self.lines)}")

    def end(self, timeout=20):
        """The exit status after the end of the output, which all processes that inherited it hold open."""
        self.client.close()
        self.lines += self.process.stdout.readlines()
        return self.process.wait(timeout)

    def record(self):
        return json.loads((self.exit_dir / "exit.json").read_text())


@pytest.fixture
def start(tmp_path):
    started = []

    def start(**options):
        started.append(Started(tmp_path, **options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        one.process.stdout.close()
        one.client.close()


def gone(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


# Mounts a file system at argv[1] whose server, this process, never answers, and becomes argv[2:].
DEAD_MOUNT = """
import ctypes, os, sys
fuse = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(fuse, True)
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
if ctypes.CDLL(None).mount(b"dead", sys.argv[1].encode(), b"fuse", 0, options) != 0:
    sys.exit("mount failed")
os.execv(sys.argv[2], sys.argv[2:])
"""


@needs_root
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs /dev/fuse")
def test_threads_that_hang_in_a_dead_file_system_do_not_keep_it(start, tmp_path):
    dead = tmp_path / "dead"
    dead.mkdir()
    execd = start(args=["--shutdown-timeout=1s"], wrap=["unshare", "--mount", sys.executable, "-c", DEAD_MOUNT, str(dead)])
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(
            execd.client.stream("POST", "/command", json={"command": "echo $$; exec sleep 1000"}))
        child = next(json.loads(line)["text"] for line in stream.iter_lines() if '"stdout"' in line)
        for _ in range(8):
            asking = stack.enter_context(socket.create_connection(("127.0.0.1", execd.port)))
            asking.sendall(f"GET /files/search?path={dead} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        tasks = f"/proc/{execd.process.pid}/task"
        while len(os.listdir(tasks)) < 9:  # the loop and a thread for each
            assert execd.client.get("/ping").status_code == 200
        execd.process.send_signal(signal.SIGTERM)
        assert execd.process.wait(60) == 0
    assert gone(child)


# As an ordinary process


def test_the_entrypoint_runs_and_its_end_is_recorded_while_serving(start, tmp_path):
    execd = start(args=[f"--exit-dir={tmp_path / 'exit'}"], entrypoint=["sh", "-c", "echo hello; exit 7"])
    execd.wait_for("hello")
    execd.wait_for("entrypoint ended")
    assert execd.client.get("/ping").status_code == 200
    execd.process.send_signal(signal.SIGTERM)
    assert execd.end() == 7
    record = execd.record()
    assert (record["code"], record["signal"]) == (7, 0)
    assert record["finished_at"].endswith("Z")
    assert os.listdir(tmp_path / "exit") == ["exit.json"]


def test_an_entrypoint_killed_by_a_signal(start, tmp_path):
    execd = start(args=[f"--exit-dir={tmp_path / 'exit'}"], entrypoint=["sh", "-c", "kill -KILL $$"])
    execd.wait_for("entrypoint ended")
    execd.process.send_signal(signal.SIGTERM)
    assert execd.end() == 128 + signal.SIGKILL
    assert execd.record()["signal"] == signal.SIGKILL


def test_an_entrypoint_that_does_not_exist(start, tmp_path):
    execd = start(args=[f"--exit-dir={tmp_path / 'exit'}"], entrypoint=["no-such-program"])
    execd.wait_for("entrypoint not started")
    assert execd.client.get("/ping").status_code == 200
    execd.process.send_signal(signal.SIGTERM)
    execd.end()
    assert execd.record()["code"] == 127 and "no-such-program" in execd.record()["error"]


def test_the_entrypoints_output_can_go_to_a_file(start, tmp_path):
    log = tmp_path / "entrypoint.log"
    execd = start(args=[f"--entrypoint-log={log}"], entrypoint=["sh", "-c", "echo out; echo err >&2"])
    execd.wait_for("entrypoint ended")
    assert log.read_text() == "out\nerr\n"


def test_lines_of_that_file_can_have_times(start, tmp_path):
    log = tmp_path / "entrypoint.log"
    execd = start(args=[f"--entrypoint-log={log}", "--entrypoint-log-times=lines"],
                  entrypoint=["sh", "-c", r"printf 'out\n\n\377\000\n'; seq 1 10000; printf err >&2; exit 3"])
    execd.wait_for("entrypoint ended")
    lines = log.read_bytes().splitlines(keepends=True)
    assert all(re.match(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ", line) for line in lines)
    assert lines == sorted(lines, key=lambda line: line[:30])
    numbers = b"".join(b"%d\n" % number for number in range(1, 10001))
    assert b"".join(line[31:] for line in lines) == b"out\n\n\xff\0\n" + numbers + b"err"


def test_a_full_disk_stops_no_entrypoint_whose_log_has_times(start, tmp_path):
    execd = start(args=["--entrypoint-log=/dev/full", "--entrypoint-log-times=lines"],
                  entrypoint=["sh", "-c", "seq 1 100000 && exit 5"])
    assert json.loads(execd.wait_for("entrypoint ended"))["code"] == 5


@pytest.fixture
def given(tmp_path):
    """Numbers of a directory and of a log that no path leads to for execd: what a parent outside its root passes on."""
    outside = tmp_path / "outside"
    outside.mkdir()
    directory = os.open(outside, os.O_RDONLY | os.O_DIRECTORY)
    log = os.open(outside / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield outside, directory, log
    os.close(directory)
    os.close(log)


def given_args(given):
    return [f"--exit-dir=/proc/self/fd/{given[1]}", f"--entrypoint-log=/proc/self/fd/{given[2]}"]


def test_exit_directory_and_log_can_be_inherited_descriptors(start, given):
    execd = start(args=given_args(given), pass_fds=given[1:], entrypoint=["sh", "-c", "echo out; echo err >&2; exit 4"])
    execd.wait_for("entrypoint ended")
    assert (given[0] / "log").read_text() == "out\nerr\n"
    assert json.loads((given[0] / "exit.json").read_text())["code"] == 4
    assert sorted(os.listdir(given[0])) == ["exit.json", "log"]


def test_an_inherited_descriptor_of_the_wrong_kind_is_told(start, given):
    execd = start(args=[f"--entrypoint-log=/proc/self/fd/{given[1]}"], pass_fds=given[1:], entrypoint=["true"])
    line = execd.wait_for("entrypoint not started")
    assert f"/proc/self/fd/{given[1]}" in line, line


def test_inherited_descriptors_reach_no_child(start, given):
    show = "ls -l /proc/self/fd | sed -n 's/.* -> /open: /p'"
    execd = start(args=given_args(given), pass_fds=given[1:], entrypoint=["sh", "-c", show])
    execd.wait_for("entrypoint ended")
    session = execd.client.post("/session").json()["session_id"]
    shown = [(given[0] / "log").read_text(),
             execd.client.post("/command", json={"command": show}).text,
             execd.client.post(f"/session/{session}/run", json={"command": show}).text]
    for text, logs in zip(shown, (1, 0, 0)):  # the entrypoint's stderr is the log; its stdout is the pipe to sed
        assert "open: " in text
        assert "socket:" not in text and text.count("/outside") == text.count("/outside/log") == logs, text
    # Its own numbers are marked too, so that nothing else it may start gets them.
    for number in given[1:]:
        flags = re.search(r"^flags:\s+0(\d+)", pathlib.Path(f"/proc/{execd.process.pid}/fdinfo/{number}").read_text(), re.M)
        assert int(flags[1], 8) & os.O_CLOEXEC, number


def test_the_entrypoint_does_not_see_the_token(start):
    execd = start(env={"EXECD_ACCESS_TOKEN": "tip-top-secret"}, entrypoint=["sh", "-c", "env; echo end of env"])
    execd.wait_for("end of env")
    assert "tip-top-secret" not in "".join(execd.lines)


@pytest.mark.parametrize("name", ["HUP", "USR1", "USR2", "QUIT", "WINCH"])
def test_signals_are_passed_on_to_the_entrypoint(start, name):
    execd = start(entrypoint=["sh", "-c", f"trap 'echo got it; exit 3' {name}; echo ready; while :; do sleep 60 & wait $!; done"])
    execd.wait_for("ready")
    execd.process.send_signal(getattr(signal, "SIG" + name))
    execd.wait_for("got it")
    execd.wait_for("entrypoint ended")
    assert execd.client.get("/ping").status_code == 200


def test_sigterm_lets_the_entrypoint_end_by_itself(start, tmp_path):
    execd = start(args=[f"--exit-dir={tmp_path / 'exit'}"],
                  entrypoint=["sh", "-c", "trap 'echo cleaning; exit 5' TERM; echo ready; while :; do sleep 60 & wait $!; done"])
    execd.wait_for("ready")
    execd.process.send_signal(signal.SIGTERM)
    execd.wait_for("cleaning")
    assert execd.end() == 0
    assert execd.record()["code"] == 5


STUBBORN = "trap '' TERM INT HUP; echo $$ ready; while :; do sleep 60; done"


def test_the_whole_tree_ends_within_the_deadline(start):
    # A stubborn entrypoint, a daemon in its own session that lost its parent, and a command.
    execd = start(args=["--shutdown-timeout=1s"],
                  entrypoint=["sh", "-c", f"setsid sh -c \"{STUBBORN.replace('$', chr(92) + '$')}\" & {STUBBORN}"])
    pids = [int(word) for word in " ".join([execd.wait_for("ready"), execd.wait_for("ready")]).split() if word.isdigit()]
    assert len(pids) == 2 and not any(map(gone, pids))
    execd.process.send_signal(signal.SIGTERM)
    assert execd.end(15) == 0
    assert all(map(gone, pids))


def test_a_second_sigterm_does_not_wait(start):
    execd = start(args=["--shutdown-timeout=1h"], entrypoint=["sh", "-c", STUBBORN])
    pid = int(execd.wait_for("ready").split()[0])
    execd.process.send_signal(signal.SIGTERM)
    execd.wait_for('"ending"')
    execd.process.send_signal(signal.SIGTERM)
    assert execd.end(30) == 0
    assert gone(pid)


def test_a_running_command_ends_with_its_final_event(start):
    execd = start(args=["--shutdown-timeout=2s"])
    with execd.client.stream("POST", "/command", json={"command": "echo started; sleep 600"}) as stream:
        lines = stream.iter_lines()
        next(line for line in lines if "started" in line)
        execd.process.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in lines if line]
    assert rest[-1]["type"] == "error" and rest[-1]["error"]["evalue"] == "-1"
    assert execd.end() == 0


# As PID 1


def in_namespaces(root):
    """execd becomes the first process of new PID and mount namespaces and sees `root` only."""
    return ["unshare", "--pid", "--fork", "--kill-child=SIGKILL", "--mount", f"--root={root}"]


@pytest.fixture
def bare_root(tmp_path):
    root = tmp_path / "bare"
    root.mkdir()
    shutil.copy(binary(), root / "execd")
    return root


@pytest.fixture
def busybox_root(tmp_path):
    root = tmp_path / "root"
    for name in ("bin", "dev", "proc", "tmp", "exit"):
        (root / name).mkdir(parents=True)
    os.mknod(root / "dev" / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    shutil.copy(binary(), root / "execd")
    shutil.copy(BUSYBOX, root / "bin" / "busybox")
    for name in ("sh", "sleep", "echo", "setsid", "ps", "mount", "grep", "true"):
        (root / "bin" / name).symlink_to("busybox")
    return root


@needs_root
@pytest.mark.static
def test_it_runs_in_an_image_with_nothing_else(start, bare_root):
    execd = start(wrap=in_namespaces(bare_root), program="/execd")
    assert execd.client.get("/ping").status_code == 200
    assert execd.client.get("/metrics").json().keys() >= {"cpu_count", "mem_total_mib", "cpu_used_pct"}
    assert execd.client.get("/nowhere").status_code == 404
    answer = execd.client.post("/command", json={"command": "true"})
    assert answer.status_code == 200 and '"error"' in answer.text  # no shell there: told in the stream
    signal_first_process(execd, signal.SIGTERM)
    assert execd.end() == 0


def signal_first_process(execd, number):
    """Sends to execd itself: the child of unshare, by its pid outside."""
    children = pathlib.Path(f"/proc/{execd.process.pid}/task/{execd.process.pid}/children").read_text().split()
    os.kill(int(children[0]), number)


@needs_root
@needs_busybox
@pytest.mark.static
def test_pid_1_reaps_orphans(start, busybox_root):
    execd = start(wrap=in_namespaces(busybox_root), program="/execd",
                  entrypoint=["/bin/sh", "-c", "mount -t proc proc /proc; "
                              "for i in 1 2 3 4 5 6 7 8; do (setsid sleep 0 &) ; done; echo forked; "
                              "exec sleep 1000"])
    execd.wait_for("forked")
    # A command that waits until all of them are gone: zombies would stay in the list for good.
    answer = execd.client.post("/command", json={
        "command": "while ps -o stat,args | grep -q '^Z\\|sleep 0$'; do :; done; echo none left", "timeout": 20000})
    assert "none left" in answer.text, answer.text
    signal_first_process(execd, signal.SIGTERM)
    assert execd.end() == 0


@needs_root
@needs_busybox
@pytest.mark.static
def test_pid_1_passes_signals_on_records_the_end_and_serves_on(start, busybox_root):
    execd = start(wrap=in_namespaces(busybox_root), program="/execd", args=["--exit-dir=/exit"],
                  entrypoint=["sh", "-c", "trap 'echo user signal; exit 9' USR1; echo ready; while :; do sleep 60 & wait $!; done"])
    execd.wait_for("ready")
    signal_first_process(execd, signal.SIGUSR1)
    execd.wait_for("user signal")
    execd.wait_for("entrypoint ended")
    assert execd.client.get("/ping").status_code == 200
    signal_first_process(execd, signal.SIGTERM)
    assert execd.end() == 9
    assert json.loads((busybox_root / "exit" / "exit.json").read_text())["code"] == 9


@needs_root
@needs_busybox
@pytest.mark.static
def test_pid_1_uses_inherited_descriptors_of_outside_its_root_without_proc(start, busybox_root, given):
    execd = start(wrap=in_namespaces(busybox_root), program="/execd", args=given_args(given), pass_fds=given[1:],
                  entrypoint=["sh", "-c", "echo inside; exit 6"])
    execd.wait_for("entrypoint ended")
    assert (given[0] / "log").read_text() == "inside\n"
    assert json.loads((given[0] / "exit.json").read_text())["code"] == 6


@needs_root
@needs_busybox
@pytest.mark.static
def test_pid_1_ends_the_whole_tree_without_proc(start, busybox_root):
    execd = start(wrap=in_namespaces(busybox_root), program="/execd", args=["--shutdown-timeout=1s"],
                  entrypoint=["/bin/sh", "-c", "setsid sh -c \"trap '' TERM; echo ready; while :; do sleep 60; done\" & "
                              "trap '' TERM; echo ready; while :; do sleep 60; done"])
    execd.wait_for("ready")
    execd.wait_for("ready")
    signal_first_process(execd, signal.SIGTERM)
    assert execd.end(15) == 0  # the output ended, so no process holds it any more


def test_init_passes_end_signals_on_and_ends_with_the_entrypoints_status(start):
    trap = "trap 'echo got TERM' TERM; trap 'echo got INT' INT; trap 'exit 7' USR1; echo up; while :; do sleep 60 & wait $!; done"
    execd = start(args=["--init"], entrypoint=["bash", "-c", trap])
    execd.wait_for("up")
    execd.process.send_signal(signal.SIGTERM)
    execd.wait_for("got TERM")
    execd.process.send_signal(signal.SIGINT)
    execd.wait_for("got INT")
    assert execd.client.get("/ping").status_code == 200, "it goes on as long as its entrypoint does"
    execd.process.send_signal(signal.SIGUSR1)
    assert execd.end() == 7


@pytest.mark.parametrize("value, status", [("1", 5), ("true", 5), ("off", 0), ("", 0)])
def test_init_by_environment(start, value, status):
    execd = start(entrypoint=["bash", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 60 & wait $!; done"],
                  env={"EXECD_INIT": value})
    execd.wait_for("up")
    execd.process.send_signal(signal.SIGTERM)
    assert execd.end() == status


def test_a_switch_that_is_neither_true_nor_false_is_refused():
    done = subprocess.run([binary(), "--init=maybe"], capture_output=True, text=True)
    assert done.returncode == 2 and "expected true or false" in done.stderr


@pytest.fixture
def awaiting(tmp_path):
    """awaiting(entrypoint) starts an execd that waits to be initialized; clients over its Unix socket and its port."""
    clean_up = contextlib.ExitStack()

    def begin(*entrypoint, env=None):
        unix, tcp = socket.socket(socket.AF_UNIX), clean_up.enter_context(socket.socket())
        clean_up.callback(unix.close)
        unix.bind(str(tmp_path / "execd.sock"))
        unix.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        process = subprocess.Popen(
            [binary(), f"--listen-fd={unix.fileno()}", f"--listen-fd={tcp.fileno()}", "--await-init",
             *(["--init", "--", *entrypoint] if entrypoint else [])],
            pass_fds=[unix.fileno(), tcp.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "OPENSANDBOX_ID": "pool", **(env or {})})
        clean_up.callback(process.stdout.close)
        clean_up.callback(process.stdin.close)
        clean_up.callback(process.wait)
        clean_up.callback(process.kill)
        transport = httpx.HTTPTransport(uds=str(tmp_path / "execd.sock"))
        inside = clean_up.enter_context(httpx.Client(transport=transport, base_url="http://execd", timeout=30))
        outside = clean_up.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{tcp.getsockname()[1]}", trust_env=False, timeout=30))
        return process, inside, outside

    yield begin
    clean_up.close()


def test_an_execd_that_awaits_its_initialization(awaiting):
    process, inside, outside = awaiting("sh", "-c", "echo begins $OPENSANDBOX_ID $A; read x; exit 3")
    assert outside.get("/ping").status_code == 200
    ready = outside.get("/ready")
    assert ready.status_code == 503 and ready.json()["code"] == "NOT_INITIALIZED"
    assert (ready.json()["initialized"], ready.json()["sandboxId"]) == (False, "pool")
    for path in ("/metrics", "/command/status/x", "/proxy/1/", "/proxy/44772/metrics"):
        refused = outside.get(path)
        assert (refused.status_code, refused.json()["code"]) == (503, "NOT_INITIALIZED"), path
    wanted = {"sandboxId": "box", "generation": 2, "entrypointPolicy": "keep", "envs": {"A": "init"},
              "accessTokenHash": "sha256:" + hashlib.sha256(b"secret").hexdigest(), "telemetry": {"attributes": {"k": "v"}}}
    assert outside.post("/internal/init", json=wanted).status_code == 404, "only over the inherited Unix socket"
    assert outside.post("/proxy/44772/internal/init", json=wanted).status_code == 503
    done = inside.post("/internal/init", json=wanted)
    assert done.status_code == 200, done.text
    assert (done.json()["status"], done.json()["sandboxId"], done.json()["generation"]) == ("initialized", "box", 2)
    assert len(done.json()["warning"]) == 1 and "telemetry" in done.json()["warning"][0]
    while "begins" not in (line := process.stdout.readline()):
        assert line
    assert line == "begins box init\n"
    assert outside.get("/ready").status_code == 401
    outside.headers["X-EXECD-ACCESS-TOKEN"] = inside.headers["X-EXECD-ACCESS-TOKEN"] = "secret"
    ready = outside.get("/ready")
    assert (ready.status_code, ready.json()) == (200, {"initialized": True, "sandboxId": "box", "generation": 2})
    again = inside.post("/internal/init", json=wanted)
    assert (again.status_code, again.json()["code"]) == (409, "ALREADY_INITIALIZED")
    events = outside.post("/command", json={"command": "echo $OPENSANDBOX_ID $A"}).text
    assert '"text":"box init"' in events


@pytest.mark.parametrize("change", [{"sandboxId": None}, {"sandboxId": "x" * 129}, {"generation": 0}, {"generation": "1"},
                                    {"entrypointPolicy": "stop"}, {"accessTokenHash": "sha256:12"},
                                    {"accessTokenHash": "md5:" + "0" * 64}, {"envs": {"A=B": "c"}},
                                    {"telemetry": {"attributes": {str(i): "x" for i in range(65)}}},
                                    {"lifecycle": {"preStart": {}}}, {"lifecycle": []},
                                    {"lifecycle": {"periodic": [{"name": "a", "schedule": "x", "command": ["true"]}]}}],
                         ids=str)
def test_a_wrong_initialization_changes_nothing(awaiting, change):
    _, inside, _ = awaiting()
    wrong = inside.post("/internal/init", json={"sandboxId": "box", "generation": 1, **change})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "INVALID_REQUEST_BODY"), wrong.text
    assert inside.get("/ready").status_code == 503
    assert inside.post("/internal/init", json={"sandboxId": "box", "generation": 1}).status_code == 200


def test_an_initialization_brings_hooks(awaiting):
    """Instead of those that execd was started with."""
    template = json.dumps({"preStart": {"command": ["sh", "-c", "echo hook of the template"]}})
    process, inside, _ = awaiting("echo", "the entrypoint", env={"OPENSANDBOX_LIFECYCLE": template})
    wanted = {"sandboxId": "box", "generation": 1, "envs": {"A": "init"},
              "lifecycle": {"preStart": {"command": ["sh", "-c", "echo hook with $A"]}}}
    assert inside.post("/internal/init", json=wanted).status_code == 200
    lines = [line.rstrip() for line in process.stdout if line.startswith(("[", "the entrypoint"))]
    assert process.wait(30) == 0
    assert lines == ["[preStart hook] hook with init", "the entrypoint"], lines


def test_an_initialization_whose_hook_fails_starts_no_entrypoint(awaiting):
    process, inside, _ = awaiting("echo", "the entrypoint")
    wanted = {"sandboxId": "box", "generation": 1, "lifecycle": {"preStart": {"command": ["sh", "-c", "exit 5"]}}}
    assert inside.post("/internal/init", json=wanted).status_code == 200
    out = process.stdout.read()
    assert process.wait(30) == 5
    assert "the entrypoint\n" not in out and "exit code 5" in out


def test_an_initialization_without_hooks_keeps_those_of_the_start(awaiting):
    template = json.dumps({"preStart": {"command": ["sh", "-c", "echo hook of the template"]}})
    process, inside, _ = awaiting("echo", "the entrypoint", env={"OPENSANDBOX_LIFECYCLE": template})
    assert inside.post("/internal/init", json={"sandboxId": "box", "generation": 1, "lifecycle": None}).status_code == 200
    assert "[preStart hook] hook of the template\n" in process.stdout.read()
    assert process.wait(30) == 0


def test_the_end_before_the_initialization(awaiting):
    process, inside, _ = awaiting("true")
    assert inside.get("/ping").status_code == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_an_execd_that_awaits_nothing_is_ready_and_takes_no_initialization(start):
    execd = start(env={"OPENSANDBOX_ID": "box"})
    ready = execd.client.get("/ready")
    assert (ready.status_code, ready.json()) == (200, {"initialized": True, "sandboxId": "box"})
    assert execd.client.post("/internal/init", json={"sandboxId": "x", "generation": 1}).status_code == 404
