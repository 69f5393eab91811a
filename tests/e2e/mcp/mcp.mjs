// The official MCP client, unmodified, from build/node, over the transport that the environment names: MCP_URL (and
// MCP_TOKEN) for streamable HTTP, else MCP_BINARY over stdio.
import assert from "node:assert/strict";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const sdk = path.join(root, "build/node/node_modules/@modelcontextprotocol/sdk/dist/esm");
const load = (file) => import(pathToFileURL(path.join(sdk, file)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
export const types = await load("types.js");

export const overHttp = Boolean(process.env.MCP_URL);
const args = ["--log-level", "warn", ...(process.env.MCP_ARGS ?? "").split(" ").filter(Boolean)];

const makeTransport = () => {
  if (!overHttp) {
    return new StdioClientTransport({ command: process.env.MCP_BINARY, args, env: process.env });
  }
  const headers = process.env.MCP_TOKEN ? { Authorization: `Bearer ${process.env.MCP_TOKEN}` } : {};
  return new StreamableHTTPClientTransport(new URL(process.env.MCP_URL), { requestInit: { headers } });
};

export const connect = async () => {
  const client = new Client({ name: "tests", version: "1.0.0" });
  const transport = makeTransport();
  await client.connect(transport);
  await client.listTools(); // from now on it compares results with the tools' output schemas
  return {
    client,
    transport,
    //  The result of a tool: one text block with JSON, and nothing else.
    call: async (name, args = {}, options = undefined) => {
      const result = await client.callTool({ name, arguments: args }, undefined, options);
      assert.notEqual(result.isError, true, `${name}: ${JSON.stringify(result.content)}`);
      assert.equal(result.structuredContent, undefined, "the same data twice");
      assert.equal(result.content.length, 1);
      return JSON.parse(result.content[0].text);
    },
    // The published shape: structure and text say the same.
    callPublished: async (name, args = {}, options = undefined) => {
      const result = await client.callTool({ name, arguments: args }, undefined, options);
      assert.notEqual(result.isError, true, `${name}: ${JSON.stringify(result.content)}`);
      const list = result.structuredContent.result;
      // A list gives a block per item, and one more where there are further pages.
      const items = Array.isArray(list) && !("logs" in result.structuredContent) ? list : [result.structuredContent];
      assert.deepEqual(result.content.slice(0, items.length).map((block) => JSON.parse(block.text)), items);
      assert.equal(result.content.length, items.length + (result.structuredContent.next_cursor && items === list ? 1 : 0));
      return result.structuredContent;
    },
    // The error's code and text of a tool that must fail.
    fails: async (name, args = {}) => {
      const result = await client.callTool({ name, arguments: args });
      assert.equal(result.isError, true, JSON.stringify(result));
      const text = result.content[0].text;
      assert.ok(text.startsWith(`Error executing tool ${name}: `), text);
      return { code: result._meta["opensandbox/error"].code, text, structured: result.structuredContent };
    },
    close: async () => {
      if (overHttp) await transport.terminateSession();
      await client.close();
    },
  };
};

export const lines = ({ stdout }) => stdout.split("\n").slice(0, -1);

// For assert.rejects: a protocol error with this code.
export const rpcError = (code) => (error) => {
  if (error?.code === code) return true;
  throw new Error(`${error?.code}: ${error?.message}`, { cause: error });
};
