"""Commands over real HTTP: request rules, event streams, status, logs, interrupt, reattaching."""

import contextlib
import datetime
import json
import os
import pathlib
import re
import select
import signal
import socket
import stat
import threading
import time

import httpx
import pytest
from ends_before import ends_before_a_sleep
from long_enough import long_enough

MIB = 1024 * 1024


def parse(body):
    """Events of a finished stream. Checks the framing: one bare JSON object and one blank line each."""
    if isinstance(body, str):
        body = body.encode()
    assert body == b"" or body.endswith(b"\n\n")
    events = []
    for piece in body.split(b"\n\n")[:-1]:
        assert b"\n" not in piece
        # The Python client splits lines as str.splitlines does.
        assert len(piece.decode().splitlines()) == 1
        assert len(piece) < 4 * MIB
        event = json.loads(piece)
        assert isinstance(event["type"], str) and isinstance(event["timestamp"], int)
        events.append(event)
    return events


def run(execd, command, **options):
    response = execd.client.post("/command", json={"command": command, **options})
    assert response.status_code == 200, response.text
    return [event for event in parse(response.content) if event["type"] != "ping"]


def types(events):
    return [event["type"] for event in events]


def texts(events, kind="stdout"):
    return [event["text"] for event in events if event["type"] == kind]


def exit_code(events):
    """As the SDKs infer it."""
    errors = [event["error"] for event in events if event["type"] == "error"]
    if errors:
        try:
            return int(errors[0]["evalue"])
        except ValueError:
            return None
    return 0 if "execution_complete" in types(events) else None


def status(execd, command_id):
    response = execd.client.get(f"/command/status/{command_id}")
    assert response.status_code == 200, response.text
    return response.json()


def assert_problem(response, status_code, code):
    assert response.status_code == status_code, response.text
    body = response.json()
    assert body["code"] == code
    assert body["message"]


class Stream:
    """A POST /command (or a GET of events) whose events are read one by one."""

    def __init__(self, execd, method, path, body=None):
        self._client = httpx.Client(base_url=execd.url, timeout=30, trust_env=False)
        self._context = self._client.stream(method, path, json=body)
        self.response = self._context.__enter__()
        self._lines = self.response.iter_lines()

    def next(self):
        for line in self._lines:
            if line:
                event = json.loads(line)
                if event["type"] != "ping":
                    return event
        return None

    def until(self, kind):
        while event := self.next():
            if event["type"] == kind:
                return event
        raise AssertionError(f"stream ended without {kind}")

    def rest(self):
        out = []
        while event := self.next():
            out.append(event)
        return out

    def close(self):
        self._context.__exit__(None, None, None)
        self._client.close()


@contextlib.contextmanager
def stream(execd, command, **options):
    opened = Stream(execd, "POST", "/command", {"command": command, **options})
    try:
        yield opened
    finally:
        opened.close()


@contextlib.contextmanager
def attach(execd, command_id, after=0):
    opened = Stream(execd, "GET", f"/command/{command_id}/events?after={after}")
    try:
        yield opened
    finally:
        opened.close()


def background(execd, command, **options):
    events = run(execd, command, background=True, **options)
    assert types(events) == ["init", "execution_complete"]
    return events[0]["text"]


def wait_finished(execd, command_id):
    """Blocks on the event stream, which ends with the command."""
    response = execd.client.get(f"/command/{command_id}/events")
    return parse(response.content)


def process_gone(pid):
    """True once the process has ended; waits for it through a pidfd."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], 60)[0])
    finally:
        os.close(fd)


# --- 3. event stream ---------------------------------------------------------------------------------------------


def test_headers_of_a_stream(execd):
    response = execd.client.post("/command", json={"command": "true"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["transfer-encoding"] == "chunked"


def test_echo_gives_init_one_line_and_complete(execd):
    events = run(execd, "echo hello")
    assert types(events) == ["init", "stdout", "execution_complete"]
    assert len(events[0]["text"]) == 32 and set(events[0]["text"]) <= set("0123456789abcdef")
    assert events[1]["text"] == "hello"
    assert [event["seq"] for event in events] == [1, 2, 3]
    now = time.time() * 1000
    assert all(abs(now - event["timestamp"]) < 60_000 for event in events)


def test_a_fast_command_ends_its_stream_at_once(execd):
    """A pause of execd's own would be in every run; a slow machine delays some."""
    assert any(ends_before_a_sleep(lambda: run(execd, "true"), 0.5) for _ in range(100))


def test_execution_time_is_in_milliseconds(execd):
    start = time.monotonic()
    events = run(execd, "sleep 0.2")
    assert 150 <= events[-1]["execution_time"] <= 1000 * (time.monotonic() - start)


