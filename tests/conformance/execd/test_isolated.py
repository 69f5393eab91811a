"""Isolated sessions of an execd that may make namespaces itself, as in a container with that right. Needs root."""

import gzip
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import tarfile
import time

import pytest
from execd_process import Execd, binary

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces, which needs root")

BASE = "/v1/isolated"
MIB = 1024 * 1024


class Session:
    def __init__(self, execd, **body):
        self.client = execd.client
        response = self.client.post(f"{BASE}/session", json=body)
        assert response.status_code == 201, response.text
        self.id = response.json()["session_id"]
        self.path = f"{BASE}/session/{self.id}"

    def events(self, code, **options):
        response = self.client.post(f"{self.path}/run", json={"code": code, **options})
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.split("\n\n") if line]

    def run(self, code, **options):
        return [event["text"] for event in self.events(code, **options) if event["type"] == "stdout"]

    def state(self):
        return self.client.get(self.path).json()

    def delete(self):
        assert self.client.delete(self.path).status_code == 200


@pytest.fixture(scope="module")
def isolating(tmp_path_factory):
    """One execd for the module."""
    execd = Execd(env={"SOME_API_KEY": "hidden", "PLAIN": "seen", "OPENSANDBOX_ID": "box"},
                  args=["--isolation-upper-max-bytes", str(8 * MIB), "--isolation-allowed-writable", "/workspace,/mnt,/tmp"])
    yield execd
    execd.stop()


@pytest.fixture
def session(isolating, tmp_path):
    """session(**body) makes one that the test's end deletes; its workspace is a fresh directory."""
    made = []

    def make(**body):
        if "workspace" not in body and "overlays" not in body:
            body["workspace"] = {"path": str(tmp_path), **body.pop("with_", {})}
        made.append(Session(isolating, **body))
        return made[-1]

    yield make
    for one in made:
        isolating.client.delete(one.path)


def test_capabilities(isolating):
    answer = isolating.client.get(f"{BASE}/capabilities").json()
    assert answer["available"] is True and answer["setpriv_available"] is True and answer["userns_available"] is True
    assert answer["commit_supported"] is True and answer["diff_supported"] is True
    hardening = answer["hardening"]
    assert hardening["init_mode"] == "none"
    assert hardening["cap_drop"]["state"] == "active" and hardening["seccomp"]["state"] == "active"
    assert hardening["landlock"]["state"] in ("active", "unsupported") and hardening["ebpf"]["state"] == "unsupported"


def test_an_execd_without_the_rights_says_so(start_execd, tmp_path):
    execd = start_execd(identity=(65534, 65534))
    answer = execd.client.get(f"{BASE}/capabilities").json()
    assert answer["available"] is False and answer["message"]
    refused = execd.client.post(f"{BASE}/session", json={"workspace": {"path": str(tmp_path)}})
    assert (refused.status_code, refused.json()["code"]) == (503, "SERVICE_UNAVAILABLE")


def test_a_session_keeps_its_shell_and_hides_the_sandbox(session, isolating, tmp_path):
    (tmp_path / "given").write_text("from the sandbox\n")
    one = session()
    assert one.run("pwd; cat given; uname -n; echo $$") [:3] == [str(tmp_path), "from the sandbox", "sandbox"]
    one.run("cd /usr; export A=1; f() { echo f$A; }")
    assert one.run("pwd; f") == ["/usr", "f1"]
    assert one.run("echo $B", envs={"B": "it's"}) == ["it's"]
    assert one.events("exit 7")[-1]["error"]["evalue"] == "7"
    assert one.events("no-such-command-here")[-1]["error"]["evalue"] == "127"
    state = one.state()
    assert state["status"] == "active" and state["session_id"] == one.id
    assert state["profile"] == "strict" and state["workspace"] == {"path": str(tmp_path), "mode": "overlay"}
    assert 0 < state["idle_remaining_seconds"] <= 1800
    assert one.id in [each["session_id"] for each in isolating.client.get(f"{BASE}/sessions").json()["sessions"]]
    # Its own processes, and none of the sandbox.
    assert one.run("ls /proc | grep -c '^[0-9]'")[0] in {"1", "2", "3", "4", "5"}
    assert one.run(f"kill -0 {isolating.pid} 2>/dev/null && echo seen || echo unseen") == ["unseen"]


