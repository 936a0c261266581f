// Files, archives, searches and processes from the command line.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { RELEASE, cli, launchCli, lines } from './lib/cli.mjs'
import { MiB, peakBytes, until, within } from './lib/proc.mjs'
import { create, ended, sh } from './lib/processes.mjs'
import { start, tempDir } from './lib/server.mjs'

const LIMIT = { timeout: 90_000 }
let server
before(async () => (server = await start()))
after(() => server.stop())

function assertGood(seen) {
  assert.equal(seen.code, 0, seen.err)
  assert.equal(seen.err, '')
}

test('paths are words or flags', LIMIT, async (t) => {
  const dir = tempDir(t)
  const at = (name) => join(dir, name)
  assertGood(await cli(t, server, ['api', 'fs', 'mkdir', at('a/b')]))
  assertGood(await cli(t, server, ['api', 'fs', 'write', at('a/x'), '--file', '/dev/null']))
  assertGood(await cli(t, server, ['api', 'fs', 'move', at('a/x'), at('a/y')]))
  assertGood(await cli(t, server, ['api', 'fs', 'move', '--from', at('a/y'), '--to', at('a/z')]))
  assertGood(await cli(t, server, ['api', 'fs', 'move', at('a/z'), '--to', at('a/x')]))
  assert.deepEqual(readdirSync(at('a')).sort(), ['b', 'x'])
  const list = await cli(t, server, ['api', 'fs', 'list', at('a')])
  assertGood(list)
  assert.deepEqual(JSON.parse(list.out).map((e) => e.name).sort(), ['b', 'x'])
  assert.deepEqual(JSON.parse((await cli(t, server, ['api', 'fs', 'list', '--path', at('a')])).out), JSON.parse(list.out))
  assert.equal(JSON.parse((await cli(t, server, ['api', 'fs', 'stat', at('a/x')])).out).size, 0)
  assertGood(await cli(t, server, ['api', 'fs', 'delete', at('a'), '--recursive']))
  assert.equal(existsSync(at('a')), false)
})

test('a name that looks like a flag comes behind --', LIMIT, async (t) => {
  const dir = tempDir(t)
  writeFileSync(join(dir, '-x'), 'dash')
  const seen = await cli(t, server, ['api', 'processes', 'run', '--raw', '--cwd', dir, '--', 'cat', '--', '-x'])
  assertGood(seen)
  assert.equal(seen.out.toString(), 'dash')
})

test('a path that is missing or doubled is a usage error', LIMIT, async (t) => {
  for (const [argv, line] of [
    [['fs', 'write'], 'the following required arguments were not provided: <PATH>'],
    [['fs', 'move', '/a'], 'the following required arguments were not provided: <FROM> <TO>'],
    [['fs', 'write', '/a', '--path', '/b'], "'/a' and --path: provide it once"],
    [['fs', 'list', '/a', '/b'], "unexpected argument '/b' found"],
    [['processes', 'run'], 'the following required arguments were not provided: [--] <COMMAND> [ARGS]...'],
    [['processes', 'run', '--json', '{}', '--', 'ls'], 'provide the body either as JSON or by its flags, not both'],
  ]) {
    const seen = await cli(t, server, ['api', ...argv])
    assert.equal(seen.code, 2, argv.join(' '))
    assert.equal(seen.err.split(' (see')[0], `error: ${line}`)
  }
})

test('bytes go up from a file, from stdin and from a pipe, and come down the same', LIMIT, async (t) => {
  const dir = tempDir(t)
  const bytes = randomBytes(3 * MiB + 1)
  const file = join(dir, 'from')
  writeFileSync(file, bytes)
  for (const [name, argv, input] of [
    ['a', ['--file', file]],
    ['b', ['--file', '-'], bytes],
    ['c', [], bytes],
  ]) {
    const to = join(dir, name)
    const seen = await cli(t, server, ['api', 'fs', 'write', to, ...argv], { input })
    assertGood(seen)
    assert.deepEqual(JSON.parse(seen.out), { bytesWritten: bytes.length, path: to })
    assert.ok(readFileSync(to).equals(bytes), name)
    const back = await cli(t, server, ['api', 'fs', 'read', to])
    assertGood(back)
    assert.ok(back.out.equals(bytes), name)
  }
})

test('a body that is refused is told with its problem', LIMIT, async (t) => {
  const dir = tempDir(t)
  const seen = await cli(t, server, ['api', 'fs', 'write', dir], { input: randomBytes(8 * MiB) })
  assert.equal(seen.code, 1)
  assert.match(seen.err, /"status": 4\d\d[\s\S]*\nerror: unexpected http status: 4\d\d/)
  const none = await cli(t, server, ['api', 'fs', 'write', join(dir, 'x'), '--file', join(dir, 'none')])
  assert.equal(none.code, 1)
  assert.match(none.err, /^error: open '.*none': No such file or directory\n$/)
  assert.equal(existsSync(join(dir, 'x')), false)
})

