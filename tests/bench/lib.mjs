// What every part of the bench uses: servers, requests, wrk, the kernel's figures, the table.
import { execFileSync, spawn } from 'node:child_process'
import { accessSync, chmodSync, constants, mkdtempSync, readFileSync, readdirSync } from 'node:fs'
import { rmSync, statSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import os from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { setTimeout as pause } from 'node:timers/promises'

const here = dirname(fileURLToPath(import.meta.url))
const root = resolve(here, '../..')
export const { values: flag } = parseArgs({
  options: {
    quick: { type: 'boolean' },
    strict: { type: 'boolean' },
    json: { type: 'string' },
    only: { type: 'string' },
  },
})
export const ROUNDS = flag.quick ? 2 : 5
export const SECONDS = flag.quick ? 1 : 3
export const TOKEN = 'bench-token-0123456789'
export const ORIGIN = 'http://bench.example'
export const SERVER_FLAGS = ['--token', TOKEN, '--cors-allow-origin', ORIGIN, '--no-telemetry']
export const AUTH = { authorization: `Bearer ${TOKEN}` }

export const BINARIES = {
  ours: process.env.SA_BIN ?? join(root, 'build/sandbox-agent'),
  peer:
    process.env.SA_PEER ??
    join(here, 'node_modules/@sandbox-agent/cli-linux-x64/bin/sandbox-agent'),
}
export const NAMES = Object.keys(BINARIES)
// Both orders in turn: a busy moment of the machine hits both.
export const namesOf = (round) => (round % 2 ? [...NAMES].reverse() : NAMES)

export const work = mkdtempSync(join(os.tmpdir(), 'sa-bench-'))
export const running = new Set()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
  rmSync(work, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130))

export class NotMeasured extends Error {}
export const must = (ok, why) => {
  if (!ok) throw new NotMeasured(why)
}
export const median = (list) => {
  const sorted = [...list].sort((a, b) => a - b)
  const half = sorted.length >> 1
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2
}

