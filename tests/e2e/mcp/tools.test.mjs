import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { connect, lines } from "./mcp.mjs";

let mcp, id;
const inside = (fields) => ({ sandbox_id: id, ...fields });

before(async () => {
  mcp = await connect();
  id = (await mcp.call("sandbox_create", { image: "host", env: { GREETING: "hello" }, metadata: { from: "mcp" } })).sandbox_id;
});
after(() => mcp.close());

test("a created sandbox is what was asked for", async () => {
  const info = await mcp.call("sandbox_get_info", inside());
  assert.equal(info.id, id);
  assert.equal(info.status.state, "Running");
  assert.deepEqual(info.metadata, { from: "mcp" });
  assert.deepEqual(info.image, { image: "host", auth: null });
  const left = (new Date(info.expires_at) - Date.now()) / 1000;
  assert.ok(left > 500 && left <= 600, `${left} s left`);
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

test("renewal, metadata, metrics, health and endpoints", async () => {
  const { expires_at } = await mcp.call("sandbox_renew", inside({ timeout_seconds: 3600 }));
  assert.ok(new Date(expires_at) - Date.now() > 3_500_000, expires_at);
  const patched = await mcp.call("sandbox_patch_metadata", inside({ metadata: { now: "patched" } }));
  assert.deepEqual(patched.metadata, { from: "mcp", now: "patched" });
  assert.deepEqual((await mcp.call("sandbox_patch_metadata", inside({ metadata: { now: null } }))).metadata, { from: "mcp" });
  const metrics = await mcp.call("sandbox_get_metrics", inside());
  assert.ok(metrics.cpu_count > 0 && metrics.memory_used_in_mib > 0 && metrics.timestamp > 1.7e12, JSON.stringify(metrics));
  assert.deepEqual(await mcp.call("sandbox_healthcheck", inside()), { sandbox_id: id, healthy: true });
  const { endpoint } = await mcp.call("sandbox_get_endpoint", inside({ port: 8080 }));
  assert.match(endpoint, /[:/]8080$/);
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

test("a command is killed after its time", async () => {
  const execution = await mcp.call("command_run", inside({ command: "sleep 600", timeout_seconds: 0.3 }));
  assert.notEqual(execution.exit_code, 0);
  assert.equal(execution.complete, null);
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

test("files: write, read, parts, encodings", async () => {
  const path = "/root/text.txt";
  const content = "one\nzwei ü\n三\nfour\n";
  assert.deepEqual(await mcp.call("file_write", inside({ path, content, mode: 640 })), { status: "written" });
  const whole = await mcp.call("file_read", inside({ path }));
  assert.deepEqual(whole, { path, content, truncated: false, next_range: null });
  assert.deepEqual(lines(await mcp.call("command_run", inside({ command: `stat -c %a ${path}` }))), ["640"]);
  const read = async (fields) => (await mcp.call("file_read", inside({ path, ...fields }))).content;
  assert.equal(await read({ range_header: "bytes=0-2" }), "one");
  assert.equal(await read({ range_header: "bytes=-5" }), "four\n");
  assert.equal(await read({ first_line: 2, line_count: 2 }), "zwei ü\n三");
  assert.equal(await read({ encoding: "latin-1", range_header: "bytes=0-3" }), "one\n");
  // Pages end between characters, so that they can be put together.
  let page, together = "", range_header = null;
  do {
    page = await mcp.call("file_read", inside({ path, range_header, max_bytes: 5 }));
    together += page.content;
    range_header = page.next_range;
  } while (page.truncated);
  assert.equal(together, content);

  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const binary = { path: "/root/binary", encoding: "base64" };
  await mcp.call("file_write", inside({ ...binary, content: bytes.toString("base64") }));
  assert.deepEqual(Buffer.from((await mcp.call("file_read", inside(binary))).content, "base64"), bytes);
  assert.equal((await mcp.fails("file_read", inside({ path: "/root/binary" }))).code, "NOT_TEXT");
  assert.equal((await mcp.call("file_read", inside({ path: "/root/binary", encoding: "latin-1" }))).content, bytes.toString("latin1"));
  await mcp.call("file_write", inside({ path: "/root/empty", content: "" }));
  assert.equal((await mcp.call("file_read", inside({ path: "/root/empty" }))).content, "");
  assert.match((await mcp.call("file_read", inside({ path: "/proc/self/status" }))).content, /^Name:/);
  await mcp.fails("file_read", inside({ path: "/root/none" }));
  assert.equal((await mcp.fails("file_read", inside({ path, encoding: "ebcdic" }))).code, "INVALID_ARGUMENT");
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

test("pause and resume", async () => {
  assert.deepEqual(await mcp.call("sandbox_pause", inside()), { status: "paused" });
  assert.equal((await mcp.call("sandbox_get_info", inside())).status.state, "Paused");
  assert.deepEqual(await mcp.call("sandbox_resume", inside()), { status: "resumed" });
  assert.equal((await mcp.call("command_run", inside({ command: "true" }))).exit_code, 0);
});

test("what this sandbox does not offer is told in a form of its own", async () => {
  for (const [name, fields] of [
    ["egress_get_policy", {}],
    ["egress_patch_rules", { rules: [{ action: "allow", target: "example.com" }] }],
    ["egress_delete_rules", { targets: ["example.com"] }],
    ["code_run", { code: "1 + 1" }],
    ["code_create_context", {}],
  ]) {
    const { code, structured } = await mcp.fails(name, inside(fields));
    assert.equal(code, "NOT_AVAILABLE", name);
    assert.deepEqual([structured.available, structured.code], [false, "NOT_AVAILABLE"]);
  }
});

test("sandboxes of others: only by id, and only after connecting", async () => {
  const other = await connect();
  try {
    assert.equal((await other.fails("command_run", inside({ command: "true" }))).code, "SANDBOX_NOT_CONNECTED");
    assert.equal((await other.call("sandbox_get_info", inside())).id, id);
    const run = await other.call("command_run", inside({ command: "echo $GREETING", connect_if_missing: true }));
    assert.deepEqual(lines(run), ["hello"]);
    assert.deepEqual(lines(await other.call("command_run", inside({ command: "echo again" }))), ["again"]);
    assert.equal((await other.call("sandbox_connect", inside())).sandbox_id, id);
  } finally {
    await other.close();
  }
  // It was not his: it is still there.
  assert.equal((await mcp.call("sandbox_get_info", inside())).status.state, "Running");
});

test("wrong arguments and failures are results that say what is wrong", async () => {
  for (const [name, args, text] of [
    ["command_run", { sandbox_id: id }, "/command: is missing"],
    ["command_run", inside({ command: 7 }), "/command: expected a string"],
    ["command_run", inside({ command: "true", timeout: 3 }), "/timeout: there is no such argument"],
    ["sandbox_renew", inside({ timeout_seconds: "soon" }), "/timeout_seconds: expected a number"],
    ["sandbox_get_endpoint", inside({ port: 70000 }), "/port: expected at most 65535"],
    ["file_move", inside({ entries: [{ source: "/a" }] }), "/entries/0/destination: is missing"],
    ["sandbox_create", { image: "host", auth_username: "me" }, "must be provided together"],
  ]) {
    const failed = await mcp.fails(name, args);
    assert.equal(failed.code, "INVALID_ARGUMENT", failed.text);
    assert.ok(failed.text.includes(text), failed.text);
  }
  const unknown = { sandbox_id: "00000000-0000-4000-8000-000000000000" };
  assert.match((await mcp.fails("sandbox_get_info", unknown)).code, /NOT_FOUND/);
  assert.match((await mcp.fails("sandbox_kill", unknown)).text, /404/);
  assert.match((await mcp.fails("sandbox_create", { image: "host", resource: { memory: "lots" } })).text, /memory/);
});

test("a killed sandbox is gone", async () => {
  const { sandbox_id } = await mcp.call("sandbox_create", { image: "host", skip_health_check: true, timeout_seconds: 0 });
  assert.equal((await mcp.call("sandbox_get_info", { sandbox_id })).expires_at, null);
  assert.deepEqual(await mcp.call("sandbox_kill", { sandbox_id }), { status: "killed" });
  await mcp.fails("sandbox_get_info", { sandbox_id });
  assert.equal((await mcp.fails("command_run", { sandbox_id, command: "true" })).code, "SANDBOX_NOT_CONNECTED");
});
