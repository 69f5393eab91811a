"""A real Jupyter server with a Python kernel, as the published code interpreter image starts it."""

import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("JUPYTER_ENV") or ROOT / "build" / "jupyter") / "bin"


class Jupyter:
    """`env` is what execd needs to find it. The server is not started before `start()`; the port is its own."""

    def __init__(self, folder, kernels=("python",)):
        self.folder = pathlib.Path(folder)
        self.token = secrets.token_hex(16)
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
        self.env = {"JUPYTER_HOST": f"http://127.0.0.1:{self.port}", "JUPYTER_TOKEN": self.token}
        self._process = None
        for name in kernels:
            self.install(name)

    def install(self, name, language="python"):
        """A kernel as `ipykernel install --name` makes it."""
        spec = self.folder / "data" / "kernels" / name
        spec.mkdir(parents=True)
        text = json.dumps({"argv": [str(PROGRAMS / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                           "display_name": name, "language": language})
        partly = spec / "kernel.json.new"
        partly.write_text(text)
        partly.rename(spec / "kernel.json")

    def start(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")}
        environment.update(JUPYTER_TOKEN=self.token, JUPYTER_DATA_DIR=str(self.folder / "data"), JUPYTER_CONFIG_DIR=str(self.folder),
                           JUPYTER_RUNTIME_DIR=str(self.folder / "run"), IPYTHONDIR=str(self.folder), HOME=str(self.folder))
        (self.folder / "root").mkdir(exist_ok=True)
        log = open(self.folder / "jupyter.log", "ab")
        self._reserved.close()
        self._process = subprocess.Popen(
            [PROGRAMS / "jupyter-server", "--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0", "--no-browser",
             "--allow-root", f"--ServerApp.root_dir={self.folder / 'root'}"],
            env=environment, cwd=self.folder / "root", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()
        return self

    def log(self):
        return (self.folder / "jupyter.log").read_text(errors="replace")

    def kill(self):
        self._process.kill()
        self.stop()

    def stop(self):
        self._reserved.close()
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            print("the Jupyter server did not end", file=sys.stderr)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # kernels that outlived it
        except ProcessLookupError:
            pass
        self._process.wait()
        self._process = None
