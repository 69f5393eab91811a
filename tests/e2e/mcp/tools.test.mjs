import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { longEnough } from "../../support/long_enough.mjs";
import { testBothShapes } from "./both_shapes.mjs";
import { connect, lines } from "./mcp.mjs";

let mcp, id;
const inside = (fields) => ({ sandbox_id: id, ...fields });

before(async () => {
  mcp = await connect();
  id = (await mcp.call("sandbox_create", { image: "host", env: { GREETING: "hello" }, metadata: { from: "mcp" } })).sandbox_id;
});
after(() => mcp.close());

testBothShapes(() => ({ mcp, inside, lines, items: (reply, name) => (name ? reply[name] : reply) }));

test("a created sandbox fits its request", async () => {
  const info = await mcp.call("sandbox_get_info", inside());
  assert.equal(info.id, id);
  assert.deepEqual(info.status, { state: "Running" });
  assert.deepEqual(info.metadata, { from: "mcp" });
  assert.deepEqual(info.image, { image: "host" });
  const left = (new Date(info.expires_at) - Date.now()) / 1000;
  assert.ok(left > 500 && left <= 600, `${left} s left`);
});

test("renewal, metadata, metrics, health and endpoints", async () => {
  const { expires_at } = await mcp.call("sandbox_renew", inside({ timeout_seconds: 3600 }));
  assert.ok(new Date(expires_at) - Date.now() > 3_500_000, expires_at);
  const patched = await mcp.call("sandbox_patch_metadata", inside({ metadata: { now: "patched" } }));
  assert.deepEqual(patched.metadata, { from: "mcp", now: "patched" });
  assert.deepEqual((await mcp.call("sandbox_patch_metadata", inside({ metadata: { now: null } }))).metadata, { from: "mcp" });
  const { content: [{ text: metricsText }] } = await mcp.client.callTool({ name: "sandbox_get_metrics", arguments: inside() });
  assert.doesNotMatch(metricsText, /\dE/); // numbers as people write them
  const metrics = JSON.parse(metricsText);
  assert.ok(metrics.cpu_count > 0 && metrics.memory_used_in_mib > 0 && metrics.timestamp > 1.7e12, JSON.stringify(metrics));
  assert.deepEqual(await mcp.call("sandbox_healthcheck", inside()), { sandbox_id: id, healthy: true });
  const { endpoint } = await mcp.call("sandbox_get_endpoint", inside({ port: 8080 }));
  assert.match(endpoint, /[:/]8080$/);
});

test("a command's output, environment, directory and exit code", async () => {
  const execution = await mcp.call("command_run", inside({
    command: "echo $GREETING $MORE; echo oops >&2; pwd; exit 3", env: { MORE: "world" }, working_directory: "/usr",
  }));
  const { duration_ms, ...rest } = execution;
  assert.deepEqual(rest, { exit_code: 3, stdout: "hello world\n/usr\n", stderr: "oops\n" });
  assert.ok(duration_ms >= 0, JSON.stringify(execution));
  const well = await mcp.call("command_run", inside({ command: "echo; printf 'no end'" }));
  assert.deepEqual([well.exit_code, well.stdout, well.stderr], [0, "\nno end\n", ""]);
  assert.ok(well.duration_ms >= 0);
});

test("a command that runs out of time or memory says so", async () => {
  const command = "echo begun; sleep 600";
  const attempt = (timeout_seconds) => mcp.call("command_run", inside({ command, timeout_seconds }));
  const late = await longEnough(attempt, ({ stdout }) => stdout, 0.3);
  assert.notEqual(late.exit_code, 0);
  assert.deepEqual([late.stdout, late.reason], ["begun\n", "TIMEOUT"]);
  assert.ok(late.reason_message && late.duration_ms >= 300, JSON.stringify(late));
  const { sandbox_id } = await mcp.call("sandbox_create", { image: "host", resource: { cpu: "1", memory: "128Mi" } });
  const greedy = "python3 -c 'b = bytearray(400 * 1024 * 1024); print(len(b))'";
  const large = await mcp.call("command_run", { sandbox_id, command: greedy });
  assert.equal(large.reason, "OUT_OF_MEMORY", JSON.stringify(large));
  assert.match(large.reason_message, /out of memory \(limit 128 MiB\)/);
  const { id: execution_id } = await mcp.call("command_run", { sandbox_id, command: greedy, background: true });
  let output;
  do output = await mcp.call("command_output", { sandbox_id, execution_id }); while (output.running);
  assert.equal(output.reason, "OUT_OF_MEMORY", JSON.stringify(output));
  await mcp.call("sandbox_kill", { sandbox_id });
});

