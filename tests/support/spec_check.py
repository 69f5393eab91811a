"""Compares answers with the OpenAPI documents in specs/. Uses Debian's python3-yaml and python3-jsonschema, which the
tests' own environment does not have: one helper process of the system's Python checks them all."""

import contextlib
import json
import pathlib
import subprocess
import threading

import httpx

SPECS = pathlib.Path(__file__).resolve().parents[2] / "specs"

HELPER = r"""
import json, pathlib, re, sys
import jsonschema, yaml
root = pathlib.Path(sys.argv[1])
docs, validators = {}, {}

def document(name):
    if name not in docs:
        text = (root / name).read_text()
        docs[name] = json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    return docs[name]

def check(name, schema, value):
    key = name + json.dumps(schema)
    if key not in validators:
        whole = {**schema, "components": document(name)["components"]}
        validators[key] = jsonschema.Draft202012Validator(whole)
    return [f"{'/'.join(map(str, e.path))}: {e.message}" for e in validators[key].iter_errors(value)]

def resolve(name, node):
    while "$ref" in node:
        ref, node = node["$ref"], document(name)
        for part in ref[2:].split("/"):
            node = node[part]
    return node

def operations():
    out = []
    for path, item in document("openapi.json")["paths"].items():
        pattern = "".join("(?:.*)" if part == "{path}" else "[^/]+" if part.startswith("{") else re.escape(part)
                          for part in re.split(r"(\{[^}]*\})", path))
        out.append((path.count("{"), re.compile(pattern + "/?"), path, item))
    return sorted(out, key=lambda each: each[0])

known = operations()

def check_answer(method, path, status, kind, body):
    bare = path.removeprefix("/v1") or "/"
    below = "/" if bare == path else "/v1"
    for _, pattern, template, item in known:
        served = item.get("servers", document("openapi.json")["servers"])
        if pattern.fullmatch(bare) and below in [server["url"] for server in served]:
            break
    else:
        template, item = "", {}
    operation = item.get(method.lower())
    broken = re.search(r"%(?![0-9A-Fa-f]{2})|%00", path)
    if operation is None or broken:
        # No such route or method, or not a path at all.
        if status not in (401, 404, 405) and not (broken and status == 400):
            return [f"{status} for something that no document has"]
        return check("openapi.json", {"$ref": "#/components/schemas/ErrorResponse"}, body)
    responses = operation["responses"]
    answer = responses.get(str(status)) or responses.get("default")
    if answer is None:
        return [f"{method} {template} has no answer {status}"]
    if "{port}" in template and "/proxy/" in template:
        return []  # what comes from inside may be anything
    content = resolve("openapi.json", answer).get("content", {})
    if not content:
        return [f"{status} of {method} {template} has no body: {kind}"] if body not in (None, "") else []
    if kind not in content:
        return [f"{status} of {method} {template} is {kind!r}, not {list(content)}"]
    schema = content[kind].get("schema", {})
    return check("openapi.json", schema, body) if kind == "application/json" and body is not None else []

for line in sys.stdin:
    question = json.loads(line)
    if len(question) == 3:
        name, schema, value = question
        problems = check(name, document(name)["components"]["schemas"][schema], value)
    else:
        problems = check_answer(*question)
    print(json.dumps(problems), flush=True)
"""


class SpecCheck:
    def __init__(self):
        self.process = subprocess.Popen(["/usr/bin/python3", "-c", HELPER, str(SPECS)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lock = threading.Lock()
        self.right = set()  # hashes of questions without problems: many answers come again and again

    def ask(self, *question):
        line = json.dumps(question)
        with self.lock:
            if hash(line) in self.right:
                return []
            print(line, file=self.process.stdin, flush=True)
            problems = json.loads(self.process.stdout.readline())
            if not problems:
                self.right.add(hash(line))
            return problems

    def __call__(self, document, schema, value):
        """Fails unless `value` is what `schema` of specs/`document` says."""
        problems = self.ask(document, schema, value)
        assert problems == [], f"{document} {schema}: {problems}\n{value}"

    def response(self, response, whole):
        """Fails unless the lifecycle server's answer is one that its document has. `whole`: with its body."""
        request = response.request
        kind = response.headers.get("content-type", "").split(";")[0]
        body = None
        if whole:
            body = response.json() if kind == "application/json" else response.text
        path = request.url.raw_path.decode().split("?")[0]
        problems = self.ask(request.method, path, response.status_code, kind, body)
        assert problems == [], f"{request.method} {path}: {problems}\n{str(body)[:2000]}"
        assert len(response.headers.get_list("date")) == 1, f"{request.method} {path}: {response.headers}"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@contextlib.contextmanager
def every_answer_checked(is_ours):
    """Compares every answer that httpx gets from one of our servers (`is_ours`, called with a URL) with the
    document."""
    check = SpecCheck()
    send = httpx.Client.send

    def checked(self, request, *, stream=False, **options):
        response = send(self, request, stream=stream, **options)
        if is_ours(request.url) and request.method not in ("HEAD", "OPTIONS", "TRACE"):
            check.response(response, whole=not stream)
        return response

    httpx.Client.send = checked
    try:
        yield check
    finally:
        httpx.Client.send = send
        check.close()
