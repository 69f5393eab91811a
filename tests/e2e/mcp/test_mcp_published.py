"""The tools of the published server (PyPI opensandbox-mcp 1.1.1, recorded in published_tools.json: what its tools/list
says, without prose) are here with the same arguments and results; ours may have more."""

import json
import pathlib

import pytest

from mcp_process import StdioMcp

PUBLISHED = json.loads((pathlib.Path(__file__).parent / "published_tools.json").read_text())

# What the published results hold beyond the contract: fields for things that our server does not have.
NOT_HERE = {"allocation", "extensions", "origin"}


def shape(schema):
    """A schema in the form of published_tools.json."""
    if "anyOf" in schema:
        return shape(next(form for form in schema["anyOf"] if form["type"] != "null"))
    if schema["type"] == "array":
        return [shape(schema["items"])]
    if schema["type"] == "object":
        if "properties" in schema:
            return {name: shape(each) for name, each in schema["properties"].items()}
        return {"*": shape(schema["additionalProperties"])}
    return schema["type"]


def covers(ours, theirs, where, but=()):
    """Everything that `theirs` has is in `ours`, of the same type."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), where
        for name, each in theirs.items():
            if name not in but:
                assert name in ours, f"{where}/{name} is missing"
                covers(ours[name], each, f"{where}/{name}", but)
    elif isinstance(theirs, list):
        assert isinstance(ours, list), where
        covers(ours[0], theirs[0], where + "/0", but)
    else:
        assert ours == theirs, where


@pytest.fixture(scope="module")
def tools(server):
    mcp = StdioMcp(server)
    listed = mcp.ask({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})["result"]
    assert mcp.leave() == 0
    assert "nextCursor" not in listed
    return {tool["name"]: tool for tool in listed["tools"]}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_published_tool_is_here(tools, name):
    theirs = PUBLISHED[name]
    ours = tools[name]["inputSchema"]
    covers(shape(ours), theirs["arguments"], name)
    assert ours.get("required", []) == theirs["required"]
    defaults = {key: each.get("default") for key, each in ours["properties"].items()}
    assert theirs["defaults"] == {key: defaults[key] for key in theirs["defaults"]}
    covers(shape(tools[name]["outputSchema"]), theirs["result"], name + " result", NOT_HERE)
