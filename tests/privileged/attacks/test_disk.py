"""A sandbox that fills the disk: its own limit stops it, its neighbours go on writing, and so does the host. The limits are
those of a btrfs image file; tests/privileged/uml has project quotas."""

import uuid

import pytest

from attack import attack
from sandboxd_process import Sandboxd

pytestmark = pytest.mark.wall("Disk", second="a reserve that refuses new work")

MIB = 1 << 20
LIMIT = 48 * MIB
FULL = ("ENOSPC", "EDQUOT")
SLOW = ("symlinks", "attributes", "directories", "hard links", "small files")  # they get a smaller limit

# Each program fills a directory until an error comes and reports the error and the bytes that it takes. `place` is the
# directory, `most` the number of bytes that would be too many.
WAYS = {
    "write": """
with open(place + '/file', 'wb', buffering=0) as file:
    def action():
        for _ in range(most >> 20):
            file.write(b'x' * (1 << 20))
        os.fsync(file.fileno())
    error = attempt(action)
""",
    "fallocate": """
with open(place + '/file', 'wb') as file:
    error = attempt(os.posix_fallocate, file.fileno(), 0, most)
""",
    "sparse": """
with open(place + '/file', 'wb', buffering=0) as file:
    os.truncate(file.fileno(), 1 << 40)
    def action():
        for i in range(most >> 16):
            os.pwrite(file.fileno(), b'x' * (1 << 16), i << 24)
        os.fsync(file.fileno())
    error = attempt(action)
""",
    "mmap": """
import mmap
def action():
    with open(place + '/file', 'w+b') as file:
        os.truncate(file.fileno(), most)
        memory = mmap.mmap(file.fileno(), most)
        for i in range(0, most, 4096):
            memory[i] = 1
        memory.flush()
error = in_child(action)
error = 'ENOSPC' if error == f'signal {int(signal.SIGBUS)}' else error
""",
    "deleted but open": """
kept = []
def action():
    for i in range(most >> 20):
        file = open(f'{place}/{i}', 'wb', buffering=0)
        kept.append(file)
        os.unlink(f'{place}/{i}')
        file.write(b'x' * (1 << 20))
        os.fsync(file.fileno())
error = attempt(action)
""",
    "symlinks": """
def action():
    for i in range(most >> 10):
        os.symlink('x' * 3000, f'{place}/{i}')
error = attempt(action)
""",
    "attributes": """
def action():
    for i in range(most >> 10):
        os.close(os.open(f'{place}/{i}', os.O_CREAT | os.O_WRONLY))
        os.setxattr(f'{place}/{i}', 'user.fill', b'x' * 3000)
error = attempt(action)
""",
    "directories": """
def action():
    for i in range(most >> 6):
        os.mkdir(f'{place}/{i:0200}')
error = attempt(action)
""",
    "hard links": """
def action():
    for i in range(most >> 6):
        if i % 10000 == 0:
            first = f'{place}/{i:0200}'
            os.close(os.open(first, os.O_CREAT | os.O_WRONLY))
        else:
            os.link(first, f'{place}/{i:0200}')
error = attempt(action)
""",
    "small files": """
def action():
    for i in range(most >> 10):
        with open(f'{place}/{i}', 'wb') as file:
            file.write(b'x' * 1500)
error = attempt(action)
""",
}


@pytest.fixture(scope="module")
def daemon():
    made = Sandboxd(settings={
        "network": {"subnet": "10.77.0.0/16", "table": "osb_disk", "interface_prefix": "osbd-"},
        "disk": {"image_bytes": 2048 * MIB, "volume_bytes": 24 * MIB, "snapshot_bytes": 40 * MIB},
    })
    yield made
    made.close()


@pytest.fixture
def create(daemon):
    yield lambda id, **fields: daemon.create(id, **fields)
    daemon.remove_all()


def limit_of(way):
    return 12 * MIB if way in SLOW else LIMIT


def fill(sandbox, way, place, most=2 * LIMIT):
    sandbox.output(f"mkdir -p {place}")
    return attack(sandbox, WAYS[way] + "\nreport(error)", place=place, most=most)


