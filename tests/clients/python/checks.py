"""The Python package opensandbox: every check with its sync and its async client."""

import asyncio
import concurrent.futures
import contextlib
import datetime
import hashlib
import inspect
import os
import threading
import uuid

from opensandbox import Sandbox, SandboxManager, SandboxManagerSync, SandboxSync
from opensandbox.config import ConnectionConfig
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException, SandboxException
from opensandbox.models.execd import ExecutionHandlers, RunCommandOpts
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.filesystem import (ContentReplaceEntry, MoveEntry, SearchEntry, SetPermissionEntry, WriteEntry)
from opensandbox.models.sandboxes import SandboxFilter, SandboxInfo

import suite
from suite import NotOffered, check, same

KNOWS_PROXY = "use_server_proxy" in ConnectionConfigSync.model_fields
MINUTE = datetime.timedelta(minutes=1)


class Blocking:
    """Calls an object's coroutine functions on a loop, and those of the services it holds."""

    def __init__(self, loop, inner):
        self._loop, self._inner = loop, inner

    def __getattr__(self, name):
        target = getattr(self._inner, name)
        if name in ("commands", "files", "metrics", "credential_vault"):
            return Blocking(self._loop, target)
        if not callable(target):
            return target

        def call(*args, **fields):
            result = target(*args, **fields)
            return self._loop.run_until_complete(result) if inspect.isawaitable(result) else result

        return call


class Client:
    """One of the two faces of the package, made blocking."""

    def __init__(self, kind):
        self.kind = kind
        self.sandbox_class, self.manager_class, self.config_class, self.handlers = {
            "sync": (SandboxSync, SandboxManagerSync, ConnectionConfigSync, ExecutionHandlersSync),
            "async": (Sandbox, SandboxManager, ConnectionConfig, ExecutionHandlers)}[kind]
        self.loop = asyncio.new_event_loop() if kind == "async" else None

    def config(self, **changed):
        fields = {"domain": suite.SERVER.removeprefix("http://"), "api_key": suite.KEY, "use_server_proxy": suite.PROXY,
                  "request_timeout": datetime.timedelta(seconds=120), **changed}
        if not KNOWS_PROXY:
            fields.pop("use_server_proxy")
        return self.config_class(**fields)

    def blocking(self, made):
        if self.kind == "sync":
            return made
        return Blocking(self.loop, self.loop.run_until_complete(made) if inspect.isawaitable(made) else made)

    def handler(self, function):
        if self.kind == "sync":
            return function

        async def awaited(event):
            result = function(event)
            if inspect.isawaitable(result):
                await result

        return awaited

    def create(self, image=suite.IMAGE, config=None, **fields):
        config = config or self.config()
        fields = {"ready_timeout": datetime.timedelta(minutes=4), **fields}
        words = (image,) if image else ()
        return self.blocking(self.sandbox_class.create(*words, connection_config=config, **fields))

    def connect(self, id):
        return self.blocking(self.sandbox_class.connect(id, connection_config=self.config()))

    def manager(self, **changed):
        made = self.manager_class.create(connection_config=self.config(**changed))
        return self.blocking(made)

    @contextlib.contextmanager
    def sandbox(self, **fields):
        made = self.create(**fields)
        try:
            yield made
        finally:
            made.kill()
            made.close()

    @contextlib.contextmanager
    def managing(self, **changed):
        made = self.manager(**changed)
        try:
            yield made
        finally:
            made.close()


def with_both(function):
    """A check of both clients; they have the same remarks."""

    def run():
        remark = ""
        for kind in ("sync", "async"):
            try:
                remark = function(Client(kind))
            except NotOffered:
                raise
            except Exception as error:
                raise suite.Mismatch(f"{kind} client: {suite.one_line(error)}") from error
        return remark

    return run


def stdout(execution):
    return [each.text for each in execution.logs.stdout]


def stderr(execution):
    return [each.text for each in execution.logs.stderr]


def exit_code(execution):
    if hasattr(execution, "exit_code"):
        return execution.exit_code
    return int(execution.error.value) if execution.error else 0


def has_option(name):
    return name in RunCommandOpts.model_fields


def refused(call, status, what):
    """The client's own error with this status; the error."""
    try:
        call()
    except SandboxApiException as error:
        same(error.status_code, status, f"status of {what}")
        return error
    raise suite.Mismatch(f"{what} was accepted")


def now():
    return datetime.datetime.now(datetime.timezone.utc)


# --- the features


