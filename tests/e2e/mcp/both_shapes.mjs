// Tests of tools whose results differ between the two shapes only in where a list is: in `result` (published), in a member
// of its own name, or alone.
import assert from "node:assert/strict";
import { test } from "node:test";

// `using` gives { mcp, inside, lines, items } when a test runs; items(reply, name) is the list that has this name, if any.
export const testBothShapes = (using) => {
  test("sandboxes are listed, filtered and paged", async () => {
    const { mcp, inside } = using();
    const id = inside().sandbox_id;
    const ids = async (filter) => (await mcp.call("sandbox_list", { filter })).sandbox_infos.map((each) => each.id);
    assert.deepEqual(await ids({ metadata: { from: "mcp" } }), [id]);
    assert.deepEqual(await ids({ metadata: { from: "elsewhere" } }), []);
    assert.deepEqual(await ids({ states: ["Paused"] }), []);
    assert.deepEqual(await ids('{"states": ["Running"]}'), [id]); // JSON in a string is taken for what it holds
    const { pagination } = await mcp.call("sandbox_list", { filter: { page: 1, page_size: 1 } });
    assert.deepEqual(pagination, { page: 1, page_size: 1, total_items: 1, total_pages: 1, has_next_page: false });
  });

  test("files and directories: search, list, info, move, replace, permissions, delete", async () => {
    const { mcp, inside, lines, items } = using();
    assert.deepEqual(await mcp.call("file_create_directories", inside({ entries: [{ path: "/root/d/e", mode: 700 }] })), { status: "created" });
    for (const name of ["a.py", "b.py", "c.txt"]) await mcp.call("file_write", inside({ path: `/root/d/${name}`, content: "old old" }));
    const found = await mcp.call("file_search", inside({ path: "/root/d", pattern: "*.py" }));
    assert.deepEqual(items(found, "files").map((each) => each.path).sort(), ["/root/d/a.py", "/root/d/b.py"]);
    assert.equal(items(found, "files")[0].size, 7);
    const first = await mcp.call("file_search", inside({ path: "/root/d", pattern: "*.py", limit: 1 }));
    const second = await mcp.call("file_search", inside({ path: "/root/d", pattern: "*.py", limit: 1, cursor: first.next_cursor }));
    assert.deepEqual([first.total, second.next_cursor ?? null], [2, null]);
    assert.deepEqual([...items(first, "files"), ...items(second, "files")], items(found, "files"));
    assert.deepEqual(items(await mcp.call("file_search", inside({ path: "/root/d", pattern: "none" })), "files"), []);
    const listed = await mcp.call("file_list_directory", inside({ path: "/root/d" }));
    assert.deepEqual(items(listed, "files").map((each) => each.path).sort(), ["/root/d/a.py", "/root/d/b.py", "/root/d/c.txt", "/root/d/e"]);
    const info = await mcp.call("file_get_info", inside({ paths: ["/root/d/e"] }));
    assert.deepEqual([items(info)[0].type, items(info)[0].mode], ["directory", 700]);
    const replaced = await mcp.call("file_replace_contents", inside({ entries: [{ path: "/root/d/a.py", old_content: "old", new_content: "new" }] }));
    assert.deepEqual(items(replaced), [{ path: "/root/d/a.py", replaced_count: 2 }]);
    assert.deepEqual(await mcp.call("file_move", inside({ entries: [{ source: "/root/d/a.py", destination: "/root/d/e/z.py" }] })), { status: "moved" });
    assert.equal((await mcp.call("file_read", inside({ path: "/root/d/e/z.py" }))).content, "new new");
    await mcp.call("file_set_permissions", inside({ entries: [{ path: "/root/d/e/z.py", mode: 400 }] }));
    assert.deepEqual(lines(await mcp.call("command_run", inside({ command: "stat -c %a /root/d/e/z.py" }))), ["400"]);
    assert.deepEqual(await mcp.call("file_delete", inside({ paths: ["/root/d/b.py"] })), { status: "deleted" });
    assert.deepEqual(await mcp.call("file_delete_directories", inside({ paths: ["/root/d"] })), { status: "deleted" });
    await mcp.fails("file_get_info", inside({ paths: ["/root/d"] }));
  });

  test("a command in the background is interrupted", async () => {
    const { mcp, inside } = using();
    const { id } = await mcp.call("command_run", inside({ command: "sleep 600", background: true }));
    assert.deepEqual(await mcp.call("command_interrupt", inside({ execution_id: id })), { status: "interrupted" });
    let status;
    while ((status = await mcp.call("command_status", inside({ execution_id: id }))).running);
    assert.notEqual(status.exit_code, 0);
  });

  test("snapshots", async () => {
    const { mcp, inside, items } = using();
    await mcp.call("file_write", inside({ path: "/root/note", content: "kept" }));
    const snapshot = await mcp.call("snapshot_create", inside({ name: "from-mcp" }));
    assert.equal(snapshot.status.state, "Ready");
    const listed = await mcp.call("snapshot_list", {});
    assert.deepEqual(items(listed, "snapshots").map((each) => each.id), [snapshot.id]);
    const restored = await mcp.call("snapshot_restore", { snapshot_id: snapshot.id });
    assert.equal(restored.info.snapshot_id, snapshot.id);
    const note = await mcp.call("file_read", { sandbox_id: restored.sandbox_id, path: "/root/note" });
    assert.equal(note.content, "kept");
    assert.deepEqual(await mcp.call("sandbox_kill", { sandbox_id: restored.sandbox_id }), { status: "killed" });
    assert.equal((await mcp.call("snapshot_get", { snapshot_id: snapshot.id })).name, "from-mcp");
    assert.deepEqual(await mcp.call("snapshot_delete", { snapshot_id: snapshot.id }), { status: "deleted" });
    await mcp.fails("snapshot_get", { snapshot_id: snapshot.id });
  });
};
