import { Sandbox } from "@alibaba-group/opensandbox";

// The server: OPEN_SANDBOX_DOMAIN (default localhost:8080) and OPEN_SANDBOX_API_KEY.
const sandbox = await Sandbox.create({ image: "host", env: { NAME: "sandbox" } });
try {
  await sandbox.files.writeFiles([
    { path: "/root/script.sh", data: "for i in 1 2 3; do echo $i: hello from the $NAME; done\n" },
  ]);
  const result = await sandbox.commands.run("sh /root/script.sh; uname -s");
  for (const line of result.logs.stdout) console.log(line.text);
} finally {
  await sandbox.kill();
  await sandbox.close();
}
