"""GET /metrics, GET /metrics/watch and the OpenTelemetry export."""

import http.server
import json
import os
import queue
import signal
import threading
import time

import pytest
from ends_before import ends_before_a_sleep

FIELDS = {"cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "timestamp"}


def check(metrics):
    assert FIELDS <= metrics.keys()
    assert metrics["cpu_count"] >= 1
    assert 0 <= metrics["cpu_used_pct"] <= 100
    assert 0 < metrics["mem_used_mib"] <= metrics["mem_total_mib"]
    assert abs(metrics["timestamp"] / 1000 - time.time()) < 60


def test_metrics_have_all_numbers(execd):
    for _ in range(3):
        answer = execd.client.get("/metrics")
        assert answer.status_code == 200
        check(answer.json())


def test_metrics_come_without_a_sampling_pause(execd):
    """Upstream's pause of a second is in every answer; a slow machine delays some."""
    assert any(ends_before_a_sleep(lambda: execd.client.get("/metrics"), 1) for _ in range(20))


def test_watch_sends_a_line_and_an_empty_one_each_second(execd):
    with execd.client.stream("GET", "/metrics/watch") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        data = ""
        for piece in stream.iter_text():
            data += piece
            if data.count("\n\n") >= 4:
                break
    events = data.split("\n\n")[:4]
    for event in events:
        assert "\n" not in event
        check(json.loads(event))
    # execd's own times: a client that stands still reads several events at once. An execd that stood still before the first
    # one sends the second at once, so there are four.
    stamps = [json.loads(event)["timestamp"] for event in events]
    assert stamps == sorted(stamps) and stamps[3] - stamps[0] > 1500, stamps


def test_memory_is_that_of_the_cgroup_where_it_is_limited(execd):
    total = execd.client.get("/metrics").json()["mem_total_mib"]
    with open("/proc/meminfo") as file:
        host = int(file.readline().split()[1]) / 1024
    assert total <= host + 1


class Collector:
    """An OTLP/HTTP receiver: `next()` gives the path, headers and decoded body of each export."""

    def __init__(self):
        received = self._received = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.put((self.path, self.headers, json.loads(body)))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def next(self):
        return self._received.get(timeout=30)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.close()


def attributes(point):
    return {a["key"]: a["value"]["stringValue"] for a in point["attributes"]}


def points_of(metrics, name):
    if name not in metrics:
        return []
    assert metrics[name]["histogram"]["aggregationTemporality"] == 1
    return metrics[name]["histogram"]["dataPoints"]


def test_metrics_are_exported_as_otlp(start_execd, collector):
    execd = start_execd(env={
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b", "OPENSANDBOX_ID": "sb-1",
        "OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS": "region=r1,team=t"})
    execd.client.get("/files/info", params={"path": "/"})
    execd.client.get("/nowhere")
    metrics, requests, operations = {}, [], []  # each export has the values since the one before
    while "unknown" not in {attributes(p)["http_route"] for p in requests}:
        path, headers, body = collector.next()
        (resource,) = body["resourceMetrics"]
        (scope,) = resource["scopeMetrics"]
        last = metrics
        metrics = {metric["name"]: metric for metric in scope["metrics"]}
        requests += points_of(metrics, "execd.http.request.duration")
        operations += points_of(metrics, "execd.filesystem.operations.duration")
        io = metrics["execd.system.network.io.bytes"]["sum"]
        assert io["aggregationTemporality"] == 1
        if last:
            assert io["dataPoints"][0]["startTimeUnixNano"] == (
                last["execd.system.network.io.bytes"]["sum"]["dataPoints"][0]["timeUnixNano"])
    assert path == "/v1/metrics" and headers["x-key"] == "a b"
    assert scope["scope"]["name"] == "opensandbox/execd"
    described = {a["key"]: a["value"]["stringValue"] for a in resource["resource"]["attributes"]}
    assert described["service.name"].startswith("opensandbox-execd-") and described["sandbox_id"] == "sb-1"

    assert sum(int(p["count"]) for p in requests if attributes(p)["http_route"] in ("/files/info", "unknown")) == 2
    ping = next(p for p in requests if attributes(p)["http_route"] == "/ping")
    assert attributes(ping) == {"http_method": "GET", "http_route": "/ping", "http_status_code": "200",
                                "sandbox_id": "sb-1", "region": "r1", "team": "t"}
    assert len(ping["bucketCounts"]) == len(ping["explicitBounds"]) + 1
    assert sum(map(int, ping["bucketCounts"])) == int(ping["count"])
    (info,) = operations
    assert (attributes(info)["operation"], attributes(info)["result"]) == ("info", "success")

    assert int(metrics["execd.system.process.count"]["gauge"]["dataPoints"][0]["asInt"]) >= 1
    assert 0 <= metrics["execd.system.cpu.usage"]["gauge"]["dataPoints"][0]["asDouble"] <= 100
    assert int(metrics["execd.system.memory.usage_bytes"]["gauge"]["dataPoints"][0]["asInt"]) > 0
    directions = {attributes(p)["direction"] for p in metrics["execd.system.network.io.bytes"]["sum"]["dataPoints"]}
    assert directions == {"in", "out"}
    protocols = {attributes(p)["protocol"]: int(p["asInt"]) for p in
                 metrics["execd.system.network.connections.active"]["gauge"]["dataPoints"]}
    assert protocols["tcp"] >= 1 and "udp" in protocols


def test_the_last_numbers_are_sent_at_the_end(start_execd, collector):
    execd = start_execd(env={"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": collector.endpoint + "/custom"})
    os.kill(execd.pid, signal.SIGTERM)
    assert execd.wait(10) == 0
    path, _, body = collector.next()
    assert path == "/custom" and body["resourceMetrics"]


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1:4318", "http://collector.example:4318", "nonsense"])
def test_an_endpoint_out_of_reach_is_a_warning_only(start_execd, endpoint):
    execd = start_execd(env={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    assert execd.client.get("/ping").status_code == 200
    assert "telemetry" in execd.log()


def test_a_collector_that_is_away_does_not_delay_the_end(start_execd):
    execd = start_execd(env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    os.kill(execd.pid, signal.SIGTERM)
    assert execd.wait(10) == 0
