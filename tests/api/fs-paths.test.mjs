// Paths: what they mean, what is refused, and that a root directory cannot be left.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { start, tempDir } from './lib/server.mjs'
import { files, folder, names, refused, tarOf } from './lib/fs.mjs'
import { call } from './lib/http.mjs'
import { within } from './lib/proc.mjs'

const LIMIT = { timeout: 60_000 }

let server, fs
before(async () => {
  server = await start(undefined)
  fs = files(server)
})
after(() => server.stop())

describe('what a path means', () => {
  test('relative ones start at the home directory', LIMIT, async () => {
    const a = await fs.write('rel/ative.txt', 'x')
    assert.equal(a.json.path, join(server.dataDir, 'rel/ative.txt'))
    assert.equal(readFileSync(join(server.dataDir, 'rel/ative.txt'), 'utf8'), 'x')
    assert.equal((await fs.read('rel/ative.txt')).text, 'x')
    assert.equal((await fs.stat('rel')).json.path, join(server.dataDir, 'rel'))
    assert.equal((await fs.move('rel/ative.txt', 'rel/moved')).status, 200)
    assert.deepEqual(names(join(server.dataDir, 'rel')), ['moved'])
  })
  test('~ is the home directory (the peer makes a directory of that name)', LIMIT, async () => {
    assert.equal((await fs.stat('~')).json.path, server.dataDir)
    const a = await fs.write('~/tilde.txt', 'x')
    assert.equal(a.json.path, join(server.dataDir, 'tilde.txt'))
    assert.equal((await fs.read('tilde.txt')).text, 'x')
    assert.equal(existsSync(join(server.dataDir, '~')), false)
    assert.equal((await fs.mkdir('~x')).status, 200)
    assert.ok(existsSync(join(server.dataDir, '~x')), 'a tilde that is part of a name stays one')
  })
  test('a relative path with .. is refused, an absolute one is walked', LIMIT, async (t) => {
    for (const path of ['../x', 'a/../../x', '..', 'a/..', '~/../x']) {
      const a = await fs.read(path)
      refused(a, 400, 'invalid_request', /invalid relative path: /)
    }
    const dir = folder(t, 'a')
    writeFileSync(join(dir, 'f'), 'found')
    assert.equal((await fs.read(`${dir}/a/../f`)).text, 'found')
  })
  test('more slashes and dots mean the same place', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), 'found')
    for (const path of [`${dir}//f`, `${dir}/./f`, `/${dir}/.//f`])
      assert.equal((await fs.read(path)).text, 'found', path)
  })
  test('a file with a slash behind it is not a file', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), 'x')
    assert.equal((await fs.stat(`${dir}/`)).json.entryType, 'directory')
  })

  const ODD = [
    'with space',
    'ümläut-é-日本-🚀',
    'new\nline',
    'tab\tand\x01control\x7f',
    '100%',
    '%41',
    '#hash',
    'a?b=c&d',
    'a+b',
    ' leading',
    'trailing ',
    '-rf',
    '"quotes\'',
    'back\\slash',
    '..almost',
    '...',
    '*',
    'x'.repeat(255),
    'é'.repeat(127),
  ]
  for (const name of ODD)
    test(`the name ${JSON.stringify(name.slice(0, 30))}`, LIMIT, async (t) => {
      const dir = tempDir(t)
      const path = join(dir, 'd', name)
      const a = await fs.write(path, name)
      assert.equal(a.status, 200, a.text)
      assert.equal(a.json.path, path)
      assert.deepEqual(names(join(dir, 'd')), [name])
      assert.equal((await fs.read(path)).text, name)
      assert.equal((await fs.stat(path)).json.path, path)
      const [entry] = (await fs.list(join(dir, 'd'))).json
      assert.deepEqual([entry.name, entry.path], [name, path])
      assert.equal((await fs.move(path, `${dir}/d/moved`)).status, 200)
      assert.equal((await fs.move(`${dir}/d/moved`, path)).status, 200)
      assert.equal((await fs.remove(path)).status, 200)
      assert.equal((await fs.mkdir(path)).status, 200)
      assert.equal((await fs.list(path)).text, '[]')
    })

  test('+ in a query is a space only as the form says, %2B always a plus', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'a+b'), 'plus')
    const a = await call(server.url, `/v1/fs/file?path=${dir}/a%2Bb`)
    assert.equal(a.text, 'plus')
  })
  test('a name that is not UTF-8 is listed and does not break the JSON', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(Buffer.concat([Buffer.from(`${dir}/bad-`), Buffer.from([0xff, 0xfe])]), '')
    writeFileSync(join(dir, 'good'), '')
    const list = (await fs.list(dir)).json
    assert.equal(list.length, 2)
    assert.ok(list.some((e) => e.name === 'good'))
    assert.ok(list.some((e) => e.name.startsWith('bad-')))
  })
})