def lifecycle(sdk):
    with sdk.managing() as manager:
        made = sdk.create(env={"GREETING": "hello"}, metadata={"suite": "lifecycle"}, timeout=10 * MINUTE)
        try:
            info = made.get_info()
            same((str(info.id), info.status.state, info.metadata), (str(made.id), "Running", {"suite": "lifecycle"}),
                 "get")
            same(info.image.image, suite.IMAGE, "image")
            check(8 * MINUTE < info.expires_at - now() <= 10 * MINUTE, f"expires at {info.expires_at}")
            check(abs(now() - info.created_at) < 5 * MINUTE, f"created at {info.created_at}")
            check(made.is_healthy(), "is_healthy says no")
            same(stdout(made.commands.run("echo $GREETING")), ["hello"], "environment")
            listed = manager.list_sandbox_infos(SandboxFilter(metadata={"suite": "lifecycle"}, states=["Running"]))
            same([str(each.id) for each in listed.sandbox_infos], [str(made.id)], "list")
            same(manager.list_sandbox_infos(SandboxFilter(metadata={"suite": "other"})).sandbox_infos, [], "list of none")
            made.files.write_files([WriteEntry(path="/root/mine", data="seen")])
            other = sdk.connect(str(made.id))
            same(other.files.read_file("/root/mine"), "seen", "read by another client")
            other.close()
        finally:
            made.kill()
        refused(made.get_info, 404, "get after kill")
        made.close()


def foreground(sdk):
    remarks = []
    with sdk.sandbox(env={"GREETING": "hello"}) as made:
        result = made.commands.run("echo $GREETING; echo oops >&2; exit 3")
        same((stdout(result), stderr(result), exit_code(result)), (["hello"], ["oops"], 3), "output and exit code")
        same(exit_code(made.commands.run("true")), 0, "exit code of true")
        same(stdout(made.commands.run("pwd", opts=RunCommandOpts(working_directory="/usr"))), ["/usr"], "directory")
        if has_option("envs"):
            same(stdout(made.commands.run("echo $X", opts=RunCommandOpts(envs={"X": "given"}))), ["given"], "envs")
        else:
            remarks.append("no environment per command")
        # The command goes on only when its first line has been heard here.
        made.commands.run("mkfifo /root/go")
        other, seen = sdk.connect(str(made.id)), []

        def hear(message):
            seen.append(message.text)
            if message.text == "first":
                inner = other if sdk.kind == "sync" else other._inner
                return inner.commands.run("echo > /root/go")

        made.commands.run("echo first; read -r _ < /root/go; echo second",
                          handlers=sdk.handlers(on_stdout=sdk.handler(hear)))
        same(seen, ["first", "second"], "what was heard while the command ran")
        other.close()
        if suite.VERSION.startswith("1."):
            same(stdout(made.commands.run(["printf", "%s|", "a b", "$HOME"])), ["a b|$HOME|"], "argument list")
    return "; ".join(remarks)


def background(sdk):
    with sdk.sandbox() as made:
        made.commands.run("mkfifo /root/up /root/go /root/done")
        execution = made.commands.run("echo first; echo > /root/up; read -r _ < /root/go; echo second; "
                                      "echo end > /root/done; exit 5", opts=RunCommandOpts(background=True))
        check(execution.id, "no id")
        made.commands.run("cat /root/up")
        if not hasattr(made.commands, "get_command_status"):
            made.commands.run("echo > /root/go")
            same(stdout(made.commands.run("cat /root/done")), ["end"], "end")
            return "no calls for status and logs"
        check(made.commands.get_command_status(execution.id).running, "status is not running")
        begun = made.commands.get_background_command_logs(execution.id)
        same(begun.content, "first\n", "log of a running command")
        made.commands.run("echo > /root/go")
        same(stdout(made.commands.run("cat /root/done")), ["end"], "end")
        while (status := made.commands.get_command_status(execution.id)).running:
            pass
        same(status.exit_code, 5, "exit code")
        same(made.commands.get_background_command_logs(execution.id).content, "first\nsecond\n", "log")
        check(begun.cursor is not None, "no cursor")
        rest = made.commands.get_background_command_logs(execution.id, cursor=begun.cursor).content
        same(rest, "second\n", "log from the cursor")


