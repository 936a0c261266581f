// A raw connection: sends exactly the bytes it is given, reads answers by the rules of HTTP/1.1.
import net from 'node:net'
import tls from 'node:tls'
import { once } from 'node:events'
import { within } from './proc.mjs'

export const CRLF = '\r\n'
export const HEALTH_BODY = '{"status":"ok"}'
const WAIT_MS = 15_000

// The bytes of a request: lines as given, CRLF after each, then the body.
export function message(lines, body = '') {
  return Buffer.concat([Buffer.from([...lines, '', ''].join(CRLF), 'latin1'), Buffer.from(body)])
}
export const get = (path, ...headers) =>
  message([`GET ${path} HTTP/1.1`, 'Host: localhost', ...headers])
export const post = (path, body, ...headers) =>
  message(
    [`POST ${path} HTTP/1.1`, 'Host: localhost', 'Content-Type: application/json', ...headers],
    body,
  )
export const postJson = (path, body, ...headers) =>
  post(path, body, `Content-Length: ${Buffer.byteLength(body)}`, ...headers)
// Headers without any default: for the cases that are about the framing itself.
export const chunk = (data) => `${Buffer.byteLength(data).toString(16)}\r\n${data}\r\n`

export class Answer {
  constructor(version, status, reason, fields) {
    Object.assign(this, {
      version,
      status,
      reason,
      fields,
      body: Buffer.alloc(0),
      isComplete: false,
    })
    this.headers = {}
    for (const [name, value] of fields) {
      const key = name.toLowerCase()
      this.headers[key] = key in this.headers ? `${this.headers[key]}, ${value}` : value
    }
  }
  get text() {
    return this.body.toString('utf8')
  }
  get json() {
    return JSON.parse(this.text)
  }
}

export class Raw {
  constructor(socket) {
    this.socket = socket
    this.parts = [] // received, not yet taken; joined only when looked at
    this.have = 0
    this.isEnded = false // FIN or reset seen
    this.error = undefined
    this.waiters = new Set()
    const wake = () => {
      for (const w of [...this.waiters]) w()
    }
    socket.on('data', (data) => {
      this.parts.push(data)
      this.have += data.length
      wake()
    })
    socket.on('end', () => {
      this.isEnded = true
      wake()
    })
    socket.on('error', (error) => {
      this.error = error
      this.isEnded = true
      wake()
    })
    this.closed = new Promise((done) =>
      socket.on('close', () => {
        this.isEnded = true
        wake()
        done()
      }),
    )
  }

  // to: a port, { path } of a unix socket, or { port, host, tls: options }.
  static async open(to) {
    const spec = typeof to === 'number' ? { port: to, host: '127.0.0.1' } : to
    const socket = spec.tls
      ? tls.connect({ port: spec.port, host: spec.host ?? '127.0.0.1', ...spec.tls })
      : net.connect({ noDelay: true, allowHalfOpen: true, host: '127.0.0.1', ...spec })
    await within(once(socket, spec.tls ? 'secureConnect' : 'connect'), 'connect', WAIT_MS)
    return new Raw(socket)
  }

  get bytes() {
    if (this.parts.length !== 1) this.parts = [Buffer.concat(this.parts)]
    return this.parts[0]
  }

  // Resolves when the bytes are with the kernel; a peer that has closed is not an error of the sender.
  send(data) {
    return new Promise((done) => {
      if (this.socket.destroyed || !this.socket.writable) return done(false)
      this.socket.write(data, (error) => done(!error))
      this.closed.then(() => done(false))
    })
  }
  finish() {
    this.socket.end()
  }
  reset() {
    this.socket.resetAndDestroy()
  }
  close() {
    this.socket.destroy()
  }
  pause() {
    this.socket.pause()
  }
  resume() {
    this.socket.resume()
  }

