"""osb says why something ended: out of memory, timeout, paused, expired, deleted."""

import datetime
import json

import httpx
from osb_program import Osb
from server_process import Server

HOG = "x = bytearray(400 << 20); x[::4096] = b'x' * len(x[::4096])"
OUT_OF_MEMORY = "osb: out of memory (limit 64 MiB)\n"
LIMIT = {"memory": "64Mi"}


def remove(server, id):
    server.client.delete(f"/v1/sandboxes/{id}")


def test_a_program_of_osb_run_that_runs_out_of_memory(osb):
    done = osb.run("run", "--resource", "memory=64Mi", "host", "--", "python3", "-c", HOG)
    assert (done.returncode, done.stderr.decode()) == (137, OUT_OF_MEMORY)


def test_a_terminal_whose_program_runs_out_of_memory(osb):
    with osb.terminal("run", "-t", "--resource", "memory=64Mi", "host", "--", "python3", "-c", HOG) as terminal:
        terminal.expect(r"osb: out of memory \(limit 64 MiB\)\r\n")
        assert terminal.wait() == 137


def test_a_command_that_runs_out_of_memory(osb, server):
    id = server.create(resourceLimits=LIMIT)["id"]
    done = osb.run("command", "run", id, "--", "python3", "-c", HOG)
    assert (done.returncode, done.stderr.decode()) == (137, OUT_OF_MEMORY)
    # A shell reports what happened to its child.
    done = osb.run("command", "run", id, "--", "sh", "-c", f"python3 -c \"{HOG}\"; exit $?")
    assert done.returncode == 137 and done.stderr.decode().endswith(OUT_OF_MEMORY)
    # Killed, but not by the kernel.
    done = osb.run("command", "run", id, "--", "sh", "-c", "kill -9 $$")
    assert (done.returncode, done.stderr) == (137, b"")
    remove(server, id)


def test_a_sandbox_in_gvisor_that_runs_out_of_memory(server, tmp_path):
    """There the whole sandbox ends."""
    gvisor = Server(server.daemon, settings={"secure_runtime": {"type": "gvisor"}})
    osb = Osb(gvisor, tmp_path)
    id = gvisor.create(resourceLimits={"memory": "256Mi"})["id"]
    said = osb.refused("command", "run", id, "--", "python3", "-c", HOG)
    assert f"sandbox {id} has ended: out of memory (limit 256 MiB)" in said and "--use-server-proxy" not in said, said
    remove(gvisor, id)
    gvisor.close()


def test_the_status_of_a_background_command_names_the_reason(osb, server):
    id = server.create(resourceLimits=LIMIT)["id"]
    command = json.loads(osb.ok("command", "run", "-d", "-o", "json", id, "--", "python3", "-c", HOG))["execution_id"]
    # The events end with the command.
    httpx.get(f"{server.url}/sandboxes/{id}/proxy/44772/command/{command}/events", headers=server.token(id),
              timeout=120, trust_env=False)
    status = osb.json("command", "status", id, command)
    assert (status["reason"], status["reason_message"]) == ("OUT_OF_MEMORY", "out of memory (limit 64 MiB)")
    remove(server, id)


def test_code_that_runs_out_of_memory(server):
    id = server.create(resourceLimits=LIMIT)["id"]
    answer = httpx.post(f"{server.url}/sandboxes/{id}/proxy/44772/code", headers=server.token(id), timeout=120,
                        json={"code": HOG, "context": {"language": "python"}}, trust_env=False)
    assert '"reason":"OUT_OF_MEMORY","reason_message":"out of memory (limit 64 MiB)"' in answer.text
    remove(server, id)


def test_a_timeout_says_so(osb, sandbox):
    done = osb.run("command", "run", "--timeout", "1s", sandbox, "--", "sleep", "1000")
    assert (done.returncode, done.stderr.decode()) == (137, "osb: timed out after 1s\n")


def test_a_sandbox_whose_entrypoint_ran_out_of_memory(osb, server):
    made = server.post_sandbox(wait=0, entrypoint=["python3", "-c", HOG], resourceLimits=LIMIT).json()["id"]
    ended = server.wait_state(made, "Failed")
    assert ended["status"]["reason"] == "OUT_OF_MEMORY"
    assert ended["status"]["message"] == "out of memory (limit 64 MiB)"
    assert "out of memory (limit 64 MiB)" in osb.refused("command", "run", made, "--", "true")
    remove(server, made)


def test_a_sandbox_that_someone_deletes_under_a_command(osb, server):
    id = server.create()["id"]
    with osb.start("command", "run", id, "--", "sh", "-c", "echo up; sleep 1000") as process:
        assert process.stdout.readline() == b"up\n"
        server.delete(id)
        said = process.communicate(timeout=120)[1].decode()
    assert f"sandbox {id} was deleted at " in said and "by an API request" in said
    assert f"sandbox {id} was deleted at " in osb.refused("command", "run", id, "--", "true")
    assert f"sandbox {id} was deleted at " in osb.refused("sandbox", "get", id)


def test_a_sandbox_that_expires_under_a_command(osb, server):
    id = server.create(timeout=600)["id"]
    with osb.start("command", "run", id, "--", "sh", "-c", "echo up; sleep 1000") as process:
        assert process.stdout.readline() == b"up\n"
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
        server.client.post(f"/v1/sandboxes/{id}/renew-expiration", json={"expiresAt": soon.isoformat()})
        said = process.communicate(timeout=120)[1].decode()
    assert f"sandbox {id} expired at " in said
    response = server.get(id)
    assert response.status_code == 404 and response.json()["code"] == server.code("SANDBOX_NOT_FOUND")
    assert f"sandbox {id} expired at " in response.json()["message"]


def test_a_paused_sandbox(osb, server):
    id = server.create()["id"]
    assert server.client.post(f"/v1/sandboxes/{id}/pause").status_code == 202
    server.wait_state(id, "Paused")
    said = osb.refused("--request-timeout", "30", "command", "run", id, "--", "true")
    assert f"sandbox {id} is paused: resume it with osb sandbox resume {id}" in said
    assert "--use-server-proxy" not in said
    osb.ok("sandbox", "resume", id)
    assert osb.ok("command", "run", id, "--", "echo", "again") == "again\n"
    remove(server, id)


def test_an_unknown_id_is_still_unknown(osb):
    id = "00000000-0000-4000-8000-000000000000"
    assert f"sandbox {id} does not exist" in osb.refused("sandbox", "get", id)
