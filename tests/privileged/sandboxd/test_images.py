"""Where a sandbox's root comes from: a registry with TLS and a password, archives, directories."""

import concurrent.futures
import json
import os
import pathlib
import tempfile
import threading

import pytest

from registry import (PASSWORD, USER, Registry, busybox_layer, device, digest_of, docker_archive, hard_link, symlink,
                      tar)
from sandboxd_process import Sandboxd

LOGIN = {"username": USER, "password": PASSWORD}


@pytest.fixture(scope="module")
def registry():
    with tempfile.TemporaryDirectory(prefix="registry-") as directory:
        running = Registry(directory)
        yield running
        running.close()


@pytest.fixture(scope="module")
def daemon(registry):
    directory = registry.directory / "roots"
    directory.mkdir()
    running = Sandboxd(settings={"images": {"ca_file": str(registry.ca), "private_registries": [registry.host, "127.0.0.1:1"],
                                            "allowed_directories": [str(directory)]}})
    running.roots = directory
    yield running
    running.close()


@pytest.fixture(autouse=True)
def no_images_left(daemon):
    yield
    daemon.remove_all()
    for image in images(daemon).values():
        assert daemon.client.delete("/v1/images", params={"name": image["name"]}).status_code == 204
    daemon.client.post("/v1/images/collect")
    assert os.listdir(daemon.state / "images" / "layers") == []
    assert os.listdir(daemon.state / "images" / "tmp") == []


def images(daemon):
    return {image["name"]: image for image in daemon.client.get("/v1/images").json()["images"]}


def load(daemon, archive, **params):
    return daemon.client.post("/v1/images/load", content=archive, params=params)


def test_a_pulled_image_runs(daemon, registry):
    name = registry.push("test/plain:1", [busybox_layer(), tar({"srv": None, "srv/file": "second layer"})],
                         compress=True)
    sandbox = daemon.create("pulled", image=name, login=LOGIN, entrypoint=["sleep", "1000"])
    assert sandbox.output("cat /srv/file; ls -l /bin/sh").startswith("second layer")
    assert sandbox.inspect()["image"] == name
    assert images(daemon)[name]["in_use"]
    assert len(daemon.traces("pulled")) >= 4
    # Neither the record nor the log keeps the password.
    assert PASSWORD not in (daemon.state / "sandboxes" / "pulled" / "record.json").read_text()
    assert PASSWORD not in daemon.log()


def test_progress_is_told_while_creating(daemon, registry):
    name = registry.push("test/large:1", [busybox_layer(), tar({"noise": os.urandom(24 << 20)})])
    with daemon.client.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        creating = threading.Thread(target=lambda: daemon.create("slow", image=name, login=LOGIN,
                                                                 entrypoint=["sleep", "1000"]))
        creating.start()
        seen = []
        for line in lines:
            status = json.loads(line)["sandbox"]
            seen.append((status["state"], status["message"]))
            if status["state"] == "running":
                break
        creating.join()
    assert any(state == "creating" and message.startswith("pulling ") for state, message in seen), seen
    assert seen[-1][0] == "running"


def test_a_pull_can_be_watched(daemon, registry):
    name = registry.push("test/watched:1", [busybox_layer()], compress=True)
    response = daemon.client.post("/v1/images/pull", json={"name": name, "login": LOGIN})
    events = [json.loads(line) for line in response.text.splitlines()]
    assert [event["stage"] for event in events if event["type"] == "layer"][-1] == "done"
    assert events[-1]["type"] == "image" and events[-1]["image"]["name"] == name


@pytest.mark.parametrize("login, status", [({"username": USER, "password": "wrong"}, 401), (None, 401)])
def test_a_wrong_password_is_told(daemon, registry, login, status):
    name = registry.push("test/closed:1", [busybox_layer()])
    code, problem = daemon.refused(id="closed", image=name, **({"login": login} if login else {}))
    assert code == status, problem
    assert registry.host in problem["message"] and "wrong" not in problem["message"]
    assert daemon.traces("closed") == []


