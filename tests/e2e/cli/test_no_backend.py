"""osb while the server's backend is away: it ends at once and names what is missing."""


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
