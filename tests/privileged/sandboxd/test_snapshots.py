"""Snapshots: what was in a sandbox is in the next one, and nothing else."""

import concurrent.futures
import os
import uuid

import pytest

from attack import attack
from registry import busybox_layer, docker_archive, tar

# Everything that can be told of a tree, as {path: facts}. Sockets are not kept, and three files are mounts.
DESCRIBE = """
import hashlib, stat
def facts(path):
    st = os.lstat(path)
    out = {'mode': oct(st.st_mode), 'owner': [st.st_uid, st.st_gid], 'mtime': st.st_mtime_ns, 'links': st.st_nlink}
    if stat.S_ISREG(st.st_mode):
        out['content'] = hashlib.sha256(open(path, 'rb').read()).hexdigest()
        out['size'] = st.st_size
    if stat.S_ISLNK(st.st_mode):
        out['target'] = os.readlink(path)
    if stat.S_ISDIR(st.st_mode):
        del out['links'], out['mtime']
    else:
        out['attributes'] = {name: os.getxattr(path, name, follow_symlinks=False).hex()
                             for name in os.listxattr(path, follow_symlinks=False)}
    return out
tree = {}
mounted = ('/etc/hosts', '/etc/hostname', '/etc/resolv.conf')
for top in tops:
    for directory, names, files in os.walk(top):
        for name in [''] + names + files:
            path = os.path.join(directory, name).rstrip('/')
            if not stat.S_ISSOCK(os.lstat(path).st_mode) and path not in mounted:
                tree[path] = facts(path)
report(tree)
"""

CHANGE = """
os.makedirs('/srv/dir/deep')
open('/srv/dir/plain', 'w').write('text')
open('/srv/dir/large', 'wb').write(os.urandom(3 << 20))
with open('/srv/dir/sparse', 'wb') as file:
    file.truncate(64 << 20)
    file.seek(32 << 20)
    file.write(b'in the middle')
os.link('/srv/dir/plain', '/srv/dir/deep/same')
os.symlink('../nowhere', '/srv/dir/link')
os.symlink('/etc/passwd', '/srv/dir/absolute')
os.mkfifo('/srv/dir/pipe')
open('/srv/dir/owned', 'w').write('x')
os.chown('/srv/dir/owned', 1000, 65534)
open('/srv/dir/suid', 'w').write('x')
os.chmod('/srv/dir/suid', 0o6751)
os.chmod('/srv/dir/deep', 0o1770)
os.setxattr('/srv/dir/plain', 'user.colour', b'green')
os.setxattr('/srv/dir/suid', 'security.capability', bytes.fromhex('0100000200040000000000000000000000000000'))
os.utime('/srv/dir/owned', ns=(1, 1234567890123456789))
open('/srv/dir/' + 'n' * 255, 'w').close()
open('/srv/dir/\\udcff\\n"quoted', 'w').close()
gone = socket.socket(socket.AF_UNIX)
gone.bind('/srv/dir/socket')
report('changed')
"""


@pytest.fixture(autouse=True)
def no_snapshots_left(daemon):
    yield
    daemon.remove_all()
    for each in daemon.client.get("/v1/snapshots").json()["snapshots"]:
        assert daemon.client.delete(f"/v1/snapshots/{each['id']}").status_code == 204
    assert [name for name in os.listdir(daemon.state / "snapshots") if name != ".tmp"] == []
    assert os.listdir(daemon.state / "snapshots" / ".tmp") == []


def snapshot(daemon, sandbox):
    id = str(uuid.uuid4())
    response = daemon.client.post(f"/v1/sandboxes/{sandbox}/snapshots", json={"id": id})
    assert response.status_code == 201, response.text
    assert response.json()["id"] == id
    return id


def restore(daemon, id, snapshot, **fields):
    return daemon.create(id, image="", snapshot=snapshot, **fields)


