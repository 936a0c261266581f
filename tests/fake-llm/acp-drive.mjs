#!/usr/bin/env node
// Drives one ACP agent over its pipes and prints everything that crosses them: the tool that
// records transcripts/.
//
//   node acp-drive.mjs --cwd DIR [options] --prompt "run: echo hi" -- COMMAND…
//
// It calls initialize, authenticate if asked, session/new, the settings, and session/prompt once
// per --prompt; then it closes the agent's stdin and reports how the agent ends.
//
//   --env K=V          add to the agent's environment (repeatable)
//   --clean-env        give the agent PATH and --env only: a stray key or URL changes the result
//   --allow | --deny   answer to session/request_permission (default --allow), chosen by kind
//   --cancel-perm      answer permission requests with the outcome "cancelled"
//   --cancel-after MS  send session/cancel MS after the last prompt's first update or permission
//                      request
//   --auth METHOD      call authenticate with this method id after initialize
//   --mode ID          session/set_mode
//   --config ID=VALUE  session/set_config_option (repeatable)
//   --init-only        stop after session/new
//   --load SESSION     session/load in place of session/new
//   --no-fs            do not offer the fs capabilities
//   --terminal         offer the terminal capability (its requests are refused, but recorded)
//   --timeout SEC      limit for all (default 90)
//   --grace MS         how long the agent may take to end once its stdin is closed (default 3000)
//   --settle MS        how long to wait for what follows the last reply (default 300)
//   --out FILE         write the lines to FILE as well
//   --replace FROM=TO  replace FROM in every line, literally (repeatable)
//   --brief            shorten the lines on stdout; those in --out stay whole
//
// README.md describes the lines. Exit status: 0 the prompts ended with a stop reason, 1 a JSON-RPC
// error, 2 a time-out or the agent's death, 64 wrong usage.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import readline from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const STATUS = { ok: 0, refused: 1, broken: 2, usage: 64 }
const TERM_MS = 3000
const DRAIN_MS = 200
const BRIEF_LENGTH = 300
const METHOD_NOT_FOUND = -32601
const INTERNAL_ERROR = -32603
const RESOURCE_NOT_FOUND = -32002
// Updates that show the model at work; others may come at any time.
const STREAMED = new Set(['agent_message_chunk', 'agent_thought_chunk', 'tool_call'])

const text = { type: 'string' }
const flag = { type: 'boolean', default: false }
const list = { type: 'string', multiple: true, default: [] }
const number = (value) => ({ type: 'string', default: String(value) })
const OPTIONS = {
  cwd: { type: 'string', default: '.' },
  env: list,
  'clean-env': flag,
  allow: flag,
  deny: flag,
  'cancel-perm': flag,
  'cancel-after': text,
  auth: text,
  mode: text,
  config: list,
  prompt: list,
  'init-only': flag,
  load: text,
  'no-fs': flag,
  terminal: flag,
  timeout: number(90),
  grace: number(3000),
  settle: number(300),
  out: text,
  replace: list,
  brief: flag,
}

function readArguments() {
  const words = process.argv.slice(2)
  const split = words.indexOf('--')
  try {
    if (split < 0 || split === words.length - 1) throw new Error('no command after --')
    const { values } = parseArgs({ args: words.slice(0, split), options: OPTIONS })
    return { opt: values, command: words.slice(split + 1) }
  } catch (error) {
    console.error(`acp-drive: ${error.message}`)
    console.error('usage: acp-drive.mjs --cwd DIR [options] --prompt TEXT -- COMMAND…')
    process.exit(STATUS.usage)
  }
}

function splitPair(pair) {
  const at = pair.indexOf('=')
  return at < 0 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)]
}

// The lines of a transcript, each with its time since the start.
class Recorder {
  #startMs = performance.now()
  #fd

