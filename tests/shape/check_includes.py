#!/usr/bin/env python3
"""Keeps the tree in the shape that ARCHITECTURE.md describes: check_includes.py [ROOT].

Prints one line per violation ("file:line: what") and exits 1 if there is any. Only the standard library is used.
"""

import pathlib
import re
import sys

MAX_LINES = 600
LONG_LINES = 400

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
TEST = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)")
# Sub-folders of runtime are backends that must not know each other.
BACKENDS = ("native", "docker", "kubernetes")
# Static glibc loads code at run time for these; what execd links must do without.
RUNTIME_LOADED = re.compile(r"\b(getaddrinfo|gethostbyname|getpwnam|getpwuid|getgrnam|getgrgid|iconv_open|dlopen)(_r)?\s*\(")
# openat2 answers EAGAIN during renames: sys/openat2.h repeats it, and nothing else calls it.
RAW_OPENAT2 = re.compile(r"\bSYS_openat2\b")
# Times come from base/clock.h, so that tests can set them. The timers of http run on a coarser clock (http/reactor.h).
OTHER_CLOCK = re.compile(r"::now\(\)|\btime\(nullptr\)|\bgettimeofday\(|\bclock_gettime\(CLOCK_(?!PROCESS_CPUTIME)")
OPENAT2 = pathlib.PurePath("src/sys/openat2.cc")
STATIC_MODULES = ("base", "sys", "archive", "async", "http", "otlp", "api", "execd", "taskexecutor")


def read_table(path):
    """modules.txt as {row: set of modules it may include, itself included}."""
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, colon, allowed = line.partition(":")
        if not colon or name in table:
            raise SystemExit(f"{path}:{number}: expected one 'module: others' row per module")
        table[name] = {name.removeprefix("apps/"), *allowed.split()}
    for name, allowed in table.items():
        unknown = allowed - {row.removeprefix("apps/") for row in table}
        if unknown:
            raise SystemExit(f"{path}: row {name} names {', '.join(sorted(unknown))}, which has no row")
    return table


