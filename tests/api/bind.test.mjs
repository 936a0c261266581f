// Where the server listens decides how open it may be.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { start, tempDir } from './lib/server.mjs'
import { bearer, call } from './lib/http.mjs'
import { ask, get, message, postJson } from './lib/raw.mjs'
import { handshake } from './lib/ws.mjs'

const LIMIT = { timeout: 30_000 }
const BODY = '{"text":"a","n":1}'
const KEY = Buffer.alloc(16).toString('base64')

describe('beyond loopback', () => {
  for (const host of ['0.0.0.0', '::'])
    test(`${host} without a token: a random one is made, shown and kept`, LIMIT, async (t) => {
      const dataDir = tempDir(t)
      const file = join(dataDir, 'sandbox-agent', 'token')
      const s = await start(t, { host, dataDir })
      const base = `http://127.0.0.1:${s.port}`
      const token = readFileSync(file, 'utf8').trim()
      assert.equal(statSync(file).mode & 0o777, 0o600)
      assert.ok(token.length >= 32, 'long enough not to be guessed')
      assert.ok(s.stdout().includes(token), 'printed')
      assert.match(s.stdout(), /https?:\/\/\S+\/ui\S*/, 'with a page to open')
      assert.equal((await call(base, '/v1/health')).status, 401)
      assert.equal((await call(base, '/v1/health', { headers: bearer('') })).status, 401)
      assert.equal((await call(base, '/v1/health', { headers: bearer(token) })).status, 200)
      await s.stop()
      assert.ok(!s.log().includes(token), 'never in the log')
      const again = await start(t, { host, dataDir })
      assert.equal(readFileSync(file, 'utf8').trim(), token, 'a restart keeps it')
      assert.equal(
        (await call(`http://127.0.0.1:${again.port}`, '/v1/health', { headers: bearer(token) }))
          .status,
        200,
      )
    })

  test('--no-token is a decision: open', LIMIT, async (t) => {
    const s = await start(t, { host: '0.0.0.0', args: ['--no-token'] })
    assert.equal((await call(`http://127.0.0.1:${s.port}`, '/v1/health')).status, 200)
    assert.ok(!existsSync(join(s.dataDir, 'sandbox-agent', 'token')))
  })

  test('--token is used as given and no file is made', LIMIT, async (t) => {
    const s = await start(t, { host: '0.0.0.0', args: ['--token', 'mine'] })
    const base = `http://127.0.0.1:${s.port}`
    assert.equal((await call(base, '/v1/health')).status, 401)
    assert.equal((await call(base, '/v1/health', { headers: bearer('mine') })).status, 200)
    assert.ok(!existsSync(join(s.dataDir, 'sandbox-agent', 'token')))
    assert.ok(!s.stdout().includes('mine'))
  })

  test('a token of the global position works too', LIMIT, async (t) => {
    const s = await start(t, { args: ['-t', 'late'] })
    assert.equal((await call(s.url, '/v1/health')).status, 401)
    assert.equal((await call(s.url, '/v1/health', { headers: bearer('late') })).status, 200)
  })
})

describe('loopback', () => {
  for (const host of ['127.0.0.1', 'localhost', '::1', '127.0.0.2'])
    test(`${host} is open without a token`, LIMIT, async (t) => {
      const s = await start(t, { host })
      const at = host.includes(':') ? `[${host}]` : host
      assert.equal((await call(`http://${at}:${s.port}`, '/v1/health')).status, 200)
      assert.ok(!existsSync(join(s.dataDir, 'sandbox-agent', 'token')))
    })
})

