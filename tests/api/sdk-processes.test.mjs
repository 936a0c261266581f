// The process and terminal methods of the npm SDK, unmodified: every one, success and failure.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { SandboxAgent, SandboxAgentError } from 'sandbox-agent'
import WebSocketOfNpm from 'ws'
import { RELEASE, start, tempDir } from './lib/server.mjs'
import { isAlive, until, within } from './lib/proc.mjs'

const LIMIT = { timeout: 60_000 }
const TOKEN = 'T&?=%'
const DEFAULTS = {
  maxConcurrentProcesses: 64,
  defaultRunTimeoutMs: 30000,
  maxRunTimeoutMs: 300000,
  maxOutputBytes: 1048576,
  maxLogBytesPerProcess: 10485760,
  maxInputBytesPerRequest: 65536,
}

let server, sdk
before(async () => {
  server = await start(undefined, { bin: RELEASE, args: ['--token', TOKEN] })
  sdk = await SandboxAgent.connect({ baseUrl: server.url, token: TOKEN })
})
after(async () => {
  await sdk.dispose()
  await server.stop()
})
beforeEach(() => sdk.setProcessConfig(DEFAULTS))

const fails = (promise, status, type, detail) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof SandboxAgentError, String(error))
    assert.equal(error.status, status, error.message)
    assert.equal(error.problem.type, `urn:sandbox-agent:error:${type}`)
    if (detail) assert.match(error.problem.detail, detail)
    return true
  })
const shell = (script, more = {}) =>
  sdk.createProcess({ command: 'sh', args: ['-c', script], ...more })
const exited = (id) =>
  until(async () => {
    const p = await sdk.getProcess(id)
    return p.status === 'exited' && p
  }, `${id} has exited`)
const text = (entries) => entries.map((e) => Buffer.from(e.data, e.encoding).toString()).join('')
const logsOf = async (id, query) => text((await sdk.getProcessLogs(id, query)).entries)

describe('getProcessConfig and setProcessConfig', () => {
  test('the defaults, and a full replacement', LIMIT, async () => {
    assert.deepEqual(await sdk.getProcessConfig(), DEFAULTS)
    const other = { ...DEFAULTS, maxConcurrentProcesses: 3, defaultRunTimeoutMs: 999_999 }
    const stored = await sdk.setProcessConfig(other)
    assert.deepEqual(stored, { ...other, defaultRunTimeoutMs: DEFAULTS.maxRunTimeoutMs })
    assert.deepEqual(await sdk.getProcessConfig(), stored)
  })
  test('zeros and missing fields', LIMIT, async () => {
    const zero = (key) => sdk.setProcessConfig({ ...DEFAULTS, [key]: 0 })
    await fails(
      zero('maxConcurrentProcesses'),
      400,
      'invalid_request',
      /maxConcurrentProcesses must be greater than 0/,
    )
    await fails(zero('maxRunTimeoutMs'), 400, 'invalid_request', /timeouts must be greater than 0/)
    await fails(
      zero('maxOutputBytes'),
      400,
      'invalid_request',
      /byte limits must be greater than 0/,
    )
    await assert.rejects(sdk.setProcessConfig({ maxConcurrentProcesses: 1 }), { status: 422 })
    assert.deepEqual(await sdk.getProcessConfig(), DEFAULTS)
  })
})

