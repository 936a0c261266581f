// kill -9 at random moments, again and again on one store: nothing acknowledged or shown is ever lost.
import assert from 'node:assert/strict'
import http from 'node:http'
import { test } from 'node:test'
import { start, tempDir } from '../api/lib/server.mjs'
import { call } from '../api/lib/http.mjs'
import { subscribe } from '../api/lib/sse.mjs'

const ROUNDS = Number(process.env.TORTURE_ROUNDS ?? 60)
const append = (s, json, agent) =>
  call(s.url, '/test/events?topic=crash', { json, agent, limitMs: 5000 })

test(`${ROUNDS} crashes at random moments`, { timeout: ROUNDS * 3000 + 60_000 }, async (t) => {
  const dataDir = tempDir(t)
  const acked = new Map()
  const shown = new Map()
  for (let round = 0; round < ROUNDS; round++) {
    const s = await start(undefined, { dataDir })
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 })
    const sse = await subscribe(s.url, '/test/events?topic=crash', {
      headers: { 'last-event-id': String(Math.max(1, ...acked.keys()) - 1) },
    })
    let isOver = false
    const writers = Array.from({ length: 8 }, async (_, w) => {
      for (let i = 0; !isOver; i++) {
        const key = `${round}-${w}-${i}`
        const a = await append(
          s,
          { key, pad: 'x'.repeat(Math.floor(Math.random() * 3000)) },
          agent,
        ).catch(() => null)
        if (a?.status !== 200) return
        assert.ok(!acked.has(a.json.seq), `number ${a.json.seq} was given twice`)
        acked.set(a.json.seq, key)
      }
    })
    await new Promise((done) => setTimeout(done, Math.random() * 250))
    await s.kill()
    isOver = true
    await Promise.all(writers)
    agent.destroy()
    sse.close()
    for (const event of sse.events) shown.set(Number(event.id), event.data)
  }
  const s = await start(t, { dataDir })
  const mark = await append(s, { mark: true })
  const sse = await subscribe(s.url, '/test/events?topic=crash')
  await sse.atLeast(mark.json.seq, 60_000)
  sse.close()
  sse.events.forEach((event, i) => assert.equal(Number(event.id), i + 1, 'no holes, no doubles'))
  const stored = new Map(sse.events.map((event) => [Number(event.id), event.data]))
  for (const [seq, key] of acked)
    assert.equal(JSON.parse(stored.get(seq)).key, key, `acknowledged ${seq}`)
  for (const [seq, data] of shown) assert.equal(stored.get(seq), data, `shown ${seq}`)
  assert.ok(acked.size > ROUNDS, `${acked.size} acknowledged`)
})
