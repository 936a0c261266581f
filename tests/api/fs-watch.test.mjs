// GET /v1/fs/watch: what happens below a directory, as events.
import assert from 'node:assert/strict'
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { FLAT_MEMORY, start, tempDir } from './lib/server.mjs'
import { call } from './lib/http.mjs'
import { MiB, openFds, rssBytes, until } from './lib/proc.mjs'
import { endOf, subscribe } from './lib/sse.mjs'

const LIMIT = { timeout: 60_000 }

let server
before(async () => (server = await start(undefined, { env: FLAT_MEMORY })))
after(() => server.stop())

const target = (path, more = {}) => `/v1/fs/watch?${new URLSearchParams({ path, ...more })}`

// A watch that is ready; its changes come as "created a/b" below the directory.
async function watch(t, dir, more, on = server) {
  const sse = await subscribe(on.url, target(dir, more))
  t.after(() => sse.close())
  assert.equal(sse.status, 200)
  await sse.atLeast(1)
  assert.equal(sse.events[0].event, 'ready')
  const below = (path) => (path === dir ? '.' : path.slice(dir.length + 1))
  sse.words = () =>
    sse.events
      .filter((e) => e.event === 'change')
      .map((e) => JSON.parse(e.data))
      .map(
        (c) =>
          `${c.type} ${c.from ? `${below(c.from)} ` : ''}${below(c.path)}${c.isDirectory ? '/' : ''}`,
      )
  sse.told = (word) =>
    until(() => sse.words().includes(word), word).catch((error) => {
      throw new Error(`${error.message}; seen last: ${sse.words().slice(-20).join(', ')}`)
    })
  return sse
}

describe('changes', () => {
  test('created, modified, moved and deleted, with running ids', LIMIT, async (t) => {
    const dir = tempDir(t)
    const sse = await watch(t, dir)
    writeFileSync(join(dir, 'a'), '1')
    await sse.told('created a')
    appendFileSync(join(dir, 'a'), '2')
    await sse.told('modified a')
    renameSync(join(dir, 'a'), join(dir, 'b'))
    await sse.told('moved a b')
    unlinkSync(join(dir, 'b'))
    await sse.told('deleted b')
    assert.deepEqual(
      sse.events.map((e) => Number(e.id)),
      sse.events.map((_, i) => i + 1),
    )
  })

  test('a burst on one path is few events', LIMIT, async (t) => {
    const dir = tempDir(t)
    const sse = await watch(t, dir)
    for (let i = 0; i < 500; i++) writeFileSync(join(dir, 'a'), String(i))
    writeFileSync(join(dir, 'end'), '')
    await sse.told('created end')
    const about = sse.words().filter((w) => w.endsWith(' a')).length
    assert.ok(about >= 1 && about < 100, `${about} events`)
  })

  test('a directory that comes with content is told completely', LIMIT, async (t) => {
    const dir = tempDir(t)
    const sse = await watch(t, dir)
    for (let i = 0; i < 50; i++) {
      mkdirSync(join(dir, `d${i}/e`), { recursive: true })
      writeFileSync(join(dir, `d${i}/e/f`), '')
    }
    for (let i = 0; i < 50; i++) await sse.told(`created d${i}/e/f`)
    await sse.told('created d49/e/')
  })

  test('an upload over an old file is a modification', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'a'), '1')
    const sse = await watch(t, dir)
    const put = (name) =>
      call(server.url, `/v1/fs/file?path=${encodeURIComponent(join(dir, name))}`, {
        method: 'PUT',
        body: 'two',
      })
    assert.equal((await put('a')).status, 200)
    await sse.told('modified a')
    assert.equal((await put('b')).status, 200)
    await sse.told('created b')
    assert.deepEqual(
      sse.words().filter((w) => !/^(created|modified) [ab]$/.test(w)),
      [],
    )
  })

  test('recursive=false and ignored=true', LIMIT, async (t) => {
    const dir = tempDir(t)
    mkdirSync(join(dir, 'sub'))
    writeFileSync(join(dir, '.gitignore'), '*.o\n')
    const flat = await watch(t, dir, { recursive: false })
    const all = await watch(t, dir, { ignored: true })
    writeFileSync(join(dir, 'sub/x'), '')
    writeFileSync(join(dir, 'x.o'), '')
    writeFileSync(join(dir, 'end'), '')
    await all.told('created x.o')
    await all.told('created sub/x')
    await flat.told('created end')
    assert.deepEqual(flat.words(), ['created end'])
  })

  test('a file can be watched alone', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'a'), '')
    const sse = await watch(t, join(dir, 'a'))
    writeFileSync(join(dir, 'b'), '')
    appendFileSync(join(dir, 'a'), 'x')
    await sse.told('modified .')
    unlinkSync(join(dir, 'a'))
    await endOf(sse)
    assert.equal(sse.isClean, true)
    assert.equal(sse.words().at(-1), 'deleted .')
  })
})

