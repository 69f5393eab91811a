import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { connect, lines, rpcError, types } from "./mcp.mjs";

let mcp, id;
const inside = (fields) => ({ sandbox_id: id, ...fields });

before(async () => {
  mcp = await connect();
  id = (await mcp.call("sandbox_create", { image: "host" })).sandbox_id;
});
after(() => mcp.close());

test("the server introduces itself", async () => {
  const { client } = mcp;
  assert.equal(client.getServerVersion().name, "OpenSandbox Sandbox");
  assert.match(client.getInstructions(), /sandbox_id/);
  assert.ok(client.getServerCapabilities().tools && client.getServerCapabilities().resources && client.getServerCapabilities().logging);
  await client.ping();
});

test("tools have titles, hints and schemas", async () => {
  const { tools } = await mcp.client.listTools();
  assert.ok(tools.length > 35);
  for (const tool of tools) {
    assert.ok(tool.title && tool.description, tool.name);
    assert.equal(tool.inputSchema.additionalProperties, false, tool.name);
    assert.equal(tool.outputSchema, undefined, tool.name); // results are text
    assert.ok(!JSON.stringify(tool.inputSchema).includes("anyOf"), tool.name);
  }
  // Hints that differ from what clients assume without them.
  const hints = Object.fromEntries(tools.map((tool) => [tool.name, tool.annotations]));
  assert.deepEqual(hints.file_read, { readOnlyHint: true });
  assert.deepEqual(hints.sandbox_kill, { idempotentHint: true });
  assert.deepEqual(hints.sandbox_create, { destructiveHint: false });
  assert.equal(hints.command_run, undefined);
});

test("unknown tools and methods, and cursors that are none, are protocol errors", async () => {
  await assert.rejects(mcp.client.callTool({ name: "sandbox_destroy", arguments: {} }), rpcError(-32602));
  await assert.rejects(mcp.client.listTools({ cursor: "nonsense" }), rpcError(-32602));
  await assert.rejects(mcp.client.listPrompts(), /.*/);
  await assert.rejects(mcp.client.request({ method: "sampling/none" }, types.EmptyResultSchema), rpcError(-32601));
});

test("creating reports its steps", async () => {
  // The client drops notifications that arrive together with the answer. On a slow machine all of them may, so it creates
  // again then; raw tests look at the whole sequence.
  let seen = [];
  for (let attempt = 0; attempt < 20 && seen.length < 2; ++attempt) {
    seen = [];
    const onprogress = ({ progress, total, message }) => seen.push([progress, total, message]);
    const { sandbox_id } = await mcp.call("sandbox_create", { image: "host" }, { onprogress });
    assert.deepEqual(seen.map(([progress]) => progress), [0.1, 0.3, 0.8, 1].slice(0, seen.length));
    await mcp.call("sandbox_kill", { sandbox_id });
  }
  assert.ok(seen.length >= 2, JSON.stringify(seen));
});

test("output is reported while the command runs, and other calls are served meanwhile", async () => {
  // The command goes on only when its first line has been heard outside.
  await mcp.call("command_run", inside({ command: "mkfifo /root/heard" }));
  let text = "", last = 0, answered;
  const execution = await mcp.call("command_run", inside({ command: "echo first; read -r _ < /root/heard; echo second" }), {
    onprogress: ({ progress, message }) => {
      assert.ok(progress > last, "progress only grows");
      last = progress;
      text += message;
      if (text === "first\n") {
        answered = mcp.client.ping().then(() => mcp.call("command_run", inside({ command: "echo > /root/heard" })));
      }
    },
  });
  await answered;
  assert.deepEqual(lines(execution), ["first", "second"]);
  assert.ok(["first\n", "first\nsecond\n"].includes(text), text); // the second may arrive together with the answer
});

test("a cancelled call interrupts its command", async () => {
  const stop = new AbortController();
  let pid;
  const heard = (progress) => {
    pid ??= Number(progress.message);
    stop.abort("enough");
  };
  await assert.rejects(
    mcp.call("command_run", inside({ command: "echo $$; exec sleep 600" }), { signal: stop.signal, onprogress: heard }),
  );
  assert.ok(pid > 0);
  // Ends when the process does; it is no child of this shell.
  const gone = await mcp.call("command_run", inside({ command: `tail --pid=${pid} -f /dev/null`, timeout_seconds: 30 }));
  assert.equal(gone.exit_code, 0);
  await mcp.client.ping();
});

