// What is broken around the server must not break the server, and is said in one line.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { FLAT_MEMORY, RELEASE, run, start, tempDir } from './lib/server.mjs'
import { call } from './lib/http.mjs'
import { MiB, openFds, rssBytes, until } from './lib/proc.mjs'
import { Raw, ask, get, message, on, post } from './lib/raw.mjs'
import { subscribe } from './lib/sse.mjs'

const LIMIT = { timeout: 90_000 }

function oneLine(end, pattern) {
  assert.equal(end.code, 1, `exit ${end.code}: ${end.err}`)
  assert.equal(end.err.trim().split('\n').length, 1, `one line, not: ${end.err}`)
  assert.match(end.err, pattern)
}

describe('at the start', { concurrency: 3 }, () => {
  test('a port in use: one line, exit 1', LIMIT, async (t) => {
    const other = net.createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address()
    const end = await run(t, ['server', '--host', '127.0.0.1', '--port', String(port)])
    other.close()
    oneLine(end, new RegExp(`${port}`))
    assert.match(end.err, /in use/i)
  })

  test('an address that is not ours: one line, exit 1', LIMIT, async (t) => {
    oneLine(
      await run(t, ['server', '--host', '192.0.2.1', '--port', '0', '--token', 'T']),
      /192\.0\.2\.1/,
    )
  })

  test('a host name that does not exist: one line, exit 1', LIMIT, async (t) => {
    oneLine(
      await run(t, ['server', '--host', 'no-such-host.invalid', '--port', '0', '--token', 'T']),
      /no-such-host\.invalid/,
    )
  })

  test('a file where the data directory should be: one line, exit 1', LIMIT, async (t) => {
    const file = join(tempDir(t), 'not-a-directory')
    writeFileSync(file, '')
    oneLine(
      await run(t, ['server', '--port', '0'], { env: { XDG_DATA_HOME: file } }),
      /not-a-directory/,
    )
  })

  test(
    'a store that is no store: one line, exit 1, and the file is left alone',
    LIMIT,
    async (t) => {
      const s = await start(t)
      await call(s.url, '/test/events?topic=t', { json: { n: 1 } })
      await s.stop()
      const stores = execFileSync(
        'find',
        [s.dataDir, '-name', '*.db', '-o', '-name', '*.sqlite*', '-type', 'f'],
        { encoding: 'utf8' },
      )
        .trim()
        .split('\n')
        .filter((name) => /\.(db|sqlite3?)$/.test(name))
      assert.equal(stores.length, 1, `store files: ${stores}`)
      writeFileSync(stores[0], 'this is not a database, whatever its name says '.repeat(100))
      rmSync(`${stores[0]}-wal`, { force: true })
      rmSync(`${stores[0]}-shm`, { force: true })
      oneLine(await run(t, ['server', '--port', '0'], { env: { XDG_DATA_HOME: s.dataDir } }), /./)
    },
  )

  test('two servers on one data directory do not damage the log', LIMIT, async (t) => {
    const dataDir = tempDir(t)
    const first = await start(t, { dataDir })
    const second = await start(t, { dataDir }).catch((error) => error)
    if (second instanceof Error) assert.match(second.message, /ended before it listened/)
    for (let i = 1; i <= 20; i++) {
      const a = await call(first.url, '/test/events?topic=both', { json: { i } })
      assert.equal(a.status, 200, a.text)
      assert.equal(a.json.seq, i)
    }
  })
})

// The set-up works as root or with sudo, and so do the tests.
function asRoot(...argv) {
  const full = process.getuid() === 0 ? argv : ['sudo', '-n', ...argv]
  execFileSync(full[0], full.slice(1))
}

