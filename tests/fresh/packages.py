#!/usr/bin/env python3
"""The Debian packages on a fresh Debian that systemd has booted: installed, used, upgraded, removed, installed again and
purged, with a sandbox that runs through all of it until the purge.

`make package` has made them. The machine downloads the packages that they depend on before it boots: afterwards its
network has no way out.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from booted import BootedMachine
from machine import REPOSITORY, WITH_PARENT, FreshRoot, Machine, Quota

PACKAGES = REPOSITORY / "build" / "packages"
OLD, NEW = "/packages/old", "/packages/new"
SERVICES = ("sandboxd", "opensandbox-server")
# apt finds the packages that it needs among the downloaded ones.
INSTALL = "apt-get install --yes --quiet=2 --no-install-recommends"
DOWNLOAD_SECONDS = 600
STARTED = time.monotonic()


def step(text):
    print(f"packages: {time.monotonic() - STARTED:5.1f} s  {text}", flush=True)


def same(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, expected {wanted!r}")


def copy_packages(root):
    """build/packages, and the same with a higher version. Returns both versions."""
    old, new = (root.path / each.lstrip("/") for each in (OLD, NEW))
    shutil.copytree(PACKAGES, old, ignore=lambda _, names: [name for name in names if not name.endswith(".deb")])
    new.mkdir()
    for package in old.iterdir():
        files = root.path / "packages" / "files"
        subprocess.run(["dpkg-deb", "--raw-extract", package, files], check=True)
        control = files / "DEBIAN" / "control"
        control.write_text(re.sub("(?m)^(Version: .*)$", r"\1+next", control.read_text()))
        subprocess.run(["dpkg-deb", "-Zgzip", "-z1", "--build", files, new], stdout=subprocess.DEVNULL, check=True)
        shutil.rmtree(files)
    version = next(old.glob("opensandbox-server_*.deb")).name.split("_")[1]
    return version, version + "+next"


def start_lint():
    """lintian beside the rest: it takes long for the static library."""
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", *map(str, sorted(PACKAGES.glob("*.deb")))]
    return subprocess.Popen([*WITH_PARENT, *command], stdin=subprocess.DEVNULL)


def download(root):
    """systemd, and all that the packages depend on."""
    # this machine needs no protection against power cuts
    (root.path / "etc/dpkg/dpkg.cfg.d/fresh").write_text("force-unsafe-io\n")
    log = root.path / "download.log"
    script = (f"apt-get -q update && apt-get install -y -q --no-install-recommends iproute2 nftables systemd && "
              f"apt-get install -y -q --no-install-recommends --download-only {OLD}/*.deb")
    if Machine(root, Quota(), quiet=True).run(script, log, DOWNLOAD_SECONDS, DEBIAN_FRONTEND="noninteractive") != 0:
        raise SystemExit(f"packages: cannot download:\n{log.read_text()[-2000:]}")


class Installed:
    """The machine with the packages, and questions about it."""

    def __init__(self, machine):
        self.machine = machine
        self.run = machine.run

    def install(self, directory):
        self.run(f"{INSTALL} {directory}/*.deb")

    def versions(self):
        return set(self.run("dpkg-query --show --showformat '${Version}\\n' opensandbox-server opensandbox-sandboxd "
                            "opensandbox-cli libopensandbox-dev").split())

    def pids(self):
        return [int(self.run(f"systemctl show --property MainPID --value {each}")) for each in SERVICES]

    def osb(self, words):
        return self.run(". /etc/opensandbox/server.env && OPEN_SANDBOX_API_KEY=$OPENSANDBOX_SERVER_API_KEY osb " + words)

    def mode(self, path):
        return self.run(f"stat --format '%a %U %G' {path}")

    def sandbox_processes(self):
        """How many processes are in cgroups of sandboxes."""
        pids = self.run("cat /dev/null $(find /sys/fs/cgroup -path '*/opensandbox/*' -name cgroup.procs) | sort -u")
        return len(pids.split())


def check_installed(it, version):
    same("versions", it.versions(), {version})
    for service in SERVICES:
        same(service, it.run(f"systemctl is-active {service}; systemctl is-enabled {service}"), "active\nenabled")
    same("the server's user", it.run("stat --format %U /proc/$(systemctl show -P MainPID opensandbox-server)"), "opensandbox")
    same("the key's file", it.mode("/etc/opensandbox/server.env"), "600 root root")
    same("sandboxd's state", it.mode("/var/lib/opensandbox"), "700 root root")
    same("the server's state", it.mode("/var/lib/opensandbox-server"), "700 opensandbox opensandbox")
    same("sandboxd's socket", it.mode("/run/opensandbox/sandboxd.sock"), "660 root opensandbox")
    same("a command in a new sandbox", it.osb("run host -- echo hello"), "hello")
    for page in ("osb.1", "opensandbox.1", "opensandbox-mcp.1", "sandboxd.8", "execd.8", "opensandbox-server.8"):
        it.run(f"zcat /usr/share/man/man*/{page}.gz | grep -q '^.SH NAME'")


def start_of(it, sandbox):
    """When the sandbox's first process started, in ticks since boot: the same as long as it is the same process."""
    return it.osb(f"exec {sandbox} -- sh -c 'cut -d \" \" -f 22 /proc/1/stat'")


