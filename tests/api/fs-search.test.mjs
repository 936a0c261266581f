// GET /v1/fs/search: what is found, how it streams, and how it ends.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { start, tempDir } from './lib/server.mjs'
import { call, open } from './lib/http.mjs'
import { openFds, until, within } from './lib/proc.mjs'

const LIMIT = { timeout: 60_000 }

let server
before(async () => (server = await start(undefined)))
after(() => server.stop())

function tree(t, files) {
  const dir = tempDir(t)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(dir, name, '..'), { recursive: true })
    writeFileSync(join(dir, name), text)
  }
  return dir
}
const target = (path, more) =>
  `/v1/fs/search?${new URLSearchParams([['path', path], ...Object.entries(more).flatMap(([k, v]) => [v].flat().map((x) => [k, x]))])}`

// The matches (paths below dir, sorted) and the summary.
async function search(dir, more, on = server) {
  const a = await call(on.url, target(dir, more))
  assert.equal(a.status, 200, a.text)
  assert.match(a.headers['content-type'], /^application\/x-ndjson/)
  assert.ok(a.text.endsWith('\n'))
  const lines = a.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const end = lines.pop()
  assert.equal(end.type, 'end')
  assert.equal(end.matches, lines.length)
  for (const m of lines) {
    assert.equal(m.type, 'match')
    assert.ok(m.path.startsWith(dir + '/'), m.path)
    m.path = m.path.slice(dir.length + 1)
  }
  return { matches: lines.sort((x, y) => (x.path < y.path ? -1 : 1) || x.line - y.line), end }
}
const paths = ({ matches }) => matches.map((m) => m.path).sort()
async function refused(dir, more, status, detail) {
  const a = await call(server.url, target(dir, more))
  assert.equal(a.status, status, a.text)
  assert.match(a.headers['content-type'], /^application\/problem\+json/)
  assert.match(a.json.detail ?? a.text, detail)
}

describe('content', () => {
  test('a text is found with line, column and its line', LIMIT, async (t) => {
    const dir = tree(t, { 'a.txt': 'one\n  two (x) é\n', 'sub/b.txt': 'none\n' })
    const { matches, end } = await search(dir, { text: 'o (x)' })
    assert.deepEqual(matches, [
      { type: 'match', path: 'a.txt', line: 2, column: 5, text: '  two (x) é', cut: false },
    ])
    assert.deepEqual(end, { type: 'end', files: 2, matches: 1, skipped: 0, limited: false })
  })

  test('a regex is PCRE2 and about one line', LIMIT, async (t) => {
    const dir = tree(t, { a: 'foo1\nbar22\nfoobar\n' })
    assert.deepEqual(
      (await search(dir, { regex: '^(?!foo)\\w+\\d{2}$' })).matches.map((m) => m.line),
      [2],
    )
    assert.equal((await search(dir, { regex: 'foo1.bar' })).matches.length, 0)
    assert.equal((await search(dir, { regex: 'FOO', ignoreCase: true })).matches.length, 2)
  })

  test('broken UTF-8 is shown as replacement characters', LIMIT, async (t) => {
    const dir = tree(t, { a: Buffer.from('x\xff find\n', 'latin1') })
    assert.equal((await search(dir, { text: 'find' })).matches[0].text, 'x\ufffd find')
  })

  test('a far hit in a long line is shown, with where the text begins', LIMIT, async (t) => {
    const dir = tree(t, { a: `${'é'.repeat(5000)}HIT${'x'.repeat(5000)}\n` })
    const [m] = (await search(dir, { text: 'HIT' })).matches
    assert.equal(m.column, 10001)
    assert.equal(m.cut, true)
    const shown = Buffer.from(m.text)
    assert.equal(
      shown
        .subarray(m.column - m.textColumn)
        .subarray(0, 3)
        .toString(),
      'HIT',
    )
    assert.ok(!m.text.includes('\ufffd') && shown.length <= 2000)
  })

  test(
    'binaries are skipped and counted, links not followed, a FIFO never opened',
    LIMIT,
    async (t) => {
      const dir = tree(t, { text: 'find\n', binary: 'find\0' })
      symlinkSync('text', join(dir, 'link'))
      symlinkSync('.', join(dir, 'loop'))
      execFileSync('mkfifo', [join(dir, 'fifo')])
      const found = await search(dir, { text: 'find' })
      assert.deepEqual(paths(found), ['text'])
      assert.equal(found.end.skipped, 1)
    },
  )

  test('a pattern with exponentially many ways ends', LIMIT, async (t) => {
    const dir = tree(t, { a: `${'a'.repeat(60)}b\n`, b: 'aaa\n' })
    const found = await search(dir, { regex: '^(a+)+$' })
    assert.deepEqual(paths(found), ['b'])
    assert.equal(found.end.skipped, 1)
  })
})

