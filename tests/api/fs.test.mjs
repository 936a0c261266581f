// Files: each endpoint of the reference, its errors, and what the peer does wrong.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { RELEASE, start, tempDir } from './lib/server.mjs'
import { at, files, folder, names, refused, tmpfs } from './lib/fs.mjs'
import { call } from './lib/http.mjs'

const LIMIT = { timeout: 60_000 }
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?\+00:00$/

let server, fs
before(async () => {
  server = await start(undefined)
  fs = files(server)
})
after(() => server.stop())

describe('GET /v1/fs/entries', () => {
  test('lists files, directories and hidden names with size and time', LIMIT, async (t) => {
    const dir = folder(t, 'sub')
    writeFileSync(join(dir, '.hidden'), 'abc')
    utimesSync(join(dir, '.hidden'), 1e9, 1e9)
    const a = await fs.list(dir)
    assert.equal(a.status, 200)
    assert.match(a.headers['content-type'], /^application\/json/)
    const [hidden, sub] = a.json.sort((x, y) => (x.name < y.name ? -1 : 1))
    assert.equal(hidden.name, '.hidden')
    assert.equal(hidden.path, join(dir, '.hidden'))
    assert.equal(hidden.entryType, 'file')
    assert.equal(hidden.size, 3)
    assert.equal(Date.parse(hidden.modified), 1e12)
    assert.match(hidden.modified, RFC3339)
    assert.deepEqual([sub.name, sub.entryType], ['sub', 'directory'])
  })
  test('links are entries of type file with their own size', LIMIT, async (t) => {
    const dir = folder(t, 'real')
    symlinkSync('real', join(dir, 'to-dir'))
    symlinkSync('nowhere', join(dir, 'dangling'))
    const list = Object.fromEntries((await fs.list(dir)).json.map((e) => [e.name, e]))
    assert.equal(list['to-dir'].entryType, 'file')
    assert.equal(list['to-dir'].size, 4)
    assert.equal(list.dangling.entryType, 'file')
    assert.equal(list.real.entryType, 'directory')
  })
  test('without a path: the home directory', LIMIT, async () => {
    writeFileSync(join(server.dataDir, 'at-home'), '')
    for (const a of [await fs.list(), await fs.list('')])
      assert.ok(
        a.json.some((e) => e.path === join(server.dataDir, 'at-home')),
        a.text,
      )
  })
  test('an empty directory is an empty list', LIMIT, async (t) => {
    assert.deepEqual((await fs.list(tempDir(t))).json, [])
  })
  test('through a link to a directory', LIMIT, async (t) => {
    const dir = folder(t, 'real/inner')
    symlinkSync('real', join(dir, 'link'))
    const [entry] = (await fs.list(join(dir, 'link'))).json
    assert.equal(entry.path, join(dir, 'link', 'inner'))
  })
  test('a file is 400, a missing path 404', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), '')
    refused(await fs.list(join(dir, 'f')), 400, 'invalid_request', /path is not a directory: .*\/f/)
    refused(await fs.list(join(dir, 'none')), 404, 'not_found')
    refused(await fs.list(join(dir, 'f', 'below')), 404, 'not_found')
  })
  test('20,000 entries, each once', LIMIT, async (t) => {
    const dir = tempDir(t)
    for (let i = 0; i < 20_000; i++) writeFileSync(join(dir, `e${i}`), '')
    const a = await fs.list(dir)
    assert.equal(new Set(a.json.map((e) => e.name)).size, 20_000)
    assert.equal(a.json.length, 20_000)
  })
})

