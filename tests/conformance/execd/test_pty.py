"""PTY over a real WebSocket client: frames, replay, takeover, viewers, signals, exit."""

import json
import pathlib

import httpx
import pytest
import websockets
from websockets.sync.client import connect

UNKNOWN = "00000000-0000-4000-8000-000000000000"


class Pty:
    """One connection. Text frames come back as dicts, binary ones as (tag, bytes)."""

    def __init__(self, execd, identifier, query=""):
        url = f"{execd.url.replace('http', 'ws', 1)}/pty/{identifier}/ws{query}"
        self._context = connect(url, max_size=None, max_queue=None, compression=None,
                                proxy=None, open_timeout=30, close_timeout=10)
        self.socket = self._context.__enter__()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._context.__exit__(*error)

    def next(self):
        frame = self.socket.recv(timeout=30)
        return json.loads(frame) if isinstance(frame, str) else (frame[0], frame[1:])

    def connected(self):
        frame = self.next()
        assert frame["type"] == "connected", frame
        return frame

    def read_until(self, text, tag=1):
        data = b""
        while text not in data:
            frame = self.next()
            assert frame[0] == tag, frame
            data += frame[1]
        return data

    def read_to_exit(self):
        data = b""
        while True:
            frame = self.next()
            if isinstance(frame, dict):
                assert frame["type"] == "exit", frame
                return data, frame["exit_code"]
            data += frame[1]

    def type(self, data):
        self.socket.send(b"\0" + data)

    def say(self, **frame):
        self.socket.send(json.dumps(frame))

    def closed(self):
        with pytest.raises(websockets.ConnectionClosed) as error:
            while True:
                self.socket.recv(timeout=30)
        return error.value.rcvd.code, error.value.rcvd.reason


@pytest.fixture
def create(execd):
    made = []

    def make(**body):
        response = execd.client.post("/pty", json=body)
        assert response.status_code == 201, response.text
        assert list(response.json()) == ["session_id"]
        made.append(response.json()["session_id"])
        return made[-1]

    yield make
    for identifier in made:
        execd.client.delete(f"/pty/{identifier}")


def status(execd, identifier):
    return execd.client.get(f"/pty/{identifier}").json()


def test_rest(execd, create):
    wanted = execd.tmp / "x" / "y"
    identifier = create(cwd=str(wanted))
    assert wanted.is_dir()
    assert status(execd, identifier) == {"session_id": identifier, "running": False, "output_offset": 0}
    assert execd.client.post("/pty", content=b"").status_code == 201
    failed = execd.client.post("/pty", json={"cwd": "/dev/null/x"})
    assert failed.status_code == 500 and failed.json()["code"] == "RUNTIME_ERROR"
    assert execd.client.delete(f"/pty/{identifier}").status_code == 200
    for response in (execd.client.get(f"/pty/{identifier}"), execd.client.delete(f"/pty/{UNKNOWN}"),
                     execd.client.get(f"/pty/{UNKNOWN}/ws")):
        assert response.status_code == 404 and response.json()["code"] == "CONTEXT_NOT_FOUND"


def test_a_terminal_session(execd, create):
    identifier = create(cwd=str(execd.tmp))
    with Pty(execd, identifier) as pty:
        assert pty.connected() == {"type": "connected", "session_id": identifier, "mode": "pty"}
        pty.type(b"stty size; pwd\n")
        pty.read_until(b"24 80\r\n" + str(execd.tmp).encode())
        pty.say(type="resize", cols=132, rows=43)
        pty.say(type="stdin", data="stty size\n")
        pty.read_until(b"43 132\r\n")
        pty.say(type="ping")
        while (frame := pty.next()) != {"type": "pong"}:
            assert frame[0] == 1
        pty.say(type="nonsense")
        while not isinstance(frame := pty.next(), dict):
            pass
        assert frame["type"] == "error" and frame["code"] == "INVALID_FRAME"
        assert status(execd, identifier)["running"]
        pty.type(b"exit 5\n")
        assert pty.read_to_exit()[1] == 5
        assert pty.closed() == (1000, "process exited")
    assert not status(execd, identifier)["running"]
    with Pty(execd, identifier, "?since=999999999") as again:  # a fresh shell
        again.connected()
        assert status(execd, identifier)["running"]


