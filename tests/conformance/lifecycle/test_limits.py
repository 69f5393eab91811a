"""Limits of the configuration."""


def test_no_more_sandboxes_than_allowed(make_server):
    server = make_server(settings={"admission": {"max_sandboxes": 2}})
    first = server.create()["id"]
    server.create()
    full = server.post_sandbox()
    assert (full.status_code, full.json()["code"]) == (429, "SANDBOX::CAPACITY_EXCEEDED")
    assert int(full.headers["Retry-After"]) >= 1
    server.delete(first)
    server.create()
    server.remove_all()


def test_the_longest_timeout_holds_for_renewals_too(make_server):
    server = make_server(settings={"server": {"max_sandbox_timeout_seconds": 600}})
    assert server.post_sandbox(timeout=601).json()["code"] == "SANDBOX::INVALID_PARAMETER"
    id = server.create(timeout=600)["id"]
    response = server.client.post(f"/v1/sandboxes/{id}/renew-expiration", json={"expiresAt": "2999-01-01T00:00:00Z"})
    assert (response.status_code, response.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER")
    server.remove_all()
