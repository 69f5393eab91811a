"""Logs, events and state of a sandbox: texts for people, JSON for clients."""

import datetime

import pytest
from opensandbox import SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from spec_check import SpecCheck

#  Of logs and of events; lifecycle is an addition.
SCOPES = [("logs", "container"), ("logs", "all"), ("logs", " Container "), ("events", "lifecycle"), ("events", "runtime"),
          ("events", "all"), ("events", "ALL")]


@pytest.fixture(scope="module")
def matches():
    check = SpecCheck()
    yield check
    check.close()


def ask(server, id, what, **params):
    return server.client.get(f"/v1/sandboxes/{id}/diagnostics/{what}", params=params)


def text_of(response, deprecated=False):
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert ("Deprecation" in response.headers) == deprecated
    return response.text


def ended(server, script, **fields):
    """The id of a sandbox whose entrypoint was this script, after its end."""
    id = server.post_sandbox(entrypoint=["sh", "-c", script], **fields).json()["id"]
    server.wait_state(id, "Terminated", "Failed")
    return id


@pytest.mark.on_docker
def test_logs_are_the_output_of_the_entrypoint(server, matches):
    id = ended(server, "for i in 1 2 3 4; do echo line $i; done; echo wrong >&2")
    said = server.daemon.entrypoint_output(text_of(ask(server, id, "logs"), deprecated=True)).splitlines()
    # An engine reads the two outputs apart: only each for itself keeps its order.
    assert [line for line in said if line != "wrong"] == [f"line {i}" for i in (1, 2, 3, 4)]
    assert said.count("wrong") == 1
    assert len(ask(server, id, "logs", tail=2).text.splitlines()) == 2
    body = ask(server, id, "logs", scope="container", tail=2).json()
    matches("diagnostics.yaml", "DiagnosticContentResponse", body)
    assert (body["sandboxId"], body["kind"], body["delivery"], body["truncated"]) == (id, "logs", "inline", True)
    assert len(body["content"].splitlines()) == 2
    assert body["contentLength"] == len(body["content"])
    whole = ask(server, id, "logs", scope="container").json()
    assert (whole["scope"], whole["truncated"]) == ("container", False)
    assert len(server.daemon.entrypoint_output(whole["content"]).splitlines()) == 5


@pytest.mark.on_docker
def test_a_scope_shows_the_newest_hundred_lines(server):
    id = ended(server, "seq 150")
    body = ask(server, id, "logs", scope="container").json()
    assert body["truncated"] and len(body["content"].splitlines()) == 100
    assert server.daemon.entrypoint_output(body["content"]).split() == [str(number) for number in range(51, 151)]


@pytest.mark.on_docker
def test_a_silent_sandbox_has_no_logs(server):
    id = server.create()["id"]
    assert text_of(ask(server, id, "logs"), deprecated=True) == "(no logs)\n"
    assert ask(server, id, "logs", scope="container").json()["content"] == ""


@pytest.mark.parametrize("kind, scope", SCOPES)
def test_every_scope_that_clients_know_is_answered(server, matches, kind, scope):
    id = server.create()["id"]
    response = ask(server, id, kind, scope=scope)
    assert response.status_code == 200, response.text
    assert "Deprecation" not in response.headers
    body = response.json()
    matches("diagnostics.yaml", "DiagnosticContentResponse", body)
    assert (body["kind"], body["scope"]) == (kind, scope.strip().lower())
    assert ("warnings" in body) == (body["scope"] == "all")


@pytest.mark.parametrize("kind, scope, known", [
    ("logs", "", "container, all"), ("logs", "runtime", "container, all"), ("logs", "moon", "container, all"),
    ("events", "", "runtime, lifecycle, all"), ("events", "container", "runtime, lifecycle, all")])
def test_other_scopes_are_refused_with_the_known_ones(server, kind, scope, known):
    response = ask(server, server.create()["id"], kind, scope=scope)
    assert (response.status_code, response.json()) == (400, {
        "code": "DIAGNOSTICS_SCOPE_UNSUPPORTED",
        "message": f"Unsupported {kind} diagnostics scope '{scope}'. Supported scopes: {known}."})


@pytest.mark.on_docker
def test_the_context_names_the_sandbox_where_it_runs(server, matches):
    id = server.create()["id"]
    body = ask(server, id, "context").json()
    matches("diagnostics.yaml", "DiagnosticContext", body)
    assert (body["sandboxId"], body["state"]) == (id, "Running")
    found = next(each for each in server.daemon.list() if each["id"] == id)
    if body["backendType"] == "native":
        assert body["backendIdentifiers"] == {"sandboxdId": id, "address": found["address"]}
    else:
        assert body["backendType"] == "docker"
        container = server.daemon.inspect(id)
        assert body["backendIdentifiers"] == {"containerId": container["Id"], "containerName": f"sandbox-{id}"}
    assert server.client.get("/sandboxes/unknown/diagnostics/context").status_code == 404


@pytest.mark.on_docker
def test_bytes_that_are_no_text_are_still_json(server, matches):
    id = ended(server, r"printf 'a\377\000b\n'")
    matches("diagnostics.yaml", "DiagnosticContentResponse", ask(server, id, "logs", scope="container").json())


