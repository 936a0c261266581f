// Raw bytes in, the wanted answer out. Runs against the sanitizer build: most of these are the cases
// where servers read too far, free too early or let a second request through.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { FLAT_MEMORY, start } from './lib/server.mjs'
import { bearer, call } from './lib/http.mjs'
import { MiB, openFds, rssBytes, until } from './lib/proc.mjs'
import { CRLF, HEALTH_BODY, Raw, ask, chunk, get, message, on, post, postJson } from './lib/raw.mjs'
import { OP, WsRaw, closeFrame, frame } from './lib/ws.mjs'

const CASE = { timeout: 60_000 }
const BODY = '{"text":"hello","n":7}'
const SMUGGLED = get('/v1/health', 'X-Smuggled: yes')
const TOKEN = 'cases-token'

let server, locked
before(async () => {
  server = await start()
  locked = await start(undefined, { args: ['--token', TOKEN] })
})
after(async () => {
  await server.stop()
  await locked.stop()
})

// One answer of this status, then the end of the connection, whatever else was sent.
async function refused(bytes, status, to = server.port) {
  return on(to, async (c) => {
    c.send(bytes)
    const a = await c.answer()
    const wanted = [status].flat()
    assert.ok(
      wanted.includes(a.status),
      `wanted ${wanted.join(' or ')}, got ${a.status}: ${a.text}`,
    )
    assert.equal((await c.rest()).toString('latin1'), '', 'nothing may follow the refusal')
    assert.equal(a.headers.connection, 'close', 'a refusal that ends the connection says so')
    assert.equal(a.headers['content-type'], 'application/problem+json')
    assert.equal(a.json.status, a.status)
    return a
  })
}

async function echoes(bytes) {
  const a = await ask(server.port, bytes)
  assert.equal(a.status, 200, a.text)
  assert.deepEqual(a.json, JSON.parse(BODY))
}

async function healthy(bytes, to = server.port) {
  const a = await ask(to, bytes)
  assert.equal(a.status, 200, a.text)
  assert.equal(a.text, HEALTH_BODY)
  return a
}

describe('bodies', { concurrency: 4 }, () => {
  test('chunked body with extension and trailer is read', CASE, async () => {
    const body = `5;name="v;x"${CRLF}${BODY.slice(0, 5)}${CRLF}${chunk(BODY.slice(5))}0;last${CRLF}X-Trailer: 1${CRLF}${CRLF}`
    await echoes(post('/test/echo', body, 'Transfer-Encoding: chunked', 'Trailer: X-Trailer'))
  })

  test('a trailer does not stand in for a header', CASE, async () => {
    const head = ['POST /test/echo HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked']
    const body = `${chunk(BODY)}0${CRLF}Content-Type: application/json${CRLF}${CRLF}`
    const a = await ask(server.port, message(head, body))
    assert.equal(a.status, 415, a.text)
  })

  test('three pipelined requests in one write are answered in order', CASE, () =>
    on(server.port, async (c) => {
      c.send(Buffer.concat([get('/v1/health'), postJson('/test/echo', BODY), get('/nowhere')]))
      assert.equal((await c.answer()).text, HEALTH_BODY)
      assert.deepEqual((await c.answer()).json, JSON.parse(BODY))
      assert.equal((await c.answer()).status, 404)
    }),
  )

  test('Expect: 100-continue with the body at once', CASE, () =>
    on(server.port, async (c) => {
      c.send(postJson('/test/echo', BODY, 'Expect: 100-continue'))
      let a = await c.answer()
      // A server that already holds the body may leave the interim answer out (RFC 9110, 10.1.1).
      if (a.status === 100) a = await c.answer()
      assert.equal(a.status, 200)
      assert.deepEqual(a.json, JSON.parse(BODY))
    }),
  )

  test('Expect: 100-continue with the body only after the 100', CASE, () =>
    on(server.port, async (c) => {
      c.send(post('/test/echo', '', `Content-Length: ${BODY.length}`, 'Expect: 100-continue'))
      assert.equal((await c.answer()).status, 100)
      c.send(BODY)
      const a = await c.answer()
      assert.equal(a.status, 200)
      assert.deepEqual(a.json, JSON.parse(BODY))
    }),
  )

  test('Expect: 100-continue is refused before the body when the token is wrong', CASE, () =>
    on(locked.port, async (c) => {
      c.send(post('/test/echo', '', `Content-Length: ${BODY.length}`, 'Expect: 100-continue'))
      assert.equal((await c.answer()).status, 401)
    }),
  )
})

