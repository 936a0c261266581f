// Big files, parts of files, conditions, and writes that do not come to their end.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { execFileSync, spawn } from 'node:child_process'
import {
  appendFileSync,
  closeSync,
  createReadStream,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import { RELEASE, start, tempDir } from './lib/server.mjs'
import { at, files, names, refused, tmpfs, upload, usedKb } from './lib/fs.mjs'
import { open } from './lib/http.mjs'
import { Raw, message } from './lib/raw.mjs'
import { MiB, openFds, peakBytes, rssBytes, until, within } from './lib/proc.mjs'

const LIMIT = { timeout: 60_000 }
const LONG = { timeout: 120_000 }
const BIG = 256 * MiB
const BLOCK = 4 * MiB

let server, fs
before(async () => {
  server = await start(undefined)
  fs = files(server)
})
after(() => server.stop())

// A big file and its hash; the same block again and again with its number in front.
function makeBig(path) {
  const hash = createHash('sha256')
  const block = randomBytes(BLOCK)
  const fd = openSync(path, 'w')
  for (let i = 0; i < BIG / BLOCK; i++) {
    block.writeUInt32BE(i)
    hash.update(block)
    writeSync(fd, block)
  }
  closeSync(fd)
  return hash.digest('hex')
}
async function hashOf(stream) {
  const hash = createHash('sha256')
  for await (const part of stream) hash.update(part)
  return hash.digest('hex')
}
// The highest resident size while fn runs, above what it was before.
async function growth(pid, fn) {
  const before = rssBytes(pid)
  writeFileSync(`/proc/${pid}/clear_refs`, '5') // VmHWM starts again
  await fn()
  return peakBytes(pid) - before
}

describe('256 MiB and the memory of the release server', () => {
  let dir, big, sum, s
  before(async () => {
    dir = tempDir()
    big = join(dir, 'big')
    sum = makeBig(big)
    s = await start(undefined, { bin: RELEASE })
    await files(s).read('/etc/passwd')
    await files(s).write(join(dir, 'warm'), 'x')
  })
  after(async () => {
    await s.stop()
    execFileSync('rm', ['-rf', dir])
  })

  test('down: the same bytes, at most 8 MiB more', LONG, async () => {
    const grew = await growth(s.pid, async () => {
      const res = await open(s.url, at('file', big))
      assert.equal(res.headers['content-length'], String(BIG))
      assert.equal(await within(hashOf(res), 'the download', 100_000), sum)
    })
    assert.ok(grew <= 8 * MiB, `grew by ${(grew / MiB).toFixed(1)} MiB`)
  })
  for (const [how, headers] of [
    ['with a length', { 'content-length': BIG }],
    ['chunked', { 'transfer-encoding': 'chunked' }],
  ])
    test(`up, ${how}: the same bytes, at most 8 MiB more`, LONG, async () => {
      const path = join(dir, 'copy')
      const grew = await growth(s.pid, async () => {
        const { req, answer } = upload(s, path, headers)
        createReadStream(big, { highWaterMark: MiB }).pipe(req)
        const a = await answer(100_000)
        assert.equal(a.status, 200, a.text)
        assert.equal(JSON.parse(a.text).bytesWritten, BIG)
      })
      assert.equal(await hashOf(createReadStream(path)), sum)
      assert.ok(grew <= 8 * MiB, `grew by ${(grew / MiB).toFixed(1)} MiB`)
    })
  test('a reader that stops does not fill the memory', LONG, async () => {
    const grew = await growth(s.pid, async () => {
      const slow = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const c = await Raw.open(s.port)
          c.pause()
          c.send(message([`GET ${at('file', big)} HTTP/1.1`, 'Host: localhost']))
          return c
        }),
      )
      const a = await files(s).read('/etc/passwd')
      assert.equal(a.status, 200)
      for (const c of slow) c.close()
    })
    assert.ok(grew <= 8 * MiB, `grew by ${(grew / MiB).toFixed(1)} MiB`)
  })
  test('clients that leave in the middle leave no descriptor', LONG, async () => {
    const before = openFds(s.pid)
    for (let i = 0; i < 30; i++) {
      const res = await open(s.url, at('file', big))
      await once(res, 'data')
      res.destroy()
    }
    await until(() => openFds(s.pid) <= before, 'the descriptors are closed')
  })
})

