#!/usr/bin/env python3
"""Every link of a Markdown file into the tree leads to a file that exists, and to a heading that it has.

check_links.py [ROOT]: prints one line per dead link ("file:line: where it leads") and exits 1 if there is any.
"""

import pathlib
import re
import sys
import urllib.parse

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(<?([^)\s>]+)>?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
NOT_OURS = ("build", ".git")
FENCE = re.compile(r"^\s*(```|~~~)")


def prose(path):
    """(number, line) of the lines outside fenced code, without what stands in backticks."""
    fence = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = FENCE.match(line)
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
        elif not fence:
            yield number, line


def anchors(path):
    """The ids that GitHub gives to the headings: lower case, without punctuation, spaces as hyphens."""
    found, seen = set(), {}
    for _, line in prose(path):
        heading = HEADING.match(line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def problems(root):
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root)
        if name.parts[0] in NOT_OURS or "node_modules" in name.parts:
            continue
        for number, line in prose(path):
            for match in LINK.finditer(re.sub(r"`[^`]*`", "``", line)):
                target = urllib.parse.unquote(match[1] or match[2])
                if re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                place, _, anchor = target.partition("#")
                file = (path.parent / place).resolve() if place else path
                if not file.exists():
                    yield f"{name}:{number}: {target}: no such file"
                elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                    yield f"{name}:{number}: {target}: no such heading"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    found = list(problems(root))
    print("\n".join(found) or "every link leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
