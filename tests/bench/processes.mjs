// Processes: a run, a log that is followed at full speed, a key through a terminal.
import { NAMES, ROUNDS, Seen, TOKEN, ask, flag, must, namesOf, probe, row } from './lib.mjs'
import { runProbe, sameMembers, startServer, stopServer } from './lib.mjs'
import { setTimeout as pause } from 'node:timers/promises'

const RUNS = flag.quick ? 100 : 300 // per round
const KEYS = flag.quick ? 1000 : 3000
const LINES = flag.quick ? 500_000 : 2_000_000
const WIDTH = 100

async function compareRuns(servers) {
  const body = { command: 'sh', args: ['-c', 'echo out; echo err >&2; exit 3'] }
  const [ours, peer] = await Promise.all(
    NAMES.map((name) => ask(servers[name], 'POST', '/v1/processes/run', body)),
  )
  sameMembers('run', ours, peer, ['durationMs'])
  console.log('answers: run compared, every member of the peer equal but durationMs')
}

async function measureRun(servers, seen) {
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of namesOf(round))
      seen.add(`${name}/run`, Number((await runProbe('run', servers[name].port, TOKEN, RUNS))[0]))
    seen.add('spawn', Number((await runProbe('spawn', RUNS))[0]))
  }
}

const create = (server, args, tty = false) =>
  ask(server, 'POST', '/v1/processes', { command: probe, args: args.map(String), tty })

// Answers how many lines were lost, all rounds together.
async function measureFollow(server, seen) {
  let lost = 0
  for (let round = 0; round < ROUNDS; round++) {
    const { id } = await create(server, ['lines', LINES, WIDTH])
    const argv = ['follow', server.port, TOKEN, id, LINES, WIDTH]
    const [lines, gaps, seconds, verdict] = await runProbe(...argv)
    must(verdict === 'right', `line ${lines} of the log is not the one that was written`)
    lost += LINES - Number(lines) + Number(gaps)
    seen.add('follow', (LINES * WIDTH) / Number(seconds) / 1e6)
  }
  return lost
}

// A program that echoes by itself in raw mode: what a shell's line editor does.
async function echoProcess(server) {
  const { id } = await create(server, ['rawcat'], true)
  for (let tries = 0; ; tries++) {
    must(tries < 500, `${server.name}: the program in the terminal does not start`)
    const { entries } = await ask(server, 'GET', `/v1/processes/${id}/logs`)
    if (entries.length) return id
    await pause(10)
  }
}

async function measureEcho(servers, seen) {
  const ids = {}
  for (const name of NAMES) ids[name] = await echoProcess(servers[name])
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of namesOf(round)) {
      const [us] = await runProbe('echo', servers[name].port, TOKEN, ids[name], KEYS)
      seen.add(`${name}/echo`, Number(us))
    }
    const [pty, tcp] = (await runProbe('floor', KEYS)).map(Number)
    seen.add('floor', pty + tcp)
  }
  for (const name of NAMES) await ask(servers[name], 'POST', `/v1/processes/${ids[name]}/kill`)
}

export async function benchProcesses() {
  const seen = new Seen()
  const servers = {}
  for (const name of NAMES) servers[name] = await startServer(name)
  await compareRuns(servers)
  await measureRun(servers, seen)
  await measureEcho(servers, seen)
  const lost = await measureFollow(servers.ours, seen)
  for (const name of NAMES) await stopServer(servers[name])

  const [run, peerRun] = seen.both('run')
  const [key, peerKey] = seen.both('echo')
  const size = `${LINES} lines, ${(LINES * WIDTH) / 1e6} MB`
  row('run /bin/true, p50', 'us', run, peerRun)
  row('the same to a bare posix_spawn', 'us', run, seen.median('spawn'), { maxRatio: 1.25 })
  row('key through a terminal, p50', 'us', key, peerKey)
  row('the same to a bare pty and TCP', 'us', key, seen.median('floor'), { maxRatio: 2 })
  row(`follow of ${size}`, 'MB/s', seen.median('follow'), undefined, { min: 150 })
  row('follow, lines lost', 'lines', lost, undefined, { max: 0 })
}
