// ComputeSDK's provider for E2B: creates, runs what its public leaderboard measures, and destroys.

const assert = require("node:assert/strict");
const { e2b } = require("@computesdk/e2b");

async function main() {
  const provider = e2b({ apiKey: process.env.E2B_API_KEY });
  const sandbox = await provider.sandbox.create();
  const listed = await provider.sandbox.list();
  assert(listed.some((each) => each.sandboxId === sandbox.sandboxId), "it is listed");
  const ran = await sandbox.runCommand("node -v");
  assert.equal(ran.exitCode, 0, ran.stderr);
  assert.match(ran.stdout, /^v\d+\./);
  await provider.sandbox.destroy(sandbox.sandboxId);
  const left = await provider.sandbox.list();
  assert.deepEqual(left.map((each) => each.sandboxId), []);
}

main();
