// Numbers that another program reads: the text format, and counters that count.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { start } from './lib/server.mjs'
import { bearer, call } from './lib/http.mjs'
import { until } from './lib/proc.mjs'
import { Raw, ask, get } from './lib/raw.mjs'
import { subscribe } from './lib/sse.mjs'

const LIMIT = { timeout: 30_000 }
const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const LABELS = '\\{(?:[a-zA-Z_]\\w*="(?:[^"\\\\\\n]|\\\\.)*",?)*\\}'
const SAMPLE = new RegExp(`^(${NAME})(${LABELS})? (-?[0-9.eE+-]+|NaN|[+-]Inf)( \\d+)?$`)

// The Prometheus text format, strictly. Answers { types, samples: Map(name+labels → number) }.
function parse(text) {
  assert.ok(text.endsWith('\n'), 'the last line has an end')
  const types = new Map()
  const samples = new Map()
  for (const line of text.split('\n').slice(0, -1)) {
    if (line === '') continue
    const comment = line.match(new RegExp(`^# (HELP|TYPE) (${NAME}) (.*)$`))
    if (comment) {
      if (comment[1] === 'TYPE') {
        assert.match(comment[3], /^(counter|gauge|histogram|summary|untyped)$/)
        assert.ok(!types.has(comment[2]), `TYPE of ${comment[2]} twice`)
        types.set(comment[2], comment[3])
      }
      continue
    }
    const sample = line.match(SAMPLE)
    assert.ok(sample, `not a sample: ${JSON.stringify(line)}`)
    const key = sample[1] + (sample[2] ?? '')
    assert.ok(!samples.has(key), `${key} twice`)
    const family = sample[1].replace(/_(bucket|sum|count|total)$/, '')
    assert.ok(types.has(sample[1]) || types.has(family), `${sample[1]} has a TYPE before it`)
    samples.set(key, Number(sample[3]))
  }
  return { types, samples }
}
const read = async (s) => {
  const a = await call(s.url, '/metrics', { headers: bearer('T') })
  assert.equal(a.status, 200)
  assert.match(a.headers['content-type'], /^text\/plain; version=0\.0\.4/)
  return parse(a.text)
}
const sum = ({ samples }, pattern) =>
  [...samples].filter(([key]) => pattern.test(key)).reduce((total, [, value]) => total + value, 0)

test('the text parses and counters are named as such', LIMIT, async (t) => {
  const s = await start(t, { args: ['--token', 'T'] })
  const { types, samples } = await read(s)
  assert.ok(samples.size >= 8, `${samples.size} samples`)
  for (const [name, type] of types) if (type === 'counter') assert.match(name, /_total$/)
})

test('requests, answers and connections are counted', LIMIT, async (t) => {
  const s = await start(t, { args: ['--token', 'T'] })
  const before = await read(s)
  for (let i = 0; i < 25; i++) await call(s.url, '/v1/health', { headers: bearer('T') })
  for (let i = 0; i < 5; i++) await call(s.url, '/v1/health')
  await ask(s.port, 'NONSENSE\r\n\r\n')
  const after = await read(s)
  const rise = (pattern) => sum(after, pattern) - sum(before, pattern)
  assert.ok(rise(/http_requests_total/) >= 30, `requests rose by ${rise(/http_requests_total/)}`)
  assert.ok(rise(/http_\w*total\{[^}]*4/) >= 5 || rise(/4xx/) >= 5, 'the refusals are told apart')
  for (const [key, value] of before.samples)
    if (before.types.get(key.replace(/\{.*/, '')) === 'counter')
      assert.ok(after.samples.get(key) >= value, `${key} fell`)
})

test('open connections and streams are a gauge that falls again', LIMIT, async (t) => {
  const s = await start(t, { args: ['--token', 'T'] })
  const open = async () => sum(await read(s), /http_connections(_open)?(\{|$)/)
  const base = await open()
  const held = await Promise.all(Array.from({ length: 10 }, () => Raw.open(s.port)))
  for (const c of held) {
    c.send(get('/v1/health'))
    await c.answer()
  }
  const sse = await subscribe(s.url, '/test/sse?every=10', { headers: bearer('T') })
  assert.ok((await open()) >= base + 11, 'they are counted')
  for (const c of held) c.close()
  sse.close()
  await until(async () => (await open()) <= base, 'back to the start')
})
