// Who may do what. Protected by default: the walk takes every operation that the server documents.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { run, start, tempDir } from './lib/server.mjs'
import { bearer, call, open } from './lib/http.mjs'
import { Raw, ask, get, message } from './lib/raw.mjs'

const LIMIT = { timeout: 60_000 }
const T = {
  main: 'main:tok-en',
  read: 'read-token',
  write: 'write-token',
  admin: 'admin-token',
  old: 'expired-token',
  later: 'later-token',
}
const UNAUTHORIZED =
  '{"type":"urn:sandbox-agent:error:token_invalid","title":"Token Invalid","status":401,' +
  '"detail":"token invalid","details":{"message":"missing or invalid bearer token"}}'
const OPEN_PATHS = ['/', '/ui', '/ui/']
const OPEN_PREFIX = '/ui/'
const WS_HEADERS = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': Buffer.alloc(16).toString('base64'),
}
const METHODS = ['get', 'put', 'post', 'delete', 'patch']

let server, operations
before(async () => {
  const file = join(tempDir(), 'tokens.json')
  writeFileSync(
    file,
    JSON.stringify({
      tokens: [
        { name: 'reader', token: T.read, scopes: ['read'] },
        { name: 'writer', token: T.write, scopes: ['read', 'write'] },
        { name: 'boss', token: T.admin, scopes: ['read', 'write', 'admin'] },
        {
          name: 'past',
          token: T.old,
          scopes: ['read', 'write', 'admin'],
          expires: '2020-01-01T00:00:00Z',
        },
        { name: 'future', token: T.later, scopes: ['read'], expires: '2999-01-01T00:00:00+02:00' },
      ],
    }),
    { mode: 0o600 },
  )
  server = await start(undefined, { args: ['--token', T.main, '--token-file', file] })
  operations = await documented()
})
after(() => server.stop())

async function documented() {
  const doc = (await call(server.url, '/openapi.json', { headers: bearer(T.main) })).json
  const rows = Object.entries(doc.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => METHODS.includes(method))
      .map(([method, operation]) => ({
        method: method.toUpperCase(),
        path: path.replace(/\{[^}]+\}/g, 'x'),
        template: path,
        isWs: operation['x-websocket'] === true,
        takesAny: operation['x-any-method'] === true,
        scope: operation['x-scope'],
      })),
  )
  // The test routes and the page's files are no part of the document.
  const more = [
    ['GET', '/test/ws'],
    ['GET', '/test/sse'],
    ['GET', '/test/stream'],
    ['GET', '/test/events'],
    ['GET', '/test/hang'],
    ['POST', '/test/echo'],
    ['POST', '/test/sink'],
    ['POST', '/test/events'],
    ['POST', '/test/spawn'],
    ['GET', '/openapi.json'],
    ['GET', '/metrics'],
    ['GET', '/v1/health'],
    ['GET', '/v1/ready'],
    ['GET', '/v1/limits'],
  ]
  for (const [method, path] of more)
    if (!rows.some((row) => row.method === method && row.path === path))
      rows.push({ method, path, template: path, isWs: path === '/test/ws' })
  return rows
}

const isOpen = (path) => OPEN_PATHS.includes(path) || path.startsWith(OPEN_PREFIX)

// The status alone; a stream is left as soon as its head is there.
async function statusOf(row, headers, query = '') {
  const res = await open(server.url, row.path + query, { method: row.method, headers })
  res.destroy()
  return res.statusCode
}

