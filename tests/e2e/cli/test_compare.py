"""osb beside the original command line (opensandbox-cli from PyPI), on the same server: the same JSON, exit codes and
messages, command by command.

Where they differ on purpose, the test says so. Values that cannot be the same twice (ids, times, sizes of memory) are
compared by their type.
"""

import datetime
import http.server
import json
import re
import threading

import pytest
from original_cli import Done, Original
from osb_program import Osb

ORIGINAL, OURS = "the original", "osb"
PROGRAMS = (ORIGINAL, OURS)
ID = "3f2b8c1e-0d4a-4f7e-9b61-5a2c7d8e9f10"  # osb asks the server for names, not for what looks like an id


class Both:
    """Runs a command with both programs."""

    def __init__(self, server, home):
        self.osb = Osb(server, home)
        self.original = Original(self.osb.env)

    def run(self, program, *words, input=None, cwd=None):
        words = ["--no-color", *words]
        if program == ORIGINAL:
            return self.original.run(words, input, cwd)
        done = self.osb.run(*words, input=input.encode() if input is not None else None, cwd=cwd)
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def json(self, *words, **options):
        """The output of both programs, theirs first."""
        out = []
        for program in PROGRAMS:
            done = self.run(program, *words, **options)
            assert done.returncode == 0, f"{program} {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            out.append(json.loads(done.stdout))
        return out


@pytest.fixture(scope="module")
def both(server, tmp_path_factory):
    programs = Both(server, tmp_path_factory.mktemp("home"))
    yield programs
    programs.original.close()


@pytest.fixture
def sandbox(server):
    made = server.create(metadata={"from": "osb"})["id"]
    yield made
    server.client.delete(f"/v1/sandboxes/{made}")


def moment(text):
    """An ISO string as the moment it means, anything else as it is."""
    if isinstance(text, str) and text[:2] == "20" and len(text) > 18:
        try:
            return datetime.datetime.fromisoformat(text)
        except ValueError:
            return text
    return text


def same(value):
    if isinstance(value, dict):
        return {key: same(item) for key, item in value.items()}
    if isinstance(value, list):
        return [same(item) for item in value]
    return moment(value)


def shape(value):
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(moment(value)).__name__


def test_sandbox_commands(both, sandbox, server):
    created = both.json("sandbox", "create", "-i", "host", "-t", "1h30m", "-m", "a=b", "-o", "json")
    assert shape(created[0]) == shape(created[1])
    assert {**created[0], "id": ""} == {**created[1], "id": ""}
    theirs, ours = both.json("sandbox", "list", "-o", "json")
    assert same(theirs) == same(ours)
    for id in [sandbox, created[0]["id"]]:
        theirs, ours = both.json("sandbox", "get", id, "-o", "json")
        assert same(theirs) == same(ours)
    theirs, ours = both.json("sandbox", "health", sandbox, "-o", "json")
    assert theirs == ours
    for proxy in ([], ["--use-server-proxy"]):
        theirs, ours = both.json(*proxy, "sandbox", "endpoint", sandbox, "-p", "8000", "-o", "json")
        theirs.pop("origin", None)  # newer than the contract, and null
        assert theirs == ours
    theirs, ours = both.json("sandbox", "metrics", sandbox, "-o", "json")
    assert shape(theirs) == shape(ours)
    theirs, ours = both.json("sandbox", "renew", created[0]["id"], "-t", "2h", "-o", "json")
    assert shape(theirs) == shape(ours)
    killed = [json.loads(both.run(program, "sandbox", "kill", made["id"], "-o", "json").stdout)
              for program, made in zip(PROGRAMS, created)]
    assert shape(killed[0]) == shape(killed[1])
    assert killed[0][0]["status"] == killed[1][0]["status"]


def test_pause_and_resume(both, server):
    ids = [server.create()["id"] for _ in range(2)]
    answers = []
    for program, id in zip(PROGRAMS, ids):
        paused = json.loads(both.run(program, "sandbox", "pause", id, "-o", "json").stdout)
        server.wait_state(id, "Paused")
        resumed = json.loads(both.run(program, "sandbox", "resume", id, "-o", "json").stdout)
        answers.append([{**each, "message": each["message"].replace(id, "ID")} for each in (paused, resumed)])
        server.delete(id)
    assert answers[0] == answers[1]