def play(machine, old, new):
    it = Installed(machine)
    step(f"install {old}")
    it.install(OLD)
    check_installed(it, old)
    sandbox = json.loads(it.osb("sandbox create --image host --timeout 1h -o json"))["id"]
    it.osb(f"exec {sandbox} -- sh -c 'echo kept >/root/note'")
    born = start_of(it, sandbox)
    key = it.run("cat /etc/opensandbox/server.env")
    it.run("echo '# changed here' >>/etc/opensandbox/server.toml")
    it.run("systemctl reload opensandbox-server")
    before = it.pids()

    step(f"upgrade to {new}")
    it.install(NEW)
    check_installed(it, new)
    if set(before) & set(it.pids()):
        raise AssertionError(f"a service was not restarted: {before}, {it.pids()}")
    same("the sandbox's process", start_of(it, sandbox), born)
    same("the sandbox's file", it.osb(f"exec {sandbox} -- cat /root/note"), "kept")
    same("the key", it.run("cat /etc/opensandbox/server.env"), key)
    same("the settings", it.run("tail -n 1 /etc/opensandbox/server.toml"), "# changed here")

    step("remove")
    packages = "opensandbox-server opensandbox-sandboxd opensandbox-cli libopensandbox-dev"
    it.run(f"apt-get remove --yes --quiet=2 {packages}")
    for service in SERVICES:
        same(service, it.run(f"systemctl is-active {service}", check=False), "inactive")
    it.run("test -d /var/lib/opensandbox/sandboxes && test -d /var/lib/opensandbox-server && "
           "test -f /etc/opensandbox/server.toml && ! test -e /usr/bin/sandboxd")
    if not it.sandbox_processes():
        raise AssertionError("the sandbox ended")

    step("install again")
    it.install(NEW)
    check_installed(it, new)
    same("the sandbox's process", start_of(it, sandbox), born)
    same("the settings", it.run("tail -n 1 /etc/opensandbox/server.toml"), "# changed here")
    it.osb(f"sandbox pause {sandbox}")  # frozen processes have to end too

    step("purge")
    it.run(f"apt-get purge --yes --quiet=2 {packages}")
    same("processes of sandboxes", it.sandbox_processes(), 0)
    same("cgroups of sandboxes", it.run("find /sys/fs/cgroup -name opensandbox"), "")
    same("mounts", it.run("findmnt --raw --noheadings --output TARGET | grep opensandbox", check=False), "")
    same("files", it.run("find /etc /home /lib /root /run /tmp /usr /var -xdev -iname '*opensandbox*' -print "
                         "-o -name 'sandboxd*' -print -o -name execd -print"), "")
    same("interfaces", it.run("ls /sys/class/net"), "lo")
    same("routes and firewall", it.run("ip route; nft list tables; ip -4 -br address | grep 10.90", check=False), "")


def main():
    if os.geteuid() != 0:
        raise SystemExit("packages: makes namespaces and device nodes, so it needs root")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = FreshRoot()
    try:
        lint = start_lint()
        step("make a machine")
        versions = copy_packages(root)
        download(root)
        with BootedMachine(root) as machine:
            try:
                play(machine, *versions)
            except AssertionError:
                print(machine.run("journalctl --no-pager --lines 60 --unit sandboxd --unit opensandbox-server", check=False))
                raise
        if lint.wait() != 0:
            raise SystemExit("packages: lintian is not content")
        step("all passed")
    finally:
        root.close()


if __name__ == "__main__":
    sys.exit(main())
