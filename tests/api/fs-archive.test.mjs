// Folders as tar archives, both ways, and archives made to break out.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import { RELEASE, start, tempDir } from './lib/server.mjs'
import { at, files, folder, gnuLongName, names, paxEntry } from './lib/fs.mjs'
import { refused, tarEntry, tarOf, tmpfs } from './lib/fs.mjs'
import { open } from './lib/http.mjs'
import { MiB, openFds, peakBytes, rssBytes, until, within } from './lib/proc.mjs'

const LIMIT = { timeout: 60_000 }
const LONG = { timeout: 120_000 }

let server, fs
before(async () => {
  server = await start(undefined)
  fs = files(server)
})
after(() => server.stop())

// What a folder holds, link targets, modes and times included.
function listing(dir) {
  const argv = ['.', '-mindepth', '1', '-printf', '%P|%y|%m|%l|%s|%Ts\\n']
  return execFileSync('find', argv, { cwd: dir, encoding: 'utf8' })
    .split('\n')
    .map((line) => (line.includes('|d|') ? line.replace(/\|\d+\|(\d+)$/, '||$1') : line))
    .sort()
}
const tarTo = (dir, bytes, ...argv) =>
  execFileSync('tar', ['-x', '-f', '-', '-C', dir, ...argv], { input: bytes })

function makeTree(dir) {
  mkdirSync(join(dir, 'sub/empty'), { recursive: true })
  writeFileSync(join(dir, 'a.txt'), 'hello')
  writeFileSync(join(dir, 'sub/bytes'), randomBytes(100_000))
  writeFileSync(join(dir, 'sub/tool'), '#!/bin/sh\n')
  chmodSync(join(dir, 'sub/tool'), 0o755)
  writeFileSync(join(dir, 'sub/ümläut 日本 🚀'), 'unicode')
  writeFileSync(join(dir, 'x'.repeat(220)), 'long')
  mkdirSync(join(dir, 'd'.repeat(120), 'e'.repeat(120)), { recursive: true })
  writeFileSync(join(dir, 'd'.repeat(120), 'e'.repeat(120), 'f'.repeat(120)), 'longer')
  symlinkSync('../a.txt', join(dir, 'sub/link'))
  symlinkSync('nowhere', join(dir, 'dangling'))
  writeFileSync(join(dir, 'new\nline'), '')
  for (const name of ['a.txt', 'sub/bytes', 'sub/empty', 'sub'])
    utimesSync(join(dir, name), 1e9, 1e9)
}

