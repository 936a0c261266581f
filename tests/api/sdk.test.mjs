// The npm SDK, unmodified: what it connects to must not matter to it.
import assert from 'node:assert/strict'
import { readlinkSync, realpathSync } from 'node:fs'
import { describe, test } from 'node:test'
import { SandboxAgent } from 'sandbox-agent'
import { local } from 'sandbox-agent/local'
import { RELEASE, cleanEnv, start, tempDir } from './lib/server.mjs'
import { descendants, isAlive, until } from './lib/proc.mjs'

const LIMIT = { timeout: 60_000 }

describe('SandboxAgent.connect', () => {
  for (const [name, args, options] of [
    ['without a token', [], {}],
    ['with a token', ['--token', 'T'], { token: 'T' }],
  ])
    test(`${name}: getHealth`, LIMIT, async (t) => {
      const s = await start(t, { bin: RELEASE, args })
      const agent = await SandboxAgent.connect({ baseUrl: `${s.url}/`, ...options })
      t.after(() => agent.dispose())
      assert.deepEqual(await agent.getHealth(), { status: 'ok' })
    })

  test('a wrong token is a SandboxAgentError with the problem in it', LIMIT, async (t) => {
    const s = await start(t, { bin: RELEASE, args: ['--token', 'T'] })
    const agent = await SandboxAgent.connect({
      baseUrl: s.url,
      token: 'wrong',
      skipHealthCheck: true,
    })
    t.after(() => agent.dispose())
    await assert.rejects(agent.getHealth(), (error) => {
      assert.equal(error.status, 401)
      assert.equal(error.problem.type, 'urn:sandbox-agent:error:token_invalid')
      assert.match(error.message, /Token Invalid/)
      return true
    })
  })
})

describe('SandboxAgent.start with local()', () => {
  const ours = () =>
    descendants(process.pid).filter((pid) => {
      try {
        return readlinkSync(`/proc/${pid}/exe`) === realpathSync(RELEASE)
      } catch {
        return false
      }
    })

  test('spawns the binary of SANDBOX_AGENT_BIN and leaves no process', LIMIT, async (t) => {
    process.env.SANDBOX_AGENT_BIN = RELEASE
    t.after(() => delete process.env.SANDBOX_AGENT_BIN)
    const agent = await SandboxAgent.start({
      sandbox: local({ env: cleanEnv(tempDir(t)), log: 'silent' }),
    })
    const pids = ours()
    assert.equal(pids.length, 1)
    assert.deepEqual(await agent.getHealth(), { status: 'ok' })
    assert.match(agent.inspectorUrl, /^http:\/\/127\.0\.0\.1:\d+\/ui\//)
    const page = await fetch(agent.inspectorUrl)
    assert.equal(page.status, 200)
    assert.match(page.headers.get('content-type'), /^text\/html/)
    const from = Date.now()
    await agent.destroySandbox()
    assert.ok(Date.now() - from < 4000, 'ended by SIGTERM, not by the SIGKILL after 5 s')
    await until(() => pids.every((pid) => !isAlive(pid)), 'the process is gone')
  })
})
