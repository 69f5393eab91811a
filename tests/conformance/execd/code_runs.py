"""Code over real HTTP, for the suites about code: runs, streams that are read while the code runs, contexts."""

import contextlib
import json
import threading

import pytest
from execd_process import Execd
from test_commands import parse


class Run:
    """The events of a finished run, checked for what every run promises."""

    def __init__(self, events):
        self.events = [event for event in events if event["type"] != "ping"]
        self.types = [event["type"] for event in self.events]
        assert self.types[0] == "init" and self.types.count("init") == 1, self.types
        assert [event["seq"] for event in self.events] == list(range(1, len(self.events) + 1))
        assert self.types.count("execution_complete") <= 1 and self.types.count("error") <= 1
        assert self.types[-1] in ("execution_complete", "error"), self.types
        self.id = self.events[0]["text"]
        self.number = self.events[0]["run"]
        self.stdout = self._text("stdout")
        self.stderr = self._text("stderr")
        self.results = [event["results"] for event in self.events if event["type"] == "result"]
        self.error = next((event["error"] for event in self.events if event["type"] == "error"), None)
        self.counts = [event["execution_count"] for event in self.events if event["type"] == "execution_count"]
        for results in self.results:
            assert all(isinstance(value, str) for value in results.values())
            assert results.get("text") == results.get("text/plain")

    def _text(self, kind):
        assert all(event["text"] for event in self.events if event["type"] == kind)
        return "".join(event["text"] for event in self.events if event["type"] == kind)

    @property
    def ename(self):
        return self.error and self.error["ename"]

    @property
    def text(self):
        """The plain text of the value."""
        assert self.error is None, self.error
        return self.results[-1]["text"]


def body(code, context=None, language="python", **fields):
    named = {"language": language} if context is None else {"id": context, "language": language}
    return {"code": code, "context": named, **fields}


def run(execd, code, context=None, language="python", **fields):
    answer = execd.client.post("/code", json=body(code, context, language, **fields), timeout=120)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream"
    return Run(parse(answer.content))


def new_context(execd, language="python", **fields):
    answer = execd.client.post("/code/context", json={"language": language, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.json()["language"] == language
    return answer.json()["id"]


class Live:
    """A run that is still going on. `next()` gives one event after the other; `finish()` the whole run."""

    def __init__(self, response):
        self.events = []
        self._lines = response.iter_lines()

    def next(self):
        for line in self._lines:
            if line:
                event = json.loads(line)
                if event["type"] != "ping":
                    self.events.append(event)
                    return event
        return None

    def wait_output(self, text):
        seen = ""
        while text not in seen:
            event = self.next()
            assert event is not None, self.events
            seen += event.get("text", "") if event["type"] in ("stdout", "stderr") else ""

    def finish(self):
        while self.next() is not None:
            pass
        return Run(self.events)


@contextlib.contextmanager
def live(execd, code, context=None, language="python", **fields):
    with execd.client.stream("POST", "/code", json=body(code, context, language, **fields), timeout=120) as response:
        assert response.status_code == 200, response.read()
        yield Live(response)


def interrupt(execd, context):
    answer = execd.client.delete("/code", params={"id": context}, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-length"] == "0"


class LanguageContext:
    """A context of one language. Calling it runs code there. Its execd has a locale without UTF-8, as small images have it."""

    def __init__(self, language):
        self.language = language
        self.execd = Execd(env={"LC_ALL": "C", "EXECD_CODE_INTERRUPT_GRACE": "120s"})
        # A run waits as long as the start of its process takes; a request for a context 25 s.
        self.context = run(self.execd, "// begins", None, language).id

    def __call__(self, code, **fields):
        return run(self.execd, code, self.context, self.language, **fields)

    def other(self):
        """The same in a new context."""
        context = new_context(self.execd, self.language)
        return lambda code: run(self.execd, code, context, self.language)

    def check_interrupt(self, declares, code, reads):
        """`declares` makes a variable of value 1, `code` prints "on" and goes on for ever, `reads` is the variable."""
        self(declares)
        with live(self.execd, code, self.context, self.language) as going:
            going.wait_output("on")
            interrupt(self.execd, self.context)
            assert going.finish().ename == "KeyboardInterrupt"
        assert self(reads).text == "1"


def language_fixture(language):
    @pytest.fixture(scope="module")
    def in_language():
        made = LanguageContext(language)
        yield made
        made.execd.stop()

    return in_language


def check_missing_language(execd, language, package):
    """Of an execd whose PATH has no such language."""
    answer = execd.client.post("/code/context", json={"language": language})
    assert answer.status_code == 500 and package in answer.json()["message"]


def in_thread(function):
    """Starts it; the caller joins it and gets what it returned."""
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()

    def join():
        thread.join(120)
        assert result, "the thread failed or did not end"
        return result[0]

    return join
