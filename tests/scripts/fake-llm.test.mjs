// The scripted model endpoint speaks every dialect as the script says.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import readline from 'node:readline'
import { test } from 'node:test'
import { startFakeLlm } from '../fake-llm/fake-llm.mjs'
import { dialects, post, readAll, talk } from '../fake-llm/talk.mjs'

const program = path.join(import.meta.dirname, '../fake-llm/fake-llm.mjs')
const forms = Object.keys(dialects).flatMap((api) =>
  [true, false].map((stream) => ({ api, stream })),
)

async function start(t, options) {
  const llm = await startFakeLlm({ delayMs: 0, slowMs: 0, ...options })
  t.after(() => llm.stop())
  return llm
}

// The test runs once per dialect, streamed and whole; `say` sends a script in that form.
function eachForm(title, check) {
  for (const { api, stream } of forms) {
    test(`${title} (${api}, ${stream ? 'streamed' : 'whole'})`, async (t) => {
      const llm = await start(t)
      const say = (text, more) => talk(llm.url, api, { text, stream, ...more })
      await check({ t, llm, api, stream, say, stops: dialects[api].stops })
    })
  }
}

eachForm('says a text', async ({ api, stream, say, stops }) => {
  const answer = await say('say: hello from\\nthe scripted model')
  assert.equal(answer.text, 'hello from\nthe scripted model')
  assert.equal(answer.stop, stops.text)
  assert.deepEqual(answer.calls, [])
  if (!stream) return
  const end = answer.events.at(-1)
  if (dialects[api].end) assert.equal(end.event ?? end.data, dialects[api].end)
  assert.ok(answer.events.length > 4, 'a text comes in several chunks')
})

eachForm('echoes a text without steps', async ({ say }) => {
  assert.equal((await say('what is this?')).text, 'echo: what is this?')
})

eachForm('thinks before it answers', async ({ say, stops }) => {
  const answer = await say('think: about the question')
  assert.equal(answer.thought, 'about the question')
  assert.equal(answer.text, 'thought it through')
  assert.equal(answer.stop, stops.text)
})

eachForm('calls a tool and tells its result', async ({ say, stops }) => {
  const script = { tools: ['other', 'Bash'] }
  const text = 'say: first\nrun: echo hi\nsay: last'
  const called = await say(text, script)
  assert.deepEqual(called.calls, [{ name: 'Bash', args: { command: 'echo hi' } }])
  assert.equal(called.text, 'first')
  assert.equal(called.stop, stops.call)

  const told = await say(text, { ...script, results: [`hi\n${'x'.repeat(300)}`] })
  assert.equal(told.text, `done: hi\n${'x'.repeat(197)}last`)
  assert.deepEqual(told.calls, [])
  assert.equal(told.stop, stops.text)
})

eachForm('calls tools one after another', async ({ say }) => {
  const text = 'run: one\ntool: Other {"a":1}'
  const second = await say(text, { tools: ['bash'], results: ['1'] })
  assert.deepEqual(second.calls, [{ name: 'Other', args: { a: 1 } }])
  assert.equal(second.text, '')
  const end = await say(text, { tools: ['bash'], results: ['1', '2'] })
  assert.equal(end.text, 'done: 2')
})

eachForm('counts slow chunks', async ({ say }) => {
  assert.equal((await say('slow: 3')).text, 'chunk 1 chunk 2 chunk 3 ')
  assert.equal((await say('slow: 1')).text, 'chunk 1 ')
  const empty = await say('slow: 0')
  assert.equal(empty.text, '')
  assert.equal(empty.status, 200)
  assert.ok(empty.stop)
})

eachForm('fails with the status that is asked for', async ({ api, say }) => {
  const { status, body } = await say('say: never\nfail: 529')
  assert.equal(status, 529)
  assert.equal(body.error.message, 'scripted failure 529')
  const kind = { gemini: body.error.status }[api] ?? body.error.type
  assert.match(kind, /^overloaded_error$/i)
  assert.equal((await say('fail: 529')).status, 529)
  assert.equal((await say('fail: 200')).status, 500)
})

