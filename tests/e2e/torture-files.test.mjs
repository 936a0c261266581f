// Writers, readers, movers and clients that leave, all on the same few names. A reader must only
// ever see whole files; afterwards the server must be as it was: no descriptor, no memory, no debris.
import assert from 'node:assert/strict'
import http from 'node:http'
import { readdirSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { FLAT_MEMORY, start, tempDir } from '../api/lib/server.mjs'
import { call } from '../api/lib/http.mjs'
import { at, files, tarOf } from '../api/lib/fs.mjs'
import { MiB, openFds, rssBytes, until } from '../api/lib/proc.mjs'
import { generator } from '../api/lib/random.mjs'

const SECONDS = Number(process.env.TORTURE_SECONDS ?? 20)
const SEED = Number(process.env.TORTURE_SEED ?? Date.now() % 2 ** 31)
const CLIENTS = 24
const NAMES = 12
const LARGEST = 600_000

// A content that says itself how it must be: its length in the first line, then one letter.
function content(r) {
  const size = r.chance(0.3) ? r.below(LARGEST) : r.below(5000)
  const head = `${size} `
  return Buffer.concat([Buffer.from(head), Buffer.alloc(size, 97 + r.below(26))])
}
function assertWhole(bytes, what) {
  const space = bytes.indexOf(32)
  const size = Number(bytes.subarray(0, space))
  const body = bytes.subarray(space + 1)
  assert.equal(body.length, size, `${what}: ${size} promised`)
  assert.ok(
    body.every((b) => b === body[0]),
    `${what}: mixed`,
  )
}

const KNOWN = [200, 206, 304, 400, 403, 404, 409, 412, 416]

// A request whose client leaves after a moment, on either side of the answer.
function leave(s, r, path, method, body) {
  return new Promise((done) => {
    const req = http.request(s.url + path, { method, agent: false })
    req.on('error', done)
    req.on('close', done)
    req.on('response', (res) => {
      res.on('error', () => {})
      res.once('data', () => req.destroy())
      res.on('end', done)
    })
    if (body) {
      req.setHeader('content-length', body.length)
      req.write(body.subarray(0, r.below(body.length)))
    } else req.end()
    setTimeout(() => req.destroy(), r.below(30))
  })
}

function deeds(s, r, fs, dir) {
  const name = () => join(dir, `d${r.below(3)}`, `f${r.below(NAMES)}`)
  const folder = () => join(dir, `d${r.below(3)}`)
  const read = async () => {
    const path = name()
    const a = await fs.read(path)
    if (a.status === 200) assertWhole(a.bytes, path)
    return a
  }
  return [
    read,
    read,
    () => fs.write(name(), content(r)),
    () => fs.write(name(), content(r)),
    () => fs.write(name(), content(r), r.pick([{ 'if-none-match': '*' }, { 'if-match': '"x"' }])),
    () => fs.read(name(), { range: `bytes=${r.below(4000)}-${r.below(9000)}` }),
    () => fs.head(name()),
    () => fs.stat(name()),
    () => fs.list(folder()),
    () => fs.move(name(), name(), r.chance(0.7)),
    () => fs.remove(name()),
    () => fs.mkdir(join(dir, 'deep', `${r.below(5)}/${r.below(5)}`)),
    () => fs.remove(join(dir, 'deep', String(r.below(5))), 'true'),
    () => fs.archive(folder(), r.pick(['tar', 'tar.zst'])),
    () => fs.unpack(folder(), tarOf({ name: `f${r.below(NAMES)}`, data: content(r) })),
    () => fs.unpack(folder(), content(r)),
    () => fs.edit({ path: name(), oldText: 'zzzzzz-not-there', newText: '' }),
    () => leave(s, r, at('file', name()), 'PUT', Buffer.alloc(LARGEST, 'x')),
    () => leave(s, r, at('file', name()), 'GET'),
    () => leave(s, r, at('archive', dir), 'GET'),
  ]
}

const tree = (dir) => readdirSync(dir, { recursive: true, withFileTypes: true })

test(`${SECONDS} s of files, seed ${SEED}`, { timeout: SECONDS * 3000 + 90_000 }, async (t) => {
  const s = await start(t, { env: FLAT_MEMORY })
  const dir = tempDir(t)
  for (let i = 0; i < 3; i++) mkdirSync(join(dir, `d${i}`))
  const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS })
  const fs = files(s, { agent })
  const counts = {}
  const fds = openFds(s.pid)
  const work = async (seconds, seed) => {
    const until = Date.now() + seconds * 1000
    const client = async (i) => {
      const r = generator(seed + i)
      const all = deeds(s, r, fs, dir)
      while (Date.now() < until) {
        const a = await r.pick(all)()
        if (!a?.status) continue
        counts[a.status] = (counts[a.status] ?? 0) + 1
        assert.ok(KNOWN.includes(a.status), `${a.status} ${a.text?.slice(0, 500)}`)
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(i)))
  }
  await work(SECONDS / 4, SEED)
  const warm = rssBytes(s.pid)
  await work((SECONDS * 3) / 4, SEED + 1000)
  agent.destroy()
  await until(() => openFds(s.pid) <= fds + 2, 'the descriptors are closed')
  const grew = rssBytes(s.pid) - warm
  assert.ok(grew < 48 * MiB, `grew by ${(grew / MiB).toFixed(1)} MiB`)
  for (const entry of tree(dir).filter((e) => e.isFile())) {
    assert.match(entry.name, /^f\d+$/, 'no debris')
    const path = join(entry.parentPath, entry.name)
    assertWhole(readFileSync(path), path)
  }
  assert.equal((await call(s.url, '/v1/health')).status, 200)
  t.diagnostic(`answers: ${JSON.stringify(counts)}`)
  assert.ok(counts[200] > 500, JSON.stringify(counts))
})
