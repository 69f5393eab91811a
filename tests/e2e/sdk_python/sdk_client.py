"""The official Python SDK, unmodified, behind one blocking face for the sync and the async client, so that every test
runs with both."""

import asyncio
import datetime
import inspect

from code_interpreter import CodeInterpreter, CodeInterpreterSync
from opensandbox import Sandbox, SandboxManager, SandboxManagerSync, SandboxSync
from opensandbox.config import ConnectionConfig
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.execd import ExecutionHandlers
from opensandbox.models.execd_sync import ExecutionHandlersSync


def options(server, proxied):
    return {"domain": f"127.0.0.1:{server.port}", "api_key": server.key, "use_server_proxy": proxied,
            "request_timeout": datetime.timedelta(seconds=60)}


class Sync:
    handlers = ExecutionHandlersSync

    def __init__(self, server, proxied):
        self._server = server, proxied
        self._options = options(server, proxied)

    def again(self):
        """Another client of the same kind, for another thread."""
        return type(self)(*self._server)

    def config(self, **changed):
        return ConnectionConfigSync(**{**self._options, **changed})

    @staticmethod
    def handler(function):
        return function

    def create(self, *args, **fields):
        return SandboxSync.create(*args, connection_config=self.config(), **fields)

    def connect(self, id):
        return SandboxSync.connect(id, connection_config=self.config())

    def resume(self, id):
        return SandboxSync.resume(id, connection_config=self.config())

    def manager(self, **changed):
        return SandboxManagerSync.create(connection_config=self.config(**changed))

    @staticmethod
    def interpreter(sandbox):
        return CodeInterpreterSync.create(sandbox)

    def close(self):
        pass


class Blocking:
    """Calls an object's coroutine functions on the client's loop, and those of the services it holds."""

    def __init__(self, loop, inner):
        self._loop = loop
        self._inner = inner

    def __getattr__(self, name):
        target = getattr(self._inner, name)
        if name in ("codes", "commands", "files", "health", "metrics"):
            return Blocking(self._loop, target)
        if not callable(target):
            return target

        def call(*args, **kwargs):
            result = target(*args, **kwargs)
            return self._loop.run_until_complete(result) if inspect.isawaitable(result) else result

        return call


class Async:
    handlers = ExecutionHandlers

    again = Sync.again

    def __init__(self, server, proxied):
        self._server = server, proxied
        self._options = options(server, proxied)
        self._loop = asyncio.new_event_loop()

    def config(self, **changed):
        return ConnectionConfig(**{**self._options, **changed})

    @staticmethod
    def handler(function):
        async def awaited(event):
            function(event)

        return awaited

    def _run(self, coroutine):
        return Blocking(self._loop, self._loop.run_until_complete(coroutine))

    def create(self, *args, **fields):
        return self._run(Sandbox.create(*args, connection_config=self.config(), **fields))

    def connect(self, id):
        return self._run(Sandbox.connect(id, connection_config=self.config()))

    def resume(self, id):
        return self._run(Sandbox.resume(id, connection_config=self.config()))

    def manager(self, **changed):
        return self._run(SandboxManager.create(connection_config=self.config(**changed)))

    def interpreter(self, sandbox):
        return self._run(CodeInterpreter.create(sandbox._inner))

    def close(self):
        self._loop.close()


KINDS = {"sync": Sync, "async": Async}
