// Starts the real binary, port 0, with a state directory of its own, and checks how it ends.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { within } from './proc.mjs'

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
// The release binary, and the same server under ASan/UBSan with the /test routes.
export const RELEASE = process.env.SA_BIN ?? join(ROOT, 'build/sandbox-agent')
export const TESTD = process.env.SA_TESTD ?? join(ROOT, 'build/asan/tests/testd')

const SANITIZER = /(ERROR|WARNING): \w+Sanitizer|runtime error:|SUMMARY: \w+Sanitizer/
const START_MS = 20_000
const STOP_MS = 30_000
const live = new Set()
const dirs = new Set()

process.on('exit', () => {
  for (const child of live) child.kill('SIGKILL')
  for (const dir of dirs) removeDir(dir)
})

function removeDir(dir) {
  rmSync(dir, { recursive: true, force: true, maxRetries: 3 })
  dirs.delete(dir)
}

export function tempDir(t) {
  const dir = mkdtempSync(join(tmpdir(), 'sa-test-'))
  dirs.add(dir)
  t?.after(() => removeDir(dir))
  return dir
}

// A small, known environment: nothing of the developer's own settings reaches the server.
export function cleanEnv(dataDir, more = {}) {
  return {
    PATH: process.env.PATH,
    HOME: dataDir,
    XDG_DATA_HOME: dataDir,
    XDG_STATE_HOME: join(dataDir, 'state'),
    XDG_CONFIG_HOME: join(dataDir, 'config'),
    ASAN_OPTIONS: 'detect_leaks=1:exitcode=99:detect_stack_use_after_return=1',
    UBSAN_OPTIONS: 'print_stacktrace=1:halt_on_error=1:exitcode=99',
    ...more,
  }
}

// ASan keeps freed memory aside; with a small quarantine the resident size says something again.
export const FLAT_MEMORY = { ASAN_OPTIONS: 'detect_leaks=1:exitcode=99:quarantine_size_mb=1' }

class Server {
  constructor(child, dataDir) {
    this.child = child
    this.pid = child.pid
    this.dataDir = dataDir
    this.out = ''
    this.err = ''
    this.url = undefined
    this.port = undefined
    this.isWanted = true
    this.exited = new Promise((done) => {
      child.on('exit', (code, signal) => {
        live.delete(child)
        done({ code, signal })
      })
      child.on('error', (error) => done({ code: null, signal: null, error }))
    })
    // Output may still be in the pipe when the exit is known: `ended` is the later of both.
    this.ended = new Promise((done) => child.on('close', done)).then(() => this.exited)
    child.stdout.setEncoding('utf8').on('data', (text) => (this.out += text))
    child.stderr.setEncoding('utf8').on('data', (text) => (this.err += text))
  }

  stdout() {
    return this.out
  }
  stderr() {
    return this.err
  }
  term(signal = 'SIGTERM') {
    this.child.kill(signal)
  }

  // Everything in the log directory.
  log() {
    const dir = join(this.dataDir, 'sandbox-agent', 'logs')
    if (!existsSync(dir)) return ''
    return readdirSync(dir)
      .map((name) => readFileSync(join(dir, name), 'utf8'))
      .join('')
  }

  assertClean() {
    if (SANITIZER.test(this.err)) throw new Error(`sanitizer report:\n${this.err}`)
  }

  // SIGTERM; the exit must be clean: code 0 and nothing said by a sanitizer.
  async stop() {
    this.isWanted = false
    if (this.child.exitCode === null && this.child.signalCode === null) this.term()
    const end = await within(this.ended, `exit after SIGTERM; stderr:\n${this.err}`, STOP_MS)
    this.assertClean()
    if (end.code !== 0)
      throw new Error(`exit ${end.code ?? end.signal} after SIGTERM; stderr:\n${this.err}`)
    return end
  }

  async kill() {
    this.isWanted = false
    this.child.kill('SIGKILL')
    return within(this.ended, 'exit after SIGKILL')
  }

  // The `  api    URL` line is the promise that requests are served.
  async listening() {
    const line = () => this.out.match(/^ {2}api\s+(\S+)$/m)
    const seen = new Promise((done, fail) => {
      const look = () => line() && done(line()[1])
      this.child.stdout.on('data', look)
      this.ended.then((end) =>
        fail(new Error(`ended before it listened: ${JSON.stringify(end)}\n${this.out}${this.err}`)),
      )
    })
    const api = await within(seen, 'the api line', START_MS).catch((error) => {
      this.child.kill('SIGKILL')
      error.message += `\nstdout:\n${this.out}\nstderr:\n${this.err}`
      throw error
    })
    this.api = api
    this.url = api.replace(/\/v1$/, '')
    this.port = Number(this.url.match(/:(\d+)$/)?.[1]) || undefined
    return this
  }
}

function launch(bin, argv, env, dataDir, stdio = ['ignore', 'pipe', 'pipe']) {
  if (!existsSync(bin) && bin.includes('/')) throw new Error(`no binary at ${bin}: build it first`)
  const child = spawn(bin, argv, { env, stdio, cwd: dataDir })
  live.add(child)
  return new Server(child, dataDir)
}

// Starts a server. With a test context it is stopped, and its end checked, when the test is over.
export async function start(
  t,
  { args = [], env = {}, bin = TESTD, dataDir, host = '127.0.0.1', port = 0, stdio, via } = {},
) {
  const dir = dataDir ?? tempDir(t)
  const where = host === null ? [] : ['--host', host, '--port', String(port)]
  const argv = ['server', ...where, ...args]
  const server = via
    ? launch(via[0], [...via.slice(1), bin, ...argv], cleanEnv(dir, env), dir, stdio)
    : launch(bin, argv, cleanEnv(dir, env), dir, stdio)
  t?.after(() => (server.isWanted ? server.stop() : server.ended.then(() => server.assertClean())))
  return server.listening()
}

// Runs a command to its end: for what must fail at the start. Answers { code, out, err }.
export async function run(t, argv, { env = {}, bin = RELEASE, dataDir } = {}) {
  const dir = dataDir ?? tempDir(t)
  const server = launch(bin, argv, cleanEnv(dir, env), dir)
  const end = await within(server.ended, `end of ${argv.join(' ')}`, START_MS).catch((error) => {
    server.child.kill('SIGKILL')
    throw error
  })
  server.assertClean()
  return { ...end, out: server.out, err: server.err }
}