describe('the walk', () => {
  test('there is something to walk', LIMIT, () => {
    assert.ok(operations.length >= 14, `${operations.length} operations`)
    assert.ok(operations.some((row) => row.template === '/v1/health'))
  })

  const bad = [
    ['no token', {}, ''],
    ['a wrong token', bearer('wrong'), ''],
    ['an expired token', bearer(T.old), ''],
    ['a token that is a prefix', bearer(T.main.slice(0, -1)), ''],
    ['a token with something behind it', bearer(`${T.main}x`), ''],
    ['the token in the query', {}, `?access_token=${encodeURIComponent(T.main)}`],
    ['an empty bearer', { authorization: 'Bearer ' }, ''],
    ['the bare token', { authorization: T.main }, ''],
    ['another scheme', { authorization: `Digest ${T.main}` }, ''],
    ['a wrong Basic password', { authorization: `Basic ${btoa(`${T.main}:wrong`)}` }, ''],
    ['broken Basic', { authorization: 'Basic !!!' }, ''],
  ]
  for (const [name, headers, query] of bad)
    test(`${name}: every protected operation answers 401`, LIMIT, async () => {
      // A query token counts on websocket routes: those have a test of their own.
      for (const row of operations.filter((one) => !isOpen(one.path) && !(query && one.isWs))) {
        const a = await call(server.url, row.path + query, { method: row.method, headers })
        assert.equal(a.status, 401, `${row.method} ${row.path}: ${a.status}`)
        assert.equal(a.headers['content-type'], 'application/problem+json')
        if (!row.path.startsWith('/opencode')) assert.equal(a.text, UNAUTHORIZED)
      }
    })

  test('an upgrade without or with a wrong token answers 401', LIMIT, async () => {
    for (const row of operations.filter((one) => one.method === 'GET' && !isOpen(one.path)))
      for (const headers of [{}, bearer('wrong'), bearer(T.old)]) {
        const a = await call(server.url, row.path, { headers: { ...WS_HEADERS, ...headers } })
        assert.equal(a.status, 401, `${row.path}: ${a.status}`)
      }
  })

  test('HEAD and unknown methods of a protected path answer 401, with allow', LIMIT, async () => {
    for (const row of operations.filter((one) => one.method === 'GET' && !isOpen(one.path))) {
      const head = await ask(
        server.port,
        message([`HEAD ${row.path} HTTP/1.1`, 'Host: localhost']),
        { isHead: true },
      )
      assert.equal(head.status, 401, `HEAD ${row.path}`)
      const odd = await call(server.url, row.path, { method: 'PROPPATCH' })
      assert.equal(odd.status, 401, `PROPPATCH ${row.path}`)
      assert.equal(!odd.headers.allow, row.takesAny ?? false, `allow on ${row.path}`)
    }
  })

  test('a read token may read and may not write', LIMIT, async () => {
    for (const row of operations.filter((one) => !isOpen(one.path) && one.path !== '/test/hang')) {
      const status = await statusOf(row, bearer(T.read))
      assert.notEqual(status, 401, `${row.method} ${row.path}`)
      // A websocket carries input: it writes, although it begins with GET.
      const needs = row.scope ?? (row.method === 'GET' && !row.isWs ? 'read' : 'write')
      if (needs === 'read') assert.notEqual(status, 403, `${row.method} ${row.path}`)
      else assert.equal(status, 403, `${row.method} ${row.path}`)
    }
  })

  test('the open rows are exactly these', LIMIT, async () => {
    const answered = []
    for (const path of [
      '/',
      '/ui',
      '/ui/',
      '/ui/deep/link',
      '/nowhere',
      '/v1',
      '/acp/nowhere',
      '/mcp-nowhere',
    ])
      answered.push([path, (await call(server.url, path)).status])
    assert.deepEqual(answered, [
      ['/', 200],
      ['/ui', 200],
      ['/ui/', 200],
      ['/ui/deep/link', 200],
      ['/nowhere', 404],
      ['/v1', 404],
      ['/acp/nowhere', 404],
      ['/mcp-nowhere', 404],
    ])
    const unprotected = operations.filter((row) => isOpen(row.path)).map((row) => row.template)
    for (const template of unprotected) assert.match(template, /^\/(ui(\/.*)?)?$/)
    for (const path of ['/v1/health', '/nowhere', '/test/echo'])
      assert.equal((await call(server.url, path, { method: 'OPTIONS' })).status, 200)
  })
})

