// POST /v1/fs/edit: exact replacement, unified diffs, all or nothing.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { RELEASE, start, tempDir } from './lib/server.mjs'
import { files, names, refused } from './lib/fs.mjs'
import { call } from './lib/http.mjs'

const LIMIT = { timeout: 60_000 }

let server, fs
before(async () => {
  server = await start(undefined)
  fs = files(server)
})
after(() => server.stop())

function put(dir, tree) {
  for (const [name, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    writeFileSync(join(dir, name), text)
  }
  return dir
}
const text = (dir, name) => readFileSync(join(dir, name), 'utf8')

describe('exact replacement', () => {
  const one = async (t, before, body) => {
    const dir = put(tempDir(t), { f: before })
    const a = await fs.edit({ path: join(dir, 'f'), ...body })
    return { a, dir, now: text(dir, 'f') }
  }
  test('one place', LIMIT, async (t) => {
    const { a, dir, now } = await one(t, 'one two three', {
      oldText: 'two',
      newText: 'TWO',
      expectedCount: 1,
    })
    assert.equal(a.status, 200, a.text)
    assert.equal(now, 'one TWO three')
    const [file] = a.json.files
    assert.deepEqual([file.path, file.change, file.count], [join(dir, 'f'), 'modified', 1])
    assert.deepEqual(names(dir), ['f'])
  })
  test('every place when no count is asked for', LIMIT, async (t) => {
    const { a, now } = await one(t, 'a-a-a', { oldText: 'a', newText: 'bb' })
    assert.equal(now, 'bb-bb-bb')
    assert.equal(a.json.files[0].count, 3)
  })
  for (const [count, isOk] of [
    [2, false],
    [3, true],
    [4, false],
  ])
    test(`three places, ${count} expected: ${isOk ? 'done' : 'refused'}`, LIMIT, async (t) => {
      const { a, now } = await one(t, 'x\nx\ny x\n', {
        oldText: 'x',
        newText: 'z',
        expectedCount: count,
      })
      if (isOk) assert.equal(a.status, 200, a.text)
      else refused(a, 409, 'conflict', /found 3/)
      assert.equal(now, isOk ? 'z\nz\ny z\n' : 'x\nx\ny x\n')
    })
  test('not there is a conflict', LIMIT, async (t) => {
    const { a, now } = await one(t, 'text', { oldText: 'none', newText: 'x' })
    refused(a, 409, 'conflict')
    assert.equal(now, 'text')
  })
  test('what overlaps counts once, from the left', LIMIT, async (t) => {
    const { a, now } = await one(t, 'aaaaa', { oldText: 'aa', newText: 'b' })
    assert.deepEqual([now, a.json.files[0].count], ['bba', 2])
  })
  test('the new text may hold the old one, and may be empty', LIMIT, async (t) => {
    assert.equal((await one(t, 'x', { oldText: 'x', newText: 'xxx' })).now, 'xxx')
    assert.equal((await one(t, 'a, b', { oldText: ', b', newText: '' })).now, 'a')
    assert.equal((await one(t, 'all', { oldText: 'all', newText: '' })).now, '')
  })
  test('line ends, tabs, unicode and pattern characters are letters', LIMIT, async (t) => {
    assert.equal(
      (await one(t, 'a\r\nb\r\n', { oldText: 'a\r\nb', newText: 'c\r\nd' })).now,
      'c\r\nd\r\n',
    )
    assert.equal((await one(t, 'a\n\tb', { oldText: '\n\t', newText: ' ' })).now, 'a b')
    assert.equal((await one(t, 'é🚀', { oldText: '🚀', newText: '日本' })).now, 'é日本')
    assert.equal(
      (await one(t, 'a.*b $1 \\n', { oldText: '.*', newText: '$&\\1' })).now,
      'a$&\\1b $1 \\n',
    )
  })
  test('bytes that are not UTF-8 around it stay as they are', LIMIT, async (t) => {
    const dir = tempDir(t)
    const around = Buffer.from([0xff, 0x00, 0xfe])
    writeFileSync(join(dir, 'f'), Buffer.concat([around, Buffer.from('mid'), around]))
    assert.equal(
      (await fs.edit({ path: join(dir, 'f'), oldText: 'mid', newText: 'MID' })).status,
      200,
    )
    const want = Buffer.concat([around, Buffer.from('MID'), around])
    assert.ok(readFileSync(join(dir, 'f')).equals(want))
  })
  test('keeps the mode, follows a link to its target', LIMIT, async (t) => {
    const dir = put(tempDir(t), { 'd/tool': 'old' })
    chmodSync(join(dir, 'd/tool'), 0o755)
    symlinkSync('d/tool', join(dir, 'link'))
    assert.equal(
      (await fs.edit({ path: join(dir, 'link'), oldText: 'old', newText: 'new' })).status,
      200,
    )
    assert.equal(text(dir, 'd/tool'), 'new')
    assert.equal(statSync(join(dir, 'd/tool')).mode & 0o777, 0o755)
    assert.deepEqual(names(dir), ['d', 'link'])
  })
  test('dryRun says what would be and changes nothing', LIMIT, async (t) => {
    const { a, now } = await one(t, 'x x', { oldText: 'x', newText: 'y', dryRun: true })
    assert.deepEqual([a.status, a.json.files[0].count, now], [200, 2, 'x x'])
  })
  test('errors', LIMIT, async (t) => {
    const dir = put(tempDir(t), { f: 'x' })
    const path = join(dir, 'f')
    refused(
      await fs.edit({ path: join(dir, 'none'), oldText: 'a', newText: 'b' }),
      404,
      'not_found',
    )
    refused(await fs.edit({ path: dir, oldText: 'a', newText: 'b' }), 400, 'invalid_request')
    refused(await fs.edit({ path, oldText: '', newText: 'b' }), 400, 'invalid_request')
    for (const body of [
      {},
      { path },
      { path, oldText: 'x' },
      { path, diff: 'x', oldText: 'x', newText: 'y' },
    ]) {
      const a = await fs.edit(body)
      assert.ok([400, 422].includes(a.status), `${JSON.stringify(body)}: ${a.status} ${a.text}`)
    }
    assert.equal(
      (await call(server.url, '/v1/fs/edit', { json: { path, oldText: 1, newText: 'b' } })).status,
      422,
    )
    assert.equal(text(dir, 'f'), 'x')
  })
  // memmem() under ASan looks at all that is left for each hit, so the release binary does this.
  test('a big file in little time', LIMIT, async (t) => {
    const line = 'the quick brown fox jumps over the lazy dog\n'
    const dir = put(tempDir(t), { f: line.repeat(200_000) })
    const s = await start(t, { bin: RELEASE })
    const a = await files(s).edit({ path: join(dir, 'f'), oldText: 'fox', newText: 'cat' })
    assert.equal(a.json.files[0].count, 200_000)
    assert.equal(text(dir, 'f'), line.replace('fox', 'cat').repeat(200_000))
  })
  test('of many edits at once none is lost silently', LIMIT, async (t) => {
    const n = 24
    const dir = put(tempDir(t), { f: Array.from({ length: n }, (_, i) => `<${i}>\n`).join('') })
    const all = await Promise.all(
      Array.from({ length: n }, (_, i) =>
        fs.edit({ path: join(dir, 'f'), oldText: `<${i}>`, newText: `[${i}]`, expectedCount: 1 }),
      ),
    )
    const now = text(dir, 'f')
    all.forEach((a, i) => {
      if (a.status === 200) assert.ok(now.includes(`[${i}]`), `edit ${i} was acknowledged and lost`)
      else assert.ok([409, 412].includes(a.status), a.text)
    })
  })
})

describe('unified diffs', () => {
  const apply = (dir, diff, more = {}) => fs.edit({ diff, directory: dir, ...more })
  const diffOf = (a, b, ...argv) => {
    const r = spawnSync('diff', [...argv, a, b], { encoding: 'utf8', maxBuffer: 64 << 20 })
    assert.ok(r.status < 2, r.stderr)
    return r.stdout
  }
  const LINES = Array.from({ length: 40 }, (_, i) => `line ${i + 1}`)
  const doc = (lines) => `${lines.join('\n')}\n`
  const changed = (change) => {
    const lines = [...LINES]
    change(lines)
    return doc(lines)
  }
  function diffBetween(t, was, is, name = 'f') {
    const dir = put(tempDir(t), { was, is })
    return diffOf(
      join(dir, 'was'),
      join(dir, 'is'),
      '-u',
      '--label',
      `a/${name}`,
      '--label',
      `b/${name}`,
    )
  }

  for (const [what, was, is] of [
    ['one line', doc(LINES), changed((l) => (l[20] = 'changed'))],
    ['three hunks', doc(LINES), changed((l) => ((l[2] = 'a'), (l[20] = 'b'), (l[38] = 'c')))],
    [
      'lines added at the start and the end',
      doc(LINES),
      changed((l) => (l.unshift('new'), l.push('end'))),
    ],
    ['lines taken away', doc(LINES), changed((l) => l.splice(10, 5))],
    ['no line end before', 'a\nb', 'a\nb\n'],
    ['no line end after', 'a\nb\n', 'a\nb'],
    ['no line end at all', 'a\nb', 'a\nc'],
    ['CRLF', 'a\r\nb\r\nc\r\n', 'a\r\nB\r\nc\r\n'],
    ['to empty', 'a\nb\n', ''],
    ['from empty', '', 'a\nb\n'],
    [
      'lines that look like a diff',
      '--- a/x\n+++ b/x\n@@ -1 +1 @@\n',
      '--- a/x\n+++ b/y\n@@ -1 +1 @@\n',
    ],
  ])
    test(what, LIMIT, async (t) => {
      const dir = put(tempDir(t), { f: was })
      const a = await apply(dir, diffBetween(t, was, is))
      assert.equal(a.status, 200, a.text)
      assert.equal(text(dir, 'f'), is)
      assert.deepEqual([a.json.files[0].path, a.json.files[0].change], [join(dir, 'f'), 'modified'])
      assert.deepEqual(names(dir), ['f'])
    })
  test('hunks that have moved find their place', LIMIT, async (t) => {
    const diff = diffBetween(
      t,
      doc(LINES),
      changed((l) => (l[20] = 'changed')),
    )
    const dir = put(tempDir(t), { f: `1\n2\n3\n${doc(LINES)}` })
    const a = await apply(dir, diff)
    assert.equal(a.status, 200, a.text)
    assert.equal(text(dir, 'f'), `1\n2\n3\n${changed((l) => (l[20] = 'changed'))}`)
  })
  test('context that does not fit is a conflict that names the place', LIMIT, async (t) => {
    const diff = diffBetween(
      t,
      doc(LINES),
      changed((l) => (l[20] = 'changed')),
    )
    const before = changed((l) => (l[19] = 'other'))
    const dir = put(tempDir(t), { f: before })
    refused(await apply(dir, diff), 409, 'conflict', /\d/)
    assert.equal(text(dir, 'f'), before)
  })
  test('twice: the second time is a conflict', LIMIT, async (t) => {
    const diff = diffBetween(
      t,
      doc(LINES),
      changed((l) => (l[20] = 'changed')),
    )
    const dir = put(tempDir(t), { f: doc(LINES) })
    assert.equal((await apply(dir, diff)).status, 200)
    refused(await apply(dir, diff), 409, 'conflict')
  })

  const GIT = [
    'diff --git a/new/file.txt b/new/file.txt',
    'new file mode 100755',
    'index 0000000..1111111',
    '--- /dev/null',
    '+++ b/new/file.txt',
    '@@ -0,0 +1,2 @@',
    '+hello',
    '+world',
    'diff --git a/gone.txt b/gone.txt',
    'deleted file mode 100644',
    'index 1111111..0000000',
    '--- a/gone.txt',
    '+++ /dev/null',
    '@@ -1 +0,0 @@',
    '-bye',
    'diff --git a/old-name b/dir/new-name',
    'similarity index 50%',
    'rename from old-name',
    'rename to dir/new-name',
    'index 1111111..2222222 100644',
    '--- a/old-name',
    '+++ b/dir/new-name',
    '@@ -1,2 +1,2 @@',
    ' keep',
    '-before',
    '+after',
    'diff --git a/moved b/moved-2',
    'similarity index 100%',
    'rename from moved',
    'rename to moved-2',
    '',
  ].join('\n')
  const TREE = { 'gone.txt': 'bye\n', 'old-name': 'keep\nbefore\n', moved: 'same' }
  test("git's forms: new, deleted, renamed", LIMIT, async (t) => {
    const dir = put(tempDir(t), TREE)
    const a = await apply(dir, GIT)
    assert.equal(a.status, 200, a.text)
    assert.equal(text(dir, 'new/file.txt'), 'hello\nworld\n')
    assert.equal(text(dir, 'dir/new-name'), 'keep\nafter\n')
    assert.equal(text(dir, 'moved-2'), 'same')
    assert.deepEqual(names(dir), ['dir', 'moved-2', 'new'])
    const changes = a.json.files.map((f) => f.change)
    assert.deepEqual(changes, ['created', 'deleted', 'renamed', 'renamed'])
  })
  test('dryRun of the same changes nothing', LIMIT, async (t) => {
    const dir = put(tempDir(t), TREE)
    const a = await apply(dir, GIT, { dryRun: true })
    assert.equal(a.status, 200, a.text)
    assert.equal(a.json.files.length, 4)
    assert.deepEqual(names(dir), ['gone.txt', 'moved', 'old-name'])
    assert.equal(text(dir, 'old-name'), TREE['old-name'])
  })
  test('all or nothing: one file that does not fit undoes the others', LIMIT, async (t) => {
    const tree = { ...TREE, 'z-last': 'other content\n' }
    const last = '--- a/z-last\n+++ b/z-last\n@@ -1 +1 @@\n-expected content\n+new\n'
    const bad = `${GIT}diff --git a/z-last b/z-last\n${last}`
    const dir = put(tempDir(t), tree)
    refused(await apply(dir, bad), 409, 'conflict', /z-last/)
    assert.deepEqual(names(dir), ['gone.txt', 'moved', 'old-name', 'z-last'])
    for (const [name, was] of Object.entries(tree)) assert.equal(text(dir, name), was)
  })
  for (const [what, diff] of [
    ['a missing file', '--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n'],
    ['a new file that exists', '--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+new\n'],
  ])
    test(`${what} is refused`, LIMIT, async (t) => {
      const dir = put(tempDir(t), { f: 'kept\n' })
      const a = await apply(dir, diff)
      assert.ok([404, 409].includes(a.status), `${a.status} ${a.text}`)
      assert.equal(text(dir, 'f'), 'kept\n')
    })
  for (const [what, diff] of [
    ['nothing', ''],
    ['no diff', 'just some words\n'],
    ['a bad hunk head', '--- a/f\n+++ b/f\n@@ nonsense @@\n-a\n+b\n'],
    ['a hunk that ends early', '--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n a\n'],
    ['numbers beyond all bounds', '--- a/f\n+++ b/f\n@@ -99999999999999999999,1 +1 @@\n-a\n+b\n'],
    ['a path out', '--- a/../evil\n+++ b/../evil\n@@ -0,0 +1 @@\n+x\n'],
    ['an absolute path', '--- /dev/null\n+++ /tmp/evil-by-diff\n@@ -0,0 +1 @@\n+x\n'],
    [
      'a binary patch',
      'diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZ\n\n',
    ],
  ])
    test(`${what} is refused with words`, LIMIT, async (t) => {
      const dir = put(tempDir(t), { 'in/f': 'a\n' })
      const a = await apply(join(dir, 'in'), diff)
      assert.ok(a.status >= 400 && a.status < 502, `${a.status} ${a.text}`)
      assert.notEqual(a.status, 500, a.text)
      assert.equal(text(dir, 'in/f'), 'a\n')
      assert.deepEqual(names(dir), ['in'])
      assert.equal(existsSync('/tmp/evil-by-diff'), false)
    })
  test('a link on the way is not followed out of the directory', LIMIT, async (t) => {
    const dir = put(tempDir(t), { 'outside/f': 'a\n', 'in/x': '' })
    symlinkSync('../outside', join(dir, 'in/l'))
    const s = await start(t, { args: ['--fs-root', join(dir, 'in')] })
    const diff = '--- a/l/f\n+++ b/l/f\n@@ -1 +1 @@\n-a\n+b\n'
    refused(await files(s).edit({ diff, directory: join(dir, 'in') }), 403, 'permission_denied')
    assert.equal(text(dir, 'outside/f'), 'a\n')
  })

  test('apply(diff(A, B), A) is B, for many A and B', { timeout: 120_000 }, async (t) => {
    let seed = Number(process.env.TORTURE_SEED ?? Date.now() % 2 ** 31)
    t.diagnostic(`seed ${seed}`)
    const below = (n) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      return (seed >>> 8) % n
    }
    const words = ['', 'a', 'b', '{', '}', 'return x;', '\tindented', '-minus', '+plus', '\\ back']
    const lines = (n) => Array.from({ length: n }, () => words[below(words.length)])
    const dir = tempDir(t)
    for (let i = 0; i < 150; i++) {
      const from = lines(below(60))
      const to = [...from]
      for (let n = below(6); n >= 0; n--)
        to.splice(below(to.length + 1), below(4), ...lines(below(4)))
      const end = (list) => list.join('\n') + (list.length && below(5) ? '\n' : '')
      const [was, is] = [end(from), end(to)]
      put(dir, { was, is, 'work/f': was })
      const argv = [`-U${below(4)}`, '--label', 'a/f', '--label', 'b/f']
      const diff = diffOf(join(dir, 'was'), join(dir, 'is'), ...argv)
      if (!diff) continue
      const a = await apply(join(dir, 'work'), diff)
      assert.equal(a.status, 200, `seed ${seed}\n${diff}\n${a.text}`)
      assert.equal(text(dir, 'work/f'), is, `seed ${seed}\n${diff}`)
    }
  })
  test('as patch(1) does on a real tree', LIMIT, async (t) => {
    const dir = put(tempDir(t), { 'a/x.c': doc(LINES), 'a/d/y.c': 'one\ntwo\n', 'a/z': 'zed\n' })
    put(dir, { 'b/x.c': changed((l) => (l[5] = 'X')), 'b/d/y.c': 'one\n2\n', 'b/new': 'n\n' })
    const r = spawnSync('diff', ['-urN', 'a', 'b'], { cwd: dir, encoding: 'utf8' })
    execFileSync('cp', ['-r', join(dir, 'a'), join(dir, 'ours')])
    const a = await apply(join(dir, 'ours'), r.stdout)
    assert.equal(a.status, 200, a.text)
    assert.equal(spawnSync('diff', ['-r', 'ours', 'b'], { cwd: dir }).status, 0)
    rmSync(join(dir, 'ours'), { recursive: true })
  })
})
