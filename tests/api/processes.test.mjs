// The records of processes: making, looking, ending, feeding. Rows of the wire reference by name.
import assert from 'node:assert/strict'
import { readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { SandboxAgent } from 'sandbox-agent'
import { start, tempDir } from './lib/server.mjs'
import { call } from './lib/http.mjs'
import { isAlive, until } from './lib/proc.mjs'
import {
  conflict,
  create,
  ended,
  get,
  input,
  invalid,
  noProcess,
  output,
  post,
  problem,
  said,
  sh,
} from './lib/processes.mjs'

const LIMIT = { timeout: 60_000 }
const DEFAULTS = {
  maxConcurrentProcesses: 64,
  defaultRunTimeoutMs: 30000,
  maxRunTimeoutMs: 300000,
  maxOutputBytes: 1048576,
  maxLogBytesPerProcess: 10485760,
  maxInputBytesPerRequest: 65536,
}

let server
before(async () => (server = await start()))
after(() => server.stop())

const shape = (what) =>
  `failed to deserialize the JSON body into the target type: ${what}`
const pidIn = async (id, name) => Number((await said(server, id, new RegExp(`${name}=(\\d+)`)))[1])
const isGone = (pid) => until(() => !isAlive(pid), `process ${pid} is gone`)

describe('config', () => {
  test('GET shows the defaults', LIMIT, async (t) => {
    const s = await start(t)
    const r = await call(s.url, '/v1/processes/config')
    assert.equal(r.text, JSON.stringify(DEFAULTS))
  })
  test('POST replaces all of it and shows it', LIMIT, async (t) => {
    const s = await start(t)
    const next = { ...DEFAULTS, maxConcurrentProcesses: 3, maxOutputBytes: 10 }
    const r = await call(s.url, '/v1/processes/config', { json: next })
    assert.deepEqual([r.status, r.json], [200, next])
    assert.deepEqual((await call(s.url, '/v1/processes/config')).json, next)
  })
  test('a default over the maximum is lowered to it', LIMIT, async (t) => {
    const s = await start(t)
    const r = await call(
      s.url,
      '/v1/processes/config',
      { json: { ...DEFAULTS, maxRunTimeoutMs: 5 } },
    )
    assert.equal(r.json.defaultRunTimeoutMs, 5)
  })
  for (const name of Object.keys(DEFAULTS))
    test(`without ${name}: 422 that names it`, LIMIT, async () => {
      const { [name]: _, ...rest } = DEFAULTS
      const r = await call(server.url, '/v1/processes/config', { json: rest })
      invalid(r, shape(`missing field \`${name}\``), 422)
    })
  for (const [name, text] of [
    ['maxConcurrentProcesses', 'maxConcurrentProcesses must be greater than 0'],
    ['defaultRunTimeoutMs', 'timeouts must be greater than 0'],
    ['maxRunTimeoutMs', 'timeouts must be greater than 0'],
    ['maxOutputBytes', 'byte limits must be greater than 0'],
    ['maxLogBytesPerProcess', 'byte limits must be greater than 0'],
    ['maxInputBytesPerRequest', 'byte limits must be greater than 0'],
  ])
    test(`${name} 0 is refused and nothing changes`, LIMIT, async () => {
      const r = await call(server.url, '/v1/processes/config', { json: { ...DEFAULTS, [name]: 0 } })
      invalid(r, text)
      assert.deepEqual((await call(server.url, '/v1/processes/config')).json, DEFAULTS)
    })
})

describe('create', () => {
  test('ProcessInfo: members and their order, running and exited', LIMIT, async () => {
    const p = await create(server, sh('read x; exit 5', { cwd: '/tmp' }))
    assert.deepEqual(Object.keys(p), [
      'id', 'command', 'args', 'cwd', 'tty', 'interactive', 'owner', 'status', 'pid', 'createdAtMs',
    ])
    assert.match(p.id, /^proc_\d+$/)
    assert.deepEqual(
      [p.command, p.args, p.cwd, p.tty, p.interactive, p.owner, p.status],
      ['sh', ['-c', 'read x; exit 5'], '/tmp', false, false, 'user', 'running'],
    )
    assert.ok(isAlive(p.pid) && Math.abs(Date.now() - p.createdAtMs) < 30_000)
    await input(server, p.id, '\n')
    const { usage: _, ...end } = await ended(server, p.id)
    assert.deepEqual(Object.keys(end), [
      'id', 'command', 'args', 'cwd', 'tty', 'interactive', 'owner', 'status', 'exitCode',
      'createdAtMs', 'exitedAtMs',
    ])
    assert.equal(end.exitCode, 5)
    assert.ok(end.exitedAtMs >= end.createdAtMs)
  })
  test('cwd is absent unless it was given; exitCode is absent after a signal', LIMIT, async () => {
    const p = await create(server, sh('kill -9 $$'))
    assert.ok(!('cwd' in p))
    const end = await ended(server, p.id)
    assert.ok(!('exitCode' in end) && !('pid' in end))
  })
  test('no shell: the command is one word, found in PATH', LIMIT, async () => {
    const p = await create(server, { command: 'echo', args: ['$HOME', 'a b'] })
    await ended(server, p.id)
    assert.equal(await output(server, p.id), '$HOME a b\n')
    const r = await call(server.url, '/v1/processes', { json: { command: 'ls -la' } })
    assert.equal(r.status, 502)
  })
  for (const command of ['', ' \t '])
    test(`blank command ${JSON.stringify(command)}`, LIMIT, async () =>
      invalid(
        await call(server.url, '/v1/processes', { json: { command } }),
        'command must not be empty',
      ))
  for (const [name, body] of [
    ['binary', { command: 'no-such-program-here' }],
    ['cwd', { command: 'true', cwd: '/no/such/dir' }],
  ])
    test(`missing ${name}: 502 stream_error`, LIMIT, async () => {
      const r = await call(server.url, '/v1/processes', { json: body })
      assert.equal(r.status, 502)
      assert.equal(r.json.type, 'urn:sandbox-agent:error:stream_error')
      assert.equal(r.json.title, 'Stream Error')
      const text = 'failed to spawn process: No such file or directory (os error 2)'
      assert.ok(r.json.detail.startsWith(`stream error: ${text}`), r.json.detail)
      assert.ok(r.json.details.message.startsWith(text))
    })
  test('a failed spawn takes a number, a refused body does not', LIMIT, async (t) => {
    const s = await start(t)
    const ask = (json) => call(s.url, '/v1/processes', { json })
    assert.equal((await ask({ command: 'true' })).json.id, 'proc_1')
    assert.equal((await ask({ command: 'no-such-program-here' })).status, 502)
    assert.equal((await ask({ command: ' ' })).status, 400)
    assert.equal((await ask({ command: 'true' })).json.id, 'proc_3')
  })
  test('cwd: absolute, relative to the server, or the server\'s own', LIMIT, async () => {
    const home = realpathSync(server.dataDir)
    for (const [cwd, want] of [
      ['/', '/'],
      ['.', home],
      [undefined, home],
    ]) {
      const p = await create(server, { command: 'pwd', args: ['-P'], cwd })
      await ended(server, p.id)
      assert.equal(await output(server, p.id), `${want}\n`)
    }
  })
  test('env comes on top of the server\'s', LIMIT, async () => {
    const p = await create(server, sh('echo "$HOME $A"', { env: { A: 'x=y z' } }))
    await ended(server, p.id)
    assert.equal(await output(server, p.id), `${server.dataDir} x=y z\n`)
  })
  for (const key of ['', 'A=B'])
    test(`env name ${JSON.stringify(key)} is refused`, LIMIT, async () =>
      invalid(
        await call(server.url, '/v1/processes', { json: { command: 'true', env: { [key]: '' } } }),
        `env: '${key}' is not the name of a variable`,
      ))
  test('missing command: 422 that names it', LIMIT, async () =>
    invalid(
      await call(server.url, '/v1/processes', { json: {} }),
      shape('missing field `command`'),
      422,
    ))
  test('over maxConcurrentProcesses: 409; a run counts, an exited process does not', LIMIT, async (t) => {
    const s = await start(t)
    await call(s.url, '/v1/processes/config', { json: { ...DEFAULTS, maxConcurrentProcesses: 2 } })
    const first = await create(s, { command: 'cat' })
    const second = await create(s, { command: 'cat' })
    const message = 'max concurrent process limit reached (2)'
    conflict(await call(s.url, '/v1/processes', { json: { command: 'cat' } }), message)
    conflict(await call(s.url, '/v1/processes/run', { json: { command: 'true' } }), message)
    await post(s, `${first.id}/kill`)
    assert.equal((await create(s, { command: 'true' })).id, 'proc_3')
    await ended(s, 'proc_3')
    assert.equal(
      (await call(s.url, '/v1/processes/run', { json: { command: 'true' } })).status,
      200,
    )
    await post(s, `${second.id}/kill`)
  })
  test('stdin stays open; interactive is only shown', LIMIT, async () => {
    const p = await create(server, { command: 'cat', interactive: true })
    assert.equal(p.interactive, true)
    assert.deepEqual((await input(server, p.id, 'hello\n')).json, { bytesWritten: 6 })
    await said(server, p.id, /hello/)
    assert.equal((await get(server, p.id)).status, 'running')
    await post(server, `${p.id}/kill`)
  })
  test('tty: a session of its own, 80 × 24, TERM set, one stream', LIMIT, async () => {
    const p = await create(
      server,
      sh(
        'test -t 0 && stty size && echo "$TERM" && ps -o sid= -p $$ && echo err >&2',
        { tty: true },
      ),
    )
    await ended(server, p.id)
    const [size, term, sid, err] = (await output(server, p.id)).split('\r\n')
    assert.deepEqual([size, term, Number(sid), err], ['24 80', 'xterm-256color', p.pid, 'err'])
  })
  test('tty: cols and rows from the start', LIMIT, async () => {
    const p = await create(
      server,
      { command: 'stty', args: ['size'], tty: true, cols: 101, rows: 33 },
    )
    await ended(server, p.id)
    assert.equal(await output(server, p.id), '33 101\r\n')
    const r = await call(
      server.url,
      '/v1/processes',
      { json: { command: 'true', tty: true, cols: 65536 } },
    )
    invalid(r, shape('cols: invalid value: integer `65536`, expected u16'), 422)
  })
  test('the end of a tty adds no text about an I/O error', LIMIT, async () => {
    const p = await create(server, sh('echo last', { tty: true }))
    await ended(server, p.id)
    assert.equal(await output(server, p.id), 'last\r\n')
  })
  test('a child sees no descriptor of other processes', LIMIT, async () => {
    const others = []
    for (const tty of [true, false, true])
      others.push(await create(server, { command: 'cat', tty }))
    const p = await create(server, { command: 'cat' })
    const fds = () => readdirSync(`/proc/${p.pid}/fd`).map(Number).sort((a, b) => a - b)
    await until(() => readlinkSync(`/proc/${p.pid}/exe`).match(/cat|coreutils|busybox/), 'exec')
    // The loader opens libraries for a moment; a descriptor that was handed down would stay.
    await until(() => fds().join() === '0,1,2', 'only its own descriptors')
    for (const fd of fds()) assert.match(readlinkSync(`/proc/${p.pid}/fd/${fd}`), /^(pipe|socket):/)
    for (const o of [...others, p]) await post(server, `${o.id}/kill`)
  })
})

describe('list and get', () => {
  test('list is sorted by id as a string, running and exited', LIMIT, async (t) => {
    const s = await start(t)
    for (let i = 0; i < 11; i++) await create(s, { command: 'true' })
    const last = await create(s, { command: 'cat' })
    await ended(s, 'proc_11')
    const { processes } = (await call(s.url, '/v1/processes')).json
    assert.deepEqual(
      processes.map((p) => p.id),
      ['1', '10', '11', '12', '2', '3', '4', '5', '6', '7', '8', '9'].map((n) => `proc_${n}`),
    )
    assert.equal(processes[3].status, 'running')
    assert.ok(!('usage' in processes[0]))
    await post(s, `${last.id}/kill`)
  })
  test('list by owner', LIMIT, async (t) => {
    const s = await start(t)
    await create(s, { command: 'true' })
    const count = async (owner) =>
      (await call(s.url, `/v1/processes?owner=${owner}`)).json.processes.length
    assert.deepEqual(
      [await count('user'), await count('desktop'), await count('system')],
      [1, 0, 0],
    )
    invalid(
      await call(s.url, '/v1/processes?owner=me'),
      'failed to deserialize query string: unknown variant `me`, expected one of `user`, ' +
        '`desktop`, `system`',
    )
  })
  test('an empty list', LIMIT, async (t) => {
    const s = await start(t)
    assert.equal((await call(s.url, '/v1/processes')).text, '{"processes":[]}')
  })
  test('get shows what the tree uses', LIMIT, async () => {
    const p = await create(server, sh('sleep 300 & sleep 300 & wait'))
    const seen = await until(async () => {
      const { usage } = await get(server, p.id)
      return usage.processes === 3 && usage
    }, 'three processes')
    assert.deepEqual(Object.keys(seen), [
      'cpuUserMs', 'cpuSystemMs', 'rssBytes', 'peakRssBytes', 'processes',
    ])
    assert.ok(seen.rssBytes > 0 && seen.peakRssBytes > 0)
    await post(server, `${p.id}/kill`)
    assert.equal((await ended(server, p.id)).usage.rssBytes, 0)
  })
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/stop'],
    ['POST', '/kill'],
    ['GET', '/logs'],
    ['GET', '/logs?follow=true'],
  ])
    test(`${method} {id}${path} of an unknown id: 404`, LIMIT, async () =>
      noProcess(await call(server.url, `/v1/processes/proc_9999${path}`, { method }), 'proc_9999'))
  test('an id that needs escapes stays itself in the 404', LIMIT, async () =>
    noProcess(await call(server.url, '/v1/processes/%22a%5C%22'), '"a\\"'))
})