describe('Range', () => {
  const text = 'abcdefghijklmnopqrstuvwxyz'
  let path
  before(() => {
    path = join(tempDir(), 'alphabet')
    writeFileSync(path, text)
  })
  for (const [range, body, where] of [
    ['bytes=0-0', 'a', '0-0'],
    ['bytes=0-4', 'abcde', '0-4'],
    ['bytes=5-', text.slice(5), '5-25'],
    ['bytes=-3', 'xyz', '23-25'],
    ['bytes=-100', text, '0-25'],
    ['bytes=20-100', 'uvwxyz', '20-25'],
    ['bytes=25-25', 'z', '25-25'],
  ])
    test(`${range} is ${where}`, LIMIT, async () => {
      const a = await fs.read(path, { range })
      assert.equal(a.status, 206, a.text)
      assert.equal(a.text, body)
      assert.equal(a.headers['content-range'], `bytes ${where}/26`)
      assert.equal(a.headers['content-length'], String(body.length))
      const head = await fs.head(path, { range })
      assert.ok([200, 206].includes(head.status) && head.text === '')
    })
  for (const range of ['bytes=26-', 'bytes=100-200', 'bytes=-0'])
    test(`${range} is 416 with the size`, LIMIT, async () => {
      const a = await fs.read(path, { range })
      assert.equal(a.status, 416, a.text)
      assert.equal(a.headers['content-range'], 'bytes */26')
    })
  for (const range of ['bytes=5-2', 'bytes=x', 'lines=1-2', 'bytes', 'bytes=1-2,4-5'])
    test(`${range} is ignored or answered in full`, LIMIT, async () => {
      const a = await fs.read(path, { range })
      assert.equal(a.status, 200, a.text)
      assert.equal(a.text, text)
    })
  test('If-Range: the part while the file is the same, else all of it', LIMIT, async () => {
    const { etag } = (await fs.head(path)).headers
    assert.equal((await fs.read(path, { range: 'bytes=0-1', 'if-range': etag })).status, 206)
    const other = await fs.read(path, { range: 'bytes=0-1', 'if-range': '"other"' })
    assert.deepEqual([other.status, other.text], [200, text])
  })
  test(
    'says that it can, and parts of a big sparse file come from the right place',
    LIMIT,
    async (t) => {
      assert.equal((await fs.head(path)).headers['accept-ranges'], 'bytes')
      const sparse = join(tempDir(t), 'sparse')
      const fd = openSync(sparse, 'w')
      const size = 5 * 1024 ** 3
      ftruncateSync(fd, size)
      writeSync(fd, 'needle', size - 6)
      closeSync(fd)
      const a = await fs.read(sparse, { range: `bytes=${size - 8}-` })
      assert.equal(a.text, '\0\0needle')
      assert.equal(a.headers['content-range'], `bytes ${size - 8}-${size - 1}/${size}`)
      assert.equal((await fs.head(sparse)).headers['content-length'], String(size))
    },
  )
})

