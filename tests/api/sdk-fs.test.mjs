// The file methods of the npm SDK, unmodified: every one, success and failure.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { SandboxAgent, SandboxAgentError } from 'sandbox-agent'
import { RELEASE, start, tempDir } from './lib/server.mjs'

const LIMIT = { timeout: 60_000 }
const TOKEN = 'T'

let server, sdk
before(async () => {
  server = await start(undefined, { bin: RELEASE, args: ['--token', TOKEN] })
  sdk = await SandboxAgent.connect({ baseUrl: server.url, token: TOKEN })
})
after(async () => {
  await sdk.dispose()
  await server.stop()
})

const fails = (promise, status, type) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof SandboxAgentError, String(error))
    assert.equal(error.status, status, error.message)
    assert.equal(error.problem.type, `urn:sandbox-agent:error:${type}`)
    assert.equal(error.problem.status, status)
    assert.ok(error.problem.title && error.problem.detail)
    return true
  })

describe('listFsEntries', () => {
  test('a directory, and the home directory', LIMIT, async (t) => {
    const dir = tempDir(t)
    mkdirSync(join(dir, 'sub'))
    writeFileSync(join(dir, 'f'), 'abc')
    const list = (await sdk.listFsEntries({ path: dir })).sort((a, b) => (a.name < b.name ? -1 : 1))
    assert.deepEqual(
      list.map((e) => [e.name, e.path, e.entryType, e.size]).filter(([name]) => name === 'f'),
      [['f', join(dir, 'f'), 'file', 3]],
    )
    assert.deepEqual(
      list.map((e) => e.entryType),
      ['file', 'directory'],
    )
    assert.ok(!Number.isNaN(Date.parse(list[0].modified)))
    assert.ok(Array.isArray(await sdk.listFsEntries()))
  })
  test('errors', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), '')
    await fails(sdk.listFsEntries({ path: join(dir, 'none') }), 404, 'not_found')
    await fails(sdk.listFsEntries({ path: join(dir, 'f') }), 400, 'invalid_request')
  })
})

describe('readFsFile and writeFsFile', () => {
  test('text, bytes, a blob, a stream, nothing', LIMIT, async (t) => {
    const path = join(tempDir(t), 'made/f')
    const bytes = new Uint8Array(300_000).map((_, i) => i * 7)
    for (const [body, want] of [
      ['text é', Buffer.from('text é')],
      [bytes, bytes],
      [bytes.buffer, bytes],
      [new Blob(['blob']), Buffer.from('blob')],
      ['', Buffer.alloc(0)],
    ]) {
      const a = await sdk.writeFsFile({ path }, body)
      assert.deepEqual([a.path, a.bytesWritten], [path, want.length])
      assert.ok(Buffer.from(await sdk.readFsFile({ path })).equals(Buffer.from(want)))
    }
  })
  test('5 MiB: more than the peer takes', LIMIT, async (t) => {
    const path = join(tempDir(t), 'f')
    const body = new Uint8Array(5 * 1024 * 1024).fill(7)
    assert.equal((await sdk.writeFsFile({ path }, body)).bytesWritten, body.length)
    assert.equal((await sdk.readFsFile({ path })).length, body.length)
  })
  test('names that need escaping', LIMIT, async (t) => {
    for (const name of ['a b', 'ü日本', '100%', '#?&=+', 'new\nline']) {
      const path = join(tempDir(t), name)
      assert.equal((await sdk.writeFsFile({ path }, name)).path, path)
      assert.equal(Buffer.from(await sdk.readFsFile({ path })).toString(), name)
    }
  })
  test('errors', LIMIT, async (t) => {
    const dir = tempDir(t)
    await fails(sdk.readFsFile({ path: join(dir, 'none') }), 404, 'not_found')
    await fails(sdk.readFsFile({ path: dir }), 400, 'invalid_request')
    await fails(sdk.readFsFile({ path: '../x' }), 400, 'invalid_request')
    await fails(sdk.writeFsFile({ path: dir }, 'x'), 400, 'invalid_request')
  })
})

