"""The official Python SDK's execd services, unmodified, behind one blocking face for the sync and the async client, so
that every test runs with both."""

import asyncio
import datetime
import inspect

from code_interpreter.adapters.factory import AdapterFactory as CodeFactory
from code_interpreter.sync.adapters.factory import AdapterFactorySync as CodeFactorySync
from opensandbox.adapters.factory import AdapterFactory
from opensandbox.config import ConnectionConfig
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.execd import ExecutionHandlers
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.sandboxes import SandboxEndpoint
from opensandbox.sync.adapters.factory import AdapterFactorySync

TOKEN_HEADER = "X-EXECD-ACCESS-TOKEN"
REQUEST_ID = "sdk-conformance-0001"


def endpoint_of(execd, proxied, token=None):
    """The answer of a lifecycle server for port 44772: without a scheme, with the headers every request needs."""
    address = f"127.0.0.1:{execd.port}"
    if proxied:
        address += f"/proxy/{execd.port}"
    token = execd.token if token is None else token
    return SandboxEndpoint(endpoint=address, headers={TOKEN_HEADER: token} if token else {})


class SyncClient:
    handlers = ExecutionHandlersSync

    def __init__(self, endpoint, **options):
        self.config = ConnectionConfigSync(
            headers={"X-Request-ID": REQUEST_ID}, request_timeout=datetime.timedelta(seconds=120), **options,
        ).with_transport_if_missing()
        factory = AdapterFactorySync(self.config)
        self.commands = factory.create_command_service(endpoint)
        self.files = factory.create_filesystem_service(endpoint)
        self.health = factory.create_health_service(endpoint)
        self.metrics = factory.create_metrics_service(endpoint)
        self.codes = CodeFactorySync(self.config).create_code_execution_service(endpoint)

    @staticmethod
    def handler(function):
        return function

    def read_stream(self, path, **options):
        """All chunks of files.read_bytes_stream."""
        return list(self.files.read_bytes_stream(path, **options))

    def close(self):
        self.config.close_transport_if_owned()


class Blocking:
    """Calls a service's coroutine functions on the client's loop."""

    def __init__(self, loop, service):
        self._loop = loop
        self._service = service

    def __getattr__(self, name):
        target = getattr(self._service, name)

        def call(*args, **kwargs):
            result = target(*args, **kwargs)
            if inspect.isawaitable(result):
                return self._loop.run_until_complete(result)
            return Blocking(self._loop, result)  # with_identity

        return call


class AsyncClient:
    handlers = ExecutionHandlers

    def __init__(self, endpoint, **options):
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._connect(endpoint, options))

    async def _connect(self, endpoint, options):
        self.config = ConnectionConfig(
            headers={"X-Request-ID": REQUEST_ID}, request_timeout=datetime.timedelta(seconds=120), **options,
        ).with_transport_if_missing()
        factory = AdapterFactory(self.config)
        self.commands = Blocking(self._loop, factory.create_command_service(endpoint))
        self._files = factory.create_filesystem_service(endpoint)
        self.files = Blocking(self._loop, self._files)
        self.health = Blocking(self._loop, factory.create_health_service(endpoint))
        self.metrics = Blocking(self._loop, factory.create_metrics_service(endpoint))
        codes = CodeFactory(self.config).create_code_execution_service(endpoint)
        self.codes = Blocking(self._loop, codes)

    @staticmethod
    def handler(function):
        async def awaited(event):
            function(event)

        return awaited

    def read_stream(self, path, **options):
        async def collect():
            return [chunk async for chunk in await self._files.read_bytes_stream(path, **options)]

        return self._loop.run_until_complete(collect())

    def close(self):
        self._loop.run_until_complete(self.config.close_transport_if_owned())
        self._loop.close()


KINDS = {"sync": SyncClient, "async": AsyncClient}
