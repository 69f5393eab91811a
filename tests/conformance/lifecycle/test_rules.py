"""Permissions and invalid requests: statuses and codes of the contract."""

import httpx
import pytest


def test_the_key_is_asked_for(server):
    bare = httpx.Client(base_url=server.url, trust_env=False)
    for path in ("/v1/sandboxes", "/sandboxes/x", "/no/such/path", "/sandboxes/x/proxy/http/", "/v1/images",
                 "/sandboxes/x/proxy/80/../../y", "/sandboxes/x/proxy/80/%2e%2e/y"):
        # Without httpx tidying the path.
        response = bare.send(httpx.Request("GET", httpx.URL(server.url).copy_with(raw_path=path.encode())))
        assert (response.status_code, response.json()["code"]) == (401, "MISSING_API_KEY"), path
    wrong = bare.get("/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": "guess"})
    assert (wrong.status_code, wrong.json()["code"]) == (401, "INVALID_API_KEY")
    assert bare.get("/health").json() == {"status": "healthy"}
    assert set(bare.get("/version").json()) == {"version"}
    for path in ("/healthy", "/versions", "/docs/x", "/redocs", "/openapi.json5"):  # what begins with an open path is open
        assert bare.get(path).status_code == 404, path
    while (ready := bare.get("/health/ready")).status_code == 503:
        pass  # its backend has not answered yet
    assert ready.json() == {"status": "ready"}
    assert bare.get("/v1/sandboxes/x/proxy/44772/ping").status_code == 404


def test_listed_origins_may_read_answers_in_browsers(make_server):
    server = make_server(settings={"server": {"allowed_origins": ["https://console.example.com"]}})
    for origin, allowed in (("https://console.example.com", True), ("https://evil.example.com", False), ("null", False)):
        #  Before authentication: browsers send no key with this question.
        asked = httpx.options(f"{server.url}/v1/sandboxes", trust_env=False,
                              headers={"Origin": origin, "Access-Control-Request-Method": "POST",
                                       "Access-Control-Request-Headers": "open-sandbox-api-key, content-type"})
        read = server.client.get("/v1/sandboxes", headers={"Origin": origin})
        assert (asked.status_code, read.status_code) == ((200, 200) if allowed else (403, 200)), origin
        for answer in (asked, read):
            assert answer.headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)
        assert asked.headers.get("Access-Control-Allow-Headers") == ("open-sandbox-api-key, content-type" if allowed else None)


def test_request_ids_come_back(server):
    response = server.client.get("/v1/sandboxes/none", headers={"X-Request-ID": "abc-1"})
    assert response.status_code == 404
    assert response.headers["X-Request-ID"] == "abc-1"
    assert len(server.client.get("/health").headers["X-Request-ID"]) == 32


def test_variables_for_the_egress_part_that_reach_nobody_are_told_in_the_log(server):
    name = "OPENSANDBOX_EGRESS_LOG_LEVEL"
    with server.saying("variables of the create have no effect") as said:
        made = server.create(env={name: "debug", "KEPT": "a"})
    line = next(line for line in said if "no effect" in line)
    assert name in line and made["id"] in line and "networkPolicy" in line and "debug" not in line
    assert server.run(made["id"], "env | grep -e KEPT -e EGRESS") == "KEPT=a"
    server.delete(made["id"])