def test_changes_stay_in_an_overlay(session, tmp_path):
    (tmp_path / "old").write_text("old")
    one, two = session(), session()
    one.run("echo mine > new; rm old; echo x > /tmp/private; mkdir -p d/e")
    assert one.run("ls; cat /tmp/private") == ["d", "new", "x"]
    assert two.run("ls; ls /tmp/private 2>/dev/null") == ["old"], "the other session sees neither"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]
    one.delete()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_modes_of_a_workspace(session, tmp_path, mode):
    one = session(with_={"mode": mode})
    assert one.run("touch f 2>/dev/null && echo written || echo refused") == ["written" if mode == "rw" else "refused"]
    assert (tmp_path / "f").exists() == (mode == "rw")
    assert one.run("touch /usr/x 2>/dev/null || echo refused") == ["refused"], "the rest is read-only"


def test_overlays_binds_and_writable_paths(session, isolating, tmp_path):
    for name in ("a", "a/b", "keep", "writable", "source", "dest"):
        (tmp_path / name).mkdir()
    (tmp_path / "source" / "f").write_text("bound\n")
    at = str(tmp_path)
    one = session(workspace={"path": f"{at}/keep", "mode": "rw"},
                  overlays=[{"path": f"{at}/a"}, {"path": f"{at}/a/b", "mode": "rw"},],
                  extra_writable=[f"{at}/writable"], binds=[{"source": f"{at}/source", "dest": f"{at}/dest", "readonly": True}])
    one.run(f"cd {at}; echo 1 > a/1; echo 2 > a/b/2; echo 3 > keep/3; echo 4 > writable/4")
    assert one.run(f"cat {at}/dest/f; touch {at}/dest/g 2>/dev/null || echo refused") == ["bound", "refused"]
    assert not (tmp_path / "a" / "1").exists()
    assert (tmp_path / "a/b/2").exists() and (tmp_path / "keep/3").exists() and (tmp_path / "writable/4").exists()


@pytest.mark.parametrize("body", [
    {}, {"workspace": {"path": "relative"}}, {"workspace": {"path": "/"}}, {"workspace": {"path": "/a/../b"}},
    {"workspace": {"path": "/proc/x"}}, {"workspace": {"path": "/tmp/w", "mode": "wr"}}, {"overlays": []},
    {"workspace": {"path": "/tmp/w"}, "overlays": [{"path": "/tmp/w"}]},
    {"overlays": [{"path": f"/tmp/{i}"} for i in range(17)]},
    {"overlays": [{"path": "/tmp/w", "mode": "rw", "persist": True}]},
    {"workspace": {"path": "/tmp/w"}, "profile": "open"}, {"workspace": {"path": "/tmp/w"}, "extra_writable": ["/etc"]},
    {"workspace": {"path": "/tmp/w"}, "binds": [{"source": "/etc", "dest": "/mnt/x"}]},
    {"workspace": {"path": "/tmp/w"}, "binds": [{"source": "/mnt/no/such/source"}]},
    {"workspace": {"path": "/tmp/w"}, "uid": -1}, {"workspace": {"path": "/tmp/w"}, "gid": 5},
    {"workspace": {"path": "/tmp/w"}, "uid_mode": "other"}, {"workspace": {"path": "/tmp/w"}, "idle_timeout_seconds": -1},
], ids=range(18))
def test_requests_that_are_refused(isolating, body):
    response = isolating.client.post(f"{BASE}/session", json=body)
    assert (response.status_code, response.json()["code"]) == (400, "INVALID_REQUEST_BODY"), response.text


