// The command line as a child: words in, bytes and an exit status out.
import { spawn } from 'node:child_process'
import { RELEASE, TESTD, cleanEnv, tempDir } from './server.mjs'
import { within } from './proc.mjs'

const SANITIZER = /(ERROR|WARNING): \w+Sanitizer|runtime error:/
const LIMIT_MS = 60_000

// Starts it; `ended` answers { code, signal, out, err } with out as bytes. Without `input` stdin is
// empty; a function gets the pipe.
export function launchCli(t, server, argv, { env = {}, bin = TESTD, input, stdout = 'pipe', endpoint } = {}) {
  const child = spawn(bin, argv, {
    env: cleanEnv(tempDir(t), { SANDBOX_AGENT_ENDPOINT: endpoint ?? server.url, ...env }),
    stdio: [input === undefined ? 'ignore' : 'pipe', stdout, 'pipe'],
  })
  const out = []
  let err = ''
  t.after(() => child.kill('SIGKILL'))
  child.stdout?.on('data', (data) => out.push(data))
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text))
  child.stdin?.on('error', () => {}) // it may end before it has read all
  if (typeof input === 'function') input(child.stdin)
  else child.stdin?.end(input)
  child.text = () => Buffer.concat(out).toString()
  child.ended = new Promise((done) => child.on('close', (code, signal) => done({ code, signal }))).then((end) => {
    if (SANITIZER.test(err)) throw new Error(`sanitizer report:\n${err}`)
    return { ...end, out: Buffer.concat(out), err }
  })
  return child
}

export const cli = (t, server, argv, options) =>
  within(launchCli(t, server, argv, options).ended, `end of ${argv.join(' ')}`, LIMIT_MS)

export const lines = (bytes) => bytes.toString().trimEnd().split('\n').map((line) => JSON.parse(line))
export { RELEASE, TESTD }
