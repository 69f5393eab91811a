"""What a sidecar tells its operator, and what stays open for that."""

import json

from conftest import OTHER, RESOLVER, THIRD, WWW
from name_server import ask
from test_sidecar import ALLOW_WWW, REFUSED, following, reach, wait_for


def test_the_collector_stays_allowed_through_changes_and_the_operator_can_deny_it(sidecar, internet, tmp_path):
    internet.names.add("www.example.com", WWW)
    internet.names.add("metrics.example.com", OTHER)
    internet.names.add("traces.example.com", THIRD)
    # The address for metrics alone counts where both are given.
    running = sidecar(ALLOW_WWW, variables={"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://metrics.example.com:4318/v1/metrics",
                                            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://traces.example.com:4318"})
    assert ask(RESOLVER, "metrics.example.com").addresses == [OTHER] and reach(OTHER) == "open"
    assert ask(RESOLVER, "traces.example.com").rcode == 3
    assert running.api("PUT", json={"egress": [{"action": "deny", "target": "metrics.example.com"}]}).status_code == 200
    assert ask(RESOLVER, "metrics.example.com").addresses == [OTHER] and reach(OTHER) == "open"
    assert [rule["target"] for rule in running.api("GET").json()["policy"]["egress"]] == ["metrics.example.com"]
    with following(running.log) as lines:
        (tmp_path / "rules" / "deny.always").write_text("metrics.example.com\n")
        wait_for(lines, "overlays loaded")
    assert ask(RESOLVER, "metrics.example.com").rcode == 3 and reach(OTHER) in REFUSED


def test_a_change_that_failed_leaves_the_contracts_line(sidecar, tmp_path):
    running = sidecar(ALLOW_WWW, POLICY_FILE=str(tmp_path / "missing" / "policy.json"))
    assert running.api("PATCH", json=[{"action": "deny", "target": "bad.com"}]).status_code == 500
    failed, = [line for line in map(json.loads, running.log.read_text().splitlines())
               if line.get("opensandbox.event") == "egress.update_failed"]
    assert failed["level"] == "error" and "missing" in failed["error"], failed