describe('which files', () => {
  const files = {
    'a.c': 'x\n',
    'a.h': 'x\n',
    '.dot': 'x\n',
    'src/b.c': 'x\n',
    'build/c.c': 'x\n',
    'src/keep.o': 'x\n',
    '.gitignore': '/build/\n*.o\n',
    'src/.gitignore': '!keep.o\n',
    '.git/info/exclude': 'a.h\n',
    '.git/config': 'x\n',
  }
  const cases = [
    ['.gitignore files on all levels and info/exclude', {}, ['a.c', 'src/b.c', 'src/keep.o']],
    ['ignored=true', { ignored: true }, ['a.c', 'a.h', 'build/c.c', 'src/b.c', 'src/keep.o']],
    ['hidden=true, but never .git', { hidden: true }, ['.dot', 'a.c', 'src/b.c', 'src/keep.o']],
    ['glob', { glob: '*.c' }, ['a.c', 'src/b.c']],
    ['several globs', { glob: ['*.c', '!src'] }, ['a.c']],
    ['a glob with a slash', { glob: 'src/**' }, ['src/b.c', 'src/keep.o']],
  ]
  for (const [name, more, want] of cases)
    test(name, LIMIT, async (t) => {
      const dir = tree(t, files)
      assert.deepEqual(paths(await search(dir, { text: 'x', ...more })), want)
    })

  test('rules of the directories above count, up to the repository', LIMIT, async (t) => {
    const dir = tree(t, files)
    const { matches } = await search(join(dir, 'src'), { text: 'x' })
    assert.deepEqual(matches.map((m) => m.path).sort(), ['b.c', 'keep.o'])
  })

  test('names by glob, directories included', LIMIT, async (t) => {
    const dir = tree(t, files)
    assert.deepEqual((await search(dir, { name: 'S*', ignoreCase: true })).matches, [
      { type: 'match', path: 'src', isDirectory: true },
    ])
    assert.deepEqual(paths(await search(dir, { name: '{a,b}.c' })), ['a.c', 'src/b.c'])
  })
})

describe('how it ends', () => {
  test('the limit is said', LIMIT, async (t) => {
    const dir = tree(t, { a: 'x\n'.repeat(2000) })
    assert.deepEqual((await search(dir, { text: 'x' })).end, {
      type: 'end',
      files: 1,
      matches: 1000,
      skipped: 0,
      limited: true,
    })
    assert.equal((await search(dir, { text: 'x', limit: 2001 })).end.limited, false)
    await refused(dir, { text: 'x', limit: 0 }, 400, /limit must be between 1 and 100000/)
    await refused(dir, { text: 'x', limit: 100001 }, 400, /limit must be between/)
  })

  test('what makes no sense is refused before anything is sent', LIMIT, async (t) => {
    const dir = tree(t, {})
    await refused(dir, {}, 400, /exactly one of text, regex and name/)
    await refused(dir, { text: 'a', name: 'b' }, 400, /exactly one/)
    await refused(dir, { text: '' }, 400, /must not be empty/)
    await refused(dir, { regex: 'a(' }, 400, /invalid regex at offset 2/)
    await refused(dir, { text: 'x'.repeat(4097) }, 400, /./)
    await refused(join(dir, 'none'), { text: 'a' }, 404, /path not found/)
    await refused('../x', { text: 'a' }, 400, /invalid relative path/)
  })

  test('--fs-root holds', LIMIT, async (t) => {
    const outer = tree(t, { 'in/a': 'x\n', secret: 'x\n' })
    const other = await start(t, { args: ['--fs-root', join(outer, 'in')] })
    const found = await search(join(outer, 'in'), { text: 'x' }, other)
    assert.deepEqual(paths(found), ['a'])
    assert.equal((await call(other.url, target(outer, { text: 'x' }))).status, 403)
  })

  test('Accept: text/event-stream gets events', LIMIT, async (t) => {
    const dir = tree(t, { a: 'x\n' })
    const headers = { accept: 'text/event-stream' }
    const a = await call(server.url, target(dir, { text: 'x' }), { headers })
    assert.match(a.headers['content-type'], /^text\/event-stream/)
    const frames = a.text.trimEnd().split('\n\n')
    assert.deepEqual(
      frames.map((f) => f.split('\n')[0]),
      ['event: match', 'event: end'],
    )
    assert.equal(JSON.parse(frames[0].match(/^data: (.*)$/m)[1]).line, 1)
  })

  test('hits arrive while the search goes on, and leaving ends it', LIMIT, async (t) => {
    // A FIFO of work: one hit, then lines that take the expression long.
    const hard = `${'a'.repeat(60)}b\n`.repeat(200_000)
    const dir = tree(t, { hard })
    writeFileSync(join(dir, 'hard'), `aaa\n${hard}`)
    const before = openFds(server.pid)
    const res = await open(server.url, target(dir, { regex: '^(a+)+$' }))
    const [first] = await within(
      new Promise((done) => res.once('data', (data) => done([data]))),
      'the first hit',
    )
    assert.match(first.toString(), /"line":1,/)
    res.destroy()
    await until(() => openFds(server.pid) <= before, 'the search to end')
  })
})
