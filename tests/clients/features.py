"""The features of the conformance table, in its order. README.md says what a check of each has to prove."""

FEATURES = [
    "lifecycle",
    "commands: foreground",
    "commands: background",
    "commands: interrupt",
    "commands: 100,000 lines",
    "sessions",
    "files: every operation",
    "files: big",
    "files: odd names",
    "metrics",
    "endpoints: direct",
    "endpoints: through the proxy",
    "pause and resume",
    "renew",
    "metadata",
    "snapshots",
    "errors",
    "50 in parallel",
]

# Only for clients that have them.
CODE = "code execution"
POLICY = "network policy"
VAULT = "credential vault"
NEWER = ["hooks", "idle and renewal policy", "templates", "isolated sessions", "diagnostics", "network policy routes"]
OPTIONAL = [CODE, POLICY, VAULT, *NEWER]

# Features inside a sandbox: they are checked a second time with all traffic through the server's proxy.
PROXIED = [name for name in FEATURES if name.startswith(("commands", "files")) or name in ("sessions", "metrics")]

RESULTS = ("works", "not offered", "fails")
