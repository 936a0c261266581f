// Listening ports, and the preview proxy against real servers of every kind.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import WebSocket, { WebSocketServer } from 'ws'
import { FLAT_MEMORY, RELEASE, start, tempDir } from './lib/server.mjs'
import { bearer, call, open } from './lib/http.mjs'
import { MiB, openFds, rssBytes, until, within } from './lib/proc.mjs'
import { Raw, get, message, on } from './lib/raw.mjs'
import { subscribe } from './lib/sse.mjs'

const LIMIT = { timeout: 60_000 }
let server
before(async () => (server = await start()))
after(() => server.stop())

// ---- servers to go to ----

async function listen(t, s, host = '127.0.0.1') {
  s.listen(0, host)
  await once(s, 'listening')
  t?.after(() => {
    s.closeAllConnections?.()
    s.close()
  })
  return s.address().port
}
const upstream = (t, handler, host) => listen(t, http.createServer(handler), host)
// Answers raw bytes to each connection, whatever it says; keeps what came in.
async function rawUpstream(t, onSocket) {
  const sockets = new Set()
  const s = net.createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onSocket(socket)
  })
  t.after(() => sockets.forEach((socket) => socket.destroy()))
  return listen(t, s)
}
const at = (port, rest = '/') => `/v1/ports/${port}/proxy${rest}`
async function readAll(stream) {
  const parts = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}
// What a request looks like when it has arrived.
const mirror = async (req, res) => {
  const body = await readAll(req)
  res.setHeader('content-type', 'application/json')
  res.end(
    JSON.stringify({
      method: req.method,
      url: req.url,
      fields: req.rawHeaders,
      headers: req.headers,
      body: body.toString('latin1'),
    }),
  )
}
const portFromNobody = async () => {
  const s = net.createServer().listen(0, '127.0.0.1')
  await once(s, 'listening')
  const { port } = s.address()
  s.close()
  await once(s, 'close')
  return port
}

// ---- GET /v1/ports ----

test('a port that is listened on is listed with its process', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  const { status, json, headers } = await call(server.url, '/v1/ports')
  assert.equal(status, 200)
  assert.match(headers['content-type'], /^application\/json/)
  const row = json.ports.find((p) => p.port === port)
  assert.deepEqual(row, {
    port,
    address: '127.0.0.1',
    loopback: true,
    pid: process.pid,
    command: 'node',
  })
  assert.deepEqual(
    json.ports.map((p) => p.port),
    json.ports.map((p) => p.port).sort((a, b) => a - b),
  )
})

test('addresses of both families are told apart', LIMIT, async (t) => {
  const wide = await upstream(t, mirror, '0.0.0.0')
  const six = await upstream(t, mirror, '::1')
  const wideSix = await upstream(t, mirror, '::')
  const { json } = await call(server.url, '/v1/ports')
  const of = (port) => json.ports.filter((p) => p.port === port).map((p) => [p.address, p.loopback])
  assert.deepEqual(of(wide), [['0.0.0.0', false]])
  assert.deepEqual(of(six), [['::1', true]])
  assert.deepEqual(of(wideSix), [['::', false]])
})

test('the server leaves itself out', LIMIT, async () => {
  const { json } = await call(server.url, '/v1/ports')
  assert.ok(!json.ports.some((p) => p.port === server.port))
})

test('the list needs a token when there is one', LIMIT, async (t) => {
  const s = await start(t, { args: ['--token', 'T'] })
  assert.equal((await call(s.url, '/v1/ports')).status, 401)
  assert.equal((await call(s.url, '/v1/ports', { headers: bearer('T') })).status, 200)
  assert.equal((await call(s.url, at(1))).status, 401)
})

for (const [name, path, headers] of [
  ['by accept', '/v1/ports', { accept: 'text/event-stream' }],
  ['by query', '/v1/ports?follow=true', { accept: '*/*' }],
])
  test(`changes are told as events (${name})`, LIMIT, async (t) => {
    const sse = await subscribe(server.url, path, { headers })
    assert.equal(sse.status, 200)
    assert.match(sse.res.headers['content-type'], /^text\/event-stream/)
    const lists = () => sse.events.map((e) => JSON.parse(e.data).ports.map((p) => p.port))
    await sse.atLeast(1)
    const s = http.createServer(mirror)
    const port = await listen(t, s)
    await until(() => lists().at(-1).includes(port), 'the port in a list')
    s.close()
    await until(() => !lists().at(-1).includes(port), 'the port gone from the list')
    assert.ok(!lists()[0].includes(port))
    assert.ok(sse.events.every((e) => e.event === 'ports'))
    sse.close()
  })