class Checker:
    def __init__(self, root):
        self.root = root
        self.table = read_table(root / "tests" / "shape" / "modules.txt")
        self.modules = {row for row in self.table if "/" not in row}
        self.problems = []
        self.warnings = []
        self.tests = {}
        self.files = 0

    def run(self):
        for top in ("src", "apps", "tests", "fuzz", "bench", "sdks", "examples"):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in (".h", ".cc") and path.is_file():
                    self.check_file(path.relative_to(self.root))
        self.check_readmes()
        return not self.problems

    def problem(self, path, line, text):
        self.problems.append(f"{path}:{line}: {text}")

    def check_file(self, path):
        self.files += 1
        lines = (self.root / path).read_text(encoding="utf-8").splitlines()
        module = path.parts[1] if path.parts[0] == "src" and len(path.parts) > 2 else None
        if path.parts[0] == "src" and module not in self.modules:
            self.problem(path, 1, "belongs to no module of tests/shape/modules.txt")
            return
        if path.parts[0] in ("src", "apps"):
            self.check_length(path, len(lines))
        for number, line in enumerate(lines, 1):
            if match := INCLUDE.match(line):
                self.check_include(path, number, module, quoted=match[1], system=match[2])
            elif match := TEST.match(line):
                self.check_test_name(path, number, f"{match[1]}.{match[2]}")
            elif RAW_OPENAT2.search(line) and not is_test(path) and path != OPENAT2:
                self.problem(path, number, "SYS_openat2: call sys::openat2, which repeats the call after EAGAIN")
            elif module not in ("base", "http") and path.parts[0] in ("src", "apps") and not is_test(path) and OTHER_CLOCK.search(line):
                self.problem(path, number, "the time comes from a Clock, a Deadline, a Stopwatch or timestamp_now() of base")
            elif module in STATIC_MODULES and not is_test(path) and (match := RUNTIME_LOADED.search(line)):
                if not line.lstrip().startswith("//"):
                    self.problem(path, number, f"{match[1]} cannot be used in what execd links (static glibc)")

    def check_length(self, path, count):
        if count > MAX_LINES:
            self.problem(path, count, f"{count} lines; a file has one subject and at most {MAX_LINES} lines")
        elif count > LONG_LINES:
            self.warnings.append(f"{path}: {count} lines")

    def check_include(self, path, number, module, quoted, system):
        if path.parts[0] in ("sdks", "examples"):
            self.check_user_include(path, number, quoted, system)
            return
        if (quoted or system).startswith("opensandbox/"):
            row = self.table.get(module)
            if row is not None and "client" not in row:
                self.problem(path, number, f"<{quoted or system}>: {module} may not include client")
            return
        if system:
            if system.startswith("boost/beast") and not (module == "http" and path.suffix == ".cc"):
                self.problem(path, number, f"<{system}>: Beast stays inside src/http/*.cc")
            if system.startswith(("openssl/", "boost/asio/ssl")) and module != "tls":
                self.problem(path, number, f"<{system}>: OpenSSL stays inside src/tls")
            if system.startswith("nghttp2/") and path.name != "h2_session.cc":
                self.problem(path, number, f"<{system}>: nghttp2 stays inside src/intercept/h2_session.cc")
            return
        target = quoted.split("/")[0]
        top = path.parts[0]
        if target == "support":
            if top == "apps" or (top == "src" and not is_test(path)):
                self.problem(path, number, f'"{quoted}": only tests use tests/support')
            return
        if top in ("tests", "fuzz", "bench", "apps") and "/" not in quoted:
            return  # a neighbour in the same folder
        if "/" not in quoted:
            self.problem(path, number, f'"{quoted}": write it from src/, as "{module}/{quoted}"')
        elif target not in self.modules:
            self.problem(path, number, f'"{quoted}": {target} is no module of tests/shape/modules.txt')
        else:
            self.check_direction(path, number, module, quoted, target)

    def check_user_include(self, path, number, quoted, system):
        """The SDK's public headers, its tests and the examples stand for programs of users."""
        public = "include" in path.parts
        if public and system and system.startswith("boost/") and path.name != "async.h":
            self.problem(path, number, f"<{system}>: of the public headers only async.h needs Boost")
        if quoted and not quoted.startswith("opensandbox/") and (public or "/" in quoted):
            self.problem(path, number, f'"{quoted}": only the public headers are there for users')

    def check_direction(self, path, number, module, quoted, target):
        row = module or ("/".join(path.parts[:2]) if path.parts[0] == "apps" else None)
        allowed = self.table.get(row)
        if allowed is not None and target not in allowed:
            self.problem(path, number, f'"{quoted}": {row} may include {", ".join(sorted(allowed))}')
        if module == "runtime" == target and path.parts[2] in BACKENDS:
            other = quoted.split("/")[1]
            if other in BACKENDS and other != path.parts[2]:
                self.problem(path, number, f'"{quoted}": backends ignore each other')

    def check_test_name(self, path, number, name):
        first = self.tests.setdefault(name, f"{path}:{number}")
        if first != f"{path}:{number}":
            self.problem(path, number, f"test {name} exists already at {first}")

    def check_readmes(self):
        for folder in sorted(path for path in (self.root / "src").glob("*") if path.is_dir()):
            if any(folder.rglob("*.h")) or any(folder.rglob("*.cc")):
                if not (folder / "README.md").is_file():
                    self.problem(folder.relative_to(self.root) / "README.md", 1, "every module has a README.md")


def is_test(path):
    return path.name.endswith(("_test.cc", "_fixture.h")) or path.parts[0] in ("tests", "fuzz", "bench")


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    checker = Checker(root)
    ok = checker.run()
    for line in checker.warnings:
        print(f"note: {line}")
    for line in checker.problems:
        print(line)
    print(f"{checker.files} files, {len(checker.tests)} test names, {len(checker.problems)} problems")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