test('a file that becomes shorter while it is sent is an error, not a short file', LIMIT, async (t) => {
  const dir = tempDir(t)
  const big = join(dir, 'big')
  writeFileSync(big, '')
  truncateSync(big, 256 * MiB)
  // Reads nothing until the file was cut: more is left than the sockets can hold.
  const slow = createServer((req) => {
    truncateSync(big, 1)
    req.on('error', () => {})
    req.resume()
  }).listen(0, '127.0.0.1')
  t.after(() => slow.close())
  await once(slow, 'listening')
  const endpoint = `http://127.0.0.1:${slow.address().port}`
  const seen = await cli(t, server, ['api', 'fs', 'write', '/to', '--file', big], { endpoint })
  assert.equal(seen.code, 1)
  assert.match(seen.err, /the file became shorter while it was sent: \d+ bytes are missing\n$/)
})

test('--output replaces the file as a whole, and only when all is there', LIMIT, async (t) => {
  const dir = tempDir(t)
  const at = (name) => join(dir, name)
  writeFileSync(at('from'), 'new')
  writeFileSync(at('to'), 'old and longer')
  chmodSync(at('to'), 0o600)
  symlinkSync('to', at('link'))
  const failed = await cli(t, server, ['api', 'fs', 'read', at('nothing'), '-o', at('to')])
  assert.equal(failed.code, 1)
  assert.equal(readFileSync(at('to'), 'utf8'), 'old and longer')
  assertGood(await cli(t, server, ['api', 'fs', 'read', at('from'), '-o', at('link')]))
  assert.equal(readFileSync(at('to'), 'utf8'), 'new')
  assert.equal(statSync(at('to')).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(dir).sort(), ['from', 'link', 'to'])
  assertGood(await cli(t, server, ['api', 'fs', 'read', at('from'), '--output', '/dev/null']))
  const shown = await cli(t, server, ['api', 'fs', 'read', at('from'), '-o', '-'])
  assert.equal(shown.out.toString(), 'new')
})

test('archives go both ways', LIMIT, async (t) => {
  const dir = tempDir(t)
  mkdirSync(join(dir, 'in/sub'), { recursive: true })
  mkdirSync(join(dir, 'out'))
  writeFileSync(join(dir, 'in/sub/x'), 'x')
  assertGood(await cli(t, server, ['api', 'fs', 'archive', join(dir, 'in'), '-o', join(dir, 'in.tar')]))
  assert.match(execFileSync('tar', ['tf', join(dir, 'in.tar')]).toString(), /sub\/x/)
  assertGood(await cli(t, server, ['api', 'fs', 'upload', join(dir, 'out'), '--file', join(dir, 'in.tar')]))
  assert.equal(execFileSync('find', [join(dir, 'out'), '-name', 'x', '-type', 'f']).toString().trim() !== '', true)
})

test('memory stays flat whatever the size', LIMIT, async (t) => {
  const dir = tempDir(t)
  const big = join(dir, 'big')
  writeFileSync(big, '')
  truncateSync(big, 512 * MiB)
  const peak = async (argv, done) => {
    const child = launchCli(t, server, argv, { bin: RELEASE })
    let seen = 0
    const watch = setInterval(() => {
      try {
        seen = Math.max(seen, peakBytes(child.pid))
      } catch {}
    }, 5)
    const end = await within(child.ended, argv.join(' '), 80_000)
    clearInterval(watch)
    assert.equal(end.code, 0, end.err)
    done?.()
    return seen
  }
  const up = await peak(['api', 'fs', 'write', join(dir, 'to'), '--file', big])
  assert.equal(statSync(join(dir, 'to')).size, 512 * MiB)
  const down = await peak(['api', 'fs', 'read', join(dir, 'to'), '-o', join(dir, 'back')])
  assert.equal(statSync(join(dir, 'back')).size, 512 * MiB)
  t.diagnostic(`peak ${(up / MiB).toFixed(1)} MiB up, ${(down / MiB).toFixed(1)} MiB down`)
  assert.ok(up > 0 && up < 32 * MiB && down < 32 * MiB, `${up} ${down}`)
})

test('search prints a line per match', LIMIT, async (t) => {
  const dir = tempDir(t)
  writeFileSync(join(dir, 'a.txt'), 'one\nneedle\n')
  const seen = await cli(t, server, ['api', 'fs', 'search', dir, '--text', 'needle'])
  assertGood(seen)
  const found = lines(seen.out)
  assert.equal(found[0].type, 'match')
  assert.equal(found.at(-1).type, 'end')
})

