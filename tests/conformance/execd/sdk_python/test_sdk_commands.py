"""commands.* of the official Python SDK."""

import concurrent.futures
import datetime
import os
import queue
import threading

import httpx
import pytest
from long_enough import long_enough
from opensandbox.exceptions import InvalidArgumentException, SandboxApiException
from opensandbox.models.execd import RunCommandOpts
from sdk_client import REQUEST_ID
from test_commands import process_gone

MIB = 1024 * 1024


def out(execution):
    return [message.text for message in execution.logs.stdout]


def err(execution):
    return [message.text for message in execution.logs.stderr]


def wait_until_finished(execd, command_id):
    """Follows the command's events to their end; the SDK itself can only ask again and again."""
    assert execd.client.get(f"/command/{command_id}/events").status_code == 200


class Recorder:
    """Handlers of every kind, in the order of their calls."""

    def __init__(self, client, **options):
        self.calls = []
        names = ("on_init", "on_stdout", "on_stderr", "on_result", "on_error", "on_execution_complete")
        self.handlers = client.handlers(**{name: client.handler(self._note(name)) for name in names}, **options)

    def _note(self, name):
        return lambda event: self.calls.append((name, event))

    def names(self):
        return [name for name, _ in self.calls]


def test_echo_gives_one_line_and_exit_code_0(sandbox):
    execution = sandbox.commands.run("echo hello")
    assert out(execution) == ["hello"]
    assert err(execution) == []
    assert execution.text == "hello"
    assert execution.exit_code == 0
    assert execution.error is None
    assert execution.complete is not None and execution.complete.execution_time_in_millis >= 0
    assert execution.id and execution.result == []


def test_handlers_see_every_event_in_order(sandbox):
    recorder = Recorder(sandbox)
    execution = sandbox.commands.run("echo one; echo two; exit 0", handlers=recorder.handlers)
    assert recorder.names() == ["on_init", "on_stdout", "on_stdout", "on_execution_complete"]
    assert recorder.calls[0][1].id == execution.id
    assert [event.text for name, event in recorder.calls if name == "on_stdout"] == ["one", "two"]
    now = datetime.datetime.now().timestamp() * 1000
    assert all(abs(now - event.timestamp) < 600_000 for _, event in recorder.calls)


def test_handlers_may_take_the_output_instead_of_the_result(sandbox):
    recorder = Recorder(sandbox, skip_accumulation=True)
    execution = sandbox.commands.run("echo one; echo two >&2", handlers=recorder.handlers)
    assert out(execution) == [] and err(execution) == []
    assert {name for name in recorder.names()} == {"on_init", "on_stdout", "on_stderr", "on_execution_complete"}


def test_a_failing_command_has_its_exit_code_and_no_completion(sandbox):
    recorder = Recorder(sandbox)
    execution = sandbox.commands.run("echo before; exit 7", handlers=recorder.handlers)
    assert execution.exit_code == 7
    assert (execution.error.name, execution.error.value) == ("CommandExecError", "7")
    assert execution.error.traceback == ["exit status 7"]
    assert execution.complete is None
    assert recorder.names() == ["on_init", "on_stdout", "on_error"]


def test_a_killed_command_has_exit_code_minus_1(sandbox):
    execution = sandbox.commands.run("kill -KILL $$")
    assert execution.exit_code == -1
    assert execution.error.traceback == ["signal: killed"]


def test_a_missing_program_is_named_on_stderr(sandbox):
    execution = sandbox.commands.run("no-such-program-here --x")
    assert execution.exit_code == 127
    assert "no-such-program-here" in "\n".join(err(execution))
    assert out(execution) == []


def test_stdout_and_stderr_stay_apart(sandbox):
    execution = sandbox.commands.run("echo out; echo err >&2; echo out2; echo err2 >&2")
    assert out(execution) == ["out", "out2"]
    assert err(execution) == ["err", "err2"]
    assert all(message.is_error for message in execution.logs.stderr)


