#!/usr/bin/python3
"""Makes specs/openapi.json, what the server answers to GET /openapi.json, of lifecycle.yaml and diagnostics.yaml.

Usage: bundle_specs.py [--check] [SPECS_DIR]
With --check it writes nothing and fails when the file is not what it would write.
A component that both documents have in the same words is taken once; one that differs gets the prefix Diagnostics.
"""

import json
import sys
from pathlib import Path

from check_specs import load


def rename(node, names):
    """A copy of the document part in which references in `names` point at their new place."""
    if isinstance(node, dict):
        return {key: names.get(value, value) if key == "$ref" else rename(value, names) for key, value in node.items()}
    if isinstance(node, list):
        return [rename(value, names) for value in node]
    return node


def bundle(main, other, prefix):
    out = json.loads(json.dumps(main))
    names, taken = {}, []
    for kind, parts in other["components"].items():
        for name, part in parts.items():
            known = out["components"].get(kind, {}).get(name)
            # The API key is the same key; what differs is a sentence.
            if known == part or kind == "securitySchemes":
                continue
            if known is not None:
                names[f"#/components/{kind}/{name}"] = f"#/components/{kind}/{prefix}{name}"
            taken.append((kind, name if known is None else prefix + name, part))
    for kind, name, part in taken:
        out["components"].setdefault(kind, {})[name] = rename(part, names)
    for path, item in other["paths"].items():
        assert path not in out["paths"], path
        out["paths"][path] = rename(item, names)
    out["tags"] += other["tags"]
    out["info"]["description"] += "\n" + other["info"]["description"].split("\n\n", 1)[1]
    return out


def main(arguments):
    check = "--check" in arguments
    rest = [argument for argument in arguments if argument != "--check"]
    specs = Path(rest[0]) if rest else Path(__file__).resolve().parents[2] / "specs"
    document = bundle(load(specs / "lifecycle.yaml"), load(specs / "diagnostics.yaml"), "Diagnostics")
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    target = specs / "openapi.json"
    if not check:
        target.write_text(text, encoding="utf-8")
    elif not target.exists() or target.read_text(encoding="utf-8") != text:
        sys.exit(f"{target.name} is not what the documents say: run tests/specs/bundle_specs.py and commit it")


if __name__ == "__main__":
    main(sys.argv[1:])
