"""Isolated sessions by the official Python SDK, in sandboxes that were created with them."""

import datetime
import io
import tarfile
import time

import httpx
import pytest
from opensandbox import SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxException
from opensandbox.models.filesystem import WriteEntry
from opensandbox.models.isolated import (
    BindMount,
    CreateIsolatedSessionRequest,
    EnvPassthroughSpec,
    IsolatedOverlaySpec,
    IsolatedRunOpts,
    IsolatedWorkspaceSpec,
)

WORKSPACE = "/workspace"


@pytest.fixture(scope="module")
def config(server):
    return ConnectionConfigSync(domain=f"127.0.0.1:{server.port}", api_key=server.key, use_server_proxy=True,
                                request_timeout=datetime.timedelta(seconds=60))


@pytest.fixture
def make(config):
    made = []

    def create(**options):
        made.append(SandboxSync.create("host", connection_config=config, timeout=datetime.timedelta(minutes=10),
                                       env={"SOME_TOKEN": "hidden", "PLAIN": "seen"}, **options))
        return made[-1]

    yield create
    for each in made:
        each.kill()
        each.close()


@pytest.fixture
def sandbox(make):
    return make(extensions={"bootstrap.execd.isolation": "enable"})


def wanted(path=WORKSPACE, mode=None, **fields):
    return CreateIsolatedSessionRequest(workspace=IsolatedWorkspaceSpec(path=path, mode=mode), **fields)


def lines(execution):
    return [line.text for line in execution.logs.stdout]


def raw(sandbox, method, path, **options):
    endpoint = sandbox.get_endpoint(44772)
    return httpx.request(method, f"http://{endpoint.endpoint}{path}", headers=dict(endpoint.headers or {}), timeout=60,
                         trust_env=False, **options)


def test_a_sandbox_without_the_extension_has_none(make):
    plain = make()
    capabilities = plain.isolation.capabilities()
    assert capabilities.available is False and "bootstrap.execd.isolation" in capabilities.message
    with pytest.raises(SandboxException) as refused:
        plain.isolation.create(wanted())
    assert refused.value.status_code == 503 if hasattr(refused.value, "status_code") else True


@pytest.mark.on_docker
def test_life_of_a_session(sandbox):
    capabilities = sandbox.isolation.capabilities()
    assert capabilities.available and capabilities.setpriv_available and capabilities.userns_available
    assert capabilities.commit_supported and capabilities.diff_supported
    sandbox.commands.run(f"mkdir -p {WORKSPACE}; echo given > {WORKSPACE}/given")
    session = sandbox.isolation.create(wanted())
    assert lines(session.run("pwd; cat given; uname -n; export A=1; cd /usr")) == [WORKSPACE, "given", "sandbox"]
    assert lines(session.run("pwd; echo $A $B", opts=IsolatedRunOpts(envs={"B": "2"}))) == ["/usr", "1 2"]
    assert session.run("exit 7").exit_code == 7
    assert session.get().status == "active"
    assert [each.session_id for each in sandbox.isolation.list()] == [session.session_id]
    attached = sandbox.isolation.attach(session.session_id)
    assert lines(attached.run("echo attached")) == ["attached"]
    session.files.write_files([WriteEntry(path=f"{WORKSPACE}/up", data="uploaded", mode=644)])
    assert session.files.read_file(f"{WORKSPACE}/up") == "uploaded"
    assert lines(session.run(f"cat {WORKSPACE}/up")) == ["uploaded"]
    assert sandbox.commands.run(f"ls {WORKSPACE}").logs.stdout[0].text == "given", "the changes are the session's"
    session.delete()
    assert sandbox.isolation.list() == []
    with pytest.raises(SandboxException):
        session.get()


def test_background_runs(sandbox):
    session = sandbox.isolation.create(wanted())
    started = session.run_background("echo one; sleep 0.2; echo two; exit 5")
    deadline = time.monotonic() + 60
    while (status := session.run_status(started.run_id)).running:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert status.exit_code == 5
    logs = session.run_logs(started.run_id)
    assert logs.text == "one\ntwo\n"
    assert session.run_logs(started.run_id, cursor=logs.cursor).text == ""


def test_diff_and_commit(sandbox):
    sandbox.commands.run(f"mkdir -p {WORKSPACE}; echo old > {WORKSPACE}/old; echo gone > {WORKSPACE}/gone")
    session = sandbox.isolation.create(wanted())
    session.run("echo more >> old; rm gone; mkdir d; echo new > d/new")
    diff = raw(sandbox, "GET", f"/v1/isolated/session/{session.session_id}/diff")
    assert diff.status_code == 200, diff.text
    with tarfile.open(fileobj=io.BytesIO(diff.content)) as archive:
        assert set(archive.getnames()) == {f"workspace/{name}" for name in ("old", ".wh.gone", "d", "d/new")}
    commit = raw(sandbox, "POST", f"/v1/isolated/session/{session.session_id}/commit")
    assert commit.status_code == 200, commit.text
    listed = sandbox.commands.run(f"cd {WORKSPACE}; find . | sort; cat old")
    assert lines(listed) == [".", "./d", "./d/new", "./old", "old", "more"]
    assert lines(session.run(f"cd {WORKSPACE}; cat d/new; touch again; ls")) == ["new", "again", "d", "old"]