def test_an_image_is_not_open_to_callers_who_cannot_pull_it(daemon, registry):
    """With the policy Always even a stored image needs the registry's consent."""
    name = registry.push("test/private:1", [busybox_layer()])
    daemon.create("owner", image=name, login=LOGIN, entrypoint=["sleep", "1000"])
    assert daemon.refused(id="other", image=name, pull="always")[0] == 401


def test_unknown_images_are_named(daemon, registry):
    for name in (f"{registry.host}/test/nothing:1", f"{registry.host}/test/nothing@sha256:{'0' * 64}"):
        code, problem = daemon.refused(id="unknown", image=name, login=LOGIN)
        assert code == 404 and "test/nothing" in problem["message"], problem
        assert problem["code"] == "NATIVE::SANDBOX_IMAGE_PULL_FAILED"
    code, problem = daemon.refused(id="unknown", image="docker.io/UPPER:1")
    assert code == 400 and "docker.io/UPPER:1" in problem["message"]
    code, problem = daemon.refused(id="unknown", image="127.0.0.1:1/test/nobody:1")
    assert code == 503 and "127.0.0.1:1" in problem["message"]
    assert daemon.traces("unknown") == []


def test_a_registry_with_an_untrusted_certificate_is_refused(make_daemon, registry):
    name = registry.push("test/plain:2", [busybox_layer()])
    stranger = make_daemon(settings={"network": {"subnet": "10.91.0.0/24", "table": "osb-images",
                                                 "interface_prefix": "osbi-"},
                                     "images": {"private_registries": [registry.host]}})
    code, problem = stranger.refused(id="distrusted", image=name, login=LOGIN)
    assert code in (502, 503) and "certificate" in problem["message"], problem


def test_a_layer_that_does_not_match_its_digest_is_refused(daemon, registry):
    layer = busybox_layer(srv__mark="wrong digest")
    name = registry.push("test/damaged:1", [layer])
    file = registry.file_of(digest_of(layer))
    content = bytearray(file.read_bytes())
    content[-3000] ^= 1  # in the tail of the archive
    file.write_bytes(content)
    code, problem = daemon.refused(id="damaged", image=name, login=LOGIN)
    assert code == 400 and digest_of(layer) in problem["message"], problem
    assert daemon.traces("damaged") == []
    file.write_bytes(layer)
    daemon.create("repaired", image=name, login=LOGIN, entrypoint=["sleep", "1000"])


def test_a_truncated_layer_is_refused(daemon, registry):
    layer = busybox_layer(srv__mark="truncated")
    name = registry.push("test/short:1", [layer])
    registry.file_of(digest_of(layer)).write_bytes(layer[:100_000])
    code, problem = daemon.refused(id="short", image=name, login=LOGIN)
    assert code in (400, 502, 503), problem
    assert digest_of(layer) in problem["message"]
    assert daemon.traces("short") == []


def test_a_configuration_for_other_layers_is_refused(daemon, registry):
    """The manifest's layers are not those of the configuration."""
    other = tar({"file": "other"})

    def swap(manifest):
        manifest["layers"][0] |= registry.blob("test/swapped", other)
    name = registry.push("test/swapped:1", [busybox_layer()], change=swap)
    code, problem = daemon.refused(id="swapped", image=name, login=LOGIN)
    assert code == 400 and "sha256:" in problem["message"], problem
    assert daemon.traces("swapped") == []


def test_pull_policies(daemon, registry):
    first = registry.push("test/moving:1", [busybox_layer(version="one")])
    code, problem = daemon.refused(id="never", image=first, pull="never", login=LOGIN)
    assert code == 404 and "test/moving:1" in problem["message"]
    run = {"image": first, "entrypoint": ["sleep", "1000"], "login": LOGIN}
    assert daemon.create("one", **run).output("cat /version") == "one"
    registry.push("test/moving:1", [busybox_layer(version="two")])
    assert daemon.create("two", pull="missing", **run).output("cat /version") == "one"
    assert daemon.create("three", pull="always", **run).output("cat /version") == "two"
    assert daemon.create("four", pull="never", **run).output("cat /version") == "two"