eachForm('fails a number of times, then goes on', async ({ say }) => {
  const seen = []
  for (let i = 0; i < 3; i++) seen.push(await say('fail: 401 2\nsay: .'))
  assert.deepEqual(seen.map((one) => one.status), [401, 401, 200])
  assert.equal(seen[2].text, 'recovered after 2 failures.')
})

eachForm('cuts the connection', async ({ stream, say, llm }) => {
  if (stream) {
    const answer = await say('drop: 2')
    assert.equal(answer.isCut, true)
    assert.equal(answer.text, 'chunk 1 chunk 2 ')
    assert.equal(answer.stop, undefined)
  } else await assert.rejects(say('drop: 2'), { code: 'ECONNRESET' })
  await assert.rejects(say('drop: 0'), { code: 'ECONNRESET' })
  assert.ok(llm.requests.every((one) => one.dropped && !one.hungUp))
})

eachForm('hangs until the client leaves', async ({ say, llm }) => {
  const leave = new AbortController()
  const answer = say('hang:', { signal: leave.signal })
  const left = assert.rejects(answer, { name: 'AbortError' })
  const entry = await llm.seen((one) => one.reply?.[0] === 'hang')
  assert.equal(entry.hungUp, false)
  leave.abort()
  await left
  await llm.seen((one) => one.hungUp && one.isDone)
})

eachForm('names a session that an agent wants a title for', async ({ say }) => {
  const system = 'You write a title for a conversation.'
  assert.equal((await say('say: hi', { system })).text, 'Scripted session')
  assert.equal((await say('say: hi', { system, tools: ['bash'] })).text, 'hi')
  const wanted = 'Generate a concise session title as {"title": "..."}'
  assert.equal((await say(wanted, { tools: ['bash'] })).text, '{"title":"Scripted session"}')
})

for (const api of Object.keys(dialects)) {
  test(`a stream stalls after what was said (${api})`, async (t) => {
    const llm = await start(t)
    const asked = { text: 'say: before\nhang:', system: '', tools: [], results: [], stream: true }
    const dialect = dialects[api]
    const res = await post(llm.url, dialect.path(true), dialect.request(asked))
    assert.match(res.headers['content-type'], /^text\/event-stream/)
    let text = ''
    res.setEncoding('utf8').on('error', () => {})
    while (!/"ore"/.test(text)) text += (await once(res, 'data'))[0]
    res.destroy()
    await llm.seen((one) => one.hungUp && one.isDone)
  })
}

test('leaving in the middle of slow chunks ends them', async (t) => {
  const llm = await start(t, { slowMs: 1 })
  const leave = new AbortController()
  const asked = dialects.chat.request({ text: 'slow: 1000', tools: [], results: [], stream: true })
  const res = await post(llm.url, '/v1/chat/completions', asked, { signal: leave.signal })
  res.on('error', () => {})
  await once(res, 'data')
  leave.abort()
  await llm.seen((one) => one.hungUp && one.isDone)
})

const text = 'run: echo hi'
const custom = (name) => ({ type: 'custom', name })
const responsesTools = [
  ['code mode', [custom('exec')], text, 'text(await tools.exec_command({"cmd":"echo hi"}));'],
  ['local shell', [{ type: 'local_shell' }], text, ['bash', '-lc', 'echo hi']],
  ['a patch', [custom('apply_patch')], 'write: a b\\nc',
    '*** Begin Patch\n*** Add File: a\n+b\n+c\n*** End Patch\n'],
  ['a namespace', [{ type: 'namespace', tools: [custom('t')] }], 'tool: t as it is', 'as it is'],
]
for (const [name, tools, script, args] of responsesTools) {
  test(`calls the tools that only Responses has: ${name}`, async (t) => {
    const llm = await start(t)
    for (const stream of [true, false]) {
      const answer = await talk(llm.url, 'responses', { text: script, tools, stream })
      assert.deepEqual(answer.calls.map((call) => call.args), [args])
    }
  })
}

test('finds Codex tools in an input item', async (t) => {
  const llm = await start(t)
  const tools = [custom('exec')]
  const input = [{ type: 'additional_tools', tools }, { role: 'user', content: text }]
  const body = JSON.parse(await readAll(await post(llm.url, '/v1/responses', { input })))
  assert.equal(body.output[0].type, 'custom_tool_call')
})

