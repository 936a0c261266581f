// The usual client: node's own, for tests whose subject is not the bytes.
import http from 'node:http'
import https from 'node:https'
import { once } from 'node:events'
import { within } from './proc.mjs'

// Opens a request and answers the response as soon as its head is there; the caller reads on.
export function open(
  base,
  path,
  { method = 'GET', headers = {}, body, agent = false, tls, socketPath, limitMs = 20_000 } = {},
) {
  const lib = base.startsWith('https') ? https : http
  const at = socketPath ? { socketPath } : {}
  const req = lib.request(base + path, { method, headers, agent, ...at, ...tls })
  // Destroying a stream that is being read is how tests leave: not an error of theirs.
  const head = new Promise((done, fail) => {
    req.on('response', (res) => {
      res.on('error', () => {})
      done(res)
    })
    req.on('upgrade', (res, socket) => {
      socket.destroy()
      done(Object.assign(res, { isUpgrade: true }))
    })
    req.on('error', fail)
  })
  if (body === undefined) req.end()
  else if (typeof body === 'function') body(req)
  else req.end(body)
  return within(head, `head of ${method} ${path}`, limitMs)
}

export async function call(base, path, options = {}) {
  const body = options.json === undefined ? options.body : JSON.stringify(options.json)
  const headers = {
    ...(options.json === undefined ? {} : { 'content-type': 'application/json' }),
    ...options.headers,
  }
  if (typeof body === 'string') headers['content-length'] ??= Buffer.byteLength(body)
  const res = await open(base, path, {
    method: body === undefined ? 'GET' : 'POST',
    ...options,
    headers,
    body,
  })
  if (res.isUpgrade) return { status: res.statusCode, headers: res.headers, text: '' }
  const parts = []
  res.on('data', (data) => parts.push(data))
  await within(once(res, 'end'), `body of ${path}`, options.limitMs ?? 20_000)
  const bytes = Buffer.concat(parts)
  return {
    status: res.statusCode,
    headers: res.headers,
    fields: res.rawHeaders,
    bytes,
    text: bytes.toString('utf8'),
    get json() {
      return JSON.parse(bytes.toString('utf8'))
    },
  }
}
export const bearer = (token) => ({ authorization: `Bearer ${token}` })
