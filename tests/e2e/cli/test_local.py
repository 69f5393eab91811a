"""osb without a server: help, configuration, skills, completion scripts (which ask one for ids)."""

import http.server
import json
import re
import subprocess
import threading

import pytest
from osb_program import Osb, osb_binary


def test_version_and_help(osb):
    assert osb.ok("--version").startswith("opensandbox, version ")
    root = osb.ok()
    assert root == osb.ok("--help") == osb.ok("-h")
    for group in ("sandbox", "command", "file", "egress", "credential-vault", "config", "diagnostics", "devops", "skills"):
        assert f"\n  {group} " in root
        text = osb.ok(group)
        assert text == osb.ok(group, "--help")
        assert text.startswith(f"Usage: osb {group} [OPTIONS] COMMAND [ARGS]...\n")
    assert "--network-policy-file PATH" in osb.ok("sandbox", "create", "-h")
    assert all(len(line) <= 80 for line in osb.ok("sandbox", "create", "-h").splitlines())


def test_config_commands(osb, tmp_path):
    path = tmp_path / ".opensandbox" / "config.toml"
    del osb.env["OPEN_SANDBOX_DOMAIN"], osb.env["OPEN_SANDBOX_API_KEY"]
    assert osb.json("config", "show")["config_file_exists"] is False
    assert "osb config init" in osb.refused("config", "set", "connection.domain", "x")
    assert osb.ok("config", "init") == f"OK: Config file created: {path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    done = osb.run("config", "init")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.decode() == f"WARN: Config file already exists at {path}. Use --force to overwrite.\n"
    assert osb.json("config", "init")["status"] == "warning"
    comments = [line for line in path.read_text().splitlines() if line.startswith("# ") and " = " not in line]
    osb.ok("config", "set", "connection.domain", "localhost:9090")
    osb.ok("config", "set", "connection.api_key", "abcdefgh")
    osb.ok("config", "set", "defaults.timeout", "none")
    osb.ok("config", "set", "profiles.prod.domain", "https://prod.example")
    osb.ok("config", "set", "profiles.prod.use_server_proxy", "true")
    text = path.read_text()
    assert all(line in text for line in comments)
    assert 'timeout = "none"  # or "none"' in text
    shown = osb.json("config", "show")
    assert shown == {"api_key": "ab****gh", "domain": "localhost:9090", "protocol": "http", "request_timeout": 30,
                     "use_server_proxy": False, "color": True, "default_image": None, "default_timeout": "none",
                     "config_path": str(path), "config_file_exists": True}
    prod = osb.json("--profile", "prod", "config", "show")
    assert (prod["domain"], prod["use_server_proxy"], prod["api_key"]) == ("https://prod.example", True, None)
    assert "localhost:9090" in prod["withheld_key"], "a key belongs to its server"
    assert osb.ok("config", "env") == ("export OPEN_SANDBOX_DOMAIN=localhost:9090\nexport OPEN_SANDBOX_PROTOCOL=http\n"
                                       "export OPEN_SANDBOX_API_KEY=abcdefgh\n")
    osb.env["OPEN_SANDBOX_PROFILE"] = "prod"
    assert osb.json("config", "env") == {"OPEN_SANDBOX_DOMAIN": "https://prod.example", "OPEN_SANDBOX_PROTOCOL": "http"}
    assert osb.json("config", "show")["profile"] == "prod"
    assert osb.json("--domain", "flag", "config", "show")["domain"] == "flag"
    assert "There is no profile 'none'" in osb.refused("--profile", "none", "sandbox", "list")


