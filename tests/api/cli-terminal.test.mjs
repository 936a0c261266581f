// `api terminal`: a second server lends the terminal in which the command runs, so that everything
// is real: raw mode, sizes, signals, the way back.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { TESTD, cli } from './lib/cli.mjs'
import { call } from './lib/http.mjs'
import { until } from './lib/proc.mjs'
import { create, ended, get, input, output, post, said, sh } from './lib/processes.mjs'
import { cleanEnv, start, tempDir } from './lib/server.mjs'

const LIMIT = { timeout: 90_000 }
let server, lender, dir
before(async () => {
  server = await start()
  lender = await start()
  dir = tempDir()
})
after(async () => {
  await lender.stop()
  await server.stop()
})

// The modes of the terminal are printed before and behind the command, its exit status last.
class Screen {
  static async open(argv, { endpoint = server.url, env = {}, cols = 90, rows = 30 } = {}) {
    const script = 'stty -g; "$@"; s=$?; echo; stty -g; echo "status=$s"'
    const s = new Screen()
    s.process = await create(lender, {
      command: 'sh',
      args: ['-c', script, 'sh', TESTD, 'api', 'terminal', ...argv],
      env: { ...cleanEnv(dir), SANDBOX_AGENT_ENDPOINT: endpoint, TERM: 'vt220', ...env },
      tty: true,
      interactive: true,
      cols,
      rows,
    })
    s.id = s.process.id
    return s
  }
  text() {
    return output(lender, this.id)
  }
  shows(what) {
    return said(lender, this.id, what)
  }
  async type(text) {
    const r = await input(lender, this.id, text)
    assert.equal(r.status, 200, r.text)
  }
  // The pid of the command itself: the shell's only child.
  pid() {
    const children = `/proc/${this.process.pid}/task/${this.process.pid}/children`
    return until(() => Number(readFileSync(children, 'utf8').trim().split(' ')[0]), 'the command')
  }
  // The end: the exit status, and the terminal is what it was.
  async status() {
    await ended(lender, this.id)
    const text = await this.text()
    const modes = text.match(/^[0-9a-f:]{40,}$/gm)
    assert.equal(modes?.length, 2, text)
    assert.equal(modes[0], modes[1], 'the modes of the terminal')
    assert.doesNotMatch(text, /Sanitizer|runtime error/)
    return Number(text.match(/^status=(\d+)/m)[1])
  }
}

const leftOver = async () => (await call(server.url, '/v1/processes')).json.processes.map((p) => p.id)

