// The policy calls of the official JavaScript SDK.
import assert from "node:assert/strict";
import test from "node:test";

import { stdout, withSandbox } from "../sdk_js/sdk.mjs";

const ALLOWED = "allowed.example.com";
const OTHER = "other.example.com";
const networkPolicy = { defaultAction: "deny", egress: [{ action: "allow", target: ALLOWED }] };

test("rules are read, added and removed", withSandbox({ networkPolicy }, async (sandbox) => {
  const reaches = async (name) => stdout(await sandbox.commands.run(process.env.REACH + name))[0];
  const rules = async () => (await sandbox.getEgressPolicy()).egress.map((rule) => [rule.action, rule.target]);

  assert.equal((await sandbox.getEgressPolicy()).defaultAction, "deny");
  assert.deepEqual(await rules(), [["allow", ALLOWED]]);
  assert.deepEqual([await reaches(ALLOWED), await reaches(OTHER)], ["yes", "no"]);
  await sandbox.patchEgressRules([{ action: "allow", target: OTHER }, { action: "deny", target: ALLOWED }]);
  assert.deepEqual(await rules(), [["allow", OTHER], ["deny", ALLOWED]]);
  assert.deepEqual([await reaches(ALLOWED), await reaches(OTHER)], ["no", "yes"]);
  await sandbox.deleteEgressRules([OTHER]);
  assert.equal(await reaches(OTHER), "no");
}));
