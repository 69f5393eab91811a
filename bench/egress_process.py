"""opensandbox-egress --host as the parts measure it: a process on a core of its own, with sandboxd's end of its link here."""

import array
import http.client
import json
import socket
import struct
import subprocess
import threading

SO_RCVBUFFORCE = 33
NOBODY = 65534


class EgressProcess:
    """Answers and intercepts on `address`. What it asks of sandboxd is granted."""

    def __init__(self, program, *, core, address="127.0.0.1", intercept_port=0):
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        udp.bind((address, 0))
        tcp, intercept = (socket.create_server((address, port), backlog=1024) for port in (0, intercept_port))
        sockets = {"link": theirs, "udp": udp, "tcp": tcp, "intercept": intercept}
        words = ["--host", *(word for name, each in sockets.items() for word in (f"--{name}-fd", str(each.fileno())))]
        self.process = subprocess.Popen(["taskset", "-c", str(core), program, *words], user=NOBODY, group=NOBODY,
                                        extra_groups=[], pass_fds=[each.fileno() for each in sockets.values()],
                                        stderr=subprocess.DEVNULL)
        self.pid, self.port = self.process.pid, udp.getsockname()[1]
        for each in sockets.values():
            each.close()
        self._sending = threading.Lock()
        assert self._read() == {"type": "ready"}
        threading.Thread(target=self._grant, daemon=True).start()

    def send(self, message, socket_to_give=None):
        body = json.dumps(message).encode()
        with self._sending:
            if socket_to_give is None:
                return self.link.sendall(struct.pack("<I", len(body)) + body)
            descriptors = array.array("i", [socket_to_give.fileno()])
            self.link.sendmsg([struct.pack("<I", len(body) | 1 << 31) + body],
                              [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])

    def ask(self, sandbox, token, method, path, body=None):
        """The JSON that the API of a sandbox answers."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.send({"type": "connection", "id": sandbox}, theirs)
        theirs.close()
        connection = http.client.HTTPConnection("egress")
        connection.sock = ours
        connection.request(method, path, json.dumps(body), {"OPENSANDBOX-EGRESS-AUTH": token})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
        return json.loads(text)

    def close(self):
        self.link.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
        self.process.wait(10)
        self.link.close()

    def _grant(self):
        try:
            while message := self._read():
                # It asks with the revision that it knows, if it changes a policy by the next one.
                self.send({"type": "answer", "seq": message["seq"], "revision": message.get("revision", 1)})
        except OSError:
            pass

    def _read(self):
        head = self._exactly(4)
        return json.loads(self._exactly(struct.unpack("<I", head)[0])) if head else None

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.link.recv(count - len(data))
            if not piece:
                return b""
            data += piece
        return data
