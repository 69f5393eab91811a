"""Sandboxes of an OCI runtime: gVisor's runsc, as Debian has it."""


def test_runs_in_gvisor(daemon):
    sandbox = daemon.create("runsc-1", runtime="runsc")
    assert sandbox.status["state"] == "running"
    assert "gVisor" in sandbox.output("dmesg")
    assert sandbox.output("id -u; echo hello") == "0\nhello"