describe('ambiguous lengths', { concurrency: 4 }, () => {
  const both = `0${CRLF}${CRLF}`
  const cl = 'Content-Length: 5'
  const te = 'Transfer-Encoding: chunked'
  const table = [
    ['Content-Length then Transfer-Encoding', [cl, te], both],
    ['Transfer-Encoding then Content-Length', [te, cl], both],
    ['two different Content-Length', ['Content-Length: 22', 'Content-Length: 5'], BODY],
    ['Content-Length 8, 8', ['Content-Length: 8, 8'], '12345678'],
    ['Content-Length +8', ['Content-Length: +8'], '12345678'],
    ['Content-Length 0x8', ['Content-Length: 0x8'], '12345678'],
    ['Content-Length -1', ['Content-Length: -1'], ''],
    ['empty Content-Length', ['Content-Length:'], ''],
    ['Content-Length of 30 digits', [`Content-Length: ${'9'.repeat(30)}`], '12345678'],
    ['Content-Length 8 with a blank inside', ['Content-Length: 2 2'], BODY],
    ['Transfer-Encoding xchunked', ['Transfer-Encoding: xchunked'], both],
    ['Transfer-Encoding chunked, identity', ['Transfer-Encoding: chunked, identity'], both],
    [
      'two Transfer-Encoding headers, the last not chunked',
      [te, 'Transfer-Encoding: identity'],
      both,
    ],
    ['two Transfer-Encoding headers, both chunked', [te, te], both],
    ['Transfer-Encoding \\x0bchunked', ['Transfer-Encoding: \x0bchunked'], both],
    ['Transfer-Encoding chunked with a trailing letter', ['Transfer-Encoding: chunkedx'], both],
  ]
  for (const [name, headers, body] of table)
    test(`${name} is refused and nothing behind it is read`, CASE, () =>
      refused(Buffer.concat([post('/test/echo', body, ...headers), SMUGGLED]), 400),
    )

  test('the same Content-Length twice is refused', CASE, () =>
    refused(post('/test/echo', BODY, 'Content-Length: 22', 'Content-Length: 22'), 400),
  )

  test('Transfer-Encoding on HTTP/1.0 is refused', CASE, () =>
    refused(
      message(
        [
          'POST /test/echo HTTP/1.0',
          'Host: localhost',
          'Content-Type: application/json',
          'Transfer-Encoding: chunked',
        ],
        `${chunk(BODY)}0${CRLF}${CRLF}`,
      ),
      400,
    ),
  )
})

describe('malformed heads', { concurrency: 4 }, () => {
  const line = 'GET /v1/health HTTP/1.1'
  const host = 'Host: localhost'
  const table = [
    ['a space before the colon', message([line, host, 'X-Name : v'])],
    ['a header without a colon', message([line, host, 'nonsense'])],
    ['an empty header name', message([line, host, ': v'])],
    ['a folded header', message([line, host, 'X-Long: a', ' b'])],
    ['a folded header with a tab', message([line, host, 'X-Long: a', '\tb'])],
    ['a NUL in a value', message([line, host, 'X-V: a\0b'])],
    ['a bare CR in a value', message([line, host, 'X-V: a\rb'])],
    ['a bare CR that hides a header', message([line, host, 'X-V: a\rTransfer-Encoding: chunked'])],
    ['a control character in a name', message([line, host, 'X\x01V: a'])],
    ['a blank before the first header', message([line, ' X: y', host])],
    ['LF-only line ends', Buffer.from('GET /v1/health HTTP/1.1\nHost: localhost\n\n')],
    ['LF after the request line', Buffer.from('GET /v1/health HTTP/1.1\nHost: localhost\r\n\r\n')],
    ['LF after a header', Buffer.from('GET /v1/health HTTP/1.1\r\nHost: localhost\n\r\n')],
    ['LF as the last line end', Buffer.from('GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\n')],
    ['no Host on HTTP/1.1', message([line, 'X-A: b'])],
    ['two Host headers', message([line, host, host])],
    ['two different Host headers', message([line, host, 'Host: 127.0.0.1'])],
    ['a Host with a path in it', message([line, 'Host: localhost/x'])],
    ['a control character in the target', message(['GET /v1/\x01health HTTP/1.1', host])],
    ['a blank in the target', message(['GET /v1/ health HTTP/1.1', host])],
    ['a target without a slash', message(['GET v1/health HTTP/1.1', host])],
  ]
  for (const [name, bytes] of table)
    test(`${name} is refused`, CASE, () => refused(Buffer.concat([bytes, SMUGGLED]), 400))
})

