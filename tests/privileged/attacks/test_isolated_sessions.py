"""Code in an isolated session against the sandbox around it and against other sessions of the same sandbox."""

import json

import pytest

from attack import attack, attack_each_way, number_of

pytestmark = [pytest.mark.wall("Isolated sessions", second="the walls of the sandbox"),
              pytest.mark.attack(by="code in an isolated session", on="native docker")]

USERS = {"root": {}, "user": {"uid": 1000}, "root of a namespace": {"uid_mode": "userns"},
         "user of a namespace": {"uid": 1000, "uid_mode": "userns"}}
REFUSED = ("EPERM", "EACCES", "ENOSYS", "EROFS")


class Session:
    """Its `run` is a sandbox's, so that `attack` takes both."""

    def __init__(self, sandbox, path="/workspace", mode="overlay", **fields):
        self.sandbox = sandbox
        self.has_namespace = "uid_mode" in fields
        self.tried = {}
        made = sandbox.execd("/v1/isolated/session", {"workspace": {"path": path, "mode": mode}, **fields})
        assert made.status_code == 201, made.text
        self.path = f"/v1/isolated/session/{made.json()['session_id']}"

    def run(self, command):
        """(exit code, output)."""
        answer = self.sandbox.execd(f"{self.path}/run", {"code": command})
        assert answer.status_code == 200, answer.text
        events = [json.loads(line) for line in answer.text.split("\n\n") if line.strip()]
        text = "\n".join(each["text"] for each in events if each["type"] in ("stdout", "stderr"))
        errors = [each for each in events if each["type"] == "error"]
        return (int(errors[0]["error"]["evalue"]) if errors else 0), text

    def output(self, command):
        code, text = self.run(command)
        assert code == 0, f"exit code {code}: {text}"
        return text

    def commit(self):
        return self.sandbox.execd(f"{self.path}/commit", {})


@pytest.fixture
def sandbox(prison):
    """One for all attacks that do it no harm."""
    return prison.shared("isolating", extensions={"bootstrap.execd.isolation": "enable"})


@pytest.fixture(params=USERS)
def session(sandbox, request):
    return Session(sandbox, **USERS[request.param])


@pytest.fixture(scope="module")
def callers(whole_prison):
    """Sessions that make system calls and nothing else."""
    sandbox = whole_prison.shared("isolating", extensions={"bootstrap.execd.isolation": "enable"})
    return {"root": Session(sandbox), "root of a namespace": Session(sandbox, uid_mode="userns")}


CALLS = {"mount": ("mount", 0, 0, 0, 0, 0), "move_mount": ("move_mount", -100, 0, -100, 0, 0),
         "open_tree": ("open_tree", -100, 0, 1), "fsopen": ("fsopen", 0, 0), "pivot_root": ("pivot_root", 0, 0),
         "umount": ("umount2", 0, 2), "setns": ("setns", 0, 0), "user namespace": ("unshare", 0x10000000),
         "mount namespace": ("unshare", 0x20000), "PID namespace": ("unshare", 0x20000000),
         "network namespace": ("unshare", 0x40000000), "bpf": ("bpf", 0, 0, 0), "keys": ("keyctl", 0, -3, 0),
         "file by handle": ("open_by_handle_at", 0, 0, 0), "host name": ("sethostname", 0, 0),
         "trace of the first process": ("ptrace", 0x4206, 1, 0, 0), "its memory": ("process_vm_readv", 1, 0, 0, 0, 0, 0),
         "kernel ring": ("io_uring_setup", 1, 0), "module": ("init_module", 0, 0, 0), "clock": ("clock_settime", 0, 0)}


@pytest.mark.parametrize("name", CALLS)
def test_a_system_call_against_the_walls_is_refused(callers, name):
    calls = {name: {"call": [number_of(call), *arguments]} for name, (call, *arguments) in CALLS.items()}
    for user, session in callers.items():
        got = attack_each_way(session, "def do(call): return [in_child(lambda: syscall(*call)), syscall(39)]", calls)[name]
        assert (got[0] in REFUSED or name == "its memory" and got[0] == 0) and got[1] > 0, (user, got)


