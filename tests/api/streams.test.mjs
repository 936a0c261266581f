// Bodies that are larger than memory, readers that stop, clients that vanish all at once.
import assert from 'node:assert/strict'
import http from 'node:http'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import { FLAT_MEMORY, start } from './lib/server.mjs'
import { call, open } from './lib/http.mjs'
import { MiB, openFds, peakBytes, rssBytes, until, within } from './lib/proc.mjs'
import { Raw, ask, chunk, get, message, on } from './lib/raw.mjs'
import { subscribe } from './lib/sse.mjs'
import { OP, WsRaw, frame } from './lib/ws.mjs'

const LONG = { timeout: 180_000 }
const LIMIT = { timeout: 60_000 }

let server
before(async () => (server = await start(undefined, { env: FLAT_MEMORY })))
after(() => server.stop())

// Writes n bytes as fast as the other side takes them.
function pour(n, block = Buffer.alloc(256 * 1024, 'x')) {
  return async (req) => {
    for (let left = n; left > 0 && !req.destroyed; left -= block.length) {
      const part = left < block.length ? block.subarray(0, left) : block
      if (!req.write(part))
        await Promise.race([once(req, 'drain'), once(req, 'close')]).catch(() => {})
    }
    req.end()
  }
}

describe('uploads', () => {
  for (const [name, size, isChunked] of [
    ['64 MiB with a length', 64 * MiB, false],
    ['64 MiB in chunks', 64 * MiB, true],
    ['1 GiB with a length', 1024 * MiB, false],
  ])
    test(`${name} passes with bounded memory`, LONG, async () => {
      await call(server.url, '/test/sink', { method: 'POST', body: pour(4 * MiB) })
      const before = rssBytes(server.pid)
      const headers = isChunked ? {} : { 'content-length': size }
      const a = await call(server.url, '/test/sink', {
        method: 'POST',
        headers,
        body: pour(size),
        limitMs: 170_000,
      })
      assert.equal(a.status, 200, a.text)
      assert.equal(a.json.bytes, size)
      const grown = peakBytes(server.pid) - before
      assert.ok(grown < 16 * MiB, `peak grew by ${grown} bytes`)
    })

  test('a reader that pauses slows the sender down instead of buffering', LIMIT, async () => {
    const before = rssBytes(server.pid)
    const size = 32 * MiB
    const c = await Raw.open(server.port)
    c.send(
      message(['POST /test/sink?slow=true HTTP/1.1', 'Host: localhost', `Content-Length: ${size}`]),
    )
    // At 64 KiB per 50 ms the whole takes 25 s: after these requests most of it must still be ours.
    for (let sent = 0; sent < size; sent += MiB) c.send(Buffer.alloc(MiB))
    for (let i = 0; i < 300; i++) await ask(server.port, get('/v1/health', 'Connection: close'))
    const grown = rssBytes(server.pid) - before
    const unsent = c.socket.writableLength
    c.reset()
    assert.ok(unsent > 8 * MiB, `all but ${unsent} bytes were taken`)
    assert.ok(grown < 8 * MiB, `grew by ${grown} bytes`)
  })

  test("the server's own pauses are not held against the client", LIMIT, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_BODY_TIMEOUT_MS: '400' } })
    const size = 2 * MiB // 32 pauses of 50 ms
    const a = await call(s.url, '/test/sink?slow=true', {
      method: 'POST',
      headers: { 'content-length': size },
      body: pour(size),
    })
    assert.equal(a.status, 200, a.text)
    assert.equal(a.json.bytes, size)
  })

  test('a client that leaves in the middle of an upload frees its connection', LIMIT, async () => {
    await ask(server.port, get('/v1/health'))
    const before = openFds(server.pid)
    for (let i = 0; i < 20; i++) {
      const c = await Raw.open(server.port)
      await c.send(
        message(
          ['POST /test/sink HTTP/1.1', 'Host: localhost', 'Content-Length: 1000000'],
          'x'.repeat(1000),
        ),
      )
      if (i % 2) c.reset()
      else c.close()
    }
    await until(() => openFds(server.pid) <= before, 'descriptors back to the start')
  })

  test('chunks of every size around the read buffer arrive whole', LIMIT, () =>
    on(server.port, async (c) => {
      let total = 0
      c.send(message(['POST /test/sink HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked']))
      for (const n of [
        1, 2, 15, 16, 17, 255, 256, 4095, 4096, 4097, 16383, 16384, 65535, 65536, 65537, 200_000,
      ]) {
        c.send(chunk('y'.repeat(n)))
        total += n
      }
      c.send('0\r\n\r\n')
      assert.equal((await c.answer()).json.bytes, total)
    }),
  )

  test('an upload and its answer keep the connection usable', LIMIT, () =>
    on(server.port, async (c) => {
      for (let i = 0; i < 5; i++) {
        c.send(
          message(
            ['POST /test/sink HTTP/1.1', 'Host: localhost', 'Content-Length: 300000'],
            'z'.repeat(300_000),
          ),
        )
        assert.equal((await c.answer()).json.bytes, 300_000)
        c.send(get('/v1/health'))
        assert.equal((await c.answer()).status, 200)
      }
    }),
  )
})

