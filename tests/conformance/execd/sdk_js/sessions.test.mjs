import assert from "node:assert/strict";
import { realpathSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { longEnough } from "../../../support/long_enough.mjs";
import { apiError, connect, freshDirectory, stderr, stdout } from "./sdk.mjs";

let sandbox;
let session;
let run;
before(async () => {
  sandbox = connect();
  session = await sandbox.commands.createSession();
  run = (command, options, handlers) => sandbox.commands.runInSession(session, command, options, handlers);
});
after(async () => {
  await sandbox.commands.deleteSession(session);
  await sandbox.close();
});

test("a run gives its output and exit code", async () => {
  const execution = await run("echo hello; echo err >&2");
  assert.deepEqual([...stdout(execution), ...stderr(execution)].sort(), ["err", "hello"]);
  assert.equal(execution.exitCode, 0);
  assert.ok(execution.complete);
});

test("exported variables and the directory persist", async () => {
  await run("export GREETING='héllo $HOME `x` \"q\" \\ end'; cd /usr");
  assert.deepEqual(stdout(await run('echo "$GREETING"; pwd')), ["héllo $HOME `x` \"q\" \\ end", "/usr"]);
});

test("sessions do not see each other, and make their directory", async () => {
  await run("export MINE=1");
  const wanted = path.join(freshDirectory(), "deep/er");
  const other = await sandbox.commands.createSession({ workingDirectory: wanted });
  const execution = await sandbox.commands.runInSession(other, 'echo "[$MINE]"; pwd');
  assert.deepEqual(stdout(execution), ["[]", realpathSync(wanted)]);
  await sandbox.commands.deleteSession(other);
  await assert.rejects(sandbox.commands.runInSession(other, "true"), (error) => error.name === "SandboxApiException");
  await assert.rejects(sandbox.commands.deleteSession(other), apiError(404, "CONTEXT_NOT_FOUND"));
});

test("a run may name its directory", async () => {
  const cwd = freshDirectory();
  assert.deepEqual(stdout(await run("pwd", { workingDirectory: cwd })), [realpathSync(cwd)]);
  await assert.rejects(run("pwd", { workingDirectory: `${cwd}/none` }), apiError(400, "INVALID_REQUEST_BODY"));
});

test("a failing run has its exit code and leaves the session usable", async () => {
  await run("export KEPT=yes");
  const failed = await run("sh -c 'exit 7'");
  assert.equal(failed.exitCode, 7);
  assert.equal(failed.error.name, "CommandExecError");
  assert.equal(failed.complete, undefined);
  assert.equal((await run("exit 9")).exitCode, 9);
  assert.deepEqual(stdout(await run("echo $KEPT")), ["yes"]);
});

test("many lines", async () => {
  assert.deepEqual(stdout(await run("seq 20000")), Array.from({ length: 20_000 }, (_, i) => String(i + 1)));
});

test("a timeout ends the run and not the session", async () => {
  await run("export KEPT=yes");
  const attempt = (timeoutSeconds) => run("echo started; sleep 600", { timeoutSeconds });
  const execution = await longEnough(attempt, (execution) => stdout(execution).length, 1.5);
  assert.deepEqual(stdout(execution), ["started"]);
  assert.equal(execution.exitCode, -1);
  assert.deepEqual(stdout(await run("echo $KEPT")), ["yes"]);
});

test("deleting a session ends its run", async () => {
  const other = connect();
  const doomed = await sandbox.commands.createSession();
  const execution = await sandbox.commands.runInSession(doomed, "echo up; sleep 600", undefined, {
    onStdout: () => other.commands.deleteSession(doomed),
  });
  assert.notEqual(execution.exitCode, 0);
  await other.close();
});
