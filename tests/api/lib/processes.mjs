// Processes over HTTP, the few calls that every test of them makes.
import assert from 'node:assert/strict'
import { call } from './http.mjs'
import { until } from './proc.mjs'

export const sh = (script, more = {}) => ({ command: 'sh', args: ['-c', script], ...more })

export async function create(server, body) {
  const r = await call(server.url, '/v1/processes', { json: body })
  assert.equal(r.status, 200, r.text)
  return r.json
}
export const run = (server, body, options) =>
  call(server.url, '/v1/processes/run', { json: body, ...options })
export const post = (server, path, json) =>
  call(server.url, `/v1/processes/${path}`, { method: 'POST', json })
export const get = async (server, id) => (await call(server.url, `/v1/processes/${id}`)).json
export const input = (server, id, data, more = {}) =>
  post(server, `${id}/input`, { data, encoding: 'text', ...more })

export async function logs(server, id, query = '') {
  const r = await call(server.url, `/v1/processes/${id}/logs${query}`)
  assert.equal(r.status, 200, r.text)
  return r.json
}
export const bytesOf = (entries) =>
  Buffer.concat(entries.map((e) => Buffer.from(e.data, 'base64')))
export const output = async (server, id, query) =>
  bytesOf((await logs(server, id, query)).entries).toString()

// The end of a process, and text in its output: both have a limit.
export const ended = (server, id) =>
  until(async () => {
    const p = await get(server, id)
    return p.status === 'exited' && p
  }, `end of ${id}`)
export const said = (server, id, what) =>
  until(async () => (await output(server, id)).match(what), `${what} in the output of ${id}`)

// A problem body, compared whole except for what `more` adds.
export function problem(r, status, type, title, detail, more = {}) {
  assert.equal(r.headers['content-type'], 'application/problem+json')
  assert.deepEqual(r.json, {
    type: `urn:sandbox-agent:error:${type}`,
    title,
    status,
    detail,
    ...more,
  })
  assert.equal(r.status, status)
}
export const conflict = (r, message) =>
  problem(r, 409, 'conflict', 'Conflict', `conflict: ${message}`, { details: { message } })
export const invalid = (r, detail, status = 400) =>
  problem(r, status, 'invalid_request', 'Invalid Request', `invalid request: ${detail}`)
export const noProcess = (r, id) =>
  problem(r, 404, 'not_found', 'Not Found', `not found: process ${id}`, {
    details: { id, resource: 'process' },
  })