def interrupt(sdk):
    remarks = []
    with sdk.sandbox() as made:
        # A command that is listened to is ended from its own output.
        ids = []

        def hear(_):
            inner = made if sdk.kind == "sync" else made._inner
            return inner.commands.interrupt(ids[0])

        result = made.commands.run("echo up; sleep 600", handlers=sdk.handlers(
            on_init=sdk.handler(lambda event: ids.append(event.id)), on_stdout=sdk.handler(hear)))
        check(exit_code(result) != 0, "an interrupted command ended with 0")
        execution = made.commands.run("sleep 600", opts=RunCommandOpts(background=True))
        made.commands.interrupt(execution.id)
        if hasattr(made.commands, "get_command_status"):
            while (status := made.commands.get_command_status(execution.id)).running:
                pass
            check(status.exit_code != 0, "an interrupted command ended with 0")
        if has_option("timeout"):
            limited = RunCommandOpts(timeout=datetime.timedelta(milliseconds=500))
            result = made.commands.run("echo up; sleep 600", opts=limited)
            same(stdout(result), ["up"], "output before the timeout")
            check(exit_code(result) != 0, "a command past its timeout ended with 0")
        else:
            remarks.append("no timeout per command")
    return "; ".join(remarks)


def many_lines(sdk):
    with sdk.sandbox() as made:
        result = made.commands.run(f"seq {suite.LINES}")
        same(len(stdout(result)), suite.LINES, "number of lines")
        check(stdout(result) == [str(n) for n in range(1, suite.LINES + 1)], "lines out of order")
        same(exit_code(result), 0, "exit code")


def sessions(sdk):
    with sdk.sandbox() as made:
        if not hasattr(made.commands, "create_session"):
            raise NotOffered("no calls for sessions")
        run = made.commands.run_in_session
        session = made.commands.create_session(working_directory="/usr")
        run(session, "export MINE=1; cd lib")
        same(stdout(run(session, 'echo "$MINE"; pwd')), ["1", "/usr/lib"], "what a session remembers")
        same(exit_code(run(session, "exit 4")), 4, "exit code")
        other = made.commands.create_session()
        same(stdout(run(other, 'echo "[$MINE]"')), ["[]"], "another session")
        made.commands.delete_session(session)
        made.commands.delete_session(other)
        refused(lambda: run(session, "true"), 500, "running in a deleted session")  # what the contract says
        refused(lambda: made.commands.delete_session(session), 404, "a second delete")


def files(sdk):
    remarks = []
    text, data = "one\nzwei ü\n三\n", bytes(range(256))
    with sdk.sandbox() as made:
        fs = made.files
        fs.write_files([WriteEntry(path="/root/in/a.txt", data=text, mode=640),
                        WriteEntry(path="/root/in/b.bin", data=data, mode=600),
                        WriteEntry(path="/root/in/c.txt", data="third")])
        same(fs.read_file("/root/in/a.txt"), text, "text")
        same(fs.read_bytes("/root/in/b.bin"), data, "bytes")
        same(fs.read_bytes("/root/in/b.bin", range_header="bytes=10-19"), data[10:20], "range")
        same(stdout(made.commands.run("stat -c '%a %s' /root/in/a.txt")), [f"640 {len(text.encode())}"], "mode and size")
        info = fs.get_file_info(["/root/in/a.txt", "/root/in/b.bin"])
        same({path: (each.size, each.mode) for path, each in info.items()},
             {"/root/in/a.txt": (len(text.encode()), 640), "/root/in/b.bin": (256, 600)}, "info")
        same((info["/root/in/a.txt"].owner, info["/root/in/a.txt"].group), ("root", "root"), "owner")
        check(abs(now() - info["/root/in/a.txt"].modified_at) < 5 * MINUTE, "time of change")
        found = sorted(each.path for each in fs.search(SearchEntry(path="/root/in", pattern="*.txt")))
        same(found, ["/root/in/a.txt", "/root/in/c.txt"], "search")
        fs.replace_contents([ContentReplaceEntry(path="/root/in/c.txt", old_content="third", new_content="3rd")])
        same(fs.read_file("/root/in/c.txt"), "3rd", "replaced")
        if hasattr(fs, "replace_contents_detailed"):
            again = fs.replace_contents_detailed(
                [ContentReplaceEntry(path="/root/in/c.txt", old_content="3rd", new_content="3rd 3rd")])
            same([(each.path, each.replaced_count) for each in again], [("/root/in/c.txt", 1)], "replaced, counted")
        fs.set_permissions([SetPermissionEntry(path="/root/in/c.txt", mode=604, owner="nobody", group="nogroup")])
        same(stdout(made.commands.run("stat -c '%a %U %G' /root/in/c.txt")), ["604 nobody nogroup"], "permissions")
        fs.move_files([MoveEntry(src="/root/in/a.txt", dest="/root/in/d.txt")])
        fs.delete_files(["/root/in/b.bin"])
        same(stdout(made.commands.run("ls /root/in")), ["c.txt", "d.txt"], "after move and delete")
        fs.create_directories([WriteEntry(path="/root/x/y", mode=750)])
        same(stdout(made.commands.run("stat -c %a /root/x/y")), ["750"], "made directory")
        if hasattr(fs, "list_directory"):
            from opensandbox.models.filesystem import DirectoryListEntry
            listed = sorted(each.path for each in fs.list_directory(DirectoryListEntry(path="/root/in")))
            same(listed, ["/root/in/c.txt", "/root/in/d.txt"], "listed directory")
        else:
            remarks.append("no call that lists a directory")
        fs.delete_directories(["/root/in"])
        same(stdout(made.commands.run("ls -d /root/in /root/x/y 2>/dev/null")), ["/root/x/y"], "removed directory")
        refused(lambda: fs.read_bytes("/root/in/c.txt"), 404, "a missing file")
    return "; ".join(remarks)


