"""Shared by the suites of the Python clients: checks become lines of JSON. Uses the standard library only, because it
runs in the environment of the client under test."""

import json
import os
import pathlib
import re
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent

VERSION = os.environ["CLIENT_VERSION"]
CLIENT_DIR = pathlib.Path(os.environ["CLIENT_DIR"])
SERVER = os.environ["OSB_SERVER"]
KEY = os.environ["OSB_API_KEY"]
BACKEND = os.environ["OSB_BACKEND"]
IMAGE = os.environ["OSB_IMAGE"]
PROXY = os.environ["OSB_PROXY"] == "1"
PARALLEL = int(os.environ.get("OSB_PARALLEL", "50"))

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
ODD_NAMES = ["with space", "quo'te\"s", "per%20cent", "ha#sh", "what?", "a&b=c", "plus+plus", "ünï-三.txt", "new\nline",
             "-dash", "back\\slash", "semi;colon", "*star", "~tilde", ".hidden"]
LINES = 100000
BIG = 64 << 20
# A web server inside the sandbox; the command returns when it listens.
LISTENER = "python3 - <<'END'\n" + (HERE / "listener.py").read_text() + "END\n"
LISTENER_PORT = 8000
# Of the small internet that the sandboxes are beside (tests/support/fake_internet.py).
ALLOWED, OTHER = "allowed.example.com", "other.example.com"
# A command that says "yes" or "no": whether the web server of a name, which follows, answers.
REACH = """python3 -c 'import sys, urllib.request
try: print("yes" if urllib.request.urlopen("http://" + sys.argv[1], timeout=30).status == 200 else "no")
except OSError: print("no")' """
# The Authorization field that the web server of a name gets, or "none".
AUTHORIZATION = """python3 -c 'import sys, urllib.request
print(urllib.request.urlopen("http://" + sys.argv[1] + "/authorization", timeout=20).read().decode())' """


class NotOffered(Exception):
    """The client, or the server through it, says that there is no such thing."""


class Mismatch(AssertionError):
    pass


def same(seen, expected, what):
    if seen != expected:
        raise Mismatch(f"{what}: {_short(seen)} instead of {_short(expected)}")


def check(condition, what):
    if not condition:
        raise Mismatch(what)


def _short(value):
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def fetch(url, headers=None):
    """(status, text) of a GET, past any proxy of the environment."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, headers=headers or {})
    try:
        with opener.open(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def one_line(error):
    text = " ".join(f"{type(error).__name__}: {error}".split()) if not isinstance(error, Mismatch) else str(error)
    return re.sub(r" \| request_id=\w+", "", " ".join(text.split()))[:300]  # nothing that differs from run to run


def checks_of(file):
    """The checks that all clients have, by feature; `file` has the functions by name."""
    named = {
        "lifecycle": "lifecycle",
        "commands: foreground": "foreground",
        "commands: background": "background",
        "commands: interrupt": "interrupt",
        "commands: 100,000 lines": "many_lines",
        "sessions": "sessions",
        "files: every operation": "files",
        "files: big": "big_files",
        "files: odd names": "odd_names",
        "metrics": "metrics",
        "endpoints: direct": False,
        "endpoints: through the proxy": True,
        "pause and resume": "pause_and_resume",
        "renew": "renew",
        "metadata": "metadata",
        "snapshots": "snapshots",
        "errors": "errors",
        "network policy": "network_policy",
        "credential vault": "credential_vault",
    }
    named = {feature: name for feature, name in named.items() if feature not in ("network policy", "credential vault") or name in file}
    return {feature: file[name] if isinstance(name, str) else file["endpoints"](name) for feature, name in named.items()}


def main(checks):
    """`checks`: {feature: function}. A function that returns text has a remark about what works."""
    wanted = [each for each in os.environ.get("OSB_FEATURES", "").split(";") if each] or list(checks)
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the client prints by itself is no result
    for feature, function in checks.items():
        if feature not in wanted:
            continue
        begun = time.monotonic()
        try:
            result, reason = "works", function() or ""
        except NotOffered as error:
            result, reason = "not offered", one_line(error).removeprefix("NotOffered: ")
        except Exception as error:  # any exception of a client belongs into its cell
            result, reason = "fails", one_line(error)
            if os.environ.get("OSB_VERBOSE"):
                import traceback
                traceback.print_exc()
        line = {"feature": feature, "result": result, "reason": reason,
                "seconds": round(time.monotonic() - begun, 2)}
        output.write(json.dumps(line, ensure_ascii=False) + "\n")
        output.flush()
    sys.stdout.flush()
