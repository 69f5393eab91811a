"""osb code: interpreters that keep their state."""

import json
import signal

# A PNG that needs no library.
PICTURE = """
import struct, zlib
class Picture:
    def _repr_png_(self):
        def chunk(kind, data):
            return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
        return (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0))
                + chunk(b'IDAT', zlib.compress(b'\\0\\xff\\0\\0')) + chunk(b'IEND', b''))
"""


def test_output_value_and_state(osb, sandbox, tmp_path):
    assert osb.ok("code", "run", sandbox, "-e", "x = 6 * 7; print('out', end=''); x") == "out42\n"
    file = tmp_path / "more.py"
    file.write_text("x + 1\n")
    assert osb.ok("code", "run", sandbox, file) == "43\n"
    assert osb.ok("code", "run", sandbox, input=b"import sys; print('a\\n\\nb'); print('e', file=sys.stderr)") == "a\n\nb\n"


def test_language_is_known_by_the_files_ending(osb, sandbox, tmp_path):
    (tmp_path / "a.sh").write_text("kept=1; echo in $BASH_VERSION | cut -c1-2\n")
    assert osb.ok("code", "run", sandbox, tmp_path / "a.sh") == "in\n"
    assert osb.ok("code", "run", sandbox, "-l", "bash", "-e", "echo $kept") == "1\n"
    assert osb.ok("code", "run", sandbox, "-l", "javascript", "-e", "[1, 2].map(x => x * 2)") == "[ 2, 4 ]\n"


def test_code_that_fails_shows_its_traceback_and_ends_with_1(osb, sandbox):
    done = osb.run("code", "run", sandbox, "-e", "print('before')\n1 / 0")
    assert done.returncode == 1 and done.stdout == b"before\n"
    assert b"ZeroDivisionError: division by zero" in done.stderr and b"osb:" not in done.stderr


def test_pictures_are_saved(osb, sandbox, tmp_path):
    done = osb.run("code", "run", sandbox, "--pictures", tmp_path / "new", "-e", PICTURE + "Picture()")
    saved = tmp_path / "new" / "picture-1.png"
    assert done.returncode == 0 and done.stdout == b"" and done.stderr.decode() == f"picture: {saved}\n"
    assert saved.read_bytes().startswith(b"\x89PNG")
    again = osb.json("code", "run", sandbox, "--pictures", tmp_path / "new", "-e", "Picture()")
    assert again["pictures"] == [str(tmp_path / "new" / "picture-2.png")] and "image/png" in again["results"][0]


def test_json_has_everything(osb, sandbox):
    document = osb.json("code", "run", sandbox, "-e", "print('a'); print('b', end=''); 3")
    assert document == {"stdout": "a\nb", "stderr": "", "results": [{"text": "3", "text/plain": "3"}], "pictures": [], "error": None}
    done = osb.run("code", "run", sandbox, "-o", "json", "-e", "nothing")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["name"] == "NameError"


def test_contexts_have_states_of_their_own(osb, sandbox):
    made = osb.json("code", "context", "create", sandbox)
    assert osb.ok("code", "run", sandbox, "-c", made["id"], "-e", "own = 5") == ""
    assert osb.ok("code", "run", sandbox, "-c", made["id"], "-e", "own") == "5\n"
    assert osb.run("code", "run", sandbox, "-e", "own").returncode == 1
    assert made["id"] in {each["id"] for each in osb.json("code", "context", "list", sandbox)}
    osb.ok("code", "context", "rm", sandbox, made["id"])
    assert made["id"] not in {each["id"] for each in osb.json("code", "context", "list", sandbox)}
    assert made["id"] in osb.refused("code", "run", sandbox, "-c", made["id"], "-e", "1")


def test_ctrl_c_interrupts_the_code_and_keeps_the_state(osb, sandbox):
    with osb.start("code", "run", sandbox, "-e", "kept = 1\nprint('on', flush=True)\nwhile True: pass") as running:
        assert running.stdout.readline() == b"on\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 130
    assert osb.ok("code", "run", sandbox, "-e", "kept") == "1\n"


def test_wrong_use_is_explained(osb, sandbox, tmp_path):
    assert "not both" in osb.refused("code", "run", sandbox, "x.py", "-e", "1", code=2)
    assert "is empty" in osb.refused("code", "run", sandbox, input=b"")
    assert "python" in osb.refused("code", "run", sandbox, "-l", "cobol", "-e", "1", code=2)
    assert str(tmp_path / "none.py") in osb.refused("code", "run", sandbox, tmp_path / "none.py")


def test_repl_keeps_its_state_and_ends_with_its_interpreter(osb, sandbox):
    before = len(osb.json("code", "context", "list", sandbox))
    with osb.terminal("code", "repl", sandbox) as terminal:
        terminal.expect(">>> ")
        terminal.type("x = 40\r")
        terminal.type("x + 2\r")
        terminal.expect(r"\n42\r\n")
        terminal.type("def f():\r")
        terminal.expect(r"\.\.\. ")
        terminal.type("    return 'in ' 'f'\r\r")
        terminal.type("f()\r")
        terminal.expect(r"\n'in f'\r\n")
        assert len(osb.json("code", "context", "list", sandbox)) == before + 1
        terminal.type("1 / 0\r")
        terminal.expect("ZeroDivisionError")
        terminal.expect(">>> ")
        terminal.type("\x1b[A\x1b[A\r")  # the line before the last one
        terminal.expect(r"\n'in f'\r\n")
        terminal.expect(">>> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert terminal.modes() == terminal.before
    assert len(osb.json("code", "context", "list", sandbox)) == before


def test_repl_is_interrupted_by_ctrl_c(osb, sandbox):
    with osb.terminal("code", "repl", sandbox) as terminal:
        terminal.expect(">>> ")
        terminal.type("print('no' 'w', flush=True); import time; time.sleep(1000)\r")
        terminal.expect(r"\nnow\r\n")
        terminal.type("\x03")
        terminal.expect(">>> ")
        terminal.type("half a line")
        terminal.expect("half a line")
        terminal.type("\x03")
        terminal.expect(">>> ")
        terminal.type("6 * 7\r")
        terminal.expect(r"\n42\r\n")
        terminal.expect(">>> ")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_repl_needs_a_terminal(osb, sandbox):
    assert "osb code run" in osb.refused("code", "repl", sandbox, code=2)


def test_directory_variables_and_timeout_of_a_run(osb, sandbox):
    show = "import os; print(os.getcwd(), os.environ.get('A'))"
    assert osb.ok("code", "run", sandbox, "-w", "/usr", "--env", "A=b c", "-e", show) == "/usr b c\n"
    assert osb.ok("code", "run", sandbox, "-e", show).endswith(" None\n")
    late = osb.run("code", "run", sandbox, "-t", "1s", "-e", "while True: pass")
    assert late.returncode == 1 and b"ExecutionTimeout" in late.stderr


def test_csharp(osb, sandbox, tmp_path):
    (tmp_path / "a.cs").write_text("var words = new[] {\"b\", \"a\"};\nstring.Join(\" \", words.OrderBy(word => word))\n")
    assert osb.ok("code", "run", sandbox, tmp_path / "a.cs") == "a b\n"
