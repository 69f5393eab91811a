"""image-committer when it is killed, when containerd or the registry fails, and when there is nothing to save."""

import itertools
import signal
import socket
import subprocess
import threading

import pytest

from conftest import BASE, World
from registry import Registry


def end_at(world, number, how):
    """A commit that gets the signal when its call with this number has reached containerd; its answer does not come after
    SIGKILL. It has a layer of its own to write and to send."""
    running = []
    world.containerd.sh("one", f"echo {how} {number} > /ended")

    def act(now):
        if now == number:
            running[0].send_signal(how)
        return now < number or how != signal.SIGKILL

    with world.gate(act) as gate:
        running.append(world.start("a-0", "boxes", f"sandbox:{world.image('again')}", socket=gate.path))
        done = world.finish(running[0])
    return done if gate.calls >= number else None


def test_a_killed_run_is_repaired_by_the_next_at_every_call(world):
    paused = []
    for number in itertools.count(1):
        done = end_at(world, number, signal.SIGKILL)
        if done is None:
            break
        assert done.status == -signal.SIGKILL, done.errors
        if world.containerd.status("one") == "PAUSED":
            paused.append(number)
        world.commit(f"sandbox:{world.image('again')}").digests()
        assert world.containerd.status("one") == "RUNNING", number
        assert world.containerd.remains()[0] == [], number
    assert number > 25, "it makes more calls than these"
    # The view, the mounts, the layer, the view's removal, the layer's facts, and the state.
    assert len(paused) >= 6, paused


def test_a_run_that_is_told_to_stop_leaves_the_container_running_at_every_call(world):
    stopped = []
    for number in itertools.count(1):
        done = end_at(world, number, signal.SIGTERM)
        if done is None:
            break
        assert world.containerd.status("one") == "RUNNING", number
        assert world.containerd.remains()[0] == [], number
        # It looks where something takes long, and finishes what does not.
        assert done.status == 0 or (done.status == 1 and "told to stop" in done.message), (number, done.errors)
        if done.status == 1:
            stopped.append(number)
    assert number > 25 and len(stopped) > 10, stopped
    assert world.containerd.sh("one", "echo alive") == "alive\n"


def test_unpause_lets_a_container_go_on_that_a_killed_run_has_left_paused(world):
    for number in range(1, 100):
        end_at(world, number, signal.SIGKILL)
        if world.containerd.status("one") == "PAUSED":
            break
    done = world.finish(world.start("unpause", "a-0", "boxes", "sandbox"))
    assert done.status == 0 and done.output == "", done.errors
    assert world.containerd.status("one") == "RUNNING"
    # Once more, and for what is not there: nothing to do.
    assert world.finish(world.start("unpause", "a-0", "boxes", "sandbox", "nothing")).status == 0
    world.commit(f"sandbox:{world.image('again')}").digests()


@pytest.mark.parametrize("times", [1, 100])
def test_a_container_that_others_resume_meanwhile_is_read_again(world, times):
    """As another snapshot of the same container does it when it ends."""
    resumed = []

    def act(_):
        if len(resumed) < times and world.containerd.status("one") == "PAUSED":
            resumed.append(world.containerd.ctr("tasks", "resume", "one"))
        return True

    with world.gate(act) as gate:
        done = world.commit(f"sandbox:{world.image('shared')}", socket=gate.path)
    assert "resumed by somebody else" in done.errors
    if times == 1:
        assert done.digests()
    else:
        assert done.status == 1 and "was resumed by somebody else again and again" in done.message


def test_a_container_that_is_gone_is_named(world):
    for pod, container in (("a-0", "nothing"), ("nobody", "sandbox")):
        gone = world.commit(f"{container}:{world.image('gone')}", pod=pod)
        assert gone.status == 1
        assert f"container {container} of pod boxes/{pod} is not on this node" in gone.message


def test_a_container_of_another_runtime_is_refused(world):
    labels = {"pod.name": "g-0", "pod.namespace": "boxes", "container.name": "sandbox"}
    world.containerd.ctr("containers", "create", "--runtime", "io.containerd.runsc.v1",
                         *(word for name, value in labels.items() for word in ("--label", f"io.kubernetes.{name}={value}")),
                         BASE, "guarded")
    try:
        refused = world.commit(f"sandbox:{world.image('guarded')}", pod="g-0")
        assert refused.status == 1 and "runs with io.containerd.runsc.v1: only containers of runc can be saved" in refused.message
    finally:
        world.containerd.ctr("containers", "rm", "guarded")


