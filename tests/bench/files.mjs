// Files: small requests, a big file down and up, a long listing.
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs'
import { writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { AUTH, NAMES, ROUNDS, Seen, TOKEN, flag, must, namesOf, peakRss } from './lib.mjs'
import { request, resetPeak, row, rss, runProbe, sameMembers, startServer } from './lib.mjs'
import { stopServer, work, wrk } from './lib.mjs'

const CONNECTIONS = 32
const SMALL = 1024
const BIG = 256 * 1024 * 1024
const ENTRIES = 20_000
const LISTINGS = flag.quick ? 5 : 15 // per round
const MiB = 1024 * 1024
const url = (endpoint, path) => `/v1/fs/${endpoint}?path=${encodeURIComponent(path)}`

function makeFiles() {
  const dir = join(work, 'files')
  const at = { dir, small: join(dir, 'small'), big: join(dir, 'big'), many: join(dir, 'many') }
  mkdirSync(at.many, { recursive: true })
  writeFileSync(at.small, randomBytes(SMALL))
  const fd = openSync(at.big, 'w')
  for (let have = 0; have < BIG; have += 8 * MiB) writeSync(fd, randomBytes(8 * MiB))
  closeSync(fd)
  for (let i = 0; i < ENTRIES; i++) writeFileSync(join(at.many, `entry-${i}.txt`), '')
  for (const name of NAMES) mkdirSync(join(dir, name))
  return at
}

async function compareFiles(servers, at) {
  const get = (name, path) => request(servers[name], path, AUTH)
  const [ours, peer] = await Promise.all(NAMES.map((name) => get(name, url('file', at.small))))
  for (const a of [ours, peer]) must(a.bytes.equals(readFileSync(at.small)), 'a file read wrongly')
  sameMembers('GET file', ours.headers, peer.headers, ['date', 'connection', 'keep-alive'])
  const json = async (path) =>
    Promise.all(NAMES.map(async (name) => JSON.parse((await get(name, path)).body)))
  sameMembers('stat', ...(await json(url('stat', at.small))))
  const byName = (list) => list.sort((a, b) => (a.name < b.name ? -1 : 1))
  sameMembers('entries', ...(await json(url('entries', at.many))).map(byName))
  const target = join(at.dir, 'written')
  const wrote = []
  for (const name of NAMES) {
    const a = await request(servers[name], url('file', target), AUTH, 'PUT', `by ${name}`)
    wrote.push(JSON.parse(a.body))
    must(readFileSync(target, 'utf8') === `by ${name}`, `${name} wrote something else`)
  }
  sameMembers('PUT file', ...wrote)
  console.log('answers: file, stat, entries and PUT compared, every member of the peer equal')
}

async function measureSmall(servers, at, seen) {
  const put = { script: 'put.lua' }
  const jobs = [
    ['read', () => [url('file', at.small)]],
    ['stat', () => [url('stat', at.small)]],
    ['write', (name) => ['/', { ...put, args: [url('file', join(at.dir, name, 'w'))] }]],
  ]
  for (let round = -1; round < ROUNDS; round++)
    for (const [what, argsOf] of jobs)
      for (const name of namesOf(round)) {
        const a = await wrk(servers[name], CONNECTIONS, ...argsOf(name))
        if (round < 0) continue // warm
        seen.add(`${name}/${what}`, a.rate)
        seen.add(`${name}/${what}/cpu`, a.cpu)
      }
}

async function measureDownload(servers, at, seen) {
  const whole = createHash('sha256').update(readFileSync(at.big)).digest('hex')
  const a = await request(servers.ours, url('file', at.big), AUTH)
  const got = createHash('sha256').update(a.bytes).digest('hex')
  must(got === whole, 'our download of the big file differs')
  for (let round = 0; round < ROUNDS; round++)
    for (const name of namesOf(round)) {
      const { port, pid } = servers[name]
      const before = rss(pid)
      resetPeak(pid)
      const [us, bytes] = await runProbe('get', port, TOKEN, url('file', at.big), 1)
      must(Number(bytes) === BIG, `${name} sent ${bytes} of ${BIG} bytes`)
      seen.add(`${name}/down`, BIG / Number(us))
      seen.add(`${name}/down/peak`, peakRss(pid) / 1e6)
      seen.add(`${name}/down/growth`, Math.max(0, peakRss(pid) - before) / MiB)
    }
}

// What a copy on the same disk costs, in the same minute.
function copy(from, to) {
  const start = process.hrtime.bigint()
  execFileSync('cp', [from, to])
  return Number(process.hrtime.bigint() - start) / 1000
}

async function measureUpload(servers, at, seen) {
  const target = join(at.dir, 'target')
  const { port, pid } = servers.ours
  const steps = {
    up: async () => Number((await runProbe('put', port, TOKEN, url('file', target), at.big))[0]),
    cp: async () => copy(at.big, target),
  }
  for (let round = 0; round < ROUNDS; round++)
    for (const what of round % 2 ? ['cp', 'up'] : ['up', 'cp']) {
      const before = rss(pid)
      resetPeak(pid)
      seen.add(what, BIG / (await steps[what]()))
      if (what === 'up') seen.add('up/growth', Math.max(0, peakRss(pid) - before) / MiB)
      execFileSync('cmp', [at.big, target])
      rmSync(target)
    }
}

async function measureListing(servers, at, seen) {
  for (let round = 0; round < ROUNDS; round++)
    for (const name of namesOf(round)) {
      const { port } = servers[name]
      const [us] = await runProbe('get', port, TOKEN, url('entries', at.many), LISTINGS)
      seen.add(`${name}/list`, Number(us) / 1000)
    }
}

export async function benchFiles() {
  const at = makeFiles()
  const seen = new Seen()
  const servers = {}
  for (const name of NAMES) servers[name] = await startServer(name)
  await compareFiles(servers, at)
  await measureDownload(servers, at, seen)
  await measureUpload(servers, at, seen)
  await measureListing(servers, at, seen)
  await measureSmall(servers, at, seen)
  for (const name of NAMES) await stopServer(servers[name])

  for (const [what, minRatio] of Object.entries({ read: 3, stat: 3, write: 2 })) {
    const text = `file ${what}${what === 'stat' ? '' : ', 1 KiB'}, ${CONNECTIONS} connections`
    row(text, 'requests/s', ...seen.both(what), { minRatio })
    row(`${text}, CPU`, 'us/request', ...seen.both(`${what}/cpu`))
  }
  row('download of 256 MiB', 'MB/s', ...seen.both('down'), { minRatio: 1.1 })
  row('download, peak RSS', 'MB', ...seen.both('down/peak'), { maxRatio: 0.1 })
  row('download, growth of RSS', 'MiB', seen.median('ours/down/growth'), undefined, { max: 8 })
  const upload = { min: 500, minRatio: 0.6, isEither: true }
  row('upload of 256 MiB, to cp', 'MB/s', seen.median('up'), seen.median('cp'), upload)
  row('upload, growth of RSS', 'MiB', seen.median('up/growth'), undefined, { max: 8 })
  row(`listing of ${ENTRIES} entries`, 'ms', ...seen.both('list'), { max: 40 })
}
