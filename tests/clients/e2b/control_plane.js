// Everything that the control plane alone can do, with the package e2b as it is installed.
// The first output line is a sandbox that is left paused, the second one that is left running.

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
const { AuthenticationError, NotFoundError, Sandbox } = require("e2b");

const PATIENCE_MS = 60_000;
const UNKNOWN = "01jb9xyzabcdefghjkmnpqrstv";

async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await look())) {
    assert(Date.now() < end, `timed out: ${what}`);
    await sleep(20);
  }
}

async function pages(options) {
  const paginator = Sandbox.list(options);
  const found = [];
  while (paginator.hasNext) found.push((await paginator.nextItems()).map((info) => info.sandboxId));
  return found;
}

const state = async (id) => (await Sandbox.getInfo(id)).state;
const isGone = (id) => state(id).then(() => false, (error) => {
  assert(error instanceof NotFoundError, error);
  return true;
});

async function createAndLook() {
  const metadata = { kind: "a b", mark: "ü&=+%" };
  const sandbox = await Sandbox.create({ timeoutMs: 600_000, metadata, envs: { NAME: "value" } });
  const info = await sandbox.getInfo();
  assert.equal(info.templateId, "base");
  assert.deepEqual(info.metadata, metadata);
  assert.equal(info.state, "running");
  const left = info.endAt - info.startedAt;
  assert(590_000 < left && left < 700_000, String(left));
  assert.match(sandbox.getHost(3000), new RegExp(`^3000-${sandbox.sandboxId}\\.`));
  assert.deepEqual(await pages({ query: { metadata } }), [[sandbox.sandboxId]]);
  const short = await Sandbox.create();
  assert.equal(await short.kill(), true);
  assert.equal(await Sandbox.kill(short.sandboxId), false);
  return sandbox;
}

async function listInPages() {
  const made = [];
  for (let number = 0; number < 3; number += 1) {
    made.push(await Sandbox.create({ timeoutMs: 600_000, metadata: { kind: "listed" } }));
  }
  const ids = made.map((sandbox) => sandbox.sandboxId).reverse();
  const query = { metadata: { kind: "listed" } };
  assert.deepEqual(await pages({ query, limit: 2 }), [ids.slice(0, 2), ids.slice(2)]);
  assert.deepEqual(await pages({ query, limit: 2, order: "asc" }), [ids.toReversed().slice(0, 2), [ids[0]]]);
  await made[0].pause();
  assert.deepEqual(await pages({ query: { ...query, state: ["paused"] } }), [[made[0].sandboxId]]);
  assert.deepEqual(await pages({ query: { ...query, state: ["running", "paused"] } }), [ids]);
  assert.deepEqual(await pages({ query: { ...query, template: "base" } }), [ids]);
  assert.deepEqual(await pages({ query: { ...query, startedAfter: new Date(Date.now() + 86_400_000) } }), [[]]);
  for (const sandbox of made) assert.equal(await sandbox.kill(), true);
}

async function expire() {
  const killed = await Sandbox.create({ timeoutMs: 600_000 });
  await killed.setTimeout(1_000);
  await until("its timeout kills it", () => isGone(killed.sandboxId));
  await assert.rejects(killed.setTimeout(10_000), NotFoundError);
  for (const [onTimeout, mode] of [["pause", "full"], [{ action: "pause", keepMemory: false }, "filesystem"]]) {
    const kept = await Sandbox.create({ timeoutMs: 600_000, lifecycle: { onTimeout } });
    await kept.setTimeout(1_000);
    await until(`its timeout pauses it: ${mode}`, async () => (await state(kept.sandboxId)) === "paused");
    const again = await Sandbox.connect(kept.sandboxId, { timeoutMs: 600_000 });
    assert.equal(await state(again.sandboxId), "running");
    assert.equal(await again.kill(), true);
  }
}

async function pauseAndConnect(sandbox) {
  assert.equal(await sandbox.pause(), true);
  assert.equal(await state(sandbox.sandboxId), "paused");
  assert.equal(await sandbox.pause(), false);
  const again = await Sandbox.connect(sandbox.sandboxId);
  assert.equal(await state(sandbox.sandboxId), "running");
  assert.equal(await again.pause({ keepMemory: false }), true);
  assert.equal(await state(sandbox.sandboxId), "paused");
  await again.connect({ timeoutMs: 600_000 });
  assert.equal(await state(sandbox.sandboxId), "running");
  const metrics = await again.getMetrics();
  assert(metrics.length === 1 && metrics[0].memTotal > 0, JSON.stringify(metrics));
}

async function snapshotsAndForks(sandbox) {
  const taken = await sandbox.createSnapshot({ name: "made by npm" });
  const listed = await sandbox.listSnapshots().nextItems();
  assert.deepEqual(listed.map((each) => each.snapshotId), [taken.snapshotId]);
  const made = await Sandbox.create(taken.snapshotId, { timeoutMs: 600_000 });
  assert.equal((await made.getInfo()).templateId, taken.snapshotId);
  assert.equal(await made.kill(), true);
  assert.equal(await Sandbox.deleteSnapshot(taken.snapshotId), true);
  assert.equal(await Sandbox.deleteSnapshot(taken.snapshotId), false);
  const forks = await sandbox.fork({ count: 2 });
  for (const fork of forks) assert.equal(await fork.kill(), true);
}

async function refuse() {
  await assert.rejects(Sandbox.create({ apiKey: "e2b_00" }), AuthenticationError);
  for (const unknown of [UNKNOWN, "nonsense"]) {
    await assert.rejects(Sandbox.connect(unknown), NotFoundError);
    await assert.rejects(Sandbox.setTimeout(unknown, 1_000), NotFoundError);
    assert.equal(await Sandbox.kill(unknown), false);
  }
  await assert.rejects(Sandbox.create("no-such-template"), /404.*'no-such-template' not found: use base/);
  await assert.rejects(Sandbox.create({ volumeMounts: { "/data": "volume" } }), /400.*volumeMounts/);
}

async function main() {
  const sandbox = await createAndLook();
  await listInPages();
  await expire();
  await pauseAndConnect(sandbox);
  await sandbox.updateNetwork({ denyOut: ["0.0.0.0/0"], allowOut: ["example.com"] });
  assert.deepEqual((await sandbox.getInfo()).network?.denyOut, ["0.0.0.0/0"]);
  await snapshotsAndForks(sandbox);
  await refuse();
  const other = await Sandbox.create({ timeoutMs: 600_000 });
  await other.pause();
  console.log(other.sandboxId);
  console.log(sandbox.sandboxId);
}

main();
