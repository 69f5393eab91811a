"""Traces of sandboxes on a host, read from the host and not from the daemon: files, cgroups, processes, interfaces,
firewall elements, mounts and descriptors."""

import contextlib
import ctypes
import json
import os
import pathlib
import select
import socket
import subprocess
import time

RTMGRP_LINK = 1
IN_DELETE, IN_MOVED_FROM = 0x200, 0x40


def names(directory):
    try:
        return set(os.listdir(directory))
    except FileNotFoundError:
        return set()


def cgroup_mounts():
    with open("/proc/mounts") as mounts:
        return [line.split()[1] for line in mounts if line.split()[2] in ("cgroup", "cgroup2")]


def cgroups(daemon):
    """Directories of sandboxes in every hierarchy."""
    found = set()
    for mount in cgroup_mounts():
        parent = pathlib.Path(mount) / daemon.cgroup_parent
        with contextlib.suppress(FileNotFoundError):
            found |= {entry.path for entry in os.scandir(parent) if entry.is_dir()}
    return found


def processes(daemon):
    """Ids of living processes that are in a cgroup of this daemon's sandboxes, in any hierarchy. Dead children of the
    daemon are left out: they wait for the host's first process to reap them."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cgroup") as cgroup, open(f"/proc/{pid}/stat") as stat:
                if f"/{daemon.cgroup_parent}/" in cgroup.read() and stat.read().rpartition(")")[2].split()[0] != "Z":
                    found.add(int(pid))
    return found


def interfaces(prefix="osb-"):
    return {name for _, name in socket.if_nameindex() if name.startswith(prefix)}


def elements(name, table="opensandbox"):
    """Of a set or map of the firewall."""
    shown = subprocess.run(["nft", "-j", "list", "table", "inet", table], capture_output=True, text=True)
    if shown.returncode != 0:
        return []
    for item in json.loads(shown.stdout)["nftables"]:
        for kind in ("set", "map"):
            if item.get(kind, {}).get("name") == name:
                return item[kind].get("elem", [])
    return []


def member_interfaces():
    return {element["concat"][0] for element in elements("members")}


def firewall_lines():
    shown = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True)
    return len(shown.stdout.splitlines())


def mounts(pid):
    with open(f"/proc/{pid}/mountinfo") as file:
        return {line.split()[4] for line in file}


def descriptors(pid):
    """{descriptor: what it is}."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found[fd] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


def network_namespaces(pid):
    """That the process holds by descriptor."""
    return {target for target in descriptors(pid).values() if target.startswith("net:[")}


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def files(daemon):
    """Everything in the state and run directories that belongs to a sandbox, a snapshot or a volume."""
    places = {"sandboxes": daemon.state / "sandboxes", "trash": daemon.state / "trash",
              "sockets": daemon.run / "execd"}
    for kind in ("snapshots", "volumes"):
        places[kind] = daemon.state / kind
        places[f"{kind} in the making"] = daemon.state / kind / ".tmp"
    return {what: names(place) - {".tmp"} for what, place in places.items()}


def wait_for_links(condition, what, seconds=20):
    """Returns when the condition holds; it is asked again whenever the kernel reports a change of an interface."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as events:
        events.bind((0, RTMGRP_LINK))
        _wait(events, lambda: _drain(events), condition, what, seconds)


def wait_for_empty(directory, seconds=20):
    """Returns when nothing is in the directory any more."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    try:
        watched = libc.inotify_add_watch(fd, str(directory).encode(), IN_DELETE | IN_MOVED_FROM)
        assert watched >= 0, os.strerror(ctypes.get_errno())
        _wait(fd, lambda: os.read(fd, 65536), lambda: not names(directory), f"{directory} is not empty", seconds)
    finally:
        os.close(fd)


def _drain(events):
    with contextlib.suppress(BlockingIOError):
        while events.recv(65536, socket.MSG_DONTWAIT):
            pass


def _wait(source, drain, condition, what, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            assert condition(), what() if callable(what) else what
            return
        drain()