def test_config_get_and_unset(osb, tmp_path):
    osb.ok("config", "init")
    path = tmp_path / ".opensandbox" / "config.toml"
    before = path.read_text()
    assert "is not set" in osb.refused("config", "get", "connection.domain")
    osb.ok("config", "set", "connection.request_timeout", "60")
    assert osb.ok("config", "get", "connection.request_timeout") == "60\n"
    assert osb.json("config", "get", "connection.request_timeout") == {"key": "connection.request_timeout", "value": 60}
    osb.ok("config", "set", "profiles.prod.domain", "prod.example")
    osb.ok("config", "set", "connection.profile", "prod")
    assert osb.ok("config", "get", "profiles.prod.domain") == "prod.example\n"
    done = osb.run("config", "set", "connection.domain", "other")
    assert b"osb config unset connection.profile" in done.stderr, "the default profile has its own"
    for key in ("connection.profile", "profiles.prod", "connection.domain", "connection.request_timeout"):
        osb.ok("config", "unset", key)
    assert "is not set" in osb.ok("config", "unset", "profiles.prod")
    # A line that was set and removed is gone, the rest is as it was.
    gone = ('# profile = "staging"', '# domain = "localhost', "# request_timeout")
    assert path.read_text().splitlines() == [line for line in before.splitlines() if not line.startswith(gone)]


def test_config_set_refuses_invalid_values(osb, tmp_path):
    osb.ok("config", "init")
    path = tmp_path / ".opensandbox" / "config.toml"
    before = path.read_text()
    for words, said in ((["connection.domian", "x"], "connection.domain"), (["connection.request_timeout", "0"], "1 to 86400"),
                        (["connection.protocol", "ftp"], "http or https"), (["output.color", "blue"], "true or false"),
                        (["defaults.timeout", "soon"], "10m"), (["connection.profile", "none"], "profiles.none.domain")):
        assert said in osb.refused("config", "set", *words)
    assert path.read_text() == before
    assert osb.run("sandbox", "list").returncode == 0
    assert "abcdefgh" not in osb.ok("config", "set", "connection.api_key", "abcdefgh")