describe('a full disk', () => {
  test(
    'appends fail, ready says so, and all is well once there is room again',
    LIMIT,
    async (t) => {
      const dir = tempDir()
      asRoot('mount', '-t', 'tmpfs', '-o', `size=6m,uid=${process.getuid()}`, 'tmpfs', dir)
      t.after(() => {
        asRoot('umount', '-l', dir)
        rmSync(dir, { recursive: true, force: true })
      })
      const s = await start(t, { dataDir: dir })
      const append = (n, text = '') => call(s.url, '/test/events?topic=full', { json: { n, text } })
      const acked = []
      for (let n = 0; n < 10; n++) acked.push((await append(n)).json.seq)
      assert.equal((await call(s.url, '/v1/ready')).status, 200)

      const ballast = join(dir, 'ballast')
      const fd = openSync(ballast, 'a')
      for (const block of [64 * 1024, 4096, 1])
        assert.throws(
          () => {
            for (;;) writeSync(fd, Buffer.alloc(block))
          },
          { code: 'ENOSPC' },
        )
      closeSync(fd)
      let refusal
      // The store may have some room inside its files: append until it is used up.
      for (let n = 10; n < 2000 && !refusal; n++) {
        const a = await append(n, 'x'.repeat(8000))
        if (a.status === 200) acked.push(a.json.seq)
        else refusal = a
      }
      assert.ok(refusal, 'an append was refused')
      assert.ok(refusal.status >= 500 && refusal.status <= 507, `${refusal.status} ${refusal.text}`)
      assert.equal(refusal.headers['content-type'], 'application/problem+json')
      await until(async () => (await call(s.url, '/v1/ready')).status === 503, 'ready turns 503')
      assert.equal((await call(s.url, '/v1/health')).status, 200, 'alive all the same')

      rmSync(ballast)
      await until(
        async () => (await call(s.url, '/v1/ready')).status === 200,
        'ready again',
        30_000,
      )
      const again = await append('again')
      assert.equal(again.status, 200, again.text)
      const sse = await subscribe(s.url, '/test/events?topic=full')
      await sse.atLeast(again.json.seq)
      const ids = sse.events.map((event) => Number(event.id))
      assert.deepEqual(
        ids,
        Array.from({ length: ids.length }, (_, i) => i + 1),
        'no holes, no doubles',
      )
      for (const seq of acked) assert.ok(ids.includes(seq), `acknowledged ${seq} is there`)
      sse.close()
    },
  )
})

