"""Web servers with certificates of an authority of their own, in this network namespace or in that of another process."""

import base64
import contextlib
import ctypes
import http.server
import socket
import ssl
import subprocess
import threading
import urllib.parse

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

    def files(self, *names, days=30, by_itself=False):
        """Certificate and key of a server of these names. `days` below zero: the certificate has expired."""
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
        return chain, key

    def context(self, *names, **options):
        """The same for a server of Python's."""
        chain, key = self.files(*names, **options)
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

    def note(self):
        """The body of the request, which the site remembers."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append({"method": self.command, "path": self.path, "body": body.decode("latin-1"),
                                 "headers": {name.lower(): value for name, value in self.headers.items()}})
        return body

    def echo(self, given):
        """An error page with the secret in its body, in several forms and spread over chunks, and in a trailer."""
        secret = given.removeprefix("Bearer ")
        encoded = base64.b64encode(f"x{secret}y".encode()).decode()
        text = f"{secret} {encoded} {urllib.parse.quote(secret, safe='')}".encode()
        self.send_response(500)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "X-Last")
        self.end_headers()
        half = len(secret) // 2
        for piece in (text[:half], text[half:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(f"0\r\nX-Last: {given}\r\n\r\n".encode())

    def answer(self):
        self.note()
        given = self.headers.get("Authorization", "")
        if self.path == "/echo":
            return self.echo(given)
        moved = self.path.startswith("/to/")
        text = self.server.files.get(self.path) or f"here is {self.server.label}".encode()
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


class GitHandler(Handler):
    """The repositories below the site's `root`, by git's own program, for requests with the site's `wanted` Authorization."""

    def answer(self):
        body = self.note()
        if self.headers.get("Authorization") != self.server.wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        path, _, query = self.path.partition("?")
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, check=True, env={
            "PATH": "/usr/bin:/bin", "GIT_PROJECT_ROOT": str(self.server.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "REMOTE_USER": "bot", "REMOTE_ADDR": "192.0.2.1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*"})
        head, _, text = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        self.send_response(int(dict(fields).get("Status", "200").split()[0]))
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer


class Site(http.server.ThreadingHTTPServer):
    """A web server on the internet; `seen` has its requests. `files` are paths with contents of their own."""

    daemon_threads = True

    def __init__(self, pid, label, address, port=443, context=None, handler=Handler):
        self.label, self.context, self.seen, self.files = label, context, [], {}
        super().__init__((address, port), handler, bind_and_activate=False)
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