def test_options(sandbox):
    sandbox.commands.run("mkdir -p /workspace/a /data/source /mnt/w; echo bound > /data/source/f; chmod 777 /workspace/a")
    session = sandbox.isolation.create(CreateIsolatedSessionRequest(
        overlays=[IsolatedOverlaySpec(path="/workspace/a"), IsolatedOverlaySpec(path="/opt", mode="ro")],
        extra_writable=["/mnt/w"], binds=[BindMount(source="/data/source", dest="/mnt/bound", readonly=True)],
        share_net=False, env_passthrough=EnvPassthroughSpec(mode="deny", keys=["PLAIN"]), uid=1234, gid=2345,
        idle_timeout_seconds=600))
    assert lines(session.run("id -u; id -g; cat /mnt/bound/f; echo ${PLAIN-none} ${SOME_TOKEN-none}; touch x && ls")) == [
        "1234", "2345", "bound", "none none", "x"]
    assert lines(session.run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")) == ["lo"]
    with pytest.raises(SandboxException):
        sandbox.isolation.create(wanted(extra_writable=["/etc"]))


@pytest.mark.on_docker
def test_user_namespaces(sandbox):
    sandbox.commands.run(f"mkdir -p {WORKSPACE}")
    sessions = [sandbox.isolation.create(wanted(mode="rw", uid=1234, gid=2345, uid_mode="userns")) for _ in range(3)]
    for session in sessions:
        assert lines(session.run("id -u; id -g; rm -f f; touch f; stat -c %u f; tr -s ' ' </proc/self/uid_map")) == [
            "1234", "2345", "1234", " 1234 0 1"]
    assert lines(sandbox.commands.run(f"stat -c '%u %g' {WORKSPACE}/f")) == ["0 0"]
    assert lines(sessions[0].run("unshare -U true 2>/dev/null || echo refused")) == ["refused"]


ESCAPES = ["mount -t tmpfs none /mnt", "unshare -m true", "unshare -U true", "nsenter -t 1 -m true", "ls /proc/1/root/",
           "cat /proc/1/environ", "readlink /proc/1/fd/3", "kill -9 1; kill -0 1 && false", "touch /etc/escaped",
           "echo 1 > /proc/sys/kernel/panic", "hostname other", "ls /dev/pts/[0-9]*", "mknod /tmp/sda b 8 0",
           "head -c 1 /proc/kcore"]


@pytest.mark.on_podman
@pytest.mark.parametrize("profile", ["strict", "balanced"])
def test_walls(sandbox, profile):
    sandbox.commands.run(f"mkdir -p {WORKSPACE}")
    secret = sandbox.commands.run("(exec -a process-of-the-sandbox sleep 600) >/dev/null 2>&1 & echo $!")
    one = sandbox.isolation.create(wanted(mode="overlay", profile=profile))
    two = sandbox.isolation.create(wanted(mode="overlay", profile=profile))
    for escape in ESCAPES:
        assert lines(one.run(f"({escape}) >/dev/null 2>&1 && echo escaped || echo kept")) == ["kept"], escape
    assert secret.exit_code == 0
    one.run("export SECRET=of-one; echo secret > file; (exec -a process-of-one sleep 600) >/dev/null 2>&1 & true")
    seen = "\n".join(lines(two.run(
        f"ls {WORKSPACE}; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")))
    for hidden in ("file", "process-of-one", "SECRET=of-one", "process-of-the-sandbox"):
        assert hidden not in seen.replace("cmdline", "").replace("profile", ""), hidden
    # Neither more capabilities nor fewer filters than the sandbox's other processes.
    def walls(run):
        text = dict(line.split(":\t", 1) for line in lines(run) if ":\t" in line)
        return int(text["CapBnd"], 16), int(text["Seccomp"])
    ask = "grep -E '^(CapBnd|Seccomp|NoNewPrivs):' /proc/self/status"
    capabilities, filters = walls(one.run(ask))
    assert filters == 2 and capabilities >> 21 & 1 == 0
    plain, _ = walls(sandbox.commands.run(ask))
    assert capabilities & ~plain == 0


def test_another_value_of_the_extension_is_refused(server):
    response = server.client.post("/v1/sandboxes", json={
        "image": {"uri": "host"}, "timeout": 600, "resourceLimits": {}, "entrypoint": ["sleep", "60"],
        "extensions": {"bootstrap.execd.isolation": "yes"}})
    assert response.status_code == 400 and "bootstrap.execd.isolation" in response.json()["message"], response.text
