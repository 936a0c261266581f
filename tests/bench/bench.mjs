// Ours and the peer in one run, with the same flags, compared before they are timed.
//
//   node tests/bench/bench.mjs [--quick] [--strict] [--json FILE]
//
// docs/bench.md says how to read the table. SA_BIN and SA_PEER name other binaries.
import { execFileSync, spawn } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  constants,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import os from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { setTimeout as pause } from 'node:timers/promises'

const here = dirname(fileURLToPath(import.meta.url))
const root = resolve(here, '../..')
const { values: flag } = parseArgs({
  options: { quick: { type: 'boolean' }, strict: { type: 'boolean' }, json: { type: 'string' } },
})
const ROUNDS = flag.quick ? 2 : 5
const SECONDS = flag.quick ? 1 : 3
const STARTS = flag.quick ? 3 : 5 // per round
const CONNECTIONS = [32, 256]
const IDLE_CONNS = 1000
const HELD_CONNS = 10_000
const TOKEN = 'bench-token-0123456789'
const ORIGIN = 'http://bench.example'
const SERVER_FLAGS = ['--token', TOKEN, '--cors-allow-origin', ORIGIN, '--no-telemetry']

const BINARIES = {
  ours: process.env.SA_BIN ?? join(root, 'build/sandbox-agent'),
  peer:
    process.env.SA_PEER ??
    join(here, 'node_modules/@sandbox-agent/cli-linux-x64/bin/sandbox-agent'),
}
const NAMES = Object.keys(BINARIES)

const work = mkdtempSync(join(os.tmpdir(), 'sa-bench-'))
const running = new Set()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
  rmSync(work, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130))

class NotMeasured extends Error {}
const must = (ok, why) => {
  if (!ok) throw new NotMeasured(why)
}
const median = (list) => {
  const sorted = [...list].sort((a, b) => a - b)
  const half = sorted.length >> 1
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2
}

// ---- what is needed ----

function checkTools() {
  try {
    execFileSync('wrk', ['-v'], { stdio: 'ignore' })
  } catch (error) {
    must(error.code !== 'ENOENT', 'wrk is not installed (Debian package wrk)')
  }
  try {
    statSync(BINARIES.ours)
  } catch {
    throw new NotMeasured(`no binary at ${BINARIES.ours}: run make build`)
  }
  try {
    chmodSync(BINARIES.peer, 0o755) // the npm archive does not carry the x bit
    accessSync(BINARIES.peer, constants.X_OK)
  } catch {
    throw new NotMeasured('the peer is not installed: npm ci --prefix tests/bench')
  }
}

function buildProbe() {
  const out = join(work, 'probe')
  execFileSync('cc', ['-O2', '-Wall', '-Wextra', '-o', out, join(here, 'probe.c')], {
    stdio: 'inherit',
  })
  return out
}

// ---- servers ----

async function freePort() {
  const s = net.createServer().listen(0, '127.0.0.1')
  await once(s, 'listening')
  const { port } = s.address()
  s.close()
  await once(s, 'close')
  return port
}

let dirs = 0
function environment() {
  const dir = join(work, `data-${++dirs}`)
  return {
    dir,
    env: {
      PATH: process.env.PATH,
      HOME: dir,
      XDG_DATA_HOME: dir,
      XDG_STATE_HOME: join(dir, 'state'),
    },
  }
}
const argvOf = (port) => ['server', '--host', '127.0.0.1', '--port', String(port), ...SERVER_FLAGS]

async function startServer(name) {
  const port = await freePort()
  const { dir, env } = environment()
  const script = 'ulimit -n "$(ulimit -Hn)"; mkdir -p "$HOME"; exec "$0" "$@"'
  const child = spawn('/bin/sh', ['-c', script, BINARIES[name], ...argvOf(port)], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  running.add(child)
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (said += text))
  child.on('exit', () => running.delete(child))
  const server = { name, port, dir, child, pid: child.pid, url: `http://127.0.0.1:${port}` }
  for (let tries = 0; ; tries++) {
    must(child.exitCode === null && tries < 400, `${name} did not start: ${said}`)
    const a = await request(server, '/v1/health', { authorization: `Bearer ${TOKEN}` }).catch(
      () => null,
    )
    if (a?.status === 200) return server
    await pause(25)
  }
}