def test_creates_at_once_pull_once(daemon, registry):
    layer = busybox_layer(noise=os.urandom(8 << 20))
    name = registry.push("test/shared:1", [layer])
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda i: daemon.create(f"shared-{i}", image=name, login=LOGIN,
                                                     entrypoint=["sleep", "1000"]), range(6)))
    assert all(sandbox.output("echo up") == "up" for sandbox in made)
    fetched = [line for line in registry.requests() if line.startswith("GET") and digest_of(layer) in line]
    assert len(fetched) == 1, fetched


def test_a_create_that_is_removed_while_it_pulls(daemon, registry):
    name = registry.push("test/aborted:1", [busybox_layer(), tar({"noise": os.urandom(48 << 20)})], compress=True)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(daemon.refused, id="aborted", image=name, login=LOGIN)
        daemon.wait_for("aborted", lambda status: status["message"].startswith("pulling"))
        assert daemon.client.delete("/v1/sandboxes/aborted").status_code == 204
        code, problem = answer.result()
    assert "removed" in problem["message"]
    assert daemon.traces("aborted") == []
    # The pull goes on for the next one.
    daemon.create("next", image=name, login=LOGIN, entrypoint=["sleep", "1000"])


def test_the_image_sets_the_process(daemon):
    layer = busybox_layer(home=None, home__worker=None, srv=None)
    assert load(daemon, docker_archive("settings:1", [layer], User="worker", WorkingDir="/srv/deep",
                                       Env=["COLOUR=green", "SHAPE=round"], Entrypoint=["/bin/sh", "-c"],
                                       Cmd=["id; pwd; env"])).status_code == 200
    daemon.create("settings", image="settings:1", env={"SHAPE": "square"})
    assert daemon.wait_for_end("settings")["exit"]["code"] == 0
    log = daemon.client.get("/v1/sandboxes/settings/logs").text
    assert log.startswith("uid=1234(worker) gid=1235(worker)") and "77(extra)" in log
    lines = log.splitlines()
    assert "/srv/deep" in lines
    assert {"COLOUR=green", "SHAPE=square", "HOME=/home/worker"} <= set(lines)
    # Commands are its user's too.
    sandbox = daemon.create("commands", image="settings:1", entrypoint=["sleep", "1000"])
    assert sandbox.output("id -u; pwd; echo $COLOUR").split() == ["1234", "/srv/deep", "green"]
    #  The request overrides the image.
    other = daemon.create("other", image="settings:1", user="0:0", cwd="/tmp", entrypoint=["sleep", "1000"])
    assert other.output("id -u; pwd").split() == ["0", "/tmp"]
    code, problem = daemon.refused(id="stranger", image="settings:1", user="nobody-here")
    assert code == 400 and "nobody-here" in problem["message"]
    assert daemon.traces("stranger") == []


def test_an_archive_is_loaded_and_saved(daemon):
    layers = [busybox_layer(), tar({"srv": None, "srv/kept": "kept", "bin/.wh.kill": ""})]
    answer = load(daemon, docker_archive("archived:1", layers)).json()
    assert [image["name"] for image in answer["images"]] == ["archived:1"]
    saved = daemon.client.get("/v1/images/save", params={"name": "archived:1"})
    assert saved.status_code == 200
    again = load(daemon, saved.content, name="again:2")
    assert again.status_code == 200, again.text
    sandbox = daemon.create("again", image="again:2", entrypoint=["sleep", "1000"])
    assert sandbox.output("cat /srv/kept; echo; test -e /bin/kill; echo $?").split() == ["kept", "1"]