def test_a_link_on_the_way_to_a_workspace_is_refused(isolating, tmp_path):
    (tmp_path / "link").symlink_to("/etc")
    response = isolating.client.post(f"{BASE}/session", json={"workspace": {"path": str(tmp_path / "link"), "mode": "rw"}})
    assert response.status_code == 400 and "link" in response.json()["message"]


def test_user_namespaces_that_cannot_be_had_are_a_503(start_execd, tmp_path):
    """Who gives root another number needs a capability that some containers lack."""
    execd = start_execd(under=["setpriv", "--bounding-set=-setfcap"])
    answer = execd.client.get(f"{BASE}/capabilities").json()
    assert answer["available"] is True and answer["userns_available"] is False, answer
    response = execd.client.post(f"{BASE}/session", json={"workspace": {"path": str(tmp_path)}, "uid_mode": "userns"})
    assert (response.status_code, response.json()["code"]) == (503, "NOT_SUPPORTED"), response.text
    assert "setpriv" in response.json()["message"]
    Session(execd, workspace={"path": str(tmp_path)}).run("true")


def test_unknown_sessions_and_runs(isolating, session):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/diff"), ("POST", "/commit"), ("GET", "/runs/x"),
                         ("GET", "/files/info?path=/x")):
        response = isolating.client.request(method, f"{BASE}/session/00000000-0000-4000-8000-000000000000{path}")
        assert (response.status_code, response.json()["code"]) == (404, "SESSION_NOT_FOUND")
    response = isolating.client.get(f"{session().path}/runs/x")
    assert (response.status_code, response.json()["code"]) == (404, "RUN_NOT_FOUND")


def test_environment(session, tmp_path):
    show = 'echo "${SOME_API_KEY-none} ${PLAIN-none} ${EXECD_ACCESS_TOKEN-none} $OPENSANDBOX_ID"'
    assert session().run(show) == ["none seen none box"]
    assert session(profile="balanced").run(show) == ["hidden seen none box"]
    assert session(env_passthrough={"mode": "deny", "keys": ["PLAIN"]}).run(show) == ["none none none box"]
    assert session(env_passthrough={"mode": "allow", "keys": ["SOME_API_KEY"]}).run(show) == ["hidden none none "]


def test_user_and_group(session, tmp_path):
    tmp_path.chmod(0o777)
    one = session(uid=1234, gid=2345)
    assert one.run("id -u; id -g; id -G; touch f; stat -c '%u %g' f") == ["1234", "2345", "2345", "1234 2345"]
    assert one.run("cat /etc/shadow 2>/dev/null || echo refused") == ["refused"]


def test_a_user_of_a_namespace_is_root_of_the_sandbox_outside(session, isolating, tmp_path):
    one = session(uid=1234, gid=2345, uid_mode="userns", with_={"mode": "rw"})
    assert one.run("id -u; id -g; id -G; touch f; stat -c '%u %g' f") == ["1234", "2345", "2345", "1234 2345"]
    assert ((tmp_path / "f").stat().st_uid, (tmp_path / "f").stat().st_gid) == (0, 0)
    assert one.run("tr -s ' ' </proc/self/uid_map; grep CapEff /proc/self/status | cut -f2") == [" 1234 0 1", "0" * 16]
    assert one.run("chown 0 f 2>/dev/null || echo refused; cd /usr; A=kept") == ["refused"]
    assert one.run("pwd; echo $A") == ["/usr", "kept"]
    assert session(uid_mode="userns").run("id -u; tr -s ' ' </proc/self/uid_map") == ["0", " 0 0 1"]


