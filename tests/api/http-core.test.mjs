// The ordinary life of HTTP: connections that stay, answers in order, CORS, and the shape of failures.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { run, start } from './lib/server.mjs'
import { bearer, call } from './lib/http.mjs'
import { HEALTH_BODY, ask, get, message, on, postJson } from './lib/raw.mjs'

const LIMIT = { timeout: 30_000 }
const VARY = 'origin, access-control-request-method, access-control-request-headers'
const BODY = '{"text":"hello","n":7}'

let server
before(async () => (server = await start()))
after(() => server.stop())

describe('connections', { concurrency: 4 }, () => {
  test('one connection serves many requests', LIMIT, () =>
    on(server.port, async (c) => {
      for (let i = 0; i < 200; i++) {
        c.send(i % 2 ? get('/v1/health') : postJson('/test/echo', BODY))
        const a = await c.answer()
        assert.equal(a.status, 200)
        assert.notEqual(a.headers.connection, 'close')
      }
    }),
  )

  test('Connection: close is honoured and said', LIMIT, () =>
    on(server.port, async (c) => {
      c.send(get('/v1/health', 'Connection: close'))
      const a = await c.answer()
      assert.equal(a.text, HEALTH_BODY)
      assert.equal(a.headers.connection, 'close')
      assert.equal((await c.rest()).length, 0)
    }),
  )

  test('what is pipelined behind Connection: close is not served', LIMIT, () =>
    on(server.port, async (c) => {
      c.send(Buffer.concat([get('/v1/health', 'Connection: close'), get('/v1/health')]))
      assert.equal((await c.answer()).status, 200)
      assert.equal((await c.rest()).length, 0)
    }),
  )

  test('200 mixed pipelined requests are answered in order', LIMIT, () =>
    on(server.port, async (c) => {
      const kinds = [
        { bytes: get('/v1/health'), status: 200 },
        {
          bytes: message(['HEAD /v1/health HTTP/1.1', 'Host: localhost']),
          status: 200,
          isHead: true,
        },
        { bytes: get('/nowhere'), status: 404 },
        { bytes: postJson('/test/echo', BODY), status: 200 },
        { bytes: postJson('/v1/health', BODY), status: 405 },
        { bytes: message(['OPTIONS /v1/health HTTP/1.1', 'Host: localhost']), status: 200 },
        { bytes: get('/test/stream?bytes=3000'), status: 200, length: 3000 },
      ]
      const all = Array.from({ length: 203 }, (_, i) => kinds[i % kinds.length])
      c.send(Buffer.concat(all.map((kind) => kind.bytes)))
      for (const [i, kind] of all.entries()) {
        const a = await c.answer({ isHead: kind.isHead })
        assert.equal(a.status, kind.status, `answer ${i}`)
        if (kind.length) assert.equal(a.body.length, kind.length)
      }
    }),
  )

  test('a half-closed client still gets its answers', LIMIT, () =>
    on(server.port, async (c) => {
      c.send(Buffer.concat([get('/v1/health'), postJson('/test/echo', BODY)]))
      c.finish()
      assert.equal((await c.answer()).status, 200)
      assert.equal((await c.answer()).status, 200)
      assert.equal((await c.rest()).length, 0)
    }),
  )

  test('a request that is cut off is not run', LIMIT, () =>
    on(server.port, async (c) => {
      c.send(
        message(
          [
            'POST /test/events?topic=cut HTTP/1.1',
            'Host: localhost',
            'Content-Type: application/json',
            'Content-Length: 100',
          ],
          '{"n":1}',
        ),
      )
      c.finish()
      await c.rest()
      const { json } = await call(server.url, '/test/events?topic=cut', { json: { n: 2 } })
      assert.equal(json.seq, 1)
    }),
  )

  test('a body that a GET route does not want is skipped, not read as a request', LIMIT, () =>
    on(server.port, async (c) => {
      const inner = get('/nowhere').toString()
      c.send(
        Buffer.concat([
          message(
            ['GET /v1/health HTTP/1.1', 'Host: localhost', `Content-Length: ${inner.length}`],
            inner,
          ),
          get('/v1/health'),
        ]),
      )
      for (let i = 0; i < 2; i++) {
        const a = await c.answer()
        assert.notEqual(a.status, 404)
        if (a.headers.connection === 'close') return
      }
    }),
  )

  test('HTTP/1.0 gets no chunks', LIMIT, () =>
    on(server.port, async (c) => {
      c.send(message(['GET /test/stream?bytes=100000 HTTP/1.0', 'Host: localhost']))
      const a = await c.answer()
      assert.equal(a.headers['transfer-encoding'], undefined)
      assert.equal(a.body.length, 100_000)
    }),
  )
})

