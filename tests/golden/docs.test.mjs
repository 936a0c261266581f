// The reference documents are printed by the program; the files in docs/ are what it prints.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { test } from 'node:test'

const program = process.env.SA_BIN ?? new URL('../../build/sandbox-agent', import.meta.url).pathname

for (const [name, path] of [['cli', 'cli.md'], ['configuration', 'configuration.md'], ['openapi', 'openapi.json']]) {
  test(`docs/${path} is what 'docs ${name}' prints`, () => {
    // An empty home: no configuration file of the developer counts.
    const seen = spawnSync(program, ['docs', name], { encoding: 'utf8', env: { HOME: `${tmpdir()}/nobody` } })
    assert.equal(seen.status, 0, seen.error?.message ?? seen.stderr)
    const file = readFileSync(new URL(`../../docs/${path}`, import.meta.url), 'utf8')
    assert.equal(file, seen.stdout, 'out of date: make docs')
  })
}