describe('GET /v1/fs/file', () => {
  test('the bytes as they are, with type and length', LIMIT, async (t) => {
    const path = join(tempDir(t), 'bytes')
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, i) => i & 255))
    writeFileSync(path, bytes)
    const a = await fs.read(path)
    assert.equal(a.status, 200)
    assert.equal(a.headers['content-type'], 'application/octet-stream')
    assert.equal(a.headers['content-length'], '70000')
    assert.ok(a.bytes.equals(bytes))
  })
  test('an empty file', LIMIT, async (t) => {
    const path = join(tempDir(t), 'empty')
    writeFileSync(path, '')
    const a = await fs.read(path)
    assert.deepEqual([a.status, a.headers['content-length'], a.text], [200, '0', ''])
  })
  test('HEAD: the same head, no body', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    writeFileSync(path, 'hello')
    const [get, head] = [await fs.read(path), await fs.head(path)]
    assert.equal(head.status, 200)
    assert.equal(head.text, '')
    for (const name of ['content-length', 'content-type', 'etag', 'last-modified', 'accept-ranges'])
      assert.equal(head.headers[name], get.headers[name], name)
    assert.equal((await fs.head(join(path, '..', 'none'))).status, 404)
  })
  test('missing 404, directory 400', LIMIT, async (t) => {
    const dir = tempDir(t)
    const a = refused(await fs.read(join(dir, 'none')), 404, 'not_found')
    assert.match(a.json.detail, /none/)
    refused(await fs.read(dir), 400, 'invalid_request', /path is not a file: /)
    refused(await fs.read(join(dir, 'none/below')), 404, 'not_found')
  })
  test('no path is 400', LIMIT, async () => {
    assert.equal((await fs.ask('/v1/fs/file')).status, 400)
    assert.equal((await fs.ask('/v1/fs/stat')).status, 400)
    assert.equal((await fs.ask('/v1/fs/mkdir', { method: 'POST' })).status, 400)
    assert.equal((await fs.ask('/v1/fs/entry', { method: 'DELETE' })).status, 400)
    assert.equal((await fs.ask('/v1/fs/file', { method: 'PUT', body: 'x' })).status, 400)
  })
})

describe('PUT /v1/fs/file', () => {
  test('writes, makes parents, truncates, says how much', LIMIT, async (t) => {
    const path = join(tempDir(t), 'a/b/c.txt')
    const a = await fs.write(path, 'hello world')
    assert.equal(a.status, 200, a.text)
    assert.deepEqual([a.json.path, a.json.bytesWritten], [path, 11])
    assert.equal(readFileSync(path, 'utf8'), 'hello world')
    assert.equal((await fs.write(path, 'x')).json.bytesWritten, 1)
    assert.equal(readFileSync(path, 'utf8'), 'x')
    assert.equal((await fs.write(path, '')).json.bytesWritten, 0)
    assert.equal(readFileSync(path, 'utf8'), '')
    assert.deepEqual(names(join(path, '..')), ['c.txt'])
  })
  test('chunked, without a length', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    const body = (req) => {
      for (let i = 0; i < 300; i++) req.write(`${i}\n`.repeat(1000))
      req.end()
    }
    const want = Array.from({ length: 300 }, (_, i) => `${i}\n`.repeat(1000)).join('')
    const a = await fs.write(path, body, { 'transfer-encoding': 'chunked' })
    assert.equal(a.json.bytesWritten, want.length)
    assert.equal(readFileSync(path, 'utf8'), want)
  })
  test('any content type, and none', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    const types = ['text/plain', 'application/json', 'multipart/form-data; boundary=x', 'x/y']
    for (const type of types) {
      assert.equal((await fs.write(path, `{ ${type}`, { 'content-type': type })).status, 200)
      assert.equal(readFileSync(path, 'utf8'), `{ ${type}`)
    }
  })
  test('keeps the mode of an existing file', LIMIT, async (t) => {
    const path = join(tempDir(t), 'tool')
    writeFileSync(path, 'old')
    chmodSync(path, 0o751)
    await fs.write(path, 'new')
    assert.equal(statSync(path).mode & 0o7777, 0o751)
  })
  test('a new file is readable by its owner at least, and not executable', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    await fs.write(path, 'new')
    assert.equal(statSync(path).mode & 0o711, 0o600)
  })
  test('follows links: the target is replaced, the link stays', LIMIT, async (t) => {
    const dir = folder(t, 'elsewhere')
    writeFileSync(join(dir, 'elsewhere/real'), 'old')
    symlinkSync('elsewhere/real', join(dir, 'link'))
    assert.equal((await fs.write(join(dir, 'link'), 'new')).status, 200)
    assert.equal(readlinkSync(join(dir, 'link')), 'elsewhere/real')
    assert.equal(readFileSync(join(dir, 'elsewhere/real'), 'utf8'), 'new')
    assert.deepEqual(names(join(dir, 'elsewhere')), ['real'])
  })
  test('through a dangling link: its target is made', LIMIT, async (t) => {
    const dir = tempDir(t)
    symlinkSync('later', join(dir, 'link'))
    assert.equal((await fs.write(join(dir, 'link'), 'new')).status, 200)
    assert.ok(lstatSync(join(dir, 'link')).isSymbolicLink())
    assert.equal(readFileSync(join(dir, 'later'), 'utf8'), 'new')
  })
  test('a directory is 400, a file on the way no success', LIMIT, async (t) => {
    const dir = folder(t, 'sub')
    refused(await fs.write(join(dir, 'sub'), 'x'), 400, 'invalid_request')
    writeFileSync(join(dir, 'f'), 'kept')
    const a = await fs.write(join(dir, 'f/below'), 'x')
    assert.ok([400, 404, 409].includes(a.status), a.text)
    assert.equal(readFileSync(join(dir, 'f'), 'utf8'), 'kept')
    assert.deepEqual(names(dir), ['f', 'sub'])
  })
  test('fsync=true works; another word is 400', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    assert.equal((await fs.write(path, 'safe', {}, { fsync: 'true' })).status, 200)
    assert.equal(readFileSync(path, 'utf8'), 'safe')
    assert.equal((await fs.write(path, 'not', {}, { fsync: 'yes' })).status, 400)
    assert.equal(readFileSync(path, 'utf8'), 'safe')
  })
  test('more than the peer takes: 3 MiB', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    const body = Buffer.alloc(3 * 1024 * 1024, 'abc')
    assert.equal((await fs.write(path, body)).json.bytesWritten, body.length)
    assert.ok(readFileSync(path).equals(body))
  })
})