describe('headers', { concurrency: 4 }, () => {
  test('date, vary and content-length on every answer', LIMIT, async () => {
    for (const bytes of [
      get('/v1/health'),
      get('/nowhere'),
      get('/'),
      postJson('/v1/health', '{}'),
    ]) {
      const a = await ask(server.port, bytes)
      assert.equal(a.headers.vary, VARY)
      assert.equal(a.headers['content-length'], String(a.body.length))
      assert.equal(a.headers.server, undefined)
      assert.match(
        a.headers.date,
        /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/,
      )
      assert.ok(Math.abs(Date.parse(a.headers.date) - Date.now()) < 5000)
    }
  })

  test('no header is sent twice', LIMIT, async () => {
    for (const bytes of [
      get('/v1/health', 'Origin: http://a.example'),
      get('/nowhere'),
      get('/ui'),
    ]) {
      const a = await ask(server.port, bytes)
      const names = a.fields.map(([name]) => name.toLowerCase()).filter((name) => name !== 'vary') // a list by nature
      assert.deepEqual(names, [...new Set(names)])
    }
  })

  test('health and root are the bytes that clients know', LIMIT, async () => {
    const health = await call(server.url, '/v1/health')
    assert.equal(health.text, '{"status":"ok"}')
    assert.equal(health.headers['content-type'], 'application/json')
    const root = await call(server.url, '/')
    assert.equal(root.status, 200)
    assert.equal(root.text, '{"docs":"https://sandboxagent.dev","name":"Sandbox Agent"}')
  })

  test('ready says it is ready', LIMIT, async () => {
    const a = await call(server.url, '/v1/ready')
    assert.equal(a.status, 200)
    assert.equal(a.headers['content-type'], 'application/json')
  })

  test('a sane x-request-id of the client is kept, a bad one is not echoed', LIMIT, async () => {
    const a = await call(server.url, '/v1/health', { headers: { 'x-request-id': 'abc-123' } })
    if (a.headers['x-request-id'] !== undefined) assert.equal(a.headers['x-request-id'], 'abc-123')
    const bad = await call(server.url, '/v1/health', {
      headers: { 'x-request-id': 'a"b<script>' + 'x'.repeat(500) },
    })
    assert.equal(bad.status, 200)
    assert.ok(!bad.headers['x-request-id']?.includes('<script>'))
  })
})

