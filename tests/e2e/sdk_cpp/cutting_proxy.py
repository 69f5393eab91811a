"""A TCP proxy that cuts connections at chosen bytes of an answer."""

import asyncio
import threading


class CuttingProxy:
    """Forwards to `port` on loopback. `plan(request)` gets every piece that clients send and says after how many bytes
    of the answer the connection is cut; None leaves it alone. Cuts are counted, and end in a reset or in an orderly
    end by turns.
    """

    def __init__(self, port, plan):
        self.target = port
        self.plan = plan
        self.cuts = 0
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    async def _serve(self, reader, writer):
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        state = {"budget": None}

        async def requests():
            while data := await reader.read(65536):
                budget = self.plan(data)
                if budget is not None:
                    state["budget"] = budget
                up_writer.write(data)
                await up_writer.drain()
            up_writer.close()

        async def answers():
            while data := await up_reader.read(65536):
                budget = state["budget"]
                if budget is not None and len(data) >= budget:
                    writer.write(data[:budget])
                    self.cuts += 1
                    if self.cuts % 2:
                        await writer.drain()
                        writer.close()
                    else:
                        writer.transport.abort()
                    up_writer.transport.abort()
                    return
                if budget is not None:
                    state["budget"] = budget - len(data)
                writer.write(data)
                await writer.drain()
            writer.close()

        await asyncio.gather(requests(), answers(), return_exceptions=True)
