"""Python contexts that are forked from a prepared process: like those that are started, only sooner."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from code_runs import in_thread, live, new_context, run
from test_commands import process_gone

WHERE = "import os\nos.getpid()"


def environ(pid):
    return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def is_forked(pid):
    """The environment that a process began with stays; the prepared one has no home."""
    return b"HOME=/dev/null" in environ(pid)


def children(execd):
    return [int(pid) for pid in open(f"/proc/{execd.pid}/task/{execd.pid}/children").read().split()]


def wait_prepared(execd):
    """Until a process without a home has its descriptors in place; soon after that it answers."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for pid in children(execd):
            try:
                if is_forked(pid) and os.path.exists(f"/proc/{pid}/fd/4"):
                    return
            except OSError:
                pass
        time.sleep(0.01)
    raise AssertionError("no prepared process")


def forked_context(execd, **fields):
    """A context that was forked, and its pid. The first run makes execd prepare a process."""
    for _ in range(100):
        context = new_context(execd, **fields)
        pid = int(run(execd, WHERE, context).text)
        if is_forked(pid):
            return context, pid
        execd.client.delete(f"/code/contexts/{context}")
        wait_prepared(execd)
    raise AssertionError("contexts are not forked")


def prepared(execd, *contexts):
    """The pid of the prepared process: a child of execd like its kernels, but of no context."""
    kernels = {pid for _, pid in contexts}
    return next(pid for pid in children(execd) if pid not in kernels and is_forked(pid))


def test_forked_context_is_a_process_of_its_own_with_its_own_state(execd):
    (one, first), (two, second) = forked_context(execd), forked_context(execd)
    draws = set()
    for context, pid in ((one, first), (two, second)):
        about = json.loads(run(execd, "import json, os, random, sys, uuid\nprint(json.dumps([os.getppid(), os.getpgid(0), "
                                      "sys.path[0], random.random(), os.environ['HOME']]))", context).stdout)
        assert about[:3] == [execd.pid, pid, ""]
        assert about[4] == os.environ["HOME"]
        draws.add(about[3])
    assert len(draws) == 2
    run(execd, "x = 1", one)
    assert run(execd, "x", two).ename == "NameError"
    cgroups = {pathlib.Path(f"/proc/{pid}/cgroup").read_text() for pid in (first, second, execd.pid)}
    assert len(cgroups) == 3 or b"osb-execd-" not in pathlib.Path(f"/proc/{first}/cgroup").read_bytes()
    for context, pid in ((one, first), (two, second)):
        assert execd.client.delete(f"/code/contexts/{context}").status_code == 200
        assert process_gone(pid)


def test_forked_context_has_nothing_that_is_not_its_own(execd):
    context, _ = forked_context(execd)
    names = run(execd, "sorted(name for name in globals() if not name.startswith('__'))", context)
    assert names.text == "['os']"  # of the run that asked for the pid
    targets = json.loads(run(execd, "import json\nprint(json.dumps([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') "
                                    "if os.path.exists(f'/proc/self/fd/{n}') or n in '34']))", context).stdout)
    assert sum(target.startswith("socket:") for target in targets) == 1
    assert sum("memfd:" in target for target in targets) == 1
    execd.client.delete(f"/code/contexts/{context}")


def test_children_of_a_forked_kernel_die_with_it_and_neighbours_live(execd):
    (one, first), (two, second) = forked_context(execd), forked_context(execd)
    run(execd, "x = 'kept'", two)
    children = json.loads(run(execd, "import subprocess\na = subprocess.Popen(['setsid', 'sleep', '600'])\n"
                                     "b = os.fork()\nif b == 0:\n    os.setsid()\n    import time\n    time.sleep(600)\n"
                                     "[a.pid, b]", one).text)
    assert execd.client.delete(f"/code/contexts/{one}").status_code == 200
    for pid in [first, *children]:
        assert process_gone(pid)
    assert run(execd, "x", two).text == "'kept'"
    execd.client.delete(f"/code/contexts/{two}")


