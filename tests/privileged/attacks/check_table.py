#!/usr/bin/env python3
"""Compares docs/attacks.md with the attacks that pytest finds here, on every backend; exit code 1: `make attacks` is due."""

import collections
import os
import pathlib
import re
import subprocess
import sys

from table import KINDS, TABLE, words

HERE = pathlib.Path(__file__).resolve().parent
FRAMES = HERE.parents[2] / "src" / "intercept" / "h2_attack_test.cc"


def collected(kind):
    """{(file, attack): ways}"""
    listed = subprocess.run([sys.executable, "-B", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(HERE)],
                            env={**os.environ, "BACKEND": kind}, cwd=HERE, capture_output=True, text=True)
    if listed.returncode != 0:
        sys.exit(f"pytest --collect-only on {kind}:\n{listed.stdout}{listed.stderr}")
    found = re.findall(r"^(?:\S*/)?(test_\w+\.py)::test_(\w+)", listed.stdout, re.MULTILINE)
    return collections.Counter((file, name.replace("_", " ")) for file, name in found)


def written(text):
    """{kind: {(file, attack): ways}} of the page."""
    out = {kind: {} for kind in KINDS}
    file = None
    for line in text.splitlines():
        if found := re.match(r"`(test_\w+\.py)`", line):
            file = found[1]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 2 + len(KINDS) or cells[0] in ("attack", "---"):
            continue
        for kind, cell in zip(KINDS, cells[2:]):
            if numbers := re.findall(r"\d+", cell):
                out[kind][file, cells[0]] = int(numbers[-1])
    return out


def differences(found, page):
    for kind in KINDS:
        for key in sorted(found[kind].keys() | page[kind].keys()):
            here, there = found[kind].get(key, 0), page[kind].get(key, 0)
            if here != there:
                yield f"{KINDS[kind]}: {key[0]}: {key[1]}: {here} ways in the tests, {there} in the page"


def differences_of_frames(source, page):
    """Of the tests in C++."""
    found = {words(name) for name in re.findall(r"^TEST_F\(H2Attack, (\w+)\)", source, re.MULTILINE)}
    written = set(re.findall(r"^\| ([^|]+) \| (?:yes|\*\*no\*\*) \|$", page, re.MULTILINE))
    yield from (f"{FRAMES.name}: {each}: not in the page" for each in sorted(found - written))
    yield from (f"{FRAMES.name}: {each}: in the page only" for each in sorted(written - found))


def main():
    wrong = list(differences({kind: collected(kind) for kind in KINDS}, written(TABLE.read_text())))
    wrong += differences_of_frames(FRAMES.read_text(), TABLE.read_text())
    if wrong:
        sys.exit("docs/attacks.md is not what the tests try; run `make attacks`:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
