#!/usr/bin/env node
// A scripted model endpoint: real coding agents talk to it as to their vendor's, without a key and
// without a network. One process serves every dialect; the newest user text is the script of the
// answer. README.md describes the script language, the paths and the request log.
//
//   node fake-llm.mjs [--port 4200] [--host 127.0.0.1] [--delay MS] [--slow MS]
//                     [--log FILE] [--log-bodies]
//
// The first line on stdout is "fake-llm listening on URL"; port 0 takes a free one. In a test:
//
//   const llm = await startFakeLlm({ slowMs: 5 })    // { url, requests, seen, stop }
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { anthropic } from './dialects/anthropic.mjs'
import { chat } from './dialects/chat.mjs'
import { callJson, tokensOf } from './dialects/content.mjs'
import { gemini } from './dialects/gemini.mjs'
import { responses } from './dialects/responses.mjs'
import { decide } from './reply.mjs'
import { RequestLog } from './request-log.mjs'

const DEFAULT_PORT = 4200
const DELAY_MS = 10
const SLOW_MS = 100
const MAX_BODY = 64 * 1024 * 1024
const LOGGED_TEXT = 500
const LOGGED_REPLY = 200

const DIALECTS = [anthropic, responses, chat, gemini]

const MODELS = [
  'claude-sonnet-4-5', 'claude-haiku-4-5', 'gpt-5', 'gpt-5-codex', 'gemini-2.5-pro', 'fake-model',
]

const ERROR_TYPES = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}

// A request that cannot be served as asked; `message` is for whoever wrote the test.
class Refusal extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

function modelList() {
  const data = MODELS.map((id) => ({
    id,
    object: 'model',
    type: 'model',
    display_name: id,
    created: 0,
    created_at: '2025-01-01T00:00:00Z',
    owned_by: 'fake',
  }))
  return { object: 'list', data, has_more: false, first_id: MODELS[0], last_id: MODELS.at(-1) }
}

// Paths without a script. Only the end of a path counts, so any prefix in a base URL works.
const FIXED = [
  { method: 'HEAD', path: /^/, body: () => ({}) },
  { method: 'GET', path: /^\/health$/, body: () => ({ ok: true }) },
  { method: 'GET', path: /\/models$/, body: modelList },
  {
    method: 'POST',
    path: /\/count_tokens$/,
    body: (asked) => ({ input_tokens: tokensOf(asked) }),
  },
  { method: 'POST', path: /:countTokens$/, body: (asked) => ({ totalTokens: tokensOf(asked) }) },
]

async function readBody(req) {
  const pieces = []
  let size = 0
  for await (const piece of req) {
    size += piece.length
    if (size <= MAX_BODY) pieces.push(piece)
  }
  // Read to its end all the same, or the client would see a broken pipe in place of the answer.
  if (size > MAX_BODY) throw new Refusal(413, `body of more than ${MAX_BODY} bytes`)
  return Buffer.concat(pieces).toString('utf8')
}

