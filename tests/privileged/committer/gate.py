"""A Unix socket between the program and containerd, which knows where calls of HTTP/2 begin and end."""

import contextlib
import socket
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, END_STREAM = 0, 1


class Gate:
    """`on_call(n)` runs when the n-th request (from 1) has been passed on whole, and before anything that containerd sends
    from then on is. If it returns False nothing more is passed in either direction."""

    def __init__(self, path, target, on_call=lambda number: True):
        self.path, self.target, self.on_call, self.calls = path, str(target), on_call, 0
        self._answers = threading.Lock()
        self._shut = False
        self._sockets = []
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads = []
        self._spawn(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (*self._sockets, self._listener):
            each.close()

    def _spawn(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._sockets += [client, server]
                try:
                    server.connect(self.target)
                except OSError:
                    client.shutdown(socket.SHUT_RDWR)
                    continue
                self._spawn(self._requests, client, server)
                self._spawn(self._answer, client, server)

    def _requests(self, client, server):
        with contextlib.suppress(OSError):
            rest = b""
            while piece := client.recv(65536):
                rest += piece
                if rest.startswith(PREFACE):
                    self._pass(server, rest[:len(PREFACE)])
                    rest = rest[len(PREFACE):]
                while len(rest) >= 9 and len(rest) >= (size := 9 + int.from_bytes(rest[:3])):
                    frame, rest = rest[:size], rest[size:]
                    if frame[3] == DATA and frame[4] & END_STREAM:
                        with self._answers:
                            self._pass(server, frame)
                            self.calls += 1
                            self._shut = self._shut or not self.on_call(self.calls)
                    else:
                        self._pass(server, frame)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _pass(self, to, data):
        if not self._shut:
            to.sendall(data)

    def _answer(self, client, server):
        with contextlib.suppress(OSError):
            while piece := server.recv(65536):
                with self._answers:
                    self._pass(client, piece)
        with contextlib.suppress(OSError):
            if not self._shut:
                client.shutdown(socket.SHUT_RDWR)
