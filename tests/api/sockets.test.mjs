// Listening without a TCP port of our own: unix sockets and sockets handed over by systemd.
import assert from 'node:assert/strict'
import net from 'node:net'
import {
  existsSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { test } from 'node:test'
import { run, start, tempDir } from './lib/server.mjs'
import { bearer, call } from './lib/http.mjs'
import { ask, get } from './lib/raw.mjs'
import { WsRaw, OP, frame } from './lib/ws.mjs'

const LIMIT = { timeout: 30_000 }
const socketIn = (t) => join(tempDir(t), 'agent.sock')

test(
  'a unix socket serves requests and websockets, and is removed at the end',
  LIMIT,
  async (t) => {
    const path = socketIn(t)
    const s = await start(t, { args: ['--unix-socket', path] })
    const a = await ask({ path }, get('/v1/health'))
    assert.equal(a.text, '{"status":"ok"}')
    assert.equal(statSync(path).mode & 0o002, 0, 'not writable by everybody')
    const w = await WsRaw.open({ path }, '/test/ws')
    w.send(frame(OP.text, 'hi'))
    assert.equal((await w.next()).data.toString(), 'hi')
    w.close()
    await s.stop()
    assert.ok(!existsSync(path))
  },
)

test('a token is asked on a unix socket too', LIMIT, async (t) => {
  const path = socketIn(t)
  await start(t, { args: ['--unix-socket', path, '--token', 'T'] })
  const at = { socketPath: path }
  assert.equal((await call('http://localhost', '/v1/health', at)).status, 401)
  assert.equal(
    (await call('http://localhost', '/v1/health', { ...at, headers: bearer('T') })).status,
    200,
  )
})

test('a socket file that a crash left behind is replaced', LIMIT, async (t) => {
  const path = socketIn(t)
  const first = await start(t, { args: ['--unix-socket', path] })
  await first.kill()
  assert.ok(existsSync(path), 'left behind')
  await start(t, { args: ['--unix-socket', path] })
  assert.equal((await ask({ path }, get('/v1/health'))).status, 200)
})

test('a socket that somebody serves is not taken away', LIMIT, async (t) => {
  const path = socketIn(t)
  await start(t, { args: ['--unix-socket', path] })
  const end = await run(t, ['server', '--port', '0', '--unix-socket', path])
  assert.equal(end.code, 1)
  assert.equal(end.err.trim().split('\n').length, 1, end.err)
  assert.equal((await ask({ path }, get('/v1/health'))).status, 200)
})

test('a file that is no socket is not deleted', LIMIT, async (t) => {
  const path = socketIn(t)
  writeFileSync(path, 'precious')
  const end = await run(t, ['server', '--port', '0', '--unix-socket', path])
  assert.equal(end.code, 1)
  assert.ok(statSync(path).isFile())
})

test('a path too long for a socket is one clear line', LIMIT, async (t) => {
  const end = await run(t, [
    'server',
    '--port',
    '0',
    '--unix-socket',
    `/tmp/${'x'.repeat(200)}.sock`,
  ])
  assert.ok([1, 2].includes(end.code))
  assert.equal(end.err.trim().split('\n').length, 1, end.err)
})

// systemd's protocol: listening descriptors from 3 on, LISTEN_FDS says how many, LISTEN_PID for whom.
const ACTIVATED = 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"'
async function listeningFd(where) {
  const listener = net.createServer()
  listener.listen(where)
  await once(listener, 'listening')
  return { listener, fd: listener._handle.fd, port: listener.address().port }
}

test('socket activation: the handed-over port is served', LIMIT, async (t) => {
  const { listener, fd, port } = await listeningFd({ port: 0, host: '127.0.0.1' })
  const s = await start(t, {
    host: null,
    via: ['/bin/sh', '-c', ACTIVATED],
    stdio: ['ignore', 'pipe', 'pipe', fd],
  })
  listener.close() // ours: from here on only the server listens
  assert.equal((await ask(port, get('/v1/health'))).text, '{"status":"ok"}')
  assert.equal(s.port, port, 'the api line names the port that was handed over')
})

test('socket activation with a unix socket', LIMIT, async (t) => {
  const path = socketIn(t)
  const { listener, fd } = await listeningFd({ path: `${path}.made` })
  await start(t, {
    host: null,
    via: ['/bin/sh', '-c', ACTIVATED],
    stdio: ['ignore', 'pipe', 'pipe', fd],
  })
  renameSync(`${path}.made`, path) // closing our end removes the name it was made under
  listener.close()
  assert.equal((await ask({ path }, get('/v1/health'))).status, 200)
})

test('LISTEN_FDS meant for another process is ignored', LIMIT, async (t) => {
  const s = await start(t, { env: { LISTEN_FDS: '1', LISTEN_PID: '1' } })
  assert.equal((await call(s.url, '/v1/health')).status, 200)
})

test('children do not inherit the activation variables', LIMIT, async (t) => {
  const { listener, fd, port } = await listeningFd({ port: 0, host: '127.0.0.1' })
  await start(t, {
    host: null,
    via: ['/bin/sh', '-c', ACTIVATED],
    stdio: ['ignore', 'pipe', 'pipe', fd],
  })
  listener.close()
  const a = await call(`http://127.0.0.1:${port}`, '/test/spawn', { method: 'POST' })
  assert.equal(a.status, 200, a.text)
  const { pid } = a.json
  assert.doesNotMatch(readFileSync(`/proc/${pid}/environ`, 'latin1'), /LISTEN_FDS/)
  const targets = readdirSync(`/proc/${pid}/fd`).map((name) =>
    readlinkSync(`/proc/${pid}/fd/${name}`),
  )
  assert.ok(
    !targets.some((target) => target.startsWith('socket:')),
    `open in the child: ${targets}`,
  )
})
