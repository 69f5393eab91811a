"""Web servers with certificates of an authority of their own, in this network namespace or in that of another process."""

import contextlib
import ctypes
import http.server
import socket
import ssl
import subprocess
import threading

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority: its certificate is `file`."""

    def __init__(self, directory):
        self.directory, self.count = directory, 0
        self.file, self.key = directory / "authority.pem", directory / "authority-key.pem"
        openssl("req", "-x509", *EC, "-days", 30, "-subj", "/CN=an authority of the internet", "-keyout", self.key, "-out",
                self.file)

    def context(self, *names, days=30, by_itself=False):
        """For a server of these names. `days` below zero: the certificate has expired."""
        self.count += 1
        place = self.directory / f"site-{self.count}"
        place.mkdir()
        key, chain, extensions = place / "key.pem", place / "chain.pem", place / "extensions"
        names_text = "subjectAltName=" + ",".join(f"DNS:{name}" for name in names)
        if by_itself:
            openssl("req", "-x509", *EC, "-days", days, "-subj", f"/CN={names[0]}", "-addext", names_text, "-keyout", key,
                    "-out", chain)
        else:
            extensions.write_text(names_text)
            openssl("req", *EC, "-subj", f"/CN={names[0]}", "-keyout", key, "-out", place / "request")
            openssl("x509", "-req", "-days", days, "-in", place / "request", "-CA", self.file, "-CAkey", self.key,
                    "-CAcreateserial", "-extfile", extensions, "-out", chain)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, key)
        context.der = ssl.PEM_cert_to_DER_cert(chain.read_text()).hex()
        return context


@contextlib.contextmanager
def in_network_of(pid):
    """This thread makes sockets in the network namespace of that process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as own, open(f"/proc/{pid}/ns/net") as other:
        assert libc.setns(other.fileno(), 0) == 0
        try:
            yield
        finally:
            assert libc.setns(own.fileno(), 0) == 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append({"method": self.command, "path": self.path, "body": body.decode(),
                                 "headers": {name.lower(): value for name, value in self.headers.items()}})
        given = self.headers.get("Authorization", "")
        moved = self.path.startswith("/to/")
        text = f"here is {self.server.label}".encode()
        self.send_response(302 if moved else 200)
        if moved:
            self.send_header("Location", f"https://{self.path[4:]}/landed")
        self.send_header("X-Echo", given)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


class Site(http.server.ThreadingHTTPServer):
    """A web server on the internet; `seen` has its requests."""

    daemon_threads = True

    def __init__(self, pid, label, address, port=443, context=None):
        self.label, self.context, self.seen = label, context, []
        super().__init__((address, port), Handler, bind_and_activate=False)
        self.socket.close()
        with in_network_of(pid) if pid else contextlib.nullcontext():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.server_bind()
        self.server_activate()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def server_bind(self):
        # Without asking for the name of the address.
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.server_address

    def finish_request(self, request, client_address):
        with contextlib.suppress(OSError):
            if self.context:
                request = self.context.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)

    def handle_error(self, *_):
        pass

    def take(self):
        """All requests so far; the list is empty then."""
        seen, self.seen = self.seen, []
        return seen
