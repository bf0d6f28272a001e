// Everything that the TypeScript client does, against a real hostd. `kill` on standard output asks the test to kill hostd
// with SIGKILL and to start it again while this program goes on; a line on standard input says that it was done.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { inspect } from "node:util";

const { SLIPWAY_URL: url, SLIPWAY_TOKEN: token, SLIPWAY_SDK, OTHER_TOKEN, TEST_AGENT } = process.env;
const sdk = await import(SLIPWAY_SDK);
const { Slipway } = sdk;

/** @type {import("slipway-sdk").Slipway} */
const slipway = new Slipway(url, token);
const step = (name) => console.log(`step ${name}`);
const askToKill = () => console.log("kill");
const input = createInterface({ input: process.stdin });
const answers = input[Symbol.asyncIterator]();
// Also a kill that came late is over after it: it would hit a call that must not be repeated.
const restarted = async () => assert.equal((await answers.next()).value, "restarted");
const text = (bytes) => new TextDecoder().decode(bytes);
const numbers = (last) => Array.from({ length: last }, (_, at) => String(at + 1));
const counting = (last) => `for i in $(seq 1 ${last}); do echo $i; sleep 0.01; done`;

async function first(items, wanted) {
  for await (const item of items) if (wanted(item)) return item;
  assert.fail("it never comes");
}

async function refused(call, family, code) {
  const error = await call.then(
    () => assert.fail("it is allowed"),
    (error) => error,
  );
  assert.ok(error instanceof family, inspect(error));
  assert.equal(error.code, code);
  assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(token), "the token is in an error");
  return error;
}

async function sandboxes() {
  step("sandboxes");
  const sandbox = await slipway.sandboxes.create({ name: "sdk-ts", ports: [3000], env: { GREETING: "hello" }, metadata: { a: "b" } });
  assert.equal(sandbox.view.status, "running");
  assert.equal((await slipway.sandboxes.get(sandbox.id)).view.name, "sdk-ts");
  await first(slipway.sandboxes.list({ status: "running" }), (view) => view.id === sandbox.id);
  const scope = { kind: "conversation", key: "c-ts" };
  const [one, two] = await Promise.all([slipway.sandboxes.ensure({ scope }), slipway.sandboxes.ensure({ scope })]);
  assert.equal(one.id, two.id);
  assert.equal((await one.delete()).status, "destroyed");
  assert.deepEqual((await sandbox.update({ metadata: { c: "d" } })).metadata, { c: "d" });
  assert.equal((await sandbox.stop()).status, "stopped");
  assert.equal((await sandbox.start()).status, "running");
  assert.equal(typeof (await sandbox.activity()).busy, "boolean");
  assert.ok((await sandbox.stats()) && (await slipway.quota()) && (await slipway.agents().all()).length > 0);
  return sandbox;
}

async function commands(sandbox) {
  step("commands");
  const failed = await sandbox.run("echo out; echo err >&2; exit 3");
  assert.deepEqual([failed.code, failed.ok, failed.stdout, failed.stderr], [3, false, "out\n", "err\n"]);
  const error = await sandbox.run("echo no >&2; exit 4", { check: true }).catch((error) => error);
  assert.ok(error instanceof sdk.CommandError && error.result.code === 4, inspect(error));
  const given = await sandbox.run(["sh", "-c", 'cat; echo "$GREETING $MORE"; pwd'], { stdin: "in ", env: { MORE: "you" }, cwd: "/tmp" });
  assert.equal(given.stdout, "in hello you\n/tmp\n");
  assert.deepEqual([...(await sandbox.run("printf 'a\\377'")).stdoutBytes], [97, 255]);
  assert.equal((await sandbox.run("sleep 60", { timeoutS: 0.2 })).exit.kind, "timed_out");
  const twice = await Promise.all([1, 2].map(() => sandbox.run("echo once >>once.txt", { id: "only-once" })));
  assert.ok(twice.every((result) => result.ok));
  assert.equal((await sandbox.run("cat once.txt")).stdout, "once\n");
  const leaving = new AbortController();
  const left = sandbox.run("echo here >started; sleep 600", { id: "given-up", signal: leaving.signal }).catch((error) => error);
  await until(() => sandbox.files.exists("workspace/app/started"));
  leaving.abort(new Error("enough"));
  assert.equal((await left).message, "enough");
  assert.equal((await sandbox.attachExec("given-up").wait()).exit.kind, "cancelled");
  await sandbox.exec("sleep 600", { id: "too-late" });
  const late = await sandbox.run("sleep 600", { id: "too-late", timeoutMs: 300 }).catch((error) => error);
  assert.ok(late instanceof sdk.DeadlineExceededError, inspect(late));
  assert.equal((await sandbox.attachExec("too-late").wait()).exit.kind, "cancelled");
}

