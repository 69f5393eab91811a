"""A fresh Debian that systemd has booted, in namespaces and cgroups of its own."""

import contextlib
import os
import pathlib
import socket
import subprocess

from machine import HERE, WITH_PARENT, remove_cgroups

# They change the kernel, which is this machine's too, or write to its console.
MASKED = ("console-getty.service", "proc-sys-fs-binfmt_misc.automount", "systemd-binfmt.service",
          "systemd-modules-load.service", "systemd-remount-fs.service", "systemd-sysctl.service", "systemd-udevd.service",
          "systemd-udev-trigger.service", "sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount")
BOOT = """mount --bind /dev/null /dev/console
exec env -i container=fresh NOTIFY_SOCKET=/booted PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
  /lib/systemd/systemd --unit=sysinit.target --log-target=journal --show-status=no"""
BOOT_SECONDS = 120


class OwnCgroups:
    """A cgroup in every hierarchy, so that systemd inside meets no process of ours and leaves nothing behind."""

    def __init__(self):
        self.directories = []
        own = {}
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own[controllers] = path.lstrip("/")
        for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
            _, mount, kind, options, *_ = line.split()
            if kind == "cgroup2":
                parent = pathlib.Path(mount)
            elif kind == "cgroup":
                names = set(options.split(","))
                parent = next((pathlib.Path(mount) / path for controllers, path in own.items()
                               if controllers and names.issuperset(controllers.split(","))), None)
            else:
                continue
            if parent is not None:
                self._make(parent, parent / f"osb-booted-{os.getpid()}")

    def _make(self, parent, directory):
        directory.mkdir()
        self.directories.append(directory)
        for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new cgroup of v1, which then takes no process
            if (parent / "cgroup.clone_children").exists() and (parent / name).exists():
                (directory / name).write_text((parent / name).read_text())

    def wrap(self, command):
        enter = "".join(f"echo 0 >{directory}/cgroup.procs && " for directory in self.directories)
        return ["sh", "-c", enter + 'exec "$@"', "sh", *command]

    def close(self):
        for directory in self.directories:
            remove_cgroups(directory)


class BootedMachine:
    """A context manager. The machine has its own network without a way out; it ends with this process in every case."""

    def __init__(self, root):
        self.root = root.path
        self.cgroups = OwnCgroups()
        self.unshare = None

    def __enter__(self):
        try:
            self._boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _boot(self):
        units = self.root / "etc/systemd/system"
        for name in MASKED:
            with contextlib.suppress(FileExistsError):
                (units / name).symlink_to("/dev/null")
        notify = self.root / "booted"
        notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as booted:
            # By descriptor: a socket's path may be too long otherwise.
            directory = os.open(self.root, os.O_PATH)
            booted.bind(f"/proc/self/fd/{directory}/booted")
            os.close(directory)
            booted.settimeout(BOOT_SECONDS)
            command = [*WITH_PARENT, "unshare", "--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup", "--fork",
                       "--kill-child=KILL", str(HERE / "enter"), str(self.root), "--", "sh", "-c", BOOT]
            with open(self.root / "boot.log", "wb") as log:
                self.unshare = subprocess.Popen(self.cgroups.wrap(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                start_new_session=True)
            try:
                while b"READY=1" not in booted.recv(4096):
                    pass
            except TimeoutError:
                raise SystemExit(f"fresh: systemd did not boot: {(self.root / 'boot.log').read_text()}") from None

    @property
    def init(self):
        """The id of its first process, as seen from here."""
        children = pathlib.Path(f"/proc/{self.unshare.pid}/task/{self.unshare.pid}/children").read_text().split()
        return int(children[0])

    def run(self, script, check=True):
        """bash -c SCRIPT inside. Returns what it wrote; a status other than 0 is an error."""
        done = subprocess.run(["nsenter", "--target", str(self.init), "--all", "env", "-i", "HOME=/root", "LANG=C.UTF-8",
                               "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "bash", "-c", script],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if check and done.returncode:
            raise AssertionError(f"{script}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout.strip()

    def __exit__(self, *_):
        if self.unshare is not None:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError, IndexError):
                os.kill(self.init, 9)
            if self.unshare.poll() is None:
                self.unshare.wait()
        self.cgroups.close()
