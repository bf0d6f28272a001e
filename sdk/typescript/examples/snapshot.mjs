// Takes a snapshot, makes another sandbox of it, and restores it.
import { CommandError, Slipway } from "slipway-sdk";

const slipway = new Slipway();
const sandbox = await slipway.sandboxes.create();
await sandbox.files.write("workspace/app/data.txt", "before");
const snapshot = await sandbox.snapshots.create({ name: "example-ts" });
const fork = await snapshot.fork();
try {
  await fork.run("grep after data.txt", { check: true });
} catch (error) {
  if (!(error instanceof CommandError)) throw error;
  console.log("the fork has the files of before:", error.result.code);
}
await sandbox.run("echo after >data.txt");
await snapshot.restore();
console.log(await sandbox.files.readText("workspace/app/data.txt"));
await snapshot.delete();
await Promise.all([sandbox.delete(), fork.delete()]);
