#!/usr/bin/env python3
"""Prints the figures of docs/mcp.md: how many bytes and tokens a model reads. As root: tests/e2e/mcp/tokens.py [BINARY]

BINARY is another opensandbox-mcp than the one of build/release, for comparisons. Tokens are those of o200k_base, counted
with npm's gpt-tokenizer, which has the vocabulary in its package; the first run installs it into build/tokenizer.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOKENIZER = "gpt-tokenizer@4.0.0"
LIST = {"jsonrpc": "2.0", "id": "list", "method": "tools/list"}
COUNT = """
import { encode } from "gpt-tokenizer/encoding/o200k_base";
import { readFileSync } from "node:fs";
const counts = JSON.parse(readFileSync(0, "utf8")).map((text) => encode(text, { disallowedSpecial: new Set() }).length);
console.log(JSON.stringify(counts));
"""
RUNS = [("49 KB of short lines (`seq 10000`)", "seq 10000"),
        ("4 MB of C++ (`cat` of a file)", "cat /root/code"),
        ("one short line (`echo hello`)", "echo hello")]


def install():
    folder = ROOT / "build" / "tokenizer"
    if not (folder / "node_modules").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--prefix", folder, "--no-package-lock", "--no-audit", "--no-fund", "--silent",
                        TOKENIZER], check=True)


def count(texts):
    run = subprocess.run(["node", "--input-type=module", "-e", COUNT], input=json.dumps(texts), capture_output=True,
                         text=True, cwd=ROOT / "build" / "tokenizer", check=True)
    return json.loads(run.stdout)


def rows(server, args, code):
    """Name of the measurement, bytes of the answer, and the text in it that models read."""
    from mcp_process import StdioMcp, tool

    mcp = StdioMcp(server, *args)
    listed = mcp.ask(LIST)
    tools = listed["result"]["tools"]
    out = [(f"tools/list, {len(tools)} tools", listed, json.dumps(tools, separators=(",", ":")))]
    id = json.loads(mcp.ask(tool(0, "sandbox_create", image="host"))["result"]["content"][0]["text"])["sandbox_id"]
    mcp.ask(tool(1, "file_write", sandbox_id=id, path="/root/code", content=code[:4_000_000]))
    for number, (name, command) in enumerate(RUNS, 2):
        answer = mcp.ask(tool(number, "command_run", sandbox_id=id, command=command))
        out.append((name, answer, "".join(block["text"] for block in answer["result"]["content"])))
    mcp.leave()
    return out


def measure():
    from backend import make_daemon
    from server_process import Server

    code = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.cc")))
    daemon = make_daemon()
    server = Server(daemon)
    binary = os.environ.get("MCP_BINARY")
    styles = [("another binary", [])] if binary else [
        ("default", []), ("--all-tools", ["--all-tools"]),
        ("--published-results --all-tools", ["--published-results", "--all-tools"])]
    try:
        print("| options | answer | bytes | tokens |\n| --- | --- | ---: | ---: |")
        for style, args in styles:
            found = rows(server, args, code)
            tokens = count([text for _, _, text in found])
            for (name, answer, _), each in zip(found, tokens):
                size = len(json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode())
                print(f"| {style} | {name} | {size:,} | {each:,} |")
    finally:
        server.close()
        daemon.close()


def main():
    arguments = sys.argv[1:]
    if "--inside" not in arguments:
        install()
        if arguments:
            os.environ["MCP_BINARY"] = str(pathlib.Path(arguments[0]).resolve())
        inside = ROOT / "tests" / "privileged" / "in_namespace"
        os.execv(inside, [inside, ROOT / "build" / "venv" / "bin" / "python", "-B", __file__, "--inside"])
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    measure()


if __name__ == "__main__":
    main()
