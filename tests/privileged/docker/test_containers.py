"""The container of a sandbox: names, labels, limits, rights, mounts and ports of the contract."""

import json
import pathlib
import socket

import httpx
import pytest

from execd_process import ROOT, binary
from registry import busybox_layer, tar

SYSTEM = "opensandbox.io/"


def labels(engine, id):
    return engine.inspect(id)["Config"]["Labels"]


def test_names_and_labels(server, engine):
    made = server.create(metadata={"team": "a", "example.com/x": ""}, timeout=600,
                         platform={"os": "linux", "arch": "amd64"},
                         extensions={"access.renew.extend.seconds": "600"})
    found = labels(engine, made["id"])
    assert engine.inspect(made["id"])["Name"] == f"/sandbox-{made['id']}"
    assert found["team"] == "a" and found["example.com/x"] == ""
    assert found[SYSTEM + "id"] == made["id"]
    assert found[SYSTEM + "expires-at"].endswith("+00:00")
    assert found[SYSTEM + "platform-os"] == "linux" and found[SYSTEM + "platform-arch"] == "amd64"
    assert found[SYSTEM + "access-renew-extend-seconds"] == "600"
    assert SYSTEM + "manual-cleanup" not in found
    ports = engine.inspect(made["id"])["HostConfig"]["PortBindings"]
    assert found[SYSTEM + "embedding-proxy-port"] == ports["44772/tcp"][0]["HostPort"]
    assert found[SYSTEM + "http-port"] == ports["8080/tcp"][0]["HostPort"]
    shown = server.get(made["id"]).json()
    assert shown["metadata"] == {"team": "a", "example.com/x": ""}
    assert shown["platform"] == {"os": "linux", "arch": "amd64"}
    forever = server.create(timeout=None)["id"]
    assert labels(engine, forever)[SYSTEM + "manual-cleanup"] == "true"
    assert SYSTEM + "expires-at" not in labels(engine, forever)
    assert "metadata" not in server.get(forever).json()


def test_labels_of_images_and_engines_are_no_metadata(server, engine):
    engine.load("labelled:1", [busybox_layer()], Labels={
        "org.opencontainers.image.title": "t", "com.docker.x": "y", "desktop.docker.io/z": "w", "vendor": "them",
        SYSTEM + "manual-cleanup": "true", SYSTEM + "expires-at": "2000-01-01T00:00:00+00:00"})
    made = server.create(image={"uri": "labelled:1"}, metadata={"mine": "1"}, timeout=600)
    shown = server.get(made["id"]).json()
    assert shown["metadata"] == {"mine": "1"}
    assert shown["expiresAt"] == made["expiresAt"]
    server.delete(made["id"])
    engine.ask("DELETE", "/images/labelled:1")


