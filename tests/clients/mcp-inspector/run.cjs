// The inspector's command line, with the arguments of this script.
const { spawnSync } = require("node:child_process");
const { join } = require("node:path");

const inspector = join(process.env.NODE_PATH, "@modelcontextprotocol/inspector/clients/launcher/build/index.js");
const { status } = spawnSync(process.execPath, [inspector, "--cli", ...process.argv.slice(2)], {
  stdio: ["ignore", "inherit", "inherit"],
});
process.exit(status ?? 1);
