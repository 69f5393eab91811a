"""Sandboxes and snapshots by name and by the beginning of their id, wherever osb takes an id."""

import json
import urllib.parse

import pytest
from stub_server import StubHandler, serving


@pytest.fixture
def web(osb, server):
    made = osb.json("sandbox", "create", "-i", "host", "--name", "web")
    assert made["name"] == "web"
    yield made["id"]
    server.client.delete(f"/v1/sandboxes/{made['id']}")


def test_every_command_takes_a_name_and_a_prefix(osb, web, tmp_path):
    local = tmp_path / "f"
    local.write_text("text")
    for called in ("web", web[:3], web[:12], web):
        assert osb.json("sandbox", "get", called)["id"] == web
        assert osb.json("sandbox", "renew", called, "-t", "1h")["sandbox_id"] == web
        assert osb.json("sandbox", "health", called) == {"sandbox_id": web, "healthy": True}
        assert "endpoint" in osb.json("sandbox", "endpoint", called, "-p", "80")
        assert "cpu_count" in osb.json("sandbox", "metrics", called)
        assert osb.ok("command", "run", called, "--", "echo", "hi") == "hi\n"
        session = osb.json("command", "session", "create", called)
        assert session["sandbox_id"] == web
        assert osb.ok("command", "session", "run", called, session["session_id"], "--", "pwd")
        osb.ok("cp", local, f"{called}:/tmp/f")
        assert osb.ok("cat", f"{called}:/tmp/f") == "text"
        assert osb.ok("file", "cat", called, "/tmp/f") == "text"
        assert osb.json("ls", called, "/tmp/f")[0]["name"] == "f"
        assert osb.json("wait", called) == [{"sandbox_id": web, "state": "Running"}]
        assert osb.json("metadata", "get", called) == {"name": "web"}
        assert osb.run("logs", called).returncode == 0
        assert osb.json("diagnostics", "events", called, "-s", "lifecycle")["sandbox_id"] == web
        assert osb.ok("devops", "inspect", called)
        assert osb.json("snapshot", "list", "--sandbox", called)["items"] == []
    assert osb.json("sandbox", "kill", "web") == [{"sandbox_id": web, "status": "terminated"}]


def test_a_whole_id_is_not_looked_up(osb, web):
    assert osb.run("-v", "sandbox", "get", web).stderr.count(b" GET ") == 1
    assert osb.run("-v", "sandbox", "get", "web").stderr.count(b" GET ") == 2


def test_the_server_finds_names_and_prefixes(server):
    ids = [server.create(metadata={"name": name})["id"] for name in ("one", "two")]

    def matching(text):
        return {item["id"] for item in server.client.get("/v1/sandboxes", params={"match": text}).json()["items"]}

    assert matching("one") == {ids[0]}
    assert matching("on") == matching("nope") == set()
    assert ids[1] in matching(ids[1][:4]) and matching(ids[1]) == {ids[1]}
    for id in ids:
        server.delete(id)


def test_a_name_in_use_is_refused_until_its_sandbox_is_gone(osb, web):
    said = osb.refused("sandbox", "create", "-i", "host", "--name", "web")
    assert "'web' is in use" in said and web in said, said
    assert "'web' is in use" in osb.refused("run", "--name", "web", "host", "true")
    osb.ok("sandbox", "kill", "web")
    again = osb.json("sandbox", "create", "-i", "host", "--name", "web")["id"]
    assert osb.json("sandbox", "get", "web")["id"] == again
    osb.ok("sandbox", "kill", "web")


def test_of_creates_with_one_name_at_once_one_wins(osb, server):
    creates = [osb.start("sandbox", "create", "-i", "host", "--name", "race") for _ in range(6)]
    said = [process.communicate(timeout=120)[1].decode() for process in creates]
    winners = [process for process in creates if process.returncode == 0]
    held = osb.json("sandbox", "get", "race")["id"]
    assert len(winners) == 1 and sum(f"is in use by sandbox {held}" in text for text in said) == 5, said
    server.delete(held)


