"""The server's file: nothing in it is silently ignored. What the server can do: /capabilities."""

import subprocess

import pytest

from backend import backend
from server_process import server_binary

DOCKER = backend() != "native"


def start_failure(make_server, **settings):
    with pytest.raises(RuntimeError) as refused:
        make_server(settings=settings)
    return str(refused.value)


@pytest.mark.parametrize("settings, words", [
    ({"server": {"limit_concurency": 5}}, ["[server] limit_concurency: unknown key", "did you mean [server] limit_concurrency?"]),
    ({"sever": {"port": 5}}, ["[sever]: unknown section", "did you mean [server]?"]),
    ({"tenants": {"provider": "file"}}, ["[tenants]", "no tenants yet"]),
    ({"otel": {"enabled": True}}, ["[otel] enabled: this server has no OTLP export"]),
    ({"ingress": {"mode": "gateway"}, "ingress.gateway": {"address": "a.example"}, "ingress.gateway.route": {"mode": "uri"}},
     ["[ingress] mode: must be \"direct\""]),
])
def test_a_setting_without_effect_stops_the_start(make_server, settings, words):
    said = start_failure(make_server, **settings)
    assert all(word in said for word in words), said


def test_a_command_without_its_store_is_refused_by_name():
    done = subprocess.run([server_binary(), "migrate-snapshots", "--to", "postgresql://db"], capture_output=True, text=True)
    assert done.returncode == 2 and "no PostgreSQL store" in done.stderr, done


def test_unknown_keys_can_be_warnings(make_server):
    server = make_server(settings={"server": {"unknown_keys": "warn", "limit_concurency": 5}})
    assert "did you mean [server] limit_concurrency?" in server.log()


def test_a_server_ends_within_its_time(make_server):
    server = make_server(settings={"server": {"timeout_graceful_shutdown": 1}})
    id = server.create()["id"]
    with server.client.stream("GET", f"/v1/sandboxes/{id}", params={"watch": "true"}) as stream:
        next(stream.iter_lines())
        server.stop()


@pytest.mark.on_docker
def test_capabilities_say_what_there_is(server):
    answer = server.client.get("/v1/capabilities").json()
    assert answer == server.client.get("/capabilities").json()
    assert answer["backend"] == ("docker" if DOCKER else "native")
    features = {each["name"]: each for each in answer["features"]}
    assert features["pause"] == {"name": "pause", "available": True}
    assert features["snapshots"]["available"] and features["secureAccess"]["available"]
    assert features["images"]["available"] is not DOCKER
    refused = server.post_sandbox(networkPolicy={"defaultAction": "deny"})
    assert features["networkPolicy"]["available"] is (refused.status_code == 202)
    assert "reason" in features["pools"]
    assert server.client.get("/capabilities", headers={"OPEN-SANDBOX-API-KEY": "wrong"}).status_code == 401


if DOCKER:
    @pytest.mark.on_docker
    def test_operators_give_every_sandbox_environment_mounts_and_ports(make_server, tmp_path):
        (tmp_path / "file").write_text("from the host")
        server = make_server(settings={
            "docker": {"port_range_min": 31000, "port_range_max": 31100, "sandbox_binds": [f"{tmp_path}:/mnt/shared:ro"]},
            "docker.sandbox_env": {"A": "operator", "B": "operator"},
            "runtime": {"execd_run_as_init": True}})
        id = server.create(env={"B": "request", "EXECD_INIT": "no"})["id"]
        assert server.run(id, "echo $A $B; cat /mnt/shared/file") == "operator request\nfrom the host"
        assert "Read-only" in server.run(id, "touch /mnt/shared/x")
        assert not (tmp_path / "x").exists()
        given = [each for each in server.daemon.inspect(id)["Config"]["Env"] if each.startswith("EXECD_INIT=")]
        assert given == ["EXECD_INIT=1"]
        port = int(server.client.get(f"/v1/sandboxes/{id}/endpoints/8000").json()["endpoint"].split("/")[0].split(":")[1])
        assert 31000 <= port <= 31100

    @pytest.mark.on_docker
    def test_published_ports_have_an_ipv4_address(make_server):
        assert "[docker] publish_host: expected an IPv4 address" in start_failure(make_server, docker={"publish_host": "::1"})
else:
    def test_settings_of_another_backend_are_refused_where_they_protect(make_server):
        said = start_failure(make_server, docker={"publish_host": "192.0.2.1"})
        assert '[docker] publish_host: means nothing with [runtime] type = "native"' in said
        server = make_server(settings={"docker": {"network_mode": "host"}})
        assert "[docker] network_mode: means nothing" in server.log()
