#!/usr/bin/env python3
"""Makes docs/attacks.md from the reports of the attacks, BACKEND.*.json and frames.json: table.py REPORTS."""

import argparse
import json
import pathlib
import re

KINDS = {"native": "native", "gvisor": "gVisor", "docker": "Docker", "podman": "Podman"}
TABLE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "attacks.md"

HEAD = """# Attacks that were tried

Each row is a test under `tests/privileged/attacks` that tries the attack on a real server. `make attacks` runs them and makes
this page. A column says how many ways were tried on that backend and held; – means that the attack has no object there, or,
of gVisor and Podman, that the wall is a program which does the same on native and on Docker.
Podman's own seccomp profile lacks some of the walls ([docker.md](docker.md#podman)).

"""


def read(directory):
    """{wall: {attack: {kind: row}}} in the order of the files."""
    walls = {}
    for kind in KINDS:
        rows = [row for file in sorted(directory.glob(f"{kind}.*.json")) for row in json.loads(file.read_text())]
        for row in rows:
            walls.setdefault((row["file"], row["wall"], row["second"]), {}).setdefault(row["attack"], {})[kind] = row
    return dict(sorted(walls.items()))


FRAMES = """
## Frames of HTTP/2

`src/intercept/h2_attack_test.cc`: frames made by hand, from a sandbox and from a host that a secret is bound to, against the
code that opens connections for credential vaults, the same on native, Docker and Podman. Behind it stands: it runs without
privilege, outside of the sandbox.

| attack | ended well |
|---|---|
"""


def words(name):
    """Of a test in C++: "ConnectIsNotPassedOn"."""
    return " ".join(re.findall(r"[A-Z][a-z0-9]*", name)).lower()


def read_frames(directory):
    """{attack: held} of GoogleTest's report."""
    report = json.loads((directory / "frames.json").read_text())
    return {words(test["name"]): test["result"] == "COMPLETED" and "failures" not in test
            for suite in report["testsuites"] for test in suite["testsuite"]}


def frames_table(frames):
    return FRAMES + "".join(f"| {attack} | {'yes' if held else '**no**'} |\n" for attack, held in frames.items())


def cell(row):
    if row is None:
        return "–"
    return str(row["ways"]) if row["held"] == row["ways"] else f"**{row['held']} of {row['ways']}**"


def page(walls, frames):
    ways = sum(max(row["ways"] for row in kinds.values()) for attacks in walls.values() for kinds in attacks.values())
    tried = sum(row["ways"] for attacks in walls.values() for kinds in attacks.values() for row in kinds.values())
    held = sum(row["held"] for attacks in walls.values() for kinds in attacks.values() for row in kinds.values())
    ways, tried, held = ways + len(frames), tried + len(frames), held + sum(frames.values())
    text = HEAD + f"{ways} attacks behind {len(walls) + 1} walls, tried {tried} times over the backends: {held} held.\n"
    for (file, wall, second), attacks in walls.items():
        text += f"\n## {wall}\n\n"
        text += f"`{file}`" + (f". Behind it stands: {second}.\n\n" if second else "\n\n")
        text += "| attack | by | " + " | ".join(KINDS.values()) + " |\n|---|---|" + "---:|" * len(KINDS) + "\n"
        for attack, kinds in attacks.items():
            by = next(iter(kinds.values()))["by"]
            text += f"| {attack} | {by} | " + " | ".join(cell(kinds.get(kind)) for kind in KINDS) + " |\n"
    return text + frames_table(frames)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=pathlib.Path)
    options = parser.parse_args()
    TABLE.write_text(page(read(options.reports), read_frames(options.reports)))


if __name__ == "__main__":
    main()
