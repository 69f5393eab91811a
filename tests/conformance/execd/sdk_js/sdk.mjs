// The official JavaScript SDK, unmodified, from build/node, and its execd services for the daemon that the environment
// names: EXECD_BASE_URL (without a trailing slash), EXECD_TOKEN, EXECD_TMP (a fresh directory).
import { mkdtempSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../../..");
const packages = path.join(root, "build/node");

export const esm = await import(
  pathToFileURL(path.join(packages, "node_modules/@alibaba-group/opensandbox/dist/index.js")).href
);
export const loadCommonJs = () => createRequire(path.join(packages, "package.json"))("@alibaba-group/opensandbox");

export const baseUrl = process.env.EXECD_BASE_URL;
export const requestId = "sdk-conformance-js-0001";

// One client: {commands, files, health, metrics, close}. `token` undefined: the right one.
export function connect({ token = process.env.EXECD_TOKEN, sdk = esm, url = baseUrl } = {}) {
  const config = new sdk.ConnectionConfig({
    headers: { "X-Request-ID": requestId },
    requestTimeoutSeconds: 120,
  }).withTransportIfMissing();
  const stack = sdk.createDefaultAdapterFactory().createExecdStack({
    connectionConfig: config,
    execdBaseUrl: url,
    endpointHeaders: { "X-EXECD-ACCESS-TOKEN": token },
  });
  return { ...stack, close: () => config.closeTransport() };
}

export const freshDirectory = () => mkdtempSync(path.join(process.env.EXECD_TMP, "t-"));

export const stdout = (execution) => execution.logs.stdout.map((message) => message.text);
export const stderr = (execution) => execution.logs.stderr.map((message) => message.text);

// Follows a command's events to their end; the SDK itself can only ask again and again.
export async function untilFinished(id) {
  const response = await fetch(`${baseUrl}/command/${id}/events`, {
    headers: { "X-EXECD-ACCESS-TOKEN": process.env.EXECD_TOKEN },
  });
  if (response.status !== 200) throw new Error(`events of ${id}: ${response.status}`);
  await response.text();
}

// For assert.rejects: an API exception with this status, the request's id and, where given, this code.
export const apiError = (statusCode, code) => (error) => {
  const problems = [];
  if (error?.name !== "SandboxApiException") problems.push(`it is a ${error?.name}: ${error?.message}`);
  if (error?.statusCode !== statusCode) problems.push(`status ${error?.statusCode}, not ${statusCode}`);
  if (error?.requestId !== requestId) problems.push(`request id ${error?.requestId}`);
  if (code && error?.error?.code !== code) problems.push(`code ${error?.error?.code}, not ${code}`);
  if (code && !error?.error?.message) problems.push("no message");
  if (problems.length) throw new Error(problems.join("; "), { cause: error });
  return true;
};