def test_output_is_complete_before_the_exit_frame(execd, create):
    identifier = create(command="seq 100000; exit 3")
    want = b"".join(b"%d\r\n" % i for i in range(1, 100001))
    for _ in range(5):
        offset = status(execd, identifier)["output_offset"]
        with Pty(execd, identifier, f"?since={offset}") as pty:
            pty.connected()
            assert pty.read_to_exit() == (want, 3)


def test_reconnecting_loses_and_repeats_nothing(execd, create):
    identifier = create(command="read x; seq 1 60000; read x")
    want = b"\r\n" + b"".join(b"%d\r\n" % i for i in range(1, 60001))
    seen = b""
    connections = 0
    while len(seen) < len(want):
        with Pty(execd, identifier, f"?since={len(seen)}") as pty:
            connections += 1
            frame = pty.next()
            if not isinstance(frame, dict):
                assert frame[0] == 3 and int.from_bytes(frame[1][:8], "big") == len(seen)
                seen += frame[1][8:]
                frame = pty.next()
            assert frame["type"] == "connected"
            if connections == 1:
                pty.type(b"\n")
            if len(seen) < len(want):
                tag, data = pty.next()  # then leave in the middle
                assert tag == 1
                seen += data
    assert seen == want and connections > 1


def test_a_second_writer_gets_409_and_may_take_over(execd, create):
    identifier = create()
    with Pty(execd, identifier) as first:
        first.connected()
        first.type(b"X=kept\n")
        with pytest.raises(websockets.InvalidStatus) as refused:
            Pty(execd, identifier)
        assert refused.value.response.status_code == 409
        assert json.loads(refused.value.response.body)["code"] == "ALREADY_CONNECTED"
        assert execd.client.get(f"/pty/{identifier}/ws?takeover=1").status_code == 409
        with Pty(execd, identifier, "?takeover=1&since=999999999") as second:
            second.connected()
            assert first.closed() == (4001, "TAKEN_OVER")
            second.type(b"echo $X-$X\n")
            second.read_until(b"kept-kept\r\n")


def test_viewers(execd, create):
    identifier = create(command="read x; echo got $x; read x")
    with Pty(execd, identifier) as holder, Pty(execd, identifier, "?readonly=1") as viewer:
        holder.connected()
        assert viewer.connected()["readonly"] is True
        viewer.type(b"not me\n")
        viewer.say(type="signal", signal="SIGKILL")
        viewer.say(type="ping")
        assert viewer.next() == {"type": "pong"}
        holder.type(b"me\n")
        for pty in (holder, viewer):
            assert pty.read_until(b"got me\r\n") == b"me\r\ngot me\r\n"
        holder.say(type="signal", signal="SIGKILL")
        for pty in (holder, viewer):
            assert pty.read_to_exit()[1] == -1
            assert pty.closed() == (1000, "process exited")


def test_viewers_get_offsets_and_are_told_that_they_cannot_type(execd, create):
    identifier = create(command="echo first; read x; echo got $x; read x")
    with Pty(execd, identifier) as holder:
        holder.connected()
        holder.read_until(b"first\r\n")
        with Pty(execd, identifier, "?mode=viewer") as viewer, Pty(execd, identifier, "?mode=viewer&since=7") as late:
            assert viewer.next() == (3, (0).to_bytes(8, "big") + b"first\r\n")
            assert viewer.connected()["readonly"] is True
            assert late.connected()["readonly"] is True
            viewer.type(b"not me\n")
            viewer.say(type="signal", signal="SIGKILL")
            viewer.say(type="resize", cols=10, rows=10)
            viewer.say(type="ping")
            for _ in range(3):
                frame = viewer.next()
                assert (frame["type"], frame["code"]) == ("error", "READ_ONLY")
            assert viewer.next() == {"type": "pong"}
            holder.type(b"me\n")
            for pty in (viewer, late):
                offset, data = 7, b""
                while not data.endswith(b"got me\r\n"):
                    tag, frame = pty.next()
                    assert tag == 3 and int.from_bytes(frame[:8], "big") == offset
                    data += frame[8:]
                    offset += len(frame) - 8
                assert data == b"me\r\ngot me\r\n"


