"""Features of the Python SDK since 1.1: commands without a shell, variables for all later commands, files as another
user. A file of its own because older versions have none of them."""

import os
import stat

import pytest
from opensandbox.exceptions import SandboxApiException, SandboxException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import SearchEntry, WriteEntry


def out(execution):
    return [message.text for message in execution.logs.stdout]


def test_argv_runs_without_a_shell(sandbox):
    execution = sandbox.commands.run(["printf", "%s|", "a b", "$HOME", "*", "", "'q'"])
    assert out(execution) == ["a b|$HOME|*||'q'|"]
    assert execution.exit_code == 0
    assert sandbox.commands.run(["sh", "-c", "exit 7"]).exit_code == 7


def test_argv_obeys_the_options(sandbox):
    script = os.path.join(sandbox.tmp, "show")
    with open(script, "w") as file:
        file.write("#!/bin/sh\necho \"$A $(pwd)\"\n")
    os.chmod(script, 0o755)
    execution = sandbox.commands.run(["./show"], opts=RunCommandOpts(working_directory=sandbox.tmp, envs={"A": "1"}))
    assert out(execution) == [f"1 {os.path.realpath(sandbox.tmp)}"]
    # A bare name is looked for in the command's PATH.
    execution = sandbox.commands.run(["show"], opts=RunCommandOpts(envs={"A": "2", "PATH": f"{sandbox.tmp}:/bin"}))
    assert out(execution) == ["2 /"], "execd's own directory"


def test_argv_in_the_background(sandbox):
    execution = sandbox.commands.run(["seq", "3"], opts=RunCommandOpts(background=True))
    assert sandbox.execd.client.get(f"/command/{execution.id}/events").status_code == 200
    assert sandbox.commands.get_background_command_logs(execution.id).content == "1\n2\n3\n"


def test_argv_with_a_missing_program_is_an_error(sandbox):
    execution = sandbox.commands.run(["no-such-program-here"])
    assert execution.error is not None
    assert execution.exit_code != 0


@pytest.fixture
def with_env_file(start_execd, connect, tmp_path):
    return connect(start_execd(env={"EXECD_ENVS": str(tmp_path / "below" / "env")}))


@pytest.mark.parametrize("value", ["plain", "", "with space", "$HOME `x` \\ \"q\" #", "it's", "it's \"both\" \\n", "a\nb"],
                         ids=range(7))
def test_variables_set_once_reach_later_commands(with_env_file, value):
    with_env_file.commands.set_env("FOR_ALL", value)
    execution = with_env_file.commands.run('printf %s "$FOR_ALL" | od -An -tx1 -v | tr -d " \\n"')
    assert bytes.fromhex("".join(out(execution))).decode() == value
    with_env_file.commands.set_env("FOR_ALL", "later")
    assert out(with_env_file.commands.run("echo $FOR_ALL")) == ["later"]


def test_variables_set_once_reach_new_sessions(with_env_file):
    with_env_file.commands.set_env("FOR_ALL", "in sessions too")
    session_id = with_env_file.commands.create_session()
    execution = with_env_file.commands.run_in_session(session_id, "echo $FOR_ALL")
    assert out(execution) == ["in sessions too"]


def test_setting_a_variable_without_a_file_is_an_exception(start_execd, connect):
    client = connect(start_execd(env={"EXECD_ENVS": None}))
    with pytest.raises(SandboxException, match="EXECD_ENVS is not set"):
        client.commands.set_env("FOR_ALL", "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_files_as_another_user(sandbox):
    os.chmod(sandbox.tmp, 0o777)
    for parent in (os.path.dirname(sandbox.tmp), os.path.dirname(os.path.dirname(sandbox.tmp))):
        os.chmod(parent, 0o755)
    files = sandbox.files.with_identity(65534, 65534)
    path = os.path.join(sandbox.tmp, "theirs")
    files.write_files([WriteEntry(path=path, data="x", mode=600)])
    assert (os.stat(path).st_uid, os.stat(path).st_gid) == (65534, 65534)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert files.read_file(path) == "x"
    assert [entry.path for entry in files.search(SearchEntry(path=sandbox.tmp, pattern="*"))] == [path]
    secret = os.path.join(sandbox.tmp, "secret")
    sandbox.files.write_file(secret, "root's", mode=600)
    with pytest.raises(SandboxApiException):
        files.read_file(secret)
    files.delete_files([path])
    assert not os.path.exists(path)
