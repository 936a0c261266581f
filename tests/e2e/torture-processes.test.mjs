// 2000 processes with trees below them, ended in every way there is, while servers end or are
// killed. Every process of a tree has a mark in its arguments or works in a directory of its own:
// who is left is found in /proc, whoever its parent is by then. After SIGTERM nobody may be left;
// after SIGKILL the next server must find them.
import assert from 'node:assert/strict'
import http from 'node:http'
import { readFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { RELEASE, TESTD, start, tempDir } from '../api/lib/server.mjs'
import { call } from '../api/lib/http.mjs'
import { isAlive, openFds, until } from '../api/lib/proc.mjs'
import { generator } from '../api/lib/random.mjs'

const PROCESSES = Number(process.env.TORTURE_PROCESSES ?? 2000)
const SEED = Number(process.env.TORTURE_SEED ?? Date.now() % 2 ** 31)
const ROUNDS = 8 // of a server: half end with SIGTERM, half with SIGKILL
const CLIENTS = 24
const GONE_MS = 15_000

// Everybody who runs with the mark as one of its arguments, or in the directory.
function marked(mark, dir) {
  const found = []
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const argv = readFileSync(`/proc/${name}/cmdline`, 'latin1')
      const isOurs = argv.includes(mark) || readlinkSync(`/proc/${name}/cwd`) === dir
      if (isOurs && isAlive(Number(name))) found.push({ pid: Number(name), argv })
    } catch {
      // gone meanwhile
    }
  }
  return found
}
const said = (list) => list.map((p) => `${p.pid}: ${p.argv.replaceAll('\0', ' ')}`).join('\n')

// The trees. $0 is the mark, so that the shells carry it too. `nap` is a shell that keeps its
// arguments and has a sleep below it.
const TREES = {
  child: 'nap 300',
  group: 'nap 300 & nap 300 & wait',
  deep: 'sh -c "sh -c \\"exec ./nap 300 $0\\" $0 & wait" $0',
  daemon: 'setsid sh -c "env -i ./nap 300 $0 & env -i ./nap 300 $0 &" $0; nap 300',
  orphan: 'setsid sh -c "env -i setsid ./nap 300 $0 &" $0', // its leader is gone at once
  stubborn: 'trap "" TERM HUP; sh -c "trap \\"\\" TERM HUP; ./nap 300 $0" $0 & wait; nap 300',
  quick: 'nap 0 & wait',
  loud: 'nap 300 & while :; do echo "line after line of output"; done',
}
const NAP = '#!/bin/sh\n[ "$1" = 0 ] && exit 0\nwhile :; do sleep "$1"; done\n'

function script(tree) {
  return `nap() { ./nap "$1" "$0"; }\n${TREES[tree]}`
}

async function quietly(promise) {
  return promise.catch(() => null) // the server may be gone: that is the point
}

async function oneProcess(s, r, mark, agent, seen) {
  const tree = r.pick(Object.keys(TREES))
  const args = ['-c', script(tree), mark]
  const body = { command: 'sh', args, cwd: seen.dir, tty: r.chance(0.15) }
  const api = (path, options) =>
    quietly(call(s.url, `/v1/processes${path}`, { agent, limitMs: 20_000, ...options }))
  if (r.chance(0.25)) return oneRun(s, r, body, seen)
  const a = await api('', { json: body })
  if (!a) return
  if (a.status === 409) return void seen.full++
  assert.equal(a.status, 200, a.text)
  seen.made++
  const { id } = a.json
  const way = r.pick(['stop', 'kill', 'kill', 'follow', 'leave'])
  if (way === 'follow') await followAndLeave(s, id)
  if (way === 'leave') return // for the server's own end
  const verb = way === 'stop' ? 'stop' : 'kill'
  const end = await api(`/${id}/${verb}?waitMs=${r.below(300)}`, { method: 'POST' })
  if (!end) return
  if (end.status === 404) return // evicted
  assert.equal(end.status, 200, end.text)
  if (end.json.status === 'running') await api(`/${id}/kill?waitMs=5000`, { method: 'POST' })
  const gone = await api(`/${id}`, { method: 'DELETE' })
  if (gone) assert.ok([204, 404, 409].includes(gone.status), gone.text)
  seen.ended++
}

