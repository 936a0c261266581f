// A terminal over a WebSocket: frames, viewers, history, back-pressure, the end.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import WebSocket from 'ws'
import { SandboxAgent } from 'sandbox-agent'
import { FLAT_MEMORY, start } from './lib/server.mjs'
import { call } from './lib/http.mjs'
import { MiB, peakBytes, rssBytes, until, within } from './lib/proc.mjs'
import { Raw } from './lib/raw.mjs'
import { OP, WsRaw, frame, handshake } from './lib/ws.mjs'
import {
  conflict,
  create,
  ended,
  get,
  input,
  invalid,
  noProcess,
  output,
  post,
  said,
  sh,
} from './lib/processes.mjs'

const LIMIT = { timeout: 90_000 }
let server
before(async () => (server = await start()))
after(() => server.stop())

const path = (id, query = '') => `/v1/processes/${id}/terminal/ws${query}`

// A client that keeps everything: text frames as JSON, bytes as one buffer, the close code.
class Viewer {
  constructor(ws) {
    this.ws = ws
    this.frames = []
    this.parts = []
    ws.on('error', () => {})
    ws.on('message', (data, isBinary) => {
      if (isBinary) this.parts.push(data)
      else this.frames.push(JSON.parse(data))
      this.order ??= []
      this.order.push(isBinary ? 'bytes' : JSON.parse(data).type)
    })
    this.closed = once(ws, 'close').then(([code]) => code)
  }
  static async open(id, { query, on = server, options } = {}) {
    const ws = new WebSocket(`${on.url.replace('http', 'ws')}${path(id, query)}`, options)
    const v = new Viewer(ws)
    await within(once(ws, 'open'), 'open')
    await until(() => v.frames.length, 'ready')
    return v
  }
  get text() {
    return Buffer.concat(this.parts).toString()
  }
  send(json) {
    this.ws.send(typeof json === 'string' ? json : JSON.stringify(json))
  }
  type(data) {
    this.send({ type: 'input', data })
  }
  shows(what, limitMs) {
    return until(() => this.text.match(what), `${what} on the screen`, limitMs)
  }
  of(type) {
    return this.frames.filter((f) => f.type === type)
  }
  error(n = 1) {
    return until(() => this.of('error').length >= n, 'an error frame').then(
      () => this.of('error')[n - 1].message,
    )
  }
  end(limitMs) {
    return within(this.closed, 'close', limitMs)
  }
}
const cat = (more) => create(server, sh('stty -echo; echo up; exec cat', { tty: true, ...more }))
async function upCat() {
  const p = await cat()
  await said(server, p.id, /up/)
  return p
}
const kill = (p) => post(server, `${p.id}/kill`)

describe('before the upgrade', () => {
  const ask = (id, query) =>
    call(server.url, path(id, query), {
      headers: {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      },
    })
  test('unknown id: 404', LIMIT, async () => noProcess(await ask('proc_9999'), 'proc_9999'))
  test('not a tty: 409', LIMIT, async () => {
    const p = await create(server, { command: 'true' })
    conflict(await ask(p.id), 'process is not running in tty mode')
  })
  test('without the upgrade headers: 400', LIMIT, async () =>
    invalid(await call(server.url, path('proc_1')), "Connection header did not include 'upgrade'"))
  for (const history of ['', 'ALL', '-1', '1k'])
    test(`history=${history}: 400`, LIMIT, async () =>
      invalid(
        await ask('proc_1', `?history=${history}`),
        'history must be `all` or a number of bytes',
      ))
  test('a token: 401 without, fine as access_token or header', LIMIT, async (t) => {
    const s = await start(t, { args: ['--token', 'T'] })
    const headers = { authorization: 'Bearer T' }
    const p = (
      await call(s.url, '/v1/processes', { json: { command: 'cat', tty: true }, headers })
    ).json
    const refused = new WebSocket(`${s.url.replace('http', 'ws')}${path(p.id)}`)
    const [error] = await within(once(refused, 'error'), 'refusal')
    assert.match(error.message, /401/)
    for (const how of [{ query: '?access_token=T' }, { options: { headers } }]) {
      const v = await Viewer.open(p.id, { on: s, ...how })
      v.send({ type: 'close' })
      await v.end()
    }
    await call(s.url, `/v1/processes/${p.id}/kill`, { method: 'POST', headers })
  })
  test('no subprotocol is negotiated', LIMIT, async () => {
    const p = await upCat()
    const ws = await WsRaw.open(server.port, path(p.id), 'Sec-WebSocket-Protocol: a, b')
    assert.equal(ws.answer.headers['sec-websocket-protocol'], undefined)
    ws.close()
    await kill(p)
  })
})