describe('GET /v1/fs/archive', () => {
  for (const [format, type, flag] of [
    [undefined, 'application/x-tar', '--force-local'],
    ['tar', 'application/x-tar', '--force-local'],
    ['tar.zst', 'application/zstd', '--zstd'],
  ])
    test(`format ${format}: GNU tar unpacks the same tree`, LIMIT, async (t) => {
      const dir = folder(t, 'from', 'to')
      makeTree(join(dir, 'from'))
      const a = await fs.archive(join(dir, 'from'), format)
      assert.equal(a.status, 200, a.text.slice(0, 300))
      assert.equal(a.headers['content-type'], type)
      assert.match(a.headers['content-disposition'], /^attachment; filename="from\.tar(\.zst)?"/)
      tarTo(join(dir, 'to'), a.bytes, flag)
      assert.deepEqual(listing(join(dir, 'to')), listing(join(dir, 'from')))
      assert.ok(
        readFileSync(join(dir, 'to/sub/bytes')).equals(readFileSync(join(dir, 'from/sub/bytes'))),
      )
    })
  test('down and up again: the same tree', LIMIT, async (t) => {
    const dir = folder(t, 'from')
    makeTree(join(dir, 'from'))
    const a = await fs.archive(join(dir, 'from'))
    const b = await fs.unpack(join(dir, 'to'), a.bytes)
    assert.equal(b.status, 200, b.text)
    assert.deepEqual(listing(join(dir, 'to')), listing(join(dir, 'from')))
  })
  test('one file, an empty folder', LIMIT, async (t) => {
    const dir = folder(t, 'empty', 'to')
    writeFileSync(join(dir, 'one'), 'alone')
    tarTo(join(dir, 'to'), (await fs.archive(join(dir, 'one'))).bytes)
    assert.equal(readFileSync(join(dir, 'to/one'), 'utf8'), 'alone')
    const empty = await fs.archive(join(dir, 'empty'))
    assert.equal(empty.status, 200)
    assert.equal(execFileSync('tar', ['-tf', '-'], { input: empty.bytes, encoding: 'utf8' }), '')
  })
  test('FIFOs and sockets do not hang it', LIMIT, async (t) => {
    const dir = tempDir(t)
    execFileSync('mkfifo', [join(dir, 'pipe')])
    writeFileSync(join(dir, 'f'), 'x')
    const a = await fs.archive(dir)
    assert.equal(a.status, 200)
    const list = execFileSync('tar', ['-tf', '-'], { input: a.bytes, encoding: 'utf8' })
    assert.ok(list.split('\n').includes('f'), list)
  })
  test('missing is 404, a wrong format 400', LIMIT, async (t) => {
    const dir = tempDir(t)
    refused(await fs.archive(join(dir, 'none')), 404, 'not_found')
    assert.equal((await fs.archive(dir, 'zip')).status, 400)
  })
  test('HEAD says the type and sends nothing', LIMIT, async (t) => {
    const a = await fs.ask(at('archive', tempDir(t)), { method: 'HEAD' })
    assert.deepEqual([a.status, a.text], [200, ''])
  })
  test('a name that would break a header stays inside it', LIMIT, async (t) => {
    const dir = folder(t, 'a"b\r\nx: y')
    const a = await fs.archive(join(dir, 'a"b\r\nx: y'))
    assert.equal(a.status, 200)
    assert.equal(a.headers.x, undefined)
  })
  test('a client that leaves ends it', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'big'), Buffer.alloc(64 * MiB))
    const fds = openFds(server.pid)
    for (const format of ['tar', 'tar.zst'])
      for (let i = 0; i < 5; i++) {
        const res = await open(server.url, at('archive', dir, { format }))
        await once(res, 'data')
        res.destroy()
      }
    await until(() => openFds(server.pid) <= fds, 'the descriptors are closed')
  })
  test('256 MiB: at most 8 MiB more (release), plain; zstd stays bounded', LONG, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'big'), Buffer.alloc(256 * MiB, randomBytes(MiB)))
    const s = await start(t, { bin: RELEASE })
    await files(s).archive(join(s.dataDir, 'sandbox-agent'))
    for (const [format, limit] of [
      ['tar', 8],
      ['tar.zst', 32],
    ]) {
      const before = rssBytes(s.pid)
      writeFileSync(`/proc/${s.pid}/clear_refs`, '5')
      const res = await open(s.url, at('archive', dir, { format }))
      let n = 0
      for await (const part of res) n += part.length
      if (format === 'tar') assert.ok(n > 256 * MiB)
      const grew = (peakBytes(s.pid) - before) / MiB
      assert.ok(grew <= limit, `${format}: grew by ${grew.toFixed(1)} MiB`)
    }
  })
})

