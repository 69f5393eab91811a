"""The sidecar's DNS proxy, packet filter and API, with real packets."""

import contextlib
import errno
import json
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from conftest import ECHO, GATEWAY, METADATA, OTHER, OWN, PRIVATE, RESOLVER, ROGUE, THIRD, TOKEN, WWW
from name_server import A, AAAA, CNAME, HTTPS, ask, ask_by_tcp, question

ALLOW_WWW = {"egress": [{"action": "allow", "target": "www.example.com"}]}


def reach(address, port=80, timeout=10):
    """Whether a connection comes about: "open", or the name of the error."""
    try:
        with socket.create_connection((address, port), timeout) as connection:
            return "open" if connection.recv(100) else "closed"
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return errno.errorcode[error.errno]


def reach_by_udp(address, port, timeout=10):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(timeout)
        try:
            asker.connect((address, port))
            asker.send(b"x")
            asker.recv(100)
            return "open"
        except TimeoutError:
            return "timeout"
        except OSError as error:
            return errno.errorcode[error.errno]


REFUSED = {"ECONNREFUSED", "EHOSTUNREACH", "EPERM", "EACCES", "ENETUNREACH"}


def test_a_name_opens_the_addresses_it_resolves_to_and_no_others(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    sidecar(ALLOW_WWW)
    assert reach(WWW) in REFUSED
    assert ask(RESOLVER, "www.example.com").addresses == [WWW]
    assert reach(WWW) == "open" and reach(WWW, 8080) == "open"
    assert reach_by_udp(WWW, ECHO) == "open"
    assert reach(OTHER) in REFUSED
    denied = ask(RESOLVER, "evil.org")
    assert denied.rcode == 3 and "evil.org" not in internet.names.asked


def test_other_ways_to_names_are_closed(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    sidecar(ALLOW_WWW)
    # Every name server is ours, whatever its address is.
    assert ask(ROGUE, "www.example.com").addresses == [WWW]
    assert ask_by_tcp(ROGUE, "www.example.com").addresses == [WWW]
    assert ask(ROGUE, "evil.org").rcode == 3
    assert internet.rogue.asked == []
    for address in (RESOLVER, ROGUE, WWW):
        assert reach(address, 853) in REFUSED
        assert reach_by_udp(address, 853) in REFUSED
    assert reach(RESOLVER, 80) in REFUSED


def test_a_mark_alone_is_no_pass(sidecar, internet):
    sidecar(ALLOW_WWW)
    table = subprocess.run(["nft", "-j", "list", "table", "inet", "opensandbox"], capture_output=True, text=True, check=True)
    marks = {rule["right"] for rule in walk(json.loads(table.stdout)) if rule.get("left") == {"meta": {"key": "mark"}}}
    assert len(marks) == 1
    for mark in (*marks, 1):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.setsockopt(socket.SOL_SOCKET, 36, struct.pack("I", mark))  # SO_MARK: the test may, a sandbox may not
            asker.settimeout(10)
            asker.connect((RESOLVER, 53))
            asker.send(question("evil.org"))
            assert asker.recv(4096)[3] & 15 == 3
    assert "evil.org" not in internet.names.asked


def test_a_port_that_the_sidecar_used_is_no_way_out(sidecar, internet):
    """The kernel remembers the sidecar's questions longer than their sockets live."""
    internet.names.add("www.example.com", WWW)
    running = sidecar(ALLOW_WWW)
    assert ask(RESOLVER, "www.example.com").addresses == [WWW]
    internet.names.asked.clear()
    ports = {port for _, port in internet.names.peers}
    running.stop(signal.SIGKILL)
    for port in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker, pytest.raises(OSError):
            asker.bind((OWN, port))
            asker.settimeout(10)
            asker.connect((RESOLVER, 53))
            asker.send(question("evil.org"))
            asker.recv(4096)
    assert "evil.org" not in internet.names.asked


def walk(value):
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from walk(each)


def test_rebinding_to_private_and_metadata_addresses_opens_nothing(sidecar, internet):
    internet.names.add("www.example.com", METADATA, PRIVATE, "127.0.0.1", GATEWAY, WWW)
    sidecar(ALLOW_WWW)
    assert ask(RESOLVER, "www.example.com").addresses == [WWW]
    for address in (METADATA, PRIVATE):
        assert reach(address) in REFUSED


def test_ipv6_answers_are_empty_and_its_packets_refused(sidecar, internet):
    internet.names.add("www.example.com", "2606:2800:220:1::1", kind=AAAA)
    sidecar(ALLOW_WWW)
    answer = ask(RESOLVER, "www.example.com", AAAA)
    assert answer.rcode == 0 and not answer.records


def test_aliases_are_followed_from_the_question_only(sidecar, internet):
    internet.names.records["www.example.com", A] = [("www.example.com", CNAME, 60, "cdn.net"), ("cdn.net", A, 60, WWW),
                                                    ("evil.org", A, 60, OTHER)]
    sidecar(ALLOW_WWW)
    assert ask(RESOLVER, "www.example.com").addresses == [WWW]
    assert reach(WWW) == "open" and reach(OTHER) in REFUSED


def test_truncated_answers_are_completed(sidecar, internet):
    internet.names.add("www.example.com", *[f"93.184.217.{i}" for i in range(1, 100)])
    internet.names.truncate.add("www.example.com")
    sidecar(ALLOW_WWW)
    assert ask(RESOLVER, "www.example.com").truncated
    assert len(ask_by_tcp(RESOLVER, "www.example.com").addresses) == 99


def test_https_records_lose_keys_and_hints(sidecar, internet):
    def parameter(key, value):
        return struct.pack(">HH", key, len(value)) + value

    data = struct.pack(">H", 1) + b"\0" + parameter(1, b"\2h2") + parameter(4, socket.inet_aton(OTHER)) + parameter(5, b"ech")
    internet.names.records["www.example.com", HTTPS] = [("www.example.com", HTTPS, 60, data)]
    sidecar(ALLOW_WWW)
    (record,) = ask(RESOLVER, "www.example.com", HTTPS).records
    assert record[3] == struct.pack(">H", 1) + b"\0" + parameter(1, b"\2h2")


def test_rules_for_addresses_networks_and_ports(sidecar):
    sidecar({"egress": [{"action": "allow", "target": "93.184.216.0/24"}, {"action": "deny", "target": OTHER},
                        {"action": "allow", "target": PRIVATE, "ports": [8080]}]})
    assert reach(WWW) == "open" and reach(THIRD) == "open"
    assert reach(OTHER) in REFUSED
    assert reach(PRIVATE, 8080) == "open" and reach(PRIVATE, 80) in REFUSED
    assert reach_by_udp(PRIVATE, ECHO) in REFUSED
    assert reach(ROGUE) in REFUSED


def test_a_policy_that_allows_by_default_still_closes_name_servers_and_metadata(sidecar, internet):
    internet.names.add("github.com", WWW)
    sidecar({"defaultAction": "allow", "egress": [{"action": "deny", "target": "*.github.com"},
                                                  {"action": "deny", "target": "10.0.0.0/8"}]})
    assert ask(ROGUE, "api.github.com").rcode == 3
    assert ask(ROGUE, "github.com").addresses == [WWW]
    assert reach(WWW) == "open" and reach(OTHER, 443) == "open"
    assert reach(PRIVATE) in REFUSED and reach(METADATA) in REFUSED
    assert reach(WWW, 853) in REFUSED


@pytest.mark.parametrize("target", [METADATA, "169.254.0.0/16", "0.0.0.0/0"])
def test_no_rule_opens_metadata(sidecar, target):
    sidecar({"defaultAction": "allow", "egress": [{"action": "allow", "target": target}]})
    assert reach(METADATA) in REFUSED
    assert reach(WWW) == "open"


def test_deny_always_wins_and_changes_are_seen(sidecar, internet, tmp_path):
    internet.names.add("www.example.com", WWW)
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "deny.always").write_text(f"# never\n{OTHER}\n")
    running = sidecar({"egress": [{"action": "allow", "target": "www.example.com"}, {"action": "allow", "target": OTHER}]})
    assert reach(OTHER) in REFUSED
    shown = running.api("GET").json()["policy"]["egress"]
    assert [rule["target"] for rule in shown] == ["www.example.com", OTHER]
    assert ask(RESOLVER, "www.example.com").addresses == [WWW]
    with following(running.log) as lines:
        (rules / "new").write_text("www.example.com\n")
        (rules / "new").rename(rules / "deny.always")
        wait_for(lines, "overlays loaded")
    assert ask(RESOLVER, "www.example.com").rcode == 3
    assert reach(WWW) in REFUSED and reach(OTHER) == "open"
    with following(running.log) as lines:
        (rules / "deny.always").write_text("a..b\n")
        wait_for(lines, "the old rules stay")
    assert ask(RESOLVER, "www.example.com").rcode == 3


@contextlib.contextmanager
def following(path):
    """The lines that come from now on."""
    begin = path.stat().st_size + 1
    process = subprocess.Popen(["tail", "-c", f"+{begin}", "-f", str(path)], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for(lines, text):
    assert any(text in line for line in lines)


def test_a_change_is_in_force_when_it_is_answered(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    internet.names.add("other.example.com", OTHER)
    running = sidecar({"egress": [{"action": "allow", "target": "*.example.com"}]})
    for name in ("www.example.com", "other.example.com"):
        ask(RESOLVER, name)
    with socket.create_connection((WWW, 5353), 10) as kept, socket.create_connection((OTHER, 5353), 10) as revoked:
        assert kept.recv(100) and revoked.recv(100)
        answer = running.api("PATCH", json=[{"action": "deny", "target": "other.example.com"}])
        assert answer.status_code == 200 and answer.json()["mode"] == "enforcing"
        assert reach(WWW) == "open"  # without another question
        assert reach(OTHER) in REFUSED
        assert ask(RESOLVER, "other.example.com").rcode == 3


def test_a_long_flow_ends_when_its_target_is_revoked(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    running = sidecar(ALLOW_WWW)
    ask(RESOLVER, "www.example.com")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flow:
        flow.settimeout(10)
        flow.connect((WWW, ECHO))
        for _ in range(3):
            flow.send(b"x")
            assert flow.recv(100)
        running.api("DELETE", json=["www.example.com"])
        with pytest.raises(OSError):
            for _ in range(3):
                flow.send(b"x")
                flow.recv(100)


def test_a_revoked_flow_does_not_come_back_by_what_its_peer_sends(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    running = sidecar(ALLOW_WWW)
    with internet.socket(socket.SOCK_STREAM) as listener, internet.socket(socket.SOCK_DGRAM) as peer:
        for each in (listener, peer):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((WWW, 9998))
        listener.listen()
        ask(RESOLVER, "www.example.com")
        with socket.create_connection((WWW, 9998), 10) as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            server, _ = listener.accept()
            datagrams.connect((WWW, 9998))
            datagrams.send(b"x")
            _, where = peer.recvfrom(100)
            for each in (stream, datagrams, server, peer):
                each.settimeout(2)

            def answered():
                """Whether the sandbox hears of its peer over TCP and over UDP."""
                server.sendall(b"y")
                peer.sendto(b"y", where)
                said = []
                for each in (stream, datagrams):
                    try:
                        said.append(each.recv(100))
                    except OSError:
                        said.append(b"")
                return said

            assert answered() == [b"y", b"y"]
            assert running.api("DELETE", json=["www.example.com"]).status_code == 200
            assert answered() == [b"", b""]
            server.close()


def test_the_api_answers_as_the_contract_says(sidecar):
    running = sidecar({"egress": [{"action": "allow", "target": "a.com"}]}, MAX_RULES="2")
    health = running.api("GET", "/healthz", token=None)
    assert (health.status_code, health.text) == (200, "ok")
    shown = running.api("GET")
    assert shown.headers["content-type"] == "application/json" and shown.text.endswith("\n")
    assert shown.json() == {"status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft",
                            "policy": {"egress": [{"action": "allow", "target": "a.com"}], "defaultAction": "deny"}}
    for token in (None, "", TOKEN[:-1], TOKEN + "x"):
        refused = running.api("PUT", token=token)
        assert (refused.status_code, refused.text) == (401, "unauthorized\n")
        assert refused.headers["x-content-type-options"] == "nosniff"
    assert running.api("PUT", "/policy/").status_code == 404
    wrong = running.api("OPTIONS")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST, PUT, PATCH, DELETE")
    assert running.api("PATCH", json=[]).status_code == 400
    full = running.api("PATCH", json=[{"action": "allow", "target": "b.com"}, {"action": "allow", "target": "c.com"}])
    assert full.status_code == 413
    assert running.api("GET").json() == shown.json()
    reset = running.api("POST", content=b" ")
    assert reset.json()["mode"] == "deny_all" and "enforcementMode" not in reset.json()
    assert running.api("GET").json()["policy"] == {"egress": [], "defaultAction": "deny"}


def test_the_sandbox_itself_cannot_reach_the_api(sidecar):
    sidecar(ALLOW_WWW)
    for address in ("127.0.0.1", OWN):
        assert reach(address, 18080) in REFUSED


def test_the_policy_survives_a_kill_and_nothing_is_open_meanwhile(sidecar, internet, tmp_path):
    internet.names.add("www.example.com", WWW)
    internet.names.add("other.example.com", OTHER)
    file = tmp_path / "policy.json"
    running = sidecar(ALLOW_WWW, POLICY_FILE=str(file))
    ask(RESOLVER, "www.example.com")
    assert running.api("PUT", json={"egress": [{"action": "allow", "target": "other.example.com"}]}).status_code == 200
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["egress"] == [{"action": "allow", "target": "other.example.com"}]
    running.stop(signal.SIGKILL)
    assert reach(WWW) in REFUSED and reach(ROGUE) in REFUSED
    with pytest.raises(OSError):
        ask(RESOLVER, "other.example.com", timeout=2)
    sidecar(ALLOW_WWW, POLICY_FILE=str(file))
    assert ask(RESOLVER, "www.example.com").rcode == 3
    assert ask(RESOLVER, "other.example.com").addresses == [OTHER]
    assert reach(OTHER) == "open"


def test_a_permitted_flow_goes_on_while_the_sidecar_is_replaced(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    running = sidecar(ALLOW_WWW)
    ask(RESOLVER, "www.example.com")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flow:
        flow.settimeout(10)
        flow.connect((WWW, ECHO))

        def works():
            flow.send(b"x")
            return flow.recv(100) == b"x"

        assert works() and works()
        running.stop(signal.SIGKILL)
        assert works()
        sidecar(ALLOW_WWW)
        assert works() and works()


def test_no_moment_is_open_while_sidecars_are_killed_and_replaced(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    sidecar(ALLOW_WWW).stop(signal.SIGKILL)
    done, seen = threading.Event(), set()

    def probe():
        while not done.is_set():
            seen.add(reach(OTHER))
            with contextlib.suppress(OSError):
                seen.add(f"rcode {ask(ROGUE, 'evil.org', timeout=1).rcode}")

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        for _ in range(10):
            running = sidecar(ALLOW_WWW)
            assert ask(RESOLVER, "www.example.com").addresses == [WWW]
            running.stop(signal.SIGKILL)
    finally:
        done.set()
        prober.join()
    assert seen <= REFUSED | {"rcode 3"}
    assert internet.rogue.asked == []


def test_a_stopped_sidecar_leaves_everything_closed(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    running = sidecar({"defaultAction": "allow"})
    assert reach(OTHER) == "open"
    running.stop()
    assert running.process.returncode == 0
    for address in (WWW, OTHER, ROGUE):
        assert reach(address) in REFUSED
    with pytest.raises(OSError):
        ask(ROGUE, "www.example.com", timeout=2)


def test_a_change_that_cannot_be_stored_is_undone(sidecar, internet, tmp_path):
    internet.names.add("www.example.com", WWW)
    running = sidecar(ALLOW_WWW, POLICY_FILE=str(tmp_path / "missing" / "policy.json"))
    answer = running.api("PUT", json={"defaultAction": "allow"})
    assert answer.status_code == 500 and "nothing has changed" in answer.text
    assert running.api("GET").json()["policy"]["defaultAction"] == "deny"
    assert reach(OTHER) in REFUSED
    assert ask(RESOLVER, "www.example.com").addresses == [WWW]


@pytest.mark.parametrize("variables, text", [
    ({"TOKEN": ""}, "OPENSANDBOX_EGRESS_TOKEN"),
    ({"MODE": "nft"}, "OPENSANDBOX_EGRESS_MODE"),
    ({"MODE": "dns+nfs"}, "OPENSANDBOX_EGRESS_MODE"),
    ({"RULES": "{"}, "OPENSANDBOX_EGRESS_RULES"),
    ({"RULES": '{"defaultAction":"block"}'}, "OPENSANDBOX_EGRESS_RULES"),
    ({"DNS_UPSTREAM": "dns.example"}, "OPENSANDBOX_EGRESS_DNS_UPSTREAM"),
    ({"MITMPROXY_TRANSPARENT": "true"}, "OPENSANDBOX_EGRESS_CA_FILE"),
])
def test_wrong_settings_end_the_start_with_their_name(sidecar, variables, text):
    running = sidecar(wait=False, **variables)
    _, error = running.process.communicate(timeout=60)
    assert running.process.returncode == 1 and text in error
    assert TOKEN not in error


def test_tunnelling_under_a_wildcard_stays_below_a_kilobyte_a_second(sidecar, internet):
    sidecar({"egress": [{"action": "allow", "target": "*.tunnel.example"}]})
    began = time.monotonic()
    for number in range(100):
        ask(RESOLVER, f"{number:03}{'a' * 57}.{'b' * 60}.tunnel.example")
    seconds = time.monotonic() - began
    names = {name for name in internet.names.asked if name.endswith(".tunnel.example")}
    sent = sum(len(name) - len(".tunnel.example") for name in names)
    assert 0 < sent <= 1024 + 512 * seconds, names


def test_decisions_name_rules_and_addresses(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    running = sidecar({"egress": [{"action": "allow", "target": "*.example.com"}]})
    ask(RESOLVER, "www.example.com")
    ask(RESOLVER, "evil.org")
    listed = {each["name"]: each for each in running.api("GET", "/decisions").json()["decisions"]}
    assert listed["www.example.com"]["rule"] == "*.example.com"
    assert listed["www.example.com"]["addresses"] == [WWW]
    assert listed["evil.org"]["verdict"] == "deny" and listed["evil.org"]["count"] == 1


def test_log_lines_are_the_contracts(sidecar, internet, tmp_path):
    internet.names.add("www.example.com", WWW)
    internet.names.add("quiet.example.com", OTHER)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "log_skip.always").write_text("quiet.example.com\n")
    running = sidecar({"egress": [{"action": "allow", "target": "*.example.com"}]}, SANDBOX_ID="box",
                      METRICS_EXTRA_ATTRS="team=blue")
    ask(RESOLVER, "quiet.example.com")
    ask(RESOLVER, "www.example.com")
    running.api("PATCH", json=[{"action": "deny", "target": "bad.com"}])
    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    for line in lines:
        assert {"level", "ts", "logger", "msg", "sandbox_id", "team"} <= line.keys()
        assert (line["logger"], line["sandbox_id"], line["team"]) == ("opensandbox.egress", "box", "blue")
    events = {line["opensandbox.event"]: line for line in lines if "opensandbox.event" in line}
    assert events["egress.outbound"]["target.host"] == "www.example.com"
    assert events["egress.outbound"]["target.ips"] == WWW
    assert events["egress.updated"]["rules"] == "deny bad.com"
    assert events["egress.updated"]["egress.default"] == "deny"
    assert json.loads(events["egress.updated"]["policy"])["egress"][1] == {"action": "allow", "target": "*.example.com"}
    assert not any(line.get("target.host") == "quiet.example.com" for line in lines)
    assert TOKEN not in running.log.read_text()


def test_the_webhook_hears_of_denied_names(sidecar, internet):
    internet.names.add("hooks.internal", PRIVATE)
    listener = internet.socket(socket.SOCK_STREAM)
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((PRIVATE, 9999))
        listener.listen()
        listener.settimeout(60)
        sidecar(ALLOW_WWW, DENY_WEBHOOK="http://hooks.internal:9999/denied?x=1", SANDBOX_ID="box")
        assert ask(RESOLVER, "Evil.org").rcode == 3
        for status in ("500 Again", "200 OK"):  # the first one is repeated
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(60)
                text = b""
                while b"}" not in text:
                    text += connection.recv(4096)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        head, body = text.split(b"\r\n\r\n")
        assert head.startswith(b"POST /denied?x=1 HTTP/1.1") and b"application/json" in head
        told = json.loads(body)
        assert told.pop("timestamp").endswith("Z")
        assert told == {"hostname": "evil.org", "source": "opensandbox-egress", "sandboxId": "box"}
        # The way is the sidecar's only.
        assert reach(PRIVATE, 9999) in REFUSED


def test_audit_mode_lets_public_targets_pass_and_records_them(sidecar, internet, tmp_path):
    internet.names.add("www.example.com", WWW)
    internet.names.add("denied.org", THIRD)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "deny.always").write_text(f"denied.org\n{OTHER}\n")
    running = sidecar({"egress": [{"action": "deny", "target": "www.example.com"}, {"action": "deny", "target": WWW}]},
                      AUDIT="true")
    assert "audit" in running.api("GET").json()["reason"]
    assert ask(RESOLVER, "www.example.com").addresses == [WWW]
    assert reach(WWW, 443) == "open" and reach(THIRD, 80) == "open"
    # The operator's rules hold, and what is not public stays closed.
    assert ask(RESOLVER, "denied.org").rcode == 3
    for closed in (OTHER, PRIVATE, METADATA, GATEWAY):
        assert reach(closed, 80) in REFUSED, closed
    told = {each["name"]: each for each in running.api("GET", "/decisions").json()["decisions"]}
    assert told["www.example.com"]["audited"] and "audited" not in told["denied.org"]


def collected(connection):
    """The body of one HTTP request, which is answered."""
    with connection:
        connection.settimeout(60)
        text = b""
        while b"\r\n\r\n" not in text:
            text += connection.recv(65536)
        head, body = text.split(b"\r\n\r\n", 1)
        size = next(int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:"))
        while len(body) < size:
            body += connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return head, json.loads(body)


def test_metrics_are_sent_to_a_collector_that_only_the_sidecar_reaches(sidecar, internet):
    internet.names.add("www.example.com", WWW)
    with internet.socket(socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((PRIVATE, 4318))
        listener.listen()
        listener.settimeout(60)
        sidecar(ALLOW_WWW, SANDBOX_ID="box", METRICS_EXTRA_ATTRS="team=blue",
                variables={"HOST_IP": PRIVATE, "OTEL_METRIC_EXPORT_INTERVAL": "50",
                           "OTEL_EXPORTER_OTLP_HEADERS": "X-Key=a"})
        assert ask(RESOLVER, "www.example.com").addresses == [WWW]
        assert ask(RESOLVER, "evil.org").rcode == 3
        for _ in range(1000):
            connection, _ = listener.accept()
            head, document = collected(connection)
            scope = document["resourceMetrics"][0]["scopeMetrics"][0]
            points = {metric["name"]: (metric.get("sum") or metric.get("gauge") or metric["histogram"])["dataPoints"][0]
                      for metric in scope["metrics"]}
            if points["egress.policy.denied_total"]["asInt"] == "1":
                break
        assert head.startswith(b"POST /v1/metrics HTTP/1.1") and b"X-Key: a" in head
        assert scope["scope"]["name"] == "opensandbox/egress"
        assert points.keys() == {"egress.dns.query.duration", "egress.policy.denied_total", "egress.nftables.updates.count",
                                 "egress.nftables.rules.count", "egress.system.memory.usage_bytes",
                                 "egress.system.cpu.utilization"}
        assert points["egress.dns.query.duration"]["count"] == "1"
        assert points["egress.nftables.updates.count"]["asInt"] == "2"  # the table, and one address
        attributes = {each["key"]: each["value"]["stringValue"] for each in points["egress.dns.query.duration"]["attributes"]}
        assert attributes == {"sandbox_id": "box", "team": "blue"}
        # The way is the sidecar's only.
        assert reach(PRIVATE, 4318) in REFUSED