def test_init_arrives_while_the_command_runs(execd):
    fifo = execd.tmp / "go"
    os.mkfifo(fifo)
    with stream(execd, f"read x < {fifo}; echo $x") as opened:
        assert opened.next()["type"] == "init"
        fifo.write_text("now\n")
        assert types(opened.rest()) == ["stdout", "execution_complete"]


def test_each_line_arrives_when_it_is_written(execd):
    # One for each line: the shell could open a shared one again before we have closed it, and read our end as its line.
    for i in "123":
        os.mkfifo(execd.tmp / i)
    with stream(execd, f"for i in 1 2 3; do echo $i; read x < {execd.tmp}/$i; done") as opened:
        opened.until("init")
        for i in "123":
            assert opened.next()["text"] == i
            (execd.tmp / i).write_text("\n")
        assert opened.next()["type"] == "execution_complete"


def test_pings_keep_an_idle_stream_alive(execd):
    response = execd.client.post("/command", json={"command": "sleep 3.3"})
    events = parse(response.content)
    pings = [event for event in events if event["type"] == "ping"]
    assert pings and all(ping["text"] == "pong" and "seq" not in ping for ping in pings)
    # One after each three seconds of silence: more than one only where a slow machine ended the command late.
    times = [event["timestamp"] for event in events if event["type"] in ("init", "ping")]
    assert all(after - before >= 2900 for before, after in zip(times, times[1:])), events


@pytest.mark.parametrize(
    "printf, want",
    [
        (r"a\n\nb\n\n\nc\n", ["a", "\n", "b", "\n", "\n", "c"]),
        (r"10%%\r20%%\r100%%\n", ["10%", "20%", "100%"]),
        (r"a\r\nb\r\n", ["a", "b"]),
        (r"a\n\rb", ["a", "\n", "b"]),
        (r"tail without end", ["tail without end"]),
        (r"\n", ["\n"]),
        (r"tab\there \"quoted\" back\\slash\n", ['tab\there "quoted" back\\slash']),
    ],
)
def test_line_splitting(execd, printf, want):
    assert texts(run(execd, f"printf '{printf}'")) == want


def test_crlf_split_across_writes_counts_once(execd):
    fifo = execd.tmp / "go"
    os.mkfifo(fifo)
    with stream(execd, f"printf 'a\\r'; read x < {fifo}; printf '\\nb\\n'") as opened:
        opened.until("init")
        assert opened.next()["text"] == "a"
        fifo.write_text("\n")
        assert types(opened.rest()) == ["stdout", "execution_complete"]


def test_a_partial_line_waits_for_its_end(execd):
    fifo = execd.tmp / "go"
    os.mkfifo(fifo)
    with stream(execd, f"printf half; read x < {fifo}; printf ' line\\n'") as opened:
        opened.until("init")
        fifo.write_text("\n")
        assert texts(opened.rest()) == ["half line"]


def test_output_that_clients_split_at_is_escaped(execd):
    awkward = "a\u0085b\u2028c\u2029d\x0b\x0c\x1c\x1d\x1ee"
    path = execd.tmp / "text"
    path.write_text(awkward + "\n", encoding="utf-8", newline="")
    assert texts(run(execd, f"cat {path}")) == [awkward]


def test_binary_output_is_made_safe(execd):
    path = execd.tmp / "binary"
    path.write_bytes(bytes(b for b in range(256) if b not in (10, 13)) + b"\n")
    (text,) = texts(run(execd, f"cat {path}"))
    assert text.startswith("".join(chr(b) for b in range(32) if b not in (10, 13)))
    assert text.endswith("\ufffd" * 128)


def test_random_bytes_never_break_the_framing(execd):
    path = execd.tmp / "random"
    path.write_bytes(os.urandom(MIB))
    events = run(execd, f"cat {path}; cat {path} >&2")
    assert events[-1]["type"] == "execution_complete"


@pytest.mark.parametrize("size", [64 * 1024, 256 * 1024, 1024 * 1024, 4 * MIB - 4096])
def test_long_lines_come_whole(execd, size):
    (text,) = texts(run(execd, f"head -c {size} /dev/zero | tr '\\0' x; echo"))
    assert text == "x" * size


def test_longer_lines_are_split(execd):
    pieces = texts(run(execd, f"head -c {9 * MIB} /dev/zero | tr '\\0' x; echo; echo next"))
    assert pieces[-1] == "next"
    assert len(pieces) == 4
    assert "".join(pieces[:-1]) == "x" * 9 * MIB


def test_lines_that_escaping_makes_too_long_are_split(execd):
    pieces = texts(run(execd, f"head -c {2 * MIB} /dev/zero; echo"))
    assert "".join(pieces) == "\0" * 2 * MIB


