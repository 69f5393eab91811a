"""Malformed and hostile requests, and stores that cannot be used: clear refusals, nothing half-made, and a server that
goes on."""

import contextlib
import ctypes
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import threading

import pytest

from server_process import KEY_HEADER, free_port, server_binary
from tls_hello import answer_to_tls, curl_https

UUID = "6b0a2c7e-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def still_there(server):
    """After every test the same process still answers and has made no sandbox."""
    yield
    assert server.process.poll() is None, server.log()[-3000:]
    assert server.client.get("/health").status_code == 200
    assert "handler failed" not in server.log()


def exchange(server, data):
    """The answer to raw bytes until the server closes: (status, body), or (None, b"")."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as peer:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := peer.recv(65536):
                answer += piece
    if not answer:
        return None, b""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def request(server, target, method="GET", key=True, headers=(), body=b""):
    """`target` goes out exactly as given."""
    lines = [f"{method} ".encode() + (target if isinstance(target, bytes) else target.encode()) + b" HTTP/1.1",
             b"Host: x", b"Connection: close"]
    if key:
        lines.append(f"{KEY_HEADER}: {server.key}".encode())
    if body:
        lines.append(f"Content-Length: {len(body)}".encode())
    lines += [line if isinstance(line, bytes) else line.encode() for line in headers]
    return exchange(server, b"\r\n".join(lines) + b"\r\n\r\n" + body)


def code(body):
    return json.loads(body)["code"]


# --- bodies

WRONG_TYPES = [
    {"timeout": "soon"}, {"timeout": True}, {"timeout": -1}, {"timeout": 1e300}, {"timeout": 60.5}, {"timeout": [60]},
    {"timeout": 10**30},
    {"entrypoint": "sh"}, {"entrypoint": []}, {"entrypoint": [1]}, {"entrypoint": {"0": "sh"}}, {"entrypoint": [None]},
    {"env": ["A=1"]}, {"env": "A=1"}, {"env": {"A": {"b": 1}}},
    {"metadata": []}, {"metadata": {"a": ["b"]}}, {"metadata": "a=b"},
    {"resourceLimits": []}, {"resourceLimits": "1"}, {"resourceLimits": {"memory": {}}},
    {"image": "host"}, {"image": {}}, {"image": {"uri": 7}}, {"image": []}, {"image": {"uri": "host", "auth": "me"}},
    {"volumes": {}}, {"volumes": ["v"]}, {"volumes": [{}]}, {"extensions": []}, {"extensions": {"a": {}}},
    {"platform": "linux"}, {"snapshotId": 7}, {"networkPolicy": "deny"},
]


@pytest.mark.parametrize("fields", WRONG_TYPES, ids=json.dumps)
def test_fields_of_other_types(server, fields):
    response = server.post_sandbox(wait=None, **fields)
    assert response.status_code in (400, 422), response.text
    problem = response.json()
    assert problem["code"] and next(iter(fields)) in problem["message"], problem
    assert server.client.get("/v1/sandboxes").json()["items"] == []


WRONG_VALUES = [
    {"entrypoint": ["sh\0"]}, {"env": {"A=B": "1"}}, {"env": {"": "1"}}, {"env": {"A": "x\0y"}},
    {"image": {"uri": ""}}, {"image": {"uri": "../../etc"}}, {"image": {"uri": "ho st"}}, {"image": {"uri": "host\0"}},
    {"image": {"uri": "x" * 5000}}, {"metadata": {"a": "x" * 64}}, {"metadata": {"a": "ü"}},
    {"resourceLimits": {"memory": "-1"}}, {"resourceLimits": {"cpu": "NaN"}},
    {"volumes": [{"name": "v", "mountPath": "relative", "host": {"path": "/tmp"}}]},
    {"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/tmp/../etc"}}]},
]


@pytest.mark.parametrize("fields", WRONG_VALUES, ids=lambda fields: json.dumps(fields)[:60])
def test_values_that_mean_nothing(server, fields):
    """Refused at once, or when the image cannot be had: never a sandbox that runs, never one without a reason."""
    response = server.post_sandbox(**fields)
    answer = response.json()
    no_image = (500, server.code("SANDBOX_IMAGE_PULL_FAILED"))
    assert response.status_code in (400, 422) or (response.status_code, answer["code"]) == no_image, response.text
    assert answer["code"] and answer["message"]
    assert server.client.get("/v1/sandboxes").json()["items"] == []
    assert server.daemon.list() == []


BODIES = {
    "empty": b"", "spaces": b"   ", "half": b'{"image": {"uri": "host"}', "two": b"{}{}", "array": b"[]",
    "number": b"7", "UTF-16": '{"image": {"uri": "host"}}'.encode("utf-16"), "BOM": b"\xef\xbb\xbf{}",
    "Latin-1": '{"metadata": {"a": "ü"}}'.encode("latin-1"), "overlong": b'{"\xc0\xaf": 1}',
    "surrogate": rb'{"metadata": {"a": "\ud800"}}', "NUL": b"{}\0", "compressed": b"\x1f\x8b\x08\0\0\0\0\0",
    "deep": b"[" * 200_000, "deep objects": b'{"a":' * 100_000, "form": b"image=host", "NaN": b'{"timeout": NaN}',
    "long number": b'{"timeout": ' + b"9" * 100_000 + b"}",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("method, path", [
    ("POST", "/v1/sandboxes"), ("PATCH", f"/v1/sandboxes/{UUID}/metadata"),
    ("POST", f"/v1/sandboxes/{UUID}/renew-expiration"), ("POST", "/v1/pools"), ("POST", "/v1/metrics/events")])
def test_bodies_that_are_no_json_object(server, method, path, name):
    status, body = request(server, path, method, body=BODIES[name], headers=["Content-Type: application/json"])
    assert status in (400, 422), (status, body)
    assert code(body)


@pytest.mark.parametrize("path", ["/v1/sandboxes", f"/v1/sandboxes/{UUID}/snapshots"])
def test_bodies_without_end(server, path):
    """More than any request needs is refused before it is read: said so, or the connection is closed."""
    status, body = request(server, path, "POST", headers=["Content-Length: 100000000000"])
    assert status in (400, 413), (status, body)
    status, body = request(server, path, "POST", body=b" " * (32 << 20))
    assert status in (None, 413), (status, body)


MALFORMED = {
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "length and chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "negative length": b"Content-Length: -1\r\n\r\n",
    "length in hex": b"Content-Length: 0x2\r\n\r\n{}",
    "chunk without size": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "huge chunk": b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
    "unknown coding": b"Transfer-Encoding: gzip, x\r\n\r\n{}",
    "space before colon": b"Content-Length : 2\r\n\r\n{}",
    "folded header": b"X-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",
    "NUL in a header": b"X-A: a\0b\r\nContent-Length: 0\r\n\r\n",
    "long header": b"X-A: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "many headers": b"".join(b"X-%d: 1\r\n" % n for n in range(100_000)) + b"\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_requests_that_could_mean_two_things(server, name):
    """Refused, and nothing behind them on the connection is taken for a request."""
    head = f"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n{KEY_HEADER}: {server.key}\r\n".encode()
    smuggled = f"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\n{KEY_HEADER}: {server.key}\r\n\r\n".encode()
    status, body = exchange(server, head + MALFORMED[name] + smuggled)
    assert status is None or 400 <= status < 500 or status == 501, (status, body)
    assert b"pagination" not in body


@pytest.mark.parametrize("line", [
    b"GET", b"GET /health", b"GET /health HTTP/9.9", b"GET  /health HTTP/1.1", b"G\xffT /health HTTP/1.1",
    b"GET health HTTP/1.1", b"GET /hea lth HTTP/1.1", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 100,
    b"CONNECT 127.0.0.1:22 HTTP/1.1", b"TRACE / HTTP/1.1", b"PRI * HTTP/2.0", b"OPTIONS * HTTP/1.1",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1"], ids=lambda line: repr(line[:24]))
def test_first_lines(server, line):
    status, body = exchange(server, line + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status is None or 400 <= status < 500 or status == 505, (status, body)


# --- ids and parameters

IDS = ["x", "0", "-1", UUID.upper(), UUID + "x", UUID[:-1], "%27%20or%201%3D1%20--", "%00", "%ff%fe", "%2e%2e",
       "..%2f..%2fetc%2fpasswd", "a%2fb", "a" * 4000, "%E2%80%AE", "*", "%25", "null", "%0d%0aX:%20y", "."]


@pytest.mark.parametrize("id", IDS, ids=lambda id: id[:24])
def test_ids_of_other_shapes(server, id):
    cases = [("GET", ""), ("DELETE", ""), ("PATCH", "/metadata", b'{"a": "b"}'), ("POST", "/pause"),
             ("POST", "/resume"), ("POST", "/renew-expiration", b'{"expiresAt": "2999-01-01T00:00:00Z"}'),
             ("GET", "/endpoints/80"),
             ("POST", "/snapshots", b"{}"), ("GET", "/proxy/80/"), ("GET", "?watch=1"), ("GET", "?wait=1")]
    for method, rest, *body in cases:
        status, answer = request(server, f"/v1/sandboxes/{id}{rest}", method, body=b"".join(body))
        assert status in (400, 404, 405, 422), (method, rest, status, answer)
        assert code(answer) and b"\r\nX: y" not in answer
    for method in ("GET", "DELETE"):
        status, answer = request(server, f"/v1/snapshots/{id}", method)
        assert status in (400, 404, 422), (method, status, answer)
        assert code(answer)


@pytest.mark.parametrize("query", [
    "page=0", "page=-1", "page=x", "page=99999999999999999999", "pageSize=0", "pageSize=100000", "pageSize=1.5",
    "metadata=novalue", "metadata=a%3Db%26", "page=1%00"])
def test_list_parameters(server, query):
    for path in ("/v1/sandboxes", "/v1/snapshots"):
        if query.startswith("metadata") and "snapshots" in path:
            continue
        status, answer = request(server, f"{path}?{query}")
        assert status in (400, 422), (path, status, answer)
        assert code(answer)


def test_a_page_behind_the_last_is_empty(server):
    status, answer = request(server, "/v1/sandboxes?page=1000000")
    assert (status, json.loads(answer)["items"]) == (200, [])


@pytest.mark.parametrize("when", ["", "tomorrow", "2999-13-01T00:00:00Z", "2999-01-01", 5, None, "0001-01-01T00:00:00Z",
                                  "9999-12-31T23:59:60Z", "2999-01-01T00:00:00+99:00", "-2999-01-01T00:00:00Z"])
def test_deadlines_that_are_no_moments(server, when):
    id = server.create()["id"]
    before = server.get(id).json()
    response = server.client.post(f"/v1/sandboxes/{id}/renew-expiration", json={"expiresAt": when})
    assert response.status_code in (400, 409, 422), response.text
    assert response.json()["code"]
    assert server.get(id).json() == before


@pytest.mark.parametrize("wait", ["-1", "x", "1e9", "99999999999999999999", "%00"])
def test_waits_that_are_no_time(server, wait):
    """`?wait=` is refused; a preference that is not understood is ignored, as RFC 7240 says."""
    status, answer = request(server, f"/v1/sandboxes/{UUID}?wait={wait}")
    assert status in (400, 404, 422), (status, answer)
    status, answer = request(server, f"/v1/sandboxes/{UUID}", headers=[f"Prefer: wait={wait}"])
    assert status in (400, 404, 422), (status, answer)


@pytest.mark.parametrize("key", ["", " ", "a" * 10_000, "ü".encode(), b"\xff", "a\tb"])
def test_idempotency_keys(server, key):
    key = key if isinstance(key, bytes) else key.encode()
    status, answer = request(server, "/v1/sandboxes", "POST", headers=[b"Idempotency-Key: " + key], body=b"{}")
    assert 400 <= status < 500, (status, answer)


# --- who is asking


@pytest.mark.parametrize("headers", [
    [], [f"{KEY_HEADER}:"], [f"{KEY_HEADER}:  "], [f"{KEY_HEADER}: wrong"], [f"{KEY_HEADER}: a-key-for-test"],
    [f"{KEY_HEADER}: a-key-for-testsx"], [f"{KEY_HEADER}: A-KEY-FOR-TESTS"], [f"{KEY_HEADER}: Bearer a-key-for-tests"],
    ["Authorization: Bearer a-key-for-tests"], ["X-API-Key: a-key-for-tests"],
    ["Cookie: OPEN-SANDBOX-API-KEY=a-key-for-tests"],
    [f"{KEY_HEADER}: {'a' * 4000}"], [f"{KEY_HEADER}: a-key-for-tests\0"], [f"{KEY_HEADER}: \"a-key-for-tests\""],
], ids=lambda headers: "".join(headers)[:50] or "none")
def test_keys_that_are_not_the_key(server, headers):
    assert server.key == "a-key-for-tests"
    status, answer = request(server, "/v1/sandboxes", key=False, headers=headers)
    assert status in (400, 401), (status, answer)
    assert b"pagination" not in answer
    if status == 401:
        assert code(answer) in ("MISSING_API_KEY", "INVALID_API_KEY")
    status, answer = request(server, f"/v1/sandboxes?{KEY_HEADER}={server.key}&api_key={server.key}", key=False)
    assert status == 401


def test_the_name_of_the_header_may_be_spelled_otherwise(server):
    status, _ = request(server, "/v1/sandboxes", key=False, headers=[f"open-sandbox-api-key:   {server.key}  "])
    assert status == 200


@pytest.mark.parametrize("target", [
    "/health/../v1/sandboxes", "/health/%2e%2e/v1/sandboxes", "/health/..%2fv1/sandboxes", "/docs/../v1/sandboxes",
    "/./v1/sandboxes", "//v1/sandboxes", "/v1//sandboxes", "/V1/sandboxes", "/v1/sandboxes%3f", "/v1/%73andboxes",
    "/v1/sandboxes;a=b", "/v1\\sandboxes", "/health?/../v1/sandboxes", "/health#/../v1/sandboxes",
    "http://127.0.0.1/v1/sandboxes", "http://evil/health/../v1/sandboxes", "http://evil/v1/sandboxes",
    f"/sandboxes/{UUID}/proxy/80/../../../../v1/sandboxes", f"/sandboxes/{UUID}/proxy/80/..%2f..%2fv1/sandboxes",
    f"/sandboxes/{UUID}/proxy/80%2f..%2f..", f"/sandboxes/{UUID}%2fproxy%2f80%2f", f"/sandboxes/{UUID}/proxy/%38%30/",
    f"/v1/sandboxes/{UUID}/%70roxy/80/", f"/v1/v1/sandboxes/{UUID}/proxy/80/", "/sandboxes//proxy/80/v1/sandboxes"])
def test_no_way_around_the_key(server, target):
    """However a path is written: without the key there is no list, and nothing that is made or removed."""
    id = server.create()["id"]
    status, answer = request(server, target.replace(UUID, id), key=False)
    assert b"pagination" not in answer and id.encode() not in answer.replace(f"sandbox {id} ".encode(), b""), answer
    assert status in (None, 200, 400, 401, 404, 502), (status, answer)
    if status == 200:
        assert json.loads(answer) == {"status": "healthy"}
    for method in ("DELETE", "POST"):
        request(server, target.replace(UUID, id).replace("/v1/sandboxes", f"/v1/sandboxes/{id}"), method, key=False)
    assert server.state(id) == "Running"
    assert len(server.client.get("/v1/sandboxes").json()["items"]) == 1


# --- the proxy


@pytest.fixture
def outside():
    """A service of the host that no sandbox may lend its name to; says which paths it was asked for."""
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        asked.append(peer.recv(4096))
                        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], asked
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_the_proxy_reaches_the_sandbox_and_nothing_else(server, outside):
    port, asked = outside
    id = server.create()["id"]
    base = f"/sandboxes/{id}/proxy"
    targets = [f"{base}/{port}/", f"{base}/{port}@127.0.0.1:{port}/", f"{base}/44772/http://127.0.0.1:{port}/",
               f"{base}/44772//127.0.0.1:{port}/", f"{base}/44772/@127.0.0.1:{port}/",
               f"http://127.0.0.1:{port}{base}/{port}/",
               f"{base}/%2b{port}/", f"{base}/{port}.0/", f"{base}/{port}%20/", f"{base}/{port}%00/",
               f"{base}/-{port}/",
               f"{base}/{port + 65536}/", f"{base}/{port + 2**32}/", f"{base}/{port + 2**64}/", f"{base}/０{port}/",
               f"/sandboxes/127.0.0.1/proxy/{port}/", f"/sandboxes/localhost/proxy/{port}/",
               f"/sandboxes/%2e%2e/proxy/{port}/"]
    for target in targets:
        for key in (True, False):
            hints = [f"X-Forwarded-Host: 127.0.0.1:{port}", f"Forwarded: host=127.0.0.1:{port}"]
            status, answer = request(server, target.encode(), key=key, headers=hints)
            assert status in (400, 401, 404, 422, 502), (target, status, answer)
    assert asked == []
    assert server.run(id, "echo well") == "well"


def test_dots_and_slashes_stay_behind_the_port(server):
    """With the key they are forwarded as they are; what they could climb to is the sandbox's own service."""
    id = server.create()["id"]
    for rest in ("../../../../v1/sandboxes", "..%2f..%2f..%2f..%2fv1%2fsandboxes", "%2e%2e/%2e%2e/v1/sandboxes",
                 "a/../../../b", "//v1/sandboxes", "%00", "%0d%0aX:%20y", "a" * 6000, "%ff"):
        status, answer = request(server, f"/sandboxes/{id}/proxy/44772/{rest}", headers=[
            f"{name}: {value}" for name, value in server.token(id).items()])
        assert status in (400, 404, 414, 431), (rest[:40], status, answer)
        assert b"pagination" not in answer


