// Durable, then visible: whatever was acknowledged or shown is there after kill -9, once, in order.
import assert from 'node:assert/strict'
import http from 'node:http'
import { describe, test } from 'node:test'
import { start, tempDir } from './lib/server.mjs'
import { call } from './lib/http.mjs'
import { until } from './lib/proc.mjs'
import { subscribe } from './lib/sse.mjs'

const LONG = { timeout: 110_000 }
const LIMIT = { timeout: 60_000 }
const WRITERS = 8

const append = (s, topic, json, agent) =>
  call(s.url, `/test/events?topic=${topic}`, { json, agent })

// Everything in the log of a topic after `after`, up to and including a marker appended now.
async function readAll(s, topic, after = 0) {
  const mark = await append(s, topic, { mark: true })
  assert.equal(mark.status, 200, mark.text)
  const sse = await subscribe(
    s.url,
    `/test/events?topic=${topic}`,
    after ? { headers: { 'last-event-id': String(after) } } : {},
  )
  assert.equal(sse.status, 200)
  await sse.atLeast(mark.json.seq - after)
  sse.close()
  return sse.events.map((event) => ({ seq: Number(event.id), body: JSON.parse(event.data) }))
}

function assertUnbroken(events, from = 1) {
  events.forEach((event, i) =>
    assert.equal(event.seq, from + i, `event ${i} has number ${event.seq}`),
  )
}

describe('kill -9', () => {
  test(
    'ten times during appends: every acknowledged and every shown event is there',
    LONG,
    async (t) => {
      const dataDir = tempDir(t)
      const acked = new Map() // seq → key
      const shown = new Map()
      const tried = new Set()
      for (let round = 0; round < 10; round++) {
        const s = await start(t, { dataDir })
        const sse = await subscribe(s.url, '/test/events?topic=crash', {
          headers: { 'last-event-id': String(Math.max(0, ...acked.keys())) },
        })
        const agent = new http.Agent({ keepAlive: true, maxSockets: WRITERS })
        let isOver = false
        let count = 0
        const writers = Array.from({ length: WRITERS }, async (_, w) => {
          for (let i = 0; !isOver; i++) {
            const key = `${round}-${w}-${i}`
            tried.add(key)
            const a = await append(
              s,
              'crash',
              { key, pad: 'x'.repeat((i * 37) % 2000) },
              agent,
            ).catch(() => null)
            if (a?.status !== 200) return
            assert.ok(!acked.has(a.json.seq), `number ${a.json.seq} was given twice`)
            acked.set(a.json.seq, key)
            count++
          }
        })
        await until(() => count >= 60 + round * 17, 'some acknowledged appends', 20_000)
        await s.kill()
        isOver = true
        await Promise.all(writers)
        agent.destroy()
        for (const event of sse.events) shown.set(Number(event.id), JSON.parse(event.data).key)
        sse.close()
      }
      const s = await start(t, { dataDir })
      const events = await readAll(s, 'crash')
      assertUnbroken(events)
      const stored = new Map(events.map((event) => [event.seq, event.body.key]))
      for (const [seq, key] of acked) assert.equal(stored.get(seq), key, `acknowledged ${seq}`)
      for (const [seq, key] of shown) assert.equal(stored.get(seq), key, `shown ${seq}`)
      const keys = events.map((event) => event.body.key).filter(Boolean)
      assert.equal(new Set(keys).size, keys.length, 'no event twice')
      for (const key of keys) assert.ok(tried.has(key), `${key} was sent by somebody`)
      assert.ok(acked.size >= 600, `${acked.size} acknowledged`)
    },
  )

  test('a store written by a killed server opens at once', LIMIT, async (t) => {
    const dataDir = tempDir(t)
    for (let i = 1; i <= 5; i++) {
      const s = await start(t, { dataDir })
      assert.equal((await append(s, 'one', { i })).json.seq, i)
      await s.kill()
    }
    const s = await start(t, { dataDir })
    const events = await readAll(s, 'one')
    assert.deepEqual(
      events.slice(0, 5).map((event) => event.body.i),
      [1, 2, 3, 4, 5],
    )
  })
})