def writes(sandbox, place="/root"):
    """The sandbox can write 16 MiB."""
    return sandbox.output(f"head -c 16M /dev/zero > {place}/room && sync {place}/room && stat -c %s {place}/room") == "16777216"


def taken(daemon):
    """Bytes that the host has given to all sandboxes."""
    info = attack(daemon.create("asks"), "v = os.statvfs('/')\nreport([v.f_blocks * v.f_frsize, v.f_bfree * v.f_frsize])")
    assert daemon.client.delete("/v1/sandboxes/asks").status_code == 204
    return info[0] - info[1]


@pytest.mark.parametrize("way", WAYS)
def test_a_sandbox_does_not_fill_the_disk(daemon, create, way):
    limited = create("limited", limits={"disk_bytes": limit_of(way)})
    neighbour = create("neighbour")
    before = taken(daemon)
    assert fill(limited, way, "/root/fill") in FULL
    assert taken(daemon) - before < LIMIT + 32 * MIB  # the file system's own share
    assert writes(neighbour)
    # The full sandbox is emptied, and written to again.
    limited.output("rm -rf /root/fill && echo room > /root/file")


@pytest.mark.parametrize("way", ["write", "directories"])
def test_a_gvisor_sandbox_does_not_fill_the_disk(daemon, create, way):
    limited = create("limited", runtime="runsc", limits={"disk_bytes": limit_of(way)})
    assert fill(limited, way, "/root/fill") in FULL
    assert writes(create("neighbour"))


@pytest.mark.parametrize("way", ["write", "fallocate", "mmap", "directories", "attributes"])
def test_a_named_volume_does_not_fill_the_disk(daemon, create, way):
    volume = {"kind": "named", "source": "full", "target": "/data", "create": True, "delete_with_sandbox": True}
    writer = create("writer", volumes=[volume])
    neighbour = create("neighbour", volumes=[{**volume, "source": "other"}])
    assert fill(writer, way, "/data/fill") in FULL
    assert writes(writer)  # its own layer has another limit
    assert writes(neighbour, "/data")


def test_the_default_limit_holds_without_a_limit_in_the_request(daemon, create):
    # A quarter of what the disk has for sandboxes.
    sandbox = create("default")
    assert fill(sandbox, "fallocate", "/root", 512 * MIB + MIB) in FULL
    assert writes(create("neighbour"))


def test_the_log_of_the_entrypoint_counts(daemon, create):
    loud = create("loud", limits={"disk_bytes": LIMIT}, entrypoint=["sh", "-c", "head -c 200M /dev/zero; sleep 1000"])
    daemon.wait_for("loud", lambda status: status["state"] == "running")
    before = taken(daemon)
    assert loud.run("head -c 100M /dev/zero > /root/file")[0] != 0
    assert taken(daemon) - before < LIMIT + 32 * MIB
    assert writes(create("neighbour"))


def test_whiteouts_count(daemon, create):
    sandbox = create("deleter", limits={"disk_bytes": 16 * MIB})
    before = taken(daemon)
    sandbox.run("rm -rf /usr/share/doc /usr/include")
    assert taken(daemon) - before < 48 * MIB
    assert writes(create("neighbour"))
    assert daemon.client.delete("/v1/sandboxes/deleter").status_code == 204


def test_shared_memory_does_not_take_the_hosts(daemon, create):
    sandbox = create("shm")
    assert fill(sandbox, "write", "/dev/shm", 256 * MIB) in FULL
    assert int(sandbox.output("stat -c %s /dev/shm/file")) <= 64 * MIB


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_the_limit_outlives_the_daemon(daemon, create, way):
    volume = {"kind": "named", "source": "kept", "target": "/data", "create": True, "delete_with_sandbox": True}
    limited = create("limited", limits={"disk_bytes": LIMIT}, volumes=[volume])
    limited.output("head -c 8M /dev/zero > /root/before; head -c 8M /dev/zero > /data/before")
    getattr(daemon, way)()
    # Nothing is let go while no daemon runs.
    assert fill(limited, "write", "/root/fill") in FULL
    daemon.start()
    assert [each["state"] for each in daemon.list()] == ["running"]
    limited.output("rm -r /root/fill")
    assert fill(limited, "fallocate", "/root/fill") in FULL
    assert fill(limited, "write", "/data/fill") in FULL
    assert limited.output("stat -c %s /root/before /data/before").split() == [str(8 * MIB)] * 2
    assert writes(create("neighbour"))


