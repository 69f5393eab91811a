"""Fixtures for attacks on credential vaults: web servers with real certificates on the internet of policy_world.py, and a
server whose sandboxes have a vault."""

import json
import os
import pathlib
import select
import signal

import pytest

from attack import attack
from docker_engine import EGRESS_IMAGE, host_layer
from policy_world import ALLOWED, NAME_SERVER, OTHER, PORTS, THIRD, PolicyInternet, record
from prison import ENGINES, Prisoner
from sandboxd_process import Sandboxd
from server_process import Server
from tls_sites import Authority, Site

NETWORK = {"subnet": "10.96.0.0/16", "table": "osb_vault", "interface_prefix": "osbw-"}
BOUND, PLAIN, EVIL = "api.bound.test", "www.plain.test", "evil.plain.test"
PINNED = "pinned.bound.test"  # no name server knows it
PINS = [f"{PINNED}={ALLOWED}"]
POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.bound.test"},
                                              {"action": "allow", "target": "*.plain.test"}]}
SECRET = "s3cret-0123456789-never-seen"
LIST = "/etc/ssl/certs/ca-certificates.crt"


class NativeBackend:
    """sandboxd, whose egress process serves all sandboxes."""

    gateway = "10.96.0.1"

    def __init__(self, trust, rules):
        self.daemon = Sandboxd(settings={"network": NETWORK, "egress": {
            "resolvers": [f"{NAME_SERVER}:53"], "upstream_ca": str(trust), "rules_directory": str(rules), "pins": PINS}})
        self.server_settings = {"secure_runtime": {"type": "gvisor"}} if os.environ.get("BACKEND") == "gvisor" else {}

    def egress_pid(self):
        children = open(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children").read().split()
        return next(int(each) for each in children if "egress" in open(f"/proc/{each}/cmdline").read())

    def kill(self, prisoner, who):
        """The process that holds the values, or the one above it."""
        if who == "outer":
            self.daemon.kill()
            self.daemon.start()
            return
        process = os.pidfd_open(self.egress_pid())
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [])  # until it has ended
        os.close(process)

    def texts(self, prisoner):
        return {"sandboxd's log": self.daemon.log(),
                "the record": (self.daemon.state / "sandboxes" / prisoner.id / "record.json").read_text()}


class EngineBackend:
    """Docker or Podman: a sidecar per sandbox. Bodies are scrubbed here, and not on native. `packages` and `files` of this
    machine are in the image too."""

    def __init__(self, kind, trust, packages, files):
        self.daemon = ENGINES[kind](host_image=False)
        self.daemon.load_egress()
        self.daemon.load("host:latest", [host_layer(("curl", "util-linux", *packages), (LIST, *files))])
        self.server_settings = {"egress": {"image": EGRESS_IMAGE, "dns_upstream": [NAME_SERVER], "upstream_ca": str(trust),
                                          "pins": PINS, "scrub_bodies": True}}

    def sidecar(self, prisoner):
        return self.daemon.ask("GET", f"/containers/sandbox-egress-{prisoner.id}/json")

    def state(self, prisoner):
        """The directory of the sidecar's files."""
        mount, = self.sidecar(prisoner)["Mounts"]
        return pathlib.Path(mount["Source"])

    def kill(self, prisoner, who):
        name = f"sandbox-egress-{prisoner.id}"
        if who == "inner":
            assert self.daemon.kill_children(name) == 1
            return
        with self.daemon.events(type=["container"], event=["start"], container=[name]) as events:
            self.daemon.ask("POST", f"/containers/{name}/kill")
            next(events)

    def texts(self, prisoner):
        logs = self.daemon.client.get(f"/containers/sandbox-egress-{prisoner.id}/logs", params={"stdout": 1, "stderr": 1})
        return {"the engine's log": self.daemon.log(), "the sidecar's log": logs.text,
                "the containers": json.dumps([self.sidecar(prisoner), self.daemon.inspect(prisoner.id)]),
                "the sidecar's files": "".join(each.read_text() for each in self.state(prisoner).iterdir())}


