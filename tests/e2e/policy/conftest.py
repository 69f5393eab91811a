"""A server whose sandboxes live beside a small internet of the tests' own; BACKEND says on what."""

import pytest
from fake_internet import FakeInternet
from policy_backend import make_policy_daemon
from server_process import Server


TEMPLATES = {
    "web": '[overrides]\negress = [{action = "allow", target = "*.example.com"}, {action = "deny", target = "93.184.216.35"}]\n',
    "learn": 'mode = "audit"\n',
}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    internet = FakeInternet()
    daemon, settings = make_policy_daemon()
    directory = tmp_path_factory.mktemp("policies")
    for name, text in TEMPLATES.items():
        (directory / f"{name}.toml").write_text(text)
    running = Server(daemon, settings={**settings, "policies": {"directory": str(directory)}})
    yield running
    running.close()
    daemon.close()
    internet.close()