def big_files(sdk):
    data = os.urandom(suite.BIG)
    with sdk.sandbox() as made:
        made.files.write_files([WriteEntry(path="/root/big", data=data)])
        digest = stdout(made.commands.run("sha256sum < /root/big"))[0].split()[0]
        same(digest, hashlib.sha256(data).hexdigest(), "checksum inside")
        check(made.files.read_bytes("/root/big") == data, "what came back differs")


def odd_names(sdk):
    with sdk.sandbox() as made:
        fs, names = made.files, [f"/root/odd/{name}" for name in suite.ODD_NAMES]
        fs.write_files([WriteEntry(path=name, data=f"in {name}") for name in names])
        for name in names:
            same(fs.read_file(name), f"in {name}", f"content of {name!r}")
        same(sorted(fs.get_file_info(names)), sorted(names), "info")
        found = sorted(each.path for each in fs.search(SearchEntry(path="/root/odd", pattern="*")))
        same(found, sorted(names), "search")
        fs.move_files([MoveEntry(src=name, dest=name + " moved") for name in names])
        same(fs.read_file(names[0] + " moved"), f"in {names[0]}", "moved")
        fs.delete_files([name + " moved" for name in names])
        same(stdout(made.commands.run("ls -A /root/odd")), [], "after delete")


def metrics(sdk):
    with sdk.sandbox(resource={"cpu": "1", "memory": "512Mi"}) as made:
        seen = made.get_metrics()
        check(seen.cpu_count > 0, f"cpu count {seen.cpu_count}")
        same(round(seen.memory_total_in_mib), 512, "total memory")
        check(0 < seen.memory_used_in_mib < 512, f"used memory {seen.memory_used_in_mib}")
        check(0 <= seen.cpu_used_percentage, f"cpu {seen.cpu_used_percentage}")
        check(abs(now().timestamp() - seen.timestamp / 1000) < 300, f"timestamp {seen.timestamp}")


def endpoints(proxied):
    def ask(sdk):
        if proxied and not KNOWS_PROXY:
            raise NotOffered("no use_server_proxy in ConnectionConfig")
        with sdk.sandbox(config=sdk.config(use_server_proxy=proxied), env={"GREETING": "hello"}) as made:
            made.commands.run(suite.LISTENER)
            endpoint = made.get_endpoint(suite.LISTENER_PORT)
            check(not proxied or endpoint.endpoint.startswith(suite.SERVER.removeprefix("http://")),
                  f"endpoint {endpoint.endpoint}")
            check(proxied or not endpoint.endpoint.startswith(suite.SERVER.removeprefix("http://")),
                  f"endpoint {endpoint.endpoint}")
            answer = suite.fetch(f"http://{endpoint.endpoint}/a/b?c=d%20e", getattr(endpoint, "headers", None))
            same(answer, (200, "hello /a/b?c=d%20e\n"), "answer of the port")
            same(stdout(made.commands.run("echo $GREETING")), ["hello"], "command")

    return ask


