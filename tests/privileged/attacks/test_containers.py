"""Containers of a plain engine: its defaults, and what the server adds to them."""

import json
import os
import shutil
import socket
import subprocess

import pytest

from attack import attack, attack_each_way, number_of

pytestmark = [pytest.mark.wall("Containers", second="the engine's seccomp profile, and AppArmor where the kernel has it"),
              pytest.mark.attack(on="docker")]

#  "open", or the reason why not.
REACH = """
def reach(host, port):
    with socket.socket() as s:
        s.settimeout(3)
        try:
            s.connect((host, port))
            return 'open'
        except OSError as error:
            return errno.errorcode.get(error.errno, 'timeout') if error.errno else 'timeout'
"""


@pytest.fixture
def neighbour(prison):
    return prison.create()


def published(prisoner):
    """(address, port) of its execd on the host."""
    ports = prisoner.prison.daemon.inspect(prisoner.id)["NetworkSettings"]["Ports"]["44772/tcp"]
    return ports[0]["HostIp"], int(ports[0]["HostPort"])


def gateway(prisoner):
    networks = prisoner.prison.daemon.inspect(prisoner.id)["NetworkSettings"]["Networks"]
    return next(each["Gateway"] for each in networks.values())


def test_a_neighbour_is_not_reached(prisoner, neighbour):
    with socket.create_connection((neighbour.address, 44772), 10):
        pass  # from the host it is
    assert attack(prisoner, REACH + "report(reach(address, 44772))", address=neighbour.address) != "open"


def test_a_neighbour_that_waits_for_the_call_is_not_reached(prisoner, neighbour):
    """Both sides work together: nothing leaks between tenants by agreement either."""
    answer = ("import socket; u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('0.0.0.0', 4711)); "
              "t = socket.create_server(('0.0.0.0', 4711)); got, peer = u.recvfrom(10); u.sendto(b'heard', peer); t.accept()")
    neighbour.run(f'python3 -c "{answer}"', background=True)
    program = REACH + """
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(3)
        s.connect((address, 4711))
        s.send(b'x')
        try:
            return s.recv(10).decode()
        except OSError:
            return 'silence'
report([reach(address, 4711), datagram()])
"""
    said = attack(prisoner, program, address=neighbour.address)
    assert said[0] != "open" and said[1] == "silence", said


def test_a_neighbour_is_not_reached_by_its_name(prisoner, neighbour):
    program = REACH + """
try:
    address = socket.gethostbyname(name)
except OSError:
    address = None
report(reach(address, 44772) if address else 'no such name')
"""
    assert attack(prisoner, program, name=f"sandbox-{neighbour.id}") != "open"


def test_a_published_port_of_a_neighbour_is_not_reached(prisoner, neighbour):
    host, port = published(neighbour)
    assert host == "127.0.0.1", "the server listens on loopback"
    with socket.create_connection((host, port), 10):
        pass  # the server's clients do
    said = attack(prisoner, REACH + "report([reach(each, port) for each in hosts])", port=port,
                  hosts=[gateway(prisoner), "127.0.0.1", "172.17.0.1"])
    assert "open" not in said, said


@pytest.mark.parametrize("family, kind, protocol", [("AF_INET", "SOCK_RAW", 1), ("AF_INET", "SOCK_RAW", 255),
                                                    ("AF_PACKET", "SOCK_RAW", 768), ("AF_PACKET", "SOCK_DGRAM", 768)])
def test_packets_are_not_forged(prisoner, family, kind, protocol):
    program = "report(attempt(lambda: socket.socket(getattr(socket, family), getattr(socket, kind), protocol).fileno()))"
    assert attack(prisoner, program, family=family, kind=kind, protocol=protocol) == "EPERM"


@pytest.mark.parametrize("kind", ("S_IFBLK", "S_IFCHR"))
def test_a_device_node_is_not_made(prisoner, kind):
    program = "import stat\nreport(attempt(lambda: os.mknod('/tmp/node', getattr(stat, kind) | 0o600, os.makedev(1, 1))))"
    assert attack(prisoner, program, kind=kind) == "EPERM"
    assert attack(prisoner, "os.mkfifo('/tmp/fifo'); os.unlink('/tmp/fifo'); report('made')") == "made"


@pytest.mark.parametrize("arguments", [["none", "/mnt", "tmpfs"], ["proc", "/mnt", "proc"], ["/dev/vda", "/mnt", "ext4"],
                                       ["cgroup", "/mnt", "cgroup"]])
