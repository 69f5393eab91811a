"""Code contexts over real HTTP: the contract's routes, default contexts, languages that are not there, bad input."""

import os
import socket

import pytest
from code_runs import Run, new_context, run
from test_commands import exit_code, parse, process_gone, texts, types

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def languages(execd, **query):
    return sorted(context["language"] for context in execd.client.get("/code/contexts", params=query).json())


def test_context_is_made_found_listed_and_deleted(start_execd):
    execd = start_execd()
    assert execd.client.get("/code/contexts").json() == []
    context = new_context(execd)
    assert execd.client.get(f"/code/contexts/{context}").json() == {"id": context, "language": "python"}
    assert execd.client.get("/code/contexts", params={"language": "python"}).json() == [{"id": context, "language": "python"}]
    assert execd.client.get("/code/contexts", params={"language": "java"}).json() == []
    pid = int(run(execd, "import os\nos.getpid()", context).text)
    answer = execd.client.delete(f"/code/contexts/{context}")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "0", b"")
    assert process_gone(pid)
    for method in ("GET", "DELETE"):
        gone = execd.client.request(method, f"/code/contexts/{context}")
        assert gone.status_code == 404 and gone.json()["code"] == "CONTEXT_NOT_FOUND" and context in gone.json()["message"]


def test_default_context_is_listed_and_deleted_with_its_language(start_execd):
    execd = start_execd()
    first = run(execd, "x = 1")
    assert [context["id"] for context in execd.client.get("/code/contexts").json()] == [first.id]
    new_context(execd)
    assert languages(execd, language="python") == ["python", "python"]
    answer = execd.client.delete("/code/contexts", params={"language": "python"})
    assert (answer.status_code, answer.headers["content-length"]) == (200, "0")
    assert languages(execd) == []
    assert execd.client.delete("/code/contexts", params={"language": "python"}).status_code == 200
    again = run(execd, "x")
    assert again.ename == "NameError" and again.id != first.id


def test_default_context_that_is_deleted_by_its_id_is_made_anew(start_execd):
    execd = start_execd()
    first = run(execd, "1")
    assert execd.client.delete(f"/code/contexts/{first.id}").status_code == 200
    assert run(execd, "2").id != first.id


def test_sandbox_that_runs_no_code_has_no_kernel(start_execd):
    execd = start_execd()
    assert execd.client.get("/code/contexts").json() == []
    children = open(f"/proc/{execd.pid}/task/{execd.pid}/children").read()
    assert children == ""


@pytest.mark.parametrize("method,path,content,status,code", [
    ("DELETE", "/code/contexts", None, 400, "MISSING_QUERY"),
    ("DELETE", "/code", None, 400, "MISSING_QUERY"),
    ("DELETE", f"/code?id={UNKNOWN}", None, 500, "RUNTIME_ERROR"),
    ("GET", "/code/contexts?language=sql", None, 500, "RUNTIME_ERROR"),
    ("GET", f"/code/contexts/{UNKNOWN}/events", None, 404, "CONTEXT_NOT_FOUND"),
    ("POST", "/code", "{}", 400, "INVALID_REQUEST_BODY"),
    ("POST", "/code", '{"code":""}', 400, "INVALID_REQUEST_BODY"),
    ("POST", "/code", '{"code":5}', 400, "INVALID_REQUEST_BODY"),
    ("POST", "/code", '{"code":"1","context":5}', 400, "INVALID_REQUEST_BODY"),
    ("POST", "/code", '{"code":"1","timeout":-1,"context":{"language":"python"}}', 400, "INVALID_REQUEST_BODY"),
    ("POST", "/code", '{"code":"1","context":{"language":"cobol"}}', 500, "RUNTIME_ERROR"),
    ("POST", "/code", '{"code":"1","context":{"language":"sql"}}', 500, "RUNTIME_ERROR"),
    ("POST", "/code", '{"code":"1","context":{"id":"%s","language":"python"}}' % UNKNOWN, 500, "RUNTIME_ERROR"),
    ("POST", "/code", b'{"code":"\xff\xfe","context":{"language":"python"}}', 400, "INVALID_REQUEST_BODY"),
    ("POST", "/code", "", 400, "INVALID_REQUEST_BODY"),
    ("POST", "/code/context", "{}", 500, "RUNTIME_ERROR"),
    ("POST", "/code/context", '{"language":"cobol"}', 500, "RUNTIME_ERROR"),
    ("POST", "/code/context", '{"language":"python","envs":5}', 400, "INVALID_REQUEST_BODY"),
    ("POST", "/code/context", "[", 400, "INVALID_REQUEST_BODY")])
