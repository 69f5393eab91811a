"""The Python package opensandbox-code-interpreter: code in a context that keeps its state."""

import datetime
import inspect
import re

from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException

import suite
from suite import NotOffered, check, same


def code_execution():
    config = ConnectionConfigSync(domain=suite.SERVER.removeprefix("http://"), api_key=suite.KEY,
                                  request_timeout=datetime.timedelta(seconds=120))
    sandbox = SandboxSync.create(suite.IMAGE, connection_config=config, ready_timeout=datetime.timedelta(minutes=4))
    try:
        # Newer versions look for a Jupyter process first, which says nothing about what the server answers.
        fields = {"skip_health_check": True} \
            if "skip_health_check" in inspect.signature(CodeInterpreterSync.create).parameters else {}
        interpreter = CodeInterpreterSync.create(sandbox, **fields)
        try:
            context = interpreter.codes.create_context("python")
        except SandboxApiException as error:
            if error.status_code != 501:
                raise
            said = re.search(r'"code": *"([^"]+)"', str(error))
            raise NotOffered(f"the server answers {error.status_code} {said[1] if said else ''}".strip()
                             + ": code execution is still to come") from None
        run = interpreter.codes.run
        run("x = 20", context=context)
        same([each.text for each in run("print(x + 1)", context=context).logs.stdout], ["21"], "state of a context")
        failed = run("1 / 0", context=context)
        check(failed.error and failed.error.name == "ZeroDivisionError", f"error of the code: {failed.error}")
        other = interpreter.codes.create_context("python")
        check(run("print(x)", context=other).error, "contexts share their variables")
    finally:
        sandbox.kill()
        sandbox.close()


if __name__ == "__main__":
    suite.main({"code execution": code_execution})