test('open runs a program in a terminal of the same size and takes its status', LIMIT, async () => {
  const s = await Screen.open(['open', '--env', 'A=1', '--env', 'B=', '--cwd', '/', '--', 'sh'])
  await s.shows(/[$#] /)
  await s.type('stty size; echo "<$TERM|$A|$B|$PWD>"\n')
  await s.shows(/^30 90/m)
  await s.shows(/^<vt220\|1\|\|\/>/m)
  await s.type(`sh -c 'echo sleep''ing; exec sleep 1000'\n`)
  await s.shows(/^sleeping/m)
  await s.type('\x03')
  await s.type('echo "<$((6 * 7))>"\n')
  await s.shows(/<42>/)
  await s.type('exit 7\n')
  assert.equal(await s.status(), 7)
  assert.deepEqual(await leftOver(), [])
})

test('open without a command is a shell', LIMIT, async () => {
  const s = await Screen.open(['open'])
  await s.shows(/[$#>] /)
  await s.type('echo "<$((40 + 3))>"\nexit\n')
  await s.shows(/<43>/)
  assert.equal(await s.status(), 0)
})

test('a new size is passed on', LIMIT, async () => {
  const s = await Screen.open(['open', '--', 'sh', '-c', 'trap "stty size" WINCH; echo go; while :; do sleep 0.05; done'])
  await s.shows(/^go/m)
  assert.equal((await post(lender, `${s.id}/terminal/resize`, { cols: 123, rows: 45 })).status, 200)
  await s.shows(/^45 123/m)
  await s.type('\x03')
  assert.equal(await s.status(), 130)
})

test('ctrl-] detaches, attach comes back with the history', LIMIT, async () => {
  const s = await Screen.open(['open', '--', 'sh'])
  await s.shows(/[$#] /)
  await s.type('echo "<$((40 + 4))>"\n')
  await s.shows(/<44>/)
  await s.type('\x1d')
  assert.equal(await s.status(), 0)
  const [, id] = await s.shows(/\[detached from (\S+)\]/)
  assert.equal((await get(server, id)).status, 'running')

  const blind = await Screen.open(['attach', id])
  await blind.type('echo "<$((40 + 5))>"\n')
  await blind.shows(/<45>/)
  assert.doesNotMatch(await blind.text(), /<44>/)
  await blind.type('\x1d')
  assert.equal(await blind.status(), 0)

  const seeing = await Screen.open(['attach', id, '--history', 'all'])
  await seeing.shows(/<44>/)
  await seeing.type('exit 5\n')
  assert.equal(await seeing.status(), 5)
  assert.equal((await get(server, id)).exitCode, 5)
  const late = await Screen.open(['attach', id, '--history', 'all'])
  assert.equal(await late.status(), 5)
  assert.match(await late.text(), /<45>/)
  await call(server.url, `/v1/processes/${id}`, { method: 'DELETE' })
})

test('every byte goes through, also those that a terminal would keep', LIMIT, async () => {
  const s = await Screen.open(['open', '--', 'sh', '-c', 'stty raw -echo; echo ready; head -c 8 | od -An -tx1; stty sane; echo'])
  await s.shows(/ready/)
  await s.type('\x03\x04\x1a\x1c\x11\x13\r\x7f')
  await s.shows(/03 04 1a 1c 11 13 0d 7f/)
  assert.equal(await s.status(), 0)
})

test('a signal that ends the program is 128 and its number', LIMIT, async () => {
  const s = await Screen.open(['open', '--', 'sh', '-c', 'kill -TERM $$'])
  assert.equal(await s.status(), 143)
  assert.deepEqual(await leftOver(), [])
})

test('signals that end the command give the terminal back', LIMIT, async () => {
  const p = await create(server, sh('echo here; exec sleep 1000', { tty: true }))
  for (const [signal, code] of [['SIGTERM', 143], ['SIGHUP', 129], ['SIGINT', 130], ['SIGQUIT', 131]]) {
    const s = await Screen.open(['attach', p.id, '--history', 'all'])
    await s.shows(/^here/m)
    process.kill(await s.pid(), signal)
    assert.equal(await s.status(), code, signal)
  }
  assert.equal((await get(server, p.id)).status, 'running')
  await post(server, `${p.id}/kill`, {})
})

test('a server that dies, and one that goes away, give the terminal back', LIMIT, async (t) => {
  for (const end of ['kill', 'stop']) {
    const own = await start(t)
    const s = await Screen.open(['open', '--', 'sh', '-c', 'echo here; exec sleep 1000'], { endpoint: own.url })
    await s.shows(/^here/m)
    await own[end]()
    const status = await s.status()
    if (end === 'kill') {
      assert.equal(status, 1)
      assert.match(await s.text(), /^error: terminal of '\S+': .*(the connection was lost|reset by peer)/m)
    } else assert.notEqual(status, 0)
  }
})

test('what is not there is told', LIMIT, async () => {
  const s = await Screen.open(['attach', 'nope'])
  assert.equal(await s.status(), 1)
  assert.match(await s.text(), /"status": 404/)
  assert.match(await s.text(), /^error: terminal of 'nope': unexpected http status: 404 Not Found/m)
  const p = await create(server, sh('exec sleep 100'))
  const plain = await Screen.open(['attach', p.id])
  assert.equal(await plain.status(), 1)
  assert.match(await plain.text(), /process is not running in tty mode/)
  await post(server, `${p.id}/kill`, {})
  const bad = await Screen.open(['open', '--', '/no/such/program'])
  assert.equal(await bad.status(), 1)
})

test('scripts: stdin that is no terminal ends as ^D, the output is on stdout', LIMIT, async (t) => {
  const text = 'one\ntwo without end'
  const seen = await cli(t, server, ['api', 'terminal', 'open', '--', 'sh', '-c', 'stty -echo; echo ok; cat; exit 4'], {
    input: (stdin) => setTimeout(() => stdin.end(text), 500), // echo is off by then
  })
  assert.equal(seen.code, 4, seen.err)
  assert.equal(seen.out.toString(), `ok\r\n${text.replace('\n', '\r\n')}`)
  const none = await cli(t, server, ['api', 'terminal', 'open', '--', 'cat'])
  assert.equal(none.code, 0, none.err)
  const file = join(dir, 'script')
  writeFileSync(file, 'echo "<$((50 + 1))>"\nexit 6\n')
  const sheet = await cli(t, server, ['api', 'terminal', 'open', '--', 'sh'], { input: readFileSync(file) })
  assert.equal(sheet.code, 6, sheet.err)
  assert.match(sheet.out.toString(), /<51>/)
})

test('scripts: attach leaves at the end of stdin', LIMIT, async (t) => {
  const p = await create(server, sh('read x; echo "<$x>"; exec sleep 100', { tty: true, interactive: true }))
  const seen = await cli(t, server, ['api', 'terminal', 'attach', p.id], { input: 'abc\n' })
  assert.equal(seen.code, 0, seen.err)
  assert.match(seen.err, /\[detached from /)
  await said(server, p.id, /<abc>/)
  await post(server, `${p.id}/kill`, {})
})

test('much output comes whole and in order', LIMIT, async (t) => {
  const n = 200_000
  const seen = await cli(t, server, ['api', 'terminal', 'open', '--', 'seq', String(n)])
  assert.equal(seen.code, 0, seen.err)
  assert.equal(seen.out.toString(), Array.from({ length: n }, (_, i) => `${i + 1}\r\n`).join(''))
})

test('over unix sockets, with a token, and over TLS', LIMIT, async (t) => {
  const path = join(dir, 's.sock')
  const files = { cert: join(dir, 'cert.pem'), key: join(dir, 'key.pem') }
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
    '-keyout', files.key, '-out', files.cert, '-days', '2', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'], { stdio: 'ignore' })
  await start(t, { host: null, args: ['--unix-socket', path, '--token', 'T'] })
  const tls = await start(t, { args: ['--tls-cert', files.cert, '--tls-key', files.key, '--token', 'T'] })
  for (const endpoint of [`unix:${path}`, tls.url]) {
    const env = { SSL_CERT_FILE: files.cert }
    const argv = ['api', 'terminal', 'open', '--', 'sh', '-c', 'echo hi; exit 3']
    const seen = await cli(t, server, ['-t', 'T', ...argv], { endpoint, env })
    assert.equal(seen.code, 3, seen.err)
    assert.equal(seen.out.toString(), 'hi\r\n')
    const locked = await cli(t, server, argv, { endpoint, env })
    assert.equal(locked.code, 1)
    assert.match(locked.err, /unexpected http status: 401/)
  }
})

test('binary data is not shown on a terminal unless asked for', LIMIT, async () => {
  const file = join(dir, 'binary')
  writeFileSync(file, Buffer.from([0x41, 0, 0x42]))
  const shown = (...more) =>
    create(lender, { command: TESTD, args: ['api', 'fs', 'read', file, ...more], tty: true,
      env: { ...cleanEnv(dir), SANDBOX_AGENT_ENDPOINT: server.url } })
  const refused = await shown()
  assert.equal((await ended(lender, refused.id)).exitCode, 1)
  assert.equal(await output(lender, refused.id),
    'error: the answer is binary: use --output FILE, or --output - to print it\r\n')
  const forced = await shown('-o', '-')
  assert.equal((await ended(lender, forced.id)).exitCode, 0)
  assert.equal(await output(lender, forced.id), 'A\0B')
})

test('a stop and a continue put the terminal into raw mode again', LIMIT, async () => {
  const s = await Screen.open(['open', '--', 'sh'])
  await s.shows(/[$#] /)
  const pid = await s.pid()
  const modes = (...argv) => execFileSync('stty', ['-F', `/proc/${pid}/fd/0`, ...argv]).toString()
  assert.match(modes('-a'), / -icanon/)
  process.kill(pid, 'SIGSTOP')
  modes('sane') // as a shell would
  assert.match(modes('-a'), / icanon/)
  process.kill(pid, 'SIGCONT')
  await until(() => / -icanon/.test(modes('-a')), 'raw mode')
  await s.type('echo "<$((60 + 1))>"\n')
  await s.shows(/<61>/)
  await s.type('exit 0\n')
  assert.equal(await s.status(), 0)
})
