"""The Go kernel: declarations stay, each run is a program; errors with their place, interrupts."""

import os

import pytest
from code_runs import interrupt, live, new_context, run
from execd_process import Execd


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    return tmp_path_factory.mktemp("go")


@pytest.fixture(scope="module")
def go_execd(temporary):
    execd = Execd(env={"TMPDIR": str(temporary), "EXECD_CODE_INTERRUPT_GRACE": "120s"})
    yield execd
    execd.stop()


@pytest.fixture(scope="module")
def go(go_execd, warm_go):
    context = new_context(go_execd, "go")

    def in_context(code, **fields):
        return run(go_execd, code, context, "go", **fields)

    in_context.context = context
    return in_context


def said(done):
    assert done.error is None, done.error
    return done.stdout


def test_whole_program_runs(go):
    done = go('package main\n\nimport (\n\t"fmt"\n\tstr "strings"\n)\n\nfunc main() {\n\tfmt.Println(str.Repeat("ü", 3))\n}')
    assert done.types == ["init", "stdout", "execution_complete"] and done.stdout == "üüü\n"


def test_declarations_stay_and_values_do_not(go):
    assert said(go("func add(a, b int) int { return a + b }\ntype Point struct {\n\tX, Y int\n}")) == ""
    go("func (p *Point) Sum() int { return add(p.X, p.Y) }\nvar counter = 5\nconst (\n\tzero = iota\n\tone\n)")
    assert said(go("counter++\nfmt.Println(counter, one, (&Point{1, 2}).Sum())")) == "6 1 3\n"
    assert said(go("fmt.Println(counter)")) == "5\n"
    assert said(go("func add(a, b int) int { return a * b }\nfmt.Println((&Point{3, 4}).Sum())")) == "12\n"
    assert said(go('var counter = "text"\nfmt.Println(counter)')) == "text\n"
    assert said(go("func main() { fmt.Println(1) }")) == "1\n" and said(go("fmt.Println(2)")) == "2\n"


def test_statements_literals_and_generics_at_the_top(go):
    code = "func twice[T any](in []T, f func(T) T) []T {\n\tfor i := range in {\n\t\tin[i] = f(f(in[i]))\n\t}\n\treturn in\n}\n"
    assert said(go(code + "fmt.Println(twice([]int{1, 2}, func(i int) int { return i + 1 }))")) == "[3 4]\n"
    assert said(go('func() { fmt.Println("literal") }()')) == "literal\n"
    assert said(go("strings := []int{1}\nfmt.Println(len(strings))")) == "1\n"
    assert said(go("// nothing")) == ""


def test_kernel_reads_its_code_after_its_garbage_was_collected(go):
    """It once lost the descriptor then, and took every later cell for an empty one."""
    assert said(go("// " + "x" * 4_000_000 + "\nfmt.Println(1)")) == "1\n"
    for number in range(2):
        assert said(go(f"fmt.Println({number})")) == f"{number}\n"


def test_code_that_does_not_compile_names_the_line_and_changes_nothing(go):
    go("func kept() int { return 1 }")
    done = go('fmt.Println("never")\n\nvar broken int = "text"')
    assert done.ename == "CompilationError" and done.error["evalue"].startswith(f"cell-{done.number}:3:") and done.stdout == ""
    assert go("func kept() int { return nothing }").ename == "CompilationError"
    assert go('x := "open').ename == "CompilationError" and go("y := (1").ename == "CompilationError" and go("}").ename == "CompilationError"
    assert said(go("fmt.Println(kept())")) == "1\n"


def test_panic_and_exit_are_errors(go):
    done = go('fmt.Println("before")\npanic("boom")')
    assert done.ename == "ExitError" and done.error["evalue"] == "exit status 2" and done.stdout == "before\n"
    assert "panic: boom" in done.stderr and f"cell-{done.number}:2" in done.stderr
    assert go("os.Exit(3)").error["evalue"] == "exit status 3"


@pytest.mark.parametrize("code", ["for {}", "time.Sleep(time.Hour)", "signal.Ignore(os.Interrupt)\nfmt.Println(`on`)\nfor { time.Sleep(time.Hour) }"])
def test_interrupt_ends_the_program_and_keeps_the_declarations(go_execd, go, code):
    go('import "os/signal"\nfunc here() int { return 7 }')
    with live(go_execd, f'fmt.Println("on")\n{code}', go.context, "go") as going:
        going.wait_output("on")
        interrupt(go_execd, go.context)
        assert going.finish().ename == "KeyboardInterrupt"
    assert said(go("fmt.Println(here())")) == "7\n"


def test_interrupted_builds_leave_no_files(go_execd, go, temporary):
    for i in range(20):
        with live(go_execd, f"fmt.Println(`build {i}`)", go.context, "go") as going:
            assert going.next()["type"] == "init"
            for _ in range(i):  # another moment of the build each time
                go_execd.client.get("/ping")
            interrupt(go_execd, go.context)
            going.finish()
    assert [*temporary.rglob("go-build*"), *temporary.rglob("build*")] == []


def test_modules_of_the_directory_can_be_imported(go_execd, tmp_path):
    (tmp_path / "go.mod").write_text("module example.test/own\n\ngo 1.18\n")
    (tmp_path / "greet").mkdir()
    (tmp_path / "greet" / "greet.go").write_text('package greet\n\nfunc Hello() string { return "hello" }\n')
    context = new_context(go_execd, "go", cwd=str(tmp_path))
    done = run(go_execd, 'import "example.test/own/greet"\nfmt.Println(greet.Hello())', context, "go")
    assert said(done) == "hello\n"
    go_execd.client.delete(f"/code/contexts/{context}")


def test_output_is_complete_and_programs_do_not_get_the_socket(go):
    done = go('line := strings.Repeat("x", 999)\nfor i := 0; i < 20000; i++ {\n\tfmt.Println(line)\n}')
    assert len(done.stdout) == 20_000_000 and done.error is None
    listed = said(go('out, _ := exec.Command("ls", "-l", "/proc/self/fd").Output()\nfmt.Print(string(out))'))
    assert listed.count("->") == 4 and "memfd" not in listed


def test_kernel_that_dies_is_replaced(go):
    done = go('import "syscall"\nsyscall.Kill(os.Getppid(), syscall.SIGKILL)\nselect {}')
    assert done.ename == "KernelDied"
    assert said(go("fmt.Println(1)")) == "1\n"


def test_directory_of_a_deleted_context_does_not_stay_for_ever(go_execd, temporary):
    context = new_context(go_execd, "go")
    mine = {each.name for each in temporary.glob("opensandbox-go.*")}
    go_execd.client.delete(f"/code/contexts/{context}")
    # Directories of dead kernels that are old enough are removed when the next kernel starts.
    for name in mine:
        os.utime(temporary / name / "kernel", (0, 0))
    another = new_context(go_execd, "go")
    left = {each.name for each in temporary.glob("opensandbox-go.*")}
    assert len(left & mine) <= 1, "at most that of the context that the other tests use"
    go_execd.client.delete(f"/code/contexts/{another}")


def test_image_without_go_says_what_to_install(start_execd, tmp_path):
    execd = start_execd(env={"PATH": str(tmp_path)})
    answer = execd.client.post("/code/context", json={"language": "go"})
    assert answer.status_code >= 400 and "golang-go" in answer.json()["message"]