describe('the end of a watch', () => {
  test('the path is deleted: told, then a clean end', LIMIT, async (t) => {
    const dir = join(tempDir(t), 'watched')
    mkdirSync(dir)
    const sse = await watch(t, dir)
    rmSync(dir, { recursive: true })
    await endOf(sse)
    assert.equal(sse.isClean, true)
    assert.equal(sse.words().at(-1), 'deleted ./')
  })

  test('a client that leaves takes its watch with it', LIMIT, async (t) => {
    const dir = tempDir(t)
    const before = openFds(server.pid)
    const many = await Promise.all(Array.from({ length: 20 }, () => watch(t, dir)))
    assert.ok(openFds(server.pid) > before)
    for (const sse of many) sse.close()
    await until(() => openFds(server.pid) <= before, 'descriptors to be closed')
  })

  test('the server stops: a clean end', LIMIT, async (t) => {
    const dir = tempDir(t)
    const other = await start(undefined)
    const sse = await watch(t, dir, {}, other)
    await other.stop()
    await endOf(sse)
    assert.equal(sse.isClean, true)
  })

  test('refusals are problems', LIMIT, async (t) => {
    const dir = tempDir(t)
    const status = async (path, headers) => (await call(server.url, path, { headers })).status
    assert.equal(await status(target(join(dir, 'none'))), 404)
    assert.equal(await status(target('/dev/null')), 400)
    assert.equal(await status(target(dir, { recursive: 'x' })), 400)
    assert.equal(await status(target(dir), { accept: 'application/json' }), 406)
    const head = await call(server.url, target(dir), { method: 'HEAD' })
    assert.equal(head.status, 200)
    assert.match(head.headers['content-type'], /^text\/event-stream/)
  })

  test('--fs-root holds', LIMIT, async (t) => {
    const dir = tempDir(t)
    mkdirSync(join(dir, 'in'))
    const other = await start(t, { args: ['--fs-root', join(dir, 'in')] })
    assert.equal((await call(other.url, target(dir))).status, 403)
    const sse = await watch(t, join(dir, 'in'), {}, other)
    writeFileSync(join(dir, 'in/a'), '')
    await sse.told('created a')
    sse.close()
  })
})

test(
  'a reader that does not read costs no memory and hears that it missed something',
  { timeout: 120_000 },
  async (t) => {
    const dir = tempDir(t)
    const sse = await watch(t, dir)
    const queue = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'))
    sse.res.pause()
    const before = rssBytes(server.pid)
    // Long names that stay: the sockets hold some megabytes of them, then the kernel's queue runs over.
    for (let i = 0; i < 50_000 + queue; i++) writeFileSync(join(dir, `${i}`.padStart(220, 'n')), '')
    const grown = rssBytes(server.pid) - before
    assert.ok(grown < 24 * MiB, `grew by ${grown} bytes`)
    sse.res.resume()
    await until(() => sse.events.some((e) => e.event === 'overflow'), 'the overflow event', 60_000)
    assert.deepEqual(JSON.parse(sse.events.find((e) => e.event === 'overflow').data), { lost: 0 })
    writeFileSync(join(dir, 'after'), '')
    // A second overflow may be on its way; then the server finds the file by looking, before its event.
    const told = ['created after', 'modified after']
    await until(() => sse.words().some((word) => told.includes(word)), 'a word about the file')
  },
)