describe('malformed chunks', { concurrency: 4 }, () => {
  const end = `0${CRLF}${CRLF}`
  const table = [
    ['a chunk size that overflows', `FFFFFFFFFFFFFFFFF${CRLF}abc${CRLF}${end}`],
    ['a chunk size that wraps to 3', `10000000000000003${CRLF}abc${CRLF}${end}`],
    ['no CRLF after chunk data', `3${CRLF}abcX${CRLF}${end}`],
    ['a negative size', `-3${CRLF}abc${CRLF}${end}`],
    ['a signed size', `+3${CRLF}abc${CRLF}${end}`],
    ['a size with 0x', `0x3${CRLF}abc${CRLF}${end}`],
    ['an empty size', `${CRLF}abc${CRLF}${end}`],
    ['a bare LF after the size', `3\nabc${CRLF}${end}`],
    ['a bare LF after the data', `3${CRLF}abc\n${end}`],
    ['a bare LF after an extension', `3;a\nabc${CRLF}${end}`],
    ['a bare LF at the end', `3${CRLF}abc${CRLF}0${CRLF}\n`],
  ]
  for (const [name, body] of table)
    for (const path of ['/test/echo', '/test/sink'])
      test(`${name} on ${path} is refused`, CASE, () =>
        refused(Buffer.concat([post(path, body, 'Transfer-Encoding: chunked'), SMUGGLED]), 400),
      )
})

describe('header bombs', () => {
  const bombs = [
    ['one header of 70 KB', get('/v1/health', `X-Big: ${'a'.repeat(70 * 1024)}`), 431],
    ['one header of 1 MB', get('/v1/health', `X-Big: ${'a'.repeat(MiB)}`), 431],
    [
      '2000 headers',
      get('/v1/health', ...Array.from({ length: 2000 }, (_, i) => `X-${i}: v`)),
      431,
    ],
    ['a header name of 70 KB', get('/v1/health', `X-${'a'.repeat(70 * 1024)}: v`), 431],
    ['a URL of 70 KB', get(`/v1/health?${'a'.repeat(70 * 1024)}`), 414],
    ['a path of 70 KB', get(`/v1/${'a'.repeat(70 * 1024)}`), 414],
  ]
  for (const [name, bytes, status] of bombs)
    test(`${name} is refused with ${status}`, CASE, () => refused(bytes, status))

  test('memory stays flat under header bombs', CASE, async (t) => {
    const s = await start(t, { env: FLAT_MEMORY })
    const round = async () => {
      for (const [, bytes, status] of bombs) await refused(bytes, status, s.port)
    }
    for (let i = 0; i < 3; i++) await round()
    const before = rssBytes(s.pid)
    for (let i = 0; i < 30; i++) await round()
    const grown = rssBytes(s.pid) - before
    assert.ok(grown < 4 * MiB, `grew by ${grown} bytes over 180 bombs`)
  })

  test('a head one byte below, at and above the printed limits', CASE, async () => {
    const { json } = await call(server.url, '/v1/limits')
    const flat = flatten(json)
    const maxUri = named(flat, /uri/i)
    const maxHeaders = named(flat, /max.?headers$|headers.*max|headerCount/i)
    const uriOf = (n) => get(`/v1/health?${'a'.repeat(n - '/v1/health?'.length)}`)
    await healthy(uriOf(maxUri - 1))
    await healthy(uriOf(maxUri))
    await refused(uriOf(maxUri + 1), 414)
    const headersOf = (n) =>
      get('/v1/health', ...Array.from({ length: n - 1 }, (_, i) => `X-${i}: v`))
    await healthy(headersOf(maxHeaders - 1))
    await healthy(headersOf(maxHeaders))
    await refused(headersOf(maxHeaders + 1), 431)
  })
})

