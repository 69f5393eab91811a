"""osb cp, ls and cat."""

import io
import os
import pathlib
import stat
import tarfile
import uuid

import pytest
from osb_program import Osb
from stub_server import StubHandler, serving

NAMES = ["plain", "with space", "-dash", "new\nline", "ünïcode", "quote'\"", "back\\slash", ".hidden", "a:b", "*"]


@pytest.fixture(scope="module")
def sandbox(server):
    return server.create()["id"]


@pytest.fixture(autouse=True)
def nothing_left():
    """Overrides the suite's: this file shares one sandbox."""


@pytest.fixture(scope="module", autouse=True)
def nothing_left_of_the_file(server):
    yield
    server.remove_all()


def make_tree(root):
    root.mkdir()
    for number, name in enumerate(NAMES):
        (root / name).write_bytes(os.urandom(1000 * number))
        (root / name).chmod([0o644, 0o600, 0o755, 0o400, 0o777][number % 5])
    (root / "empty").mkdir(mode=0o700)
    (root / "deep" / "er" / "est").mkdir(parents=True)
    (root / "deep" / "er" / "est" / "file").write_text("x" * 300)
    (root / ("long" * 40)).write_text("a name beyond what a plain tar header holds")
    (root / "link").symlink_to("plain")
    (root / "dangling").symlink_to("/no/such/file")
    (root / "to-directory").symlink_to("deep")
    os.link(root / "plain", root / "hard")
    (root / "big").write_bytes(os.urandom(1 << 20) * 24)
    for path in sorted(root.rglob("*")):
        if not path.is_symlink():
            os.utime(path, (1_700_000_000, 1_700_000_000))
    root.chmod(0o750)


def describe(root):
    """Everything that a copy has to keep."""
    out = {}
    for path in [root, *root.rglob("*")]:
        st = path.lstat()
        what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        mode = None if path.is_symlink() else stat.S_IMODE(st.st_mode)
        when = None if path.is_symlink() or path == root else int(st.st_mtime)
        out[str(path.relative_to(root))] = (stat.S_IFMT(st.st_mode), mode, when, what)
    return out


def test_a_tree_survives_both_ways(osb, sandbox, server, tmp_path):
    tree = tmp_path / "tree"
    make_tree(tree)
    osb.ok("cp", tree, f"{sandbox}:/tmp/there")  # a new name
    osb.ok("cp", f"{sandbox}:/tmp/there", tmp_path / "back")
    assert describe(tmp_path / "back") == describe(tree)
    assert (tmp_path / "back" / "hard").stat().st_nlink == 2
    # Into a directory that exists: under its own name.
    osb.ok("cp", tree, f"{sandbox}:/tmp/there")
    assert server.run(sandbox, "ls /tmp/there/tree/deep/er/est") == "file"
    (tmp_path / "into").mkdir()
    osb.ok("cp", f"{sandbox}:/tmp/there/tree", tmp_path / "into")
    assert describe(tmp_path / "into" / "tree") == describe(tree)
    # Contents only.
    osb.ok("cp", f"{tree}/.", f"{sandbox}:/tmp/there")
    assert "there" in server.run(sandbox, "ls -d /tmp/there; ls /tmp/there | head -1 >/dev/null")


