"""Image `host`: everyday tools work in it, it shows that one is inside, and it shows nothing secret of the host."""

import pathlib

import pytest

# A package repository of one package, made inside.
MAKE_REPOSITORY = """set -e
mkdir -p /srv/repository /tmp/package/DEBIAN /tmp/package/usr/bin /tmp/package/etc
printf '#!/bin/sh\\necho hello from a package\\n' > /tmp/package/usr/bin/osb-hello
chmod 755 /tmp/package/usr/bin/osb-hello
echo setting > /tmp/package/etc/osb-hello.conf
printf 'Package: osb-hello\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: Test <test@example.org>\\nDepends: dpkg\\n' \
> /tmp/package/DEBIAN/control
printf 'Description: a test\\n' >> /tmp/package/DEBIAN/control
printf '#!/bin/sh\\nchown _apt:nogroup /etc/osb-hello.conf\\n' > /tmp/package/DEBIAN/postinst
chmod 755 /tmp/package/DEBIAN/postinst
dpkg-deb --build /tmp/package /srv/repository/osb-hello.deb > /dev/null
cd /srv/repository
{ cat /tmp/package/DEBIAN/control; echo "Filename: ./osb-hello.deb"; echo "Size: $(stat -c %s osb-hello.deb)"
  echo "SHA256: $(sha256sum osb-hello.deb | cut -d ' ' -f 1)"; } > Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list.d/local.list
"""


@pytest.fixture(scope="module")
def sandbox(daemon):
    return daemon.create("host-image")


@pytest.fixture(autouse=True)
def no_sandboxes_left():
    """One sandbox serves the whole file; closing the daemon removes it."""


def test_packages_are_installed_and_removed(sandbox):
    assert sandbox.output("dpkg-query -W -f '${Status}' dpkg") == "install ok installed"
    sandbox.output(MAKE_REPOSITORY)
    updated = sandbox.output("apt-get update 2>&1")
    assert "W:" not in updated and "E:" not in updated, updated
    installed = sandbox.output("DEBIAN_FRONTEND=noninteractive apt-get install -y osb-hello 2>&1")
    assert "W:" not in installed and "warning" not in installed, installed
    assert sandbox.output("osb-hello; stat -c %U /etc/osb-hello.conf") == "hello from a package\n_apt"
    removed = sandbox.output("DEBIAN_FRONTEND=noninteractive apt-get purge -y osb-hello 2>&1; hash -r; ! which osb-hello")
    assert "W:" not in removed, removed
    assert not pathlib.Path("/usr/bin/osb-hello").exists()


def test_root_becomes_another_user(sandbox):
    assert sandbox.output("su sandbox -c 'id -un; id -gn'") == "sandbox\nsandbox"
    assert sandbox.output("su - sandbox -c 'pwd; echo $HOME'") == "/home/sandbox\n/home/sandbox"
    assert sandbox.output("runuser -u nobody -- id -un") == "nobody"
    sandbox.output("useradd --create-home --shell /bin/bash ada && groupadd builders && usermod -aG builders ada")
    assert sandbox.output("su ada -c 'id -un; id -Gn; touch ~/file && ls ~'") == "ada\nada builders\nfile"
    sandbox.output("echo ada:secret | chpasswd && userdel --remove ada && groupdel builders")


def test_another_user_is_told_why_he_cannot_become_root(sandbox):
    code, text = sandbox.run("echo | su sandbox -c 'su root -c id'")
    assert code != 0 and "uid=0" not in text
    assert "programs in a sandbox gain no privileges" in text, text


def test_the_prompt_names_the_sandbox(daemon):
    sandbox = daemon.create("prompt", hostname="build-7")
    for shell in ("bash -i", "bash -il", "su - sandbox -c 'bash -i'"):
        prompt = sandbox.output(f"""echo 'echo "<${{PS1@P}}>"' | {shell} 2> /dev/null""")
        assert "@build-7:" in prompt, (shell, prompt)
    assert "@build-7" in sandbox.output("echo 'echo \"<$PS1>\"' | sh -il 2> /dev/null")
    assert sandbox.output("getent hosts $(hostname)").split() == [sandbox.status["address"], "build-7"]


def test_nothing_secret_of_the_host_is_visible(daemon):
    """Files that only root of the host may read are absent, or made up."""
    sandbox = daemon.create("fresh")
    assert sandbox.output("ls -A /srv /opt /mnt /media | grep -v -e : -e '^$'; ls -A /home") == "sandbox"
    assert sandbox.output("find /etc/apt -name 'auth.conf*'") == ""
    assert {line.split(":")[1] for line in sandbox.output("cat /etc/shadow").split("\n")} == {"*"}
    for name in sandbox.output("find /etc /var /root /run -xdev -type f").split("\n"):
        path = pathlib.Path(name)
        if path.is_file() and not path.stat().st_mode & 0o004:
            assert sandbox.output(f"cat {name}") != path.read_text(errors="replace"), name