test('many ask at the same time', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  const all = await Promise.all(Array.from({ length: 100 }, () => call(server.url, '/v1/ports')))
  for (const { json } of all) assert.ok(json.ports.some((p) => p.port === port))
})

// ---- the proxy: addresses ----

test('a port must be one', LIMIT, async () => {
  for (const bad of ['0', '65536', '99999999999999999999', 'http', '-1', '80a', '%20', '1.5']) {
    for (const rest of ['', '/', '/x']) {
      const { status, json } = await call(server.url, at(bad, rest))
      assert.equal(status, 400, `${bad}${rest}`)
      assert.match(json.detail, /port/)
    }
  }
})

test('its own port is refused, not followed', LIMIT, async () => {
  const { status, json } = await call(server.url, at(server.port, '/v1/health'))
  assert.equal(status, 400)
  assert.match(json.detail, new RegExp(`${server.port}.*this server`))
})

test('nobody there is a 502 that names the port', LIMIT, async () => {
  const port = await portFromNobody()
  for (const method of ['GET', 'POST', 'DELETE']) {
    const { status, json, headers } = await call(server.url, at(port), { method })
    assert.equal(status, 502)
    assert.match(headers['content-type'], /application\/problem\+json/)
    assert.match(json.detail, new RegExp(`${port}.*refused`))
  }
})

test('without the slash it redirects, query included', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  const r = await call(server.url, at(port, '?a=1'))
  assert.equal(r.status, 308)
  assert.equal(r.headers.location, at(port, '/?a=1'))
})

test('a server on ::1 alone is found', LIMIT, async (t) => {
  const port = await upstream(t, mirror, '::1')
  const r = await call(server.url, at(port, '/six'), { method: 'POST', body: 'hello' })
  assert.equal(r.status, 200)
  assert.deepEqual([r.json.url, r.json.body], ['/six', 'hello'])
})

test('the path and the query go on as they were written', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  for (const rest of [
    '/',
    '/a%2Fb/%C3%A4?x=%20&y=a+b',
    '//double//slash/',
    '/a/../b/./c',
    '/?',
    '/?q',
    '/;p=1?a=b?c=d',
    `/long?${'x'.repeat(12_000)}`,
  ]) {
    const c = await on(server.port, async (raw) => {
      raw.send(get(at(port, rest)))
      return raw.answer()
    })
    assert.equal(c.json.url, rest === '/?' ? '/' : rest)
  }
})

test('our credentials stay here, others go on', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  const s = await start(t, { args: ['--token', 'T'] })
  const closed = await call(s.url, at(port, '/?a=1&access_token=T&b=2&access%5Ftoken=T'), {
    headers: { ...bearer('T'), 'proxy-authorization': 'x', cookie: 'a=b' },
  })
  assert.equal(closed.json.url, '/?a=1&b=2')
  assert.equal(closed.json.headers.authorization, undefined)
  assert.equal(closed.json.headers['proxy-authorization'], undefined)
  assert.equal(closed.json.headers.cookie, 'a=b')
  const free = await call(server.url, at(port, '/?access_token=T'), { headers: bearer('X') })
  assert.equal(free.json.headers.authorization, 'Bearer X')
  assert.equal(free.json.url, '/')
})

// ---- the proxy: requests ----

test('methods, headers and bodies arrive', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    const body = ['GET', 'OPTIONS'].includes(method) ? undefined : 'some bytes'
    const r = await call(server.url, at(port, '/x'), {
      method,
      body,
      headers: { 'x-own': 'Value', 'content-type': 'text/plain' },
    })
    assert.equal(r.status, 200, method)
    assert.equal(r.json.method, method)
    assert.equal(r.json.headers['x-own'], 'Value')
    assert.equal(r.json.headers['content-type'], 'text/plain')
    assert.equal(r.json.headers.host, `localhost:${port}`)
    assert.equal(r.json.body, body ?? '')
    assert.equal(r.json.headers['content-length'], body ? '10' : undefined)
    assert.equal(r.json.headers['transfer-encoding'], undefined)
  }
})

test('a chunked body stays one', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  const r = await call(server.url, at(port), {
    method: 'POST',
    headers: { 'transfer-encoding': 'chunked', trailer: 'x-late' },
    body: (req) => {
      req.addTrailers({ 'x-late': '1' })
      req.write('one ')
      req.end('two')
    },
  })
  assert.equal(r.json.body, 'one two')
  assert.equal(r.json.headers['transfer-encoding'], 'chunked')
  assert.equal(r.json.headers['content-length'], undefined)
  assert.equal(r.json.headers.trailer, undefined)
})

