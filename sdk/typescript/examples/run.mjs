// Creates a sandbox, runs a command in it, and streams the output of another one.
import { Slipway } from "slipway-sdk";

const slipway = new Slipway(); // SLIPWAY_URL and SLIPWAY_TOKEN
const sandbox = await slipway.sandboxes.create({ limits: { memory_mb: 512 } });
try {
  await sandbox.files.write("workspace/app/hello.sh", "echo hello $NAME\n");
  const { code, stdout } = await sandbox.run("sh hello.sh", { env: { NAME: "world" } });
  console.log(code, stdout.trim());

  const exec = await sandbox.exec("for i in 1 2 3; do echo $i; sleep 0.1; done");
  const decoder = new TextDecoder();
  for await (const { data } of exec.output()) console.log("line", decoder.decode(data, { stream: true }).trim());
  console.log("ended:", (await exec.wait()).exit.kind);
} finally {
  await sandbox.delete();
}
