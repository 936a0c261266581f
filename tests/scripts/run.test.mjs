// The runner counts right and does not call something green that did not run.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

const runner = path.join(import.meta.dirname, '../run.mjs')

// Runs the unit suite with a shell script in place of the unit program.
function runUnit(t, script, ...args) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'run-'))
  t.after(() => fs.rmSync(folder, { recursive: true }))
  const program = path.join(folder, 'unit')
  fs.writeFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  const env = { ...process.env, SA_UNIT: program }
  delete env.NODE_TEST_CONTEXT
  const end = spawnSync(process.execPath, [runner, '--suite', 'unit', ...args], { encoding: 'utf8', env })
  return { status: end.status, text: end.stdout, last: end.stdout.trimEnd().split('\n').at(-1) }
}

test('counts what passed and what failed, and shows why', (t) => {
  const { status, text, last } = runUnit(
    t,
    `printf '1..3\\nok 1 - a\\n# t.c:3: expected 1, saw 2\\nnot ok 2 - b\\nok 3 - c\\n# time 700.0 ms c\\n'; exit 1`,
  )
  assert.equal(last, '2 passed, 1 failed')
  assert.equal(status, 1)
  assert.match(text, /FAILED unit: b\n {2}t\.c:3: expected 1, saw 2\n/)
  assert.match(text, /slowest tests:\n +0\.70 s {2}unit: c\n/)
})

test('ends with status 0 when all passed', (t) => {
  const { status, last } = runUnit(t, `printf '1..1\\nok 1 - a\\n'`)
  assert.equal(last, '1 passed, 0 failed')
  assert.equal(status, 0)
})

test('a program that dies in the middle is a failure', (t) => {
  const { status, text, last } = runUnit(t, `printf '1..3\\nok 1 - a\\n'; kill -SEGV $$`)
  assert.equal(last, '1 passed, 1 failed')
  assert.match(text, /ended in the middle, after a: 3 planned, 1 run/)
  assert.equal(status, 1)
})

test('a leak found after the last test is a failure', (t) => {
  const { status, text, last } = runUnit(t, `printf '1..1\\nok 1 - a\\n'; exit 99`)
  assert.equal(last, '1 passed, 1 failed')
  assert.match(text, /failed after its tests: status 99/)
  assert.equal(status, 1)
})

test('a suite without tests is a failure', (t) => {
  const { status, last } = runUnit(t, `printf '1..0\\n'`)
  assert.equal(last, '0 passed, 1 failed')
  assert.equal(status, 1)
})

test('an unknown suite is a usage error', () => {
  const end = spawnSync(process.execPath, [runner, '--suite', 'nonsense'], { encoding: 'utf8' })
  assert.equal(end.status, 2)
  assert.match(end.stderr, /no suite 'nonsense' \(unit, scripts/)
})