def test_forked_context_takes_directory_environment_and_paths_of_its_own(execd):
    home, lib = execd.tmp / "home", execd.tmp / "lib"
    version = subprocess.check_output(["python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"], text=True,
                                      env={"PATH": os.environ["PATH"]}).strip()
    user_site = home / ".local/lib" / version / "site-packages"
    user_site.mkdir(parents=True)
    lib.mkdir()
    (user_site / "of_the_user.py").write_text("x = 'user'\n")
    (user_site / "usercustomize.py").write_text(f"import os\nopen({str(execd.tmp / 'customized')!r}, 'a').write(f'{{os.getpid()}}\\n')\n")
    (lib / "of_the_path.py").write_text("x = 'path'\n")
    (execd.tmp / "of_the_directory.py").write_text("x = 'directory'\n")
    envs = {"HOME": str(home), "PYTHONPATH": "lib", "TZ": "Asia/Tokyo", "MINE": "yes"}
    context, pid = forked_context(execd, cwd=str(execd.tmp), envs=envs)
    done = run(execd, "import os, time, of_the_user, of_the_path, of_the_directory\n"
                      "(of_the_user.x, of_the_path.x, of_the_directory.x, os.environ['MINE'], time.timezone, os.getcwd())", context)
    assert done.text == repr(("user", "path", "directory", "yes", -9 * 3600, str(execd.tmp)))
    customized = (execd.tmp / "customized").read_text().split()
    assert customized.count(str(pid)) == 1
    assert run(execd, "import subprocess, sys\nsubprocess.check_output([sys.executable, '-c', 'import os; print(os.environ[\"MINE\"])'], text=True)",
               context).text == "'yes\\n'"
    execd.client.delete(f"/code/contexts/{context}")


@pytest.mark.parametrize("envs,code,value", [
    ({"PYTHONOPTIMIZE": "1"}, "import sys\nsys.flags.optimize", "1"),
    ({"PYTHONHASHSEED": "0"}, "import sys\nsys.flags.hash_randomization", "0"),
    ({"PYTHONUTF8": "1"}, "import sys\nsys.flags.utf8_mode", "1")])
def test_context_whose_environment_changes_the_interpreter_is_started(execd, envs, code, value):
    forked_context(execd)
    context = new_context(execd, envs=envs)
    assert not is_forked(int(run(execd, WHERE, context).text))
    assert run(execd, code, context).text == value
    execd.client.delete(f"/code/contexts/{context}")


@pytest.fixture
def venv_execd(start_execd, tmp_path):
    """An execd whose Python is a virtual environment that tests may install into."""
    subprocess.run(["python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    execd = start_execd(env={"PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}"})
    execd.site = next((tmp_path / "venv/lib").glob("python3*/site-packages"))
    return execd


def test_prepared_process_is_renewed_after_an_install(venv_execd, tmp_path):
    old = forked_context(venv_execd)
    outdated = prepared(venv_execd, old)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/installed.py").write_text("x = 'new'\n")
    (venv_execd.site / "new.pth").write_text(f"{tmp_path}/elsewhere\n")
    first = new_context(venv_execd)
    assert run(venv_execd, "import installed\ninstalled.x", first).text == "'new'"
    assert process_gone(outdated)
    context, _ = forked_context(venv_execd)
    assert run(venv_execd, "import installed\ninstalled.x", context).text == "'new'"
    assert run(venv_execd, "import installed", old[0]).ename == "ModuleNotFoundError"  # as for any process that runs


def test_prepared_process_that_is_killed_is_replaced(start_execd):
    execd = start_execd()
    known = forked_context(execd)
    pid = prepared(execd, known)
    os.kill(pid, signal.SIGKILL)
    assert process_gone(pid)
    assert run(execd, "1", new_context(execd)).text == "1"
    forked_context(execd)
    assert run(execd, "os.getpid()", known[0]).text == str(known[1])


def test_prepared_process_that_stands_still_holds_no_context_up(start_execd):
    execd = start_execd()
    known = forked_context(execd)
    pid = prepared(execd, known)
    os.kill(pid, signal.SIGSTOP)
    joins = [in_thread(lambda i=i: run(execd, str(i), new_context(execd)).text) for i in range(3)]
    assert [join() for join in joins] == ["0", "1", "2"]
    assert process_gone(pid)


def test_context_that_is_deleted_while_it_is_forked_leaves_nothing(start_execd):
    execd = start_execd()
    known = forked_context(execd)
    os.kill(prepared(execd, known), signal.SIGSTOP)
    join = in_thread(lambda: execd.client.post("/code/context", json={"language": "python"}, timeout=120))
    while len(execd.client.get("/code/contexts").json()) < 2:
        pass
    assert execd.client.delete("/code/contexts", params={"language": "python"}, timeout=120).status_code == 200
    assert join().status_code in (200, 500)
    assert execd.client.get("/code/contexts").json() == []
    assert run(execd, "1").text == "1"


def test_run_may_come_before_the_fork(start_execd):
    """A default context runs code at once; it is forked meanwhile."""
    execd = start_execd()
    forked_context(execd)
    with live(execd, "import os\nprint(os.getpid())") as going:
        done = going.finish()
    assert is_forked(int(done.stdout))


def test_end_of_execd_ends_the_prepared_process(start_execd):
    execd = start_execd()
    known = forked_context(execd)
    pid = prepared(execd, known)
    execd.stop()
    assert process_gone(pid) and process_gone(known[1])
