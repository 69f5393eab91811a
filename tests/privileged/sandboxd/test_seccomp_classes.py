"""Classes of sandboxes with a seccomp profile of their own, and walls that this kernel may lack."""

import json
import subprocess

import pytest

from sandboxd_process import binary

STRICT = {"defaultAction": "SCMP_ACT_ALLOW",
          "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
                       {"names": ["unshare"], "action": "SCMP_ACT_ALLOW"}]}


@pytest.fixture
def strict(tmp_path):
    profile = tmp_path / "strict.json"
    profile.write_text(json.dumps(STRICT, indent=1))
    return profile


def test_a_class_has_one_more_filter(make_daemon, strict):
    daemon = make_daemon(settings={"runtimes": {"strict": ["native", f"--seccomp-profile={strict}"]}})
    plain, narrow = daemon.create("plain"), daemon.create("narrow", runtime="strict")
    assert plain.run("mkdir /root/directory")[0] == 0
    code, text = narrow.run("mkdir /root/directory")
    assert code != 0 and "Function not implemented" in text
    assert narrow.output("echo works > /root/file; cat /root/file") == "works"
    filters = "grep Seccomp_filters /proc/self/status | cut -f2"
    assert int(narrow.output(filters)) == int(plain.output(filters)) + 1
    # It opens nothing that the first filter closes.
    code, text = narrow.run("unshare --user true")
    assert code != 0 and "Operation not permitted" in text, text
    daemon.kill()
    daemon.start()
    assert narrow.run("mkdir /root/directory")[0] != 0
    assert "strict" in daemon.refused(id="other", runtime="nothing")[1]["message"]


def test_a_class_has_no_isolated_sessions(make_daemon, strict):
    """They would be behind the host's filter only."""
    daemon = make_daemon(settings={"runtimes": {"strict": ["native", f"--seccomp-profile={strict}"]}})
    status, problem = daemon.refused(id="narrow", runtime="strict", isolated_sessions=True)
    assert status == 501 and "isolated sessions need the runtime native" in problem["message"], problem
    assert daemon.list() == []


def test_a_class_can_be_the_default(make_daemon, strict):
    daemon = make_daemon(settings={"sandbox": {"default_runtime": "strict"},
                                   "runtimes": {"strict": ["native", f"--seccomp-profile={strict}"]}})
    assert daemon.create("narrow").run("mkdir /root/directory")[0] != 0
    assert daemon.create("plain", runtime="native").run("mkdir /root/directory")[0] == 0


def start(tmp_path, text):
    config = tmp_path / "sandboxd.toml"
    config.write_text(text)
    return subprocess.run([binary("sandboxd"), "--config", config, "--state-dir", tmp_path / "state", "--run-dir", tmp_path],
                          capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("profile, message", [
    ('{"defaultAction": "SCMP_ACT_ALLOW",\n"syscalls": oops}', "broken.json: line 2: "),
    ('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdri"], "action": "SCMP_ACT_ERRNO"}]}',
     "broken.json: /syscalls/0/names: this machine does not know 'mkdri'"),
])
def test_a_broken_profile_keeps_the_daemon_from_starting(tmp_path, profile, message):
    (tmp_path / "broken.json").write_text(profile)
    ended = start(tmp_path, f'[runtimes]\nstrict = ["native", "--seccomp-profile={tmp_path}/broken.json"]\n')
    assert ended.returncode == 1 and "[runtimes] strict" in ended.stderr and message in ended.stderr, ended.stderr


def test_a_class_without_a_profile_is_refused(tmp_path):
    ended = start(tmp_path, '[runtimes]\nstrict = ["native"]\n')
    assert ended.returncode == 1 and "[runtimes] strict: expected" in ended.stderr, ended.stderr


def test_core_scheduling_is_refused_where_the_kernel_has_none(make_daemon, tmp_path):
    check = json.loads(subprocess.run([binary("sandboxd"), "check", "--json"], capture_output=True, text=True).stdout)
    state = next(each["state"] for each in check["checks"] if each["what"] == "core scheduling")
    if state == "ok":
        daemon = make_daemon(settings={"sandbox": {"core_scheduling": True}})
        assert daemon.create("one").output("echo works") == "works"
    else:
        ended = start(tmp_path, "[sandbox]\ncore_scheduling = true\n")
        assert ended.returncode == 1 and "this kernel has none" in ended.stderr, ended.stderr
