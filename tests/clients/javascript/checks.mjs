// The JavaScript package @alibaba-group/opensandbox.
import { createHash, randomBytes } from "node:crypto";
import path from "node:path";
import { pathToFileURL } from "node:url";

import {
  ALLOWED, AUTHORIZATION, BIG, check, CLIENT_DIR, IMAGE, KEY, LINES, LISTENER, LISTENER_PORT, main, NotOffered,
  ODD_NAMES, OTHER, PARALLEL, PROXY, REACH, same, SERVER, UNKNOWN_ID,
} from "./suite.mjs";

const entry = path.join(CLIENT_DIR, "node_modules/@alibaba-group/opensandbox/dist/index.js");
const { Sandbox, SandboxManager } = await import(pathToFileURL(entry).href);

const DOMAIN = SERVER.replace("http://", "");
const connection = (changed = {}) => ({
  domain: DOMAIN, apiKey: KEY, useServerProxy: PROXY, requestTimeoutSeconds: 120, ...changed,
});

const create = ({ connection: changed, ...fields } = {}) =>
  Sandbox.create({
    connectionConfig: connection(changed), readyTimeoutSeconds: 240, ...(fields.snapshotId ? {} : { image: IMAGE }),
    ...fields,
  });

const withSandbox = async (fields, body) => {
  const made = await create(fields);
  try {
    return await body(made);
  } finally {
    await made.kill();
    await made.close();
  }
};

const withManager = async (body, changed = {}) => {
  const made = SandboxManager.create({ connectionConfig: connection(changed) });
  try {
    return await body(made);
  } finally {
    await made.close();
  }
};

const stdout = (execution) => execution.logs.stdout.map((message) => message.text);
const stderr = (execution) => execution.logs.stderr.map((message) => message.text);

// The client's own error with this status.
const refused = async (call, status, what) => {
  let error;
  try {
    await call();
  } catch (caught) {
    error = caught;
  }
  check(error, `${what} was accepted`);
  same([error.name, error.statusCode], ["SandboxApiException", status], what);
  return error;
};

const lifecycle = () =>
  withManager(async (manager) => {
    const made = await create({ env: { GREETING: "hello" }, metadata: { suite: "lifecycle" }, timeoutSeconds: 600 });
    try {
      const info = await made.getInfo();
      same([info.id, info.status.state, info.metadata, info.image.uri],
        [made.id, "Running", { suite: "lifecycle" }, IMAGE], "get");
      const left = (info.expiresAt - Date.now()) / 1000;
      check(left > 480 && left <= 600, `${left} s left`);
      check(await made.isHealthy(), "isHealthy says no");
      same(stdout(await made.commands.run("echo $GREETING")), ["hello"], "environment");
      const listed = await manager.listSandboxInfos({ metadata: { suite: "lifecycle" }, states: ["Running"] });
      same(listed.items.map((each) => each.id), [made.id], "list");
      same((await manager.listSandboxInfos({ metadata: { suite: "other" } })).items, [], "list of none");
      await made.files.writeFiles([{ path: "/root/mine", data: "seen" }]);
      const other = await Sandbox.connect({ sandboxId: made.id, connectionConfig: connection() });
      same(await other.files.readFile("/root/mine"), "seen", "read by another client");
      await other.close();
    } finally {
      await made.kill();
    }
    await refused(() => made.getInfo(), 404, "get after kill");
    await made.close();
  });

const foreground = () =>
  withSandbox({ env: { GREETING: "hello" } }, async (made) => {
    const { commands } = made;
    const result = await commands.run("echo $GREETING; echo oops >&2; exit 3");
    same([stdout(result), stderr(result), result.exitCode], [["hello"], ["oops"], 3], "output and exit code");
    same((await commands.run("true")).exitCode, 0, "exit code of true");
    same(stdout(await commands.run("pwd", { workingDirectory: "/usr" })), ["/usr"], "directory");
    same(stdout(await commands.run("echo $X", { envs: { X: "given" } })), ["given"], "envs");
    // The command goes on only when its first line has been heard here.
    await commands.run("mkfifo /root/go");
    const seen = [];
    const onStdout = async ({ text }) => {
      seen.push(text);
      if (text === "first") await commands.run("echo > /root/go");
    };
    await commands.run("echo first; read -r _ < /root/go; echo second", {}, { onStdout });
    same(seen, ["first", "second"], "what was heard while the command ran");
    const events = [];
    for await (const event of commands.runStream("echo streamed")) events.push(event);
    same(events.filter((each) => each.type === "stdout").map((each) => each.text), ["streamed"], "events");
  });

