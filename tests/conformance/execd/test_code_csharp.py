"""The C# kernel with Mono: pieces of a cell, values, errors with their place, interrupts."""

import shutil

import pytest
from code_runs import check_missing_language, language_fixture
from test_commands import process_gone

pytestmark = pytest.mark.skipif(shutil.which("mcs") is None, reason="no Mono here: scripts/setup test installs it")
csharp = language_fixture("csharp")


def test_values_are_of_the_last_expression(csharp):
    done = csharp("int result = 2 + 2;\nresult")
    assert done.types == ["init", "execution_count", "result", "execution_complete"]
    assert done.results == [{"text": "4", "text/plain": "4"}]
    assert csharp("result + 1").text == "5"
    assert csharp("int a = 1; int b = 2; a + b").text == "3"
    assert csharp("int other = 1;").results == [] and csharp("// nothing").results == [] and csharp(";").results == []
    assert csharp('string text = "hü\\n\\"三 😀"; text').text == 'hü\n"三 😀'
    assert csharp("new[] {1, 2}").text == "{ 1, 2 }" and csharp("1.5").text == "1.5" and csharp("1 == 1").text == "true"
    assert csharp('new Dictionary<string, int> {{"a", 1}}').text == "{ [a, 1] }"


def test_product_of_two_names_is_no_pointer(csharp):
    assert csharp("int six = 6;\nint seven = 7;\nsix * seven").text == "42"
    assert csharp("six * 7 // answer").text == "42"
    done = csharp("six * nothing")
    assert done.ename == "CompilationException" and done.error["traceback"]
    assert csharp("Console.WriteLine(six)").stdout == "6\n"


def test_state_classes_and_methods_are_kept_between_runs(csharp):
    csharp("class Point { public int X = 1; public int Sum(int y) { return X + y; } }")
    assert csharp("var point = new Point();\npoint.Sum(2)").text == "3"
    csharp("int Twice(int n) { return n * 2; }")
    assert csharp("Twice(21)").text == "42"
    csharp("using System.Globalization;")
    assert csharp("CultureInfo.InvariantCulture != null").text == "true"
    assert csharp("Func<int, int> half = n => n / 2;\nhalf(84)").text == "42"
    assert csharp("new[] {3, 1, 2}.OrderBy(i => i)\n  .Select(i => i * 2)\n  .ToList()").text == "{ 2, 4, 6 }"


def test_statements_over_several_lines_are_one(csharp):
    code = 'int n = 3;\nif (n > 5)\n{\n  n = 1;\n}\nelse\n{\n  n = 2;\n}\n' \
           'do {\n  ++n;\n} while (n < 10);\ntry { throw new Exception("}"); } // }\ncatch (Exception) { n += 1; }\nfinally { n += 1; }\nn'
    assert csharp(code).text == "12"
    assert csharp('var quoted = @"a;\n""b}";\nquoted').text == 'a;\n"b}'
    assert csharp("/* ; } */ 'x'").text == "x"


def test_output_comes_in_front_of_the_value(csharp):
    done = csharp('Console.Write("a"); Console.WriteLine("ü三"); Console.Error.WriteLine("err"); 7')
    assert (done.stdout, done.stderr, done.text) == ("aü三\n", "err\n", "7")


def test_errors_have_their_name_message_and_place(csharp):
    done = csharp("int zero = 0;\n1 / zero")
    assert done.ename == "DivideByZeroException" and done.error["evalue"]
    done = csharp("int fine = 1;\n\nint broken = nothing;")
    assert done.ename == "CompilationException" and "nothing" in done.error["evalue"]
    assert done.error["traceback"][0].startswith("line 3: CS0103")
    assert csharp("int open = (").ename == "CompilationException"
    done = csharp('throw new InvalidOperationException("outer", new Exception("inner"));')
    assert done.ename == "InvalidOperationException" and "Caused by: System.Exception: inner" in done.error["traceback"]
    assert csharp("fine").text == "1"


def test_tasks_are_awaited(csharp):
    done = csharp('await Task.Run(() => Console.WriteLine("in a task"));\n5')
    assert done.stdout == "in a task\n" and done.text == "5"


@pytest.mark.parametrize("code", ["while (true) {}", "System.Threading.Thread.Sleep(1000000);"])
def test_interrupt_keeps_the_state(csharp, code):
    csharp.check_interrupt("int kept = 1;", f'Console.WriteLine("on"); {code}', "kept")


def test_input_is_at_its_end(csharp):
    assert csharp('Console.ReadLine() == null').text == "true"


def test_exit_ends_the_context_and_the_next_run_says_so(csharp):
    other = csharp.other()
    pid = int(other("System.Diagnostics.Process.GetCurrentProcess().Id").text)
    assert other("Environment.Exit(3);").ename == "KernelDied"
    assert process_gone(pid)
    again = other("1 + 1")
    assert again.text == "2" and "new process" in again.stderr


def test_missing_language_says_what_to_install(start_execd, tmp_path):
    check_missing_language(start_execd(env={"PATH": str(tmp_path)}), "csharp", "mono-mcs")