describe('from the server', () => {
  test('ready comes first, at once, as these bytes', LIMIT, async () => {
    const p = await upCat()
    const ws = await WsRaw.open(server.port, path(p.id))
    const f = await ws.next()
    assert.deepEqual([f.op, f.data.toString()], [OP.text, `{"processId":"${p.id}","type":"ready"}`])
    ws.close()
    await kill(p)
  })
  test('output is binary, from now on: nothing is replayed', LIMIT, async () => {
    const p = await upCat()
    const v = await Viewer.open(p.id)
    await input(server, p.id, 'now\n')
    await v.shows(/now/)
    assert.equal(v.text, 'now\r\n')
    await kill(p)
    await v.end()
  })
  test('the end: all output, then exit, then an empty close', LIMIT, async () => {
    const p = await create(server, sh('read x; seq 1 20000; exit 7', { tty: true }))
    const ws = await WsRaw.open(server.port, path(p.id))
    ws.send(frame(OP.text, JSON.stringify({ type: 'input', data: '\n' })))
    let bytes = ''
    let f
    for (await ws.next(); (f = await ws.next()).op === OP.binary;) bytes += f.data
    assert.ok(bytes.endsWith('\n19999\r\n20000\r\n'), bytes.slice(-40))
    assert.equal(f.data.toString(), '{"exitCode":7,"type":"exit"}')
    const close = await ws.next()
    assert.deepEqual([close.op, close.data.length], [OP.close, 0])
    ws.close()
  })
  test('a signal: exitCode null, close code 1005', LIMIT, async () => {
    const p = await upCat()
    const v = await Viewer.open(p.id)
    await kill(p)
    assert.equal(await v.end(), 1005)
    assert.deepEqual(v.frames.at(-1), { exitCode: null, type: 'exit' })
  })
  test('after the exit: ready, exit, close; with history the output in between', LIMIT, async () => {
    const p = await create(server, sh('printf bye; exit 2', { tty: true }))
    await ended(server, p.id)
    const plain = await Viewer.open(p.id)
    assert.equal(await plain.end(), 1005)
    assert.deepEqual(plain.order, ['ready', 'exit'])
    assert.deepEqual(plain.frames[1], { exitCode: 2, type: 'exit' })
    const past = await Viewer.open(p.id, { query: '?history=all' })
    await past.end()
    assert.deepEqual(past.order, ['ready', 'bytes', 'exit'])
    assert.equal(past.text, 'bye')
    await call(server.url, `/v1/processes/${p.id}`, { method: 'DELETE' })
  })
  test('pings are answered', LIMIT, async () => {
    const p = await upCat()
    const v = await Viewer.open(p.id)
    const pong = once(v.ws, 'pong')
    v.ws.ping('x')
    assert.equal((await within(pong, 'pong'))[0].toString(), 'x')
    v.ws.terminate()
    await kill(p)
  })
})