def test_stdout_and_stderr_are_told_apart_and_precede_the_end(execd):
    events = run(execd, "for i in $(seq 500); do echo o$i; echo e$i >&2; done")
    assert texts(events) == [f"o{i}" for i in range(1, 501)]
    assert texts(events, "stderr") == [f"e{i}" for i in range(1, 501)]
    assert types(events).count("execution_complete") == 1
    assert events[-1]["type"] == "execution_complete"
    assert [event["seq"] for event in events] == list(range(1, 1003))


# --- 4.1 request --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"command":""}',
        b'{"command":null}',
        b'{"command":7}',
        b'{"command":"true","timeout":-1}',
        b'{"command":"true","timeout":"1"}',
        b'{"command":"true","gid":1}',
        b'{"command":"true","uid":-1}',
        b'{"command":"true","uid":4294967296}',
        b'{"command":"true","envs":[]}',
        b'{"command":"true","envs":{"A":1}}',
        b'{"command":"true","background":"yes"}',
        b'{"command":"true","cwd":"/nonexistent"}',
        b'{"command":"true","cwd":"/etc/passwd"}',
        b'{"command":"true","cwd":"$UNDEFINED_VARIABLE"}',
        b'{"command":"true","user":"no-such-user"}',
        b'{"command":"true","user":"root","uid":0}',
    ],
)
def test_bad_requests(execd, body):
    assert_problem(execd.client.post("/command", content=body), 400, "INVALID_REQUEST_BODY")


@pytest.mark.parametrize(
    "body",
    [
        b'{"command":"echo ok","cwd":null,"timeout":null,"uid":null,"gid":null,"envs":null,"background":null}',
        b'{"COMMAND":"echo ok","Timeout":0}',
        b'{"command":"echo ok","unknown":[1,2]}',
        b'{"command":"echo ok"} trailing',
    ],
)
def test_lax_requests(execd, body):
    response = execd.client.post("/command", content=body, headers={"Content-Type": "text/plain"})
    assert response.status_code == 200, response.text
    assert texts(parse(response.content)) == ["ok"]


def test_requests_may_be_chunked(execd):
    response = execd.client.post("/command", content=iter([b'{"comm', b'and":"echo', b' ok"}']))
    assert texts(parse(response.content)) == ["ok"]


def test_cwd(execd):
    assert texts(run(execd, "pwd", cwd=str(execd.tmp))) == [str(execd.tmp)]
    assert texts(run(execd, "pwd", cwd="$W/.", envs={"W": str(execd.tmp)})) == [str(execd.tmp)]
    assert texts(run(execd, "pwd", cwd="~", envs={"HOME": str(execd.tmp)})) == [str(execd.tmp)]


def test_envs(execd):
    assert texts(run(execd, "echo $A-$B", envs={"A": "1", "B": "two words"})) == ["1-two words"]


def test_daemon_environment_is_below_the_envs_file_is_below_the_request(start_execd, tmp_path):
    file = tmp_path / "envs"
    daemon = dict.fromkeys("ABC", "daemon")
    execd = start_execd(env={**daemon, "EXECD_ENVS": "$DIR/envs", "DIR": str(tmp_path)})
    assert texts(run(execd, "echo $A $B $C", envs={"C": "request"})) == ["daemon daemon request"]
    file.write_text("# comment\n\n  B = file \nno equals\nC=$A/${A}$UNDEFINED\nB=last\n")
    assert texts(run(execd, "echo $A $B $C")) == ["daemon last daemon/daemon"]
    assert texts(run(execd, "echo $A $B $C", envs={"C": "request"})) == ["daemon last request"]


def test_quoted_values_of_the_envs_file(start_execd, tmp_path):
    (tmp_path / "envs").write_text("A='$HOME \\n\nB=no'\nC=\"it's \\\"$A\\\"\\n\"\nD='open\nE='e'\nF='f' #\nG=\"g\\\"\n")
    execd = start_execd(env={"A": "a", "B": "b", "EXECD_ENVS": str(tmp_path / "envs")})
    shown = texts(run(execd, 'printf "%s|" "$A" "$B" "$C" "$D" "$E" "$F" "$G" | od -An -c | tr -d " \\n"'))
    assert shown == ["$HOME\\\\n\\nB=no|b|it's\"a\"\\n||e|||".replace("\\\\", "\\")]


