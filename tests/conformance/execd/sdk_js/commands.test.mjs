import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { realpathSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";

import { longEnough } from "../../../support/long_enough.mjs";
import { apiError, baseUrl, connect, freshDirectory, loadCommonJs, stderr, stdout, untilFinished } from "./sdk.mjs";

let sandbox;
before(() => (sandbox = connect()));
after(() => sandbox.close());

const makeFifo = (name) => {
  const fifo = path.join(freshDirectory(), name);
  execFileSync("mkfifo", [fifo]);
  return fifo;
};

test("the token really is demanded", async () => {
  assert.equal((await fetch(`${baseUrl}/ping`)).status, 401);
});

test("echo gives one line and exit code 0", async () => {
  const execution = await sandbox.commands.run("echo hello");
  assert.deepEqual(stdout(execution), ["hello"]);
  assert.deepEqual(stderr(execution), []);
  assert.equal(execution.exitCode, 0);
  assert.equal(execution.error, undefined);
  assert.ok(execution.complete.executionTimeMs >= 0);
  assert.ok(execution.id);
});

test("the CommonJS build does the same", async () => {
  const other = connect({ sdk: loadCommonJs() });
  assert.deepEqual(stdout(await other.commands.run("echo hello")), ["hello"]);
  await other.close();
});

test("handlers see every event in order", async () => {
  const calls = [];
  const note = (name) => (event) => calls.push([name, event]);
  const execution = await sandbox.commands.run("echo one; echo two", undefined, {
    onEvent: (event) => calls.push(["raw", event.type]),
    onInit: note("init"),
    onStdout: note("stdout"),
    onStderr: note("stderr"),
    onError: note("error"),
    onExecutionComplete: note("complete"),
  });
  const named = calls.filter(([name]) => name !== "raw");
  assert.deepEqual(named.map(([name]) => name), ["init", "stdout", "stdout", "complete"]);
  assert.equal(named[0][1].id, execution.id);
  const raw = calls.filter(([name, type]) => name === "raw" && type !== "ping").map(([, type]) => type);
  assert.deepEqual(raw, ["init", "stdout", "stdout", "execution_complete"]);
});

test("handlers may take the output instead of the result", async () => {
  const lines = [];
  const handlers = { skipAccumulation: true, onStdout: (message) => void lines.push(message.text) };
  const execution = await sandbox.commands.run("seq 3", undefined, handlers);
  assert.deepEqual(lines, ["1", "2", "3"]);
  assert.deepEqual(stdout(execution), []);
});

test("exit codes, signals and missing programs", async () => {
  const failed = await sandbox.commands.run("echo before; exit 7");
  assert.equal(failed.exitCode, 7);
  assert.equal(failed.error.name, "CommandExecError");
  assert.deepEqual(failed.error.traceback, ["exit status 7"]);
  assert.equal(failed.complete, undefined);
  const killed = await sandbox.commands.run("kill -KILL $$");
  assert.equal(killed.exitCode, -1);
  assert.deepEqual(killed.error.traceback, ["signal: killed"]);
  const missing = await sandbox.commands.run("no-such-program-here");
  assert.equal(missing.exitCode, 127);
  assert.match(stderr(missing).join("\n"), /no-such-program-here/);
});

test("stdout and stderr stay apart", async () => {
  const execution = await sandbox.commands.run("echo out; echo err >&2; echo out2");
  assert.deepEqual(stdout(execution), ["out", "out2"]);
  assert.deepEqual(stderr(execution), ["err"]);
});

test("lines come as the contract splits them", async () => {
  const execution = await sandbox.commands.run("printf 'a\\n\\nb\\r\\nc\\rd\\n\\n\\nlast'");
  assert.deepEqual(stdout(execution), ["a", "\n", "b", "c", "d", "\n", "\n", "last"]);
});

test("100000 lines arrive complete and in order", async () => {
  const execution = await sandbox.commands.run("seq 100000");
  assert.deepEqual(stdout(execution), Array.from({ length: 100_000 }, (_, i) => String(i + 1)));
  assert.equal(execution.exitCode, 0);
});

for (const [name, text] of Object.entries({
  letters: "grüße 你好 🎉 👩‍🔬",
  u2028: "line\u2028separator and\u2029paragraph",
  u0085: "next\u0085line, form\ffeed, vertical\vtab",
  separators: "\x1c file \x1d group \x1e record separators",
  controls: "\x01\x07\x1b[31mred\x1b[0m\x7f",
  markup: "<html> & \"quotes\" 'single' \\ backslash \t tab",
})) {
  test(`any character stays inside its line: ${name}`, async () => {
    const file = path.join(freshDirectory(), "text");
    writeFileSync(file, `${text}\nsecond\n`);
    assert.deepEqual(stdout(await sandbox.commands.run(`cat ${file}`)), [text, "second"]);
    assert.deepEqual(stdout(await sandbox.commands.run('printf %s "$TEXT"', { envs: { TEXT: text } })), [text]);
  });
}

test("a line of a mebibyte comes whole", async () => {
  const execution = await sandbox.commands.run("head -c 1048576 /dev/zero | tr '\\0' x; echo; echo after");
  assert.deepEqual(stdout(execution).map((line) => line.length), [1048576, 5]);
});

test("options reach the command", async () => {
  const cwd = freshDirectory();
  const execution = await sandbox.commands.run('echo "$A-$B"; pwd', {
    workingDirectory: cwd,
    envs: { A: "1 ä", B: "$HOME'\"" },
  });
  assert.deepEqual(stdout(execution), ["1 ä-$HOME'\"", realpathSync(cwd)]);
  await assert.rejects(sandbox.commands.run("pwd", { workingDirectory: `${cwd}/none` }),
    apiError(400, "INVALID_REQUEST_BODY"));
});

test("a command runs as another user", { skip: process.getuid() !== 0 && "only root can change the user" }, async () => {
  const execution = await sandbox.commands.run("id -u; id -g", { uid: 65534, gid: 65534 });
  assert.deepEqual(stdout(execution), ["65534", "65534"]);
});

test("a timeout kills the command", async () => {
  const attempt = (timeoutSeconds) => sandbox.commands.run("echo started; sleep 600", { timeoutSeconds });
  const execution = await longEnough(attempt, (execution) => stdout(execution).length, 1.5);
  assert.deepEqual(stdout(execution), ["started"]);
  assert.equal(execution.exitCode, -1);
  assert.match(execution.error.traceback.join("\n"), /signal: killed/);
});

test("interrupt ends a running command", async () => {
  const other = connect();
  const execution = await sandbox.commands.run("echo up; sleep 600", undefined, {
    onStdout: async () => {},
    onInit: async ({ id }) => {
      assert.equal((await other.commands.getCommandStatus(id)).running, true);
      await other.commands.interrupt(id);
    },
  });
  assert.equal(execution.exitCode, -1);
  assert.deepEqual(execution.error.traceback, ["signal: terminated"]);
  assert.equal((await other.commands.getCommandStatus(execution.id)).running, false);
  await assert.rejects(other.commands.interrupt(execution.id), apiError(500, "RUNTIME_ERROR"));
  await assert.rejects(other.commands.interrupt("0".repeat(32)), apiError(500, "RUNTIME_ERROR"));
  await other.close();
});

test("runStream yields events while the command runs", async () => {
  const fifo = makeFifo("go");
  const seen = [];
  for await (const event of sandbox.commands.runStream(`echo ready; cat ${fifo}`)) {
    if (event.type !== "ping") seen.push([event.type, event.text]);
    if (event.text === "ready") {
      const go = await open(fifo, "w");
      await go.write("released\n");
      await go.close();
    }
  }
  assert.deepEqual(seen.slice(1), [["stdout", "ready"], ["stdout", "released"], ["execution_complete", undefined]]);
  assert.equal(seen[0][0], "init");
});

test("a background command returns at once and is followed by cursor", async () => {
  const fifo = makeFifo("go");
  const execution = await sandbox.commands.run(`echo first; echo second >&2; cat ${fifo}; echo third; exit 5`, {
    background: true,
  });
  assert.equal(execution.exitCode, undefined);
  assert.ok(execution.complete);
  const running = await sandbox.commands.getCommandStatus(execution.id);
  assert.deepEqual([running.running, running.exitCode, running.finishedAt], [true, null, null]);
  const go = await open(fifo, "w"); // opens when the command has come as far as cat
  const logs = await sandbox.commands.getBackgroundCommandLogs(execution.id);
  assert.deepEqual(logs, { content: "first\nsecond\n", cursor: 13 });
  assert.deepEqual(await sandbox.commands.getBackgroundCommandLogs(execution.id, 13), { content: "", cursor: 13 });
  await go.write("von außen\n");
  await go.close();
  await untilFinished(execution.id);
  const rest = await sandbox.commands.getBackgroundCommandLogs(execution.id, logs.cursor);
  assert.equal(rest.content, "von außen\nthird\n");
  assert.equal(rest.cursor, 13 + Buffer.byteLength(rest.content));
  const status = await sandbox.commands.getCommandStatus(execution.id);
  assert.deepEqual([status.running, status.exitCode, status.error], [false, 5, "exit status 5"]);
  assert.ok(status.finishedAt >= status.startedAt);
});

test("megabytes of background output are all in the log", async () => {
  const { id } = await sandbox.commands.run("seq 1000000", { background: true });
  await untilFinished(id);
  let content = "";
  let cursor = 0;
  for (;;) {
    const logs = await sandbox.commands.getBackgroundCommandLogs(id, cursor);
    if (!logs.content) break;
    content += logs.content;
    cursor = logs.cursor;
  }
  assert.ok(content === Array.from({ length: 1_000_000 }, (_, i) => `${i + 1}\n`).join(""));
});

test("unknown commands are an API error", async () => {
  const unknown = "f".repeat(32);
  await assert.rejects(sandbox.commands.getCommandStatus(unknown), apiError(404, "INVALID_REQUEST_BODY"));
  await assert.rejects(sandbox.commands.getBackgroundCommandLogs(unknown), apiError(400));
});

test("20 clients in parallel keep their output apart", async () => {
  const clients = Array.from({ length: 20 }, () => connect());
  await Promise.all(clients.map(async (client, number) => {
    for (let turn = 0; turn < 5; turn++) {
      const execution = await client.commands.run(`for i in $(seq 100); do echo ${number}-${turn}-$i; done; exit ${turn}`);
      assert.deepEqual(stdout(execution), Array.from({ length: 100 }, (_, i) => `${number}-${turn}-${i + 1}`));
      assert.equal(execution.exitCode, turn);
    }
    await client.close();
  }));
});

test("a wrong token is a clear exception", async () => {
  const stranger = connect({ token: "wrong" });
  const file = path.join(freshDirectory(), "x");
  for (const call of [
    () => stranger.health.ping(),
    () => stranger.commands.run("echo never"),
    () => stranger.commands.getCommandStatus("0".repeat(32)),
    () => stranger.commands.createSession(),
    () => stranger.files.readFile("/etc/hostname"),
    () => stranger.files.writeFiles([{ path: file, data: "x" }]),
    () => stranger.metrics.getMetrics(),
  ]) {
    await assert.rejects(call(), apiError(401));
  }
  await assert.rejects(sandbox.files.readFile(file), apiError(404));
  await stranger.close();
});

test("health and metrics", async () => {
  assert.equal(await sandbox.health.ping(), true);
  const metrics = await sandbox.metrics.getMetrics();
  assert.ok(metrics.cpuCount >= 1);
  assert.ok(metrics.cpuUsedPercentage >= 0 && metrics.cpuUsedPercentage <= 100);
  assert.ok(metrics.memoryUsedMiB > 0 && metrics.memoryUsedMiB <= metrics.memoryTotalMiB);
  assert.ok(Math.abs(metrics.timestamp - Date.now()) < 600_000);
});
