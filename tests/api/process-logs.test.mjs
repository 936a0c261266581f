// The output of a process: pages of it, and following it without loss.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { SandboxAgent } from 'sandbox-agent'
import { FLAT_MEMORY, start } from './lib/server.mjs'
import { call, open } from './lib/http.mjs'
import { MiB, rssBytes, until, within } from './lib/proc.mjs'
import { endOf, subscribe } from './lib/sse.mjs'
import {
  bytesOf,
  create,
  ended,
  input,
  invalid,
  logs,
  output,
  post,
  said,
  sh,
} from './lib/processes.mjs'

const LIMIT = { timeout: 120_000 }
let server
before(async () => (server = await start()))
after(() => server.stop())

const follow = (id, query = '', options) =>
  subscribe(server.url, `/v1/processes/${id}/logs?follow=true${query}`, options)
const named = (sse, name) =>
  sse.events.filter((e) => e.event === name).map((e) => ({ ...e, data: JSON.parse(e.data) }))
const textOf = (sse) => bytesOf(named(sse, 'log').map((e) => e.data)).toString()

// Lines that are entries of their own: each is read before the next is asked for.
async function lines(n, { err = false } = {}) {
  const p = await create(
    server,
    sh(`while read x; do echo "$x"${err ? '; echo "e$x" >&2' : ''}; done`),
  )
  for (let i = 1; i <= n; i++) {
    await input(server, p.id, `line${i}\n`)
    await said(server, p.id, err ? `eline${i}\n` : `line${i}\n`)
  }
  await post(server, `${p.id}/input`, { eof: true })
  await ended(server, p.id)
  return p
}

