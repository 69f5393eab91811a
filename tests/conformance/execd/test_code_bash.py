"""The Bash kernel: one shell per context, whose variables, functions, directory and options stay."""

import os
import signal

import pytest
from code_runs import in_thread, interrupt, live, new_context, run


@pytest.fixture
def execd(code_execd):
    return code_execd


@pytest.fixture
def bash(execd):
    context = new_context(execd, "bash")

    def in_context(code, **fields):
        return run(execd, code, context, "bash", **fields)

    in_context.context = context
    yield in_context
    execd.client.delete(f"/code/contexts/{context}")


def test_state_of_the_shell_stays(bash):
    done = bash("x=5; declare -A map=([a]=1); f() { echo \"f $1 $x\"; }; alias hello='echo aliased'; cd /tmp")
    assert done.types == ["init", "execution_complete"]
    assert bash("f one; echo ${map[a]}; pwd; hello").stdout == "f one 5\n1\n/tmp\naliased\n"


def test_output_is_kept_as_it_was_written(bash):
    done = bash("printf 'no end'; echo err >&2\ncat <<END\nhere\nEND")
    assert done.stdout == "no endhere\n" and done.stderr == "err\n"


@pytest.mark.parametrize("code,status", [("false", "1"), ("(exit 3)", "3"), ("no_such_command", "127"), ("if", "2"),
                                         ("f() { return 4; }; f", "4")])
def test_failing_code_is_an_error_with_the_status_and_the_shell_lives(bash, code, status):
    bash("kept=1")
    done = bash(code)
    assert done.ename == "CommandExecError" and done.error["evalue"] == status
    assert done.types[-2:] == ["error", "execution_complete"]
    assert bash("echo $kept").stdout == "1\n"


def test_unset_variables_and_odd_text_do_not_end_the_shell(bash):
    assert bash("set -u; echo $not_there").error["evalue"] == "1"
    assert bash("set +u; echo 'a!b' \"!x\" '$y' 'ünï 三'").stdout == "a!b !x $y ünï 三\n"
    assert bash("${missing:?no value}").ename == "CommandExecError"
    assert bash("echo still").stdout == "still\n"


def test_code_gets_neither_standard_input_nor_the_socket(bash):
    assert bash("cat; read line; echo \"[$line]\"").stdout == "[]\n"
    assert bash("echo forged >&3").ename == "CommandExecError"
    assert bash("ls /proc/self/fd | wc -l").stdout == "4\n"  # three streams and the directory itself
    assert bash("exec 3>&1 4>&1; echo mine >&3; echo four >&4").stdout == "mine\nfour\n"
    assert bash("echo after").stdout == "after\n"


def test_exit_ends_the_shell_and_the_next_run_says_so(bash):
    done = bash("echo last; exit 7")
    assert done.stdout == "last\n" and done.ename == "KernelDied" and "exit status 7" in done.error["evalue"]
    again = bash("echo new")
    assert again.stdout == "new\n" and "new process" in again.stderr


def test_interrupt_keeps_the_state(execd, bash):
    bash("kept=here")
    for code in ("echo on; sleep 600", "echo on; while :; do :; done", "echo on; for i in 1 2 3; do sleep 600; done; echo more"):
        with live(execd, code, bash.context, "bash") as going:
            going.wait_output("on")
            interrupt(execd, bash.context)
            done = going.finish()
        assert done.ename == "KeyboardInterrupt" and done.stdout == "on\n"
        assert bash("echo $kept").stdout == "here\n"


def test_interrupts_that_meet_the_shell_at_its_input_do_not_lose_the_end(execd, bash):
    """A shell throws away the line that it reads when a signal comes, here the one that asks for the end of the run."""
    pid = int(bash("echo $$").stdout)
    for _ in range(10):
        with live(execd, "echo on; while :; do :; done", bash.context, "bash") as going:
            going.wait_output("on")
            interrupted = in_thread(lambda: interrupt(execd, bash.context))
            for _ in range(50000):
                os.kill(pid, signal.SIGINT)
            interrupted()
            done = going.finish()
            assert done.ename in ("KeyboardInterrupt", "CommandExecError"), done.error
    assert bash("echo goes on").stdout == "goes on\n"


def test_interrupt_right_after_the_start_is_not_lost(execd, bash):
    for _ in range(20):
        with live(execd, "while :; do :; done", bash.context, "bash") as going:
            assert going.next()["type"] == "init"
            interrupt(execd, bash.context)
            assert going.finish().ename == "KeyboardInterrupt"
    assert bash("echo alive").stdout == "alive\n"


def test_shell_that_ignores_the_interrupt_is_killed(start_execd):
    execd = start_execd(env={"EXECD_CODE_INTERRUPT_GRACE": "100ms"})
    context = new_context(execd, "bash")
    with live(execd, "trap '' INT; echo on; while :; do :; done", context, "bash") as going:
        going.wait_output("on")
        interrupt(execd, context)
        assert going.finish().ename == "KernelKilled"
    assert run(execd, "echo new", context, "bash").stdout == "new\n"


def test_background_jobs_live_on_and_die_with_the_context(execd):
    context = new_context(execd, "bash")
    run(execd, f"cd {execd.tmp}; sleep 600 & echo $! > job", context, "bash")
    assert run(execd, "kill -0 $(cat job) && echo runs", context, "bash").stdout == "runs\n"
    execd.client.delete(f"/code/contexts/{context}")


def test_timeout_keeps_the_state(bash):
    bash("kept=1")
    assert bash("sleep 600", timeout=200).ename == "ExecutionTimeout"
    assert bash("echo $kept").stdout == "1\n"


def test_large_code_and_large_output(bash):
    assert len(bash("x=" + "y" * 3_000_000 + "; echo ${#x}").stdout) == 8
    assert len(bash("head -c 50000000 /dev/zero | tr '\\0' z").stdout) == 50_000_000


def test_directory_and_environment_of_a_context(execd):
    context = new_context(execd, "bash", cwd=str(execd.tmp), envs={"FLAVOUR": "salt"})
    assert run(execd, "pwd; echo $FLAVOUR", context, "bash").stdout == f"{execd.tmp}\nsalt\n"
    execd.client.delete(f"/code/contexts/{context}")


def test_contexts_of_one_language_are_deleted_together(start_execd):
    execd = start_execd()
    new_context(execd, "bash")
    run(execd, "x=1", None, "bash")
    python = new_context(execd)
    assert execd.client.delete("/code/contexts", params={"language": "bash"}).status_code == 200
    assert [context["id"] for context in execd.client.get("/code/contexts").json()] == [python]