def test_files(osb, sandbox, server, tmp_path):
    script = tmp_path / "script.sh"
    script.write_bytes(b"#!/bin/sh\necho it runs\n")
    script.chmod(0o755)
    osb.ok("cp", script, f"{sandbox}:/tmp/other.sh")
    assert server.run(sandbox, "/tmp/other.sh") == "it runs"
    osb.ok("cp", script, f"{sandbox}:/tmp/")
    assert server.run(sandbox, "/tmp/script.sh") == "it runs"
    osb.ok("cp", f"{sandbox}:/tmp/script.sh", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == script.read_bytes()
    assert stat.S_IMODE((tmp_path / "again").stat().st_mode) == 0o755
    (tmp_path / "dir").mkdir()
    said = osb.json("cp", f"{sandbox}:/tmp/script.sh", tmp_path / "dir")
    assert said == {"from": "/tmp/script.sh", "to": str(tmp_path / "dir" / "script.sh"), "bytes": 23}
    assert (tmp_path / "dir" / "script.sh").read_bytes() == script.read_bytes()


def test_a_target_that_is_no_file_keeps_its_mode(osb, sandbox, server, tmp_path):
    """/dev/null, say: a pipe stands for it here."""
    server.run(sandbox, "printf word > /tmp/word; chmod 644 /tmp/word")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    osb.ok("cp", f"{sandbox}:/tmp/word", pipe)
    assert os.read(reader, 100) == b"word"
    os.close(reader)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o666


class BadExecd(StubHandler):
    """A server and the execd of a sandbox that reports modes which a client must not take over."""

    def do_GET(self):
        if "/endpoints/" in self.path:
            self.answer(200, {"endpoint": f"127.0.0.1:{self.server.server_port}/execd"})
        elif self.path.startswith("/execd/files/info"):
            self.answer(200, {"/f": {"path": "/f", "type": "file", "size": 4, "mode": 7755}})
        elif self.path.startswith("/execd/files/download"):
            self.answer(200, b"word", "application/octet-stream")
        else:
            self.answer(200, {})


def test_a_sandbox_makes_no_setuid_programs_here(server, tmp_path):
    with serving(BadExecd) as bad:
        Osb(server, tmp_path, domain=bad).ok("cp", f"{uuid.uuid4()}:/f", tmp_path / "f")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o755


def test_standard_input_and_output(osb, sandbox, server):
    data = os.urandom(3_000_000)
    osb.ok("cp", "-", f"{sandbox}:/tmp/data", input=data)
    assert osb.run("cp", f"{sandbox}:/tmp/data", "-").stdout == data
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("sub/name")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    server.run(sandbox, "mkdir -p /tmp/unpacked")
    osb.ok("cp", "-", f"{sandbox}:/tmp/unpacked", input=archive.getvalue())
    assert server.run(sandbox, "cat /tmp/unpacked/sub/name") == "hello"
    got = tarfile.open(fileobj=io.BytesIO(osb.run("cp", f"{sandbox}:/tmp/unpacked", "-").stdout))
    assert got.extractfile("./sub/name").read() == b"hello"


def test_a_bar_appears_when_it_takes_longer(osb, sandbox):
    reader, writer = os.pipe()
    with osb.terminal("cp", "-", f"{sandbox}:/tmp/slow", stdin=reader) as terminal:
        os.close(reader)
        os.write(writer, b"x" * 4096)
        terminal.expect(r"standard input")  # nothing ends it before this is seen
        os.close(writer)
        assert terminal.wait() == 0
    assert osb.ok("cat", sandbox, "/tmp/slow") == "x" * 4096


def test_copies_that_are_refused(osb, sandbox, tmp_path):
    assert "Neither" in osb.refused("cp", "a", "b", code=2)
    assert "Both" in osb.refused("cp", "a:/b", "c:/d", code=2)
    assert "No such file" in osb.refused("cp", tmp_path / "missing", f"{sandbox}:/tmp/")
    assert "does not exist" in osb.refused("cp", f"{sandbox}:/missing", tmp_path)
    assert "does not exist" in osb.refused("cp", f"{sandbox}:/etc/passwd", f"{tmp_path}/missing/")
    (tmp_path / "file").write_text("x")
    assert "not a directory" in osb.refused("cp", f"{sandbox}:/tmp", tmp_path / "file")
    assert "not a directory" in osb.refused("cp", tmp_path, f"{sandbox}:/etc/passwd")
    osb.refused("cp", tmp_path / "file", "no-such-sandbox:/tmp/")


def test_ls(osb, sandbox, server):
    server.run(sandbox, "mkdir -p /tmp/ls/sub; cd /tmp/ls; printf 12345 > file; chmod 640 file; touch .hidden sub/below;"
                        " ln -s file link; ln -s /tmp/ls /tmp/ls-link")
    rows = {row["name"]: row for row in osb.json("ls", sandbox, "/tmp/ls")}
    assert set(rows) == {"file", "link", "sub"}
    assert (rows["file"]["type"], rows["file"]["size"], rows["file"]["mode"]) == ("file", 5, 640)
    assert (rows["link"]["type"], rows["sub"]["type"]) == ("symlink", "directory")
    assert {row["name"] for row in osb.json("ls", "-a", f"{sandbox}:/tmp/ls")} == {".hidden", "file", "link", "sub"}
    assert "/tmp/ls/sub/below" in {row["path"] for row in osb.json("ls", "-R", sandbox, "/tmp/ls")}
    assert [row["path"] for row in osb.json("ls", sandbox, "/tmp/ls/file")] == ["/tmp/ls/file"]
    assert {row["name"] for row in osb.json("ls", sandbox, "/tmp/ls-link")} == {"file", "link", "sub"}
    assert "usr" in {row["name"] for row in osb.json("ls", sandbox)}
    assert "file" in osb.ok("ls", sandbox, "/tmp/ls")
    osb.refused("ls", sandbox, "/tmp/missing")


def test_cat(osb, sandbox, server):
    server.run(sandbox, r"printf 'a\r\n\000' > /tmp/one; printf 'b' > /tmp/two")
    done = osb.run("cat", sandbox, "/tmp/one", "/tmp/two")
    assert (done.returncode, done.stdout) == (0, b"a\r\n\x00b")
    assert osb.run("cat", f"{sandbox}:/tmp/two").stdout == b"b"
    osb.refused("cat", sandbox, "/tmp/missing")
    osb.refused("cat", sandbox, code=2)
    assert pathlib.Path("/tmp/one").exists() is False