function flatten(value, path = '', into = {}) {
  for (const [key, v] of Object.entries(value))
    if (v && typeof v === 'object') flatten(v, `${path}${key}.`, into)
    else into[path + key] = v
  return into
}
function named(flat, pattern) {
  const hit = Object.entries(flat).find(([key]) => pattern.test(key))
  assert.ok(hit, `no limit like ${pattern} in ${JSON.stringify(flat)}`)
  return Number(hit[1])
}

describe('targets', { concurrency: 4 }, () => {
  test('HEAD has the headers of GET and no body', CASE, () =>
    on(server.port, async (c) => {
      c.send(
        Buffer.concat([
          message(['HEAD /v1/health HTTP/1.1', 'Host: localhost']),
          get('/v1/health'),
        ]),
      )
      const head = await c.answer({ isHead: true })
      const full = await c.answer()
      assert.equal(head.status, 200)
      assert.equal(full.text, HEALTH_BODY)
      const names = (a) => Object.keys(a.headers).sort()
      assert.deepEqual(names(head), names(full))
      assert.equal(head.headers['content-length'], String(HEALTH_BODY.length))
    }),
  )

  for (const path of [
    '/v1%2Fhealth',
    '/v1/../v1/health',
    '/v1/./health',
    '/v1//health',
    '//v1/health',
    '/v1/health/',
    '/v1/health%00',
    '/V1/health',
    '/v1/health;a=b',
  ])
    test(`${path} is kept as sent: 404`, CASE, async () => {
      const a = await ask(server.port, get(path))
      assert.equal(a.status, 404)
      assert.equal(a.json.detail, 'endpoint not found')
    })

  test('/v1/%68ealth means the same to the router and to the auth check', CASE, async () => {
    const open = await ask(locked.port, get('/v1/%68ealth'))
    const known = await ask(locked.port, get('/v1/%68ealth', `Authorization: Bearer ${TOKEN}`))
    if (known.status === 200)
      assert.equal(open.status, 401, 'decoded for the router, not for the token')
    else assert.deepEqual([open.status, known.status], [404, 404])
  })

  test('absolute-form target', CASE, () =>
    healthy(get(`http://localhost:${server.port}/v1/health`)),
  )
  test('absolute-form target needs the token too', CASE, async () => {
    const a = await ask(locked.port, get(`http://localhost:${locked.port}/v1/health`))
    assert.equal(a.status, 401)
  })
  test('a query and a fragment-less question mark', CASE, async () => {
    await healthy(get('/v1/health?'))
    await healthy(get('/v1/health?x=1&x=2&&='))
  })
})

