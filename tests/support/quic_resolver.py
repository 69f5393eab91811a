"""A resolver over QUIC (RFC 9250) that asks a plain name server: quic_resolver.py UPSTREAM CERTIFICATE KEY ADDRESS:PORT..."""

import asyncio
import socket
import struct
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived


class Resolver(QuicConnectionProtocol):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.questions, self.tasks = {}, set()

    def quic_event_received(self, event):
        if not isinstance(event, StreamDataReceived):
            return
        text = self.questions.pop(event.stream_id, b"") + event.data
        if not event.end_stream:
            self.questions[event.stream_id] = text
            return
        task = asyncio.ensure_future(self._answer(event.stream_id, text[2:]))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, stream, question):
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.setblocking(False)
            asker.connect((sys.argv[1], 53))
            await loop.sock_sendall(asker, question)
            answer = await loop.sock_recv(asker, 65536)
        self._quic.send_stream_data(stream, struct.pack("!H", len(answer)) + answer, end_stream=True)
        self.transmit()


async def main():
    settings = QuicConfiguration(alpn_protocols=["doq"], is_client=False)
    settings.load_cert_chain(sys.argv[2], sys.argv[3])
    loop = asyncio.get_running_loop()
    for place in sys.argv[4:]:
        address, port = place.split(":")
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # beside a server of all addresses
        listener.setblocking(False)
        listener.bind((address, int(port)))
        await loop.create_datagram_endpoint(lambda: QuicServer(configuration=settings, create_protocol=Resolver), sock=listener)
    print("listening", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
