"""The JavaScript and TypeScript kernel: V8's REPL rules, modules, top-level await, interrupts."""

import os
import pathlib
import stat

import pytest
from code_runs import interrupt, live, new_context, run
from execd_process import Execd

PACKAGES = pathlib.Path(__file__).resolve().parents[3] / "build" / "node" / "node_modules"


@pytest.fixture(scope="module")
def node_execd():
    """An execd whose Node.js finds TypeScript."""
    execd = Execd(env={"NODE_PATH": str(PACKAGES), "EXECD_CODE_INTERRUPT_GRACE": "60s"})
    yield execd
    execd.stop()


@pytest.fixture(params=["javascript", "typescript"])
def language(request):
    return request.param


@pytest.fixture
def node(node_execd, language):
    context = new_context(node_execd, language)

    def in_context(code, **fields):
        return run(node_execd, code, context, language, **fields)

    in_context.context = context
    yield in_context
    node_execd.client.delete(f"/code/contexts/{context}")


def test_values_and_redeclared_names(node):
    done = node("const a = 5; let list = [1, {x: 2}]; list")
    assert done.types == ["init", "execution_count", "result", "execution_complete"]
    assert done.results == [{"text": "[ 1, { x: 2 } ]", "text/plain": "[ 1, { x: 2 } ]"}]
    assert node("const a = 6; class A { y = a }; a").text == "6"
    assert node("class A { z = 1 }; new A()").text == "A { z: 1 }"
    assert node("[NaN, 10n ** 20n, null, Symbol('s'), -0]").text == "[ NaN, 100000000000000000000n, null, Symbol(s), -0 ]"
    assert node("undefined").results == [] and node("var q = 1").results == []


def test_console_writes_to_its_streams_in_front_of_the_result(node):
    done = node("console.log('out', {a: 1}); console.error('err'); 7")
    assert (done.stdout, done.stderr, done.text) == ("out { a: 1 }\n", "err\n", "7")
    assert done.types[-3:] == ["execution_count", "result", "execution_complete"]


def test_errors_have_name_message_and_the_place_in_the_cell(node):
    node("const kept = 1")
    done = node("function f(x: any) {\n  return x.y.z\n}\nf(1)".replace(": any", ""))
    assert done.ename == "TypeError" and "reading 'z'" in done.error["evalue"]
    assert any("cell-2" in line and ":2:" in line for line in done.error["traceback"])
    assert not any("opensandbox" in line or "inspector" in line for line in done.error["traceback"])
    assert node("1 +").ename == "SyntaxError" and node("throw 5").error["evalue"] == "5"
    assert node("kept").text == "1"


def test_top_level_await_and_timers(node):
    assert node("await new Promise(resolve => setTimeout(() => resolve(42), 5))").text == "42"
    assert node("await Promise.reject(new RangeError('far'))").ename == "RangeError"


def test_modules_by_import_and_require(node):
    assert node("import fs, {readFileSync as read} from 'fs'\nimport * as os from 'node:os'\n"
                "import 'node:path'\n[typeof fs.existsSync, typeof read, os.platform()]").text == "[ 'function', 'function', 'linux' ]"
    assert node("const path = await import('path'); path.basename('/a/b')").text == "'b'"
    assert node("require('path').sep").text == "'/'"
    assert node("await import('no-such-package')").ename == "Error"
    assert node("export const exported = 3; exported").text == "3"
    # Text that only looks like an import stays as it is.
    assert node("'import(x)' + `a ${'import(y)'} b` + /import(z)/.source // import q from 'q'").text == "'import(x)a import(y) bimport(z)'"


def test_local_modules_start_at_the_directory_of_the_context(node_execd, tmp_path, language):
    (tmp_path / "own.mjs").write_text("export default 'esm'; export const n = 2\n")
    (tmp_path / "old.cjs").write_text("module.exports = 'cjs'\n")
    context = new_context(node_execd, language, cwd=str(tmp_path))
    done = run(node_execd, "import own, {n} from './own.mjs'\n[own, n, require('./old.cjs')]", context, language)
    assert done.text == "[ 'esm', 2, 'cjs' ]"
    node_execd.client.delete(f"/code/contexts/{context}")


def test_errors_of_callbacks_and_promises_do_not_end_the_kernel(node):
    done = node("setTimeout(() => { throw new Error('later') }, 1); Promise.reject(new Error('lost'))\n"
                "await new Promise(resolve => setTimeout(resolve, 50)); 'alive'")
    assert done.text == "'alive'" and "later" in done.stderr and "lost" in done.stderr


def test_interrupt_of_code_that_waits_keeps_the_state(node_execd, node, language):
    node("const kept = 1")
    for _ in range(3):
        with live(node_execd, "console.log('on'); await new Promise(() => {})", node.context, language) as going:
            going.wait_output("on")
            interrupt(node_execd, node.context)
            assert going.finish().ename == "KeyboardInterrupt"
        assert node("kept").text == "1"


