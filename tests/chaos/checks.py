"""What has been promised against what is there: asked by the clients all the time, and by the oracle at the end."""

import datetime
import hashlib
import time

from api import Refused


class Broken(Exception):
    def __init__(self, promise, text):
        super().__init__(f"{promise}: {text}")
        self.promise = promise
        self.text = text


def digest(content):
    return hashlib.sha256(content).hexdigest()


def may_be_gone(known):
    return True in known.gone or time.time() > known.alive_until - 2


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def stamp(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def compare(known, shown):
    """What the server shows of a sandbox with what it has promised. A state that is on its way is none yet."""
    state = shown["status"]["state"]
    if state in ("Running", "Paused") and state not in known.states:
        raise Broken("states", f"{state}, promised {known.states}")
    if shown["metadata"] not in known.metadata:
        raise Broken("metadata", f"{shown['metadata']}, promised {known.metadata}")
    if moment(shown["expiresAt"]) not in [moment(each) for each in known.deadlines]:
        raise Broken("deadlines", f"{shown['expiresAt']}, promised {known.deadlines}")


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
