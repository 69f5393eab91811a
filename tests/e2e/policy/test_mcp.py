"""A network policy as an agent meets it: opensandbox-mcp makes the sandbox, and says why a command failed."""

from mcp_process import StdioMcp
from test_clients import ALLOWED, OTHER, POLICY, REACH

FAILS = "python3 -c 'import sys, urllib.request; urllib.request.urlopen(\"http://\" + sys.argv[1], timeout=30)' "


def test_a_denied_name_is_a_hint_in_the_result_of_the_command_that_failed(server):
    mcp = StdioMcp(server, "--all-tools")
    id = mcp.call("sandbox_create", image="host", network_policy=POLICY)["sandbox_id"]
    works = mcp.call("command_run", sandbox_id=id, command=REACH + ALLOWED)
    assert works["stdout"].strip() == "yes" and "network_hint" not in works
    failed = mcp.call("command_run", sandbox_id=id, command=FAILS + OTHER)
    assert OTHER in failed["network_hint"] and "egress_patch_rules" in failed["network_hint"]
    # The tool that the hint names does what it says.
    mcp.call("egress_patch_rules", sandbox_id=id, rules=[{"action": "allow", "target": OTHER}])
    assert mcp.call("command_run", sandbox_id=id, command=REACH + OTHER)["stdout"].strip() == "yes"
    mcp.call("sandbox_kill", sandbox_id=id)
    assert mcp.leave() == 0