describe('DELETE /v1/fs/entry', () => {
  test('a file, an empty directory', LIMIT, async (t) => {
    const dir = folder(t, 'empty')
    writeFileSync(join(dir, 'f'), '')
    const a = await fs.remove(join(dir, 'f'))
    assert.deepEqual([a.status, a.json.path], [200, join(dir, 'f')])
    assert.equal((await fs.remove(join(dir, 'empty'))).status, 200)
    assert.deepEqual(names(dir), [])
  })
  test('a full directory only with recursive', LIMIT, async (t) => {
    const dir = folder(t, 'full/deep/er')
    writeFileSync(join(dir, 'full/deep/f'), '')
    refused(await fs.remove(join(dir, 'full')), 409, 'conflict')
    refused(await fs.remove(join(dir, 'full'), 'false'), 409, 'conflict')
    assert.equal((await fs.remove(join(dir, 'full'), 'true')).status, 200)
    assert.equal(existsSync(join(dir, 'full')), false)
  })
  test('links go, their targets stay', LIMIT, async (t) => {
    const dir = folder(t, 'real', 'tree')
    writeFileSync(join(dir, 'real/f'), 'kept')
    symlinkSync('nowhere', join(dir, 'dangling'))
    symlinkSync('real', join(dir, 'to-dir'))
    symlinkSync('real', join(dir, 'to-dir-2'))
    symlinkSync('../real', join(dir, 'tree/inside'))
    assert.equal((await fs.remove(join(dir, 'dangling'))).status, 200)
    assert.equal((await fs.remove(join(dir, 'to-dir'))).status, 200)
    assert.equal((await fs.remove(join(dir, 'to-dir-2'), 'true')).status, 200)
    assert.equal((await fs.remove(join(dir, 'tree'), 'true')).status, 200)
    assert.deepEqual(names(dir), ['real'])
    assert.equal(readFileSync(join(dir, 'real/f'), 'utf8'), 'kept')
  })
  test('missing is 404, a bad boolean 400', LIMIT, async (t) => {
    const dir = tempDir(t)
    refused(await fs.remove(join(dir, 'none')), 404, 'not_found')
    refused(await fs.remove(join(dir, 'none'), 'true'), 404, 'not_found')
    assert.equal((await fs.remove(dir, '1')).status, 400)
    assert.ok(existsSync(dir))
  })
  test('the home directory and what is above it are never removed as trees', LIMIT, async (t) => {
    const dir = folder(t, 'above/home')
    const s = await start(t, { dataDir: join(dir, 'above/home') })
    const other = files(s)
    for (const path of ['', '~', join(dir, 'above/home'), join(dir, 'above')]) {
      refused(await other.remove(path, 'true'), 400, 'invalid_request')
    }
    assert.ok(existsSync(s.dataDir))
  })
  test('a tree 300 levels deep', LIMIT, async (t) => {
    const dir = tempDir(t)
    mkdirSync(join(dir, 'd/'.repeat(300)), { recursive: true })
    assert.equal((await fs.remove(join(dir, 'd'), 'true')).status, 200)
    assert.deepEqual(names(dir), [])
  })
})

