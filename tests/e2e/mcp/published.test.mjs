// --published-results: the shapes of the published server, for programs that parse them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

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

test("sandboxes are listed, filtered and paged", async () => {
  const ids = async (filter) => (await mcp.call("sandbox_list", { filter })).sandbox_infos.map((each) => each.id);
  assert.deepEqual(await ids({ metadata: { from: "mcp" } }), [id]);
  assert.deepEqual(await ids({ metadata: { from: "elsewhere" } }), []);
  assert.deepEqual(await ids({ states: ["Paused"] }), []);
  assert.deepEqual(await ids('{"states": ["Running"]}'), [id]); // JSON in a string is taken for what it holds
  const { pagination } = await mcp.call("sandbox_list", { filter: { page: 1, page_size: 1 } });
  assert.deepEqual(pagination, { page: 1, page_size: 1, total_items: 1, total_pages: 1, has_next_page: false });
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
  const { id: second } = await mcp.call("command_run", inside({ command: "sleep 600", background: true }));
  assert.deepEqual(await mcp.call("command_interrupt", inside({ execution_id: second })), { status: "interrupted" });
  let status;
  while ((status = await mcp.call("command_status", inside({ execution_id: second }))).running);
  assert.notEqual(status.exit_code, 0);
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

test("snapshots", async () => {
  await mcp.call("file_write", inside({ path: "/root/note", content: "kept" }));
  const snapshot = await mcp.call("snapshot_create", inside({ name: "from-mcp" }));
  assert.equal(snapshot.status.state, "Ready");
  const listed = await mcp.call("snapshot_list", {});
  assert.deepEqual(listed.result.map((each) => each.id), [snapshot.id]);
  const restored = await mcp.call("snapshot_restore", { snapshot_id: snapshot.id });
  assert.equal(restored.info.snapshot_id, snapshot.id);
  const note = await mcp.call("file_read", { sandbox_id: restored.sandbox_id, path: "/root/note" });
  assert.equal(note.content, "kept");
  assert.deepEqual(await mcp.call("sandbox_kill", { sandbox_id: restored.sandbox_id }), { status: "killed" });
  assert.equal((await mcp.call("snapshot_get", { snapshot_id: snapshot.id })).name, "from-mcp");
  assert.deepEqual(await mcp.call("snapshot_delete", { snapshot_id: snapshot.id }), { status: "deleted" });
  await mcp.fails("snapshot_get", { snapshot_id: snapshot.id });
});

test("a feature that the sandbox lacks has an answer of its own form", async () => {
  for (const [name, fields] of [
    ["egress_get_policy", {}],
    ["egress_patch_rules", { rules: [{ action: "allow", target: "example.com" }] }],
    ["egress_delete_rules", { targets: ["example.com"] }],
  ]) {
    const { code, structured } = await mcp.fails(name, inside(fields));
    assert.equal(code, "NOT_AVAILABLE", name);
    assert.deepEqual([structured.available, structured.code], [false, "NOT_AVAILABLE"]);
  }
});

test("files and directories: search, list, info, move, replace, permissions, delete", async () => {
  assert.deepEqual(await mcp.call("file_create_directories", inside({ entries: [{ path: "/root/d/e", mode: 700 }] })), { status: "created" });
  for (const name of ["a.py", "b.py", "c.txt"]) await mcp.call("file_write", inside({ path: `/root/d/${name}`, content: "old old" }));
  const found = await mcp.call("file_search", inside({ path: "/root/d", pattern: "*.py" }));
  assert.deepEqual(found.result.map((each) => each.path).sort(), ["/root/d/a.py", "/root/d/b.py"]);
  assert.equal(found.result[0].size, 7);
  const first = await mcp.call("file_search", inside({ path: "/root/d", pattern: "*.py", limit: 1 }));
  const second = await mcp.call("file_search", inside({ path: "/root/d", pattern: "*.py", limit: 1, cursor: first.next_cursor }));
  assert.deepEqual([first.total, second.next_cursor], [2, null]);
  assert.deepEqual([...first.result, ...second.result], found.result);
  assert.deepEqual((await mcp.call("file_search", inside({ path: "/root/d", pattern: "none" }))).result, []);
  const listed = await mcp.call("file_list_directory", inside({ path: "/root/d" }));
  assert.deepEqual(listed.result.map((each) => each.path).sort(), ["/root/d/a.py", "/root/d/b.py", "/root/d/c.txt", "/root/d/e"]);
  const info = await mcp.call("file_get_info", inside({ paths: ["/root/d/e"] }));
  assert.deepEqual([info.result[0].type, info.result[0].mode], ["directory", 700]);
  assert.deepEqual(
    await mcp.call("file_replace_contents", inside({ entries: [{ path: "/root/d/a.py", old_content: "old", new_content: "new" }] })),
    { result: [{ path: "/root/d/a.py", replaced_count: 2 }] },
  );
  assert.deepEqual(await mcp.call("file_move", inside({ entries: [{ source: "/root/d/a.py", destination: "/root/d/e/z.py" }] })), { status: "moved" });
  assert.equal((await mcp.call("file_read", inside({ path: "/root/d/e/z.py" }))).content, "new new");
  await mcp.call("file_set_permissions", inside({ entries: [{ path: "/root/d/e/z.py", mode: 400 }] }));
  assert.deepEqual(lines(await mcp.call("command_run", inside({ command: "stat -c %a /root/d/e/z.py" }))), ["400"]);
  assert.deepEqual(await mcp.call("file_delete", inside({ paths: ["/root/d/b.py"] })), { status: "deleted" });
  assert.deepEqual(await mcp.call("file_delete_directories", inside({ paths: ["/root/d"] })), { status: "deleted" });
  await mcp.fails("file_get_info", inside({ paths: ["/root/d"] }));
});

test("images are listed", async () => {
  const { result, total, next_cursor } = await mcp.call("image_list");
  assert.deepEqual([result.map(({ image }) => image).includes("host"), result.length, next_cursor], [true, total, null]);
});
