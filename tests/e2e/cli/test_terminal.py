"""osb shell and osb run -it, in a real terminal."""

import re
import signal
import socket
import threading

import httpx
from cutting_proxy import CuttingProxy
from osb_program import Osb

CTRL_C, DETACH = b"\x03", b"\x10\x11"
LINE = r"(?:\n|\x1b\[\?2004l\r)"  # a line begins, also behind what bash says about pasting


def ready(terminal):
    """The shell is there: it computes something that was not typed."""
    terminal.type("echo rea''dy\r")
    terminal.expect(LINE + r"ready\r")


def test_a_shell_is_interactive(osb, sandbox):
    with osb.terminal("shell", sandbox, rows=31, columns=97) as terminal:
        ready(terminal)
        assert terminal.modes() != terminal.before
        terminal.type("stty size; tty; echo $TERM\r")
        terminal.expect(LINE + r"31 97\r\n/dev/pts/\d+\r\nxterm\r")
        terminal.type("exit 5\r")
        assert terminal.wait() == 5
        assert terminal.modes() == terminal.before


def test_the_size_follows_the_terminal(osb, sandbox):
    with osb.terminal("shell", sandbox) as terminal:
        ready(terminal)
        # A program, not the prompt: a signal between two prompts waits in bash for the next key.
        terminal.type("bash -c 'trap \"stty size; exit\" WINCH; echo trap''ped; while :; do sleep 0.05; done'\r")
        terminal.expect(LINE + r"trapped\r")
        terminal.resize(40, 132)
        terminal.expect(r"40 132\r")
        terminal.type("exit\r")
        assert terminal.wait() == 0


def test_ctrl_c_goes_to_the_sandbox(osb, sandbox):
    with osb.terminal("shell", sandbox) as terminal:
        ready(terminal)
        terminal.type("bash -c 'trap \"echo cau''ght; exit 7\" INT; echo wait''ing; while :; do sleep 0.05; done'\r")
        terminal.expect(LINE + r"waiting\r")
        terminal.type(CTRL_C)
        terminal.expect(r"caught\r")
        terminal.type("echo code $?\r")
        terminal.expect(LINE + r"code 7\r")
        terminal.type("exit\r")
        assert terminal.wait() == 0


def detach(terminal):
    """Leaves it; the id of the terminal in the sandbox."""
    terminal.type(DETACH)
    found = terminal.expect(r"osb shell (\S+) --attach (\S+)\r")
    assert terminal.wait() == 0
    assert terminal.modes() == terminal.before
    return found[2].decode()


def test_detach_and_come_back(osb, sandbox):
    with osb.terminal("shell", sandbox) as terminal:
        ready(terminal)
        terminal.type("answer=42; echo mar''ker\r")
        terminal.expect(LINE + r"marker\r")
        pty = detach(terminal)
    with osb.terminal("shell", sandbox, "--attach", pty) as terminal:
        terminal.expect(LINE + r"marker\r")  # the replay
        terminal.type("echo it is $answer\r")
        terminal.expect(LINE + r"it is 42\r")
        terminal.type("exit 3\r")
        assert terminal.wait() == 3
    with osb.terminal("shell", sandbox, "--attach", pty) as terminal:
        assert terminal.wait() == 1
        assert "osb shell" in terminal.text()


def test_another_client_takes_over(osb, sandbox):
    with osb.terminal("shell", sandbox) as first:
        ready(first)
        pty = detach(first)
    with osb.terminal("shell", sandbox, "--attach", pty) as first:
        ready(first)
        with osb.terminal("shell", sandbox, "--attach", pty) as refused:
            assert refused.wait() == 1
            assert "--takeover" in refused.text()
        with osb.terminal("shell", sandbox, "--attach", pty, "--takeover") as second:
            assert first.wait() == 1
            assert "taken over" in first.text()
            assert first.modes() == first.before
            ready(second)
            second.type("exit\r")
            assert second.wait() == 0


def test_other_detach_keys(osb, sandbox):
    with osb.terminal("shell", "--detach-keys", "ctrl-x,d", sandbox, "--", "cat") as terminal:
        terminal.type(b"x\x18y\x10\x11\r")  # neither Ctrl-X alone nor the usual keys
        terminal.expect(rb"x\^Xy")
        terminal.type(b"\x18d")
        terminal.expect("Come back with")
        assert terminal.wait() == 0


def test_a_shell_ends_with_its_terminal(osb, sandbox, server):
    with osb.terminal("shell", sandbox, "--", "sleep", "12345") as terminal:
        while "sleep 12345" not in server.run(sandbox, "ps -eo args | grep [s]leep || true"):
            pass
        assert terminal.hang_up() == 129
    assert "sleep 12345" not in server.run(sandbox, "ps -eo args | grep [s]leep || true")


def test_a_signal_restores_the_terminal(osb, sandbox):
    with osb.terminal("shell", sandbox) as terminal:
        ready(terminal)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
        assert terminal.modes() == terminal.before


def test_a_terminal_of_ones_own_sandbox(osb):
    with osb.terminal("run", "-it", "-e", "WHO=me", "host") as terminal:
        ready(terminal)
        terminal.type("echo it is $WHO; exit 9\r")
        terminal.expect(LINE + r"it is me\r")
        assert terminal.wait() == 9
        assert terminal.modes() == terminal.before


def test_the_prompt_tells_that_one_is_inside(osb):
    with osb.terminal("run", "-it", "host") as terminal:
        prompt = terminal.expect(r"root@sandbox-([0-9a-f]{8}):[^\r\n]*# ")
        terminal.type("hostname\r")
        terminal.expect(LINE + f"sandbox-{prompt.group(1).decode()}\r")
        terminal.type("exit\r")
        assert terminal.wait() == 0