def test_a_sandbox_cannot_answer_for_the_server(server):
    """An answer of a service inside that is no HTTP becomes a 502, and does not affect the next request."""
    id = server.create()["id"]
    answers = {"garbage": r"\x00\x01garbage", "nothing": "", "half": r"HTTP/1.1 200 OK\r\nContent-Le",
               "two lengths": r"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 5\r\n\r\nhello",
               "huge header": r"HTTP/1.1 200 OK\r\nX: " + "a" * 100}
    script = """
import socket, sys
listener = socket.create_server(('0.0.0.0', 8000), reuse_port=True)
open('/tmp/listening', 'w').close()
while True:
    peer, _ = listener.accept()
    name = peer.recv(65536).split()[1].decode().strip('/').replace('%20', ' ')
    data = ANSWERS.get(name, '').encode().decode('unicode_escape').encode('latin-1')
    peer.sendall(data * 20000 if name == 'huge header' else data)
    peer.close()
""".replace("ANSWERS", repr(answers))
    server.run(id, f"cat > /root/bad.py <<'END'\n{script}\nEND\nnohup python3 /root/bad.py >/tmp/log 2>&1 &")
    server.run(id, "until [ -e /tmp/listening ]; do sleep 0.05; done")
    for name in answers:
        status, body = request(server, f"/sandboxes/{id}/proxy/8000/{name.replace(' ', '%20')}")
        assert status == 502, (name, status, body[:200])
        assert code(body)
        assert server.run(id, "echo well") == "well"


