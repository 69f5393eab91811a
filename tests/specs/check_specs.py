#!/usr/bin/python3
"""Checks the OpenAPI documents in specs/: structure, references, schemas, examples, coverage of the contract.

Usage: check_specs.py [SPECS_DIR]
Prints one line per problem, "file#/json/pointer: what is wrong", and ends with "N checks passed".
Needs Debian's python3-yaml and python3-jsonschema.
"""

import json
import re
import sys
from pathlib import Path

import jsonschema
import yaml

HERE = Path(__file__).resolve().parent
DOCUMENTS = ["lifecycle.yaml", "diagnostics.yaml", "execd.yaml", "egress.yaml"]
METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"]
PATH_ITEM_KEYS = set(METHODS) | {"summary", "description", "servers", "parameters"}
OPERATION_KEYS = {"tags", "summary", "description", "operationId", "parameters", "requestBody", "responses",
                  "deprecated", "security", "servers"}
COMPONENT_KINDS = {"schemas", "responses", "parameters", "examples", "requestBodies", "headers", "securitySchemes"}
# Only these may be null in a response: the Python client raises on any other null.
NULLABLE_IN_RESPONSES = {"exit_code", "finished_at"}


class Loader(yaml.SafeLoader):
    """YAML that every tool reads alike: a bare timestamp and a repeated key are errors."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_timestamp(self, node):
        raise yaml.constructor.ConstructorError(None, None, f"quote {node.value}: many tools read it as a date",
                                                node.start_mark)


Loader.add_constructor("tag:yaml.org,2002:timestamp", Loader.construct_timestamp)

FORMATS = jsonschema.FormatChecker(formats=[])


@FORMATS.checks("date-time")
def is_date_time(value):
    pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)"
    return not isinstance(value, str) or re.fullmatch(pattern, value) is not None


@FORMATS.checks("uri-reference")
def is_uri_reference(value):
    return not isinstance(value, str) or re.search(r"\s", value) is None


def escape(part):
    return str(part).replace("~", "~0").replace("/", "~1")


def nulls_in(value, at=""):
    if isinstance(value, dict):
        for key, child in value.items():
            if child is None and key not in NULLABLE_IN_RESPONSES:
                yield f"{at}/{key}"
            yield from nulls_in(child, f"{at}/{key}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from nulls_in(child, f"{at}/{index}")


class Checker:
    """Checks one document. `problems` holds a line per failure, `passed` counts what held."""

    def __init__(self, name, document):
        self.name = name
        self.doc = document
        self.problems = []
        self.passed = 0
        self.used = set()
        self.examples = {}  # pointer of what was checked -> examples in it, so that shared parts are checked once
        self.operations = {}

    def check(self, ok, pointer, message):
        if ok:
            self.passed += 1
        else:
            self.problems.append(f"{self.name}#{pointer}: {message}")
        return bool(ok)

    # --- references ---------------------------------------------------------------------------------------------

    def resolve(self, ref):
        """The target of a local reference, or None."""
        if not ref.startswith("#/"):
            return None
        node = self.doc
        for part in ref[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and part in node:
                node = node[part]
            elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            else:
                return None
        return node

    def follow(self, node, pointer):
        """The node behind a chain of references, with its own pointer; None where the chain breaks."""
        for _ in range(8):
            if not (isinstance(node, dict) and "$ref" in node):
                return node, pointer
            pointer = node["$ref"][1:]
            node = self.resolve(node["$ref"])
        return None, pointer

    def check_references(self, node, pointer):
        if isinstance(node, dict):
            for key, value in node.items():
                here = f"{pointer}/{escape(key)}"
                if key == "example" or (key == "examples" and isinstance(value, list)):
                    continue  # plain values: a $ref in there would be data
                if key == "examples":
                    value = {name: entry for name, entry in value.items() if "$ref" in entry}
                if key == "$ref":
                    self.check(isinstance(value, str) and self.resolve(value) is not None, here,
                               f"{value} does not resolve inside this file")
                    self.used.add(value)
                elif key == "discriminator":
                    for ref in value.get("mapping", {}).values():
                        self.check(self.resolve(ref) is not None, here, f"{ref} does not resolve inside this file")
                else:
                    self.check_references(value, here)
        elif isinstance(node, list):
            for index, value in enumerate(node):
                self.check_references(value, f"{pointer}/{index}")

    def check_components(self):
        for kind, entries in self.doc.get("components", {}).items():
            self.check(kind in COMPONENT_KINDS, f"/components/{kind}", "unknown kind of component")
            for name in entries:
                pointer = f"/components/{kind}/{escape(name)}"
                self.check(re.fullmatch(r"[A-Za-z0-9._-]+", name), pointer, "bad component name")
                if kind != "securitySchemes":
                    self.check("#" + pointer in self.used, pointer, "nothing refers to this component")

    # --- schemas and examples -----------------------------------------------------------------------------------

    def check_schema(self, schema, pointer):
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
            self.passed += 1
        except jsonschema.SchemaError as error:
            at = "".join("/" + escape(part) for part in error.absolute_path)
            self.check(False, pointer + at, f"not a JSON Schema: {error.message}")
            return
        self.lint_schema(schema, pointer)

    def lint_schema(self, schema, pointer):
        """Likely mistakes that JSON Schema permits: a required name without a property, OpenAPI 3.0's nullable."""
        if not isinstance(schema, dict):
            return
        self.check("nullable" not in schema, pointer, "nullable is not JSON Schema, use a type list with 'null'")
        if "properties" in schema:
            for name in schema.get("required", []):
                self.check(name in schema["properties"], f"{pointer}/required", f"{name} is required but not described")
        for key in ("properties", "patternProperties", "$defs"):
            for name, child in schema.get(key, {}).items():
                self.lint_schema(child, f"{pointer}/{key}/{escape(name)}")
        for key in ("items", "additionalProperties", "not", "if", "then", "else"):
            self.lint_schema(schema.get(key), f"{pointer}/{key}")
        for key in ("allOf", "anyOf", "oneOf"):
            for index, child in enumerate(schema.get(key, [])):
                self.lint_schema(child, f"{pointer}/{key}/{index}")

    def check_value(self, value, schema, pointer):
        resolver = jsonschema.RefResolver(base_uri="", referrer=self.doc)
        validator = jsonschema.Draft202012Validator(schema, resolver=resolver, format_checker=FORMATS)
        try:
            errors = list(validator.iter_errors(value))
        except (jsonschema.RefResolutionError, jsonschema.exceptions.UnknownType, re.error) as error:
            self.check(False, pointer, f"schema cannot be applied: {str(error).splitlines()[0]}")
            return
        self.passed += not errors
        for error in errors:
            deepest = jsonschema.exceptions.best_match([error])
            at = "".join("/" + escape(part) for part in deepest.absolute_path)
            self.check(False, pointer + at, f"example does not match its schema: {deepest.message}")

    def check_stream(self, text, schema, pointer):
        """A stream on the wire: one bare JSON object per line, two LFs after each, nothing else."""
        if not self.check(isinstance(text, str) and text.endswith("\n\n"), pointer,
                          "an event stream example is the text on the wire and ends with two LFs"):
            return
        for index, line in enumerate(text[:-2].split("\n\n")):
            try:
                event = json.loads(line)
            except ValueError as error:
                self.check(False, pointer, f"event {index} is not JSON: {error}")
                continue
            self.check("\n" not in line and isinstance(event, dict), pointer, f"event {index} is not one bare JSON line")
            self.check_value(event, schema, f"{pointer}[event {index}]")

    def examples_of(self, node, pointer):
        """(pointer, value) of each example of a parameter, header or media type."""
        found = []
        if "example" in node:
            found.append((f"{pointer}/example", node["example"]))
        for name, entry in (node.get("examples") or {}).items():
            entry, at = self.follow(entry, f"{pointer}/examples/{escape(name)}")
            if self.check(isinstance(entry, dict) and "value" in entry, at, "example without a value"):
                found.append((f"{at}/value", entry["value"]))
        return found

    def check_content(self, content, pointer, response):
        """Checks the media types of a body; returns how many examples were found."""
        count = 0
        for media_type, media in content.items():
            at = f"{pointer}/content/{escape(media_type)}"
            if not self.check(isinstance(media, dict) and "schema" in media, at, "media type without a schema"):
                continue
            self.check_schema(media["schema"], f"{at}/schema")
            stream = media_type == "text/event-stream"
            if stream:
                if not self.check("x-item-schema" in media, at, "an event stream needs x-item-schema"):
                    continue
                self.check_schema(media["x-item-schema"], f"{at}/x-item-schema")
            examples = self.examples_of(media, at)
            self.check(examples, at, "body without an example")
            count += len(examples)
            for where, value in examples:
                self.check_value(value, media["schema"], where)
                if stream:
                    self.check_stream(value, media["x-item-schema"], where)
                if response and media_type == "application/json":
                    for null in nulls_in(value):
                        self.check(False, where + null, "null in a response breaks the Python client, leave it out")
        return count

    def check_described(self, node, pointer):
        """A parameter or header: a schema, and examples that match it. Returns the number of examples."""
        if pointer in self.examples:
            return self.examples[pointer]
        self.examples[pointer] = 0
        if not self.check(isinstance(node, dict) and "schema" in node, pointer, "no schema"):
            return 0
        self.check_schema(node["schema"], f"{pointer}/schema")
        examples = self.examples_of(node, pointer)
        for where, value in examples:
            self.check_value(value, node["schema"], where)
        self.examples[pointer] = len(examples)
        return len(examples)

    # --- operations ---------------------------------------------------------------------------------------------

    def check_parameters(self, path, item, operation, pointer):
        declared, count = {}, 0
        for source, base in ((item, pointer.rsplit("/", 1)[0]), (operation, pointer)):
            for index, entry in enumerate(source.get("parameters", [])):
                node, at = self.follow(entry, f"{base}/parameters/{index}")
                if node is None:
                    continue  # reported by check_references
                if not self.check({"name", "in"} <= node.keys() and node["in"] in ("path", "query", "header", "cookie"),
                                  at, "a parameter needs a name and a place"):
                    continue
                if source is operation:
                    key = (node["in"], node["name"])
                    self.check(key not in [k for k, base_of in declared.items() if base_of is operation], at,
                               f"parameter {node['name']} is declared twice")
                declared[(node["in"], node["name"])] = source
                self.check(node["in"] != "path" or node.get("required") is True, at, "a path parameter is required")
                self.check(node.get("description"), at, "parameter without a description")
                count += self.check_described(node, at)
        wanted = set(re.findall(r"\{([^{}]+)\}", path))
        given = {name for place, name in declared if place == "path"}
        for name in sorted(wanted - given):
            self.check(False, pointer, f"path parameter {{{name}}} is not declared")
        for name in sorted(given - wanted):
            self.check(False, pointer, f"path parameter {name} is declared but not in the path")
        self.passed += len(wanted & given)
        return count

    def requires(self, schema, names):
        """True when the schema, through references and allOf, demands all of these properties."""
        schema, _ = self.follow(schema, "")
        if not isinstance(schema, dict):
            return False
        demanded = set(schema.get("required", []))
        return names <= demanded or any(self.requires(part, names) for part in schema.get("allOf", []))

    def check_response(self, status, entry, pointer):
        node, at = self.follow(entry, pointer)
        if node is None:
            return 0
        seen = (at, status[0])
        if seen in self.examples:
            return self.examples[seen]
        self.check(isinstance(node.get("description"), str) and node["description"].strip(), at,
                   "response without a description")
        for name, header in node.get("headers", {}).items():
            header, where = self.follow(header, f"{at}/headers/{escape(name)}")
            if header is not None:
                self.check_described(header, where)
        content = node.get("content", {})
        if status[0] in "45":
            media = content.get("application/json", {})
            self.check("schema" in media and self.requires(media["schema"], {"code", "message"}), at,
                       "an error is JSON with code and message, never empty")
        elif status in ("200", "201", "202") and not content:
            self.check("Content-Length" in node.get("headers", {}), at,
                       "an empty success carries Content-Length: 0, or the JavaScript client fails")
        self.examples[seen] = self.check_content(content, at, response=True)
        return self.examples[seen]

    def check_websocket(self, node, pointer):
        for side in ("server", "client"):
            part, at = node.get(side, {}), f"{pointer}/{side}"
            if not self.check("schema" in part and part.get("examples"), at, "a WebSocket side needs schema and examples"):
                continue
            self.check_schema(part["schema"], f"{at}/schema")
            for index, value in enumerate(part["examples"]):
                self.check_value(value, part["schema"], f"{at}/examples/{index}")

    def check_operation(self, path, item, method, tags):
        operation, pointer = item[method], f"/paths/{escape(path)}/{method}"
        for key in operation:
            self.check(key in OPERATION_KEYS or key.startswith("x-"), f"{pointer}/{escape(key)}",
                       "unknown key of an operation")
        identifier = operation.get("operationId")
        if self.check(isinstance(identifier, str) and identifier, pointer, "operation without operationId"):
            self.check(identifier not in self.operations, f"{pointer}/operationId", f"{identifier} is used twice")
            self.operations[identifier] = (method.upper(), path)
        self.check(operation.get("summary"), pointer, "operation without a summary")
        self.check(operation.get("tags") and set(operation["tags"]) <= tags, pointer, "operation without a declared tag")
        schemes = self.doc.get("components", {}).get("securitySchemes", {})
        for index, requirement in enumerate(operation.get("security", self.doc.get("security", []))):
            for name in requirement:
                self.check(name in schemes, f"{pointer}/security/{index}", f"security scheme {name} is not defined")
        count = self.check_parameters(path, item, operation, pointer)
        if "requestBody" in operation:
            body, at = self.follow(operation["requestBody"], f"{pointer}/requestBody")
            if body is not None and self.check(body.get("content"), at, "request body without content"):
                count += self.check_content(body["content"], at, response=False)
        responses = operation.get("responses", {})
        self.check(any(str(status)[0] in "123d" for status in responses), f"{pointer}/responses", "no success response")
        for status, entry in responses.items():
            at = f"{pointer}/responses/{status}"
            if self.check(isinstance(status, str) and re.fullmatch(r"[1-5]\d\d|default", status), at,
                          "a status is a quoted three-digit string or default"):
                count += self.check_response(status, entry, at)
        if "x-websocket" in operation:
            self.check_websocket(operation["x-websocket"], f"{pointer}/x-websocket")
        self.check(count > 0, pointer, "operation without any example")

    def run(self):
        doc = self.doc
        if not self.check(isinstance(doc, dict) and isinstance(doc.get("paths"), dict) and doc["paths"], "",
                          "not an OpenAPI document: no paths"):
            return self
        self.check(re.fullmatch(r"3\.1\.\d+", str(doc.get("openapi"))), "/openapi", "must be an OpenAPI 3.1 version string")
        info = doc.get("info", {})
        for key in ("title", "version", "description"):
            self.check(isinstance(info.get(key), str) and info[key], f"/info/{key}", "missing")
        self.check(doc.get("servers"), "/servers", "missing")
        tags = [tag.get("name") for tag in doc.get("tags", [])]
        self.check(tags and len(tags) == len(set(tags)), "/tags", "tags must be declared once each")
        self.check_references(doc, "")
        self.check_components()
        for name, schema in doc.get("components", {}).get("schemas", {}).items():
            self.check_schema(schema, f"/components/schemas/{escape(name)}")
        for path, item in doc["paths"].items():
            pointer = f"/paths/{escape(path)}"
            self.check(path.startswith("/") and "?" not in path, pointer, "a path starts with / and has no query")
            for key in item:
                self.check(key in PATH_ITEM_KEYS or key.startswith("x-"), f"{pointer}/{escape(key)}",
                           "unknown key of a path")
            for method in METHODS:
                if method in item:
                    self.check_operation(path, item, method, set(tags))
        return self

    def check_coverage(self, table):
        """table: (METHOD, path, success statuses) of each operation that clients of the contract call."""
        for method, path, statuses in table:
            pointer = f"/paths/{escape(path)}/{method.lower()}"
            operation = self.doc.get("paths", {}).get(path, {}).get(method.lower())
            if self.check(operation is not None, pointer, f"{method} {path} of the contract is missing"):
                for status in statuses:
                    self.check(status in operation.get("responses", {}), f"{pointer}/responses",
                               f"{method} {path} must be able to answer {status}")


def load(path):
    return yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)


def read_table(path):
    """The contract's operations by document: lines of `document METHOD path status[,status]`."""
    table = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            document, method, route, statuses = line.split()
            table.setdefault(document, []).append((method, route, statuses.split(",")))
    return table


def main(argv):
    specs = Path(argv[1]) if len(argv) > 1 else HERE.parents[1] / "specs"
    table = read_table(HERE / "contract_operations.txt")
    passed, problems = 0, []
    for name in DOCUMENTS:
        try:
            document = load(specs / name)
        except (OSError, yaml.YAMLError) as error:
            problems.append(f"{name}#: cannot be read: {' '.join(str(error).split())}")
            continue
        checker = Checker(name, document).run()
        checker.check_coverage(table[name])
        passed += checker.passed
        problems += checker.problems
    for problem in problems:
        print(problem)
    print(f"{passed} checks passed" + (f", {len(problems)} failed" if problems else ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