describe('stop, kill, delete', () => {
  test('stop is TERM, and answers as soon as it has ended', LIMIT, async () => {
    const p = await create(server, sh('trap "exit 7" TERM; echo up; while :; do read x; done'))
    await said(server, p.id, /up/)
    const from = Date.now()
    const r = await post(server, `${p.id}/stop?waitMs=20000`)
    assert.deepEqual([r.status, r.json.status, r.json.exitCode], [200, 'exited', 7])
    assert.ok(Date.now() - from < 10_000)
  })
  test('stop does not kill: who ignores TERM still runs after waitMs', LIMIT, async () => {
    const p = await create(server, sh('trap "" TERM; echo up; cat'))
    await said(server, p.id, /up/)
    for (const wait of ['waitMs=30', 'waitMs=0']) {
      const r = await post(server, `${p.id}/stop?${wait}`)
      assert.deepEqual([r.status, r.json.status, r.json.pid], [200, 'running', p.pid])
    }
    const r = await post(server, `${p.id}/kill`)
    assert.equal(r.json.status, 'exited')
    assert.ok(!('exitCode' in r.json))
  })
  test('waitMs is 2000 when absent', LIMIT, async () => {
    const p = await create(server, sh('trap "" TERM; echo up; cat'))
    await said(server, p.id, /up/)
    const from = Date.now()
    assert.equal((await post(server, `${p.id}/stop`)).json.status, 'running')
    const took = Date.now() - from
    assert.ok(took >= 1990 && took < 8000, `${took} ms`)
    await post(server, `${p.id}/kill`)
  })
  test('both do nothing to a process that has ended', LIMIT, async () => {
    const p = await create(server, sh('exit 3'))
    await ended(server, p.id)
    for (const what of ['stop', 'kill']) {
      const r = await post(server, `${p.id}/${what}`)
      assert.deepEqual([r.status, r.json.status, r.json.exitCode], [200, 'exited', 3])
    }
  })
  for (const [what, tty] of [['stop', false], ['kill', false], ['stop', true], ['kill', true]])
    test(`${what} ends grandchildren too${tty ? ' (tty)' : ''}`, LIMIT, async () => {
      const p = await create(
        server,
        sh('setsid sh -c "exec 0<&- >/dev/null 2>&1; env -i sleep 300 & wait" & sleep 300 & ' +
          'echo kid=$!; wait', { tty }),
      )
      const kid = await pidIn(p.id, 'kid')
      const n = await until(async () => (await get(server, p.id)).usage.processes >= 4, 'the tree')
      assert.ok(n)
      await post(server, `${p.id}/${what}`)
      await ended(server, p.id)
      await isGone(kid)
      await until(async () => (await get(server, p.id)).usage.processes === 0, 'nobody is left')
    })
  test('delete forgets: 204, then 404', LIMIT, async () => {
    const p = await create(server, { command: 'true' })
    await ended(server, p.id)
    const r = await call(server.url, `/v1/processes/${p.id}`, { method: 'DELETE' })
    assert.deepEqual([r.status, r.text], [204, ''])
    noProcess(await call(server.url, `/v1/processes/${p.id}`), p.id)
  })
  test('delete of a running one: 409', LIMIT, async () => {
    const p = await create(server, { command: 'cat' })
    conflict(
      await call(server.url, `/v1/processes/${p.id}`, { method: 'DELETE' }),
      'process is still running; stop or kill it before delete',
    )
    await post(server, `${p.id}/kill`)
  })
  test('delete ends what an exited process left in the background', LIMIT, async () => {
    const p = await create(server, sh('sleep 300 >/dev/null 2>&1 & echo kid=$!'))
    await ended(server, p.id)
    const kid = await pidIn(p.id, 'kid')
    assert.ok(isAlive(kid))
    await call(server.url, `/v1/processes/${p.id}`, { method: 'DELETE' })
    await isGone(kid)
  })
  test('a client that leaves a waiting stop does no harm', LIMIT, async () => {
    const p = await create(server, sh('trap "" TERM; echo up; cat'))
    await said(server, p.id, /up/)
    const stop = fetch(`${server.url}/v1/processes/${p.id}/stop?waitMs=60000`, {
      method: 'POST',
      signal: AbortSignal.timeout(50),
    })
    await assert.rejects(stop)
    assert.equal((await post(server, `${p.id}/kill`)).json.status, 'exited')
  })
})