  constructor(opt) {
    this.opt = opt
    this.#fd = opt.out ? fs.openSync(opt.out, 'w') : undefined
  }
  ms() {
    return Math.round(performance.now() - this.#startMs)
  }
  line(dir, data) {
    let line = JSON.stringify({ ms: this.ms(), dir, ...data })
    for (const [from, to] of this.opt.replace.map(splitPair))
      line = line.replaceAll(from, () => to)
    if (this.#fd !== undefined) fs.writeSync(this.#fd, `${line}\n`)
    console.log(this.opt.brief ? line.slice(0, BRIEF_LENGTH) : line)
  }
}

// The agent's process. It leads a group of its own, since launchers are often wrappers around the
// real agent, and a signal to the wrapper alone would leave that one behind.
class Agent {
  end // { code, signal, ms } once it has ended

  constructor(command, opt, recorder) {
    const cwd = path.resolve(opt.cwd)
    fs.mkdirSync(cwd, { recursive: true })
    const env = opt['clean-env'] ? { PATH: process.env.PATH } : { ...process.env }
    Object.assign(env, Object.fromEntries(opt.env.map(splitPair)))
    this.cwd = cwd
    this.recorder = recorder
    this.child = spawn(command[0], command.slice(1), { cwd, env, detached: true })
    this.child.stdin.on('error', () => {}) // it may end before it has read all
    this.failed = once(this.child, 'error').then(([error]) => error)
    this.exited = once(this.child, 'exit').then(([code, signal]) => {
      this.end = { code, signal, ms: recorder.ms() }
    }, () => {})
    this.closed = once(this.child, 'close').catch(() => {})
  }

  signal(name) {
    try {
      process.kill(-this.child.pid, name)
    } catch {
      // the group is gone already
    }
  }

  // Ends it as gently as it lets us and tells how that went.
  async finish(graceMs) {
    if (this.end || this.child.pid === undefined) return 'already exited'
    const closedMs = this.recorder.ms()
    this.child.stdin.end()
    await Promise.race([this.exited, sleep(graceMs)])
    if (this.end) return `exited ${this.end.ms - closedMs} ms after stdin closed`
    this.signal('SIGTERM')
    await Promise.race([this.exited, sleep(TERM_MS)])
    if (this.end) return `still alive ${graceMs} ms after stdin closed, SIGTERM sent`
    this.signal('SIGKILL')
    await this.exited
    return 'ignored stdin close and SIGTERM, SIGKILL sent'
  }
}

// What a client answers to an agent's own requests: method → result.
const SERVICES = {
  'session/request_permission'({ options = [] }, opt) {
    if (opt['cancel-perm']) return { outcome: { outcome: 'cancelled' } }
    const want = opt.deny ? 'reject' : 'allow'
    const pick =
      options.find((option) => option.kind === `${want}_once`) ??
      options.find((option) => option.kind?.startsWith(want)) ??
      options[0]
    return { outcome: { outcome: 'selected', optionId: pick.optionId } }
  },
  'fs/read_text_file'({ path: file, line = 1, limit }) {
    const lines = fs.readFileSync(file, 'utf8').split('\n')
    const from = Math.max(0, (line ?? 1) - 1)
    return { content: lines.slice(from, limit ? from + limit : undefined).join('\n') }
  },
  'fs/write_text_file'({ path: file, content }) {
    fs.mkdirSync(path.dirname(file), { recursive: true })
    fs.writeFileSync(file, content)
    return {}
  },
}

// Raised when an agent refuses one of our calls.
class Refused extends Error {
  constructor(method, error) {
    super(`${method} refused`)
    this.result = { failed: method, error }
  }
}

// Both ends of the JSON-RPC connection. The two directions number their requests apart.
class Connection {
  #pending = new Map()
  #nextId = 0

  constructor(agent, opt, recorder, onActivity) {
    Object.assign(this, { agent, opt, recorder, onActivity })
    const { stdout, stderr } = agent.child
    readline.createInterface({ input: stderr }).on('line', (line) => {
      if (line.trim()) recorder.line('stderr', { line })
    })
    readline.createInterface({ input: stdout }).on('line', (line) => {
      if (line.trim()) this.#receive(line)
    })
  }

  send(msg) {
    this.recorder.line('send', { msg })
    this.agent.child.stdin.write(`${JSON.stringify(msg)}\n`)
  }
  notify(method, params) {
    this.send({ jsonrpc: '2.0', method, params })
  }
  async call(method, params) {
    const id = this.#nextId++
    const { promise, resolve } = Promise.withResolvers()
    this.#pending.set(id, resolve)
    this.send({ jsonrpc: '2.0', id, method, params })
    const reply = await promise
    if (reply.error) throw new Refused(method, reply.error)
    return reply.result
  }

  #receive(line) {
    let msg
    try {
      msg = JSON.parse(line)
    } catch {
      return this.recorder.line('stdout', { line })
    }
    this.recorder.line('recv', { msg })
    if (!msg.method) return this.#settle(msg)
    if (msg.id !== undefined) return this.#serve(msg)
    if (STREAMED.has(msg.params?.update?.sessionUpdate)) this.onActivity('update')
  }
  #settle(msg) {
    this.#pending.get(msg.id)?.(msg)
    this.#pending.delete(msg.id)
  }
  #serve({ id, method, params }) {
    const refuse = (code, message) => this.send({ jsonrpc: '2.0', id, error: { code, message } })
    // Some agents ask before they announce the tool call.
    if (method === 'session/request_permission') this.onActivity('permission')
    if (!Object.hasOwn(SERVICES, method))
      return refuse(METHOD_NOT_FOUND, `method not found: ${method}`)
    try {
      this.send({ jsonrpc: '2.0', id, result: SERVICES[method](params ?? {}, this.opt) })
    } catch (error) {
      refuse(error.code === 'ENOENT' ? RESOURCE_NOT_FOUND : INTERNAL_ERROR, error.message)
    }
  }
}