describe('runProcess', () => {
  test('both streams and the status', LIMIT, async () => {
    const a = await sdk.runProcess({
      command: 'sh',
      args: ['-c', 'echo out; echo err >&2; exit 3'],
    })
    const { durationMs, ...rest } = a
    assert.deepEqual(rest, {
      exitCode: 3,
      timedOut: false,
      stdout: 'out\n',
      stderr: 'err\n',
      stdoutTruncated: false,
      stderrTruncated: false,
    })
    assert.ok(Number.isInteger(durationMs))
  })
  test('cwd, env, no input', LIMIT, async (t) => {
    const cwd = tempDir(t)
    const a = await sdk.runProcess({
      command: 'sh',
      args: ['-c', 'pwd; echo $X; cat'],
      cwd,
      env: { X: 'y z' },
    })
    assert.equal(a.stdout, `${cwd}\ny z\n`)
  })
  test(
    'a time-out answers at once with what there is (the peer waits for the pipes)',
    LIMIT,
    async () => {
      const from = Date.now()
      const a = await sdk.runProcess({
        command: 'sh',
        args: ['-c', 'echo part; sleep 20'],
        timeoutMs: 300,
      })
      assert.deepEqual([a.timedOut, a.exitCode, a.stdout], [true, null, 'part\n'])
      assert.ok(Date.now() - from < 3000, `${Date.now() - from} ms`)
    },
  )
  test('a process in the background does not hold the answer', LIMIT, async () => {
    const from = Date.now()
    const a = await sdk.runProcess({ command: 'sh', args: ['-c', 'sleep 30 & echo done $!'] })
    assert.match(a.stdout, /^done \d+\n$/)
    assert.equal(a.exitCode, 0)
    assert.ok(Date.now() - from < 3000, `${Date.now() - from} ms`)
    await until(() => !isAlive(Number(a.stdout.split(' ')[1])), 'and ends with it')
  })
  test('truncation, and a signal', LIMIT, async () => {
    const a = await sdk.runProcess({
      command: 'sh',
      args: ['-c', 'echo 123456; echo 1 >&2'],
      maxOutputBytes: 3,
    })
    assert.deepEqual(
      [a.stdout, a.stdoutTruncated, a.stderr, a.stderrTruncated],
      ['123', true, '1\n', false],
    )
    assert.equal(
      (await sdk.runProcess({ command: 'sh', args: ['-c', 'kill -9 $$'] })).exitCode,
      null,
    )
  })
  test('errors', LIMIT, async () => {
    await fails(
      sdk.runProcess({ command: '' }),
      400,
      'invalid_request',
      /command must not be empty/,
    )
    await fails(
      sdk.runProcess({ command: '/no/such' }),
      502,
      'stream_error',
      /failed to spawn process/,
    )
    await fails(
      sdk.runProcess({ command: 'ls', cwd: '/no/such' }),
      502,
      'stream_error',
      /failed to spawn process/,
    )
  })
})

describe('createProcess, getProcess, listProcesses', () => {
  test('running, then exited', LIMIT, async (t) => {
    const cwd = tempDir(t)
    const p = await shell('read x; exit 5', { cwd })
    assert.match(p.id, /^proc_\d+$/)
    const { command, args, tty, interactive, owner, status } = p
    assert.deepEqual(
      { command, args, tty, interactive, owner, status, cwd: p.cwd },
      {
        command: 'sh',
        args: ['-c', 'read x; exit 5'],
        tty: false,
        interactive: false,
        owner: 'user',
        status: 'running',
        cwd,
      },
    )
    assert.ok(isAlive(p.pid))
    assert.ok(Math.abs(Date.now() - p.createdAtMs) < 10_000)
    await sdk.sendProcessInput(p.id, { data: Buffer.from('go\n').toString('base64') })
    const end = await exited(p.id)
    assert.equal(end.exitCode, 5)
    assert.equal(end.pid, undefined)
    assert.ok(end.exitedAtMs >= end.createdAtMs)
    assert.ok((await sdk.listProcesses()).processes.some((q) => q.id === p.id))
    assert.ok((await sdk.listProcesses({ owner: 'user' })).processes.some((q) => q.id === p.id))
    assert.ok(!(await sdk.listProcesses({ owner: 'desktop' })).processes.some((q) => q.id === p.id))
    await sdk.deleteProcess(p.id)
  })
  test('the limit counts exactly', LIMIT, async () => {
    await sdk.setProcessConfig({ ...DEFAULTS, maxConcurrentProcesses: 2 })
    const a = await shell('sleep 60')
    const b = await shell('sleep 60')
    await fails(shell('true'), 409, 'conflict', /max concurrent process limit reached \(2\)/)
    await fails(sdk.runProcess({ command: 'true' }), 409, 'conflict', /limit reached/)
    await sdk.killProcess(a.id)
    assert.equal((await sdk.runProcess({ command: 'true' })).exitCode, 0)
    await sdk.killProcess(b.id)
    for (const { id } of [a, b]) await sdk.deleteProcess(id)
  })
  test('errors', LIMIT, async () => {
    await fails(
      sdk.createProcess({ command: ' ' }),
      400,
      'invalid_request',
      /command must not be empty/,
    )
    await fails(
      sdk.createProcess({ command: 'ls -la' }),
      502,
      'stream_error',
      /failed to spawn process/,
    )
    await fails(sdk.getProcess('proc_999999'), 404, 'not_found', /not found: process proc_999999/)
    await assert.rejects(sdk.listProcesses({ owner: 'nobody' }), { status: 400 })
  })
})