test('serves health, models and token counts', async (t) => {
  const { url } = await start(t)
  const get = async (where) => (await fetch(url + where)).json()
  assert.deepEqual(await get('/health'), { ok: true })
  assert.ok((await get('/v1/models')).data.some((model) => model.id === 'fake-model'))
  assert.equal((await fetch(url, { method: 'HEAD' })).status, 200)
  const count = async (where) => JSON.parse(await readAll(await post(url, where, { a: 1 })))
  assert.deepEqual(await count('/v1/messages/count_tokens'), { input_tokens: 2 })
  assert.deepEqual(await count('/v1beta/models/m:countTokens'), { totalTokens: 2 })
})

test('refuses what it does not know', async (t) => {
  const llm = await start(t)
  const refused = async (where, body) => {
    const res = await post(llm.url, where, body)
    return [res.statusCode, JSON.parse(await readAll(res)).error.type]
  }
  assert.deepEqual(await refused('/v1/unknown', {}), [404, 'not_found_error'])
  assert.equal((await fetch(`${llm.url}/v1/messages`)).status, 404)
  assert.deepEqual(await refused('/v1/messages', '{"a'), [400, 'invalid_request_error'])
  assert.deepEqual(await refused('/v1/messages', 'null'), [400, 'invalid_request_error'])
  assert.deepEqual(await refused('/v1/messages', '[]'), [400, 'invalid_request_error'])
  assert.deepEqual(await refused('/v1/messages', { messages: 5 }), [500, 'api_error'])
  assert.match(llm.requests.at(-1).error, /TypeError/)
})

test('keeps what was asked and what it answered', async (t) => {
  const llm = await start(t, { keepBodies: true })
  await talk(llm.url, 'chat', { text, tools: ['bash'], stream: true })
  await talk(llm.url, 'anthropic', { text: 'fail: 400' })
  const [first, second] = llm.requests
  const { time, body, ...rest } = await llm.seen((one) => one === first && one.isDone)
  assert.match(time, /^\d{4}-.*Z$/)
  assert.equal(body.messages[1].content, text)
  assert.deepEqual(rest, {
    method: 'POST',
    path: '/v1/chat/completions',
    hungUp: false,
    isDone: true,
    status: 200,
    api: 'chat',
    model: 'fake-model',
    stream: true,
    text,
    tools: ['bash'],
    reply: ['call bash {"command":"echo hi"}'],
  })
  assert.equal(second.reply, 'http 400')
  assert.equal(second.status, 400)
  await assert.rejects(llm.seen(() => false, 1), /no such request within 1 ms, 2 others/)
})

test('two endpoints share nothing', async (t) => {
  const [one, two] = [await start(t), await start(t)]
  const ask = (llm) => talk(llm.url, 'chat', { text: 'fail: 500 1' })
  assert.deepEqual([(await ask(one)).status, (await ask(two)).status], [500, 500])
  assert.deepEqual([one.requests.length, two.requests.length], [1, 1])
})

test('stopping cuts a request that hangs', async () => {
  const llm = await startFakeLlm()
  const cut = assert.rejects(talk(llm.url, 'gemini', { text: 'hang:' }), { code: 'ECONNRESET' })
  await llm.seen((one) => one.reply)
  await llm.stop()
  await cut
  assert.equal(llm.requests[0].isDone, true)
})

test('runs as a program and writes its log', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fake-llm-'))
  t.after(() => fs.rmSync(folder, { recursive: true }))
  const log = path.join(folder, 'requests.jsonl')
  const argv = [program, '--port', '0', '--delay', '0', '--slow', '0', '--log', log, '--log-bodies']
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const [line] = await once(readline.createInterface({ input: child.stdout }), 'line')
  const [, url] = /^fake-llm listening on (http:\/\/127\.0\.0\.1:\d+)$/.exec(line)
  assert.equal((await talk(url, 'responses', { text: 'slow: 2' })).text, 'chunk 1 chunk 2 ')
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null])
  const entries = fs.readFileSync(log, 'utf8').trimEnd().split('\n').map((row) => JSON.parse(row))
  assert.equal(entries.length, 1)
  assert.deepEqual(entries[0].reply, ['text chunk 1 chunk 2'])
  assert.equal(entries[0].body.model, 'fake-model')
  assert.equal(entries[0].isDone, undefined)
})
