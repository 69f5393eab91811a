"""The image code-interpreter, as `make images` makes it: every language, through the official SDK. Skipped where it was not
made, unless CODE_IMAGE names it: `make imagetest` makes it and does so."""

import datetime
import os
import pathlib

import httpx
import pytest
from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync

ARCHIVE = pathlib.Path(os.environ.get("CODE_IMAGE") or pathlib.Path(__file__).resolve().parents[2] / "build/images/code-interpreter.tar")
IMAGE = "opensandbox/code-interpreter:latest"
ENTRYPOINT = ["/opt/code-interpreter/code-interpreter.sh"]

pytestmark = pytest.mark.skipif(not ARCHIVE.exists() and not os.environ.get("CODE_IMAGE"), reason="`make imagetest` makes this image")


@pytest.fixture(scope="module")
def loaded(server):
    if os.environ.get("BACKEND") == "docker":
        with open(ARCHIVE, "rb") as archive:
            server.daemon.load_archive(archive)
        return server
    with open(ARCHIVE, "rb") as archive:
        answer = httpx.post(f"{server.url}/v1/images/load", headers={"OPEN-SANDBOX-API-KEY": server.key}, content=archive, timeout=600,
                            trust_env=False)
    assert answer.status_code in (200, 201, 202), answer.text
    return server


@pytest.fixture
def codes(loaded, request):
    config = ConnectionConfigSync(domain=f"127.0.0.1:{loaded.port}", api_key=loaded.key, request_timeout=datetime.timedelta(seconds=120))
    sandbox = SandboxSync.create(IMAGE, entrypoint=ENTRYPOINT, env=getattr(request, "param", {}), connection_config=config,
                                 ready_timeout=datetime.timedelta(minutes=4))
    try:
        yield CodeInterpreterSync.create(sandbox).codes
    finally:
        sandbox.kill()
        sandbox.close()


def said(execution):
    assert (execution.error, execution.logs.stderr) == (None, [])
    return "".join(each.text for each in execution.logs.stdout) + "".join(each.text or "" for each in execution.result)


VERSIONS = {
    "python": "import sys, numpy, pandas, matplotlib\nprint(sys.version.split()[0], pandas.Series([1, 2]).sum())",
    "javascript": "console.log(process.version)",
}


def test_every_language_runs(codes):
    assert said(codes.run(VERSIONS["python"], language="python")).startswith("3.14.")
    assert said(codes.run(VERSIONS["javascript"], language="javascript")).startswith("v22.")
    assert said(codes.run("const x: number = 6; console.log(x * 7)", language="typescript")) == "42\n"
    assert said(codes.run("int x = 6;\nx * 7", language="java")) == "42"
    assert said(codes.run('import "fmt"\nfmt.Println(6 * 7)', language="go")) == "42\n"
    assert said(codes.run("echo $((6 * 7))", language="bash")) == "42\n"
    assert said(codes.run("int x = 6;\nx * 7", language="csharp")) == "42"


@pytest.mark.parametrize("codes", [{"PYTHON_VERSION": "3.11", "NODE_VERSION": "24"}], indirect=True)
def test_versions_are_chosen_when_the_sandbox_is_created(codes):
    assert said(codes.run(VERSIONS["python"], language="python")).startswith("3.11.")
    assert said(codes.run(VERSIONS["javascript"], language="javascript")).startswith("v24.")
    assert said(codes.run("const x: number = 6; x * 7", language="typescript")) == "42"


def test_figure_is_drawn(codes):
    drawn = codes.run("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]);", language="python")
    assert drawn.error is None and len(drawn.result) == 1