const numbers = (count) => Array.from({ length: count }, (_, i) => `${i + 1}\n`).join("");
// Begin and end of a cut output, and the call that its note names.
const cut = (text) => {
  const [, head, bytes, lines, tool, args, tail] = text.match(/^([^]*)\n\[\.\.\. (\d+) bytes \((\d+) lines\) left out: (\w+)\((.*)\) returns them \.\.\.\]\n([^]*)$/);
  const named = Object.fromEntries(args.split(", ").map((each) => each.split("=")).map(([key, value]) => [key, JSON.parse(value)]));
  return { head, tail, bytes: Number(bytes), lines: Number(lines), tool, args: named };
};
//  Reads the part that the note says was left out, page by page.
const readOn = async ({ tool, args }, fields, wanted) => {
  let text = "", pages = 0, page;
  for (let cursor = args.cursor; cursor !== undefined && text.length < wanted; cursor = page.next_cursor) {
    page = await mcp.call(tool, inside({ ...args, ...fields, cursor }));
    assert.equal(page.lost_events ?? page.lost_bytes ?? page.lost_lines, undefined);
    text += page.stdout;
    ++pages;
  }
  return { text: text.slice(0, wanted), pages };
};

test("long output has a begin, an end and a note that says how to read the rest", async () => {
  const result = await mcp.call("command_run", inside({ command: "seq 5000; echo problem >&2; exit 2", max_output_bytes: 4000 }));
  assert.deepEqual([result.exit_code, result.truncated, result.stderr], [2, true, "problem\n"]);
  const { head, tail, bytes, lines: left, tool, args } = cut(result.stdout);
  const all = numbers(5000);
  assert.ok(all.startsWith(head) && all.endsWith(tail) && head.length > 1500 && tail.length > 1500, result.stdout);
  assert.ok(head.endsWith("\n") && head.length + tail.length <= 4000);
  assert.equal(head.length + bytes + tail.length, all.length);
  assert.equal(left, 5000 - head.split("\n").length - tail.split("\n").length + 2);
  assert.deepEqual([tool, args], ["command_output", { execution_id: result.id, cursor: result.next_cursor }]);
  const rest = await readOn({ tool, args }, { max_output_bytes: 8000 }, bytes);
  assert.equal(head + rest.text + tail, all);
  assert.equal(rest.pages, 3);
  // The whole again, by its id alone; its end by any cursor behind it.
  const again = await mcp.call("command_output", inside({ execution_id: result.id, max_output_bytes: 4000 }));
  assert.deepEqual([again.exit_code, again.stdout], [2, result.stdout]);
  assert.equal((await mcp.fails("command_output", inside({ execution_id: result.id, cursor: "x" }))).code, "INVALID_ARGUMENT");
});

test("a line that is longer than a reply is cut, and read on inside the line", async () => {
  const command = `python3 -c 'print("begin" + "\\u00fc" * 100000 + "end")'`;
  const result = await mcp.call("command_run", inside({ command, env: { PYTHONIOENCODING: "utf-8" }, max_output_bytes: 10000 }));
  assert.ok(result.stdout.startsWith("beginü") && result.stdout.endsWith("üend\n"), result.stdout.slice(0, 100));
  const [, head, bytes, tail] = result.stdout.match(/^([^]*)\n\[\.\.\. (\d+) bytes .*\.\.\.\]\n([^]*)$/);
  let middle = "", cursor = result.next_cursor;
  while (Buffer.byteLength(middle) < Number(bytes)) {
    const page = await mcp.call("command_output", inside({ execution_id: result.id, cursor }));
    middle += page.stdout;
    cursor = page.next_cursor;
  }
  assert.equal(head + Buffer.from(middle).subarray(0, Number(bytes)).toString() + tail, `begin${"ü".repeat(100000)}end\n`);
});

test("bytes that are no text do no harm", async () => {
  const bytes = "python3 -c 'import os; os.write(1, bytes(range(256)) * 2000)'";
  const result = await mcp.call("command_run", inside({ command: bytes }));
  assert.equal(result.truncated, true);
  assert.ok(result.stdout.includes("\u0000\u0001") && result.stdout.includes("\ufffd"));
});

