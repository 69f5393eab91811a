"""Compares promises with the real state. Clients do it all the time, the oracle at the end."""

import datetime
import hashlib
import json
import time

from api import Api, Refused
from known import moment

RECOVERY = 90  # seconds; more is not a recovery
# A create that failed: on a full disk, or because sandboxd was not there for long.
CREATE_FAILED = ("NATIVE::SANDBOX_START_FAILED", "NATIVE::SANDBOX_EXECD_START_FAILED", "NATIVE::UNAVAILABLE",
                 "NATIVE::ERROR", "NATIVE::DISK_LOW")


class Broken(Exception):
    def __init__(self, promise, text):
        super().__init__(f"{promise}: {text}")
        self.promise = promise
        self.text = text


def digest(content):
    return hashlib.sha256(content).hexdigest()


def may_be_gone(known):
    return True in known.gone or time.time() > known.alive_until - 2


def stamp(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def compare(known, shown):
    """Compares the server's view of a sandbox with its promises. States like Pausing are not judged."""
    state = shown["status"]["state"]
    if state in ("Running", "Paused") and state not in known.states:
        raise Broken("states", f"{state}, promised {known.states}")
    if shown["metadata"] not in known.metadata:
        raise Broken("metadata", f"{shown['metadata']}, promised {known.metadata}")
    if moment(shown["expiresAt"]) not in [moment(each) for each in known.deadlines]:
        raise Broken("deadlines", f"{shown['expiresAt']}, promised {known.deadlines}")


def check_end(known):
    """No fault ends a sandbox that has run: none reaches its processes, its entrypoint never ends, the host stays up. One
    that sandboxd no longer has (SANDBOX_LOST, SANDBOX_REMOVED) is forgotten, not ended."""
    if known.ran or known.ended.get("reason") not in CREATE_FAILED:
        raise Broken("sandboxes", f"{known.id} ended {'after it had run' if known.ran else ''}: {known.ended}")


def check_background(api, known, id):
    """Whether the background command has ended, and then as it should."""
    status = json.loads(api.execd(known.id, "GET", f"/command/status/{id}"))
    if status["running"]:
        return False
    output = api.execd(known.id, "GET", f"/command/{id}/logs").decode()
    lines = known.background.pop(id)
    wanted = [str(number) for number in range(1, lines + 1)] + ["end"]
    if status["exit_code"] != 0 or output.split() != wanted:
        raise Broken("commands", f"background {id} of {lines} lines: {status}, {output[-200:]!r}")
    return True


def check_served(api, known, direct):
    """Asks the program that listens in the sandbox, through the proxy or directly."""
    if not direct:
        status, text = api.request("GET", f"/v1/sandboxes/{known.id}/proxy/8000/word")
    else:
        # With a path where the address is not known yet: then it is the proxy.
        address, _, path = api.call("GET", f"/sandboxes/{known.id}/endpoints/8000")["endpoint"].partition("/")
        host, port = address.rsplit(":", 1)
        there = Api(int(port), "", host)
        try:
            status, text = there.request("GET", f"/{path}/word" if path else "/word")
        finally:
            there.close()
    if status >= 400:
        raise Refused("GET /word", status, text.decode(errors="replace"))
    if text.decode().strip() != known.serving:
        raise Broken("traffic", f"{text[:100]}, expected {known.serving}")


def check_file(api, known, path, promise):
    shas = known.files[path]
    try:
        sha = digest(api.download(known.id, path))
    except Refused as refused:
        if refused.status == 404 and refused.code == "FILE_NOT_FOUND":
            sha = None
        else:
            raise
    if sha not in shas:
        raise Broken(promise, f"{path} is {sha}, written: {shas}")