def test_files_diff_and_commit_of_a_session_with_a_user_namespace(session, isolating, tmp_path):
    (tmp_path / "others").write_text("of another user")
    os.chown(tmp_path / "others", 77, 88)
    one = session(uid=1234, uid_mode="userns")
    made = isolating.client.post(f"{one.path}/directories", json={f"{tmp_path}/made": {"mode": 700}})
    assert made.status_code == 200, made.text
    info = isolating.client.get(f"{one.path}/files/info", params={"path": f"{tmp_path}/made"})
    assert info.status_code == 200, info.text
    # The diff has what its user could not read, and owners as the sandbox sees them.
    one.run("echo closed > made/f; chmod 0 made/f made; mv others moved")
    top = str(tmp_path)[1:]
    with tarfile.open(fileobj=io.BytesIO(isolating.client.get(f"{one.path}/diff").content)) as diff:
        assert diff.extractfile(f"{top}/made/f").read() == b"closed\n"
        assert (diff.getmember(f"{top}/made/f").uid, diff.getmember(f"{top}/moved").uid) == (0, 77)
    assert isolating.client.post(f"{one.path}/commit").status_code == 200
    assert (tmp_path / "made/f").read_text() == "closed\n" and (tmp_path / "moved").stat().st_uid == 77
    assert one.run("id -u; chmod 700 made; ls") == ["1234", "made", "moved"]


def test_a_user_process_that_is_killed_is_a_dead_session(session, tmp_path):
    """It starts the runs, and its own processes can reach it."""
    one = session(uid=1234, uid_mode="userns")
    one.events("for each in /proc/[0-9]*; do kill -9 ${each#/proc/}; done 2>/dev/null")
    deadline = time.monotonic() + 60
    while one.state()["status"] != "dead":
        assert time.monotonic() < deadline
    # One that is stopped can still be deleted.
    stopped = session(uid=1234, uid_mode="userns", with_={"mode": "rw"})
    stopped.client.post(f"{stopped.path}/run", json={"code": "kill -STOP $PPID && touch stopped", "background": True})
    deadline = time.monotonic() + 60
    while not (tmp_path / "stopped").exists():
        assert time.monotonic() < deadline
    stopped.delete()


def test_the_network_can_be_left_out(session):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}"
        ask = f"({connect}) 2>/dev/null && echo reached || echo refused"
        assert session().run(ask) == ["reached"]
        alone = session(share_net=False)
        assert alone.run(ask) == ["refused"]
        assert alone.run("ls /sys/class/net >/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '") == ["lo"]