describe('paths that cannot be', () => {
  const raw = (endpoint, encoded, options) =>
    call(server.url, `/v1/fs/${endpoint}?path=${encoded}`, options)
  const each = (encoded) => [
    ['entries', encoded],
    ['file', encoded],
    ['stat', encoded],
    ['archive', encoded],
    ['file', encoded, { method: 'PUT', body: 'x' }],
    ['entry', encoded, { method: 'DELETE' }],
    ['mkdir', encoded, { method: 'POST' }],
    [
      'upload-batch',
      encoded,
      { method: 'POST', body: '', headers: { 'content-type': 'application/x-tar' } },
    ],
  ]
  for (const [what, encoded] of [
    ['NUL', '/tmp/a%00b'],
    ['bad UTF-8', '/tmp/%ff%fe'],
    ['overlong UTF-8', '/tmp/%c0%af'],
    ['half a surrogate', '/tmp/%ed%a0%80'],
    ['a name of 256 bytes', `/tmp/${'n'.repeat(256)}`],
    ['a path of 4096 bytes', `/${'d/'.repeat(2047)}x`],
  ])
    test(`${what} is 400 everywhere`, LIMIT, async () => {
      for (const [endpoint, path, options] of each(encoded)) {
        const a = await raw(endpoint, path, options)
        assert.equal(
          a.status,
          400,
          `${options?.method ?? 'GET'} ${endpoint}: ${a.status} ${a.text}`,
        )
        assert.equal(a.json.type, 'urn:sandbox-agent:error:invalid_request')
      }
    })
  test('in JSON bodies too', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), 'kept')
    for (const bad of ['/tmp/a\0b', `/tmp/${'n'.repeat(256)}`, `/${'n/'.repeat(40_000)}`]) {
      refused(await fs.move(bad, join(dir, 'g')), 400, 'invalid_request')
      refused(await fs.move(join(dir, 'f'), bad), 400, 'invalid_request')
      refused(await fs.edit({ path: bad, oldText: 'a', newText: 'b' }), 400, 'invalid_request')
    }
    const body = Buffer.concat([
      Buffer.from('{"from":"/tmp/'),
      Buffer.from([0xff]),
      Buffer.from('","to":"/tmp/x"}'),
    ])
    const a = await call(server.url, '/v1/fs/move', {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    })
    assert.equal(a.status, 400, a.text)
    assert.deepEqual(names(dir), ['f'])
  })
  test(
    'a name of 255 bytes and a path of 4095 are not refused for their length',
    LIMIT,
    async () => {
      assert.equal((await fs.stat(`/tmp/${'n'.repeat(255)}`)).status, 404)
      assert.equal((await fs.stat(`/${'d/'.repeat(2047)}`)).status, 404)
    },
  )
})

