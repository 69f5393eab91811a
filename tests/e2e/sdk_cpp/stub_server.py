"""A stub for features that no backend here offers: a server without our additions, an egress sidecar with a vault, a code
interpreter. It answers as the contract says and remembers what it was asked."""

import http.server
import json
import threading

POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "a.example"}]}
INFO = {"id": "box", "status": {"state": "Running"}, "image": {"uri": "x"}, "entrypoint": ["sleep"],
        "createdAt": "2025-01-02T03:04:05Z", "somethingNew": {"a": [1]}}


class Stub:
    def __init__(self):
        stub = self
        self.requests = []
        self.pings = 0
        self.woken = False
        self.vault = {"revision": 0, "credentials": [], "bindings": []}

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, body, kind="application/json", headers=()):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("X-Request-ID", "stub-1")
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def handle_any(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                stub.requests.append({"method": self.command, "path": self.path, "body": body,
                                      "headers": {k.lower(): v for k, v in self.headers.items()}})
                stub.reply(self, self.command, self.path, body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def reply(self, to, method, path, body):
        if path == "/v1/sandboxes" and method == "POST":
            return to.answer(202, {**INFO, "status": {"state": "Pending"}})
        if path.startswith("/v1/sandboxes/box/endpoints/44772"):
            return to.answer(200, {"endpoint": f"127.0.0.1:{self.port}/execd/44772", "headers": {"X-EXECD-ACCESS-TOKEN": "t"}})
        if path.startswith("/v1/sandboxes/box/endpoints/18080"):
            return to.answer(200, {"endpoint": f"127.0.0.1:{self.port}/egress/18080",
                                   "headers": {"OPENSANDBOX-EGRESS-AUTH": "e"}})
        if path.split("?")[0] == "/v1/sandboxes/box":
            return to.answer(200 if method == "GET" else 204, INFO if method == "GET" else b"")
        if path == "/v1/sandboxes/box/credential-vault":
            return to.answer(200, {"revision": 8, "bindings": [], "missingValues": ["m"], "credentials": [
                {"name": "m", "sourceType": "operator", "entry": "model-key", "hosts": ["api.example.com"],
                 "expiresAt": "2030-01-01T00:00:00Z", "revision": 8}]})
        if path == "/execd/44772/ping":
            self.pings += 1
            return to.answer(200, b"") if self.pings >= 3 else to.answer(502, b"not yet", "text/plain")
        if path.startswith("/execd/44772/files/mv"):
            return self.sleep(to, body[0]["src"])
        if path == "/v1/sandboxes/box/diagnostics/context":
            return to.answer(200, {"sandboxId": "box", "backendType": "other", "backendIdentifiers": {"pod": "p-1"}})
        if path == "/execd/44772/metrics/watch":
            return to.answer(200, b"{" * (65 << 20), "text/event-stream")
        if path.startswith("/execd/44772/code"):
            return self.code(to, method, path.removeprefix("/execd/44772"), body)
        if path.startswith("/egress/18080"):
            return self.egress(to, method, path.removeprefix("/egress/18080"), body)
        return to.answer(404, b"no such thing", "text/plain")

    def sleep(self, to, name):
        """A paused sandbox that takes long to wake, once or always."""
        if name == "/woken" and self.woken:
            return to.answer(200, b"")
        self.woken = True
        to.answer(503, {"code": "SANDBOX::WAKE_EXPIRED", "message": "not woken in time"},
                  headers=[("OpenSandbox-Wake", "expired"), ("Retry-After", "1")])

    def code(self, to, method, path, body):
        if (method, path) == ("POST", "/code/context"):
            return to.answer(200, {"id": "c1", "language": body["language"]})
        if (method, path) == ("GET", "/code/contexts?language=python"):
            return to.answer(200, [{"id": "c1", "language": "python"}])
        if method == "DELETE":
            return to.answer(200, b"")
        events = [{"type": "init", "text": "run-1"}, {"type": "stdout", "text": "printed"},
                  {"type": "execution_count", "execution_count": 7},
                  {"type": "result", "results": {"text": "42", "text/plain": "42"}}, {"type": "ping", "text": "pong"},
                  {"type": "execution_complete", "execution_time": 5}]
        if body["code"] == "fail":
            events[3:] = [{"type": "error", "error": {"ename": "ValueError", "evalue": "bad", "traceback": ["a", "b"]}}]
        text = ": a comment\n\nevent: x\n" + "".join(
            f"data: {json.dumps({**event, 'timestamp': 1})}\r\n\r\n" for event in events)
        return to.answer(200, text.encode(), "text/event-stream")

    def egress(self, to, method, path, body):
        if path == "/policy":
            if method == "PATCH":
                POLICY["egress"] += body
            if method == "DELETE":
                POLICY["egress"] = [rule for rule in POLICY["egress"] if rule["target"] not in body]
            if method == "PUT":
                # As the contract has it: the answer to a change leaves the policy out.
                POLICY.update(body)
                return to.answer(200, {"status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft"})
            return to.answer(200, {"status": "ok", "mode": "enforcing", "enforcementMode": "dns", "policy": POLICY})
        if path == "/decisions":
            decision = {"name": "a.example", "verdict": "deny", "rule": "", "count": 3, "addresses": ["192.0.2.1"],
                        "firstSeen": "2026-01-01T00:00:00Z", "lastSeen": "2026-01-01T00:00:01Z"}
            return to.answer(200, {"decisions": [decision]})
        if path == "/decisions?follow=true":
            events = b'data: {"name":"a.example","verdict":"deny"}\n\n: still there\n\ndata: {"name":"b.example"}\n\n'
            return to.answer(200, events, "text/event-stream")
        line = {"time": "2026-01-01T00:00:00Z", "operation": "inject", "decision": "injected", "credential_binding": "b",
                "credential_vault_revision": 4, "target_host": "api.example.com", "method": "GET", "status_code": 200}
        if path == "/credential-vault/audit":
            return to.answer(200, {"lines": [line]})
        if path == "/credential-vault/audit?follow=true":
            return to.answer(200, f"data: {json.dumps(line)}\n\n: still there\n\n".encode(), "text/event-stream")
        if path == "/credential-vault" and method == "DELETE":
            return to.answer(204, b"")
        if path == "/credential-vault":
            if method == "PATCH" and body.get("expectedRevision") != self.vault["revision"]:
                return to.answer(409, b"the revision is another one", "text/plain")
            if method in ("POST", "PATCH"):
                credentials = body["credentials"]
                added = credentials if method == "POST" else credentials["add"]
                self.vault["revision"] += 1
                self.vault["credentials"] += [{"name": c["name"], "sourceType": c["source"]["type"],
                                               "revision": self.vault["revision"]} for c in added]
                if method == "POST":
                    self.vault["bindings"] = [{"name": b["name"], "revision": 1, "match": b["match"],
                                               "auth": {"type": b["auth"]["type"]}} for b in body["bindings"]]
            return to.answer(201 if method == "POST" else 200, self.vault)
        if path == "/credential-vault/credentials/a%2Fb":
            return to.answer(200, self.vault["credentials"][0])
        kind = path.rsplit("/", 1)[1]
        return to.answer(200, {"revision": self.vault["revision"], kind: self.vault[kind]})
