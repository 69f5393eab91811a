"""A terminal with a program in it: what it shows is read, what a user would type is sent."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time

PATIENCE = 60  # seconds until something that should appear counts as missing


def _own_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(each, signal.SIG_DFL)


class Terminal:
    """`stdin`: something else than the terminal for standard input."""

    def __init__(self, argv, env, rows=24, columns=80, stdin=None):
        self.master, self.slave = os.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        self.seen = 0
        self.process = subprocess.Popen(
            argv, stdin=self.slave if stdin is None else stdin, stdout=self.slave, stderr=self.slave, env=env,
            start_new_session=True, preexec_fn=_own_terminal if stdin is None else None)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def _read(self, deadline):
        ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing more came:\n{self.text()}")
        self.output += os.read(self.master, 65536)

    def expect(self, pattern):
        """Waits until what is shown, behind the last match, matches; returns the match."""
        wanted = re.compile(pattern.encode() if isinstance(pattern, str) else pattern)
        deadline = time.monotonic() + PATIENCE
        while True:
            found = wanted.search(self.output, self.seen)
            if found:
                self.seen = found.end()
                return found
            try:
                self._read(deadline)
            except AssertionError as error:
                raise AssertionError(f"{pattern!r} did not come. {error}") from None

    def text(self):
        return self.output.decode(errors="replace")

    def modes(self):
        return termios.tcgetattr(self.slave)

    def wait(self):
        """The exit code; what is shown meanwhile is read, so that the program is not held back."""
        deadline = time.monotonic() + PATIENCE
        pidfd = os.pidfd_open(self.process.pid)
        try:
            while True:
                ready, _, _ = select.select([self.master, pidfd], [], [], max(0, deadline - time.monotonic()))
                assert ready, f"it does not end:\n{self.text()}"
                if self.master in ready:
                    self.output += os.read(self.master, 65536)
                elif pidfd in ready:
                    return self.process.wait()
        finally:
            os.close(pidfd)

    def hang_up(self):
        """The terminal is gone, as when its window is closed. Returns how the program ended."""
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = None
        return self.process.wait(PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for each in (self.master, self.slave):
            if each is not None:
                os.close(each)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
