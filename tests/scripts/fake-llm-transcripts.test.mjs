// The recordings of real agents have the shape that tests/fake-llm/README.md states and hold
// nothing of the machine they were made on; the driver that made them records what happens.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'

const kit = path.join(import.meta.dirname, '../fake-llm')
const driver = path.join(kit, 'acp-drive.mjs')
const folder = path.join(kit, 'transcripts')
const files = fs.readdirSync(folder).sort()
const parse = (text) => text.trimEnd().split('\n').map((line) => JSON.parse(line))
const read = (file) => fs.readFileSync(path.join(folder, file), 'utf8')
const isNative = (file) => file.includes('-native-')

const AGENTS = [
  'auggie', 'claude', 'cline', 'codex', 'copilot', 'cursor', 'droid', 'gemini', 'opencode', 'pi',
  'qwen',
]
// How the driver gave up on agents that did not answer in time.
const TIMED_OUT = ['cursor-init.jsonl', 'opencode-error-drop.jsonl', 'qwen-error-529.jsonl']

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
const LINES = {
  send: (line) => isObject(line.msg) || /^(GET|POST) \//.test(line.http),
  recv: (line) => isObject(line.msg) || (/^(GET|POST) \//.test(line.http) && line.status >= 200),
  event: (line) => isObject(line.event),
  stdout: (line) => typeof line.line === 'string',
  stderr: (line) => typeof line.line === 'string',
  note: (line) => typeof line.event === 'string',
}

test('every transcript is named after an agent and a case', () => {
  assert.ok(files.length >= 145, `${files.length} files`)
  for (const file of files) assert.match(file, /^[a-z]+(-[a-z0-9]+)+\.jsonl$/)
  assert.deepEqual([...new Set(files.map((file) => file.split('-')[0]))], AGENTS)
})

test('every line is a JSON object with a known direction, in order of time', () => {
  for (const file of files) {
    let last = 0
    for (const [i, line] of parse(read(file)).entries()) {
      const where = `${file}:${i + 1}`
      assert.ok(LINES[line.dir]?.(line), `${where}: ${JSON.stringify(line).slice(0, 100)}`)
      const ms = line.ms ?? last
      assert.ok(ms >= last, `${where}: ${ms} ms after ${last} ms`)
      last = ms
    }
  }
})

function checkAcp(file) {
  const lines = parse(read(file))
  const messages = lines.filter((line) => line.msg)
  const first = lines[0]
  const end = lines.at(-1)
  assert.equal(first.event, 'spawn')
  assert.ok(first.command.length > 0)
  assert.equal(end.event, 'end')
  assert.equal(typeof end.how, 'string')
  assert.ok(isObject(end.marks))
  assert.equal(end.error === 'timeout', TIMED_OUT.includes(file))
  assert.ok(messages.every((line) => line.msg.jsonrpc === '2.0'))
  assert.equal(messages[0].msg.method, 'initialize')
  checkAnswers(lines, end)
}

// Each reply belongs to a request of the other side that was still open.
function checkAnswers(lines, end) {
  const open = { send: new Map(), recv: new Map() }
  const other = { send: 'recv', recv: 'send' }
  for (const { dir, msg } of lines.filter((line) => line.msg)) {
    if (msg.method && msg.id !== undefined) open[dir].set(msg.id, msg.method)
    if (msg.method) continue
    const known = open[other[dir]].delete(msg.id)
    assert.ok(known, `a reply to nothing: ${JSON.stringify(msg).slice(0, 100)}`)
    assert.notEqual('result' in msg, 'error' in msg)
  }
  if (end.error !== 'timeout') assert.deepEqual([...open.send.values()], [])
  const stops = lines.filter((line) => line.event === 'stop').map((line) => line.stopReason)
  const replies = lines.map((line) => line.dir === 'recv' && line.msg.result?.stopReason)
  assert.deepEqual(stops, replies.filter(Boolean))
}

for (const agent of AGENTS) {
  test(`${agent}: a whole ACP conversation from spawn to end`, () => {
    const own = files.filter((file) => file.startsWith(`${agent}-`) && !isNative(file))
    assert.ok(own.length > 0)
    for (const file of own) {
      try {
        checkAcp(file)
      } catch (error) {
        error.message = `${file}: ${error.message}`
        throw error
      }
    }
  })
}

// What a recording must not hold.
const MACHINE = [
  ['a home or temporary directory', /(?<![\w.])\/(home|root|Users|tmp|mnt|srv|work)\//],
  ['a mail address', /[\w.+-]+@[a-z0-9-]+(\.[a-z0-9-]+)*\.(com|org|net|io|dev|local)\b/i],
  ['a key', /\b(sk-(?!fake\b)[\w-]{8,}|gh[opsu]_\w{20,}|AIza[\w-]{30,}|npm_\w{30,}|xox[bp]-)/],
  ['a signed token', /\beyJ[\w-]{20,}\./],
  ['a private network', /\b(10|192\.168|172\.(1[6-9]|2\d|3[01]))(\.\d{1,3}){2,3}\b/],
  ['a host', /https?:\/\/(?!127\.0\.0\.1:4200\b|agentclientprotocol\.com\/|github\.com\/)[^\s"]+/],
]
for (const [what, pattern] of MACHINE) {
  test(`no transcript holds ${what}`, () => {
    for (const file of files) assert.equal(pattern.exec(read(file))?.[0], undefined, file)
  })
}

// An agent in a few lines: it answers the calls of the driver and asks for one permission.
const AGENT = `
  const out = (msg) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...msg }) + '\\n')
  const update = (text) => out({ method: 'session/update', params: { sessionId: 's', update: {
    sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } } })
  let prompt
  const calls = {
    initialize: () => ({ protocolVersion: 1 }),
    'session/new': ({ cwd }) => ({ sessionId: 's', cwd }),
    'session/prompt': ({ prompt: [{ text }] }, id) => {
      if (text === 'die') process.exit(7)
      if (text === 'refuse') return void out({ id, error: { code: 400, message: 'no' } })
      prompt = id
      update('hello')
      if (text === 'ask') out({ id: 0, method: 'session/request_permission', params: { options: [
        { optionId: 'x', kind: 'allow_always' }, { optionId: 'y', kind: 'allow_once' },
        { optionId: 'z', kind: 'reject_once' } ] } })
    },
    'session/cancel': () => void out({ id: prompt, result: { stopReason: 'cancelled' } }),
  }
  console.log('not JSON')
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params, result } = JSON.parse(line)
    const stopReason = result?.outcome.optionId ?? 'none'
    if (!method) return out({ id: prompt, result: { stopReason } })
    const answer = calls[method](params, id)
    if (answer) out({ id, result: answer })
  })
`

async function drive(t, ...argv) {
  const cwd = fs.mkdtempSync(path.join(os.tmpdir(), 'acp-drive-'))
  t.after(() => fs.rmSync(cwd, { recursive: true }))
  const out = path.join(cwd, 'out.jsonl')
  const options = ['--cwd', cwd, '--clean-env', '--settle', '0', '--timeout', '20', '--out', out]
  const agent = ['--replace', `${cwd}=/workspace`, '--brief', '--', process.execPath, '-e', AGENT]
  const words = [driver, ...options, ...argv, ...agent]
  const child = spawn(process.execPath, words, { stdio: 'ignore' })
  const [status] = await once(child, 'exit')
  const text = fs.readFileSync(out, 'utf8')
  const lines = parse(text)
  return { status, lines, text, cwd, end: lines.at(-1) }
}

const drives = [
  ['picks the option of a kind', ['--prompt', 'ask'], 0, { stopReason: 'y' }],
  ['denies', ['--deny', '--prompt', 'ask'], 0, { stopReason: 'z' }],
  ['cancels a permission', ['--cancel-perm', '--prompt', 'ask'], 0, { stopReason: 'none' }],
  ['cancels a turn', ['--cancel-after', '0', '--prompt', 'x'], 0, { stopReason: 'cancelled' }],
  ['tells a refusal', ['--prompt', 'refuse'], 1, { error: { code: 400, message: 'no' } }],
  ['tells a death', ['--prompt', 'die'], 2, { error: 'agent exited early: code 7 signal null' }],
]
// Side by side: they spend their time in starting programs.
describe('the driver', { concurrency: true }, () => {
  for (const [name, argv, wanted, fields] of drives) {
    test(`the driver ${name}`, async (t) => {
      const { status, lines, text, cwd, end } = await drive(t, ...argv)
      assert.equal(status, wanted)
      assert.partialDeepStrictEqual(end, { event: 'end', ...fields })
      assert.equal(lines[0].event, 'spawn')
      assert.ok(lines.some((line) => line.dir === 'stdout' && line.line === 'not JSON'))
      assert.ok(!text.includes(cwd) && text.includes('"cwd":"/workspace"'))
      if (wanted === 0) checkAnswers(lines, end)
    })
  }

  test('the driver wants a command', async () => {
    const child = spawn(process.execPath, [driver, '--cwd', '.'], { stdio: 'ignore' })
    assert.deepEqual(await once(child, 'exit'), [64, null])
  })
})