def test_the_server_refuses_a_second_sandbox_of_a_name_if_asked_to(server):
    first = server.create(metadata={"name": "one"})["id"]
    unique = {"name.unique": "true"}
    refused = server.post_sandbox(metadata={"name": "one"}, extensions=unique)
    assert refused.status_code == 409 and refused.json()["code"] == "SANDBOX::NAME_IN_USE", refused.text
    assert refused.json()["message"] == f"the name 'one' is in use by sandbox {first}"
    other = server.create(metadata={"name": "two"}, extensions=unique)["id"]
    second = server.create(metadata={"name": "one"})["id"]  # not asked to
    for id in (first, second, other):
        server.delete(id)


@pytest.mark.parametrize("name", ["Web", "a_b", "-x", "a.b", "3f2b8c1e-0d4a-4f7e-9b61-5a2c7d8e9f10", "a" * 64])
def test_names_are_host_name_labels(osb, name):
    assert "cannot be a sandbox's name" in osb.refused("sandbox", "create", "-i", "host", "--name", name)


def test_ambiguous_names_and_prefixes_list_the_candidates(osb, server):
    ids = [server.create(metadata={"name": "twin"})["id"] for _ in range(2)]
    said = osb.refused("sandbox", "get", "twin")
    assert "2 sandboxes are named 'twin'" in said and all(id in said for id in ids), said
    refused = osb.run("sandbox", "get", "twin", "-o", "json")
    assert json.loads(refused.stderr)["error"]["code"] == "AMBIGUOUS_REFERENCE"
    for id in ids:
        server.delete(id)


def test_unknown_names_are_told_as_what_they_are(osb, web):
    for called in ("nope", web[:2], web[:8] + "x"):
        assert f"Sandbox '{called}' not found." in osb.refused("sandbox", "get", called)
    assert "at least 3 characters" in osb.refused("sandbox", "get", web[:2])


def test_snapshots_by_name_and_prefix(osb, server, web):
    made = osb.json("snapshot", "create", "web", "--name", "base", "--wait")
    for called in ("base", made["id"][:6], made["id"]):
        assert osb.json("snapshot", "get", called)["id"] == made["id"]
    copy = osb.json("sandbox", "create", "--snapshot-id", "base", "--name", "copy")
    assert copy["snapshot_id"] == made["id"]
    osb.ok("rm", "copy")
    assert "Snapshot 'nope' not found." in osb.refused("snapshot", "get", "nope")
    assert osb.json("snapshot", "delete", "base")["message"] == f"Snapshot deleted: {made['id']}"


def test_a_server_that_knows_no_match_parameter(osb):
    """It answers with all sandboxes, page by page; osb finds the one that is meant."""
    ids = [f"{n:08x}-0d4a-4f7e-9b61-5a2c7d8e9f10" for n in range(3)]
    items = [{"id": id, "image": {"uri": "x"}, "status": {"state": "Running"}, "entrypoint": ["x"],
              "createdAt": "2025-10-09T08:53:20Z", "metadata": {"name": f"n{n}"}} for n, id in enumerate(ids)]

    class Old(StubHandler):
        def do_GET(self):
            path, _, query = self.path.partition("?")
            if path != "/v1/sandboxes":
                return self.answer(200, items[ids.index(path.rsplit("/", 1)[1])])
            page = int(urllib.parse.parse_qs(query)["page"][0])
            pages = {"page": page, "pageSize": 1, "totalItems": 3, "totalPages": 3, "hasNextPage": page < 3}
            self.answer(200, {"items": items[page - 1:page], "pagination": pages})

    with serving(Old) as domain:
        for called in ("n2", ids[2][:8], ids[2]):
            assert osb.json("--domain", domain, "sandbox", "get", called)["id"] == ids[2]
        assert "3 sandboxes have an id" in osb.refused("--domain", domain, "sandbox", "get", "0000")