async function stopServer(server) {
  const gone = once(server.child, 'exit')
  server.child.kill('SIGTERM')
  const timer = setTimeout(() => server.child.kill('SIGKILL'), 15_000)
  await gone
  clearTimeout(timer)
}

function request(server, path, headers = {}, method = 'GET') {
  return new Promise((done, fail) => {
    const req = http.request(server.url + path, { method, headers, agent: false }, (res) => {
      const parts = []
      res.on('data', (data) => parts.push(data))
      res.on('end', () =>
        done({
          status: res.statusCode,
          headers: res.headers,
          body: Buffer.concat(parts).toString(),
        }),
      )
      res.on('error', fail)
    })
    req.on('error', fail)
    req.setTimeout(5000, () => req.destroy(new Error('no answer')))
    req.end()
  })
}

// ---- the answers, before the clock starts ----

const AUTH = { authorization: `Bearer ${TOKEN}` }
const QUESTIONS = [
  ['GET /v1/health', '/v1/health', { ...AUTH, origin: ORIGIN }],
  [
    'GET /v1/health from a foreign origin',
    '/v1/health',
    { ...AUTH, origin: 'http://other.example' },
  ],
  ['GET /v1/health without a token', '/v1/health', { origin: ORIGIN }],
  ['GET /', '/', { origin: ORIGIN }],
  ['GET /nowhere', '/nowhere', { ...AUTH, origin: ORIGIN }],
  [
    'OPTIONS /v1/health',
    '/v1/health',
    { origin: ORIGIN, 'access-control-request-method': 'GET' },
    'OPTIONS',
  ],
]
// The moment and the connection differ from answer to answer by nature.
const shape = ({ headers }) =>
  Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => !['connection', 'keep-alive'].includes(name))
      .map(([name, value]) => [name, name === 'date' ? '(any)' : value]),
  )

async function compareAnswers(servers) {
  const extra = new Set()
  for (const [name, path, headers, method] of QUESTIONS) {
    const [ours, peer] = await Promise.all(
      NAMES.map((n) => request(servers[n], path, headers, method)),
    )
    must(ours.status === peer.status, `${name}: status ${ours.status}, the peer's ${peer.status}`)
    must(
      ours.body === peer.body,
      `${name}: body ${JSON.stringify(ours.body)}, the peer's ${JSON.stringify(peer.body)}`,
    )
    const [mine, theirs] = [shape(ours), shape(peer)]
    for (const [header, value] of Object.entries(theirs))
      must(
        mine[header] === value,
        `${name}: header ${header}: ${mine[header]}, the peer's ${value}`,
      )
    for (const header of Object.keys(mine)) if (!(header in theirs)) extra.add(header)
  }
  console.log(
    `answers: ${QUESTIONS.length} compared, status, body and headers equal` +
      (extra.size ? `; ours also sends ${[...extra].join(', ')}` : ''),
  )
}

// ---- measuring ----

const cpuTicks = (pid) => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}
const TICK_US = 1e6 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
const rss = (pid) =>
  Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+) kB/m)[1]) * 1024

function toMs(text) {
  const [, n, unit] = text.match(/^([\d.]+)(us|ms|s)$/) ?? []
  must(n, `wrk printed a time that cannot be read: ${text}`)
  return Number(n) * { us: 0.001, ms: 1, s: 1000 }[unit]
}

async function wrk(server, connections) {
  const argv = [
    '-t1',
    `-c${connections}`,
    `-d${SECONDS}s`,
    '--latency',
    '-H',
    `Authorization: ${AUTH.authorization}`,
    '-H',
    `Origin: ${ORIGIN}`,
    `${server.url}/v1/health`,
  ]
  const before = cpuTicks(server.pid)
  const child = spawn('wrk', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  running.add(child)
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (part) => (text += part))
  await once(child, 'close')
  running.delete(child)
  const pick = (pattern) => text.match(pattern)?.[1]
  must(pick(/Requests\/sec:\s+([\d.]+)/), `wrk failed on ${server.name}:\n${text}`)
  must(!/Non-2xx|Socket errors/.test(text), `${server.name} answered wrongly under load:\n${text}`)
  const requests = Number(pick(/(\d+) requests in/))
  return {
    rate: Number(pick(/Requests\/sec:\s+([\d.]+)/)),
    p50: toMs(pick(/^\s+50%\s+(\S+)/m)),
    p99: toMs(pick(/^\s+99%\s+(\S+)/m)),
    cpu: ((cpuTicks(server.pid) - before) * TICK_US) / requests,
  }
}

