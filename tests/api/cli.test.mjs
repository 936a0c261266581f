// The command line as its users see it: texts, exit codes, the daemon's life, calls of the API.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { isAlive, until } from './lib/proc.mjs'
import { RELEASE, run, start, tempDir } from './lib/server.mjs'

const COMMANDS = [
  'server', 'host', 'daemon start', 'daemon stop', 'daemon status', 'opencode', 'install desktop', 'install-agent',
  'credentials extract', 'credentials extract-env', 'api agents list', 'api agents report', 'api agents install',
  'api acp post', 'api acp stream', 'api acp close', 'api health', 'mock-agent-process', 'docs cli', 'docs configuration',
]
const GROUPS = ['daemon', 'install', 'credentials', 'api', 'api agents', 'api acp']

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((done) => server.once('listening', done))
  const { port } = server.address()
  await new Promise((done) => server.close(done))
  return String(port)
}

// One clear line, perhaps with the usage behind it.
function assertError(seen, code, line) {
  assert.equal(seen.code, code, seen.err)
  assert.equal(seen.out, '')
  assert.equal(seen.err.split('\n')[0].replace(/ \(see 'sandbox-agent.*'\)$/, ''), `error: ${line}`)
}

test('every command and every group has help on stdout', async (t) => {
  const dataDir = tempDir(t)
  await Promise.all([...COMMANDS, ...GROUPS].map(async (name) => {
    for (const argv of [[...name.split(' '), '--help'], ['help', ...name.split(' ')], ['-h', ...name.split(' ')]]) {
      const seen = await run(t, argv, { dataDir })
      assert.equal(seen.code, 0, `${argv}: ${seen.err}`)
      assert.equal(seen.err, '')
      if (argv[0] === '-h') assert.match(seen.out, /^Usage: sandbox-agent \[OPTIONS\] <COMMAND>$/m)
      else assert.match(seen.out, new RegExp(`^Usage: sandbox-agent ${name} \\[OPTIONS\\]`, 'm'))
      assert.match(seen.out, /-t, --token <TOKEN>/)
    }
  }))
})

test('the top help lists the commands', async (t) => {
  const { out, code } = await run(t, ['--help'])
  assert.equal(code, 0)
  for (const word of ['server', 'host', 'daemon', 'opencode', 'install', 'install-agent', 'credentials', 'api'])
    assert.match(out, new RegExp(`^  ${word} +\\S`, 'm'))
  assert.doesNotMatch(out, /mock-agent-process|docs/)
})

test('version', async (t) => {
  for (const argv of [['-V'], ['--version'], ['daemon', '-V'], ['server', '--version']]) {
    const seen = await run(t, argv)
    assert.equal(seen.code, 0)
    assert.match(seen.out, /^sandbox-agent \d+\.\d+\.\d+\n$/)
  }
})

test('without a subcommand: help on stderr, exit 2', async (t) => {
  for (const argv of [[], ['daemon'], ['api'], ['-n']]) {
    const seen = await run(t, argv)
    assert.equal(seen.code, 2)
    assert.equal(seen.out, '')
    assert.match(seen.err, /^Usage: sandbox-agent/m)
  }
})

test('a wrong call is one clear line with the usage, exit 2', async (t) => {
  const cases = [
    [['server', '--bogus'], "unexpected argument '--bogus' found"],
    [['--bogus'], "unexpected argument '--bogus' found"],
    [['server', '-Z'], "unexpected argument '-Z' found"],
    [['server', 'word'], "unexpected argument 'word' found"],
    [['nope'], "unrecognized subcommand 'nope'"],
    [['daemon', 'nope'], "unrecognized subcommand 'nope'"],
    [['server', '--port'], "a value is required for '--port <PORT>' but none was supplied"],
    [['server', '--port', 'x'], "invalid value 'x' for '--port <PORT>': expected a whole number"],
    [['server', '-p65536'], "invalid value '65536' for '--port <PORT>': 65536 is not in 0..65535"],
    [['server', '--role', 'king'], "invalid value 'king' for '--role <ROLE>': expected both, guest or host"],
    [['api', 'agents', 'install'], 'the following required arguments were not provided: <AGENT>'],
    [['api', 'health', '-e', 'localhost'], "invalid endpoint 'localhost': expected http://host:port, https://… or unix:/path"],
  ]
  for (const [argv, line] of cases) {
    const seen = await run(t, argv)
    assertError(seen, 2, line)
    assert.match(seen.err, /^[^\n]+ \(see 'sandbox-agent[a-z -]* --help'\)\n$/, 'one line that says where help is')
  }
})

