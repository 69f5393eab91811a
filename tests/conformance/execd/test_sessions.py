"""Bash sessions over real HTTP: what persists, exit codes, timeouts, concurrency, clients that leave."""

import json
import os
import pathlib
import socket
import threading

import httpx
import pytest
from long_enough import long_enough

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def parse(body):
    assert body.endswith(b"\n\n")
    events = [json.loads(line) for line in body.split(b"\n\n")[:-1]]
    return [event for event in events if event["type"] != "ping"]


@pytest.fixture
def session(execd):
    """A session of its own; `session(command, ...)` runs in it and returns the events."""
    response = execd.client.post("/session", json={"cwd": str(execd.tmp)})
    assert response.status_code == 200, response.text
    identifier = response.json()["session_id"]

    def run(command, **options):
        answer = execd.client.post(f"/session/{identifier}/run", json={"command": command, **options})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/event-stream"
        events = parse(answer.content)
        assert events[0] == {**events[0], "type": "init", "text": identifier}
        assert [e["type"] for e in events].count("init") == 1
        assert all(e["type"] == "stdout" for e in events[1:-1])
        assert events[-1]["type"] in ("error", "execution_complete")
        return events

    run.id = identifier
    yield run
    execd.client.delete(f"/session/{identifier}")


def out(events):
    return [event["text"] for event in events if event["type"] == "stdout"]