def pause_and_resume(sdk):
    with sdk.sandbox() as made:
        session = made.commands.create_session() if hasattr(made.commands, "create_session") else None
        if session:
            made.commands.run_in_session(session, "export KEPT=yes")
        made.pause()
        same(made.get_info().status.state, "Paused", "state")
        refused(made.pause, 409, "a second pause")
        if hasattr(sdk.sandbox_class, "resume") and inspect.ismethod(sdk.sandbox_class.resume):
            resumed = sdk.blocking(sdk.sandbox_class.resume(str(made.id), connection_config=sdk.config()))
        else:
            made.resume()
            resumed = sdk.connect(str(made.id))
        same(resumed.get_info().status.state, "Running", "state")
        if session:
            same(stdout(resumed.commands.run_in_session(session, "echo $KEPT")), ["yes"], "session of before")
        else:
            same(stdout(resumed.commands.run("echo on")), ["on"], "command")
        with sdk.managing() as manager:
            refused(lambda: manager.resume_sandbox(made.id), 409, "a second resume")
        resumed.close()


def renew(sdk):
    with sdk.sandbox(timeout=10 * MINUTE) as made:
        for wanted in (30 * MINUTE, 2 * MINUTE):
            made.renew(wanted)
            left = made.get_info().expires_at - now()
            check(wanted - MINUTE < left <= wanted, f"{left} left instead of {wanted}")
        with sdk.managing() as manager:
            manager.renew_sandbox(made.id, 20 * MINUTE)
            check(made.get_info().expires_at - now() > 18 * MINUTE, "the manager's renewal")


def metadata(sdk):
    with sdk.sandbox(metadata={"from": "suite", "keep": "1"}) as made, sdk.managing() as manager:
        def ids(**wanted):
            return [str(each.id) for each in manager.list_sandbox_infos(SandboxFilter(metadata=wanted)).sandbox_infos]

        same(made.get_info().metadata, {"from": "suite", "keep": "1"}, "metadata")
        same(ids(**{"from": "suite"}), [str(made.id)], "list")
        if not hasattr(made, "patch_metadata"):
            return "set at creation and filtered by; no call that changes it"
        same(made.patch_metadata({"from": None, "now": "patched"}).metadata, {"keep": "1", "now": "patched"}, "patched")
        same((ids(now="patched"), ids(**{"from": "suite"})), ([str(made.id)], []), "list")
        refused(lambda: made.patch_metadata({"-wrong": "x"}), 400, "a wrong key")


def snapshots(sdk):
    if not hasattr(sdk.manager_class, "create_snapshot"):
        raise NotOffered("no calls for snapshots")
    from opensandbox.models.sandboxes import SnapshotFilter
    with sdk.sandbox() as made, sdk.managing() as manager:
        made.commands.run("echo kept > /root/note")
        snapshot = made.create_snapshot("from-suite")
        same((snapshot.sandbox_id, snapshot.name), (made.id, "from-suite"), "snapshot")
        try:
            while (state := manager.get_snapshot(snapshot.id).status.state) == "Creating":
                pass
            same(state, "Ready", "state")
            listed = manager.list_snapshots(SnapshotFilter(sandbox_id=made.id)).snapshot_infos
            same([each.id for each in listed], [snapshot.id], "list")
            made.commands.run("echo changed > /root/note; echo new > /root/later")
            restored = sdk.create(None, snapshot_id=snapshot.id)
            try:
                same(stdout(restored.commands.run("cat /root/note; ls /root/later 2>/dev/null")), ["kept"], "files")
            finally:
                restored.kill()
                restored.close()
        finally:
            manager.delete_snapshot(snapshot.id)
        refused(lambda: manager.get_snapshot(snapshot.id), 404, "a deleted snapshot")


def errors(sdk):
    lost = []
    with sdk.managing(api_key="guess") as stranger:
        refused(lambda: stranger.list_sandbox_infos(SandboxFilter()), 401, "a wrong key")
    with sdk.managing() as manager:
        error = refused(lambda: manager.get_sandbox_info(_id(suite.UNKNOWN_ID)), 404, "an unknown sandbox")
        if "::" not in error.error.code:
            lost.append("an unknown sandbox")
        check(suite.UNKNOWN_ID in str(error) or suite.UNKNOWN_ID in str(error.error.message or ""),
              f"the message does not name it: {error}")
    error = refused(lambda: sdk.create(resource={"memory": "lots"}), 400, "bad resources")
    if "::" not in error.error.code:
        lost.append("bad resources")
    refused(lambda: sdk.create(timeout=datetime.timedelta(seconds=5)), 422, "a timeout below a minute")
    with sdk.sandbox() as made:
        refused(lambda: made.files.read_bytes("/root/none"), 404, "a missing file")
    return f"this version drops the code of {' and '.join(lost)}" if lost else ""