def test_bad_requests_are_answered_with_the_contracts_codes(execd, method, path, content, status, code):
    answer = execd.client.request(method, path, content=content)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.json()["message"]


def test_unknown_language_names_the_known_ones(execd):
    message = execd.client.post("/code/context", json={"language": "cobol"}).json()["message"]
    assert "cobol" in message and "python" in message


def test_language_that_is_not_in_the_image_says_what_to_install(start_execd, tmp_path):
    execd = start_execd(env={"PATH": str(tmp_path)})
    for answer in (execd.client.post("/code/context", json={"language": "python"}),
                   execd.client.post("/code", json={"code": "1", "context": {"language": "python"}})):
        assert answer.status_code == 500 and answer.json()["code"] == "RUNTIME_ERROR"
        assert "python3" in answer.json()["message"] and "Install" in answer.json()["message"]
    assert execd.client.get("/code/contexts").json() == []


def test_interpreter_that_fails_at_its_start_is_told_with_its_own_words(start_execd, tmp_path):
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho 'libpython is missing' >&2\nexit 127\n")
    broken.chmod(0o755)
    execd = start_execd(env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    answer = execd.client.post("/code/context", json={"language": "python"})
    assert answer.status_code == 500 and "libpython is missing" in answer.json()["message"]
    assert execd.client.get("/code/contexts").json() == []
    failed = run(execd, "1")
    assert failed.ename == "KernelDied" and "libpython is missing" in failed.error["evalue"]


def test_nulls_of_the_kotlin_client_mean_absent(execd):
    answer = execd.client.post("/code", json={"code": "40 + 2", "context": {"id": None, "language": "python"}})
    assert Run(parse(answer.content)).text == "42"
    events = parse(execd.client.post("/code", json={"code": "echo $((40 + 2))", "context": None}).content)
    assert texts(events) == ["42"] and exit_code(events) == 0


@pytest.mark.parametrize("context", [{}, {"context": {}}, {"context": {"language": "command"}}])
def test_code_without_a_language_is_a_shell_command(execd, context):
    events = parse(execd.client.post("/code", json={"code": "echo out; exit 3", **context}).content)
    assert texts(events) == ["out"] and exit_code(events) == 3 and types(events)[0] == "init"


def test_background_command_as_code_answers_at_once(execd):
    os.mkfifo(execd.tmp / "fifo")
    events = parse(execd.client.post("/code", json={"code": f"cat {execd.tmp}/fifo",
                                                    "context": {"language": "background-command"}}).content)
    assert types(events) == ["init", "execution_complete"]
    (execd.tmp / "fifo").write_text("x")


def test_context_id_without_a_language_runs_in_that_context(execd):
    context = new_context(execd)
    run(execd, "x = 5", context)
    answer = execd.client.post("/code", json={"code": "x", "context": {"id": context}})
    assert Run(parse(answer.content)).text == "5"
    execd.client.delete(f"/code/contexts/{context}")


def test_context_can_be_interrupted_as_a_command_too(execd):
    context = new_context(execd)
    assert execd.client.delete("/command", params={"id": context}).status_code == 200
    assert run(execd, "1", context).text == "1"
    execd.client.delete(f"/code/contexts/{context}")


def test_access_token_guards_code_and_stays_out_of_kernels(token_execd):
    import httpx
    assert httpx.post(f"{token_execd.url}/code", json={"code": "1"}, trust_env=False).status_code == 401
    done = run(token_execd, "import os\nsorted(k for k in os.environ if 'TOKEN' in k)")
    assert "EXECD_ACCESS_TOKEN" not in done.text


def test_kernel_takes_variables_from_the_environment_file(start_execd, tmp_path):
    variables = tmp_path / "env"
    variables.write_text("FROM_FILE=yes\n")
    execd = start_execd(env={"EXECD_ENVS": str(variables)})
    assert run(execd, "import os\nos.environ['FROM_FILE']").text == "'yes'"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize("env,answers", [({}, True), ({"JUPYTER_HOST": "http://127.0.0.1:1"}, False)])
def test_probe_of_the_official_clients_finds_the_interpreter(start_execd, env, answers):
    execd = start_execd(env={"JUPYTER_PORT": str(free_port()), "JUPYTER_HOST": None, **env})
    probe = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}' && exit 0 || exit 1"
    events = parse(execd.client.post("/command", json={"command": probe}).content)
    assert (exit_code(events) == 0) == answers


def test_taken_port_of_jupyter_is_left_alone(start_execd):
    with socket.socket() as jupyter:
        jupyter.bind(("127.0.0.1", 0))
        jupyter.listen()
        execd = start_execd(env={"JUPYTER_PORT": str(jupyter.getsockname()[1]), "JUPYTER_HOST": None})
        assert run(execd, "1").text == "1"
