"""Code contexts of the official Python package opensandbox-code-interpreter, unmodified, against execd itself."""

import concurrent.futures
import queue

import pytest
from code_interpreter.models.code import CodeContext, SupportedLanguage
from opensandbox.exceptions import SandboxApiException


def out(execution):
    return "".join(message.text for message in execution.logs.stdout)


def results(execution):
    assert execution.error is None, execution.error
    return [result.text for result in execution.result]


@pytest.fixture
def context(sandbox):
    context = sandbox.codes.create_context(SupportedLanguage.PYTHON)
    yield context
    try:
        sandbox.codes.delete_context(context.id)
    except SandboxApiException as error:
        assert error.status_code == 404  # the test has deleted it


def test_every_event_of_a_run_reaches_its_handler(sandbox, context):
    seen = []
    record = {name: sandbox.handler(lambda event, name=name: seen.append((name, event)))
              for name in ("on_init", "on_stdout", "on_stderr", "on_result", "on_execution_complete", "on_error")}
    execution = sandbox.codes.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nresult = 2 + 2\nresult",
                                  context=context, handlers=sandbox.handlers(**record))
    names = [name for name, _ in seen]
    assert names[0] == "on_init" and names[-1] == "on_execution_complete" and "on_error" not in names
    assert names.count("on_init") == names.count("on_result") == names.count("on_execution_complete") == 1
    assert execution.id == context.id and execution.execution_count == 1
    assert out(execution) == "out\n" and [m.text for m in execution.logs.stderr] == ["err\n"]
    assert results(execution) == ["4"]


def test_state_stays_in_a_context_and_errors_are_named(sandbox, context):
    sandbox.codes.run("x = 20", context=context)
    assert results(sandbox.codes.run("x + 1", context=context)) == ["21"]
    failed = sandbox.codes.run("undefined_name", context=context)
    assert failed.error.name == "NameError" and "undefined_name" in failed.error.value and failed.error.traceback
    other = sandbox.codes.create_context("python")
    assert sandbox.codes.run("x", context=other).error.name == "NameError"
    sandbox.codes.delete_context(other.id)


@pytest.mark.parametrize("language,code,printed", [
    (None, "print(1 + 1)", "2\n"), ("python", "print('hi')", "hi\n"), ("bash", "echo $((40 + 2))", "42\n"),
    ("javascript", "console.log([1, 2].length)", "2\n")])
def test_language_alone_runs_in_its_default_context(sandbox, language, code, printed):
    first = sandbox.codes.run(code, language=language)
    assert first.error is None and out(first) == printed
    assert sandbox.codes.run(code, language=language).id == first.id


def test_contexts_are_found_listed_and_deleted(sandbox):
    sandbox.codes.delete_contexts("python")
    made = [sandbox.codes.create_context("python") for _ in range(2)]
    assert sandbox.codes.get_context(made[0].id) == made[0]
    assert sorted(c.id for c in sandbox.codes.list_contexts("python")) == sorted(c.id for c in made)
    sandbox.codes.delete_context(made[0].id)
    with pytest.raises(SandboxApiException) as gone:
        sandbox.codes.get_context(made[0].id)
    assert gone.value.status_code == 404
    sandbox.codes.run("1", language="python")
    sandbox.codes.delete_contexts("python")
    assert sandbox.codes.list_contexts("python") == []


def test_unknown_language_and_context_are_errors_with_a_text(sandbox):
    with pytest.raises(SandboxApiException) as refused:
        sandbox.codes.create_context("cobol")
    assert refused.value.status_code == 500 and "cobol" in str(refused.value)
    with pytest.raises(SandboxApiException) as unknown:
        sandbox.codes.run("1", context=CodeContext(id="00000000-0000-4000-8000-000000000000", language="python"))
    assert unknown.value.status_code == 500


def test_interrupt_by_the_id_of_the_init_event(sandbox, connect, context):
    started = queue.Queue()
    handlers = sandbox.handlers(on_init=sandbox.handler(lambda init: started.put(init.id)),
                                on_stdout=sandbox.handler(lambda message: started.put(message.text)))
    other = connect(sandbox.execd)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.codes.run, "print('on')\nwhile True: pass", context=context, handlers=handlers)
        assert started.get(timeout=60) == context.id and started.get(timeout=60) == "on\n"
        other.codes.interrupt(context.id)
        assert running.result(60).error.name == "KeyboardInterrupt"
    assert results(other.codes.run("6 * 7", context=context)) == ["42"]


def test_service_answers_its_ping(sandbox):
    assert sandbox.codes.ping()
