"""Bash sessions of the official Python SDK."""

import concurrent.futures
import datetime
import os
import queue

import pytest
from long_enough import long_enough
from opensandbox.exceptions import SandboxApiException


def out(execution):
    return [message.text for message in execution.logs.stdout]


@pytest.fixture
def session(sandbox):
    """run(command, **options) in a fresh session; `run.id` is its id."""
    session_id = sandbox.commands.create_session()

    def run(command, **options):
        return sandbox.commands.run_in_session(session_id, command, **options)

    run.id = session_id
    yield run
    try:
        sandbox.commands.delete_session(session_id)
    except SandboxApiException as error:
        assert error.status_code == 404  # the test has deleted it


def test_a_run_gives_its_output_and_exit_code(sandbox, session):
    events = []
    handlers = sandbox.handlers(
        on_init=sandbox.handler(events.append), on_stdout=sandbox.handler(events.append),
        on_execution_complete=sandbox.handler(events.append))
    execution = session("echo hello; echo err >&2", handlers=handlers)
    assert sorted(out(execution) + [message.text for message in execution.logs.stderr]) == ["err", "hello"]
    assert execution.exit_code == 0
    assert execution.error is None
    assert execution.complete is not None
    assert events[0].id == execution.id
    assert len(events) == 2 + len(execution.logs.stdout)


def test_exported_variables_and_the_directory_persist(sandbox, session):
    assert session("export GREETING='héllo $HOME `x` \"q\" \\ end'; cd /usr").exit_code == 0
    execution = session('echo "$GREETING"; pwd')
    assert out(execution) == ["héllo $HOME `x` \"q\" \\ end", "/usr"]
    assert session("unset GREETING").exit_code == 0
    assert out(session('echo "[$GREETING]"')) == ["[]"]


def test_values_with_newlines_persist_unchanged(sandbox, session):
    session("export LINES_OF='one\ntwo\n\nfour'")
    for _ in range(3):
        assert out(session('printf "%s" "$LINES_OF" | wc -l')) == ["3"]
    assert out(session('[ "$LINES_OF" = "$(printf \'one\\ntwo\\n\\nfour\')" ] && echo same')) == ["same"]


def test_sessions_do_not_see_each_other(sandbox, session):
    session("export MINE=1; cd /")
    other = sandbox.commands.create_session(working_directory=sandbox.tmp)
    execution = sandbox.commands.run_in_session(other, 'echo "[$MINE]"; pwd')
    assert out(execution) == ["[]", os.path.realpath(sandbox.tmp)]
    sandbox.commands.delete_session(other)
    assert out(session("echo $MINE")) == ["1"]


def test_the_directory_of_a_session_is_made_if_it_is_missing(sandbox):
    wanted = sandbox.tmp + "/deep/er"
    session_id = sandbox.commands.create_session(working_directory=wanted)
    assert out(sandbox.commands.run_in_session(session_id, "pwd")) == [os.path.realpath(wanted)]
    sandbox.commands.delete_session(session_id)


def test_a_run_may_name_its_directory(sandbox, session):
    assert out(session("pwd", working_directory=sandbox.tmp)) == [os.path.realpath(sandbox.tmp)]
    with pytest.raises(SandboxApiException) as caught:
        session("pwd", working_directory=sandbox.tmp + "/none")
    assert caught.value.status_code == 400


def test_a_failing_run_has_its_exit_code_and_leaves_the_session_usable(sandbox, session):
    session("export KEPT=yes")
    execution = session("sh -c 'exit 7'")
    assert execution.exit_code == 7
    assert (execution.error.name, execution.error.value) == ("CommandExecError", "7")
    assert execution.complete is None
    assert session("exit 9").exit_code == 9
    execution = session("echo $KEPT")
    assert (out(execution), execution.exit_code) == (["yes"], 0)


def test_many_lines_and_a_huge_one(sandbox, session):
    assert out(session("seq 20000")) == [str(n) for n in range(1, 20_001)]
    lines = out(session("head -c 1048576 /dev/zero | tr '\\0' x; echo; printf unfinished"))
    assert [len(line) for line in lines] == [1048576, len("unfinished")]


def test_here_documents_and_several_lines(sandbox, session):
    execution = session("cat <<'END'\nfirst $X\nsecond\nEND\nfor i in 1 2; do\n  echo $i\ndone\n")
    assert out(execution) == ["first $X", "second", "1", "2"]


def test_a_timeout_ends_the_run_and_not_the_session(sandbox, session):
    session("export KEPT=yes")
    execution = long_enough(lambda limit: session("echo started; sleep 600", timeout=limit), out,
                            datetime.timedelta(milliseconds=1500))
    assert out(execution) == ["started"]
    assert execution.exit_code == -1
    assert execution.error.name == "CommandExecError"
    assert out(session("echo $KEPT")) == ["yes"]


def test_deleting_a_session_ends_its_run(sandbox, session, connect):
    other = connect(sandbox.execd)
    started = queue.Queue()
    handlers = sandbox.handlers(on_stdout=sandbox.handler(lambda event: started.put(event.text)))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(session, "echo up; sleep 600", handlers=handlers)
        assert started.get(timeout=30) == "up"
        other.commands.delete_session(session.id)
        assert running.result(30).exit_code != 0
    with pytest.raises(SandboxApiException):
        session("echo never")


def test_unknown_sessions_are_an_api_error(sandbox):
    for call in (lambda: sandbox.commands.run_in_session("no-such", "true"),
                 lambda: sandbox.commands.delete_session("no-such")):
        with pytest.raises(SandboxApiException) as caught:
            call()
        assert caught.value.status_code in (404, 500)
        assert "no-such" in str(caught.value)