describe('POST /v1/fs/upload-batch', () => {
  test('files, folders and links, with mode and time; paths in order', LIMIT, async (t) => {
    const dir = join(tempDir(t), 'made/dest')
    const tar = tarOf(
      { name: 'd/', type: '5', mode: 0o750 },
      { name: 'd/f', data: 'hello', mode: 0o640, mtime: 1_000_000_001 },
      { name: 'top', data: '' },
      { name: 'link', type: '2', link: 'd/f' },
      { name: 'hard', type: '1', link: 'd/f' },
    )
    const a = await fs.unpack(dir, tar)
    assert.equal(a.status, 200, a.text)
    const want = ['d', 'd/f', 'top', 'link', 'hard'].map((name) => join(dir, name))
    assert.deepEqual(
      a.json.paths.map((p) => p.replace(/\/$/, '')),
      want,
    )
    assert.equal(a.json.truncated, false)
    assert.equal(readFileSync(join(dir, 'd/f'), 'utf8'), 'hello')
    assert.equal(statSync(join(dir, 'd/f')).mode & 0o777, 0o640)
    assert.equal(statSync(join(dir, 'd')).mode & 0o777, 0o750)
    assert.equal(statSync(join(dir, 'd/f')).mtimeMs, 1_000_000_001_000)
    assert.equal(readlinkSync(join(dir, 'link')), 'd/f')
    assert.equal(statSync(join(dir, 'hard')).ino, statSync(join(dir, 'd/f')).ino)
  })
  for (const format of ['ustar', 'gnu', 'pax'])
    test(`what GNU tar writes as ${format}`, LIMIT, async (t) => {
      const dir = folder(t, 'from')
      makeTree(join(dir, 'from'))
      if (format === 'ustar')
        execFileSync('rm', [
          '-rf',
          ...names(join(dir, 'from'))
            .filter((n) => n.length > 90)
            .map((n) => join(dir, 'from', n)),
        ])
      const tar = execFileSync(
        'tar',
        [`--format=${format}`, '-C', join(dir, 'from'), '-cf', '-', '.'],
        { maxBuffer: 16 * MiB },
      )
      const a = await fs.unpack(join(dir, 'to'), tar)
      assert.equal(a.status, 200, a.text)
      assert.deepEqual(listing(join(dir, 'to')), listing(join(dir, 'from')))
    })
  test('existing files are replaced, others stay', LIMIT, async (t) => {
    const dir = folder(t, 'd')
    writeFileSync(join(dir, 'd/old'), 'kept')
    writeFileSync(join(dir, 'd/f'), 'before')
    assert.equal((await fs.unpack(dir, tarOf({ name: 'd/f', data: 'after' }))).status, 200)
    assert.equal(readFileSync(join(dir, 'd/f'), 'utf8'), 'after')
    assert.equal(readFileSync(join(dir, 'd/old'), 'utf8'), 'kept')
    assert.deepEqual(names(join(dir, 'd')), ['f', 'old'])
  })
  test('an empty body and an empty archive are fine', LIMIT, async (t) => {
    const dir = tempDir(t)
    for (const body of ['', Buffer.alloc(1024), Buffer.alloc(10_240)]) {
      const a = await fs.unpack(dir, body)
      assert.deepEqual([a.status, a.json], [200, { paths: [], truncated: false }], a.text)
    }
  })
  test('1024 paths are told, one more is truncated, all are there', LIMIT, async (t) => {
    const dir = tempDir(t)
    const many = (n) =>
      tarOf(...Array.from({ length: n }, (_, i) => ({ name: `f${i}`, data: `${i}` })))
    const exact = (await fs.unpack(join(dir, 'a'), many(1024))).json
    assert.deepEqual([exact.paths.length, exact.truncated], [1024, false])
    const more = (await fs.unpack(join(dir, 'b'), many(1025))).json
    assert.deepEqual([more.paths.length, more.truncated], [1024, true])
    assert.equal(names(join(dir, 'b')).length, 1025)
  })
  test('the content type must be application/x-tar', LIMIT, async (t) => {
    const dir = tempDir(t)
    const tar = tarOf({ name: 'f', data: 'x' })
    for (const headers of [
      {},
      { 'content-type': 'application/gzip' },
      { 'content-type': 'text/x-tar' },
    ])
      refused(
        await fs.unpack(dir, tar, headers),
        400,
        'invalid_request',
        /content-type must be application\/x-tar/,
      )
    assert.deepEqual(names(dir), [])
    const more = { 'content-type': 'application/x-tar; charset=binary' }
    assert.equal((await fs.unpack(dir, tar, more)).status, 200)
  })
  test('garbage and cut archives are 400 with words', LIMIT, async (t) => {
    const dir = tempDir(t)
    const tar = tarOf({ name: 'f', data: 'x'.repeat(5000) })
    const bent = Buffer.from(tar)
    bent[0] ^= 0xff
    for (const [what, body] of [
      ['text', 'this is not an archive at all'.repeat(50)],
      ['random', randomBytes(20_000)],
      ['a wrong sum', bent],
      ['half a header', tar.subarray(0, 300)],
      ['half a file', tar.subarray(0, 2000)],
      ['gzip', execFileSync('gzip', ['-c'], { input: tar })],
    ]) {
      const a = await fs.unpack(join(dir, what), body)
      assert.equal(a.status, 400, `${what}: ${a.status} ${a.text}`)
      if (existsSync(join(dir, what))) assert.deepEqual(names(join(dir, what)), [], what)
    }
  })
  test('an entry that claims more than there is, or is huge, ends', LIMIT, async (t) => {
    const dir = tmpfs(t, '1m')
    const lie = tarOf(tarEntry({ name: 'f', data: 'x', size: 0o77777777777 }))
    const a = await within(fs.unpack(dir, lie), 'answer', 20_000)
    assert.ok(a.status >= 400, a.text)
    assert.deepEqual(names(dir), [])
    const full = await fs.unpack(dir, tarOf({ name: 'f', data: Buffer.alloc(3 * MiB) }))
    assert.ok([500, 507].includes(full.status), full.text)
    assert.deepEqual(names(dir), [])
  })
  test('a destination that is a file is refused', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), 'kept')
    const a = await fs.unpack(join(dir, 'f'), tarOf({ name: 'x', data: 'x' }))
    assert.ok([400, 404, 409].includes(a.status), a.text)
    assert.equal(readFileSync(join(dir, 'f'), 'utf8'), 'kept')
  })
  test('a folder without rights in the archive still gets its children', LIMIT, async (t) => {
    const dir = tempDir(t)
    const a = await fs.unpack(
      dir,
      tarOf({ name: 'd', type: '5', mode: 0 }, { name: 'd/f', data: 'x' }),
    )
    assert.equal(a.status, 200, a.text)
    assert.equal(statSync(join(dir, 'd')).mode & 0o777, 0)
    chmodSync(join(dir, 'd'), 0o700)
    assert.equal(readFileSync(join(dir, 'd/f'), 'utf8'), 'x')
  })
  test('set-user-id bits are not taken over', LIMIT, async (t) => {
    const dir = tempDir(t)
    assert.equal((await fs.unpack(dir, tarOf({ name: 's', data: 'x', mode: 0o6755 }))).status, 200)
    assert.equal(statSync(join(dir, 's')).mode & 0o7000, 0)
  })
  test('256 MiB in one file and in many, at most 8 MiB more (release)', LONG, async (t) => {
    const dir = tempDir(t)
    const s = await start(t, { bin: RELEASE })
    await files(s).unpack(join(dir, 'warm'), tarOf({ name: 'f', data: 'x' }))
    const before = rssBytes(s.pid)
    writeFileSync(`/proc/${s.pid}/clear_refs`, '5')
    const req = http.request(s.url + at('upload-batch', join(dir, 'd')), {
      method: 'POST',
      headers: { 'content-type': 'application/x-tar' },
      agent: false,
    })
    const answer = once(req, 'response')
    const block = randomBytes(MiB)
    req.write(tarEntry({ name: 'one', size: 128 * MiB }))
    const push = async (data) => req.write(data) || once(req, 'drain')
    for (let i = 0; i < 128; i++) await push(block)
    for (let i = 0; i < 128; i++) await push(tarEntry({ name: `many/${i}`, data: block }))
    req.end(Buffer.alloc(1024))
    const [res] = await within(answer, 'the answer', 100_000)
    res.resume()
    assert.equal(res.statusCode, 200)
    assert.equal(statSync(join(dir, 'd/one')).size, 128 * MiB)
    assert.equal(names(join(dir, 'd/many')).length, 128)
    const grew = (peakBytes(s.pid) - before) / MiB
    assert.ok(grew <= 8, `grew by ${grew.toFixed(1)} MiB`)
  })
  test('a client that leaves in the middle: no half file, no descriptor', LIMIT, async (t) => {
    const dir = tempDir(t)
    const fds = openFds(server.pid)
    const req = http.request(server.url + at('upload-batch', dir), {
      method: 'POST',
      headers: { 'content-type': 'application/x-tar' },
      agent: false,
    })
    req.on('error', () => {})
    req.write(tarEntry({ name: 'whole', data: 'x' }))
    req.write(tarEntry({ name: 'half', size: 50 * MiB }))
    req.write(Buffer.alloc(5 * MiB))
    await until(() => existsSync(join(dir, 'whole')), 'the first file')
    req.destroy()
    await until(() => openFds(server.pid) <= fds, 'the descriptors are closed')
    assert.deepEqual(names(dir), ['whole'])
  })
})

