"""Servers that say what a test makes up, for what no real one would."""

import contextlib
import http.server
import json
import threading


class StubHandler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body, kind="application/json"):
        """`body`: bytes, or what becomes JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(handler):
    """Its address, as `host:port`."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