describe('hostile clients', () => {
  test('1000 half-open connections leave room and memory for others', LIMIT, async (t) => {
    const s = await start(t, { bin: RELEASE })
    await call(s.url, '/v1/health')
    const before = { fds: openFds(s.pid), rss: rssBytes(s.pid) }
    const half = []
    for (let i = 0; i < 1000; i += 100)
      half.push(
        ...(await Promise.all(
          Array.from({ length: 100 }, async (_, k) => {
            const c = await Raw.open(s.port)
            if (k % 2) await c.send('POST /v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Le')
            return c
          }),
        )),
      )
    const at = performance.now()
    for (let i = 0; i < 50; i++) await ask(s.port, get('/v1/health', 'Connection: close'))
    const each = (performance.now() - at) / 50
    assert.ok(each < 100, `${each.toFixed(1)} ms each`)
    const grown = rssBytes(s.pid) - before.rss
    assert.ok(grown < 16 * MiB, `1000 half-open connections cost ${grown} bytes`)
    for (const c of half) c.close()
    await until(() => openFds(s.pid) <= before.fds, 'descriptors back to the start')
  })

  test('the connection limit refuses the next one and heals', LIMIT, async (t) => {
    const s = await start(t, { env: { SANDBOX_AGENT_MAX_CONNECTIONS: '40' } })
    const held = []
    for (let i = 0; i < 40; i++) {
      const c = await Raw.open(s.port)
      await c.send(get('/v1/health'))
      assert.equal((await c.answer()).status, 200, `connection ${i}`)
      held.push(c)
    }
    const over = await Raw.open(s.port)
    over.send(get('/v1/health'))
    assert.match((await over.rest()).toString('latin1'), /^$|^HTTP\/1\.1 503 /)
    held.pop().close()
    await until(
      () =>
        ask(s.port, get('/v1/health')).then(
          (a) => a.status === 200,
          () => false,
        ),
      'served again',
    )
    // Those that were there are still served.
    await held[0].send(get('/v1/health'))
    assert.equal((await held[0].answer()).status, 200)
    for (const c of held) c.close()
    over.close()
  })

  test('a JSON body of 100 MB: 413, memory flat', LIMIT, async (t) => {
    const s = await start(t, { env: FLAT_MEMORY })
    const size = 100 * MiB
    const block = Buffer.alloc(MiB, ' ')
    await ask(s.port, post('/test/echo', '{"text":"a"}', 'Content-Length: 12'))
    const before = rssBytes(s.pid)
    await on(s.port, async (c) => {
      c.send(post('/test/echo', '', `Content-Length: ${size}`))
      for (let sent = 0; sent < size && !c.isEnded; sent += block.length)
        if (!(await c.send(block))) break
      const a = await c.answer()
      assert.equal(a.status, 413)
      assert.equal(a.headers['content-type'], 'application/problem+json')
    })
    await on(s.port, async (c) => {
      c.send(post('/test/echo', '', 'Transfer-Encoding: chunked'))
      const framed = Buffer.concat([
        Buffer.from(`${block.length.toString(16)}\r\n`),
        block,
        Buffer.from('\r\n'),
      ])
      for (let sent = 0; sent < size && !c.isEnded; sent += block.length)
        if (!(await c.send(framed))) break
      assert.equal((await c.answer()).status, 413)
    })
    const grown = rssBytes(s.pid) - before
    assert.ok(grown < 8 * MiB, `grew by ${grown} bytes`)
    assert.equal((await call(s.url, '/v1/health')).status, 200)
  })

  test('many header bombs at once on the release binary: memory flat', LIMIT, async (t) => {
    const s = await start(t, { bin: RELEASE })
    const bomb = get(
      '/v1/health',
      ...Array.from({ length: 5000 }, (_, i) => `X-${i}: ${'v'.repeat(100)}`),
    )
    const drop = () =>
      on(s.port, async (c) => {
        c.send(bomb)
        assert.equal((await c.answer()).status, 431)
      })
    await Promise.all(Array.from({ length: 20 }, drop))
    const before = rssBytes(s.pid)
    for (let i = 0; i < 10; i++) await Promise.all(Array.from({ length: 20 }, drop))
    const grown = rssBytes(s.pid) - before
    assert.ok(grown < 4 * MiB, `grew by ${grown} bytes`)
  })

  test(
    'pipelined requests without reading the answers do not grow the server',
    LIMIT,
    async (t) => {
      // The release binary: a sanitizer's allocator has a size of its own.
      const s = await start(t, { bin: RELEASE })
      await call(s.url, '/v1/health')
      const before = rssBytes(s.pid)
      const batch = Buffer.concat(Array.from({ length: 1000 }, () => get('/v1/health')))
      const greedy = await Promise.all(
        Array.from({ length: 10 }, async () => {
          const c = await Raw.open(s.port)
          c.pause()
          for (let i = 0; i < 50; i++) c.send(batch)
          return c
        }),
      )
      for (let i = 0; i < 300; i++) await ask(s.port, get('/v1/health', 'Connection: close'))
      const grown = rssBytes(s.pid) - before
      for (const c of greedy) c.close()
      t.diagnostic(`grew by ${grown} bytes`)
      assert.ok(grown < 8 * MiB, `grew by ${grown} bytes`)
    },
  )

  test('running out of descriptors is survived', LIMIT, async (t) => {
    const s = await start(t, { via: ['/bin/sh', '-c', 'ulimit -n 64; exec "$0" "$@"'] })
    await call(s.url, '/v1/health')
    const many = (
      await Promise.all(Array.from({ length: 150 }, () => Raw.open(s.port).catch(() => null)))
    ).filter(Boolean)
    for (const c of many) c.send(get('/v1/health'))
    for (const c of many) c.close()
    await until(
      () =>
        ask(s.port, get('/v1/health')).then(
          (a) => a.status === 200,
          () => false,
        ),
      'served again',
    )
  })

  test('deep and wide JSON is refused or read, never fatal', LIMIT, async (t) => {
    const s = await start(t)
    for (const [status, body] of [
      [400, '['.repeat(1_000_000)],
      [400, '{"a":'.repeat(300_000)],
      [200, `{"text":"a","x":[${'1,'.repeat(500_000)}1]}`],
      [200, `{"text":"a",${Array.from({ length: 100_000 }, (_, i) => `"k${i}":1`).join(',')}}`],
      [422, `"${'\\u0000'.repeat(100_000)}"`],
    ]) {
      const a = await call(s.url, '/test/echo', {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      })
      assert.equal(a.status, status, `${body.slice(0, 20)}… ${a.text.slice(0, 200)}`)
    }
    assert.equal((await call(s.url, '/v1/health')).status, 200)
  })

  test('a message with a body nobody asked for does not fill memory', LIMIT, async (t) => {
    const s = await start(t, { env: FLAT_MEMORY })
    await call(s.url, '/v1/health')
    const before = rssBytes(s.pid)
    await on(s.port, async (c) => {
      c.send(message(['GET /v1/health HTTP/1.1', 'Host: localhost', `Content-Length: ${50 * MiB}`]))
      const block = Buffer.alloc(MiB)
      for (let i = 0; i < 50 && !c.isEnded; i++) if (!(await c.send(block))) break
    })
    assert.ok(rssBytes(s.pid) - before < 8 * MiB)
    assert.equal((await call(s.url, '/v1/health')).status, 200)
  })
})
