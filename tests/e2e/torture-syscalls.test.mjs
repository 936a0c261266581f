// Every kind of system call fails for a while (strace injects the error). The server may refuse work
// meanwhile; it may not crash, lie, or stay broken afterwards.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import WebSocket from 'ws'
import { RELEASE, cleanEnv, start, tempDir } from '../api/lib/server.mjs'
import { call } from '../api/lib/http.mjs'
import { until, within } from '../api/lib/proc.mjs'
import { Raw, get, message } from '../api/lib/raw.mjs'
import { subscribe } from '../api/lib/sse.mjs'

const LIMIT = { timeout: 180_000 }
// The leak check needs ptrace for itself.
const TRACED = { ASAN_OPTIONS: 'detect_leaks=0:exitcode=99' }
const traced = (inject, ...more) => [
  'strace',
  '-D',
  '-f',
  '-qq',
  '-o',
  '/dev/null',
  '-e',
  `trace=${inject.split(':')[0]}`,
  '-e',
  `inject=${inject}`,
  ...more,
]

test('strace is there', LIMIT, () =>
  assert.match(execFileSync('strace', ['-V'], { encoding: 'utf8' }), /strace/),
)

async function workload(s, acked) {
  const soft = (promise) => promise.catch(() => null)
  for (let i = 0; i < 12; i++) {
    await soft(call(s.url, '/v1/health', { limitMs: 3000 }))
    await soft(call(s.url, '/test/echo', { json: { text: 'a' }, limitMs: 3000 }))
    await soft(call(s.url, '/test/stream?bytes=300000', { limitMs: 3000 }))
    await soft(
      call(s.url, '/test/sink', { method: 'POST', body: Buffer.alloc(200_000), limitMs: 3000 }),
    )
    await soft(call(s.url, '/test/sse?count=3&every=1', { limitMs: 3000 }))
    await soft(call(s.url, '/ui/', { limitMs: 3000 }))
    for (let k = 0; k < 5; k++) {
      const a = await soft(call(s.url, '/test/events?topic=f', { json: { i, k }, limitMs: 3000 }))
      if (a?.status === 200) acked.push(a.json.seq)
    }
    await soft(call(s.url, '/test/spawn', { method: 'POST', limitMs: 3000 }))
    const ws = new WebSocket(`${s.url.replace('http', 'ws')}/test/ws`)
    ws.on('error', () => {})
    await soft(
      within(once(ws, 'open'), 'open', 1000)
        .then(() => ws.send('x'))
        .then(() => within(once(ws, 'message'), 'echo', 1000)),
    )
    ws.terminate()
    const c = await soft(Raw.open(s.port))
    c?.send(message(['POST /test/sink HTTP/1.1', 'Host: localhost', 'Content-Length: 1000'], 'x'))
    c?.reset()
    const hang = await soft(Raw.open(s.port))
    hang?.send(get('/test/hang'))
    hang?.close()
  }
}

describe('while it runs', () => {
  // The numbers are calls per thread: past the start, then for a while, not all of them.
  // Left out: what the loop library itself answers with abort(), a failing epoll_ctl above all.
  const faults = [
    'accept4:error=EMFILE:when=3..40+2',
    'accept4:error=ECONNABORTED:when=3..40+2',
    'accept4:error=ENOBUFS:when=2..20+3',
    'read:error=EINTR:when=60..400+3',
    'sendmsg:error=EAGAIN:when=5..100+2',
    'sendmsg:error=EPIPE:when=5..100+5',
    'sendmsg:error=ENOBUFS:when=5..60+4',
    'shutdown:error=ENOTCONN:when=1..40+2',
    'setsockopt:error=EINVAL:when=4..60+2',
    'pwrite64:error=EIO:when=60..70+4',
    'pwrite64:error=ENOSPC:when=60..70+2',
    'pread64:error=EIO:when=20..60+9',
    'fdatasync:error=EIO:when=1..20+2',
    'clone3:error=EAGAIN:when=6..25',
    'vfork:error=EAGAIN:when=1..20',
  ]
  for (const fault of faults)
    test(`${fault}: served again afterwards, nothing acknowledged is lost`, LIMIT, async (t) => {
      const s = await start(t, { via: traced(fault), env: TRACED })
      const acked = []
      await workload(s, acked)
      let good = 0
      await until(
        async () => {
          const a = await call(s.url, '/v1/health', { limitMs: 2000 }).catch(() => null)
          good = a?.status === 200 ? good + 1 : 0
          return good >= 20
        },
        'twenty good answers in a row',
        60_000,
      )
      let last
      await until(
        async () => {
          last = await call(s.url, '/test/events?topic=f', {
            json: { last: true },
            limitMs: 5000,
          }).catch(() => null)
          return last?.status === 200
        },
        'an append that is acknowledged',
        60_000,
      )
      const sse = await subscribe(s.url, '/test/events?topic=f')
      await sse.atLeast(last.json.seq)
      sse.close()
      const ids = sse.events.map((event) => Number(event.id))
      assert.deepEqual(
        ids,
        ids.map((_, i) => i + 1),
      )
      for (const seq of acked) assert.ok(ids.includes(seq), `acknowledged ${seq}`)
      await s.stop()
    })
})