async function until(look) {
  for (;;) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function execs(sandbox) {
  step("execs");
  const cat = await sandbox.exec("cat", { stdinOpen: true });
  await Promise.all([cat.write("one\n"), cat.write("two\n"), cat.write(new TextEncoder().encode("three\n"))]);
  await cat.closeStdin();
  let read = "";
  for await (const { data } of cat.output()) read += text(data);
  assert.equal(read, "one\ntwo\nthree\n");
  assert.ok((await cat.wait()).ok);

  const typed = await sandbox.exec("cat", { stdinOpen: true });
  for (const number of numbers(60)) {
    if (number === "20") askToKill();
    await typed.write(`${number} ${"x".repeat(5_000)}\n`);
  }
  await typed.closeStdin();
  const copied = [];
  for await (const { data } of typed.output()) copied.push(data);
  const copy = await new Blob(copied).text();
  await restarted();
  assert.deepEqual(copy.trim().split("\n").map((line) => line.replace(/ x{5000}$/, "")), numbers(60));

  // Every silence is taken for the death of the connection.
  const nervous = await new Slipway(url, token, { silenceMs: 500 }).sandboxes.get(sandbox.id);
  const slow = await nervous.exec("echo one; sleep 1.5; echo two");
  let slowly = "";
  for await (const { data } of slow.output()) slowly += text(data);
  assert.equal(slowly, "one\ntwo\n");

  const counted = await sandbox.exec("trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done");
  const ready = await first(counted.output(), ({ data }) => text(data).includes("ready"));
  await counted.signal("INT");
  let rest = "";
  for await (const { data } of counted.output({ after: ready.cursor })) rest += text(data);
  assert.equal(rest, "interrupted\n");
  assert.equal((await counted.wait()).code, 5);

  const long = await sandbox.exec(counting(300));
  let lines = "";
  let killed = false;
  let cursor = 0;
  for await (const { data, cursor: at, lost } of long.output()) {
    assert.ok(at > cursor && lost === 0);
    cursor = at;
    lines += text(data);
    if (!killed && lines.includes("50\n")) {
      killed = true;
      askToKill();
    }
  }
  await restarted();
  assert.deepEqual(lines.trim().split("\n"), numbers(300));
  assert.ok(killed && (await long.wait()).ok);
  await first(sandbox.execs(), (exec) => exec.id === long.id);
}

async function files(sandbox) {
  step("files");
  const { files } = sandbox;
  const written = await files.write("workspace/app/größe & co.txt", "über\n", { mode: "0600" });
  assert.equal(written.mode, "0600");
  assert.equal(await files.readText("workspace/app/größe & co.txt"), "über\n");
  await files.write("workspace/app/größe & co.txt", "more\n", { append: true });
  const stale = files.write("workspace/app/größe & co.txt", "x", { ifMatch: written.etag });
  await refused(stale, sdk.ConflictError, "precondition_failed");
  await refused(files.write("workspace/app/größe & co.txt", "x", { create: true }), sdk.ConflictError, "precondition_failed");
  assert.equal(await files.exists("workspace/app/none"), false);
  await refused(files.read("workspace/app/none"), sdk.NotFoundError, "not_found");
  await files.mkdir("workspace/app/tree/deep");
  assert.equal(await files.writeMany([{ path: "workspace/app/tree/a.txt", content: "needle" }, { path: "workspace/app/tree/deep/b.txt", content: "hay" }]), 2);
  await files.copy("workspace/app/tree/a.txt", "workspace/app/tree/c.txt");
  await files.move("workspace/app/tree/c.txt", "workspace/app/tree/deep/c.txt");
  const names = (await files.list("workspace/app/tree", { recursive: true }).all()).map((file) => file.path);
  assert.deepEqual(names.sort(), ["a.txt", "deep", "deep/b.txt", "deep/c.txt"].map((name) => `workspace/app/tree/${name}`));
  const found = await files.search("workspace/app", { content: "needle" });
  assert.equal(found.items.length, 2);
  await files.write(new Uint8Array([0xff, 0x31]), "not UTF-8");
  assert.equal(text(await files.read(new Uint8Array([0xff, 0x31]))), "not UTF-8");

  const watch = files.watch("workspace/app/tree", { recursive: true });
  assert.equal((await watch.next()).value.kind, "ready");
  await files.write("workspace/app/tree/new.txt", "new");
  await first(watch, (change) => change.kind === "created" && change.path.endsWith("new.txt"));

  const archive = await files.archive("workspace/app/tree", { format: "tar.gz" });
  const packed = new Uint8Array(await new Response(archive).arrayBuffer());
  assert.ok((await files.unpack("workspace/copy", packed, { format: "tar.gz" })).files >= 4);
  assert.equal(await files.readText("workspace/copy/a.txt"), "needle");
  const link = await files.link({ method: "GET", path: "workspace/copy/a.txt", ttl: "1m" });
  assert.equal(await (await fetch(link.url)).text(), "needle");
  await files.revokeLink(link.id);
  await files.remove("workspace/copy", { recursive: true });
  assert.equal(await files.exists("workspace/copy"), false);
  const streamed = await files.readStream("workspace/app/tree/a.txt");
  assert.equal(await new Response(streamed).text(), "needle");
}

async function snapshots(sandbox) {
  step("snapshots");
  await sandbox.files.write("workspace/state.txt", "before");
  const snapshot = await sandbox.snapshots.create({ name: "before-ts" });
  await sandbox.files.write("workspace/state.txt", "after");
  assert.equal((await snapshot.verify()).intact, true);
  await first(sandbox.snapshots.list(), (view) => view.id === snapshot.id);
  const fork = await snapshot.fork({ name: "fork-ts" });
  assert.equal(await fork.files.readText("workspace/state.txt"), "before");
  await fork.delete();
  await snapshot.restore();
  assert.equal(await sandbox.files.readText("workspace/state.txt"), "before");
  await (await slipway.snapshots.get(snapshot.id)).delete();
  await refused(slipway.snapshots.get(snapshot.id), sdk.NotFoundError, "not_found");
}

async function services(sandbox) {
  step("services");
  await sandbox.services.replace([{ name: "web", command: "echo serving; exec python3 -m http.server 3000", port: 3000 }]);
  await until(async () => (await sandbox.services.list().all()).some((each) => each.name === "web" && each.state === "ready"));
  await first(sandbox.services.logs("web", { follow: true }), ({ data }) => text(data).includes("serving"));
  assert.ok((await sandbox.previews.url(3000)).includes(`${sandbox.id}-3000`));
  const link = await sandbox.previews.link({ port: 3000, ttl: "1m" });
  assert.ok(link.url.includes("slipway_pass="));
  await first(sandbox.previews.links(), (each) => each.id === link.id);
  await sandbox.previews.revokeLink(link.id);
  assert.ok((await sandbox.services.restart("web")).name === "web");
  assert.ok((await sandbox.services.stop("web")).name === "web");
}

async function tasks(sandbox) {
  step("tasks");
  const task = await sandbox.tasks.submit({ prompt: "count", command: ["sh", "-c", `${counting(200)}; echo made >made.txt`] });
  const said = [];
  const seqs = [];
  let done;
  for await (const event of task.events()) {
    seqs.push(event.seq);
    if (event.kind === "message") said.push(event.text);
    if (event.kind === "done") done = event.result;
    if (said.length === 50 && event.kind === "message") askToKill();
  }
  await restarted();
  assert.deepEqual(said, numbers(200));
  assert.deepEqual(seqs, [...new Set(seqs)].sort((one, two) => one - two));
  assert.equal(done.status, "succeeded");
  assert.deepEqual(await task.result(), (await sandbox.tasks.get(task.id)).view.result);
  const again = [];
  for await (const event of task.events({ since: seqs.at(-3) })) again.push(event.seq);
  assert.deepEqual(again, seqs.slice(-2));
  for await (const _ of task.events({ since: seqs.at(-1) })) assert.fail("nothing follows the end");

  const changed = [];
  for await (const file of task.changes()) changed.push(file.path);
  assert.deepEqual(changed, ["made.txt"]);
  assert.equal((await task.revert()).counts.deleted, 1);
  assert.equal(await sandbox.files.exists("workspace/app/made.txt"), false);
  const endless = await sandbox.tasks.submit({ command: ["sleep", "600"] });
  await first(endless.events(), (event) => event.kind === "status" && event.phase === "agent");
  await endless.cancel();
  assert.equal((await endless.result()).status, "cancelled");
  await first(sandbox.tasks.list(), (each) => each.id === endless.id);

  // The agent asks whether it may do something.
  await sandbox.files.write("workspace/app/acp.py", readFileSync(TEST_AGENT));
  const tool = { toolCallId: "c", title: "a tool", kind: "execute", rawInput: { command: "make" } };
  const prompt = JSON.stringify([["permission", tool], ["say", "so be it"]]);
  const asking = await sandbox.tasks.submit({ prompt, agent: "asking", briefing: "", permissions: { default: "ask" } });
  const decided = [];
  for await (const event of asking.events({ kind: ["permission", "done"] })) {
    if (event.kind !== "permission") continue;
    decided.push([event.state, event.about.title, event.by]);
    if (event.state !== "asked") continue;
    await refused(asking.answer("p9", "allow"), sdk.NotFoundError, "not_found");
    await asking.answer(event.id, "allow");
  }
  assert.deepEqual(decided, [["asked", "a tool", undefined], ["allowed", "a tool", "caller"]]);
  assert.equal((await asking.result()).status, "succeeded");
  await refused(asking.answer("p1", "deny"), sdk.NotFoundError, "not_found");
}

async function terminals(sandbox) {
  step("terminals");
  const terminal = await sandbox.terminal(["bash", "--norc"], { cols: 100, rows: 30, env: { PS1: "" } });
  let screen = "";
  const reads = async (viewer, sign) => {
    for await (const bytes of viewer.output()) {
      screen += text(bytes);
      if (screen.includes(sign)) break;
    }
  };
  await terminal.write("stty -echo; stty size; echo mark$((40+2))\n");
  await reads(terminal, "mark42");
  assert.match(screen, /30 100/);
  await terminal.resize(90, 20);
  const left = [];
  const leaving = (async () => {
    for await (const bytes of terminal.output()) left.push(bytes);
  })();
  terminal.detach();
  await leaving;
  assert.deepEqual(left, [], "who has left sees nothing");

  screen = "";
  const back = sandbox.attachTerminal(terminal.id, { after: terminal.position });
  await back.write(`${counting(200)}; stty size; exit 7\n`);
  let killed = false;
  for await (const bytes of back.output()) {
    screen += text(bytes);
    if (!killed && screen.includes("50\r\n")) {
      killed = true;
      askToKill();
    }
  }
  await restarted();
  const lines = screen.trim().split("\r\n").filter((line) => line !== "");
  assert.deepEqual(lines.slice(lines.indexOf("1")), [...numbers(200), "20 90", "exit"].slice(0, lines.length));
  assert.ok(killed && back.exit.kind === "exited" && back.exit.code === 7, inspect(back.exit));
}

async function quietAndLoudTerminals(sandbox) {
  step("quiet and loud terminals");
  const nervous = await new Slipway(url, token, { silenceMs: 500 }).sandboxes.get(sandbox.id);
  const quiet = await nervous.terminal(["sh", "-c", "echo one; sleep 1.5; echo two; exit 6"]);
  let screen = "";
  for await (const bytes of quiet.output()) screen += text(bytes);
  assert.deepEqual([screen, quiet.exit], ["one\r\ntwo\r\n", { kind: "exited", code: 6 }]);

  // More than is kept for a viewer that does not read.
  const loud = await sandbox.terminal("head -c 12000000 /dev/zero | tr '\\0' x");
  let bytes = 0;
  for await (const part of loud.output()) {
    if (bytes === 0) await new Promise((resolve) => setTimeout(resolve, 500));
    bytes += part.length;
    assert.ok(part.every((byte) => byte === 120));
  }
  assert.equal(bytes, 12_000_000);
}

async function events(sandbox) {
  step("events");
  const created = await first(sandbox.events({ since: 0, kind: "sandbox." }), (event) => event.kind === "sandbox.created");
  assert.equal(created.data.name, "sdk-ts");
  const all = slipway.events({ sandbox: sandbox.id, since: created.seq, kind: ["exec.ended"] });
  const ended = await first(all, (event) => event.kind === "exec.ended");
  assert.equal(ended.data.exit.kind, "exited");
  const leaving = new AbortController();
  const waiting = sandbox.events({ kind: "none.such", signal: leaving.signal }).next();
  leaving.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
}

async function errors(sandbox) {
  step("errors");
  await refused(new Slipway(url, "slw_wrong").sandboxes.get(sandbox.id), sdk.AuthenticationError, "unauthorized");
  const foreign = await refused(new Slipway(url, OTHER_TOKEN).sandboxes.get(sandbox.id), sdk.NotFoundError, "not_found");
  assert.equal(foreign.detail.missing.kind, "sandbox");
  await refused(new Slipway(url, OTHER_TOKEN).sandboxes.create({ ports: [0] }), sdk.InvalidRequestError, "invalid_request");
  const stream = new Slipway(url, OTHER_TOKEN).events({ sandbox: sandbox.id });
  await refused(stream.next(), sdk.NotFoundError, "not_found");
  await refused(sandbox.attachTerminal("no-such").output().next(), sdk.NotFoundError, "not_found");
  await slipway.secrets.put("sdk-ts", { value: "a secret value" });
  await first(slipway.secrets.list(), (secret) => secret.name === "sdk-ts");
  await slipway.secrets.delete("sdk-ts");
  assert.ok(!inspect(slipway, { depth: 9, showHidden: true }).includes(token), "the client shows its token");
  assert.ok(!JSON.stringify(slipway).includes(token));
}

const sandbox = await sandboxes();
for (const part of [commands, execs, files, snapshots, services, tasks, terminals, quietAndLoudTerminals, events, errors]) await part(sandbox);
assert.equal((await sandbox.delete()).status, "destroyed");
input.close();
console.log("done");