test("background commands: output so far, what is new, status, interruption", async () => {
  await mcp.call("command_run", inside({ command: "mkfifo /root/go" }));
  const started = await mcp.call("command_run", inside({
    command: "echo first; read -r _ < /root/go; seq 5000; exit 5", background: true,
  }));
  const first = started.id;
  assert.deepEqual(started, { id: first, running: true });
  let output;
  do output = await mcp.call("command_output", inside({ execution_id: first })); while (output.stdout === "");
  assert.deepEqual([output.stdout, output.running, output.exit_code], ["first\n", true, undefined]);
  const fresh = await mcp.call("command_output", inside({ execution_id: first, cursor: output.next_cursor }));
  assert.deepEqual([fresh.stdout, fresh.running], ["", true]);
  await mcp.call("command_run", inside({ command: "echo > /root/go" }));
  do output = await mcp.call("command_output", inside({ execution_id: first, max_output_bytes: 4000 })); while (output.running);
  assert.equal(output.exit_code, 5);
  const { head, tail, bytes, tool, args } = cut(output.stdout);
  assert.equal(args.execution_id, first);
  const rest = await readOn({ tool, args }, { max_output_bytes: 8000 }, bytes);
  assert.equal(head + rest.text + tail, `first\n${numbers(5000)}`);
  // Followed from the beginning, as programs do.
  let seen = "", cursor, logs;
  do {
    logs = await mcp.call("command_logs", inside({ execution_id: first, cursor, max_output_bytes: 5000 }));
    seen += logs.content;
    cursor = logs.cursor;
  } while (logs.truncated);
  assert.equal(seen, `first\n${numbers(5000)}`);
});