describe('names and origins of an open server', { concurrency: 4 }, () => {
  let open, named, locked
  before(async () => {
    open = await start()
    named = await start(undefined, {
      args: ['--allowed-host', 'box.example', '-O', 'http://app.example'],
    })
    locked = await start(undefined, { args: ['--token', 'T'] })
  })
  after(() => Promise.all([open.stop(), named.stop(), locked.stop()]))

  const withHost = (s, host, ...more) =>
    ask(s.port, message(['GET /v1/health HTTP/1.1', `Host: ${host}`, ...more]))
  const denied = (a, what) => {
    assert.equal(a.status, 403, `${what}: ${a.status} ${a.text}`)
    assert.equal(a.json.type, 'urn:sandbox-agent:error:permission_denied')
  }

  test('a loopback name or address is served', LIMIT, async () => {
    for (const host of [
      'localhost',
      `localhost:${open.port}`,
      'LOCALHOST',
      '127.0.0.1',
      `127.0.0.1:${open.port}`,
      '127.1.2.3:80',
      '[::1]',
      `[::1]:${open.port}`,
    ])
      assert.equal((await withHost(open, host)).status, 200, host)
  })

  test('any other name is refused: it may be a rebinding attack', LIMIT, async () => {
    for (const host of [
      'evil.example',
      `evil.example:${open.port}`,
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'evil-localhost',
      '192.168.0.1',
      '0.0.0.0',
      '[fe80::1]',
      '10.0.0.1:2468',
      'notlocalhost',
    ])
      denied(await withHost(open, host), host)
  })

  test('a name that is no name is refused', LIMIT, async () => {
    for (const [host, status] of [
      ['', 403],
      [':80', 403],
      ['localhost@evil.example', 400],
      ['[::1', 400],
      ['localhost:99999x', 400],
    ])
      assert.equal((await withHost(open, host)).status, status, JSON.stringify(host))
  })

  test(
    'no name at all is served: a browser, and so an attack through one, always has one',
    LIMIT,
    async () => {
      const a = await ask(open.port, message(['GET /v1/health HTTP/1.0']))
      assert.equal(a.status, 200)
    },
  )

  test('--allowed-host is served', LIMIT, async () => {
    for (const host of ['box.example', 'box.example:443', 'Box.Example', 'localhost'])
      assert.equal((await withHost(named, host)).status, 200, host)
    denied(await withHost(named, 'evil.example'), 'evil.example')
  })

  test('a server with a token is served under any name', LIMIT, async () => {
    assert.equal((await withHost(locked, 'box.example', 'Authorization: Bearer T')).status, 200)
    assert.equal((await withHost(locked, 'box.example')).status, 401)
  })

  const posted = (s, origin) => ask(s.port, postJson('/test/echo', BODY, `Origin: ${origin}`))
  test('a foreign page may not post', LIMIT, async () => {
    for (const origin of [
      'http://evil.example',
      'null',
      'https://localhost.evil.example',
      'file://',
    ])
      denied(await posted(open, origin), origin)
  })

  test('the own page may post', LIMIT, async () => {
    const own = await ask(
      open.port,
      message(
        [
          'POST /test/echo HTTP/1.1',
          `Host: localhost:${open.port}`,
          'Content-Type: application/json',
          `Content-Length: ${BODY.length}`,
          `Origin: http://localhost:${open.port}`,
        ],
        BODY,
      ),
    )
    assert.equal(own.status, 200, own.text)
    assert.equal(
      (await ask(open.port, postJson('/test/echo', BODY))).status,
      200,
      'no Origin: no browser',
    )
  })

  test('an origin of -O may post, another may not', LIMIT, async () => {
    assert.equal((await posted(named, 'http://app.example')).status, 200)
    denied(await posted(named, 'http://evil.example'), 'evil')
  })

  test('a foreign page may read nothing it could use', LIMIT, async () => {
    const a = await ask(open.port, get('/v1/health', 'Origin: http://evil.example'))
    assert.equal(a.headers['access-control-allow-origin'], undefined)
  })

  test('a foreign page may open no websocket', LIMIT, async () => {
    const shake = (s, ...more) => ask(s.port, handshake('/test/ws', KEY, ...more))
    denied(await shake(open, 'Origin: http://evil.example'), 'evil')
    denied(await shake(open, 'Origin: null'), 'null')
    assert.equal((await shake(open)).status, 101)
    assert.equal((await shake(named, 'Origin: http://app.example')).status, 101)
    denied(await shake(named, 'Origin: http://other.example'), 'other')
  })

  test('a foreign DELETE is refused before the route is looked at twice', LIMIT, async () => {
    const a = await ask(
      open.port,
      message(['DELETE /test/echo HTTP/1.1', 'Host: localhost', 'Origin: http://evil.example']),
    )
    denied(a, 'DELETE')
  })
})