describe('a page', () => {
  test('members and their order; data is base64, sequence from 1', LIMIT, async () => {
    const p = await create(server, sh('printf out'))
    await ended(server, p.id)
    const r = await call(server.url, `/v1/processes/${p.id}/logs`)
    assert.equal(r.headers['content-type'], 'application/json')
    const at = r.json.entries[0].timestampMs
    assert.ok(Math.abs(Date.now() - at) < 30_000)
    assert.equal(
      r.text,
      `{"processId":"${p.id}","stream":"combined","entries":[{"sequence":1,"stream":"stdout",` +
        `"timestampMs":${at},"data":"b3V0","encoding":"base64"}]}`,
    )
  })
  test('no output: an empty list', LIMIT, async () => {
    const p = await create(server, { command: 'true' })
    await ended(server, p.id)
    assert.deepEqual((await logs(server, p.id)).entries, [])
  })
  test('stream: stdout, stderr, combined; one sequence over all', LIMIT, async () => {
    const p = await lines(2, { err: true })
    const of = async (stream) => (await logs(server, p.id, `?stream=${stream}`))
    const all = await of('combined')
    assert.deepEqual(all.entries.map((e) => e.sequence), [1, 2, 3, 4])
    assert.equal(bytesOf((await of('stdout')).entries).toString(), 'line1\nline2\n')
    assert.equal(bytesOf((await of('stderr')).entries).toString(), 'eline1\neline2\n')
    assert.equal((await of('stderr')).stream, 'stderr')
    assert.deepEqual((await of('pty')).entries, [])
    assert.ok((await of('stderr')).entries.every((e) => e.stream === 'stderr'))
  })
  test('a tty: pty is the default, stdout is empty', LIMIT, async () => {
    const p = await create(server, sh('echo hi', { tty: true }))
    await ended(server, p.id)
    const page = await logs(server, p.id)
    assert.deepEqual([page.stream, page.entries[0].stream], ['pty', 'pty'])
    assert.deepEqual((await logs(server, p.id, '?stream=stdout')).entries, [])
  })
  test('tail, since, and both', LIMIT, async () => {
    const p = await lines(4)
    const seqs = async (query) => (await logs(server, p.id, query)).entries.map((e) => e.sequence)
    assert.deepEqual(await seqs('?tail=2'), [3, 4])
    assert.deepEqual(await seqs('?tail=0'), [])
    assert.deepEqual(await seqs('?tail=99'), [1, 2, 3, 4])
    assert.deepEqual(await seqs('?since=2'), [3, 4])
    assert.deepEqual(await seqs('?since=0'), [1, 2, 3, 4])
    assert.deepEqual(await seqs('?since=4'), [])
    assert.deepEqual(await seqs('?since=999'), [])
    assert.deepEqual(await seqs('?since=1&tail=1'), [4])
    assert.deepEqual(await seqs('?since=3&tail=3'), [4])
    assert.deepEqual(await seqs('?follow=false&tail=1'), [4])
  })
  for (const [query, why] of [
    ['stream=bad', 'unknown variant `bad`, expected one of `stdout`, `stderr`, `combined`, `pty`'],
    ['follow=1', 'provided string was not `true` or `false`'],
    ['tail=-1', 'invalid digit found in string'],
    ['since=x', 'invalid digit found in string'],
  ])
    test(`?${query}: 400`, LIMIT, async () =>
      invalid(
        await call(server.url, `/v1/processes/proc_1/logs?${query}`),
        `failed to deserialize query string: ${why}`,
      ))
  test('an entry has at most 8192 bytes, and none is lost', LIMIT, async () => {
    const p = await create(server, sh('head -c 100000 /dev/zero | tr "\\0" x'))
    await ended(server, p.id)
    const { entries } = await logs(server, p.id)
    const sizes = entries.map((e) => Buffer.from(e.data, 'base64').length)
    assert.ok(Math.max(...sizes) <= 8192)
    assert.equal(bytesOf(entries).toString(), 'x'.repeat(100_000))
  })
  test('a big page comes whole; a client that reads slowly costs no memory', LIMIT, async (t) => {
    const s = await start(t, { env: FLAT_MEMORY })
    const p = await create(s, sh('head -c 9000000 /dev/zero | tr "\\0" x'))
    await ended(s, p.id)
    assert.equal((await output(s, p.id)).length, 9_000_000)
    const was = rssBytes(s.pid)
    const slow = await Promise.all(
      Array.from({ length: 6 }, () => open(s.url, `/v1/processes/${p.id}/logs`)),
    )
    assert.ok(rssBytes(s.pid) - was < 24 * MiB, `grew by ${rssBytes(s.pid) - was}`)
    // The record goes; who is reading it still gets all of it.
    assert.equal((await call(s.url, `/v1/processes/${p.id}`, { method: 'DELETE' })).status, 204)
    for (const res of slow) {
      let text = ''
      for await (const part of res) text += part
      assert.equal(bytesOf(JSON.parse(text).entries).length, 9_000_000)
    }
  })
  test('the oldest are dropped over maxLogBytesPerProcess; numbers go on', LIMIT, async (t) => {
    const s = await start(t)
    const config = (await call(s.url, '/v1/processes/config')).json
    await call(
      s.url,
      '/v1/processes/config',
      { json: { ...config, maxLogBytesPerProcess: 100_000 } },
    )
    const p = await create(s, sh('head -c 1000000 /dev/zero | tr "\\0" x; sleep 0; printf end'))
    await ended(s, p.id)
    const { entries } = await logs(s, p.id)
    const bytes = bytesOf(entries)
    assert.ok(bytes.length <= 100_000 && bytes.length > 80_000, `${bytes.length}`)
    assert.ok(bytes.toString().endsWith('xend'))
    assert.ok(entries[0].sequence > 1)
    entries.forEach((e, i) => assert.equal(e.sequence, entries[0].sequence + i))
  })
  test('HEAD', LIMIT, async () => {
    const p = await create(server, sh('head -c 500000 /dev/zero'))
    await ended(server, p.id)
    for (const query of ['', '?tail=1', '?follow=true']) {
      const r = await call(server.url, `/v1/processes/${p.id}/logs${query}`, { method: 'HEAD' })
      assert.deepEqual([r.status, r.text], [200, ''])
    }
  })
})

