"""Why a command failed: the fields `reason` and `reason_message` of events and statuses."""

import json

import pytest


def events_of(response):
    assert response.status_code == 200, response.text
    events = [json.loads(line) for line in response.text.splitlines() if line]
    return [event for event in events if event["type"] != "ping"]


def run(execd, command, **options):
    return events_of(execd.client.post("/command", json={"command": command, **options}))


def status(execd, command_id):
    return execd.client.get(f"/command/status/{command_id}").json()


def reason_of(document):
    return document.get("reason"), document.get("reason_message")


@pytest.mark.parametrize(("timeout", "text"), [(300, "300ms"), (1000, "1s"), (1500, "1.5s")])
def test_a_timeout_is_named_in_the_event_and_in_the_status(execd, timeout, text):
    events = run(execd, "sleep 1000", timeout=timeout)
    assert reason_of(events[-1]) == ("TIMEOUT", f"timed out after {text}")
    # The published clients know no reason, but show the traceback.
    assert events[-1]["error"] == {"ename": "CommandExecError", "evalue": "-1",
                                   "traceback": ["signal: killed", f"timed out after {text}"]}
    state = status(execd, events[0]["text"])
    assert reason_of(state) == ("TIMEOUT", f"timed out after {text}")
    assert (state["exit_code"], state["error"]) == (-1, "signal: killed")


def test_the_status_of_a_background_command_names_its_timeout(execd):
    started = run(execd, "sleep 1000", timeout=200, background=True)
    command_id = started[0]["text"]
    followed = events_of(execd.client.get(f"/command/{command_id}/events"))
    assert reason_of(followed[-1]) == ("TIMEOUT", "timed out after 200ms")
    assert reason_of(status(execd, command_id)) == ("TIMEOUT", "timed out after 200ms")


def test_an_interrupted_command_says_so(execd):
    started = run(execd, "sleep 1000", background=True)
    command_id = started[0]["text"]
    assert execd.client.delete("/command", params={"id": command_id}).status_code == 200
    state = status(execd, command_id)
    assert reason_of(state) == ("INTERRUPTED", "interrupted by a request")
    assert state["error"] == "signal: terminated"


def test_an_interrupted_command_that_ends_well_has_no_reason(execd):
    script = "trap 'exit 0' TERM; echo up; while :; do sleep 1000 & wait; done"
    with execd.client.stream("POST", "/command", json={"command": script}) as stream:
        events = (json.loads(line) for line in stream.iter_lines() if line)
        command_id = next(events)["text"]
        assert next(events)["text"] == "up"
        assert execd.client.delete("/command", params={"id": command_id}).status_code == 200
        last = [event for event in events if event["type"] != "ping"][-1]
    assert last["type"] == "execution_complete" and "reason" not in last
    assert reason_of(status(execd, command_id)) == (None, None)


@pytest.mark.parametrize("command", ["exit 3", "kill -9 $$", "sh -c 'kill -9 $$'; exit 137", "kill -TERM $$"])
def test_other_failures_have_no_reason(execd, command):
    events = run(execd, command)
    assert events[-1]["type"] == "error"
    assert reason_of(events[-1]) == (None, None)
    assert reason_of(status(execd, events[0]["text"])) == (None, None)


def test_a_session_names_its_timeout(execd):
    session = execd.client.post("/session").json()["session_id"]
    answer = execd.client.post(f"/session/{session}/run", json={"command": "sleep 1000", "timeout": 300})
    last = events_of(answer)[-1]
    assert reason_of(last) == ("TIMEOUT", "timed out after 300ms")
    assert last["error"]["evalue"] == "-1"
    assert "timeout" in last["error"]["traceback"][0]


def test_code_names_its_timeout(execd):
    body = {"code": "while True: pass", "context": {"language": "python"}, "timeout": 300}
    events = events_of(execd.client.post("/code", json=body))
    errors = [event for event in events if event["type"] == "error"]
    assert [reason_of(error) for error in errors] == [("TIMEOUT", "timed out after 300ms")]
    failed = events_of(execd.client.post("/code", json={"code": "1/0", "context": {"language": "python"}}))
    assert [reason_of(event) for event in failed if event["type"] == "error"] == [(None, None)]
