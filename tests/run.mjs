// Runs the test suites one after another and ends with the line "N passed, N failed".
//
//   node tests/run.mjs [--suite unit,api] [--filter WORD] [--verbose]
//
// A suite that runs no test fails, and so does a skipped test: what is missing must not look green.
// The programs under test are named by the environment, with the places of `make test` as defaults:
// SA_BIN (release binary), SA_TESTD (test server, ASan), SA_UNIT (unit tests, ASan), JSON_ORACLE,
// SA_PEER (the reference binary, if it is installed).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import readline from 'node:readline'
import { parseArgs } from 'node:util'

const tests = import.meta.dirname
const top = path.dirname(tests)
const build = path.join(top, 'build')

const SLOW_MS = 500
const SLOW_SHOWN = 10
const TEST_TIMEOUT_MS = 120_000
const SUITE_TIMEOUT_MS = 20 * 60_000

// name → how it is run; `default` suites are those of `make test`
const suites = {
  unit: { run: runUnit, default: true },
  scripts: { run: runNode, folder: 'scripts', default: true },
  golden: { run: runNode, folder: 'golden', default: true },
  api: { run: runNode, folder: 'api', default: true },
  page: { run: runNode, folder: 'page', default: true },
  e2e: { run: runNode, folder: 'e2e', concurrency: 1, timeoutMs: 20 * 60_000 },
}

const places = {
  SA_BIN: path.join(build, 'sandbox-agent'),
  SA_TESTD: path.join(build, 'asan/tests/testd'),
  SA_UNIT: path.join(build, 'asan/tests/unit'),
  JSON_ORACLE: path.join(build, 'asan/tests/json-oracle'),
  SA_PEER: path.join(tests, 'bench/node_modules/@sandbox-agent/cli-linux-x64/bin/sandbox-agent'),
}

function environment() {
  const env = { ...process.env, NODE_NO_WARNINGS: '1' }
  for (const [name, place] of Object.entries(places)) {
    if (!env[name] && fs.existsSync(place)) env[name] = place
  }
  // A sanitizer's finding must end the program with a status of its own, whoever started it.
  env.ASAN_OPTIONS ??= 'abort_on_error=0:exitcode=99:detect_leaks=1:detect_stack_use_after_return=1'
  env.UBSAN_OPTIONS ??= 'print_stacktrace=1:halt_on_error=1:exitcode=99'
  // The runner may itself be under node's runner (tests/scripts does that).
  delete env.NODE_TEST_CONTEXT
  return env
}

// Results of one suite. `fail` is for the suite as a whole: it counts as one failed test.
function newResult(name) {
  return { name, rows: [], startedMs: performance.now(), ms: 0 }
}
function fail(result, name, fault) {
  result.rows.push({ name, file: result.name, ms: 0, ok: false, fault })
}

// Starts a program, hands each line it prints on, resolves with its end.
function runProgram(argv, { env, onLine }) {
  return new Promise((resolve) => {
    const child = spawn(argv[0], argv.slice(1), { cwd: top, env, stdio: ['ignore', 'pipe', 'inherit'] })
    const timer = setTimeout(() => child.kill('SIGKILL'), SUITE_TIMEOUT_MS)
    const lines = readline.createInterface({ input: child.stdout })
    const allRead = once(lines, 'close')
    const finish = async (end) => {
      clearTimeout(timer)
      await allRead
      resolve(end)
    }
    lines.on('line', onLine)
    child.on('error', (error) => finish({ error: error.message }))
    child.on('close', (code, signal) => finish(signal ? { error: `ended by ${signal}` } : { code }))
  })
}