// Values by key, and their medians.
export class Seen {
  #lists = new Map()
  add(key, value) {
    if (!this.#lists.has(key)) this.#lists.set(key, [])
    this.#lists.get(key).push(value)
  }
  median(key) {
    must(this.#lists.has(key), `nothing was measured for ${key}`)
    return median(this.#lists.get(key))
  }
  both(what) {
    return NAMES.map((name) => this.median(`${name}/${what}`))
  }
}

// ---- what is needed ----

export function checkTools() {
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

export const probe = join(work, 'probe')
export function buildProbe() {
  const parts = readdirSync(here).filter((name) => /^probe.*\.c$/.test(name))
  const argv = ['-D_GNU_SOURCE', '-O2', '-Wall', '-Wextra', '-Wno-unused-parameter', '-o', probe]
  execFileSync('cc', [...argv, ...parts.map((name) => join(here, name))], { stdio: 'inherit' })
}

// Runs the probe to its end without blocking us, and answers the words of its line.
export async function runProbe(...argv) {
  const child = spawn(probe, argv.map(String), { stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text))
  const timer = setTimeout(() => child.kill('SIGKILL'), 120_000)
  const [code, signal] = await once(child, 'close')
  clearTimeout(timer)
  running.delete(child)
  must(code === 0, `probe ${argv[0]}: ${err.trim() || signal || `status ${code}`}`)
  return out.trim().split(' ')
}

// ---- servers ----

export async function freePort() {
  const s = net.createServer().listen(0, '127.0.0.1')
  await once(s, 'listening')
  const { port } = s.address()
  s.close()
  await once(s, 'close')
  return port
}

let dirs = 0
export function environment() {
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
const HERE = ['--host', '127.0.0.1']
export const argvOf = (port) => ['server', ...HERE, '--port', String(port), ...SERVER_FLAGS]

export async function startServer(name) {
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

export async function stopServer(server) {
  const gone = once(server.child, 'exit')
  server.child.kill('SIGTERM')
  const timer = setTimeout(() => server.child.kill('SIGKILL'), 15_000)
  await gone
  clearTimeout(timer)
}

export function request(server, path, headers = {}, method = 'GET', body = undefined) {
  return new Promise((done, fail) => {
    const req = http.request(server.url + path, { method, headers, agent: false }, (res) => {
      const parts = []
      res.on('data', (data) => parts.push(data))
      res.on('end', () => {
        const bytes = Buffer.concat(parts)
        done({ status: res.statusCode, headers: res.headers, bytes, body: bytes.toString() })
      })
      res.on('error', fail)
    })
    req.on('error', fail)
    req.setTimeout(20_000, () => req.destroy(new Error('no answer')))
    req.end(body)
  })
}
export async function ask(server, method, path, json) {
  const headers = { ...AUTH, ...(json === undefined ? {} : { 'content-type': 'application/json' }) }
  const a = await request(server, path, headers, method, json && JSON.stringify(json))
  must(a.status < 300, `${server.name}: ${method} ${path}: ${a.status} ${a.body.slice(0, 300)}`)
  return a.body ? JSON.parse(a.body) : undefined
}

// The peer leaves zeros at the end of a fraction of a second out, in threes; ours has nine digits.
const nanoseconds = (value) =>
  String(value).replace(
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?\+00:00$/,
    (_, seconds, digits = '') => `${seconds}.${digits.padEnd(9, '0')}+00:00`,
  )
// Every member that the peer sends must be in our answer, with the same value; ours may have more.
export function sameMembers(what, ours, peer, except = []) {
  if (Array.isArray(peer)) {
    must(ours.length === peer.length, `${what}: ${ours.length} items, the peer's ${peer.length}`)
    return peer.forEach((item, i) => sameMembers(`${what}[${i}]`, ours[i], item, except))
  }
  for (const [key, value] of Object.entries(peer)) {
    const isTime = key === 'modified'
    const [a, b] = [ours[key], value].map((v) => (isTime ? nanoseconds(v) : JSON.stringify(v)))
    must(except.includes(key) || a === b, `${what}: ${key} is ${a}, the peer's ${b}`)
  }
}

// ---- measuring ----

const cpuTicks = (pid) => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}
const TICK_US = 1e6 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
const statusOf = (pid, key) =>
  Number(
    readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm'))[1],
  ) * 1024
export const rss = (pid) => statusOf(pid, 'VmRSS')
export const peakRss = (pid) => statusOf(pid, 'VmHWM')
export const resetPeak = (pid) => writeFileSync(`/proc/${pid}/clear_refs`, '5')

function toMs(text) {
  const [, n, unit] = text.match(/^([\d.]+)(us|ms|s)$/) ?? []
  must(n, `wrk printed a time that cannot be read: ${text}`)
  return Number(n) * { us: 0.001, ms: 1, s: 1000 }[unit]
}

// A script makes requests that are not plain GETs; it gets the args.
export async function wrk(server, connections, path, { script, args = [] } = {}) {
  const argv = [
    ...['-t1', `-c${connections}`, `-d${SECONDS}s`, '--latency'],
    ...['-H', `Authorization: ${AUTH.authorization}`, '-H', `Origin: ${ORIGIN}`],
    ...(script ? ['-s', join(here, script)] : []),
    `${server.url}${path}`,
    ...(args.length ? ['--', ...args] : []),
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

// ---- the table ----

export const rows = []
// wanted: { min, max } of our figure, or { minRatio, maxRatio } of ours to the peer's (or to what
// the row's name says); with isEither one of the two is enough.
export function row(metric, unit, ours, peer, wanted = {}) {
  const ratio = peer === undefined ? undefined : ours / peer
  const target = [
    wanted.min !== undefined && `>= ${wanted.min}`,
    wanted.max !== undefined && `<= ${wanted.max}`,
    wanted.minRatio !== undefined && `>= ${wanted.minRatio}x`,
    wanted.maxRatio !== undefined && `<= ${wanted.maxRatio}x`,
  ]
    .filter(Boolean)
    .join(wanted.isEither ? ' or ' : ', ')
  const misses = [
    ours < wanted.min,
    ours > wanted.max,
    ratio < wanted.minRatio,
    ratio > wanted.maxRatio,
  ].filter(Boolean).length
  const isOk = misses <= (wanted.isEither ? 1 : 0)
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

export function printTable() {
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