const ended = async (commands, id) => {
  for (;;) {
    const status = await commands.getCommandStatus(id);
    if (!status.running) return status;
  }
};

const background = () =>
  withSandbox({}, async ({ commands }) => {
    await commands.run("mkfifo /root/go /root/up");
    const script = "echo first; echo > /root/up; read -r _ < /root/go; echo second; exit 5";
    const { id } = await commands.run(script, { background: true });
    same((await commands.getCommandStatus(id)).running, true, "running");
    await commands.run("cat /root/up");
    const begun = await commands.getBackgroundCommandLogs(id);
    same(begun.content, "first\n", "log of a running command");
    await commands.run("echo > /root/go");
    same((await ended(commands, id)).exitCode, 5, "exit code");
    same((await commands.getBackgroundCommandLogs(id)).content, "first\nsecond\n", "log");
    check(Number.isInteger(begun.cursor), `cursor ${begun.cursor}`);
    same((await commands.getBackgroundCommandLogs(id, begun.cursor)).content, "second\n", "log from the cursor");
  });

const interrupt = () =>
  withSandbox({}, async ({ commands }) => {
    let running;
    const listened = await commands.run("echo up; sleep 600", {}, {
      onInit: ({ id }) => { running = id; },
      onStdout: () => commands.interrupt(running),
    });
    check(listened.exitCode !== 0, "an interrupted command ended with 0");
    const { id } = await commands.run("sleep 600", { background: true });
    await commands.interrupt(id);
    check((await ended(commands, id)).exitCode !== 0, "an interrupted command ended with 0");
    const limited = await commands.run("echo up; sleep 600", { timeoutSeconds: 1 });
    same(stdout(limited), ["up"], "output before the timeout");
    check(limited.exitCode !== 0, "a command past its timeout ended with 0");
  });

const manyLines = () =>
  withSandbox({}, async ({ commands }) => {
    const lines = stdout(await commands.run(`seq ${LINES}`));
    same(lines.length, LINES, "number of lines");
    check(lines.every((line, n) => line === String(n + 1)), "lines out of order");
  });

const sessions = () =>
  withSandbox({}, async ({ commands }) => {
    const session = await commands.createSession({ workingDirectory: "/usr" });
    await commands.runInSession(session, "export MINE=1; cd lib");
    same(stdout(await commands.runInSession(session, 'echo "$MINE"; pwd')), ["1", "/usr/lib"], "what a session remembers");
    same((await commands.runInSession(session, "exit 4")).exitCode, 4, "exit code");
    const other = await commands.createSession();
    same(stdout(await commands.runInSession(other, 'echo "[$MINE]"')), ["[]"], "another session");
    await commands.deleteSession(session);
    await commands.deleteSession(other);
    await refused(() => commands.runInSession(session, "true"), 500, "running in a deleted session");
    await refused(() => commands.deleteSession(session), 404, "a second delete");
  });