// cmocka's TAP: "ok 1 - name" or "not ok 1 - name", the reasons around it as comments, "# time MS ms NAME".
async function runUnit(result, suite, { filter, env, verbose }) {
  if (!env.SA_UNIT) return fail(result, 'unit', 'no unit program: SA_UNIT is not set and the build has none')
  const byName = new Map()
  let planned = 0
  let comments = []
  let last
  const onLine = (line) => {
    const test = /^(not )?ok (\d+) - (\S+)/.exec(line)
    const time = /^# time ([\d.]+) ms (\S+)/.exec(line)
    if (test) {
      last = { name: test[3], file: 'unit', ms: 0, ok: !test[1], fault: comments.join('\n') }
      comments = []
      byName.set(last.name, last)
      if (verbose) console.log(line)
    } else if (time && byName.has(time[2])) byName.get(time[2]).ms = Number(time[1])
    else if (/^1\.\.\d+/.test(line)) planned = Number(line.slice(3))
    else if (!/error: Failure!$|^# (not )?ok - unit$/.test(line)) comments.push(line.replace(/^# /, ''))
  }
  const argv = [env.SA_UNIT, ...(filter ? [filter] : [])]
  const end = await runProgram(argv, { env, onLine })
  result.rows.push(...byName.values())
  const failed = result.rows.some((row) => !row.ok)
  if (byName.size !== planned)
    fail(result, 'unit', `ended in the middle, after ${last?.name ?? 'nothing'}: ${planned} planned, ${byName.size} run`)
  else if (end.error || (end.code !== 0 && !failed && planned > 0))
    fail(result, 'unit', `the program failed after its tests: ${end.error ?? `status ${end.code}`}`)
}

// node's own runner over the *.test.mjs files of a folder, through tests/reporter.mjs.
async function runNode(result, suite, { filter, env, verbose }) {
  const folder = path.join(tests, suite.folder)
  const files = fs.existsSync(folder)
    ? fs.readdirSync(folder).filter((name) => name.endsWith('.test.mjs')).sort()
    : []
  if (files.length === 0) return fail(result, suite.folder, `no *.test.mjs in tests/${suite.folder}`)
  const onLine = (line) => {
    if (!line.startsWith('{')) return console.log(line)
    const row = JSON.parse(line)
    result.rows.push(row)
    if (verbose) console.log(`${row.ok ? 'ok' : 'not ok'} - ${row.name}`)
  }
  const argv = [
    process.execPath,
    '--test',
    '--import',
    path.join(tests, 'leave.mjs'),
    `--test-concurrency=${suite.concurrency ?? 4}`,
    `--test-timeout=${suite.timeoutMs ?? TEST_TIMEOUT_MS}`,
    `--test-reporter=${path.join(tests, 'reporter.mjs')}`,
    '--test-reporter-destination=stdout',
    ...(filter ? [`--test-name-pattern=${filter}`] : []),
    ...files.map((name) => path.join(folder, name)),
  ]
  const end = await runProgram(argv, { env, onLine })
  const failed = result.rows.some((row) => !row.ok)
  const seen = new Set(result.rows.map((row) => path.basename(row.file)))
  for (const name of files.filter((one) => !filter && !seen.has(one))) fail(result, name, 'the file has no test')
  if (end.error || (end.code !== 0 && !failed))
    fail(result, suite.folder, `node's runner failed: ${end.error ?? `status ${end.code}`}`)
}

function judge(result, filter) {
  for (const row of result.rows) {
    if (row.skip === undefined) continue
    row.ok = false
    row.fault = `skipped: ${row.skip}`
  }
  if (result.rows.length === 0 && !filter) fail(result, result.name, 'the suite ran no test')
  result.passed = result.rows.filter((row) => row.ok).length
  result.failed = result.rows.length - result.passed
  result.ms = performance.now() - result.startedMs
}

const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`

function printFailures(result) {
  for (const row of result.rows.filter((one) => !one.ok)) {
    console.log(`\nFAILED ${row.file}: ${row.name}`)
    console.log(String(row.fault ?? '').replace(/^/gm, '  '))
  }
}

function printSlow(results) {
  const rows = results.flatMap((result) => result.rows).filter((row) => row.ms >= SLOW_MS)
  rows.sort((a, b) => b.ms - a.ms)
  if (rows.length > 0) console.log('\nslowest tests:')
  for (const row of rows.slice(0, SLOW_SHOWN)) console.log(`  ${seconds(row.ms).padStart(8)}  ${row.file}: ${row.name}`)
}

function chosen(list) {
  if (!list) return Object.keys(suites).filter((name) => suites[name].default)
  const names = list.split(',')
  const unknown = names.find((name) => !suites[name])
  if (!unknown) return names
  console.error(`run.mjs: no suite '${unknown}' (${Object.keys(suites).join(', ')})`)
  process.exit(2)
}

async function main() {
  const { values } = parseArgs({
    options: { suite: { type: 'string' }, filter: { type: 'string' }, verbose: { type: 'boolean', default: false } },
  })
  const names = chosen(values.suite)
  const context = { filter: values.filter, verbose: values.verbose, env: environment() }
  const results = []
  for (const name of names) {
    const result = newResult(name)
    results.push(result)
    await suites[name].run(result, suites[name], context)
    judge(result, values.filter)
    console.log(`${name.padEnd(8)} ${result.passed} passed, ${result.failed} failed in ${seconds(result.ms)}`)
    printFailures(result)
  }
  printSlow(results)
  const passed = results.reduce((sum, result) => sum + result.passed, 0)
  const failed = results.reduce((sum, result) => sum + result.failed, 0)
  console.log(`${passed} passed, ${failed} failed`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
}

await main()
