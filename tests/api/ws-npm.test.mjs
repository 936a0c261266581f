// Our websocket codec against the client that most people use.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import WebSocket from 'ws'
import { start } from './lib/server.mjs'
import { MiB, within } from './lib/proc.mjs'

const LIMIT = { timeout: 60_000 }
let server
before(async () => (server = await start()))
after(() => server.stop())

async function connect(options) {
  const ws = new WebSocket(`${server.url.replace('http', 'ws')}/test/ws`, options)
  ws.on('error', () => {})
  await within(once(ws, 'open'), 'open')
  return ws
}
const next = async (ws) => {
  const [data, isBinary] = await within(once(ws, 'message'), 'a message', 30_000)
  return { data, isBinary }
}
const closed = async (ws) => {
  const [code, reason] = await within(once(ws, 'close'), 'close')
  return [code, reason.toString()]
}

test('text and binary come back as what they were', LIMIT, async () => {
  const ws = await connect()
  for (const text of ['', 'hello', 'ä€𝄞', 'x'.repeat(70_000)]) {
    ws.send(text)
    const { data, isBinary } = await next(ws)
    assert.deepEqual([data.toString(), isBinary], [text, false])
  }
  for (const n of [0, 1, 125, 126, 65_535, 65_536, MiB]) {
    const sent = Buffer.alloc(n, n & 255)
    ws.send(sent)
    const { data, isBinary } = await next(ws)
    assert.ok(isBinary && data.equals(sent), `${n} bytes`)
  }
  ws.close()
  await closed(ws)
})

test('fragments are put together', LIMIT, async () => {
  const ws = await connect()
  for (let i = 0; i < 10; i++) ws.send(`part ${i} `, { fin: i === 9 })
  assert.equal(
    (await next(ws)).data.toString(),
    Array.from({ length: 10 }, (_, i) => `part ${i} `).join(''),
  )
  ws.terminate()
})

test('a ping is answered', LIMIT, async () => {
  const ws = await connect()
  const pong = once(ws, 'pong')
  ws.ping('are you there')
  assert.equal((await within(pong, 'pong'))[0].toString(), 'are you there')
  ws.terminate()
})

test('close codes are answered with the same code', LIMIT, async () => {
  for (const code of [1000, 1001, 3000, 4321]) {
    const ws = await connect()
    ws.close(code, 'enough')
    assert.equal((await closed(ws))[0], code)
  }
})

test('a message over the limit closes with 1009', LIMIT, async () => {
  const ws = await connect()
  ws.send(Buffer.alloc(MiB + 1))
  assert.equal((await closed(ws))[0], 1009)
})

test('permessage-deflate is offered and not taken', LIMIT, async () => {
  const ws = await connect({ perMessageDeflate: true })
  assert.equal(ws.extensions, '')
  ws.send('z'.repeat(50_000))
  assert.equal((await next(ws)).data.length, 50_000)
  ws.terminate()
})

test('200 clients talk at the same time', LIMIT, async () => {
  const all = await Promise.all(Array.from({ length: 200 }, () => connect()))
  await Promise.all(
    all.map(async (ws, i) => {
      for (let k = 0; k < 10; k++) {
        ws.send(`${i}/${k}`)
        assert.equal((await next(ws)).data.toString(), `${i}/${k}`)
      }
    }),
  )
  for (const ws of all) ws.terminate()
})

test('a client that does not read its echoes is held back, then gets them all', LIMIT, async () => {
  const ws = await connect()
  ws.pause()
  const n = 64
  for (let i = 0; i < n; i++) ws.send(Buffer.alloc(512 * 1024, i))
  let seen = 0
  const all = new Promise((done) =>
    ws.on('message', (data) => {
      assert.equal(data[0], seen & 255)
      if (++seen === n) done()
    }),
  )
  ws.resume()
  await within(all, `${n} echoes`, 50_000)
  ws.terminate()
})
