"""A way to the server that breaks when a test says so."""

import socket
import threading


class CuttingProxy:
    """Forwards to a local port. cut() breaks all connections that are open; while `refuse` is set new ones end at once."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.domain = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.open = []
        self.refuse = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.refuse:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.port))
            except OSError:  # it does not listen yet
                client.close()
                continue
            self.open += [client, server]
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(a, b), daemon=True).start()

    @staticmethod
    def _copy(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        for each in self.open:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.open.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()
