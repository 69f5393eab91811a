"""A gRPC server with all four kinds of calls: grpc_host.py ADDRESS CHAIN KEY. One line of JSON per call."""

import concurrent.futures
import json
import sys
import threading

import grpc

address, chain, key = sys.argv[1:]


def note(context, name):
    given = dict(context.invocation_metadata())
    print(json.dumps({"call": name, "authorization": given.get("authorization")}), flush=True)
    context.set_trailing_metadata((("x-echo", given.get("authorization", "")),))


def unary(request, context):
    note(context, "unary")
    if request == b"fail":
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")
    return b"heard " + request


def down(request, context):
    note(context, "down")
    for i in range(int(request)):
        yield b"%d " % i + b"x" * 10_000


def up(requests, context):
    note(context, "up")
    return b"%d" % sum(len(each) for each in requests)


def both(requests, context):
    note(context, "both")
    for each in requests:
        yield b"heard " + each


handlers = {"Unary": grpc.unary_unary_rpc_method_handler(unary), "Down": grpc.unary_stream_rpc_method_handler(down),
            "Up": grpc.stream_unary_rpc_method_handler(up), "Both": grpc.stream_stream_rpc_method_handler(both)}
server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Calls", handlers),))
credentials = grpc.ssl_server_credentials([(open(key, "rb").read(), open(chain, "rb").read())])
assert server.add_secure_port(f"{address}:443", credentials) == 443
server.start()
print("listening", flush=True)
threading.Event().wait()
