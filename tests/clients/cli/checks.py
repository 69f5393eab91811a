"""The command line opensandbox-cli. Its imports take a second, so it is imported once and every command is a fork."""

import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile

import suite
from suite import NotOffered, check, same

# Counts when the command line is imported: it looks for its configuration then.
os.environ |= {"OPEN_SANDBOX_API_KEY": suite.KEY, "OPEN_SANDBOX_DOMAIN": suite.SERVER.removeprefix("http://"),
               "PYTHONWARNINGS": "ignore", "NO_COLOR": "1", "COLUMNS": "500"}
from opensandbox_cli.main import cli  # noqa: E402

# Events of a stream are lines without their end; this client writes them as they come.
JOINED = "prints no newline between lines"
HAS_SNAPSHOTS = "snapshot" in cli.commands


class Command:
    """A command that runs. Its output can be read line by line, its end waited for."""

    def __init__(self, *words, input="", proxy=suite.PROXY, key=None):
        words = ["--no-color", "--request-timeout", "120", *(["--use-server-proxy"] if proxy else []),
                 *(["--api-key", key] if key else []), *map(str, words)]
        reading, writing = os.pipe()
        self.stdout = os.fdopen(reading, encoding="utf-8", newline="")
        self._errors = tempfile.TemporaryFile()
        with tempfile.TemporaryFile() as given:
            given.write(input.encode())
            given.seek(0)
            self.pid = os.fork()
            if self.pid == 0:
                code = 1
                try:
                    for number, file in enumerate((given.fileno(), writing, self._errors.fileno())):
                        os.dup2(file, number)
                    code = self._run(words)
                finally:
                    os._exit(code)
        os.close(writing)

    @staticmethod
    def _run(words):
        import sys
        sys.stdout = open(1, "w", closefd=False)
        sys.stderr = open(2, "w", closefd=False)
        try:
            cli.main(words, prog_name="osb")
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    def done(self):
        """(exit code, the rest of standard output, standard error)."""
        out = self.stdout.read()
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.stdout.close()
        self._errors.seek(0)
        errors = self._errors.read().decode()
        self._errors.close()
        return code, out, errors


def osb(*words, **options):
    """The output of a command that must succeed."""
    code, out, errors = Command(*words, **options).done()
    check(code == 0, f"osb {' '.join(map(str, words[:3]))} ended with {code}: {errors or out}")
    return out


def ask(*words, **options):
    """The same as JSON; its option comes before the words that go into the sandbox."""
    at = words.index("--") if "--" in words else len(words)
    return json.loads(osb(*words[:at], "-o", "json", *words[at:], **options))


def refused(code, what, *words, **options):
    """A command that fails and says why."""
    ended, out, errors = Command(*words, **options).done()
    check(ended != 0, f"{what} was accepted")
    check(code in out + errors, f"{what}: no {code} in {out + errors}")


def shell(id, script, *options, **more):
    return osb("command", "run", id, *options, "-o", "raw", "--", "sh", "-c", script, **more)


def create(*words, **options):
    words = words if "--snapshot-id" in words else ("-i", suite.IMAGE, *words)
    return ask("sandbox", "create", "--ready-timeout", "240s", *words, **options)["id"]


@contextlib.contextmanager
def sandbox(*words, **options):
    id = create(*words, **options)
    try:
        yield id
    finally:
        osb("sandbox", "kill", id)