test('commands of later versions say so in one line, exit 1', async (t) => {
  const cases = [
    ['opencode'], ['install', 'desktop'], ['install-agent', 'claude'], ['credentials', 'extract'],
    ['credentials', 'extract-env'], ['mock-agent-process'], ['-t', 'x', 'install-agent', '--all'],
  ]
  for (const argv of cases) {
    const seen = await run(t, argv)
    const name = argv.filter((word) => !/^-|^x$|^claude$/.test(word)).join(' ')
    assertError(seen, 1, `'${name}' is not available in this version`)
    assert.equal(seen.err.split('\n').length, 2)
  }
})

test('port in use: one clear line, exit 1', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  await new Promise((done) => taken.once('listening', done))
  t.after(() => taken.close())
  const seen = await run(t, ['server', '-p', String(taken.address().port)])
  assert.equal(seen.code, 1)
  assert.match(seen.err, /^error: .*in use\n$/i)
})

test('a directory that cannot be used: one clear line, exit 1', async (t) => {
  const dataDir = tempDir(t)
  const file = join(dataDir, 'file')
  writeFileSync(file, '')
  for (const argv of [['server', '-p', '0', '--data-dir', join(file, 'x')], ['daemon', 'status']]) {
    const seen = await run(t, argv, { dataDir, env: argv[0] === 'daemon' ? { XDG_DATA_HOME: file } : {} })
    assert.equal(seen.code, 1, seen.err)
    assert.match(seen.err, /^error: .*not a directory\n$/i)
  }
})

test('configuration: file, environment and flag, the later one wins', async (t) => {
  const dataDir = tempDir(t)
  mkdirSync(join(dataDir, 'config/sandbox-agent'), { recursive: true })
  const config = join(dataDir, 'config/sandbox-agent/config')
  const port = await freePort()

  writeFileSync(config, `# ours\nport = nonsense\n`)
  assertError(await run(t, ['server'], { dataDir }), 2,
              `${config}:2: invalid value 'nonsense' for 'port': expected a whole number`)
  writeFileSync(config, `port = ${port}\nprot = 1\n`)
  assertError(await run(t, ['server'], { dataDir }), 2, `${config}:2: unknown option 'prot'`)
  // Names of other commands are fine everywhere; help needs no file at all.
  writeFileSync(config, `port = ${port}\nendpoint = http://127.0.0.1:${port}\nlog-level = warn\n`)
  const server = await start(t, { bin: RELEASE, dataDir, host: null })
  assert.equal(server.port, Number(port))
  assert.equal((await run(t, ['api', 'health'], { dataDir })).code, 0)
  const elsewhere = await run(t, ['api', 'health'], { dataDir, env: { SANDBOX_AGENT_ENDPOINT: 'http://127.0.0.1:1' } })
  assert.equal(elsewhere.code, 1)
  const back = await run(t, ['api', 'health', '-e', server.url], { dataDir, env: { SANDBOX_AGENT_ENDPOINT: 'http://127.0.0.1:1' } })
  assert.equal(back.code, 0)
  assertError(await run(t, ['server', '--config', '/nowhere/config'], { dataDir }), 1,
              "configuration: open '/nowhere/config': No such file or directory")
  writeFileSync(config, 'port 1\n')
  assert.equal((await run(t, ['server', '--help'], { dataDir })).code, 0)
})

