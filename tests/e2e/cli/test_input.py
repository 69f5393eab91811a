"""Standard input of commands in a sandbox: osb run, and osb command run -i."""

import hashlib
import io
import os
import signal
import subprocess
import tarfile

from cutting_proxy import CuttingProxy
from osb_program import Osb

BIG = os.urandom(1 << 20) * 24  # more than all buffers on the way


def test_a_pipe_is_the_commands_input_byte_for_byte(osb):
    data = bytes(range(256)) + b"no end of line"
    done = osb.run("run", "host", "--", "sh", "-c", "cat; echo behind >&2; exit 4", input=data)
    assert (done.returncode, done.stdout, done.stderr) == (4, data, b"behind\n")


def test_a_tree_goes_in_as_tar(osb):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for number in range(50):
            info = tarfile.TarInfo(f"tree/file-{number}")
            info.size = 100_000
            tar.addfile(info, io.BytesIO(bytes([number]) * info.size))
    script = "mkdir /tmp/in && tar xC /tmp/in && cat /tmp/in/tree/file-* | wc -c"
    assert osb.ok("run", "host", "--", "sh", "-c", script, input=archive.getvalue()).split() == ["5000000"]


def test_more_than_any_buffer_goes_in_and_out_at_once(osb, sandbox):
    done = osb.run("command", "run", "-i", sandbox, "--", "cat", input=BIG)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(BIG).digest()


def test_a_file_is_input_too_and_an_empty_one_just_ends(osb, sandbox, tmp_path):
    (tmp_path / "file").write_bytes(b"from a file\n")
    with (tmp_path / "file").open() as file:
        assert osb.ok("command", "run", "-i", sandbox, "--", "cat", stdin=file) == "from a file\n"
    assert osb.ok("command", "run", "-i", sandbox, "--", "cat", input=b"") == ""
    assert osb.ok("command", "run", "-i", sandbox, "--", "cat") == ""  # /dev/null


def test_command_run_reads_nothing_unless_told(osb, sandbox):
    """A loop over lines keeps its lines, as with the original."""
    read, write = os.pipe()
    os.write(write, b"next\n")
    os.close(write)
    assert osb.ok("command", "run", "--exact", sandbox, "--", "cat", stdin=read) == ""
    assert os.read(read, 10) == b"next\n"
    os.close(read)


def test_a_command_that_reads_no_more_goes_on_and_the_writer_learns_it(osb, sandbox):
    """As in  yes | osb .. head -1: yes ends, and what comes behind head is still told."""
    script = "head -c 2; exec 0</dev/null; echo closed; read -r word </tmp/go; echo $word; exit 3"
    osb.ok("command", "run", sandbox, "--", "sh", "-c", "rm -f /tmp/go; mkfifo /tmp/go")
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as writer:
        with osb.start("command", "run", "-i", sandbox, "--", "sh", "-c", script, stdin=writer.stdout) as process:
            writer.stdout.close()
            assert process.stdout.readline() == b"y\n"
            assert process.stdout.readline() == b"closed\n"
            assert writer.wait(60) == -signal.SIGPIPE
            osb.ok("command", "run", sandbox, "--", "sh", "-c", "echo on >/tmp/go")
            assert process.stdout.read() == b"on\n"
            assert process.wait(60) == 3


def test_a_command_that_ends_before_its_input_does(osb):
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as writer:
        done = osb.run("run", "host", "--", "sh", "-c", "head -1; exit 5", stdin=writer.stdout)
        writer.stdout.close()
        assert (done.returncode, done.stdout, done.stderr) == (5, b"y\n", b"")
        assert writer.wait(60) == -signal.SIGPIPE


def test_a_signal_reaches_a_command_that_reads_nothing(osb, sandbox):
    """However much input waits for it."""
    script = "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    with osb.start("command", "run", "-i", sandbox, "--", "sh", "-c", script, stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        os.set_blocking(process.stdin.fileno(), False)
        sent, waits = 0, 0
        while sent < len(BIG) and waits < 2:  # until the pipe takes no more
            try:
                sent += os.write(process.stdin.fileno(), BIG[sent:sent + 65536])
            except BlockingIOError:
                waits += 1
                osb.ok("command", "run", sandbox, "--", "true")
        assert sent < len(BIG)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b"caught\n"
        assert process.wait(60) == 143


def test_a_lost_connection_loses_and_repeats_no_input(server, sandbox, tmp_path):
    with CuttingProxy(server.port) as proxy:
        osb = Osb(server, tmp_path, domain=proxy.domain)
        with osb.start("--use-server-proxy", "command", "run", "-i", sandbox, "--", "sha256sum",
                       stdin=subprocess.PIPE) as process:
            for piece in range(0, len(BIG), len(BIG) // 6):
                process.stdin.write(BIG[piece:piece + len(BIG) // 6])
                process.stdin.flush()
                proxy.cut()
            process.stdin.close()
            assert process.stdout.read().split()[0].decode() == hashlib.sha256(BIG).hexdigest(), process.stderr.read()
            assert process.wait(60) == 0


def test_a_terminal_is_read_only_with_i(osb, sandbox):
    script = "echo ready; read -r a; echo got $a; cat"
    with osb.terminal("command", "run", "-i", sandbox, "--", "sh", "-c", script) as terminal:
        terminal.expect("ready")
        terminal.type("typed\r")
        terminal.expect("got typed")
        terminal.type("\x04")
        assert terminal.wait() == 0
    with osb.terminal("run", "host", "--", "cat") as terminal:
        assert terminal.wait() == 0
    with osb.terminal("run", "-i", "host") as terminal:  # no command: a shell that reads
        terminal.type("echo $((40 + 2)); exit 6\r")
        terminal.expect("42")
        assert terminal.wait() == 6


def test_options_that_exclude_each_other(osb, sandbox):
    assert "--interactive and --background" in osb.refused("command", "run", "-i", "-d", sandbox, "--", "cat")
    assert "--interactive and --timeout" in osb.refused("command", "run", "-i", "-t", "5", sandbox, "--", "cat")
