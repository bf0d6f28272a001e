// Submits a task and follows its events to the end. The agent `command` runs any program; name a coding agent instead.
import { Slipway } from "slipway-sdk";

const slipway = new Slipway();
const sandbox = await slipway.sandboxes.ensure({ scope: { kind: "conversation", key: "example-ts" } });
const task = await sandbox.tasks.submit({ prompt: "write a page", command: ["sh", "-c", "cat >page.txt; echo wrote it"] });
for await (const event of task.events()) {
  switch (event.kind) {
    case "status":
      console.log("phase", event.phase);
      break;
    case "message":
      console.log("agent:", event.text);
      break;
    case "done":
      console.log("done:", event.result.status);
      break;
  }
}
for await (const file of task.changes()) console.log(file.kind, file.path);
await task.revert();
await sandbox.delete();