describe('replay', () => {
  test('Last-Event-ID gives exactly what follows, before and after a restart', LIMIT, async (t) => {
    const dataDir = tempDir(t)
    const s = await start(t, { dataDir })
    for (let i = 1; i <= 700; i++) await append(s, 'replay', { i })
    for (const after of [0, 1, 350, 699, 700])
      assertUnbroken(await readAll(s, 'replay', after), after + 1)
    await s.stop()
    const again = await start(t, { dataDir })
    for (const after of [0, 1, 350, 704])
      assertUnbroken(await readAll(again, 'replay', after), after + 1)
  })

  test('a reader that is cut off again and again sees every event once', LIMIT, async (t) => {
    const s = await start(t)
    const agent = new http.Agent({ keepAlive: true })
    const total = 600
    const writer = (async () => {
      for (let i = 1; i <= total; i++)
        assert.equal((await append(s, 'cut', { i }, agent)).status, 200)
    })()
    const seen = []
    for (let cuts = 0; seen.length < total; cuts++) {
      const sse = await subscribe(
        s.url,
        '/test/events?topic=cut',
        seen.length ? { headers: { 'last-event-id': seen.at(-1).id } } : {},
      )
      const wanted = Math.min(total - seen.length, 1 + ((cuts * 13) % 60))
      seen.push(...(await sse.atLeast(wanted)).slice(0, wanted))
      sse.close()
    }
    await writer
    agent.destroy()
    assert.deepEqual(
      seen.map((event) => Number(event.id)),
      Array.from({ length: total }, (_, i) => i + 1),
    )
    assert.deepEqual(
      seen.map((event) => JSON.parse(event.data).i),
      Array.from({ length: total }, (_, i) => i + 1),
    )
  })

  test('many readers of one topic see the same, live', LIMIT, async (t) => {
    const s = await start(t)
    const readers = await Promise.all(
      Array.from({ length: 50 }, () => subscribe(s.url, '/test/events?topic=many')),
    )
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 })
    await Promise.all(Array.from({ length: 200 }, (_, i) => append(s, 'many', { i }, agent)))
    const all = await Promise.all(readers.map((sse) => sse.atLeast(200)))
    for (const events of all) assert.deepEqual(events, all[0])
    assertUnbroken(all[0].map((event) => ({ seq: Number(event.id) })))
    for (const sse of readers) sse.close()
    agent.destroy()
  })

  test('a reader that stops reading gets everything once it goes on', LIMIT, async (t) => {
    const s = await start(t)
    const slow = await subscribe(s.url, '/test/events?topic=slow')
    slow.res.pause()
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 })
    const total = 1500
    const pad = 'p'.repeat(4000)
    await Promise.all(Array.from({ length: total }, (_, i) => append(s, 'slow', { i, pad }, agent)))
    slow.res.resume()
    const events = await slow.atLeast(total, 40_000)
    assertUnbroken(events.map((event) => ({ seq: Number(event.id) })))
    slow.close()
    agent.destroy()
  })

  test('topics are numbered apart', LIMIT, async (t) => {
    const s = await start(t)
    for (let i = 1; i <= 3; i++)
      for (const topic of ['a', 'b/c', 'b'])
        assert.equal((await append(s, encodeURIComponent(topic), { i })).json.seq, i)
  })

  test(
    'a Last-Event-ID that is no number is refused; one ahead of the log waits',
    LIMIT,
    async (t) => {
      const s = await start(t)
      for (const bad of ['abc', '-1', '1.5', '99999999999999999999999']) {
        const a = await call(s.url, '/test/events?topic=x', {
          headers: { 'last-event-id': bad, accept: 'text/event-stream' },
        })
        assert.equal(a.status, 400, `${bad}: ${a.status}`)
        assert.match(a.json.detail, /Last-Event-ID must be a positive integer/)
      }
    },
  )

  test('what is not JSON is refused and takes no number', LIMIT, async (t) => {
    const s = await start(t)
    const bad = await call(s.url, '/test/events?topic=j', {
      method: 'POST',
      body: '{',
      headers: { 'content-type': 'application/json' },
    })
    assert.equal(bad.status, 400)
    assert.equal((await append(s, 'j', { ok: true })).json.seq, 1)
  })
})