WRONG = [
    ({"timeout": 59}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"entrypoint": ...}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"entrypoint": [" "]}, 400, "*::INVALID_ENTRYPOINT"),
    ({"resourceLimits": ...}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"resourceLimits": {"memory": "lots"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"resourceLimits": {"cpu": "much"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"resourceLimits": {"gpu": "some"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"image": ...}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"image": ..., "snapshotId": "6b0a2c7e-0000-4000-8000-000000000000"}, 404, "SNAPSHOT::NOT_FOUND"),
    ({"metadata": {"-bad": "x"}}, 400, "SANDBOX::INVALID_METADATA_LABEL"),
    ({"extensions": {"poolRef": "p"}}, 400, "SANDBOX::UNSUPPORTED_POOL_REF"),
    ({"extensions": {"poolRef": "p"}, "networkPolicy": {}}, 400, "SANDBOX::UNSUPPORTED_POOL_REF"),
    ({"extensions": {"poolRef": "p"}, "credentialProxy": {"enabled": True}}, 400, "SANDBOX::UNSUPPORTED_POOL_REF"),
    ({"extensions": {"poolRef": "p"}, "lifecycle": {"preStart": {"command": ["true"]}}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"extensions": {"poolRef": "p"}, "image": ..., "snapshotId": "6b0a2c7e-0000-4000-8000-000000000000"}, 422,
     "SANDBOX::INVALID_PARAMETER"),
    ({"extensions": {"access.renew.extend.seconds": "299"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"extensions": {"access.renew.extend.seconds": "86401"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"credentialProxy": {"enabled": True}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"platform": {"os": "linux", "arch": "sparc"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"env": {"OPENSANDBOX_LIFECYCLE": "{}"}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"env": {"OPENSANDBOX_EGRESS_TOKEN": "x"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"preStart": {"command": "true"}}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"preStart": {"command": ["true"], "timeoutSeconds": 10801}}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"preStart": {"command": [" "]}}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"prePause": {"command": ["true"]}}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"periodic": [{"name": " ", "schedule": "@hourly", "command": ["true"]}]}}, 422,
     "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"periodic": [{"name": "a", "schedule": "@hourly", "command": ["true"]}] * 2}}, 422,
     "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"periodic": [{"name": "a", "schedule": "0 0 30 2 *", "command": ["true"]}]}}, 400,
     "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"periodic": [{"name": "a", "schedule": "now and then", "command": ["true"]}]}}, 400,
     "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"renewalPolicy": {"extendSeconds": 299}}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"renewalPolicy": {"extendSeconds": 300}}, "extensions": {"access.renew.extend.seconds": "301"}}, 400,
     "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"idlePolicy": {"idleTimeoutSeconds": 30}}}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"lifecycle": {"idlePolicy": {"idleTimeoutSeconds": 1801, "onIdle": "pause"}}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"templateId": "t"}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"image": ..., "entrypoint": ..., "resourceLimits": ..., "templateId": "t"}, 422, "SANDBOX::INVALID_PARAMETER"),
    ({"networkPolicy": {"defaultAction": "block"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    ({"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/etc"}}]}, 400, "VOLUME::HOST_PATH_NOT_ALLOWED"),
]


@pytest.mark.on_docker
@pytest.mark.parametrize("fields, status, code", WRONG)
def test_unsupported_requests_are_refused_at_once(server, fields, status, code):
    response = server.post_sandbox(**fields)
    code = code.replace("*", server.daemon.code_prefix)  # the backend's own
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    assert response.json()["message"]
    assert server.client.get("/v1/sandboxes").json()["items"] == []


