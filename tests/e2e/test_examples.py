"""The programs of examples/ for the official Python and JavaScript SDKs, run as a reader runs them."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HELLO = [f"{i}: hello from the sandbox" for i in (1, 2, 3)] + ["Linux"]


@pytest.fixture
def run(server):
    environment = {**os.environ, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}", "OPEN_SANDBOX_API_KEY": server.key}

    def run_program(*argv):
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run_program


def test_python_quickstart(run):
    assert run(sys.executable, "-B", ROOT / "examples/python/quickstart.py") == HELLO


def test_python_everyday_calls(run):
    said = run(sys.executable, "-B", ROOT / "examples/python/everyday.py")
    assert said[0] == "['hello', '/tmp'] 3"
    assert said[1] == said[3] == "remember me"
    assert ":" in said[2]
    assert said[4] == "True"


@pytest.mark.skipif(os.environ.get("BACKEND") == "docker", reason="the image of the Docker tests has no matplotlib")
def test_python_data_analysis(run, tmp_path):
    plot = tmp_path / "plot.png"
    said = run(sys.executable, "-B", ROOT / "examples/python/data_analysis.py", "host", plot)
    assert said == ["growth: '6.93 visits a day'", f"plot: {plot}"]
    assert plot.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_javascript_quickstart(run, tmp_path):
    shutil.copy(ROOT / "examples/javascript/quickstart.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(ROOT / "build/node/node_modules")  # where npm install puts the SDK
    assert run("node", tmp_path / "quickstart.mjs") == HELLO