describe('POST /v1/fs/mkdir', () => {
  test('with parents, and again', LIMIT, async (t) => {
    const path = join(tempDir(t), 'a/b/c')
    for (let i = 0; i < 2; i++) {
      const a = await fs.mkdir(path)
      assert.deepEqual([a.status, a.json.path], [200, path])
    }
    assert.ok(statSync(path).isDirectory())
  })
  test('an existing file is a conflict', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), 'kept')
    refused(await fs.mkdir(join(dir, 'f')), 409, 'conflict')
    const below = await fs.mkdir(join(dir, 'f/below'))
    assert.ok([400, 404, 409].includes(below.status), below.text)
    assert.equal(readFileSync(join(dir, 'f'), 'utf8'), 'kept')
  })
  test('an existing link to a directory is fine', LIMIT, async (t) => {
    const dir = folder(t, 'real')
    symlinkSync('real', join(dir, 'link'))
    assert.equal((await fs.mkdir(join(dir, 'link'))).status, 200)
    assert.equal((await fs.mkdir(join(dir, 'link/in'))).status, 200)
    assert.ok(existsSync(join(dir, 'real/in')))
  })
})

describe('POST /v1/fs/move', () => {
  test('a file and a directory, parents made', LIMIT, async (t) => {
    const dir = folder(t, 'd/e')
    writeFileSync(join(dir, 'f'), 'x')
    const a = await fs.move(join(dir, 'f'), join(dir, 'new/deep/g'))
    assert.equal(a.status, 200)
    assert.deepEqual([a.json.from, a.json.to], [join(dir, 'f'), join(dir, 'new/deep/g')])
    assert.equal(readFileSync(join(dir, 'new/deep/g'), 'utf8'), 'x')
    assert.equal((await fs.move(join(dir, 'd'), join(dir, 'moved'))).status, 200)
    assert.deepEqual(names(dir), ['moved', 'new'])
    assert.ok(existsSync(join(dir, 'moved/e')))
  })
  test('an existing target only with overwrite', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'a'), 'A')
    writeFileSync(join(dir, 'b'), 'B')
    for (const overwrite of [undefined, false]) {
      const a = await fs.move(join(dir, 'a'), join(dir, 'b'), overwrite)
      refused(a, 400, 'invalid_request', /destination already exists: /)
    }
    assert.equal(readFileSync(join(dir, 'b'), 'utf8'), 'B')
    assert.equal((await fs.move(join(dir, 'a'), join(dir, 'b'), true)).status, 200)
    assert.equal(readFileSync(join(dir, 'b'), 'utf8'), 'A')
    assert.deepEqual(names(dir), ['b'])
  })
  test('overwrite replaces a full directory, and a file by a directory', LIMIT, async (t) => {
    const dir = folder(t, 'from/x', 'to/y', 'again/z')
    writeFileSync(join(dir, 'file'), '')
    assert.equal((await fs.move(join(dir, 'from'), join(dir, 'to'), true)).status, 200)
    assert.deepEqual(names(join(dir, 'to')), ['x'])
    assert.equal((await fs.move(join(dir, 'again'), join(dir, 'file'), true)).status, 200)
    assert.deepEqual(names(join(dir, 'file')), ['z'])
    assert.deepEqual(names(dir), ['file', 'to'])
  })
  test('onto itself: nothing happens (the peer deletes the file)', LIMIT, async (t) => {
    const dir = folder(t, 'd')
    writeFileSync(join(dir, 'f'), 'kept')
    symlinkSync('d', join(dir, 'via'))
    writeFileSync(join(dir, 'd/g'), 'kept too')
    assert.equal((await fs.move(join(dir, 'f'), join(dir, 'f'), true)).status, 200)
    assert.equal((await fs.move(join(dir, 'f'), `${dir}/d/../f`, true)).status, 200)
    assert.equal((await fs.move(join(dir, 'd/g'), join(dir, 'via/g'), true)).status, 200)
    assert.equal((await fs.move(join(dir, 'd'), join(dir, 'd'), true)).status, 200)
    assert.equal(readFileSync(join(dir, 'f'), 'utf8'), 'kept')
    assert.equal(readFileSync(join(dir, 'd/g'), 'utf8'), 'kept too')
    await fs.move(join(dir, 'f'), join(dir, 'f'))
    assert.equal(readFileSync(join(dir, 'f'), 'utf8'), 'kept')
  })
  test('a target that cannot be is named as what is missing', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'a'), 'a')
    writeFileSync(join(dir, 'b'), 'b')
    const a = await fs.move(join(dir, 'a'), join(dir, 'b/c'))
    refused(a, 404, 'not_found')
    assert.deepEqual(a.json.details, { id: join(dir, 'b/c'), resource: 'path' })
    assert.equal(readFileSync(join(dir, 'a'), 'utf8'), 'a')
  })
  test('a missing source leaves the target alone', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'b'), 'B')
    refused(await fs.move(join(dir, 'none'), join(dir, 'b'), true), 404, 'not_found')
    assert.equal(readFileSync(join(dir, 'b'), 'utf8'), 'B')
    assert.deepEqual(names(dir), ['b'])
  })
  test('into itself is refused', LIMIT, async (t) => {
    const dir = folder(t, 'd/e')
    for (const overwrite of [false, true])
      refused(await fs.move(join(dir, 'd'), join(dir, 'd/e/f'), overwrite), 400, 'invalid_request')
    assert.ok(existsSync(join(dir, 'd/e')))
  })
  test('onto one of its own parents is refused and loses nothing', LIMIT, async (t) => {
    const dir = folder(t, 'd/e')
    writeFileSync(join(dir, 'd/e/f'), 'kept')
    const a = await fs.move(join(dir, 'd/e'), join(dir, 'd'), true)
    assert.ok(a.status >= 400, a.text)
    assert.equal(readFileSync(join(dir, 'd/e/f'), 'utf8'), 'kept')
  })
  test('a link is moved as a link', LIMIT, async (t) => {
    const dir = folder(t, 'sub')
    symlinkSync('nowhere', join(dir, 'link'))
    assert.equal((await fs.move(join(dir, 'link'), join(dir, 'sub/link'))).status, 200)
    assert.equal(readlinkSync(join(dir, 'sub/link')), 'nowhere')
    assert.deepEqual(names(dir), ['sub'])
  })
  test('to another file system and back (the peer answers 502)', LIMIT, async (t) => {
    const dir = folder(t, 'tree/deep')
    const other = tmpfs(t, '4m')
    writeFileSync(join(dir, 'tree/deep/f'), Buffer.alloc(200_000, 'z'))
    chmodSync(join(dir, 'tree/deep/f'), 0o640)
    utimesSync(join(dir, 'tree/deep/f'), 1e9, 1e9)
    symlinkSync('deep/f', join(dir, 'tree/link'))
    const listing = (cwd) =>
      execFileSync('find', ['.', '-printf', '%P %y %m %l\n'], { cwd, encoding: 'utf8' })
        .split('\n')
        .sort()
    const was = listing(join(dir, 'tree'))
    const a = await fs.move(join(dir, 'tree'), join(other, 'new/tree'))
    assert.equal(a.status, 200, a.text)
    assert.deepEqual(names(dir), [])
    assert.deepEqual(listing(join(other, 'new/tree')), was)
    assert.equal(statSync(join(other, 'new/tree/deep/f')).mtimeMs, 1e12)
    writeFileSync(join(dir, 'tree'), 'in the way')
    refused(await fs.move(join(other, 'new/tree'), join(dir, 'tree')), 400, 'invalid_request')
    assert.equal((await fs.move(join(other, 'new/tree'), join(dir, 'tree'), true)).status, 200)
    assert.deepEqual(listing(join(dir, 'tree')), was)
    assert.deepEqual(names(dir), ['tree'])
    assert.deepEqual(names(join(other, 'new')), [])
  })
  test('to a full file system: the source stays, no debris', LIMIT, async (t) => {
    const dir = folder(t, 'tree')
    const other = tmpfs(t, '256k')
    writeFileSync(join(dir, 'tree/a'), 'small')
    writeFileSync(join(dir, 'tree/big'), Buffer.alloc(1024 * 1024))
    const a = await fs.move(join(dir, 'tree'), join(other, 'tree'))
    assert.ok(a.status >= 500, a.text)
    assert.deepEqual(names(join(dir, 'tree')), ['a', 'big'])
    assert.deepEqual(names(other), [])
  })
  test('bad bodies', LIMIT, async () => {
    const post = (json) => call(server.url, '/v1/fs/move', { json })
    assert.equal((await post({ from: '/x' })).status, 422)
    assert.equal((await post({ from: 1, to: '/x' })).status, 422)
    assert.equal((await post({ from: '/x', to: '/y', overwrite: 'yes' })).status, 422)
  })
})

