"""Errors of osb about something that is missing are true, and name the thing."""

import json


MISSING = "3f2b8c1e-0d4a-4f7e-9b61-5a2c7d8e9f10"


def test_cp_to_a_sandbox_that_does_not_exist(osb, tmp_path):
    """It used to blame the directory."""
    local = tmp_path / "f"
    local.write_text("x")
    for called in ("nope", MISSING):
        for words in ((local, f"{called}:/tmp/"), (local, f"{called}:/tmp/f"), (tmp_path, f"{called}:/tmp"),
                      (f"{called}:/tmp/f", local), ("-", f"{called}:/tmp/f")):
            said = osb.refused("cp", *words)
            assert called in said and "sandbox" in said.lower(), said
            assert "mkdir" not in said and "/tmp" not in said, said
            assert "osb sandbox list" in said, said


def test_replace_counts_and_no_match_is_an_error(osb, sandbox):
    osb.ok("file", "write", sandbox, "/tmp/f", "-c", "one two one")
    before = osb.json("file", "info", sandbox, "/tmp/f")[0]["size"]
    said = osb.refused("file", "replace", sandbox, "/tmp/f", "--old", "three", "--new", "x")
    assert said == "Error: No match for 'three' in /tmp/f; nothing was replaced.\n"
    refused = osb.run("file", "replace", sandbox, "/tmp/f", "--old", "three", "--new", "x", "-o", "json")
    assert json.loads(refused.stderr)["error"]["code"] == "NO_MATCH"
    assert osb.json("file", "info", sandbox, "/tmp/f")[0]["size"] == before
    done = osb.json("file", "replace", sandbox, "/tmp/f", "--old", "one", "--new", "1")
    assert done == {"status": "ok", "message": "Replaced in: /tmp/f", "replaced_count": 2}
    assert osb.ok("file", "replace", sandbox, "/tmp/f", "--old", "two", "--new", "2") == (
        "OK: Replaced in: /tmp/f (1 match)\n")
    assert osb.ok("file", "cat", sandbox, "/tmp/f") == "1 2 1"


def test_removing_a_missing_path_is_an_error(osb, sandbox):
    for command in ("rm", "rmdir"):
        assert osb.refused("file", command, sandbox, "/tmp/none") == (
            "Error: /tmp/none does not exist in the sandbox. -f ignores missing paths.\n")
        assert osb.ok("file", command, "-f", sandbox, "/tmp/none")
    for path in ("/tmp/a", "/tmp/b"):
        osb.ok("file", "write", sandbox, path, "-c", "x")
    said = osb.refused("file", "rm", sandbox, "/tmp/a", "/tmp/none", "/tmp/b")
    assert "/tmp/none does not exist" in said and "the other 2 were deleted" in said, said
    assert osb.refused("file", "info", sandbox, "/tmp/a")


def test_a_missing_file_and_a_missing_sandbox_are_told_apart(osb, sandbox):
    for words in (["cat", sandbox, "/none"], ["file", "cat", sandbox, "/none"], ["ls", sandbox, "/none"],
                  ["file", "mv", sandbox, "/none", "/x"], ["file", "info", sandbox, "/none"]):
        said = osb.refused(*words)
        assert "/none" in said and "osb sandbox list" not in said, said
    for words in (["cat", MISSING, "/none"], ["file", "cat", MISSING, "/none"], ["ls", MISSING, "/none"],
                  ["file", "mv", MISSING, "/none", "/x"], ["file", "info", MISSING, "/none"],
                  ["file", "rm", MISSING, "/none"], ["exec", MISSING, "true"], ["logs", MISSING],
                  ["port-forward", MISSING, ":80"], ["snapshot", "create", MISSING], ["sandbox", "get", MISSING]):
        said = osb.refused(*words)
        assert MISSING in said and "osb sandbox list" in said and "/none" not in said, said


def test_egress_of_a_sandbox_without_a_policy(osb, server, sandbox):
    """The server runs: osb must not ask "Is the server running?", with any spelling of the domain."""
    for domain in (f"127.0.0.1:{server.port}", f"http://127.0.0.1:{server.port}", f"localhost:{server.port}"):
        for proxy in ([], ["--use-server-proxy"]):
            for command in (["egress", "get"], ["egress", "patch", "--rule", "allow=a.b"], ["credential-vault", "get"]):
                said = osb.refused("--domain", domain, *proxy, *command[:2], sandbox, *command[2:])
                assert "running?" not in said, said
                assert "no network policy" in said and "--network-policy-file" in said, said


def test_tls_to_a_server_that_speaks_none(osb):
    said = osb.refused("--protocol", "https", "sandbox", "list")
    assert "does not speak TLS" in said and "--protocol http" in said and "osb up" not in said, said


def test_doctor_tells_what_the_server_can_do(osb, server):
    checks = {each["check"]: each["detail"] for each in json.loads(osb.run("doctor", "-o", "json").stdout)["checks"]}
    has, _, lacks = checks["features"].partition("; not here: ")
    features = server.client.get("/v1/capabilities").json()["features"]
    assert features
    for text, available in ((has, True), (lacks, False)):
        assert text == ", ".join(each["name"] for each in features if each["available"] is available)
