// Our JSON parser against the JavaScript engine's: the same documents are accepted, and they mean
// the same. Documents are generated, then most are damaged a few bytes at a time. JSON_ORACLE is
// the tool, JSON_ORACLE_SEED repeats a run, JSON_ORACLE_COUNT makes a longer one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const tool =
  process.env.JSON_ORACLE ??
  fileURLToPath(new URL('../../build/asan/tests/json-oracle', import.meta.url));
const seed = Number(process.env.JSON_ORACLE_SEED ?? 20260101);
const count = Number(process.env.JSON_ORACLE_COUNT ?? 5000);
const DEPTH_MAX = 128;

// mulberry32: small, seeded, good enough to roll dice
let state = seed;
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const dice = (sides) => Math.floor(random() * sides);
const pick = (list) => list[dice(list.length)];
const repeat = (max, make) => Array.from({ length: dice(max) }, make);

const pieces = [
  'a', 'hello world ', '0123456789abcdef', 'é', '€', '😀', '\u2028', '\x7f', '/', "'",
  '\\n', '\\t', '\\"', '\\\\', '\\/', '\\b', '\\f', '\\r', '\\u0000', '\\u001f', '\\u0041',
  '\\u20ac', '\\uD83D\\uDE00', '\\ud83d\\ude00', '\\uFFFF', '\\udbff\\udfff', '\\uD7ff',
  '\\ud800', '\\udc00x', '\\udbff', // from here on: half a pair
];
const numbers = [
  '0', '-0', '1', '-1', '9007199254740993', '18446744073709551616', '0.1', '-0.0', '1.50', '1e5',
  '1E+5', '1e-5', '123.456e-789', '1e999', '5e-324', '0e0', '123456789012345678901234567890',
];
const odd = [
  '', '-', '01', '1.', '.5', '+1', '1e', '0x1', 'NaN', 'Infinity', 'nul', 'True', "'a'", '"\\x"',
  '"\\u12"', '"\t"', '[1,]', '{"a":1,}', '{a:1}', '{1:1}', '[1 2]', '{"a" 1}', '//', '[', '}',
  '\ufeff1',
];

const space = () => (dice(6) ? '' : pick([' ', '\t', '\r', '  ']));
const string = () => `"${repeat(8, () => pick(dice(30) ? pieces.slice(0, -3) : pieces)).join('')}"`;
const key = () => pick(['"a"', '"b"', '"id"', '"__proto__"', '"10"', '"9"', '""', string()]);

function value(depth) {
  const kind = dice(depth > 0 ? 9 : 5);
  if (kind === 0) return pick(['null', 'true', 'false']);
  if (kind === 1) return pick(numbers);
  if (kind === 2) return String((random() - 0.5) * 10 ** (dice(40) - 20));
  if (kind <= 4) return dice(200) ? string() : pick(odd);
  const items = repeat(6, () => {
    const member = kind <= 6 ? '' : `${key()}${space()}:${space()}`;
    return `${space()}${member}${value(depth - 1)}${space()}`;
  });
  return kind <= 6 ? `[${items.join(',')}]` : `{${items.join(',')}}`;
}

function deep() {
  const n = DEPTH_MAX - 3 + dice(6);
  const open = Array.from({ length: n }, () => pick(['[', '{"k":']));
  return `${open.join('')}1${open.reverse().map((o) => (o === '[' ? ']' : '}')).join('')}`;
}

function damage(bytes) {
  const tokens = [...Buffer.from('{}[]:,"\\0123456789-+.eEtrufalsn \t\x00\x1f\x7f')];
  const edits = [
    (b, i) => b.splice(i, 1),
    (b, i) => b.splice(i, 0, pick(tokens)),
    (b, i) => (b[i] = pick(tokens)),
    (b, i) => (b[i] ^= 1 << dice(8)),
    (b, i) => b.splice(i, 0, ...b.slice(i, i + dice(8))),
    (b, i) => b.splice(i),
  ];
  const b = [...bytes];
  for (let n = 1 + dice(3); n > 0 && b.length; n--) pick(edits)(b, dice(b.length));
  return Buffer.from(b);
}

function document() {
  const text = dice(25) ? `${space()}${value(6)}${space()}` : dice(2) ? deep() : pick(odd);
  const bytes = Buffer.from(text);
  const doc = dice(5) < 2 ? bytes : damage(bytes);
  return Buffer.from(doc.map((c) => (c === 10 ? 32 : c))); // a line is a document
}

// What JSON.parse accepts and we refuse on purpose: half a surrogate pair, too many brackets.
function hasLoneSurrogate(text) {
  const units = [...text.matchAll(/\\(?:u([0-9a-f]{4})|[^])/gi)];
  for (let i = 0; i < units.length; i++) {
    const unit = units[i][1] ? parseInt(units[i][1], 16) : 0;
    const next = units[i + 1];
    const isPair =
      unit >= 0xd800 && unit < 0xdc00 && next?.[1] && next.index === units[i].index + 6 &&
      parseInt(next[1], 16) >= 0xdc00 && parseInt(next[1], 16) <= 0xdfff;
    if (isPair) i++;
    else if (unit >= 0xd800 && unit <= 0xdfff) return true;
  }
  return false;
}

function depthOf(text) {
  let depth = 0;
  let max = 0;
  for (const c of text.replace(/"(?:[^"\\]|\\[^])*"/g, '""')) {
    if (c === '[' || c === '{') max = Math.max(max, ++depth);
    if (c === ']' || c === '}') depth--;
  }
  return max;
}

// The meaning of a document as canonical text, or undefined when it is to be refused.
function meaning(bytes) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const parsed = JSON.parse(text);
    return hasLoneSurrogate(text) || depthOf(text) > DEPTH_MAX ? undefined : JSON.stringify(parsed);
  } catch {
    return undefined;
  }
}

test(`${count} documents mean the same to us and to JSON.parse (seed ${seed})`, () => {
  const docs = Array.from({ length: count }, document);
  const input = Buffer.concat(docs.flatMap((d) => [d, Buffer.from('\n')]));
  const run = spawnSync(tool, { input, maxBuffer: 1 << 30 });
  assert.equal(run.error, undefined);
  assert.equal(run.status, 0, run.stderr.toString());
  const verdicts = run.stdout.toString().split('\n').slice(0, -1);
  assert.equal(verdicts.length, docs.length);

  let accepted = 0;
  docs.forEach((doc, i) => {
    const want = meaning(doc);
    const isOk = verdicts[i].startsWith('ok ');
    const seen = isOk ? JSON.stringify(JSON.parse(verdicts[i].slice(3))) : undefined;
    const shown = JSON.stringify(doc.toString('latin1'));
    assert.equal(seen, want, `document ${i}: ${shown} → ${verdicts[i]}`);
    accepted += seen !== undefined;
  });
  // both verdicts must have been put to the test
  assert.ok(accepted > count / 5 && accepted < (count * 4) / 5, `${accepted} of ${count} accepted`);
});

test('numbers come back as they were written', () => {
  const run = spawnSync(tool, { input: `[${numbers.join(',')}]\n` });
  assert.equal(run.stdout.toString(), `ok [${numbers.join(',')}]\n`);
});

test('equal keys are both kept, in order', () => {
  const run = spawnSync(tool, { input: '{"a":1,"b":2,"a":3}\n' });
  assert.equal(run.stdout.toString(), 'ok {"a":1,"b":2,"a":3}\n');
});
