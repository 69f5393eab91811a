#!/usr/bin/env python3
"""The conformance table: recorded results (docs/conformance.json) as Markdown in docs/conformance.md, or on a terminal.

    table.py            prints it
    table.py --write    puts it into docs/conformance.md, between the two marks
    table.py --check    exits 1 when docs/conformance.md is not what the results give
"""

import json
import pathlib
import sys

from features import FEATURES, OPTIONAL

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = ROOT / "docs" / "conformance.json"
PAGE = ROOT / "docs" / "conformance.md"
BEGIN, END = "<!-- begin: made by tests/clients/table.py -->\n", "<!-- end: made by tests/clients/table.py -->\n"

SIGNS = {"works": ("✓", "32"), "not offered": ("–", "33"), "fails": ("✗", "31")}


def rows(client):
    """The features of a client's table."""
    return [name for name in [*FEATURES, *OPTIONAL] if any(name in each["results"] for each in client["versions"])]


def cell(found):
    if found is None:
        return "not run"
    if found["result"] == "works":
        return f"works ({_escaped(found['reason'])})" if found["reason"] else "works"
    return f"**{found['result']}**: {_escaped(found['reason'])}"


def _escaped(text):
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _line(cells):
    return "| " + " | ".join(cells) + " |\n"


def counts(version, backend):
    seen = [each.get(backend) for each in version["results"].values()]
    numbers = {kind: sum(1 for each in seen if each and each["result"] == kind) for kind in SIGNS}
    return ", ".join(f"{number} {kind}" for kind, number in numbers.items() if number) or "not run"


def markdown(recorded):
    backends = recorded["backends"]
    out = [f"State {recorded['commit']}, `{recorded['command']}`, backends: {', '.join(backends)}.\n\n"]
    out.append(_line(["client", "package", "version", "why this version", *backends]))
    out.append(_line(["---"] * (4 + len(backends))))
    for client in recorded["clients"]:
        for version in client["versions"]:
            if version["unavailable"]:
                results = [f"**could not be fetched**: {_escaped(version['unavailable'])}"] * len(backends)
            else:
                results = [counts(version, backend) for backend in backends]
            out.append(_line([client["name"], f"`{client['package']}` ({client['registry']})", version["version"],
                              _escaped(version["why"]), *results]))
    for client in recorded["clients"]:
        columns = [(version, backend) for version in client["versions"] if not version["unavailable"]
                   for backend in backends]
        if not columns:
            continue
        out.append(f"\n### {client['name']}\n\n")
        out.append(_line(["feature", *(f"{version['version']}, {backend}" for version, backend in columns)]))
        out.append(_line(["---"] * (1 + len(columns))))
        for name in rows(client):
            out.append(_line([name, *(cell(version["results"].get(name, {}).get(backend))
                                      for version, backend in columns)]))
    return "".join(out)


def terminal(recorded, colour):
    """One line per feature, one sign per client, version and backend; below, why those that do not work do not."""

    def painted(text, code):
        return f"\033[{code}m{text}\033[0m" if colour else text

    columns = [(client, version, backend) for client in recorded["clients"] for version in client["versions"]
               if not version["unavailable"] for backend in recorded["backends"]]
    out = []
    for number, (client, version, backend) in enumerate(columns):
        out.append(" " * 30 + " │ " * number + f" ┌ {client['name']} {version['version']} {backend}\n")
    reasons = []
    for name in [*FEATURES, *OPTIONAL]:
        line = f"{name:30}"
        for client, version, backend in columns:
            found = version["results"].get(name, {}).get(backend)
            sign, code = SIGNS[found["result"]] if found else (" ", "0")
            line += f" {painted(sign, code)} "
            if found and found["result"] != "works":
                reasons.append((found["result"], f"{client['name']} {version['version']} {backend}, {name}: "
                                                 f"{found['reason']}"))
        out.append(line.rstrip() + "\n")
    out.append("\n")
    for kind in ("not offered", "fails"):
        out += [f"{painted(kind, SIGNS[kind][1])}  {text}\n" for result, text in reasons if result == kind]
    for client in recorded["clients"]:
        out += [f"{painted('not fetched', '33')}  {client['name']} {each['version']}: {each['unavailable']}\n"
                for each in client["versions"] if each["unavailable"]]
    return "".join(out)


def failures(recorded):
    return sum(each["result"] == "fails" for client in recorded["clients"] for version in client["versions"]
               for found in version["results"].values() for each in found.values())


def page_with(text, page):
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{PAGE} lacks the marks that the table goes between"
    return before + BEGIN + "\n" + text + "\n" + END + after


def main():
    recorded = json.loads(RECORDED.read_text())
    page = PAGE.read_text()
    made = page_with(markdown(recorded), page)
    if "--write" in sys.argv:
        PAGE.write_text(made)
    elif "--check" in sys.argv:
        if made != page:
            sys.exit("docs/conformance.md is not what docs/conformance.json gives: run tests/clients/table.py --write")
        readme = (pathlib.Path(__file__).parent / "README.md").read_text()
        missing = [name for name in [*FEATURES, *OPTIONAL] if f"| `{name}` |" not in readme]
        if missing:
            sys.exit(f"tests/clients/README.md does not describe {missing}")
    else:
        sys.stdout.write(terminal(recorded, sys.stdout.isatty()))


if __name__ == "__main__":
    main()
