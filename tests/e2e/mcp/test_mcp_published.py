"""The tools of the published server (PyPI opensandbox-mcp 1.1.1, recorded in published_tools.json: what its tools/list
says, without prose) are here with the same arguments; ours may have more. With --published-results their results have
the published shapes too."""

import json
import pathlib

import pytest

from mcp_process import StdioMcp, tool

PUBLISHED = json.loads((pathlib.Path(__file__).parent / "published_tools.json").read_text())

#  Fields of the published results that the contract lacks: our server does not have these things.
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


def list_tools(server, *args):
    mcp = StdioMcp(server, *args)
    listed = mcp.ask({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})["result"]
    assert mcp.leave() == 0
    assert "nextCursor" not in listed
    return {tool["name"]: tool for tool in listed["tools"]}


@pytest.fixture(scope="module", params=["plain", "published"])
def tools(server, request):
    return list_tools(server, *([] if request.param == "plain" else ["--published-results"]))


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_published_tool_is_here(tools, name):
    theirs = PUBLISHED[name]
    ours = tools[name]["inputSchema"]
    covers(shape(ours), theirs["arguments"], name)
    assert ours.get("required", []) == theirs["required"]
    defaults = {key: each.get("default") for key, each in ours["properties"].items()}
    assert theirs["defaults"] == {key: defaults[key] for key in theirs["defaults"]}


def test_published_results_have_the_published_shapes(server):
    tools = list_tools(server, "--published-results")
    for name, theirs in PUBLISHED.items():
        covers(shape(tools[name]["outputSchema"]), theirs["result"], name + " result", NOT_HERE)


def test_the_other_tools_are_behind_a_flag(server):
    few, all = list_tools(server), list_tools(server, "--all-tools")
    assert set(PUBLISHED) < set(few) < set(all)
    assert len(few) - len(PUBLISHED) < 12
    mcp = StdioMcp(server)
    refused = mcp.ask(tool(1, "snapshot_list"))["error"]
    assert refused["code"] == -32602 and "--all-tools" in refused["message"]
    assert mcp.leave() == 0
