// SIGTERM: stop accepting, finish what runs, end the streams kindly, leave no process behind, exit 0.
import assert from 'node:assert/strict'
import http from 'node:http'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { start } from './lib/server.mjs'
import { call } from './lib/http.mjs'
import { descendants, isAlive, until, within } from './lib/proc.mjs'
import { Raw, get, message } from './lib/raw.mjs'
import { endOf, subscribe } from './lib/sse.mjs'
import { OP, WsRaw, closeFrame, frame } from './lib/ws.mjs'

const LIMIT = { timeout: 60_000 }

const refuses = (port) =>
  until(
    () =>
      Raw.open(port).then(
        (c) => {
          c.close()
          return false
        },
        () => true,
      ),
    'new connections are refused',
  )

async function exits(s, limitMs = 20_000) {
  const end = await within(s.exited, 'the exit', limitMs)
  assert.deepEqual([end.code, end.signal], [0, null], s.stderr())
  return s.stop()
}

describe('SIGTERM', { concurrency: 3 }, () => {
  for (const signal of ['SIGTERM', 'SIGINT'])
    test(`an idle server exits 0 on ${signal}`, LIMIT, async (t) => {
      const s = await start(t)
      s.term(signal)
      await exits(s)
    })

  test('everything open at once ends well', LIMIT, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_DRAIN_TIMEOUT_MS: '3000' } })
    const sse = await subscribe(s.url, '/test/sse?every=20')
    const log = await subscribe(s.url, '/test/events?topic=quiet')
    const ws = await WsRaw.open(s.port, '/test/ws')
    const half = await Raw.open(s.port)
    await half.send('GET /v1/health HTTP/1.1\r\nHost: loc')
    const hang = await Raw.open(s.port)
    await hang.send(get('/test/hang'))
    const idle = await Raw.open(s.port)
    await idle.send(get('/v1/health'))
    await idle.answer()
    const fresh = await Raw.open(s.port)
    await sse.atLeast(2)
    s.term()
    await endOf(sse)
    await endOf(log)
    assert.equal(sse.isClean, true, 'the event stream is ended, not cut')
    assert.equal(log.isClean, true, 'the log stream is ended, not cut')
    assert.equal(await ws.closeCode(), 1001)
    for (const c of [half, idle, fresh]) await c.rest()
    const last = (await hang.rest()).toString('latin1')
    assert.match(last, /^$|^HTTP\/1\.1 503 /)
    for (const c of [ws, half, idle, fresh, hang]) c.close() // else the server lingers for us
    await exits(s)
  })

  test('a request whose body is under way is finished', LIMIT, async (t) => {
    const s = await start(t)
    const size = 1_000_000
    const c = await Raw.open(s.port)
    await c.send(
      message(
        ['POST /test/sink HTTP/1.1', 'Host: localhost', `Content-Length: ${size}`],
        'x'.repeat(size / 2),
      ),
    )
    // The head has been read once a second request on another connection has been answered behind it.
    await call(s.url, '/v1/health')
    s.term()
    await refuses(s.port)
    await c.send('x'.repeat(size / 2))
    const a = await c.answer()
    assert.equal(a.status, 200)
    assert.equal(a.json.bytes, size)
    assert.equal(a.headers.connection, 'close')
    assert.equal((await c.rest()).length, 0)
    c.close()
    await exits(s)
  })

  test('a download under way is finished', LIMIT, async (t) => {
    const s = await start(t)
    const size = 20_000_000
    const c = await Raw.open(s.port)
    await c.send(get(`/test/stream?bytes=${size}`))
    await c.exactly(1000, 'the first bytes')
    c.pause()
    s.term()
    await refuses(s.port)
    c.resume()
    const rest = await c.rest()
    assert.equal(
      rest.subarray(-7).toString('latin1').slice(-5),
      '0\r\n\r\n',
      'ends with the last chunk',
    )
    c.close()
    await exits(s)
  })

  test('acknowledged appends survive the stop', LIMIT, async (t) => {
    const s = await start(t)
    const agent = new http.Agent({ keepAlive: true })
    const acked = []
    const writer = (async () => {
      for (let i = 0; ; i++) {
        const a = await call(s.url, '/test/events?topic=stop', { json: { i }, agent }).catch(
          () => null,
        )
        if (!a || a.status !== 200) return
        acked.push(a.json.seq)
      }
    })()
    await until(() => acked.length > 50, 'some appends')
    s.term()
    await writer
    agent.destroy()
    await exits(s)
    const again = await start(t, { dataDir: s.dataDir })
    const a = await call(again.url, '/test/events?topic=stop', { json: { last: true } })
    assert.ok(a.json.seq > acked.at(-1), `${a.json.seq} after ${acked.at(-1)}`)
  })

  test('a client that never finishes is cut off at the drain deadline', LIMIT, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_DRAIN_TIMEOUT_MS: '700' } })
    const c = await Raw.open(s.port)
    await c.send(
      message(['POST /test/sink HTTP/1.1', 'Host: localhost', 'Content-Length: 1000'], 'x'),
    )
    const stopped = await Raw.open(s.port)
    await stopped.send(get('/test/stream?bytes=500000000'))
    stopped.pause()
    const deaf = await WsRaw.open(s.port, '/test/ws')
    deaf.raw.pause()
    await call(s.url, '/v1/health')
    const from = Date.now()
    s.term()
    await exits(s, 15_000)
    assert.ok(Date.now() - from < 10_000, `took ${Date.now() - from} ms`)
    for (const one of [c, stopped, deaf.raw]) one.close()
  })

  test(
    'a websocket peer that answers the close is waited for, a talking one is not',
    LIMIT,
    async (t) => {
      const s = await start(t, { env: { SANDBOX_AGENT_DRAIN_TIMEOUT_MS: '3000' } })
      const polite = await WsRaw.open(s.port, '/test/ws')
      const talker = await WsRaw.open(s.port, '/test/ws')
      const talk = setInterval(() => talker.send(frame(OP.text, 'still here')), 5)
      t.after(() => {
        clearInterval(talk)
        talker.close()
      })
      s.term()
      assert.equal((await polite.next()).op, OP.close)
      await polite.send(closeFrame(1001))
      await polite.raw.rest()
      await exits(s)
    },
  )

  test('signals that come twice or thrice change nothing', LIMIT, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_DRAIN_TIMEOUT_MS: '1000' } })
    const c = await Raw.open(s.port)
    await c.send(get('/test/hang'))
    await call(s.url, '/v1/health')
    s.term()
    s.term()
    s.term('SIGINT')
    await exits(s)
    c.close()
  })
})

