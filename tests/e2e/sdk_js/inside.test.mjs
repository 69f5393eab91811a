import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { after, before, test } from "node:test";

import { apiError, connection, create, Sandbox, stderr, stdout } from "./sdk.mjs";

let sandbox;
before(async () => (sandbox = await create({ env: { GREETING: "hello" } })));
after(async () => {
  await sandbox.kill();
  await sandbox.close();
});

test("output, environment and exit code", async () => {
  const execution = await sandbox.commands.run("echo $GREETING; echo oops >&2; exit 3");
  assert.deepEqual(stdout(execution), ["hello"]);
  assert.deepEqual(stderr(execution), ["oops"]);
  assert.equal(execution.exitCode, 3);
  assert.deepEqual(stdout(await sandbox.commands.run("pwd", { workingDirectory: "/usr" })), ["/usr"]);
});

test("output arrives while the command runs", async () => {
  // The command goes on only when its first line has been heard outside.
  await sandbox.commands.run("mkfifo /root/go");
  const other = await Sandbox.connect({ sandboxId: sandbox.id, connectionConfig: connection() });
  const seen = [];
  const execution = await sandbox.commands.run("echo first; read -r _ < /root/go; echo second", undefined, {
    onStdout: async (message) => {
      seen.push(message.text);
      if (message.text === "first") await other.commands.run("echo > /root/go");
    },
  });
  assert.equal(execution.exitCode, 0);
  assert.deepEqual(seen, ["first", "second"]);
  await other.close();
});

test("many lines arrive complete and in order", async () => {
  const lines = stdout(await sandbox.commands.run("seq 20000"));
  assert.deepEqual(lines, Array.from({ length: 20_000 }, (_, i) => String(i + 1)));
});

test("background commands", async () => {
  await sandbox.commands.run("mkfifo /root/background");
  const execution = await sandbox.commands.run("echo first; read -r _ < /root/background; echo second; exit 5", {
    background: true,
  });
  assert.equal((await sandbox.commands.getCommandStatus(execution.id)).running, true);
  await sandbox.commands.run("echo > /root/background");
  let status;
  while ((status = await sandbox.commands.getCommandStatus(execution.id)).running);
  assert.equal(status.exitCode, 5);
  assert.equal((await sandbox.commands.getBackgroundCommandLogs(execution.id)).content, "first\nsecond\n");
});

test("a command is interrupted", async () => {
  const execution = await sandbox.commands.run("sleep 600", { background: true });
  await sandbox.commands.interrupt(execution.id);
  let status;
  while ((status = await sandbox.commands.getCommandStatus(execution.id)).running);
  assert.notEqual(status.exitCode, 0);
});

test("files come back as they went", async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  await sandbox.files.writeFiles([
    { path: "/root/in/a.txt", data: "one\nzwei ü\n三\n", mode: 640 },
    { path: "/root/in/b.bin", data: bytes, mode: 600 },
  ]);
  assert.equal(await sandbox.files.readFile("/root/in/a.txt"), "one\nzwei ü\n三\n");
  assert.deepEqual(new Uint8Array(await sandbox.files.readBytes("/root/in/b.bin")), bytes);
  assert.deepEqual(stdout(await sandbox.commands.run("stat -c %a /root/in/a.txt")), ["640"]);
  const found = await sandbox.files.search({ path: "/root/in", pattern: "*.txt" });
  assert.deepEqual(found.map((each) => each.path), ["/root/in/a.txt"]);
  await sandbox.files.moveFiles([{ src: "/root/in/a.txt", dest: "/root/in/c.txt" }]);
  await sandbox.files.deleteFiles(["/root/in/b.bin"]);
  assert.deepEqual(stdout(await sandbox.commands.run("ls /root/in")), ["c.txt"]);
  await sandbox.files.deleteDirectories(["/root/in"]);
  await assert.rejects(sandbox.files.readFile("/root/in/c.txt"), apiError(404));
});

test("a large file goes in and out", async () => {
  const data = randomBytes(20 << 20);
  const digest = createHash("sha256").update(data).digest("hex");
  await sandbox.files.writeFiles([{ path: "/root/large", data: new Uint8Array(data) }]);
  assert.equal(stdout(await sandbox.commands.run("sha256sum < /root/large"))[0].split(" ")[0], digest);
  const back = await sandbox.files.readBytes("/root/large");
  assert.equal(createHash("sha256").update(back).digest("hex"), digest);
});

test("sessions remember", async () => {
  const session = await sandbox.commands.createSession({ workingDirectory: "/usr" });
  await sandbox.commands.runInSession(session, "export MINE=1; cd lib");
  assert.deepEqual(stdout(await sandbox.commands.runInSession(session, 'echo "$MINE"; pwd')), ["1", "/usr/lib"]);
  assert.equal((await sandbox.commands.runInSession(session, "exit 4")).exitCode, 4);
  await sandbox.commands.deleteSession(session);
  await assert.rejects(sandbox.commands.deleteSession(session), apiError(404));
});

test("metrics are those of the sandbox", async () => {
  const metrics = await sandbox.getMetrics();
  assert.ok(metrics.cpuCount > 0);
  assert.ok(metrics.memoryUsedMiB > 0 && metrics.memoryUsedMiB < metrics.memoryTotalMiB);
});