def test_a_damaged_archive_leaves_nothing(daemon):
    whole = docker_archive("damaged:1", [busybox_layer()])
    for archive in (b"no archive at all", whole[:len(whole) // 2], tar({"manifest.json": "[{}]"})):
        response = load(daemon, archive)
        assert response.status_code == 400, response.text
    assert images(daemon) == {}


HOSTILE = {
    "a parent directory": {"../escaped": "x"},
    "a parent directory inside": {"srv": None, "srv/../../escaped": "x"},
    "a hard link outside": {"link": hard_link("../../../../etc/hostname")},
    "a hard link to what is not there": {"link": hard_link("etc/shadow-of-the-host")},
    "a directory that is a link": {"door": symlink("/"), "door/escaped": "x"},
    "a directory that is a relative link": {"door": symlink("../../.."), "door/escaped": "x"},
}


@pytest.mark.parametrize("why", HOSTILE)
def test_hostile_layers_are_refused_on_the_whole_way(daemon, registry, why):
    layer = tar(HOSTILE[why])
    name = registry.push("test/hostile:1", [busybox_layer(), layer])
    code, problem = daemon.refused(id="hostile", image=name, login=LOGIN)
    assert code == 400, problem
    assert daemon.traces("hostile") == []
    response = load(daemon, docker_archive("hostile:1", [busybox_layer(), layer]))
    assert response.status_code == 400, response.text
    assert images(daemon) == {}
    # os.walk passes over directories that sandboxd removes meanwhile; rglob does not.
    assert not any("escaped" in [*directories, *files] for _, directories, files in os.walk(daemon.directory))
    assert not os.path.exists("/escaped")


def test_strange_layers_do_no_harm(daemon):
    """Absolute names are names inside, device nodes are left out, setuid files do not work on the host's side."""
    layer = tar({"/srv": None, "/srv/absolute": "inside", "srv/disk": device(8, 0, block=True),
                 "srv/memory": device(1, 1), "srv/link": symlink("/etc/passwd"), "srv/out": symlink("../../../../etc")})
    assert load(daemon, docker_archive("strange:1", [busybox_layer(), layer])).status_code == 200
    sandbox = daemon.create("strange", image="strange:1", entrypoint=["sleep", "1000"])
    assert sandbox.output("cat /srv/absolute; echo; ls /srv").split() == ["inside", "absolute", "link", "out"]
    assert "worker" in sandbox.output("cat /srv/link /srv/out/passwd")


def test_a_directory_becomes_an_image(daemon):
    root = daemon.roots / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "busybox").write_bytes(pathlib.Path("/bin/busybox").read_bytes())
    (root / "bin" / "busybox").chmod(0o755)
    for name in ("sh", "sleep", "echo"):
        (root / "bin" / name).symlink_to("busybox")
    added = daemon.client.post("/v1/images/add-directory", params={"path": str(root), "name": "mine:1"})
    assert added.status_code == 200 and added.json()["name"] == "mine:1", added.text
    sandbox = daemon.create("mine", image="mine:1", entrypoint=["sleep", "1000"])
    assert sandbox.output("echo works") == "works"


def test_only_allowed_directories_become_images(daemon):
    (daemon.roots / "door").symlink_to("/etc")
    for path in ("/etc", str(daemon.roots / "door"), str(daemon.roots / ".." / ".."), f"{daemon.roots}-beside"):
        response = daemon.client.post("/v1/images/add-directory", params={"path": path, "name": "stolen:1"})
        assert response.status_code in (403, 404), response.text
    assert images(daemon) == {}


def test_an_image_in_use_stays(daemon):
    load(daemon, docker_archive("used:1", [busybox_layer()]))
    sandbox = daemon.create("user", image="used:1", entrypoint=["sleep", "1000"])
    refused = daemon.client.delete("/v1/images", params={"name": "used:1"})
    assert refused.status_code == 409 and "used:1" in refused.json()["message"]
    assert daemon.client.delete("/v1/images", params={"name": "used:1", "force": "true"}).status_code == 204
    # Its layers stay as long as the sandbox.
    assert daemon.client.post("/v1/images/collect").json()["layers"] == 0
    assert sandbox.output("echo still") == "still"
    sandbox.remove()
    daemon.client.post("/v1/images/collect")
    assert os.listdir(daemon.state / "images" / "layers") == []
    assert daemon.client.delete("/v1/images", params={"name": "used:1"}).status_code == 404


def test_a_layer_in_use_outlives_a_restart_of_the_daemon(daemon):
    load(daemon, docker_archive("lasting:1", [busybox_layer()]))
    sandbox = daemon.create("lasting", image="lasting:1", entrypoint=["sleep", "1000"])
    daemon.kill()
    daemon.start()
    assert daemon.client.delete("/v1/images", params={"name": "lasting:1"}).status_code == 409
    assert daemon.client.delete("/v1/images", params={"name": "lasting:1", "force": "true"}).status_code == 204
    daemon.client.post("/v1/images/collect")
    assert sandbox.output("cat /etc/group")