describe('children', { concurrency: 2 }, () => {
  async function spawnTree(s, n = 3) {
    const pids = []
    for (let i = 0; i < n; i++) {
      const a = await call(s.url, '/test/spawn', { method: 'POST' })
      assert.equal(a.status, 200, a.text)
      pids.push(a.json.pid)
    }
    // Each has a grandchild in a session of its own: the process group alone would miss it.
    await until(() => descendants(s.pid).length >= 2 * n, `${2 * n} descendants`)
    const all = descendants(s.pid)
    for (const pid of pids) assert.ok(all.includes(pid), `${pid} is a descendant`)
    return all
  }
  const gone = (pids) => until(() => pids.every((pid) => !isAlive(pid)), 'every descendant is gone')

  test('SIGTERM ends the whole tree, the setsid grandchild too', LIMIT, async (t) => {
    const s = await start(t)
    const all = await spawnTree(s)
    s.term()
    await exits(s)
    assert.deepEqual(all.filter(isAlive), [], 'alive after the exit')
  })

  test('children do not hold the exit up while streams are open', LIMIT, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_DRAIN_TIMEOUT_MS: '2000' } })
    const sse = await subscribe(s.url, '/test/sse?every=20')
    const all = await spawnTree(s, 1)
    s.term()
    await endOf(sse)
    await exits(s)
    await gone(all)
  })
})
