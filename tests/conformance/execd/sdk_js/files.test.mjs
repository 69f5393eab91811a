import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync } from "node:fs";
import path from "node:path";
import { after, before, beforeEach, test } from "node:test";

import { apiError, connect, freshDirectory, stdout } from "./sdk.mjs";

const MIB = 1024 * 1024;
const sha256 = (data) => createHash("sha256").update(data).digest("hex");
const modeOf = (file) => statSync(file).mode & 0o7777;
const patterned = (size) => Uint8Array.from({ length: size }, (_, i) => (i * 7 + (i >> 8)) & 255);

let sandbox;
let tmp;
let at;
before(() => (sandbox = connect()));
beforeEach(() => {
  tmp = freshDirectory();
  at = (name) => path.join(tmp, name);
});
after(() => sandbox.close());

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

test("every kind of data is written and read", async () => {
  const bytes = patterned(100_000);
  const kinds = {
    text: ["grüße\r\nzweite\n", Buffer.from("grüße\r\nzweite\n")],
    empty: ["", Buffer.alloc(0)],
    bytes: [bytes, bytes],
    buffer: [bytes.buffer, bytes],
    blob: [new Blob([bytes]), bytes],
    generator: [(async function* () { yield bytes.slice(0, 10); yield bytes.slice(10); })(), bytes],
    stream: [new Blob([bytes]).stream(), bytes],
    lines: ["--boundary\r\n--\r\n\r\n", Buffer.from("--boundary\r\n--\r\n\r\n")],
  };
  for (const [name, [data, wanted]] of Object.entries(kinds)) {
    await sandbox.files.writeFiles([{ path: at(name), data, mode: 640 }]);
    assert.equal(sha256(readFileSync(at(name))), sha256(wanted), name);
    assert.equal(modeOf(at(name)), 0o640, name);
    assert.equal(sha256(await sandbox.files.readBytes(at(name))), sha256(wanted), name);
    assert.equal(sha256(await collect(sandbox.files.readBytesStream(at(name)))), sha256(wanted), name);
  }
  assert.equal(await sandbox.files.readFile(at("text")), "grüße\r\nzweite\n");
});

test("64 mebibytes go up as a stream and come down", async () => {
  const block = patterned(MIB);
  const source = async function* () {
    for (let i = 0; i < 64; i++) yield block;
  };
  const wanted = createHash("sha256");
  for await (const chunk of source()) wanted.update(chunk);
  const digest = wanted.digest("hex");
  await sandbox.files.writeFiles([{ path: at("big"), data: source() }]);
  assert.equal(sha256(readFileSync(at("big"))), digest);
  assert.equal((await sandbox.files.getFileInfo([at("big")]))[at("big")].size, 64 * MIB);
  const read = createHash("sha256");
  for await (const chunk of sandbox.files.readBytesStream(at("big"))) read.update(chunk);
  assert.equal(read.digest("hex"), digest);
});

test("many files in one call", async () => {
  const entries = Array.from({ length: 200 }, (_, n) => ({ path: at(`many/${n % 7}/${n}`), data: `content ${n}` }));
  await sandbox.files.writeFiles(entries);
  for (const { path: file, data } of entries) assert.equal(readFileSync(file, "utf8"), data);
});

const oddNames = ["with space", " leading and trailing ", "ünï-日本-🎉", "100%41", "a+b&c=d;e", "quote'single",
  'quote"double', "back\\slash", "hash#and?question", "semi;colon:colon", "..dots..", "-dash", "$", "price$",
  "x".repeat(255)];
for (const name of oddNames) {
  test(`odd names survive every operation: ${name.slice(0, 30)}`, async () => {
    const file = at(name);
    await sandbox.files.writeFiles([{ path: file, data: name }]);
    assert.deepEqual(readdirSync(tmp), [name]);
    assert.equal(await sandbox.files.readFile(file), name);
    assert.deepEqual(Object.keys(await sandbox.files.getFileInfo([file])), [file]);
    assert.deepEqual((await sandbox.files.search({ path: tmp })).map((entry) => entry.path), [file]);
    assert.deepEqual((await sandbox.files.listDirectory({ path: tmp })).map((entry) => entry.path), [file]);
    await sandbox.files.setPermissions([{ path: file, mode: 600 }]);
    assert.equal(modeOf(file), 0o600);
    const entry = { path: file, oldContent: name, newContent: "new" };
    assert.deepEqual(await sandbox.files.replaceContentsDetailed([entry]), [{ path: file, replacedCount: 1 }]);
    await sandbox.files.moveFiles([{ src: file, dest: at("plain") }]);
    assert.deepEqual(readdirSync(tmp), ["plain"]);
    await sandbox.files.moveFiles([{ src: at("plain"), dest: file }]);
    assert.equal(await sandbox.files.readFile(file), "new");
    await sandbox.files.deleteFiles([file]);
    await sandbox.files.createDirectories([{ path: file }]);
    assert.ok(statSync(file).isDirectory());
    await sandbox.files.deleteDirectories([file]);
    assert.deepEqual(readdirSync(tmp), []);
  });
}

test("info of several paths", async () => {
  await sandbox.files.writeFiles([{ path: at("f"), data: "12345", mode: 644 }]);
  symlinkSync("f", at("link"));
  const infos = await sandbox.files.getFileInfo([at("f"), at("link"), tmp]);
  assert.deepEqual(Object.values(infos).map((info) => info.type), ["file", "symlink", "directory"]);
  const info = infos[at("f")];
  assert.deepEqual([info.path, info.size, info.mode], [at("f"), 5, 644]);
  assert.ok(info.modifiedAt instanceof Date && Math.abs(info.modifiedAt - Date.now()) < 600_000);
  assert.ok(info.createdAt instanceof Date && info.owner && info.group);
});

