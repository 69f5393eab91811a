"""The entrypoint of the image code-interpreter: the choice of versions, for commands and code, with fake toolchains."""

import os
import pathlib
import subprocess

import pytest
from code_runs import run
from test_commands import parse, texts

ENTRYPOINT = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "code-interpreter" / "code-interpreter.sh"


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def image(tmp_path):
    """A folder with programs that say which version they are; `env` is what the image sets."""
    for version in ("3.11.2", "3.9.1", "3.14.6"):
        program(tmp_path / f"opt/python/versions/cpython-{version}/bin/python3", f"#!/bin/sh\nMINE={version} exec /usr/bin/python3 \"$@\"\n")
    for version in ("v18.20.3", "v22.9.0", "v22.23.3"):
        program(tmp_path / f"opt/node/{version}/bin/node", f"#!/bin/sh\necho {version}\n")
    for version in ("1.19", "1.26.8"):
        program(tmp_path / f"opt/go/{version}/bin/go", f"#!/bin/sh\necho {tmp_path}/gopath-{version}\n")
    for version in ("11", "17"):
        program(tmp_path / f"jvm/java-{version}-openjdk-amd64/bin/java", f"#!/bin/sh\necho {version}\n")
    (tmp_path / ".bashrc").write_text("alias mine=1\n")
    return {"PATH": "/usr/bin:/bin", "CODE_INTERPRETER_OPT": str(tmp_path / "opt"), "CODE_INTERPRETER_JVM": str(tmp_path / "jvm"),
            "BASHRC_FILE": str(tmp_path / ".bashrc"), "EXECD_ENVS": str(tmp_path / "envs"), "HOME": str(tmp_path)}


SHOW = ("bash", "-c", 'MINE= python3 -c "import os; print(os.environ[\'MINE\'])"; node; go; java; echo $JAVA_HOME $GOROOT')


def start(image, *argv, **env):
    return subprocess.run([ENTRYPOINT, *argv], env={**image, **env}, capture_output=True, text=True, timeout=60, check=False)


def versions(done):
    assert done.returncode == 0, done.stderr
    return [line.rsplit("-", 1)[-1] if "gopath" in line else line for line in done.stdout.splitlines()[:4]]


@pytest.mark.parametrize("env,expected", [
    ({}, ["3.14.6", "v22.23.3", "1.26.8", "17"]),
    ({"PYTHON_VERSION": "3.11", "NODE_VERSION": "18", "GO_VERSION": "1.19", "JAVA_VERSION": "11"}, ["3.11.2", "v18.20.3", "1.19", "11"]),
    ({"PYTHON_VERSION": "3", "NODE_VERSION": "v22", "GO_VERSION": "1"}, ["3.14.6", "v22.23.3", "1.26.8", "17"]),
    ({"PYTHON_VERSION": "3.14.6", "DEFAULT_NODE_VERSION": "18"}, ["3.14.6", "v18.20.3", "1.26.8", "17"])])
def test_versions_are_chosen_by_their_beginning(image, env, expected):
    done = start(image, *SHOW, **env)
    assert versions(done) == expected and done.stderr == ""
    home = done.stdout.splitlines()[4].split()
    assert home == [f"{image['CODE_INTERPRETER_JVM']}/java-{expected[3]}-openjdk-amd64", f"{image['CODE_INTERPRETER_OPT']}/go/{expected[2]}"]


def test_version_that_is_not_installed_is_told_and_changes_nothing(image):
    done = start(image, "true", PYTHON_VERSION="2.7")
    assert done.returncode == 0 and "python 2.7 is not installed" in done.stderr and "3.9.1 3.11.2 3.14.6" in done.stderr


def test_commands_and_code_get_the_chosen_version(start_execd, image):
    assert start(image, "true", PYTHON_VERSION="3.9", NODE_VERSION="18").returncode == 0
    execd = start_execd(env={"EXECD_ENVS": image["EXECD_ENVS"], "PATH": "/usr/bin:/bin"})
    assert texts(parse(execd.client.post("/command", json={"command": "node"}).content)) == ["v18.20.3"]
    assert run(execd, "import os\nos.environ['MINE']").text == "'3.9.1'"


def test_interactive_shells_choose_the_same_and_a_second_start_adds_nothing(image):
    for version in ("3.9", "3.11", "3.11"):
        assert start(image, "true", PYTHON_VERSION=version, NODE_VERSION="18").returncode == 0
    text = pathlib.Path(image["BASHRC_FILE"]).read_text()
    assert text.startswith("alias mine=1\n") and text.count("env.sh python") == 1 and text.count("env.sh node") == 1
    assert "python 3.11" in text


@pytest.mark.parametrize("value,status", [("maybe", 1), ("0", 0), ("off", 0), ("1", 0)])
def test_values_of_the_clone3_switch(image, tmp_path, value, status):
    done = start(image, "true", EXECD_CLONE3_COMPAT=value, CODE_INTERPRETER_CLONE3=str(tmp_path / "missing"))
    assert done.returncode == status and ("going on without it" in done.stderr) == (value == "1")


def test_clone3_workaround_wraps_the_entrypoint_once(image, tmp_path):
    program(tmp_path / "wrap", '#!/bin/sh\necho wrapped\nexec "$@"\n')
    done = start(image, "sh", "-c", "echo ${EXECD_CLONE3_COMPAT-unset}", EXECD_CLONE3_COMPAT="1", CODE_INTERPRETER_CLONE3=str(tmp_path / "wrap"))
    assert done.stdout.splitlines() == ["wrapped", "unset"]


def test_entrypoint_without_arguments_stays(image):
    waiting = subprocess.Popen([ENTRYPOINT], env={**image, "PYTHON_VERSION": "3.9"}, stdin=subprocess.DEVNULL)
    try:
        while b"tail" not in pathlib.Path(f"/proc/{waiting.pid}/cmdline").read_bytes().split(b"\0")[0]:
            assert waiting.poll() is None
            os.sched_yield()
    finally:
        waiting.terminate()
        assert waiting.wait(60) == -15


CHOSEN = ENTRYPOINT.with_name("chosen-program")


@pytest.mark.parametrize("env,expected", [
    ({}, ["3.14.6", "v22.23.3", "1.26.8", "17"]),
    ({"PYTHON_VERSION": "3.11", "NODE_VERSION": "v18", "GO_VERSION": "1.19", "JAVA_VERSION": "11"}, ["3.11.2", "v18.20.3", "1.19", "11"]),
    ({"PYTHON_VERSION": "3.14.6", "NODE_VERSION": "22"}, ["3.14.6", "v22.23.3", "1.26.8", "17"])])
def test_programs_choose_their_version_also_without_the_entrypoint(image, tmp_path, env, expected):
    links = tmp_path / "links"
    links.mkdir()
    for name in ("python3", "node", "go", "java"):
        (links / name).symlink_to(CHOSEN)
    done = subprocess.run(SHOW, env={**image, **env, "PATH": f"{links}:{image['PATH']}"}, capture_output=True, text=True, timeout=60, check=False)
    assert versions(done) == expected


def test_program_that_is_not_installed_is_told(image, tmp_path):
    (tmp_path / "jshell").symlink_to(CHOSEN)
    done = subprocess.run([tmp_path / "jshell"], env=image, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 127 and "jshell is not installed" in done.stderr