class VaultWalls:
    """A prison as far as Prisoner asks for one. Each name has an address and a site of its own."""

    def __init__(self, directory, packages=(), files=()):
        self.internet = PolicyInternet([port for port in PORTS if port not in (80, 443)])
        self.authority = Authority(directory)
        self.sites = {}
        for name, address in ((BOUND, ALLOWED), (PLAIN, OTHER), (EVIL, THIRD)):
            self.point(name, address)
            self.site(name, address, self.authority.context(name, "other.bound.test", PINNED))
            self.sites["http " + name] = Site(self.internet.pid, "http " + name, address, 80)
        kind = os.environ.get("BACKEND", "native")
        self.backend = EngineBackend(kind, self.authority.file, packages, files) if kind in ENGINES \
            else NativeBackend(self.authority.file, directory)
        self.daemon = self.backend.daemon
        self.server = Server(self.daemon, settings=self.backend.server_settings)

    def point(self, name, address, ttl=0):
        self.internet.names.answers[name] = ([record(name, address, ttl)], [])

    def site(self, name, address, context=None, replaces=None, **options):
        """A site in the place of an older one."""
        if old := self.sites.pop(replaces, None):
            old.shutdown()
            old.server_close()
        self.sites[name] = Site(self.internet.pid, name, address, context=context, **options)

    def take(self, name):
        return self.sites[name].take()

    def create(self, policy=None, **fields):
        """With a vault unless the fields say otherwise."""
        fields = fields or {"credentialProxy": {"enabled": True}}
        return Prisoner(self, self.server.create(networkPolicy=policy or POLICY, **fields)["id"])

    def vault(self, prisoner, method="GET", body=None, expect=None, path=""):
        """The answer of the vault's API, through the server."""
        answer = self.server.client.request(method, f"/v1/sandboxes/{prisoner.id}/credential-vault{path}", json=body)
        wanted = expect or {"POST": 201, "DELETE": 204}.get(method, 200)
        assert answer.status_code == wanted, f"{answer.status_code} {answer.text}\n{self.daemon.log()[-3000:]}"
        return answer.json() if answer.content and answer.status_code < 300 else answer.text

    def fill(self, prisoner, hosts=(BOUND,), value=SECRET, **match):
        """One credential, bound to the hosts."""
        return self.vault(prisoner, "POST", {
            "credentials": [{"name": "key", "source": {"type": "inline", "value": value}}],
            "bindings": [{"name": "api", "match": {"hosts": list(hosts), **match}, "auth": {"type": "bearer",
                                                                                             "credential": "key"}}]})

    def secrets_seen(self, prisoner):
        """Where the secret was written down outside the vault."""
        places = {"the server's log": self.server.log(), **self.backend.texts(prisoner)}
        return [place for place, text in places.items() if SECRET in text]

    def close(self):
        self.server.remove_all()
        self.server.close()
        self.daemon.close()
        for site in self.sites.values():
            site.server_close()
        self.internet.close()


@pytest.fixture(scope="module")
def vaults(tmp_path_factory):
    made = VaultWalls(tmp_path_factory.mktemp("vault"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_holder(vaults):
    made = vaults.create()
    vaults.fill(made)
    return made


@pytest.fixture
def holder(vaults, shared_holder):
    """One sandbox with a filled vault for all attacks that do it no harm. Afterwards no secret is where it must not be."""
    for site in vaults.sites.values():
        site.take()
    yield shared_holder
    assert vaults.secrets_seen(shared_holder) == []
    for name, site in vaults.sites.items():
        if name != BOUND:
            assert SECRET not in str(site.seen), name
    assert get(shared_holder, f"https://{BOUND}/ok")["status"] == 200


# Inside a sandbox.
INSIDE = """
import ssl, urllib.request, urllib.error, http.client

def get(url, headers={}, data=None, method=None, context=None):
    request = urllib.request.Request(url, headers=headers, data=data, method=method)
    try:
        answer = urllib.request.urlopen(request, timeout=60, context=context)
    except urllib.error.HTTPError as error:
        answer = error
    except OSError as error:
        return {'status': 0, 'error': str(error)}
    return {'status': answer.status, 'headers': dict(answer.headers), 'body': answer.read().decode(errors='replace')}

def tls(address, sni, port=443, verify=True):
    context = ssl.create_default_context()
    context.check_hostname = verify
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((address, port), 60), server_hostname=sni)

def send(connection, text):
    '''The whole answer to raw bytes, up to the end of the connection or of its declared body.'''
    connection.sendall(text if isinstance(text, bytes) else text.encode('latin-1'))
    said = b''
    try:
        while True:
            head, _, body = said.partition(b'\\r\\n\\r\\n')
            size = [int(line.split(b':')[1]) for line in head.split(b'\\r\\n') if line.lower().startswith(b'content-length:')]
            if size and len(body) >= size[0]:
                break
            piece = connection.recv(65536)
            if not piece:
                break
            said += piece
    except OSError as error:
        said += b'(' + str(error).encode() + b')'
    return said.decode('latin-1')

def raw(address, sni, text, verify=False):
    try:
        with tls(address, sni, verify=verify) as connection:
            return send(connection, text)
    except OSError as error:
        return 'no connection: ' + str(error)
"""


def inside(prisoner, expression, **values):
    """The value of an expression inside."""
    return attack(prisoner, INSIDE + f"report({expression})", **values)


def get(prisoner, url, **values):
    return inside(prisoner, "get(url, **values)", url=url, values=values)