describe('from the client', () => {
  let p, v
  before(async () => {
    p = await upCat()
    v = await Viewer.open(p.id)
  })
  after(() => kill(p))

  test('input: plain text unless it says otherwise', LIMIT, async () => {
    v.type('plain ä\n')
    v.send({ type: 'input', data: 'dGV4dA==', encoding: 'text' })
    v.send({ type: 'input', data: '\n', encoding: 'utf8' })
    v.send({ type: 'input', data: Buffer.from('coded\n').toString('base64'), encoding: 'base64' })
    await v.shows(/coded/)
    assert.equal(v.text, 'plain ä\r\ndGV4dA==\r\ncoded\r\n')
  })
  test('resize: the program sees it', LIMIT, async () => {
    const q = await create(
      server,
      sh('trap "stty size" WINCH; echo up; while :; do read x; done', { tty: true }),
    )
    const w = await Viewer.open(q.id, { query: '?history=all' })
    await w.shows(/up/)
    w.send({ type: 'resize', cols: 90, rows: 20 })
    w.type('\n')
    await w.shows(/20 90/)
    await kill(q)
  })
  test('close: the socket closes, the process goes on', LIMIT, async () => {
    const w = await Viewer.open(p.id)
    w.send({ type: 'close' })
    assert.equal(await w.end(), 1005)
    assert.equal((await get(server, p.id)).status, 'running')
  })
  for (const [what, text] of [
    [
      '{"type":"nope"}',
      'invalid terminal frame: unknown variant `nope`, expected one of `input`, `resize`, ' +
        '`close` at line 1 column 14',
    ],
    ['hello', 'invalid terminal frame: expected value at line 1 column 1'],
    [
      '{"type":"input","data":"!!!!","encoding":"base64"}',
      'invalid request: invalid base64 input: Invalid symbol 33, offset 0.',
    ],
    [
      '{"type":"input","data":"x","encoding":"hex"}',
      'invalid request: encoding must be one of: base64, utf8, text',
    ],
    ['{"type":"resize","cols":90}', 'invalid terminal frame: missing field `rows`'],
    ['{"type":"input"}', 'invalid terminal frame: missing field `data`'],
    [
      JSON.stringify({ type: 'input', data: 'x'.repeat(65537) }),
      'input payload exceeds maxInputBytesPerRequest (65536)',
    ],
    [Buffer.from([1, 2]), 'binary input is not supported; use text JSON frames'],
  ])
    test(`error frame: ${text.slice(0, 60)}`, LIMIT, async () => {
      const n = v.of('error').length
      v.ws.send(what)
      assert.equal(await v.error(n + 1), text)
      assert.deepEqual(Object.keys(v.of('error').at(-1)), ['message', 'type'])
      assert.equal(v.ws.readyState, WebSocket.OPEN)
    })
  test('input at the limit is taken', LIMIT, async () => {
    const q = await create(
      server,
      sh('stty raw -echo; echo up; head -c 65536 | wc -c', { tty: true }),
    )
    const w = await Viewer.open(q.id, { query: '?history=all' })
    await w.shows(/up/)
    w.type('x'.repeat(65536))
    await w.shows(/65536/)
    await w.end()
  })
  test('a message over 16 MiB ends the connection, not the process', LIMIT, async () => {
    const w = await Viewer.open(p.id)
    w.ws.send('x'.repeat(16 * MiB + 1))
    assert.equal(await w.end(30_000), 1009)
    assert.equal((await get(server, p.id)).status, 'running')
  })
  test('NUL and control characters arrive', LIMIT, async () => {
    const q = await create(
      server,
      sh('stty raw -echo; echo up; head -c 4 | od -An -tx1', { tty: true }),
    )
    const w = await Viewer.open(q.id, { query: '?history=all' })
    await w.shows(/up/)
    w.type('\0\x03\x04\x1b')
    await w.shows(/00 03 04 1b/)
    await w.end()
  })
  // A program that stops itself and goes on when it is told to.
  async function stopped(then) {
    const q = await create(
      server,
      sh(`stty raw -echo; echo up; kill -STOP $$; ${then}`, { tty: true }),
    )
    const w = await Viewer.open(q.id, { query: '?history=all' })
    await w.shows(/up/)
    await until(
      () => readFileSync(`/proc/${q.pid}/stat`, 'utf8').includes(') T '),
      'it has stopped',
    )
    return [q, w]
  }
  const pieces = (data) => data.match(/[^]{1,65536}/g)

  test('much input to a slow reader arrives whole and in order', LIMIT, async () => {
    const n = 12 * MiB
    const [q, w] = await stopped(`head -c ${n} | cksum`)
    const data = Array.from({ length: n / 8 }, (_, i) => `${i}`.padStart(8)).join('')
    for (const piece of pieces(data)) w.type(piece)
    await call(server.url, '/v1/health')
    process.kill(q.pid, 'SIGCONT')
    assert.equal(await w.end(60_000), 1005)
    const want = execFileSync('cksum', { input: data }).toString().trim()
    assert.deepEqual([w.text.trim().split(/\s*\n/).at(-1), w.of('error')], [want, []])
  })
  test('input that is never read is reported with its size, and the terminal lives on', LIMIT, async () => {
    const [q, w] = await stopped('exit 3')
    for (const piece of pieces('x'.repeat(3 * MiB))) w.type(piece)
    assert.match(
      await w.error(),
      /^busy: \d+ bytes of input were not delivered: process does not read/,
    )
    assert.equal(w.ws.readyState, WebSocket.OPEN)
    process.kill(q.pid, 'SIGCONT')
    await w.end()
    assert.deepEqual(w.of('exit'), [{ exitCode: 3, type: 'exit' }])
  })
})

