// Output, files and lists that are longer than any reply: the client gets begin, end and a way to the rest.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { connect } from "./mcp.mjs";

const MOST = 65536;
let mcp, id;
const inside = (fields) => ({ sandbox_id: id, ...fields });
// A result that keeps the limit.
const call = async (name, fields) => {
  const result = await mcp.client.callTool({ name, arguments: inside(fields) }, undefined, { timeout: 110_000 });
  assert.ok(!result.isError, JSON.stringify(result.content).slice(0, 1000));
  assert.ok(JSON.stringify(result).length <= MOST, `${name}: ${JSON.stringify(result).length} bytes`);
  return JSON.parse(result.content[0].text);
};

before(async () => {
  mcp = await connect();
  id = (await mcp.call("sandbox_create", { image: "host" })).sandbox_id;
});
after(() => mcp.close());

for (const tool of ["command_run", "session_run"]) {
  const run = async (command, fields) => {
    if (tool === "command_run") return call(tool, { command, ...fields });
    const { session_id } = await call("session_create", {});
    return call(tool, { session_id, command, ...fields });
  };

  test(`${tool} prints 100,000 lines`, async () => {
    const result = await run("seq 100000");
    assert.deepEqual([result.exit_code, result.truncated], [0, true]);
    assert.ok(result.stdout.startsWith("1\n2\n3\n") && result.stdout.endsWith("\n99999\n100000\n"));
    assert.match(result.stdout, /\n\[\.\.\. \d+ bytes \(\d+ lines\) left out: /);
  });

  test(`${tool} prints 100,000 lines to stderr as well`, async () => {
    const result = await run("{ seq 100000; echo end; } >&2; seq 100000");
    const text = tool === "command_run" ? result.stderr : result.stdout;
    assert.ok(text.startsWith("1\n2\n3\n"), text.slice(0, 100));
    assert.ok(result.stdout.endsWith("\n100000\n"));
  });

  test(`${tool} prints one line of 50 MB`, async () => {
    const result = await run("echo -n begin; head -c 50000000 /dev/zero | tr '\\0' x; echo end");
    assert.ok(result.stdout.startsWith("beginxxx") && result.stdout.endsWith("xxxend\n"));
    assert.match(result.stdout, /\[\.\.\. (49|50)\d{6} bytes/);
  });

  test(`${tool} prints bytes that grow when they are encoded`, async () => {
    const result = await run("head -c 1000000 /dev/zero; printf end", { max_output_bytes: 4000000 });
    assert.ok(result.stdout.startsWith("\0\0") && result.stdout.endsWith("end\n"));
    assert.equal(result.truncated, true);
  });
}

test("a background command prints 100,000 lines", async () => {
  const { id: execution_id } = await call("command_run", { command: "seq 100000; head -c 1000 /dev/urandom", background: true });
  let output;
  do output = await call("command_output", { execution_id, max_output_bytes: 4000000 }); while (output.running);
  assert.ok(output.stdout.startsWith("1\n2\n3\n") && output.truncated, output.stdout.slice(0, 100));
  for (const tool of ["command_output", "command_logs"]) {
    await call(tool, { execution_id, cursor: "100", max_output_bytes: 4000000 });
  }
});

test("pages of output keep the limit too", async () => {
  const command = "yes '\"quoted\" \\\\ and tab\t' | head -n 50000";
  const run = await call("command_run", { command });
  const page = await call("command_output", { execution_id: run.id, cursor: run.next_cursor, max_output_bytes: 4000000 });
  assert.ok(page.next_cursor);
});

test("a large file comes in parts that can be put together", async () => {
  await call("command_run", { command: "yes 'a \"line\" of ü\\' | head -n 20000 > /root/large; head -c 200000 /dev/urandom > /root/binary" });
  const read = async (path, fields) => {
    const parts = [];
    let range_header, part;
    do {
      part = await call("file_read", { path, range_header, max_bytes: 8000000, ...fields });
      parts.push(part.content);
      range_header = part.next_range;
    } while (part.truncated);
    assert.ok(parts.length > 3, `${parts.length} parts`);
    return parts;
  };
  assert.equal((await read("/root/large")).join(""), 'a "line" of ü\\\n'.repeat(20000));
  const binary = await read("/root/binary", { encoding: "base64" });
  const sum = await call("command_run", { command: "base64 -w0 /root/binary | sha256sum | cut -c1-64" });
  const { createHash } = await import("node:crypto");
  const together = Buffer.concat(binary.map((part) => Buffer.from(part, "base64"))).toString("base64");
  assert.equal(createHash("sha256").update(together).digest("hex") + "\n", sum.stdout);
  await read("/root/binary", { encoding: "latin-1" });
  let text = "", first_line = 1, part;
  do {
    part = await call("file_read", { path: "/root/large", first_line, max_bytes: 8000000 });
    text += part.content;
    first_line = part.next_first_line;
  } while (part.truncated);
  // Parts in lines have no end of line behind their last one.
  assert.equal(text + "\n", 'a "line" of ü\\\n'.repeat(20000));
});

test("100,000 files are found page by page", async () => {
  const command = "mkdir -p /dev/shm/many && cd /dev/shm/many && seq -f 'a-file-with-a-name-%06g' 100000 | xargs touch";
  assert.equal((await call("command_run", { command })).exit_code, 0);
  const first = await call("file_search", { path: "/dev/shm/many", pattern: "*" });
  assert.deepEqual([first.total, first.files.length, first.next_cursor], [100000, 200, "200"]);
  const more = await call("file_search", { path: "/dev/shm/many", pattern: "*", limit: 10000, cursor: first.next_cursor });
  assert.ok(more.files.length > 200 && Number(more.next_cursor) === 200 + more.files.length);
  const listed = await call("file_list_directory", { path: "/dev/shm/many", limit: 10000 });
  assert.equal(listed.total, 100000);
  await assert.rejects(mcp.client.readResource({ uri: `sandbox://${id}/dev/shm/many` }), /file_list_directory/);
});

test("many paths, and an error that quotes much, are cut with a note", async () => {
  await call("command_run", { command: "mkdir -p /root/few && cd /root/few && seq 1000 | xargs touch" });
  const paths = Array.from({ length: 1000 }, (_, n) => `/root/few/${n + 1}`);
  for (const args of [{ paths }, { paths: [`/${"none/".repeat(50000)}`] }]) {
    const result = await mcp.client.callTool({ name: "file_get_info", arguments: inside(args) });
    assert.ok(JSON.stringify(result).length <= MOST);
  }
  const cut = await mcp.client.callTool({ name: "file_get_info", arguments: inside({ paths }) });
  assert.match(cut.content[0].text, /bytes left out: the reply would be longer/);
});

test("a page of sandboxes that is too long says which pages continue it", async () => {
  const made = [];
  const metadata = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`key-${n}`, "v".repeat(60)]));
  for (let n = 0; n < 14; ++n) made.push((await mcp.call("sandbox_create", { image: "host", metadata, skip_health_check: true })).sandbox_id);
  const seen = new Set();
  let page = { page: 1, page_size: 20 };
  while (page) {
    const listed = await mcp.call("sandbox_list", { filter: page });
    listed.sandbox_infos.forEach((each) => seen.add(each.id));
    const next = listed.note?.match(/page_size=(\d+), page=(\d+)/);
    const { pagination } = listed;
    if (next) page = { page_size: Number(next[1]), page: Number(next[2]) };
    else page = pagination.has_next_page ? { page: pagination.page + 1, page_size: pagination.page_size } : undefined;
  }
  assert.ok(made.every((each) => seen.has(each)) && seen.has(id), `${seen.size} of 15`);
  for (const sandbox_id of made) await mcp.call("sandbox_kill", { sandbox_id });
});
