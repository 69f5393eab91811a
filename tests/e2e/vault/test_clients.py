"""Clients as people have them, inside a sandbox with a credential vault: they trust the interceptor without a setting of
their own, and the key is put in outside. curl is in tests/privileged/attacks/test_credential_vault.py."""

import base64
import io
import os
import subprocess
import sysconfig
import tarfile

import pytest

from policy_world import THIRD
from tls_sites import GitHandler
from vault_world import BOUND, EVIL, PLAIN, SECRET

GIT = "git.bound.test"
BASIC = base64.b64encode(f"bot:{SECRET}".encode()).decode()
# As pip installs them: with a list of certificate authorities of their own (certifi).
PACKAGES = ["requests", "urllib3", "charset_normalizer", "idna", "certifi", "httpx", "httpcore", "h11", "anyio", "sniffio",
            "typing_extensions.py"]


def packages():
    home = sysconfig.get_path("purelib")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in PACKAGES:
            if os.path.exists(f"{home}/{name}"):
                archive.add(f"{home}/{name}", name)
    return out.getvalue()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A bare repository with one commit on its branch main."""
    place = tmp_path_factory.mktemp("git")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", place / "work"], check=True)
    (place / "work" / "README").write_text("hello\n")
    subprocess.run([*git, "-C", place / "work", "add", "README"], check=True)
    subprocess.run([*git, "-C", place / "work", "commit", "-q", "-m", "first"], check=True)
    subprocess.run([*git, "clone", "-q", "--bare", place / "work", place / "project.git"], check=True)
    subprocess.run(["git", "-C", place / "project.git", "config", "http.receivepack", "true"], check=True)
    return place / "project.git"


@pytest.fixture(scope="module")
def agent(vaults, repository):
    """A sandbox whose vault has a key for the API and one for the git server."""
    vaults.point(GIT, THIRD)
    vaults.site("git", THIRD, vaults.authority.context(GIT), replaces=EVIL, handler=GitHandler)
    vaults.sites["git"].root, vaults.sites["git"].wanted = repository.parent, f"Basic {BASIC}"
    vaults.sites["http " + PLAIN].files["/packages.tar.gz"] = packages()
    made = vaults.create()
    vaults.vault(made, "POST", {
        "credentials": [{"name": name, "source": {"value": value}} for name, value in (("key", SECRET), ("git", BASIC))],
        "bindings": [{"name": "api", "match": {"hosts": [BOUND]}, "auth": {"type": "bearer", "credential": "key"}},
                     {"name": "git", "match": {"hosts": [GIT]}, "auth": {"type": "basic", "credential": "git"}}]})
    made.output(f"""python3 -c "import io, tarfile, urllib.request
tarfile.open(fileobj=io.BytesIO(urllib.request.urlopen('http://{PLAIN}/packages.tar.gz').read())).extractall('/tmp/packages')" """)
    return made


def run(agent, text, program):
    """The output of a program that is given on standard input."""
    return agent.output(f"{program} <<'END'\n{text}\nEND")


def check(vaults, said, *paths, body=""):
    assert SECRET not in said and BASIC not in said
    seen = vaults.take(BOUND)
    assert [each["path"] for each in seen] == list(paths), said
    assert {each["headers"]["authorization"] for each in seen} == {f"Bearer {SECRET}"}
    assert seen[-1]["body"] == body


def test_requests_of_python(vaults, agent):
    said = run(agent, f"""
import requests
session = requests.Session()
answer = session.get('https://{BOUND}/one', headers={{'Authorization': 'Bearer unused'}})
print(answer.status_code, answer.text, answer.headers)
print(session.post('https://{BOUND}/two', data=(piece for piece in [b'some', b'thing'])).status_code)
""", "PYTHONPATH=/tmp/packages python3")
    assert said.startswith("200 here is " + BOUND) and said.endswith("\n200") and "[REDACTED]" in said, said
    check(vaults, said, "/one", "/two", body="something")


def test_httpx_of_python(vaults, agent):
    said = run(agent, f"""
import asyncio, httpx
with httpx.Client() as client:
    print(client.get('https://{BOUND}/one').text)
async def main():
    async with httpx.AsyncClient() as client:
        answers = await asyncio.gather(*[client.post('https://{BOUND}/two', content=b'x') for _ in range(3)])
        print([each.status_code for each in answers])
asyncio.run(main())
""", "PYTHONPATH=/tmp/packages python3")
    assert said == f"here is {BOUND}\n[200, 200, 200]", said
    check(vaults, said, "/one", "/two", "/two", "/two", body="x")


def test_fetch_of_node(vaults, agent):
    said = run(agent, f"""
const one = await fetch('https://{BOUND}/one');
console.log(one.status, await one.text());
const two = await fetch('https://{BOUND}/two', {{ method: 'POST', body: 'x', headers: {{ authorization: 'unused' }} }});
console.log(two.status, two.headers.get('x-echo'));
""", "node --input-type=module -")
    assert said == f"200 here is {BOUND}\n200 [REDACTED]", said
    check(vaults, said, "/one", "/two", body="x")


JAVA = f"""
import java.net.URI;
import java.net.http.*;
public class Main {{
  static HttpClient client = HttpClient.newHttpClient();
  static void ask(HttpRequest.Builder request) throws Exception {{
    HttpResponse<String> answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
    System.out.println(answer.statusCode() + " " + answer.body());
  }}
  public static void main(String[] given) throws Exception {{
    ask(HttpRequest.newBuilder(URI.create("https://{BOUND}/one")));
    ask(HttpRequest.newBuilder(URI.create("https://{BOUND}/two")).POST(HttpRequest.BodyPublishers.ofString("x")));
  }}
}}
"""


def test_http_client_of_java(vaults, agent, tmp_path):
    """Without a word about certificates, with options of the user's own, and with nothing in the environment."""
    (tmp_path / "Main.java").write_text(JAVA)
    subprocess.run(["javac", "-d", tmp_path, tmp_path / "Main.java"], check=True)
    program = base64.b64encode((tmp_path / "Main.class").read_bytes()).decode()
    agent.output(f"mkdir -p /tmp/java && base64 -d >/tmp/java/Main.class <<'END'\n{program}\nEND")
    expected = f"200 here is {BOUND}\n200 here is {BOUND}"
    for command in ("java", "JAVA_TOOL_OPTIONS=-Xmx64m java", "env -i /usr/bin/java"):
        said = agent.output(f"cd /tmp/java && {command} Main")
        assert said.replace("Picked up JAVA_TOOL_OPTIONS: -Xmx64m\n", "") == expected, said
        check(vaults, said, "/one", "/two", body="x")


def test_git_clones_and_pushes(vaults, agent, repository):
    said = agent.output(f"""set -e; cd /tmp; export GIT_TERMINAL_PROMPT=0 GIT_TEMPLATE_DIR=
git clone -q https://{GIT}/project.git && cd project && cat README
git config user.name agent; git config user.email agent@sandbox
head -c 3000000 /dev/urandom >large && git add large && git commit -q -m second
git push -q origin HEAD:refs/heads/work 2>&1; git ls-remote; cat .git/config; env""")
    assert said.startswith("hello") and "refs/heads/work" in said, said
    assert SECRET not in said and BASIC not in said
    shown = subprocess.run(["git", "-C", repository, "log", "--format=%s", "work"], capture_output=True, text=True, check=True)
    assert shown.stdout == "second\nfirst\n"
    assert {each["headers"].get("authorization") for each in vaults.take("git")} == {f"Basic {BASIC}"}
