// POST /v1/processes/run: one process, its output, its end, and nobody left behind.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { SandboxAgent } from 'sandbox-agent'
import { start, tempDir } from './lib/server.mjs'
import { call } from './lib/http.mjs'
import { isAlive, until, within } from './lib/proc.mjs'
import { Raw, postJson } from './lib/raw.mjs'
import { conflict, invalid, run, sh } from './lib/processes.mjs'

const LIMIT = { timeout: 60_000 }
let server
before(async () => (server = await start()))
after(() => server.stop())

async function result(body) {
  const r = await run(server, body)
  assert.equal(r.status, 200, r.text)
  return r.json
}
const fileText = (path) => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
const pidFrom = async (path) =>
  Number(await until(() => fileText(path).match(/^(\d+)\n/)?.[1], `a number in ${path}`))
const isGone = (pid) => until(() => !isAlive(pid), `process ${pid} is gone`)

test('members and their order', LIMIT, async () => {
  const r = await run(server, { command: 'echo', args: ['hi'] })
  const { durationMs } = r.json
  assert.equal(
    r.text,
    '{"exitCode":0,"timedOut":false,"stdout":"hi\\n","stderr":"","stdoutTruncated":false,' +
      `"stderrTruncated":false,"durationMs":${durationMs}}`,
  )
  assert.ok(durationMs >= 0 && durationMs < 10_000)
})
test('exit code, both streams, cwd and env', LIMIT, async () => {
  const r = await result(sh('pwd; echo "$A" >&2; exit 9', { cwd: '/', env: { A: 'b' } }))
  assert.deepEqual([r.exitCode, r.stdout, r.stderr], [9, '/\n', 'b\n'])
})
test('a run leaves no record', LIMIT, async (t) => {
  const s = await start(t)
  await run(s, { command: 'true' })
  assert.deepEqual((await call(s.url, '/v1/processes')).json.processes, [])
})
test('stdin is empty: cat returns at once', LIMIT, async () => {
  const r = await result({ command: 'cat', timeoutMs: 20_000 })
  assert.deepEqual([r.exitCode, r.timedOut], [0, false])
})
test('death by a signal: exitCode null, not timed out', LIMIT, async () => {
  const r = await result(sh('echo before; kill -9 $$'))
  assert.deepEqual([r.exitCode, r.timedOut, r.stdout], [null, false, 'before\n'])
})

describe('refusals', () => {
  test('blank command', LIMIT, async () =>
    invalid(await run(server, { command: ' ' }), 'command must not be empty'))
  test('a program that is not there: 502', LIMIT, async () => {
    const r = await run(server, { command: 'no-such-program-here' })
    assert.equal(r.status, 502)
    assert.match(
      r.json.detail,
      /^stream error: failed to spawn process: No such file or directory \(os error 2\)/,
    )
  })
  test('a time that is no number: 422', LIMIT, async () =>
    assert.equal((await run(server, { command: 'true', timeoutMs: -1 })).status, 422))
  test('runs count against maxConcurrentProcesses, exactly', LIMIT, async (t) => {
    const s = await start(t)
    const dir = tempDir(t)
    const config = (await call(s.url, '/v1/processes/config')).json
    await call(s.url, '/v1/processes/config', { json: { ...config, maxConcurrentProcesses: 2 } })
    const hold = [1, 2].map((i) =>
      run(s, sh(`echo $$ > ${join(dir, `${i}`)}; exec sleep 300`, { timeoutMs: 30_000 })),
    )
    const pids = await Promise.all([1, 2].map((i) => pidFrom(join(dir, `${i}`))))
    conflict(await run(s, { command: 'true' }), 'max concurrent process limit reached (2)')
    process.kill(pids[0], 'SIGKILL')
    await hold[0]
    assert.equal((await run(s, { command: 'true' })).status, 200)
    process.kill(pids[1], 'SIGKILL')
    await hold[1]
  })
})

describe('output', () => {
  test('maxOutputBytes: at it, one below, one above, 0; per stream', LIMIT, async () => {
    const six = (max) => result({ ...sh('printf 123456; printf ab >&2'), maxOutputBytes: max })
    const seen = async (max) => {
      const r = await six(max)
      return [r.stdout, r.stdoutTruncated, r.stderr, r.stderrTruncated]
    }
    assert.deepEqual(await seen(7), ['123456', false, 'ab', false])
    assert.deepEqual(await seen(6), ['123456', false, 'ab', false])
    assert.deepEqual(await seen(5), ['12345', true, 'ab', false])
    assert.deepEqual(await seen(0), ['', true, '', true])
    const none = await result({ command: 'true', maxOutputBytes: 0 })
    assert.deepEqual([none.stdoutTruncated, none.stderrTruncated], [false, false])
  })
  test('the configured maximum holds, whatever is asked for', LIMIT, async (t) => {
    const s = await start(t)
    const config = (await call(s.url, '/v1/processes/config')).json
    await call(s.url, '/v1/processes/config', { json: { ...config, maxOutputBytes: 10 } })
    for (const maxOutputBytes of [undefined, 11, 1e15]) {
      const r = (await run(s, { ...sh('printf 12345678901'), maxOutputBytes })).json
      assert.deepEqual([r.stdout, r.stdoutTruncated], ['1234567890', true])
    }
  })
  test('more than is kept is read: the program does not block', LIMIT, async () => {
    const r = await result(sh('head -c 20000000 /dev/zero | tr "\\0" x; echo done >&2'))
    assert.deepEqual([r.stdout.length, r.stdoutTruncated, r.stderr], [1048576, true, 'done\n'])
  })
  // What Rust's from_utf8_lossy makes of it; TextDecoder counts the same way.
  for (const bytes of [
    'ff', '61ff62', 'c3', 'c3a4', 'c328', 'e282', 'e28261', 'e2ffac', 'f09f98', 'f09f9861',
    'f0809f98',
    'eda080', 'edbfbf', 'f4908080', 'f888808080', 'c080', 'e08080', '80bf', 'f09f988061e282ac',
    '00', '1b5b306d',
  ])
    test(`not UTF-8: ${bytes}`, LIMIT, async () => {
      const raw = Buffer.from(bytes, 'hex')
      const octal = [...raw].map((b) => `\\0${b.toString(8).padStart(3, '0')}`).join('')
      const r = await result({ command: 'printf', args: ['%b', octal] })
      assert.equal(r.stdout, new TextDecoder('utf-8', { ignoreBOM: true }).decode(raw))
    })
  test('a character cut by the limit becomes one U+FFFD', LIMIT, async () => {
    const r = await result({ command: 'printf', args: ['a€'], maxOutputBytes: 3 })
    assert.deepEqual([r.stdout, r.stdoutTruncated], ['a�', true])
  })
})