// One run: the calls in their order, and the times at which they came back.
class Run {
  marks = {}
  #isCancelArmed = false

  constructor(agent, opt, recorder) {
    Object.assign(this, { agent, opt, recorder })
    this.connection = new Connection(agent, opt, recorder, (what) => this.#onActivity(what))
  }

  #mark(name) {
    this.marks[name] = this.recorder.ms()
  }
  #onActivity(what) {
    if (this.marks.prompt === undefined) return
    if (what === 'update') this.marks.firstChunk ??= this.recorder.ms()
    if (!this.#isCancelArmed) return
    this.#isCancelArmed = false
    setTimeout(() => {
      this.#mark('cancel')
      this.connection.notify('session/cancel', { sessionId: this.sessionId })
    }, Number(this.opt['cancel-after']))
  }

  async #initialize() {
    const hasFs = !this.opt['no-fs']
    await this.connection.call('initialize', {
      protocolVersion: 1,
      clientCapabilities: {
        fs: { readTextFile: hasFs, writeTextFile: hasFs },
        terminal: this.opt.terminal,
      },
      clientInfo: { name: 'acp-drive', title: 'ACP driver', version: '1.0.0' },
    })
    this.#mark('initialize')
    if (this.opt.auth) await this.connection.call('authenticate', { methodId: this.opt.auth })
  }

  async #openSession() {
    const session = { cwd: this.agent.cwd, mcpServers: [] }
    this.sessionId = this.opt.load
    if (this.opt.load)
      await this.connection.call('session/load', { sessionId: this.opt.load, ...session })
    else this.sessionId = (await this.connection.call('session/new', session)).sessionId
    this.#mark('session')
  }

  async #configure() {
    const { sessionId, opt } = this
    if (opt.mode) await this.connection.call('session/set_mode', { sessionId, modeId: opt.mode })
    for (const [configId, value] of opt.config.map(splitPair))
      await this.connection.call('session/set_config_option', { sessionId, configId, value })
  }

  async #prompt(words, isLast) {
    this.#mark('prompt')
    delete this.marks.firstChunk
    this.#isCancelArmed = isLast && this.opt['cancel-after'] !== undefined
    const params = { sessionId: this.sessionId, prompt: [{ type: 'text', text: words }] }
    const result = await this.connection.call('session/prompt', params)
    this.#mark('done')
    this.recorder.line('note', { event: 'stop', stopReason: result?.stopReason })
    return { stopReason: result?.stopReason }
  }

  // Answers what the "end" line says about it.
  async play() {
    await this.#initialize()
    await this.#openSession()
    await this.#configure()
    const prompts = this.opt['init-only'] ? [] : this.opt.prompt
    let result = {}
    for (const [i, words] of prompts.entries())
      result = await this.#prompt(words, i === prompts.length - 1)
    // Notifications that come after the last reply are part of the record.
    await sleep(Number(this.opt.settle))
    return result
  }
}

// Everything that can end a run; the first one counts.
function outcome(run, agent, opt) {
  const broken = (error) => ({ status: STATUS.broken, result: { error } })
  const signalled = (name) => once(process, name).then(() => broken(`ended by ${name}`))
  const played = run.play().then(
    (result) => ({ status: STATUS.ok, result }),
    (error) => (error instanceof Refused
      ? { status: STATUS.refused, result: error.result }
      : broken(String(error))),
  )
  // What it wrote before it died counts, so its pipes are read to their end; a child of its own may
  // hold them open.
  const died = agent.exited.then(async () => {
    if (!agent.end) return agent.failed.then((error) => broken(String(error)))
    await Promise.race([agent.closed, sleep(DRAIN_MS)])
    return broken(`agent exited early: code ${agent.end.code} signal ${agent.end.signal}`)
  })
  const late = sleep(Number(opt.timeout) * 1000, broken('timeout'))
  return Promise.race([played, died, late, signalled('SIGINT'), signalled('SIGTERM')])
}

async function main() {
  const { opt, command } = readArguments()
  const recorder = new Recorder(opt)
  const agent = new Agent(command, opt, recorder)
  const shown = [path.basename(command[0]), ...command.slice(1)]
  recorder.line('note', { event: 'spawn', command: shown })
  const run = new Run(agent, opt, recorder)
  const { status, result } = await outcome(run, agent, opt)
  const how = await agent.finish(Number(opt.grace))
  const { code, signal } = agent.end ?? {}
  recorder.line('note', { event: 'end', ...result, marks: run.marks, how, exitCode: code, signal })
  agent.signal('SIGKILL') // what its launcher may have left behind
  process.exit(status)
}

await main()