test("directories, listing and search", async () => {
  await sandbox.files.createDirectories([{ path: at("a/b"), mode: 750 }, { path: at("c") }]);
  assert.deepEqual([modeOf(at("a/b")), modeOf(at("c"))], [0o750, 0o755]);
  await sandbox.files.writeFiles([{ path: at("a/b/x.py"), data: "" }, { path: at("y.txt"), data: "" }]);
  const names = (entries) => entries.map((entry) => path.relative(tmp, entry.path));
  assert.deepEqual(names(await sandbox.files.listDirectory({ path: tmp })), ["a", "c", "y.txt"]);
  assert.deepEqual(names(await sandbox.files.listDirectory({ path: tmp, depth: 3 })),
    ["a", "a/b", "a/b/x.py", "c", "y.txt"]);
  assert.deepEqual(await sandbox.files.listDirectory({ path: at("c") }), []);
  assert.deepEqual(names(await sandbox.files.search({ path: tmp, pattern: "*.py" })), ["a/b/x.py"]);
  assert.deepEqual(names(await sandbox.files.search({ path: tmp })).sort(), ["a/b/x.py", "y.txt"]);
  assert.deepEqual(await sandbox.files.search({ path: tmp, pattern: "*.none" }), []);
  await sandbox.files.deleteDirectories([at("a"), at("c"), at("never there")]);
  assert.deepEqual(readdirSync(tmp), ["y.txt"]);
});

test("moving, replacing and deleting", async () => {
  await sandbox.files.writeFiles([{ path: at("x/1"), data: "eins zwei eins" }, { path: at("taken"), data: "t" }]);
  await sandbox.files.moveFiles([{ src: at("x"), dest: at("z/deep") }]);
  await sandbox.files.replaceContents([{ path: at("z/deep/1"), oldContent: "eins", newContent: "$&" }]);
  assert.equal(await sandbox.files.readFile(at("z/deep/1")), "$& zwei $&");
  const counted = await sandbox.files.replaceContentsDetailed([
    { path: at("z/deep/1"), oldContent: "none", newContent: "x" },
    { path: at("taken"), oldContent: "t", newContent: "" },
  ]);
  assert.deepEqual(counted.map((result) => result.replacedCount).sort(), [0, 1]);
  await assert.rejects(sandbox.files.moveFiles([{ src: at("z/deep/1"), dest: at("taken") }]),
    apiError(500, "RUNTIME_ERROR"));
  await sandbox.files.deleteFiles([at("taken"), at("never there")]);
  assert.ok(!existsSync(at("taken")));
  mkdirSync(at("d"));
  await assert.rejects(sandbox.files.deleteFiles([at("d")]), apiError(500, "RUNTIME_ERROR"));
});

test("ranges of bytes and of lines", async () => {
  await sandbox.files.writeFiles([{ path: at("r"), data: "0123456789\ntwo\r\nthree\n" }]);
  assert.equal(await sandbox.files.readFile(at("r"), { range: "bytes=2-4" }), "234");
  assert.equal(await sandbox.files.readFile(at("r"), { range: "bytes=-6" }), "three\n");
  assert.equal(String(await collect(sandbox.files.readBytesStream(at("r"), { range: "bytes=0-0" }))), "0");
  assert.equal(await sandbox.files.readFile(at("r"), { offset: 2, limit: 2 }), "two\nthree");
  assert.equal(await sandbox.files.readFile(at("r"), { offset: 9 }), "");
  await assert.rejects(sandbox.files.readFile(at("r"), { range: "bytes=9999-" }), apiError(416));
  await assert.rejects(sandbox.files.readFile(at("r"), { offset: 0 }), apiError(400));
});

test("missing files are an API error with status, code, message and request id", async () => {
  const missing = at("no such file");
  for (const call of [
    () => sandbox.files.getFileInfo([tmp, missing]),
    () => sandbox.files.search({ path: missing }),
    () => sandbox.files.listDirectory({ path: missing }),
    () => sandbox.files.moveFiles([{ src: missing, dest: at("x") }]),
    () => sandbox.files.replaceContents([{ path: missing, oldContent: "a", newContent: "b" }]),
  ]) {
    await assert.rejects(call(), apiError(404, "FILE_NOT_FOUND"));
  }
  await assert.rejects(sandbox.files.readFile(missing), (error) => {
    apiError(404)(error);
    assert.equal(JSON.parse(error.rawBody).code, "FILE_NOT_FOUND"); // this call keeps the body unread
    return true;
  });
  await assert.rejects(collect(sandbox.files.readBytesStream(missing)), apiError(404));
  await assert.rejects(sandbox.files.setPermissions([{ path: missing, mode: 600 }]), apiError(500, "RUNTIME_ERROR"));
});

test("a failed write is an API error", async () => {
  await sandbox.files.writeFiles([{ path: at("file"), data: "x" }]);
  await assert.rejects(sandbox.files.writeFiles([{ path: at("file/below"), data: "y" }]), apiError(500));
  const endless = async function* () {
    for (let i = 0; i < 64; i++) yield new Uint8Array(MIB);
  };
  await assert.rejects(sandbox.files.writeFiles([{ path: at("file/below"), data: endless() }]), apiError(500));
  assert.equal(readFileSync(at("file"), "utf8"), "x");
});

test("commands and files see the same world", async () => {
  await sandbox.files.writeFiles([{ path: at("script.sh"), data: "#!/bin/sh\necho from script\n", mode: 755 }]);
  assert.deepEqual(stdout(await sandbox.commands.run(at("script.sh"))), ["from script"]);
});