  async more(what, limitMs) {
    if (this.isEnded) throw new Error(`connection ended, wanted ${what}; ${this.seen()}`)
    let wake
    const changed = new Promise((done) => {
      wake = done
      this.waiters.add(done)
    })
    try {
      await within(changed, () => `${what}; ${this.seen()}`, limitMs)
    } finally {
      this.waiters.delete(wake)
    }
  }
  seen() {
    const why = this.error ? ` (${this.error.code})` : ''
    return `unread${why}: ${JSON.stringify(this.bytes.subarray(0, 300).toString('latin1'))}`
  }
  async upTo(mark, what, limitMs) {
    for (;;) {
      const at = this.bytes.indexOf(mark)
      if (at >= 0) return this.take(at + mark.length)
      await this.more(what, limitMs)
    }
  }
  async exactly(n, what, limitMs = WAIT_MS) {
    while (this.have < n) await this.more(what, limitMs)
    return this.take(n)
  }
  take(n) {
    const all = this.bytes
    this.parts = [all.subarray(n)]
    this.have = all.length - n
    return all.subarray(0, n)
  }

  async head(limitMs = WAIT_MS) {
    const text = (await this.upTo('\r\n\r\n', 'a response head', limitMs)).toString('latin1')
    const [first, ...lines] = text.slice(0, -4).split(CRLF)
    const status = first.match(/^HTTP\/(1\.[01]) (\d{3}) ?(.*)$/)
    if (!status) throw new Error(`not a status line: ${JSON.stringify(first)}`)
    const fields = lines.map((line) => {
      const colon = line.indexOf(':')
      if (colon < 1) throw new Error(`not a header line: ${JSON.stringify(line)}`)
      return [line.slice(0, colon), line.slice(colon + 1).trim()]
    })
    return new Answer(status[1], Number(status[2]), status[3], fields)
  }

  // One answer. An interim 100 is returned as an answer of its own.
  async answer({ isHead = false, limitMs = WAIT_MS } = {}) {
    const a = await this.head(limitMs)
    const isBare = isHead || a.status < 200 || a.status === 204 || a.status === 304
    if (isBare) a.isComplete = true
    else if (/\bchunked\b/i.test(a.headers['transfer-encoding'] ?? ''))
      await this.chunked(a, limitMs)
    else if (a.headers['content-length'] !== undefined) {
      if (!/^\d+$/.test(a.headers['content-length']))
        throw new Error(`content-length ${a.headers['content-length']}`)
      a.body = Buffer.from(
        await this.exactly(Number(a.headers['content-length']), 'the body', limitMs),
      )
      a.isComplete = true
    } else {
      a.body = await this.rest(limitMs)
      a.isComplete = true
    }
    return a
  }

  async chunked(a, limitMs) {
    const parts = []
    for (;;) {
      const line = (await this.upTo(CRLF, 'a chunk size', limitMs)).toString('latin1').trimEnd()
      if (!/^[0-9a-f]+$/i.test(line)) throw new Error(`chunk size ${JSON.stringify(line)}`)
      const size = parseInt(line, 16)
      if (size > 0) parts.push(Buffer.from(await this.exactly(size, 'chunk data', limitMs)))
      const end = (await this.exactly(2, 'the end of a chunk', limitMs)).toString('latin1')
      if (end !== CRLF) throw new Error(`chunk ends with ${JSON.stringify(end)}`)
      if (size === 0) break
    }
    a.body = Buffer.concat(parts)
    a.isComplete = true
  }

  // All bytes until the peer closes.
  async rest(limitMs = WAIT_MS) {
    while (!this.isEnded) await this.more('the end of the connection', limitMs)
    return Buffer.from(this.take(this.have))
  }
}

// Sends bytes on a fresh connection and closes it afterwards; fn gets the connection.
export async function on(to, fn) {
  const c = await Raw.open(to)
  try {
    return await fn(c)
  } finally {
    c.close()
  }
}
export const ask = (to, bytes, options) =>
  on(to, async (c) => {
    c.send(bytes)
    return c.answer(options)
  })