describe('time', () => {
  // The reply of the peer waits for the pipes here: 10 s and 30 s.
  test('a time-out ends the tree in milliseconds and keeps the output', LIMIT, async (t) => {
    const file = join(tempDir(t), 'pid')
    const r = await result(
      { ...sh(`echo part; sleep 300 & echo $! > ${file}; sleep 300`), timeoutMs: 300 },
    )
    assert.deepEqual([r.exitCode, r.timedOut, r.stdout], [null, true, 'part\n'])
    assert.ok(r.durationMs >= 299 && r.durationMs < 3000, `${r.durationMs} ms`)
    await isGone(await pidFrom(file))
  })
  test('who holds the output open does not hold the reply; it ends too', LIMIT, async (t) => {
    const file = join(tempDir(t), 'pid')
    const r = await result(sh(`sleep 300 & echo $! > ${file}; echo done`))
    assert.deepEqual([r.exitCode, r.timedOut, r.stdout], [0, false, 'done\n'])
    assert.ok(r.durationMs < 5000, `${r.durationMs} ms`)
    await isGone(await pidFrom(file))
  })
  test('who forks twice, leaves the session and closes everything ends too', LIMIT, async (t) => {
    const file = join(tempDir(t), 'pid')
    const inner = `echo $$ > ${file}; exec env -i sleep 300`
    await result(sh(
      `(setsid sh -c '${inner}' </dev/null >/dev/null 2>&1 &) ; while [ ! -s ${file} ]; do :; done`,
    ))
    await isGone(await pidFrom(file))
  })
  test('0 is the default, more than the maximum is cut', LIMIT, async (t) => {
    const s = await start(t)
    const config = (await call(s.url, '/v1/processes/config')).json
    await call(s.url, '/v1/processes/config', {
      json: { ...config, defaultRunTimeoutMs: 50, maxRunTimeoutMs: 100 },
    })
    const took = async (timeoutMs) => {
      const r = (await run(s, { command: 'sleep', args: ['300'], timeoutMs })).json
      assert.equal(r.timedOut, true)
      return r.durationMs
    }
    for (const ms of [undefined, 0]) assert.ok((await took(ms)) < 99 + 5000)
    assert.ok((await took(Number.MAX_SAFE_INTEGER)) >= 99)
    assert.ok((await took(1)) < 5000)
  })
})

describe('the client leaves', () => {
  for (const how of ['close', 'reset', 'finish'])
    test(`${how}: the tree ends`, LIMIT, async (t) => {
      const file = join(tempDir(t), 'pid')
      const c = await Raw.open(server.port)
      const body = JSON.stringify(
        sh(`sleep 300 & echo $! > ${file}; sleep 300`, { timeoutMs: 60_000 }),
      )
      await c.send(postJson('/v1/processes/run', body))
      const pid = await pidFrom(file)
      assert.ok(isAlive(pid))
      c[how]()
      await isGone(pid)
      c.close()
    })
  test('a shutdown ends runs', LIMIT, async (t) => {
    const s = await start(undefined, { args: ['--drain-timeout', '100ms'] })
    const file = join(tempDir(t), 'pid')
    const going = run(
      s,
      sh(`echo $$ > ${file}; trap "" TERM; while :; do sleep 1; done`),
    ).catch(() => {})
    const pid = await pidFrom(file)
    await s.stop()
    assert.ok(!isAlive(pid))
    await within(going, 'the answer or the end of the connection')
  })
})

test('the SDK, unmodified: runProcess', LIMIT, async (t) => {
  const sdk = await SandboxAgent.connect({ baseUrl: server.url })
  t.after(() => sdk.dispose())
  const { durationMs, ...r } = await sdk.runProcess(sh('echo out; echo err >&2; exit 3'))
  assert.deepEqual(r, {
    exitCode: 3, timedOut: false, stdout: 'out\n', stderr: 'err\n', stdoutTruncated: false,
    stderrTruncated: false,
  })
  assert.equal(typeof durationMs, 'number')
  assert.equal((await sdk.runProcess(sh('sleep 300', { timeoutMs: 50 }))).timedOut, true)
  await assert.rejects(sdk.runProcess({ command: '' }), (e) => e.status === 400)
})