describe('deleteFsEntry', () => {
  test('file, tree, link', LIMIT, async (t) => {
    const dir = tempDir(t)
    mkdirSync(join(dir, 'tree/deep'), { recursive: true })
    writeFileSync(join(dir, 'f'), '')
    symlinkSync('nowhere', join(dir, 'l'))
    assert.deepEqual(await sdk.deleteFsEntry({ path: join(dir, 'f') }), { path: join(dir, 'f') })
    await sdk.deleteFsEntry({ path: join(dir, 'l') })
    await fails(sdk.deleteFsEntry({ path: join(dir, 'tree') }), 409, 'conflict')
    await sdk.deleteFsEntry({ path: join(dir, 'tree'), recursive: true })
    assert.deepEqual(await sdk.listFsEntries({ path: dir }), [])
    await fails(sdk.deleteFsEntry({ path: join(dir, 'f') }), 404, 'not_found')
  })
})

describe('mkdirFs, moveFs, statFs', () => {
  test('make, move, look', LIMIT, async (t) => {
    const dir = tempDir(t)
    assert.deepEqual(await sdk.mkdirFs({ path: join(dir, 'a/b') }), { path: join(dir, 'a/b') })
    await sdk.mkdirFs({ path: join(dir, 'a/b') })
    await sdk.writeFsFile({ path: join(dir, 'a/b/f') }, '12345')
    const moved = await sdk.moveFs({ from: join(dir, 'a/b'), to: join(dir, 'c/d') })
    assert.deepEqual([moved.from, moved.to], [join(dir, 'a/b'), join(dir, 'c/d')])
    const stat = await sdk.statFs({ path: join(dir, 'c/d/f') })
    assert.deepEqual([stat.path, stat.entryType, stat.size], [join(dir, 'c/d/f'), 'file', 5])
    assert.equal((await sdk.statFs({ path: join(dir, 'c') })).entryType, 'directory')
  })
  test('overwrite, and onto itself', LIMIT, async (t) => {
    const dir = tempDir(t)
    const [a, b] = [join(dir, 'a'), join(dir, 'b')]
    writeFileSync(a, 'A')
    writeFileSync(b, 'B')
    await fails(sdk.moveFs({ from: a, to: b }), 400, 'invalid_request')
    await sdk.moveFs({ from: a, to: b, overwrite: true })
    await sdk.moveFs({ from: b, to: b, overwrite: true })
    assert.equal(readFileSync(b, 'utf8'), 'A')
  })
  test('errors', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), '')
    await fails(sdk.statFs({ path: join(dir, 'none') }), 404, 'not_found')
    await fails(sdk.mkdirFs({ path: join(dir, 'f') }), 409, 'conflict')
    await fails(sdk.moveFs({ from: join(dir, 'none'), to: join(dir, 'x') }), 404, 'not_found')
  })
})

describe('uploadFsBatch', () => {
  test('an archive of GNU tar', LIMIT, async (t) => {
    const dir = tempDir(t)
    mkdirSync(join(dir, 'from/sub'), { recursive: true })
    writeFileSync(join(dir, 'from/sub/f'), 'packed')
    const tar = execFileSync('tar', ['-C', join(dir, 'from'), '-cf', '-', 'sub'])
    const a = await sdk.uploadFsBatch(tar, { path: join(dir, 'to') })
    assert.equal(a.truncated, false)
    assert.ok(a.paths.includes(join(dir, 'to/sub/f')), JSON.stringify(a))
    assert.equal(readFileSync(join(dir, 'to/sub/f'), 'utf8'), 'packed')
  })
  test('without a path: the home directory', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'at-home'), 'x')
    const a = await sdk.uploadFsBatch(execFileSync('tar', ['-C', dir, '-cf', '-', 'at-home']))
    assert.deepEqual(a.paths, [join(server.dataDir, 'at-home')])
    assert.ok(existsSync(join(server.dataDir, 'at-home')))
  })
  test('garbage', LIMIT, async (t) => {
    await fails(
      sdk.uploadFsBatch('garbage'.repeat(300), { path: tempDir(t) }),
      400,
      'invalid_request',
    )
  })
})

test('a wrong token', LIMIT, async (t) => {
  const other = await SandboxAgent.connect({
    baseUrl: server.url,
    token: 'wrong',
    skipHealthCheck: true,
  })
  t.after(() => other.dispose())
  await fails(other.listFsEntries({ path: '/' }), 401, 'token_invalid')
  await fails(other.writeFsFile({ path: '/tmp/no' }, 'x'), 401, 'token_invalid')
})