async function measureLoad(servers) {
  const seen = {}
  const key = (name, c, what) => (seen[`${name}/${c}/${what}`] ??= [])
  for (const c of CONNECTIONS) for (const name of NAMES) await wrk(servers[name], c) // warm
  for (let round = 0; round < ROUNDS; round++)
    for (const c of CONNECTIONS)
      for (const name of round % 2 ? [...NAMES].reverse() : NAMES)
        for (const [what, value] of Object.entries(await wrk(servers[name], c)))
          key(name, c, what).push(value)
  return (name, c, what) => median(seen[`${name}/${c}/${what}`])
}

// Lines that the load left in the log: proof that logging was on while it ran.
function logLines(server) {
  const find = execFileSync('find', [server.dir, '-path', '*logs*', '-type', 'f'], {
    encoding: 'utf8',
  })
    .split('\n')
    .filter(Boolean)
  return find.reduce(
    (n, file) => n + Number(execFileSync('wc', ['-l', file], { encoding: 'utf8' }).split(' ')[0]),
    0,
  )
}

async function measureStart(probe) {
  const took = Object.fromEntries(NAMES.map((name) => [name, []]))
  for (let i = 0; i < ROUNDS * STARTS; i++)
    for (const name of i % 2 ? [...NAMES].reverse() : NAMES) {
      const port = await freePort()
      const { dir, env } = environment()
      execFileSync('mkdir', ['-p', dir])
      const us = execFileSync(
        probe,
        ['start', String(port), TOKEN, BINARIES[name], ...argvOf(port)],
        { env, stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' },
      )
      took[name].push(Number(us) / 1000)
    }
  return (name) => median(took[name])
}

async function holdIdle(probe, server, n, fn) {
  const child = spawn(probe, ['idle', String(server.port), TOKEN, String(n)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  running.add(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const closed = once(child, 'close')
  const ready = await lines.next()
  must(ready.value === `ready ${n}`, `${server.name} did not take ${n} connections`)
  await fn()
  child.stdin.end()
  const alive = Number((await lines.next()).value?.split(' ')[1])
  await closed
  running.delete(child)
  return alive
}

async function measureMemory(probe) {
  const idle = Object.fromEntries(NAMES.map((name) => [name, []]))
  const perConn = Object.fromEntries(NAMES.map((name) => [name, []]))
  for (let round = 0; round < ROUNDS; round++)
    for (const name of NAMES) {
      const server = await startServer(name)
      const before = rss(server.pid)
      idle[name].push(before / 1e6)
      const alive = await holdIdle(probe, server, IDLE_CONNS, () =>
        perConn[name].push((rss(server.pid) - before) / IDLE_CONNS / 1024),
      )
      must(
        alive === IDLE_CONNS,
        `${name} closed ${IDLE_CONNS - alive} of ${IDLE_CONNS} idle connections`,
      )
      await stopServer(server)
    }
  return { idle: (name) => median(idle[name]), perConn: (name) => median(perConn[name]) }
}

async function measureHeld(probe) {
  const files = Number(
    execFileSync('/bin/sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).replace(
      'unlimited',
      '1000000',
    ),
  )
  must(
    files >= HELD_CONNS + 200,
    `the hard limit of open files is ${files}: ${HELD_CONNS} connections cannot be tried`,
  )
  const server = await startServer('ours')
  let isServing = false
  const alive = await holdIdle(probe, server, HELD_CONNS, async () => {
    isServing = (await request(server, '/v1/health', AUTH)).status === 200
  })
  await stopServer(server)
  return isServing ? alive : 0
}

// ---- the table ----

const rows = []
// wanted: { min, max } of our figure, or { minRatio, maxRatio } of ours to the peer's.
function row(metric, unit, ours, peer, wanted = {}) {
  const ratio = peer === undefined ? undefined : ours / peer
  const target = [
    wanted.min !== undefined && `>= ${wanted.min}`,
    wanted.max !== undefined && `<= ${wanted.max}`,
    wanted.minRatio !== undefined && `>= ${wanted.minRatio}x`,
    wanted.maxRatio !== undefined && `<= ${wanted.maxRatio}x`,
  ]
    .filter(Boolean)
    .join(', ')
  const isOk = !(
    ours < wanted.min ||
    ours > wanted.max ||
    ratio < wanted.minRatio ||
    ratio > wanted.maxRatio
  )
  rows.push({
    metric,
    unit,
    ours,
    peer,
    ratio,
    target,
    verdict: target ? (isOk ? 'ok' : 'MISS') : '',
  })
}
const figure = (n) => (n === undefined ? '-' : Math.abs(n) >= 1000 ? n.toFixed(0) : n.toFixed(2))

function printTable() {
  const cells = rows.map((r) => [
    `${r.metric} [${r.unit}]`,
    figure(r.ours),
    figure(r.peer),
    r.ratio === undefined ? '-' : `${r.ratio.toFixed(3)}x`,
    r.target || '-',
    r.verdict || '-',
  ])
  const table = [['metric', 'ours', 'peer', 'ratio', 'target', ''], ...cells]
  const width = table[0].map((_, i) => Math.max(...table.map((line) => line[i].length)))
  console.log()
  for (const line of table)
    console.log(
      line
        .map((cell, i) => (i === 0 || i > 3 ? cell.padEnd(width[i]) : cell.padStart(width[i])))
        .join('  ')
        .trimEnd(),
    )
  console.log()
}

const versionOf = (name) => execFileSync(BINARIES[name], ['--version'], { encoding: 'utf8' }).trim()

async function main() {
  checkTools()
  const probe = buildProbe()
  console.log(`ours: ${versionOf('ours')}; peer: ${versionOf('peer')}`)
  console.log(
    `flags: server ${SERVER_FLAGS.join(' ').replace(TOKEN, '…')}; requests carry Authorization and Origin;` +
      ' logs go to files; the store is on, as by default',
  )
  console.log(
    `machine: ${os.cpus().length} x ${os.cpus()[0].model}; load ${os
      .loadavg()
      .map((n) => n.toFixed(1))
      .join(' ')};` + ` ${ROUNDS} rounds, interleaved, medians; wrk -t1 -d${SECONDS}s`,
  )

  const servers = {}
  for (const name of NAMES) servers[name] = await startServer(name)
  await compareAnswers(servers)
  const load = await measureLoad(servers)
  for (const name of NAMES) {
    const lines = logLines(servers[name])
    must(lines > 1000, `${name} wrote ${lines} log lines: logging was not on`)
    console.log(`log of ${name}: ${lines} lines`)
    await stopServer(servers[name])
  }
  const start = await measureStart(probe)
  const memory = await measureMemory(probe)
  const held = await measureHeld(probe)

  for (const c of CONNECTIONS) {
    const both = (what) => NAMES.map((name) => load(name, c, what))
    row(`health, ${c} connections`, 'requests/s', ...both('rate'), { minRatio: 3 })
    row(`health, ${c} connections, p50`, 'ms', ...both('p50'))
    row(`health, ${c} connections, p99`, 'ms', ...both('p99'), c === 256 ? { maxRatio: 0.2 } : {})
    row(`health, ${c} connections, CPU`, 'us/request', ...both('cpu'))
  }
  row('exec to first 200', 'ms', ...NAMES.map(start), { max: 10 })
  row('idle RSS', 'MB', ...NAMES.map(memory.idle), { max: 5 })
  row(`RSS per idle connection (${IDLE_CONNS})`, 'KiB', ...NAMES.map(memory.perConn), { max: 4 })
  row('idle connections held', 'connections', held, undefined, { min: HELD_CONNS })
  row('static binary', 'MB', ...NAMES.map((name) => statSync(BINARIES[name]).size / 1e6), {
    max: 12,
  })
  printTable()
  if (flag.json)
    writeFileSync(
      flag.json,
      `${JSON.stringify({ flags: SERVER_FLAGS.filter((f) => f !== TOKEN), rows }, null, 2)}\n`,
    )
  const missed = rows.filter((r) => r.verdict === 'MISS').length
  console.log(
    missed
      ? `${missed} of ${rows.filter((r) => r.target).length} targets missed`
      : 'every target met',
  )
  return missed && flag.strict ? 1 : 0
}

try {
  process.exitCode = await main()
} catch (error) {
  console.error(error instanceof NotMeasured ? `bench: not measured: ${error.message}` : error)
  process.exitCode = 1
}