def test_content_is_exact(daemon):
    first = daemon.create("first")
    attack(first, CHANGE)
    tops = ["/srv", "/etc", "/root", "/home", "/opt"]
    before = attack(first, DESCRIBE, tops=tops)
    assert len(before) > 15
    taken = snapshot(daemon, "first")
    first.output("rm -rf /srv/dir; echo later > /root/later")  # after it
    second = restore(daemon, "second", taken)
    assert attack(second, DESCRIBE, tops=tops) == before
    assert second.run("test -e /srv/dir/socket")[0] != 0
    assert second.output("stat -c %b /srv/dir/sparse") != str((64 << 20) // 512)
    assert second.inspect()["snapshot"] == taken and second.inspect()["image"] == "host"


def test_deleted_files_stay_deleted(daemon):
    first = daemon.create("first")
    first.output("rm /etc/passwd /usr/bin/env; rm -rf /usr/share/base-files; mkdir /usr/share/base-files; "
                 "rm -rf /etc/ssl; echo new > /usr/share/base-files/only")
    second = restore(daemon, "second", snapshot(daemon, "first"))
    assert second.run("test -e /etc/passwd")[0] != 0
    assert second.run("test -e /usr/bin/env")[0] != 0
    assert second.run("test -e /etc/ssl")[0] != 0
    assert second.output("ls /usr/share/base-files") == "only"


def test_changes_below_usr_of_the_host_image(daemon):
    first = daemon.create("first")
    first.output("printf '#!/bin/sh\\necho mine' > /usr/local/bin/tool; chmod 755 /usr/local/bin/tool; "
                 "echo changed > /usr/share/common-licenses/GPL-3; mkdir -p /usr/lib/mine; echo 1 > /usr/lib/mine/x")
    second = restore(daemon, "second", snapshot(daemon, "first"))
    assert second.output("tool; cat /usr/share/common-licenses/GPL-3 /usr/lib/mine/x").split() == [
        "mine", "changed", "1"]
    assert second.output("python3 -c 'print(1)'") == "1"  # the rest is the host's
    assert not os.path.exists("/usr/local/bin/tool") and not os.path.exists("/usr/lib/mine")


def test_a_sandbox_goes_on_after_its_snapshot(daemon):
    first = daemon.create("first", entrypoint=["sh", "-c", "while :; do date +%N > /tmp/tick; done"])
    taken = snapshot(daemon, "first")
    assert first.inspect()["state"] == "running"
    assert first.output("old=$(cat /tmp/tick); while [ \"$old\" = \"$(cat /tmp/tick)\" ]; do :; done; echo on") == "on"
    assert restore(daemon, "second", taken, entrypoint=["sleep", "1000"]).output("test -e /tmp/tick; echo $?") == "0"


def test_a_paused_sandbox_stays_paused(daemon):
    first = daemon.create("first")
    first.output("echo before > /root/file")
    assert daemon.client.post("/v1/sandboxes/first/pause").status_code == 204
    taken = snapshot(daemon, "first")
    assert first.inspect()["state"] == "paused"
    with pytest.raises(Exception):
        first.execd.get("/ping", timeout=0.3)
    assert restore(daemon, "second", taken).output("cat /root/file") == "before"
    assert daemon.client.post("/v1/sandboxes/first/resume").status_code == 204
    assert first.output("cat /root/file") == "before"


def test_an_exited_sandbox(daemon):
    daemon.create("first", entrypoint=["sh", "-c", "echo result > /root/file"])
    daemon.wait_for_end("first")
    second = restore(daemon, "second", snapshot(daemon, "first"), entrypoint=["sleep", "1000"])
    assert second.output("cat /root/file") == "result"


def test_mounts_are_not_part_of_it(daemon):
    """Volumes, /dev/shm, hosts and resolv.conf belong to the sandbox, not to its files."""
    first = daemon.create("first", hostname="first-host",
                          volumes=[{"kind": "tmpfs", "target": "/extra"}])
    first.output("echo secret > /extra/file; echo secret > /dev/shm/file; echo 192.0.2.1 x >> /etc/hosts")
    second = restore(daemon, "second", snapshot(daemon, "first"), hostname="second-host")
    assert second.output("ls /extra /dev/shm").split() == ["/dev/shm:", "/extra:"]
    assert "192.0.2.1" not in second.output("cat /etc/hosts")
    assert second.output("hostname; cat /etc/hostname").split() == ["second-host", "second-host"]


def test_a_chain_and_the_removal_of_its_middle(daemon):
    first = daemon.create("first")
    first.output("echo 1 > /root/one; echo 1 > /root/gone; echo old > /root/both")
    one = snapshot(daemon, "first")
    second = restore(daemon, "second", one)
    second.output("echo 2 > /root/two; rm /root/gone; echo new > /root/both")
    two = snapshot(daemon, "second")
    first.remove()
    second.remove()
    # The parent goes; what stands on it stays whole, also for a daemon that starts anew.
    assert daemon.client.delete(f"/v1/snapshots/{one}").status_code == 204
    assert daemon.client.get(f"/v1/snapshots/{one}").status_code == 404
    status, problem = daemon.refused(id="late", image="", snapshot=one)
    assert status == 404 and one in problem["message"]
    daemon.stop()
    daemon.start()
    third = restore(daemon, "third", two)
    assert third.output("cd /root; ls; cat both").split() == ["both", "one", "two", "new"]
    third.output("echo 3 > /root/three")
    three = snapshot(daemon, "third")
    third.remove()
    assert daemon.client.delete(f"/v1/snapshots/{two}").status_code == 204
    assert restore(daemon, "fourth", three).output("cat /root/one /root/two /root/three").split() == ["1", "2", "3"]


def test_a_snapshot_in_use_is_not_deleted(daemon):
    daemon.create("first")
    taken = snapshot(daemon, "first")
    second = restore(daemon, "second", taken)
    response = daemon.client.delete(f"/v1/snapshots/{taken}")
    assert (response.status_code, response.json()["code"]) == (409, "SNAPSHOT::DELETE_CONFLICT")
    assert taken in response.json()["message"]
    assert second.output("ls /usr/bin/env")
    second.remove()
    assert daemon.client.delete(f"/v1/snapshots/{taken}").status_code == 204
    assert daemon.client.delete(f"/v1/snapshots/{taken}").status_code == 404


def test_two_from_one_do_not_share_their_writes(daemon):
    daemon.create("first").output("echo base > /root/file")
    taken = snapshot(daemon, "first")
    one, two = restore(daemon, "one", taken), restore(daemon, "two", taken)
    one.output("echo one > /root/file")
    assert two.output("cat /root/file") == "base"
    assert restore(daemon, "three", taken).output("cat /root/file") == "base"


def test_an_image_stays_as_long_as_its_snapshot(daemon):
    layers = [busybox_layer(), tar({"srv": None, "srv/low": "low"})]
    archive = docker_archive("base:1", layers, Env=["A=b"])
    assert daemon.client.post("/v1/images/load", content=archive).status_code == 200
    first = daemon.create("first", image="base:1", entrypoint=["sleep", "1000"])
    first.output("echo high > /srv/high; rm /srv/low")
    taken = snapshot(daemon, "first")
    first.remove()
    daemon.client.delete("/v1/images", params={"name": "base:1", "force": "true"})
    assert daemon.client.post("/v1/images/collect").json()["layers"] == 0
    daemon.stop()
    daemon.start()
    daemon.client.post("/v1/images/collect")
    second = restore(daemon, "second", taken, entrypoint=["sleep", "1000"])
    assert second.output("ls /srv; echo $A").split() == ["high", "b"]
    second.remove()
    assert daemon.client.delete(f"/v1/snapshots/{taken}").status_code == 204
    assert daemon.client.post("/v1/images/collect").json()["layers"] == 2


def test_an_exported_snapshot_is_an_image(daemon):
    layers = [busybox_layer(), tar({"srv": None, "srv/low": "low", "srv/gone": "gone"})]
    assert daemon.client.post("/v1/images/load", content=docker_archive("base:1", layers)).status_code == 200
    first = daemon.create("first", image="base:1", entrypoint=["sleep", "1000"])
    first.output("echo high > /srv/high; rm /srv/gone; mkdir /srv/d; touch -d @7 /srv/high")
    archive = daemon.client.get(f"/v1/snapshots/{snapshot(daemon, 'first')}/export")
    assert archive.status_code == 200, archive.text
    loaded = daemon.client.post("/v1/images/load", content=archive.content, params={"name": "exported:1"})
    assert loaded.status_code == 200, loaded.text
    second = daemon.create("second", image="exported:1", entrypoint=["sleep", "1000"])
    assert second.output("ls /srv; cat /srv/high; stat -c %Y /srv/high").split() == [
        "d", "high", "low", "high", "7"]
    daemon.remove_all()
    for name in ("base:1", "exported:1"):
        assert daemon.client.delete("/v1/images", params={"name": name, "force": "true"}).status_code == 204


def test_a_snapshot_of_the_hosts_userland_cannot_be_exported(daemon):
    daemon.create("first")
    taken = snapshot(daemon, "first")
    response = daemon.client.get(f"/v1/snapshots/{taken}/export")
    assert response.status_code == 501 and "host" in response.json()["message"], response.text


def test_ids(daemon):
    daemon.create("first")
    for id in ("../../etc", "A", "", "a" * 65, ".tmp"):
        response = daemon.client.post("/v1/sandboxes/first/snapshots", json={"id": id})
        assert response.status_code == 400, id
    taken = snapshot(daemon, "first")
    response = daemon.client.post("/v1/sandboxes/first/snapshots", json={"id": taken})
    assert response.status_code == 409 and taken in response.json()["message"]
    unknown = str(uuid.uuid4())
    response = daemon.client.post("/v1/sandboxes/nobody/snapshots", json={"id": unknown})
    assert response.status_code == 404 and "nobody" in response.json()["message"]
    assert [each["id"] for each in daemon.client.get("/v1/snapshots").json()["snapshots"]] == [taken]


def test_many_at_once_of_one_sandbox(daemon):
    daemon.create("first").output("head -c 4M /dev/urandom > /root/file; sha256sum /root/file > /root/sum")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: snapshot(daemon, "first"), range(4)))
    for i, each in enumerate(taken):
        assert restore(daemon, f"copy-{i}", each).output("sha256sum -c /root/sum").endswith("OK")
