#!/usr/bin/env python3
"""check_includes.py must find what it is there to find: every test plants one fault in a tiny tree."""

import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_duplicates  # noqa: E402
import check_includes  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent

GOOD = {
    "src/base/README.md": "base\n",
    "src/base/error.h": "#pragma once\n#include <string>\n",
    "src/http/README.md": "http\n",
    "src/http/server.h": '#include "base/error.h"\n#include "http/router.h"\n',
    "src/http/server.cc": '#include <boost/beast/core.hpp>\n#include "async/net.h"\n',
    "src/http/server_test.cc": '#include "support/await.h"\nTEST(Server, Answers) {}\n',
    "src/http/http_fixture.h": '#include "support/await.h"\n',
    "src/execd/README.md": "execd\n",
    "src/execd/command.cc": '#include "http/server.h"\n// getpwnam() would load NSS\n',
    "apps/execd/main.cc": '#include "execd/command.h"\n#include "local.h"\n',
    "sdks/cpp/include/opensandbox/sandbox.h": '#include <string>\n#include "opensandbox/error.h"\n',
    "sdks/cpp/include/opensandbox/async.h": "#include <boost/asio/awaitable.hpp>\n",
    "sdks/cpp/tests/sandbox_test.cc": '#include <opensandbox/sandbox.h>\n#include "fixture.h"\n',
    "examples/cpp/quickstart.cc": "#include <opensandbox/opensandbox.h>\n",
    "src/cli/README.md": "cli\n",
    "src/cli/run.cc": "#include <opensandbox/sandbox.h>\n",
    "tests/integration/x_test.cc": '#include "server/service.h"\n#include "support/await.h"\nTEST(X, Works) {}\n',
}