test('headers of the connection are not passed on', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  const { json } = await on(server.port, async (c) => {
    c.send(
      get(
        at(port),
        'Connection: keep-alive, X-Hop',
        'X-Hop: 1',
        'Keep-Alive: timeout=5',
        'TE: trailers',
        'Proxy-Connection: keep-alive',
        'Upgrade: nothing',
        'Forwarded: for=1.2.3.4',
        'X-Stays: 1',
      ),
    )
    return c.answer()
  })
  for (const name of ['x-hop', 'keep-alive', 'te', 'proxy-connection', 'upgrade', 'forwarded'])
    assert.equal(json.headers[name], undefined, name)
  assert.equal(json.headers['x-stays'], '1')
  assert.equal(json.headers.connection, 'close')
})

test('where the request came from is told', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  const r = await call(server.url, at(port, '/x'), {
    headers: { 'x-forwarded-for': '10.0.0.1', 'x-forwarded-host': 'evil', 'x-forwarded-proto': 'z' },
  })
  assert.equal(r.json.headers['x-forwarded-for'], '10.0.0.1, 127.0.0.1')
  assert.equal(r.json.headers['x-forwarded-host'], `127.0.0.1:${server.port}`)
  assert.equal(r.json.headers['x-forwarded-proto'], 'http')
  assert.equal(r.json.headers['x-forwarded-prefix'], at(port, ''))
})

test('two framings never go on', LIMIT, async (t) => {
  let seen = 0
  const port = await rawUpstream(t, (socket) => {
    seen++
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
  })
  for (const headers of [
    ['Content-Length: 3', 'Transfer-Encoding: chunked'],
    ['Content-Length: 3', 'Content-Length: 4'],
    ['Transfer-Encoding: gzip, chunked'],
  ]) {
    const a = await on(server.port, async (c) => {
      c.send(message([`POST ${at(port)} HTTP/1.1`, 'Host: localhost', ...headers], '0\r\n\r\n'))
      return c.answer()
    })
    assert.equal(a.status, 400)
  }
  assert.equal(seen, 0)
})

test('a request is passed on before its body is complete', LIMIT, async (t) => {
  const port = await upstream(t, (req, res) => {
    res.writeHead(200)
    req.pipe(res) // an echo while the request is still being sent
  })
  const c = await Raw.open(server.port)
  c.send(message([`POST ${at(port)} HTTP/1.1`, 'Host: localhost', 'Transfer-Encoding: chunked']))
  c.send('3\r\none\r\n')
  assert.equal((await c.head()).status, 200)
  assert.equal((await c.exactly(8, 'the first chunk')).toString(), '3\r\none\r\n')
  c.send('3\r\ntwo\r\n0\r\n\r\n')
  assert.equal((await c.exactly(13, 'the rest')).toString(), '3\r\ntwo\r\n0\r\n\r\n')
  c.close()
})

test('expect: 100-continue is answered here', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  await on(server.port, async (c) => {
    c.send(
      message([
        `POST ${at(port)} HTTP/1.1`,
        'Host: localhost',
        'Content-Length: 2',
        'Expect: 100-continue',
      ]),
    )
    assert.equal((await c.answer()).status, 100)
    c.send('ok')
    const a = await c.answer()
    assert.equal(a.json.body, 'ok')
    assert.equal(a.json.headers.expect, undefined)
  })
})

// ---- the proxy: answers ----

test('status and headers come back, those of the connection do not', LIMIT, async (t) => {
  const port = await upstream(t, (req, res) => {
    res.writeHead(418, [
      ...['set-cookie', 'a=1', 'set-cookie', 'b=2', 'x-own', 'ä'.normalize('NFC')],
      ...['content-type', 'text/x-tea', 'vary', 'x-one', 'vary', 'x-two', 'connection', 'x-hop'],
      ...['x-hop', '1', 'keep-alive', 'timeout=9', 'date', 'then', 'x-request-id', 'theirs'],
    ])
    res.end('short and stout')
  })
  const r = await call(server.url, at(port))
  assert.equal(r.status, 418)
  assert.deepEqual(r.headers['set-cookie'], ['a=1', 'b=2'])
  assert.equal(r.headers['content-type'], 'text/x-tea')
  assert.match(r.headers.vary, /x-one, x-two/)
  assert.equal(r.headers['x-hop'], undefined)
  assert.notEqual(r.headers['x-request-id'], 'theirs')
  for (const name of ['date', 'content-type', 'x-request-id', 'vary', 'x-own'])
    assert.equal(r.fields.filter((f, i) => i % 2 === 0 && f === name).length, 1, name)
  assert.equal(r.text, 'short and stout')
})

