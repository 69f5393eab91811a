"""Code that takes all the memory, or aims at execd itself: its own context reports it, the others go on."""

import os

import pytest


@pytest.fixture
def small(sdk):
    made = sdk.create("host", resource={"memory": "256Mi", "cpu": "1"})
    interpreter = sdk.interpreter(made)
    yield interpreter.codes
    (interpreter.aclose if hasattr(interpreter, "aclose") else interpreter.close)()
    made.kill()
    made.close()


def results(execution):
    return [each.text for each in execution.result]


def test_code_that_needs_more_memory_than_there_is_ends_and_the_others_go_on(small):
    greedy, modest = small.create_context("python"), small.create_context("python")
    small.run("kept = 'safe'", context=modest)
    died = small.run("held = []\nwhile True: held.append(bytearray(16 << 20))", context=greedy)
    assert died.error and died.error.name in ("KernelDied", "MemoryError"), died.error
    if died.error.name == "KernelDied":
        assert "memory" in died.error.value
    assert results(small.run("kept", context=modest)) == ["'safe'"]
    assert results(small.run("1 + 1", context=greedy)) == ["2"]


@pytest.mark.skipif(os.environ.get("BACKEND") == "docker", reason="execd is the first process of a sandbox on native only")
def test_code_that_kills_its_parent_does_not_reach_execd(small):
    context = small.create_context("python")
    small.run("import os, signal\nkept = 5", context=context)
    for target in ("os.getppid()", "1"):
        tried = small.run(f"os.kill({target}, signal.SIGKILL)", context=context)
        assert tried.error is None or tried.error.name in ("PermissionError", "ProcessLookupError"), tried.error
    assert results(small.run("kept", context=context)) == ["5"]
