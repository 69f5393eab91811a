"""Resolvers of "the internet" that answer over TLS and HTTPS (dnsdist) and over QUIC, and what asks them from inside a sandbox.
All of them resolve every name below evil.test."""

import pathlib
import socket
import ssl
import subprocess
import sys

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamDataReceived

from name_server import Answer, question
from policy_walls import said
from policy_world import ALLOWED, ENCRYPTED, INSIDE, OTHER, Names, record
from tls_sites import Authority

QUIC_RESOLVER = pathlib.Path(__file__).resolve().parents[2] / "support" / "quic_resolver.py"
NAME = "dns.test"
PLACES = {"tls": [(ENCRYPTED, 853), (ENCRYPTED, 8853), (ALLOWED, 853), (OTHER, 53)],
          "https": [(ENCRYPTED, 443), (ENCRYPTED, 8443)],
          "quic": [(ENCRYPTED, 853), (ENCRYPTED, 443), (ALLOWED, 853)]}


class EncryptedResolvers:
    def __init__(self, internet, directory):
        # It has all questions of those that are encrypted.
        self.names = Names(internet, ENCRYPTED)
        self.names.answers["*.evil.test"] = lambda name: ([record(name, OTHER)], [])
        certificate, key = Authority(directory).files(NAME)
        inside = ["nsenter", "-t", str(internet.pid), "-n"]
        self.processes, self.log = [], directory / "dnsdist.log"
        self._start_dnsdist(inside, directory, certificate, key)
        quic = subprocess.Popen([*inside, sys.executable, "-B", QUIC_RESOLVER, ENCRYPTED, certificate, key,
                                 *(f"{address}:{port}" for address, port in PLACES["quic"])], stdout=subprocess.PIPE, text=True)
        self.processes.append(quic)
        assert quic.stdout.readline() == "listening\n"

    def _start_dnsdist(self, inside, directory, certificate, key):
        lines = ['setLocal("127.0.0.1:5399")', 'setACL({"0.0.0.0/0"})', 'setSecurityPollSuffix("")',
                 f'newServer({{address="{ENCRYPTED}:53", healthCheckMode="up"}})']
        lines += [f'addTLSLocal("{address}:{port}", "{certificate}", "{key}", {{reusePort=true}})'
                  for address, port in PLACES["tls"]]
        lines += [f'addDOHLocal("{address}:{port}", "{certificate}", "{key}", "/dns-query", {{reusePort=true}})'
                  for address, port in PLACES["https"]]
        settings, notify = directory / "dnsdist.conf", directory / "notify"
        settings.write_text("\n".join(lines))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, open(self.log, "wb") as log:
            ready.bind(str(notify))
            ready.settimeout(60)
            self.processes.append(subprocess.Popen(
                [*inside, "dnsdist", "--supervised", "--disable-syslog", "--config", settings], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env={"PATH": "/usr/bin:/usr/sbin:/bin", "NOTIFY_SOCKET": str(notify)}))
            try:
                while b"READY=1" not in ready.recv(4096):
                    pass
            except TimeoutError:
                raise AssertionError(self.log.read_text()) from None

    def close(self):
        self.names.close()
        for each in self.processes:
            each.kill()
            each.wait()


# Inside.
ASK = """
import ssl

def exchange_by_tls(server, port, text, timeout, until):
    '''The answer, or the name of the error.'''
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((server, port), timeout) as plain, context.wrap_socket(plain) as secret:
            secret.sendall(text)
            answer = b''
            while not until(answer):
                piece = secret.recv(65536)
                if not piece:
                    break
                answer += piece
            return answer
    except TimeoutError:
        return 'timeout'
    except ssl.SSLError as error:
        return error.reason or 'TLS ended'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))

def resolve_by_tls(name, server, port, timeout):
    message = question(name)
    whole = lambda answer: len(answer) > 2 and len(answer) == 2 + struct.unpack('!H', answer[:2])[0]
    answer = exchange_by_tls(server, port, struct.pack('!H', len(message)) + message, timeout, whole)
    return answer if isinstance(answer, str) else addresses(answer[2:])

def resolve_by_https(name, server, port, timeout):
    message = question(name)
    head = ('POST /dns-query HTTP/1.1\\r\\nHost: dns.test\\r\\nContent-Type: application/dns-message\\r\\n'
            f'Accept: application/dns-message\\r\\nContent-Length: {len(message)}\\r\\nConnection: close\\r\\n\\r\\n')
    answer = exchange_by_tls(server, port, head.encode() + message, timeout, lambda answer: False)
    return answer if isinstance(answer, str) else addresses(answer.partition(b'\\r\\n\\r\\n')[2])

def fly(server, port, source, datagrams, timeout):
    '''Sends datagrams from that port. Those that come back, or the name of the error.'''
    got = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flyer:
        flyer.bind(('0.0.0.0', source))
        try:
            flyer.connect((server, port))
            for each in datagrams:
                flyer.send(bytes.fromhex(each))
            flyer.settimeout(timeout)
            while True:
                got.append(flyer.recv(65536).hex())
                flyer.settimeout(0.3)
        except TimeoutError:
            return got or 'timeout'
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))
"""


def resolve_by_quic(prisoner, name, server, port, timeout):
    """[response code, addresses], or the name of the error. The handshake is done out here and its datagrams are sent and
    received inside, where no library for QUIC is. Its clock is our own: what is lost is sent again at once."""
    resolve_by_quic.source += 1
    connection = QuicConnection(configuration=QuicConfiguration(alpn_protocols=["doq"], is_client=True, server_name=NAME,
                                                                verify_mode=ssl.CERT_NONE))
    now, answer = 1.0, b""
    connection.connect((server, port), now=now)
    for _ in range(20):
        datagrams = [data.hex() for data, _ in connection.datagrams_to_send(now=now)]
        if not datagrams:
            now = connection.get_timer() or now
            connection.handle_timer(now=now)
            continue
        got = said(prisoner, "fly(server, port, source, datagrams, timeout)", INSIDE + ASK, server=server, port=port,
                   source=resolve_by_quic.source, datagrams=datagrams, timeout=timeout)
        if isinstance(got, str):
            return got
        now += 0.01
        for each in got:
            connection.receive_datagram(bytes.fromhex(each), (server, port), now=now)
        while event := connection.next_event():
            assert not isinstance(event, ConnectionTerminated), event
            if isinstance(event, HandshakeCompleted):
                message = question(name, number=0)
                connection.send_stream_data(0, len(message).to_bytes(2, "big") + message, end_stream=True)
            if isinstance(event, StreamDataReceived):
                answer += event.data
                if event.end_stream:
                    whole = Answer(answer[2:])
                    return [whole.rcode, whole.addresses]
    raise AssertionError("the resolver answers, but not to the question")


resolve_by_quic.source = 40000
