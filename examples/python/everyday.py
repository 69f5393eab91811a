"""The calls that an agent makes every day, one after the other: docs/coming-from-e2b.md shows them beside E2B's."""

from datetime import timedelta

from opensandbox import SandboxManagerSync, SandboxSync
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.sandboxes import SandboxFilter

# A sandbox with a lifetime, limits, labels and variables.
sandbox = SandboxSync.create("host", timeout=timedelta(minutes=10), resource={"cpu": "1", "memory": "512Mi"},
                             metadata={"project": "demo"}, env={"GREETING": "hello"})

# A command: output, exit code, working directory, time limit.
result = sandbox.commands.run("echo $GREETING; pwd; exit 3",
                              opts=RunCommandOpts(working_directory="/tmp", timeout=timedelta(seconds=30)))
print([line.text for line in result.logs.stdout], result.exit_code)

# Files.
sandbox.files.write_file("/tmp/note.txt", "remember me")
print(sandbox.files.read_file("/tmp/note.txt"))

# A server inside, and the address under which the port answers.
sandbox.commands.run("python3 -m http.server 8000 --directory /tmp", opts=RunCommandOpts(background=True))
print(sandbox.get_endpoint(8000).endpoint)

# A longer life.
sandbox.renew(timedelta(hours=1))

# Pause: processes stop and cost no CPU. Resume: they go on where they were.
sandbox.pause()
sandbox = SandboxSync.resume(sandbox.id)
print(sandbox.files.read_file("/tmp/note.txt"))

# A list by label, and a second connection to a sandbox that runs.
manager = SandboxManagerSync.create()
found = manager.list_sandbox_infos(SandboxFilter(metadata={"project": "demo"})).sandbox_infos
again = SandboxSync.connect(found[0].id)
print(again.id == sandbox.id)

sandbox.kill()