def code(events):
    last = events[-1]
    return 0 if last["type"] == "execution_complete" else int(last["error"]["evalue"])


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"cwd":null}'])
def test_creating_needs_no_body(execd, body):
    response = execd.client.post("/session", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 200
    identifier = response.json()["session_id"]
    assert len(identifier) == 36 and identifier.count("-") == 4
    assert execd.client.delete(f"/session/{identifier}").status_code == 200


def test_the_directory_of_a_session_is_created(execd):
    wanted = execd.tmp / "a" / "b"
    response = execd.client.post("/session", json={"cwd": str(wanted)})
    assert response.status_code == 200 and wanted.is_dir()
    blocked = execd.client.post("/session", json={"cwd": "/dev/null/x"})
    assert blocked.status_code == 500 and blocked.json()["code"] == "RUNTIME_ERROR" and blocked.json()["message"]


def test_environment_functions_and_directory_persist(session):
    (value := "a'b\"c$HOME`id`\\\\ \t é\nline two\n")
    quoted = "'" + value.replace("'", "'\\''") + "'"
    assert code(session(f"export V={quoted}; hello() {{ echo \"hello $1\"; }}; mkdir sub; cd sub")) == 0
    for _ in range(3):
        events = session("printf %s \"$V\" | od -An -tx1 | tr -d ' \\n'; echo; hello you; basename \"$PWD\"")
        assert out(events) == [value.encode().hex(), "hello you", "sub"]


def test_a_run_may_name_its_directory(execd, session):
    other = execd.tmp / "other"
    other.mkdir()
    assert out(session("pwd", cwd=str(other))) == [str(other)]
    assert out(session("pwd")) == [str(other)]
    refused = execd.client.post(f"/session/{session.id}/run", json={"command": "pwd", "cwd": "/no/such/dir"})
    assert refused.status_code == 400 and refused.json()["code"] == "INVALID_REQUEST_BODY"


def test_exit_codes_are_right_and_the_session_survives(session):
    session("export KEEP=1")
    assert code(session("sh -c 'exit 7'")) == 7
    assert code(session("exit 9")) == 9
    assert code(session("exec sh -c 'exit 11'")) == 11
    killed = session("kill -KILL $$")
    assert code(killed) == -1 and killed[-1]["error"]["traceback"] == ["signal: killed"]
    failed = session("no-such-program")
    assert failed[-1]["error"]["ename"] == "CommandExecError" and code(failed) == 127
    assert "no-such-program" in out(failed)[0]
    assert code(session("if")) != 0
    assert out(session("echo $KEEP")) == ["1"]


def test_output_is_merged_and_empty_lines_are_dropped(session):
    assert out(session("echo a; echo b >&2; echo; echo; printf c")) == ["a", "b", "c"]


def test_a_timeout_kills_the_run_only(execd, session):
    session("export KEEP=1")
    started = execd.tmp / "pid"
    events = long_enough(lambda limit: session(f"sleep 1000 & echo $! >{started}; sleep 1000", timeout=limit),
                         lambda _: started.exists() and started.read_text(), 300)
    assert code(events) == -1
    assert events[-1]["error"]["ename"] == "CommandExecError"
    assert events[-1]["error"]["traceback"][-1] == "signal: killed"
    assert "timeout" in events[-1]["error"]["traceback"][0]
    assert not is_running(int(started.read_text()))
    assert out(session("echo $KEEP")) == ["1"]


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_background_process_does_not_hold_the_run(execd, session):
    events = session("sleep 1000 & echo $!")
    assert code(events) == 0
    os.kill(int(out(events)[0]), 9)


def test_runs_of_one_session_come_in_order(execd, session):
    gate = execd.tmp / "gate"
    os.mkfifo(gate)
    results = {}

    def run(name, command):
        with httpx.Client(base_url=execd.url, timeout=60, trust_env=False) as client:
            answer = client.post(f"/session/{session.id}/run", json={"command": command})
            results[name] = out(parse(answer.content))

    first = threading.Thread(target=run, args=("first", f"N=1; read x <{gate}; N=$x; echo $N"))
    first.start()
    with open(gate, "w") as writer:  # opens when the first run reads
        second = threading.Thread(target=run, args=("second", "echo after $N"))
        second.start()
        writer.write("2\n")
    first.join()
    second.join()
    assert results == {"first": ["2"], "second": ["after 2"]}


def test_a_client_that_leaves_ends_its_run(execd, session):
    gate = execd.tmp / "gate"
    os.mkfifo(gate)
    body = json.dumps({"command": f"exec 5>{gate}; echo $$; sleep 1000"}).encode()
    with socket.create_connection(("127.0.0.1", execd.port)) as raw:
        raw.sendall(b"POST /session/%s/run HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
                    (session.id.encode(), len(body), body))
        reader = open(gate)
    assert reader.read() == ""  # ends when all processes of the run have ended
    reader.close()
    assert out(session("echo usable")) == ["usable"]


@pytest.mark.parametrize("path", ["/session/{}", "/command?id={}"])
def test_deleting_kills_the_running_command(execd, path):
    identifier = execd.client.post("/session").json()["session_id"]
    with execd.client.stream("POST", f"/session/{identifier}/run", json={"command": "echo on; sleep 1000"}) as stream:
        lines = stream.iter_lines()
        while '"stdout"' not in next(lines):
            pass
        with httpx.Client(base_url=execd.url, timeout=30, trust_env=False) as other:
            assert other.delete(path.format(identifier)).status_code == 200
        rest = [json.loads(line) for line in lines if line]
    assert rest[-1]["type"] == "error" and rest[-1]["error"]["evalue"] == "-1"
    gone = execd.client.post(f"/session/{identifier}/run", json={"command": "echo"})
    assert gone.status_code == 500 and gone.json()["code"] == "RUNTIME_ERROR"


def test_bad_requests(execd, session):
    run = f"/session/{session.id}/run"
    for body in [{}, {"command": ""}, {"command": None}, {"command": "x", "timeout": -1}, {"command": 3}]:
        response = execd.client.post(run, json=body)
        assert response.status_code == 400 and response.json()["code"] == "INVALID_REQUEST_BODY", body
    assert execd.client.post(run, content=b"").status_code == 400
    unknown = execd.client.post(f"/session/{UNKNOWN}/run", json={"command": "echo"})
    assert unknown.status_code == 500 and unknown.json()["code"] == "RUNTIME_ERROR"
    missing = execd.client.delete(f"/session/{UNKNOWN}")
    assert missing.status_code == 404 and missing.json()["code"] == "CONTEXT_NOT_FOUND"


def test_nothing_is_left_in_the_file_system(execd, start_execd):
    private = start_execd(env={"TMPDIR": str(execd.tmp), "HOME": str(execd.tmp)}, cwd=str(execd.tmp))
    identifier = private.client.post("/session").json()["session_id"]
    private.client.post(f"/session/{identifier}/run", json={"command": "export SECRET=hidden"})
    assert list(execd.tmp.iterdir()) == []


@pytest.mark.memory
def test_a_thousand_idle_sessions_cost_little(start_execd):
    private = start_execd()

    def resident():
        status = pathlib.Path(f"/proc/{private.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    private.client.post("/session")
    before = resident()
    for _ in range(1000):
        assert private.client.post("/session").status_code == 200
    assert resident() - before < 4096  # KiB
    children = pathlib.Path(f"/proc/{private.pid}/task/{private.pid}/children").read_text()
    assert children == ""