describe('input', () => {
  let cat
  before(async () => (cat = await create(server, { command: 'cat' })))
  after(() => post(server, `${cat.id}/kill`))
  const send = (body, id = cat.id) => post(server, `${id}/input`, body)

  test('base64 is the default; utf8 and text are what they say', LIMIT, async () => {
    const p = await create(server, { command: 'cat' })
    assert.deepEqual((await send({ data: 'YWJj' }, p.id)).json, { bytesWritten: 3 })
    assert.deepEqual(
      (await send({ data: 'YWJj', encoding: 'base64' }, p.id)).json,
      { bytesWritten: 3 },
    )
    assert.deepEqual((await send({ data: 'ä', encoding: 'utf8' }, p.id)).json, { bytesWritten: 2 })
    assert.deepEqual(
      (await send({ data: '\0x', encoding: 'text' }, p.id)).json,
      { bytesWritten: 2 },
    )
    assert.deepEqual((await send({ data: '' }, p.id)).json, { bytesWritten: 0 })
    assert.deepEqual((await send({ eof: true }, p.id)).json, { bytesWritten: 0 })
    assert.equal((await ended(server, p.id)).exitCode, 0)
    assert.equal(await output(server, p.id), 'abcabcä\0x')
  })
  for (const encoding of ['utf-8', 'UTF8', 'hex', ''])
    test(`encoding ${JSON.stringify(encoding)}: 400`, LIMIT, async () =>
      invalid(
        await send({ data: 'YQ==', encoding }),
        'encoding must be one of: base64, utf8, text',
      ))
  for (const [data, why] of [
    ['!!!!', 'Invalid symbol 33, offset 0.'],
    ['YQ', 'Invalid padding'],
    ['YR==', 'Invalid last symbol 82, offset 1.'],
  ])
    test(`bad base64 ${data}: 400 that says where`, LIMIT, async () =>
      invalid(await send({ data }), `invalid base64 input: ${why}`))
  test('the body is judged before the process is looked for', LIMIT, async () => {
    invalid(
      await send({ data: '!!!!' }, 'proc_9999'),
      'invalid base64 input: Invalid symbol 33, offset 0.',
    )
    invalid(
      await send({ data: '', encoding: 'x' }, 'proc_9999'),
      'encoding must be one of: base64, utf8, text',
    )
    assert.equal(
      (await send({ data: 'x'.repeat(65537), encoding: 'text' }, 'proc_9999')).status,
      413,
    )
    noProcess(await send({ data: '' }, 'proc_9999'), 'proc_9999')
  })
  test('without data: 422; data of another type: 422', LIMIT, async () => {
    invalid(await send({}), shape('missing field `data`'), 422)
    invalid(await send({ data: 5 }), shape('data: invalid type: integer `5`, expected a string'), 422)
  })
  test('maxInputBytesPerRequest counts decoded bytes: at it, and one above', LIMIT, async () => {
    const at = Buffer.alloc(65536, 'x')
    assert.deepEqual((await send({ data: at.toString('base64') })).json, { bytesWritten: 65536 })
    const above = Buffer.alloc(65537, 'x').toString('base64')
    problem(
      await send({ data: above }), 413, 'invalid_request', 'Payload Too Large',
      'invalid request: input payload exceeds maxInputBytesPerRequest (65536)',
    )
  })
  test('after the exit: 409', LIMIT, async () => {
    const p = await create(server, { command: 'true' })
    await ended(server, p.id)
    conflict(await send({ data: 'YQ==' }, p.id), 'process is not running')
  })
  test('eof closes stdin behind the data', LIMIT, async () => {
    const p = await create(server, { command: 'wc', args: ['-c'] })
    assert.equal((await send({ data: 'YWJj', eof: true }, p.id)).status, 200)
    await ended(server, p.id)
    assert.equal((await output(server, p.id)).trim(), '3')
  })
  test('a tty is typed to; eof is ^D', LIMIT, async () => {
    const p = await create(server, { command: 'cat', tty: true })
    await send({ data: 'hi\n', encoding: 'text', eof: true }, p.id)
    assert.equal((await ended(server, p.id)).exitCode, 0)
    assert.match(await output(server, p.id), /^hi\r\n(\^D..)?hi\r\n/)
  })
})

