#!/usr/bin/env python3
"""Finds code that was copied: check_duplicates.py [ROOT].

Prints one line for each pair of places in src/ where the same 12 lines of code stand, and exits 1 if there is any.
Blank lines, comments, #include lines and the indentation do not count. Only the standard library is used.
"""

import pathlib
import re
import sys

LEAST = 12
SKIPPED = re.compile(r"^(?://.*|#\s*(?:include|pragma)\b.*|)$")


def code_lines(path):
    """(number, text) of the lines that count."""
    text = path.read_text(encoding="utf-8")
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in lines if not SKIPPED.match(line)]


def duplicates(files):
    """[(file, first line, last line, other file, first line there)], each run of equal lines once."""
    lines = {path: code_lines(path) for path in files}
    first, found = {}, []
    for path, here in lines.items():
        skip_until = 0
        for at in range(len(here) - LEAST + 1):
            window = tuple(line for _, line in here[at:at + LEAST])
            other, there = first.setdefault(window, (path, at))
            if (other, there) == (path, at) or at < skip_until:
                continue
            if other == path and there + LEAST > at:
                continue  # a run of equal lines that overlaps itself
            end = LEAST
            theirs = lines[other]
            while at + end < len(here) and there + end < len(theirs) and here[at + end][1] == theirs[there + end][1]:
                end += 1
            skip_until = at + end
            found.append((path, here[at][0], here[at + end - 1][0], other, theirs[there][0]))
    return found


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    files = sorted(path for path in (root / "src").rglob("*") if path.suffix in (".h", ".cc") and path.is_file())
    found = duplicates(files)
    for path, begin, end, other, line in found:
        print(f"{path.relative_to(root)}:{begin}: the lines up to {end} stand already at "
              f"{other.relative_to(root)}:{line}; make one of both")
    print(f"{len(files)} files, {len(found)} duplicates")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
