// ComputeSDK's provider for E2B does what its public leaderboard measures: creates a sandbox and runs `node -v` in it,
// one after another, started 200 ms apart, and all at once. Takes the number of sandboxes of each, and prints
// percentiles of the time to the output in milliseconds.

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
const { e2b } = require("@computesdk/e2b");

const STAGGER_MS = 200;
const provider = e2b({ apiKey: process.env.E2B_API_KEY });
const count = Number(process.argv[2]);

async function timeToOutput() {
  const started = performance.now();
  const sandbox = await provider.sandbox.create();
  const ran = await sandbox.runCommand("node -v");
  const took = performance.now() - started;
  assert.equal(ran.exitCode, 0, ran.stderr);
  assert.match(ran.stdout, /^v\d+\./);
  return { took, id: sandbox.sandboxId };
}

async function measure(name, all) {
  const done = await all();
  const listed = (await provider.sandbox.list()).map((each) => each.sandboxId);
  for (const { id } of done) assert(listed.includes(id), `${id} is not listed`);
  await Promise.all(done.map(({ id }) => provider.sandbox.destroy(id)));
  const took = done.map((each) => each.took).sort((one, other) => one - other);
  const percentile = (share) => took[Math.min(took.length - 1, Math.floor(took.length * share))];
  console.log(JSON.stringify({ name, p50_ms: percentile(0.5), p99_ms: percentile(0.99) }));
}

const each = () => Array.from({ length: count });

async function main() {
  await measure("sequential", async () => {
    const done = [];
    for (const _ of each()) done.push(await timeToOutput());
    return done;
  });
  await measure("staggered", () => Promise.all(each().map((_, number) => sleep(number * STAGGER_MS).then(timeToOutput))));
  await measure("burst", () => Promise.all(each().map(timeToOutput)));
  assert.deepEqual(await provider.sandbox.list(), []);
}

main();
