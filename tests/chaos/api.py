"""HTTP as the clients and the oracle speak it: nothing is repeated behind their back, and a body that breaks off is seen."""

import email.utils
import http.client
import json
import socket
import time
import uuid

KEY_HEADER = "OPEN-SANDBOX-API-KEY"
TOKEN_HEADER = "X-EXECD-ACCESS-TOKEN"
PATIENCE = 90  # seconds without a byte; more is a hang, with any fault


class Lost(Exception):
    """No answer, or half of one. `kind` says how."""

    def __init__(self, kind):
        super().__init__(kind)
        self.kind = kind


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, what, status, text):
        super().__init__(f"{what}: {status} {text[:300]}")
        self.status = status
        try:
            self.code = json.loads(text)["code"]
        except (ValueError, KeyError, TypeError):
            self.code = ""

    @property
    def kind(self):
        return f"{self.status} {self.code}".strip()


class Api:
    """One keep-alive connection. `offset` is how far the server's clock was ahead of ours when it last answered."""

    def __init__(self, port, key, host="127.0.0.1"):
        self.host, self.port = host, port
        self.key = key
        self.offset = 0.0
        self.tokens = {}
        self._connection = None

    def close(self):
        if self._connection:
            self._connection.close()
        self._connection = None

    def open(self, method, path, body=None, headers=None, small_buffer=False):
        """The response, its body still to be read."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            if self._connection.sock is None:
                self._connection.connect()
                if small_buffer:
                    self._connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        except OSError:
            self.close()
            raise Lost("not connected") from None
        try:
            self._connection.request(method, path, body, headers or {})
            response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as failure:
            raise self._lost(failure) from failure
        if date := response.getheader("Date"):
            self.offset = email.utils.parsedate_to_datetime(date).timestamp() - time.time()
        return response

    def _lost(self, failure):
        self.close()
        return Lost("hang" if isinstance(failure, TimeoutError) else "broken off")

    def pieces(self, response, size=65536):
        """The body, as it comes. Lost when it ends before it is complete."""
        left = response.length if not response.chunked else None
        try:
            while True:
                piece = response.read1(size)
                if not piece:
                    break
                if left is not None:
                    left -= len(piece)
                yield piece
        except (OSError, http.client.HTTPException, ValueError) as failure:
            raise self._lost(failure) from failure
        if left:
            self.close()
            raise Lost("broken off")
        response.close()  # the connection is free for the next request
        if response.will_close:
            self.close()

    def request(self, method, path, body=None, headers=None):
        """(status, body). `body` is JSON or bytes."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers = {"Content-Type": "application/json", **(headers or {})}
        response = self.open(method, path, body, headers)
        return response.status, b"".join(self.pieces(response))

    def call(self, method, path, body=None, headers=None, ok=(200, 202, 204)):
        """Of the server's own routes: the JSON, or Refused."""
        status, text = self.request(method, f"/v1{path}", body, {KEY_HEADER: self.key, **(headers or {})})
        if status not in ok:
            raise Refused(f"{method} {path}", status, text.decode(errors="replace"))
        return json.loads(text) if text else None

    def token(self, id):
        if id not in self.tokens:
            self.tokens[id] = self.call("GET", f"/sandboxes/{id}/endpoints/44772")["headers"][TOKEN_HEADER]
        return self.tokens[id]

    def execd(self, id, method, path, body=None, headers=None):
        """Of execd's routes, through the server's proxy: the body, or Refused."""
        status, text = self.request(method, f"/v1/sandboxes/{id}/proxy/44772{path}", body,
                                    {TOKEN_HEADER: self.token(id), **(headers or {})})
        if not 200 <= status < 300:
            raise Refused(f"{method} {path}", status, text.decode(errors="replace"))
        return text

    def run(self, id, command, path="/command", **fields):
        """(exit code, output), or Refused or Lost. A stream without its last event is a Truncated."""
        text = self.execd(id, "POST", path, {"command": command, **fields}).decode()
        events = [json.loads(line) for line in text.split("\n") if line]
        output = "\n".join(event["text"] for event in events if event["type"] in ("stdout", "stderr"))
        last = events[-1] if events else {"type": "nothing"}
        if last["type"] == "execution_complete":
            return 0, output
        if last["type"] == "error":
            return last["error"]["evalue"], output
        raise Truncated(f"{command!r} ended with {last}")

    def upload(self, id, path, content):
        boundary = uuid.uuid4().hex
        head = (f'--{boundary}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n'
                f'Content-Type: application/json\r\n\r\n{json.dumps({"path": path})}\r\n'
                f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n'
                f"Content-Type: application/octet-stream\r\n\r\n").encode()
        self.execd(id, "POST", "/files/upload", head + content + f"\r\n--{boundary}--\r\n".encode(),
                   {"Content-Type": f"multipart/form-data; boundary={boundary}"})

    def download(self, id, path):
        return self.execd(id, "GET", f"/files/download?path={path}")


class Truncated(Exception):
    """A stream that ended in order, but without its last event."""
