// The official JavaScript SDK, unmodified, from build/node, for the server that the environment names: SERVER_DOMAIN
// ("host:port"), SERVER_KEY, SERVER_PROXY ("1": sandboxes are reached through the server).
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const entry = path.join(root, "build/node/node_modules/@alibaba-group/opensandbox/dist/index.js");
export const { Sandbox, SandboxManager, ConnectionConfig } = await import(pathToFileURL(entry).href);

export const domain = process.env.SERVER_DOMAIN;
export const proxied = process.env.SERVER_PROXY === "1";

export const connection = (changed = {}) => ({
  domain,
  apiKey: process.env.SERVER_KEY,
  useServerProxy: proxied,
  requestTimeoutSeconds: 60,
  ...changed,
});

export const create = (fields = {}) =>
  Sandbox.create({ connectionConfig: connection(), ...(fields.snapshotId ? {} : { image: "host" }), ...fields });

//  A test's body with a sandbox of its own, which is killed in every case.
export const withSandbox = (fields, body) => async () => {
  const sandbox = await create(fields);
  try {
    await body(sandbox);
  } finally {
    await sandbox.kill();
    await sandbox.close();
  }
};

export const stdout = (execution) => execution.logs.stdout.map((message) => message.text);
export const stderr = (execution) => execution.logs.stderr.map((message) => message.text);

// For assert.rejects: an API exception with this status.
export const apiError = (statusCode) => (error) => {
  if (error?.name === "SandboxApiException" && error.statusCode === statusCode) return true;
  throw new Error(`${error?.name} ${error?.statusCode}: ${error?.message}`, { cause: error });
};
