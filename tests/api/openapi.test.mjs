// The document is generated from the routes: it is valid, complete, and what the repository says.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { RELEASE, ROOT, start } from './lib/server.mjs'
import { call } from './lib/http.mjs'

const LIMIT = { timeout: 30_000 }
const METHODS = ['get', 'put', 'post', 'delete', 'patch', 'options', 'head', 'trace']

let server, answer, doc
before(async () => {
  server = await start(undefined, { bin: RELEASE })
  answer = await call(server.url, '/openapi.json')
  doc = answer.json
})
after(() => server.stop())

const operations = () =>
  Object.entries(doc.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => METHODS.includes(method))
      .map(([method, op]) => ({ path, method, op })),
  )

test('it is an OpenAPI 3.1 document', LIMIT, () => {
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['content-type'], 'application/json')
  assert.match(doc.openapi, /^3\.1\.\d+$/)
  assert.equal(typeof doc.info.title, 'string')
  assert.equal(typeof doc.info.version, 'string')
  for (const [path, item] of Object.entries(doc.paths)) {
    assert.match(path, /^\//)
    for (const key of Object.keys(item))
      assert.match(
        key,
        /^(parameters|summary|description|get|put|post|delete|patch|options|head|trace|x-.*)$/,
      )
  }
})

test('it is the document in docs/openapi.json', LIMIT, () => {
  const kept = JSON.parse(readFileSync(join(ROOT, 'docs/openapi.json'), 'utf8'))
  assert.deepEqual(doc, kept)
})

test('every operation is documented and has answers', LIMIT, () => {
  assert.ok(operations().length >= 5)
  for (const { path, method, op } of operations()) {
    const where = `${method} ${path}`
    assert.ok((op.summary ?? op.description ?? '').length > 10, `${where} says what it does`)
    assert.ok(Object.keys(op.responses ?? {}).length > 0, `${where} has answers`)
    for (const [status, response] of Object.entries(op.responses)) {
      assert.match(status, /^([1-5]\d\d|[1-5]XX|default)$/, where)
      assert.equal(
        typeof (response.description ?? (response.$ref ? '' : undefined)),
        'string',
        `${where} ${status}`,
      )
    }
  }
})

test('operation ids are there once', LIMIT, () => {
  const ids = operations()
    .map(({ op }) => op.operationId)
    .filter(Boolean)
  assert.deepEqual(ids, [...new Set(ids)])
})

test('path parameters are declared, and only those', LIMIT, () => {
  for (const { path, method, op } of operations()) {
    const named = [...path.matchAll(/\{([^}]+)\}/g)].map((m) => m[1]).sort()
    const declared = [...(doc.paths[path].parameters ?? []), ...(op.parameters ?? [])]
    const inPath = declared
      .filter((p) => p.in === 'path')
      .map((p) => p.name)
      .sort()
    assert.deepEqual(inPath, named, `${method} ${path}`)
    for (const p of declared) {
      assert.ok(['path', 'query', 'header'].includes(p.in), `${method} ${path} ${p.name}`)
      if (p.in === 'path') assert.equal(p.required, true)
      assert.ok(p.schema, `${method} ${path} ${p.name} has a schema`)
    }
  }
})

test('every $ref leads somewhere', LIMIT, () => {
  const refs = [...answer.text.matchAll(/"\$ref":"([^"]+)"/g)].map((m) => m[1])
  for (const ref of refs) {
    assert.match(ref, /^#\//)
    const target = ref
      .slice(2)
      .split('/')
      .reduce((at, key) => at?.[key.replace(/~1/g, '/').replace(/~0/g, '~')], doc)
    assert.ok(target, ref)
  }
})

test('a security scheme is declared', LIMIT, () => {
  const schemes = Object.values(doc.components?.securitySchemes ?? {})
  assert.ok(schemes.some((s) => s.type === 'http' && s.scheme === 'bearer'))
})

test('every documented GET is routed', LIMIT, async () => {
  for (const { path, method } of operations().filter(
    (o) => o.method === 'get' && !o.path.includes('{'),
  )) {
    const a = await call(server.url, path, { method: 'OPTIONS' })
    assert.ok(
      a.headers.allow?.split(',').includes(method.toUpperCase()),
      `${path}: ${a.headers.allow}`,
    )
  }
})

test('the known routes are in it, the page and the test routes are not', LIMIT, () => {
  for (const path of ['/v1/health', '/v1/ready', '/v1/limits', '/metrics', '/openapi.json'])
    assert.ok(doc.paths[path]?.get, path)
  assert.deepEqual(
    Object.keys(doc.paths).filter((path) => path.startsWith('/test')),
    [],
  )
})
