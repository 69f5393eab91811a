"""Programs that run inside a sandbox as its root and try what must not be possible. They are Python, because a shell
cannot make system calls and a compiler would be needed for C."""

import ctypes
import json
import subprocess
import sys

PRELUDE = """
import ctypes, errno, glob, json, os, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)

def syscall(number, *args):
    '''The result of the call, or the name of its errno.'''
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]

def attempt(action, *args):
    '''The result of the action, or the name of the error.'''
    try:
        return action(*args)
    except OSError as error:
        return errno.errorcode[error.errno]

def in_child(action):
    '''The same in a process of its own, for what cannot be undone; "signal N" where it died of one.'''
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(attempt(action)).encode())
        os._exit(0)
    os.close(writing)
    said = b''
    while piece := os.read(reading, 65536):
        said += piece
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    return f'signal {os.WTERMSIG(status)}' if os.WIFSIGNALED(status) else json.loads(said)

def hold(action):
    '''The result of the action, in a process that then stays until the sandbox ends, with all that it has taken.'''
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        null = os.open('/dev/null', os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.close(reading)
        os.write(writing, json.dumps(attempt(action)).encode())
        os.close(writing)
        while True:
            signal.pause()
    os.close(writing)
    said = b''
    while piece := os.read(reading, 65536):
        said += piece
    return json.loads(said)

def opened(path, flags=os.O_RDONLY):
    '''"opened", or the name of the error.'''
    def action():
        os.close(os.open(path, flags | os.O_CLOEXEC))
        return 'opened'
    return attempt(action)

def report(value):
    print(json.dumps(value))
"""

_seccomp = ctypes.CDLL("libseccomp.so.2")


def here(program, **values):
    """The report of the program as a process of the host's root, in this test's own namespaces."""
    done = subprocess.run([sys.executable, "-"], input=source(program, values), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def number_of(name):
    """Of a system call on this machine."""
    number = _seccomp.seccomp_syscall_resolve_name(name.encode())
    assert number >= 0, f"libseccomp does not know {name}"
    return number


def source(program, values):
    given = "".join(f"{name} = json.loads({json.dumps(json.dumps(value))})\n" for name, value in values.items())
    return f"{PRELUDE}\n{given}\n{program}"


def attack_each_way(sandbox, program, ways):
    """{name: what do(**values) of the program returns} of `ways`, {name: values}, each in a process of its own. A sandbox runs
    them once: its tests, one for each way, ask for the same ones."""
    key = program, json.dumps(ways)
    if key not in sandbox.tried:
        all_ways = "\nreport({name: in_child(lambda: do(**values)) for name, values in ways.items()})"
        sandbox.tried[key] = attack(sandbox, program + all_ways, ways=ways)
    return sandbox.tried[key]


def attack(sandbox, program, **values):
    """The report of the program. `values` are variables of it."""
    # -S: without the packages that are not Python's own; the start is most of the time of most attacks.
    code, text = sandbox.run(f"python3 -S - <<'ATTACK'\n{source(program, values)}\nATTACK")
    assert code == 0, f"the attack ended with {code}: {text}"
    return json.loads(text.splitlines()[-1])
