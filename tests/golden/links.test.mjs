// What the documents point to is there: files, headings, and the commands of the front door.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const top = path.join(import.meta.dirname, '../..')
const skipped = new Set(['.git', 'build', 'node_modules'])
const read = (file) => fs.readFileSync(path.join(top, file), 'utf8')

function documents(folder = '.') {
  return fs.readdirSync(path.join(top, folder), { withFileTypes: true }).flatMap((entry) => {
    const name = path.join(folder, entry.name)
    if (entry.isDirectory()) return skipped.has(entry.name) ? [] : documents(name)
    return entry.name.endsWith('.md') ? [name] : []
  })
}

// Code is no prose: blocks and spans become blanks, lines stay where they are.
function prose(text) {
  const blank = (piece) => piece.replace(/[^\n]/g, ' ')
  return text.replace(/^ *(`{3,}|~{3,})[^\n]*\n[\s\S]*?^ *\1 *$/gm, blank).replace(/(`+)(?!`)[\s\S]*?[^`]\1(?!`)/g, blank)
}

// [text](target "title"), ![…](…) and [name]: target; each with its line.
function* links(text) {
  const plain = prose(text)
  const pattern = /\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?\s*$/gm
  for (const match of plain.matchAll(pattern)) {
    const line = plain.slice(0, match.index).split('\n').length
    yield { target: match[1] ?? match[2], line }
  }
}

// The names that a heading can be reached by, as the usual Markdown viewers make them.
function anchors(text) {
  const headings = text.replace(/^ *(`{3,})[\s\S]*?^ *\1 *$/gm, '').matchAll(/^#{1,6} +(.+?) *#*$/gm)
  return new Set([...headings].map(([, title]) =>
    title.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replace(/ /g, '-')))
}

function fault(file, target) {
  if (/^[a-z][a-z0-9+.-]*:/i.test(target)) return // another place: not ours to check
  const [name, anchor] = decodeURI(target).split('#')
  const to = name ? path.join(path.dirname(file), name) : file
  if (path.isAbsolute(name)) return 'is absolute'
  if (to.startsWith('..')) return 'leaves the tree'
  if (!fs.existsSync(path.join(top, to))) return 'is not there'
  if (anchor && to.endsWith('.md') && !anchors(read(to)).has(anchor)) return `has no heading '${anchor}'`
}

const files = documents()

test('every document is found', () => {
  for (const name of ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs/index.md']) assert.ok(files.includes(name), name)
})

test('every relative link points to something', () => {
  const broken = []
  let seen = 0
  for (const file of files)
    for (const { target, line } of links(read(file))) {
      const why = fault(file, target)
      seen++
      if (why) broken.push(`${file}:${line}: ${target} ${why}`)
    }
  assert.ok(seen > 20, `${seen} links seen`)
  assert.deepEqual(broken, [])
})

test('docs/index.md leads to every document in docs', () => {
  const linked = new Set([...links(read('docs/index.md'))].map(({ target }) => path.join('docs', target.split('#')[0])))
  const lost = files.filter((file) => file.startsWith('docs/') && file !== 'docs/index.md' && !linked.has(file))
  assert.deepEqual(lost, [])
})

// make's own list of what it can make, so that pattern rules and lists of targets count as well
function targets() {
  const { stdout } = spawnSync('make', ['-pqRr', 'help'], { cwd: top, encoding: 'utf8', maxBuffer: 1 << 26 })
  return new Set([...stdout.matchAll(/^([a-z][a-z0-9-]*):/gm)].map(([, name]) => name))
}

for (const file of ['README.md', 'CONTRIBUTING.md'])
  test(`every make target of ${file} exists`, () => {
    // In code only: prose may make what it likes.
    const text = read(file)
    const code = [...text.matchAll(/^ *```[\s\S]*?^ *```|`[^`\n]+`/gm)].map(([piece]) => piece).join('\n')
    const named = [...code.matchAll(/(?<=^|[`$ ])make +([a-z][a-z0-9-]*)/gm)].map(([, name]) => name)
    const known = targets()
    assert.ok(named.length > 0, 'it names some')
    assert.deepEqual(named.filter((name) => !known.has(name)), [])
  })

test('the checks of this file find what they are there for', () => {
  const text = '# A b: c!\n[x](nowhere.md)\n`[y](code.md)`\n```\n[z](block.md)\n```\n[q]: README.md\n'
  assert.deepEqual([...links(text)], [{ target: 'nowhere.md', line: 2 }, { target: 'README.md', line: 7 }])
  assert.deepEqual([...anchors(text)], ['a-b-c'])
  assert.equal(fault('README.md', 'nowhere.md'), 'is not there')
  assert.equal(fault('README.md', '../outside.md'), 'leaves the tree')
  assert.equal(fault('README.md', 'https://example.org/x.md'), undefined)
  assert.equal(fault('README.md', 'SECURITY.md#no-such-heading'), "has no heading 'no-such-heading'")
  assert.equal(fault('docs/index.md', '../README.md#why'), undefined)
  assert.ok(!targets().has('no-such-target'))
})