test('a stated length stays, an open one is chunked', LIMIT, async (t) => {
  const port = await upstream(t, (req, res) => {
    if (req.url === '/known') res.setHeader('content-length', 5)
    else res.write('')
    res.end('12345')
  })
  const known = await call(server.url, at(port, '/known'))
  assert.equal(known.headers['content-length'], '5')
  assert.equal(known.headers['transfer-encoding'], undefined)
  const openEnd = await call(server.url, at(port, '/open'))
  assert.equal(openEnd.headers['transfer-encoding'], 'chunked')
  assert.deepEqual([known.text, openEnd.text], ['12345', '12345'])
})

test('an answer of HTTP/1.0 ends with its connection', LIMIT, async (t) => {
  const port = await rawUpstream(t, (s) => s.end('HTTP/1.0 200 OK\r\nx-a: 1\r\n\r\nold but fine'))
  const r = await call(server.url, at(port))
  assert.deepEqual([r.status, r.headers['x-a'], r.text], [200, '1', 'old but fine'])
})

test('interim answers are passed over, trailers are dropped', LIMIT, async (t) => {
  const port = await rawUpstream(t, (s) =>
    s.end(
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n' +
        'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-late\r\n\r\n' +
        '2\r\nok\r\n0\r\nx-late: 1\r\n\r\n',
    ),
  )
  await on(server.port, async (c) => {
    c.send(get(at(port)))
    const a = await c.answer()
    assert.deepEqual([a.status, a.text], [200, 'ok'])
    assert.equal(a.headers.trailer, undefined)
    assert.equal(a.headers.link, undefined)
    c.send(get(at(await portFromNobody())))
    assert.equal((await c.answer()).status, 502) // nothing of the trailer is left on the wire
  })
})

test('HEAD, 204 and 304 have no body', LIMIT, async (t) => {
  const port = await upstream(t, (req, res) => {
    const status = Number(req.url.slice(1)) || 200
    res.writeHead(status, status === 200 ? { 'content-length': 1000 } : { etag: '"x"' })
    res.end()
  })
  await on(server.port, async (c) => {
    c.send(message([`HEAD ${at(port)} HTTP/1.1`, 'Host: localhost']))
    const head = await c.answer({ isHead: true })
    assert.deepEqual([head.status, head.headers['content-length']], [200, '1000'])
    for (const status of [204, 304]) {
      c.send(get(at(port, `/${status}`)))
      const a = await c.answer()
      assert.deepEqual([a.status, a.headers.etag], [status, '"x"'])
    }
  })
})

test('redirects within the other server stay within the preview', LIMIT, async (t) => {
  const port = await upstream(t, (req, res) => {
    res.writeHead(302, { location: decodeURIComponent(req.url.slice(2)) })
    res.end()
  })
  const where = async (to) =>
    (await call(server.url, at(port, `/?${encodeURIComponent(to)}`))).headers.location
  const prefix = at(port, '')
  for (const [to, want] of [
    ['/login?a=b#c', `${prefix}/login?a=b#c`],
    [`http://localhost:${port}/x`, `${prefix}/x`],
    [`http://127.0.0.1:${port}`, `${prefix}/`],
    [`http://[::1]:${port}/x`, `${prefix}/x`],
    [`//localhost:${port}/x`, `${prefix}/x`],
    [`http://127.0.0.1:${server.port}/x`, `${prefix}/x`],
    [`${prefix}/x`, `${prefix}/x`],
    [`http://127.0.0.1:${server.port}${prefix}/x`, `http://127.0.0.1:${server.port}${prefix}/x`],
    ['next/page', 'next/page'],
    [`http://localhost:${port + 1}/x`, `http://localhost:${port + 1}/x`],
    ['https://example.com/', 'https://example.com/'],
    [`https://localhost:${port}/x`, `https://localhost:${port}/x`],
  ])
    assert.equal(await where(to), want, to)
})

test('what is not an HTTP answer is a 502', LIMIT, async (t) => {
  for (const bytes of [
    'hello\r\n\r\n',
    '',
    'HTTP/1.1 200 OK\r\nbroken',
    'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nxx',
    'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
    `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}\r\n\r\n`,
  ]) {
    const port = await rawUpstream(t, (s) => s.end(bytes))
    const r = await call(server.url, at(port))
    assert.equal(r.status, 502, bytes.slice(0, 60))
    assert.match(r.json.detail, new RegExp(String(port)))
  }
})

