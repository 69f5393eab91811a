"""A person works with osb in a terminal of 80 columns, and reads what happens."""

import re


def widest(text):
    return max(map(len, text.splitlines()))


def test_a_command_in_a_sandbox_of_its_own(screen):
    assert screen.run("osb run host -- sh -c 'echo hello; exit 3'", status=3) == "hello"
    assert "no sandboxes" in screen.run("osb ps").lower()


def test_a_named_sandbox_from_its_first_to_its_last_command(screen):
    made = screen.run("osb run -d --name web host -- sleep infinity")
    assert re.fullmatch(r"[0-9a-f-]{36}", made), made
    table = screen.run("osb ps")
    assert "web" in table and "Running" in table and made[:8] in table
    assert widest(table) <= 80
    assert screen.run("osb exec web -- echo inside") == "inside"
    screen.run("echo data > file && osb cp file web:/tmp/")
    assert screen.run(f"osb exec {made[:8]} -- cat /tmp/file") == "data"
    assert "Paused" in screen.run("osb sandbox pause web && osb ps")
    said = screen.run("osb exec web -- true", status=1)
    assert "paused" in said and "resume" in said, said
    screen.run("osb sandbox resume web")
    assert screen.run("osb exec web -- cat /tmp/file") == "data"
    screen.run("osb rm web")
    said = screen.run("osb exec web -- true", status=1)
    assert "web" in said and "not found" in said, said


def test_an_image_that_does_not_exist_is_named(screen):
    said = screen.run("osb run 127.0.0.1:9/no/such:image -- true", status=1)
    assert "no/such" in said, said


def test_a_command_that_needs_too_much_memory_is_told_so(screen):
    screen.run("osb run -d --name small --resource memory=96Mi host -- sleep infinity")
    said = screen.run("osb exec small -- python3 -c 'bytearray(10**9)'", status=137)
    assert "out of memory (limit 96 MiB)" in said, said
    screen.run("osb rm small")


def test_a_command_that_takes_too_long_is_told_so(screen):
    screen.run("osb run -d --name slow host -- sleep infinity")
    said = screen.run("osb command run slow --timeout 1s -- sleep 60; test $? -ne 0")
    assert "timed out after 1" in said, said
    screen.run("osb rm slow")


def test_a_sandbox_that_someone_else_deletes_under_a_command(screen, server):
    made = screen.run("osb run -d --name shared host -- sleep infinity")
    screen.type("osb exec shared -- sh -c 'echo begun; exec sleep infinity'")
    screen.expect("begun\r?\n")
    server.delete(made)
    assert screen.prompt() != 0
    assert "deleted" in screen.shown()


def test_a_development_server_on_loopback_is_reached(screen):
    screen.run("osb run -d --name dev host -- sleep infinity")
    screen.run("osb exec dev -- sh -c 'echo found > /tmp/page'")
    screen.run("osb command run dev --background -- python3 -u -m http.server 8000 --bind 127.0.0.1 --directory /tmp")
    screen.type("osb port-forward dev 18000:8000 & curl -s --retry 20 --retry-all-errors localhost:18000/page; kill %1; wait")
    screen.expect("found\r?\n")
    screen.prompt()
    screen.run("osb rm dev")


def test_wrong_hints_are_gone(screen):
    said = screen.run("touch f; osb cp f nope:/tmp/", status=1)
    assert "nope" in said and "not found" in said, said
    screen.run("osb run -d --name hints host -- sleep infinity")
    assert "nothing" in screen.run("osb file rm hints /tmp/nothing", status=1)
    screen.run("osb exec hints -- sh -c 'echo text > /tmp/t'")
    assert "no match" in screen.run("osb file replace hints /tmp/t --old absent --new x", status=1).lower()
    assert "is the server running" not in screen.run("osb egress get hints", status=1).lower()
    screen.run("osb rm hints")
