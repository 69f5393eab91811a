"""The API's own description, the page that shows it, health, and what newer clients report."""

import html
import json
import os
import pathlib
import re
import subprocess

import httpx
import pytest
from spec_check import SpecCheck

SPECS = pathlib.Path(__file__).resolve().parents[3] / "specs"


@pytest.fixture(scope="module")
def bare(server):
    """Without the API key."""
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        yield client


def test_the_description_is_the_one_of_this_tree(bare):
    response = bare.get("/openapi.json")
    assert response.headers["content-type"] == "application/json"
    assert response.json() == json.loads((SPECS / "openapi.json").read_text())


def operations():
    document = json.loads((SPECS / "openapi.json").read_text())
    for path, item in document["paths"].items():
        for method in ("get", "put", "post", "patch", "delete"):
            if method in item and path != "/metrics":
                servers = item.get("servers", document["servers"])
                yield from ((method, server["url"].rstrip("/") + path) for server in servers)


@pytest.mark.parametrize("method, path", list(operations()))
def test_everything_described_is_served(server, method, path):
    path = path.replace("{port}", "80").replace("{path}", "x")
    path = re.sub(r"\{\w+\}", "none", path)
    response = server.client.request(method, path)
    # Sandboxes that do not exist have another code than routes that do not.
    code = response.json()["code"] if response.status_code >= 400 else ""
    assert code not in ("GENERAL::NOT_FOUND", "GENERAL::METHOD_NOT_ALLOWED"), (method, path)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/"])
def test_the_page_needs_nothing_from_elsewhere(bare, path):
    page = bare.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert "/docs/page.js" in parts and "/docs/page.css" in parts
    for part in parts:
        assert part.startswith("/") or part == "data:,", part
    for name, type in (("page.js", "text/javascript; charset=utf-8"), ("page.css", "text/css; charset=utf-8")):
        file = bare.get(f"/docs/{name}")
        assert (file.status_code, file.headers["content-type"]) == (200, type)
        assert not re.search(r"https?://", file.text)


def test_the_root_page_has_the_name_and_links(bare):
    text = bare.get("/", headers={"Accept": "*/*"})  # as curl asks
    page = bare.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    for answer, type in ((text, "text/plain; charset=utf-8"), (page, "text/html; charset=utf-8")):
        assert (answer.status_code, answer.headers["content-type"], answer.headers["Vary"]) == (200, type, "Accept")
        for word in ("OpenSandbox", "/docs", "/openapi.json", "/health/ready", "osb run", "OPEN-SANDBOX-API-KEY",
                     "pip install opensandbox"):
            assert word in answer.text, word
        head = bare.head("/", headers={"Accept": type})
        assert (head.status_code, head.headers["content-type"], head.content) == (200, type, b"")
        assert head.headers["content-length"] == str(len(answer.content))
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for part in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        assert part == "data:," or bare.get(part).status_code == 200, part
    # The two do not drift apart, and the examples are the ones that people can use.
    examples = [html.unescape(part) for part in re.findall(r"<pre>(.*?)</pre>", page.text, re.S)]
    for line in "\n".join(examples).splitlines():
        assert line in text.text, line
    for part in examples:
        if part.startswith("from "):
            compile(part, "root.html", "exec")
    assert bare.post("/").status_code == 405


def test_a_browser_shows_every_operation(server, tmp_path):
    """Debian's Chromium: the page builds itself from the description, and the console stays empty."""
    browser = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
         "--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", f"{server.url}/docs"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)})
    # Its own pages talk too.
    assert [line for line in browser.stderr.splitlines() if "CONSOLE" in line and server.url in line] == []
    document = json.loads((SPECS / "openapi.json").read_text())
    shown = html.unescape(re.sub(r"\s*<[^>]*>\s*", "\n", browser.stdout)).splitlines()
    assert "Loading the API description" not in browser.stdout
    for path, item in document["paths"].items():
        for method in ("get", "put", "post", "patch", "delete"):
            if method in item:
                assert path in shown and item[method]["summary"] in shown, f"{method} {path}"


def test_only_at_the_root(server):
    for path in ("/v1/openapi.json", "/v1/docs", "/v1/health", "/v1/version"):
        assert server.client.get(path).status_code == 404


@pytest.mark.on_docker
def test_alive_and_ready(make_server):
    server = make_server()
    bare = httpx.Client(base_url=server.url, trust_env=False)
    assert bare.get("/health").json() == {"status": "healthy"}
    while (response := bare.get("/health/ready")).status_code == 503:
        pass
    assert response.json() == {"status": "ready"}
    server.daemon.stop()
    # The server hears of it through the stream that broke; until then it may say ready.
    while (response := bare.get("/health/ready")).status_code == 200:
        pass
    assert (response.status_code, response.json()["code"]) == (503, "GENERAL::NOT_READY")
    assert int(response.headers["Retry-After"]) >= 1
    assert bare.get("/health").json() == {"status": "healthy"}
    server.daemon.start()


def test_client_measurements_are_taken(server):
    event = {"eventType": "sandbox.create", "sandboxId": "x", "image": "i", "createDurationMs": 12.5, "success": True}
    response = server.client.post("/v1/metrics/events", json=event)
    assert (response.status_code, response.content) == (204, b"")
    assert server.client.post("/metrics/events", json=event).status_code == 404
    wrong = server.client.post("/v1/metrics/events", json={**event, "createDurationMs": "long"})
    assert wrong.status_code == 422
    check = SpecCheck()
    check("lifecycle.yaml", "ValidationErrorResponse", wrong.json())
    check.close()


@pytest.mark.on_docker
def test_signed_routes_need_a_gateway(server):
    id = server.create()["id"]
    response = server.client.get(f"/v1/sandboxes/{id}/endpoints/80", params={"expires": 4102444800})
    code = {"NATIVE": "SANDBOX::INVALID_PARAMETER", "DOCKER": "SANDBOX::API_NOT_SUPPORTED"}[server.daemon.code_prefix]
    assert (response.status_code, response.json()["code"]) == (400, code)
    assert response.json()["message"]