// Waits until a server listens, then stops it, or until it ends by itself.
async function outcome(child, what) {
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text))
  const end = once(child, 'exit')
  let over
  end.then(([code, signal]) => (over = { code, signal }))
  await until(() => over || /^ {2}api /m.test(out), `${what}: listening or over; ${err}`, 20_000)
  if (!over) child.kill('SIGTERM')
  const [code, signal] = await within(end, `${what}: the exit`, 20_000)
  return { code, signal, err, where: `${what}: exit ${code ?? signal}\n${err}` }
}

describe('while it starts', () => {
  // One call fails, each in turn: the server listens all the same, or says in one line why not.
  const calls = {
    openat: 'EMFILE',
    socket: 'EMFILE',
    bind: 'EACCES',
    listen: 'EADDRINUSE',
    mkdir: 'EACCES',
    pwrite64: 'ENOSPC',
    epoll_create1: 'EMFILE',
    eventfd2: 'EMFILE',
    fstat: 'EIO',
    newfstatat: 'EIO',
    fcntl: 'EINVAL',
    read: 'EIO',
    pread64: 'EIO',
    clone3: 'EAGAIN',
    setsockopt: 'EINVAL',
    getsockname: 'EINVAL',
    rename: 'EACCES',
    ftruncate: 'ENOSPC',
  }
  for (const [name, errno] of Object.entries(calls))
    test(`${name} fails with ${errno}, the 1st to the 12th time`, LIMIT, async (t) => {
      for (let n = 1; n <= 12; n++) {
        const dir = tempDir(t)
        const argv = traced(
          `${name}:error=${errno}:when=${n}`,
          RELEASE,
          'server',
          '--host',
          '127.0.0.1',
          '--port',
          '0',
        )
        const child = spawn(argv[0], argv.slice(1), {
          env: cleanEnv(dir),
          cwd: dir,
          stdio: ['ignore', 'pipe', 'pipe'],
        })
        t.after(() => child.kill('SIGKILL'))
        const { code, signal, err } = await outcome(child, `${name} ${n}`)
        const where = `call ${n}: exit ${code ?? signal}\n${err}`
        assert.equal(signal, null, where)
        assert.ok([0, 1].includes(code), where)
        if (code === 1) assert.match(err.trim(), /^[^\n]+$/, where)
      }
    })

  // The loop library makes its first pipe itself and aborts without it, so a single refusal is not
  // what is tried here but the real thing: a process that has too few descriptors.
  test('too few descriptors: it serves, or says in one line why not', LIMIT, async (t) => {
    let refused = 0
    for (let n = 4; n <= 24; n++) {
      const dir = tempDir(t)
      const child = spawn('/bin/sh', ['-c', `ulimit -n ${n}; exec "$0" server --port 0`, RELEASE], {
        env: cleanEnv(dir),
        cwd: dir,
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      t.after(() => child.kill('SIGKILL'))
      const seen = await outcome(child, `${n} descriptors`)
      assert.equal(seen.signal, null, seen.where)
      assert.ok([0, 1].includes(seen.code), seen.where)
      if (seen.code === 1) assert.match(seen.err.trim(), /^[^\n]+$/, seen.where)
      refused += seen.code
    }
    assert.ok(refused > 3, `refused ${refused} times`)
  })
})