def test_a_program_in_a_terminal_of_ones_own_sandbox(osb):
    with osb.terminal("run", "-it", "host", "--", "sh", "-c", "test -t 0 && test -t 1 && echo yes; kill -TERM $$") as terminal:
        terminal.expect("yes\r")
        assert terminal.wait() == 143


def test_the_sandbox_of_a_closed_terminal_is_removed(osb):
    with osb.terminal("run", "-it", "host") as terminal:
        ready(terminal)
        assert terminal.hang_up() == 129


def test_a_detached_sandbox_stays(osb, server):
    with osb.terminal("run", "-it", "host") as terminal:
        ready(terminal)
        terminal.type(DETACH)
        found = terminal.expect(r"osb shell (\S+) --attach (\S+)\r")
        assert terminal.wait() == 0
    sandbox, pty = found[1].decode(), found[2].decode()
    with osb.terminal("shell", sandbox, "--attach", pty) as terminal:
        ready(terminal)
        terminal.type("exit\r")
        assert terminal.wait() == 0
    server.delete(sandbox)


def test_a_lost_connection_is_made_again_and_nothing_is_lost(server, sandbox, tmp_path):
    with CuttingProxy(server.port) as proxy:
        osb = Osb(server, tmp_path, domain=proxy.domain)
        with osb.terminal("--use-server-proxy", "shell", sandbox) as terminal:
            ready(terminal)
            terminal.type("for i in $(seq 5000); do echo line $i; done; echo en''d\r")
            terminal.expect(LINE + r"line 10\r")
            proxy.cut()
            terminal.expect(r"\nend\r")
            terminal.type("exit 4\r")
            assert terminal.wait() == 4
            notice = b"\r\nosb: the connection was lost, trying again\r\n"
            assert notice in terminal.output
            numbers = [int(n) for n in re.findall(rb"line (\d+)\r", terminal.output.replace(notice, b""))]
            assert numbers == list(range(1, 5001))


class WatchingProxy(CuttingProxy):
    """`on_request` gets what clients send before it is passed on; where it says False the connection breaks instead."""

    def __init__(self, port, on_request):
        self.on_request = on_request
        super().__init__(port)

    def _copy(self, a, b):
        from_client = a.getsockname() == self.listener.getsockname()
        try:
            while data := a.recv(65536):
                if from_client and not self.on_request(data):
                    a.shutdown(socket.SHUT_RDWR)
                    break
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Unseen:
    """A program in a terminal of `sandbox` that ends when it is told to; how often it was started is counted there."""

    script = "echo x >> /tmp/runs; mkfifo /tmp/go; echo rea''dy; read go < /tmp/go; echo b''ye; exit 3"

    def __init__(self, server, sandbox):
        self.server, self.sandbox = server, sandbox
        self.pty = None

    def note(self, request):
        if found := re.search(rb"/pty/([^/ ?]+)/ws", request):
            self.pty = found[1].decode()

    def end(self):
        """Returns when execd knows that it has ended."""
        self.server.run(self.sandbox, "echo > /tmp/go")
        status = f"{self.server.url}/sandboxes/{self.sandbox}/proxy/44772/pty/{self.pty}"
        while httpx.get(status, headers=self.server.token(self.sandbox), trust_env=False).json()["running"]:
            pass

    def runs(self):
        return self.server.run(self.sandbox, "cat /tmp/runs").split()


def test_a_program_that_ended_is_not_run_again_when_its_status_is_unknown(server, sandbox, tmp_path):
    program = Unseen(server, sandbox)
    to_refuse = 0

    def on_request(data):
        nonlocal to_refuse
        program.note(data)
        if to_refuse == 0 or b"/pty/" not in data or b"/ws" in data:
            return True
        to_refuse -= 1  # a question for its status
        return False

    with WatchingProxy(server.port, on_request) as proxy:
        osb = Osb(server, tmp_path, domain=proxy.domain)
        with osb.terminal("--use-server-proxy", "shell", sandbox, "--", "sh", "-c", program.script) as terminal:
            terminal.expect(r"ready\r")
            proxy.refuse = True
            proxy.cut()
            program.end()
            to_refuse = 4
            proxy.refuse = False
            assert terminal.wait() == 1
            assert "has ended while there was no connection" in terminal.text()
    assert program.runs() == ["x"]


def test_a_program_that_ends_while_we_come_back_is_not_run_again(server, sandbox, tmp_path):
    program = Unseen(server, sandbox)
    was_cut = False
    one_at_a_time = threading.Lock()  # on a slow machine osb comes back again while the program is still being ended

    def on_request(data):
        nonlocal was_cut
        with one_at_a_time:
            program.note(data)
            if was_cut and b"/ws?" in data:  # it was running when it was asked
                was_cut = False
                program.end()
        return True

    with WatchingProxy(server.port, on_request) as proxy:
        osb = Osb(server, tmp_path, domain=proxy.domain)
        with osb.terminal("--use-server-proxy", "shell", sandbox, "--", "sh", "-c", program.script) as terminal:
            terminal.expect(r"ready\r")
            was_cut = True
            proxy.cut()
            terminal.expect(r"bye\r")
            assert terminal.wait() == 1
            assert "has ended while there was no connection" in terminal.text()
    assert program.runs() == ["x"]


def test_a_shell_without_a_terminal_is_refused(osb, sandbox):
    assert "osb command run" in osb.refused("shell", sandbox)


def test_an_unknown_sandbox(osb):
    with osb.terminal("shell", "no-such-sandbox") as terminal:
        assert terminal.wait() == 1
        assert "osb sandbox list" in terminal.text()
        assert terminal.modes() == terminal.before