def test_snapshots(both, server, sandbox):
    answers = []
    for program in PROGRAMS:
        def ask(*words):
            done = both.run(program, "snapshot", *words, "-o", "json")
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        made = ask("create", sandbox, "--name", "mine")
        ready = server.client.get(f"/v1/snapshots/{made['id']}", params={"wait": 120}).json()
        assert ready["status"]["state"] == "Ready"
        got, listed = ask("get", made["id"]), ask("list", "--sandbox-id", sandbox, "--name", "mine", "--state", "Ready")
        none, deleted = ask("list", "--name", "other"), ask("delete", made["id"])
        assert [each["id"] for each in listed["items"]] == [made["id"]] and none["items"] == []
        answers.append({"made": shape(made), "sandbox": made["sandbox_id"], "got": shape(got), "listed": shape(listed),
                        "none": none, "deleted": {**deleted, "message": deleted["message"].replace(made["id"], "ID")}})
    assert answers[0] == answers[1]
    for program in PROGRAMS:
        assert "No snapshots found." in both.run(program, "snapshot", "list", "--name", "other").stdout


def test_templates(both, server, tmp_path):
    """The original knows no default of --publish, and no --wait."""
    answers = []
    for program in PROGRAMS:
        def ask(*words):
            done = both.run(program, "template", *words, "-o", "json")
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        made = ask("create", "-i", "host", "-p", "local://", "-m", "from=cli", "--warmup-seconds", "0")
        id = made["template_id"]
        settled = server.client.get(f"/v1/templates/{id}", params={"wait": 120}).json()
        assert settled["status"]["phase"] == "Succeeded", settled
        got, listed, none = ask("get", id), ask("list", "-m", "from=cli"), ask("list", "-m", "from=other")
        assert [each["template_id"] for each in listed["items"]] == [id] and none["items"] == []
        deleted = ask("delete", id)
        answers.append({"made": {**made, "template_id": "ID"}, "got": shape(got), "listed": shape(listed), "none": none,
                        "deleted": {**deleted, "message": deleted["message"].replace(id, "ID")}})
    assert answers[0] == answers[1]
    (tmp_path / "other.json").write_text(json.dumps({"image": "host", "publish": "local://", "colour": 1}))
    (tmp_path / "no-time.json").write_text(json.dumps({"templateId": "tpl-x"}))
    for words in (["template", "create", "-f", "other.json"], ["template", "create", "-f", "other.json", "-i", "host"],
                  ["sandbox", "create", "--template", "t", "--snapshot-id", "s"], ["sandbox", "create", "--template", "t"],
                  ["sandbox", "create", "--template", "t", "-e", "A=b", "-t", "10m"],
                  ["sandbox", "create", "--template", "t", "-t", "none"], ["sandbox", "create", "-f", "no-time.json"]):
        said = [both.run(program, *words, cwd=tmp_path) for program in PROGRAMS]
        assert [each.returncode for each in said] == [1, 1], words
        complaints = {" ".join((each.stdout + each.stderr).replace("Error:", "").split()) for each in said}
        assert len(complaints) == 1, (words, complaints)


