"""Every command of the contract as a process against the real server; output compared as data."""

import datetime
import json
import re
import signal
import socket

import pytest


@pytest.fixture
def sandbox(server):
    made = server.create(metadata={"from": "osb"})["id"]
    yield made
    server.client.delete(f"/v1/sandboxes/{made}")


def error(osb, *arguments, code=1, **options):
    """The error of a failure with -o json: nothing on stdout, one object on stderr."""
    done = osb.run(*arguments, "-o", "json", **options)
    assert (done.returncode, done.stdout) == (code, b""), done
    return json.loads(done.stderr)["error"]


def in_background(osb, sandbox, *words):
    return json.loads(osb.ok("command", "run", sandbox, "-d", "-o", "json", "--", *words))


# --- sandbox

def test_life_of_a_sandbox(osb, server):
    made = osb.json("sandbox", "create", "-i", "host", "-t", "1h30m", "-e", "A=b=c", "-m", "task=x", "--resource",
                    "cpu=500m", "--entrypoint", "sleep", "--entrypoint", "1000")
    assert made == {"id": made["id"], "image": "host", "status": "created", "timeout": "1:30:00"}
    id = made["id"]
    seen = osb.json("sandbox", "get", id)
    assert seen["status"]["state"] == "Running"
    assert seen["image"] == {"image": "host", "auth": None}
    assert seen["entrypoint"] == ["sleep", "1000"]
    assert seen["metadata"] == {"task": "x"}
    assert seen["snapshot_id"] is None
    end = datetime.datetime.fromisoformat(seen["expires_at"])
    assert end - datetime.datetime.fromisoformat(seen["created_at"]) == datetime.timedelta(minutes=90)
    listed = osb.json("sandbox", "list", "-m", "task=x", "-s", "RUNNING", "--page", "1", "--page-size", "5")
    assert [item["id"] for item in listed["items"]] == [id]
    assert listed["pagination"] == {"page": 1, "page_size": 5, "total_items": 1, "total_pages": 1,
                                    "has_next_page": False}
    assert osb.json("sandbox", "list", "-m", "task=y")["items"] == []
    assert osb.ok("sandbox", "list", "-m", "task=y") == "INFO: No sandboxes found.\n"
    renewed = osb.json("sandbox", "renew", id, "-t", "3h")
    assert renewed["sandbox_id"] == id
    assert datetime.datetime.fromisoformat(renewed["expires_at"]) > end
    assert osb.json("sandbox", "health", id) == {"sandbox_id": id, "healthy": True}
    endpoint = osb.json("sandbox", "endpoint", id, "-p", "8000")
    assert endpoint["endpoint"].endswith("8000") and sorted(endpoint) == ["endpoint", "headers"]
    #  People get the address for a browser too.
    assert f"http://{id}-8000.localhost:{server.port}/" in osb.ok("sandbox", "endpoint", id, "-p", "8000")
    assert osb.json("sandbox", "pause", id) == {"status": "ok", "message": f"Pause request accepted: {id}"}
    server.wait_state(id, "Paused")
    unhealthy = osb.run("--request-timeout", "3", "sandbox", "health", id)
    assert (unhealthy.returncode, unhealthy.stderr) == (0, f"ERROR: Sandbox {id} is unhealthy\n".encode())
    assert osb.json("sandbox", "resume", id) == {"status": "ok", "message": f"Sandbox resumed: {id}"}
    assert osb.ok("command", "run", id, "--", "sh", "-c", "echo $A") == "b=c\n"
    assert osb.json("sandbox", "kill", id) == [{"sandbox_id": id, "status": "terminated"}]
    assert server.state(id) == 404


