// The body of an asynchronous function in a page of the API's own origin; it gets `package` and `token`.

const { NotFoundError, Slipway } = await import(package);
const check = (holds, what) => {
  if (!holds) throw new Error(what);
};

const slipway = new Slipway(location.origin, token);
const sandbox = await slipway.sandboxes.create({ name: "from-a-page" });
check((await sandbox.run("echo hello; exit 3")).code === 3, "a command");
await sandbox.files.write("workspace/app/a b.txt", new Blob(["from a page"]));
check((await sandbox.files.readText("workspace/app/a b.txt")) === "from a page", "a file");

const task = await sandbox.tasks.submit({ prompt: "x", command: ["echo", "working"] });
const kinds = [];
for await (const event of task.events()) kinds.push(event.kind);
check(kinds.includes("message") && kinds.at(-1) === "done", `events: ${kinds}`);

const terminal = await sandbox.terminal(["sh"]);
await terminal.write("echo $((40+2)); exit 4\n");
let screen = "";
for await (const bytes of terminal.output()) screen += new TextDecoder().decode(bytes);
check(screen.includes("42") && terminal.exit.code === 4, `a terminal: ${screen}`);

const error = await slipway.sandboxes.get("01jb9xyzabcdefghjkmnpqrstv").catch((error) => error);
check(error instanceof NotFoundError && error.detail.missing.kind === "sandbox", `an error: ${error}`);
await sandbox.delete();
