"""Directory, variables and timeout of a context and of a single run, in every language that can change them."""

import shutil

import pytest
from code_runs import body, in_thread, interrupt, live, new_context, run


@pytest.fixture
def execd(code_execd):
    return code_execd


GO = 'import ("fmt"; "os")\nfunc main() { d, _ := os.Getwd(); v, ok := os.LookupEnv("NEW"); fmt.Println(d, os.Getenv("HELD"), v, ok) }'
SHOW = {
    "python": "import os\nprint(os.getcwd(), os.environ['HELD'], os.environ.get('NEW', ''), 'NEW' in os.environ)",
    "bash": 'echo "$PWD" "$HELD" "$NEW" "$([[ -v NEW ]] && echo True || echo False)"',
    "javascript": "console.log(process.cwd(), process.env.HELD, process.env.NEW ?? '', 'NEW' in process.env)",
    "go": GO,
    "csharp": 'Console.WriteLine("{0} {1} {2} {3}", Directory.GetCurrentDirectory(), Environment.GetEnvironmentVariable("HELD"), '
              'Environment.GetEnvironmentVariable("NEW") ?? "", Environment.GetEnvironmentVariable("NEW") != null);',
}


@pytest.mark.parametrize("language", [each for each in SHOW if each != "csharp" or shutil.which("mcs")])
def test_run_has_a_directory_and_variables_of_its_own_and_the_next_one_not(execd, language, request):
    if language == "go":
        request.getfixturevalue("warm_go")
    home, other = execd.tmp / "home", execd.tmp / "it's other"
    other.mkdir()
    context = new_context(execd, language, cwd=str(home), envs={"HELD": "by the context"})
    before = run(execd, SHOW[language], context, language)
    assert before.stdout.lower() == f"{home} by the context  false\n".lower(), before.events
    during = run(execd, SHOW[language], context, language, cwd=str(other), envs={"HELD": "by'the\nrun", "NEW": "$x \"y\""})
    assert during.stdout.lower() == f"{other} by'the\nrun $x \"y\" true\n".lower(), during.events
    assert run(execd, SHOW[language], context, language).stdout == before.stdout
    execd.client.delete(f"/code/contexts/{context}")


@pytest.mark.parametrize("language,code", [("python", "print('on')\nwhile True: pass"), ("bash", "echo on; while :; do :; done"),
                                           ("javascript", "console.log('on'); await new Promise(() => setTimeout(() => 0, 1e6))")])
def test_interrupted_run_leaves_no_settings_behind(execd, language, code):
    context = new_context(execd, language, envs={"HELD": "1"})
    before = run(execd, SHOW[language], context, language).stdout
    with live(execd, code, context, language, cwd=str(execd.tmp), envs={"NEW": "2"}) as going:
        going.wait_output("on")
        interrupt(execd, context)
        assert going.finish().ename == "KeyboardInterrupt"
    assert run(execd, SHOW[language], context, language).stdout == before
    execd.client.delete(f"/code/contexts/{context}")


def test_failed_run_leaves_no_settings_behind(execd, context):
    assert run(execd, "1 / 0", context, envs={"NEW": "2"}, cwd="/").ename == "ZeroDivisionError"
    assert run(execd, "import os\n'NEW' in os.environ", context).text == "False"


def test_directory_that_is_not_there_is_refused(execd, context):
    answer = execd.client.post("/code", json=body("1", context, cwd=str(execd.tmp / "missing")))
    assert answer.status_code == 400 and "missing" in answer.json()["message"]
    assert run(execd, "1", context).number == 1


def test_java_refuses_settings_of_a_run_with_the_way_out(execd):
    context = new_context(execd, "java", envs={"A": "b"})
    answer = execd.client.post("/code", json=body("1", context, "java", envs={"A": "c"}))
    assert answer.status_code == 400 and "context" in answer.json()["message"]
    assert run(execd, 'System.getenv("A")', context, "java").text == "b"
    execd.client.delete(f"/code/contexts/{context}")


def test_timeout_of_a_context_holds_for_its_runs_unless_they_have_one(execd):
    context = new_context(execd, timeout=300)
    assert run(execd, "while True: pass", context).ename == "ExecutionTimeout"
    join = in_thread(lambda: run(execd, "import time\ntime.sleep(0.6)\n'own'", context, timeout=60_000))
    assert join().text == "'own'"
    execd.client.delete(f"/code/contexts/{context}")