describe('things that are not files never hang', () => {
  const quick = (promise, what) => within(promise, what, 5000)
  for (const [what, make] of [
    ['a FIFO', (dir) => execFileSync('mkfifo', [join(dir, 'x')])],
    [
      'a socket',
      (dir) =>
        execFileSync('python3', [
          '-c',
          'import socket,sys;socket.socket(socket.AF_UNIX).bind(sys.argv[1])',
          join(dir, 'x'),
        ]),
    ],
  ])
    test(`${what}: read and write are 400, it can be listed, moved, deleted`, LIMIT, async (t) => {
      const dir = tempDir(t)
      make(dir)
      const path = join(dir, 'x')
      refused(await quick(fs.read(path), 'read'), 400, 'invalid_request', /path is not a file: /)
      assert.equal((await quick(fs.head(path), 'head')).status, 400)
      refused(await quick(fs.list(path), 'list'), 400, 'invalid_request')
      assert.equal((await quick(fs.stat(path), 'stat')).status, 200)
      const wrote = await quick(fs.write(path, 'text'), 'write')
      assert.equal(wrote.status, 400, wrote.text)
      assert.ok(!lstatSync(path).isFile(), 'it is still what it was')
      assert.equal((await quick(fs.list(dir), 'list its directory')).json.length, 1)
      await quick(fs.edit({ path, oldText: 'a', newText: 'b' }), 'edit')
      await quick(fs.archive(dir), 'archive')
      assert.equal((await quick(fs.move(path, join(dir, 'y')), 'move')).status, 200)
      assert.equal((await quick(fs.remove(join(dir, 'y')), 'remove')).status, 200)
    })
  for (const path of [
    '/dev/zero',
    '/dev/null',
    '/dev/tty',
    '/dev/ptmx',
    '/dev/random',
    '/dev/full',
  ])
    test(`${path} is not a file`, LIMIT, async () => {
      refused(await quick(fs.read(path), path), 400, 'invalid_request', /path is not a file: /)
      const wrote = await quick(fs.write(path, 'x'), path)
      assert.equal(wrote.status, 400, wrote.text)
      assert.ok(lstatSync(path).isCharacterDevice())
      assert.equal((await quick(fs.stat(path), path)).json.entryType, 'file')
    })
  test('/proc/self/status is read whole although its size says 0', LIMIT, async () => {
    const a = await quick(fs.read('/proc/self/status'), 'read')
    assert.equal(a.status, 200)
    assert.match(a.text, new RegExp(`^Pid:\\s+${server.pid}$`, 'm'))
    assert.equal(Number(a.headers['content-length']), a.bytes.length)
    assert.match((await quick(fs.read('/proc/cpuinfo'), 'read')).text, /processor/)
    assert.match(
      (await quick(fs.read('/sys/kernel/mm/transparent_hugepage/enabled'), 'read')).text,
      /\w/,
    )
  })
  for (const path of [
    '/proc/kmsg',
    '/proc/kcore',
    '/proc/self/mem',
    '/dev/mem',
    '/proc/self/pagemap',
    '/sys/kernel/debug/tracing/trace_pipe',
  ])
    test(`${path}: an answer, whatever it is`, LIMIT, async () => {
      const a = await quick(fs.read(path), path)
      assert.ok(a.status === 200 || a.status >= 400)
      assert.ok(a.bytes.length <= 17 * 1024 * 1024)
      assert.equal((await quick(call(server.url, '/v1/health'), 'health')).status, 200)
    })
  test('the server serves others while FIFOs are asked for', LIMIT, async (t) => {
    const dir = tempDir(t)
    for (let i = 0; i < 32; i++) execFileSync('mkfifo', [join(dir, `p${i}`)])
    const all = Array.from({ length: 32 }, (_, i) => fs.read(join(dir, `p${i}`)))
    assert.equal((await quick(call(server.url, '/v1/health'), 'health')).status, 200)
    for (const a of await quick(Promise.all(all), 'all')) assert.equal(a.status, 400)
  })
})

// ---- --fs-root ----

// outside/ holds what must stay as it is; root/ is what the server may see.
async function confined(t, more = {}) {
  const dir = folder(t, 'root/in', 'outside/dir')
  const [root, outside] = [join(dir, 'root'), join(dir, 'outside')]
  writeFileSync(join(outside, 'secret'), 'secret')
  writeFileSync(join(outside, 'dir/deep'), 'deep')
  writeFileSync(join(root, 'in/f'), 'inside')
  const s = await start(t, { args: ['--fs-root', root], ...more })
  const before = execFileSync('find', [outside, '-printf', '%P %y %s %m %T@ %C@\n'], {
    encoding: 'utf8',
  })
  const untouched = () => {
    const now = execFileSync('find', [outside, '-printf', '%P %y %s %m %T@ %C@\n'], {
      encoding: 'utf8',
    })
    assert.equal(now, before, 'nothing outside has changed')
  }
  return { s, fs: files(s), dir, root, outside, untouched }
}