describe('ETag and conditions', () => {
  test('the tag is strong, stays with the file and changes with it', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    const wrote = await fs.write(path, 'one')
    const a = await fs.read(path)
    assert.match(a.headers.etag, /^"[^"]+"$/)
    assert.equal(wrote.headers.etag, a.headers.etag, 'PUT tells the new tag')
    assert.equal((await fs.read(path)).headers.etag, a.headers.etag)
    assert.ok(Math.abs(Date.parse(a.headers['last-modified']) - statSync(path).mtimeMs) <= 1000)
    await fs.write(path, 'two')
    assert.notEqual((await fs.read(path)).headers.etag, a.headers.etag, 'same size, other content')
    const before = (await fs.read(path)).headers.etag
    utimesSync(path, 1e9, 1e9)
    assert.notEqual((await fs.read(path)).headers.etag, before)
  })
  test('If-None-Match and If-Modified-Since: 304 without a body', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    writeFileSync(path, 'text')
    utimesSync(path, 1e9, 1e9)
    const { etag } = (await fs.read(path)).headers
    const status = async (headers) => {
      const a = await fs.read(path, headers)
      if (a.status === 304) assert.deepEqual([a.text, a.headers.etag], ['', etag])
      return a.status
    }
    assert.equal(await status({ 'if-none-match': etag }), 304)
    assert.equal(await status({ 'if-none-match': `W/${etag}` }), 304)
    assert.equal(await status({ 'if-none-match': `"x", ${etag}` }), 304)
    assert.equal(await status({ 'if-none-match': '*' }), 304)
    assert.equal(await status({ 'if-none-match': '"x"' }), 200)
    const day = (s) => new Date(s * 1000).toUTCString()
    assert.equal(await status({ 'if-modified-since': day(1e9) }), 304)
    assert.equal(await status({ 'if-modified-since': day(1e9 - 1) }), 200)
    assert.equal(await status({ 'if-modified-since': 'nonsense' }), 200)
    assert.equal(await status({ 'if-none-match': '"x"', 'if-modified-since': day(1e9) }), 200)
    assert.equal(await status({ 'if-match': etag }), 200)
    assert.equal(await status({ 'if-match': '"x"' }), 412)
    assert.equal(await status({ 'if-unmodified-since': day(1e9 - 1) }), 412)
    assert.equal(await status({ 'if-unmodified-since': day(1e9) }), 200)
  })
  test('PUT with If-Match writes only over what it names', LIMIT, async (t) => {
    const dir = tempDir(t)
    const path = join(dir, 'f')
    assert.equal((await fs.write(path, 'x', { 'if-match': '*' })).status, 412, 'nothing is there')
    assert.equal((await fs.write(path, 'x', { 'if-match': '"a"' })).status, 412)
    assert.deepEqual(names(dir), [])
    const { etag } = (await fs.write(path, 'one')).headers
    assert.equal((await fs.write(path, 'not', { 'if-match': '"other"' })).status, 412)
    assert.equal(readFileSync(path, 'utf8'), 'one')
    const two = await fs.write(path, 'two', { 'if-match': etag })
    assert.equal(two.status, 200, two.text)
    assert.equal((await fs.write(path, 'three', { 'if-match': etag })).status, 412)
    assert.equal(readFileSync(path, 'utf8'), 'two')
    assert.deepEqual(names(dir), ['f'])
  })
  test('PUT with If-None-Match: * only makes new files', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    assert.equal((await fs.write(path, 'one', { 'if-none-match': '*' })).status, 200)
    const a = await fs.write(path, 'two', { 'if-none-match': '*' })
    assert.equal(a.status, 412, a.text)
    assert.equal(readFileSync(path, 'utf8'), 'one')
  })
  test('of 16 who make the same new file at once one wins', LIMIT, async (t) => {
    const dir = tempDir(t)
    const path = join(dir, 'lock')
    const all = await Promise.all(
      Array.from({ length: 16 }, (_, i) => fs.write(path, `by ${i}`, { 'if-none-match': '*' })),
    )
    const won = all.flatMap((a, i) => (a.status === 200 ? [i] : []))
    assert.equal(won.length, 1, JSON.stringify(all.map((a) => a.status)))
    assert.ok(all.every((a) => [200, 412].includes(a.status)))
    assert.equal(readFileSync(path, 'utf8'), `by ${won[0]}`)
    assert.deepEqual(names(dir), ['lock'])
  })
})