describe('versions and methods', { concurrency: 4 }, () => {
  test('HTTP/1.0 is answered and closed', CASE, () =>
    on(server.port, async (c) => {
      c.send(message(['GET /v1/health HTTP/1.0', 'Host: localhost']))
      const a = await c.answer()
      assert.equal(a.status, 200)
      assert.equal(a.text, HEALTH_BODY)
      assert.equal((await c.rest()).length, 0)
    }),
  )

  test('HTTP/1.0 without a Host is answered when a token says who asks', CASE, async () => {
    await healthy(
      message(['GET /v1/health HTTP/1.0', `Authorization: Bearer ${TOKEN}`]),
      locked.port,
    )
  })

  test('HTTP/1.0 with keep-alive stays open', CASE, () =>
    on(server.port, async (c) => {
      for (let i = 0; i < 3; i++) {
        c.send(message(['GET /v1/health HTTP/1.0', 'Host: localhost', 'Connection: keep-alive']))
        const a = await c.answer()
        assert.equal(a.status, 200)
        assert.match(a.headers.connection ?? '', /keep-alive/i)
      }
    }),
  )

  for (const [status, bytes] of [
    [505, message(['GET /v1/health HTTP/2.0', 'Host: localhost'])],
    [505, message(['GET /v1/health HTTP/1.2', 'Host: localhost'])],
    [505, message(['GET /v1/health HTTP/0.9', 'Host: localhost'])],
    [505, Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    [505, message(['GET /v1/health', 'Host: localhost'])], // the form of HTTP/0.9
    [400, message(['GET /v1/health HTPP/1.1', 'Host: localhost'])],
  ])
    test(`${JSON.stringify(bytes.toString().split(CRLF)[0])} is refused`, CASE, () =>
      refused(bytes, status),
    )

  for (const method of ['FOO', 'PATCH', 'DELETE', 'PROPFIND', 'TRACE', 'get', 'M-SEARCH'])
    test(`${method} on a GET route: 405 with allow`, CASE, async () => {
      const a = await ask(
        server.port,
        message([`${method} /v1/health HTTP/1.1`, 'Host: localhost']),
      )
      assert.equal(a.status, 405, a.text)
      assert.equal(a.headers.allow, 'GET,HEAD')
    })

  test('CONNECT opens no tunnel', CASE, () =>
    on(server.port, async (c) => {
      c.send(
        Buffer.concat([message(['CONNECT localhost:80 HTTP/1.1', 'Host: localhost:80']), SMUGGLED]),
      )
      const a = await c.answer()
      assert.equal(a.status, 400, a.text)
      assert.equal((await c.rest()).length, 0, 'nothing behind it is read')
    }),
  )

  test('a leading CRLF before the request line is skipped', CASE, () =>
    healthy(Buffer.concat([Buffer.from(CRLF), get('/v1/health')])),
  )

  test('one byte per write', CASE, () =>
    on(server.port, async (c) => {
      for (const byte of postJson('/test/echo', BODY)) await c.send(Buffer.from([byte]))
      const a = await c.answer()
      assert.equal(a.status, 200)
      assert.deepEqual(a.json, JSON.parse(BODY))
    }),
  )
})

describe('deadlines and departures', () => {
  test(
    '1000 half heads are closed at the deadline while others are served',
    { timeout: 90_000 },
    async (t) => {
      const headMs = 4000
      const s = await start(t, { env: { SANDBOX_AGENT_HEAD_TIMEOUT_MS: String(headMs) } })
      const from = Date.now()
      const half = []
      for (let i = 0; i < 1000; i += 50)
        half.push(
          ...(await Promise.all(
            Array.from({ length: 50 }, async () => {
              const c = await Raw.open(s.port)
              await c.send('GET /v1/health HTTP/1.1\r\nHost: local')
              return c
            }),
          )),
        )
      const opened = Date.now()
      const took = []
      for (let i = 0; i < 20; i++) {
        const at = performance.now()
        await healthy(get('/v1/health', 'Connection: close'), s.port)
        took.push(performance.now() - at)
      }
      took.sort((a, b) => a - b)
      assert.ok(took[18] < 100, `served in ${took.map((ms) => ms.toFixed(0))} ms`)
      assert.ok(
        Date.now() - from < headMs,
        'the requests above were meant to run before the deadline',
      )
      await Promise.all(
        half.map(async (c) => {
          const bytes = (await c.rest(headMs + 20_000)).toString('latin1')
          assert.match(bytes, /^$|^HTTP\/1\.1 408 /)
          c.close()
        }),
      )
      const last = Date.now() - opened
      assert.ok(last > headMs * 0.5 && last < headMs + 10_000, `closed after ${last} ms`)
    },
  )

  test('a head that drips does not push the deadline on', CASE, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_HEAD_TIMEOUT_MS: '1000' } })
    await on(s.port, async (c) => {
      const from = Date.now()
      c.send('GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-Drip: ')
      const drip = setInterval(() => c.send('a'), 50)
      try {
        await c.rest(10_000)
      } finally {
        clearInterval(drip)
      }
      const took = Date.now() - from
      assert.ok(took >= 900 && took < 6000, `closed after ${took} ms`)
    })
  })

  for (const path of ['/test/echo', '/test/sink'])
    test(`a body slower than the deadline on ${path}: 408 and close`, CASE, async (t) => {
      const s = await start(t, { env: { SANDBOX_AGENT_BODY_TIMEOUT_MS: '500' } })
      await refused(post(path, '{"text":"', 'Content-Length: 100'), 408, s.port)
      await refused(post(path, '5\r\n{"tex', 'Transfer-Encoding: chunked'), 408, s.port)
    })

  test('an idle connection is closed at the idle deadline, without an answer', CASE, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_IDLE_TIMEOUT_MS: '500' } })
    await on(s.port, async (c) => {
      c.send(get('/v1/health'))
      assert.equal((await c.answer()).status, 200)
      assert.equal((await c.rest(10_000)).length, 0)
    })
  })

  test('a client that resets in the middle of a response is no error of ours', CASE, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_LOG_STDOUT: '1' } })
    await healthy(get('/v1/health', 'Connection: close'), s.port)
    const before = openFds(s.pid)
    for (let i = 0; i < 20; i++) {
      const c = await Raw.open(s.port)
      c.send(get('/test/stream?bytes=100000000'))
      await c.head()
      await c.exactly(100_000, 'some of the body')
      c.reset()
    }
    await until(() => openFds(s.pid) <= before, 'descriptors back to the start')
    await healthy(get('/v1/health'), s.port)
    await s.stop()
    const said = s.stdout() + s.stderr()
    assert.doesNotMatch(said, /level"?[=:]"?(error|warn)/i)
  })
})