@pytest.mark.on_docker
def test_requested_resources_and_a_blank_template_change_nothing(server):
    """Requests are for schedulers of clusters."""
    id = server.create(resourceRequests={"cpu": "100m", "memory": "64Mi"}, templateId=" ")["id"]
    shown = server.get(id).json()
    assert shown["status"]["state"] == "Running" and "templateId" not in shown and "allocation" not in shown


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"image": 1}', b"\xff\xfe"])
def test_bodies_that_are_no_request(server, body):
    response = server.client.post("/v1/sandboxes", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert response.json()["code"] and response.json()["message"] and response.json()["detail"]


def test_unknown_paths_and_methods(server):
    missing = server.client.get("/v1/nothing")
    assert missing.status_code == 404 and missing.json()["code"]
    method = server.client.put("/v1/sandboxes")
    assert method.status_code == 405 and "POST" in method.headers["Allow"] and method.json()["code"]


def test_ids_of_other_shapes_are_unknown(server):
    for id in ("x", "..%2f..", "%00x", "a" * 4000, "%2e%2e"):
        response = server.client.get(f"/v1/sandboxes/{id}")
        assert response.status_code in (400, 404), id
        assert response.json()["code"]


@pytest.mark.on_docker
def test_endpoints_say_what_is_wrong(server):
    id = server.create()["id"]
    cases = [("/endpoints/x", 422, "SANDBOX::INVALID_PARAMETER"), ("/endpoints/0", 400, server.code("INVALID_PORT")),
             ("/endpoints/65536", 400, server.code("INVALID_PORT")),
             ("/endpoints/80?use_server_proxy=1&expires=99999999999", 400, "SANDBOX::INVALID_PARAMETER")]
    for path, status, code in cases:
        response = server.client.get(f"/v1/sandboxes/{id}{path}")
        assert (response.status_code, response.json()["code"]) == (status, code), path
    proxied = server.client.get(f"/v1/sandboxes/{id}/endpoints/8000?use_server_proxy=true").json()
    assert proxied == {"endpoint": f"127.0.0.1:{server.port}/v1/sandboxes/{id}/proxy/8000",
                       "browserUrl": f"http://{id}-8000.localhost:{server.port}/"}
    #  From another machine "localhost" is not this one, and execd is no page.
    elsewhere = server.client.get(f"/v1/sandboxes/{id}/endpoints/8000", headers={"Host": "box.example.com"}).json()
    assert "browserUrl" not in elsewhere
    assert "browserUrl" not in server.client.get(f"/v1/sandboxes/{id}/endpoints/44772").json()


def test_pools_need_a_cluster(server):
    response = server.client.get("/v1/pools")
    assert (response.status_code, response.json()["code"]) == (501, "KUBERNETES::POOL_NOT_SUPPORTED")
    assert server.client.post("/v1/pools", json={}).status_code == 422


def test_policies_and_vaults_are_refused_with_the_reason(server):
    """Of a sandbox that was made without them."""
    id = server.create()["id"]
    rule = {"action": "allow", "target": "example.com"}
    calls = [("GET", "networkpolicy", None), ("PUT", "networkpolicy", {"defaultAction": "deny", "egress": [rule]}),
             ("PATCH", "networkpolicy", [rule]), ("DELETE", "networkpolicy", ["example.com"]),
             ("POST", "credential-vault", {"credentials": [], "bindings": []}), ("GET", "credential-vault", None),
             ("PATCH", "credential-vault", {"expectedRevision": 1}), ("DELETE", "credential-vault", None),
             ("GET", "credential-vault/credentials", None), ("GET", "credential-vault/credentials/a", None),
             ("GET", "credential-vault/bindings", None), ("GET", "credential-vault/bindings/a", None)]
    for prefix in ("", "/v1"):
        for method, path, body in calls:
            answer = server.client.request(method, f"{prefix}/sandboxes/{id}/{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (400, "SANDBOX::API_NOT_SUPPORTED"), (method, path)
            assert answer.json()["message"].startswith(path.partition("/")[0]) and len(answer.headers.get_list("date")) == 1
            unknown = server.client.request(method, f"{prefix}/sandboxes/unknown/{path}", json=body)
            assert (unknown.status_code, unknown.json()["code"]) == (404, server.code("SANDBOX_NOT_FOUND"))


def test_snapshots_are_found_by_their_name(server):
    id = server.create()["id"]
    made = [server.client.post(f"/v1/sandboxes/{id}/snapshots", json={"name": name}).json()["id"]
            for name in ("one", "one-more")]
    for each in made:
        assert server.client.get(f"/v1/snapshots/{each}", params={"wait": 120}).json()["status"]["state"] == "Ready"
    found = server.client.get("/v1/snapshots", params={"name": "one"}).json()
    assert [each["id"] for each in found["items"]] == [made[0]]
    assert server.client.get("/v1/snapshots", params={"name": "on"}).json()["items"] == []
    for each in made:
        assert server.client.delete(f"/v1/snapshots/{each}").status_code == 204


def test_reports_of_clients_are_taken(server):
    event = {"eventType": "sandbox.create", "createDurationMs": 12, "success": True, "sandboxId": "x", "image": "y"}
    answer = server.client.post("/v1/metrics/events", json=event, headers={"User-Agent": "OpenSandbox-Go-SDK/1.2"})
    assert (answer.status_code, answer.content) == (204, b"")
    for field in ("eventType", "createDurationMs", "success"):
        broken = {name: value for name, value in event.items() if name != field}
        assert server.client.post("/v1/metrics/events", json=broken).status_code == 422, field
    assert server.client.post("/v1/metrics/events", json={**event, "createDurationMs": -1}).status_code == 422
    assert server.client.post("/v1/metrics/events", json=event, headers={"OPEN-SANDBOX-API-KEY": ""}).status_code == 401
