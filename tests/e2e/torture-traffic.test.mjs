// Random traffic, right and wrong, with clients that leave at any moment. Afterwards the server must
// be as it was: alive, no descriptor more, no memory more, nothing said by a sanitizer, exit 0.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FLAT_MEMORY, start } from '../api/lib/server.mjs'
import { call } from '../api/lib/http.mjs'
import { MiB, openFds, rssBytes, until } from '../api/lib/proc.mjs'
import { Raw, chunk, get, message, post, postJson } from '../api/lib/raw.mjs'
import { OP, closeFrame, frame, handshake } from '../api/lib/ws.mjs'
import { generator } from '../api/lib/random.mjs'

const SECONDS = Number(process.env.TORTURE_SECONDS ?? 30)
const SEED = Number(process.env.TORTURE_SEED ?? Date.now() % 2 ** 31)
const CLIENTS = 40

const JSON_BODY = '{"text":"torture","n":7}'
const KEY = Buffer.alloc(16, 3).toString('base64')
const makers = [
  () => get('/v1/health'),
  () => get('/metrics'),
  () => get('/ui/', 'Accept-Encoding: gzip'),
  () => get('/nowhere'),
  (r) => get(`/test/stream?bytes=${r.below(2_000_000)}`),
  (r) => get(`/test/sse?count=${r.below(30)}&every=1`),
  () => get('/test/sse?every=3'),
  () => get('/test/hang'),
  (r) => get(`/test/events?topic=t${r.below(3)}`),
  (r) => postJson(`/test/events?topic=t${r.below(3)}`, JSON_BODY),
  () => postJson('/test/echo', JSON_BODY),
  () => postJson('/test/echo', '{"text":'),
  (r) =>
    message(
      ['POST /test/sink HTTP/1.1', 'Host: localhost', 'Content-Length: 300000'],
      'x'.repeat(r.below(300_001)),
    ),
  (r) =>
    post(
      '/test/sink',
      `${chunk('y'.repeat(1 + r.below(70_000)))}${r.chance(0.8) ? '0\r\n\r\n' : 'zz\r\n'}`,
      'Transfer-Encoding: chunked',
    ),
  () =>
    message(
      [
        'POST /test/echo HTTP/1.1',
        'Host: localhost',
        'Content-Type: application/json',
        'Content-Length: 24',
        'Expect: 100-continue',
      ],
      JSON_BODY,
    ),
  () => Buffer.concat(Array.from({ length: 50 }, () => get('/v1/health'))),
  (r) =>
    Buffer.concat([
      handshake('/test/ws', KEY),
      ...Array.from({ length: r.below(20) }, () =>
        frame(
          r.pick([OP.text, OP.binary, OP.ping, OP.pong, OP.cont, 3]),
          'w'.repeat(r.below(5000)),
          { isFin: r.chance(0.9), isMasked: r.chance(0.97) },
        ),
      ),
      r.chance(0.5) ? closeFrame(1000) : Buffer.alloc(0),
    ]),
]

// Bytes turned, cut, doubled: what a fuzzer does to a file, done to a live connection.
function mutate(bytes, r) {
  const out = Buffer.from(bytes)
  for (let i = r.below(4); i > 0 && out.length; i--) out[r.below(out.length)] = r.below(256)
  if (r.chance(0.2)) return out.subarray(0, r.below(out.length + 1))
  if (r.chance(0.1)) return Buffer.concat([out, out])
  return out
}

async function visit(port, r) {
  const c = await Raw.open(port).catch(() => null)
  if (!c) return
  for (let n = 1 + r.below(4); n > 0 && !c.isEnded; n--) {
    const made = r.pick(makers)(r)
    const bytes = r.chance(0.3) ? mutate(made, r) : made
    if (r.chance(0.2))
      for (const cut of [bytes.subarray(0, 7), bytes.subarray(7)]) await c.send(cut)
    else c.send(bytes)
    if (r.chance(0.1)) c.pause()
    if (r.chance(0.6)) await c.more('anything', 20 + r.below(200)).catch(() => {})
  }
  const leave = r.below(3)
  if (leave === 0) c.reset()
  else if (leave === 1) c.close()
  else {
    c.finish()
    await c.more('anything', 50).catch(() => {})
    c.close()
  }
}

test(
  `${CLIENTS} unruly clients for ${SECONDS} s (TORTURE_SEED=${SEED})`,
  { timeout: (SECONDS + 90) * 1000 },
  async (t) => {
    const s = await start(t, {
      env: {
        ...FLAT_MEMORY,
        SANDBOX_AGENT_BODY_TIMEOUT_MS: '2000',
        SANDBOX_AGENT_HEAD_TIMEOUT_MS: '2000',
        SANDBOX_AGENT_IDLE_TIMEOUT_MS: '2000',
      },
    })
    const endAt = Date.now() + SECONDS * 1000
    const clients = Array.from({ length: CLIENTS }, async (_, i) => {
      const r = generator(SEED + i)
      while (Date.now() < endAt) await visit(s.port, r)
    })
    let rss
    const watcher = (async () => {
      for (let n = 0; Date.now() < endAt; n++) {
        const at = performance.now()
        assert.equal((await call(s.url, '/v1/health')).status, 200)
        const took = performance.now() - at
        assert.ok(took < 2000, `health took ${took.toFixed(0)} ms`)
        if (Date.now() > endAt - SECONDS * 500) rss ??= rssBytes(s.pid)
        await new Promise((done) => setTimeout(done, 100))
      }
    })()
    await Promise.all([...clients, watcher])
    const grown = rssBytes(s.pid) - rss
    assert.ok(grown < 32 * MiB, `grew by ${grown} bytes in the second half`)
    // What is opened once (log, store, pool) is open by now; connections are not.
    const { text } = await call(s.url, '/metrics')
    assert.match(text, /http/)
    await until(() => openFds(s.pid) < 60, `few descriptors left, not ${openFds(s.pid)}`, 30_000)
    await s.stop()
  },
)
