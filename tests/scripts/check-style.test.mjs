// check-style finds what it is there for, and only that.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

const script = path.join(import.meta.dirname, '../../scripts/check-style')

// A repository with these files; returns the exit status and the output of the script.
function check(t, files) {
  const top = fs.mkdtempSync(path.join(os.tmpdir(), 'style-'))
  t.after(() => fs.rmSync(top, { recursive: true }))
  spawnSync('git', ['init', '-q', top])
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(top, name)), { recursive: true })
    fs.writeFileSync(path.join(top, name), text.replaceAll('@TOP@', top))
  }
  const end = spawnSync(process.execPath, [script, top], { encoding: 'utf8' })
  return { status: end.status, text: end.stdout }
}

const body = (n) => `void f(void)\n{\n${'        g();\n'.repeat(n)}}\n`
const wrong = [
  ['a header without #pragma once', { 'src/a.h': 'int a;\n' }, 'src/a.h:1: no #pragma once'],
  ['a header that needs another', { 'src/a.h': '#pragma once\nsize_t a;\n' }, 'src/a.h:1: does not compile alone'],
  ['a blank at the end', { 'a.md': 'x\ny \n' }, 'a.md:2: blank at the end'],
  ['a tab in C', { 'a.c': '\tx\n' }, 'a.c:1: tab in C'],
  ['a leftover', { 'a.c': `/* TO${'DO'}: x */\n` }, 'a.c:1: a leftover'],
  ['a registry host', { 'a.md': `https://registry.npmjs${'.org'}/x\n` }, 'a.md:1: a mirror or registry host'],
  ['a lock file with addresses', { 'package-lock.json': '{\n  "resolved": "x"\n}\n' }, 'package-lock.json:2: lock'],
  ['the path of the checkout', { 'a.md': 'see @TOP@/b\n' }, 'a.md:1: path of this checkout'],
  ['a file of 901 lines', { 'a.c': ';\n'.repeat(901) }, 'a.c:901: file of 901 lines'],
  ['a function of 151 lines', { 'a.c': body(151) }, 'a.c:2: function of 151 lines'],
  ['no newline at the end', { 'a.c': 'int a;' }, 'a.c:1: no newline'],
]
for (const [name, files, want] of wrong) {
  test(`refuses ${name}`, (t) => {
    const { status, text } = check(t, files)
    assert.equal(status, 1)
    assert.ok(text.startsWith(want), `${text}should start with\n${want}`)
  })
}

test('accepts what is at the limit', (t) => {
  const { status, text } = check(t, {
    'src/a.h': '#pragma once\n#include <stddef.h>\nsize_t a_size(void);\n',
    'src/a.c': body(150),
    'src/b.c': ';\n'.repeat(900),
    'tests/fuzz/corpus/http/1': 'GET / \t \r\nno newline ',
    Makefile: 'all:\n\ttrue\n',
  })
  assert.equal(text, '')
  assert.equal(status, 0)
})