// A run, with a time-out, or with a client that does not wait for it.
async function oneRun(s, r, body, seen) {
  const isLeaving = r.chance(0.5)
  const json = JSON.stringify({ ...body, tty: undefined, timeoutMs: 30 + r.below(300) })
  const req = http.request(`${s.url}/v1/processes/run`, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) },
  })
  const answer = new Promise((done) => {
    req.on('response', (res) => {
      res.resume()
      res.on('close', () => done(res.statusCode))
    })
    req.on('error', () => done(0))
    req.on('close', () => done(0))
  })
  req.end(json)
  if (isLeaving) setTimeout(() => req.destroy(), r.below(100))
  const timer = setTimeout(() => req.destroy(new Error('no answer')), 20_000)
  const status = await answer
  clearTimeout(timer)
  assert.ok([0, 200, 409].includes(status), `run answered ${status}`)
  if (status !== 409) seen.made++
}

async function followAndLeave(s, id) {
  const req = http.get(`${s.url}/v1/processes/${id}/logs?follow=true`, { agent: false })
  await new Promise((done) => {
    req.on('response', (res) => {
      res.once('data', done)
      res.on('close', done)
      res.on('error', done)
    })
    req.on('error', done)
    setTimeout(done, 50)
  })
  req.destroy()
}

async function raiseLimit(s) {
  const a = await call(s.url, '/v1/processes/config')
  const json = { ...a.json, maxConcurrentProcesses: 400, maxLogBytesPerProcess: 200_000 }
  assert.equal((await call(s.url, '/v1/processes/config', { json })).status, 200)
}

// A part of the processes on one server, by several clients at once.
async function load(s, r, mark, count, seen) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS })
  let left = count
  const until = Date.now() + 20_000
  const client = async () => {
    while (left-- > 0 && Date.now() < until) await oneProcess(s, r, mark, agent, seen)
  }
  const all = Promise.all(Array.from({ length: CLIENTS }, client))
  // Half of the time the server ends under load, half of the time behind it.
  if (r.chance(0.5)) await all
  else await Promise.race([all, new Promise((done) => setTimeout(done, 200 + r.below(2500)))])
  return async () => {
    left = 0
    await all
    agent.destroy()
  }
}

const SERVERS = [
  ['release', RELEASE, 0.7],
  ['ASan', TESTD, 0.3],
]
for (const [name, bin, share] of SERVERS) {
  const count = Math.round(PROCESSES * share)
  test(`${count} trees, ${name}, seed ${SEED}`, { timeout: 300_000 }, async (t) => {
    const r = generator(SEED)
    const dataDir = tempDir(t)
    const dir = tempDir(t)
    const mark = `torture-${process.pid}-${name}-${SEED}`
    const left = () => marked(mark, dir)
    writeFileSync(join(dir, 'nap'), NAP, { mode: 0o755 })
    t.after(() => {
      for (const { pid } of left()) process.kill(pid, 'SIGKILL')
    })
    const seen = { dir, made: 0, ended: 0, full: 0 }
    let leftovers = 0
    for (let round = 0; round < ROUNDS; round++) {
      const s = await start(undefined, { bin, dataDir })
      await until(() => left().length === 0, 'gone', GONE_MS).catch(() => {
        const who = said(left())
        throw new Error(`seed ${SEED}, round ${round}: a new server does not end these:\n${who}`)
      })
      await raiseLimit(s)
      const finish = await load(s, r, mark, Math.ceil(count / ROUNDS), seen)
      if (round % 2) {
        await s.kill()
        await finish()
        leftovers += left().length
      } else {
        const end = s.stop()
        await finish()
        await end
        assert.equal(said(left()), '', `seed ${SEED}, round ${round}: left after SIGTERM`)
      }
    }
    const s = await start(undefined, { bin, dataDir })
    await until(() => left().length === 0, 'the last leftovers are ended', GONE_MS)
    assert.equal((await call(s.url, '/v1/processes')).json.processes.length, 0)
    assert.ok(openFds(s.pid) < 64, `${openFds(s.pid)} descriptors`)
    await s.stop()
    t.diagnostic(
      `${seen.made} made, ${seen.ended} ended by request, ${leftovers} left by SIGKILL and ended,` +
        ` ${seen.full} refused`,
    )
    assert.ok(seen.made > count / 2, `only ${seen.made} were made`)
    assert.ok(leftovers > 0, 'the servers that were killed left somebody to find')
  })
}
