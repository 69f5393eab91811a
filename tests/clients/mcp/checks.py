"""The MCP server opensandbox-mcp, whose backend is our server, over stdio and with the official MCP client."""

import asyncio
import base64
import contextlib
import datetime
import os
import sys
import threading

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import suite
from suite import NotOffered, check, same

LOOP = asyncio.new_event_loop()
HIDDEN = "says that a tool failed, not why"  # what mcp 2 makes of an exception
BIG = 8 << 20  # characters: a file is one JSON message here


def wait(awaitable):
    async def awaited():
        return await awaitable

    return asyncio.run_coroutine_threadsafe(awaited(), LOOP).result()


class ToolError(Exception):
    pass


class Mcp:
    """A server process and the session with it. call() is blocking, ask() is not."""

    def __init__(self, proxied=suite.PROXY):
        self._leave, ready = asyncio.Event(), threading.Event()
        self.logged, self.failure = [], None
        arguments = ["--domain", suite.SERVER.removeprefix("http://"), "--api-key", suite.KEY,
                     "--request-timeout-seconds", "120", *(["--use-server-proxy"] if proxied else [])]
        parameters = StdioServerParameters(command=str(suite.CLIENT_DIR / "bin" / "opensandbox-mcp"), args=arguments,
                                           env=dict(os.environ))

        async def hear(message):
            self.logged.append(message.data)

        async def live():
            try:
                async with stdio_client(parameters, errlog=sys.stderr) as (reading, writing):
                    async with ClientSession(reading, writing, logging_callback=hear) as self.session:
                        await self.session.initialize()
                        tools = (await self.session.list_tools()).tools
                        self.tools = {tool.name for tool in tools}
                        create = next(tool for tool in tools if tool.name == "sandbox_create")
                        schema = create.input_schema if hasattr(create, "input_schema") else create.inputSchema
                        self.create_fields = set(schema["properties"])
                        ready.set()
                        await self._leave.wait()
            except BaseException as error:
                self.failure = error
            ready.set()

        self._life = asyncio.run_coroutine_threadsafe(live(), LOOP)
        ready.wait()
        if self.failure:
            raise self.failure

    def close(self):
        LOOP.call_soon_threadsafe(self._leave.set)
        self._life.result()

    async def ask(self, tool, **arguments):
        if tool not in self.tools:
            raise NotOffered(f"no tool {tool}")
        answer = await self.session.call_tool(tool, arguments)
        failed = answer.is_error if hasattr(answer, "is_error") else answer.isError
        if failed:
            raise ToolError(answer.content[0].text)
        data = answer.structured_content if hasattr(answer, "structured_content") else answer.structuredContent
        return data["result"] if set(data) == {"result"} else data

    def call(self, tool, **arguments):
        return wait(self.ask(tool, **arguments))

    def refused(self, texts, what, tool, **arguments):
        try:
            self.call(tool, **arguments)
        except ToolError as error:
            hidden = str(error) == f"Error executing tool {tool}"
            check(hidden or any(text in str(error) for text in texts), f"{what}: none of {texts} in {error}")
            return HIDDEN if hidden else ""
        raise suite.Mismatch(f"{what} was accepted")

    def create(self, **fields):
        return self.call("sandbox_create", image=suite.IMAGE, ready_timeout_seconds=240, **fields)["sandbox_id"]

    @contextlib.contextmanager
    def sandbox(self, **fields):
        id = self.create(**fields)
        try:
            yield id
        finally:
            self.call("sandbox_kill", sandbox_id=id)

    def run(self, id, command, **fields):
        return self.call("command_run", sandbox_id=id, command=command, **fields)

    def stdout(self, id, command, **fields):
        return [each["text"] for each in self.run(id, command, **fields)["logs"]["stdout"]]

    def write(self, id, path, content, **fields):
        tool = "file_write" if "file_write" in self.tools else "file_write_text"
        self.call(tool, sandbox_id=id, path=path, content=content, **fields)

    def read(self, id, path, **fields):
        tool = "file_read" if "file_read" in self.tools else "file_read_text"
        return self.call(tool, sandbox_id=id, path=path, **fields)["content"]

    def left(self, id):
        at = datetime.datetime.fromisoformat(self.call("sandbox_get_info", sandbox_id=id)["expires_at"]
                                             .replace("Z", "+00:00"))
        return (at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()

    def listed(self, **wanted):
        return [each["id"] for each in self.call("sandbox_list", filter=wanted)["sandbox_infos"]]


def exit_code(execution):
    if execution.get("exit_code") is not None:
        return execution["exit_code"]
    return int(execution["error"]["value"]) if execution.get("error") else 0


def lifecycle(mcp):
    with mcp.sandbox(env={"GREETING": "hello"}, metadata={"suite": "lifecycle"}, timeout_seconds=600) as id:
        info = mcp.call("sandbox_get_info", sandbox_id=id)
        same((info["id"], info["status"]["state"], info["metadata"], info["image"]["image"]),
             (id, "Running", {"suite": "lifecycle"}, suite.IMAGE), "get")
        check(480 < mcp.left(id) <= 600, f"{mcp.left(id)} s left")
        same(mcp.listed(metadata={"suite": "lifecycle"}, states=["Running"]), [id], "list")
        same(mcp.listed(metadata={"suite": "other"}), [], "list of none")
        same(mcp.call("sandbox_healthcheck", sandbox_id=id)["healthy"], True, "health")
        same(mcp.stdout(id, "echo $GREETING"), ["hello"], "environment")
        other = Mcp()
        try:
            other.call("sandbox_connect", sandbox_id=id)
            same(other.stdout(id, "echo $GREETING"), ["hello"], "command of another client")
        finally:
            other.close()
    mcp.refused(["404", "NOT_FOUND", "does not exist"], "get after kill", "sandbox_get_info", sandbox_id=id)


def foreground(mcp):
    with mcp.sandbox(env={"GREETING": "hello"}) as id:
        result = mcp.run(id, "echo $GREETING; echo oops >&2; exit 3")
        same(([each["text"] for each in result["logs"]["stdout"]], [each["text"] for each in result["logs"]["stderr"]],
              exit_code(result)), (["hello"], ["oops"], 3), "output and exit code")
        same(exit_code(mcp.run(id, "true")), 0, "exit code of true")
        same(mcp.stdout(id, "pwd", working_directory="/usr"), ["/usr"], "directory")
        if "command_run_stream" in mcp.tools:
            mcp.call("command_run_stream", sandbox_id=id, command="echo streamed")
            check(any("streamed" in str(each) for each in mcp.logged), f"streamed as log messages: {mcp.logged}")
            return "no environment per command"
    return "no environment per command; output only at the end"


def background(mcp):
    with mcp.sandbox() as id:
        mcp.run(id, "mkfifo /root/go /root/done")
        started = mcp.run(id, "read -r _ < /root/go; echo end > /root/done", background=True)
        check(started["id"], "no id")
        mcp.run(id, "echo > /root/go")
        same(mcp.stdout(id, "cat /root/done"), ["end"], "end")
    return "no tools for status and logs"


def interrupt(mcp):
    running = "cat /proc/[0-9]*/comm 2>/dev/null | grep -cx sleep || true"
    with mcp.sandbox() as id:
        mcp.run(id, "mkfifo /root/up")
        started = mcp.run(id, "echo > /root/up; exec sleep 600", background=True)
        mcp.run(id, "cat /root/up")
        mcp.call("command_interrupt", sandbox_id=id, execution_id=started["id"])
        while mcp.stdout(id, running) != ["0"]:
            pass
    return "no timeout per command"


def many_lines(mcp):
    with mcp.sandbox() as id:
        lines = mcp.stdout(id, f"seq {suite.LINES}")
        same(len(lines), suite.LINES, "number of lines")
        check(lines == [str(n) for n in range(1, suite.LINES + 1)], "lines out of order")


def sessions(mcp):
    check(not any("session" in tool for tool in mcp.tools), f"there is a tool for sessions: {mcp.tools}")
    raise NotOffered("no tool for sessions")


def files(mcp):
    remarks = []
    text, data = "one\nzwei ü\n三\n", bytes(range(256))
    with mcp.sandbox() as id:
        mcp.write(id, "/root/in/a.txt", text, mode=640)
        mcp.write(id, "/root/in/c.txt", "third")
        same(mcp.read(id, "/root/in/a.txt"), text, "text")
        same(mcp.read(id, "/root/in/c.txt", range_header="bytes=1-2"), "hi", "range")
        same(mcp.stdout(id, "stat -c '%a %s' /root/in/a.txt"), [f"640 {len(text.encode())}"], "mode and size")
        if "file_write_bytes" in mcp.tools:
            mcp.call("file_write_bytes", sandbox_id=id, path="/root/in/b.bin",
                     content_base64=base64.b64encode(data).decode())
            back = mcp.call("file_read_bytes", sandbox_id=id, path="/root/in/b.bin")
            same(base64.b64decode(back["content_base64"]), data, "bytes")
            info = mcp.call("file_get_info", sandbox_id=id, paths=["/root/in/a.txt"])["/root/in/a.txt"]
            same((info["size"], info["mode"]), (len(text.encode()), 640), "info")
            mcp.call("file_set_permissions", sandbox_id=id, entries=[
                {"path": "/root/in/c.txt", "mode": 604, "owner": "nobody", "group": "nogroup"}])
            same(mcp.stdout(id, "stat -c '%a %U %G' /root/in/c.txt"), ["604 nobody nogroup"], "permissions")
            mcp.call("file_delete", sandbox_id=id, paths=["/root/in/b.bin"])
        else:
            remarks.append("no tools for bytes, info and permissions")
        found = mcp.call("file_search", sandbox_id=id, path="/root/in", pattern="*.txt")
        same(sorted(each["path"] for each in found), ["/root/in/a.txt", "/root/in/c.txt"], "search")
        mcp.call("file_replace_contents", sandbox_id=id, entries=[
            {"path": "/root/in/c.txt", "old_content": "third", "new_content": "3rd"}])
        same(mcp.read(id, "/root/in/c.txt"), "3rd", "replaced")
        mcp.call("file_move", sandbox_id=id, entries=[_move("/root/in/a.txt", "/root/in/d.txt")])
        mcp.call("file_delete", sandbox_id=id, paths=["/root/in/c.txt"])
        same(mcp.stdout(id, "ls /root/in"), ["d.txt"], "after move and delete")
        mcp.call("file_create_directories", sandbox_id=id, entries=[{"path": "/root/x/y", "mode": 750}])
        same(mcp.stdout(id, "stat -c %a /root/x/y"), ["750"], "made directory")
        mcp.call("file_delete_directories", sandbox_id=id, paths=["/root/in"])
        same(mcp.stdout(id, "ls -d /root/in /root/x/y 2>/dev/null"), ["/root/x/y"], "removed directory")
    return "; ".join([*remarks, "no list of a directory"])


def _move(source, destination):
    return {"source": source, "destination": destination, "src": source, "dest": destination}


def big_files(mcp):
    text = base64.b64encode(os.urandom(BIG * 3 // 4)).decode()
    with mcp.sandbox() as id:
        mcp.write(id, "/root/big", text)
        same(mcp.stdout(id, "stat -c %s /root/big"), [str(len(text))], "size inside")
        check(mcp.read(id, "/root/big") == text, "what came back differs")
    return "8 MiB of text: a file travels as one JSON message"


def odd_names(mcp):
    with mcp.sandbox() as id:
        names = [f"/root/odd/{name}" for name in suite.ODD_NAMES]
        for name in names:
            mcp.write(id, name, f"in {name}")
            same(mcp.read(id, name), f"in {name}", f"content of {name!r}")
        found = mcp.call("file_search", sandbox_id=id, path="/root/odd", pattern="*")
        same(sorted(each["path"] for each in found), sorted(names), "search")
        mcp.call("file_move", sandbox_id=id, entries=[_move(name, name + " moved") for name in names])
        same(mcp.read(id, names[0] + " moved"), f"in {names[0]}", "moved")
        mcp.call("file_delete", sandbox_id=id, paths=[name + " moved" for name in names])
        same(mcp.stdout(id, "ls -A /root/odd"), [], "after delete")


def metrics(mcp):
    with mcp.sandbox(resource={"cpu": "1", "memory": "512Mi"}) as id:
        seen = mcp.call("sandbox_get_metrics", sandbox_id=id)
        check(seen["cpu_count"] > 0, f"cpu count {seen['cpu_count']}")
        same(round(seen["memory_total_in_mib"]), 512, "total memory")
        check(0 < seen["memory_used_in_mib"] < 512, f"used memory {seen['memory_used_in_mib']}")


def endpoints(proxied):
    def ask(_):
        if proxied and suite.VERSION.startswith("0."):
            raise NotOffered("no option --use-server-proxy")
        mcp = Mcp(proxied)
        try:
            with mcp.sandbox(env={"GREETING": "hello"}) as id:
                mcp.run(id, suite.LISTENER)
                endpoint = mcp.call("sandbox_get_endpoint", sandbox_id=id, port=suite.LISTENER_PORT)
                same(endpoint["endpoint"].startswith(suite.SERVER.removeprefix("http://")), proxied, "way")
                answer = suite.fetch(f"http://{endpoint['endpoint']}/a/b?c=d%20e", endpoint.get("headers"))
                same(answer, (200, "hello /a/b?c=d%20e\n"), "answer of the port")
                same(mcp.stdout(id, "echo $GREETING"), ["hello"], "command")
        finally:
            mcp.close()

    return ask


def pause_and_resume(mcp):
    if "sandbox_pause" not in mcp.tools:
        raise NotOffered("no tools for pause and resume")
    with mcp.sandbox() as id:
        def state():
            return mcp.call("sandbox_get_info", sandbox_id=id)["status"]["state"]

        mcp.call("sandbox_pause", sandbox_id=id)
        same(state(), "Paused", "state")
        mcp.refused(["409", "::"], "a second pause", "sandbox_pause", sandbox_id=id)
        mcp.call("sandbox_resume", sandbox_id=id)
        same(state(), "Running", "state")
        same(mcp.stdout(id, "echo on"), ["on"], "command")


def renew(mcp):
    with mcp.sandbox(timeout_seconds=600) as id:
        for wanted in (1800, 120):
            mcp.call("sandbox_renew", sandbox_id=id, timeout_seconds=wanted)
            check(wanted - 60 < mcp.left(id) <= wanted, f"{mcp.left(id)} s left instead of {wanted}")


def metadata(mcp):
    with mcp.sandbox(metadata={"from": "suite", "keep": "1"}) as id:
        same(mcp.call("sandbox_get_info", sandbox_id=id)["metadata"], {"from": "suite", "keep": "1"}, "metadata")
        same((mcp.listed(metadata={"from": "suite", "keep": "1"}), mcp.listed(metadata={"keep": "2"})), ([id], []), "list")
    return "set at creation and filtered by; no tool that changes it"


def snapshots(mcp):
    check(not any("snapshot" in tool for tool in mcp.tools), f"there is a tool for snapshots: {mcp.tools}")
    raise NotOffered("no tool for snapshots")


def errors(mcp):
    remark = mcp.refused(["NOT_FOUND", "404", "does not exist"], "an unknown sandbox", "sandbox_get_info",
                         sandbox_id=suite.UNKNOWN_ID)
    mcp.refused(["lots"], "bad resources", "sandbox_create", image=suite.IMAGE, resource={"memory": "lots"})
    mcp.refused(["60", "timeout"], "a timeout below a minute", "sandbox_create", image=suite.IMAGE, timeout_seconds=5)
    with mcp.sandbox() as id:
        tool = "file_read" if "file_read" in mcp.tools else "file_read_text"
        mcp.refused(["404", "FILE_NOT_FOUND", "no such file"], "a missing file", tool, sandbox_id=id, path="/root/none")
    return remark


def network_policy(mcp):
    if "network_policy" not in mcp.create_fields:
        raise NotOffered("sandbox_create takes no network policy")
    policy = {"defaultAction": "deny", "egress": [{"action": "allow", "target": suite.ALLOWED}]}
    with mcp.sandbox(network_policy=policy) as id:
        same([mcp.stdout(id, suite.REACH + name) for name in (suite.ALLOWED, suite.OTHER)], [["yes"], ["no"]], "the policy")
    return "set at creation; no tool that reads or changes it"


def without(field, tool):
    """A feature that this client has no field of a create and no tool for."""

    def missing(mcp):
        check(field not in mcp.create_fields, f"sandbox_create has {field}")
        check(not any(tool in name for name in mcp.tools), f"there is a tool for it: {mcp.tools}")
        raise NotOffered(f"sandbox_create has no {field}, and there is no tool")

    return missing


def parallel(mcp):
    async def all_of_them():
        tried = await asyncio.gather(*(mcp.ask("sandbox_create", image=suite.IMAGE, env={"N": str(n)},
                                               ready_timeout_seconds=240) for n in range(suite.PARALLEL)),
                                     return_exceptions=True)
        ids = [each["sandbox_id"] for each in tried if isinstance(each, dict)]
        try:
            failed = [each for each in tried if not isinstance(each, dict)]
            check(not failed, f"{len(failed)} of {suite.PARALLEL} creates failed: {failed[:1]}")
            said = await asyncio.gather(*(mcp.ask("command_run", sandbox_id=id, command="echo $N") for id in ids))
            same([each["logs"]["stdout"][0]["text"] for each in said], [str(n) for n in range(suite.PARALLEL)], "answers")
        finally:
            for id in ids:  # one by one: version 0.1.0 closes the connections of all others with each
                await mcp.ask("sandbox_kill", sandbox_id=id)

    wait(all_of_them())


CHECKS = {**suite.checks_of(globals()), "50 in parallel": parallel, "hooks": without("lifecycle", "hook"),
          "idle and renewal policy": without("lifecycle", "idle"), "templates": without("template_id", "template"),
          "isolated sessions": without("isolation", "isolat"), "diagnostics": without("diagnostics", "diagnos"),
          "code execution": without("code", "code_")}


def main():
    threading.Thread(target=LOOP.run_forever, daemon=True).start()
    mcp = Mcp()
    suite.main({name: lambda function=function: function(mcp) for name, function in CHECKS.items()})
    mcp.close()


if __name__ == "__main__":
    main()
