"""Image `host`: a sandbox's root sees the host's programs as its own files, and must not see what the host keeps from its
users."""

import contextlib
import json
import os
import pathlib
import shutil

import pytest

pytestmark = [pytest.mark.wall("Image host", second="a user namespace: nothing of the host can be changed"),
              pytest.mark.attack(on="native gvisor")]

PLACE = pathlib.Path("/usr/local/share")
SECRET = "the host's secret"


@contextlib.contextmanager
def closed(name, mode):
    """A directory of the host with a secret in it, beside an open one."""
    directory = PLACE / f"osb-attack-{os.getpid()}-{name}"
    directory.mkdir(mode=0o700)
    try:
        (directory / "file").write_text(SECRET)
        directory.chmod(mode)
        yield directory
    finally:
        shutil.rmtree(directory)


def seen(prisoner, path):
    code, text = prisoner.run(f"cat {path}/file 2>&1; ls {path} 2>&1; find {path} 2>&1")
    return text


@pytest.mark.parametrize("mode", (0o700, 0o750, 0o711, 0o744))
def test_a_closed_directory_is_not_read(prison, mode):
    with closed("before", 0o755) as open_one, closed("closed", mode) as directory:
        prisoner = prison.create()
        assert SECRET in seen(prisoner, open_one)
        assert SECRET not in seen(prisoner, directory)
        code, text = prisoner.run(f"ls {directory}")
        assert code != 0, text


@pytest.mark.parametrize("mode", (0o600, 0o640, 0o4711))
def test_a_closed_file_is_not_read(prison, mode):
    with closed("around", 0o755) as directory:
        (directory / "file").chmod(mode)
        (directory / "open").write_text("open")
        prisoner = prison.create()
        assert prisoner.output(f"cat {directory}/open") == "open"
        code, text = prisoner.run(f"cat {directory}/file")
        assert code != 0 and SECRET not in text


def test_a_directory_that_was_closed_just_now_is_not_read(prison):
    """Also where roots of sandboxes are prepared ahead."""
    with closed("later", 0o755) as directory:
        assert SECRET in seen(prison.create(), directory)
        directory.chmod(0o700)
        assert SECRET not in seen(prison.create(), directory)


def test_a_hidden_directory_that_is_made_again_is_empty(prison):
    with closed("again", 0o700) as directory:
        prisoner = prison.create()
        code, text = prisoner.run(f"mkdir {directory} && ls -A {directory}")
        # gVisor does not open a directory over a hidden one.
        assert (code, text) == (0, "") or (prison.kind == "gvisor" and "Invalid argument" in text), text
        code, text = prisoner.run(f"mv {PLACE} /usr/local/moved && cat /usr/local/moved/{directory.name}/file; "
                                  f"cp -a /usr/local/moved /tmp/; grep -r \"host's\" /tmp/moved")
        assert SECRET not in text


def test_removing_the_cover_shows_nothing(prison):
    with closed("cover", 0o700) as directory:
        prisoner = prison.create()
        code, text = prisoner.run(f"rm -rf {PLACE}; mkdir -p {PLACE}; ls -A {PLACE}; cat {directory}/file; "
                                  f"touch {directory}; rm {directory}; cat {directory}/file")
        assert SECRET not in text and "osb-attack" not in text.replace(f"{directory}", "")


@pytest.mark.parametrize("path", ("/etc/shadow", "/etc/gshadow", "/root", "/var/lib", "/etc/ssl/private", "/etc/sudoers.d"))
def test_files_of_the_hosts_root_are_not_there(prisoner, path):
    """Those inside are made up: they hold no hash and no key."""
    code, text = prisoner.run(f"find {path} -type f 2>/dev/null | grep -v '^/var/lib/dpkg' | xargs cat 2>/dev/null | "
                              "grep -E '\\$[0-9a-z]+\\$|PRIVATE KEY'")
    assert text == "", text


@pytest.mark.attack(by="a client of the server", on="native")
def test_image_host_that_is_turned_off_is_not_used(make_daemon):
    daemon = make_daemon({"sandbox": {"allow_host_image": False}})
    status, problem = daemon.refused(id="off", image="host")
    assert status == 403 and "allow_host_image" in problem["message"], problem


@pytest.mark.attack(by="a client of the server", on="native")
@pytest.mark.parametrize("path", ("/root", "/etc", "/no/such/directory", "/proc/1/root", "/proc/self/cwd", "ALLOWED/../..",
                                  "ALLOWED/link", "ALLOWED/link/etc"))
def test_a_directory_outside_the_allowed_ones_does_not_become_an_image(make_daemon, tmp_path, path):
    """And the answer is the same whether it exists or not."""
    (tmp_path / "link").symlink_to("/")
    daemon = make_daemon({"images": {"allowed_directories": [str(tmp_path)]}})
    response = daemon.client.post("/v1/images/add-directory",
                                  params={"path": path.replace("ALLOWED", str(tmp_path)), "name": "stolen:1"})
    assert response.status_code == 403 and "is not one that" in response.json()["message"], response.text
    assert json.loads(daemon.client.get("/v1/images").text)["images"] == []
