// What the file tests share: the endpoints as calls, mounts, tar archives by hand, leftovers.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import assert from 'node:assert/strict'
import http from 'node:http'
import { once } from 'node:events'
import { join } from 'node:path'
import { call } from './http.mjs'
import { tempDir } from './server.mjs'
import { within } from './proc.mjs'

// The set-up works as root or with sudo, and so do the tests.
export function asRoot(...argv) {
  const full = process.getuid() === 0 ? argv : ['sudo', '-n', ...argv]
  return execFileSync(full[0], full.slice(1), { encoding: 'utf8' })
}

// A small file system of its own, gone with the test.
export function tmpfs(t, size) {
  const dir = tempDir()
  asRoot('mount', '-t', 'tmpfs', '-o', `size=${size},uid=${process.getuid()}`, 'tmpfs', dir)
  t.after(() => {
    asRoot('umount', '-l', dir)
    rmSync(dir, { recursive: true, force: true })
  })
  return dir
}

const query = (params) =>
  Object.entries(params)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
    .join('&')
export const at = (endpoint, path, more = {}) => `/v1/fs/${endpoint}?${query({ path, ...more })}`

// The endpoints of one server. Every answer is checked to be one: a problem where it failed.
export function files(server, defaults = {}) {
  const ask = async (path, options = {}) => {
    const headers = { ...defaults.headers, ...options.headers }
    const a = await call(server.url, path, { ...defaults, ...options, headers })
    if (a.status >= 400 && options.method !== 'HEAD') {
      assert.match(a.headers['content-type'], /^application\/problem\+json/, a.text)
      assert.equal(a.json.status, a.status)
    }
    return a
  }
  return {
    ask,
    list: (path) => ask(path === undefined ? '/v1/fs/entries' : at('entries', path)),
    read: (path, headers) => ask(at('file', path), { headers }),
    head: (path, headers) => ask(at('file', path), { method: 'HEAD', headers }),
    write: (path, body, headers, more) =>
      ask(at('file', path, more), { method: 'PUT', body, headers }),
    remove: (path, recursive) => ask(at('entry', path, { recursive }), { method: 'DELETE' }),
    mkdir: (path) => ask(at('mkdir', path), { method: 'POST' }),
    move: (from, to, overwrite) => ask('/v1/fs/move', { json: { from, to, overwrite } }),
    stat: (path) => ask(at('stat', path)),
    edit: (json) => ask('/v1/fs/edit', { json }),
    archive: (path, format) => ask(at('archive', path, { format })),
    unpack: (path, tar, headers = { 'content-type': 'application/x-tar' }) =>
      ask(at('upload-batch', path), { method: 'POST', body: tar, headers }),
  }
}

export function refused(a, status, type, text) {
  assert.equal(a.status, status, a.text)
  assert.equal(a.json.type, `urn:sandbox-agent:error:${type}`, a.text)
  if (text) assert.match(`${a.json.detail} ${a.json.details?.message ?? ''}`, text)
  return a
}

// A PUT whose body the test sends as it likes: req, and the answer when it comes.
export function upload(server, path, headers = {}, more = {}) {
  const url = server.url + at('file', path, more)
  const req = http.request(url, { method: 'PUT', headers, agent: false })
  const answer = new Promise((done, fail) => {
    req.on('error', fail)
    req.on('response', async (res) => {
      const parts = []
      res.on('data', (data) => parts.push(data))
      await once(res, 'end')
      done({ status: res.statusCode, text: Buffer.concat(parts).toString('utf8') })
    })
  })
  answer.catch(() => {})
  return { req, answer: (limitMs = 60_000) => within(answer, `answer to PUT ${path}`, limitMs) }
}

// Names in a directory, hidden ones included: debris of a failed write would be here.
export const names = (dir) => readdirSync(dir).sort()
// The bytes on a file system, debris without a name included.
export const usedKb = (dir) =>
  Number(execFileSync('df', ['-k', '--output=used', dir], { encoding: 'utf8' }).split('\n')[1])

export function folder(t, ...more) {
  const dir = tempDir(t)
  for (const name of more) mkdirSync(join(dir, name), { recursive: true })
  return dir
}

// ---- tar by hand: right or wrong on purpose ----

const octal = (n, width) => `${n.toString(8).padStart(width - 1, '0')}\0`

// type: '0' a file, '1' a hard link, '2' a link, '5' a directory …; size: a lie about the data
export function tarEntry(entry) {
  const { name, type = '0', link = '', data = '', mode = 0o644, mtime = 1e9, size } = entry
  const body = Buffer.from(data)
  const head = Buffer.alloc(512)
  const put = (text, from) => head.write(text, from, 'utf8')
  put(name, 0)
  put(octal(mode, 8), 100)
  put(octal(0, 8), 108)
  put(octal(0, 8), 116)
  put(octal(size ?? body.length, 12), 124)
  put(octal(mtime, 12), 136)
  put('        ', 148)
  put(type, 156)
  put(link, 157)
  put('ustar\0' + '00', 257)
  const sum = head.reduce((a, b) => a + b, 0)
  put(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return Buffer.concat([head, body, Buffer.alloc((512 - (body.length % 512)) % 512)])
}
export function tarOf(...entries) {
  const parts = entries.map((e) => (Buffer.isBuffer(e) ? e : tarEntry(e)))
  return Buffer.concat([...parts, Buffer.alloc(1024)])
}
// PAX records before an entry: { path, linkpath, … }
export function paxEntry(records) {
  const lines = Object.entries(records).map(([key, value]) => {
    const rest = Buffer.byteLength(` ${key}=${value}\n`)
    let n = rest + String(rest).length
    if (rest + String(n).length !== n) n = rest + String(n).length
    return `${n} ${key}=${value}\n`
  })
  return tarEntry({ name: 'PaxHeaders/x', type: 'x', data: lines.join('') })
}
export const gnuLongName = (name) =>
  tarEntry({ name: '././@LongLink', type: 'L', data: `${name}\0` })
