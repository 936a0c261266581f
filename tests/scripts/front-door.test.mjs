// scripts/setup and scripts/e2e: quick when there is nothing to do, clear when asked for nonsense.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const top = path.join(import.meta.dirname, '../..')
const run = (...argv) => spawnSync(argv[0], argv.slice(1), { cwd: top, encoding: 'utf8' })

test('setup is quick and silent when all is there', () => {
  const started = performance.now()
  const end = run('scripts/setup', 'test')
  const ms = performance.now() - started
  assert.equal(end.stdout + end.stderr, '')
  assert.equal(end.status, 0)
  assert.ok(ms < 1000, `took ${Math.round(ms)} ms`)
})

test('setup names the purposes it knows', () => {
  const end = run('scripts/setup', 'nonsense')
  assert.equal(end.status, 1)
  assert.equal(end.stderr, "setup: unknown purpose 'nonsense' (run, test, e2e, bench, dev)\n")
})

const shards = fs
  .readFileSync(path.join(top, 'tests/e2e/shards'), 'utf8')
  .split('\n')
  .filter((line) => line && !line.startsWith('#'))
  .map((line) => /^(\S+)\s+(\d+)\s+(\S.*)$/.exec(line)?.slice(1))

test('every shard has a name of its own and fits the time of one run', () => {
  assert.ok(shards.every(Boolean), 'a line that is not NAME SECONDS COMMAND')
  assert.equal(new Set(shards.map(([name]) => name)).size, shards.length)
  for (const [name, seconds] of shards) assert.ok(Number(seconds) <= 2400, `${name}: ${seconds} s`)
})

test('e2e refuses a shard that does not exist before it runs any', () => {
  const end = run('scripts/e2e', 'no-such-shard')
  assert.equal(end.status, 1)
  assert.equal(end.stdout, '')
  assert.match(end.stderr, /no shard 'no-such-shard'/)
})

test('make help lists the commands of the README', () => {
  const { stdout } = run('make', 'help')
  for (const name of ['run', 'build', 'test', 'e2e', 'e2e-all', 'bench', 'fuzz', 'lint', 'check'])
    assert.match(stdout, new RegExp(`^ {2}make ${name}\\b`, 'm'))
})
