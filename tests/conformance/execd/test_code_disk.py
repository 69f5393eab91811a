"""Code on a full disk: it gets the error itself, and contexts start and run without a byte of free space."""

import os
import subprocess

import pytest
from code_runs import new_context, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")


@pytest.fixture
def full(tmp_path):
    """A directory on a file system of 1 MiB with nothing free."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr.strip()}")
    try:
        with open(place / "filler", "wb", buffering=0) as filler:
            with pytest.raises(OSError):
                while True:
                    filler.write(b"x" * 4096)
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_code_gets_the_error_and_its_context_goes_on(start_execd, full):
    execd = start_execd(env={"TMPDIR": str(full)})
    context = new_context(execd, cwd=str(full))
    assert run(execd, "kept = 1", context).error is None
    failed = run(execd, "with open('file', 'w') as f: f.write('y' * 100000)", context)
    assert failed.ename == "OSError" and "No space left" in failed.error["evalue"]
    assert run(execd, "kept", context).text == "1"
    bash = new_context(execd, "bash", cwd=str(full))
    assert run(execd, "echo text > file; echo on", bash, "bash").stdout == "on\n"


def test_output_that_has_no_place_on_the_disk_still_reaches_its_reader(start_execd, full):
    """Old events move to a file in TMPDIR, which has no room: a reader that keeps up misses nothing."""
    execd = start_execd(env={"TMPDIR": str(full)})
    done = run(execd, "for i in range(20000): print('%0500d' % i)", new_context(execd))
    assert done.stdout.count("\n") == 20000 and done.error is None


def test_language_that_needs_the_disk_says_so(start_execd, full):
    execd = start_execd(env={"TMPDIR": str(full)})
    answer = execd.client.post("/code/context", json={"language": "go"}, timeout=60)
    assert answer.status_code == 500 and "No space left" in answer.json()["message"], answer.text
    assert run(execd, "2", new_context(execd)).text == "2"