test('watch prints a line per event, as it happens', LIMIT, async (t) => {
  const dir = tempDir(t)
  const child = launchCli(t, server, ['api', 'fs', 'watch', dir])
  await until(() => child.text().includes('"ready"'), 'ready')
  writeFileSync(join(dir, 'x'), '1')
  await until(() => child.text().includes('"created"'), 'the event')
  child.kill('SIGTERM')
  await child.ended
  const [ready, created] = lines(child.text().split('\n').slice(0, 2).join('\n'))
  assert.deepEqual(ready, { event: 'ready', id: 1, data: { type: 'ready', path: dir } })
  assert.deepEqual(created.data, { type: 'created', path: join(dir, 'x'), isDirectory: false })
})

test('ports once, and as they change', LIMIT, async (t) => {
  const once = await cli(t, server, ['api', 'ports'])
  assertGood(once)
  assert.ok(Array.isArray(JSON.parse(once.out).ports))
  const child = launchCli(t, server, ['api', 'ports', '--follow'])
  await until(() => child.text().includes('\n'), 'the list')
  child.kill('SIGTERM')
  await child.ended
  assert.ok(Array.isArray(lines(child.text().split('\n')[0])[0].data.ports))
})

test('run prints the result, or with --raw becomes the program', LIMIT, async (t) => {
  const script = 'printf out; printf err >&2; exit 3'
  const json = await cli(t, server, ['api', 'processes', 'run', '--', 'sh', '-c', script])
  assertGood(json)
  assert.equal(JSON.parse(json.out).exitCode, 3)
  const raw = await cli(t, server, ['api', 'processes', 'run', '--raw', '--', 'sh', '-c', script])
  assert.deepEqual([raw.code, raw.out.toString(), raw.err], [3, 'out', 'err'])
  const late = await cli(t, server, ['api', 'processes', 'run', '--raw', '--timeout-ms', '50', '--', 'sleep', '30'])
  assert.equal(late.code, 124)
  const killed = await cli(t, server, ['api', 'processes', 'run', '--raw', '--', 'sh', '-c', 'kill -9 $$'])
  assert.equal(killed.code, 128)
  const none = await cli(t, server, ['api', 'processes', 'run', '--raw', '--', '/no/such/program'])
  assert.equal(none.code, 1)
  assert.match(none.err, /error: unexpected http status: 5\d\d/)
})

test('logs as JSON, as events and as the output itself', LIMIT, async (t) => {
  const p = await create(server, sh("printf 'a\\000b'; printf e >&2; read x; printf $x; exit 9", { interactive: true }))
  const raw = launchCli(t, server, ['api', 'processes', 'logs', p.id, '--follow', '--raw'])
  await until(() => raw.text().length >= 3, 'output')
  assertGood(await cli(t, server, ['api', 'processes', 'input', p.id, '--data', 'more\n', '--encoding', 'text']))
  const followed = await within(raw.ended, 'the end of the logs')
  assert.deepEqual([followed.code, followed.out.toString(), followed.err], [0, 'a\0bmore', 'e'])
  await ended(server, p.id)
  const page = await cli(t, server, ['api', 'processes', 'logs', p.id, '--raw', '--stream', 'stdout'])
  assert.deepEqual([page.code, page.out.toString(), page.err], [0, 'a\0bmore', ''])
  const events = lines((await cli(t, server, ['api', 'processes', 'logs', p.id, '--follow'])).out)
  assert.equal(events[0].event, 'log')
  assert.equal(events[0].id, events[0].data.sequence)
  assert.deepEqual([events.at(-1).event, events.at(-1).data.exitCode], ['end', 9])
  const json = JSON.parse((await cli(t, server, ['api', 'processes', 'logs', p.id])).out)
  assert.equal(json.entries.length, events.length - 1)
})

test('a stream that the server ends early is an error of --raw', LIMIT, async (t) => {
  const own = await start(t)
  const p = await create(own, sh('printf x; exec sleep 100'))
  const raw = launchCli(t, own, ['api', 'processes', 'logs', p.id, '--follow', '--raw'])
  await until(() => raw.text() === 'x', 'output')
  await own.kill()
  const seen = await within(raw.ended, 'its end')
  assert.equal(seen.code, 1)
  assert.match(seen.err, /^error: .+\n$/)
})

test('a reader that leaves ends the command with one line', LIMIT, async (t) => {
  const dir = tempDir(t)
  writeFileSync(join(dir, 'big'), '')
  truncateSync(join(dir, 'big'), 64 * MiB)
  const child = launchCli(t, server, ['api', 'fs', 'read', join(dir, 'big')])
  child.stdout.once('data', () => child.stdout.destroy())
  const seen = await within(child.ended, 'its end')
  assert.equal(seen.code, 1)
  assert.match(seen.err, /^error: stdout: write: (Broken pipe|Connection reset by peer)\n$/)
})
