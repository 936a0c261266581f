// WebSocket frames by hand, right or wrong on purpose.
import { createHash, randomBytes } from 'node:crypto'
import { Raw, message } from './raw.mjs'

export const OP = { cont: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 }
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
export const acceptOf = (key) =>
  createHash('sha1')
    .update(key + GUID)
    .digest('base64')

export function frame(op, data = '', { isFin = true, rsv = 0, isMasked = true, length } = {}) {
  const payload = Buffer.from(data)
  const n = length ?? payload.length
  const mask = isMasked ? 0x80 : 0
  const first = (isFin ? 0x80 : 0) | (rsv << 4) | op
  let head
  if (n < 126) head = Buffer.from([first, mask | n])
  else if (n < 65536) {
    head = Buffer.from([first, mask | 126, 0, 0])
    head.writeUInt16BE(n, 2)
  } else {
    head = Buffer.alloc(10)
    head[0] = first
    head[1] = mask | 127
    head.writeBigUInt64BE(BigInt(n), 2)
  }
  if (!isMasked) return Buffer.concat([head, payload])
  const key = randomBytes(4)
  const hidden = Buffer.from(payload)
  for (let i = 0; i < hidden.length; i++) hidden[i] ^= key[i & 3]
  return Buffer.concat([head, key, hidden])
}

export function closeFrame(code, reason = '', options) {
  const head = Buffer.alloc(2)
  head.writeUInt16BE(code)
  return frame(OP.close, Buffer.concat([head, Buffer.from(reason)]), options)
}

export const handshake = (path, key, ...headers) =>
  message([
    `GET ${path} HTTP/1.1`,
    'Host: localhost',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${key}`,
    ...headers,
  ])

export class WsRaw {
  constructor(raw, answer) {
    this.raw = raw
    this.answer = answer
  }
  static async open(to, path, ...headers) {
    const raw = await Raw.open(to)
    const key = randomBytes(16).toString('base64')
    raw.send(handshake(path, key, ...headers))
    const answer = await raw.head()
    if (answer.status !== 101) {
      raw.close()
      throw new Error(`handshake answered ${answer.status}`)
    }
    if (answer.headers['sec-websocket-accept'] !== acceptOf(key))
      throw new Error('wrong accept key')
    return new WsRaw(raw, answer)
  }
  send(bytes) {
    return this.raw.send(bytes)
  }
  close() {
    this.raw.close()
  }

  async next(limitMs = 30_000) {
    const [first, second] = await this.raw.exactly(2, 'a frame', limitMs)
    let n = second & 127
    if (second & 0x80) throw new Error('a server must not mask')
    if (n === 126) n = (await this.raw.exactly(2, 'a length', limitMs)).readUInt16BE()
    else if (n === 127)
      n = Number((await this.raw.exactly(8, 'a length', limitMs)).readBigUInt64BE())
    const data = Buffer.from(await this.raw.exactly(n, 'a payload', limitMs))
    return { isFin: !!(first & 0x80), rsv: (first >> 4) & 7, op: first & 15, data }
  }

  // The close frame's code (1005 when it has none); then the server must close the connection.
  async closeCode() {
    const f = await this.next()
    if (f.op !== OP.close) throw new Error(`wanted a close frame, got opcode ${f.op}`)
    await this.raw.rest()
    return f.data.length >= 2 ? f.data.readUInt16BE() : 1005
  }
}
