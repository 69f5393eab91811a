"""A person at a terminal of 80 columns: bash in tmux, commands typed key by key, and the text that the screen shows."""

import itertools
import os
import pathlib
import re
import select
import shlex
import subprocess
import time

PATIENCE = 120  # seconds until a command that should have ended counts as hanging
# An invisible part of the prompt (it sets the terminal's title) tells that a command has ended, and how.
PROMPT = re.compile(rb"\x1b]0;ended (\d+)\x07\$ ")
_numbers = itertools.count()


class Screen:
    """One tmux server with one bash. tmux copies the pane's bytes to a pipe after it has drawn them: a test that has
    read a text from the pipe finds it on the screen."""

    def __init__(self, home, environment, columns=80, rows=50):
        self.home = pathlib.Path(home)
        self.home.mkdir(exist_ok=True)
        self.columns = columns
        self.name = f"osb-story-{os.getpid()}-{next(_numbers)}"
        (self.home / "rc").write_text("PS1='\\[\\e]0;ended $?\\a\\]$ '\nunset HISTFILE\n")
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("OPEN_SANDBOX_", "OPENSANDBOX_", "TMUX"))}
        self.environment = {**kept, "LC_ALL": "C.UTF-8", "SHELL": "/bin/bash", **environment, "HOME": str(self.home)}
        pipe = self.home / "shown"
        os.mkfifo(pipe)
        self.pipe = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)  # also for writing: the reader never sees an end
        self.unread = b""
        # head holds the shell back until the pipe is connected.
        self._tmux("-f", "/dev/null", "new-session", "-d", "-c", str(self.home), "-x", str(columns), "-y", str(rows),
                   f"head -n 1 >/dev/null; exec bash --noprofile --rcfile {shlex.quote(str(self.home / 'rc'))}")
        self._tmux("set-option", "-g", "history-limit", "50000")
        self._tmux("pipe-pane", "-O", f"exec cat >{shlex.quote(str(pipe))}")
        self.keys("Enter")
        self.prompt()

    def _tmux(self, *arguments):
        done = subprocess.run(["tmux", "-L", self.name, *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"tmux {arguments}: {done.stderr}"
        return done.stdout

    def expect(self, pattern):
        """Waits until the terminal has been sent a text that matches, behind the last match; returns the match."""
        wanted = re.compile(pattern.encode()) if isinstance(pattern, str) else pattern
        deadline = time.monotonic() + PATIENCE
        while not (found := wanted.search(self.unread)):
            ready, _, _ = select.select([self.pipe], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{wanted.pattern!r} does not come; the screen shows:\n{self.shown()}"
            self.unread += os.read(self.pipe, 65536)
        self.unread = self.unread[found.end():]
        return found

    def shown(self):
        """All that the screen has shown, line by line as a person sees it."""
        return self._tmux("capture-pane", "-p", "-S", "-").rstrip("\n")

    def coloured(self):
        """The same with the escape sequences of colours."""
        return self._tmux("capture-pane", "-p", "-e", "-S", "-").rstrip("\n")

    def prompt(self):
        """Waits for the end of the command that was typed; returns its exit status."""
        return int(self.expect(PROMPT)[1])

    def keys(self, *keys):
        """Presses keys by tmux's names: "C-c", "Enter"."""
        self._tmux("send-keys", *keys)

    def type(self, text):
        self._tmux("send-keys", "-l", text)
        self.keys("Enter")

    def run(self, command, status=0):
        """Types the command, waits for the next prompt and returns the text between the two."""
        self.type(command)
        ended = self.prompt()
        lines = self.shown().split("\n")
        assert lines[-1] == "$", lines
        typed = "$ " + command
        begin = max(at for at, line in enumerate(lines) if line == typed[:self.columns].rstrip())
        # The screen folds a long command into several rows.
        answer = "\n".join(lines[begin + -(-len(typed) // self.columns):-1]).strip("\n")
        assert ended == status, f"{command}: exit status {ended} instead of {status}:\n{answer}"
        return answer

    def close(self):
        subprocess.run(["tmux", "-L", self.name, "kill-server"], env=self.environment, capture_output=True, check=False,
                       timeout=PATIENCE)
        os.close(self.pipe)