def network_policy(sdk):
    try:
        from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule
    except ImportError:
        raise NotOffered("no network policies") from None
    if not hasattr(sdk.sandbox_class, "get_egress_policy"):
        raise NotOffered("no calls for the rules of a sandbox")

    policy = NetworkPolicy(default_action="deny", egress=[NetworkRule(action="allow", target=suite.ALLOWED)])
    with sdk.sandbox(network_policy=policy) as made:
        return change_policy(made)


def change_policy(made):
    """Of a sandbox that may reach the allowed host alone."""
    from opensandbox.models.sandboxes import NetworkRule

    def rule(action, target):
        return NetworkRule(action=action, target=target)

    def reached():
        return [stdout(made.commands.run(suite.REACH + name)) for name in (suite.ALLOWED, suite.OTHER)]

    def rules():
        return [(each.action, each.target) for each in made.get_egress_policy().egress]

    same(rules(), [("allow", suite.ALLOWED)], "rules")
    same(reached(), [["yes"], ["no"]], "the policy")
    if not hasattr(made, "patch_egress_rules"):
        return "read only"
    made.patch_egress_rules([rule("allow", suite.OTHER), rule("deny", suite.ALLOWED)])
    same(rules(), [("allow", suite.OTHER), ("deny", suite.ALLOWED)], "patched rules")
    same(reached(), [["no"], ["yes"]], "the patched policy")
    if not hasattr(made, "delete_egress_rules"):
        return "no call that removes rules"
    made.delete_egress_rules([suite.OTHER, "unknown.example.com"])
    same(reached(), [["no"], ["no"]], "after a rule was removed")


def credential_vault(sdk):
    try:
        from opensandbox.models.sandboxes import (Credential, CredentialBinding, CredentialProxyConfig, NetworkPolicy,
                                                  NetworkRule)
    except ImportError:
        raise NotOffered("no credential vault") from None
    policy = NetworkPolicy(default_action="deny", egress=[NetworkRule(action="allow", target=suite.ALLOWED)])

    def credential(value):
        return Credential(name="key", source={"value": value})

    binding = CredentialBinding(name="api", match={"hosts": [suite.ALLOWED], "schemes": ["http"]},
                                auth={"type": "bearer", "credential": "key"})
    with sdk.sandbox(network_policy=policy, credential_proxy=CredentialProxyConfig(enabled=True)) as made:
        vault = made.credential_vault

        def sent():
            return stdout(made.commands.run(suite.AUTHORIZATION + suite.ALLOWED))

        same(sent(), ["none"], "without a vault")
        same(vault.create(credentials=[credential("first")], bindings=[binding]).revision, 1, "revision")
        same(sent(), ["Bearer first"], "the header")
        refused(lambda: vault.create(credentials=[], bindings=[]), 409, "a second vault")
        same(vault.patch(expected_revision=1, credentials={"replace": [credential("second")]}).revision, 2, "revision")
        same(sent(), ["Bearer second"], "the header of the new value")
        refused(lambda: vault.patch(expected_revision=1), 409, "an old revision")
        state = vault.get()
        same([(each.name, each.source_type) for each in state.credentials], [("key", "inline")], "credentials")
        same([(each.name, each.auth.type) for each in state.bindings], [("api", "bearer")], "bindings")
        check("second" not in repr(state), "the state has the value")
        same(vault.get_credential("key").revision, 2, "one credential")
        same(vault.get_binding("api").match.hosts, [suite.ALLOWED], "one binding")
        same(len(vault.list_credentials()), 1, "a list of credentials")
        same(len(vault.list_bindings()), 1, "a list of bindings")
        vault.delete()
        refused(vault.get, 404, "a vault that was deleted")
        same(sent(), ["none"], "after the vault was deleted")


def _id(text):
    """The id in the type that this version uses."""
    return uuid.UUID(text) if SandboxInfo.model_fields["id"].annotation is uuid.UUID else text


def parallel():
    """Half of them with threads and the sync client, half with the async client, all at the same time."""
    half = suite.PARALLEL // 2
    with concurrent.futures.ThreadPoolExecutor(half) as pool:
        threads = [pool.submit(_one, n) for n in range(half)]
        asyncio.run(_others(range(half, suite.PARALLEL)))
        failed = [error for error in (thread.exception() for thread in threads) if error]
        check(not failed, f"{len(failed)} of {half} with the sync client: {failed[:1]}")