describe('a write is all or nothing', () => {
  const SIZE = 3 * MiB
  const filled = (c) => Buffer.alloc(SIZE, c)
  const isWhole = (bytes) => bytes.length === SIZE && bytes.every((b) => b === bytes[0])

  test('who reads meanwhile sees the old file or the new one', LONG, async (t) => {
    const path = join(tempDir(t), 'f')
    await fs.write(path, filled('0'))
    let isOver = false
    let looks = 0
    const look = async (read) => {
      while (!isOver) {
        const bytes = await read()
        assert.ok(isWhole(bytes), `${bytes.length} bytes, first ${bytes[0]}, last ${bytes.at(-1)}`)
        looks++
      }
    }
    const readers = [
      look(async () => {
        await new Promise(setImmediate)
        return readFileSync(path)
      }),
      look(async () => (await fs.read(path)).bytes),
    ]
    for (let i = 1; i <= 30; i++)
      assert.equal((await fs.write(path, filled(String(i % 10)))).status, 200)
    isOver = true
    await Promise.all(readers)
    assert.ok(looks > 30, `${looks} looks`)
  })
  test('16 writers at once: the result is whole and belongs to one of them', LONG, async (t) => {
    const dir = tempDir(t)
    const path = join(dir, 'f')
    for (let round = 0; round < 5; round++) {
      const all = await Promise.all(
        Array.from({ length: 16 }, (_, i) => fs.write(path, filled(String.fromCharCode(97 + i)))),
      )
      for (const a of all) assert.equal(a.status, 200, a.text)
      const bytes = readFileSync(path)
      assert.ok(isWhole(bytes) && bytes[0] >= 97 && bytes[0] < 113)
      assert.deepEqual(names(dir), ['f'])
    }
  })

  for (const isOld of [true, false])
    for (const [how, leave] of [
      ['resets the connection', (req) => req.socket.resetAndDestroy()],
      ['closes it', (req) => req.destroy()],
    ])
      test(
        `a client that ${how} in the middle, ${isOld ? 'over a file' : 'for a new file'}`,
        LIMIT,
        async (t) => {
          const dir = tempDir(t)
          const path = join(dir, 'f')
          if (isOld) writeFileSync(path, 'old')
          const s = await start(t) // of its own: nobody else's connections are counted
          const fds = openFds(s.pid)
          for (const headers of [
            { 'content-length': 50 * MiB },
            { 'transfer-encoding': 'chunked' },
          ]) {
            const { req } = upload(s, path, headers)
            req.on('error', () => {})
            await new Promise((done) => req.write(Buffer.alloc(5 * MiB, 'x'), done))
            await until(() => openFds(s.pid) > fds + 1, 'the write has begun')
            leave(req)
            await until(() => openFds(s.pid) <= fds, 'the server has noticed')
            assert.deepEqual(names(dir), isOld ? ['f'] : [])
            if (isOld) assert.equal(readFileSync(path, 'utf8'), 'old')
          }
        },
      )
  test('a body that breaks its framing changes nothing', LIMIT, async (t) => {
    const dir = tempDir(t)
    const path = join(dir, 'f')
    writeFileSync(path, 'old')
    const c = await Raw.open(server.port)
    c.send(
      message(
        [`PUT ${at('file', path)} HTTP/1.1`, 'Host: localhost', 'Transfer-Encoding: chunked'],
        '5\r\nhello\r\nzz\r\n',
      ),
    )
    const a = await c.answer()
    assert.equal(a.status, 400)
    c.close()
    assert.equal(readFileSync(path, 'utf8'), 'old')
    assert.deepEqual(names(dir), ['f'])
  })
  test('the server killed in the middle leaves the old file and nothing else', LIMIT, async (t) => {
    const dir = tempDir(t)
    const path = join(dir, 'f')
    writeFileSync(path, 'old')
    const s = await start(undefined)
    const fds = openFds(s.pid)
    const { req } = upload(s, path, { 'content-length': 50 * MiB })
    req.on('error', () => {})
    req.write(Buffer.alloc(5 * MiB, 'x'))
    await until(() => openFds(s.pid) > fds + 1, 'the write has begun')
    await s.kill()
    assert.equal(readFileSync(path, 'utf8'), 'old')
    assert.deepEqual(names(dir), ['f'])
  })
  test('SIGTERM in the middle: the server ends, the old file stays', LIMIT, async (t) => {
    const dir = tempDir(t)
    const path = join(dir, 'f')
    writeFileSync(path, 'old')
    const s = await start(undefined, { args: ['--drain-timeout', '1s'] })
    const { req } = upload(s, path, { 'content-length': 50 * MiB })
    req.on('error', () => {})
    await new Promise((done) => req.write(Buffer.alloc(MiB, 'x'), done))
    await s.stop()
    assert.equal(readFileSync(path, 'utf8'), 'old')
    assert.deepEqual(names(dir), ['f'])
  })
})

describe('a full disk', () => {
  for (const [how, headers] of [
    ['with a length', () => ({ 'content-length': 4 * MiB })],
    ['chunked', () => ({ 'transfer-encoding': 'chunked' })],
  ])
    test(`${how}: a problem, the old file, no debris`, LIMIT, async (t) => {
      const dir = tmpfs(t, '1m')
      const path = join(dir, 'f')
      writeFileSync(path, 'old')
      const used = usedKb(dir)
      for (const target of [path, join(dir, 'sub/new')]) {
        const { req, answer } = upload(server, target, headers())
        req.end(Buffer.alloc(4 * MiB, 'x'))
        const a = await answer()
        assert.ok([500, 507].includes(a.status), `${a.status} ${a.text}`)
        assert.match(a.text, /No space left/)
      }
      assert.equal(readFileSync(path, 'utf8'), 'old')
      assert.ok(
        names(dir).every((name) => ['f', 'sub'].includes(name)),
        names(dir).join(),
      )
      await until(() => usedKb(dir) <= used + 4, 'the room is free again')
      assert.equal((await fs.write(path, 'fits')).status, 200)
    })
  test('mkdir, move and unpack on it answer too', LIMIT, async (t) => {
    const dir = tmpfs(t, '1m')
    writeFileSync(join(dir, 'ballast'), Buffer.alloc(MiB - 64 * 1024))
    const src = join(tempDir(t), 'big')
    writeFileSync(src, Buffer.alloc(2 * MiB))
    const moved = await fs.move(src, join(dir, 'big'))
    assert.ok([500, 507].includes(moved.status), moved.text)
    assert.equal(statSync(src).size, 2 * MiB)
    assert.deepEqual(names(dir), ['ballast'])
  })
})

