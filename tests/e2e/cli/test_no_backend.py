"""osb while the server's backend is away: it ends at once and names what is missing."""

import signal


def test_commands_that_create_name_the_missing_backend(server, osb):
    name = {"NATIVE": "sandboxd", "DOCKER": "the container engine"}[server.daemon.code_prefix]
    server.daemon.stop()
    try:
        for command in (["run", "host", "--", "true"], ["sandbox", "create", "--image", "host"]):
            said = osb.refused(*command)
            assert f"{name} does not answer" in said and "osb doctor" in said, said
        report = osb.run("doctor")
        assert report.returncode == 1
        assert f"{name} does not answer" in (report.stdout + report.stderr).decode()
    finally:
        server.daemon.start()
    done = osb.run("run", "host", "--", "echo", "back")
    assert (done.returncode, done.stdout) == (0, b"back\n"), done.stderr


def test_a_backend_that_dies_under_a_create_is_named_and_the_create_goes_on_when_it_is_back(server, osb):
    daemon = server.daemon
    daemon.process.send_signal(signal.SIGSTOP)  # the create is accepted, and not carried out
    try:
        process = osb.start("-v", "run", "host", "--", "echo", "back")
        for line in process.stderr:
            if b"POST" in line:
                break
    finally:
        daemon.kill()
    said = next(line for line in process.stderr if line.startswith(b"osb: waiting"))
    assert said == b"osb: waiting: sandboxd does not answer; the sandbox is created when it is back\n"
    daemon.start()
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, b"back\n"), err
    assert b"osb: waiting" not in err, err


def test_a_backend_that_stays_away_ends_the_wait(server, osb):
    daemon = server.daemon
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        process = osb.start("-v", "run", "host", "--", "true")
        for line in process.stderr:
            if b"POST" in line:
                break
    finally:
        daemon.kill()
    try:
        out, err = process.communicate(timeout=240)
        assert (process.returncode, out) == (1, b""), err
        assert b"ERROR [Sandbox Error]: sandboxd does not answer" in err, err
        assert server.client.get("/v1/sandboxes").json()["items"] == []
    finally:
        daemon.start()
    assert daemon.wait_for_exactly(set(), 120) == set()