test("a cancelled call in a session ends its command and leaves the session", async () => {
  const { session_id } = await mcp.call("session_create", inside());
  await mcp.call("session_run", inside({ session_id, command: "export KEPT=yes" }));
  const stop = new AbortController();
  const run = mcp.call("session_run", inside({ session_id, command: "echo begun; sleep 600" }), {
    signal: stop.signal, onprogress: () => stop.abort("enough"),
  });
  await assert.rejects(run);
  // Runs of a session come one after the other: this one only begins when the other has ended.
  assert.deepEqual(lines(await mcp.call("session_run", inside({ session_id, command: "echo $KEPT" }))), ["yes"]);
});

test("a cancelled create leaves nothing", async () => {
  const stop = new AbortController();
  const create = mcp.call("sandbox_create", { image: "host", metadata: { from: "cancelled" } }, {
    signal: stop.signal, onprogress: () => stop.abort("enough"),
  });
  await assert.rejects(create);
  //  The harness asks the server: it fails the test if a sandbox is left at its end.
  await mcp.client.ping();
});

test("many calls at once", async () => {
  const runs = Array.from({ length: 20 }, (_, n) => mcp.call("command_run", inside({ command: `echo ${n}` })));
  assert.deepEqual((await Promise.all(runs)).map(lines), runs.map((_, n) => [String(n)]));
});

test("files are resources", async () => {
  const { client } = mcp;
  const changed = new Promise((resolve) =>
    client.setNotificationHandler(types.ResourceListChangedNotificationSchema, resolve));
  await mcp.call("file_write", inside({ path: "/root/ü file.json", content: '{"a": 1}' }));
  await changed;
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.deepEqual(resourceTemplates.map((each) => each.uriTemplate), ["sandbox://{id}/{+path}"]);
  const mine = (await client.listResources()).resources.find((each) => each.name === "/root/ü file.json");
  assert.equal(mine.mimeType, "application/json");
  const text = (await client.readResource({ uri: mine.uri })).contents;
  assert.deepEqual(text, [{ uri: mine.uri, mimeType: "application/json", text: '{"a": 1}' }]);

  const bytes = Buffer.from([0xff, 0x00, 0xfe]);
  await mcp.call("file_write", inside({ path: "/root/blob", content: bytes.toString("base64"), encoding: "base64" }));
  const [blob] = (await client.readResource({ uri: `sandbox://${id}/root/blob` })).contents;
  assert.equal(blob.mimeType, "application/octet-stream");
  assert.deepEqual(Buffer.from(blob.blob, "base64"), bytes);
  const [directory] = (await client.readResource({ uri: `sandbox://${id}/root/` })).contents;
  const entries = JSON.parse(directory.text);
  assert.ok(entries.some((each) => each.uri === `sandbox://${id}/root/blob` && each.size === 3), directory.text);

  await mcp.call("file_delete", inside({ paths: ["/root/blob"] }));
  assert.ok(!(await client.listResources()).resources.some((each) => each.name === "/root/blob"));
  await assert.rejects(client.readResource({ uri: `sandbox://${id}/root/blob` }), rpcError(-32002));
  await assert.rejects(client.readResource({ uri: "file:///etc/passwd" }), rpcError(-32002));
  await assert.rejects(client.readResource({ uri: `sandbox://${id}/dev/zero` }), rpcError(-32602));
  await mcp.call("command_run", inside({ command: "truncate -s 5M /root/large" }));
  await assert.rejects(client.readResource({ uri: `sandbox://${id}/root/large` }), rpcError(-32602));
});

test("lists are paged", async () => {
  const names = Array.from({ length: 120 }, (_, n) => `/root/many/${n}`);
  await Promise.all(names.slice(0, 60).map((path) => mcp.call("file_write", inside({ path, content: "" }))));
  await Promise.all(names.slice(60).map((path) => mcp.call("file_write", inside({ path, content: "" }))));
  const all = [];
  let cursor, pages = 0;
  do {
    const page = await mcp.client.listResources(cursor === undefined ? undefined : { cursor });
    assert.ok(page.resources.length <= 100);
    all.push(...page.resources.map((each) => each.name));
    cursor = page.nextCursor;
    ++pages;
  } while (cursor !== undefined);
  assert.equal(pages, 2);
  assert.equal(new Set(all).size, all.length);
  assert.ok(names.every((name) => all.includes(name)));
});

test("log messages come from the level that was asked for", async () => {
  const { client } = mcp;
  const heard = [];
  let enough;
  const came = new Promise((resolve) => (enough = resolve));
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
    heard.push(params);
    enough();
  });
  await mcp.call("command_run", inside({ command: "true" })); // not told
  await client.setLoggingLevel("debug");
  await mcp.call("sandbox_healthcheck", inside());
  await came;
  assert.deepEqual(heard.map(({ level, data }) => [level, data.tool]), [["debug", "sandbox_healthcheck"]]);
  await assert.rejects(client.setLoggingLevel("loud"));
});