describe('stopProcess, killProcess, deleteProcess', () => {
  test('stop asks, and reports a process that stays', LIMIT, async () => {
    const p = await shell('trap "" TERM; echo ready; while :; do sleep 0.05; done')
    await until(async () => (await logsOf(p.id)) === 'ready\n', 'the trap is set')
    const still = await sdk.stopProcess(p.id, { waitMs: 100 })
    assert.equal(still.status, 'running')
    await fails(sdk.deleteProcess(p.id), 409, 'conflict', /still running/)
    const dead = await sdk.killProcess(p.id)
    assert.equal(dead.status, 'exited')
    assert.equal(dead.exitCode, undefined)
    assert.equal((await sdk.stopProcess(p.id)).status, 'exited', 'a stop of the dead is fine')
    assert.equal(await sdk.deleteProcess(p.id), undefined)
    await fails(sdk.getProcess(p.id), 404, 'not_found')
  })
  for (const way of ['stopProcess', 'killProcess'])
    test(`${way} reaches the whole tree (the peer: only the child)`, LIMIT, async () => {
      const script =
        'setsid sh -c "env -i sleep 300 & echo $! >&1; wait" & sleep 300 & echo $!; wait'
      const p = await shell(script)
      await until(async () => (await logsOf(p.id)).split('\n').length > 2, 'the children are up')
      const pids = (await logsOf(p.id)).trim().split('\n').map(Number)
      assert.ok(pids.every(isAlive))
      assert.equal((await sdk[way](p.id)).status, 'exited')
      await until(() => !pids.some(isAlive), 'nobody is left')
      await sdk.deleteProcess(p.id)
    })
  test('unknown ids', LIMIT, async () => {
    for (const call of ['stopProcess', 'killProcess', 'deleteProcess', 'getProcessLogs'])
      await fails(sdk[call]('proc_999999'), 404, 'not_found')
  })
})