describe('failures', { concurrency: 4 }, () => {
  const URN = 'urn:sandbox-agent:error:'
  async function problem(path, options, status, urn, title) {
    const a = await call(server.url, path, options)
    assert.equal(a.status, status, a.text)
    assert.equal(a.headers['content-type'], 'application/problem+json')
    assert.deepEqual(Object.keys(a.json).slice(0, 4), ['type', 'title', 'status', 'detail'])
    const rest = Object.keys(a.json).slice(4)
    assert.deepEqual(rest, [...rest].sort())
    assert.equal(a.json.status, status)
    assert.equal(a.json.type, URN + urn)
    if (title) assert.equal(a.json.title, title)
    return a
  }
  const echo = (body, headers = { 'content-type': 'application/json' }) => ({
    method: 'POST',
    body,
    headers,
  })

  test('an unknown path has the known bytes', LIMIT, async () => {
    for (const path of ['/nowhere', '/v1', '/v1/', '/v1/health/', '//']) {
      const a = await problem(path, {}, 404, 'invalid_request', 'Not Found')
      assert.equal(
        a.text,
        '{"type":"urn:sandbox-agent:error:invalid_request","title":"Not Found","status":404,' +
          '"detail":"endpoint not found"}',
      )
    }
  })

  test('a wrong method: 405 with the methods that the path has', LIMIT, async () => {
    const a = await problem(
      '/v1/health',
      { method: 'DELETE' },
      405,
      'invalid_request',
      'Method Not Allowed',
    )
    assert.equal(a.headers.allow, 'GET,HEAD')
    const b = await problem('/test/echo', {}, 405, 'invalid_request')
    assert.equal(b.headers.allow, 'POST')
    const c = await problem('/test/events', { method: 'PUT' }, 405, 'invalid_request')
    assert.deepEqual(c.headers.allow.split(',').sort(), ['GET', 'HEAD', 'POST'])
  })

  test('HEAD where there is no GET: 405 without a body', LIMIT, async () => {
    const a = await ask(server.port, message(['HEAD /test/echo HTTP/1.1', 'Host: localhost']), {
      isHead: true,
    })
    assert.equal(a.status, 405)
  })

  test('a JSON body needs its content type: 415', LIMIT, async () => {
    await problem('/test/echo', echo(BODY, {}), 415, 'unsupported_media_type')
    await problem(
      '/test/echo',
      echo(BODY, { 'content-type': 'text/plain' }),
      415,
      'unsupported_media_type',
    )
    for (const type of [
      'application/json',
      'application/json; charset=utf-8',
      'Application/JSON',
      'application/vnd.x+json',
    ])
      assert.equal(
        (await call(server.url, '/test/echo', echo(BODY, { 'content-type': type }))).status,
        200,
        type,
      )
  })

  test('JSON that does not parse: 400', LIMIT, async () => {
    for (const bad of [
      '',
      '{',
      '{text:1}',
      '{"text":"a"} x',
      '{"text":"a",}',
      '[1,2',
      '\u0000',
      '{"text":"\\ud800"}',
      '{"text":01}',
      "{'text':'a'}",
      '{"text":"a\nb"}',
      'nul',
      '{"text":"a"}{"text":"b"}',
      '﻿{"text":"a"}',
    ])
      await problem('/test/echo', echo(bad), 400, 'invalid_request')
    await problem(
      '/test/echo',
      echo(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])),
      400,
      'invalid_request',
    )
    await problem('/test/echo', echo('['.repeat(100_000)), 400, 'invalid_request')
  })

  test('JSON of the wrong shape: 422 with the place', LIMIT, async () => {
    const missing = await problem('/test/echo', echo('{"n":1}'), 422, 'invalid_request')
    assert.match(missing.json.detail, /missing field `text`/)
    const wrong = await problem('/test/echo', echo('{"text":1}'), 422, 'invalid_request')
    assert.match(wrong.json.detail, /text: invalid type: integer `1`, expected a string/)
    for (const bad of [
      '[]',
      '1',
      '"a"',
      'null',
      '{"text":"a","n":-1}',
      '{"text":"a","n":1.5}',
      '{"text":"a","n":"1"}',
      '{"text":"a","n":18446744073709551616}',
      '{"text":null}',
    ])
      await problem('/test/echo', echo(bad), 422, 'invalid_request')
  })

  test('a string at its limit, one below and one above', LIMIT, async () => {
    for (const [n, ok] of [
      [999, true],
      [1000, true],
      [1001, false],
    ]) {
      const a = await call(server.url, '/test/echo', { json: { text: 'x'.repeat(n) } })
      assert.equal(a.status, ok ? 200 : 400, `${n}`)
    }
  })

  test('unknown members and query parameters are ignored', LIMIT, async () => {
    const a = await call(server.url, '/test/echo?what=ever', {
      json: { text: 'a', n: 1, extra: { deep: [1] } },
    })
    assert.equal(a.status, 200)
  })

  test('numbers and letters come back exactly', LIMIT, async () => {
    const text = 'ä€𝄞 "\\\u0001\u001f\u007f \u2028'
    const a = await call(server.url, '/test/echo', { json: { text, n: 9007199254740991 } })
    assert.deepEqual(a.json, { text, n: 9007199254740991 })
    const max = await call(server.url, '/test/echo', {
      method: 'POST',
      body: '{"text":"a","n":18446744073709551615}',
      headers: { 'content-type': 'application/json' },
    })
    assert.equal(max.status, 200)
    assert.match(max.text, /18446744073709551615/)
  })

  test('a query parameter that does not parse: 400', LIMIT, async () => {
    await problem('/test/stream?bytes=abc', {}, 400, 'invalid_request')
    await problem('/test/stream?bytes=-1', {}, 400, 'invalid_request')
    const a = await problem('/test/sink?slow=1', echo('x', {}), 400, 'invalid_request')
    assert.match(a.json.detail, /provided string was not `true` or `false`/)
  })

  test('a body over the limit: 413, at the limit it is read', LIMIT, async () => {
    const limit = 2 * 1024 * 1024
    const padded = (n) => `{"text":"a","n":1${' '.repeat(n - 18)}}`
    assert.equal(padded(limit).length, limit)
    assert.equal((await call(server.url, '/test/echo', echo(padded(limit)))).status, 200)
    const a = await ask(server.port, postJson('/test/echo', padded(limit + 1)))
    assert.equal(a.status, 413, a.text)
    assert.equal(a.json.title, 'Payload Too Large')
  })

  test('an SSE route for a client that cannot take it: 406', LIMIT, async () => {
    const a = await call(server.url, '/test/sse?count=1', { headers: { accept: 'image/png' } })
    assert.equal(a.status, 406, a.text)
    for (const accept of [
      'text/event-stream',
      '*/*',
      'text/*',
      'application/json, text/event-stream;q=0.5',
    ])
      assert.equal(
        (await call(server.url, '/test/sse?count=1', { headers: { accept } })).status,
        200,
        accept,
      )
  })
})