test("sessions remember", async () => {
  const { session_id } = await mcp.call("session_create", inside({ working_directory: "/usr" }));
  const run = (command) => mcp.call("session_run", inside({ session_id, command }));
  await run("export MINE=1; cd lib");
  assert.deepEqual(lines(await run('echo "$MINE"; pwd')), ["1", "/usr/lib"]);
  const long = await mcp.call("session_run", inside({ session_id, command: "seq 5000", max_output_bytes: 4000 }));
  const first = long.next_cursor;
  assert.deepEqual(lines(await run("echo between")), ["between"]);
  const { head, tail, bytes, tool, args } = cut(long.stdout);
  assert.deepEqual([tool, args], ["session_output", { session_id, cursor: first }]);
  const rest = await readOn({ tool, args }, { max_output_bytes: 8000 }, bytes);
  assert.equal(head + rest.text + tail, numbers(5000));
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
  assert.deepEqual(whole, { path, content });
  assert.deepEqual(lines(await mcp.call("command_run", inside({ command: `stat -c %a ${path}` }))), ["640"]);
  const read = async (fields) => (await mcp.call("file_read", inside({ path, ...fields }))).content;
  assert.equal(await read({ range_header: "bytes=0-2" }), "one");
  assert.equal(await read({ range_header: "bytes=-5" }), "four\n");
  assert.equal(await read({ first_line: 2, line_count: 2 }), "zwei ü\n三");
  const part = await mcp.call("file_read", inside({ path, first_line: 2, max_bytes: 12 }));
  assert.deepEqual([part.content, part.truncated], ["zwei ü\n三\n", true]);
  assert.equal(await read({ first_line: part.next_first_line }), "four");
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

test("a path that does not exist is not called deleted", async () => {
  await mcp.call("file_write", inside({ path: "/root/there", content: "" }));
  const deleted = await mcp.call("file_delete", inside({ paths: ["/root/there", "/root/none"] }));
  assert.deepEqual(deleted, { status: "deleted", missing: ["/root/none"] });
  for (const tool of ["file_delete", "file_delete_directories"]) {
    const { code, text } = await mcp.fails(tool, inside({ paths: ["/root/none"] }));
    assert.equal(code, "FILE_NOT_FOUND");
    assert.match(text, /nothing was deleted.*\/root\/none/);
  }
});

test("images are listed", async () => {
  const { images, total } = await mcp.call("image_list");
  assert.equal(images.length, total);
  assert.ok(images.some(({ image }) => image === "host"), JSON.stringify(images));
});

test("pause and resume", async () => {
  assert.deepEqual(await mcp.call("sandbox_pause", inside()), { status: "paused" });
  assert.equal((await mcp.call("sandbox_get_info", inside())).status.state, "Paused");
  assert.match((await mcp.fails("command_run", inside({ command: "true" }))).text, /is paused: resume it/);
  assert.deepEqual(await mcp.call("sandbox_resume", inside()), { status: "resumed" });
  assert.equal((await mcp.call("command_run", inside({ command: "true" }))).exit_code, 0);
});

test("code keeps its state between runs", async () => {
  const { context_id } = await mcp.call("code_create_context", inside());
  const run = (code) => mcp.call("code_run", inside({ context_id, code }));
  const first = await run("a = 20\nprint('one\\ntwo')\na + 1");
  assert.deepEqual([first.stdout, first.stderr, first.result, first.error], ["one\ntwo\n", "", ["21"], undefined]);
  assert.deepEqual((await run("a * 2")).result, ["40"]);
  const failed = await run("1 / 0");
  assert.match(failed.error, /^ZeroDivisionError: /);
  const long = await run("for n in range(100000): print(n)");
  assert.ok(long.truncated && long.stdout.startsWith("0\n1\n") && long.stdout.endsWith("\n99999\n"));
  for (const [i, line] of long.stdout.split("\n").slice(0, 1000).entries()) assert.equal(line, String(i));
  assert.match(long.stdout, /left out: write it to a file and read that with file_read/);
  assert.deepEqual((await mcp.call("code_run", inside({ language: "java", code: "int x = 20; x + 1" }))).result, ["21"]);
});

test("C# keeps its state too", async (t) => {
  if ((await mcp.call("command_run", inside({ command: "command -v mcs" }))).exit_code !== 0) return t.skip("no Mono here");
  const { context_id } = await mcp.call("code_create_context", inside({ language: "csharp" }));
  const run = (code) => mcp.call("code_run", inside({ context_id, language: "csharp", code }));
  const first = await run('int x = 20; Console.WriteLine("one"); x + 1');
  assert.deepEqual([first.stdout, first.result, first.error], ["one\n", ["21"], undefined]);
  assert.deepEqual((await run("x * 2")).result, ["40"]);
  assert.match((await run("int zero = 0; x / zero")).error, /^DivideByZeroException: /);
});

test("pictures are blocks that a model sees", async () => {
  const picture = (bytes) => `class P:\n    def _repr_png_(self): return b"\\x89PNG" + b"x" * ${bytes}\nP()`;
  const run = (code) => mcp.client.callTool({ name: "code_run", arguments: inside({ code }) });
  const [text, image, ...rest] = (await run(picture(100))).content;
  assert.deepEqual([image.type, image.mimeType, rest], ["image", "image/png", []]);
  assert.equal(Buffer.from(image.data, "base64").subarray(0, 4).toString("latin1"), "\x89PNG");
  assert.equal(JSON.parse(text.text).other_results_bytes, undefined);
  const large = await run(picture(600000));
  assert.equal(large.content.length, 1);
  assert.ok(JSON.parse(large.content[0].text).other_results_bytes["image/png"] > 700000);
});

test("a feature that the sandbox lacks has an answer of its own form", async () => {
  for (const [name, fields] of [
    ["egress_get_policy", {}],
    ["egress_patch_rules", { rules: [{ action: "allow", target: "example.com" }] }],
    ["egress_delete_rules", { targets: ["example.com"] }],
    ["credential_list", {}],
    ["credential_audit", {}],
  ]) {
    const { code, text } = await mcp.fails(name, inside(fields));
    assert.equal(code, "NOT_AVAILABLE", name);
    assert.match(text, /is not available in this sandbox/);
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
  const refused = await mcp.fails("sandbox_kill", unknown);
  assert.match(refused.text, /404/);
  assert.doesNotMatch(refused.text, /request/); // its id is in _meta
  assert.match((await mcp.fails("sandbox_create", { image: "host", resource: { memory: "lots" } })).text, /memory/);
});

test("a killed sandbox is gone", async () => {
  const { sandbox_id } = await mcp.call("sandbox_create", { image: "host", skip_health_check: true, timeout_seconds: 0 });
  assert.equal((await mcp.call("sandbox_get_info", { sandbox_id })).expires_at, undefined);
  assert.deepEqual(await mcp.call("sandbox_kill", { sandbox_id }), { status: "killed" });
  await mcp.fails("sandbox_get_info", { sandbox_id });
  assert.equal((await mcp.fails("command_run", { sandbox_id, command: "true" })).code, "SANDBOX_NOT_CONNECTED");
});