describe('GET /v1/fs/stat', () => {
  test('file and directory; links are followed', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), '12345')
    utimesSync(join(dir, 'f'), 1e9 + 0.25, 1e9 + 0.25)
    symlinkSync('f', join(dir, 'link'))
    const a = await fs.stat(join(dir, 'f'))
    assert.equal(a.status, 200)
    const { path, entryType, size, modified } = a.json
    assert.deepEqual([path, entryType, size], [join(dir, 'f'), 'file', 5])
    assert.match(modified, RFC3339)
    assert.equal(Date.parse(modified), 1e12 + 250)
    const link = await fs.stat(join(dir, 'link'))
    assert.deepEqual([link.json.path, link.json.size], [join(dir, 'link'), 5])
    assert.equal((await fs.stat(dir)).json.entryType, 'directory')
  })
  test('missing and dangling are 404', LIMIT, async (t) => {
    const dir = tempDir(t)
    symlinkSync('nowhere', join(dir, 'link'))
    refused(await fs.stat(join(dir, 'none')), 404, 'not_found')
    refused(await fs.stat(join(dir, 'link')), 404, 'not_found')
  })
})

describe('errors of the system', () => {
  test('no permission is 403', LIMIT, async (t) => {
    // Root may do anything, so the server runs as somebody else.
    const dir = folder(undefined, 'closed', 'home')
    t.after(() => {
      chmodSync(join(dir, 'closed'), 0o700)
      rmSync(dir, { recursive: true })
    })
    writeFileSync(join(dir, 'secret'), 'x')
    chmodSync(join(dir, 'secret'), 0o600)
    chmodSync(join(dir, 'closed'), 0o700)
    chmodSync(dir, 0o755)
    chmodSync(join(dir, 'home'), 0o777)
    const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
    const via = process.getuid() === 0 ? nobody : undefined
    if (!via) chmodSync(join(dir, 'secret'), 0)
    if (!via) chmodSync(join(dir, 'closed'), 0)
    const s = await start(t, { bin: RELEASE, dataDir: join(dir, 'home'), via })
    const other = files(s)
    refused(await other.read(join(dir, 'secret')), 403, 'permission_denied')
    refused(await other.list(join(dir, 'closed')), 403, 'permission_denied')
    refused(await other.stat(join(dir, 'closed/x')), 403, 'permission_denied')
    refused(await other.write(join(dir, 'closed/x'), 'x'), 403, 'permission_denied')
    refused(await other.mkdir(join(dir, 'closed/x')), 403, 'permission_denied')
  })
  test('a loop of links is said, not walked', LIMIT, async (t) => {
    const dir = tempDir(t)
    symlinkSync('b', join(dir, 'a'))
    symlinkSync('a', join(dir, 'b'))
    for (const look of [fs.read, fs.stat, fs.list]) {
      const a = await look(join(dir, 'a'))
      assert.ok([400, 500].includes(a.status), `${a.status} ${a.text}`)
    }
    assert.equal((await fs.remove(join(dir, 'a'))).status, 200)
  })
})

describe('methods and tokens', () => {
  test('the wrong method is 405 with the right ones', LIMIT, async () => {
    const a = await call(server.url, at('file', '/x'), { method: 'POST', body: 'x' })
    assert.equal(a.status, 405)
    assert.match(a.headers.allow, /GET/)
    assert.match(a.headers.allow, /PUT/)
  })
  test('every row wants the token', LIMIT, async (t) => {
    const s = await start(t, { args: ['--token', 'T'] })
    const open = files(s)
    const dir = tempDir(t)
    for (const a of [
      await open.list(dir),
      await open.read('/etc/passwd'),
      await open.write(join(dir, 'f'), 'x'),
      await open.remove(dir, 'true'),
      await open.mkdir(join(dir, 'd')),
      await open.move(dir, `${dir}-2`),
      await open.stat('/'),
      await open.unpack(dir, ''),
      await open.archive('/etc'),
      await open.edit({ path: '/etc/passwd', oldText: 'root', newText: 'toor' }),
    ])
      refused(a, 401, 'token_invalid')
    assert.deepEqual(names(dir), [])
  })
})