def test_events_follow_the_life_of_a_sandbox(server, matches):
    id = server.create()["id"]
    assert "(no notable events)" in text_of(ask(server, id, "events"), deprecated=True)
    assert server.client.post(f"/v1/sandboxes/{id}/pause").status_code == 202
    assert server.client.post(f"/v1/sandboxes/{id}/resume").status_code == 202
    body = ask(server, id, "events", scope="lifecycle").json()
    matches("diagnostics.yaml", "DiagnosticContentResponse", body)
    states = [line.split()[1] for line in body["content"].splitlines()]
    wanted = ["Pending", "Running", "Pausing", "Paused", "Resuming", "Running"]
    assert [state for state in states if state in wanted] == wanted
    last = ask(server, id, "events", scope="lifecycle", limit=1).json()
    assert last["truncated"] and len(last["content"].splitlines()) == 1
    assert "Paused" in ask(server, id, "events").text


@pytest.mark.on_docker
def test_a_bad_end_is_an_event(server):
    id = ended(server, "exit 3")
    events = text_of(ask(server, id, "events"), deprecated=True)
    assert "Event: ended with exit code 3\n" in events
    assert "Finished:" in events
    assert "Exit code:    3\n" in ask(server, id, "inspect").text


@pytest.mark.on_docker
def test_inspect_shows_state_and_no_secrets(server):
    id = server.create(env={"API_TOKEN": "hunter2", "PLAIN": "shown"}, metadata={"team": "a"},
                       resourceLimits={"cpu": "500m", "memory": "256Mi"})["id"]
    text = text_of(ask(server, id, "inspect"))
    assert f"ID:           {id[:12]}\n" in text
    for line in ("Status:       Running", "Running:      true", "CPU limit:    0.50 cores", "Memory limit: 256 MiB",
                 "PIDs:", "44772/tcp -> ", "  team=a", "  API_TOKEN=***", "  PLAIN=shown"):
        assert line in text, text
    assert "hunter2" not in text
    token = server.token(id)["X-EXECD-ACCESS-TOKEN"]
    assert token not in text and token not in ask(server, id, "summary").text


@pytest.mark.on_docker
def test_summary_is_all_three(server):
    id = ended(server, "echo out; echo more")
    text = text_of(ask(server, id, "summary", tail=1, event_limit=5))
    assert text.index(id) < text.index("INSPECT") < text.index("EVENTS") < text.index("LOGS")
    assert text.endswith("more\n") and "\nout\n" not in text


@pytest.mark.on_docker
def test_a_sandbox_that_never_ran_has_diagnostics_too(server):
    id = server.create_failing(image={"uri": "127.0.0.1:1/no/such:image"})
    assert ask(server, id, "logs").text == "(no logs)\n"
    assert "Event: error: " in ask(server, id, "events").text
    assert "Status:       Failed\n" in ask(server, id, "inspect").text
    assert "(no logs)" in ask(server, id, "summary").text


def test_invalid_requests_are_explained(server, matches):
    id = server.create()["id"]
    for what in ("logs", "events", "inspect", "summary", "logs?scope=container"):
        response = server.client.get(f"/sandboxes/unknown/diagnostics/{what}")
        assert (response.status_code, response.json()["code"]) == (404, server.code("SANDBOX_NOT_FOUND")), what
        matches("diagnostics.yaml", "ErrorResponse", response.json())
    for what, params in (("logs", {"tail": 0}), ("logs", {"tail": 10001}), ("events", {"limit": "x"}),
                         ("events", {"limit": 501}), ("summary", {"tail": -1}), ("summary", {"event_limit": 0})):
        response = ask(server, id, what, **params)
        assert response.status_code == 422, (what, params)
        matches("diagnostics.yaml", "ValidationErrorResponse", response.json())
    assert ask(server, id, "nothing").status_code == 404


def test_after_a_restart_the_record_tells(make_server):
    server = make_server()
    id = server.create()["id"]
    server.stop()
    server.start()
    states = [line.split()[1] for line in ask(server, id, "events", scope="lifecycle").json()["content"].splitlines()]
    assert states == ["created", "Running"]
    server.remove_all()


@pytest.mark.on_docker
def test_without_the_backend_the_records_are_shown(make_server, matches):
    server = make_server()
    id = server.create()["id"]
    server.daemon.stop()
    logs = ask(server, id, "logs", scope="container")
    assert (logs.status_code, logs.json()["code"]) == (500, server.code("SANDBOX_QUERY_FAILED"))
    matches("diagnostics.yaml", "ErrorResponse", logs.json())
    text = text_of(ask(server, id, "summary"))
    assert "Status:       Running\n" in text and text.endswith("[error] The logs could not be read.\n")
    assert ask(server, id, "events", scope="lifecycle").status_code == 200
    server.daemon.start()  # it removes what it has when it is closed


def test_the_official_client_reads_both(server):
    config = ConnectionConfigSync(domain=f"127.0.0.1:{server.port}", api_key=server.key,
                                  use_server_proxy=True, request_timeout=datetime.timedelta(seconds=30))
    sandbox = SandboxSync.create("host", connection_config=config, timeout=datetime.timedelta(minutes=10),
                                 entrypoint=["sh", "-c", "echo from inside; sleep infinity"])
    with server.client.stream("GET", f"/v1/sandboxes/{sandbox.id}/diagnostics/logs/stream") as stream:
        assert any("from inside" in line for line in stream.iter_lines())
    logs = sandbox.get_diagnostic_logs("container")
    assert (logs.kind, logs.delivery, logs.truncated) == ("logs", "inline", False)
    assert server.daemon.entrypoint_output(logs.content) == "from inside\n"
    events = sandbox.get_diagnostic_events("lifecycle")
    assert events.kind == "events" and " Running " in events.content
    sandbox.kill()
    sandbox.close()