def test_promise_that_nothing_else_refers_to_is_awaited_while_garbage_is_collected(node_execd, node, language):
    node("const kept = 1")
    code = ("let n = 0; const timer = setInterval(() => { for (let i = 0; i < 2e5; i++) new Array(9).fill(i);\n"
            "  if (++n == 20) { clearInterval(timer); console.log('on'); } }, 0); await null; await new Promise(() => {})")
    for _ in range(2):
        with live(node_execd, code, node.context, language) as going:
            going.wait_output("on\n")
            interrupt(node_execd, node.context)
            assert going.finish().ename == "KeyboardInterrupt"
        assert node("for (let i = 0; i < 5e6; i++) new Array(9).fill(i); kept").text == "1"


@pytest.mark.parametrize("code", [
    "while (true) {}", "while (true) console.log('and on'.repeat(100))", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "for (;;) try { for (;;); } finally { continue }", "require('child_process').execSync('sleep 600')",
    # It takes the second signal only.
    "require('child_process').execSync('trap \"trap - INT\" INT; while :; do sleep 1; done', {stdio: 'inherit'})",
    "/^(a+)+$/.test('a'.repeat(40) + 'b')"])
def test_interrupt_of_code_that_keeps_its_thread_busy_keeps_the_state(node_execd, node, language, code):
    node("const kept = 1")
    with live(node_execd, "console.log('on'); " + code, node.context, language) as going:
        going.wait_output("on\n")
        interrupt(node_execd, node.context)
        assert going.finish().ename == "KeyboardInterrupt"
    done = node("console.log('out'); console.error('err'); await null; kept")
    assert (done.stdout, done.stderr, done.text) == ("out\n", "err\n", "1")


def test_code_that_keeps_its_thread_busy_behind_an_await_is_killed_by_an_interrupt(start_execd):
    execd = start_execd(env={"EXECD_CODE_INTERRUPT_GRACE": "100ms"})
    context = new_context(execd, "javascript")
    with live(execd, "await null; console.log('on'); while (true) {}", context, "javascript") as going:
        going.wait_output("on")
        interrupt(execd, context)
        assert going.finish().ename == "KernelKilled"
    again = run(execd, "1", context, "javascript")
    assert again.text == "1" and "new process" in again.stderr


def test_kernel_that_exits_is_replaced(node):
    done = node("console.log('last'); process.exit(4)")
    assert done.stdout == "last\n" and done.ename == "KernelDied" and "exit status 4" in done.error["evalue"]
    assert node("1").text == "1"


def test_output_is_complete_and_odd_text_survives(node):
    assert len(node("for (let i = 0; i < 20000; ++i) console.log('x'.repeat(999))").stdout) == 20_000_000
    assert node("'\\ud800 ünï 三'").text.lower() == "'\\ud800 ünï 三'"
    assert node("console.log('\u2028\\u0000')").stdout == "\u2028\x00\n"


def test_standard_output_takes_what_streams_give(node):
    done = node("const {pipeline} = require('stream/promises'), {Readable} = require('stream');\n"
                "await pipeline(Readable.from(['a', Buffer.from('b')]), process.stdout, {end: false});\n"
                "await new Promise((done) => process.stdout.write('6364', 'hex', done));\n"
                "process.stderr.write(new Uint8Array([101, 10]))")
    assert (done.stdout, done.stderr, done.text) == ("abcd", "e\n", "true")
    assert node("process.stdout.write(5)").ename == "TypeError"


def test_subprocesses_do_not_get_the_socket(node):
    listed = node("require('child_process').execSync('ls -l /proc/self/fd').toString()").text
    assert listed.count("->") == 4 and "memfd" not in listed  # three streams and the directory itself


def test_types_are_stripped(node_execd):
    context = new_context(node_execd, "typescript")
    done = run(node_execd, "interface P { name: string; age?: number }\nenum Color { Red, Green }\n"
                           "const greet = (p: P): string => `hi ${p.name}`;\ntype Unused = P | null;\n"
                           "console.log(greet({name: 'Ada'}), Color.Green as number)", context, "typescript")
    assert done.stdout == "hi Ada 1\n" and done.error is None
    assert run(node_execd, "greet({name: 'again'}) satisfies string", context, "typescript").text == "'hi again'"
    assert run(node_execd, "const x: number = ;", context, "typescript").ename == "SyntaxError"
    node_execd.client.delete(f"/code/contexts/{context}")


def test_typescript_without_a_compiler_says_what_to_install(start_execd, tmp_path):
    # A Node.js that cannot strip types itself, seen from a directory without packages.
    node = tmp_path / "node"
    real = next(path for path in map(pathlib.Path, ("/usr/bin/node", "/usr/local/bin/node")) if path.exists())
    (tmp_path / "hide.js").write_text("delete require('module').stripTypeScriptTypes;\n"
                                      "require('module')._resolveFilename = (of => function (name, ...rest) {\n"
                                      "  if (name === 'typescript') throw new Error('hidden');\n"
                                      "  return of.call(this, name, ...rest); })(require('module')._resolveFilename)\n")
    node.write_text(f'#!/bin/sh\nexec {real} -r {tmp_path}/hide.js "$@"\n')
    node.chmod(node.stat().st_mode | stat.S_IXUSR)
    execd = start_execd(env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, cwd=str(tmp_path))
    answer = execd.client.post("/code/context", json={"language": "typescript"})
    assert answer.status_code == 500 and "npm install -g typescript" in answer.json()["message"]
    assert execd.client.post("/code/context", json={"language": "javascript"}).status_code == 200