def test_files_of_the_sandbox_are_not_changed(sandbox, session):
    sandbox.output("echo ours > /root/ours; echo ours > /opt/ours; chmod 666 /root/ours /opt/ours; chmod 711 /root")
    got = attack(session, """
def write(path):
    with open(path, 'w') as out:
        out.write('theirs')
    return 'written'
report([attempt(write, each) for each in ('/root/ours', '/opt/ours', '/etc/passwd', '/usr/new', '/new', '/sys/x', '/var/x')]
       + [attempt(os.remove, '/opt/ours'), attempt(os.chmod, '/opt/ours', 0o777), attempt(write, '/tmp/own')])
""")
    assert got.pop() == "written" and set(got) <= {"EROFS", "EACCES", "EPERM", "ENOENT"}, got
    assert sandbox.output("cat /root/ours /opt/ours") == "ours\nours"


def test_processes_of_the_sandbox_are_not_reached(sandbox, session):
    pid = int(sandbox.output("SECRET=of-the-sandbox sh -c 'exec sleep 98765' >/dev/null 2>&1 & echo $!"))
    got = attack(session, """
seen = ''.join(open(each, errors='replace').read() for each in glob.glob('/proc/[0-9]*/cmdline'))
environments = ''.join(text for text in (attempt(lambda: open(each, errors='replace').read())
                                         for each in glob.glob('/proc/[0-9]*/environ')))
own = {int(each) for each in os.listdir('/proc') if each.isdigit()}
report([('98765' in seen, 'of-the-sandbox' in environments),
        sorted({attempt(os.kill, each, 0) for each in range(2, 2000) if each not in own and not os.path.exists(f'/proc/{each}')},
               key=str), attempt(os.kill, os.getpid(), 0)])
""")
    assert got[0] == [False, False] and got[1] == ["ESRCH"] and got[2] is None, got
    assert sandbox.output(f"kill {pid} && echo alive") == "alive"


def test_the_processes_that_start_the_others_are_closed(session):
    got = attack(session, """
paths = ['root/', 'cwd/', 'environ', 'mem', 'fd/3', 'exe']
report([opened(f'/proc/{pid}/{each}') for each in paths for pid in pids] + [attempt(os.kill, 1, 9), opened('/proc/self/environ')])
""", pids=[1, 2] if session.has_namespace else [1])
    assert got.pop() == "opened" and got.pop() in (None, "EPERM") and set(got) == {"EACCES"}, got
    assert session.output("echo goes on") == "goes on"


def test_execd_asks_a_session_for_its_token(sandbox, session):
    got = attack(session, """
import urllib.error, urllib.request
def ask(path, **headers):
    try:
        return urllib.request.urlopen(urllib.request.Request('http://127.0.0.1:44772' + path, headers=headers)).status
    except urllib.error.HTTPError as error:
        return error.code
text = ''.join(str(attempt(lambda: open(each, errors='replace').read())) for each in
               glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'))
report([ask('/ping'), ask('/v1/isolated/sessions'), token in text, ask('/ping', **{'X-EXECD-ACCESS-TOKEN': token})])
""", token=sandbox.token)
    assert got == [401, 401, False, 200]


@pytest.mark.parametrize("profile", ["strict", "balanced"])
def test_another_session_is_not_reached(sandbox, profile):
    victim = Session(sandbox, profile=profile, mode="overlay")
    victim.output("echo secret > file; echo secret > /dev/shm/file; SECRET=of-the-victim sleep 87654 >/dev/null 2>&1 & true")
    for user in USERS.values():
        got = attack(Session(sandbox, profile=profile, mode="overlay", **user), """
import subprocess
seen = ''.join(str(attempt(lambda: open(each, errors='replace').read())) for each in
               glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/environ'))
report([os.path.exists('/workspace/file'), os.path.exists('/dev/shm/file'), '87654' in seen, 'of-the-victim' in seen,
        len(os.listdir('/dev/mqueue'))])
""")
        assert got == [False, False, False, False, 0], (user, got)
    assert victim.output("cat file /dev/shm/file") == "secret\nsecret"