def test_a_file_system_is_not_mounted(prisoner, arguments):
    program = """
os.makedirs('/mnt', exist_ok=True)
source, target, kind = (ctypes.c_char_p(each.encode()) for each in arguments)
report(syscall(number, source, target, kind, 0, 0))
"""
    assert attack(prisoner, program, arguments=arguments, number=number_of("mount")) in ("EPERM", "EACCES")


def test_a_setuid_program_gains_nothing(prisoner):
    program = """
import shutil, subprocess, sys
shutil.copy(os.path.realpath(sys.executable), '/tmp/gain')
os.chmod('/tmp/gain', 0o4755)
def drop():
    os.setgid(65534)
    os.setuid(65534)
said = subprocess.run(['/tmp/gain', '-c', 'import os; print(os.geteuid())'], preexec_fn=drop, capture_output=True, text=True)
report([said.stdout.strip(), said.stderr[-200:]])
"""
    assert attack(prisoner, program)[0] == "65534"


SWITCHES = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory",
            "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/proc/sys/net/ipv4/ip_forward")
VIEWS = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats")


@pytest.mark.parametrize("path", SWITCHES)
def test_a_switch_of_the_kernel_is_not_turned(prisoner, path):
    got = attack_each_way(prisoner, "def do(path): return opened(path, os.O_WRONLY)", {path: {"path": path} for path in SWITCHES})
    assert got[path] in ("EROFS", "EACCES", "EPERM", "ENOENT")


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_of_the_kernel_is_not_read(prisoner, path):
    got = attack_each_way(prisoner, "def do(path): return open(path, 'rb').read(64).hex()", {path: {"path": path} for path in VIEWS})
    assert got[path] in ("", "ENOENT", "EACCES", "EPERM", "EIO")


def test_the_memory_of_the_host_is_not_opened(prisoner):
    said = attack(prisoner, "report([opened(each, os.O_RDWR) for each in ('/dev/mem', '/dev/kmsg', '/dev/vda', '/dev/sda')])")
    assert set(said) <= {"ENOENT", "EPERM", "EACCES"}, said


def test_capabilities_are_those_that_are_left(prisoner):
    """None of those that the server drops, and none that the engine does not give in the first place."""
    program = "report([line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapBnd', 'CapEff', 'NoNewPrivs'))])"
    effective, bounding, no_new = attack(prisoner, program)
    #  chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, sys_chroot, setfcap
    most = sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31))
    assert int(effective, 16) & ~most == 0 and int(bounding, 16) & ~most == 0
    assert no_new == "1"


def test_a_fork_bomb_ends_at_the_limit(prison):
    bomber = prison.create(resourceLimits={"pids": "64"})
    program = """
children = []
try:
    for _ in range(400):
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
    said = 'no limit'
except OSError as error:
    said = errno.errorcode[error.errno]
for child in children:
    os.kill(child, 9)
report([said, len(children)])
"""
    said, forked = attack(bomber, program)
    assert said == "EAGAIN" and forked < 64


def test_every_sandbox_has_a_limit_on_processes(prisoner):
    limit = prisoner.prison.daemon.inspect(prisoner.id)["HostConfig"]["PidsLimit"]
    assert 0 < limit <= 4096, limit


@pytest.mark.attack(on="docker", holds_on_podman=False)  # each sandbox has a network of its own name there
def test_a_restored_sandbox_has_the_same_walls(prison, neighbour):
    """A snapshot's image carries settings of its source, and must not carry weaker ones."""
    snapshot = prison.server.client.post(f"/v1/sandboxes/{neighbour.id}/snapshots").json()
    made = prison.server.client.get(f"/v1/snapshots/{snapshot['id']}", params={"wait": 60}).json()
    assert made["status"]["state"] == "Ready", made
    restored = prison.create(snapshotId=snapshot["id"], image=None)
    config = prison.daemon.inspect(restored.id)["HostConfig"]
    assert config["NetworkMode"] == "opensandbox-isolated", json.dumps(config)
    assert "no-new-privileges:true" in config["SecurityOpt"] and "SYS_ADMIN" in " ".join(config["CapDrop"])
    assert attack(restored, REACH + "report(reach(address, 44772))", address=neighbour.address) != "open"


