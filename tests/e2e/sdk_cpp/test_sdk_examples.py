"""examples/cpp as processes."""

import os
import subprocess

import pytest

EXPECTED = {
    "quickstart": "Linux\nexit code 0\nthe file says hello\n",
    "streaming": "out: line 1\nout: line 2\nout: line 3\nerr: done\ninterrupted: exit code -1\n",
    "files": "second line: two\nback: from here\nback: from there\nfile /data/file.txt\ndirectory /data/tree\n",
    "pool": "ready\nready\nreleased what was idle\n",
    "async": "number 1\nnumber 2\nnumber 3\n",
}


def test_data_analysis(server, tmp_path):
    plot = tmp_path / "plot.png"
    done = subprocess.run([os.path.join(os.environ["SDK_CPP_BUILD"], "bin", "example_cpp_data_analysis"), "host", plot], timeout=180,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}", "OPEN_SANDBOX_API_KEY": server.key})
    assert (done.stdout, done.returncode) == (f"growth: '6.93 visits a day'\nplot: {plot}\n", 0)
    assert plot.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("name", EXPECTED)
def test_example(server, name):
    done = subprocess.run([os.path.join(os.environ["SDK_CPP_BUILD"], "bin", f"example_cpp_{name}"), "host"], timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}",
                               "OPEN_SANDBOX_API_KEY": server.key})
    out = done.stdout if name != "async" else "".join(sorted(done.stdout.splitlines(keepends=True)))
    # Its two streams have no common order.
    if name == "streaming":
        out = "".join(sorted(out.splitlines(keepends=True), key=lambda line: (line[0] == "i", line[0] == "e")))
    assert (out, done.returncode) == (EXPECTED[name], 0)
