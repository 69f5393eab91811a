from opensandbox import SandboxSync

# Where the server is: OPEN_SANDBOX_DOMAIN (default localhost:8080) and OPEN_SANDBOX_API_KEY.
with SandboxSync.create("host", env={"NAME": "sandbox"}) as sandbox:
    sandbox.files.write_file("/root/script.sh", "for i in 1 2 3; do echo $i: hello from the $NAME; done\n")
    result = sandbox.commands.run("sh /root/script.sh; uname -s")
    for line in result.logs.stdout:
        print(line.text)
    sandbox.kill()