# --- stores that cannot be used


@pytest.fixture(scope="module")
def private_mounts():
    """Mounts of this process from here on are its own, and end with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x00020000) == 0, os.strerror(ctypes.get_errno())  # CLONE_NEWNS
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.fixture
def small_disk(private_mounts, tmp_path):
    directory = tmp_path / "disk"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", directory], check=True)
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)


def fill(directory):
    """Until not one page is left."""
    with open(directory / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"x" * 4096)


def start_on(store, tmp_path):
    """Exit status and what it says; a server that starts anyway is ended."""
    config = tmp_path / "server.toml"
    config.write_text(f'[server]\nhost = "127.0.0.1"\nport = {free_port()}\napi_key = "k"\n[runtime]\ntype = "native"\n'
                      f'[native]\nsocket = "{tmp_path}/none.sock"\n[store]\npath = "{store}"\n')
    process = subprocess.Popen([server_binary(), "--config", str(config)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    for line in process.stdout:
        said += line
        if "is listening" in line:
            process.terminate()
    return process.wait(30), said


def assert_refused(store, tmp_path, *words):
    status, said = start_on(store, tmp_path)
    assert status == 1, said
    assert "is listening" not in said and str(store) in said, said
    for word in words:
        assert word in said.lower(), said


def test_a_store_on_a_full_disk_is_refused(small_disk, tmp_path):
    fill(small_disk)
    assert_refused(small_disk / "server.db", tmp_path, "full")


def test_a_store_on_a_read_only_disk_is_refused(small_disk, tmp_path):
    store = small_disk / "server.db"
    status, said = start_on(store, tmp_path)
    assert status == 0 and "is listening" in said, said
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert_refused(store, tmp_path, "read-only")
    assert_refused(small_disk / "new" / "server.db", tmp_path, "read-only")


@pytest.mark.parametrize("content", [b"this is no database" * 1000, b"SQLite format 3\0" + b"\xff" * 8192])
def test_a_damaged_store_is_refused_and_left_alone(tmp_path, content):
    store = tmp_path / "server.db"
    store.write_bytes(content)
    assert_refused(store, tmp_path)
    assert store.read_bytes() == content


def test_a_store_whose_records_make_no_sense_is_refused(make_server, tmp_path):
    server = make_server()
    id = server.create()["id"]
    server.stop()
    path = pathlib.Path(server.directory) / "server.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        table = next(name for name in tables if name.startswith("sandbox"))
        columns = [row[1] for row in database.execute(f"pragma table_info({table})") if row[1] in ("spec", "request")]
        database.execute(f"update {table} set {columns[0]} = '{{broken'")
    with pytest.raises(RuntimeError) as caught:
        server.start()
    assert id in str(caught.value) and "server.db" in str(caught.value), caught.value
    server._drain.wait()
    server.process.wait()


def test_a_store_that_is_a_directory_is_refused(tmp_path):
    store = tmp_path / "server.db"
    store.mkdir()
    assert_refused(store, tmp_path)


def test_two_servers_do_not_share_a_store(server, tmp_path):
    assert_refused(pathlib.Path(server.directory) / "server.db", tmp_path)


def test_a_disk_that_fills_up_refuses_and_recovers(small_disk, make_server):
    server = make_server(settings={"store": {"path": str(small_disk / "server.db")}})
    id = server.create()["id"]
    fill(small_disk)
    refused = server.post_sandbox(metadata={"never": "made"})
    for _ in range(200):  # what is left inside the database's own files
        if refused.status_code != 202:
            break
        refused = server.post_sandbox(wait=None, metadata={"pad": "x" * 60}, env={"PAD": "x" * 20000})
    assert refused.status_code >= 500 and refused.json()["code"] == "GENERAL::STORE_FULL", refused.text
    listed = {item["id"] for item in server.client.get("/v1/sandboxes", params={"pageSize": 200}).json()["items"]}
    assert id in listed
    assert server.run(id, "echo still here") == "still here"
    (small_disk / "filler").unlink()
    server.delete(id)
    server.create()
    server.kill()
    server.start()
    assert server.get(id).status_code == 404
    server.remove_all()


def test_tls_spoken_to_the_plain_port_is_answered_and_logged(server):
    for _ in range(3):
        answer = answer_to_tls(server.port)
        assert answer.startswith("HTTP/1.1 400 ") and "this port speaks plain HTTP: use http://" in answer
    assert curl_https(server.port)[0] == 35  # "SSL connect error", told by the answer
    assert "TLS spoken to a port of plain HTTP" in server.log()