function parseBody(text) {
  let body
  try {
    body = JSON.parse(text || '{}')
  } catch (error) {
    throw new Refusal(400, `body is not JSON: ${error.message}`)
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body
  throw new Refusal(400, 'body is not a JSON object')
}

function describePart({ type, call, chunks = [] }) {
  if (!call) return `${type} ${chunks.join('').slice(0, LOGGED_REPLY)}`.trimEnd()
  return `call ${call.tool.name} ${call.input ?? callJson(call)}`
}

const describe = (api, request, reply) => ({
  api,
  model: request.model,
  stream: request.stream,
  text: reply.text.slice(0, LOGGED_TEXT),
  tools: request.tools.map((tool) => tool.name),
  reply: reply.status ? `http ${reply.status}` : reply.parts.map(describePart),
})

// One endpoint: its request log, its ids and what it remembers between requests.
class FakeLlm {
  #failures = new Map()
  #ids = 0
  #active = new Set()

  constructor({ delayMs, slowMs, logFile, keepBodies }) {
    Object.assign(this, { delayMs, slowMs, keepBodies })
    this.log = new RequestLog(logFile)
    this.server = http.createServer((req, res) => {
      const work = this.#serve(req, res).finally(() => this.#active.delete(work))
      this.#active.add(work)
    })
  }

  newId = (prefix) => `${prefix}_fake${String(++this.#ids).padStart(6, '0')}`

  async #serve(req, res) {
    const entry = this.log.open(req.method, req.url)
    const exchange = { req, res, entry, path: new URL(req.url, 'http://x').pathname }
    // The reader may leave at any time; only then, not when we cut the line, did it hang up.
    res.on('close', () => {
      if (!res.writableFinished && !entry.dropped) this.log.update(entry, { hungUp: true })
    })
    try {
      const body = parseBody(await readBody(req))
      if (this.keepBodies) entry.body = body
      await this.#answer(exchange, body)
    } catch (error) {
      entry.error = error instanceof Refusal ? error.message : String(error.stack ?? error)
      this.#refuse(exchange, chat, error.status ?? 500, error.message)
    }
    this.log.close(entry)
  }

  #json({ res, entry }, status, data) {
    if (res.headersSent) return res.destroy()
    entry.status = status
    res.writeHead(status, { 'content-type': 'application/json', 'request-id': this.newId('req') })
    return res.end(JSON.stringify(data))
  }
  #refuse(exchange, dialect, status, message) {
    const type = ERROR_TYPES[status] ?? 'api_error'
    this.#json(exchange, status, dialect.error({ status, type, message, newId: this.newId }))
  }

  async #answer(exchange, body) {
    const { req, path, entry } = exchange
    const fixed = FIXED.find((row) => row.method === req.method && row.path.test(path))
    if (fixed) return this.#json(exchange, 200, fixed.body(body))
    const dialect = req.method === 'POST' && DIALECTS.find((one) => one.path.test(path))
    if (!dialect) throw new Refusal(404, `nothing at ${req.method} ${path}`)

    const request = dialect.read(body, path)
    const reply = decide(request, this.#failures)
    this.log.update(entry, describe(dialect.api, request, reply))
    if (!reply.status) return this.#play(exchange, dialect, request, reply.parts, tokensOf(body))
    return this.#refuse(exchange, dialect, reply.status, `scripted failure ${reply.status}`)
  }

  #emitter({ res }) {
    const headers = {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      'request-id': this.newId('req'),
    }
    return (event, data) => {
      if (res.destroyed) return
      if (!res.headersSent) res.writeHead(200, headers)
      const text = typeof data === 'string' ? data : JSON.stringify(data)
      res.write(`${event ? `event: ${event}\n` : ''}data: ${text}\n\n`)
    }
  }

  // Plays the parts to the writer of a dialect: it streams them as they come, or collects a body.
  async #play(exchange, dialect, request, parts, inputTokens) {
    const { res, entry } = exchange
    const emit = request.stream ? this.#emitter(exchange) : () => {}
    const writer = dialect.writer({ emit, newId: this.newId, request, inputTokens })
    // Not before there is something to say: a script that begins with "hang:" sends no byte.
    let begin = () => {
      begin = () => {}
      writer.begin()
    }
    entry.status = 200
    for (const part of parts) {
      if (res.destroyed) return
      if (part.type === 'drop') return this.#drop(exchange)
      if (part.type === 'hang') return void (await once(res, 'close'))
      if (part.chunks?.length === 0) continue
      begin()
      const pace = () => res.destroyed || sleep(part.isSlow ? this.slowMs : this.delayMs)
      await writer[part.type](part.call ?? part.chunks, pace)
    }
    if (!request.stream) return void this.#json(exchange, 200, writer.body())
    begin()
    writer.end()
    res.end()
  }

  // Cuts the connection once what was written is on its way, without an end of the stream.
  #drop({ req, entry }) {
    entry.dropped = true
    req.socket.destroySoon()
  }

  async stop() {
    const closed = once(this.server, 'close')
    this.server.close()
    this.server.closeAllConnections()
    await closed
    await Promise.all(this.#active)
  }
}

// Starts an endpoint. `requests` are the newest entries of its log (README.md), `seen(fits)` waits
// for one, `stop()` cuts every connection and resolves when no request is left.
export async function startFakeLlm(options = {}) {
  const { port = 0, host = '127.0.0.1', delayMs = DELAY_MS, slowMs = SLOW_MS } = options
  const { logFile, keepBodies = false } = options
  if (logFile) fs.appendFileSync(logFile, '') // a file that cannot be written is told now
  const llm = new FakeLlm({ delayMs, slowMs, logFile, keepBodies })
  llm.server.listen(port, host)
  await once(llm.server, 'listening')
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${llm.server.address().port}`,
    requests: llm.log.requests,
    seen: (fits, limitMs) => llm.log.seen(fits, limitMs),
    stop: () => llm.stop(),
  }
}

async function main() {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: String(DEFAULT_PORT) },
      host: { type: 'string' },
      delay: { type: 'string', default: String(DELAY_MS) },
      slow: { type: 'string', default: String(SLOW_MS) },
      log: { type: 'string' },
      'log-bodies': { type: 'boolean', default: false },
    },
  })
  const llm = await startFakeLlm({
    port: Number(values.port),
    host: values.host,
    delayMs: Number(values.delay),
    slowMs: Number(values.slow),
    logFile: values.log,
    keepBodies: values['log-bodies'],
  })
  console.log(`fake-llm listening on ${llm.url}`)
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => llm.stop())
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  await main()
