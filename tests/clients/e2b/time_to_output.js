// The time from a create to the output of `node -v`, by ComputeSDK's provider for E2B and by Slipway's own package, in
// turns: one after another, and all at once. Takes the numbers of samples, of rounds at once, and of sandboxes at
// once, and prints the samples in milliseconds. Fails if one sandbox does.

const assert = require("node:assert/strict");
const { pathToFileURL } = require("node:url");
const { e2b } = require("@computesdk/e2b");

const [samples, rounds, atOnce] = process.argv.slice(2).map(Number);

function stock() {
  const provider = e2b({ apiKey: process.env.E2B_API_KEY });
  return {
    create: () => provider.sandbox.create(),
    run: async (sandbox, line) => (await sandbox.runCommand(line)).stdout,
    remove: (sandbox) => provider.sandbox.destroy(sandbox.sandboxId),
  };
}

async function own() {
  const { Slipway } = await import(pathToFileURL(process.env.SLIPWAY_SDK));
  const { sandboxes } = new Slipway(process.env.E2B_API_URL, process.env.E2B_API_KEY);
  return {
    create: () => sandboxes.create({ idle_policy: "always_on", visibility: "public", ttl: "300s" }),
    run: async (sandbox, line) => (await sandbox.run(line)).stdout,
    remove: (sandbox) => sandbox.delete(),
  };
}

async function timeToOutput(client) {
  const started = performance.now();
  const sandbox = await client.create();
  const output = await client.run(sandbox, "node -v");
  const took = performance.now() - started;
  assert.match(output, /^v\d+\./);
  return { took, sandbox };
}

async function main() {
  const clients = { own: await own(), e2b: stock() };
  const took = { sequential: { own: [], e2b: [] }, burst: { own: [], e2b: [] } };
  // The first of each is slower than all others.
  for (const client of Object.values(clients)) await client.remove((await timeToOutput(client)).sandbox);
  for (let sample = 0; sample < samples; sample += 1) {
    for (const [name, client] of Object.entries(clients)) {
      const done = await timeToOutput(client);
      took.sequential[name].push(done.took);
      await client.remove(done.sandbox);
    }
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, client] of Object.entries(clients)) {
      const done = await Promise.all(Array.from({ length: atOnce }, () => timeToOutput(client)));
      took.burst[name].push(...done.map((each) => each.took));
      for (const { sandbox } of done) await client.remove(sandbox);
    }
  }
  console.log(JSON.stringify(took));
}

main();
