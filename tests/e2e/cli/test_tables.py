"""Lists on terminals of 80 columns: nothing wraps, and what is shown can be used."""

import re

import pytest


def screen(osb, *arguments, columns=80):
    """The lines that the terminal shows, without colours."""
    with osb.terminal("--no-color", *arguments, columns=columns) as terminal:
        assert terminal.wait() == 0, terminal.text()
        return terminal.text().replace("\r\n", "\n").splitlines()


@pytest.fixture
def many(server):
    ids = [server.create(metadata={"name": f"a-rather-long-name-for-a-sandbox-{n}"})["id"] for n in range(3)]
    ids.append(server.create(timeout=3600)["id"])
    yield ids
    for id in ids:
        server.client.delete(f"/v1/sandboxes/{id}")


@pytest.mark.parametrize("command", [["ps"], ["sandbox", "list"]])
def test_sandboxes_fit_80_columns(osb, many, command):
    lines = screen(osb, *command)
    assert all(len(line) <= 80 for line in lines), lines
    head = next(line for line in lines if "STATUS" in line)
    for name in ("ID", "NAME", "STATUS", "IMAGE", "CREATED", "EXPIRES"):
        assert f" {name} " in head, lines
    shown = [re.match(r"│ (\S+) ", line)[1] for line in lines if "Running" in line]
    assert sorted(shown) == sorted(id[:12] for id in many)
    assert re.search(r"│ in (1h|59m) ", "\n".join(lines)) and re.search(r" \d+s ago ", "\n".join(lines)), lines
    for short in shown:
        assert osb.json("sandbox", "get", short)["id"] in many


def test_narrow_terminals_lose_the_least_important_columns(osb, many):
    lines = screen(osb, "ps", columns=45)
    assert all(len(line) <= 45 for line in lines), lines
    head = next(line for line in lines if "STATUS" in line)
    assert " ID " in head and "EXPIRES" not in head, lines


def test_wide_shows_everything_whole(osb, many):
    lines = screen(osb, "ps", "-o", "wide")
    assert all(any(id in line for line in lines) for id in many)
    assert "a-rather-long-name-for-a-sandbox-2" in "\n".join(lines)
    head = osb.ok("ps", "-o", "wide").splitlines()[0].split("\t")
    assert head[:3] == ["ID", "NAME", "STATUS"] and "METADATA" in head
    assert osb.ok("ps").splitlines()[0].split("\t") == ["ID", "STATUS", "IMAGE", "CREATED_AT", "EXPIRES_AT"]


def test_snapshots_images_files_and_one_sandbox_fit_80_columns(osb, server, many):
    made = osb.json("snapshot", "create", many[0], "--name", "a-name-that-is-quite-long-for-a-snapshot-of-this-kind",
                    "--wait")
    osb.ok("file", "write", many[0], "/tmp/" + "x" * 100, "-c", "y")
    for command in (["snapshot", "list"], ["snapshot", "get", made["id"]], ["images"], ["ls", many[0], "/tmp"],
                    ["file", "search", many[0], "/tmp", "-p", "x*"], ["file", "info", many[0], "/tmp/" + "x" * 100],
                    ["sandbox", "get", many[0]], ["sandbox", "metrics", many[0]], ["top", "--once"]):
        lines = screen(osb, *command)
        assert lines and all(len(line) <= 80 for line in lines), (command, lines)
    osb.ok("snapshot", "delete", made["id"])


def test_top_redraws_within_80_columns(osb, many):
    with osb.terminal("top") as terminal:
        terminal.expect("NAME/IMAGE")
        terminal.expect(many[3][:12])
        terminal.type("q")
        assert terminal.wait() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.text())
    assert all(len(line) <= 80 for line in plain.splitlines()), plain