const files = () =>
  withSandbox({}, async ({ files, commands }) => {
    const text = "one\nzwei ü\n三\n";
    const data = Uint8Array.from({ length: 256 }, (_, n) => n);
    const size = Buffer.byteLength(text);
    await files.writeFiles([{ path: "/root/in/a.txt", data: text, mode: 640 },
      { path: "/root/in/b.bin", data, mode: 600 }, { path: "/root/in/c.txt", data: "third" }]);
    same(await files.readFile("/root/in/a.txt"), text, "text");
    same(Buffer.from(await files.readBytes("/root/in/b.bin")), Buffer.from(data), "bytes");
    same(Buffer.from(await files.readBytes("/root/in/b.bin", { range: "bytes=10-19" })), Buffer.from(data.slice(10, 20)),
      "range");
    const chunks = [];
    for await (const chunk of files.readBytesStream("/root/in/b.bin")) chunks.push(chunk);
    same(Buffer.concat(chunks), Buffer.from(data), "stream");
    same(stdout(await commands.run("stat -c '%a %s' /root/in/a.txt")), [`640 ${size}`], "mode and size");
    const info = await files.getFileInfo(["/root/in/a.txt", "/root/in/b.bin"]);
    same(Object.entries(info).map(([name, each]) => [name, each.size, each.mode, each.owner]).sort(),
      [["/root/in/a.txt", size, 640, "root"], ["/root/in/b.bin", 256, 600, "root"]], "info");
    check(Math.abs(info["/root/in/a.txt"].modifiedAt - Date.now()) < 300000, "time of change");
    const found = await files.search({ path: "/root/in", pattern: "*.txt" });
    same(found.map((each) => each.path).sort(), ["/root/in/a.txt", "/root/in/c.txt"], "search");
    await files.replaceContents([{ path: "/root/in/c.txt", oldContent: "third", newContent: "3rd" }]);
    same(await files.readFile("/root/in/c.txt"), "3rd", "replaced");
    await files.setPermissions([{ path: "/root/in/c.txt", mode: 604, owner: "nobody", group: "nogroup" }]);
    same(stdout(await commands.run("stat -c '%a %U %G' /root/in/c.txt")), ["604 nobody nogroup"], "permissions");
    await files.moveFiles([{ src: "/root/in/a.txt", dest: "/root/in/d.txt" }]);
    await files.deleteFiles(["/root/in/b.bin"]);
    same(stdout(await commands.run("ls /root/in")), ["c.txt", "d.txt"], "after move and delete");
    await files.createDirectories([{ path: "/root/x/y", mode: 750 }]);
    same(stdout(await commands.run("stat -c %a /root/x/y")), ["750"], "made directory");
    let remark = "no call that lists a directory";
    if (files.listDirectory) {
      const listed = await files.listDirectory({ path: "/root/in" });
      same(listed.map((each) => each.path).sort(), ["/root/in/c.txt", "/root/in/d.txt"], "listed directory");
      remark = "";
    }
    await files.deleteDirectories(["/root/in"]);
    same(stdout(await commands.run("ls -d /root/in /root/x/y 2>/dev/null")), ["/root/x/y"], "removed directory");
    await refused(() => files.readFile("/root/in/c.txt"), 404, "a missing file");
    return remark;
  });

const bigFiles = () =>
  withSandbox({}, async ({ files, commands }) => {
    const data = randomBytes(BIG);
    await files.writeFiles([{ path: "/root/big", data }]);
    const digest = stdout(await commands.run("sha256sum < /root/big"))[0].split(" ")[0];
    same(digest, createHash("sha256").update(data).digest("hex"), "checksum inside");
    check(data.equals(await files.readBytes("/root/big")), "what came back differs");
  });

const oddNames = () =>
  withSandbox({}, async ({ files, commands }) => {
    const names = ODD_NAMES.map((name) => `/root/odd/${name}`);
    await files.writeFiles(names.map((name) => ({ path: name, data: `in ${name}` })));
    for (const name of names) same(await files.readFile(name), `in ${name}`, `content of ${JSON.stringify(name)}`);
    same(Object.keys(await files.getFileInfo(names)).sort(), [...names].sort(), "info");
    const found = await files.search({ path: "/root/odd", pattern: "*" });
    same(found.map((each) => each.path).sort(), [...names].sort(), "search");
    await files.moveFiles(names.map((name) => ({ src: name, dest: `${name} moved` })));
    same(await files.readFile(`${names[0]} moved`), `in ${names[0]}`, "moved");
    await files.deleteFiles(names.map((name) => `${name} moved`));
    same(stdout(await commands.run("ls -A /root/odd")), [], "after delete");
  });

const metrics = () =>
  withSandbox({ resource: { cpu: "1", memory: "512Mi" } }, async (made) => {
    const seen = await made.getMetrics();
    check(seen.cpuCount > 0, `cpu count ${seen.cpuCount}`);
    same(Math.round(seen.memoryTotalMiB), 512, "total memory");
    check(seen.memoryUsedMiB > 0 && seen.memoryUsedMiB < 512, `used memory ${seen.memoryUsedMiB}`);
    check(Math.abs(seen.timestamp - Date.now()) < 300000, `timestamp ${seen.timestamp}`);
  });

const endpoints = (proxied) => () =>
  withSandbox({ connection: { useServerProxy: proxied }, env: { GREETING: "hello" } }, async (made) => {
    await made.commands.run(LISTENER);
    const { endpoint, headers } = await made.getEndpoint(LISTENER_PORT);
    same(endpoint.startsWith(DOMAIN), proxied, `way of ${endpoint}`);
    const response = await fetch(`http://${endpoint}/a/b?c=d%20e`, { headers });
    same([response.status, await response.text()], [200, "hello /a/b?c=d%20e\n"], "answer of the port");
    same(stdout(await made.commands.run("echo $GREETING")), ["hello"], "command");
  });

