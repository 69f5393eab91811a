// --published-results: the shapes of the published server, for programs that parse them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { testBothShapes } from "./both_shapes.mjs";
import { connect } from "./mcp.mjs";

let mcp, id;
const inside = (fields) => ({ sandbox_id: id, ...fields });
const lines = (execution) => execution.logs.stdout.map((line) => line.text);

before(async () => {
  const { callPublished, ...rest } = await connect();
  mcp = { ...rest, call: callPublished };
  id = (await mcp.call("sandbox_create", { image: "host", env: { GREETING: "hello" }, metadata: { from: "mcp" } })).sandbox_id;
});
after(() => mcp.close());

testBothShapes(() => ({ mcp, inside, lines, items: (reply) => reply.result }));

test("tools declare the schemas of their results, and all hints", async () => {
  const { tools } = await mcp.client.listTools();
  for (const tool of tools) {
    assert.equal(tool.outputSchema.type, "object", tool.name);
    const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = tool.annotations;
    assert.equal(openWorldHint, true);
    for (const hint of [readOnlyHint, destructiveHint, idempotentHint]) assert.equal(typeof hint, "boolean", tool.name);
  }
});

test("a created sandbox fits its request", async () => {
  const info = await mcp.call("sandbox_get_info", inside());
  assert.equal(info.id, id);
  assert.equal(info.status.state, "Running");
  assert.deepEqual(info.metadata, { from: "mcp" });
  assert.deepEqual(info.image, { image: "host", auth: null });
});

test("a command's output, environment, directory and exit code", async () => {
  const execution = await mcp.call("command_run", inside({
    command: "echo $GREETING $MORE; echo oops >&2; pwd; exit 3", env: { MORE: "world" }, working_directory: "/usr",
  }));
  assert.deepEqual(lines(execution), ["hello world", "/usr"]);
  assert.deepEqual(execution.logs.stderr.map((line) => [line.text, line.is_error]), [["oops", true]]);
  assert.equal(execution.exit_code, 3);
  assert.equal(execution.error.value, "3");
  assert.equal(execution.complete, null);
  assert.equal(execution.truncated, false);
  const well = await mcp.call("command_run", inside({ command: "true" }));
  assert.equal(well.exit_code, 0);
  assert.ok(well.complete.execution_time_in_millis >= 0);
});

test("long output comes in pages", async () => {
  let page = await mcp.call("command_run", inside({ command: "seq 5000", max_output_bytes: 4000 }));
  assert.equal(page.exit_code, 0);
  assert.equal(page.truncated, true);
  const all = [...lines(page)];
  let pages = 1;
  const args = { execution_id: page.id, max_output_bytes: 8000 };
  while (page.next_cursor !== null) {
    page = await mcp.call("command_output", inside({ ...args, cursor: page.next_cursor }));
    assert.equal(page.skipped_events, 0);
    all.push(...lines(page));
    ++pages;
  }
  assert.deepEqual(all, Array.from({ length: 5000 }, (_, i) => String(i + 1)));
  assert.equal(pages, 4);
  assert.equal((await mcp.fails("command_output", inside({ execution_id: page.id, cursor: "x" }))).code, "INVALID_ARGUMENT");
});

test("background commands: status, logs by cursor, interruption", async () => {
  await mcp.call("command_run", inside({ command: "mkfifo /root/go" }));
  const { id: first } = await mcp.call("command_run", inside({
    command: "echo first; read -r _ < /root/go; echo second; exit 5", background: true,
  }));
  const started = await mcp.call("command_status", inside({ execution_id: first }));
  assert.equal(started.running, true);
  assert.equal(started.exit_code, null);
  let seen = "", cursor = null, logs;
  const follow = async (until) => {
    do {
      logs = await mcp.call("command_logs", inside({ execution_id: first, cursor, max_output_bytes: 4 }));
      seen += logs.content;
      cursor = logs.cursor;
    } while (!until());
  };
  await follow(() => seen.endsWith("first\n"));
  await mcp.call("command_run", inside({ command: "echo > /root/go" }));
  await follow(() => !logs.running && !logs.truncated);
  assert.equal(seen, "first\nsecond\n");
  assert.equal(logs.exit_code, 5);
});

test("sessions remember", async () => {
  const { session_id } = await mcp.call("session_create", inside({ working_directory: "/usr" }));
  const run = (command) => mcp.call("session_run", inside({ session_id, command }));
  await run("export MINE=1; cd lib");
  assert.deepEqual(lines(await run('echo "$MINE"; pwd')), ["1", "/usr/lib"]);
  let page = await mcp.call("session_run", inside({ session_id, command: "seq 5000", max_output_bytes: 4000 }));
  assert.equal(page.truncated, true);
  const all = [...lines(page)];
  const first = page.next_cursor;
  assert.deepEqual(lines(await run("echo between")), ["between"]);
  while (page.next_cursor !== null) {
    page = await mcp.call("session_output", inside({ session_id, cursor: page.next_cursor, max_output_bytes: 8000 }));
    assert.equal(page.skipped_events, 0);
    all.push(...lines(page));
  }
  assert.deepEqual(all, Array.from({ length: 5000 }, (_, i) => String(i + 1)));
  assert.equal((await mcp.fails("session_output", inside({ session_id, cursor: "x" }))).code, "INVALID_ARGUMENT");
  await mcp.call("session_run", inside({ session_id, command: "seq 5000", max_output_bytes: 4000 }));
  assert.equal((await mcp.fails("session_output", inside({ session_id, cursor: first }))).code, "OUTPUT_GONE");
  assert.equal((await run("exit 4")).exit_code, 4);
  assert.deepEqual(await mcp.call("session_delete", inside({ session_id })), { status: "deleted" });
  await mcp.fails("session_run", inside({ session_id, command: "true" }));
});

test("a feature that the sandbox lacks has an answer of its own form", async () => {
  for (const [name, fields] of [
    ["egress_get_policy", {}],
    ["egress_patch_rules", { rules: [{ action: "allow", target: "example.com" }] }],
    ["egress_delete_rules", { targets: ["example.com"] }],
    ["credential_list", {}],
    ["credential_audit", {}],
  ]) {
    const { code, structured } = await mcp.fails(name, inside(fields));
    assert.equal(code, "NOT_AVAILABLE", name);
    assert.deepEqual([structured.available, structured.code], [false, "NOT_AVAILABLE"]);
  }
});

test("images are listed", async () => {
  const { result, total, next_cursor } = await mcp.call("image_list");
  assert.deepEqual([result.map(({ image }) => image).includes("host"), result.length, next_cursor], [true, total, null]);
});
