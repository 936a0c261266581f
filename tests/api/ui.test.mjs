// The page inside the binary: served without a token, compressed, cached, with deep links.
import assert from 'node:assert/strict'
import { gunzipSync } from 'node:zlib'
import { after, before, test } from 'node:test'
import { start } from './lib/server.mjs'
import { call } from './lib/http.mjs'
import { ask, message } from './lib/raw.mjs'

const LIMIT = { timeout: 30_000 }
let server
before(async () => (server = await start(undefined, { args: ['--token', 'T'] })))
after(() => server.stop())

const page = (path, headers = {}, method) => call(server.url, path, { headers, method })

test('/ui and /ui/ are the same page', LIMIT, async () => {
  const [bare, slash] = [await page('/ui'), await page('/ui/')]
  for (const a of [bare, slash]) {
    assert.equal(a.status, 200)
    assert.equal(a.headers['content-type'], 'text/html; charset=utf-8')
    assert.equal(a.headers['content-encoding'], undefined)
    assert.match(a.text, /^\s*<!doctype html>/i)
  }
  assert.equal(bare.text, slash.text)
})

test('gzip is sent when it is asked for, and is the same page', LIMIT, async () => {
  const plain = await page('/ui/')
  const packed = await page('/ui/', { 'accept-encoding': 'gzip, deflate, br' })
  assert.equal(packed.headers['content-encoding'], 'gzip')
  assert.equal(packed.headers['content-length'], String(packed.bytes.length))
  assert.equal(gunzipSync(packed.bytes).toString(), plain.text)
  assert.match(packed.headers.vary, /accept-encoding/i, 'a cache must not mix the two')
  const refused = await page('/ui/', { 'accept-encoding': 'gzip;q=0' })
  assert.equal(refused.headers['content-encoding'], undefined)
})

test('an ETag saves the second transfer', LIMIT, async () => {
  const first = await page('/ui/')
  assert.match(first.headers.etag, /^(W\/)?"[^"]+"$/)
  for (const match of [
    first.headers.etag,
    `"other", ${first.headers.etag}`,
    '*',
    `W/${first.headers.etag.replace(/^W\//, '')}`,
  ]) {
    const again = await page('/ui/', { 'if-none-match': match })
    assert.equal(again.status, 304, match)
    assert.equal(again.text, '')
    assert.equal(again.headers.etag, first.headers.etag)
  }
  assert.equal((await page('/ui/', { 'if-none-match': '"other"' })).status, 200)
})

test('the page itself is asked for again every time', LIMIT, async () => {
  assert.match((await page('/ui/')).headers['cache-control'], /no-cache|max-age=0/)
})

test('every file that the page names is there, with its type', LIMIT, async () => {
  const { text } = await page('/ui/')
  const types = {
    js: 'text/javascript; charset=utf-8',
    css: 'text/css; charset=utf-8',
    svg: 'image/svg+xml',
    png: 'image/png',
    ico: 'image/x-icon',
  }
  const names = [...text.matchAll(/(?:src|href)="([^"#:]+\.(js|css|svg|png|ico))"/g)]
  for (const [, name, ext] of names) {
    const a = await page(new URL(name, 'http://x/ui/').pathname)
    assert.equal(a.status, 200, name)
    assert.equal(a.headers['content-type'], types[ext], name)
  }
})

test('a path without a dot is the page: deep links work', LIMIT, async () => {
  const index = (await page('/ui/')).text
  for (const path of ['/ui/sessions', '/ui/sessions/abc/def', '/ui/?token=x', '/ui/a%20b'])
    assert.equal((await page(path)).text, index, path)
})

test('a missing file with a dot is 404', LIMIT, async () => {
  for (const path of ['/ui/nothing.js', '/ui/assets/nothing.css', '/ui/x.map'])
    assert.equal((await page(path)).status, 404, path)
})

test('no path leads out of the page', LIMIT, async () => {
  for (const [path, status] of [
    ['/ui/../v1/health', 404],
    ['/ui/..%2f..%2fetc%2fpasswd', 404],
    ['/ui/%2e%2e/%2e%2e/etc/passwd', 404],
    ['/ui/%00.html', 400],
    ['/ui//etc/passwd', 200], // no dot: the page itself
  ]) {
    const a = await ask(server.port, message([`GET ${path} HTTP/1.1`, 'Host: localhost']))
    assert.doesNotMatch(a.text, /^root:|^\{"status":"ok"\}$/m, path)
    assert.equal(a.status, status, path)
  }
})

test('HEAD of the page has its length and no body', LIMIT, async () => {
  const get = await page('/ui/')
  const head = await ask(server.port, message(['HEAD /ui/ HTTP/1.1', 'Host: localhost']), {
    isHead: true,
  })
  assert.equal(head.status, 200)
  assert.equal(head.headers['content-length'], String(get.bytes.length))
})

test('other methods on the page: 405', LIMIT, async () => {
  const a = await page('/ui/', {}, 'DELETE')
  assert.equal(a.status, 405)
  assert.equal(a.headers.allow, 'GET,HEAD')
})
