import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { apiError, connection, create, domain, proxied, Sandbox, SandboxManager, stdout, withSandbox } from "./sdk.mjs";

let manager;
before(() => (manager = SandboxManager.create({ connectionConfig: connection() })));
after(() => manager.close());

const secondsLeft = (moment) => (new Date(moment).getTime() - Date.now()) / 1000;

test(
  "a created sandbox fits its request",
  withSandbox({ metadata: { from: "js" }, env: { GREETING: "hello" } }, async (sandbox) => {
    const info = await sandbox.getInfo();
    assert.equal(info.id, sandbox.id);
    assert.equal(info.status.state, "Running");
    assert.deepEqual(info.metadata, { from: "js" });
    assert.equal(info.image.uri, "host");
    const left = secondsLeft(info.expiresAt);
    assert.ok(left > 540 && left <= 600, `${left} s left`);
    assert.ok(await sandbox.isHealthy());
    assert.deepEqual(stdout(await sandbox.commands.run("echo $GREETING")), ["hello"]);
  }),
);

test(
  "traffic goes the way that was chosen",
  withSandbox({}, async (sandbox) => {
    const { endpoint } = await sandbox.getEndpoint(44772);
    if (proxied) assert.equal(endpoint, `${domain}/v1/sandboxes/${sandbox.id}/proxy/44772`);
    else if ((process.env.BACKEND ?? "native") === "native") assert.match(endpoint, /^\d+\.\d+\.\d+\.\d+:44772$/);
    else assert.match(endpoint, /^\d+\.\d+\.\d+\.\d+:\d+\/proxy\/44772$/);
  }),
);

test("a killed sandbox is gone", async () => {
  const sandbox = await create();
  await sandbox.kill();
  await assert.rejects(sandbox.getInfo(), apiError(404));
  await assert.rejects(manager.killSandbox(sandbox.id), apiError(404));
  assert.equal(await sandbox.isHealthy(), false);
  await sandbox.close();
});

test(
  "renewal moves the deadline both ways",
  withSandbox({}, async (sandbox) => {
    for (const seconds of [1800, 120]) {
      const renewed = await sandbox.renew(seconds);
      const left = secondsLeft(renewed.expiresAt);
      assert.ok(left > seconds - 60 && left <= seconds, `${left} s left of ${seconds}`);
    }
    await manager.renewSandbox(sandbox.id, 3600);
    assert.ok(secondsLeft((await sandbox.getInfo()).expiresAt) > 3500);
  }),
);

test(
  "metadata is patched",
  withSandbox({ metadata: { from: "js" } }, async (sandbox) => {
    assert.deepEqual((await sandbox.patchMetadata({ from: null, now: "patched" })).metadata, { now: "patched" });
    await manager.patchSandboxMetadata(sandbox.id, { more: "1" });
    assert.deepEqual((await sandbox.getInfo()).metadata, { now: "patched", more: "1" });
    await assert.rejects(sandbox.patchMetadata({ "-wrong": "x" }), apiError(400));
  }),
);

test(
  "a paused sandbox goes on where it was",
  withSandbox({}, async (sandbox) => {
    const session = await sandbox.commands.createSession();
    await sandbox.commands.runInSession(session, "export KEPT=yes");
    await sandbox.pause();
    assert.equal((await sandbox.getInfo()).status.state, "Paused");
    await assert.rejects(sandbox.pause(), apiError(409));
    const resumed = await sandbox.resume(); // shares the connections of `sandbox`
    assert.equal((await resumed.getInfo()).status.state, "Running");
    assert.deepEqual(stdout(await resumed.commands.runInSession(session, "echo $KEPT")), ["yes"]);
    await assert.rejects(manager.resumeSandbox(sandbox.id), apiError(409));
  }),
);

test(
  "others connect to it",
  withSandbox({}, async (sandbox) => {
    await sandbox.files.writeFiles([{ path: "/root/mine", data: "seen" }]);
    const other = await Sandbox.connect({ sandboxId: sandbox.id, connectionConfig: connection() });
    assert.equal(await other.files.readFile("/root/mine"), "seen");
    await other.close();
  }),
);

test("lists are filtered and paged", async () => {
  const made = [];
  for (const [n, group] of ["a", "a", "b"].entries()) {
    made.push(await create({ metadata: { group, n: String(n) } }));
  }
  await made[2].pause();
  const all = made.map((each) => each.id).sort();
  const ids = async (filter) => (await manager.listSandboxInfos(filter)).items.map((each) => each.id).sort();
  assert.deepEqual(await ids(), all);
  assert.deepEqual(await ids({ metadata: { group: "a" } }), [made[0].id, made[1].id].sort());
  assert.deepEqual(await ids({ metadata: { group: "a", n: "1" } }), [made[1].id]);
  assert.deepEqual(await ids({ states: ["Paused"] }), [made[2].id]);
  assert.deepEqual(await ids({ metadata: { group: "none" } }), []);
  const first = await manager.listSandboxInfos({ page: 1, pageSize: 2 });
  const second = await manager.listSandboxInfos({ page: 2, pageSize: 2 });
  assert.equal(first.pagination.totalItems, 3);
  assert.equal(first.pagination.hasNextPage, true);
  assert.equal(second.pagination.hasNextPage, false);
  assert.deepEqual([...first.items, ...second.items].map((each) => each.id).sort(), all);
  for (const each of made) {
    await each.kill();
    await each.close();
  }
});

test(
  "a snapshot becomes another sandbox",
  withSandbox({}, async (sandbox) => {
    await sandbox.commands.run("echo kept > /root/note");
    const snapshot = await manager.createSnapshot(sandbox.id, { name: "from-js" });
    assert.equal(snapshot.sandboxId, sandbox.id);
    let state;
    while ((state = (await manager.getSnapshot(snapshot.id)).status.state) === "Creating");
    assert.equal(state, "Ready");
    const listed = await manager.listSnapshots({ sandboxId: sandbox.id });
    assert.deepEqual(listed.items.map((each) => each.id), [snapshot.id]);
    const restored = await create({ snapshotId: snapshot.id });
    assert.deepEqual(stdout(await restored.commands.run("cat /root/note")), ["kept"]);
    await assert.rejects(manager.deleteSnapshot(snapshot.id), apiError(409));
    await restored.kill();
    await restored.close();
    await manager.deleteSnapshot(snapshot.id);
    await assert.rejects(manager.getSnapshot(snapshot.id), apiError(404));
  }),
);

test("errors are explained", async () => {
  const stranger = SandboxManager.create({ connectionConfig: connection({ apiKey: "guess" }) });
  await assert.rejects(stranger.listSandboxInfos(), apiError(401));
  await stranger.close();
  await assert.rejects(create({ resource: { memory: "lots" } }), apiError(400));
  await assert.rejects(create({ metadata: { "-wrong": "x" } }), apiError(400));
  await assert.rejects(manager.getSandboxInfo("00000000-0000-4000-8000-000000000000"), apiError(404));
});
