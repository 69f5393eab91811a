"""Code contexts in gVisor: the same as in other sandboxes, with the host's interpreters. Not Go, which would compile its
standard library there."""

import contextlib
import json

import pytest

from runsc_checks import SETTINGS
from sandboxd_process import Sandboxd


@pytest.fixture(scope="module")
def sandbox():
    daemon = Sandboxd(settings=SETTINGS)
    yield daemon.create("code", runtime="runsc")
    daemon.close()


def new_context(sandbox, language):
    answer = sandbox.execd.post("/code/context", json={"language": language})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


@contextlib.contextmanager
def running(sandbox, code, context, language):
    """The events, as they come."""
    with sandbox.execd.stream("POST", "/code", json={"code": code, "context": {"id": context, "language": language}}) as answer:
        assert answer.status_code == 200, answer.read()
        yield (event for event in map(json.loads, filter(None, answer.iter_lines())) if event["type"] != "ping")


def run(sandbox, code, context, language="python"):
    """The name of the error, and the output with the value."""
    with running(sandbox, code, context, language) as events:
        events = list(events)
    assert events[0]["type"] == "init" and events[-1]["type"] in ("execution_complete", "error"), events
    error = next((event["error"]["ename"] for event in events if event["type"] == "error"), None)
    return error, "".join(event.get("text", "") if event["type"] == "stdout" else event["results"]["text"]
                          for event in events if event["type"] in ("stdout", "result"))


@pytest.mark.parametrize("language,declare,use", [
    ("python", "x = 20", "x * 2 + 2"), ("bash", "x=20", "echo $((x * 2 + 2))"), ("javascript", "const x = 20", "x * 2 + 2"),
    ("java", "int x = 20;", "x * 2 + 2"), ("csharp", "int x = 20;", "x * 2 + 2")])
def test_state_stays_in_its_context(sandbox, language, declare, use):
    context = new_context(sandbox, language)
    assert run(sandbox, declare, context, language) == (None, "")
    error, said = run(sandbox, use, context, language)
    assert (error, said.strip()) == (None, "42")
    assert sandbox.execd.delete(f"/code/contexts/{context}").status_code == 200


def test_contexts_share_nothing_and_die_with_their_processes(sandbox):
    one, two = new_context(sandbox, "python"), new_context(sandbox, "python")
    error, child = run(sandbox, "import os, subprocess\nx = 1\nsubprocess.Popen(['setsid', 'sleep', '600']).pid", one)
    assert error is None
    assert run(sandbox, "x", two)[0] == "NameError"
    assert run(sandbox, "os._exit(3)", one)[0] == "KernelDied"
    assert sandbox.run(f"kill -0 {child}")[0] != 0
    assert run(sandbox, "x", one)[0] == "NameError"
    assert run(sandbox, "x = 5\nx", two) == (None, "5")


@pytest.mark.parametrize("language,declare,code", [
    ("python", "kept = 5", "print('on')\nwhile True: pass"), ("bash", "kept=5", "echo on; while :; do :; done"),
    ("javascript", "const kept = 5", "console.log('on'); while (true) {}")])
def test_interrupt_keeps_the_state(sandbox, language, declare, code):
    context = new_context(sandbox, language)
    run(sandbox, declare, context, language)
    with running(sandbox, code, context, language) as events:
        while (event := next(events))["type"] != "stdout":
            pass
        assert sandbox.execd.delete("/code", params={"id": context}).status_code == 200
        assert [event["error"]["ename"] for event in events if event["type"] == "error"] == ["KeyboardInterrupt"]
    error, said = run(sandbox, "echo $kept" if language == "bash" else "kept", context, language)
    assert (error, said.strip()) == (None, "5")
