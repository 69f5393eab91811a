"""Accesses that a gateway has seen come through Redis and move deadlines."""

import datetime
import json
import shutil
import socket
import subprocess

import pytest

QUEUE = "intents"


class Redis:
    """A real one on a Unix socket, with a password; speaks just enough of its protocol."""

    def __init__(self, directory):
        self.socket = directory / "redis.sock"
        self.command = [shutil.which("redis-server"), "--port", "0", "--unixsocket", str(self.socket), "--save", "",
                        "--daemonize", "no", "--dir", str(directory)]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert any("eady to accept connections" in line for line in self.process.stdout)
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(str(self.socket))
        self.answers = self.connection.makefile("rb")

    def push(self, value):
        words = [b"LPUSH", QUEUE.encode(), value.encode()]
        self.connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        assert self.answers.readline().startswith(b":")

    def stop(self):
        self.answers.close()
        self.connection.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def redis(tmp_path):
    running = Redis(tmp_path)
    yield running
    running.stop()


def intent(id, seconds_ago=0):
    when = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds_ago)
    return json.dumps({"sandbox_id": id, "observed_at": when.isoformat(), "port": 80, "request_uri": "/"})


def left(server, id):
    end = datetime.datetime.fromisoformat(server.get(id).json()["expiresAt"])
    return (end - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def test_intents_move_deadlines(make_server, redis):
    settings = {"renew_intent": {"enabled": True},
                "renew_intent.redis": {"enabled": True, "dsn": f"unix://{redis.socket}", "queue_key": QUEUE,
                                       "consumer_concurrency": 1}}
    server = make_server(settings=settings)
    used, old, last = (server.create(timeout=60, extensions={"access.renew.extend.seconds": "3600"})["id"]
                       for _ in range(3))
    plain = server.create(timeout=60)["id"]
    for value in ("", "nonsense", intent("unknown"), intent(plain), intent(old, seconds_ago=301), intent(used)):
        redis.push(value)
    wait_renewed(server, redis, last)
    assert left(server, used) > 3000
    assert left(server, old) < 61 and left(server, plain) < 61
    # Redis may go and come back; the server goes on.
    with server.saying("Redis is lost"):
        redis.stop()
    assert server.state(used) == "Running"
    with server.saying("Redis is connected"):
        redis.start()
    server.remove_all()


def wait_renewed(server, redis, id):
    """One consumer takes them in their order: when this one has taken effect, those before it have."""
    redis.push(intent(id))
    while left(server, id) < 3000:
        pass


def test_a_redis_that_is_not_there_is_no_obstacle(make_server):
    server = make_server(settings={"renew_intent": {"enabled": True},
                                   "renew_intent.redis": {"enabled": True, "dsn": "redis://127.0.0.1:1/0"}})
    assert server.client.get("/health/ready").status_code == 200
    server.delete(server.create()["id"])