def test_timeouts_and_leaving_clients_end_a_run(session):
    one = session()
    last = one.events("echo begun; sleep 1000", timeout_seconds=1)[-1]
    assert last["error"]["evalue"] == "-1"
    with one.client.stream("POST", f"{one.path}/run", json={"code": "echo $$; exec sleep 1001"}) as stream:
        for line in stream.iter_lines():
            if '"stdout"' in line:
                break
    deadline = time.monotonic() + 60
    while "1001" in "".join(one.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")).replace("cat", ""):
        assert time.monotonic() < deadline


def test_background_runs(session, isolating):
    one = session(idle_timeout_seconds=3600)
    one.run("cd /usr; export A=state; mkfifo /tmp/go")
    started = one.client.post(f"{one.path}/run", json={"code": "echo $A; pwd; read x < /tmp/go; echo end; exit 3",
                                                        "background": True})
    assert started.status_code == 202, started.text
    assert started.json()["session_id"] == one.id
    path = f"{one.path}/runs/{started.json()['run_id']}"
    status = one.client.get(path).json()
    assert status["running"] is True and "exit_code" not in status
    busy = one.client.post(f"{one.path}/commit")
    assert (busy.status_code, busy.json()["code"]) == (409, "CONFLICT")
    one.run("echo > /tmp/go")
    deadline = time.monotonic() + 60
    while (status := one.client.get(path).json())["running"]:
        assert time.monotonic() < deadline
    assert status["exit_code"] == 3 and status["finished_at"] >= status["started_at"]
    logs = one.client.get(f"{path}/logs")
    assert logs.text == "state\n/usr\nend\n"
    cursor = int(logs.headers["EXECD-ISOLATED-TAIL-CURSOR"])
    assert cursor == len(logs.content)
    rest = one.client.get(f"{path}/logs", params={"cursor": cursor})
    assert rest.text == "" and int(rest.headers["EXECD-ISOLATED-TAIL-CURSOR"]) == cursor
    assert one.client.get(f"{path}/logs", params={"cursor": 6}).text == logs.text[6:]
    assert one.client.get(f"{path}/logs", params={"cursor": -1}).status_code == 400
    refused = one.client.post(f"{one.path}/run", json={"code": "true", "background": True, "timeout_seconds": 5})
    assert refused.status_code == 400


def test_the_log_of_a_background_run_is_bounded(session):
    """16 MiB, the newest; cursors count all that was written."""
    one = session()
    size = 24 << 20
    started = one.client.post(f"{one.path}/run", json={"code": f"head -c {size} /dev/zero | tr '\\0' x; echo the end", "background": True})
    path = f"{one.path}/runs/{started.json()['run_id']}"
    while one.client.get(path).json()["running"]:
        time.sleep(0.05)
    logs = one.client.get(f"{path}/logs")
    assert logs.content.endswith(b"xthe end\n") and len(logs.content) <= 16 << 20
    assert int(logs.headers["EXECD-ISOLATED-TAIL-CURSOR"]) == size + 8


def test_an_overlay_that_does_not_persist(session, tmp_path):
    (tmp_path / "old").write_text("old")
    one = session(overlays=[{"path": str(tmp_path), "persist": False}])
    assert one.run("echo new > new; cat old new") == ["oldnew"]
    hidden = one.client.get(f"{one.path}/files/info", params={"path": f"{tmp_path}/new"})
    assert hidden.status_code == 400
    refused = one.client.post(f"{one.path}/run", json={"code": "true", "background": True})
    assert refused.status_code == 400
    with tarfile.open(fileobj=io.BytesIO(one.client.get(f"{one.path}/diff").content)) as diff:
        assert diff.getnames() == []


def test_files(session, isolating, tmp_path):
    (tmp_path / "old").write_text("old")
    one = session()
    at = str(tmp_path)
    files = f"{one.path}/files"
    upload = isolating.client.post(f"{files}/upload", files=[
        ("metadata", ("metadata", json.dumps({"path": f"{at}/up", "mode": 600}), "application/json")),
        ("file", ("up", b"uploaded", "application/octet-stream"))])
    assert upload.status_code == 200, upload.text
    assert one.run("cat up; echo; stat -c %a up") == ["uploaded", "600"]
    assert isolating.client.get(f"{files}/download", params={"path": f"{at}/up"}).content == b"uploaded"
    assert isolating.client.get(f"{files}/info", params={"path": f"{at}/old"}).json()[f"{at}/old"]["size"] == 3
    listed = isolating.client.get(f"{one.path}/directories/list", params={"path": at}).json()
    assert sorted(pathlib.Path(entry["path"]).name for entry in listed) == ["old", "up"]
    assert isolating.client.delete(files, params={"path": f"{at}/old"}).status_code == 200
    assert one.run("ls") == ["up"]
    assert (tmp_path / "old").exists() and not (tmp_path / "up").exists()
    outside = isolating.client.get(f"{files}/download", params={"path": "/etc/passwd"})
    assert (outside.status_code, outside.json()["code"]) == (400, "INVALID_REQUEST_BODY")
    read_only = session(with_={"mode": "ro"})
    refused = isolating.client.post(f"{read_only.path}/directories", json={f"{at}/made": {}})
    assert refused.status_code == 403, refused.text
    assert isolating.client.get(f"{read_only.path}/files/download", params={"path": f"{at}/old"}).content == b"old"


def test_diff(session, isolating, tmp_path):
    for name in ("gone", "changed"):
        (tmp_path / name).write_text(name)
    (tmp_path / "replaced").mkdir()
    (tmp_path / "replaced" / "inner").write_text("inner")
    one = session()
    one.run("rm gone; echo more >> changed; rm -r replaced; mkdir replaced; echo n > replaced/new; ln -s changed link;"
            " mkdir -p deep/er; head -c 200000 /dev/urandom > deep/er/big; chmod 741 deep/er/big")
    response = isolating.client.get(f"{one.path}/diff")
    assert response.status_code == 200 and response.headers["Content-Type"] == "application/gzip"
    top = str(tmp_path)[1:]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(response.content))) as diff:
        names = set(diff.getnames())
        assert {f"{top}/{name}" for name in (".wh.gone", "changed", "replaced", "replaced/.wh..wh..opq", "replaced/new",
                                             "link", "deep", "deep/er", "deep/er/big")} == names
        assert diff.extractfile(f"{top}/changed").read() == b"changedmore\n"
        assert diff.getmember(f"{top}/link").linkname == "changed"
        big = diff.getmember(f"{top}/deep/er/big")
        assert (big.size, big.mode) == (200000, 0o741)