test('a broken answer is seen as broken', LIMIT, async (t) => {
  for (const head of ['content-length: 10', 'transfer-encoding: chunked']) {
    const port = await rawUpstream(t, (s) => {
      s.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n3\r\nabc\r\n`, () => s.destroy())
    })
    const res = await open(server.url, at(port))
    assert.equal(res.statusCode, 200)
    await assert.rejects(readAll(res), { code: 'ECONNRESET' })
  }
})

test('an answer in the middle of the upload reaches the client', LIMIT, async (t) => {
  const port = await upstream(t, (req, res) => {
    res.writeHead(413, { connection: 'close' })
    res.end('too big')
  })
  await on(server.port, async (c) => {
    c.send(
      message([`POST ${at(port)} HTTP/1.1`, 'Host: localhost', `Content-Length: ${64 * MiB}`]),
    )
    c.send(Buffer.alloc(MiB))
    const a = await c.answer()
    assert.deepEqual([a.status, a.text], [413, 'too big'])
  })
})

test('one connection carries many requests, and what follows them', LIMIT, async (t) => {
  const port = await upstream(t, mirror)
  await on(server.port, async (c) => {
    for (let i = 0; i < 20; i++) c.send(get(at(port, `/${i}`)))
    for (let i = 0; i < 20; i++) assert.equal((await c.answer()).json.url, `/${i}`)
  })
})

test('events are passed on as they come', LIMIT, async (t) => {
  let say
  const port = await upstream(t, (req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.flushHeaders()
    say = (text) => res.write(`data: ${text}\n\n`)
  })
  const sse = await subscribe(server.url, at(port, '/events'))
  for (let i = 1; i <= 5; i++) {
    say(i)
    await sse.atLeast(i)
  }
  assert.deepEqual(
    sse.events.map((e) => e.data),
    ['1', '2', '3', '4', '5'],
  )
  sse.close()
})

test('who leaves takes the request along', LIMIT, async (t) => {
  const seen = []
  const port = await upstream(t, (req, res) => {
    seen.push({ gone: once(res, 'close') })
    if (req.url === '/half') res.write('half')
  })
  const leave = async (bytes, how, isBegun) => {
    const n = seen.length
    const c = await Raw.open(server.port)
    c.send(bytes)
    await until(() => seen.length > n, 'the request')
    if (isBegun) await c.head()
    c[how]()
    await within(seen[n].gone, 'the end of the request')
  }
  await leave(get(at(port, '/none')), 'close')
  await leave(get(at(port, '/none')), 'finish')
  await leave(get(at(port, '/half')), 'close', true)
  const half = message([`POST ${at(port, '/x')} HTTP/1.1`, 'Host: localhost', 'Content-Length: 9'])
  await leave(half, 'reset')
})

// ---- big ones ----

// True once a number has stayed the same for twenty looks: whoever moves it is held back.
function steady(fn) {
  let last
  let same = 0
  return () => {
    const now = fn()
    same = now === last ? same + 1 : 0
    last = now
    return now > 0 && same >= 20
  }
}

function bigBody(bytes) {
  const block = randomBytes(MiB)
  const sum = createHash('sha256')
  for (let n = 0; n < bytes; n += block.length) sum.update(block)
  return { block, digest: sum.digest('hex') }
}
async function* blocks(block, bytes) {
  for (let n = 0; n < bytes; n += block.length) yield block
}

test('256 MiB each way within 8 MiB of memory', { timeout: 120_000 }, async (t) => {
  const bytes = 256 * MiB
  const { block, digest } = bigBody(bytes)
  const port = await upstream(t, async (req, res) => {
    if (req.method === 'GET') {
      res.setHeader('content-length', bytes)
      for await (const b of blocks(block, bytes)) if (!res.write(b)) await once(res, 'drain')
      res.end()
      return
    }
    const sum = createHash('sha256')
    for await (const part of req) sum.update(part)
    res.end(sum.digest('hex'))
  })
  const s = await start(t, { bin: RELEASE })
  await call(s.url, at(port), { method: 'POST', body: 'warm' })
  const base = rssBytes(s.pid)
  let peak = base
  const timer = setInterval(() => (peak = Math.max(peak, rssBytes(s.pid))), 10)
  const down = createHash('sha256')
  for await (const part of await open(s.url, at(port))) down.update(part)
  assert.equal(down.digest('hex'), digest)
  const up = await call(s.url, at(port), {
    method: 'PUT',
    headers: { 'content-length': bytes },
    body: async (req) => {
      for await (const b of blocks(block, bytes)) if (!req.write(b)) await once(req, 'drain')
      req.end()
    },
    limitMs: 60_000,
  })
  clearInterval(timer)
  assert.equal(up.text, digest)
  t.diagnostic(`resident size grew by ${((peak - base) / MiB).toFixed(1)} MiB`)
  assert.ok(peak - base < 8 * MiB, `grew by ${peak - base} bytes`)
})

test('a slow side holds the fast one back', LIMIT, async (t) => {
  const s = await start(t, { env: FLAT_MEMORY })
  let sent = 0
  const port = await upstream(t, async (req, res) => {
    res.setMaxListeners(0).on('error', () => {})
    for (const b of Array(64).fill(Buffer.alloc(MiB))) {
      if (!res.write(b)) await Promise.race([once(res, 'drain'), once(res, 'close')])
      if (res.destroyed) return
      sent++
    }
    res.end()
  })
  const c = await Raw.open(s.port)
  c.pause()
  c.send(get(at(port)))
  await until(steady(() => sent), 'the sender to be held', 20_000)
  assert.ok(sent < 40, `${sent} MiB went out to nobody`)
  c.resume()
  const a = await c.answer({ limitMs: 40_000 })
  assert.equal(a.body.length, 64 * MiB)
  c.close()
})

// ---- upgrades ----

async function wsUpstream(t, options = {}) {
  const s = http.createServer()
  const wss = new WebSocketServer({ server: s, ...options })
  wss.on('connection', (ws, req) => {
    ws.on('error', () => {})
    if (req.url === '/greet') ws.send('hello')
    ws.on('message', (data, isBinary) => ws.send(data, { binary: isBinary }))
  })
  t.after(() => wss.clients.forEach((ws) => ws.terminate()))
  return { port: await listen(t, s), wss }
}
async function connect(base, path, ...more) {
  const ws = new WebSocket(`${base.replace('http', 'ws')}${path}`, ...more)
  ws.on('error', () => {})
  const early = []
  ws.on('message', (data) => early.push(data.toString()))
  await within(once(ws, 'open'), 'open')
  return Object.assign(ws, { early })
}

test('a WebSocket works through it', LIMIT, async (t) => {
  const { port } = await wsUpstream(t, {
    perMessageDeflate: true,
    handleProtocols: (all) => [...all].at(-1),
  })
  const ws = await connect(server.url, at(port, '/greet'), ['one', 'two'])
  assert.equal(ws.protocol, 'two')
  assert.match(ws.extensions, /permessage-deflate/)
  await until(() => ws.early.length === 1, 'the greeting')
  for (const data of ['text', Buffer.alloc(200_000, 7)]) {
    ws.send(data)
    const [got, isBinary] = await within(once(ws, 'message'), 'an echo')
    assert.deepEqual([Buffer.from(data).equals(got), isBinary], [true, typeof data !== 'string'])
  }
  const pong = once(ws, 'pong')
  ws.ping('x')
  await within(pong, 'pong')
  ws.close(4001, 'enough')
  assert.equal((await within(once(ws, 'close'), 'close'))[0], 4001)
})

test('a WebSocket may bring our token in its address, and must bring one', LIMIT, async (t) => {
  const s = await start(t, { args: ['--token', 'T'] })
  const { port, wss } = await wsUpstream(t)
  const seen = once(wss, 'connection')
  const ws = await connect(s.url, at(port, '/?a=1&access_token=T'))
  assert.equal((await within(seen, 'the connection'))[1].url, '/?a=1')
  ws.terminate()
  for (const rest of ['/', '/?access_token=wrong']) {
    const other = new WebSocket(`${s.url.replace('http', 'ws')}${at(port, rest)}`)
    other.on('error', () => {})
    const [, res] = await within(once(other, 'unexpected-response'), 'the refusal')
    assert.equal(res.statusCode, 401)
    other.terminate()
  }
})

test('foreign pages may look but not touch on an open server', LIMIT, async (t) => {
  const { port } = await wsUpstream(t)
  const plain = await upstream(t, mirror)
  const headers = { origin: 'http://evil.example' }
  assert.equal((await call(server.url, at(plain), { method: 'POST', headers })).status, 403)
  const ws = new WebSocket(`${server.url.replace('http', 'ws')}${at(port)}`, headers)
  ws.on('error', () => {})
  const [, res] = await within(once(ws, 'unexpected-response'), 'the refusal')
  assert.equal(res.statusCode, 403)
  ws.terminate()
  const host = { host: 'evil.example' }
  assert.equal((await call(server.url, at(plain), { headers: host })).status, 403)
})

test('over TLS it is the same, bodies and tunnels', LIMIT, async (t) => {
  const dir = tempDir(t)
  const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')]
  const name = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
  const make = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  execFileSync('openssl', [...make, '-keyout', key, '-out', cert, ...name], { stdio: 'ignore' })
  const s = await start(t, { args: ['--tls-cert', cert, '--tls-key', key] })
  const tls = { rejectUnauthorized: false }
  const { port } = await wsUpstream(t)
  const plain = await upstream(t, mirror)
  const body = 'x'.repeat(3 * MiB)
  const r = await call(s.url, at(plain), { method: 'POST', body, tls })
  assert.equal(r.json.body.length, body.length)
  assert.equal(r.json.headers['x-forwarded-proto'], 'https')
  const ws = await connect(s.url, at(port), tls)
  ws.send(Buffer.alloc(2 * MiB, 1))
  assert.equal((await within(once(ws, 'message'), 'an echo', 20_000))[0].length, 2 * MiB)
  ws.close(4003)
  assert.equal((await within(once(ws, 'close'), 'close'))[0], 4003)
})

test('the other server may close first', LIMIT, async (t) => {
  const { port, wss } = await wsUpstream(t)
  const ws = await connect(server.url, at(port))
  for (const peer of wss.clients) peer.close(4002, 'bye')
  assert.equal((await within(once(ws, 'close'), 'close'))[0], 4002)
  const other = await connect(server.url, at(port))
  for (const peer of wss.clients) peer.terminate()
  assert.equal((await within(once(other, 'close'), 'close'))[0], 1006)
})

test('a client that vanishes is missed by the other server', LIMIT, async (t) => {
  const { port, wss } = await wsUpstream(t)
  const ws = await connect(server.url, at(port))
  const [peer] = wss.clients
  const gone = once(peer, 'close')
  ws.terminate()
  await within(gone, 'the end of the tunnel')
})

test('a refused upgrade is an answer like any other', LIMIT, async (t) => {
  const { port } = await wsUpstream(t, { verifyClient: (info, done) => done(false, 403, 'no') })
  const ws = new WebSocket(`${server.url.replace('http', 'ws')}${at(port)}`)
  ws.on('error', () => {})
  const [, res] = await within(once(ws, 'unexpected-response'), 'the refusal')
  assert.equal(res.statusCode, 403)
  ws.terminate()
  // The connection goes on after it.
  await on(server.port, async (c) => {
    for (let i = 0; i < 2; i++) {
      c.send(
        get(
          at(port),
          'Connection: Upgrade',
          'Upgrade: websocket',
          'Sec-WebSocket-Version: 13',
          'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
        ),
      )
      assert.equal((await c.answer()).status, 403)
    }
  })
})

test('any protocol becomes a tunnel, early bytes included', LIMIT, async (t) => {
  const port = await rawUpstream(t, (s) => {
    let text = ''
    s.on('data', (data) => {
      text += data.toString('latin1')
      if (!s.isOpen && text.includes('\r\n\r\n')) {
        s.isOpen = true
        assert.match(text, /^connection: upgrade$/im)
        assert.match(text, /^upgrade: chat\/1$/im)
        // the head and the first words in one piece
        s.write('HTTP/1.1 101 Hi\r\nConnection: Upgrade\r\nUpgrade: chat/1\r\nX-Mood: good\r\n\r\nwelcome ')
        text = text.slice(text.indexOf('\r\n\r\n') + 4)
      }
      if (text) s.write(text.toUpperCase())
      text = ''
    })
    s.on('end', () => s.end('bye'))
  })
  await on(server.port, async (c) => {
    c.send(Buffer.concat([get(at(port), 'Connection: upgrade', 'Upgrade: chat/1'), Buffer.from('early ')]))
    const head = await c.head()
    assert.deepEqual([head.status, head.headers['x-mood']], [101, 'good'])
    assert.equal(head.headers.upgrade, 'chat/1')
    assert.equal((await c.exactly(14, 'the first words')).toString(), 'welcome EARLY ')
    c.send('more')
    assert.equal((await c.exactly(4, 'the echo')).toString(), 'MORE')
    c.finish() // half of the tunnel closes; the other half has a last word
    assert.equal((await c.rest()).toString(), 'bye')
  })
})

test('a tunnel holds the fast side back, both ways', LIMIT, async (t) => {
  const bytes = 64 * MiB
  const block = Buffer.alloc(MiB, 9)
  let socket
  const port = await rawUpstream(t, (s) => {
    s.once('data', () => {
      socket = s
      s.pause()
      s.write('HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')
    })
  })
  const s = await start(t, { bin: RELEASE })
  const c = await Raw.open(s.port)
  c.send(get(at(port), 'Connection: upgrade', 'Upgrade: x'))
  await c.head()
  const base = rssBytes(s.pid)
  c.pause()
  for (let n = 0; n < bytes; n += MiB) socket.write(block)
  for (let n = 0; n < bytes; n += MiB) c.socket.write(block)
  const unsent = steady(() => socket.writableLength + c.socket.writableLength)
  await until(unsent, 'both to be held', 20_000)
  assert.ok(rssBytes(s.pid) - base < 8 * MiB)
  let up = 0
  socket.on('data', (data) => (up += data.length))
  socket.resume()
  c.resume()
  await c.exactly(bytes, 'all of it', 40_000)
  await until(() => up === bytes, 'all of it up')
  c.close()
})

test('shutdown ends tunnels and event streams at once', LIMIT, async (t) => {
  const { port } = await wsUpstream(t)
  const events = await upstream(t, (req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write('data: 1\n\n')
  })
  const s = await start(t)
  const ws = await connect(s.url, at(port))
  const sse = await subscribe(s.url, at(events))
  await sse.atLeast(1)
  const began = Date.now()
  const closed = once(ws, 'close')
  s.term()
  await within(closed, 'the end of the WebSocket', 5000)
  await within(sse.ended, 'the end of the events', 5000)
  assert.equal(sse.isClean, true)
  await within(s.exited, 'exit', 8000)
  assert.ok(Date.now() - began < 8000)
  s.isWanted = false
})

test('nothing is left open', LIMIT, async (t) => {
  const { port } = await wsUpstream(t)
  const plain = await upstream(t, mirror)
  const s = await start(t)
  await call(s.url, at(plain))
  const before = openFds(s.pid)
  for (let i = 0; i < 20; i++) {
    const ws = await connect(s.url, at(port))
    ws.terminate()
    await call(s.url, at(plain, `/${i}`), { method: 'POST', body: 'x' })
  }
  await until(() => openFds(s.pid) <= before, 'the descriptors to be closed')
})

test('whoever breaks off, and whenever, nothing but that exchange suffers', LIMIT, async (t) => {
  const s = await start(t)
  let seed = 20_240
  const dice = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n
  const ends = new Set()
  const port = await rawUpstream(t, (socket) => {
    const kind = dice(6)
    ends.add(socket)
    socket.on('data', () => {})
    socket.once('data', () => {
      if (kind === 0) return socket.resetAndDestroy()
      if (kind === 1) return socket.end()
      if (kind === 2) return socket.end('HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf')
      socket.write('HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n')
      if (kind === 3) return socket.resetAndDestroy()
      socket.write(Buffer.alloc(dice(400_000)), () => kind === 4 && socket.destroy())
      if (kind === 5) socket.once('data', () => socket.end('bye'))
    })
  })
  const plain = await upstream(t, mirror)
  await call(s.url, at(plain))
  const before = openFds(s.pid)
  const one = async () => {
    const c = await Raw.open(s.port)
    ends.add(c.socket)
    const isUp = dice(2)
    const headers = isUp ? ['Connection: upgrade', 'Upgrade: x'] : ['Content-Length: 200000']
    c.send(message([`${isUp ? 'GET' : 'POST'} ${at(port)} HTTP/1.1`, 'Host: localhost', ...headers]))
    c.send(Buffer.alloc(dice(100_000)))
    const how = dice(4)
    if (how === 0) return c.reset()
    await c.head().catch(() => {})
    if (how === 1) return c.close()
    c.send(Buffer.alloc(dice(100_000)))
    if (how === 2) return c.finish()
    await c.more('anything', 200).catch(() => {})
    c.reset()
  }
  for (let i = 0; i < 30; i++) await Promise.all(Array.from({ length: 10 }, one))
  assert.equal((await call(s.url, at(plain, '/alive'))).json.url, '/alive')
  ends.forEach((socket) => socket.destroy()) // those who waited for each other's half
  await until(() => openFds(s.pid) <= before, 'the descriptors to be closed')
})
