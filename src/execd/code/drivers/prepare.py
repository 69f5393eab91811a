# Stands in front of kernel.py in the prepared process. It imports what kernels use, runs no code of a user, and forks a
# kernel for each request on descriptor 3; that process goes on with kernel.py. Until then it looks neither into the
# working directory nor into the user's site directory: execd starts it in / with HOME=/dev/null and without PYTHONPATH.
import sys

had_directory = bool(sys.path) and sys.path[0] == ""
if had_directory:
    del sys.path[0]

import array
import gc
import os
import socket
import time

for module in ("ast", "base64", "binascii", "bisect", "collections.abc", "copy", "csv", "datetime", "decimal", "fractions",
               "functools", "glob", "hashlib", "heapq", "importlib.util", "inspect", "itertools", "json", "linecache", "math",
               "operator", "pathlib", "random", "re", "shutil", "statistics", "string", "struct", "subprocess", "tempfile",
               "textwrap", "threading", "traceback", "typing", "urllib.parse", "uuid"):
    try:
        __import__(module)
    except ImportError:  # a small image may lack some
        pass

site = sys.modules.get("site")
RUN_ID = b"OPENSANDBOX_COMMAND_ID="


def installed():
    """Differs after something was installed or removed: a kernel that is started then looks other files up."""
    directories = list(sys.path)
    if site is not None and hasattr(site, "getsitepackages"):
        directories += site.getsitepackages()
    found = []
    for path in directories + [sys.executable]:
        try:
            status = os.stat(path)
            found.append((path, status.st_mtime_ns, status.st_ino))
        except (OSError, ValueError):
            found.append((path, 0, 0))
    return found


def mark(run_id):
    """Puts the kernel's id in place of ours into the memory behind /proc/PID/environ, where execd looks for it."""
    with open("/proc/self/environ", "rb") as file:
        environment = file.read()
    at = (b"\0" + environment).index(b"\0" + RUN_ID) + len(RUN_ID)
    if environment.index(b"\0", at) - at != len(run_id):
        raise ValueError("the id has another length")
    with open("/proc/self/stat", "rb") as file:
        begin = int(file.read().rsplit(b")", 1)[1].split()[47])  # field 50, env_start
    memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
    os.pwrite(memory, run_id, begin + at)
    os.close(memory)


def read_all(number):
    parts, at = [], 0
    while True:
        part = os.pread(number, 1 << 20, at)
        if not part:
            return b"".join(parts)
        parts.append(part)
        at += len(part)


def add_user_site():
    if site is None or not getattr(site, "ENABLE_USER_SITE", False):
        return
    site.USER_BASE = site.USER_SITE = None
    if not os.path.isdir(site.getusersitepackages()):
        return
    before = len(sys.path)
    site.addusersitepackages(set(sys.path))
    added, shared = sys.path[before:], site.getsitepackages()
    del sys.path[before:]
    at = next((i for i, path in enumerate(sys.path) if path in shared), before)
    sys.path[at:at] = added
    site.execusercustomize()


def become_kernel(descriptors, variables):
    """In the new process: takes its descriptors and everything that an interpreter takes from its environment."""
    os.setpgid(0, 0)
    control.detach()
    for number, received in zip((3, 4, 1, 2), descriptors):
        os.dup2(received, number)
    for received in descriptors:
        os.close(received)
    gc.enable()
    os.environ.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    time.tzset()
    path = os.environ.get("PYTHONPATH")
    add_user_site()
    if path:
        sys.path[:0] = [os.path.abspath(entry) for entry in path.split(os.pathsep)]
    if had_directory:
        sys.path.insert(0, "")


def fork_kernel(descriptors):
    """The pid of a kernel; 0 in that process itself. A process in between, which ends at once, makes it a child of
    execd, and is where the steps happen that can fail."""
    report, reporter = os.pipe()
    between = os.fork()
    if between != 0:
        os.close(reporter)
        answer = os.read(report, 32)
        os.close(report)
        os.waitpid(between, 0)  # from here on execd is the kernel's parent
        return int(answer)
    try:
        os.close(report)
        cwd, run_id, *variables = read_all(descriptors[4]).split(b"\0")
        mark(run_id)
        if len(descriptors) > 5:
            os.write(descriptors[5], b"0")  # joins its cgroup
        os.chdir(cwd)
        kernel = os.fork()
        if kernel != 0:
            os.write(reporter, b"%d" % kernel)
            os._exit(0)
        os.close(reporter)
        become_kernel(descriptors, variables)
        return 0
    except BaseException as error:
        print("the prepared process failed: %r" % error, file=sys.stderr, flush=True)
        os._exit(1)


def serve_forks():
    seen = installed()
    control.send(b"ready")
    while True:
        request, ancillary, _, _ = control.recvmsg(16, socket.CMSG_SPACE(6 * 4), socket.MSG_CMSG_CLOEXEC)
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[:len(data) - len(data) % descriptors.itemsize])
        if not request:
            os._exit(0)
        if installed() != seen:
            control.send(b"renew")
            os._exit(0)
        try:
            kernel = fork_kernel(descriptors)
        except (OSError, ValueError):
            kernel = -1
        if kernel == 0:
            return
        for number in descriptors:
            os.close(number)
        control.send(b"%d" % kernel)


control = socket.socket(fileno=3)
os.dup2(0, 4)  # taken, so that no received descriptor gets a number that kernels use
gc.collect()
gc.disable()
gc.freeze()
serve_forks()
