// Checks become lines of JSON: what ../suite.py is for the Python clients.
import { isDeepStrictEqual, inspect } from "node:util";
import fs from "node:fs";

export const { CLIENT_VERSION, CLIENT_DIR, OSB_SERVER: SERVER, OSB_API_KEY: KEY, OSB_IMAGE: IMAGE } = process.env;
export const PROXY = process.env.OSB_PROXY === "1";
export const PARALLEL = Number(process.env.OSB_PARALLEL ?? 50);
export const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";
export const ODD_NAMES = ["with space", "quo'te\"s", "per%20cent", "ha#sh", "what?", "a&b=c", "plus+plus", "ünï-三.txt",
  "new\nline", "-dash", "back\\slash", "semi;colon", "*star", "~tilde", ".hidden"];
export const LINES = 100000;
export const BIG = 64 << 20;
// A web server inside the sandbox; the command returns when it listens.
export const LISTENER = `python3 - <<'END'\n${fs.readFileSync(new URL("../listener.py", import.meta.url), "utf8")}END\n`;
export const LISTENER_PORT = 8000;
// Of the small internet that the sandboxes are beside (tests/support/fake_internet.py).
export const ALLOWED = "allowed.example.com";
export const OTHER = "other.example.com";
// A command that says "yes" or "no": whether the web server of a name, which follows, answers.
export const REACH = `python3 -c 'import sys, urllib.request
try: print("yes" if urllib.request.urlopen("http://" + sys.argv[1], timeout=5).status == 200 else "no")
except OSError: print("no")' `;
// The Authorization field that the web server of a name gets, or "none".
export const AUTHORIZATION = `python3 -c 'import sys, urllib.request
print(urllib.request.urlopen("http://" + sys.argv[1] + "/authorization", timeout=20).read().decode())' `;

export class NotOffered extends Error {}
class Mismatch extends Error {}

const short = (value) => {
  const text = inspect(value, { breakLength: Infinity, maxArrayLength: 8 });
  return text.length <= 120 ? text : `${text.slice(0, 117)}...`;
};

export const check = (condition, what) => {
  if (!condition) throw new Mismatch(what);
};

export const same = (seen, expected, what) =>
  check(isDeepStrictEqual(seen, expected), `${what}: ${short(seen)} instead of ${short(expected)}`);

const oneLine = (error) => {
  const plain = error instanceof Mismatch || error instanceof NotOffered;
  return (plain ? error.message : `${error?.name}: ${error?.message ?? error}`).split(/\s+/).join(" ").slice(0, 300);
};

// `checks`: {feature: async function}. A function that returns text has a remark about what works.
export const main = async (checks) => {
  const chosen = (process.env.OSB_FEATURES ?? "").split(";").filter(Boolean);
  for (const [feature, body] of Object.entries(checks)) {
    if (chosen.length && !chosen.includes(feature)) continue;
    const begun = performance.now();
    let line;
    try {
      line = { feature, result: "works", reason: (await body()) ?? "" };
    } catch (error) {
      line = { feature, result: error instanceof NotOffered ? "not offered" : "fails", reason: oneLine(error) };
      if (process.env.OSB_VERBOSE) console.error(error);
    }
    line.seconds = Math.round((performance.now() - begun) / 10) / 100;
    process.stdout.write(`${JSON.stringify(line)}\n`);
  }
};