describe('credentials', () => {
  const ok = async (headers, path = '/v1/health') =>
    assert.equal((await call(server.url, path, { headers })).status, 200)

  test('Bearer, Token and Basic are accepted', LIMIT, async () => {
    await ok(bearer(T.main))
    await ok({ authorization: `Token ${T.main}` })
    await ok({ authorization: `Basic ${btoa(`anyone:${T.main}`)}` })
    await ok({ authorization: `Basic ${btoa(`:${T.main}`)}` })
    await ok({ authorization: `Basic ${btoa(`opencode:${T.read}`)}` })
    await ok(bearer(T.later))
  })

  test('?access_token= works on a websocket and only there', LIMIT, async () => {
    const query = `?access_token=${encodeURIComponent(T.main)}`
    const ws = (q) => call(server.url, `/test/ws${q}`, { headers: WS_HEADERS })
    assert.equal((await ws(query)).status, 101)
    assert.equal((await ws(`?a=b&access_token=${T.write}`)).status, 101)
    assert.equal((await ws(`?access_token=${T.read}`)).status, 403, 'a websocket carries input')
    assert.equal((await ws('?access_token=wrong')).status, 401)
    assert.equal((await ws(`?access_token=${T.old}`)).status, 401)
    assert.equal((await ws('?access_token=')).status, 401)
    assert.equal((await call(server.url, `/v1/health${query}`)).status, 401)
    assert.equal(
      (await call(server.url, `/v1/health${query}`, { headers: WS_HEADERS })).status,
      401,
    )
  })

  test('a wrong header is not saved by a right query', LIMIT, async () => {
    const a = await call(server.url, `/test/ws?access_token=${encodeURIComponent(T.main)}`, {
      headers: { ...WS_HEADERS, ...bearer('wrong') },
    })
    assert.equal(a.status, 401)
  })

  test('two Authorization headers are no way in', LIMIT, async () => {
    const a = await ask(
      server.port,
      get('/v1/health', 'Authorization: Bearer wrong', `Authorization: Bearer ${T.main}`),
    )
    assert.equal(a.status, 401)
  })

  test('scopes: read, write', LIMIT, async () => {
    const echo = (token) =>
      call(server.url, '/test/echo', { json: { text: 'a' }, headers: bearer(token) })
    assert.equal((await echo(T.main)).status, 200)
    assert.equal((await echo(T.write)).status, 200)
    assert.equal((await echo(T.admin)).status, 200)
    const a = await echo(T.read)
    assert.equal(a.status, 403)
    assert.equal(a.json.type, 'urn:sandbox-agent:error:permission_denied')
    assert.equal(a.json.title, 'Permission Denied')
    assert.equal(
      (await call(server.url, '/test/sse?count=1', { headers: bearer(T.read) })).status,
      200,
    )
  })

  test('the refusal comes before the body is read', LIMIT, async () => {
    const c = await Raw.open(server.port)
    c.send(
      message(
        [
          'POST /test/echo HTTP/1.1',
          'Host: localhost',
          'Content-Type: application/json',
          'Content-Length: 1000000000',
        ],
        '{',
      ),
    )
    assert.equal((await c.answer()).status, 401)
    c.close()
  })

  test('no token ever reaches the log', LIMIT, async (t) => {
    const s = await start(t, { args: ['--token', 'sekrit-value-1'] })
    await call(s.url, '/v1/health', { headers: bearer('sekrit-value-1') })
    await call(s.url, '/v1/health', { headers: bearer('sekrit-value-2') })
    await call(s.url, '/test/ws?access_token=sekrit-value-1', { headers: WS_HEADERS })
    await call(s.url, '/test/ws?x=y&access_token=sekrit-value-3', { headers: WS_HEADERS })
    await s.stop()
    assert.doesNotMatch(s.log() + s.stdout() + s.stderr(), /sekrit-value/)
    assert.match(s.log(), /\/test\/ws/, 'the requests themselves are logged')
  })
})

describe('token files', () => {
  const withFile = async (t, content) => {
    const dir = tempDir(t)
    const file = join(dir, 'tokens.json')
    writeFileSync(file, content, { mode: 0o600 })
    return run(t, ['server', '--port', '0', '--token-file', file])
  }
  for (const [name, content] of [
    ['that is not JSON', '{tokens'],
    ['without tokens', '{}'],
    ['with an empty token', '{"tokens":[{"name":"a","token":"","scopes":["read"]}]}'],
    ['with an unknown scope', '{"tokens":[{"name":"a","token":"t","scopes":["root"]}]}'],
    [
      'with a date that is none',
      '{"tokens":[{"name":"a","token":"t","scopes":["read"],"expires":"soon"}]}',
    ],
  ])
    test(`a file ${name} stops the start with one line`, LIMIT, async (t) => {
      const end = await withFile(t, content)
      assert.ok([1, 2].includes(end.code), `exit ${end.code}`)
      assert.equal(end.err.trim().split('\n').length, 1, end.err)
      assert.match(end.err, /tokens\.json/)
    })

  test('a file that is not there stops the start', LIMIT, async (t) => {
    const end = await run(t, ['server', '--port', '0', '--token-file', '/nowhere/tokens.json'])
    assert.ok([1, 2].includes(end.code))
    assert.match(end.err, /\/nowhere\/tokens\.json/)
  })

  test('a file alone protects the server', LIMIT, async (t) => {
    const file = join(tempDir(t), 'tokens.json')
    writeFileSync(file, '{"tokens":[{"name":"a","token":"only-one","scopes":["read"]}]}', {
      mode: 0o600,
    })
    const s = await start(t, { args: ['--token-file', file] })
    assert.equal((await call(s.url, '/v1/health')).status, 401)
    assert.equal((await call(s.url, '/v1/health', { headers: bearer('only-one') })).status, 200)
  })

  test('an empty --token is refused, it must not mean an open door', LIMIT, async (t) => {
    const end = await run(t, ['server', '--port', '0', '--token', ''])
    assert.equal(end.code, 2)
    assert.match(end.err, /--token/)
  })
})

describe('roles', () => {
  test('a guest answers 404 on the paths of the host', LIMIT, async (t) => {
    for (const [role, status] of [
      ['guest', 404],
      ['host', 204],
      ['both', 204],
    ]) {
      const s = await start(t, { args: ['--role', role] })
      assert.equal((await call(s.url, '/test/host')).status, status, role)
      assert.equal((await call(s.url, '/v1/health')).status, 200, role)
    }
  })

  test('an unknown role is a usage error', LIMIT, async (t) => {
    assert.equal((await run(t, ['server', '--port', '0', '--role', 'king'])).code, 2)
  })
})