SUBVOLUMES = """
import fcntl
directory = os.open('/data', os.O_RDONLY)
def ioctl(number, size=4096, start=b''):
    return attempt(lambda: fcntl.ioctl(directory, number, bytearray(start.ljust(size, b'\\0')), True))
name = struct.pack('q', 0) + b'escape'
report({
    'subvolume': ioctl(0x5000940e, start=name),
    'subvolume, second call': ioctl(0x50009418, start=struct.pack('qQQQQ', 0, 0, 0, 0, 0) + b'\\0' * 16 + b'escape'),
    'snapshot': ioctl(0x50009401, start=struct.pack('q', directory) + b'escape'),
    'read-only': ioctl(0x4008941a, 8, struct.pack('Q', 2)),
    'quotas off': ioctl(0xc0109428, 16, struct.pack('QQ', 2, 0)),
    'no limit': ioctl(0x8030942b, 48, struct.pack('QQQQQQ', 0, 1, 2 ** 64 - 1, 0, 0, 0)),
    'shared blocks': attempt(lambda: (open('/data/a', 'wb').write(b'x' * 65536), os.open('/data/b', os.O_CREAT | os.O_WRONLY),
        fcntl.ioctl(os.open('/data/b', os.O_WRONLY), 0x40049409, os.open('/data/a', os.O_RDONLY)))[-1]),
})
"""


def test_a_volume_gets_no_subvolume_beside_its_limit(daemon, create):
    volume = {"kind": "named", "source": "volume", "target": "/data", "create": True, "delete_with_sandbox": True}
    answers = attack(create("maker", volumes=[volume]), SUBVOLUMES)
    assert answers.pop("shared blocks") == 0  # permitted
    assert set(answers.values()) == {"ENOTTY"}, answers


def test_snapshots_do_not_pile_up(daemon, create):
    sandbox = create("model")
    sandbox.output("head -c 12M /dev/urandom > /root/file && sync /root/file")
    made = []
    for _ in range(10):
        id = str(uuid.uuid4())
        answer = daemon.client.post("/v1/sandboxes/model/snapshots", json={"id": id})
        if answer.status_code != 201:
            break
        made.append(id)
    assert (answer.status_code, answer.json()["code"]) == (429, "NATIVE::SNAPSHOT_LIMIT"), answer.text
    assert len(made) == 3  # 40 MiB hold three of 12
    assert len(daemon.client.get("/v1/snapshots").json()["snapshots"]) == 3
    assert daemon.client.delete(f"/v1/snapshots/{made.pop()}").status_code == 204
    assert daemon.client.post("/v1/sandboxes/model/snapshots", json={"id": id}).status_code == 201
    for each in [*made, id]:
        assert daemon.client.delete(f"/v1/snapshots/{each}").status_code == 204


# The last one: the kernel frees the space of removed sandboxes later.
def test_all_sandboxes_together_leave_the_reserve(daemon, create):
    # Each may take a quarter; the last one does not get all of its own.
    for i in range(3):
        assert fill(create(f"greedy{i}"), "fallocate", "/root/fill", 440 * MIB) is None
    assert fill(create("greedy3"), "write", "/root/fill", 446 * MIB) in FULL
    status, problem = daemon.refused(id="late")
    assert (status, problem["code"]) == (429, "NATIVE::DISK_LOW"), problem
    assert daemon.client.post("/v1/sandboxes/greedy0/pause").status_code == 204
    assert daemon.client.post("/v1/sandboxes/greedy0/resume").status_code == 204
    for i in range(4):
        assert daemon.client.delete(f"/v1/sandboxes/greedy{i}").status_code == 204
