"""Lifecycle hooks: preStart before the entrypoint, periodic ones beside it, and what a failure does."""

import contextlib
import json

import httpx
import pytest

IDLE = ["tail", "-f", "/dev/null"]


def sh(script):
    return ["sh", "-c", script]


def log_of(server, id):
    return server.client.get(f"/v1/sandboxes/{id}/diagnostics/logs", params={"tail": 2000}).text


@contextlib.contextmanager
def log_lines(server, id):
    """Lines of the log as they come, without times."""
    path = f"{server.url}/v1/sandboxes/{id}/diagnostics/logs/stream"
    with httpx.Client(headers=server.client.headers, timeout=120, trust_env=False) as client, \
            client.stream("GET", path) as stream:
        assert stream.status_code == 200, stream.read()

        def lines():
            rest = ""
            for event in (json.loads(line) for line in stream.iter_lines() if line):
                rest += event.get("text", "")
                *whole, rest = rest.split("\n")
                yield from whole

        yield lines()


def wait_for_line(server, id, text, times=1):
    with log_lines(server, id) as lines:
        for line in lines:
            times -= text in line
            if times == 0:
                return line
    raise AssertionError(f"the log of {id} ended without {text!r}:\n{log_of(server, id)}")


def failed(server, **lifecycle):
    """The sandbox whose preStart fails."""
    made = server.post_sandbox(lifecycle=lifecycle, entrypoint=sh("echo the entrypoint ran; exec tail -f /dev/null"))
    assert made.status_code == 202, made.text
    ended = server.wait_state(made.json()["id"], "Failed")
    assert ended["status"]["reason"] == "LIFECYCLE_HOOK_FAILED", ended
    assert "the entrypoint ran" not in log_of(server, ended["id"])
    return ended


def test_capabilities_name_hooks_and_policies(server):
    features = {each["name"]: each["available"] for each in server.client.get("/capabilities").json()["features"]}
    assert features["lifecycleHooks"] and features["idlePolicy"]


