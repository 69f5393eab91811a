"""Which of two things ends first."""

import subprocess


def ends_before_a_sleep(action, seconds):
    """Whether `action` ends before a process that began earlier and sleeps for so long."""
    with subprocess.Popen(["sleep", str(seconds)]) as sleeper:
        try:
            action()
            return sleeper.poll() is None
        finally:
            sleeper.kill()