describe('sendProcessInput', () => {
  test('base64, utf8 and text', LIMIT, async () => {
    const p = await sdk.createProcess({ command: 'cat' })
    const sent = [
      { data: Buffer.from('one ').toString('base64') },
      { data: Buffer.from('two ').toString('base64'), encoding: 'base64' },
      { data: 'drei é ', encoding: 'utf8' },
      { data: 'four', encoding: 'text' },
    ]
    const n = []
    for (const body of sent) n.push((await sdk.sendProcessInput(p.id, body)).bytesWritten)
    assert.deepEqual(n, [4, 4, 8, 4])
    await until(async () => (await logsOf(p.id)) === 'one two drei é four', 'all is echoed')
    await sdk.killProcess(p.id)
    await fails(sdk.sendProcessInput(p.id, { data: '' }), 409, 'conflict', /process is not running/)
    await sdk.deleteProcess(p.id)
  })
  test('errors', LIMIT, async () => {
    const p = await sdk.createProcess({ command: 'cat' })
    await fails(
      sdk.sendProcessInput(p.id, { data: '*' }),
      400,
      'invalid_request',
      /invalid base64 input: /,
    )
    await fails(
      sdk.sendProcessInput(p.id, { data: '', encoding: 'hex' }),
      400,
      'invalid_request',
      /encoding must be one of: base64, utf8, text/,
    )
    await fails(sdk.sendProcessInput('proc_999999', { data: '*' }), 400, 'invalid_request')
    await fails(sdk.sendProcessInput('proc_999999', { data: 'YQ==' }), 404, 'not_found')
    const most = DEFAULTS.maxInputBytesPerRequest
    assert.equal(
      (await sdk.sendProcessInput(p.id, { data: 'x'.repeat(most), encoding: 'utf8' })).bytesWritten,
      most,
    )
    await fails(
      sdk.sendProcessInput(p.id, { data: 'x'.repeat(most + 1), encoding: 'utf8' }),
      413,
      'invalid_request',
      /exceeds maxInputBytesPerRequest \(65536\)/,
    )
    await sdk.killProcess(p.id)
    await sdk.deleteProcess(p.id)
  })
})

describe('getProcessLogs and followProcessLogs', () => {
  test('streams, since, tail', LIMIT, async () => {
    const p = await shell('echo out; sleep 0.05; echo err >&2')
    await exited(p.id)
    const all = await sdk.getProcessLogs(p.id)
    assert.deepEqual([all.processId, all.stream], [p.id, 'combined'])
    assert.deepEqual(
      all.entries.map((e) => [e.sequence, e.stream]),
      [
        [1, 'stdout'],
        [2, 'stderr'],
      ],
    )
    assert.equal(await logsOf(p.id, { stream: 'stdout' }), 'out\n')
    assert.equal(await logsOf(p.id, { stream: 'stderr' }), 'err\n')
    assert.equal(await logsOf(p.id, { stream: 'pty' }), '')
    assert.equal(await logsOf(p.id, { since: 1 }), 'err\n')
    assert.equal(await logsOf(p.id, { tail: 1 }), 'err\n')
    assert.equal(await logsOf(p.id, { tail: 0 }), '')
    await sdk.deleteProcess(p.id)
  })
  test('follow: the backlog, what comes, and the end', LIMIT, async () => {
    const p = await shell('echo first; read x; echo "got $x"; exit 1')
    await until(async () => (await logsOf(p.id)) === 'first\n', 'the first line')
    const seen = []
    const sub = await sdk.followProcessLogs(p.id, (entry) => seen.push(entry))
    await until(() => text(seen) === 'first\n', 'the backlog')
    await sdk.sendProcessInput(p.id, { data: 'more\n', encoding: 'utf8' })
    await within(sub.closed, 'the stream ends with the process')
    assert.equal(text(seen), 'first\ngot more\n')
    assert.deepEqual(
      seen.map((e) => e.sequence),
      [1, 2],
    )
    await sdk.deleteProcess(p.id)
  })
  test('follow of a process that has ended: everything, then the end', LIMIT, async () => {
    const p = await shell('seq 1 20000')
    await exited(p.id)
    const seen = []
    const sub = await sdk.followProcessLogs(p.id, (entry) => seen.push(entry))
    await within(sub.closed, 'the end')
    assert.equal(text(seen), Array.from({ length: 20_000 }, (_, i) => `${i + 1}\n`).join(''))
    await sdk.deleteProcess(p.id)
  })
  test('follow with a stream and since; close leaves', LIMIT, async () => {
    const p = await shell('echo a; echo b >&2; sleep 60')
    await until(async () => (await sdk.getProcessLogs(p.id)).entries.length === 2, 'both lines')
    const seen = []
    const sub = await sdk.followProcessLogs(p.id, (e) => seen.push(e), {
      stream: 'stderr',
      since: 0,
    })
    await until(() => seen.length === 1, 'one of them')
    sub.close()
    await within(sub.closed, 'closed by us')
    assert.equal(text(seen), 'b\n')
    await sdk.killProcess(p.id)
    await sdk.deleteProcess(p.id)
  })
  test('nothing is lost at full speed', { timeout: 120_000 }, async () => {
    const n = 300_000
    const p = await shell(`read x; seq 1 ${n}`)
    let [lines, last, tail] = [0, 0, '']
    const sub = await sdk.followProcessLogs(p.id, (entry) => {
      assert.equal(entry.sequence, ++last)
      const parts = (tail + Buffer.from(entry.data, 'base64').toString('latin1')).split('\n')
      tail = parts.pop()
      for (const part of parts) assert.equal(Number(part), ++lines)
    })
    await sdk.sendProcessInput(p.id, { data: '\n', encoding: 'utf8' })
    await within(sub.closed, 'the end', 100_000)
    assert.equal(lines, n)
    await sdk.deleteProcess(p.id)
  })
  test('errors', LIMIT, async () => {
    await fails(
      sdk.followProcessLogs('proc_999999', () => {}),
      404,
      'not_found',
    )
    const p = await shell('true')
    await assert.rejects(sdk.getProcessLogs(p.id, { stream: 'bad' }), { status: 400 })
    await exited(p.id)
    await sdk.deleteProcess(p.id)
  })
})