def test_lines_come_as_the_contract_splits_them(sandbox):
    execution = sandbox.commands.run(r"printf 'a\n\nb\r\nc\rd\n\n\nlast'")
    assert out(execution) == ["a", "\n", "b", "c", "d", "\n", "\n", "last"]


def test_100000_lines_arrive_complete_and_in_order(sandbox):
    execution = sandbox.commands.run("seq 100000")
    assert out(execution) == [str(n) for n in range(1, 100_001)]
    assert execution.exit_code == 0


@pytest.mark.parametrize("text", [
    "grüße 你好 🎉 \U0001F469\u200D\U0001F52C",
    "line\u2028separator and\u2029paragraph",
    "next\u0085line, form\ffeed, vertical\vtab",
    "\x1c file \x1d group \x1e record separators",
    "\x01\x07\x1b[31mred\x1b[0m\x7f",
    "<html> & \"quotes\" 'single' \\ backslash \t tab",
    "\ufeffbyte order mark",
], ids=["letters", "u2028", "u0085", "separators", "controls", "markup", "bom"])
def test_any_character_stays_inside_its_line(sandbox, text):
    path = os.path.join(sandbox.tmp, "text")
    with open(path, "wb") as file:
        file.write(text.encode() + b"\nsecond\n")
    execution = sandbox.commands.run(f"cat {path}")
    assert out(execution) == [text, "second"]
    echoed = sandbox.commands.run('printf %s "$TEXT"', opts=RunCommandOpts(envs={"TEXT": text}))
    assert out(echoed) == [text]


def test_bytes_that_are_no_utf8_are_replaced_one_by_one(sandbox):
    execution = sandbox.commands.run(r"printf 'a\xff\xfeb\xc3\n'")
    assert out(execution) == ["a\ufffd\ufffdb\ufffd"]


def test_a_line_of_a_mebibyte_comes_whole(sandbox):
    execution = sandbox.commands.run(f"head -c {MIB} /dev/zero | tr '\\0' x; echo; echo after")
    lines = out(execution)
    assert [len(line) for line in lines] == [MIB, 5]
    assert lines[0] == "x" * MIB


def test_options_reach_the_command(sandbox):
    execution = sandbox.commands.run(
        'echo "$A-$B"; pwd', opts=RunCommandOpts(working_directory=sandbox.tmp, envs={"A": "1 ä", "B": "$HOME'\""}))
    assert out(execution) == ["1 ä-$HOME'\"", os.path.realpath(sandbox.tmp)]


def test_a_missing_directory_is_refused(sandbox):
    with pytest.raises(SandboxApiException) as caught:
        sandbox.commands.run("pwd", opts=RunCommandOpts(working_directory=sandbox.tmp + "/none"))
    assert caught.value.status_code == 400
    assert caught.value.error.code == "INVALID_REQUEST_BODY"
    assert "none" in caught.value.error.message
    assert caught.value.request_id == REQUEST_ID


def test_an_empty_command_is_refused_by_the_client(sandbox):
    with pytest.raises(InvalidArgumentException):
        sandbox.commands.run("   ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_a_command_runs_as_another_user(sandbox):
    execution = sandbox.commands.run("id -u; id -g", opts=RunCommandOpts(uid=65534, gid=65534))
    assert out(execution) == ["65534", "65534"]
    execution = sandbox.commands.run("id -u", opts=RunCommandOpts(uid=1))
    assert out(execution) == ["1"]


def test_a_timeout_kills_the_command_and_its_children(sandbox):
    def attempt(limit):
        return sandbox.commands.run("sleep 600 & echo $!; sleep 600", opts=RunCommandOpts(timeout=limit))

    execution = long_enough(attempt, out, datetime.timedelta(milliseconds=1500))
    assert execution.exit_code == -1
    assert any("signal: killed" in line for line in execution.error.traceback)
    assert process_gone(int(out(execution)[0]))


def test_interrupt_ends_a_running_command(sandbox, connect):
    other = connect(sandbox.execd)
    ids = queue.Queue()
    handlers = sandbox.handlers(on_init=sandbox.handler(lambda event: ids.put(event.id)))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.commands.run, "echo up; sleep 600", handlers=handlers)
        command_id = ids.get(timeout=30)
        assert other.commands.get_command_status(command_id).running
        other.commands.interrupt(command_id)
        execution = running.result(30)
    assert execution.exit_code == -1
    assert execution.error.name == "CommandExecError"
    assert execution.error.traceback == ["signal: terminated"]
    status = other.commands.get_command_status(command_id)
    assert not status.running and status.exit_code == -1


