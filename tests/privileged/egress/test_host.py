"""opensandbox-egress --host as a program: its descriptors, its link and its end."""

import array
import json
import os
import shutil
import socket
import struct
import subprocess

import pytest
from name_server import Answer, NameServer, ask_by_tcp, question

BINARY = os.environ["EGRESS_BINARY"]


class Link:
    """sandboxd's end."""

    def __init__(self, end):
        self.end = end
        self.end.settimeout(30)

    def send(self, message, fd=None):
        body = json.dumps(message).encode()
        if fd is None:
            self.end.sendall(struct.pack("<I", len(body)) + body)
            return
        frame = struct.pack("<I", len(body) | 1 << 31) + body
        self.end.sendmsg([frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])

    def read(self):
        size = struct.unpack("<I", self.exactly(4))[0]
        return json.loads(self.exactly(size))

    def exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.end.recv(count - len(data))
            assert piece, "the link ended"
            data += piece
        return data


@pytest.fixture
def host(tmp_path_factory):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    tcp = socket.create_server(("127.0.0.1", 0))
    intercept = socket.create_server(("127.0.0.1", 0))
    words = ["--host", "--link-fd", str(theirs.fileno()), "--udp-fd", str(udp.fileno()), "--tcp-fd", str(tcp.fileno()),
             "--intercept-fd", str(intercept.fileno())]
    # Nobody, without any capability. The build directory may be closed to him.
    program = tmp_path_factory.mktemp("open") / "opensandbox-egress"
    shutil.copy(BINARY, program)
    for directory in (program.parent, program.parent.parent):
        directory.chmod(0o755)
    given = [theirs, udp, tcp, intercept]
    process = subprocess.Popen([program, *words], pass_fds=[each.fileno() for each in given], user=65534, group=65534,
                               extra_groups=[], stderr=subprocess.DEVNULL)
    port, tcp_port = udp.getsockname()[1], tcp.getsockname()[1]
    for each in given:
        each.close()
    link = Link(ours)
    assert link.read() == {"type": "ready"}
    yield process, link, port, tcp_port
    ours.close()
    process.kill()
    process.wait(30)


def test_a_question_is_answered_after_sandboxd_has_opened_its_address(host):
    process, link, port, tcp_port = host
    names = NameServer("127.0.0.1", port=5553)
    names.add("www.example.com", "93.184.216.34", ttl=20)
    link.send({"type": "hello", "resolvers": ["127.0.0.1:5553"], "maxAddresses": 4096})
    link.send({"type": "sandbox", "id": "a", "address": "127.0.0.1", "revision": 3, "token": "secret",
               "policy": {"egress": [{"action": "allow", "target": "www.example.com"}]}})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(30)
        asker.connect(("127.0.0.1", port))
        asker.send(question("www.example.com"))
        opened = link.read()
        assert opened == {"type": "open", "seq": opened["seq"], "id": "a", "revision": 3,
                          "addresses": [{"address": "93.184.216.34", "seconds": 80, "name": "www.example.com"}]}
        link.send({"type": "answer", "seq": opened["seq"], "revision": 3})
        assert Answer(asker.recv(4096)).addresses == ["93.184.216.34"]
    # Over TCP, and to the name server too.
    names.add("big.example.com", *[f"93.184.217.{i}" for i in range(1, 80)])
    names.truncate.add("big.example.com")
    link.send({"type": "sandbox", "id": "a", "address": "127.0.0.1", "revision": 4, "token": "secret",
               "policy": {"defaultAction": "allow", "egress": [{"action": "deny", "target": "www.example.com"}]}})
    assert len(ask_by_tcp("127.0.0.1", "big.example.com", port=tcp_port).addresses) == 79
    names.close()

    # The API over a connection that sandboxd hands over.
    client, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    link.send({"type": "connection", "id": "a"}, server.fileno())
    server.close()
    client.settimeout(30)
    client.sendall(b"GET /policy HTTP/1.1\r\nHost: x\r\nConnection: close\r\nOPENSANDBOX-EGRESS-AUTH: secret\r\n\r\n")
    text = b""
    while piece := client.recv(4096):
        text += piece
    assert text.startswith(b"HTTP/1.1 200 ") and b"www.example.com" in text
    assert process.poll() is None
    with open(f"/proc/{process.pid}/status") as status:
        facts = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
    assert int(facts["CapEff"], 16) == 0 and facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2"


def test_the_end_of_the_link_ends_the_program(host):
    process, link, *_ = host
    link.end.shutdown(socket.SHUT_RDWR)
    assert process.wait(30) == 0


def test_a_broken_link_ends_the_program_with_an_error(host):
    process, link, *_ = host
    link.end.sendall(struct.pack("<I", 5) + b"hello")
    assert process.wait(30) == 1


@pytest.mark.parametrize("words", [["--host"], ["--host", "--link-fd", "99", "--udp-fd", "4", "--tcp-fd", "5"], ["--what"],
                                   ["--host", "--link-fd"]])
def test_wrong_options_are_refused(words):
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and "usage:" in done.stderr


def test_help_and_version():
    for word, text in (("--help", "usage: opensandbox-egress"), ("--version", "opensandbox-egress ")):
        assert subprocess.run([BINARY, word], capture_output=True, text=True, check=True).stdout.startswith(text)