class Shape(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="osb-shape-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.write("tests/shape/modules.txt", (HERE / "modules.txt").read_text())
        for path, text in GOOD.items():
            self.write(path, text)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def problems(self):
        checker = check_includes.Checker(self.root)
        checker.run()
        return checker.problems

    def expect_one(self, *fragments):
        found = self.problems()
        self.assertEqual(len(found), 1, found)
        for fragment in fragments:
            self.assertIn(fragment, found[0])

    def test_good_tree_is_clean(self):
        self.assertEqual(self.problems(), [])

    def test_include_down_the_table(self):
        self.write("src/base/log.h", '#pragma once\n#include "http/server.h"\n')
        self.expect_one("src/base/log.h:2", "base may include base")

    def test_product_including_another_product(self):
        self.write("src/execd/bad.cc", '#include "server/service.h"\n')
        self.expect_one("src/execd/bad.cc:1", "execd may include")

    def test_execd_program_is_as_restricted_as_its_module(self):
        self.write("apps/execd/main.cc", '#include "tls/context.h"\n')
        self.expect_one("apps/execd/main.cc:1", "apps/execd may include")

    def test_backends_ignore_each_other(self):
        self.write("src/runtime/README.md", "runtime\n")
        self.write("src/runtime/native/x.cc", '#include "runtime/docker/y.h"\n#include "runtime/backend.h"\n')
        self.expect_one("src/runtime/native/x.cc:1", "backends ignore each other")

    def test_beast_in_a_header_or_another_module(self):
        self.write("src/http/leak.h", "#include <boost/beast/http.hpp>\n")
        self.expect_one("src/http/leak.h:1", "Beast stays inside")
        self.write("src/http/leak.h", "")
        self.write("src/execd/leak.cc", "#include <boost/beast/http.hpp>\n")
        self.expect_one("src/execd/leak.cc:1", "Beast stays inside")

    def test_openssl_outside_tls(self):
        self.write("src/http/ssl.cc", "#include <openssl/ssl.h>\n")
        self.expect_one("src/http/ssl.cc:1", "OpenSSL stays inside")

    def test_openat2_without_the_wrapper(self):
        self.write("src/execd/open.cc", "const long fd = ::syscall(SYS_openat2, root, path, &how, sizeof how);\n")
        self.expect_one("src/execd/open.cc:1", "sys::openat2")

    def test_a_clock_that_tests_cannot_set(self):
        self.write("src/base/clock.h", "return std::chrono::steady_clock::now();\n")
        self.write("src/execd/wait_test.cc", "const auto began = std::chrono::steady_clock::now();\n")
        self.assertEqual(self.problems(), [])
        for line in ("end = std::chrono::steady_clock::now() + limit;", "created = std::time(nullptr);",
                     "::clock_gettime(CLOCK_REALTIME, &now);"):
            self.write("src/execd/wait.cc", line + "\n")
            self.expect_one("src/execd/wait.cc:1", "from a Clock")

    def test_unknown_module_and_bare_name(self):
        self.write("src/http/a.cc", '#include "utils/x.h"\n')
        self.expect_one("utils is no module")
        self.write("src/http/a.cc", '#include "server.h"\n')
        self.expect_one('write it from src/, as "http/server.h"')

    def test_product_code_using_test_support(self):
        self.write("src/http/a.cc", '#include "support/await.h"\n')
        self.expect_one("only tests use tests/support")

    def test_module_without_readme(self):
        (self.root / "src/base/README.md").unlink()
        self.expect_one("src/base/README.md", "every module has a README.md")

    def test_folder_without_a_row(self):
        self.write("src/utils/README.md", "utils\n")
        self.write("src/utils/x.h", "#pragma once\n")
        self.expect_one("belongs to no module")

    def test_long_file(self):
        self.write("src/http/long.cc", "\n" * 600)
        self.assertEqual(self.problems(), [])
        self.write("src/http/long.cc", "\n" * 601)
        self.expect_one("601 lines")

    def test_public_headers_need_nothing_of_ours_and_no_boost(self):
        self.write("sdks/cpp/include/opensandbox/sandbox.h", '#include "base/error.h"\n')
        self.expect_one("sandbox.h:1", "only the public headers")
        self.write("sdks/cpp/include/opensandbox/sandbox.h", "#include <boost/asio/awaitable.hpp>\n")
        self.expect_one("sandbox.h:1", "only async.h needs Boost")

    def test_examples_use_what_users_have(self):
        self.write("examples/cpp/quickstart.cc", '#include "client/loop.h"\n')
        self.expect_one("quickstart.cc:1", "only the public headers")

    def test_sdk_in_a_module_that_may_not_use_it(self):
        self.write("src/http/a.cc", "#include <opensandbox/sandbox.h>\n")
        self.expect_one("src/http/a.cc:1", "http may not include client")

    def test_same_test_name_twice(self):
        self.write("src/http/router_test.cc", "TEST_F(Server, Answers) {}\n")
        self.expect_one("test Server.Answers exists already")

    def test_call_that_static_glibc_cannot_serve(self):
        self.write("src/execd/user.cc", "auto* entry = getpwnam(name);\n")
        self.expect_one("src/execd/user.cc:1", "getpwnam")


class Duplicates(unittest.TestCase):
    LINES = [f"call({number});" for number in range(check_duplicates.LEAST)]

    def found(self, **files):
        with tempfile.TemporaryDirectory(prefix="osb-shape-") as folder:
            paths = []
            for name, lines in files.items():
                paths.append(pathlib.Path(folder, f"{name}.cc"))
                paths[-1].write_text("\n".join(lines))
            found = check_duplicates.duplicates(paths)
            return [(path.stem, begin, end, other.stem, line) for path, begin, end, other, line in found]

    def test_copy_is_found_once_with_its_whole_length(self):
        copied = [*self.LINES, "one_more();"]
        self.assertEqual(self.found(a=["first();", *copied], b=[*copied, "last();"]), [("b", 1, 13, "a", 2)])

    def test_copy_within_one_file(self):
        self.assertEqual(self.found(a=[*self.LINES, "between();", *self.LINES]), [("a", 14, 25, "a", 1)])

    def test_comments_blank_lines_and_indentation_do_not_hide_a_copy(self):
        other = [text for line in self.LINES for text in ("// why", "", "    " + line)]
        self.assertEqual(len(self.found(a=self.LINES, b=other)), 1)

    def test_fewer_lines_and_includes_are_no_copy(self):
        self.assertEqual(self.found(a=self.LINES[1:], b=self.LINES[1:]), [])
        includes = [f"#include <header{number}>" for number in range(20)]
        self.assertEqual(self.found(a=includes, b=includes), [])

    def test_equal_lines_in_a_row_are_no_copy_of_themselves(self):
        self.assertEqual(self.found(a=["x();"] * (check_duplicates.LEAST + 3)), [])


if __name__ == "__main__":
    unittest.main()
