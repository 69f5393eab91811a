"""osb credentials: one secret at a time, from a prompt, a file or a descriptor. A stub answers as the vault does."""

import http.server
import json
import threading
import types

import pytest
from osb_program import Osb

ID = "3f2b8c1e-0d4a-4f7e-9b61-5a2c7d8e9f10"
SECRET = "s3cret value"
LINE = {"time": "2026-01-01T00:00:00Z", "operation": "inject", "decision": "injected", "credential_binding": "api",
        "target_host": "a.example", "method": "GET", "path_pattern": "/v1/*", "status_code": 200}


class Vault(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path
        if "/endpoints/" in path:
            return self.reply(200, {"endpoint": "127.0.0.1:%d" % self.server.server_port, "headers": {}})
        self.server.seen.append((self.command, path, json.loads(body) if body else None))
        if path.endswith("/audit"):
            return self.reply(200, {"lines": [LINE]})
        if path.endswith("/audit?follow=true"):
            return self.reply(200, f"data: {json.dumps(LINE)}\n\n", "text/event-stream")
        if self.command == "PATCH" and self.server.empty:
            return self.reply(404, "credential vault not found\n", "text/plain")
        self.server.empty = False
        return self.reply(201 if self.command == "POST" else 200, {
            "revision": 3, "credentials": [{"name": "key", "sourceType": "operator", "entry": "e", "revision": 2}],
            "bindings": [{"name": "api", "revision": 3, "match": {"hosts": ["a.example"]}, "auth": {"type": "bearer"}}]})

    def reply(self, status, body, kind="application/json"):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def log_message(self, *_):
        pass


@pytest.fixture
def vault():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Vault) as server:
        server.seen, server.empty = [], False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def osb(vault, tmp_path):
    return Osb(types.SimpleNamespace(port=vault.server_port, key="k"), tmp_path)


def sent(vault):
    return [(method, path, body) for method, path, body in vault.seen if method != "GET"]


def added(value):
    return {"credentials": {"add": [{"name": "key", "source": {"type": "inline", "value": value}}]}}


def test_a_secret_comes_from_a_file_stdin_or_a_descriptor(osb, vault, tmp_path):
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    assert osb.json("credentials", "create", ID, "key", "--from-file", file)["revision"] == 3
    osb.ok("credentials", "create", ID, "key", "--from-file", "-", input=SECRET.encode())
    with open(file) as opened:
        osb.ok("credentials", "create", ID, "key", "--from-fd", opened.fileno(), pass_fds=[opened.fileno()])
    assert sent(vault) == [("PATCH", "/credential-vault", added(SECRET))] * 3


def test_the_first_secret_makes_the_vault(osb, vault):
    vault.empty = True
    osb.ok("credentials", "create", ID, "key", "--from-file", "-", input=SECRET.encode())
    assert sent(vault)[-1] == ("POST", "/credential-vault", {"credentials": added(SECRET)["credentials"]["add"],
                                                             "bindings": []})


def test_a_secret_is_asked_for_and_not_shown(osb, vault):
    with osb.terminal("credentials", "rotate", ID, "key") as terminal:
        terminal.expect("Secret for key: ")
        terminal.type(SECRET + "\r")
        terminal.expect("Credential Rotated")
        assert terminal.wait() == 0
        assert SECRET not in terminal.text()
    assert sent(vault) == [("PATCH", "/credential-vault", {"credentials": {
        "replace": [{"name": "key", "source": {"type": "inline", "value": SECRET}}]}})]


def test_an_entry_of_the_operator_goes_through_the_server(osb, vault):
    osb.ok("credentials", "create", ID, "key", "--entry", "model-key")
    assert sent(vault) == [("PATCH", f"/v1/sandboxes/{ID}/credential-vault", {"credentials": {
        "add": [{"name": "key", "source": {"type": "operator", "entry": "model-key"}}]}})]


def test_bindings(osb, vault):
    osb.ok("credentials", "bind", ID, "api", "--credential", "key", "--host", "a.example", "--host", "*.b.example",
           "--type", "apiKey", "--header", "X-Key", "--method", "GET", "--path", "/v1/*")
    osb.ok("credentials", "bind", ID, "hook", "--credential", "key", "--host", "a.example", "--type", "passthrough",
           "--placeholder", "__K__", "--in", "path", "--in", "body", "--replace")
    assert [body for _, _, body in sent(vault)] == [
        {"bindings": {"add": [{"name": "api", "match": {"hosts": ["a.example", "*.b.example"], "methods": ["GET"],
                                                        "paths": ["/v1/*"]},
                               "auth": {"type": "apiKey", "credential": "key", "name": "X-Key"}}]}},
        {"bindings": {"replace": [{"name": "hook", "match": {"hosts": ["a.example"]}, "auth": {
            "type": "passthrough",
            "substitutions": [{"credential": "key", "placeholder": "__K__", "in": ["path", "body"]}]}}]}}]


def test_list_delete_and_audit(osb, vault):
    shown = osb.json("credentials", "list", ID)
    assert shown["credentials"] == [{"name": "key", "source_type": "operator", "revision": 2, "entry": "e"}]
    assert "a.example" in osb.ok("credentials", "list", ID)
    osb.ok("credentials", "delete", ID, "key", "--binding", "api")
    assert sent(vault) == [("PATCH", "/credential-vault", {"credentials": {"delete": ["key"]},
                                                           "bindings": {"delete": ["api"]}})]
    assert osb.json("credentials", "audit", ID) == [LINE]
    assert json.loads(osb.ok("credentials", "audit", ID, "--follow", "-o", "json")) == LINE
    assert "injected" in osb.ok("credentials", "audit", ID) and "a.example" in osb.ok("credentials", "audit", ID)


def test_wrong_usage(osb, vault, tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "is empty" in osb.refused("credentials", "create", ID, "key", "--from-file", empty)
    for words in (["create", ID, "key", "--entry", "e", "--from-file", empty], ["delete", ID],
                  ["bind", ID, "b", "--credential", "key", "--host", "a.example", "--type", "passthrough"],
                  ["bind", ID, "b", "--credential", "key", "--host", "a.example", "--header", "X"],
                  ["bind", ID, "b", "--credential", "key", "--host", "a.example", "--in", "path"],
                  ["create", ID, "key", "--value", SECRET]):
        osb.refused("credentials", *words, code=2)
    assert "no terminal" in osb.refused("credentials", "create", ID, "key", code=2, start_new_session=True)
    assert vault.seen == []