def test_creates_from_a_file(both, server, tmp_path):
    (tmp_path / "image.json").write_text(json.dumps({"image": "host", "timeout": 600, "env": {"A": "b"}, "metadata": {"from": "file"},
                                                     "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {"cpu": "1"}}))
    answers = []
    for program in PROGRAMS:
        done = both.run(program, "sandbox", "create", "-f", tmp_path / "image.json", "-o", "json")
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        seen = server.get(made["id"]).json()
        assert (seen["metadata"], server.run(made["id"], "echo $A")) == ({"from": "file"}, "b")
        server.delete(made.pop("id"))
        answers.append(made)
    assert answers[0] == answers[1]
    bad = {"none.json": {"timeout": 60}, "two.json": {"image": "host", "snapshotId": "s"}, "other.json": {"image": "host", "imge": 1},
           "time.json": {"image": "host", "timeout": 0}, "blank.json": {"snapshotId": ""}}
    for name, body in bad.items():
        (tmp_path / name).write_text(json.dumps(body))
        theirs, ours = (both.run(program, "sandbox", "create", "-f", tmp_path / name) for program in PROGRAMS)
        assert (theirs.returncode, ours.returncode) == (1, 1), name
        message = " ".join(theirs.stderr.split()).removeprefix("Error: ")
        assert message in " ".join(ours.stderr.split()), (message, ours.stderr)
    theirs, ours = (both.run(program, "sandbox", "create", "-f", tmp_path / "image.json", "--image", "x", "-e", "A=b") for program in PROGRAMS)
    assert "--file cannot be combined with: --image, --env." in theirs.stderr and "--file cannot be combined with: --image, --env." in ours.stderr


def test_commands(both, sandbox):
    background = ["command", "run", sandbox, "-d", "-o", "json", "--", "sh", "-c", "echo one; echo two"]
    theirs, ours = both.json(*background)
    assert shape(theirs) == shape(ours)
    both.osb.ok("logs", sandbox, ours["execution_id"], "-f")
    execution = ours["execution_id"]
    for words in (["status", sandbox, execution], ["logs", sandbox, execution], ["logs", sandbox, execution, "--cursor", 4],
                  ["interrupt", sandbox, execution]):
        programs = [both.run(program, "command", *words, "-o", "json") for program in PROGRAMS]
        assert programs[0].returncode == programs[1].returncode, words
        if programs[0].returncode == 0:
            assert same(json.loads(programs[0].stdout)) == same(json.loads(programs[1].stdout)), words
    theirs, ours = both.json("command", "session", "create", sandbox, "-w", "/tmp", "-o", "json")
    assert shape(theirs) == shape(ours)
    for program, session in ((ORIGINAL, theirs), (OURS, ours)):
        run = both.run(program, "command", "session", "run", sandbox, session["session_id"], "--", "pwd")
        assert (run.returncode, run.stdout) == (0, "/tmp\n")
        gone = both.run(program, "command", "session", "delete", sandbox, session["session_id"], "-o", "json")
        assert json.loads(gone.stdout)["message"] == f"Deleted session: {session['session_id']}"


def test_files(both, sandbox, tmp_path):
    local = tmp_path / "local.txt"
    local.write_text("local\n")
    replace = ["replace", sandbox, "/w/a/f.txt", "--old", "hello", "--new", "bye"]
    steps = [["mkdir", sandbox, "/w/a", "/w/b"], ["mkdir", sandbox, "/w/c", "--mode", "700"],
             ["write", sandbox, "/w/a/f.txt", "-c", "hello"], ["write", sandbox, "/w/a/g", "-c", "x", "--mode", "0644"],
             ["upload", sandbox, local, "/w/b/up.txt"], ["chmod", sandbox, "/w/a/g", "--mode", "600"],
             replace,
             ["download", sandbox, "/w/b/up.txt", tmp_path / "down.txt"]]
    reads = [["info", sandbox, "/w/a/f.txt", "/w/a/g", "/w/b", "/w/c"], ["search", sandbox, "/w", "-p", "**/*.txt"],
             ["search", sandbox, "/w", "-p", "*.none"]]
    seen = []
    for program in PROGRAMS:
        answers = []
        for words in steps + reads + [["mv", sandbox, "/w/a/g", "/w/a/h"], ["rm", sandbox, "/w/a/h"],
                                      ["rmdir", sandbox, "/w"]]:
            done = both.run(program, "file", *words, "-o", "json")
            assert done.returncode == 0, (program, words, done.stderr)
            answers.append(json.loads(done.stdout))
        for found in answers[len(steps):len(steps) + 2]:
            for entry in found:
                for key in ("modified_at", "created_at"):
                    entry[key] = shape(entry[key])
            found.sort(key=lambda entry: entry["path"])
        seen.append(answers)
    seen[1][steps.index(replace)].pop("replaced_count")  # the original does not count
    for words, theirs, ours in zip(steps + reads, *seen):
        assert theirs == ours, words
    assert seen[0] == seen[1]


def test_diagnostics(both, sandbox):
    for words in (["logs", sandbox, "-s", "container"], ["events", sandbox, "-s", "lifecycle"]):
        theirs, ours = both.json("diagnostics", *words, "-o", "json")
        assert same(theirs) == same(ours), words
    for words in (["events", sandbox], ["logs", sandbox, "-n", "5"], ["inspect", sandbox]):
        texts = [both.run(program, "devops", *words) for program in PROGRAMS]
        steady = [[line for line in text.stdout.strip().splitlines() if " used" not in line] for text in texts]
        assert steady[0] == steady[1], words
        assert texts[0].stderr == texts[1].stderr, words


def test_config(both, tmp_path):
    answers = []
    for program in PROGRAMS:
        path = tmp_path / "c" / "config.toml"
        path.unlink(missing_ok=True)
        said = []
        for words in (["config", "init"], ["config", "init"], ["config", "set", "connection.domain", "a:1"],
                      ["config", "set", "connection.request_timeout", "7"], ["config", "set", "output.color", "false"],
                      ["config", "set", "defaults.image", 'a "b"'], ["config", "show"]):
            done = both.run(program, "--config", path, *words, "-o", "json")
            said.append((done.returncode, json.loads(done.stdout)))
        answers.append(said)
    assert answers[0] == answers[1]


def where_claude_looks(path):
    """The original writes .claude/skills/NAME.md, which Claude Code does not read; osb writes NAME/SKILL.md there."""
    return re.sub(r"(\.claude/skills/[^/]+)\.md$", r"\1/SKILL.md", path)


def test_skills(both, tmp_path):
    theirs, ours = both.json("skills", "list", "-o", "json", cwd=tmp_path)
    assert [skill["slug"] for skill in theirs["skills"]] == [skill["slug"] for skill in ours["skills"]]
    for old, new in zip(theirs["skills"], ours["skills"]):
        assert set(old) == set(new)
        assert all(old[key] == new[key] for key in ("package_file", "marker_id", "area")), (old, new)
    def places(answer):
        return [{**target, "layout": "", "skills": [{**skill, "path": where_claude_looks(skill["path"])}
                                                    for skill in target["skills"]]} for target in answer["targets"]]

    assert places(theirs) == places(ours)
    theirs, ours = both.json("skills", "show", "file-operations", "-o", "json")
    assert set(theirs) == set(ours)
    answers = []
    for program in PROGRAMS:
        folder = tmp_path / program
        folder.mkdir()
        said = []
        for words in (["install", "file-operations", "-t", "all"], ["install", "file-operations", "-t", "all"],
                      ["install", "--all-builtins", "-t", "cline"], ["uninstall", "file-operations", "-t", "all"],
                      ["uninstall", "file-operations", "-t", "codex"]):
            done = both.run(program, "skills", *words, "--scope", "project", "-o", "json", cwd=folder)
            said.append(json.loads(done.stdout))
        for answer in said:
            for operation in answer["operations"]:
                operation["path"] = where_claude_looks(operation["path"])
        said.append(sorted(where_claude_looks(str(path.relative_to(folder))) for path in folder.rglob("*")
                           if path.is_file()))
        answers.append(said)
    assert answers[0] == answers[1]


def test_exit_codes(both, tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("[connection")
    for words in (["--version"], ["sandbox"], ["sandbox", "get"], ["sandbox", "get", "no-such-id"], ["nothing"],
                  ["sandbox", "list", "--page", "0"], ["sandbox", "list", "-s", "odd"], ["sandbox", "list", "-o", "raw"],
                  ["sandbox", "endpoint", "x", "-p", "0"], ["sandbox", "create"], ["sandbox", "create", "-i", "x", "-t", "1d"],
                  ["sandbox", "create", "-i", "x", "-e", "A"], ["sandbox", "create", "-i", "x", "--credential-proxy"],
                  ["sandbox", "create", "-i", "x", "--volumes-file", "/none"], ["sandbox", "renew", "x"],
                  ["command", "run", "x"], ["command", "run", "x", "-o", "json", "--", "true"],
                  ["file", "upload", "x", "/none", "/x"], ["file", "chmod", "x", "/x"], ["file", "cat", "x", "/x", "-o", "json"],
                  ["egress", "patch", "x"], ["egress", "patch", "x", "--rule", "a"], ["diagnostics", "logs", "x"],
                  ["credential-vault", "create", "x", "--file", "/none"], ["devops", "inspect", "no-such-id"],
                  ["skills", "install", "file-operations"], ["skills", "install", "-t", "all"], ["skills", "show", "none"],
                  ["skills", "install", "file-operations", "--all-builtins", "-t", "codex", "--scope", "project"],
                  ["--config", tmp_path / "none", "config", "set", "a.b", "c"], ["config", "set", "a", "c"],
                  ["--config", broken, "sandbox", "list"], ["--config", broken, "config", "set", "a.b", "c"]):
        codes = [both.run(program, *words, cwd=tmp_path).returncode for program in PROGRAMS]
        assert codes[0] == codes[1], words


class Sidecar(http.server.BaseHTTPRequestHandler):
    """A lifecycle server that knows one sandbox, and its egress sidecar, as the contract describes them."""

    binding = {"name": "api", "revision": 1, "match": {"schemes": ["https"], "ports": [443], "hosts": ["a.example"],
                                                       "methods": ["GET"], "paths": ["/*"]},
               "auth": {"type": "apiKey", "name": "X-Key"}}
    credential = {"name": "key", "sourceType": "inline", "revision": 1}
    state = {"revision": 1, "credentials": [credential], "bindings": [binding]}
    policy = {"status": "ok", "mode": "dns", "enforcementMode": "strict",
              "policy": {"defaultAction": "deny", "egress": [{"action": "allow", "target": "pypi.org"}]}}

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path.split("?")[0], json.loads(body) if body else None))
        routes = {"/policy": self.policy, "/credential-vault": self.state,
                  "/credential-vault/credentials": {"revision": 1, "credentials": [self.credential]},
                  "/credential-vault/credentials/key": self.credential,
                  "/credential-vault/bindings": {"revision": 1, "bindings": [self.binding]},
                  "/credential-vault/bindings/api": self.binding}
        path = self.path.split("?")[0]
        if "/endpoints/" in path:
            reply = {"endpoint": "127.0.0.1:%d" % self.server.server_port, "headers": {}}
        else:
            reply = routes.get(path)
        status = 404 if reply is None else 204 if self.command == "DELETE" and "vault" in path else (
            201 if self.command == "POST" else 200)
        self.reply(reply or {"code": "X", "message": "no"}, status)

    def reply(self, body, status=200):
        data = b"" if status == 204 else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def log_message(self, *_):
        pass


def test_egress_and_credential_vault(both, tmp_path):
    """Our server offers neither yet: a stub answers as the contract says. The requests are compared too."""
    payload = tmp_path / "vault.yaml"
    payload.write_text("""
credentials:
  - name: key
    source: {type: inline, value: "a: secret"}
bindings:
  - name: api
    match: {hosts: [a.example], methods: [GET]}
    auth: {type: apiKey, name: X-Key, credential: key}
""")
    patch = json.dumps({"expected_revision": 1, "credentials": {"delete": ["key"]}, "bindings": {"delete": ["api"]}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sidecar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        domain = f"127.0.0.1:{server.server_port}"
        seen = []
        for program in PROGRAMS:
            server.seen = []
            answers = []
            for words in (["egress", "get", ID], ["egress", "patch", ID, "--rule", "allow=a.b", "--rule", "Deny= c.d "],
                          ["credential-vault", "create", ID, "--file", payload], ["credential-vault", "get", ID],
                          ["credential-vault", "patch", ID, "--file", "-"],
                          ["credential-vault", "credential", "list", ID], ["credential-vault", "binding", "list", ID],
                          ["credential-vault", "credential", "get", ID, "key"],
                          ["credential-vault", "binding", "get", ID, "api"], ["credential-vault", "delete", ID]):
                done = both.run(program, "--domain", domain, *words, "-o", "json",
                                input=patch if "patch" in words and "-" in words else None)
                assert done.returncode == 0, (program, words, done.stderr)
                assert "a: secret" not in done.stdout + done.stderr
                answers.append(json.loads(done.stdout))
            sent = [(method, path, body) for method, path, body in server.seen if "/endpoints/" not in path]
            seen.append((answers, sent))
        server.shutdown()
    for theirs, ours in zip(seen[0][0], seen[1][0]):
        assert theirs == ours
    clean = [[(method, path, drop_nulls(body)) for method, path, body in each[1]] for each in seen]
    assert clean[0] == clean[1]


class Incomplete(Sidecar):
    """Its execd ends the stream of a command without a last event, and knows nothing of it afterwards."""

    def answer(self):
        path = self.path.split("?")[0]
        if path.endswith(f"/sandboxes/{ID}"):
            return self.reply({"id": ID, "status": {"state": "Running"}, "entrypoint": ["x"], "createdAt": "2026-01-01T00:00:00Z"})
        if path != "/command":
            return super().answer()
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in ({"type": "init", "text": "c1"}, {"type": "stdout", "text": "half"}):
            self.wfile.write((json.dumps({**event, "timestamp": 1}) + "\n\n").encode())
        return None

    do_GET = do_POST = do_PATCH = do_DELETE = answer


def test_a_stream_that_ends_too_early_is_no_success(both):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Incomplete) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for program in PROGRAMS:
            done = both.run(program, "--domain", f"127.0.0.1:{server.server_port}", "command", "run", ID, "-o", "raw", "--", "true")
            assert done.returncode == 1, (program, done)
            assert "half" in done.stdout and "Execution Incomplete" in done.stderr + done.stdout, (program, done)
        server.shutdown()


def drop_nulls(value):
    """Null means absent in requests; so does an empty list of changes."""
    if isinstance(value, dict):
        return {key: drop_nulls(item) for key, item in value.items() if item not in (None, [], {})}
    if isinstance(value, list):
        return [drop_nulls(item) for item in value]
    return value
