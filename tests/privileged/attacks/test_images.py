"""Images that were made to leave their directory, or to take the host's disk and memory, when root unpacks them."""

import gzip
import json
import os
import pathlib

import pytest

from registry import busybox_layer, digest_of, docker_archive, hard_link, image_config, symlink, tar

pytestmark = [pytest.mark.wall("Unpacking of images", second="a mount namespace whose root is the image"),
              pytest.mark.attack(by="the maker of an image")]

SECRET = "the host's secret"


@pytest.fixture(scope="module")
def daemon(whole_prison):
    """That of the native prison: attacks here leave nothing in it."""
    return whole_prison.daemon


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "secret"
    file.write_text(SECRET)
    return str(file)


@pytest.fixture(autouse=True)
def nothing_left(daemon):
    before = set(pathlib.Path("/").iterdir()), names(daemon)
    yield
    assert (set(pathlib.Path("/").iterdir()), names(daemon)) == before
    # os.walk passes over directories that sandboxd removes meanwhile; glob does not.
    assert not [name for _, directories, files in os.walk(pathlib.Path(daemon.state).parent)
                for name in [*directories, *files] if name.startswith("escaped")]
    assert os.listdir(daemon.state / "images" / "tmp") == []


def names(daemon):
    return {image["name"] for image in daemon.client.get("/v1/images").json()["images"]}


def load(daemon, archive):
    return daemon.client.post("/v1/images/load", content=archive)


def remove(daemon, name):
    assert daemon.client.delete("/v1/images", params={"name": name}).status_code == 204


LEAVING = {
    "a parent directory": {"../escaped": "x"},
    "a parent directory inside": {"srv": None, "srv/../../escaped": "x"},
    "a parent directory at the end": {"srv": None, "srv/..": "x"},
    "a hard link outside": {"link": hard_link("../../../../etc/hostname")},
    "a hard link to an absolute name": {"link": hard_link("/../../etc/hostname")},
    "a hard link to nothing": {"link": hard_link("etc/shadow-of-the-host")},
    "a hard link through a link": {"door": symlink("/etc"), "link": hard_link("door/hostname")},
    "a directory that is a link": {"door": symlink("/"), "door/escaped": "x"},
    "a directory that is a relative link": {"door": symlink("../../.."), "door/escaped": "x"},
    "a directory that is a link to a link": {"a": symlink("b"), "b": symlink("/"), "a/escaped": "x"},
    "a deletion outside": {".wh...": ""},
    "a deletion through a link": {"door": symlink("/"), "door/.wh.etc": ""},
    "an opaque directory through a link": {"door": symlink("/etc"), "door/.wh..wh..opq": ""},
    "a name with a zero": {"srv\0/../../escaped": "x"},
}


@pytest.mark.attack(by="the maker of an image", on="native")
@pytest.mark.parametrize("way", LEAVING)
def test_no_layer_leaves_its_directory(daemon, way):
    response = load(daemon, docker_archive("hostile:1", [busybox_layer(), tar(LEAVING[way])]))
    if response.status_code == 200:  # read as a name inside
        remove(daemon, "hostile:1")
    else:
        assert response.status_code == 400, response.text
    assert pathlib.Path("/etc/hostname").exists()


def with_layer_entry(entry, **more):
    """An archive whose manifest names `entry` as the second layer."""
    layer = busybox_layer()
    settings = image_config([layer, SECRET.encode()])  # a layer that is there already would not be read
    return tar({"config.json": settings, "layer.tar": layer, **more, "manifest.json": json.dumps([{
        "Config": "config.json", "RepoTags": ["hostile:2"], "Layers": ["layer.tar", entry]}])})


@pytest.mark.attack(by="the maker of an image", on="native")
@pytest.mark.parametrize("way", ["by its name", "by a relative name", "by a link", "by a hard link", "as the configuration"])
def test_no_archive_reads_a_file_of_the_host(daemon, secret, way):
    climb = "../" * 12 + secret[1:]
    made = {"by its name": lambda: with_layer_entry(secret), "by a relative name": lambda: with_layer_entry(climb),
            "by a link": lambda: with_layer_entry("stolen.tar", **{"stolen.tar": symlink(secret)}),
            "by a hard link": lambda: with_layer_entry("stolen.tar", **{"stolen.tar": hard_link(climb)}),
            "as the configuration": lambda: tar({"layer.tar": busybox_layer(), "manifest.json": json.dumps([{
                "Config": climb, "RepoTags": ["hostile:2"], "Layers": ["layer.tar"]}])})}[way]()
    response = load(daemon, made)
    assert response.status_code == 400, response.text
    assert SECRET not in response.text and SECRET not in daemon.log()


LYING = {
    "other layers than it says": lambda layer: docker_archive("hostile:3", [layer]).replace(
        digest_of(layer)[7:].encode(), b"0" * 64),
    "a million layers": lambda layer: tar({"config.json": image_config([layer]), "layer.tar": layer, "manifest.json":
                                               '[{"Config": "config.json", "RepoTags": ["hostile:3"], "Layers": ['
                                               + '"layer.tar",' * 999_999 + '"layer.tar"]}]'}),
    "deep JSON": lambda layer: tar({"config.json": image_config([layer]), "layer.tar": layer,
                                        "manifest.json": "[" * 1_000_000}),
    "no layers": lambda layer: tar({"manifest.json": '[{"Config": "config.json", "RepoTags": ["hostile:3"]}]'}),
    "names that are no names": lambda layer: docker_archive("../../etc/passwd:1", [layer]),
    "a broken stream": lambda layer: gzip.compress(docker_archive("hostile:3", [layer]))[:5000],
    "no archive": lambda layer: os.urandom(65536),
}


@pytest.mark.attack(by="the maker of an image", on="native")
@pytest.mark.parametrize("way", LYING)
def test_an_archive_that_lies_is_refused(daemon, way):
    response = load(daemon, LYING[way](busybox_layer()))
    assert response.status_code in (400, 413), response.text
    assert daemon.client.get("/v1/images").status_code == 200, "sandboxd goes on"


@pytest.mark.attack(by="the maker of an image", on="native")
@pytest.mark.parametrize("place", ["proc", "dev", "sys", "etc", "opt", "tmp", "etc/hosts", "etc/resolv.conf"])
def test_no_mount_lands_where_a_link_of_the_image_leads(daemon, secret, place):
    directory = os.path.dirname(secret)
    parent = {} if "/" not in place else {os.path.dirname(place): None}
    layers = [busybox_layer(), tar({**parent, f"{place}": symlink(directory if "/" not in place else secret)})]
    if load(daemon, docker_archive("links:1", layers)).status_code != 200:
        return  # refused: a directory of the layer below cannot become a link
    created = daemon.client.post("/v1/sandboxes", json={"id": "links", "image": "links:1", "entrypoint": ["sleep", "1000"]})
    mounts = pathlib.Path(f"/proc/{daemon.pid}/mounts").read_text()
    if created.status_code == 201:
        daemon.remove("links")
    assert directory not in mounts
    assert os.listdir(directory) == ["secret"] and pathlib.Path(secret).read_text() == SECRET
    remove(daemon, "links:1")