@pytest.mark.parametrize("credentials", [None, ("puller", "guess-17")])
def test_a_registry_that_refuses_is_told_without_the_password(world, credentials):
    refused = world.commit(f"sandbox:{world.image('refused')}", credentials=credentials)
    assert refused.status == 1 and "wants (other) credentials" in refused.message, refused.errors
    assert "guess-17" not in refused.errors + refused.message


def test_bad_credentials_are_told_without_them(world):
    config = world.directory / "spoilt.json"
    config.write_text('{"auths": {"%s": {"auth": "guess-18"}}}' % world.registry.host)
    done = world.commit(f"sandbox:{world.image('refused')}", "--credentials", str(config))
    assert done.status == 1 and "run docker login again" in done.message
    assert "guess-18" not in done.errors + done.message


def test_a_registry_that_is_away_is_named_and_the_next_run_succeeds(world, tmp_path):
    away = Registry(tmp_path, tls=False)
    away.close()
    failed = world.commit(f"sandbox:{away.host}/snaps/a:1")
    assert failed.status == 1 and away.host in failed.message, failed.message
    assert failed.errors.count("push tried again") == 4
    world.commit(f"sandbox:{world.image('away')}").digests()


def test_plain_http_needs_leave_and_never_goes_to_a_public_address(world):
    subprocess.run(["ip", "addr", "add", "10.77.0.1/32", "dev", "lo"], check=True)
    first_bytes = []

    def listen(listener):
        with listener:
            for _ in range(5):  # an attempt and its repetitions
                peer, _ = listener.accept()
                with peer:
                    first_bytes.append(peer.recv(1))

    listener = socket.create_server(("10.77.0.1", 0))
    thread = threading.Thread(target=listen, args=(listener,))
    thread.start()
    registry = f"10.77.0.1:{listener.getsockname()[1]}"
    refused = world.commit(f"sandbox:{registry}/snaps/a:1", SNAPSHOT_REGISTRY_INSECURE="false")
    thread.join()
    assert refused.status == 1 and first_bytes == [b"\x16"] * 5, "the begin of TLS"
    public = world.commit("sandbox:1.1.1.1:80/snaps/a:1")
    assert public.status == 1 and "at a public address: it is not asked without TLS" in public.message


def test_a_tls_registry_is_asked_with_tls(world, tmp_path):
    registry = Registry(tmp_path)
    try:
        world.registry, usual = registry, world.registry
        strict = {"SNAPSHOT_REGISTRY_INSECURE": ""}
        world.commit(f"sandbox:{world.image('tls')}", SSL_CERT_FILE=str(registry.ca), **strict).digests()
        assert world.manifest(world.image("tls"))
        unknown = world.commit(f"sandbox:{world.image('unknown')}", **strict)
        assert unknown.status == 1 and world.manifest(world.image("unknown")) is None
    finally:
        world.registry = usual
        registry.close()


def test_a_full_disk_is_named_and_the_container_goes_on(tmp_path, registry):
    world = World(tmp_path, registry, disk="48m")
    try:
        world.containerd.sh("one", "head -c 24000000 /dev/urandom > /large")
        before = world.containerd.remains()
        full = world.commit(f"sandbox:{world.image('full')}")
        assert full.status == 1 and "no space left on device" in full.message, full.errors
        assert world.containerd.status("one") == "RUNNING"
        assert world.containerd.remains() == before
        world.containerd.sh("one", "rm /large")
        world.commit(f"sandbox:{world.image('full')}").digests()
    finally:
        world.containerd.close()


def test_containerd_is_killed_while_it_reads(tmp_path, registry):
    world = World(tmp_path, registry)
    killed = []

    def act(_):
        if not killed and world.containerd.status("one") == "PAUSED":
            killed.append(True)
            world.containerd.kill()
            world.containerd.start()
        return True

    try:
        with world.gate(act) as gate:
            failed = world.commit(f"sandbox:{world.image('killed')}", socket=gate.path)
        assert killed and failed.status == 1 and "containerd at" in failed.message, failed.errors
        assert world.containerd.status("one") == "RUNNING"
        world.commit(f"sandbox:{world.image('killed')}").digests()
    finally:
        world.containerd.close()


def test_a_containerd_that_is_not_there_is_named(world, tmp_path):
    missing = world.commit(f"sandbox:{world.image('missing')}", socket=tmp_path / "nothing.sock")
    assert missing.status == 1 and f"{tmp_path}/nothing.sock" in missing.message
