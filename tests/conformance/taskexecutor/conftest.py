"""Fixtures of the task-executor suite. TASK_EXECUTOR_BINARY names the program under test (default: the release build)."""

import os
import pathlib
import signal
import subprocess

import httpx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def binary():
    return os.environ.get("TASK_EXECUTOR_BINARY") or str(ROOT / "build" / "release" / "bin" / "task-executor")


class Executor:
    """One data directory, and the executor on it, which can be killed and started again."""

    def __init__(self, folder, args=(), env=None):
        self.data = folder / "tasks"
        self._folder = folder
        self._args = args
        self._env = env or {}
        self._version = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [binary(), f"--data-dir={self.data}", "-listen-addr", "127.0.0.1:0", "--log-dir", str(self._folder / "logs"),
             *self._args],
            env={**os.environ, **self._env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert "listening on" in line, f"not started: {line!r}, status {self.process.poll()}"
        self.client = httpx.Client(base_url="http://" + line.split()[-1], timeout=60, trust_env=False)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.client.close()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait()
        self.client.close()
        return status

    def set(self, *tasks):
        return self.client.post("/setTasks", json=list(tasks))

    def tasks(self):
        answer = self.client.get("/getTasks")
        assert answer.status_code == 200
        return {task["name"]: task for task in answer.json()}

    def wait(self, reached):
        """The tasks, when `reached` is true of them. The executor tells of each change."""
        version = None
        while True:
            answer = self.client.get("/getTasks", params={"after": version} if version else {})
            assert answer.status_code == 200
            version = answer.headers["X-Tasks-Version"]
            tasks = {task["name"]: task for task in answer.json()}
            if reached(tasks):
                return tasks

    def wait_end(self, name):
        """The end of a task."""
        return self.wait(lambda tasks: "terminated" in tasks[name]["processStatus"])[name]["processStatus"]["terminated"]

    def clear(self):
        assert self.set().status_code == 200
        self.wait(lambda tasks: not tasks)

    def output(self, name, stream="stdout"):
        return (self.data / name / f"{stream}.log").read_text()


@pytest.fixture(scope="session")
def shared_executor(tmp_path_factory):
    executor = Executor(tmp_path_factory.mktemp("executor"), env={"INHERITED": "from executor"})
    yield executor
    executor.clear()
    assert executor.end() == 0


@pytest.fixture
def executor(shared_executor):
    """An executor without tasks, shared by the run."""
    yield shared_executor
    shared_executor.clear()


@pytest.fixture
def own_executor(tmp_path):
    """An executor that the test may kill."""
    executor = Executor(tmp_path)
    yield executor
    if executor.process.poll() is None:
        executor.clear()
        executor.end()