describe('resize', () => {
  test('echoes, and the program sees it', LIMIT, async () => {
    const p = await create(server, sh('echo up; read x; stty size', { tty: true }))
    await said(server, p.id, /up/)
    const r = await post(server, `${p.id}/terminal/resize`, { cols: 101, rows: 33 })
    assert.equal(r.text, '{"cols":101,"rows":33}')
    await input(server, p.id, '\n')
    await ended(server, p.id)
    assert.match(await output(server, p.id), /33 101/)
  })
  test('0 is accepted, 65535 too, 65536 is not', LIMIT, async () => {
    const p = await create(server, { command: 'cat', tty: true })
    for (const n of [0, 65535]) {
      const r = await post(server, `${p.id}/terminal/resize`, { cols: n, rows: n })
      assert.deepEqual([r.status, r.json], [200, { cols: n, rows: n }])
    }
    invalid(
      await post(server, `${p.id}/terminal/resize`, { cols: 1, rows: 65536 }),
      shape('rows: invalid value: integer `65536`, expected u16'),
      422,
    )
    await post(server, `${p.id}/kill`)
    conflict(
      await post(server, `${p.id}/terminal/resize`, { cols: 1, rows: 1 }),
      'PTY resize handle unavailable',
    )
  })
  test('without a terminal: 409', LIMIT, async () => {
    const p = await create(server, { command: 'true' })
    conflict(
      await post(server, `${p.id}/terminal/resize`, { cols: 1, rows: 1 }),
      'process is not running in tty mode',
    )
  })
})

