"""The Java kernel: JShell's rules, errors with their place, interrupts."""

import pathlib
import shutil
import subprocess

import pytest
from code_runs import check_missing_language, interrupt, language_fixture, live, new_context, run

java = language_fixture("java")


def test_values_are_of_expressions_only(java):
    done = java("int result = 2 + 2;\nresult")
    assert done.types == ["init", "execution_count", "result", "execution_complete"]
    assert done.results == [{"text": "4", "text/plain": "4"}]
    assert java("result + 1").text == "5" and java("1 + 1").text == "2"
    assert java("result = 7").results == [] and java("int other = 1;").results == [] and java("// nothing").results == []
    assert java("new int[] {1, 2}").text == "int[2] { 1, 2 }"
    assert java('String text = "hü\\n\\"三 😀"; text').text == 'hü\n"三 😀'
    assert java("null").text == "null"


def test_snippets_of_a_cell_are_told_apart(java):
    for code, value in [
            ("int x = 6; x * 7\n\n", "42"), ("int x = 6", None), ("x = 1; x += 2; x", "3"), ("if (true) x = 1; else x = 2;\nx", "1"),
            ("do x++; while (x < 9);\nx", "9"), ("for (int i = 0; i < 3; i++) x += i; x", "12"), (r"""";" + '"' + "\\";""", ';"\\'),
            ("/* a; */ x /* ; b */ + 1 // ;c", "13"), ('String s = """\na;\n"""; s', "a;\n"), ("x++", "12"), ("x;", "13"),
            ("int[] a = {1, 2}; a[1]", "2"), ("import java.util.*; List.of(1)", "[1]"), ("Runnable r = () -> { int b; }; r == null", "false"),
            ("int a, b = 4; b", "4")]:
        done = java(code)
        assert (done.error, [each["text"] for each in done.results]) == (None, [] if value is None else [value]), code


def test_state_and_redeclarations_are_kept_between_runs(java):
    java("class Point { int x = 1; int sum(int y) { return x + y; } }\nrecord Pair(int a, int b) {}")
    assert java("var point = new Point(); point.sum(2)").text == "3"
    java("int sum(int a) { return a + later(); }")
    java("int later() { return 40; }")
    assert java("sum(2)").text == "42"
    assert java('String sum = "now text"; sum').text == "now text"
    assert java("List.of(3, 1, 2).stream().sorted().map(i -> i * 2).collect(Collectors.toList())").text == "[2, 4, 6]"


def test_packages_of_the_jshell_program_need_no_import(java):
    for code, value in [("1 + 1", "2"), ('new StringReader("x").read()', "120"), ("BigInteger.TEN", "10"), ('URI.create("a:b").getScheme()', "a"),
                        ('Path.of("/a").getFileName()', "a"), ("Map.of()", "{}"), ("TimeUnit.SECONDS", "SECONDS"),
                        ('Pattern.matches("a+", "aa")', "true"), ("Stream.of(1).count()", "1"),
                        ("Function<Integer, Integer> f = i -> i + 1; f.apply(1)", "2"), ("class Scanner {}\nnew Scanner() instanceof Scanner", "true")]:
        assert java(code).text == value, code


def test_code_with_very_many_names_runs(java):
    names = " ".join(f"Name{i}" for i in range(1100))
    assert java(f"/* {names} */ List.of()").text == "[]"


def test_output_comes_in_front_of_the_value(java):
    done = java('System.out.print("a"); System.out.println("ü三"); System.err.println("err"); 7')
    assert (done.stdout, done.stderr, done.text) == ("aü三\n", "err\n", "7")


def test_exceptions_have_their_message_and_place(java):
    done = java("int kept = 3;\n1 / 0")
    assert done.ename == "EvalException" and done.error["evalue"] == "java.lang.ArithmeticException: / by zero"
    done = java('void thrower(int n) {\n  if (n == 0) throw new IllegalStateException("outer", new RuntimeException("inner"));\n'
                "  thrower(n - 1);\n}\nthrower(2)")
    assert done.error["traceback"][0] == "java.lang.IllegalStateException: outer"
    assert sum("thrower (#" in line for line in done.error["traceback"]) == 6  # three calls, in both traces
    assert "Caused by: java.lang.RuntimeException: inner" in done.error["traceback"]
    assert java("kept").text == "3"


