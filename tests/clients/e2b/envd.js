// The data plane by the npm package e2b: commands, PTYs, files, watches.
// The environment names the sandbox: ENVD_URL, ENVD_SANDBOX, ENVD_TOKEN.
'use strict'

const assert = require('node:assert/strict')
const { Sandbox, CommandExitError, NotFoundError, InvalidArgumentError, TimeoutError, AuthenticationError } = require('e2b')

function open(token) {
  return new Sandbox({
    sandboxId: process.env.ENVD_SANDBOX,
    envdVersion: '0.6.4',
    envdAccessToken: token,
    sandboxUrl: process.env.ENVD_URL,
    apiKey: 'e2b_00',
  })
}

/** A promise and the function that settles it. */
function signal() {
  let settle
  const settled = new Promise((resolve) => { settle = resolve })
  return { settle, settled }
}

const scenarios = {
  async commands(sandbox) {
    const done = await sandbox.commands.run('echo out; echo err >&2; pwd')
    assert.equal(done.stdout, 'out\n/home/user\n')
    assert.equal(done.stderr, 'err\n')
    await assert.rejects(sandbox.commands.run('exit 7'), (error) => error instanceof CommandExitError && error.exitCode === 7)
    assert.equal((await sandbox.commands.run('echo $A', { envs: { A: 'ü b' } })).stdout, 'ü b\n')
    await assert.rejects(sandbox.commands.run('id', { user: 'root' }), /root/)
    await assert.rejects(sandbox.commands.run('sleep 1000', { timeoutMs: 1500 }), TimeoutError)
  },

  async background(sandbox) {
    const first = signal()
    const handle = await sandbox.commands.run('echo first; read line; echo got $line', {
      background: true,
      stdin: true,
      onStdout: first.settle,
    })
    assert.equal(await first.settled, 'first\n')
    assert.ok((await sandbox.commands.list()).some((found) => found.pid === handle.pid))
    await handle.disconnect()
    await sandbox.commands.sendStdin(handle.pid, 'hello\n')
    const again = await sandbox.commands.connect(handle.pid)
    const done = await again.wait()
    assert.equal(done.stdout, 'first\ngot hello\n')
    const sleeper = await sandbox.commands.run('sleep 1000', { background: true })
    assert.equal(await sleeper.kill(), true)
    await assert.rejects(sleeper.wait(), CommandExitError)
    assert.equal(await sandbox.commands.kill(sleeper.pid), false)
    await assert.rejects(sandbox.commands.connect(4_000_000), NotFoundError)
  },

  async bigOutput(sandbox) {
    let bytes = 0
    const done = await sandbox.commands.run('seq -f %09.0f 0 999999', { onStdout: (text) => { bytes += text.length } })
    assert.equal(bytes, 10_000_000)
    assert.ok(done.stdout.endsWith('000999998\n000999999\n'))
  },

  async pty(sandbox) {
    const done = signal()
    let seen = ''
    const terminal = await sandbox.pty.create({
      rows: 30,
      cols: 100,
      onData: (data) => {
        seen += Buffer.from(data).toString()
        if (seen.includes('40 120')) done.settle()
      },
    })
    await sandbox.pty.resize(terminal.pid, { rows: 40, cols: 120 })
    await sandbox.pty.sendInput(terminal.pid, Buffer.from('stty size\n'))
    await done.settled
    assert.equal(await sandbox.pty.kill(terminal.pid), true)
  },

  async files(sandbox) {
    const written = await sandbox.files.write('/home/user/x', 'text')
    assert.equal(written.path, '/home/user/x')
    assert.equal(await sandbox.files.read('x'), 'text')
    const binary = Uint8Array.from({ length: 1000 }, (_, at) => at % 256)
    await sandbox.files.write('binary', binary.buffer)
    assert.deepEqual(await sandbox.files.read('binary', { format: 'bytes' }), binary)
    for (const name of ['a b', 'ü 漢', 'a&b=?#%20', 'quo"te', "quo'te"]) {
      await sandbox.files.write(`odd/${name}`, name)
      assert.equal(await sandbox.files.read(`odd/${name}`), name)
    }
    const several = [{ path: 'many/1', data: '1' }, { path: 'many/2', data: '2' }]
    assert.equal((await sandbox.files.write(several)).length, 2)
    assert.deepEqual((await sandbox.files.list('many')).map((entry) => entry.name), ['1', '2'])
    const info = await sandbox.files.getInfo('many/1')
    assert.equal(info.size, 1)
    assert.equal(info.owner, 'user')
    assert.ok(info.modifiedTime instanceof Date)
    await sandbox.files.rename('many/1', 'many/3')
    assert.equal(await sandbox.files.exists('many/1'), false)
    assert.equal(await sandbox.files.makeDir('many'), false)
    await sandbox.files.remove('many')
    await assert.rejects(sandbox.files.read('many/3'), NotFoundError)
    await assert.rejects(sandbox.files.read('odd'), InvalidArgumentError)
    const big = Buffer.alloc(20 << 20, 'x')
    await sandbox.files.write('big', new Blob([big]))
    assert.equal((await sandbox.files.read('big', { format: 'bytes' })).length, big.length)
  },

  async watch(sandbox) {
    await sandbox.files.makeDir('watched-js')
    const created = signal()
    const handle = await sandbox.files.watchDir('watched-js', (event) => {
      if (event.type === 'create' && event.name === 'sub/new') created.settle(event)
    }, { recursive: true, includeEntry: true })
    await sandbox.files.write('watched-js/sub/new', '123')
    const event = await created.settled
    assert.equal(event.entry === undefined || event.entry.path === '/home/user/watched-js/sub/new', true)
    await handle.stop()
    await assert.rejects(sandbox.files.watchDir('missing', () => {}), NotFoundError)
  },

  async health(sandbox) {
    assert.equal(await sandbox.isRunning(), true)
    await assert.rejects(open('wrong').commands.run('true'), AuthenticationError)
  },
}

async function main() {
  const sandbox = open(process.env.ENVD_TOKEN)
  for (const [name, scenario] of Object.entries(scenarios)) {
    const started = Date.now()
    await scenario(sandbox)
    console.error(`ok ${name} ${Date.now() - started} ms`)
  }
  console.log('done')
}

main().then(() => process.exit(0), (error) => {
  console.error(error)
  process.exit(1)
})
