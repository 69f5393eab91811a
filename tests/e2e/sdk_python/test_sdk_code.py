"""Code through the official package opensandbox-code-interpreter, in a sandbox that the server made."""

import concurrent.futures

import pytest


@pytest.fixture
def codes(sdk, sandbox):
    interpreter = sdk.interpreter(sandbox)  # waits for the interpreter, as the package does by itself
    yield interpreter.codes
    (interpreter.aclose if hasattr(interpreter, "aclose") else interpreter.close)()


def text(messages):
    return "".join(message.text for message in messages)


def test_state_stays_in_its_context(codes):
    context = codes.create_context("python")
    codes.run("import os\nx = 20", context=context)
    done = codes.run("print(os.environ['GREETING'])\nx + 1", context=context)
    assert done.error is None and done.id == context.id
    assert text(done.logs.stdout) == "hello\n" and [each.text for each in done.result] == ["21"]
    assert codes.run("1 / 0", context=context).error.name == "ZeroDivisionError"
    other = codes.create_context("python")
    assert codes.run("x", context=other).error.name == "NameError"
    assert {each.id for each in codes.list_contexts("python")} == {context.id, other.id}
    codes.delete_contexts("python")
    assert codes.list_contexts("python") == []


def test_languages_run_in_their_default_contexts(codes):
    assert [each.text for each in codes.run("2 + 2").result] == ["4"]
    codes.run("greeting=$GREETING; cd /usr", language="bash")
    assert text(codes.run("echo $greeting; pwd", language="bash").logs.stdout) == "hello\n/usr\n"


def test_interrupt_ends_the_code_and_keeps_the_context(sdk, codes, sandbox):
    context = codes.create_context("python")
    codes.run("kept = 5", context=context)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        others = sdk.again()
        told = []

        def stop(message):
            told.append(pool.submit(lambda: others.interpreter(others.connect(sandbox.id)).codes.interrupt(context.id)))

        done = codes.run("print('on')\nwhile True: pass", context=context,
                         handlers=sdk.handlers(on_stdout=sdk.handler(stop)))
        told[0].result(60)
    others.close()
    assert done.error.name == "KeyboardInterrupt"
    assert [each.text for each in codes.run("kept", context=context).result] == ["5"]