// Every operation at a place that leads out of the root.
async function tryAll(fs, path, root) {
  const below = `${path}/new`
  const tar = tarOf({ name: 'x', data: 'x' })
  const diff =
    '--- a/secret\n+++ b/secret\n@@ -1 +1 @@\n-secret\n\\ No newline at end of file\n+changed\n'
  return Object.entries({
    list: await fs.list(path),
    read: await fs.read(path),
    head: await fs.head(path),
    stat: await fs.stat(path),
    write: await fs.write(path, 'changed'),
    'write below': await fs.write(below, 'changed'),
    mkdir: await fs.mkdir(below),
    'delete below': await fs.remove(`${path}/secret`),
    'delete below, recursive': await fs.remove(`${path}/dir`, 'true'),
    'move in': await fs.move(`${path}/secret`, join(root, 'stolen')),
    'move out': await fs.move(join(root, 'in/f'), below, true),
    'move over': await fs.move(join(root, 'in/f'), `${path}/secret`, true),
    unpack: await fs.unpack(path, tar),
    archive: await fs.archive(path),
    edit: await fs.edit({ path: `${path}/secret`, oldText: 'secret', newText: 'changed' }),
    diff: await fs.edit({ diff, directory: path }),
    search: await fs.ask(`/v1/fs/search?path=${encodeURIComponent(path)}&text=secret`),
    watch: await fs.ask(`/v1/fs/watch?path=${encodeURIComponent(path)}`),
  })
}