def test_a_link_that_a_session_leaves_leads_the_next_nowhere(sandbox):
    Session(sandbox, mode="rw").output("rm -rf link; ln -s /etc link; rm -rf deep; mkdir deep; ln -s / deep/link")
    for path in ("/workspace/link", "/workspace/deep/link/etc"):
        for mode in ("rw", "overlay", "ro"):
            refused = sandbox.execd("/v1/isolated/session", {"workspace": {"path": path, "mode": mode}})
            assert refused.status_code == 400 and "link" in refused.json()["message"], refused.text
    assert Session(sandbox, path="/workspace/deep", mode="rw").output("ls") == "link"


def test_a_commit_follows_no_link_of_another_session(sandbox):
    """The directory that it writes to has become a link meanwhile."""
    sandbox.output("rm -rf /workspace/d /opt/target; mkdir -p /workspace/d /opt/target; echo old > /workspace/d/file")
    session = Session(sandbox)
    session.output("echo new > d/file; mkdir -p d/more; echo new > d/more/file")
    Session(sandbox, mode="rw").output("rm -rf d; ln -s /opt/target d")
    answer = session.commit()
    assert sandbox.output("ls -A /opt/target") == "", answer.text


def test_a_setuid_program_of_the_workspace_gives_no_rights(sandbox):
    sandbox.output("mkdir -p /workspace && cp $(command -v id) /workspace/ && chmod 4755 /workspace/id")
    for user in ({"uid": 1000}, {"uid": 1000, "uid_mode": "userns"}):
        assert Session(sandbox, mode="rw", **user).output("/workspace/id -u") == "1000", user


def test_a_device_that_a_session_makes_opens_nothing(session):
    got = attack(session, """
def make():
    os.mknod('/tmp/device', 0o60666, os.makedev(8, 0))
    return opened('/tmp/device')
report([attempt(make), opened('/dev/null')])
""")
    assert got[0] in (*REFUSED, "ENXIO") and got[1] == "opened", got


def test_limits_of_the_kernel_are_not_raised(session):
    got = attack(session, """
paths = ['/proc/sys/user/max_user_namespaces', '/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches', '/proc/sysrq-trigger',
         '/sys/fs/cgroup/memory.max', '/sys/fs/cgroup/memory/memory.limit_in_bytes', '/sys/kernel/uevent_helper']
report([opened(each, os.O_WRONLY) for each in paths])
""")
    assert set(got) <= {*REFUSED, "ENOENT"}, got


@pytest.mark.attack(by="code in an isolated session", on="native")
def test_nothing_leads_to_the_socket_of_sandboxd(session):
    got = session.output("find / -xdev -name '*.sock' 2>/dev/null; cat /proc/self/mountinfo | grep -c sandboxd || true")
    assert got == "0"


def test_a_session_without_network_reaches_nothing_of_the_sandbox(sandbox):
    sandbox.output("python3 -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 & "
                   "until (exec 3<>/dev/tcp/127.0.0.1/8765) 2>/dev/null; do :; done")
    for user in USERS.values():
        got = attack(Session(sandbox, share_net=False, **user), """
def connect(address):
    socket.create_connection(address, 5).close()
    return 'connected'
report([attempt(connect, ('127.0.0.1', 8765)), attempt(connect, ('127.0.0.1', 44772)), attempt(connect, ('192.0.2.1', 80))])
""")
        assert set(got) <= {"ECONNREFUSED", "ENETUNREACH"}, (user, got)
    assert attack(Session(sandbox), "socket.create_connection(('127.0.0.1', 8765), 60).close(); report('reached')") == "reached"