#  Each leaves a program in /data that gives its user the rights of root, or of any group: `give` is its mode.
SET_ID = {
    "chmod": "syscall(calls['chmod'], name, give)",
    "fchmod": "syscall(calls['fchmod'], os.open(name, os.O_RDONLY), give)",
    "fchmodat": "syscall(calls['fchmodat'], -100, name, give)",
    "fchmodat2": "syscall(452, -100, name, give, 0)",
    "a mode with bits above": "syscall(calls['chmod'], name, give | 1 << 40)",
    "open": "syscall(calls['open'], b'/data/made', os.O_CREAT | os.O_WRONLY, give)",
    "openat": "syscall(calls['openat'], -100, b'/data/made', os.O_CREAT | os.O_WRONLY, give)",
    "openat2": "syscall(437, -100, b'/data/made', struct.pack('=QQQ', os.O_CREAT | os.O_WRONLY, give, 0), 24)",
    "a file without a name": "syscall(calls['openat'], -100, b'/data', os.O_TMPFILE | os.O_WRONLY, give)",
    "creat": "syscall(calls['creat'], b'/data/made', give)",
    "mknod": "syscall(calls['mknod'], b'/data/made', 0o100000 | give, 0)",
    "mknodat": "syscall(calls['mknodat'], -100, b'/data/made', 0o100000 | give, 0)",
    "io_uring, which no filter sees": "syscall(425, 1, bytes(256))",
    "a capability": "attempt(os.setxattr, name, 'security.capability', struct.pack('<5I', 0x02000001, 1 << 7, 0, 0, 0))",
}


@pytest.fixture
def host_path(prison):
    return prison.host_path


@pytest.fixture
def tenant(prison, host_path):
    """A sandbox with that directory."""
    return prison.shared("tenant", volumes=[{"name": "v", "mountPath": "/data", "host": {"path": str(host_path)}}])


def as_nobody(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, user=65534, group=65534, extra_groups=[])


@pytest.mark.attack(by="code in the sandbox and a user of the host", on="docker")
@pytest.mark.parametrize("give", (0o4755, 0o2755))
@pytest.mark.parametrize("way", SET_ID)
def test_a_program_left_in_a_host_path_gives_no_rights(tenant, host_path, way, give):
    """Root inside is root of the host there."""
    control = host_path / "control"
    shutil.copy("/usr/bin/id", control)
    control.chmod(give)
    assert as_nobody(control, "-u" if give == 0o4755 else "-g").stdout.strip() == "0", "set-id programs work here"
    control.unlink()
    names = ("chmod", "fchmod", "fchmodat", "open", "openat", "creat", "mknod", "mknodat")
    said = attack(tenant, f"""
import shutil
os.umask(0)
name = b'/data/program'
shutil.copy('/usr/bin/id', name)
os.chmod(name, 0o755)
report({SET_ID[way]})
""", give=give, calls={name: number_of(name) for name in names})
    assert said in ("EPERM", "ENOSYS"), said
    assert (host_path / "program").stat().st_uid == 0, "it is root's"
    assert not [each for each in host_path.iterdir() if each.stat().st_mode & 0o6000 or "security.capability" in os.listxattr(each)]


@pytest.mark.attack(by="code in the sandbox and a user of the host", on="docker")
def test_a_setuid_program_of_a_host_path_is_not_given_another_content(tenant, host_path):
    """A write by root would leave the bit as it is."""
    program = host_path / "of-the-host"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    assert attack(tenant, "report(attempt(lambda: os.write(os.open('/data/of-the-host', os.O_WRONLY), b'mine')))") == 4
    assert program.stat().st_mode & 0o6000 == 0
    program.unlink()


@pytest.mark.attack(by="the maker of an image", on="docker")
def test_a_health_check_of_the_image_is_not_run(prison):
    """The engine would start it beside the first process, outside of the walls that execd raises."""
    check = {"Test": ["CMD", "/bin/true"], "Interval": 1_000_000_000}
    prison.daemon.load_busybox("checked:latest", Healthcheck=check)
    made = prison.daemon.inspect(prison.create(image={"uri": "checked:latest"}, entrypoint=["sleep", "1000"]).id)
    assert made["Config"].get("Healthcheck", {}).get("Test") in (None, ["NONE"]), made["Config"]
    assert (made["State"].get("Health") or {}).get("Status") in (None, "", "none"), made["State"]
