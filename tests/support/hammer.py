"""Connects to an address again and again while its sandbox ends. An unanswered connect ends with PATIENCE."""

import os
import socket
import threading

EXECD, NOBODY = 44772, 9
PATIENCE = 60  # far more than a loaded machine needs for an answer


def connect(address, port):
    """How a connect ends, and its socket if it is connected."""
    try:
        return "connected", socket.create_connection((address, port), PATIENCE)
    except TimeoutError:
        return "timeout", None
    except OSError as error:
        return type(error).__name__ if isinstance(error, ConnectionError) else os.strerror(error.errno), None


def how_it_ends(connection):
    """Of a client that says something, as clients do: one that only listens cannot know that its peer has vanished."""
    with connection:
        try:
            connection.sendall(b"x")
            while connection.recv(4096):
                pass
        except TimeoutError:
            return "timeout"
        except ConnectionError:
            pass
        return "closed"


class Hammer:
    """Threads that connect to an address again and again, from before its sandbox ends until it is certainly gone."""

    def __init__(self, address):
        self.address = address
        self.outcomes = {}
        self.open = []
        self.removed = threading.Event()
        self.connected = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(port,)) for port in (EXECD, EXECD, NOBODY)]
        for thread in self.threads:
            thread.start()
        assert self.connected.wait(60)

    def run(self, port):
        kept = []
        left = 200  # after the removal: the kernel frees namespaces and interfaces in its own time
        while left > 0:
            if self.removed.is_set():
                left -= 1
            outcome, connection = connect(self.address, port)
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            if outcome == "timeout":
                return
            if connection:
                self.connected.set()
                kept.append(connection)
                if len(kept) > 20:
                    kept.pop(0).close()
        self.open += kept

    def finish(self):
        self.removed.set()
        for thread in self.threads:
            thread.join()
        ends = {how_it_ends(connection) for connection in self.open}
        # A connection that is made and ended while its client is being told of it is a broken pipe to the client.
        assert set(self.outcomes) <= {"connected", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError",
                                      "ConnectionAbortedError"}, self.outcomes
        assert ends <= {"closed"}, ends
        return self.outcomes