def test_interrupting_what_does_not_run_is_an_error(sandbox):
    execution = sandbox.commands.run("true")
    for command_id in (execution.id, "0" * 32):
        with pytest.raises(SandboxApiException) as caught:
            sandbox.commands.interrupt(command_id)
        assert caught.value.status_code == 500
        assert caught.value.error.code == "RUNTIME_ERROR"


def test_status_of_a_foreground_command(sandbox):
    execution = sandbox.commands.run("exit 3")
    status = sandbox.commands.get_command_status(execution.id)
    assert status.id == execution.id
    assert status.content == "exit 3"
    assert status.running is False
    assert status.exit_code == 3
    assert status.error == "exit status 3"
    assert status.started_at <= status.finished_at
    assert status.started_at.tzinfo is not None


def test_status_of_an_unknown_command_is_an_api_error(sandbox):
    with pytest.raises(SandboxApiException) as caught:
        sandbox.commands.get_command_status("f" * 32)
    assert caught.value.status_code == 404
    assert caught.value.error.code == "INVALID_REQUEST_BODY"
    assert caught.value.error.message
    assert caught.value.request_id == REQUEST_ID


def test_a_background_command_returns_at_once_and_is_followed_by_cursor(sandbox):
    fifo = os.path.join(sandbox.tmp, "go")
    os.mkfifo(fifo)
    execution = sandbox.commands.run(
        f"echo first; echo second >&2; cat {fifo}; echo third; exit 5", opts=RunCommandOpts(background=True))
    assert execution.exit_code is None
    assert execution.complete is not None
    assert out(execution) == []
    status = sandbox.commands.get_command_status(execution.id)
    assert status.running is True and status.exit_code is None and status.finished_at is None
    with open(fifo, "wb") as go:  # opens when the command has come as far as cat
        logs = sandbox.commands.get_background_command_logs(execution.id)
        assert logs.content == "first\nsecond\n"
        assert logs.cursor == len("first\nsecond\n")
        again = sandbox.commands.get_background_command_logs(execution.id, cursor=logs.cursor)
        assert (again.content, again.cursor) == ("", logs.cursor)
        go.write("von außen\n".encode())
    wait_until_finished(sandbox.execd, execution.id)
    rest = sandbox.commands.get_background_command_logs(execution.id, cursor=logs.cursor)
    assert rest.content == "von außen\nthird\n"
    assert rest.cursor == logs.cursor + len(rest.content.encode())
    middle = sandbox.commands.get_background_command_logs(execution.id, cursor=6)
    assert middle.content == "second\nvon außen\nthird\n"
    status = sandbox.commands.get_command_status(execution.id)
    assert status.running is False
    assert status.exit_code == 5
    assert status.error == "exit status 5"


def test_a_background_command_can_be_interrupted(sandbox):
    execution = sandbox.commands.run("echo up; sleep 600", opts=RunCommandOpts(background=True))
    sandbox.commands.interrupt(execution.id)
    wait_until_finished(sandbox.execd, execution.id)
    assert sandbox.commands.get_command_status(execution.id).exit_code == -1


def test_a_background_command_obeys_its_timeout(sandbox):
    execution = sandbox.commands.run(
        "sleep 600", opts=RunCommandOpts(background=True, timeout=datetime.timedelta(milliseconds=300)))
    wait_until_finished(sandbox.execd, execution.id)
    assert sandbox.commands.get_command_status(execution.id).error == "signal: killed"


