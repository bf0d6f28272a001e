// E2B's code interpreter by its package for Node.js: state, output, charts, errors, contexts.

const assert = require("node:assert/strict");
const { Sandbox } = require("@e2b/code-interpreter");

async function main() {
  const sandbox = await Sandbox.create();
  try {
    assert.equal((await sandbox.runCode("x = 20\nx + 1")).text, "21");
    assert.equal((await sandbox.runCode("x + 2")).text, "22");

    const printed = [];
    await sandbox.runCode("for i in range(3): print(i)", { onStdout: (message) => printed.push(message.line) });
    assert.equal(printed.join(""), "0\n1\n2\n");

    const drawn = await sandbox.runCode("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()");
    assert.equal(Buffer.from(drawn.results[0].png, "base64").subarray(1, 4).toString(), "PNG");

    const { error } = await sandbox.runCode("1 / 0");
    assert.deepEqual([error.name, error.value], ["ZeroDivisionError", "division by zero"]);
    assert.match(error.traceback, /ZeroDivisionError/);

    const context = await sandbox.createCodeContext({ cwd: "/tmp" });
    assert.equal((await sandbox.runCode("import os; os.getcwd()", { context })).text, "'/tmp'");
    assert.equal((await sandbox.runCode("x", { context })).error.name, "NameError");
  } finally {
    await sandbox.kill();
  }
  console.log("passed");
}

main();