@pytest.mark.on_docker
def test_pre_start_ends_before_the_entrypoint_begins(server):
    id = server.create(lifecycle={"preStart": {"command": sh("echo prepared | tee /tmp/prepared")}},
                       entrypoint=sh("cat /tmp/prepared; echo begun; exec tail -f /dev/null"))["id"]
    with log_lines(server, id) as lines:
        ours = (line for line in lines if "prepared" in line or "begun" in line)
        assert [next(ours) for _ in range(3)] == ["[preStart hook] prepared", "prepared", "begun"]
    # The hooks are execd's business.
    assert server.run(id, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c 'preStart'").split()[-1] == "0"
    assert "LIFECYCLE" not in server.run(id, "env")


def test_execd_serves_while_pre_start_runs(server):
    wait = "mkfifo /tmp/made && mv /tmp/made /tmp/gate && read line </tmp/gate && echo passed"
    id = server.create(lifecycle={"preStart": {"command": sh(wait)}}, entrypoint=sh(": >/tmp/begun; " + " ".join(IDLE)))["id"]
    assert server.run(id, "until [ -p /tmp/gate ]; do sleep 0.05; done; ls /tmp; echo go >/tmp/gate") == "gate"
    wait_for_line(server, id, "passed")
    assert server.run(id, "until [ -e /tmp/begun ]; do sleep 0.05; done; echo yes") == "yes"
    assert server.state(id) == "Running"


@pytest.mark.on_podman
def test_a_pre_start_that_fails_ends_the_sandbox_and_says_why(server):
    ended = failed(server, preStart={"command": sh("echo all is well; echo 'but \"this\" broke' >&2; exit 3")})
    message = ended["status"]["message"]
    for part in ("preStart hook", "exit code 3", "but", "this", "broke"):
        assert part in message, message
    assert "[preStart hook] all is well" in log_of(server, ended["id"])
    inspected = server.client.get(f"/v1/sandboxes/{ended['id']}/diagnostics/inspect").text
    assert "exit code 3" in inspected


def test_a_program_that_does_not_exist_is_a_failure(server):
    message = failed(server, preStart={"command": ["/no/such/program"]})["status"]["message"]
    assert "preStart hook could not be started" in message and "/no/such/program" in message, message


def test_a_pre_start_that_never_ends_is_ended(server):
    hook = sh("trap 'echo stubborn' TERM; echo begun; while :; do sleep 100 & wait; done")
    for seconds in (1, 5, 25):  # a slow machine may need longer than the first to come to the trap
        ended = failed(server, preStart={"command": hook, "timeoutSeconds": seconds})
        assert f"was still running after {seconds}s" in ended["status"]["message"], ended
        log = log_of(server, ended["id"])
        if "begun" in log:
            break
    assert "stubborn" in log


def test_a_gibibyte_of_output_is_read_and_dropped(server):
    ended = failed(server, preStart={"command": sh("yes | head -c 1073741824; echo the end; exit 4"), "timeoutSeconds": 600})
    assert "exit code 4" in ended["status"]["message"] and "the end" in ended["status"]["message"], ended
    log = server.client.get(f"/v1/sandboxes/{ended['id']}/diagnostics/logs", params={"tail": 10000}).text
    assert "more bytes are left out" in log
    assert len(log) < 1 << 20


@pytest.mark.on_docker
def test_hooks_cannot_kill_execd(server):
    """It is the first process of its namespace, which no signal from inside kills."""
    id = server.create(lifecycle={"preStart": {"command": sh("kill -9 $PPID; kill -9 1; echo still here")}},
                       entrypoint=sh("echo begun; exec tail -f /dev/null"))["id"]
    wait_for_line(server, id, "begun")
    assert "[preStart hook] still here" in log_of(server, id)
    assert server.state(id) == "Running"


def test_periodic_hooks_run_beside_the_entrypoint_and_never_overlap(server):
    # Longer than its period: the runs that come due meanwhile are skipped.
    hook = {"name": "sweep", "schedule": "@every 1s", "command": sh("echo begin; sleep 1.5; echo end")}
    id = server.create(lifecycle={"periodic": [hook]})["id"]
    with log_lines(server, id) as lines:
        ours = (line for line in lines if "sweep" in line)
        seen = [next(ours).rsplit(" ", 1)[1] for _ in range(6)]
    assert seen == ["begin", "end"] * 3


def test_a_periodic_hook_that_fails_is_told_in_the_log(server):
    hooks = [{"name": "bad", "schedule": "TZ=UTC @every 1s", "command": sh("echo oops; exit 7")},
             {"name": "slow", "schedule": "@every 1s", "command": ["sleep", "1000"], "timeoutSeconds": 1}]
    id = server.create(lifecycle={"periodic": hooks})["id"]
    assert "oops" in wait_for_line(server, id, 'periodic hook "bad" ended with exit code 7')
    wait_for_line(server, id, 'periodic hook "slow" was still running after 1s')
    assert server.state(id) == "Running"


def test_a_zone_that_the_image_lacks_is_a_failure(server):
    hook = {"name": "a", "schedule": "TZ=Nowhere/Land @daily", "command": ["true"]}
    made = server.post_sandbox(lifecycle={"periodic": [hook], "preStart": {"command": ["true"]}})
    ended = server.wait_state(made.json()["id"], "Failed")
    assert "Nowhere/Land" in ended["status"]["message"], ended


@pytest.mark.on_docker
def test_hooks_go_on_after_a_pause(server):
    hook = {"name": "tick", "schedule": "@every 1s", "command": ["echo", "tick"]}
    id = server.create(lifecycle={"preStart": {"command": ["echo", "once"]}, "periodic": [hook]})["id"]
    wait_for_line(server, id, "tick")
    assert server.client.post(f"/v1/sandboxes/{id}/pause").status_code == 202
    server.wait_state(id, "Paused")
    assert server.client.post(f"/v1/sandboxes/{id}/resume").status_code == 202
    server.wait_state(id, "Running")
    before = log_of(server, id).count("] tick")
    wait_for_line(server, id, "] tick", times=before + 1)
    assert log_of(server, id).count("once") == 1


@pytest.mark.on_docker
def test_hooks_survive_the_server(make_server):
    server = make_server()
    hook = {"name": "tick", "schedule": "@every 1s", "command": ["echo", "tick"]}
    id = server.create(lifecycle={"preStart": {"command": ["echo", "once"]}, "periodic": [hook]})["id"]
    server.kill()
    server.start()
    server.wait_state(id, "Running")
    wait_for_line(server, id, "] tick", times=log_of(server, id).count("] tick") + 1)
    assert log_of(server, id).count("once") == 1


@pytest.mark.on_podman
def test_a_failure_is_known_after_a_restart(make_server):
    server = make_server()
    gate = "mkfifo /tmp/made && mv /tmp/made /tmp/gate && read line </tmp/gate; echo late; exit 5"
    id = server.create(lifecycle={"preStart": {"command": sh(gate)}})["id"]
    endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/44772").json()
    server.kill()
    open_gate = "until [ -p /tmp/gate ]; do sleep 0.05; done; echo go >/tmp/gate"
    httpx.post(f"http://{endpoint['endpoint']}/command", headers=endpoint["headers"], trust_env=False, timeout=60,
               json={"command": open_gate, "background": True})
    server.start()
    ended = server.wait_state(id, "Failed")
    assert "exit code 5" in ended["status"]["message"] and "late" in ended["status"]["message"], ended


@pytest.mark.on_podman
def test_a_snapshot_does_not_bring_hooks_along(server):
    id = server.create(lifecycle={"preStart": {"command": sh("echo hooked >>/tmp/hooked")}},
                       entrypoint=sh(": >/tmp/begun; exec tail -f /dev/null"))["id"]
    server.run(id, "until [ -e /tmp/begun ]; do sleep 0.05; done")
    snapshot = server.client.post(f"/v1/sandboxes/{id}/snapshots", json={}).json()["id"]
    while (state := server.client.get(f"/v1/snapshots/{snapshot}").json()["status"]["state"]) != "Ready":
        assert state in ("Creating", "Pending"), state
    restored = server.create(image=..., entrypoint=..., snapshotId=snapshot)["id"]
    assert server.run(restored, "cat /tmp/hooked") == "hooked"
    assert "preStart hook" not in log_of(server, restored)
    server.client.delete(f"/v1/snapshots/{snapshot}")
