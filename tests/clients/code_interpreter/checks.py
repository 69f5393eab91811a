"""The Python package opensandbox-code-interpreter: code in a context that keeps its state."""

import datetime
import threading

from code_interpreter import CodeInterpreterSync
from code_interpreter.models.code import CodeContext
from opensandbox import SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.execd_sync import ExecutionHandlersSync

import suite
from suite import check, same


def stdout_of(execution):
    return "".join(each.text for each in execution.logs.stdout)


def interrupt(interpreter, context):
    """Stops code that never ends, from another thread, as soon as it has printed."""
    printed = threading.Event()
    done = []
    handlers = ExecutionHandlersSync(on_stdout=lambda message: printed.set())
    running = threading.Thread(target=lambda: done.append(
        interpreter.codes.run("print('on')\nwhile True: pass", context=context, handlers=handlers)))
    running.start()
    check(printed.wait(120), "no output of running code")
    interpreter.codes.interrupt(context.id)
    running.join(120)
    check(done and done[0].error and done[0].error.name == "KeyboardInterrupt", f"interrupted code: {done}")


def code_execution():
    config = ConnectionConfigSync(domain=suite.SERVER.removeprefix("http://"), api_key=suite.KEY,
                                  request_timeout=datetime.timedelta(seconds=120))
    sandbox = SandboxSync.create(suite.IMAGE, connection_config=config, ready_timeout=datetime.timedelta(minutes=4))
    try:
        interpreter = CodeInterpreterSync.create(sandbox)  # newer versions wait for the interpreter's port here
        context = interpreter.codes.create_context("python")
        check(context.id and context.language == "python", f"new context: {context}")
        run = interpreter.codes.run
        run("x = 20", context=context)
        # Code keeps the newlines of its output, as the contract has it.
        same([each.text for each in run("print(x + 1)", context=context).logs.stdout], ["21\n"], "state of a context")
        value = run("x * 2", context=context)
        same([each.text for each in value.result], ["40"], "result")
        check(value.error is None and value.id == context.id, f"run: {value}")
        failed = run("1 / 0", context=context)
        check(failed.error and failed.error.name == "ZeroDivisionError", f"error of the code: {failed.error}")
        other = interpreter.codes.create_context("python")
        check(run("print(x)", context=other).error, "contexts share their variables")
        without = CodeContext(language="python")
        run("y = 5", context=without)
        same([each.text for each in run("y", context=without).result], ["5"], "default context")
        same(stdout_of(run("echo $((40 + 2))", context=CodeContext(language="bash"))), "42\n", "bash")
        interrupt(interpreter, context)
        same([each.text for each in run("x", context=context).result], ["20"], "state after an interrupt")
        if not hasattr(interpreter.codes, "list_contexts"):
            return "no call to get, list or delete contexts in this version"
        same(interpreter.codes.get_context(other.id).language, "python", "get a context")
        same(len(interpreter.codes.list_contexts("python")), 3, "list contexts: two of our own and the default one")
        interpreter.codes.delete_context(other.id)
        check(other.id not in [each.id for each in interpreter.codes.list_contexts("python")], "a deleted context is listed")
        interpreter.codes.delete_contexts("python")
        same(interpreter.codes.list_contexts("python"), [], "contexts after all were deleted")
        return ""
    finally:
        sandbox.kill()
        sandbox.close()


if __name__ == "__main__":
    suite.main({"code execution": code_execution})