def test_megabytes_of_background_output_are_all_in_the_log(sandbox):
    execution = sandbox.commands.run("seq 1000000", opts=RunCommandOpts(background=True))
    wait_until_finished(sandbox.execd, execution.id)
    content, cursor = "", 0
    while True:
        logs = sandbox.commands.get_background_command_logs(execution.id, cursor=cursor)
        if not logs.content:
            break
        content += logs.content
        cursor = logs.cursor
    assert content == "".join(f"{n}\n" for n in range(1, 1_000_001))


def test_logs_of_foreground_and_unknown_commands_are_an_api_error(sandbox):
    execution = sandbox.commands.run("true")
    for command_id in (execution.id, "0" * 32):
        with pytest.raises(SandboxApiException) as caught:
            sandbox.commands.get_background_command_logs(command_id)
        assert caught.value.status_code == 400
        assert caught.value.error.code == "INVALID_REQUEST_BODY"


def test_output_reaches_the_handler_while_the_command_runs(sandbox):
    fifo = os.path.join(sandbox.tmp, "go")
    os.mkfifo(fifo)

    def release(event):
        # If the line were held back until the end, this test would not open the fifo and the command would never end.
        with open(fifo, "wb") as go:
            go.write(b"released by " + event.text.encode() + b"\n")

    seen = []

    def on_stdout(event):
        seen.append(event.text)
        if event.text == "ready":
            release(event)

    handlers = sandbox.handlers(on_stdout=sandbox.handler(on_stdout))
    execution = sandbox.commands.run(f"echo ready; cat {fifo}", handlers=handlers)
    assert seen == out(execution) == ["ready", "released by ready"]


def test_20_clients_in_parallel_keep_their_output_apart(sandbox, connect):
    clients = [connect(sandbox.execd) for _ in range(20)]
    together = threading.Barrier(20, timeout=60)

    def work(number):
        client = clients[number]
        together.wait()
        results = []
        for turn in range(5):
            execution = client.commands.run(f"for i in $(seq 100); do echo {number}-{turn}-$i; done; exit {turn}")
            results.append((out(execution), execution.exit_code))
        return results

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for number, results in enumerate(pool.map(work, range(20))):
            for turn, (lines, code) in enumerate(results):
                assert lines == [f"{number}-{turn}-{i}" for i in range(1, 101)]
                assert code == turn


def test_a_wrong_token_is_a_clear_exception(sandbox, connect):
    stranger = connect(sandbox.execd, token="wrong")
    calls = [
        lambda: stranger.commands.run("echo never"),
        lambda: stranger.commands.get_command_status("0" * 32),
        lambda: stranger.commands.create_session(),
        lambda: stranger.files.read_file("/etc/hostname"),
        lambda: stranger.files.write_file(sandbox.tmp + "/x", "x"),
        lambda: stranger.metrics.get_metrics("id"),
        lambda: stranger.health.ping("id"),
    ]
    for call in calls:
        with pytest.raises(SandboxApiException) as caught:
            call()
        assert caught.value.status_code == 401
        assert "401" in str(caught.value) or "token" in str(caught.value)
        assert b"token" in (caught.value.response_body or b"")
    assert not os.path.exists(sandbox.tmp + "/x")


def test_no_daemon_is_a_connection_error_and_not_healthy(sandbox, start_execd, connect):
    execd = start_execd(token="short-lived")
    client = connect(execd)
    assert client.health.ping("id") is True
    execd.stop()
    from opensandbox.transport import RetryPolicy
    gone = connect(execd, retry_policy=RetryPolicy.disabled())
    assert gone.health.ping("id") is False


def test_health_and_metrics(sandbox):
    assert sandbox.health.ping("any-id") is True
    metrics = sandbox.metrics.get_metrics("any-id")
    assert metrics.cpu_count >= 1
    assert 0 <= metrics.cpu_used_percentage <= 100
    assert 0 < metrics.memory_used_in_mib <= metrics.memory_total_in_mib
    assert abs(metrics.timestamp / 1000 - datetime.datetime.now().timestamp()) < 600


def test_the_wire_is_what_the_sdk_thinks_it_is(sandbox):
    """The token really is demanded: the other tests would pass against an open daemon, too."""
    assert httpx.get(f"{sandbox.execd.url}/ping", trust_env=False).status_code == 401
