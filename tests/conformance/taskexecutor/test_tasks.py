"""The API of the task-executor, as the controller uses it."""

import json
import os
import re
import select
import subprocess

import pytest

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
FOREVER = "while :; do sleep 1000; done"


def shell(name, script, **process):
    return {"name": name, "process": {"command": ["/bin/sh", "-c", script], **process}}


def is_running(name):
    return lambda tasks: "running" in tasks[name]["processStatus"]


@pytest.fixture
def pipe(tmp_path):
    """A named pipe: its reader and its writer wait for each other."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def exists(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_task_runs_and_its_exit_code_is_told(executor):
    task = shell("box-0", "echo out; echo err >&2; exit 3")
    answer = executor.set(task)
    assert answer.status_code == 200
    assert [item["name"] for item in answer.json()] == ["box-0"]
    end = executor.wait_end("box-0")
    assert end["exitCode"] == 3 and end["reason"] == "Failed"
    assert TIME.fullmatch(end["startedAt"]) and TIME.fullmatch(end["finishedAt"])
    assert executor.tasks()["box-0"]["process"] == task["process"]
    assert executor.output("box-0") == "out\n"
    assert executor.output("box-0", "stderr") == "err\n"
    assert (executor.data / "box-0" / "exit").read_text() == "3"
    stored = json.loads((executor.data / "box-0" / "task.json").read_text())
    assert stored["status"]["state"] == "Failed" and stored["process"] == task["process"]


def test_words_environment_and_directory_reach_the_task(executor, tmp_path):
    executor.set({"name": "env", "process": {
        "command": ["/bin/sh", "-c", 'echo "$INHERITED|$A|$1|$PWD"', "sh"], "args": ["it's $(here)"],
        "env": [{"name": "A", "value": "a b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "workingDir": str(tmp_path)}})
    assert executor.wait_end("env")["exitCode"] == 0
    assert executor.output("env") == f"from executor|a b|it's $(here)|{tmp_path}\n"


def test_a_successful_task_is_kept_until_it_is_released(executor):
    executor.set(shell("ok", "true"))
    assert executor.wait_end("ok") == {**executor.wait_end("ok"), "exitCode": 0, "reason": "Succeeded"}
    assert executor.set(shell("ok", "exit 9")).json()[0]["processStatus"]["terminated"]["exitCode"] == 0
    executor.clear()
    assert not (executor.data / "ok").exists()


def test_an_active_task_is_the_limit_and_its_release_ends_it(executor):
    assert executor.set(shell("first", FOREVER)).status_code == 200
    answer = executor.set(shell("first", FOREVER), shell("second", "true"))
    assert answer.status_code == 500 and answer.json()["code"] == "Internal Server Error"
    assert "second" in answer.json()["message"]
    # A task that is being removed no longer counts.
    assert executor.set(shell("second", "true")).status_code == 200
    tasks = executor.wait(lambda tasks: "first" not in tasks)
    assert list(tasks) == ["second"]


def test_release_ends_every_process_of_the_task(executor, pipe):
    # The shell returns at once; its child left the process group and ignores SIGTERM.
    executor.set(shell("away", f"setsid sh -c 'trap : TERM; echo $$ > {pipe}; {FOREVER}' & exit 0"))
    assert executor.wait_end("away")["exitCode"] == 0
    pid = pipe.read_text().strip()
    assert exists(pid)
    executor.clear()
    assert not exists(pid)


def test_a_task_gets_the_chance_to_end_in_order(executor, pipe):
    executor.set(shell("polite", f"trap 'echo bye; exit 7' TERM; echo up > {pipe}; sleep 1000 & wait"))
    assert pipe.read_text() == "up\n"
    with open(executor.data / "polite" / "stdout.log") as log:
        executor.clear()
        assert log.read() == "bye\n"


def test_the_timeout_ends_a_task(executor):
    executor.set(shell("late", FOREVER, timeoutSeconds=1))
    end = executor.wait_end("late")
    assert end["exitCode"] == 137 and end["reason"] == "TaskTimeout"
    assert executor.tasks()["late"]["process"]["timeoutSeconds"] == 1


@pytest.mark.parametrize("command,code", [(["/no/such/program"], 127), (["no-such-program"], 127), (["/etc"], 126)])
def test_a_program_that_cannot_run_ends_as_in_a_shell(executor, command, code):
    assert executor.set({"name": "bad", "process": {"command": command}}).status_code == 200
    assert executor.wait_end("bad")["exitCode"] == code
    assert command[0] in executor.output("bad", "stderr")


def test_a_killed_task_has_the_code_of_its_signal(executor):
    executor.set(shell("killed", "kill -KILL $$"))
    assert executor.wait_end("killed")["exitCode"] == 137
    assert (executor.data / "killed" / "exit").read_text() == "137"


def test_a_killed_supervisor_is_a_crash(executor):
    executor.set(shell("crash", FOREVER))
    os.kill(int((executor.data / "crash" / "pid").read_text()), 9)
    end = executor.wait_end("crash")
    assert end["exitCode"] == 137 and end["reason"] == "ProcessCrashed" and end["finishedAt"] == end["startedAt"]


def test_single_tasks_have_routes_of_their_own(executor):
    created = executor.client.post("/tasks", json=shell("one", FOREVER))
    assert created.status_code == 201 and created.json()["name"] == "one"
    assert TIME.fullmatch(created.json()["processStatus"]["running"]["startedAt"])
    again = executor.client.post("/tasks", json=shell("one", "true"))
    assert again.status_code == 500 and "exists" in again.json()["message"]
    assert executor.client.get("/tasks/one").json()["name"] == "one"
    missing = executor.client.get("/tasks/two")
    assert missing.status_code == 404 and missing.json()["code"] == "Not Found"
    assert executor.client.delete("/tasks/one").status_code == 204
    executor.wait(lambda tasks: not tasks)
    assert executor.client.delete("/tasks/one").status_code == 204


def test_elements_without_a_name_are_skipped_and_null_removes_everything(executor):
    assert executor.set({"process": {"command": ["true"]}}, shell("named", FOREVER)).status_code == 200
    assert list(executor.tasks()) == ["named"]
    assert executor.client.post("/setTasks", content=b"null").status_code == 200
    executor.wait(lambda tasks: not tasks)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"name":"x"}', b'[{"name":5}]', b'[{"process":{"command":"x"}}]',
                                  b"\xff\xfe", b"[" * 100])
def test_bad_requests_are_refused(executor, body):
    answer = executor.client.post("/setTasks", content=body)
    assert answer.status_code == 400 and answer.json()["code"] == "Bad Request" and answer.json()["message"]


@pytest.mark.parametrize("task,part", [
    ({"name": "../up", "process": {"command": ["true"]}}, "../up"),
    ({"name": "a/b", "process": {"command": ["true"]}}, "a/b"),
    ({"name": "empty", "process": {"command": []}}, "command"),
    ({"name": "none"}, "process"),
    ({"name": "pod", "podTemplateSpec": {"spec": {}}}, "podTemplateSpec"),
    ({"name": "nul", "process": {"command": ["echo", "a\0b"]}}, "NUL"),
    ({"name": "env", "process": {"command": ["true"], "env": [{"name": "A=B", "value": "x"}]}}, "A=B"),
    ({"name": "cwd", "process": {"command": ["true"], "workingDir": "/no/such/folder"}}, "/no/such/folder"),
])
def test_tasks_that_cannot_start_leave_nothing_behind(executor, task, part):
    answer = executor.client.post("/tasks", json=task)
    assert answer.status_code == 500 and part in answer.json()["message"]
    assert executor.tasks() == {}
    assert [name for name in os.listdir(executor.data) if name != ".lock"] == []


def test_other_paths_and_methods_are_answered_in_plain_text(executor):
    assert executor.client.get("/health").json() == {"status": "healthy"}
    assert executor.client.post("/tasks", json={"process": {}}).status_code == 400
    unknown = executor.client.get("/nope")
    assert unknown.status_code == 404 and unknown.headers["content-type"].startswith("text/plain")
    wrong = executor.client.get("/setTasks")
    assert wrong.status_code == 405 and wrong.headers["content-type"].startswith("text/plain")


def test_a_task_outlives_a_killed_executor_and_its_end_is_known(own_executor, pipe):
    own_executor.set(shell("long", f"read line < {pipe}; exit 0"))
    started = own_executor.wait(is_running("long"))["long"]["processStatus"]["running"]["startedAt"]
    own_executor.kill()
    own_executor.start()
    assert own_executor.tasks()["long"]["processStatus"] == {"running": {"startedAt": started}}
    pipe.write_text("go\n")
    assert own_executor.wait_end("long")["exitCode"] == 0


def test_a_task_that_ends_while_there_is_no_executor_is_known_to_the_next(own_executor, pipe):
    own_executor.set(shell("done", f"read line < {pipe}; exit 0"))
    supervisor = int((own_executor.data / "done" / "pid").read_text())
    pidfd = os.pidfd_open(supervisor)
    assert own_executor.end() == 0  # tasks are left alone
    pipe.write_text("go\n")
    select.select([pidfd], [], [])
    os.close(pidfd)
    own_executor.start()
    assert own_executor.wait_end("done")["exitCode"] == 0


def test_a_lost_task_is_dropped_so_that_it_is_sent_again(own_executor):
    own_executor.set(shell("lost", FOREVER))
    own_executor.kill()
    supervisor = int((own_executor.data / "lost" / "pid").read_text())
    pidfd = os.pidfd_open(supervisor)
    os.kill(supervisor, 9)
    select.select([pidfd], [], [])
    os.close(pidfd)
    own_executor.start()
    assert own_executor.tasks() == {}
    assert own_executor.set(shell("lost", "true")).status_code == 200
    assert own_executor.wait_end("lost")["exitCode"] == 0


def test_a_removal_goes_on_after_a_kill(own_executor, pipe):
    own_executor.set(shell("going", f"echo up > {pipe}; {FOREVER}"))
    assert pipe.read_text() == "up\n"
    assert own_executor.set().status_code == 200
    own_executor.kill()
    own_executor.start()
    own_executor.wait(lambda tasks: not tasks)


def test_broken_records_hurt_themselves_only(own_executor):
    own_executor.end()
    for name, text in (("empty", None), ("broken", "{"), ("other", '{"name":"another"}')):
        (own_executor.data / name).mkdir()
        if text:
            (own_executor.data / name / "task.json").write_text(text)
    own_executor.start()
    assert own_executor.tasks() == {}
    assert own_executor.client.post("/tasks", json=shell("broken", "true")).status_code == 500
    assert own_executor.set(shell("fine", "true")).status_code == 200
    assert own_executor.wait_end("fine")["exitCode"] == 0


def test_sidecar_mode_enters_the_main_container(tmp_path):
    from conftest import Executor
    env = {"SANDBOX_MAIN_CONTAINER": f"main-{tmp_path.name}", "FROM": "main", "PATH": os.environ["PATH"]}
    script = f"hostname inside && mount -t tmpfs none {tmp_path}/mark && touch {tmp_path}/mark/here && echo up && exec sleep infinity"
    (tmp_path / "mark").mkdir()
    main = subprocess.Popen(["unshare", "--mount", "--uts", "--ipc", "--net", "sh", "-c", script], env=env,
                            stdout=subprocess.PIPE, text=True)
    executor = None
    try:
        assert main.stdout.readline() == "up\n"
        executor = Executor(tmp_path, args=["--enable-sidecar-mode", f"--main-container-name={env['SANDBOX_MAIN_CONTAINER']}"])
        executor.set(shell("in", f'uname -n; ls {tmp_path}/mark; echo "$FROM $EXTRA"',
                           env=[{"name": "EXTRA", "value": "more"}]))
        assert executor.wait_end("in")["exitCode"] == 0
        assert executor.output("in") == "inside\nhere\nmain more\n"
        executor.clear()
        main.kill()
        main.wait()
        answer = executor.client.post("/tasks", json=shell("nobody", "true"))
        assert answer.status_code == 500 and "main container" in answer.json()["message"]
    finally:
        main.kill()
        main.wait()
        if executor:
            executor.end()