describe('websocket frames', { concurrency: 4 }, () => {
  const ws = () => WsRaw.open(server.port, '/test/ws')
  const text = (f) => f.data.toString('utf8')

  // Sends frames, wants this close code and then the end of the connection.
  const violation = (name, code, ...frames) =>
    test(`${name}: ${[code].flat().join(' or ')}`, CASE, async () => {
      const w = await ws()
      w.send(Buffer.concat(frames))
      const seen = await w.closeCode()
      assert.ok([code].flat().includes(seen), `closed with ${seen}`)
      w.close()
    })

  violation('an unmasked client frame', 1002, frame(OP.text, 'hi', { isMasked: false }))
  violation('an RSV1 bit', 1002, frame(OP.text, 'hi', { rsv: 4 }))
  violation('an RSV2 bit', 1002, frame(OP.text, 'hi', { rsv: 2 }))
  violation('an RSV3 bit on a ping', 1002, frame(OP.ping, 'hi', { rsv: 1 }))
  violation('bad UTF-8', 1007, frame(OP.text, Buffer.from([0x61, 0xc3, 0x28])))
  violation('an overlong UTF-8 form', 1007, frame(OP.text, Buffer.from([0xc0, 0xaf])))
  violation('a UTF-8 surrogate', 1007, frame(OP.text, Buffer.from([0xed, 0xa0, 0x80])))
  violation('UTF-8 past U+10FFFF', 1007, frame(OP.text, Buffer.from([0xf4, 0x90, 0x80, 0x80])))
  violation(
    'UTF-8 cut off at the end of the message',
    1007,
    frame(OP.text, Buffer.from([0xe2, 0x82])),
  )
  violation('a message one byte over the limit', 1009, frame(OP.binary, Buffer.alloc(MiB + 1)))
  violation(
    'a message over the limit in fragments',
    1009,
    frame(OP.binary, Buffer.alloc(MiB), { isFin: false }),
    frame(OP.cont, 'x'),
  )
  violation('a frame that claims 2^62 bytes', 1009, frame(OP.binary, '', { length: 2 ** 62 }))
  violation(
    'a length with the top bit set',
    [1002, 1009],
    Buffer.from([0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4]),
  )
  violation('a ping of 126 bytes', 1002, frame(OP.ping, 'a'.repeat(126)))
  violation('a fragmented ping', 1002, frame(OP.ping, 'a', { isFin: false }))
  violation('a fragmented close', 1002, closeFrame(1000, '', { isFin: false }))
  for (const op of [3, 7, 11, 15]) violation(`unknown opcode ${op}`, 1002, frame(op, 'x'))
  violation('a continuation of nothing', 1002, frame(OP.cont, 'x'))
  violation(
    'a new message inside a fragmented one',
    1002,
    frame(OP.text, 'a', { isFin: false }),
    frame(OP.text, 'b'),
  )
  for (const code of [999, 1004, 1005, 1006, 1015, 2999, 5000, 0])
    violation(`close code ${code}`, 1002, closeFrame(code))
  violation('a close of one byte', 1002, frame(OP.close, 'x'))
  violation(
    'a close reason that is not UTF-8',
    [1002, 1007],
    closeFrame(1000, Buffer.from([0xc3, 0x28])),
  )
  for (const code of [1000, 1001, 1003, 1007, 1011, 3000, 4999])
    violation(`close with ${code} is answered with the same code`, code, closeFrame(code, 'bye'))
  violation('a close without a code', [1000, 1005], frame(OP.close))
  violation('frames behind a close are not read', 1000, closeFrame(1000), frame(OP.text, 'late'))

  test('a fragmented text with a ping in between: pong, then the whole message', CASE, async () => {
    const w = await ws()
    w.send(
      Buffer.concat([
        frame(OP.text, 'he', { isFin: false }),
        frame(OP.ping, 'p'),
        frame(OP.cont, 'l', { isFin: false }),
        frame(OP.cont, 'lo'),
      ]),
    )
    const pong = await w.next()
    assert.deepEqual([pong.op, text(pong)], [OP.pong, 'p'])
    const message = await w.next()
    assert.deepEqual(
      [message.op, text(message), message.isFin, message.rsv],
      [OP.text, 'hello', true, 0],
    )
    w.close()
  })

  test('a letter split over two fragments is one letter', CASE, async () => {
    const w = await ws()
    const euro = Buffer.from('€')
    w.send(
      Buffer.concat([
        frame(OP.text, euro.subarray(0, 1), { isFin: false }),
        frame(OP.cont, euro.subarray(1)),
      ]),
    )
    assert.equal(text(await w.next()), '€')
    w.close()
  })

  test('messages of 0, 125, 126, 65535, 65536 bytes and of 1 MiB come back', CASE, async () => {
    const w = await ws()
    for (const n of [0, 1, 125, 126, 127, 65535, 65536, MiB]) {
      const data = Buffer.alloc(n, 'x')
      w.send(frame(OP.binary, data))
      const f = await w.next()
      assert.deepEqual([f.op, f.data.length], [OP.binary, n])
      assert.ok(f.data.equals(data))
    }
    w.close()
  })

  test('an unasked pong is ignored, a ping of 125 bytes is answered', CASE, async () => {
    const w = await ws()
    w.send(Buffer.concat([frame(OP.pong, 'nobody asked'), frame(OP.ping, 'a'.repeat(125))]))
    const f = await w.next()
    assert.deepEqual([f.op, text(f)], [OP.pong, 'a'.repeat(125)])
    w.close()
  })

  test('100,000 one-byte frames in one write come back in order', CASE, async () => {
    const w = await ws()
    const n = 100_000
    const letters = Array.from({ length: n }, (_, i) => String.fromCharCode(97 + (i % 26)))
    w.send(Buffer.concat(letters.map((letter) => frame(OP.text, letter))))
    const all = await w.raw.exactly(3 * n, 'the echoes', 50_000)
    for (let i = 0; i < n; i++)
      if (
        all[3 * i] !== 0x81 ||
        all[3 * i + 1] !== 1 ||
        all[3 * i + 2] !== letters[i].charCodeAt(0)
      )
        assert.fail(`echo ${i} is ${all.subarray(3 * i, 3 * i + 3).toString('hex')}`)
    w.close()
  })

  test('a frame split at every byte', CASE, async () => {
    const w = await ws()
    const bytes = frame(OP.text, 'split '.repeat(30))
    for (let at = 1; at < bytes.length; at++) {
      await w.send(bytes.subarray(0, at))
      await w.send(bytes.subarray(at))
      assert.equal(text(await w.next()), 'split '.repeat(30), `cut at ${at}`)
    }
    for (const byte of bytes) await w.send(Buffer.from([byte]))
    assert.equal(text(await w.next()), 'split '.repeat(30))
    w.close()
  })

  test('a frame right behind the handshake is not lost', CASE, () =>
    on(server.port, async (c) => {
      const key = Buffer.alloc(16, 7).toString('base64')
      c.send(
        Buffer.concat([
          upgrade(`Sec-WebSocket-Key: ${key}`, 'Sec-WebSocket-Version: 13'),
          frame(OP.text, 'early'),
        ]),
      )
      assert.equal((await c.head()).status, 101)
      const w = new WsRaw(c)
      assert.equal(text(await w.next()), 'early')
    }),
  )
})