def test_a_diff_that_is_too_long(start_execd, tmp_path):
    execd = start_execd(args=["--isolation-diff-max-bytes", "20000"])
    one = Session(execd, workspace={"path": str(tmp_path)})
    one.run("head -c 30000 /dev/zero > f")
    response = execd.client.get(f"{one.path}/diff")
    assert response.status_code == 413


def test_settings_from_a_file(start_execd, tmp_path):
    (tmp_path / "execd.toml").write_text(f"diff_max_bytes = 20000\nallowed_writable = ['{tmp_path}']\n"
                                         "[hardening]\nenabled = false\n")
    execd = start_execd(env={"EXECD_ISOLATION_CONFIG": str(tmp_path / "execd.toml")})
    for name in ("work", "more"):
        (tmp_path / name).mkdir()
    one = Session(execd, workspace={"path": str(tmp_path / "work")}, extra_writable=[str(tmp_path / "more")])
    one.run("head -c 30000 /dev/zero > f")
    assert execd.client.get(f"{one.path}/diff").status_code == 413
    refused = execd.client.post(f"{BASE}/session", json={"workspace": {"path": str(tmp_path)}, "extra_writable": ["/mnt"]})
    assert refused.status_code == 400


def test_a_wall_that_execd_does_not_have_stops_the_start(tmp_path):
    (tmp_path / "execd.toml").write_text("[hardening]\nenabled = true\n")
    refused = subprocess.run([binary(), "--port=0", "--isolation-config", tmp_path / "execd.toml"], capture_output=True,
                             text=True, timeout=60)
    assert refused.returncode == 1 and "[hardening] enabled" in refused.stderr, refused


def test_commit(session, isolating, tmp_path):
    for name in ("gone", "changed"):
        (tmp_path / name).write_text(name)
    (tmp_path / "replaced").mkdir()
    (tmp_path / "replaced" / "inner").write_text("inner")
    one = session()
    one.run("export KEPT=yes; rm gone; echo more >> changed; rm -r replaced; mkdir replaced; echo n > replaced/new;"
            " ln -s changed link; mkdir d; chmod 750 d; chown 12:34 d; echo in > d/in")
    response = isolating.client.post(f"{one.path}/commit")
    assert response.status_code == 200, response.text
    assert response.json()["removed"] == 1 and response.json()["written"] >= 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["changed", "d", "link", "replaced"]
    assert (tmp_path / "changed").read_text() == "changedmore\n"
    assert [path.name for path in (tmp_path / "replaced").iterdir()] == ["new"]
    info = (tmp_path / "d").stat()
    assert (info.st_mode & 0o7777, info.st_uid, info.st_gid) == (0o750, 12, 34)
    # The session goes on, over what it has committed and without changes.
    assert one.run("echo $KEPT; ls; cat changed") == ["yes", "changed", "d", "link", "replaced", "changedmore"]
    with tarfile.open(fileobj=io.BytesIO(isolating.client.get(f"{one.path}/diff").content)) as diff:
        assert diff.getnames() == []
    assert one.state()["status"] == "active"


