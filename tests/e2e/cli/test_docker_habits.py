"""Commands and options that people bring from Docker: ps, exec, rm, images, run -d -e -u -v -p --name."""

import json
import re
import signal

import httpx
import pytest

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.fixture
def web(osb, server):
    """A sandbox with a name, made as with docker run -d."""
    id = osb.ok("run", "-d", "--name", "web", "-e", "A=b", "host").strip()
    assert re.fullmatch(UUID, id)
    yield id
    server.client.delete(f"/v1/sandboxes/{id}")


def test_ps_lists_sandboxes(osb, web):
    assert osb.json("ps") == osb.json("sandbox", "list")
    assert osb.json("ps")["items"][0]["id"] == web
    assert osb.json("ps", "-a") == osb.json("ps", "--all") == osb.json("ps")


def test_images_are_listed(osb, server):
    if server.daemon.code_prefix == "NATIVE":
        assert osb.json("images") == osb.json("image", "list") == osb.json("image", "ls")


def test_exec_runs_in_a_sandbox(osb, web):
    done = osb.run("exec", "web", "sh", "-c", r"printf 'a\r\n\000'; printf e >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"a\r\n\x00", b"e")
    assert osb.ok("exec", "web", "ls", "-d", "/tmp") == "/tmp\n"  # -d is an option of ls
    assert osb.ok("exec", "web", "--", "echo", "--", "-x") == "-- -x\n"
    assert osb.ok("exec", "-w", "/usr", "web", "pwd") == "/usr\n"
    assert osb.ok("exec", "web", "sh", "-c", "echo $A") == "b\n"
    assert osb.ok("exec", "-e", "A=c d", "-e", "B=", "web", "sh", "-c", 'echo "$A-$B"') == "c d-\n"
    assert osb.ok("exec", "-i", "web", "cat", input=b"in") == "in"
    assert osb.ok("exec", "web", "cat", input=b"in") == "", "without -i there is no input, as with docker"


def test_exec_as_another_user(osb, web):
    assert osb.ok("exec", "-u", "nobody", "web", "id", "-un") == "nobody\n"
    assert osb.ok("exec", "-u", "12345:54321", "web", "sh", "-c", "id -u; id -g") == "12345\n54321\n"
    assert "no-such-user" in osb.refused("exec", "-u", "no-such-user", "web", "true")


def test_exec_in_a_terminal(osb, web):
    with osb.terminal("exec", "-it", "-u", "nobody", "-e", "WHO=me", "web", "sh") as terminal:
        terminal.type("tty >/dev/null && echo $WHO-$(id -un)-yes\n")
        terminal.expect("me-nobody-yes")
        terminal.type("exit 5\n")
        assert terminal.wait() == 5


def test_exec_detached_is_found_by_its_logs(osb, web):
    execution = osb.ok("exec", "-d", "-e", "X=1", "web", "sh", "-c", "echo $X").strip()
    assert osb.ok("logs", "web", execution, "-f") == "1\n"


def test_rm_removes_several_and_goes_on(osb, server):
    ids = [server.create()["id"] for _ in range(2)]
    said = osb.refused("rm", ids[0], "nope", ids[1])
    assert "Sandbox 'nope' not found." in said
    assert [server.state(id) for id in ids] == [404, 404]
    assert osb.refused("rm", ids[0])
    osb.ok("rm", "-f", ids[0], "nope")
    id = server.create()["id"]
    assert osb.json("rm", "-f", id) == [{"sandbox_id": id, "status": "removed"}]


def test_run_takes_the_commands_own_options_without_dashes(osb):
    assert osb.ok("run", "host", "echo", "-n", "x") == "x"
    assert osb.ok("run", "--rm", "-e", "A=1", "host", "sh", "-c", "echo $A") == "1\n"


def test_run_as_a_user(osb):
    assert osb.ok("run", "-u", "nobody", "host", "id", "-un") == "nobody\n"


def test_a_detached_command_is_the_entrypoint(osb, server):
    id = osb.ok("run", "-d", "-w", "/usr", "--name", "job", "host", "sh", "-c", "pwd; exec sleep 1000").strip()
    with osb.start("logs", "job", "-f") as process:
        assert process.stdout.readline() == b"/usr\n"
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert osb.json("sandbox", "get", "job")["expires_at"] is None
    assert osb.json("sandbox", "get", "job")["metadata"] == {"name": "job"}
    server.delete(id)
    made = osb.json("run", "-d", "--name", "job", "--timeout", "1h", "host")
    assert set(made) == {"id", "name", "image"} and made["name"] == "job"
    assert osb.json("sandbox", "get", "job")["expires_at"] is not None
    server.delete(made["id"])


@pytest.mark.parametrize("words, said", [
    (["-d", "-p", "8080:80"], "osb port-forward"), (["-d", "-it"], "osb exec -it"), (["-d", "-u", "x"], "osb exec -d -u x"),
    (["-d", "--rm"], "--rm"), (["-p", "x"], "port mapping"), (["-v", "/a"], "HOST_DIRECTORY:PATH")])
def test_options_that_cannot_be_kept_are_refused(osb, words, said):
    assert said in osb.refused("run", *words, "host", "true", code=2)


def test_volumes_on_the_command_line(osb, server, tmp_path):
    said = osb.refused("run", "-v", f"{tmp_path}:/data", "host", "true")
    assert str(tmp_path) in said and "--allow-host-path" in said, said
    osb.ok("run", "-v", "box:/data", "host", "sh", "-c", "echo kept > /data/f")
    assert osb.ok("run", "-v", "box:/data:ro", "host", "cat", "/data/f") == "kept\n"
    done = osb.run("run", "-v", "box:/data:ro", "host", "sh", "-c", "echo x > /data/f")
    assert done.returncode != 0 and b"Read-only" in done.stderr, done


SERVE = ("import http.server as h\n"
         "s = h.HTTPServer(('127.0.0.1', 8000), h.SimpleHTTPRequestHandler)\n"
         "print('ready', flush=True)\n"
         "s.serve_forever()")


def test_published_ports_lead_to_the_sandbox_while_it_runs(osb, tmp_path):
    """Also to a server that listens on the sandbox's loopback, as most development servers do."""
    with osb.start("run", "-p", ":8000", "-w", "/etc", "host", "python3", "-c", SERVE) as process:
        try:
            local = re.match(rb"Forwarding 127\.0\.0\.1:(\d+) -> 8000\n", process.stderr.readline())
            assert process.stdout.readline() == b"ready\n"
            answer = httpx.get(f"http://127.0.0.1:{int(local[1])}/hostname", timeout=60, trust_env=False)
            assert answer.status_code == 200
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


# --- one document with the result

def test_a_result_as_one_document(osb, web):
    for words in (["exec", "-o", "json", "web"], ["command", "run", "web", "-o", "json", "--"],
                  ["run", "-o", "json", "host"]):
        done = osb.run(*words, "sh", "-c", "echo out; echo err >&2; exit 7")
        assert (done.returncode, done.stderr) == (7, b""), done
        document = json.loads(done.stdout)
        assert document.pop("duration") >= 0
        assert document == {"stdout": "out\n", "stderr": "err\n", "exit_code": 7, "reason": None,
                            "reason_message": None}
    good = json.loads(osb.ok("exec", "-o", "json", "web", "true"))
    assert (good["exit_code"], good["stdout"], good["reason"]) == (0, "", None)
    assert "exit_code: 0\n" in osb.ok("exec", "-o", "yaml", "web", "true")


def test_a_document_says_why_a_command_failed(osb, web):
    done = osb.run("command", "run", "web", "-o", "json", "-t", "1s", "--", "sleep", "1000")
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"], document["reason"]) == (137, 137, "TIMEOUT")
    assert document["reason_message"].encode() in done.stderr
    assert document["duration"] > 0
