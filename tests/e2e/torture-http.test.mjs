// The HTTP server over minutes instead of moments: many connections, bad bytes, sudden ends, restarts.
// What a short API test cannot see: memory that grows, descriptors that stay, a crash in a thousand.
import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import net from 'node:net'
import { test } from 'node:test'
import { call } from '../api/lib/http.mjs'
import { MiB, openFds, rssBytes, until } from '../api/lib/proc.mjs'
import { FLAT_MEMORY, RELEASE, TESTD, start } from '../api/lib/server.mjs'

const HEALTH = 'GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n'
const IDLE_CONNECTIONS = 8000 // both ends' descriptors must fit the usual limit of 20000
const IDLE_BYTES = 4096 // per idle connection
const ROUNDS = 20

// A connection that takes any end for granted.
async function connect(port) {
  const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('error', () => {})
  await Promise.race([once(socket, 'connect'), once(socket, 'close')])
  return socket
}

async function connectMany(port, n) {
  const sockets = []
  while (sockets.length < n)
    sockets.push(...(await Promise.all(Array.from({ length: Math.min(200, n - sockets.length) }, () => connect(port)))))
  return sockets
}

async function assertHealthy(server) {
  assert.equal((await call(server.url, '/v1/health')).status, 200)
}

// Everything that was opened is closed again: the count comes back to what it was.
const fdsBackTo = (server, before) => until(() => openFds(server.pid) <= before, `${before} descriptors`, 30_000)

test('thousands of idle connections cost little and go without a trace', async (t) => {
  const server = await start(t, { bin: RELEASE })
  await assertHealthy(server)
  const fds = openFds(server.pid)
  const rss = rssBytes(server.pid)

  const sockets = await connectMany(server.port, IDLE_CONNECTIONS)
  for (const socket of sockets) socket.write(HEALTH)
  await Promise.all(sockets.map((socket) => once(socket, 'data')))
  const each = (rssBytes(server.pid) - rss) / IDLE_CONNECTIONS
  assert.ok(each <= IDLE_BYTES, `${Math.round(each)} bytes per idle connection`)
  await assertHealthy(server)

  for (const socket of sockets) socket.destroy()
  await fdsBackTo(server, fds)
  await assertHealthy(server)
})

test('connections reset in the middle of answers, again and again', async (t) => {
  const server = await start(t, { bin: TESTD, env: FLAT_MEMORY })
  await assertHealthy(server)
  const fds = openFds(server.pid)
  let rss
  for (let round = 0; round < ROUNDS; round++) {
    const sockets = await connectMany(server.port, 300)
    for (const socket of sockets) socket.write(HEALTH.repeat(randomInt(1, 20)))
    // A third leaves at once, a third after the first bytes, a third half-closed.
    const ends = [(s) => s.resetAndDestroy(), (s) => s.once('data', () => s.resetAndDestroy()), (s) => s.end()]
    sockets.forEach((socket, i) => {
      socket.on('data', () => {})
      ends[i % ends.length](socket)
    })
    await Promise.all(sockets.map((socket) => socket.closed || once(socket, 'close')))
    await fdsBackTo(server, fds)
    if (round === 4) rss = rssBytes(server.pid) // warm by now
  }
  await assertHealthy(server)
  const grown = rssBytes(server.pid) - rss
  assert.ok(grown < 8 * MiB, `grew by ${grown} bytes in ${ROUNDS - 5} rounds`)
})

// Requests with bytes changed, doubled, cut or put in: near enough to the real thing to get far.
function mutate(bytes) {
  const copy = Buffer.from(bytes)
  const at = randomInt(copy.length)
  const kinds = [
    () => copy.fill(randomInt(256), at, at + 1),
    () => Buffer.concat([copy.subarray(0, at), randomBytes(randomInt(1, 40)), copy.subarray(at)]),
    () => copy.subarray(0, at),
    () => Buffer.concat([copy, copy.subarray(at)]),
    () => randomBytes(randomInt(1, 2000)),
  ]
  return kinds[randomInt(kinds.length)]()
}

const SEEDS = [
  HEALTH,
  'POST /v1/health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  'POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}',
  'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
].map((text) => Buffer.from(text))

test('half a minute of broken requests on 32 connections', async (t) => {
  const server = await start(t, { bin: TESTD, env: FLAT_MEMORY })
  await assertHealthy(server)
  const fds = openFds(server.pid)
  const deadline = Date.now() + 30_000
  let sent = 0
  const work = async () => {
    while (Date.now() < deadline) {
      const socket = await connect(server.port)
      socket.on('data', () => {})
      for (let i = randomInt(1, 5); i > 0 && !socket.destroyed; i--) {
        socket.write(mutate(SEEDS[randomInt(SEEDS.length)]))
        sent++
      }
      socket.end()
      // An answer, a close or nothing: a broken request may leave the server waiting for the rest.
      setTimeout(() => socket.destroy(), 200).unref()
      await (socket.closed || once(socket, 'close'))
    }
  }
  await Promise.all(Array.from({ length: 32 }, work))
  t.diagnostic(`${sent} broken requests`)
  assert.ok(sent > 1000, `only ${sent} sent`)
  await fdsBackTo(server, fds)
  await assertHealthy(server)
})

test('a thousand slow heads do not keep others waiting', async (t) => {
  const server = await start(t, { bin: RELEASE })
  const sockets = await connectMany(server.port, 1000)
  let i = 0
  const drip = setInterval(() => {
    for (const socket of sockets) if (!socket.destroyed) socket.write(HEALTH[i % 10])
    i++
  }, 100)
  t.after(() => {
    clearInterval(drip)
    for (const socket of sockets) socket.destroy()
  })
  for (let k = 0; k < 50; k++) {
    const before = performance.now()
    await assertHealthy(server)
    const ms = performance.now() - before
    assert.ok(ms < 1000, `health took ${ms} ms beside slow heads`)
  }
})

test('SIGTERM under load always ends with status 0 and whole answers', async (t) => {
  for (let round = 0; round < ROUNDS; round++) {
    const server = await start(null, { bin: RELEASE })
    let whole = 0
    let broken = 0
    const work = async () => {
      for (;;) {
        const answer = await call(server.url, '/v1/health', { limitMs: 20_000 }).catch((error) => ({ error }))
        if (answer.status === 200 && answer.text === '{"status":"ok"}') whole++
        else if (answer.error) return // refused or closed before an answer: the server is going
        else broken++
      }
    }
    const workers = Array.from({ length: 16 }, work)
    await until(() => whole > 100, '100 answers')
    await server.stop() // asserts status 0
    await Promise.all(workers)
    assert.equal(broken, 0, `round ${round}: answers that were not whole`)
  }
})