const pauseAndResume = () =>
  withSandbox({}, async (made) => {
    const session = await made.commands.createSession();
    await made.commands.runInSession(session, "export KEPT=yes");
    await made.pause();
    same((await made.getInfo()).status.state, "Paused", "state");
    await refused(() => made.pause(), 409, "a second pause");
    const resumed = await made.resume(); // shares the connections of `made`
    same((await resumed.getInfo()).status.state, "Running", "state");
    same(stdout(await resumed.commands.runInSession(session, "echo $KEPT")), ["yes"], "session of before");
    await withManager((manager) => refused(() => manager.resumeSandbox(made.id), 409, "a second resume"));
  });

const renew = () =>
  withSandbox({ timeoutSeconds: 600 }, async (made) => {
    const left = async () => ((await made.getInfo()).expiresAt - Date.now()) / 1000;
    for (const wanted of [1800, 120]) {
      await made.renew(wanted);
      const seen = await left();
      check(seen > wanted - 60 && seen <= wanted, `${seen} s left instead of ${wanted}`);
    }
    await withManager((manager) => manager.renewSandbox(made.id, 1200));
    check((await left()) > 1080, "the manager's renewal");
  });

const metadata = () =>
  withSandbox({ metadata: { from: "suite", keep: "1" } }, (made) =>
    withManager(async (manager) => {
      const ids = async (wanted) => (await manager.listSandboxInfos({ metadata: wanted })).items.map((each) => each.id);
      same((await made.getInfo()).metadata, { from: "suite", keep: "1" }, "metadata");
      same(await ids({ from: "suite" }), [made.id], "list");
      if (!made.patchMetadata) return "set at creation and filtered by; no call that changes it";
      same((await made.patchMetadata({ from: null, now: "patched" })).metadata, { keep: "1", now: "patched" }, "patched");
      same([await ids({ now: "patched" }), await ids({ from: "suite" })], [[made.id], []], "list");
      await refused(() => made.patchMetadata({ "-wrong": "x" }), 400, "a wrong key");
    }),
  );

const snapshots = () =>
  withManager(async (manager) => {
    if (!manager.createSnapshot) throw new NotOffered("no calls for snapshots");
    await withSandbox({}, async (made) => {
      await made.commands.run("echo kept > /root/note");
      const snapshot = await manager.createSnapshot(made.id, { name: "from-suite" });
      try {
        same([snapshot.sandboxId, snapshot.name], [made.id, "from-suite"], "snapshot");
        let state;
        while ((state = (await manager.getSnapshot(snapshot.id)).status.state) === "Creating");
        same(state, "Ready", "state");
        const listed = await manager.listSnapshots({ sandboxId: made.id });
        same(listed.items.map((each) => each.id), [snapshot.id], "list");
        await made.commands.run("echo changed > /root/note; echo new > /root/later");
        await withSandbox({ snapshotId: snapshot.id }, async (restored) =>
          same(stdout(await restored.commands.run("cat /root/note; ls /root/later 2>/dev/null")), ["kept"], "files"));
      } finally {
        await manager.deleteSnapshot(snapshot.id);
      }
      await refused(() => manager.getSnapshot(snapshot.id), 404, "a deleted snapshot");
    });
  });

const errors = async () => {
  const lost = [];
  const coded = (error, what) => error.error?.code?.includes("::") || lost.push(what);
  await withManager((stranger) => refused(() => stranger.listSandboxInfos(), 401, "a wrong key"), { apiKey: "guess" });
  await withManager(async (manager) => {
    const error = await refused(() => manager.getSandboxInfo(UNKNOWN_ID), 404, "an unknown sandbox");
    coded(error, "an unknown sandbox");
    check(error.message.includes(UNKNOWN_ID), `the message does not name it: ${error.message}`);
  });
  coded(await refused(() => create({ resource: { memory: "lots" } }), 400, "bad resources"), "bad resources");
  await refused(() => create({ timeoutSeconds: 5 }), 422, "a timeout below a minute");
  await withSandbox({}, (made) => refused(() => made.files.readBytes("/root/none"), 404, "a missing file"));
  return lost.length ? `this version drops the code of ${lost.join(" and ")}` : "";
};