describe('files that change while they are sent', () => {
  test('one that gets shorter breaks the transfer instead of lying', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    writeFileSync(path, Buffer.alloc(64 * MiB, 'a'))
    const c = await Raw.open(server.port)
    c.pause()
    c.send(message([`GET ${at('file', path)} HTTP/1.1`, 'Host: localhost', 'Connection: close']))
    await until(() => c.socket.bytesRead > 0 || openFds(server.pid) > 0, 'it was asked')
    c.resume()
    const head = await c.head()
    assert.equal(head.headers['content-length'], String(64 * MiB))
    c.pause()
    truncateSync(path, 1000)
    c.resume()
    const rest = await c.rest(30_000)
    assert.ok(rest.length <= 64 * MiB)
    if (rest.length === 64 * MiB)
      assert.ok(
        rest.every((b) => b === 97),
        'all of it was on its way',
      )
    assert.equal((await fs.read(path)).bytes.length, 1000)
  })
  test('one that grows is sent as long as it was', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    writeFileSync(path, Buffer.alloc(8 * MiB, 'a'))
    const res = await open(server.url, at('file', path))
    appendFileSync(path, Buffer.alloc(MiB, 'b'))
    let n = 0
    for await (const part of res) n += part.length
    assert.equal(n, 8 * MiB)
  })
})

describe('refusals come before the body', () => {
  test('Expect: 100-continue with a directory as target', LIMIT, async (t) => {
    const dir = tempDir(t)
    const c = await Raw.open(server.port)
    c.send(
      message([
        `PUT ${at('file', dir)} HTTP/1.1`,
        'Host: localhost',
        `Content-Length: ${BIG}`,
        'Expect: 100-continue',
      ]),
    )
    let a = await c.answer()
    if (a.status === 100) {
      c.send(Buffer.alloc(MiB))
      a = await c.answer()
    }
    assert.equal(a.status, 400)
    c.close()
  })
  test(
    'a refused upload with a length leaves the connection usable or closed, never confused',
    LIMIT,
    async (t) => {
      const dir = tempDir(t)
      const c = await Raw.open(server.port)
      const body = Buffer.alloc(100_000, 'G')
      c.send(
        message(
          [`PUT ${at('file', dir)} HTTP/1.1`, 'Host: localhost', `Content-Length: ${body.length}`],
          body,
        ),
      )
      c.send(message(['GET /v1/health HTTP/1.1', 'Host: localhost']))
      assert.equal((await c.answer()).status, 400)
      const next = await c.answer().catch(() => null)
      if (next) assert.deepEqual([next.status, next.text], [200, '{"status":"ok"}'])
      c.close()
    },
  )
})

test('64 downloads and uploads at once on kept-alive connections', LONG, async (t) => {
  const dir = tempDir(t)
  const agent = new http.Agent({ keepAlive: true, maxSockets: 32 })
  t.after(() => agent.destroy())
  const kept = files(server, { agent })
  await Promise.all(
    Array.from({ length: 64 }, async (_, i) => {
      const bytes = randomBytes(50_000 + i * 1000)
      for (let n = 0; n < 5; n++) {
        assert.equal((await kept.write(join(dir, `f${i}`), bytes)).json.bytesWritten, bytes.length)
        assert.ok((await kept.read(join(dir, `f${i}`))).bytes.equals(bytes))
      }
    }),
  )
  assert.equal(names(dir).length, 64)
})

test('curl, wget-like clients: --range, -T, -C -', LIMIT, async (t) => {
  const dir = tempDir(t)
  const bytes = randomBytes(300_000)
  writeFileSync(join(dir, 'f'), bytes)
  writeFileSync(join(dir, 'part'), bytes.subarray(0, 123_456))
  const curl = (...argv) => execFileSync('curl', ['-sSf', ...argv], { maxBuffer: 8 * MiB })
  curl('-C', '-', '-o', join(dir, 'part'), server.url + at('file', join(dir, 'f')))
  assert.ok(readFileSync(join(dir, 'part')).equals(bytes), 'a download is taken up where it ended')
  curl('-T', join(dir, 'f'), server.url + at('file', join(dir, 'up')))
  assert.ok(readFileSync(join(dir, 'up')).equals(bytes))
  const child = spawn('curl', ['-sSf', '-T', '-', server.url + at('file', join(dir, 'pipe'))])
  child.stdin.end(bytes)
  await within(once(child, 'close'), 'curl')
  assert.ok(readFileSync(join(dir, 'pipe')).equals(bytes))
})

test('a problem for what cannot be read is a problem, not a broken transfer', LIMIT, async () => {
  refused(await fs.read('/proc/self/none'), 404, 'not_found')
})