def test_a_program_without_a_shell(execd):
    def start(argv, **options):
        response = execd.client.post("/command", json={"argv": argv, **options})
        assert response.status_code == 200, response.text
        return parse(response.content)

    assert texts(start(["printf", "%s|", "a b", "$HOME", "*", "", "'q'"])) == ["a b|$HOME|*||'q'|"]
    assert start(["sh", "-c", "exit 7"])[-1]["error"]["evalue"] == "7"
    events = start(["sh", "-c", "echo $0 $1; exit 3", "it's", "x y"])
    status = execd.client.get(f"/command/status/{events[0]['text']}").json()
    assert json.loads(status["content"]) == ["sh", "-c", "echo $0 $1; exit 3", "it's", "x y"]
    assert status["exit_code"] == 3
    # Relative programs start where the command does; relative directories of PATH do not count.
    tool = execd.tmp / "tool"
    tool.write_text("#!/bin/sh\npwd\n")
    tool.chmod(0o755)
    for argv, path in ((["tool"], f"bin:.::{execd.tmp}"), (["./tool"], "/bin")):
        assert texts(start(argv, cwd=str(execd.tmp), envs={"PATH": path})) == [str(execd.tmp)]
    for path in (".", "", "bin:"):
        assert start(["tool"], cwd=str(execd.tmp), envs={"PATH": path})[-1]["type"] == "error"
    for missing in ("no-such-program", "/no/such", "/usr", str(execd.tmp / "plain")):
        (execd.tmp / "plain").write_text("no program")
        events = start([missing])
        assert [event["type"] for event in events] == ["init", "error"]
        assert missing in events[1]["error"]["evalue"]


@pytest.mark.parametrize("body", [{}, {"argv": []}, {"argv": [""]}, {"argv": ["ls"], "command": "ls"},
                                  {"argv": ["a\0b"]}, {"argv": "ls"}, {"argv": [1]}], ids=range(7))
def test_argv_that_cannot_be_run(execd, body):
    response = execd.client.post("/command", json=body)
    assert response.status_code == 400
    assert response.json()["code"] == "INVALID_REQUEST_BODY"


def test_the_file_of_variables_reaches_sessions_and_no_layer_changes_the_id(start_execd, tmp_path):
    (tmp_path / "envs").write_text("A=file\nOPENSANDBOX_ID=file\n")
    execd = start_execd(env={"EXECD_ENVS": str(tmp_path / "envs"), "OPENSANDBOX_ID": "box", "EXECD_LOG_FILE": "stderr"})
    show = 'echo "$A $OPENSANDBOX_ID ${EXECD_LOG_FILE-none}"'
    assert texts(run(execd, show, envs={"OPENSANDBOX_ID": "request"})) == ["file box none"]
    session = execd.client.post("/session", json={}).json()["session_id"]
    response = execd.client.post(f"/session/{session}/run", json={"command": show})
    assert texts(parse(response.content)) == ["file box none"]


def test_output_is_kept_in_a_private_directory(start_execd, tmp_path):
    execd = start_execd(env={"TMPDIR": str(tmp_path)})
    assert exit_code(run(execd, "yes | head -c 3000000")) == 0
    directory = tmp_path / "opensandbox-execd"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = [os.readlink(f"/proc/{execd.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{execd.pid}/fd")]
    assert any(path.startswith(f"{directory}/") for path in files), files


