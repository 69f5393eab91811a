"""[secure_runtime]: another kind of isolation for all sandboxes of a server."""


def test_gvisor(make_server):
    server = make_server(settings={"secure_runtime": {"type": "gvisor"}})
    id = server.create()["id"]
    assert "gVisor" in server.run(id, "dmesg")
    server.delete(id)
    refused = server.post_sandbox(extensions={"bootstrap.execd.isolation": "enable"})
    assert (refused.status_code, refused.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER"), refused.text
    assert "isolated sessions" in refused.json()["message"] and "gVisor" in refused.json()["message"]
    assert server.daemon.list() == []


def test_a_runtime_that_is_missing_is_never_replaced_by_less(make_server):
    server = make_server(settings={"secure_runtime": {"type": "kata"}})
    refused = server.post_sandbox()
    assert refused.status_code == 400 and "kata-runtime" in refused.json()["message"], refused.text
    assert server.daemon.list() == []
    server.remove_all()