describe('CORS', { concurrency: 2 }, () => {
  const origin = 'http://app.example'
  const preflight = (s, path = '/v1/health', headers = {}) =>
    call(s.url, path, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'x-foo,content-type',
        ...headers,
      },
    })
  const allow = (a) =>
    Object.fromEntries(
      Object.entries(a.headers)
        .filter(([name]) => name.startsWith('access-control-'))
        .map(([name, value]) => [name.slice('access-control-'.length), value]),
    )

  test('without flags: no origin is allowed, the preflight still answers', LIMIT, async () => {
    assert.deepEqual(allow(await call(server.url, '/v1/health', { headers: { origin } })), {})
    const a = await preflight(server)
    assert.equal(a.status, 200)
    assert.equal(a.text, '')
    assert.deepEqual(allow(a), { 'allow-methods': '*', 'allow-headers': '*' })
    assert.equal(a.headers.allow, 'GET,HEAD')
    assert.equal(a.headers.vary, VARY)
  })

  test('OPTIONS answers on any path', LIMIT, async () => {
    for (const path of ['/nowhere', '/test/echo', '/', '/ui/x', '/v1/health/']) {
      const a = await preflight(server, path)
      assert.equal(a.status, 200, path)
      assert.equal(a.text, '')
    }
    assert.equal((await preflight(server, '/nowhere')).headers.allow, undefined)
  })

  test('-O: the origin is echoed only when it is in the list', LIMIT, async (t) => {
    const s = await start(t, { args: ['-O', origin, '--cors-allow-origin', 'http://b.example'] })
    for (const one of [origin, 'http://b.example']) {
      assert.deepEqual(allow(await call(s.url, '/v1/health', { headers: { origin: one } })), {
        'allow-origin': one,
      })
      assert.equal(allow(await preflight(s, '/v1/health', { origin: one }))['allow-origin'], one)
    }
    for (const one of [
      'http://c.example',
      'https://app.example',
      'http://app.example:80',
      'http://app.example.evil',
      'null',
    ])
      assert.equal(
        allow(await call(s.url, '/v1/health', { headers: { origin: one } }))['allow-origin'],
        undefined,
        one,
      )
    assert.deepEqual(allow(await call(s.url, '/v1/health')), {})
  })

  test('CORS headers are on failures too', LIMIT, async (t) => {
    const s = await start(t, { args: ['--token', 'T', '-O', origin] })
    for (const [path, options] of [
      ['/v1/health', {}],
      ['/nowhere', {}],
      ['/v1/health', { method: 'PUT', headers: bearer('T') }],
      ['/test/echo', { json: { n: 1 }, headers: bearer('T') }],
    ]) {
      const a = await call(s.url, path, { ...options, headers: { ...options.headers, origin } })
      assert.ok(a.status >= 400)
      assert.equal(a.headers['access-control-allow-origin'], origin, `${a.status}`)
    }
    assert.equal((await preflight(s)).status, 200, 'a preflight needs no token')
  })

  test('-M and -A are listed', LIMIT, async (t) => {
    const s = await start(t, {
      args: ['-O', origin, '-M', 'GET', '-M', 'POST', '-A', 'x-foo', '-A', 'content-type'],
    })
    assert.deepEqual(allow(await preflight(s)), {
      'allow-origin': origin,
      'allow-methods': 'GET,POST',
      'allow-headers': 'x-foo,content-type',
    })
    assert.deepEqual(allow(await call(s.url, '/v1/health', { headers: { origin } })), {
      'allow-origin': origin,
    })
  })

  test('-C with -M and -A: credentials are allowed on every answer', LIMIT, async (t) => {
    const s = await start(t, { args: ['-C', '-M', 'GET', '-A', 'x-foo', '-O', origin] })
    assert.equal(
      allow(await call(s.url, '/v1/health', { headers: { origin } }))['allow-credentials'],
      'true',
    )
    assert.equal(
      allow(await call(s.url, '/v1/health', { headers: { origin: 'http://c.example' } }))[
        'allow-credentials'
      ],
      'true',
    )
    assert.deepEqual(allow(await preflight(s)), {
      'allow-origin': origin,
      'allow-methods': 'GET',
      'allow-headers': 'x-foo',
      'allow-credentials': 'true',
    })
  })

  test('-C alone starts, and never pairs credentials with a star', LIMIT, async (t) => {
    const s = await start(t, { args: ['-C', '-O', origin] })
    const a = allow(await preflight(s))
    assert.equal(a['allow-credentials'], 'true')
    assert.equal(a['allow-origin'], origin)
    // To a browser `*` is a literal name once credentials are in play: say what was asked instead.
    assert.ok(a['allow-methods'].split(/, ?/).includes('POST'), a['allow-methods'])
    assert.deepEqual(a['allow-headers'].split(/, ?/).sort(), ['content-type', 'x-foo'])
  })

  test("-O '*' starts and allows any origin", LIMIT, async (t) => {
    const s = await start(t, { args: ['-O', '*'] })
    const a = allow(await call(s.url, '/v1/health', { headers: { origin } }))
    assert.ok(['*', origin].includes(a['allow-origin']), a['allow-origin'])
    const post = await call(s.url, '/test/echo', { json: { text: 'a' }, headers: { origin } })
    assert.equal(post.status, 200)
  })

  test("-O '*' with -C never answers a star with credentials", LIMIT, async (t) => {
    const s = await start(t, { args: ['-O', '*', '-C'] })
    const a = allow(await call(s.url, '/v1/health', { headers: { origin } }))
    assert.notEqual(a['allow-origin'], '*')
  })

  test('a header or method that cannot be one is refused at the start', LIMIT, async (t) => {
    const header = await run(t, ['server', '--port', '0', '-A', 'b@d'])
    assert.equal(header.code, 1)
    assert.match(header.err, /invalid cors header: b@d/)
    const method = await run(t, ['server', '--port', '0', '-M', 'B D'])
    assert.equal(method.code, 1)
    assert.match(method.err, /invalid cors method: B D/)
  })

  test('an origin with a line end cannot split the answer', LIMIT, async (t) => {
    const s = await start(t, { args: ['-O', '*'] })
    const a = await ask(s.port, get('/v1/health', 'Origin: http://x\tX-Evil: 1'))
    assert.equal(a.headers['x-evil'], undefined)
  })
})