def test_a_full_disk(session, tmp_path):
    one = session()
    assert one.run("head -c 20000000 /dev/zero > big 2>/dev/null || echo full") == ["full"]
    assert one.run("rm big; echo fits > small; cat small") == ["fits"]


def test_an_idle_session_ends(session):
    one = session(idle_timeout_seconds=1)
    deadline = time.monotonic() + 60
    while one.state()["status"] == "active":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert one.state()["status"] == "destroyed"
    refused = one.client.post(f"{one.path}/run", json={"code": "true"})
    assert (refused.status_code, refused.json()["code"]) == (503, "SERVICE_UNAVAILABLE")


def test_a_background_run_keeps_an_idle_session(session):
    """Its clock stands until the run has ended."""
    run = {"code": "mkfifo /tmp/go; read x </tmp/go", "background": True}
    while (busy := session(idle_timeout_seconds=1)).client.post(f"{busy.path}/run", json=run).status_code != 202:
        pass  # a slow machine took longer than its second
    other = session(idle_timeout_seconds=1)
    deadline = time.monotonic() + 60
    while other.state()["status"] == "active":
        assert time.monotonic() < deadline
    assert busy.state()["status"] == "active", "begun before the other"
    busy.run("until [ -p /tmp/go ]; do sleep 0.05; done; echo >/tmp/go")
    while busy.state()["status"] == "active":
        assert time.monotonic() < deadline


def test_a_network_that_cannot_be_left_out_is_a_503(start_execd, tmp_path):
    """In a user namespace whose root may make no networks."""
    none = 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"'
    execd = start_execd(under=["unshare", "--user", "--map-root-user", "sh", "-c", none, "sh"])
    workspace = {"path": str(tmp_path)}
    response = execd.client.post(f"{BASE}/session", json={"workspace": workspace, "share_net": False})
    assert (response.status_code, response.json()["code"]) == (503, "SERVICE_UNAVAILABLE"), response.text
    assert Session(execd, workspace=workspace).run("echo made") == ["made"], "with the network"


def first_process(isolating, one):
    """The outer pid of a session's first process: the execd whose namespaces are those of the session."""
    inside = one.run("readlink /proc/self/ns/pid")[0]
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "status").read_text()
                if os.readlink(entry / "ns" / "pid") == inside and "NSpid:" in status:
                    if status.split("NSpid:")[1].split("\n")[0].split()[-1] == "1":
                        return int(entry.name)
            except OSError:
                continue
    raise AssertionError("no first process")


def test_a_killed_first_process_is_a_dead_session(session, isolating):
    one = session()
    pid = first_process(isolating, one)
    with one.client.stream("POST", f"{one.path}/run", json={"code": "echo up; sleep 1000"}) as stream:
        events = []
        for line in stream.iter_lines():
            if line:
                events.append(json.loads(line))
                if events[-1]["type"] == "stdout":
                    os.kill(pid, signal.SIGKILL)
    assert events[-1]["type"] == "error"
    deadline = time.monotonic() + 60
    while one.state()["status"] != "dead":
        assert time.monotonic() < deadline
    assert one.client.post(f"{one.path}/run", json={"code": "true"}).status_code == 503
    one.delete()
    assert one.client.get(one.path).status_code == 404