def test_timeouts_and_defaults_of_create(osb, server, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('[defaults]\nimage = "host"\ntimeout = "none"\n')
    ids = []
    for arguments, timeout in [(["-t", "90"], "0:01:30"), ([], "manual-cleanup"), (["-t", "25h"], "1 day, 1:00:00")]:
        made = osb.json("--config", config, "sandbox", "create", "--skip-health-check", *arguments)
        assert made["timeout"] == timeout
        ids.append(made["id"])
    made = osb.json("sandbox", "create", "-i", "host")
    assert made["timeout"] == "sdk-default"
    assert osb.json("sandbox", "get", ids[1])["expires_at"] is None
    killed = osb.json("sandbox", "kill", *ids, made["id"])
    assert [row["sandbox_id"] for row in killed] == [*ids, made["id"]]


def test_create_from_files(osb, server, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    volumes = tmp_path / "volumes.json"
    volumes.write_text(json.dumps([{"name": "data", "mountPath": "/data", "host": {"path": str(shared)}}]))
    refused = error(osb, "sandbox", "create", "-i", "host", "--volumes-file", volumes)
    assert refused["status"] in (400, 403), "the server allows no host path unless it is told to"
    volumes.write_text('[{"name": "data", "mountPath": "/data"}]')
    assert "exactly one of host, pvc and ossfs" in osb.refused("sandbox", "create", "-i", "host", "--volumes-file", volumes)
    volumes.write_text("{}")
    assert "must contain a JSON array" in osb.refused("sandbox", "create", "-i", "host", "--volumes-file", volumes)
    policy = tmp_path / "policy.json"
    policy.write_text('{"defaultAction": "maybe"}')
    assert "must be allow or deny" in osb.refused("sandbox", "create", "-i", "host", "--network-policy-file", policy)


def test_rules_of_create(osb):
    assert "image is required" in osb.refused("sandbox", "create")
    assert "together" in osb.refused("sandbox", "create", "-i", "x", "--image-auth-username", "u")
    assert "--network-policy-file" in osb.refused("sandbox", "create", "-i", "x", "--credential-proxy")
    assert "does not exist" in osb.refused("sandbox", "create", "-i", "x", "--volumes-file", "/nowhere", code=2)
    assert "KEY=VALUE" in osb.refused("sandbox", "create", "-i", "x", "-e", "A", code=2)
    assert "Invalid duration '1d'" in osb.refused("sandbox", "create", "-i", "x", "-t", "1d", code=2)


def test_metrics_once_and_watched(osb, sandbox):
    metrics = osb.json("sandbox", "metrics", sandbox)
    assert set(metrics) == {"cpu_count", "cpu_used_percentage", "memory_total_in_mib", "memory_used_in_mib",
                            "timestamp"}
    line = r"\[\S+\] cpu=\d+\.\d\d% cores=\S+ mem=\d+\.\d\d/\d+\.\d\dMiB\n"
    assert re.fullmatch(line, osb.ok("sandbox", "metrics", sandbox, "-o", "raw"))
    for arguments, check in [([], lambda text: re.fullmatch(line, text)),
                             (["-o", "json"], lambda text: set(json.loads(text)) == set(metrics))]:
        with osb.start("sandbox", "metrics", sandbox, "--watch", *arguments) as process:
            for _ in range(2):
                assert check(process.stdout.readline().decode())
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            assert process.stderr.read() == b""


# --- command

def test_output_and_exit_code_are_the_commands(osb, sandbox):
    done = osb.run("command", "run", sandbox, "--", "sh", "-c", "echo one; echo; echo two >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"one\n\n", b"two\n")
    done = osb.run("command", "run", sandbox, "-w", "/tmp", "--", "pwd")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"/tmp\n", b"")


@pytest.mark.parametrize("argv", [[], ["--argv"]])
def test_words_arrive_as_they_are(osb, sandbox, argv):
    words = ["a b", "it's", "$HOME", "", "*", "-x", "ä"]
    text = osb.ok("command", "run", sandbox, *argv, "--", "printf", "%s|", *words)
    assert text == "".join(f"{word}|" for word in words) + "\n"


def test_exact_bytes(osb, sandbox):
    done = osb.run("command", "run", sandbox, "--exact", "--", "sh", "-c", r"printf 'a\r\n\000\377'; printf e >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"a\r\n\x00\xff", b"e")


def test_a_command_that_takes_too_long_is_killed(osb, sandbox):
    done = osb.run("command", "run", sandbox, "-t", "1s", "--", "sleep", "1000")
    assert (done.returncode, done.stdout) == (128 + signal.SIGKILL, b"")


@pytest.mark.parametrize("script, code", [("kill -SEGV $$", 139), ("no-such-program", 127)])
def test_how_commands_end(osb, sandbox, script, code):
    assert osb.run("command", "run", sandbox, "--", "sh", "-c", script).returncode == code


@pytest.mark.parametrize("trap, code, said", [("trap 'echo caught; exit 9' TERM;", 9, b"caught\n"), ("", 130, b"")])
def test_ctrl_c_ends_the_command(osb, sandbox, trap, code, said):
    script = trap + "mkfifo /tmp/f; exec 3<>/tmp/f; echo ready; while :; do read -t 0.1 x <&3; done"  # waits without a child
    with osb.start("command", "run", sandbox, "--", "bash", "-c", script) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == code
        assert (process.stdout.read(), process.stderr.read()) == (said, b"")


def test_a_reader_that_leaves_ends_the_command(osb, sandbox):
    with osb.start("command", "run", sandbox, "--", "sh", "-c", "yes; echo $?") as process:
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 141


def test_background(osb, sandbox):
    osb.ok("command", "run", sandbox, "--", "mkfifo", "/tmp/go")
    started = in_background(osb, sandbox, "sh", "-c", "echo one; read x < /tmp/go; echo $x; exit 4")
    assert started == {"execution_id": started["execution_id"], "sandbox_id": sandbox, "mode": "background"}
    execution = started["execution_id"]
    status = osb.json("command", "status", sandbox, execution)
    assert set(status) == {"id", "content", "running", "exit_code", "error", "started_at", "finished_at"}
    assert (status["id"], status["running"], status["exit_code"]) == (execution, True, None)
    osb.ok("command", "run", sandbox, "--", "sh", "-c", "echo go > /tmp/go")
    osb.ok("logs", sandbox, execution, "-f")
    assert osb.json("command", "status", sandbox, execution)["exit_code"] == 4
    logs = osb.json("command", "logs", sandbox, execution)
    assert logs["content"] == "one\ngo\n"
    assert osb.ok("command", "logs", sandbox, execution, "-o", "raw") == "one\ngo\n"
    assert osb.ok("command", "logs", sandbox, execution) == "--- Command Logs ---\none\ngo\n"
    assert osb.json("command", "logs", sandbox, execution, "--cursor", logs["cursor"])["content"] == ""


def test_interrupt(osb, sandbox):
    execution = in_background(osb, sandbox, "sleep", "1000")["execution_id"]
    assert osb.json("command", "interrupt", sandbox, execution) == {"status": "ok",
                                                                   "message": f"Interrupted: {execution}"}
    osb.run("logs", sandbox, execution, "-f")
    assert osb.json("command", "status", sandbox, execution)["running"] is False


def test_sessions_keep_their_state(osb, sandbox):
    made = osb.json("command", "session", "create", sandbox, "-w", "/tmp")
    assert made == {"sandbox_id": sandbox, "session_id": made["session_id"], "working_directory": "/tmp"}
    session = made["session_id"]
    run = ["command", "session", "run", sandbox, session, "--"]
    assert osb.ok(*run, "pwd") == "/tmp\n"
    assert osb.ok(*run, "cd", "/usr") == ""
    assert osb.ok(*run, "pwd") == "/usr\n"
    assert osb.run(*run, "sh", "-c", "exit 6").returncode == 6
    assert osb.json("command", "session", "delete", sandbox, session)["message"] == f"Deleted session: {session}"
    assert osb.refused(*run, "pwd")


def test_formats_of_run(osb, sandbox):
    assert "Allowed values: raw, json, yaml." in osb.refused("command", "run", sandbox, "-o", "table", "--", "true")
    assert "table, json, yaml" in osb.refused("command", "run", sandbox, "-d", "-o", "raw", "--", "true")
    assert "is not one of 'raw'" in osb.refused("file", "cat", sandbox, "/x", "-o", "xml", code=2)
    assert "Write '--' before" in osb.refused("command", "run", sandbox, "ls", "-l", code=2)


# --- file

def test_files(osb, sandbox, tmp_path):
    assert osb.json("file", "mkdir", sandbox, "/data/a", "/data/b", "--mode", "700") == [
        {"path": "/data/a", "status": "created"}, {"path": "/data/b", "status": "created"}]
    assert osb.json("file", "write", sandbox, "/data/a/one.txt", "-c", "- hello\n", "--mode", "0644")["message"] == (
        "Written: /data/a/one.txt")
    assert osb.ok("file", "cat", sandbox, "/data/a/one.txt") == "- hello\n"
    osb.ok("file", "write", sandbox, "/data/a/two.bin", input=bytes(range(256)))
    assert osb.run("file", "cat", sandbox, "/data/a/two.bin").stdout == bytes(range(256))
    osb.ok("file", "write", sandbox, "/data/a/big", input=b"x" * (20 << 20))
    assert osb.json("file", "info", sandbox, "/data/a/big")[0]["size"] == 20 << 20
    info, other = osb.json("file", "info", sandbox, "/data/a/one.txt", "/data/b")
    assert set(info) == {"path", "entry_type", "mode", "owner", "group", "size", "modified_at", "created_at"}
    assert (info["path"], info["entry_type"], info["mode"], info["size"]) == ("/data/a/one.txt", "file", 644, 8)
    assert (other["entry_type"], other["mode"]) == ("directory", 700)
    assert [row["path"] for row in osb.json("file", "search", sandbox, "/data", "-p", "**/*.txt")] == ["/data/a/one.txt"]
    assert osb.json("file", "search", sandbox, "/data", "-p", "*.none") == []
    assert osb.ok("file", "search", sandbox, "/data", "-p", "*.none") == "INFO: No files found.\n"
    assert osb.json("file", "replace", sandbox, "/data/a/one.txt", "--old", "- hello", "--new", "--bye")["message"] == (
        "Replaced in: /data/a/one.txt")
    assert osb.ok("file", "cat", sandbox, "/data/a/one.txt") == "--bye\n"
    assert error(osb, "file", "replace", sandbox, "/data/a/one.txt", "--old", "nothing", "--new", "")["code"] == "NO_MATCH"
    moved = osb.json("file", "mv", sandbox, "/data/a/one.txt", "/data/b/three.txt")
    assert moved["message"] == "Moved: /data/a/one.txt → /data/b/three.txt"
    assert osb.json("file", "chmod", sandbox, "/data/b/three.txt", "--mode", "600")["message"] == (
        "Permissions set: /data/b/three.txt")
    assert osb.json("file", "info", sandbox, "/data/b/three.txt")[0]["mode"] == 600
    assert osb.json("file", "rm", sandbox, "/data/b/three.txt") == [{"path": "/data/b/three.txt", "status": "deleted"}]
    assert osb.json("file", "rmdir", sandbox, "/data") == [{"path": "/data", "status": "removed"}]
    assert error(osb, "file", "info", sandbox, "/data")["status"] == 404


def test_upload_and_download(osb, sandbox, tmp_path):
    local = tmp_path / "up.bin"
    local.write_bytes(bytes(range(256)) * 5000)
    done = osb.json("file", "upload", sandbox, local, "/tmp/up.bin")
    assert done == {"status": "ok", "message": f"Uploaded: {local} → /tmp/up.bin"}
    back = tmp_path / "new" / "folder" / "back.bin"
    osb.ok("file", "download", sandbox, "/tmp/up.bin", back)
    assert back.read_bytes() == local.read_bytes()
    done = osb.run("file", "download", sandbox, "/tmp/up.bin", "/dev/stdout")
    assert done.stdout == local.read_bytes()
    before = back.read_bytes()
    osb.refused("file", "download", sandbox, "/tmp/none", back)
    assert back.read_bytes() == before, "a failed download leaves what was there"
    assert list(back.parent.iterdir()) == [back]
    assert "does not exist" in osb.refused("file", "upload", sandbox, tmp_path / "none", "/tmp/x", code=2)
    assert "osb cp" in osb.refused("file", "upload", sandbox, tmp_path, "/tmp/x")
    assert "is a directory" in osb.refused("file", "download", sandbox, "/tmp/up.bin", tmp_path)


def test_encodings(osb, sandbox):
    osb.ok("file", "write", sandbox, "/tmp/l", "-c", "é", "--encoding", "latin1")
    assert osb.run("file", "cat", sandbox, "/tmp/l").stdout == b"\xe9"
    assert osb.ok("file", "cat", sandbox, "/tmp/l", "--encoding", "latin1") == "é"
    assert "Unknown encoding 'nope'" in osb.refused("file", "cat", sandbox, "/tmp/l", "--encoding", "nope")


# --- diagnostics

def test_diagnostics(osb, sandbox):
    logs = osb.json("diagnostics", "logs", sandbox, "-s", "container")
    assert set(logs) == {"sandbox_id", "kind", "scope", "delivery", "content_type", "truncated", "content",
                         "content_url", "content_length", "expires_at", "warnings"}
    assert (logs["sandbox_id"], logs["kind"], logs["scope"]) == (sandbox, "logs", "container")
    events = osb.json("diagnostics", "events", sandbox, "-s", "lifecycle")
    assert events["kind"] == "events"
    assert osb.ok("diagnostics", "events", sandbox, "-s", "lifecycle").rstrip("\n") == events["content"].rstrip("\n")
    assert "Missing option '-s' / '--scope'" in osb.refused("diagnostics", "logs", sandbox, code=2)


@pytest.mark.parametrize("name", ["logs", "inspect", "events", "summary"])
def test_devops(osb, sandbox, name):
    done = osb.run("devops", name, sandbox)
    assert done.returncode == 0
    assert (b"deprecated" in done.stderr) == (name in ("logs", "events"))
    if name != "logs":
        assert sandbox.encode() in done.stdout or name == "events"
    said = osb.refused("devops", name, "no-such-id")
    assert "Sandbox 'no-such-id' not found." in said


# --- bad input

def test_unknown_ids_are_named(osb):
    commands = [["sandbox", "get"], ["sandbox", "kill"], ["sandbox", "pause"], ["sandbox", "resume"],
                ["sandbox", "renew", "-t", "1h"], ["sandbox", "endpoint", "-p", "80"], ["sandbox", "health"],
                ["sandbox", "metrics"], ["command", "run", "-d"], ["command", "session", "create"], ["egress", "get"],
                ["credential-vault", "get"], ["diagnostics", "logs", "-s", "container"]]
    for command in commands:
        words = [*command, "no-such-id"] + (["--", "true"] if command[-1] == "-d" else [])
        done = osb.run(*words[:len(command)], "-o", "json", *words[len(command):])
        assert (done.returncode, done.stdout) == (1, b""), (command, done)
        refused = json.loads(done.stderr)["error"]
        assert refused["status"] == 404 and refused["code"] and refused["message"] and refused["hint"], command
        said = osb.refused(*words)
        assert said.startswith("ERROR [Sandbox Error]: ") and said.count("\n") == 1, (command, said)


def test_wrong_and_missing_keys(osb):
    assert error(osb, "--api-key", "nope", "sandbox", "list")["status"] == 401
    del osb.env["OPEN_SANDBOX_API_KEY"]
    refused = error(osb, "sandbox", "list")
    assert refused["status"] == 401
    assert "--api-key" in refused["hint"]


def test_no_server_there(osb):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, without a listener
        domain = f"127.0.0.1:{taken.getsockname()[1]}"
        for command in (["sandbox", "list"], ["sandbox", "create", "-i", "x"], ["command", "run", "x", "--", "true"]):
            said = osb.refused("--domain", domain, *command)
            assert domain in said and "running?" in said and said.count("\n") == 1, said
        assert error(osb, "--domain", domain, "sandbox", "list")["code"] == "NETWORK_ERROR"


def test_a_server_that_says_nothing(osb):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        domain = f"127.0.0.1:{mute.getsockname()[1]}"
        said = osb.refused("--domain", domain, "--request-timeout", "1", "sandbox", "list")
        assert said.count("\n") == 1


def test_hints_fit_what_is_missing(osb, sandbox):
    assert "osb ls" in osb.refused("file", "cat", sandbox, "/nope")
    for command in (["egress", "get"], ["credential-vault", "get"]):
        for proxy in ([], ["--use-server-proxy"]):
            assert "--network-policy-file" in osb.refused(*proxy, *command, sandbox), command


def test_a_sandbox_that_ended(osb, server):
    id = server.create()["id"]
    server.delete(id)
    assert error(osb, "command", "status", id, "x")["status"] == 404


def test_kill_stops_at_the_first_failure(osb, server):
    ids = [server.create()["id"] for _ in range(2)]
    osb.refused("sandbox", "kill", ids[0], "no-such-id", ids[1])
    assert [server.state(id) for id in ids] == [404, "Running"]
    server.delete(ids[1])


def test_invalid_options(osb):
    for words, said in [(["sandbox", "list", "--page", "0"], "is not in the range"),
                        (["sandbox", "endpoint", "x", "-p", "70000"], "is not in the range"),
                        (["sandbox", "lst"], "Did you mean 'osb sandbox list'?"),
                        (["sandbox", "get"], "Missing argument 'SANDBOX_ID'"),
                        (["sandbox", "get", "x", "--domain", "y"], "write it before 'sandbox get'"),
                        (["--protocol", "ftp", "sandbox", "list"], "is not one of 'http', 'https'"),
                        (["egress", "patch", "x", "--rule", "allow"], "ACTION=TARGET"),
                        (["egress", "patch", "x", "--rule", "block=y"], "Use allow or deny")]:
        assert said in osb.refused(*words, code=2), words
    assert "Invalid sandbox state 'gone'" in osb.refused("sandbox", "list", "-s", "gone")
    assert error(osb, "sandbox", "get", code=2)["code"] == "USAGE"


# --- what people see

def test_tables_are_for_terminals_and_tabs_for_pipes(osb, sandbox):
    head, row = osb.ok("sandbox", "list").splitlines()
    assert head.split("\t") == ["ID", "STATUS", "IMAGE", "CREATED_AT", "EXPIRES_AT"]
    assert row.split("\t")[:3] == [sandbox, "Running", "host"]
    with osb.terminal("sandbox", "list", columns=200) as terminal:
        terminal.expect("╭─")
        terminal.expect("\x1b\\[[0-9;]*m● Running")
        assert terminal.wait() == 0
    with osb.terminal("--no-color", "sandbox", "list", columns=200) as terminal:
        terminal.expect("│ ● Running │")
        assert terminal.wait() == 0


def test_yaml(osb, sandbox):
    text = osb.ok("sandbox", "get", sandbox, "-o", "yaml")
    assert f"id: {sandbox}\n" in text or f'id: "{sandbox}"\n' in text
    assert "status:\n  last_transition_at:" in text


def test_through_the_servers_proxy(osb, sandbox):
    assert osb.ok("--use-server-proxy", "command", "run", sandbox, "--", "echo", "hi") == "hi\n"
    assert "/proxy/" in osb.json("--use-server-proxy", "sandbox", "endpoint", sandbox, "-p", "80")["endpoint"]


def test_verbose_tells_requests_but_no_secret(osb, sandbox, server):
    done = osb.run("-v", "sandbox", "get", sandbox)
    assert f"/v1/sandboxes/{sandbox}" in done.stderr.decode()
    assert server.key not in done.stderr.decode()