const networkPolicy = async () => {
  if (!Sandbox.prototype.getEgressPolicy) throw new NotOffered("no calls for the rules of a sandbox");
  const policy = { defaultAction: "deny", egress: [{ action: "allow", target: ALLOWED }] };
  let remark = "";
  await withSandbox({ networkPolicy: policy }, async (made) => {
    const reached = async () => {
      const said = [];
      for (const name of [ALLOWED, OTHER]) said.push(stdout(await made.commands.run(REACH + name)));
      return said;
    };
    const rules = async () => (await made.getEgressPolicy()).egress.map((rule) => [rule.action, rule.target]);
    same(await rules(), [["allow", ALLOWED]], "rules");
    same(await reached(), [["yes"], ["no"]], "the policy");
    await made.patchEgressRules([{ action: "allow", target: OTHER }, { action: "deny", target: ALLOWED }]);
    same(await rules(), [["allow", OTHER], ["deny", ALLOWED]], "patched rules");
    same(await reached(), [["no"], ["yes"]], "the patched policy");
    if (!made.deleteEgressRules) {
      remark = "no call that removes rules";
      return;
    }
    await made.deleteEgressRules([OTHER]);
    same(await reached(), [["no"], ["no"]], "after a rule was removed");
  });
  return remark;
};

const credentialVault = async () => {
  const networkPolicy = { defaultAction: "deny", egress: [{ action: "allow", target: ALLOWED }] };
  await withSandbox({ networkPolicy, credentialProxy: { enabled: true } }, async (made) => {
    const vault = made.credentialVault;
    if (!vault) throw new NotOffered("no credential vault");
    const sent = async () => stdout(await made.commands.run(AUTHORIZATION + ALLOWED));
    const credential = (value) => ({ name: "key", source: { value } });
    const binding = {
      name: "api", match: { hosts: [ALLOWED], schemes: ["http"] }, auth: { type: "bearer", credential: "key" } };
    same(await sent(), ["none"], "without a vault");
    same((await vault.create({ credentials: [credential("first")], bindings: [binding] })).revision, 1, "revision");
    same(await sent(), ["Bearer first"], "the header");
    await refused(() => vault.create({ credentials: [], bindings: [] }), 409, "a second vault");
    const changed = await vault.patch({ expectedRevision: 1, credentials: { replace: [credential("second")] } });
    same(changed.revision, 2, "revision");
    same(await sent(), ["Bearer second"], "the header of the new value");
    await refused(() => vault.patch({ expectedRevision: 1 }), 409, "an old revision");
    const state = await vault.get();
    same(state.credentials.map((each) => [each.name, each.sourceType]), [["key", "inline"]], "credentials");
    same(state.bindings.map((each) => [each.name, each.auth.type]), [["api", "bearer"]], "bindings");
    check(!JSON.stringify(state).includes("second"), "the state has the value");
    same((await vault.getCredential("key")).revision, 2, "one credential");
    same((await vault.getBinding("api")).match.hosts, [ALLOWED], "one binding");
    same([(await vault.listCredentials()).length, (await vault.listBindings()).length], [1, 1], "lists");
    await vault.delete();
    await refused(() => vault.get(), 404, "a vault that was deleted");
    same(await sent(), ["none"], "after the vault was deleted");
  });
};

const parallel = async () => {
  const tried = await Promise.allSettled(Array.from({ length: PARALLEL }, (_, n) => create({ env: { N: String(n) } })));
  const made = tried.filter((each) => each.value).map((each) => each.value);
  try {
    const failed = tried.filter((each) => each.reason);
    check(!failed.length, `${failed.length} of ${PARALLEL} creates failed: ${failed[0]?.reason}`);
    const said = await Promise.all(made.map((each) => each.commands.run("echo $N")));
    same(said.map((each) => stdout(each)), made.map((_, n) => [String(n)]), "answers");
  } finally {
    await Promise.all(made.map(async (each) => {
      await each.kill();
      await each.close();
    }));
  }
};

await main({
  "lifecycle": lifecycle,
  "commands: foreground": foreground,
  "commands: background": background,
  "commands: interrupt": interrupt,
  "commands: 100,000 lines": manyLines,
  "sessions": sessions,
  "files: every operation": files,
  "files: big": bigFiles,
  "files: odd names": oddNames,
  "metrics": metrics,
  "endpoints: direct": endpoints(false),
  "endpoints: through the proxy": endpoints(true),
  "pause and resume": pauseAndResume,
  "renew": renew,
  "metadata": metadata,
  "snapshots": snapshots,
  "errors": errors,
  "network policy": networkPolicy,
  "credential vault": credentialVault,
  "50 in parallel": parallel,
});