describe('--fs-root', () => {
  test('inside it everything works as without', LIMIT, async (t) => {
    const { fs, root } = await confined(t)
    assert.equal((await fs.read(join(root, 'in/f'))).text, 'inside')
    assert.equal((await fs.write(join(root, 'new/g'), 'x')).status, 200)
    assert.equal((await fs.mkdir(join(root, 'd/e'))).status, 200)
    assert.equal((await fs.move(join(root, 'new/g'), join(root, 'd/g'))).status, 200)
    assert.equal((await fs.unpack(join(root, 'u'), tarOf({ name: 'x', data: 'x' }))).status, 200)
    assert.deepEqual((await fs.list(root)).json.map((e) => e.name).sort(), ['d', 'in', 'new', 'u'])
    assert.equal((await fs.remove(join(root, 'd'), 'true')).status, 200)
    assert.equal((await fs.stat(root)).json.entryType, 'directory')
    assert.equal((await fs.archive(join(root, 'in'))).status, 200)
    symlinkSync('in/f', join(root, 'link'))
    assert.equal((await fs.read(join(root, 'link'))).text, 'inside', 'a link that stays inside')
    symlinkSync('../root/in', join(root, 'around'))
    assert.equal((await fs.read(join(root, 'around/f'))).status, 403, 'out and in again is out')
  })
  test('relative paths start at the root when the home is outside', LIMIT, async (t) => {
    const { fs, root } = await confined(t)
    assert.equal((await fs.read('in/f')).text, 'inside')
    assert.equal((await fs.write('rel', 'x')).json.path, join(root, 'rel'))
    assert.ok((await fs.list()).json.some((e) => e.name === 'in'))
  })
  test('the root itself can be neither removed, moved nor replaced', LIMIT, async (t) => {
    const { fs, root } = await confined(t)
    for (const a of [
      await fs.remove(root, 'true'),
      await fs.move(root, join(root, 'x')),
      await fs.move(join(root, 'in'), root, true),
      await fs.write(root, 'x'),
    ])
      assert.ok([400, 403].includes(a.status), `${a.status} ${a.text}`)
    assert.equal(readFileSync(join(root, 'in/f'), 'utf8'), 'inside')
  })

  for (const [what, path, prepare] of [
    ['an absolute path', ({ outside }) => outside],
    ['..', ({ root }) => `${root}/../outside`],
    ['.. from deep below', ({ root }) => `${root}/in/../../outside`],
    [
      'a name that begins like the root',
      ({ root }) => `${root}-more`,
      ({ root }) => mkdirSync(`${root}-more`),
    ],
    ['the root of the machine', () => '/'],
    [
      'an absolute link',
      ({ root }) => join(root, 'l'),
      ({ root, outside }) => symlinkSync(outside, join(root, 'l')),
    ],
    [
      'a relative link',
      ({ root }) => join(root, 'in/l'),
      ({ root }) => symlinkSync('../../outside', join(root, 'in/l')),
    ],
    [
      'a chain of links',
      ({ root }) => join(root, 'a'),
      ({ root, outside }) => {
        symlinkSync('in/b', join(root, 'a'))
        symlinkSync('../c', join(root, 'in/b'))
        symlinkSync(outside, join(root, 'c'))
      },
    ],
    [
      'a link on the way',
      ({ root }) => join(root, 'l/in/../outside'),
      ({ root, dir }) => symlinkSync(dir, join(root, 'l')),
    ],
    ['/proc/self/root', ({ outside }) => `/proc/self/root${outside}`],
    [
      'a link to /proc/self/root',
      ({ root, outside }) => join(root, `l${outside}`),
      ({ root }) => symlinkSync('/proc/self/root', join(root, 'l')),
    ],
    ['/proc/self/cwd', () => '/proc/self/cwd/..'],
    [
      'a link to /proc/self/fd',
      ({ root }) => join(root, 'l/0'),
      ({ root }) => symlinkSync('/proc/self/fd', join(root, 'l')),
    ],
  ])
    test(`${what}: 403 for every operation, nothing outside changes`, LIMIT, async (t) => {
      const c = await confined(t)
      prepare?.(c)
      const place = path(c)
      for (const [name, a] of await tryAll(c.fs, place, c.root)) {
        // A place without a name of its own cannot be written, wherever it is.
        const isNameless = name === 'write' && /(^|\/)(\.\.)?$/.test(place)
        if (isNameless && a.status === 400) continue
        assert.equal(a.status, 403, `${name}: ${a.status} ${a.text}`)
        if (name !== 'head') assert.equal(a.json.type, 'urn:sandbox-agent:error:permission_denied')
        assert.doesNotMatch(a.text, /secret.*secret/s)
      }
      c.untouched()
      assert.equal(existsSync(join(c.root, 'stolen')), false)
      assert.equal(readFileSync(join(c.root, 'in/f'), 'utf8'), 'inside')
    })

  test('links that lead out can be listed, moved and deleted as links', LIMIT, async (t) => {
    const c = await confined(t)
    symlinkSync(c.outside, join(c.root, 'l'))
    symlinkSync(join(c.outside, 'secret'), join(c.root, 'm'))
    assert.ok((await c.fs.list(c.root)).json.some((e) => e.name === 'l'))
    assert.equal((await c.fs.move(join(c.root, 'l'), join(c.root, 'in/l'))).status, 200)
    assert.equal((await c.fs.remove(join(c.root, 'in/l'))).status, 200)
    assert.equal((await c.fs.remove(join(c.root, 'm'))).status, 200)
    mkdirSync(join(c.root, 'tree'))
    symlinkSync(c.outside, join(c.root, 'tree/l'))
    assert.equal((await c.fs.remove(join(c.root, 'tree'), 'true')).status, 200)
    c.untouched()
    assert.deepEqual(names(c.root), ['in'])
  })
  test('a dangling link that leads out is not written through', LIMIT, async (t) => {
    const c = await confined(t)
    symlinkSync(join(c.outside, 'new'), join(c.root, 'l'))
    symlinkSync('../outside/new', join(c.root, 'm'))
    refused(await c.fs.write(join(c.root, 'l'), 'x'), 403, 'permission_denied')
    refused(await c.fs.write(join(c.root, 'm'), 'x'), 403, 'permission_denied')
    c.untouched()
  })
  test('an archive of a tree holds links as links, not what they lead to', LIMIT, async (t) => {
    const c = await confined(t)
    symlinkSync(join(c.outside, 'secret'), join(c.root, 'in/l'))
    const a = await c.fs.archive(join(c.root, 'in'))
    assert.equal(a.status, 200)
    assert.doesNotMatch(
      a.bytes.toString('latin1').replaceAll(join(c.outside, 'secret'), ''),
      /secret/,
    )
  })
  test(
    'a link that is swapped all the time is never followed out',
    { timeout: 120_000 },
    async (t) => {
      const c = await confined(t)
      // Another process, as an attacker inside would be: a directory here, a link out there.
      const script = `
      import os, shutil, sys
      root, outside = sys.argv[1], sys.argv[2]
      os.chdir(root)
      def swap(name):
          try:
              os.rename(name, 'race')
              os.rename('race', name)
          except OSError:
              # A write makes the directory that it misses: it must not stand in the way.
              shutil.rmtree('race', ignore_errors=True)
      print('on', flush=True)
      while True:
          if not os.path.isdir('good'):
              os.mkdir('good')
          if not os.path.exists('good/secret'):
              open('good/secret', 'w').write('inside')
          if not os.path.islink('evil'):
              os.symlink(outside, 'evil')
          for name in ('good', 'evil'):
              swap(name)
    `.replace(/^ {6}/gm, '')
      const stdio = ['ignore', 'pipe', 'inherit']
      const swapper = spawn('python3', ['-c', script, c.root, c.outside], { stdio })
      const swapped = once(swapper, 'close')
      t.after(() => swapper.kill('SIGKILL'))
      await within(once(swapper.stdout, 'data'), 'the swapper')
      const race = join(c.root, 'race')
      const seen = {}
      const until = Date.now() + 8000
      while (Date.now() < until) {
        const all = await Promise.all([
          c.fs.read(`${race}/secret`),
          c.fs.list(race),
          c.fs.stat(`${race}/secret`),
          c.fs.write(`${race}/new`, 'x'),
          c.fs.mkdir(`${race}/made`),
          c.fs.remove(`${race}/new`),
          c.fs.remove(`${race}/dir`, 'true'),
          c.fs.move(`${race}/secret`, join(c.root, 'stolen'), true),
          c.fs.move(join(c.root, 'in/f'), `${race}/moved`, true),
          c.fs.unpack(race, tarOf({ name: 'unpacked', data: 'x' })),
          c.fs.edit({ path: `${race}/secret`, oldText: 'secret', newText: 'changed' }),
          c.fs.archive(race),
        ])
        for (const a of all) seen[a.status] = (seen[a.status] ?? 0) + 1
        const [read, list] = all
        if (read.status === 200) assert.equal(read.text, 'inside')
        if (list.status === 200)
          assert.ok(!list.json.some((e) => e.name === 'dir'), 'a listing of outside')
        for (const a of all) assert.ok(a.status < 500, `${a.status} ${a.text}`)
      }
      assert.equal(swapper.exitCode, null, 'the swapper was there all the time')
      swapper.kill('SIGKILL')
      await within(swapped, 'the end of the swapper')
      c.untouched()
      assert.ok(seen[403] > 0 && seen[200] > 0, `the race was run: ${JSON.stringify(seen)}`)
      if (existsSync(join(c.root, 'stolen')))
        assert.equal(readFileSync(join(c.root, 'stolen'), 'utf8'), 'inside')
    },
  )
  test('a root that is missing or a file ends the start with words', LIMIT, async (t) => {
    const dir = tempDir(t)
    writeFileSync(join(dir, 'f'), '')
    for (const root of [join(dir, 'none'), join(dir, 'f')])
      await assert.rejects(
        start(undefined, { args: ['--fs-root', root] }),
        /ended before it listened/,
      )
  })
  test('SANDBOX_AGENT_FS_ROOT means the same', LIMIT, async (t) => {
    const dir = folder(t, 'root')
    const s = await start(t, { env: { SANDBOX_AGENT_FS_ROOT: join(dir, 'root') } })
    refused(await files(s).list(dir), 403, 'permission_denied')
    assert.equal((await files(s).list(join(dir, 'root'))).status, 200)
  })
  test('a root that is itself named by a link', LIMIT, async (t) => {
    const dir = folder(t, 'root')
    symlinkSync('root', join(dir, 'alias'))
    const s = await start(t, { args: ['--fs-root', join(dir, 'alias')] })
    assert.equal((await files(s).write(join(dir, 'alias/f'), 'x')).status, 200)
    assert.ok(existsSync(join(dir, 'root/f')))
    refused(await files(s).list(dir), 403, 'permission_denied')
  })
})

test('a hard link is a file like any other: writing replaces this name only', LIMIT, async (t) => {
  const dir = tempDir(t)
  writeFileSync(join(dir, 'a'), 'old')
  linkSync(join(dir, 'a'), join(dir, 'b'))
  assert.equal((await fs.write(join(dir, 'a'), 'new')).status, 200)
  assert.equal(readFileSync(join(dir, 'a'), 'utf8'), 'new')
  assert.deepEqual(readdirSync(dir).sort(), ['a', 'b'])
})