describe('viewers', () => {
  test('several see all output and all may type', LIMIT, async () => {
    const p = await upCat()
    const all = await Promise.all([1, 2, 3].map(() => Viewer.open(p.id)))
    for (const [i, v] of all.entries()) {
      v.type(`from${i}\n`)
      for (const other of all) await other.shows(new RegExp(`from${i}`))
    }
    await kill(p)
    for (const v of all) {
      assert.equal(await v.end(), 1005)
      assert.equal(v.text, 'from0\r\nfrom1\r\nfrom2\r\n')
    }
  })
  test('history: all, so many bytes, more than there is, none', LIMIT, async () => {
    const p = await upCat()
    for (const line of ['one', 'two', 'three']) {
      await input(server, p.id, `${line}\n`)
      await said(server, p.id, line)
    }
    const whole = await output(server, p.id)
    const viewers = []
    for (const [query, want] of [
      ['all', whole],
      ['100000', whole],
      [`${whole.length}`, whole],
      [`${whole.length - 1}`, whole.slice(1)],
      ['7', whole.slice(-7)],
      ['8', whole.slice(-8)],
      ['1', whole.slice(-1)],
      ['0', ''],
    ])
      viewers.push([await Viewer.open(p.id, { query: `?history=${query}` }), want, query])
    await input(server, p.id, 'live\n')
    for (const [v, want, query] of viewers) {
      await v.shows(/live/)
      assert.equal(v.text, `${want}live\r\n`, query)
    }
    await kill(p)
  })
  test('history meets live output: no byte twice, none missing', LIMIT, async () => {
    const p = await create(server, sh('stty -onlcr; read x; seq 1 300000', { tty: true }))
    const live = await Viewer.open(p.id, { query: '?history=all' })
    live.type('\n')
    await live.shows(/\n1000\n/)
    const late = await Viewer.open(p.id, { query: '?history=all' })
    await Promise.all([live.end(60_000), late.end(60_000)])
    const want = Array.from({ length: 300_000 }, (_, i) => `${i + 1}\n`).join('')
    for (const v of [live, late]) assert.ok(v.text.endsWith(want), `${v.text.length} bytes`)
    assert.equal(late.text, live.text)
  })
  test('a viewer that does not read: the program waits, then goes on; the gap is announced', LIMIT, async (t) => {
    const s = await start(t, { env: FLAT_MEMORY })
    const config = (await call(s.url, '/v1/processes/config')).json
    await call(
      s.url,
      '/v1/processes/config',
      { json: { ...config, maxLogBytesPerProcess: 2 * MiB } },
    )
    const p = await create(s, sh(
      'stty -onlcr -echo; echo up; read x; seq 1 100000000 | head -c 30000000; printf END; read x',
      { tty: true },
    ))
    await said(s, p.id, /up\n/)
    const ws = await WsRaw.open(s.port, path(p.id))
    await ws.next()
    ws.raw.pause()
    const was = rssBytes(s.pid)
    await input(s, p.id, '\n')
    await until(
      async () => {
        ws.send(frame(OP.pong)) // it lives, however long this takes
        return (await output(s, p.id, '?tail=1')).endsWith('END')
      },
      'the last word',
      60_000,
    )
    assert.ok(rssBytes(s.pid) - was < 48 * MiB, `grew by ${rssBytes(s.pid) - was}`)
    ws.raw.resume()
    // The kernel may take some more now and then: that is progress, and a new wait, and a new gap.
    let bytes = 0
    const gaps = []
    for (let last = ''; !last.endsWith('END');) {
      const f = await ws.next()
      if (f.op === OP.text) gaps.push(JSON.parse(f.data))
      else if (f.op === OP.binary) bytes += (last = f.data.toString()).length
    }
    assert.notEqual(gaps.length, 0)
    for (const gap of gaps) {
      assert.equal(gap.type, 'error')
      assert.match(gap.message, /^output skipped: \d+ bytes in \d+ pieces/)
    }
    assert.equal(bytes + gaps.reduce((sum, gap) => sum + gap.bytes, 0), 30_000_003)
    ws.close()
    await post(s, `${p.id}/kill`)
  })
  test('one that asks and does not read the answers is not heard until it does', LIMIT, async (t) => {
    const s = await start(t, { env: FLAT_MEMORY })
    const p = await create(s, { command: 'cat', tty: true })
    const ws = await WsRaw.open(s.port, path(p.id))
    await ws.next()
    ws.send(frame(OP.binary, 'x'))
    const { data } = await ws.next()
    ws.raw.pause()
    const was = rssBytes(s.pid)
    writeFileSync(`/proc/${s.pid}/clear_refs`, '5')
    const n = 300_000
    ws.send(Buffer.concat(Array(n).fill(frame(OP.binary, 'x'))))
    for (let i = 0; i < 300; i++) await call(s.url, '/v1/health') // time to read all of it
    assert.ok(peakBytes(s.pid) - was < 24 * MiB, `grew by ${peakBytes(s.pid) - was}`)
    ws.raw.resume()
    const all = await ws.raw.exactly(n * (data.length + 2), 'all answers', 60_000)
    assert.ok(all.subarray(-data.length).equals(data))
    ws.close()
    await post(s, `${p.id}/kill`)
  })
  test('one that leaves in the middle does no harm', LIMIT, async () => {
    const p = await create(server, sh('read x; seq 1 200000', { tty: true }))
    const stay = await Viewer.open(p.id)
    const leave = await Promise.all([1, 2, 3].map(() => Viewer.open(p.id)))
    stay.type('\n')
    for (const v of leave) {
      await v.shows(/100\r/)
      v.ws.terminate()
    }
    await stay.end(30_000)
    assert.ok(stay.text.endsWith('200000\r\n'))
  })
  test('delete right after the exit: viewers still get the exit code', LIMIT, async () => {
    const p = await create(server, sh('read x; seq 1 50000; exit 6', { tty: true }))
    const v = await Viewer.open(p.id)
    v.type('\n')
    await ended(server, p.id)
    await call(server.url, `/v1/processes/${p.id}`, { method: 'DELETE' })
    await v.end()
    assert.deepEqual(v.of('exit'), [{ exitCode: 6, type: 'exit' }])
  })
  test('a shutdown says going away', LIMIT, async () => {
    const s = await start()
    const p = await create(s, { command: 'cat', tty: true })
    const v = await Viewer.open(p.id, { on: s })
    await s.stop()
    assert.equal(await v.end(), 1001)
  })
})