everyone = threading.Barrier(suite.PARALLEL // 2)  # all of them exist before the first is killed


def _one(n):
    sdk = Client("sync")
    try:
        made = sdk.create(env={"N": str(n)})
    except BaseException:
        everyone.abort()
        raise
    try:
        everyone.wait()
        same(stdout(made.commands.run("echo $N")), [str(n)], "answer")
    finally:
        made.kill()
        made.close()


async def _others(numbers):
    sdk = Client("async")

    def one(n):
        return Sandbox.create(suite.IMAGE, connection_config=sdk.config(), env={"N": str(n)}, ready_timeout=4 * MINUTE)

    tried = await asyncio.gather(*(one(n) for n in numbers), return_exceptions=True)
    made = [each for each in tried if not isinstance(each, BaseException)]
    try:
        failed = [each for each in tried if isinstance(each, BaseException)]
        check(not failed, f"{len(failed)} of {len(tried)} with the async client: {failed[:1]}")
        said = await asyncio.gather(*(each.commands.run("echo $N") for each in made))
        same([stdout(each) for each in said], [[str(n)] for n in numbers], "answers")
    finally:
        for each in made:
            await each.kill()
            await each.close()


# --- what only newer versions have


def hooks(sdk):
    from opensandbox.models.sandboxes import LifecycleHook, PeriodicLifecycleHook, SandboxLifecycle
    lifecycle = SandboxLifecycle(
        preStart=LifecycleHook(command=["sh", "-c", "echo prepared > /tmp/prepared; echo said by the hook"]),
        periodic=[PeriodicLifecycleHook(name="tick", schedule="@every 1s", command=["touch", "/tmp/ticked"])])
    with sdk.sandbox(lifecycle=lifecycle, entrypoint=["sh", "-c", "cp /tmp/prepared /tmp/seen; exec sleep 1000"]) as made:
        same(stdout(made.commands.run("until test -e /tmp/seen; do sleep 0.05; done; cat /tmp/seen")), ["prepared"],
             "the entrypoint's view")
        same(exit_code(made.commands.run("until test -e /tmp/ticked; do sleep 0.05; done")), 0, "periodic hook")
    broken = SandboxLifecycle(preStart=LifecycleHook(command=["sh", "-c", "echo no; exit 4"]))
    made = None
    try:
        # execd answers while preStart runs: whether the client sees the failure, or the sandbox before it, is chance. A
        # client that asks a sandbox which has ended goes on until its own time is up.
        made = sdk.create(lifecycle=broken, ready_timeout=datetime.timedelta(seconds=10))
    except SandboxException:
        pass
    with sdk.managing() as manager:
        if made is not None:
            while (seen := manager.get_sandbox_info(made.id).status).state not in ("Failed", "Terminated"):
                pass
            check("preStart" in seen.message, f"how it ended: {seen}")
            made.close()
        for each in manager.list_sandbox_infos(SandboxFilter()).sandbox_infos:
            manager.kill_sandbox(each.id)


def idle_and_renewal(sdk):
    from opensandbox.models import sandboxes as models
    if not hasattr(models, "IdlePolicy"):
        raise NotOffered("lifecycle has no idlePolicy and no renewalPolicy")
    lifecycle = models.SandboxLifecycle(
        idlePolicy=models.IdlePolicy(idleTimeoutSeconds=1800, onIdle="pause"),
        renewalPolicy=models.RenewalPolicy(extendSeconds=1800))
    with sdk.sandbox(lifecycle=lifecycle) as made:
        made.commands.run("echo kept > /dev/shm/word")
        made.pause()
        with sdk.managing() as manager:
            while manager.get_sandbox_info(made.id).status.state != "Paused":
                pass
            same(stdout(made.commands.run("cat /dev/shm/word")), ["kept"], "a command that wakes it")
            same(manager.get_sandbox_info(made.id).status.state, "Running", "state")


@contextlib.contextmanager
def built(manager, wanted):
    """A template that is Succeeded, deleted at the end."""
    made = manager.create_template(wanted)
    try:
        while (seen := manager.get_template(made.template_id)).status.phase in ("Pending", "Building"):
            pass
        same(seen.status.phase, "Succeeded", f"phase ({seen.status.message})")
        yield made
    finally:
        manager.delete_template(made.template_id)


def templates(sdk):
    if not hasattr(sdk.manager_class, "create_template"):
        raise NotOffered("no calls for templates")
    from opensandbox.models.templates import CreateTemplateRequest, TemplateFilter, TemplateReadiness
    wanted = CreateTemplateRequest(image=suite.IMAGE, publish="local://", env={"COLOUR": "blue"},
                                   metadata={"from": "suite"}, readiness=TemplateReadiness(probe="cmd://test -e /root/warm"),
                                   entrypoint=["sh", "-c", "echo warm > /root/warm; exec sleep 1000"])
    with sdk.managing() as manager:
        with built(manager, wanted) as made:
            listed = manager.list_templates(TemplateFilter(metadata={"from": "suite"})).template_infos
            same([each.template_id for each in listed], [made.template_id], "list")
            sandbox = sdk.blocking(sdk.sandbox_class.create_from_template(
                made.template_id, timeout=10 * MINUTE, connection_config=sdk.config()))
        try:
            same(stdout(sandbox.commands.run("cat /root/warm; echo $COLOUR")), ["warm", "blue"], "files and environment")
        finally:
            sandbox.kill()
            sandbox.close()
        refused(lambda: manager.get_template(made.template_id), 404, "a deleted template")
        build = SandboxFilter(metadata={"template": made.template_id})  # its sandbox goes by itself
        while manager.list_sandbox_infos(build).sandbox_infos:
            pass


def network_policy_routes(sdk):
    """For a sandbox from a template this client asks the server's routes, not the sidecar."""
    from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule
    from opensandbox.models.templates import CreateTemplateRequest
    wanted = CreateTemplateRequest(image=suite.IMAGE, publish="local://", entrypoint=["sleep", "1000000"])
    policy = NetworkPolicy(default_action="deny", egress=[NetworkRule(action="allow", target=suite.ALLOWED)])
    with sdk.managing() as manager:
        with built(manager, wanted) as made:
            sandbox = sdk.blocking(sdk.sandbox_class.create_from_template(
                made.template_id, timeout=10 * MINUTE, network_policy=policy, connection_config=sdk.config()))
        try:
            return change_policy(sandbox)
        finally:
            sandbox.kill()
            sandbox.close()


def isolated(sdk):
    if not hasattr(sdk.sandbox_class, "isolation"):
        raise NotOffered("no isolated sessions")
    from opensandbox.models.isolated import CreateIsolatedSessionRequest, IsolatedWorkspaceSpec
    with sdk.sandbox(extensions={"bootstrap.execd.isolation": "enable"}) as made:
        isolation = sdk.blocking(made.isolation)
        check(isolation.capabilities().available, "isolated sessions are not available")

        def session(**fields):
            return sdk.blocking(isolation.create(CreateIsolatedSessionRequest(
                workspace=IsolatedWorkspaceSpec(path="/workspace", mode="overlay"), **fields)))

        one, two = session(), session()
        one.run("echo one > /workspace/file; export KEPT=one")
        two.run("echo two > /workspace/file")
        same(stdout(one.run("cat /workspace/file; echo $KEPT")), ["one", "one"], "the first session")
        same(stdout(two.run("cat /workspace/file; echo $KEPT.")), ["two", "."], "the second session")
        same(stdout(made.commands.run("ls /workspace 2>/dev/null")), [], "the sandbox's own view")
        run = one.run_background("echo from the background")
        id = getattr(run, "run_id", run)
        while one.run_status(id).running:
            pass
        check("from the background" in str(one.run_logs(id)), "the background run's log")
        same(len(isolation.list()), 2, "sessions")
        one.delete()
        two.delete()
        same(len(isolation.list()), 0, "sessions after the delete")


def diagnostics(sdk):
    if not hasattr(sdk.sandbox_class, "get_diagnostic_logs"):
        raise NotOffered("no calls for diagnostics")
    with sdk.sandbox(entrypoint=["sh", "-c", "echo said by the entrypoint; exec sleep 1000"]) as made:
        while "said by the entrypoint" not in (logs := made.get_diagnostic_logs("container")).content:
            pass
        same((str(logs.sandbox_id), logs.kind, logs.scope), (str(made.id), "logs", "container"), "logs")
        events = made.get_diagnostic_events("runtime")
        check(events.content, "no events")
        refused(lambda: made.get_diagnostic_logs("else"), 400, "an unknown scope")


def newer():
    """Versions that have isolated sessions have all of these calls, or say which they lack."""
    if not hasattr(SandboxSync, "isolation"):
        return {}
    return {"hooks": hooks, "idle and renewal policy": idle_and_renewal, "templates": templates,
            "isolated sessions": isolated, "diagnostics": diagnostics, "network policy routes": network_policy_routes}


CHECKS = {**suite.checks_of(globals()), **newer()}

if __name__ == "__main__":
    suite.main({**{name: with_both(function) for name, function in CHECKS.items()}, "50 in parallel": parallel})