describe('downloads', () => {
  test('256 MiB in chunks with bounded memory', LONG, async () => {
    const before = rssBytes(server.pid)
    const res = await open(server.url, `/test/stream?bytes=${256 * MiB}`)
    assert.equal(res.headers['transfer-encoding'], 'chunked')
    let seen = 0
    res.on('data', (data) => (seen += data.length))
    await within(once(res, 'end'), 'the end of the download', 170_000)
    assert.equal(seen, 256 * MiB)
    assert.ok(res.complete)
    assert.ok(peakBytes(server.pid) - before < 16 * MiB)
  })

  test('a reader that stops stops the producer, and gets the rest later', LIMIT, async () => {
    const before = rssBytes(server.pid)
    const n = 64 * MiB
    const readers = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const res = await open(server.url, `/test/stream?bytes=${n}`)
        res.pause()
        return res
      }),
    )
    // Other requests are the clock here: while they are served the streams had every chance to grow.
    for (let i = 0; i < 500; i++) await ask(server.port, get('/v1/health', 'Connection: close'))
    const grown = rssBytes(server.pid) - before
    assert.ok(grown < 16 * MiB, `8 stopped readers of 64 MiB hold ${grown} bytes`)
    const sizes = await Promise.all(
      readers.map(async (res, i) => {
        if (i > 1) {
          res.destroy()
          return n
        }
        let seen = 0
        res.on('data', (data) => (seen += data.length))
        res.resume()
        await within(once(res, 'end'), 'the rest', 50_000)
        return seen
      }),
    )
    assert.deepEqual(
      sizes,
      sizes.map(() => n),
    )
  })

  test('HEAD of a stream has no body', LIMIT, () =>
    on(server.port, async (c) => {
      c.send(
        Buffer.concat([
          message(['HEAD /test/stream?bytes=1000000 HTTP/1.1', 'Host: localhost']),
          get('/v1/health'),
        ]),
      )
      assert.equal((await c.answer({ isHead: true })).status, 200)
      assert.equal((await c.answer()).text, '{"status":"ok"}')
    }),
  )

  test('an empty stream ends', LIMIT, async () => {
    assert.equal((await call(server.url, '/test/stream?bytes=0')).text, '')
  })

  test('events arrive one by one, numbered, and the stream ends', LIMIT, async () => {
    const sse = await subscribe(server.url, '/test/sse?count=20&every=1')
    assert.equal(sse.status, 200)
    assert.match(sse.res.headers['content-type'], /^text\/event-stream/)
    assert.match(sse.res.headers['cache-control'] ?? '', /no-cache|no-store/)
    await within(sse.ended, 'the end of the events', 20_000)
    assert.ok(sse.isClean)
    assert.equal(sse.events.length, 20)
  })

  test('an endless event stream whose reader stops does not grow the server', LIMIT, async () => {
    const before = rssBytes(server.pid)
    const streams = await Promise.all(
      Array.from({ length: 50 }, () => subscribe(server.url, '/test/sse?every=1')),
    )
    for (const sse of streams) sse.res.pause()
    for (let i = 0; i < 500; i++) await ask(server.port, get('/v1/health', 'Connection: close'))
    const grown = rssBytes(server.pid) - before
    for (const sse of streams) sse.close()
    assert.ok(grown < 16 * MiB, `50 stopped readers hold ${grown} bytes`)
  })
})