ESCAPES = {
    "mount": "mount -t tmpfs none /mnt",
    "remount": "mount -o remount,rw /",
    "unshare": "unshare -m true",
    "user namespace": "unshare -U true",
    "chroot of pid 1": "ls /proc/1/root/",
    "descriptors of pid 1": "readlink /proc/1/fd/3",
    "memory of pid 1": "head -c 1 /proc/1/mem",
    "environment of pid 1": "cat /proc/1/environ",
    "kill pid 1": "kill -9 1; sleep 0.2; kill -0 1 && false",
    "device": "mknod /tmp/sda b 8 0 && head -c 1 /tmp/sda",
    "sysctl": "echo 1 > /proc/sys/vm/drop_caches",
    "sysrq": "echo h > /proc/sysrq-trigger",
    "kernel log": "dmesg",
    "host name": "hostname other",
    "nsenter": "nsenter -t 1 -m true",
    "write outside": "touch /etc/escaped",
    "terminal of the sandbox": "ls /dev/pts/[0-9]*",
    "debug": "python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).ptrace(16,1,0,0)==0 else 1)'",
}


@pytest.mark.parametrize("user", [{}, {"uid": 1000}, {"uid_mode": "userns"}, {"uid": 1000, "uid_mode": "userns"}],
                         ids=["root", "user", "root of a namespace", "user of a namespace"])
@pytest.mark.parametrize("profile", ["strict", "balanced"])
def test_escapes_fail(session, tmp_path, profile, user):
    tmp_path.chmod(0o777)
    one = session(profile=profile, **user)
    for name, code in ESCAPES.items():
        assert one.run(f"({code}) >/dev/null 2>&1 && echo escaped || echo kept") == ["kept"], name
    capabilities = int(one.run("grep CapEff /proc/self/status")[0].split()[1], 16)
    for forbidden in (12, 16, 17, 18, 19, 21, 25):  # net_admin module rawio chroot ptrace sys_admin time
        assert capabilities >> forbidden & 1 == 0, forbidden
    assert one.run("grep -E 'NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t'") == ["NoNewPrivs:1", "Seccomp:2"]
    assert not pathlib.Path("/etc/escaped").exists()


def test_two_sessions_do_not_see_each_other(session, tmp_path):
    one, two = session(), session()
    one.run("export SECRET_OF_ONE=12345; echo secret > file; echo secret > /tmp/file; echo secret > /dev/shm/file;"
            " (exec -a process-of-one sleep 1000) & true", envs={"SECRET_OF_ONE": "12345"})
    look = "ls; ls /tmp /dev/shm /run; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"
    seen = two.run(look)
    assert [line for line in seen if line == "file" or "process-of-one" in line or "12345" in line] == [], seen
    assert any("process-of-one" in line for line in one.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'"))
    # Neither by System V memory nor by abstract sockets of a network of its own.
    one.run("ipcmk -M 4096 >/dev/null 2>&1; true")
    assert two.run("ipcs -m 2>/dev/null | grep -c '^0x' || true") in (["0"], [])


def gone(pid):
    try:
        return "State:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_end_of_execd_ends_its_sessions(start_execd, tmp_path):
    execd = start_execd()
    one = Session(execd, workspace={"path": str(tmp_path)})
    pid = first_process(execd, one)
    os.kill(execd.pid, signal.SIGKILL)
    assert execd.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while not gone(pid):
        assert time.monotonic() < deadline


def test_a_prepared_session_without_the_sandboxs_filter_is_not_made():
    """sandboxd gives it to the process; without it that would be a way around the sandbox's walls."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fields = ("1", "1", "1", "", "", str(MIB), "5")
    spec = os.memfd_create("spec")
    os.write(spec, b"".join(len(each).to_bytes(8, "little") + each.encode() for each in fields))
    process = os.fork()
    if process == 0:
        os.dup2(theirs.fileno(), 3)
        os.closerange(4, 1000)
        os.execv(binary(), ["execd", "--isolated-session", "prepared", "0"])
    theirs.close()
    socket.send_fds(ours, [b"S"], [spec])
    ours.settimeout(60)
    assert ours.recv(4096)[:1] == b"f"
    assert os.waitpid(process, 0)[1] != 0