def test_a_broken_config_can_be_repaired(osb, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("[connection]\n# mine\nrequest_timeout = soon\n")
    for words in (["sandbox", "list"], ["config", "show"], ["config", "set", "output.color", "false"]):
        said = osb.run("--config", path, *words).stderr.decode()
        assert f"{path}:3" in said and "config init --force" in said, said
    assert osb.run("--config", path, "config", "show").returncode == 1
    assert "request_timeout = soon" in path.read_text()
    osb.ok("--config", path, "config", "set", "connection.request_timeout", "30")
    assert path.read_text() == "[connection]\n# mine\nrequest_timeout = 30\n"
    assert osb.json("--config", path, "config", "show")["request_timeout"] == 30
    path.write_text("[connection]\n# mine\nrequest_timeout = -5\n")
    said = osb.refused("--config", path, "sandbox", "list")
    assert f"{path}:3" in said and "request_timeout" in said
    osb.ok("--config", path, "config", "unset", "connection.request_timeout")
    osb.ok("--config", path, "sandbox", "list")
    path.write_text("[connection\n")
    assert "config init --force" in osb.refused("--config", path, "config", "set", "connection.domain", "x")
    osb.ok("--config", path, "config", "init", "--force")
    assert osb.json("--config", path, "config", "show")["config_file_exists"] is True


class Recorder(http.server.BaseHTTPRequestHandler):
    """A server that wants a key, and keeps what it is sent."""

    def do_GET(self):
        self.server.seen.append(str(self.headers))
        body = b'{"code": "MISSING_API_KEY", "message": "no key"}'
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("how", ["option", "variable", "profile"])
def test_a_key_is_not_sent_to_another_server(osb, tmp_path, how):
    osb.ok("config", "init")
    osb.ok("config", "set", "connection.domain", "127.0.0.1:1")
    osb.ok("config", "set", "connection.api_key", "secret-of-another")
    del osb.env["OPEN_SANDBOX_DOMAIN"], osb.env["OPEN_SANDBOX_API_KEY"]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        domain = f"127.0.0.1:{server.server_port}"
        words = ["--domain", domain] if how == "option" else ["--profile", "other"] if how == "profile" else []
        if how == "variable":
            osb.env["OPEN_SANDBOX_DOMAIN"] = domain
        osb.ok("config", "set", "profiles.other.domain", domain)
        said = osb.refused(*words, "sandbox", "list")
        assert "belongs to 127.0.0.1:1" in said and "--api-key" in said, said
        osb.run(*words, "doctor")
        # With the key of this server there is nothing to withhold.
        osb.run(*words, "--api-key", "the-right-one", "sandbox", "list")
        server.shutdown()
    assert len(server.seen) > 1 and "the-right-one" in server.seen[-1]
    assert "secret-of-another" not in "".join(server.seen)


def test_config_that_cannot_be_written(osb):
    assert "write /proc/none/config.toml" in osb.refused("--config", "/proc/none/config.toml", "config", "init")


class Slow(http.server.BaseHTTPRequestHandler):
    """A server with no sandboxes that answers when it is told to."""

    def do_GET(self):
        self.server.answer.wait(60)
        body = json.dumps({"items": [], "pagination": {"page": 1, "pageSize": 20, "totalItems": 0, "totalPages": 0,
                                                       "hasNextPage": False}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_progress_is_shown_while_a_terminal_waits(osb):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.answer = threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        osb.env["OPEN_SANDBOX_DOMAIN"] = f"127.0.0.1:{server.server_port}"
        with osb.terminal("sandbox", "list") as terminal:
            terminal.expect("Fetching sandboxes...")
            server.answer.set()
            terminal.expect(r"\r\x1b\[K.*No sandboxes found.")  # gone before the answer is written
            assert terminal.wait() == 0
        done = osb.run("sandbox", "list")
        assert (done.stdout, done.stderr) == (b"INFO: No sandboxes found.\n", b"")
        server.shutdown()


def test_output_without_a_reader(osb):
    with open("/dev/full", "wb") as full:
        process = osb.start("--help", stdout=full)
        assert process.wait(60) == 1
        assert process.stderr.read() == b"Error: The output could not be written: No space left on device.\n"
        process.stderr.close()


def test_skills(osb, tmp_path):
    listed = osb.json("skills", "list", cwd=tmp_path)
    assert len(listed["skills"]) == 6 and len(listed["targets"]) == 14
    shown = osb.json("skills", "show", "Command-Execution")
    assert shown["skill"] == "command-execution"
    assert all(shown[key] for key in ("when_to_use", "quick_start", "json_shapes", "content"))
    notes = tmp_path / ".windsurfrules"
    notes.write_text("mine\n")
    done = osb.json("skills", "install", "file-operations", "-t", "windsurf", "--scope", "project", cwd=tmp_path)
    assert done["operations"][0]["status"] == "installed"
    assert notes.read_text().startswith("mine\n\n<!-- BEGIN opensandbox-file-operations -->\n# OpenSandbox File Operations\n")
    osb.ok("skills", "uninstall", "file-operations", "-t", "windsurf", "--scope", "project", cwd=tmp_path)
    assert notes.read_text() == "mine\n"
    done = osb.json("skills", "install", "--all-builtins", "-t", "claude", "--scope", "global", cwd="/")
    assert {each["path"] for each in done["operations"]} == {
        str(tmp_path / ".claude" / "skills" / skill["slug"] / "SKILL.md") for skill in listed["skills"]}
    said = osb.refused("skills", "install", "file-operations", code=2)
    assert "--target" in said and "osb skills install" in said


def test_commands_in_the_skills_exist(osb):
    """Every `osb group command` that a skill shows is one."""
    for skill in osb.json("skills", "list")["skills"]:
        content = osb.json("skills", "show", skill["slug"])["content"]
        lines = [line.split() for line in content.splitlines() if line.startswith("osb ")]
        assert lines
        for words in lines:
            words = [word for word in words[1:] if not word.startswith("-")]
            depth = 3 if words[1] in ("session", "credential", "binding") and words[0] in ("command", "credential-vault") else 2
            if words[0] in ("doctor", "run", "up", "cp"):
                depth = 1
            assert osb.ok(*words[:depth], "--help").startswith(f"Usage: osb {' '.join(words[:depth])} [OPTIONS]"), words


# --- completion

def complete(osb, shell, line, path):
    """The completions that a real shell offers for `line`, which ends where the cursor is."""
    words = line.split(" ")
    environment = {**osb.env, "PATH": path}
    if shell == "bash":
        # bash cuts words at colons too
        words = [part for word in words for part in (re.split("(:)", word) if word else [""])]
        words = words[:-1] if words[-2:] == [":", ""] else words
        script = f"""eval "$(osb completion bash)"; COMP_WORDS=({' '.join(w or "''" for w in words)})
            COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_CWORD={len(words) - 1}; _osb_complete; printf '%s\\n' "${{COMPREPLY[@]}}" """
        command = ["bash", "--norc", "-c", script]
    else:
        command = ["fish", "--no-config", "-c", f"osb completion fish | source; complete -C '{line}'"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [each.split("\t")[0] for each in done.stdout.splitlines() if each]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "osb").symlink_to(osb_binary())
    return f"{tmp_path / 'bin'}:/usr/bin:/bin"


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completion(osb, server, path, shell):
    id = server.create()["id"]
    assert complete(osb, shell, "osb sand", path) == ["sandbox"]
    assert set(complete(osb, shell, "osb command session ", path)) == {"create", "run", "delete"}
    assert complete(osb, shell, "osb sandbox create --net", path) == ["--network-policy-file"]
    assert set(complete(osb, shell, "osb sandbox get x -o ", path)) == {"table", "json", "yaml"}
    assert complete(osb, shell, "osb sandbox get ", path) == [id]
    assert complete(osb, shell, f"osb sandbox kill {id[:4]}", path) == [id]
    assert complete(osb, shell, f"osb --no-color command run {id[:6]}", path) == [id]
    server.delete(id)
    assert complete(osb, shell, "osb sandbox get ", path) == []


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completion_of_names_images_and_remote_paths(osb, server, path, shell):
    id = server.create(metadata={"name": "web"})["id"]
    assert complete(osb, shell, "osb exec ", path) == ["web"]
    assert complete(osb, shell, "osb exec w", path) == ["web"]
    assert complete(osb, shell, f"osb exec {id[:4]}", path) == [id]
    assert "host" in complete(osb, shell, "osb run -it ho", path)
    osb.ok("exec", "web", "sh", "-c", "mkdir -p /tmp/box/dir; touch /tmp/box/file /tmp/box/.hidden")
    begun = "" if shell == "bash" else "web:"  # bash replaces only what stands behind the colon
    assert "web:" in complete(osb, shell, "osb cp we", path)
    assert sorted(complete(osb, shell, "osb cp web:/tmp/box/", path)) == [f"{begun}/tmp/box/dir/", f"{begun}/tmp/box/file"]
    assert complete(osb, shell, "osb cp x web:/tmp/box/f", path) == [f"{begun}/tmp/box/file"]
    assert complete(osb, shell, "osb cp web:/tmp/box/.", path) == [f"{begun}/tmp/box/.hidden"]
    assert complete(osb, shell, "osb cp web:/tmp/none/", path) == []
    server.delete(id)


def test_completion_of_zsh(osb, server, path, tmp_path):
    script = osb.ok("completion", "zsh")
    assert script.startswith("#compdef osb opensandbox\n")
    id = server.create(metadata={"name": "web"})["id"]
    # _describe needs the line editor; what it is given shows what would be offered.
    check = """
        autoload -U compinit; compinit -D; eval "$(osb completion zsh)"
        [[ $_comps[osb] == _osb ]] || exit 3
        _describe() { print -rl -- "${(@P)4}"; }
        words=(osb sandbox get ''); CURRENT=4; _osb
        words=(osb sandbox cr); CURRENT=3; _osb
        words=(osb cp web:/etc/hostnam); CURRENT=3; _osb
    """
    done = subprocess.run(["zsh", "-f", "-c", check], env={**osb.env, "PATH": path}, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "web:Running host"
    assert third == r"web\:/etc/hostname"
    assert second.startswith("create:Create a sandbox")
    server.delete(id)


def test_completion_never_complains(osb):
    osb.env["OPEN_SANDBOX_DOMAIN"] = "127.0.0.1:1"
    done = osb.run("__complete", "--", "sandbox", "get", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert osb.ok("__complete", "--", "file", "upload", "x", "") == ":files\n"
    assert osb.ok("__complete", "--", "sandbox", "list", "--output", "=", "j") == "json\n"
    assert osb.ok("__complete", "--") == ""


def test_the_originals_completion_hook(osb):
    osb.env["_OSB_COMPLETE"] = "bash_source"
    assert osb.run().stdout.decode().startswith("# bash completion of osb\n")
