"""The server is killed under load twenty times: what it has answered holds. `make soak` does two hundred."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "soak"))

import server as soak  # noqa: E402


def test_twenty_kills_break_no_promise(make_server, capsys):
    seed = random.SystemRandom().getrandbits(32)
    figures = soak.run(make_server(), 20, seed)
    with capsys.disabled():
        print(f"\n{figures}")
    assert figures["answers lost"] > 0, "no kill fell into a request"
