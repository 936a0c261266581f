// The server itself: requests per second, start, memory, connections.
import { execFileSync, spawn } from 'node:child_process'
import { statSync } from 'node:fs'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { AUTH, BINARIES, NAMES, ORIGIN, ROUNDS, Seen, TOKEN, argvOf, environment } from './lib.mjs'
import { flag, freePort, median, must, namesOf, probe, request, row, rss, running } from './lib.mjs'
import { startServer, stopServer, wrk } from './lib.mjs'

const STARTS = flag.quick ? 3 : 5 // per round
const CONNECTIONS = [32, 256]
const IDLE_CONNS = 1000
const HELD_CONNS = 10_000

// ---- the answers, before the clock starts ----

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

async function measureLoad(servers) {
  const seen = new Seen()
  for (const c of CONNECTIONS) for (const name of NAMES) await wrk(servers[name], c, '/v1/health') // warm
  for (let round = 0; round < ROUNDS; round++)
    for (const c of CONNECTIONS)
      for (const name of namesOf(round))
        for (const [what, value] of Object.entries(await wrk(servers[name], c, '/v1/health')))
          seen.add(`${name}/${c}/${what}`, value)
  return (c, what) => seen.both(`${c}/${what}`)
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

async function measureStart() {
  const took = Object.fromEntries(NAMES.map((name) => [name, []]))
  for (let i = 0; i < ROUNDS * STARTS; i++)
    for (const name of namesOf(i)) {
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

async function holdIdle(server, n, fn) {
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

async function measureMemory() {
  const idle = Object.fromEntries(NAMES.map((name) => [name, []]))
  const perConn = Object.fromEntries(NAMES.map((name) => [name, []]))
  for (let round = 0; round < ROUNDS; round++)
    for (const name of NAMES) {
      const server = await startServer(name)
      const before = rss(server.pid)
      idle[name].push(before / 1e6)
      const alive = await holdIdle(server, IDLE_CONNS, () =>
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

async function measureHeld() {
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
  const alive = await holdIdle(server, HELD_CONNS, async () => {
    isServing = (await request(server, '/v1/health', AUTH)).status === 200
  })
  await stopServer(server)
  return isServing ? alive : 0
}

export async function benchServer() {
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
  const start = await measureStart()
  const memory = await measureMemory()
  const held = await measureHeld()

  for (const c of CONNECTIONS) {
    const both = (what) => load(c, what)
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
}