def test_the_access_token_is_not_passed_on(token_execd):
    assert texts(run(token_execd, 'echo "[$EXECD_ACCESS_TOKEN]"; env | grep -c conformance-token')) == ["[]", "0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_uid_gid_and_user(execd):
    assert texts(run(execd, "id -u; id -g", uid=65534)) == ["65534", "65534"]
    assert texts(run(execd, "id -u; id -G", uid=4321, gid=1234)) == ["4321", "1234"]
    assert texts(run(execd, "id -u; id -g", uid=4321)) == ["4321", "0"]
    assert texts(run(execd, "id -un", user="nobody")) == ["nobody"]
    assert texts(run(execd, "echo $HOME", uid=65534, envs={"HOME": "/kept"})) == ["/kept"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_directory_closed_to_the_user_is_an_error_in_the_stream(execd):
    private = execd.tmp / "private"
    private.mkdir(mode=0o700)
    events = run(execd, "true", cwd=str(private), uid=65534)
    assert types(events) == ["init", "error"]
    assert events[1]["error"]["ename"] == "CommandExecError"
    assert "ermission" in events[1]["error"]["evalue"]
    assert exit_code(events) is None
    response = execd.client.get(f"/command/status/{events[0]['text']}")
    assert response.status_code == 404


# --- 4.2 execution ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, evalue, traceback",
    [
        ("exit 7", "7", "exit status 7"),
        ("kill -KILL $$", "-1", "signal: killed"),
        ("kill -TERM $$", "-1", "signal: terminated"),
    ],
)
def test_failures(execd, command, evalue, traceback):
    events = run(execd, command)
    assert types(events) == ["init", "error"]
    assert events[1]["error"] == {"ename": "CommandExecError", "evalue": evalue, "traceback": [traceback]}
    told = status(execd, events[0]["text"])
    assert told["exit_code"] == int(evalue) and told["error"] == traceback


def test_missing_program(execd):
    events = run(execd, "no-such-program-here")
    assert exit_code(events) == 127
    assert "no-such-program-here" in texts(events, "stderr")[0]
    assert "execution_complete" not in types(events)


def test_shell_is_plain_bash_in_a_group_of_its_own_with_empty_stdin(execd):
    group = "ps -o pgid= -p $$ | grep -cw $$"
    events = run(execd, f"cat; echo $BASH_VERSION | grep -c .; shopt -q login_shell || echo plain; {group}")
    assert texts(events) == ["1", "plain", "1"]


def test_without_bash_sh_is_used(start_execd, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    execd = start_execd(env={"PATH": str(tmp_path / "bin")})
    assert texts(run(execd, "echo $0")) == [str(tmp_path / "bin" / "sh")]


def test_timeout_kills_the_whole_tree(execd):
    script = "setsid sleep 1000 & echo $!; (sleep 1000) & echo $!; sleep 1000"
    events = long_enough(lambda limit: run(execd, script, timeout=limit), lambda events: len(texts(events)) == 2, 500)
    assert events[-1]["error"]["traceback"][0] == "signal: killed" and len(texts(events)) == 2
    assert all(process_gone(int(pid)) for pid in texts(events))


def test_timeout_is_named_in_the_error(execd):
    assert run(execd, "sleep 1000", timeout=500)[-1]["error"] == {
        "ename": "CommandExecError", "evalue": "-1", "traceback": ["signal: killed", "timed out after 500ms"]}


def test_timeout_does_not_touch_a_command_that_is_done(execd):
    assert exit_code(run(execd, "echo x", timeout=60_000)) == 0


def test_a_daemonised_child_does_not_hold_the_stream_and_is_not_hurt(execd):
    go = execd.tmp / "go"
    os.mkfifo(go)
    done = execd.tmp / "done"
    os.mkfifo(done)
    much = "head -c 1000000 /dev/zero"
    events = run(execd, f"(read x < {go}; {much}; {much} >&2; echo $? > {done}) & echo up")
    assert texts(events) == ["up"] and exit_code(events) == 0
    go.write_text("\n")
    assert done.read_text() == "0\n"


def test_a_child_that_writes_for_ever_does_not_hold_the_stream(execd):
    pid = execd.tmp / "pid"
    events = run(execd, f"yes & echo $! > {pid}")
    assert events[-1]["type"] == "execution_complete"
    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_command_outlives_its_client(execd):
    go = execd.tmp / "go"
    os.mkfifo(go)
    with stream(execd, f"echo before; read x < {go}; echo after") as opened:
        command_id = opened.next()["text"]
        assert opened.next()["text"] == "before"
    assert status(execd, command_id)["running"] is True
    with attach(execd, command_id, 2) as opened:
        go.write_text("\n")
        assert types(opened.rest()) == ["stdout", "execution_complete"]
    assert status(execd, command_id)["exit_code"] == 0


def test_many_commands_at_once(execd):
    results = {}

    def one(i):
        with httpx.Client(base_url=execd.url, timeout=60, trust_env=False) as client:
            response = client.post("/command", json={"command": f"echo {i}; echo {i} >&2; exit {i % 50}"})
            results[i] = [e for e in parse(response.content) if e["type"] != "ping"]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(60):
        assert texts(results[i]) == [str(i)] and texts(results[i], "stderr") == [str(i)]
        assert exit_code(results[i]) == i % 50


# --- back-pressure ------------------------------------------------------------------------------------------------


def memory_kib(pid, field):
    """VmRSS: resident now. VmHWM: the most since reset_peak_memory()."""
    return int(re.search(rf"^{field}:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def reset_peak_memory(pid):
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def resident_kib(pid):
    return memory_kib(pid, "VmRSS")


@contextlib.contextmanager
def started_by_hand(execd, script):
    """A connection on which the command's answer arrives as fast as it is read."""
    body = json.dumps({"command": script}).encode()
    with socket.create_connection(("127.0.0.1", execd.port)) as connection:
        head = f"POST /command HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        yield connection


def test_a_slow_reader_holds_the_command_back(execd):
    counter = execd.tmp / "count"
    script = f"for i in $(seq 1 200); do seq 1 5000; echo $i > {counter}; done; echo end"
    with started_by_hand(execd, script) as connection:
        received = bytearray(connection.recv(65536))
        # Nothing reads now: the kernel's buffers and the ring fill, then the shell blocks. If it did not block, it
        # would count to the end.
        run(execd, f"until [ -s {counter} ]; do sleep 0.05; done")
        before = ""
        while (count := counter.read_text()) != before or not count:
            before = count
            run(execd, "sleep 0.5")
        assert int(count) < 200
        while piece := connection.recv(MIB):
            received += piece
    assert received.count(b'"type":"stdout"') == 200 * 5000 + 1
    assert b"execution_complete" in received


@pytest.mark.memory
def test_memory_does_not_follow_a_slow_reader(start_execd):
    execd = start_execd()
    run(execd, "true")
    before = resident_kib(execd.pid)
    with started_by_hand(execd, "seq 1 10000000") as connection:
        connection.recv(65536)
        run(execd, "sleep 1")
        assert resident_kib(execd.pid) - before < 16 * 1024


def test_a_client_that_stops_reading_and_leaves_releases_the_command(execd):
    done = execd.tmp / "done"
    os.mkfifo(done)
    body = json.dumps({"command": f"seq 1 2000000; echo ok > {done}"}).encode()
    with socket.create_connection(("127.0.0.1", execd.port)) as connection:
        connection.sendall(f"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        connection.recv(1000)
    assert done.read_text() == "ok\n"


@pytest.mark.parametrize("cut", [0, 1, 10, 40, 80, 120, 200, 400, 1000, 5000])
def test_clients_may_vanish_at_any_byte(execd, cut):
    body = json.dumps({"command": "seq 1 1000"}).encode()
    request = f"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.create_connection(("127.0.0.1", execd.port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.sendall(request[:cut] if cut < len(request) else request)
        if cut >= len(request):
            got = 0
            while got < cut and (piece := connection.recv(min(64, cut - got))):
                got += len(piece)
    assert texts(run(execd, "echo alive")) == ["alive"]


# --- reattaching --------------------------------------------------------------------------------------------------


def test_reattaching_gives_what_was_missed_and_no_more(execd):
    command_id = run(execd, "seq 1 50")[0]["text"]
    for after in (0, 1, 25, 51, 52):
        events = parse(execd.client.get(f"/command/{command_id}/events?after={after}").content)
        assert [event["seq"] for event in events] == list(range(after + 1, 53))
    assert types(parse(execd.client.get(f"/command/{command_id}/events").content))[0] == "init"


def test_reattaching_while_it_runs(execd):
    seen = []
    with stream(execd, "for i in $(seq 1 3000); do echo $i; done; sleep 0.3; seq 3001 6000") as opened:
        command_id = opened.next()["text"]
        for _ in range(100):
            seen.append(opened.next())
    while seen[-1]["type"] == "stdout":
        with attach(execd, command_id, seen[-1]["seq"]) as opened:
            for _ in range(700):
                event = opened.next()
                if event is None:
                    break
                seen.append(event)
    assert [event["seq"] for event in seen] == list(range(2, 6003))
    assert texts(seen) == [str(i) for i in range(1, 6001)]


def test_two_readers_see_the_same(execd):
    go = execd.tmp / "go"
    os.mkfifo(go)
    with stream(execd, f"read x < {go}; seq 1 1000") as first:
        command_id = first.next()["text"]
        with attach(execd, command_id, 1) as second:
            go.write_text("\n")
            assert second.rest() == first.rest()


def test_beyond_the_limits_there_is_an_explicit_gap(start_execd):
    execd = start_execd(env={"EXECD_COMMAND_RING_BYTES": "65536", "EXECD_COMMAND_SPILL_BYTES": "262144"})
    command_id = background(execd, "seq 1 50000")
    wait_finished(execd, command_id)
    events = parse(execd.client.get(f"/command/{command_id}/events?after=1").content)
    gap = events[0]
    assert gap["type"] == "gap" and gap["from"] == 2 and "text" not in gap
    numbers = [event["seq"] for event in events[1:]]
    assert numbers == list(range(gap["to"] + 1, 50003))
    assert texts(events)[-1] == "50000"


def test_events_of_unknown_commands_and_bad_numbers(execd):
    assert_problem(execd.client.get("/command/unknown/events"), 404, "INVALID_REQUEST_BODY")
    command_id = run(execd, "true")[0]["text"]
    for bad in ("-1", "x", "1.5", "3", "99999999999999999999"):
        assert_problem(execd.client.get(f"/command/{command_id}/events?after={bad}"), 400, "INVALID_REQUEST_BODY")


# --- 4.4 to 4.6 background, status, logs --------------------------------------------------------------------------


def logs(execd, command_id, cursor=None):
    params = {} if cursor is None else {"cursor": cursor}
    response = execd.client.get(f"/command/{command_id}/logs", params=params, headers={"Accept": "text/plain"})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    return response.content, int(response.headers["EXECD-COMMANDS-TAIL-CURSOR"])


def test_background_returns_at_once(execd):
    command_id = background(execd, "sleep 1000")
    told = status(execd, command_id)
    assert told["running"] is True and "exit_code" not in told and "finished_at" not in told
    assert execd.client.delete("/command", params={"id": command_id}).status_code == 200


def test_background_log_in_write_order_with_a_byte_cursor(execd):
    go = execd.tmp / "go"
    os.mkfifo(go)
    command_id = background(execd, f"echo one; echo two >&2; read x < {go}; echo drei; exit 5")
    with attach(execd, command_id, 1) as opened:
        assert [opened.next()["text"] for _ in range(2)] == ["one", "two"]
        assert logs(execd, command_id) == (b"one\ntwo\n", 8)
        assert logs(execd, command_id, 4) == (b"two\n", 8)
        assert logs(execd, command_id, 8) == (b"", 8)
        go.write_text("\n")
        assert opened.until("error")["error"]["evalue"] == "5"
    assert logs(execd, command_id, 8) == (b"drei\n", 13)
    assert logs(execd, command_id, 99) == (b"", 99)
    assert logs(execd, command_id, "abc") == (b"one\ntwo\ndrei\n", 13)
    told = status(execd, command_id)
    assert told["exit_code"] == 5 and told["error"] == "exit status 5" and told["running"] is False
    assert_problem(
        execd.client.get(f"/command/{command_id}/logs", params={"cursor": -1}), 400, "INVALID_REQUEST_BODY")


def test_logs_are_raw_bytes(execd):
    path = execd.tmp / "random"
    path.write_bytes(os.urandom(3 * MIB))
    command_id = background(execd, f"cat {path}")
    wait_finished(execd, command_id)
    assert logs(execd, command_id) == (path.read_bytes(), 3 * MIB)


def test_a_log_beyond_its_limit_keeps_the_newest_bytes_and_their_offsets(start_execd):
    execd = start_execd(env={"EXECD_COMMAND_LOG_BYTES": "100000"})
    command_id = background(execd, "seq 1 100000")
    wait_finished(execd, command_id)
    whole = b"".join(b"%d\n" % i for i in range(1, 100001))
    kept, cursor = logs(execd, command_id)
    assert cursor == len(whole) and 50_000 <= len(kept) <= 100_000 and whole.endswith(kept)
    response = execd.client.get(f"/command/{command_id}/logs")
    assert int(response.headers["EXECD-COMMANDS-SKIPPED-BYTES"]) == len(whole) - len(kept)
    assert logs(execd, command_id, cursor - 7) == (b"100000\n", cursor)


def test_logs_of_others(execd):
    assert_problem(execd.client.get("/command/unknown/logs"), 400, "INVALID_REQUEST_BODY")
    command_id = run(execd, "echo x")[0]["text"]
    assert_problem(execd.client.get(f"/command/{command_id}/logs"), 400, "INVALID_REQUEST_BODY")


def test_background_timeout_and_daemons(execd):
    def attempt(limit):
        command_id = background(execd, "echo x; sleep 1000", timeout=limit)
        events = wait_finished(execd, command_id)
        assert events[-1]["error"]["traceback"] == ["signal: killed", f"timed out after {limit}ms"]
        assert status(execd, command_id)["exit_code"] == -1
        return logs(execd, command_id)[0]

    assert long_enough(attempt, len, 300) == b"x\n"


def rfc3339(text):
    """Seconds since 1970; the fraction has up to nine digits."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", text)
    assert match, text
    whole = datetime.datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
    return whole.timestamp() + float(match[2] or 0)


def test_status(execd):
    command = "echo 'a \"quoted\" command'"
    events = run(execd, command)
    told = status(execd, events[0]["text"])
    assert told["id"] == events[0]["text"] and told["content"] == command
    assert told["running"] is False and told["exit_code"] == 0 and "error" not in told
    started, finished = (rfc3339(told[key]) for key in ("started_at", "finished_at"))
    assert started <= finished and abs(time.time() - finished) < 60
    assert_problem(execd.client.get("/command/status/unknown"), 404, "INVALID_REQUEST_BODY")


def test_finished_commands_are_forgotten_after_their_time(start_execd):
    execd = start_execd(env={"EXECD_COMMAND_RETENTION": "100ms"})
    command_id = run(execd, "true")[0]["text"]
    # The next command is one that certainly ends later than the retention of the first.
    run(execd, "sleep 0.5")
    assert_problem(execd.client.get(f"/command/status/{command_id}"), 404, "INVALID_REQUEST_BODY")


def test_a_bad_retention_stops_the_start(start_execd):
    with pytest.raises(RuntimeError):
        start_execd(env={"EXECD_COMMAND_RETENTION": "soon"})


# --- 4.7 interrupt ------------------------------------------------------------------------------------------------


def test_interrupt_a_sleeping_command(execd):
    with stream(execd, "sleep 1000") as opened:
        command_id = opened.next()["text"]
        response = execd.client.delete("/command", params={"id": command_id})
        assert response.status_code == 200 and response.content == b""
        assert response.headers["content-length"] == "0"
        assert status(execd, command_id)["running"] is False
        (error,) = opened.rest()
        assert error["error"]["ename"] == "CommandExecError" and error["error"]["evalue"] == "-1"
        assert error["error"]["traceback"] == ["signal: terminated"]


def test_interrupt_lets_a_command_clean_up(execd):
    with stream(execd, "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 1000 & wait; done") as opened:
        command_id = opened.next()["text"]
        opened.until("stdout")
        assert execd.client.delete("/command", params={"id": command_id}).status_code == 200
        events = opened.rest()
        assert texts(events) == ["bye"] and exit_code(events) == 9


def test_interrupt_kills_processes_that_ignore_sigterm_or_left_the_group(execd):
    script = ("trap 'echo asked' TERM; (trap '' TERM; setsid sleep 1000 & echo $!; sleep 1000 & echo $!; wait) & "
              "while :; do wait; sleep 1000 & done")
    with stream(execd, script) as opened:
        command_id = opened.next()["text"]
        pids = [int(opened.next()["text"]) for _ in range(2)]
        assert execd.client.delete("/command", params={"id": command_id}).status_code == 200
        events = opened.rest()
        assert "asked" in texts(events), "SIGTERM comes first"
        assert exit_code(events) == -1
        assert all(process_gone(pid) for pid in pids)


def test_interrupts_that_are_refused(execd):
    assert_problem(execd.client.delete("/command"), 400, "MISSING_QUERY")
    assert_problem(execd.client.delete("/command", params={"id": ""}), 400, "MISSING_QUERY")
    assert_problem(execd.client.delete("/command", params={"id": "unknown"}), 500, "RUNTIME_ERROR")
    command_id = run(execd, "true")[0]["text"]
    assert_problem(execd.client.delete("/command", params={"id": command_id}), 500, "RUNTIME_ERROR")


def test_processes_that_fork_without_end_are_killed_by_the_timeout(execd):
    # Each forks its successor and ends: few at any time, but never the same ones. The file ends them should all fail.
    guard = execd.tmp / "guard"
    guard.touch()
    beat = execd.tmp / "beat"
    script = f"f() {{ [ -e {guard} ] && echo > {beat} && f & }}; f; f; f; sleep 1000"
    events = long_enough(lambda limit: run(execd, script, timeout=limit), lambda _: beat.exists(), 500)
    assert exit_code(events) == -1
    beat.unlink()
    run(execd, "sleep 0.5")
    left = beat.exists()
    guard.unlink()
    assert not left


# --- daemon -------------------------------------------------------------------------------------------------------


@pytest.mark.memory
def test_memory_stays_flat_over_many_commands(start_execd):
    execd = start_execd(env={"EXECD_COMMAND_FINISHED": "200"})

    def some(count):
        for _ in range(count):
            execd.client.post("/command", json={"command": "seq 1 200"})

    some(300)
    before = resident_kib(execd.pid)
    fds = len(os.listdir(f"/proc/{execd.pid}/fd"))
    some(600)
    assert resident_kib(execd.pid) - before < 2048
    assert len(os.listdir(f"/proc/{execd.pid}/fd")) <= fds + 1


@pytest.mark.memory
def test_a_gibibyte_without_end_of_line_comes_whole_and_memory_stays_flat(start_execd):
    execd = start_execd()
    run(execd, "true")
    reset_peak_memory(execd.pid)
    before = resident_kib(execd.pid)
    total, end, buffer = 0, b"", bytearray(MIB)
    with started_by_hand(execd, "head -c 1073741824 /dev/zero | tr '\\0' '#'") as connection:
        while size := connection.recv_into(buffer):
            total += buffer.count(b"#", 0, size)
            end = (end + buffer[max(0, size - 1000):size])[-1000:]
    assert total == 1 << 30
    assert b"execution_complete" in end and end.endswith(b"0\r\n\r\n")
    # A line may have 4 MiB; there are a few on their way at any time.
    assert memory_kib(execd.pid, "VmHWM") - before < 32 * 1024