test('api health prints sorted JSON, with and without a token', async (t) => {
  const open = await start(t, { bin: RELEASE })
  for (const argv of [['api', 'health', '-e', open.url], ['api', 'health', `--endpoint=${open.url}/`], ['api', 'health', `-e${open.url}`]]) {
    const seen = await run(t, argv)
    assert.equal(seen.code, 0, seen.err)
    const body = JSON.parse(seen.out)
    assert.equal(body.status, 'ok')
    assert.equal(seen.out, JSON.stringify(body, Object.keys(body).sort(), 2) + '\n')
    assert.equal(seen.err, '')
  }

  const closed = await start(t, { bin: RELEASE, args: ['--token', 'secret'] })
  const without = await run(t, ['api', 'health', '-e', closed.url])
  assert.equal(without.code, 1)
  assert.equal(without.out, '')
  const [, problem, last] = /^(\{[\s\S]*\}\n)(error: .*\n)$/.exec(without.err)
  assert.equal(JSON.parse(problem).status, 401)
  assert.match(problem, /^\{\n {2}"/)
  assert.equal(last, 'error: unexpected http status: 401 Unauthorized\n')
  for (const [argv, env] of [
    [['-t', 'secret', 'api', 'health'], {}],
    [['api', '--token=secret', 'health'], {}],
    [['api', 'health', '-tsecret'], {}],
    [['api', 'health'], { SANDBOX_AGENT_TOKEN: 'secret' }],
  ])
    assert.equal((await run(t, [...argv, '-e', closed.url], { env })).code, 0, argv.join(' '))
  assert.equal((await run(t, ['-t', 'wrong', 'api', 'health', '-e', closed.url])).code, 1)
})

test('api speaks over a unix socket', async (t) => {
  const dataDir = tempDir(t)
  const path = join(dataDir, 's.sock')
  await start(t, { bin: RELEASE, dataDir, host: null, args: ['--unix-socket', path] })
  const seen = await run(t, ['api', 'health', '-e', `unix:${path}`])
  assert.equal(seen.code, 0, seen.err)
  assert.equal(JSON.parse(seen.out).status, 'ok')
})

test('api prints other types as they are', async (t) => {
  const server = await start(t, { bin: RELEASE })
  const seen = await run(t, ['api', 'metrics', '-e', server.url])
  assert.equal(seen.code, 0, seen.err)
  assert.match(seen.out, /^# HELP /m)
})

test('api without a server: one line, exit 1', async (t) => {
  const port = await freePort()
  const seen = await run(t, ['api', 'health', '-e', `http://127.0.0.1:${port}`])
  assert.equal(seen.code, 1)
  assert.match(seen.err, new RegExp(`^error: GET http://127.0.0.1:${port}/v1/health: .*refused\\n$`, 'i'))
})

test('a token is seen neither in the arguments nor in the environment of the server', async (t) => {
  for (const [args, env] of [[['--token', 'hunter2'], {}], [['-thunter2'], {}], [[], { SANDBOX_AGENT_TOKEN: 'hunter2' }]]) {
    const server = await start(t, { bin: RELEASE, args, env })
    assert.doesNotMatch(readFileSync(`/proc/${server.pid}/cmdline`, 'utf8'), /hunter2/)
    assert.doesNotMatch(readFileSync(`/proc/${server.pid}/environ`, 'utf8'), /hunter2/)
    assert.equal((await run(t, ['-t', 'hunter2', 'api', 'health', '-e', server.url])).code, 0)
  }
})

// ---- daemon ----

async function daemonPlace(t) {
  const dataDir = tempDir() // goes when the file ends: the daemon must be stopped first
  const port = await freePort()
  const files = (kind) => join(dataDir, 'sandbox-agent/daemon', `daemon-127-0-0-1-${port}.${kind}`)
  const place = { dataDir, port, url: `http://127.0.0.1:${port}`, log: files('log'), pid: files('pid'), version: files('version') }
  place.run = (argv, env) => run(t, ['daemon', ...argv, '-p', port], { dataDir, env })
  place.readPid = () => Number(readFileSync(place.pid, 'utf8'))
  t.after(async () => {
    assert.equal((await place.run(['stop'])).code, 0)
    assert.doesNotMatch(readFileSync(place.log, 'utf8'), /Sanitizer|runtime error:/)
  })
  return place
}

test('daemon: start, start again, status, upgrade, stop, stop again', async (t) => {
  const d = await daemonPlace(t)
  const said = async (argv, text, env) => {
    const seen = await d.run(argv, env)
    assert.equal(seen.code, 0, seen.err)
    assert.equal(seen.out, '')
    assert.match(seen.err, text)
    return seen
  }

  await said(['status'], /^Daemon not running\n$/)
  await said(['stop'], /^daemon is not running \(no PID file\)\n$/)
  const started = await said(['start'], /^starting daemon at /)
  const pid = d.readPid()
  assert.equal(started.err, `starting daemon at ${d.url} (logs: ${d.log})\ndaemon started (PID ${pid}, logs: ${d.log})\n`)
  assert.equal(readFileSync(d.pid, 'utf8'), String(pid))
  assert.ok(isAlive(pid))
  const build = readFileSync(d.version, 'utf8')
  assert.match(build, /^\d+\.\d+\.\d+-\d+$/)
  assert.equal(statSync(d.log).mode & 0o777, 0o600)

  const again = await said(['start'], /^daemon already running at /)
  assert.equal(again.err, `daemon already running at ${d.url}\n`)
  const status = await said(['status'], /^Daemon running/)
  assert.equal(status.err, `Daemon running (PID ${pid}, build ${build}, logs: ${d.log})\n`)
  const upgrade = await said(['start', '--upgrade'], /^checking daemon health/)
  assert.equal(upgrade.err, `checking daemon health at ${d.url} (token: unset)...\ndaemon already running at ${d.url} (PID ${pid}, logs: ${d.log})\n`)

  const argv = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(1)
  assert.deepEqual(argv, ['server', '--host', '127.0.0.1', '--port', d.port, ''])

  const stopped = await said(['stop'], /^stopping daemon/)
  assert.equal(stopped.err, `stopping daemon (PID ${pid})...\ndaemon stopped\n`)
  assert.ok(!isAlive(pid))
  assert.ok(!existsSync(d.pid) && !existsSync(d.version) && existsSync(d.log))
  await said(['stop'], /^daemon is not running \(no PID file\)\n$/)
})

test('daemon: an older build is told and restarted by --upgrade', async (t) => {
  const d = await daemonPlace(t)
  assert.equal((await d.run(['start'])).code, 0)
  const pid = d.readPid()
  writeFileSync(d.version, '0.0.1-7')
  const status = await d.run(['status'])
  assert.equal(status.err, `Daemon running (PID ${pid}, build 0.0.1-7, logs: ${d.log}) [outdated, restart recommended]\n`)
  const seen = await d.run(['start', '--upgrade'])
  assert.equal(seen.code, 0, seen.err)
  assert.match(seen.err, /daemon is outdated \(build 0\.0\.1-7, this is .*\), restarting\.\.\.\nstopping daemon \(PID \d+\)\.\.\.\ndaemon stopped\nstarting daemon/)
  assert.notEqual(d.readPid(), pid)
  assert.ok(!isAlive(pid) && isAlive(d.readPid()))
})

test('daemon: the token goes by the environment and is needed from then on', async (t) => {
  const d = await daemonPlace(t)
  const seen = await d.run(['start', '--token', 'hunter2'])
  assert.equal(seen.code, 0, seen.err)
  assert.doesNotMatch(seen.err, /hunter2/)
  const pid = d.readPid()
  assert.doesNotMatch(readFileSync(`/proc/${pid}/cmdline`, 'utf8'), /hunter2/)
  assert.equal((await fetch(`${d.url}/v1/health`)).status, 401)
  assert.equal((await fetch(`${d.url}/v1/health`, { headers: { authorization: 'Bearer hunter2' } })).status, 200)
  assert.match((await d.run(['start', '--upgrade', '-t', 'hunter2'])).err, /\(token: set\)/)
  assert.match((await d.run(['start'])).err, /^daemon already running/)
})

test('daemon: two starts at once leave one server', async (t) => {
  const d = await daemonPlace(t)
  const both = await Promise.all([d.run(['start']), d.run(['start'])])
  for (const seen of both) assert.equal(seen.code, 0, seen.err)
  const texts = both.map((seen) => seen.err).sort()
  assert.match(texts[0], /^daemon already running/)
  assert.match(texts[1], /daemon started/)
  assert.ok(isAlive(d.readPid()))
})

test('daemon: a pid file of a dead or foreign process is never signalled', async (t) => {
  const d = await daemonPlace(t)
  mkdirSync(join(d.dataDir, 'sandbox-agent/daemon'), { recursive: true })
  for (const text of [String(process.pid), '1', '999999999', '-1', 'x', '']) {
    writeFileSync(d.pid, text)
    assert.equal((await d.run(['status'])).err, 'Daemon not running\n')
    const seen = await d.run(['stop'])
    assert.equal(seen.code, 0)
    assert.equal(seen.err, 'daemon is not running (stale PID file removed)\n')
    assert.ok(!existsSync(d.pid))
  }
  writeFileSync(d.pid, String(process.pid))
  assert.equal((await d.run(['start'])).code, 0)
  assert.notEqual(d.readPid(), process.pid)
})

test('daemon: without its pid file the server is found by its port', async (t) => {
  const d = await daemonPlace(t)
  assert.equal((await d.run(['start'])).code, 0)
  const pid = d.readPid()
  writeFileSync(d.pid, '999999999')
  assert.match((await d.run(['status'])).err, new RegExp(`^Daemon running \\(PID ${pid},`))
  const seen = await d.run(['stop'])
  assert.equal(seen.err, `stopping daemon (PID ${pid})...\ndaemon stopped\n`)
  assert.ok(!isAlive(pid))
})

test('daemon: a port that somebody else holds is one clear line, exit 1', async (t) => {
  const d = await daemonPlace(t)
  const other = createServer((socket) => socket.end('no http here\r\n')).listen(Number(d.port), '127.0.0.1')
  await new Promise((done) => other.once('listening', done))
  t.after(() => other.close())
  const seen = await d.run(['start'])
  assert.equal(seen.code, 1)
  assert.match(seen.err, /\nerror: daemon ended while starting: .*in use.* \(logs: .*\)\n$/i)
  assert.ok(!existsSync(d.pid) && !existsSync(d.version))
  assert.match((await d.run(['stop'])).err, /^daemon is not running/)
})

test('daemon: it lives in a session of its own', async (t) => {
  const d = await daemonPlace(t)
  assert.equal((await d.run(['start'])).code, 0)
  const pid = d.readPid()
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const [, , , session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  assert.equal(Number(session), pid)
  process.kill(pid, 'SIGKILL')
  await until(() => !isAlive(pid), 'the end of the daemon')
  assert.equal((await d.run(['status'])).err, 'Daemon not running\n')
})
