// The same server behind TLS: https and wss, old protocols refused, plain text survived.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import https from 'node:https'
import tls from 'node:tls'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import WebSocket from 'ws'
import { FLAT_MEMORY, run, start, tempDir } from './lib/server.mjs'
import { bearer, call, open } from './lib/http.mjs'
import { MiB, openFds, rssBytes, until, within } from './lib/proc.mjs'
import { Raw, get, on } from './lib/raw.mjs'

const LIMIT = { timeout: 60_000 }
let server, trust, files

before(async () => {
  const dir = tempDir()
  files = { cert: join(dir, 'cert.pem'), key: join(dir, 'key.pem') }
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-keyout',
      files.key,
      '-out',
      files.cert,
      '-days',
      '2',
      '-subj',
      '/CN=localhost',
      '-addext',
      'subjectAltName=DNS:localhost,IP:127.0.0.1',
    ],
    { stdio: 'ignore' },
  )
  trust = { ca: readFileSync(files.cert) }
  server = await start(undefined, {
    args: ['--tls-cert', files.cert, '--tls-key', files.key, '--token', 'T'],
    env: FLAT_MEMORY,
  })
})
after(() => server.stop())

const ask = (path, options = {}) =>
  call(server.url, path, {
    tls: trust,
    ...options,
    headers: { ...bearer('T'), ...options.headers },
  })

test('the api line says https', LIMIT, () =>
  assert.match(server.api, /^https:\/\/127\.0\.0\.1:\d+\/v1$/),
)

test('health over TLS, many requests on one connection', LIMIT, async () => {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ...trust })
  const before = openFds(server.pid)
  for (let i = 0; i < 50; i++)
    assert.equal((await ask('/v1/health', { agent })).text, '{"status":"ok"}')
  assert.ok(openFds(server.pid) <= before + 1)
  agent.destroy()
  assert.equal((await call(server.url, '/v1/health', { tls: trust })).status, 401)
})

test('bodies pass both ways', LIMIT, async () => {
  const before = rssBytes(server.pid)
  const size = 32 * MiB
  const up = await ask('/test/sink', {
    method: 'POST',
    headers: { 'content-length': size },
    body: Buffer.alloc(size, 'x'),
  })
  assert.equal(up.json.bytes, size)
  const res = await open(server.url, `/test/stream?bytes=${size}`, {
    tls: trust,
    headers: bearer('T'),
  })
  let seen = 0
  res.on('data', (data) => (seen += data.length))
  await within(once(res, 'end'), 'the download', 50_000)
  assert.equal(seen, size)
  assert.ok(rssBytes(server.pid) - before < 16 * MiB)
})

test('wss echoes', LIMIT, async () => {
  const ws = new WebSocket(`${server.url.replace('https', 'wss')}/test/ws?access_token=T`, trust)
  await within(once(ws, 'open'), 'open')
  for (const n of [1, 1000, MiB]) {
    ws.send('x'.repeat(n))
    const [data] = await within(once(ws, 'message'), 'the echo', 20_000)
    assert.equal(data.length, n)
  }
  ws.close(1000)
  const [code] = await within(once(ws, 'close'), 'close')
  assert.equal(code, 1000)
})

test('TLS 1.1 is refused, 1.2 and 1.3 are spoken', LIMIT, async () => {
  const version = async (max) => {
    const socket = tls.connect({
      port: server.port,
      host: '127.0.0.1',
      ...trust,
      minVersion: 'TLSv1',
      maxVersion: max,
      ciphers: 'DEFAULT@SECLEVEL=0',
    })
    try {
      await within(once(socket, 'secureConnect'), 'TLS')
      return socket.getProtocol()
    } catch (error) {
      return error.code ?? error.message
    } finally {
      socket.destroy()
    }
  }
  assert.equal(await version('TLSv1.3'), 'TLSv1.3')
  assert.equal(await version('TLSv1.2'), 'TLSv1.2')
  assert.doesNotMatch(await version('TLSv1.1'), /^TLSv1/)
})

test('plain HTTP, rubbish and half handshakes are closed and harm nobody', LIMIT, async () => {
  const before = openFds(server.pid)
  for (const bytes of [
    get('/v1/health'),
    Buffer.alloc(5000, 0xff),
    Buffer.from('1603010200', 'hex'),
  ])
    await on(server.port, async (c) => {
      c.send(bytes)
      c.finish()
      await c.rest(20_000)
    })
  await until(() => openFds(server.pid) <= before, 'descriptors back to the start')
  assert.equal((await ask('/v1/health')).status, 200)
})

test('a handshake that never comes is closed at the head deadline', LIMIT, async (t) => {
  const s = await start(t, {
    args: ['--tls-cert', files.cert, '--tls-key', files.key],
    env: { SANDBOX_AGENT_HEAD_TIMEOUT_MS: '500' },
  })
  await on(s.port, (c) => c.rest(15_000))
})

test('a client that resets in the middle of a TLS stream is let go', LIMIT, async () => {
  const before = openFds(server.pid)
  for (let i = 0; i < 10; i++) {
    const c = await Raw.open({ port: server.port, tls: trust })
    c.send(get('/test/stream?bytes=50000000', 'Authorization: Bearer T'))
    await c.head()
    await c.exactly(100_000, 'some bytes')
    c.socket.destroy()
  }
  await until(() => openFds(server.pid) <= before, 'descriptors back to the start')
})

test('a certificate or key that cannot be read stops the start with one line', LIMIT, async (t) => {
  for (const args of [
    ['--tls-cert', '/nowhere.pem', '--tls-key', files.key],
    ['--tls-cert', files.cert, '--tls-key', files.cert],
  ]) {
    const end = await run(t, ['server', '--port', '0', ...args])
    assert.equal(end.code, 1)
    assert.equal(end.err.trim().split('\n').length, 1, end.err)
  }
})

test('a certificate without a key is a usage error', LIMIT, async (t) => {
  const end = await run(t, ['server', '--port', '0', '--tls-cert', files.cert])
  assert.equal(end.code, 2)
  assert.match(end.err, /--tls-key/)
})
