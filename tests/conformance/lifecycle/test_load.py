"""Many at once: nothing fails, nothing is lost, a slow client delays no other one."""

import concurrent.futures
import datetime
import json
import pathlib
import re
import socket
import threading

import httpx


def together(count, work):
    """`work(0)` to `work(count - 1)` at the same time; their results."""
    gate = threading.Barrier(count)

    def one(number):
        gate.wait()
        return work(number)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def rss_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) / 1024


def test_a_hundred_creates_at_once(server):
    made = together(100, lambda number: server.create(metadata={"n": str(number)}))
    assert len({each["id"] for each in made}) == 100
    listed = server.client.get("/v1/sandboxes", params={"pageSize": 200, "state": "Running"}).json()
    assert {each["id"] for each in listed["items"]} == {each["id"] for each in made}
    assert {each["id"] for each in server.daemon.list()} == {each["id"] for each in made}
    assert set(together(100, lambda n: server.client.delete(f"/v1/sandboxes/{made[n]['id']}").status_code)) == {204}
    assert server.daemon.list() == []


def test_twenty_clients_create_use_and_remove(server):
    def client(number):
        for turn in range(10):
            id = server.create()["id"]
            assert server.run(id, f"echo {number}-{turn}") == f"{number}-{turn}"
            server.delete(id)

    together(20, client)
    assert server.daemon.list() == []


def test_one_delete_of_many_wins(server):
    id = server.create()["id"]
    answers = together(16, lambda _: server.client.delete(f"/v1/sandboxes/{id}").status_code)
    assert sorted(answers) == [204] + [404] * 15
    assert server.daemon.list() == []


def test_one_create_of_many_with_the_same_key_wins(server):
    answers = together(16, lambda _: server.post_sandbox(headers={"Idempotency-Key": "all-the-same"}))
    assert {response.status_code for response in answers} == {202}
    assert len({response.json()["id"] for response in answers}) == 1
    assert len(server.daemon.list()) == 1


def test_pauses_and_resumes_that_race_leave_a_clear_state(server):
    id = server.create()["id"]
    answers = together(12, lambda n: server.client.post(f"/v1/sandboxes/{id}/{('pause', 'resume')[n % 2]}").status_code)
    assert set(answers) <= {202, 409}
    state = server.state(id)
    assert state == {"running": "Running", "paused": "Paused"}[server.daemon.list()[0]["state"]]
    if state == "Paused":
        assert server.client.post(f"/v1/sandboxes/{id}/resume").status_code == 202
    assert server.run(id, "echo well") == "well"


def test_renewals_that_race_with_the_deadline_have_one_winner(server):
    """Renewed: it lives until then. Not renewed: it is gone. Never a renewed one that is gone, or an immortal one."""
    ids = [server.create(timeout=60)["id"] for _ in range(12)]
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    later = soon + datetime.timedelta(hours=1)
    for id in ids:
        assert server.client.post(f"/v1/sandboxes/{id}/renew-expiration",
                                  json={"expiresAt": soon.isoformat()}).status_code == 200

    def renew(number):
        """At the very moment, give or take a few milliseconds."""
        offset = datetime.timedelta(milliseconds=number - 6)
        while datetime.datetime.now(datetime.timezone.utc) < soon + offset:
            pass
        return server.client.post(f"/v1/sandboxes/{ids[number]}/renew-expiration",
                                  json={"expiresAt": later.isoformat()}).status_code

    for id, answer in zip(ids, together(len(ids), renew)):
        assert answer in (200, 404, 409), answer
        if answer == 200:
            assert server.state(id) == "Running"
            assert server.run(id, "echo alive") == "alive"
        else:
            server_says = server.client.get(f"/v1/sandboxes/{id}", params={"watch": "true"})
            assert server_says.status_code == 404 or '"deleted"' in server_says.text


def test_no_event_of_a_stream_is_lost(server):
    """Two thousand commands through the proxy by eight clients; `make bench` does a hundred thousand."""
    id = server.create()["id"]
    headers = server.token(id)
    command = {"command": "echo a; echo b; echo c"}

    def client(_):
        with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
            for _ in range(250):
                text = http.post(f"/sandboxes/{id}/proxy/44772/command", json=command).text
                events = [json.loads(line) for line in text.split("\n\n") if line.strip()]
                kinds = [event["type"] for event in events if event["type"] != "ping"]
                assert kinds == ["init", "stdout", "stdout", "stdout", "execution_complete"], text
                assert [event["text"] for event in events if event["type"] == "stdout"] == ["a", "b", "c"]

    together(8, client)


def test_a_client_that_does_not_read_costs_no_memory_and_delays_no_other(server):
    id = server.create()["id"]
    headers = "".join(f"{name}: {value}\r\n" for name, value in server.token(id).items())
    body = json.dumps({"command": "head -c 300000000 /dev/zero | tr '\\0' x | fold -w 1000"})
    before = rss_mib(server.process.pid)
    lazy = []
    for _ in range(4):
        peer = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        peer.sendall((f"POST /sandboxes/{id}/proxy/44772/command HTTP/1.1\r\nHost: x\r\n{headers}"
                      f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        assert peer.recv(4096).startswith(b"HTTP/1.1 200")
        lazy.append(peer)
    for _ in range(20):
        assert server.run(id, "echo quick") == "quick"
    assert rss_mib(server.process.pid) - before < 32
    for peer in lazy:
        peer.close()
    assert server.run(id, "echo after") == "after"


def test_silent_connections_delay_no_other_client(server):
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(500)]
    half = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(100)]
    for peer in half:
        peer.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Le")
    id = server.create()["id"]
    assert server.run(id, "echo well") == "well"
    for peer in idle + half:
        peer.close()
    assert server.client.get("/health").status_code == 200


def test_many_watch_one_sandbox(server):
    id = server.create()["id"]
    watching = threading.Barrier(41)

    def watch(_):
        with server.client.stream("GET", f"/v1/sandboxes/{id}", params={"watch": "true"}) as stream:
            lines = (json.loads(line) for line in stream.iter_lines() if line)
            assert next(lines)["sandbox"]["status"]["state"] == "Running"
            watching.wait()
            return [event["type"] for event in lines][-1]

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        ends = [pool.submit(watch, number) for number in range(40)]
        watching.wait()
        server.delete(id)
        assert {end.result(30) for end in ends} == {"deleted"}