def test_code_that_does_not_compile_names_the_line(java):
    done = java("int fine = 1;\n\nint broken = nothing;")
    assert done.ename == "CompilationException" and done.error["evalue"].startswith("cannot find symbol")
    assert done.error["traceback"][0].startswith("line 3: cannot find symbol")
    assert java("int open = (").ename == "IncompleteSourceException"
    java("void caller() { missing(); }")
    assert java("caller()").ename == "UnresolvedReferenceException"
    assert java("fine").text == "1"


@pytest.mark.parametrize("code", ["while (true) {}", "Thread.sleep(1000000)", "new Object() { synchronized void f() throws Exception { wait(); } }.f()"])
def test_interrupt_keeps_the_state(java, code):
    java.check_interrupt("int kept = 1;", f'System.out.println("on"); {code}', "kept")


def test_kernel_that_takes_no_interrupt_is_killed_and_replaced(start_execd):
    execd = start_execd(env={"EXECD_CODE_INTERRUPT_GRACE": "100ms"})
    context = new_context(execd, "java")
    code = 'new ProcessBuilder("sh", "-c", "kill -STOP $PPID; echo on").inheritIO().start().waitFor();'
    with live(execd, code, context, "java") as going:
        going.wait_output("on")
        interrupt(execd, context)
        assert going.finish().ename == "KernelKilled"
    again = run(execd, "1", context, "java")
    assert again.text == "1" and "new process" in again.stderr


def test_kernel_that_exits_is_replaced(java):
    done = java('System.out.println("last"); System.exit(4)')
    assert done.stdout == "last\n" and done.ename == "KernelDied" and "exit status 4" in done.error["evalue"]
    assert java("1").text == "1"


def test_output_is_complete(java):
    done = java('String line = "x".repeat(999); for (int i = 0; i < 5000; ++i) System.out.println(line);')
    assert len(done.stdout) == 5_000_000 and done.error is None


def test_odd_text_survives(java):
    assert java('"\\ud800"').text == "\ufffd"
    assert java('System.out.println("\u2028\\u0001")').stdout == "\u2028\x01\n"
    long = java('"y".repeat(2_000_000)').text
    assert long.startswith("yyy") and long.endswith("[2000000 characters, cut]")


def test_subprocesses_do_not_get_the_socket(java):
    listed = java('new String(new ProcessBuilder("ls", "-l", "/proc/self/fd").start().getInputStream().readAllBytes())').text
    assert listed.count("->") == 4 and "memfd" not in listed


def compiles(execd, context):
    """Whether the process of a context has compiled its driver itself."""
    pid = run(execd, "ProcessHandle.current().pid()", context, "java").text
    return b"--source" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def test_driver_is_compiled_once_and_not_taken_from_a_context_with_variables(start_execd):
    execd = start_execd()
    with_variables, first, second = new_context(execd, "java", envs={"A": "b"}), new_context(execd, "java"), new_context(execd, "java", envs={"A": "b"})
    assert [compiles(execd, each) for each in (with_variables, first, second)] == [True, True, False]
    assert run(execd, 'System.getenv("A")', second, "java").text == "b"


def test_compiled_driver_that_does_not_start_is_given_up(start_execd, tmp_path):
    java = tmp_path / "java"
    java.write_text(f'#!/bin/sh\ncase "$*" in *" -cp "*) echo "no class path today"; exit 1;; esac\nexec {shutil.which("java")} "$@"\n')
    java.chmod(0o755)
    execd = start_execd(env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    new_context(execd, "java")
    refused = execd.client.post("/code/context", json={"language": "java"})
    assert refused.status_code == 500 and "no class path today" in refused.json()["message"]
    assert compiles(execd, new_context(execd, "java"))


def test_class_path_of_the_environment_holds(start_execd, tmp_path):
    (tmp_path / "Mine.java").write_text("package mine; public class Mine { public static int value() { return 7; } }\n")
    subprocess.run(["javac", "-d", tmp_path, tmp_path / "Mine.java"], check=True)
    execd = start_execd(env={"CLASSPATH": str(tmp_path)})
    first, second = new_context(execd, "java"), new_context(execd, "java")
    assert compiles(execd, first) and not compiles(execd, second)
    for context in (first, second):
        assert run(execd, "mine.Mine.value()", context, "java").text == "7"


def test_image_without_java_says_what_to_install(start_execd, tmp_path):
    check_missing_language(start_execd(env={"PATH": str(tmp_path)}), "java", "default-jdk-headless")