test('a frame that comes with the request is not lost', LIMIT, async () => {
  const p = await upCat()
  const c = await Raw.open(server.port)
  c.send(
    Buffer.concat([
      handshake(path(p.id), 'dGhlIHNhbXBsZSBub25jZQ=='),
      frame(OP.text, '{"type":"input","data":"early\\n"}'),
    ]),
  )
  await said(server, p.id, /early/)
  c.close()
  await kill(p)
})

test('the SDK, unmodified: connectProcessTerminal', LIMIT, async (t) => {
  const s = await start(t, { args: ['--token', 'T'] })
  const sdk = await SandboxAgent.connect({ baseUrl: s.url, token: 'T' })
  t.after(() => sdk.dispose())
  const p = await sdk.createProcess(
    sh('stty -echo; read x; stty size; read y; exit 5', { tty: true }),
  )
  const session = sdk.connectProcessTerminal(p.id, { WebSocket })
  let text = ''
  const seen = { errors: [] }
  session.onData((data) => (text += Buffer.from(data).toString()))
  session.onReady((status) => (seen.ready = status))
  session.onExit((status) => (seen.exit = status))
  session.onError((error) => seen.errors.push(error))
  session.onClose(() => (seen.closed = true))
  await until(() => seen.ready, 'ready')
  assert.deepEqual(seen.ready, { processId: p.id, type: 'ready' })
  session.resize({ cols: 77, rows: 11 })
  session.sendInput('go\n')
  await until(() => text.includes('11 77'), 'the size')
  session.sendInput(new TextEncoder().encode('\n'))
  await until(() => seen.closed, 'close')
  assert.deepEqual(seen.exit, { exitCode: 5, type: 'exit' })
  assert.deepEqual(seen.errors, [])
})
