"""The original command line (opensandbox-cli), imported once and forked for every command: its imports take a second.

As a program this is the parent of those forks: it reads requests from stdin, one JSON object per line, and answers each
with one line. Original is its client.
"""

import json
import os
import subprocess
import sys
import tempfile


class Done:
    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


class Original:
    """`env` counts from the start: the original looks for the home directory when it is imported."""

    def __init__(self, env):
        self.process = subprocess.Popen([sys.executable, "-B", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**env, "PYTHONWARNINGS": "ignore"})

    def run(self, words, input=None, cwd=None):
        request = {"words": [str(word) for word in words], "input": input, "cwd": str(cwd) if cwd else None}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Done(**json.loads(self.process.stdout.readline()))

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def run_in_child(cli, request, files):
    os.chdir(request["cwd"] or "/")
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
    try:
        cli.main(request["words"], prog_name="osb")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve():
    from opensandbox_cli.main import cli

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write((request["input"] or "").encode())
            given.seek(0)
            child = os.fork()
            if child == 0:
                try:
                    run_in_child(cli, request, (given, out, err))
                finally:
                    os._exit(1)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            err.seek(0)
            answers.write(json.dumps({"returncode": code, "stdout": out.read().decode(),
                                      "stderr": err.read().decode()}) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve()