def left(id):
    at = datetime.datetime.fromisoformat(ask("sandbox", "get", id)["expires_at"].replace("Z", "+00:00"))
    return (at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def listed(*words):
    found = ask("sandbox", "list", *words)
    return sorted(each["id"] for each in (found["items"] if isinstance(found, dict) and "items" in found else found))


def lifecycle():
    program = subprocess.run([suite.CLIENT_DIR / "bin" / "osb", "--version"], capture_output=True, text=True)
    check(suite.VERSION in program.stdout, f"--version says {program.stdout} {program.stderr}")
    with sandbox("-e", "GREETING=hello", "-m", "suite=lifecycle", "-t", "10m") as id:
        info = ask("sandbox", "get", id)
        state = info["status"]["state"] if isinstance(info["status"], dict) else info["status"]
        same((info["id"], state, info["metadata"]), (id, "Running", {"suite": "lifecycle"}), "get")
        check(480 < left(id) <= 600, f"{left(id)} s left")
        same(listed("-m", "suite=lifecycle", "-s", "Running"), [id], "list")
        same(listed("-m", "suite=other"), [], "list of none")
        check("true" in osb("sandbox", "health", id, "-o", "json").lower(), "health says no")
        same(shell(id, "echo $GREETING"), "hello\n", "environment")
    refused("SANDBOX_NOT_FOUND", "get after kill", "sandbox", "get", id)


def foreground():
    with sandbox("-e", "GREETING=hello") as id:
        code, out, errors = Command("command", "run", id, "-o", "raw", "--", "sh", "-c",
                                    "echo oops >&2; echo $GREETING; exit 3").done()
        check("hello" in out and "oops" not in out, f"standard output: {out}")
        check("oops" in errors, f"standard error: {errors}")
        check("CommandExecError: 3" in out + errors and code == 1, f"exit code {code}: {out} {errors}")
        same(shell(id, "pwd", "-w", "/usr"), "/usr\n", "directory")
        # The command goes on only when its first line has been read here.
        shell(id, "mkfifo /root/go")
        running = Command("command", "run", id, "-o", "raw", "--", "sh", "-c",
                          "echo first; read -r _ < /root/go; echo second")
        same(running.stdout.read(5), "first", "first line")
        shell(id, "echo > /root/go")
        code, rest, _ = running.done()
        same((code, rest), (0, "second\n"), "the rest")
    return f"{JOINED}; a command's exit code is said, not passed on; no environment per command"


def ended(id, execution):
    while (status := ask("command", "status", id, execution))["running"]:
        pass
    return status


def background():
    with sandbox() as id:
        shell(id, "mkfifo /root/go /root/up")
        execution = ask("command", "run", id, "-d", "--", "sh", "-c",
                        "echo first; echo > /root/up; read -r _ < /root/go; echo second; exit 5")["execution_id"]
        shell(id, "cat /root/up")
        check(ask("command", "status", id, execution)["running"], "status is not running")
        begun = ask("command", "logs", id, execution)
        same(begun["content"], "first\n", "log of a running command")
        shell(id, "echo > /root/go")
        same(ended(id, execution)["exit_code"], 5, "exit code")
        same(ask("command", "logs", id, execution)["content"], "first\nsecond\n", "log")
        same(ask("command", "logs", id, execution, "--cursor", begun["cursor"])["content"], "second\n", "from the cursor")


def interrupt():
    with sandbox() as id:
        execution = ask("command", "run", id, "-d", "--", "sleep", "600")["execution_id"]
        osb("command", "interrupt", id, execution)
        check(ended(id, execution)["exit_code"] != 0, "an interrupted command ended with 0")
        code, out, _ = Command("command", "run", id, "-t", "1s", "-o", "raw", "--", "sh", "-c",
                               "echo up; sleep 600").done()
        same(out, "up\n", "output before the timeout")
        check(code != 0, "a command past its timeout ended with 0")


def many_lines():
    with sandbox() as id:
        seen = osb("command", "run", id, "-o", "raw", "--", "seq", suite.LINES)
        expected = "".join(str(n) for n in range(1, suite.LINES + 1)) + "\n"
        same(len(seen), len(expected), "number of characters")
        check(seen == expected, "lines out of order")
    return JOINED


def sessions():
    with sandbox() as id:
        def run(session, *words):
            return osb("command", "session", "run", id, session, "--", *words)

        session = ask("command", "session", "create", id, "-w", "/usr")["session_id"]
        other = ask("command", "session", "create", id)["session_id"]
        run(session, "export", "MINE=1")
        run(session, "cd", "lib")
        same((run(session, "printenv", "MINE"), run(session, "pwd")), ("1\n", "/usr/lib\n"), "what a session remembers")
        check(Command("command", "session", "run", id, other, "--", "printenv", "MINE").done()[0] != 0, "another session")
        for each in (session, other):
            osb("command", "session", "delete", id, each)
        refused(session, "running in a deleted session", "command", "session", "run", id, session, "--", "true")


def files():
    text = "one\nzwei ü\n三\n"
    with sandbox() as id, tempfile.TemporaryDirectory() as folder:
        local, back = pathlib.Path(folder) / "local", pathlib.Path(folder) / "back"
        local.write_bytes(bytes(range(256)))
        osb("file", "write", id, "/root/in/a.txt", "--mode", "0640", input=text)
        osb("file", "write", id, "/root/in/c.txt", "-c", "third")
        osb("file", "upload", id, local, "/root/in/b.bin")
        same(osb("file", "cat", id, "/root/in/a.txt"), text, "text")
        osb("file", "download", id, "/root/in/b.bin", back)
        same(back.read_bytes(), local.read_bytes(), "bytes")
        info = ask("file", "info", id, "/root/in/a.txt")
        info = info[0] if isinstance(info, list) else info["/root/in/a.txt"]
        same((info["path"], info["size"], info["mode"], info["owner"]),
             ("/root/in/a.txt", len(text.encode()), 640, "root"), "info")
        found = sorted(each["path"] for each in ask("file", "search", id, "/root/in", "-p", "*.txt"))
        same(found, ["/root/in/a.txt", "/root/in/c.txt"], "search")
        osb("file", "replace", id, "/root/in/c.txt", "--old", "third", "--new", "3rd")
        same(osb("file", "cat", id, "/root/in/c.txt").rstrip("\n"), "3rd", "replaced")
        osb("file", "chmod", id, "/root/in/c.txt", "--mode", "604", "--owner", "nobody", "--group", "nogroup")
        same(shell(id, "stat -c '%a %U %G' /root/in/c.txt"), "604 nobody nogroup\n", "permissions")
        osb("file", "mv", id, "/root/in/a.txt", "/root/in/d.txt")
        osb("file", "rm", id, "/root/in/b.bin")
        same(shell(id, "echo $(ls /root/in)"), "c.txt d.txt\n", "after move and delete")
        osb("file", "mkdir", id, "/root/x/y", "--mode", "750")
        same(shell(id, "stat -c %a /root/x/y"), "750\n", "made directory")
        osb("file", "rmdir", id, "/root/in")
        same(shell(id, "ls -d /root/in /root/x/y 2>/dev/null || true"), "/root/x/y\n", "removed directory")
        refused("404", "a missing file", "file", "cat", id, "/root/in/c.txt")
    return "no ranges, no list of a directory"


def big_files():
    with sandbox() as id, tempfile.TemporaryDirectory() as folder:
        local, back = pathlib.Path(folder) / "local", pathlib.Path(folder) / "back"
        data = os.urandom(suite.BIG)
        local.write_bytes(data)
        osb("file", "upload", id, local, "/root/big")
        same(shell(id, "sha256sum < /root/big").split()[0], hashlib.sha256(data).hexdigest(), "checksum inside")
        osb("file", "download", id, "/root/big", back)
        check(back.read_bytes() == data, "what came back differs")


def odd_names():
    with sandbox() as id:
        names = [f"/root/odd/{name}" for name in suite.ODD_NAMES]
        for name in names:
            osb("file", "write", id, name, "-c", f"in {name}")
            same(osb("file", "cat", id, name).rstrip("\n"), f"in {name}", f"content of {name!r}")
        found = sorted(each["path"] for each in ask("file", "search", id, "/root/odd", "-p", "*"))
        same(found, sorted(names), "search")
        osb("file", "mv", id, names[0], names[0] + " moved")
        same(osb("file", "cat", id, names[0] + " moved").rstrip("\n"), f"in {names[0]}", "moved")
        osb("file", "rm", id, names[0] + " moved", *names[1:])
        same(shell(id, "ls -A /root/odd"), "", "after delete")


def metrics():
    with sandbox("--resource", "cpu=1", "--resource", "memory=512Mi") as id:
        seen = ask("sandbox", "metrics", id)
        check(seen["cpu_count"] > 0, f"cpu count {seen['cpu_count']}")
        same(round(seen["memory_total_in_mib"]), 512, "total memory")
        check(0 < seen["memory_used_in_mib"] < 512, f"used memory {seen['memory_used_in_mib']}")


def endpoints(proxied):
    def ask_port():
        with sandbox("-e", "GREETING=hello", proxy=proxied) as id:
            shell(id, suite.LISTENER, proxy=proxied)
            endpoint = ask("sandbox", "endpoint", id, "-p", suite.LISTENER_PORT, proxy=proxied)
            same(endpoint["endpoint"].startswith(suite.SERVER.removeprefix("http://")), proxied, "way")
            answer = suite.fetch(f"http://{endpoint['endpoint']}/a/b?c=d%20e", endpoint.get("headers"))
            same(answer, (200, "hello /a/b?c=d%20e\n"), "answer of the port")
            same(shell(id, "echo $GREETING", proxy=proxied), "hello\n", "command")

    return ask_port


def state(id):
    status = ask("sandbox", "get", id)["status"]
    return status["state"] if isinstance(status, dict) else status


def pause_and_resume():
    with sandbox() as id:
        session = ask("command", "session", "create", id)["session_id"]
        osb("command", "session", "run", id, session, "--", "export", "KEPT=yes")
        osb("sandbox", "pause", id)
        same(state(id), "Paused", "state")
        refused("SANDBOX_NOT_RUNNING", "a second pause", "sandbox", "pause", id)
        osb("sandbox", "resume", id)
        same(state(id), "Running", "state")
        same(osb("command", "session", "run", id, session, "--", "printenv", "KEPT"), "yes\n", "session of before")


def renew():
    with sandbox("-t", "10m") as id:
        for wanted, seconds in (("30m", 1800), ("2m", 120)):
            osb("sandbox", "renew", id, "-t", wanted)
            check(seconds - 60 < left(id) <= seconds, f"{left(id)} s left instead of {seconds}")


def metadata():
    with sandbox("-m", "from=suite", "-m", "keep=1") as id:
        same(ask("sandbox", "get", id)["metadata"], {"from": "suite", "keep": "1"}, "metadata")
        same((listed("-m", "from=suite", "-m", "keep=1"), listed("-m", "keep=2")), ([id], []), "list")
    return "set at creation and filtered by; no command that changes it"


def snapshots():
    if not HAS_SNAPSHOTS:
        raise NotOffered("no command for snapshots")
    with sandbox() as id:
        shell(id, "echo kept > /root/note")
        snapshot = ask("snapshot", "create", id, "--name", "from-suite")["id"]

        def seen():
            status = ask("snapshot", "get", snapshot)["status"]
            return status["state"] if isinstance(status, dict) else status

        try:
            while (now := seen()) == "Creating":
                pass
            same(now, "Ready", "state")
            check(snapshot in osb("snapshot", "list", "-o", "json"), "list")
            shell(id, "echo changed > /root/note; echo new > /root/later")
            with sandbox("--snapshot-id", snapshot) as restored:
                same(shell(restored, "cat /root/note; ls /root/later 2>/dev/null || true"), "kept\n", "files")
        finally:
            osb("snapshot", "delete", snapshot)
        refused("NOT_FOUND", "a deleted snapshot", "snapshot", "get", snapshot)


def errors():
    refused("INVALID_API_KEY", "a wrong key", "sandbox", "list", key="guess")
    refused("SANDBOX_NOT_FOUND", "an unknown sandbox", "sandbox", "get", suite.UNKNOWN_ID)
    refused("lots", "bad resources", "sandbox", "create", "-i", suite.IMAGE, "--resource", "memory=lots")
    refused("timeout", "a timeout below a minute", "sandbox", "create", "-i", suite.IMAGE, "-t", "5s")
    with sandbox() as id:
        refused("404", "a missing file", "file", "cat", id, "/root/none")


def network_policy():
    policy = pathlib.Path("policy.json")
    policy.write_text(json.dumps({"defaultAction": "deny", "egress": [{"action": "allow", "target": suite.ALLOWED}]}))
    with sandbox("--network-policy-file", str(policy)) as id:
        def reached():
            return [shell(id, suite.REACH + name).strip() for name in (suite.ALLOWED, suite.OTHER)]

        same(ask("egress", "get", id)["egress"], [{"action": "allow", "target": suite.ALLOWED}], "rules")
        same(reached(), ["yes", "no"], "the policy")
        osb("egress", "patch", id, "--rule", f"allow={suite.OTHER}", "--rule", f"deny={suite.ALLOWED}")
        same(reached(), ["no", "yes"], "the patched policy")
    return "no command that removes rules"


def parallel():
    making = [Command("sandbox", "create", "--ready-timeout", "240s", "-i", suite.IMAGE, "-e", f"N={n}", "-o", "json")
              for n in range(suite.PARALLEL)]
    made = [each.done() for each in making]
    ids = [json.loads(out)["id"] for code, out, _ in made if code == 0]
    try:
        failed = [errors for code, _, errors in made if code]
        check(not failed, f"{len(failed)} of {suite.PARALLEL} creates failed: {failed[:1]}")
        asking = [Command("command", "run", id, "-o", "raw", "--", "sh", "-c", "echo $N") for id in ids]
        same([each.done()[1] for each in asking], [f"{n}\n" for n in range(suite.PARALLEL)], "answers")
    finally:
        if ids:
            osb("sandbox", "kill", *ids)


# --- what only newer versions have


def create_from_file(**fields):
    """Of a request file, in the wire format."""
    file = pathlib.Path("request.json")
    file.write_text(json.dumps(fields))
    return ask("sandbox", "create", "--ready-timeout", "240s", "-f", file)["id"]


def hooks():
    lifecycle = {"preStart": {"command": ["sh", "-c", "echo prepared > /tmp/prepared"]},
                 "periodic": [{"name": "tick", "schedule": "@every 1s", "command": ["touch", "/tmp/ticked"]}]}
    id = create_from_file(image=suite.IMAGE, lifecycle=lifecycle,
                          entrypoint=["sh", "-c", "cp /tmp/prepared /tmp/seen; exec sleep 1000"])
    try:
        same(shell(id, "until test -e /tmp/seen; do sleep 0.05; done; cat /tmp/seen"), "prepared\n",
             "the entrypoint's view")
        shell(id, "until test -e /tmp/ticked; do sleep 0.05; done")
    finally:
        osb("sandbox", "kill", id)
    broken = pathlib.Path("broken.json")
    broken.write_text(json.dumps({"image": suite.IMAGE, "lifecycle": {"preStart": {"command": ["false"]}}}))
    code, _, _ = Command("sandbox", "create", "--ready-timeout", "10s", "-f", broken).done()
    for id in listed():
        while code == 0:  # execd answers while preStart runs: the client may have seen the sandbox before the failure
            seen = ask("sandbox", "get", id)["status"]
            if seen["state"] in ("Failed", "Terminated"):
                check("preStart" in seen["message"], f"how it ended: {seen}")
                break
        osb("sandbox", "kill", id)


def idle_and_renewal():
    file = pathlib.Path("idle.json")
    for lifecycle in ({"idlePolicy": {"idleTimeoutSeconds": 1800, "onIdle": "pause"}},
                      {"renewalPolicy": {"extendSeconds": 1800}}):
        file.write_text(json.dumps({"image": suite.IMAGE, "lifecycle": lifecycle}))
        refused("lifecycle", "a policy that this version does not know", "sandbox", "create", "-f", file)
    raise NotOffered("lifecycle of a request file has no idlePolicy and no renewalPolicy")


def templates():
    words = ("-i", suite.IMAGE, "-p", "local://", "-e", "COLOUR=blue", "-m", "from=suite", "--format", "native",
             "--readiness-probe", "cmd://test -e /root/warm", "--entrypoint", "sh", "--entrypoint", "-c",
             "--entrypoint", "echo warm > /root/warm; exec sleep 1000")
    made = ask("template", "create", *words)["template_id"]

    def status():
        return ask("template", "get", made)["status"]

    try:
        while (now := status())["phase"] in ("Pending", "Building"):
            pass
        same(now["phase"], "Succeeded", f"phase ({now.get('message')})")
        check(made in osb("template", "list", "-m", "from=suite", "-o", "json"), "list")
        id = ask("sandbox", "create", "--template", made, "-t", "10m", "--ready-timeout", "240s")["id"]
    finally:
        osb("template", "delete", made)
    try:
        same(shell(id, "echo $(cat /root/warm) $COLOUR"), "warm blue\n", "files and environment")
    finally:
        osb("sandbox", "kill", id)
    refused("TEMPLATE_NOT_FOUND", "a deleted template", "template", "get", made)
    while listed("-m", f"template={made}"):  # the sandbox of its build goes by itself
        pass


def diagnostics():
    with sandbox("--entrypoint", "sh", "--entrypoint", "-c", "--entrypoint",
                 "echo said by the entrypoint; exec sleep 1000") as id:
        while "said by the entrypoint" not in (logs := ask("diagnostics", "logs", id, "-s", "container"))["content"]:
            pass
        same((logs["sandbox_id"], logs["kind"], logs["scope"]), (id, "logs", "container"), "logs")
        check(ask("diagnostics", "events", id, "-s", "runtime")["content"], "no events")
        refused("DIAGNOSTICS_SCOPE_UNSUPPORTED", "an unknown scope", "diagnostics", "logs", id, "-s", "else")


def newer():
    """The first version with templates has all of these commands, or none."""
    if "template" not in cli.commands:
        return {}
    return {"hooks": hooks, "idle and renewal policy": idle_and_renewal, "templates": templates,
            "isolated sessions": no_command("isolated"), "diagnostics": diagnostics, "code execution": no_command("code")}


def no_command(name):
    def missing():
        check(not any(name in command for command in cli.commands), f"there is a command for it: {list(cli.commands)}")
        raise NotOffered(f"no command '{name}'")

    return missing


if __name__ == "__main__":
    suite.main({**suite.checks_of(globals()), "50 in parallel": parallel, **newer()})
