"""Compares answers with the OpenAPI documents in specs/. Uses Debian's python3-yaml and python3-jsonschema, which the
tests' own environment does not have: one helper process of the system's Python checks them all."""

import json
import pathlib
import subprocess

SPECS = pathlib.Path(__file__).resolve().parents[2] / "specs"

HELPER = """
import json, pathlib, sys
import jsonschema, yaml
root = pathlib.Path(sys.argv[1])
docs = {}
for line in sys.stdin:
    name, schema, value = json.loads(line)
    if name not in docs:
        docs[name] = yaml.safe_load((root / name).read_text())
    document = dict(docs[name]["components"]["schemas"][schema])
    document["components"] = docs[name]["components"]
    errors = jsonschema.Draft202012Validator(document).iter_errors(value)
    print(json.dumps([f"{'/'.join(map(str, e.path))}: {e.message}" for e in errors]), flush=True)
"""


class SpecCheck:
    def __init__(self):
        self.process = subprocess.Popen(["/usr/bin/python3", "-c", HELPER, str(SPECS)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, document, schema, value):
        """Fails unless `value` is what `schema` of specs/`document` says."""
        print(json.dumps([document, schema, value]), file=self.process.stdin, flush=True)
        problems = json.loads(self.process.stdout.readline())
        assert problems == [], f"{document} {schema}: {problems}\n{value}"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
