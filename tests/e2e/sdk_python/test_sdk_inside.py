"""Commands, files and sessions in a sandbox that the server made. execd's own suites have the details; here the way
there is new: addresses and tokens that the server gave out, and its proxy."""

import datetime
import hashlib
import os

import pytest
from long_enough import long_enough
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import MoveEntry, SearchEntry, WriteEntry


def stdout(execution):
    return [message.text for message in execution.logs.stdout]


def stderr(execution):
    return [message.text for message in execution.logs.stderr]


def test_output_environment_and_exit_code(sandbox):
    result = sandbox.commands.run("echo $GREETING; echo oops >&2; exit 3")
    assert (stdout(result), stderr(result), result.exit_code) == (["hello"], ["oops"], 3)
    assert stdout(sandbox.commands.run("echo $X", opts=RunCommandOpts(envs={"X": "given"}))) == ["given"]
    assert stdout(sandbox.commands.run("pwd", opts=RunCommandOpts(working_directory="/usr"))) == ["/usr"]


def test_output_arrives_while_the_command_runs(sdk, sandbox, server):
    """The command goes on only when its first line has been heard outside."""
    sandbox.commands.run("mkfifo /root/go")
    seen = []

    def hear(message):
        seen.append(message.text)
        if message.text == "first":
            server.run(sandbox.id, "echo > /root/go")

    result = sandbox.commands.run("echo first; read -r _ < /root/go; echo second",
                                  handlers=sdk.handlers(on_stdout=sdk.handler(hear)))
    assert result.exit_code == 0
    assert seen == ["first", "second"]


def test_many_lines_arrive_complete_and_in_order(sandbox):
    result = sandbox.commands.run("seq 20000")
    assert stdout(result) == [str(n) for n in range(1, 20001)]


def test_background_commands(sandbox):
    sandbox.commands.run("mkfifo /root/go")
    execution = sandbox.commands.run("echo first; read -r _ < /root/go; echo second; exit 5",
                                     opts=RunCommandOpts(background=True))
    assert sandbox.commands.get_command_status(execution.id).running
    sandbox.commands.run("echo > /root/go")
    while (status := sandbox.commands.get_command_status(execution.id)).running:
        pass
    assert status.exit_code == 5
    assert sandbox.commands.get_background_command_logs(execution.id).content == "first\nsecond\n"


def test_a_background_command_is_interrupted(sandbox):
    execution = sandbox.commands.run("sleep 600", opts=RunCommandOpts(background=True))
    sandbox.commands.interrupt(execution.id)
    while (status := sandbox.commands.get_command_status(execution.id)).running:
        pass
    assert status.exit_code != 0


def test_a_command_is_ended_by_its_timeout(sandbox):
    result = long_enough(lambda limit: sandbox.commands.run("echo up; sleep 600", opts=RunCommandOpts(timeout=limit)), stdout,
                         datetime.timedelta(milliseconds=500))
    assert stdout(result) == ["up"]
    assert result.exit_code != 0


def test_files_come_back_as_they_went(sandbox):
    text = "one\nzwei ü\n三\n"
    sandbox.files.write_files([WriteEntry(path="/root/in/a.txt", data=text, mode=640),
                               WriteEntry(path="/root/in/b.bin", data=bytes(range(256)), mode=600)])
    assert sandbox.files.read_file("/root/in/a.txt") == text
    assert sandbox.files.read_bytes("/root/in/b.bin") == bytes(range(256))
    assert sandbox.files.read_bytes("/root/in/b.bin", range_header="bytes=10-19") == bytes(range(10, 20))
    info = sandbox.files.get_file_info(["/root/in/a.txt"])["/root/in/a.txt"]
    assert (info.size, info.mode) == (len(text.encode()), 640)
    assert stdout(sandbox.commands.run("stat -c %a /root/in/a.txt")) == ["640"]
    found = {each.path for each in sandbox.files.search(SearchEntry(path="/root/in", pattern="*.txt"))}
    assert found == {"/root/in/a.txt"}
    sandbox.files.move_files([MoveEntry(src="/root/in/a.txt", dest="/root/in/c.txt")])
    sandbox.files.delete_files(["/root/in/b.bin"])
    assert stdout(sandbox.commands.run("ls /root/in")) == ["c.txt"]
    sandbox.files.create_directories([WriteEntry(path="/root/x/y", mode=755)])
    sandbox.files.delete_directories(["/root/in"])
    assert stdout(sandbox.commands.run("ls -d /root/in /root/x/y 2>/dev/null")) == ["/root/x/y"]
    with pytest.raises(SandboxApiException) as caught:
        sandbox.files.read_file("/root/in/c.txt")
    assert caught.value.status_code == 404


def test_a_large_file_goes_in_and_out(sandbox):
    data = os.urandom(20 << 20)
    sandbox.files.write_file("/root/large", data)
    assert stdout(sandbox.commands.run("sha256sum < /root/large"))[0].split()[0] == hashlib.sha256(data).hexdigest()
    assert sandbox.files.read_bytes("/root/large") == data


def test_sessions_remember(sandbox):
    session = sandbox.commands.create_session(working_directory="/usr")
    sandbox.commands.run_in_session(session, "export MINE=1; cd lib")
    result = sandbox.commands.run_in_session(session, 'echo "$MINE"; pwd')
    assert stdout(result) == ["1", "/usr/lib"]
    assert sandbox.commands.run_in_session(session, "exit 4").exit_code == 4
    other = sandbox.commands.create_session()
    assert stdout(sandbox.commands.run_in_session(other, 'echo "[$MINE]"')) == ["[]"]
    for each in (session, other):
        sandbox.commands.delete_session(each)
    with pytest.raises(SandboxApiException):
        sandbox.commands.run_in_session(session, "true")


def test_metrics_are_those_of_the_sandbox(sandbox):
    metrics = sandbox.get_metrics()
    assert metrics.cpu_count > 0
    assert 0 < metrics.memory_used_in_mib < metrics.memory_total_in_mib
