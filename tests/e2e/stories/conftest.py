import pathlib

import pytest
from osb_program import osb_binary
from screen import Screen


@pytest.fixture
def screen(server, tmp_path):
    """A person's terminal, with an osb that knows the server."""
    shown = Screen(tmp_path / "home", {
        "PATH": f"{pathlib.Path(osb_binary()).parent}:/usr/sbin:/usr/bin:/sbin:/bin", "TERM": "xterm-256color",
        "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}", "OPEN_SANDBOX_API_KEY": server.key})
    yield shown
    shown.close()
