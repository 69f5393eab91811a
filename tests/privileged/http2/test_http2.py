"""curl with HTTP/2 and gRPC from Python, unmodified, in a sandbox with a credential vault."""

import base64
import concurrent.futures
import json

from vault_world import BOUND, SECRET

BEARER = f"Bearer {SECRET}"

# Inside a sandbox.
GRPC = """
import json, queue, sys
sys.path.insert(0, '/tmp/packages')
import grpc
channel = grpc.secure_channel('HOST:443', grpc.ssl_channel_credentials())
def call(kind, name):
    return getattr(channel, kind)('/test.Calls/' + name)
def outcome(action):
    try:
        return action()
    except grpc.RpcError as error:
        return [error.code().name, error.details()]
mine = (('authorization', 'Bearer mine'),)
"""


def program(prisoner, code):
    """The command that runs code with gRPC and `host`."""
    text = base64.b64encode((GRPC.replace('HOST', BOUND) + code).encode()).decode()
    prisoner.output(f"echo {text} | base64 -d > /tmp/calls.py")
    return "python3 /tmp/calls.py"


def grpc_inside(prisoner, expression):
    """The value of an expression that may call the host with gRPC."""
    return json.loads(prisoner.output(program(prisoner, f"print(json.dumps({expression}))")))


def curl(prisoner, *arguments, path="/x"):
    return prisoner.output(f"curl -sSi --http2 {' '.join(arguments)} https://{BOUND}{path}")


def test_curl_speaks_http2_and_the_host_gets_the_secret(holder, web_host):
    said = curl(holder, "-H 'Authorization: Bearer mine'", path="/v1/x?y=z")
    assert said.startswith("HTTP/2 200") and "here is /v1/x?y=z" in said, said
    assert SECRET not in said and "x-echo: [REDACTED]" in said and "x-trailer: [REDACTED]" in said
    assert web_host.seen() == {"version": "2.0", "method": "GET", "path": "/v1/x?y=z", "size": 0, "authorization": BEARER}


def test_a_client_with_the_first_version_gets_that(holder, web_host):
    said = holder.output(f"curl -sSi --http1.1 https://{BOUND}/x")
    assert said.startswith("HTTP/1.1 200") and "[REDACTED]" in said, said
    seen = web_host.seen()
    assert (seen["version"], seen["authorization"]) == ("1.1", BEARER)


def test_a_host_without_http2_is_spoken_to_in_the_first_version(vaults, holder, web_host):
    """Python's server of the other tests."""
    web_host.close()
    vaults.site(BOUND, vaults.sites[BOUND].server_address[0], vaults.authority.context(BOUND))
    said = curl(holder)
    assert said.startswith("HTTP/1.1 200"), said
    assert vaults.take(BOUND)[0]["headers"]["authorization"] == BEARER


def test_large_bodies_pass_whole(holder, web_host):
    size = 32 << 20
    said = holder.output(f"curl -sS --http2 https://{BOUND}/bytes/{size} | wc -c")
    assert int(said) == size
    web_host.seen()
    holder.output(f"head -c {size} /dev/zero | curl -sS --http2 --data-binary @- https://{BOUND}/up")
    seen = web_host.seen()
    assert (seen["size"], seen["authorization"]) == (size, BEARER)


def test_forged_authorities_are_refused(holder, web_host):
    for host in ("evil.plain.test", f"{BOUND}:8443", "other.bound.test"):
        said = curl(holder, f"-H 'Host: {host}'")
        assert said.startswith("HTTP/2 421"), said
    assert curl(holder, "-X TRACE").startswith("HTTP/2 405")
    assert curl(holder, path="/good").startswith("HTTP/2 200")
    assert web_host.seen()["path"] == "/good"


def test_paths_with_tricks_are_refused_and_other_requests_go_on(vaults, web_host):
    prisoner = vaults.create()
    vaults.fill(prisoner, paths=["/v1/*"])
    said = curl(prisoner, "--path-as-is", path="/v1/%2e%2e/admin")
    assert said.startswith("HTTP/2 403"), said
    assert curl(prisoner, path="/v2/x").startswith("HTTP/2 200")
    assert web_host.seen()["authorization"] is None
    assert curl(prisoner, path="/v1/x").startswith("HTTP/2 200")
    assert web_host.seen()["authorization"] == BEARER


def test_all_four_kinds_of_grpc_calls(vaults, grpc_holder, grpc_host):
    answer = grpc_inside(grpc_holder, """{
        'unary': call('unary_unary', 'Unary')(b'hello', metadata=mine).decode(),
        'fail': outcome(lambda: call('unary_unary', 'Unary')(b'fail')),
        'down': [len(each) for each in call('unary_stream', 'Down')(b'500')],
        'up': call('stream_unary', 'Up')(iter([b'y' * 50000] * 200)).decode(),
        'trailers': [list(each) for each in call('unary_unary', 'Unary').with_call(b'x')[1].trailing_metadata()],
    }""")
    assert answer["unary"] == "heard hello"
    assert answer["fail"] == ["FAILED_PRECONDITION", "not now"]
    assert len(answer["down"]) == 500 and min(answer["down"]) > 10_000
    assert answer["up"] == str(50_000 * 200)
    assert answer["trailers"] == [["x-echo", "[REDACTED]"]]
    for call in ("unary", "unary", "down", "up", "unary"):
        assert grpc_host.seen() == {"call": call, "authorization": BEARER}
    lines = vaults.vault(grpc_holder, path="/audit")["lines"]
    assert [line["decision"] for line in lines if line["operation"] == "inject"] == ["injected"] * 5, lines


def test_a_conversation_with_grpc(grpc_holder, grpc_host):
    """Each message is heard before the next one is sent."""
    answer = grpc_inside(grpc_holder, """(lambda to_send: (lambda said: [
        (to_send.put(b'one'), next(said).decode())[1], (to_send.put(b'two'), next(said).decode())[1],
        (to_send.put(None), list(said))[1]])(call('stream_stream', 'Both')(iter(to_send.get, None))))(queue.Queue())""")
    assert answer == ["heard one", "heard two", []]
    assert grpc_host.seen() == {"call": "both", "authorization": BEARER}


def test_a_call_to_a_host_that_is_down_says_why(grpc_holder, grpc_host):
    assert grpc_inside(grpc_holder, "call('unary_unary', 'Unary')(b'x').decode()") == "heard x"
    grpc_host.close()
    answer = grpc_inside(grpc_holder, "outcome(lambda: call('unary_unary', 'Unary')(b'x'))")
    assert answer[0] == "UNAVAILABLE" and "credential binding api" in answer[1], answer


def test_rotation_and_revocation_count_from_the_next_call_of_an_open_channel(vaults, grpc_holder, grpc_host):
    calling = program(grpc_holder, """
for each in range(3):
    call('unary_unary', 'Unary')(b'x')
    open('/tmp/next').read()
""")
    grpc_holder.output("mkfifo /tmp/next")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(grpc_holder.output, calling)
        assert grpc_host.seen()["authorization"] == BEARER
        vaults.vault(grpc_holder, "PATCH", {"credentials": {"replace": [
            {"name": "key", "source": {"type": "inline", "value": "another-value"}}]}})
        grpc_holder.output("echo > /tmp/next")
        assert grpc_host.seen()["authorization"] == "Bearer another-value"
        vaults.vault(grpc_holder, "DELETE")
        grpc_holder.output("echo > /tmp/next")
        assert grpc_host.seen()["authorization"] is None
        grpc_holder.output("echo > /tmp/next")
        done.result()