describe('terminals', () => {
  const tty = (script) => shell(script, { tty: true })
  // What a session says, gathered.
  function watch(session) {
    const seen = { ready: [], data: '', exit: [], errors: [] }
    session.onReady((s) => seen.ready.push(s))
    session.onData((bytes) => (seen.data += Buffer.from(bytes).toString()))
    session.onExit((s) => seen.exit.push(s))
    session.onError((e) => seen.errors.push(e))
    return seen
  }
  test('resizeProcessTerminal', LIMIT, async () => {
    const p = await tty('read x; stty size; sleep 60')
    assert.deepEqual(await sdk.resizeProcessTerminal(p.id, { cols: 101, rows: 33 }), {
      cols: 101,
      rows: 33,
    })
    await sdk.sendProcessInput(p.id, { data: '\n', encoding: 'utf8' })
    await until(async () => /33 101/.test(await logsOf(p.id)), 'the program sees it')
    await sdk.killProcess(p.id)
    await fails(
      sdk.resizeProcessTerminal(p.id, { cols: 1, rows: 1 }),
      409,
      'conflict',
      /PTY resize handle unavailable/,
    )
    await sdk.deleteProcess(p.id)
    const pipe = await shell('sleep 60')
    await fails(
      sdk.resizeProcessTerminal(pipe.id, { cols: 1, rows: 1 }),
      409,
      'conflict',
      /not running in tty mode/,
    )
    await assert.rejects(sdk.resizeProcessTerminal(pipe.id, { cols: 65536, rows: 1 }), {
      status: 422,
    })
    await sdk.killProcess(pipe.id)
    await sdk.deleteProcess(pipe.id)
    await fails(sdk.resizeProcessTerminal('proc_999999', { cols: 1, rows: 1 }), 404, 'not_found')
  })
  test('the log of a terminal: one stream, no bogus text at its end', LIMIT, async () => {
    const p = await tty('tty >/dev/null && echo yes; echo err >&2')
    await exited(p.id)
    const a = await sdk.getProcessLogs(p.id)
    assert.equal(a.stream, 'pty')
    assert.equal(text(a.entries), 'yes\r\nerr\r\n')
    assert.equal(await logsOf(p.id, { stream: 'stdout' }), '')
    await sdk.deleteProcess(p.id)
  })
  for (const [name, WebSocket] of [
    ['node', undefined],
    ['npm ws', WebSocketOfNpm],
  ])
    test(
      `connectProcessTerminal (${name}): ready, input, resize, output, exit`,
      LIMIT,
      async () => {
        const p = await tty(
          'stty -echo; echo up; while read x; do echo "got $x"; stty size; done; exit 7',
        )
        await until(async () => /up/.test(await logsOf(p.id)), 'the program is up')
        const session = sdk.connectProcessTerminal(p.id, { WebSocket })
        const seen = watch(session)
        await until(() => seen.ready.length, 'ready')
        assert.deepEqual(seen.ready, [{ type: 'ready', processId: p.id }])
        session.resize({ cols: 90, rows: 20 })
        session.sendInput('text é\n')
        await until(() => /got text é\r\n20 90\r\n/.test(seen.data), 'the answer')
        session.sendInput(new Uint8Array([98, 121, 116, 101, 115, 10]))
        await until(() => /got bytes\r\n/.test(seen.data), 'the answer to bytes')
        session.sendInput('\x04')
        await within(session.closed, 'the end')
        assert.deepEqual(seen.exit, [{ type: 'exit', exitCode: 7 }])
        assert.deepEqual(seen.errors, [])
        assert.doesNotMatch(seen.data, /stream error/)
        await sdk.deleteProcess(p.id)
      },
    )
  test('two sessions see the same; close leaves the process running', LIMIT, async () => {
    const p = await tty('stty -echo; echo up; cat')
    await until(async () => /up/.test(await logsOf(p.id)), 'the program is up')
    const sessions = [sdk.connectProcessTerminal(p.id), sdk.connectProcessTerminal(p.id)]
    const seen = sessions.map(watch)
    await until(() => seen.every((s) => s.ready.length), 'both are ready')
    sessions[0].sendInput('hello\n')
    await until(() => seen.every((s) => /hello\r\n/.test(s.data)), 'both see it')
    sessions[0].close()
    await within(sessions[0].closed, 'the first is closed')
    assert.equal((await sdk.getProcess(p.id)).status, 'running')
    sessions[1].sendInput('again\n')
    await until(() => /again\r\n/.test(seen[1].data), 'the second goes on')
    await sdk.killProcess(p.id)
    await within(sessions[1].closed, 'the second ends')
    assert.deepEqual(seen[1].exit, [{ type: 'exit', exitCode: null }])
    await sdk.deleteProcess(p.id)
  })
  test('connecting after the exit: ready, exit, close', LIMIT, async () => {
    const p = await tty('exit 3')
    await exited(p.id)
    const session = sdk.connectProcessTerminal(p.id)
    const seen = watch(session)
    await within(session.closed, 'the end')
    assert.equal(seen.ready.length, 1)
    assert.deepEqual(seen.exit, [{ type: 'exit', exitCode: 3 }])
    await sdk.deleteProcess(p.id)
  })
  test(
    'the URL carries the token; a wrong one and a wrong process are refused',
    LIMIT,
    async () => {
      const p = await tty('sleep 60')
      const url = new URL(sdk.buildProcessTerminalWebSocketUrl(p.id))
      assert.equal(url.protocol, 'ws:')
      assert.equal(url.searchParams.get('access_token'), TOKEN)
      for (const [id, options] of [
        [p.id, { accessToken: 'wrong' }],
        ['proc_999999', {}],
      ]) {
        const seen = watch(sdk.connectProcessTerminal(id, options))
        await until(() => seen.errors.length, 'refused')
        assert.equal(seen.ready.length, 0)
      }
      await sdk.killProcess(p.id)
      await sdk.deleteProcess(p.id)
    },
  )
})

test('after all of it the server has no process left', LIMIT, async () => {
  const { processes } = await sdk.listProcesses()
  for (const p of processes) if (p.status === 'running') await sdk.killProcess(p.id)
  for (const p of processes) await sdk.deleteProcess(p.id)
  assert.deepEqual((await sdk.listProcesses()).processes, [])
  assert.ok(readFileSync(join('/proc', String(server.pid), 'status'), 'utf8'))
})
