// Leaves a terminal in the middle and comes back exactly there. Node.js before 22: node --experimental-websocket.
import { Slipway } from "slipway-sdk";

const slipway = new Slipway();
const sandbox = await slipway.sandboxes.create();
const terminal = await sandbox.terminal(["bash", "--norc"], { cols: 100, rows: 30 });
await terminal.write("echo left at $((40 + 2))\n");
for await (const bytes of terminal.output()) if (new TextDecoder().decode(bytes).includes("42")) break;
terminal.detach();

const back = sandbox.attachTerminal(terminal.id, { after: terminal.position ?? 0 });
await back.write("exit 3\n");
for await (const _ of back.output());
console.log(back.exit);
await sandbox.delete();
