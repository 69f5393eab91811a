"""A real TLS client in front of a port that speaks plain HTTP."""

import socket
import ssl
import subprocess


def client_hello():
    """The first bytes that a TLS client sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="sandbox.example")
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("no handshake without a server")


def answer_to_tls(port):
    """All that the port sends back to a ClientHello until it closes. The client keeps its side open, as all do."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        peer.sendall(client_hello())
        answer = b""
        while piece := peer.recv(65536):
            answer += piece
        return answer.decode()


def curl_https(port):
    """(exit code, message) of curl, which gives up by itself only after 20 seconds: code 28."""
    done = subprocess.run(["curl", "--silent", "--show-error", "--insecure", "--max-time", "20", "--noproxy", "*",
                           f"https://127.0.0.1:{port}/"], capture_output=True, text=True)
    return done.returncode, done.stderr