def test_the_file_of_variables_reaches_terminals(start_execd, tmp_path):
    (tmp_path / "envs").write_text("A=file\nOPENSANDBOX_ID=file\n")
    execd = start_execd(env={"EXECD_ENVS": str(tmp_path / "envs"), "OPENSANDBOX_ID": "box"})
    body = {"command": 'echo "$A $B $OPENSANDBOX_ID"', "envs": {"B": "request", "OPENSANDBOX_ID": "request"}}
    identifier = execd.client.post("/pty", json=body).json()["session_id"]
    with Pty(execd, identifier, "?pty=0") as pty:
        pty.connected()
        assert pty.read_to_exit() == (b"file request box\n", 0)


def test_without_bash_the_shell_is_sh(start_execd, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    execd = start_execd(env={"PATH": str(tmp_path / "bin")})
    identifier = execd.client.post("/pty", json={}).json()["session_id"]
    with Pty(execd, identifier) as pty:
        pty.connected()
        pty.type(b"echo shell=$0 version=$BASH_VERSION.\nexit 3\n")
        data, code = pty.read_to_exit()
    assert b"shell=sh version=.\r\n" in data and code == 3, data


def test_pipe_mode(execd, create):
    identifier = create(command="read x; echo out $x; echo err >&2; exit 4")
    with Pty(execd, identifier, "?pty=0") as pty:
        assert pty.connected()["mode"] == "pipe"
        pty.type(b"in\n")
        streams = {1: b"", 2: b""}
        while not isinstance(frame := pty.next(), dict):
            streams[frame[0]] += frame[1]
        assert frame == {"type": "exit", "exit_code": 4}
        assert streams == {1: b"out in\n", 2: b"err\n"}


def test_a_job_in_the_foreground_gets_the_typed_input(execd, create):
    identifier = create()
    with Pty(execd, identifier) as pty:
        pty.connected()
        pty.type(b"PS1='rea''dy> '\n")
        pty.read_until(b"ready> ")
        pty.type(b"echo be''gun; cat\n")
        pty.read_until(b"begun\r\n")  # by then bash has given the terminal's echo back to the terminal
        pty.type(b"echo-me\n")
        pty.read_until(b"echo-me\r\necho-me\r\n")
        pty.type(b"\x03")
        pty.read_until(b"ready> ")  # what is typed before may be thrown away with the interrupt
        pty.type(b"echo back $((20+3))\n")
        pty.read_until(b"back 23\r\n")


def test_a_start_that_fails_is_told_in_a_frame(execd, create):
    gone = execd.tmp / "gone"
    identifier = create(cwd=str(gone))
    gone.rmdir()
    with Pty(execd, identifier) as pty:
        frame = pty.next()
        assert frame["type"] == "error" and frame["code"] == "START_FAILED"
        pty.closed()


def test_deleting_kills_the_shell_and_its_children(execd, create):
    identifier = create(command="sleep 1000 & echo $!; wait")
    with Pty(execd, identifier) as pty:
        pty.connected()
        child = int(pty.read_until(b"\r\n"))
        assert execd.client.delete(f"/pty/{identifier}").status_code == 200
        assert pty.read_to_exit()[1] == -1
        assert pty.closed()[0] == 1000
    try:
        state = pathlib.Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        state = "gone"
    assert state in ("Z", "gone")


def test_through_the_port_proxy(execd, create):
    identifier = create(command="echo hello")
    url = f"{execd.url.replace('http', 'ws', 1)}/proxy/{execd.port}/pty/{identifier}/ws"
    with connect(url, compression=None, proxy=None) as socket:
        assert json.loads(socket.recv(timeout=30))["type"] == "connected"
        assert socket.recv(timeout=30) == b"\x01hello\r\n"


def test_a_token_is_needed(token_execd):
    identifier = token_execd.client.post("/pty").json()["session_id"]
    assert httpx.get(f"{token_execd.url}/pty/{identifier}", trust_env=False).status_code == 401
    with pytest.raises(websockets.InvalidStatus) as refused:
        Pty(token_execd, identifier)
    assert refused.value.response.status_code == 401


@pytest.mark.memory
def test_a_thousand_idle_sessions_cost_little(start_execd):
    private = start_execd()

    def resident():
        return int(pathlib.Path(f"/proc/{private.pid}/status").read_text().split("VmRSS:")[1].split()[0])

    private.client.post("/pty")
    before = resident()
    for _ in range(1000):
        assert private.client.post("/pty").status_code == 201
    assert resident() - before < 4096  # KiB