describe('archives that want out', () => {
  // dest/ is where it is unpacked, outside/ what must stay as it is.
  function places(t) {
    const dir = folder(t, 'dest', 'outside')
    writeFileSync(join(dir, 'outside/secret'), 'secret')
    const [dest, outside] = [join(dir, 'dest'), join(dir, 'outside')]
    const untouched = () => {
      assert.deepEqual(names(outside), ['secret'])
      assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'secret')
      assert.equal(statSync(join(outside, 'secret')).nlink, 1)
      assert.deepEqual(names(dir), ['dest', 'outside'])
    }
    return { dir, dest, outside, untouched }
  }
  const cases = [
    ['.. as a name', 400, () => [{ name: '../evil', data: 'x' }]],
    ['.. in the middle', 400, () => [{ name: 'a/../../evil', data: 'x' }]],
    ['.. that stays inside', 400, () => [{ name: 'a/../b', data: 'x' }]],
    ['.. at the end', 400, () => [{ name: 'a/..', type: '5' }]],
    ['an absolute name', 400, ({ outside }) => [{ name: join(outside, 'evil'), data: 'x' }]],
    ['a PAX path with ..', 400, () => [paxEntry({ path: '../evil' }), { name: 'ok', data: 'x' }]],
    [
      'an absolute PAX path',
      400,
      ({ outside }) => [paxEntry({ path: join(outside, 'evil') }), { name: 'ok', data: 'x' }],
    ],
    [
      'a GNU long name with ..',
      400,
      () => [gnuLongName(`${'a/'.repeat(80)}${'../'.repeat(82)}evil`), { name: 'ok', data: 'x' }],
    ],
    [
      'a link, then a file below it',
      403,
      ({ outside }) => [
        { name: 'l', type: '2', link: outside },
        { name: 'l/evil', data: 'x' },
      ],
    ],
    [
      'a relative link, then a file below it',
      403,
      () => [
        { name: 'l', type: '2', link: '../outside' },
        { name: 'l/evil', data: 'x' },
      ],
    ],
    [
      'a link to .., then a folder below it',
      403,
      () => [
        { name: 'l', type: '2', link: '..' },
        { name: 'l/evil', type: '5' },
      ],
    ],
    [
      'two links, then a file',
      403,
      () => [
        { name: 'a', type: '2', link: 'b' },
        { name: 'b', type: '2', link: '../outside' },
        { name: 'a/evil', data: 'x' },
      ],
    ],
    [
      'a folder that becomes a link',
      undefined,
      () => [
        { name: 'd', type: '5' },
        { name: 'd', type: '2', link: '../outside' },
        { name: 'd/evil', data: 'x' },
      ],
    ],
    [
      'a link below a link',
      403,
      () => [
        { name: 'l', type: '2', link: '../outside' },
        { name: 'l/m', type: '2', link: '/' },
      ],
    ],
    [
      'a hard link to outside',
      undefined,
      ({ outside }) => [
        { name: 'h', type: '1', link: join(outside, 'secret') },
        { name: 'h', data: 'evil' },
      ],
    ],
    [
      'a relative hard link to outside',
      undefined,
      () => [{ name: 'h', type: '1', link: '../outside/secret' }],
    ],
    [
      'a hard link through a link',
      undefined,
      () => [
        { name: 'l', type: '2', link: '../outside' },
        { name: 'h', type: '1', link: 'l/secret' },
      ],
    ],
    [
      'a PAX hard link to outside',
      undefined,
      ({ outside }) => [
        paxEntry({ linkpath: join(outside, 'secret') }),
        { name: 'h', type: '1', link: 'x' },
      ],
    ],
    ['a device', 400, () => [{ name: 'zero', type: '3' }]],
    ['a FIFO', 400, () => [{ name: 'pipe', type: '6' }]],
  ]
  for (const [what, status, entries] of cases)
    test(`${what} is refused`, LIMIT, async (t) => {
      const p = places(t)
      const a = await fs.unpack(p.dest, tarOf(...entries(p)))
      if (status) assert.equal(a.status, status, a.text)
      else assert.ok([400, 403, 404, 409].includes(a.status), `${a.status} ${a.text}`)
      if (/\.\. (as a name|in the middle)|an absolute name/.test(what))
        assert.match(a.json.detail, /invalid relative path: /)
      p.untouched()
    })
  test('a file over a link replaces the link, not its target', LIMIT, async (t) => {
    const p = places(t)
    const a = await fs.unpack(
      p.dest,
      tarOf({ name: 'l', type: '2', link: '../outside/secret' }, { name: 'l', data: 'evil' }),
    )
    assert.equal(a.status, 200, a.text)
    assert.ok(lstatSync(join(p.dest, 'l')).isFile())
    p.untouched()
  })
  test('a hard link to a link of the archive does not lead out', LIMIT, async (t) => {
    const p = places(t)
    const entries = [
      { name: 'l', type: '2', link: '../outside/secret' },
      { name: 'h', type: '1', link: 'l' },
      { name: 'h', data: 'evil' },
    ]
    await fs.unpack(p.dest, tarOf(...entries))
    p.untouched()
  })
  test('a link that was there before is not walked through', LIMIT, async (t) => {
    const p = places(t)
    symlinkSync(p.outside, join(p.dest, 'was'))
    refused(
      await fs.unpack(p.dest, tarOf({ name: 'was/evil', data: 'x' })),
      403,
      'permission_denied',
    )
    p.untouched()
  })
  test('mode and time of a folder are not set through a link', LIMIT, async (t) => {
    const p = places(t)
    const before = statSync(p.outside)
    const entries = [
      { name: 'd', type: '5', mode: 0o700, mtime: 5 },
      { name: 'd', type: '2', link: '../outside' },
    ]
    await fs.unpack(p.dest, tarOf(...entries))
    const now = statSync(p.outside)
    assert.deepEqual([now.mode, now.mtimeMs], [before.mode, before.mtimeMs])
  })
  test(
    'what was unpacked before the refusal stays, what comes after does not',
    LIMIT,
    async (t) => {
      const p = places(t)
      const tar = tarOf(
        { name: 'first', data: '1' },
        { name: '../evil', data: 'x' },
        { name: 'last', data: '3' },
      )
      assert.equal((await fs.unpack(p.dest, tar)).status, 400)
      assert.deepEqual(names(p.dest), ['first'])
      p.untouched()
    },
  )
})