test('the SDK, unmodified: every method that is not a stream', LIMIT, async (t) => {
  const s = await start(t, { args: ['--token', 'T'] })
  const sdk = await SandboxAgent.connect({ baseUrl: s.url, token: 'T' })
  t.after(() => sdk.dispose())
  assert.deepEqual(await sdk.getProcessConfig(), DEFAULTS)
  assert.deepEqual(await sdk.setProcessConfig({ ...DEFAULTS, maxOutputBytes: 7 }), {
    ...DEFAULTS,
    maxOutputBytes: 7,
  })
  const p = await sdk.createProcess({ command: 'cat', tty: true, cwd: tempDir(t) })
  assert.equal(p.status, 'running')
  assert.deepEqual((await sdk.listProcesses({ owner: 'user' })).processes, [p])
  assert.deepEqual(
    await sdk.resizeProcessTerminal(p.id, { cols: 90, rows: 20 }),
    { cols: 90, rows: 20 },
  )
  assert.deepEqual(
    await sdk.sendProcessInput(p.id, { data: 'hi\n', encoding: 'utf8' }),
    { bytesWritten: 3 },
  )
  await until(async () => (await sdk.getProcessLogs(p.id)).entries.length, 'output')
  const rejected = (call, status, type) =>
    assert.rejects(call, (e) => e.status === status && e.problem.type.endsWith(type))
  await rejected(sdk.deleteProcess(p.id), 409, ':conflict')
  assert.equal((await sdk.stopProcess(p.id, { waitMs: 10_000 })).status, 'exited')
  assert.equal((await sdk.killProcess(p.id, { waitMs: 100 })).status, 'exited')
  assert.equal((await sdk.getProcess(p.id)).id, p.id)
  await rejected(sdk.sendProcessInput(p.id, { data: 'aGk=' }), 409, ':conflict')
  await sdk.deleteProcess(p.id)
  await rejected(sdk.getProcess(p.id), 404, ':not_found')
  await rejected(sdk.createProcess({ command: 'no-such-program-here' }), 502, ':stream_error')
  await rejected(sdk.createProcess({ command: '' }), 400, ':invalid_request')
  await rejected(sdk.setProcessConfig({}), 422, ':invalid_request')
  const run = await sdk.runProcess({ command: 'echo', args: ['0123456789'] })
  assert.deepEqual([run.stdout, run.stdoutTruncated, run.exitCode], ['0123456', true, 0])
})
