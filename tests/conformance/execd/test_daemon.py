"""Flags, environment, authentication, errors and the end of the daemon."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

import httpx
import pytest
from execd_process import TOKEN_HEADER, binary
from tls_hello import answer_to_tls, curl_https


def run(*args, env=None, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("EXECD_", "OTEL_", "JUPYTER_"))}
    return subprocess.run([binary(), *args], env={**environment, **(env or {})}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=30, **options)


def serve(*args, env=None):
    """An execd whose first line on stdout is the banner, which names its port."""
    process = subprocess.Popen([binary(), *args], env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True)
    banner = process.stdout.readline()
    return process, banner


def finish(process):
    process.send_signal(signal.SIGTERM)
    out = process.stdout.read()
    return process.wait(20), out


# Command line


def test_help_and_version_exit_with_0():
    shown = run("--help")
    assert shown.returncode == 0
    assert "--access-token" in shown.stdout and "EXECD_CLONE3_COMPAT" in shown.stdout
    assert run("-version").stdout.startswith("execd ")


@pytest.mark.parametrize("args", [["--no-such-flag"], ["-x=1"], ["--port=http"], ["--port=65536"], ["--port"],
                                  ["--log-level=loud"], ["--graceful-shutdown-timeout=5"], ["--listen-fd=-1"]])
def test_a_wrong_command_line_prints_the_usage_and_exits_with_2(args):
    ended = run(*args)
    assert ended.returncode == 2
    assert "Usage: execd" in ended.stderr
    assert args[0].lstrip("-").split("=")[0] in ended.stderr.splitlines()[0]


@pytest.mark.parametrize("env", [{"EXECD_API_GRACE_SHUTDOWN": "soon"}, {"EXECD_JUPYTER_IDLE_POLL_INTERVAL": "5"},
                                 {"JUPYTER_HOST": "localhost:8888"}, {"EXECD_CLONE3_COMPAT": "maybe"}])
def test_an_unusable_variable_stops_the_start(env):
    ended = run("--port=0", env=env)
    assert ended.returncode == 1
    assert next(iter(env)) in ended.stderr


def test_all_spellings_of_a_flag_are_taken():
    for args in (["--port", "0"], ["-port=0"], ["-port", "0"], ["--port=0"]):
        process, banner = serve(*args)
        assert "listening on 0.0.0.0:" in banner
        assert finish(process)[0] == 0


def test_positional_arguments_and_flags_behind_them_are_ignored():
    process, banner = serve("--port=0", "tail", "-f", "/dev/null")
    assert "listening on" in banner
    assert finish(process)[0] == 0


def test_a_taken_port_exits_with_1():
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        ended = run(f"--port={taken.getsockname()[1]}")
    assert ended.returncode == 1
    assert "in use" in ended.stderr


def test_the_banner_tells_version_and_address():
    process, banner = serve("--port=0")
    version, port = banner.split()[1], int(banner.rsplit(":", 1)[1])
    assert f"execd {version}\n" == run("--version").stdout
    assert httpx.get(f"http://127.0.0.1:{port}/ping", trust_env=False).status_code == 200
    assert finish(process)[0] == 0


def test_a_descriptor_that_does_not_listen_is_refused():
    read, write = os.pipe()
    try:
        ended = run(f"--listen-fd={read}", pass_fds=[read])
    finally:
        os.close(read)
        os.close(write)
    assert ended.returncode == 1 and "--listen-fd" in ended.stderr


def test_an_inherited_socket_replaces_the_port_unless_one_is_given(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "execd.sock"))
        listener.listen()
        fd = listener.fileno()
        for args, tcp in (([], 0), (["--port=0"], 0)):
            process = subprocess.Popen([binary(), f"--listen-fd={fd}", *args], pass_fds=[fd],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            banner = process.stdout.readline()
            assert banner.count("0.0.0.0") == tcp, banner
            transport = httpx.HTTPTransport(uds=str(tmp_path / "execd.sock"))
            with httpx.Client(transport=transport) as client:
                assert client.get("http://execd/ping").status_code == 200
                # Clients mean us by the well-known port also where we did not open it.
                assert client.get("http://execd/proxy/44772/ping").status_code == 200
            assert finish(process)[0] == 0


# Authentication


@pytest.mark.parametrize("path", ["/ping", "/metrics", "/files/info", "/proxy/1/x", "/proxy/44772/ping", "/nowhere", "/"])
def test_without_the_token_every_path_is_401(token_execd, path):
    for headers in ({}, {TOKEN_HEADER: ""}, {TOKEN_HEADER: "wrong"}, {TOKEN_HEADER: token_execd.token + "x"},
                    {TOKEN_HEADER: token_execd.token[:-1]}, {"Authorization": f"Bearer {token_execd.token}"}):
        answer = httpx.get(token_execd.url + path, headers=headers, trust_env=False)
        assert answer.status_code == 401, (path, headers)
        body = answer.json()
        assert body["error"] and body["code"] and body["message"]


def test_with_the_token_requests_pass(token_execd):
    assert token_execd.client.get("/ping").status_code == 200
    assert token_execd.client.get(f"/proxy/{token_execd.port}/ping").status_code == 200


def test_a_websocket_without_the_token_is_401(token_execd):
    answer = httpx.get(token_execd.url + "/pty/x/ws", trust_env=False, headers={
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
    assert answer.status_code == 401


def test_proc_does_not_show_the_token(token_execd):
    proc = pathlib.Path(f"/proc/{token_execd.pid}")
    for name in ("environ", "cmdline"):
        assert token_execd.token.encode() not in (proc / name).read_bytes(), name


def test_a_token_from_the_command_line_wins_and_is_blanked():
    process, banner = serve("--port=0", "--access-token=secret-of-flag", env={"EXECD_ACCESS_TOKEN": "secret-of-env"})
    url = f"http://127.0.0.1:{int(banner.rsplit(':', 1)[1])}/ping"
    for token, status in (("secret-of-flag", 200), ("secret-of-env", 401)):
        assert httpx.get(url, headers={TOKEN_HEADER: token}, trust_env=False).status_code == status
    assert b"secret-of-flag" not in pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert finish(process)[0] == 0


# Errors


def test_an_unknown_path_is_a_json_404(execd):
    answer = execd.client.get("/nowhere")
    assert answer.status_code == 404
    assert answer.json()["code"] and answer.json()["message"]
    assert answer.headers["content-type"].startswith("application/json")


def test_a_wrong_method_is_a_json_405(execd):
    answer = execd.client.put("/ping")
    assert answer.status_code == 405
    assert answer.json()["code"] and answer.json()["message"]
    assert "GET" in answer.headers["allow"]


def test_the_request_id_comes_back_with_errors_too(token_execd):
    for path, status in (("/ping", 200), ("/nowhere", 404)):
        answer = token_execd.client.get(path, headers={"X-Request-ID": "abc-1"})
        assert (answer.status_code, answer.headers["x-request-id"]) == (status, "abc-1")
    answer = httpx.get(token_execd.url + "/ping", headers={"X-Request-ID": "abc-2"}, trust_env=False)
    assert (answer.status_code, answer.headers["x-request-id"]) == (401, "abc-2")


def test_ping_is_empty_with_a_length(execd):
    answer = execd.client.get("/ping")
    assert answer.content == b"" and answer.headers["content-length"] == "0"


# Logs


def test_logs_are_json_lines_and_follow_the_level(tmp_path):
    log = tmp_path / "execd.log"
    process, banner = serve("--port=0", "--log-level=7", env={"EXECD_LOG_FILE": str(log)})
    port = int(banner.rsplit(":", 1)[1])
    httpx.get(f"http://127.0.0.1:{port}/ping?secret=1", trust_env=False)
    assert finish(process) == (0, "")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    requests = [line for line in lines if line.get("path") == "/ping"]
    assert requests and requests[0]["level"] == "debug" and requests[0]["status"] == 200

    process, banner = serve("--port=0", "--log-level=3")
    httpx.get(f"http://127.0.0.1:{int(banner.rsplit(':', 1)[1])}/ping", trust_env=False)
    assert finish(process) == (0, "")


# clone3


@pytest.mark.parametrize("value,filtered", [("", 0), ("off", 0), ("1", 2), (" ON ", 2), ("reexec", 2)])
def test_clone3_compat_installs_a_filter(start_execd, value, filtered):
    execd = start_execd(env={"EXECD_CLONE3_COMPAT": value})
    status = dict(line.split(":\t", 1) for line in
                  pathlib.Path(f"/proc/{execd.pid}/status").read_text().splitlines() if ":\t" in line)
    mine = dict(line.split(":\t", 1) for line in
                pathlib.Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    assert int(status["Seccomp_filters"]) - int(mine["Seccomp_filters"]) == (1 if filtered else 0)
    assert int(status["NoNewPrivs"]) == (1 if filtered else int(mine["NoNewPrivs"]))


# The end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(start_execd, number):
    execd = start_execd()
    os.kill(execd.pid, number)
    assert execd.wait() == 0


def test_ending_closes_idle_connections_and_streams(start_execd):
    execd = start_execd()
    with execd.client.stream("GET", "/metrics/watch") as stream:
        lines = stream.iter_lines()
        assert json.loads(next(lines))["cpu_count"] >= 1
        os.kill(execd.pid, signal.SIGTERM)
        rest = list(lines)  # ends, and as a complete chunked body
        assert all(line == "" or json.loads(line) for line in rest)
    assert execd.wait(10) == 0


def test_ending_does_not_wait_for_an_idle_client(start_execd):
    execd = start_execd()
    with socket.create_connection(("127.0.0.1", execd.port)) as idle:
        idle.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(4096).startswith(b"HTTP/1.1 200")
        os.kill(execd.pid, signal.SIGTERM)
        idle.settimeout(10)
        assert idle.recv(1) == b""
    assert execd.wait(10) == 0


def test_many_connections_at_once(execd):
    def ask():
        with httpx.Client(trust_env=False, timeout=60) as client:
            results.append(client.get(execd.url + "/ping").status_code)

    results = []
    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200] * 50


def test_tls_spoken_to_the_plain_port_is_answered_and_logged(start_execd):
    execd = start_execd()
    for _ in range(3):
        answer = answer_to_tls(execd.port)
        assert answer.startswith("HTTP/1.1 400 ") and "this port speaks plain HTTP: use http://" in answer
    assert curl_https(execd.port)[0] == 35  # "SSL connect error", told by the answer
    assert "TLS spoken to a port of plain HTTP" in execd.log()
    assert execd.client.get("/ping").status_code == 200