def test_limits_and_rights(server, engine):
    id = server.create(resourceLimits={"cpu": "1500m", "memory": "64Mi", "pids": "100"})["id"]
    host = engine.inspect(id)["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["PidsLimit"]) == (1_500_000_000, 64 << 20, 100)
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert not host["Privileged"] and not host["CapAdd"]
    dropped = {name.removeprefix("CAP_") for name in host["CapDrop"]}
    assert dropped == {"AUDIT_WRITE", "MKNOD", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE",
                       "SYS_TIME", "SYS_TTY_CONFIG"}
    assert host["RestartPolicy"]["Name"] in ("", "no") and not host["AutoRemove"]
    effective = int(server.run(id, "cat /proc/self/status | while read a b; do [ $a = CapEff: ] && echo $b; done"), 16)
    for bit in (12, 13, 16, 19, 21, 25, 26, 27, 29):  # the numbers of those above
        assert not effective >> bit & 1, bit
    assert "1" in server.run(id, "cat /proc/self/status | while read a b; do [ $a = NoNewPrivs: ] && echo $b; done")


@pytest.mark.parametrize("text, bytes", [("33554432", 32 << 20), ("64m", 64_000_000), ("64MB", 64_000_000),
                                         ("64mi", 64 << 20), ("65536ki", 64 << 20), (" 1Gi ", 1 << 30)])
def test_quantities_of_memory(server, engine, text, bytes):
    id = server.create(resourceLimits={"memory": text})["id"]
    # The kernel counts pages.
    assert engine.inspect(id)["HostConfig"]["Memory"] == bytes


def test_environment_user_and_directory(server, engine):
    engine.load("with-user:1", [busybox_layer(home__worker=None)], User="1234:1235", WorkingDir="/tmp",
                Env=["FROM_IMAGE=yes", "PATH=/bin"])
    id = server.create(image={"uri": "with-user:1"}, env={"A": "1", "EMPTY": "", "NONE": None})["id"]
    assert server.run(id, "echo $FROM_IMAGE $A [$EMPTY] ${NONE-unset}") == "yes 1 [] unset"
    assert server.run(id, "id -u; id -g; pwd") == "1234\n1235\n/tmp"
    server.delete(id)
    engine.ask("DELETE", "/images/with-user:1")


def test_an_entrypoint_of_one_line_is_split_as_a_shell_would(server, engine):
    id = server.create(entrypoint=["sh -c 'echo \"a  b\"; sleep 1000'"])["id"]
    assert engine.inspect(id)["Config"]["Cmd"] == ["sh", "-c", 'echo "a  b"; sleep 1000']
    assert engine.inspect(id)["Config"]["Entrypoint"] == ["/opt/opensandbox/bootstrap.sh"]


def test_execd_is_mounted_as_two_files_that_cannot_be_changed(server, engine):
    id = server.create()["id"]
    mounts = {mount["Destination"]: mount["RW"] for mount in engine.inspect(id)["Mounts"]}
    assert mounts == {"/opt/opensandbox/execd": False, "/opt/opensandbox/bootstrap.sh": False}
    for name in ("execd", "bootstrap.sh"):
        assert "Read-only" in server.run(id, f"echo x > /opt/opensandbox/{name}")
        server.run(id, f"rm -f /opt/opensandbox/{name}")
        assert server.run(id, f"test -s /opt/opensandbox/{name} && echo there") == "there"
    assert server.run(id, "echo x > /opt/opensandbox/own && cat /opt/opensandbox/own") == "x"


def test_ports_are_published_on_loopback_only_when_the_server_is_there(server, engine):
    id = server.create()["id"]
    ports = engine.inspect(id)["NetworkSettings"]["Ports"]
    assert {binding["HostIp"] for bindings in ports.values() for binding in bindings} == {"127.0.0.1"}
    port = int(ports["44772/tcp"][0]["HostPort"])
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass
    outside = engine.inspect(id)["NetworkSettings"]["Gateway"]  # another address of this host
    with pytest.raises(OSError):
        socket.create_connection((outside, port), timeout=10)


def test_endpoints(server, engine):
    id = server.create(entrypoint=["sh", "-c", "mkdir /w; echo served > /w/page; sleep 1000"])["id"]
    ports = engine.inspect(id)["NetworkSettings"]["Ports"]
    published = {port: int(ports[f"{port}/tcp"][0]["HostPort"]) for port in (44772, 8080)}
    for port, wanted in ((8080, f"127.0.0.1:{published[8080]}"), (44772, f"127.0.0.1:{published[44772]}/proxy/44772"),
                         (18080, f"127.0.0.1:{published[44772]}/proxy/18080"),
                         (3000, f"127.0.0.1:{published[44772]}/proxy/3000")):
        answer = server.client.get(f"/v1/sandboxes/{id}/endpoints/{port}")
        assert (answer.status_code, answer.json()["endpoint"]) == (200, wanted), answer.text
    endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/44772").json()
    for headers, status in ((endpoint["headers"], 200), ({}, 401)):
        answer = httpx.get(f"http://{endpoint['endpoint']}/ping", headers=headers, trust_env=False)
        assert answer.status_code == status
    expires = server.client.get(f"/v1/sandboxes/{id}/endpoints/80", params={"expires": 4102444800})
    assert expires.status_code == 400, expires.text


def test_secrets_are_not_shown(server, engine):
    id = server.create(env={"API_TOKEN": "hunter2"})["id"]
    token = server.token(id)["X-EXECD-ACCESS-TOKEN"]
    for what in ("inspect", "summary", "events", "logs"):
        text = server.client.get(f"/v1/sandboxes/{id}/diagnostics/{what}").text
        assert token not in text and "hunter2" not in text, what
    assert token not in json.dumps(labels(engine, id))
    assert token not in server.log() and "hunter2" not in server.log()
    assert token not in server.run(id, "env")


def test_a_command_cannot_reach_the_engine_or_the_hosts_files(server):
    id = server.create()["id"]
    assert server.run(id, "ls /var/run/docker.sock /run/docker.sock 2>/dev/null; echo none") == "none"


def test_expiry_of_the_store_wins_over_the_label_after_a_restart(make_server, engine):
    """A renewal cannot change a label; the contract's own server forgets it."""
    server = make_server()
    id = server.create(timeout=60)["id"]
    renewed = server.client.post(f"/v1/sandboxes/{id}/renew-expiration",
                                 json={"expiresAt": "2999-01-01T00:00:00Z"}).json()["expiresAt"]
    server.client.patch(f"/v1/sandboxes/{id}/metadata", json={"added": "1"})
    server.kill()
    server.start()
    shown = server.get(id).json()
    assert (shown["expiresAt"], shown["metadata"]) == (renewed, {"added": "1"})
    server.remove_all()


def test_a_seccomp_profile_from_a_file(make_server, tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["symlink", "symlinkat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}))
    server = make_server(settings={"docker": {"seccomp_profile": str(profile)}})
    id = server.create()["id"]
    assert "not permitted" in server.run(id, "busybox ln -s a /root/b")
    assert server.run(id, "busybox mkdir /root/c && echo made") == "made"
    server.remove_all()


def by_hand(engine, id, port, labels):
    """A container as the contract's own server makes it: execd is copied into it and asks for no token."""
    name = f"/containers/sandbox-{id}"
    bindings = {f"{inside}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(outside)}]
                for inside, outside in ((44772, port), (8080, port + 1))}
    body = {"Image": "busybox", "Entrypoint": ["/opt/opensandbox/bootstrap.sh"], "Cmd": ["sleep", "1000"],
            "ExposedPorts": {key: {} for key in bindings}, "HostConfig": {"PortBindings": bindings},
            "Labels": {SYSTEM + "id": id, SYSTEM + "embedding-proxy-port": str(port),
                       SYSTEM + "http-port": str(port + 1), **labels}}
    engine.ask("POST", "/containers/create", params={"name": f"sandbox-{id}"}, json=body)
    files = {"opt": None, "opt/opensandbox": None, "opt/opensandbox/execd": pathlib.Path(binary()).read_bytes(),
             "opt/opensandbox/bootstrap.sh": (ROOT / "deploy" / "execd" / "bootstrap.sh").read_bytes()}
    engine.ask("PUT", f"{name}/archive", params={"path": "/"}, content=tar(files),
               headers={"Content-Type": "application/x-tar"})
    engine.ask("POST", f"{name}/start")


def test_containers_of_others_are_adopted_when_a_server_starts(make_server, engine):
    server = make_server()
    server.delete(server.create()["id"])  # it has put execd in its place
    server.stop()
    kept, due = "6b0a2c7e-0000-4000-8000-00000000000a", "6b0a2c7e-0000-4000-8000-00000000000b"
    stranger = engine.ask("POST", "/containers/create", params={"name": "no-sandbox"},
                          json={"Image": "busybox", "Cmd": ["sleep", "1000"]})["Id"]
    by_hand(engine, kept, 39000, {"team": "theirs", SYSTEM + "expires-at": "2999-01-01T00:00:00+00:00"})
    by_hand(engine, due, 39002, {SYSTEM + "expires-at": "2020-01-01T00:00:00+00:00"})
    with engine.until_removed(due), server.saying("took over"):
        server.start()
    server.wait_state(kept, "Running")
    shown = server.get(kept).json()
    assert shown["metadata"] == {"team": "theirs"} and shown["expiresAt"] == "2999-01-01T00:00:00Z"
    assert shown["image"]["uri"].startswith("busybox") and shown["entrypoint"][-2:] == ["sleep", "1000"]
    endpoint = server.client.get(f"/v1/sandboxes/{kept}/endpoints/44772").json()
    assert endpoint == {"endpoint": "127.0.0.1:39000/proxy/44772"}
    answer = httpx.post(f"{server.url}/sandboxes/{kept}/proxy/44772/command", json={"command": "echo theirs"},
                        trust_env=False, timeout=180)
    assert '"text":"theirs"' in answer.text.replace(" ", "")
    assert server.get(due).status_code == 404
    server.delete(kept)
    assert [each["Id"] for each in engine.containers()] == [stranger]
    engine.ask("DELETE", f"/containers/{stranger}")


def test_an_exported_snapshot_can_be_loaded(server, engine):
    id = server.create()["id"]
    server.run(id, "echo kept > /root/file")
    snapshot = snapshot_of(server, id)
    server.delete(id)
    archive = server.client.get(f"/v1/snapshots/{snapshot}/export")
    assert (archive.status_code, archive.headers["content-type"]) == (200, "application/x-tar"), archive.text
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204
    name = f"opensandbox-snapshots:{snapshot}"
    assert name not in engine.inventory()["images"]
    engine.load_archive(archive.content)
    assert server.run(server.create(image={"uri": name})["id"], "cat /root/file") == "kept"
    server.remove_all()
    engine.ask("DELETE", f"/images/{name}")


def snapshot_of(server, id):
    made = server.client.post(f"/v1/sandboxes/{id}/snapshots", json={})
    assert made.status_code == 202, made.text
    shown = server.client.get(f"/v1/snapshots/{made.json()['id']}", params={"wait": 150}).json()
    assert (shown["status"]["state"], shown["status"]["reason"]) == ("Ready", "snapshot_runtime_ready"), shown
    return shown["id"]


def test_a_restored_sandbox_has_nothing_of_its_source_but_files(server, engine):
    volume = {"name": "v", "mountPath": "/v", "pvc": {"claimName": "source-volume", "deleteOnSandboxTermination": True}}
    source = server.create(metadata={"old": "1"}, timeout=600, env={"OLD": "yes"}, volumes=[volume],
                           extensions={"access.renew.extend.seconds": "600"})["id"]
    server.run(source, "echo kept > /file; echo volume > /v/file")
    token = server.token(source)
    snapshot = snapshot_of(server, source)
    assert f"opensandbox-snapshots:{snapshot}" in engine.inventory()["images"]
    copy = server.create(image=..., snapshotId=snapshot, timeout=None, metadata={"new": "2"})["id"]
    found = labels(engine, copy)
    for name in ("expires-at", "volume-managed-by", "egress-auth-token", "ossfs-mounts", "access-renew-extend-seconds"):
        assert not found.get(SYSTEM + name), (name, found)
    assert found[SYSTEM + "snapshot-id"] == snapshot and found[SYSTEM + "id"] == copy
    assert found[SYSTEM + "manual-cleanup"] == "true"
    shown = server.get(copy).json()
    assert (shown["metadata"], shown["snapshotId"]) == ({"new": "2"}, snapshot)
    assert "expiresAt" not in shown and "image" not in shown
    assert server.token(copy) != token
    assert server.run(copy, "cat /file; ls /v") == "kept"
    server.delete(copy)
    assert "source-volume" in engine.inventory()["volumes"]
    assert server.run(source, "cat /v/file") == "volume"
    server.delete(source)
    assert "source-volume" not in engine.inventory()["volumes"]
    timed = server.create(image=..., snapshotId=snapshot, timeout=600)["id"]
    assert SYSTEM + "manual-cleanup" not in {k: v for k, v in labels(engine, timed).items() if v}
    renewed = server.client.post(f"/v1/sandboxes/{timed}/renew-expiration", json={"expiresAt": "2999-01-01T00:00:00Z"})
    assert renewed.status_code == 200, renewed.text
    server.delete(timed)
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204


def test_a_snapshot_in_use_is_not_deleted(server, engine):
    source = server.create()["id"]
    snapshot = snapshot_of(server, source)
    copy = server.create(image=..., snapshotId=snapshot)["id"]
    refused = server.client.delete(f"/v1/snapshots/{snapshot}")
    assert (refused.status_code, refused.json()["code"]) == (409, "SNAPSHOT::DELETE_CONFLICT")
    server.delete(copy)
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204
    missing = server.client.delete(f"/v1/snapshots/{snapshot}")
    assert missing.status_code == 404


@pytest.fixture
def network(engine):
    name = "MixedCase-net"
    engine.ask("POST", "/networks/create", json={"Name": name, "CheckDuplicate": True})
    yield name
    engine.ask("DELETE", f"/networks/{name}")


def test_a_network_of_ones_own(make_server, engine, network):
    server = make_server(settings={"docker": {"network_mode": network}})
    id = server.create()["id"]
    assert list(engine.inspect(id)["NetworkSettings"]["Networks"]) == [network]
    assert server.run(id, "echo there") == "there"
    refused = server.post_sandbox(networkPolicy={})
    assert (refused.status_code, refused.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER")
    server.remove_all()


def test_the_hosts_network(make_server, engine):
    """No ports are published; one sandbox has execd's."""
    server = make_server(settings={"docker": {"network_mode": "host"}})
    id = server.create()["id"]
    found = engine.inspect(id)
    assert not found["HostConfig"]["PortBindings"] and SYSTEM + "http-port" not in found["Config"]["Labels"]
    endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/44772").json()
    assert endpoint["endpoint"] == "127.0.0.1:44772"
    assert server.run(id, "echo host") == "host"
    server.remove_all()