describe('follow', () => {
  test('the frame of an entry, whatever Accept says; then end, then the stream ends', LIMIT, async () => {
    const p = await create(server, sh('printf fin; exit 4'))
    await ended(server, p.id)
    const r = await call(server.url, `/v1/processes/${p.id}/logs?follow=true`, {
      headers: { accept: 'application/json' },
    })
    assert.equal(r.headers['content-type'], 'text/event-stream')
    assert.equal(r.headers['cache-control'], 'no-cache')
    const [log, end, rest] = r.text.split('\n\n')
    assert.match(
      log,
      /^event: log\nid: 1\ndata: \{"sequence":1,"stream":"stdout","timestampMs":\d+,"data":"Zmlu","encoding":"base64"\}$/,
    )
    const [, data] = end.match(/^event: end\ndata: (.*)$/)
    const { exitedAtMs, ...what } = JSON.parse(data)
    assert.deepEqual(what, { processId: p.id, status: 'exited', exitCode: 4 })
    assert.ok(exitedAtMs > 0)
    assert.equal(rest, '')
  })
  test('a signal: exitCode null', LIMIT, async () => {
    const p = await create(server, sh('kill -9 $$'))
    const sse = await follow(p.id)
    await endOf(sse)
    const [end] = named(sse, 'end')
    assert.deepEqual([end.data.exitCode, end.data.signal], [null, 9])
  })
  test('backlog first, then live, then the end; no entry twice', LIMIT, async () => {
    const p = await create(server, { command: 'cat' })
    await input(server, p.id, 'one\n')
    await said(server, p.id, /one/)
    const sse = await follow(p.id)
    await sse.atLeast(1)
    await input(server, p.id, 'two\n')
    await sse.atLeast(2)
    await post(server, `${p.id}/input`, { data: '', eof: true })
    await endOf(sse)
    assert.ok(sse.isClean)
    assert.deepEqual(sse.events.map((e) => [e.event, e.id]), [
      ['log', '1'],
      ['log', '2'],
      ['end', undefined],
    ])
    assert.equal(textOf(sse), 'one\ntwo\n')
  })
  test('stream, since and tail choose the backlog', LIMIT, async () => {
    const p = await lines(3, { err: true })
    const ids = async (query, options) => {
      const sse = await follow(p.id, query, options)
      await endOf(sse)
      return named(sse, 'log').map((e) => Number(e.id))
    }
    const all = await ids('')
    assert.deepEqual(all, [1, 2, 3, 4, 5, 6])
    assert.deepEqual(await ids('&since=4'), [5, 6])
    assert.deepEqual(await ids('&tail=1'), [6])
    assert.equal((await ids('&stream=stderr')).length, 3)
    assert.deepEqual(await ids('&stream=pty'), [])
  })
  test('Last-Event-ID is where to go on: it wins over since and tail', LIMIT, async () => {
    const p = await lines(4)
    const ids = async (id, query = '') => {
      const sse = await follow(p.id, query, { headers: { 'last-event-id': id } })
      await endOf(sse)
      return named(sse, 'log').map((e) => Number(e.id))
    }
    assert.deepEqual(await ids('2'), [3, 4])
    assert.deepEqual(await ids('4'), [])
    assert.deepEqual(await ids('2', '&since=3'), [3, 4])
    assert.deepEqual(await ids('1', '&tail=1'), [2, 3, 4])
  })
  for (const id of ['x', '-1', '1.5'])
    test(`Last-Event-ID ${id}: 400`, LIMIT, async () => {
      const p = await create(server, { command: 'true' })
      invalid(
        await call(server.url, `/v1/processes/${p.id}/logs?follow=true`, {
          headers: { 'last-event-id': id },
        }),
        'Last-Event-ID must be a positive integer',
      )
    })
  test('what is gone is said with counts, and the id leads behind it', LIMIT, async (t) => {
    const s = await start(t)
    const config = (await call(s.url, '/v1/processes/config')).json
    await call(
      s.url,
      '/v1/processes/config',
      { json: { ...config, maxLogBytesPerProcess: 100_000 } },
    )
    const p = await create(s, sh('head -c 1000000 /dev/zero'))
    await ended(s, p.id)
    const sse = await subscribe(s.url, `/v1/processes/${p.id}/logs?follow=true`)
    await endOf(sse)
    const [gap, ...more] = named(sse, 'gap')
    assert.equal(more.length, 0)
    assert.equal(sse.events[0].event, 'gap')
    const first = named(sse, 'log')[0].data.sequence
    assert.deepEqual([gap.data.from, gap.data.to, gap.data.entries], [1, first - 1, first - 1])
    assert.equal(Number(gap.id), gap.data.to)
    assert.equal(gap.data.bytes + textOf(sse).length, 1_000_000)
  })
  test('a fast producer loses nothing: 40 MB, several readers, one that pauses', LIMIT, async () => {
    const n = 40_000_000
    const p = await create(server, sh(`read x; seq 1 100000000 | head -c ${n}`))
    const read = async (pauseAt) => {
      const res = await open(server.url, `/v1/processes/${p.id}/logs?follow=true`)
      let bytes = 0
      let text = ''
      let seen = 0
      let isCut = false
      for await (const part of res) {
        seen += part.length
        text += part
        let at
        while ((at = text.indexOf('\n\n')) >= 0) {
          const event = text.slice(0, at)
          text = text.slice(at + 2)
          assert.ok(!event.startsWith('event: gap'), event)
          const data = event.match(/"data":"([^"]*)"/)
          if (data) bytes += Buffer.byteLength(data[1], 'base64')
        }
        // A moment without reading is not a stall: the producer waits.
        if (pauseAt && seen > pauseAt && !isCut) {
          isCut = true
          await until(async () => (await call(server.url, '/v1/health')).status === 200, 'health')
        }
      }
      return bytes
    }
    const readers = [read(), read(1_000_000)]
    await input(server, p.id, 'go\n', { eof: true })
    assert.deepEqual(await within(Promise.all(readers), 'all of it', 100_000), [n, n])
  })
  test('a follower that does not read stops the producer, not the server', LIMIT, async (t) => {
    const s = await start(t, { env: FLAT_MEMORY })
    const p = await create(
      s,
      sh('read x; seq 1 100000000 | head -c 30000000; printf END; sleep 1000'),
    )
    const res = await open(s.url, `/v1/processes/${p.id}/logs?follow=true`)
    res.pause()
    const was = rssBytes(s.pid)
    await input(s, p.id, 'go\n')
    // After PROCESS_STALL_MS it is no longer waited for: the producer runs to its end.
    await until(
      async () => (await output(s, p.id, '?tail=1')).endsWith('END'),
      'the last word',
      30_000,
    )
    assert.ok(rssBytes(s.pid) - was < 64 * MiB)
    let text = ''
    res.on('data', (part) => (text += part))
    res.resume()
    await until(() => text.includes('event: gap'), 'the gap is announced')
    const gap = JSON.parse(text.match(/event: gap\nid: \d+\ndata: (.*)/)[1])
    assert.ok(gap.bytes > 0 && gap.entries === gap.to - gap.from + 1)
    await post(s, `${p.id}/kill`)
    await until(() => text.includes('event: end'), 'the end')
    const before = [...text.matchAll(/"data":"([^"]*)"/g)].map(
      (m) => Buffer.byteLength(m[1], 'base64'),
    )
    assert.equal(before.reduce((a, b) => a + b, 0) + gap.bytes, 30_000_003)
  })
  test('delete ends a follower that is still reading', LIMIT, async () => {
    const p = await create(server, { command: 'true' })
    await ended(server, p.id)
    const sse = await follow(p.id)
    await call(server.url, `/v1/processes/${p.id}`, { method: 'DELETE' })
    await endOf(sse)
    assert.equal(named(sse, 'end')[0].data.exitCode, 0)
  })
  test('a follower that leaves is forgotten', LIMIT, async () => {
    const p = await create(server, { command: 'cat' })
    for (let i = 0; i < 20; i++) (await follow(p.id)).close()
    await input(server, p.id, 'x\n')
    await said(server, p.id, /x/)
    await post(server, `${p.id}/kill`)
  })
  test('a shutdown ends it cleanly', LIMIT, async () => {
    const s = await start()
    const p = await create(s, { command: 'cat' })
    const sse = await subscribe(s.url, `/v1/processes/${p.id}/logs?follow=true`)
    await s.stop()
    await endOf(sse)
    assert.ok(sse.isClean)
  })
  test('the SDK, unmodified: followProcessLogs gets all and its stream closes', LIMIT, async (t) => {
    const sdk = await SandboxAgent.connect({ baseUrl: server.url })
    t.after(() => sdk.dispose())
    const p = await sdk.createProcess({ command: 'cat' })
    const seen = []
    const sub = await sdk.followProcessLogs(p.id, (entry) => seen.push(entry), { stream: 'stdout' })
    await sdk.sendProcessInput(p.id, { data: 'hello\n', encoding: 'utf8' })
    await until(() => seen.length, 'an entry')
    await post(server, `${p.id}/input`, { eof: true })
    await within(sub.closed, 'the stream closes with the process')
    assert.equal(bytesOf(seen).toString(), 'hello\n')
    assert.equal((await sdk.getProcessLogs(p.id, { tail: 1 })).entries.length, 1)
    await assert.rejects(sdk.followProcessLogs('proc_9999', () => {}), (e) => e.status === 404)
    await assert.rejects(sdk.getProcessLogs('proc_9999'), (e) => e.status === 404)
  })
})