describe('departures', () => {
  test(
    '500 event streams, 32 websockets and 200 idle connections vanish at once',
    LONG,
    async (t) => {
      const s = await start(t)
      const before = openFds(s.pid) + 1 // a probe of our own may be closing
      for (let round = 0; round < 3; round++) {
        const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity })
        const streams = []
        for (let i = 0; i < 500; i += 100)
          streams.push(
            ...(await Promise.all(
              Array.from({ length: 100 }, () => subscribe(s.url, '/test/sse?every=50')),
            )),
          )
        const sockets = await Promise.all(
          Array.from({ length: 32 }, () => WsRaw.open(s.port, '/test/ws')),
        )
        await Promise.all(Array.from({ length: 200 }, () => call(s.url, '/v1/health', { agent })))
        const uploads = await Promise.all(
          Array.from({ length: 50 }, async () => {
            const c = await Raw.open(s.port)
            await c.send(
              message(
                ['POST /test/sink HTTP/1.1', 'Host: localhost', 'Content-Length: 1000000'],
                'x'.repeat(5000),
              ),
            )
            return c
          }),
        )
        const hangs = await Promise.all(
          Array.from({ length: 50 }, async () => {
            const c = await Raw.open(s.port)
            await c.send(get('/test/hang'))
            return c
          }),
        )
        await Promise.all(streams.map((sse) => sse.atLeast(2)))
        for (const w of sockets) w.send(frame(OP.binary, Buffer.alloc(200_000)))
        // All in one turn of our loop, half of them by reset: the server learns of them in one batch.
        streams.forEach((sse, i) => (i % 2 ? sse.res.socket.resetAndDestroy() : sse.close()))
        sockets.forEach((w, i) => (i % 2 ? w.raw.reset() : w.close()))
        for (const c of [...uploads, ...hangs]) c.reset()
        agent.destroy()
        await until(() => openFds(s.pid) <= before, `descriptors back to ${before}`, 30_000)
        assert.equal((await call(s.url, '/v1/health')).status, 200)
      }
      await s.stop()
    },
  )

  test('everybody leaves while everybody is being written to', LONG, async (t) => {
    const s = await start(t)
    const before = openFds(s.pid)
    const many = await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        const c = await Raw.open(s.port)
        c.send(get(i % 2 ? '/test/stream?bytes=50000000' : '/test/sse?every=1'))
        await c.head()
        return c
      }),
    )
    await Promise.all(many.map((c) => c.exactly(100, 'first bytes')))
    for (const c of many) c.reset()
    await until(() => openFds(s.pid) <= before, 'descriptors back to the start', 30_000)
    await s.stop()
  })

  // The reset may be there before the request is read, with it, or after it is held: try many times.
  for (const [name, path] of [
    ['held', '/test/hang'],
    ['streamed', '/test/sse?every=1000'],
    ['logged', '/test/events?topic=gone'],
  ])
    test(
      `a client that resets right behind a request that is ${name} is noticed`,
      LIMIT,
      async (t) => {
        const s = await start(t)
        const warm = await Raw.open(s.port) // opens what is opened once, such as the store's files
        await warm.send(get(path))
        await call(s.url, '/v1/health')
        const before = openFds(s.pid)
        warm.close()
        await until(() => openFds(s.pid) < before, 'the first one is gone')
        for (let i = 0; i < 20; i++) {
          const all = await Promise.all(
            Array.from({ length: 50 }, async () => {
              const c = await Raw.open(s.port)
              await c.send(get(path))
              return c
            }),
          )
          for (const c of all) c.reset()
          await until(() => openFds(s.pid) <= before, `descriptors back to the start, round ${i}`)
        }
      },
    )

  // The server stops reading when too much is waiting behind an unanswered request. It must not stop
  // noticing: the end of the connection may be hidden behind bytes that nobody reads.
  for (const leave of ['reset', 'close'])
    test(
      `a client that sends on behind a held request and leaves by ${leave} is noticed`,
      LIMIT,
      async (t) => {
        const s = await start(t, {
          env: { SANDBOX_AGENT_IDLE_TIMEOUT_MS: '1000', SANDBOX_AGENT_BODY_TIMEOUT_MS: '1000' },
        })
        const before = openFds(s.pid)
        for (const size of [70_000, 300_000, 5_000_000]) {
          const c = await Raw.open(s.port)
          c.send(Buffer.concat([get('/test/hang'), Buffer.alloc(size, get('/v1/health'))]))
          await call(s.url, '/v1/health')
          c[leave]()
          await until(
            () => openFds(s.pid) <= before,
            `the connection with ${size} bytes behind it is gone`,
            15_000,
          )
        }
      },
    )

  test('a hanging request is let go when its client leaves', LIMIT, async (t) => {
    const s = await start(t)
    const before = openFds(s.pid)
    const c = await Raw.open(s.port)
    await c.send(get('/test/hang'))
    await until(() => openFds(s.pid) > before, 'the connection')
    c.close()
    await until(() => openFds(s.pid) <= before, 'its end')
  })
})
