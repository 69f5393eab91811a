"""The Python package opensandbox-code-interpreter: code in a context that keeps its state."""

import datetime

from code_interpreter import CodeInterpreterSync
from code_interpreter.models.code import CodeContext
from opensandbox import SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync

import suite
from suite import check, same


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
    finally:
        sandbox.kill()
        sandbox.close()


if __name__ == "__main__":
    suite.main({"code execution": code_execution})