const upgrade = (...headers) =>
  message([
    'GET /test/ws HTTP/1.1',
    'Host: localhost',
    'Connection: Upgrade',
    'Upgrade: websocket',
    ...headers,
  ])

describe('websocket handshakes', { concurrency: 4 }, () => {
  const key = `Sec-WebSocket-Key: ${Buffer.alloc(16, 1).toString('base64')}`
  const version = 'Sec-WebSocket-Version: 13'
  const answered = async (bytes, status) => {
    const a = await ask(server.port, bytes)
    assert.equal(a.status, status, a.text)
    assert.equal(a.headers['content-type'], 'application/problem+json')
    return a
  }

  test('without a version: 426', CASE, async () => {
    const a = await answered(upgrade(key), 426)
    assert.equal(a.headers['sec-websocket-version'], '13')
  })
  test('with version 8: 426', CASE, async () => {
    const a = await answered(upgrade(key, 'Sec-WebSocket-Version: 8'), 426)
    assert.equal(a.headers['sec-websocket-version'], '13')
  })
  test('without a key: 400', CASE, () => answered(upgrade(version), 400))
  test('with a key of 15 bytes: 400', CASE, () =>
    answered(upgrade(`Sec-WebSocket-Key: ${Buffer.alloc(15).toString('base64')}`, version), 400),
  )
  test('without upgrade headers: 400', CASE, () => answered(get('/test/ws'), 400))
  test('with POST: 405', CASE, async () => {
    const a = await ask(server.port, postJson('/test/ws', '{}'))
    assert.equal(a.status, 405)
  })
  test('Connection: keep-alive, Upgrade as browsers send it', CASE, () =>
    on(server.port, async (c) => {
      c.send(
        message([
          'GET /test/ws HTTP/1.1',
          'Host: localhost',
          'Connection: keep-alive, Upgrade',
          'Upgrade: WebSocket',
          key,
          version,
        ]),
      )
      assert.equal((await c.head()).status, 101)
    }),
  )
  test('an Upgrade header on an ordinary route is ignored', CASE, () =>
    healthy(
      message([
        'GET /v1/health HTTP/1.1',
        'Host: localhost',
        'Connection: Upgrade',
        'Upgrade: websocket',
        key,
        version,
      ]),
    ),
  )
  test('Upgrade: h2c is ignored', CASE, () =>
    healthy(
      message([
        'GET /v1/health HTTP/1.1',
        'Host: localhost',
        'Connection: Upgrade, HTTP2-Settings',
        'Upgrade: h2c',
        'HTTP2-Settings: AAMAAABkAAQAAP__',
      ]),
    ),
  )
  test('the token is asked before the upgrade', CASE, async () => {
    const wanted = async (headers, status) => {
      const a = await call(locked.url, '/test/ws', {
        headers: {
          connection: 'Upgrade',
          upgrade: 'websocket',
          'sec-websocket-version': '13',
          'sec-websocket-key': Buffer.alloc(16).toString('base64'),
          ...headers,
        },
      })
      assert.equal(a.status, status)
    }
    await wanted({}, 401)
    await wanted(bearer(TOKEN), 101)
  })
})
