// The script language of the model endpoint: which text is the script, which steps are left, and
// how a step becomes an answer.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chunksOf, decide } from '../fake-llm/reply.mjs'
import { findScript, parseScript, remainingSteps } from '../fake-llm/script.mjs'
import { toolCall } from '../fake-llm/tools.mjs'

const user = (text) => ({ kind: 'user', text })
const result = (text) => ({ kind: 'result', text })
const tool = (name, properties = {}, required = []) => ({
  name,
  kind: 'function',
  schema: { properties, required },
})
const bash = tool('Bash', { command: { type: 'string' } })

test('every verb is a step', () => {
  const verbs = 'say think run ask write read tool slow fail drop hang'.split(' ')
  const text = verbs.map((verb) => `${verb}: x`).join('\n')
  assert.deepEqual(parseScript(text), verbs.map((verb) => ({ verb, arg: 'x' })))
})

const lines = [
  ['blanks around', ' \tsay:\t two words  ', [{ verb: 'say', arg: 'two words' }]],
  ['no argument', 'hang:', [{ verb: 'hang', arg: '' }]],
  ['a newline in it', 'say: a\\nb', [{ verb: 'say', arg: 'a\nb' }]],
  ['a colon in it', 'run: echo a: b', [{ verb: 'run', arg: 'echo a: b' }]],
  ['a carriage return', 'say: a\r\nno step\r\n', [{ verb: 'say', arg: 'a' }]],
  ['other words between', 'please\nsay: a\nthanks', [{ verb: 'say', arg: 'a' }]],
  ['another verb', 'shout: a', []],
  ['a verb in capitals', 'Say: a', []],
  ['a verb inside a line', 'I say: a', []],
  ['nothing', '', []],
]
for (const [name, text, steps] of lines) {
  test(`a line with ${name}`, () => assert.deepEqual(parseScript(text), steps))
}

const scripts = [
  ['the newest text', [user('say: a'), user('say: b')], 'say: b', []],
  ["not an agent's context", [user('say: a'), user('<reminder>x</reminder>')], 'say: a', []],
  ["not a project's notes", [user('plain'), user('# AGENTS.md\nx')], 'plain', []],
  ['a context with steps', [user('say: a'), user('<q>\nsay: b\n</q>')], '<q>\nsay: b\n</q>', []],
  ['a quoted prompt', [user('"say: a"\n')], 'say: a', []],
  ['with its results', [user('run: a'), result('"1"'), result('2')], 'run: a', ['"1"', '2']],
  ['without those before', [user('run: a'), result('1'), user('run: b')], 'run: b', []],
  ['empty when there is none', [result('1'), user('<x>')], '', []],
]
for (const [name, turns, text, results] of scripts) {
  test(`the script is ${name}`, () => assert.deepEqual(findScript(turns), { text, results }))
}

test('results stand for the tool steps that are done', () => {
  const steps = parseScript('say: a\nrun: b\nsay: c\nread: d\nsay: e')
  const left = (done) => remainingSteps(steps, done).map((step) => step.arg).join('')
  assert.deepEqual([0, 1, 2, 3].map(left), ['abcde', 'cde', 'e', ''])
})

const calls = [
  ['the shell by any of its names', 'run', 'ls', [tool('run_shell_command', { command: {} })],
    { command: 'ls' }],
  ['a shell that takes an argv', 'run', 'ls', [tool('shell', { command: { type: 'array' } })],
    { command: ['bash', '-lc', 'ls'] }],
  ['an escalation where there is a field for it', 'ask', 'ls',
    [tool('exec_command', { cmd: {}, sandbox_permissions: {}, justification: {} })],
    {
      cmd: 'ls',
      sandbox_permissions: 'require_escalated',
      justification: 'Scripted request: may I run this?',
    }],
  ['no escalation elsewhere', 'ask', 'ls', [bash], { command: 'ls' }],
  ['the write tool', 'write', 'a.txt two words',
    [bash, tool('Write', { file_path: {}, content: {} })],
    { file_path: 'a.txt', content: 'two words' }],
  ['the shell to write', 'write', "a.txt it's", [bash],
    { command: `printf '%s' 'it'\\''s' > 'a.txt'` }],
  ['the read tool', 'read', 'a.txt', [tool('read_file', { absolute_path: {}, limit: {} })],
    { absolute_path: 'a.txt' }],
  ['a read tool for many', 'read', 'a.txt', [tool('read_files', { paths: { type: 'array' } })],
    { paths: ['a.txt'] }],
  ['the shell to read', 'read', 'a b.txt', [bash], { command: "cat 'a'" }],
  ['a tool by its name', 'tool', 'Any {"a":[1]}', [], { a: [1] }],
  ['a tool without arguments', 'tool', 'Any', [], {}],
]
for (const [name, verb, arg, tools, args] of calls) {
  test(`a step calls ${name}`, () => assert.deepEqual(toolCall({ verb, arg }, tools).args, args))
}

test('required arguments that say nothing get a harmless value', () => {
  const properties = {
    command: { type: 'string' },
    description: { type: 'string' },
    count: { type: ['integer', 'null'] },
    kind: { type: 'string', enum: ['a', 'b'] },
    limit: { type: 'number', default: 7 },
    other: { type: 'string' },
  }
  const required = ['command', 'description', 'count', 'kind', 'limit']
  const { args } = toolCall({ verb: 'run', arg: 'ls' }, [tool('bash', properties, required)])
  assert.deepEqual(args, {
    command: 'ls',
    description: 'scripted step',
    count: 0,
    kind: 'a',
    limit: 7,
  })
})

test('code mode writes files and asks through its one tool', () => {
  const tools = [bash, { name: 'exec', kind: 'custom', schema: {} }]
  const input = (verb, arg) => toolCall({ verb, arg }, tools).input
  assert.match(input('write', 'a b'), /^text\(await tools\.apply_patch\("\*\*\* Begin .*"\)\);$/)
  assert.match(input('ask', 'ls'), /^text\(await tools\.exec_command\(\{"cmd":"ls","sand.*\}\)\);$/)
  assert.equal(input('read', 'a'), `text(await tools.exec_command({"cmd":"cat 'a'"}));`)
})

const answer = (text, { tools = [], results = [], failures = new Map() } = {}) => {
  const request = { system: '', tools, turns: [user(text), ...results.map(result)] }
  const { parts, status } = decide(request, failures)
  return status ?? parts.map((part) => part.chunks?.join('') ?? part.type).join('|')
}

const answers = [
  ['no tool for a step', 'run: ls', {}, 'no tool offered for "run: ls"'],
  ['no tool for a file', 'write: a b', {}, 'no tool offered for "write: a b"'],
  ['arguments that are not JSON', 'tool: X {a', {}, /^bad arguments in "tool: X \{a": /],
  ['a call before other steps', 'run: ls\nsay: b', { tools: [bash] }, 'call'],
  ['a step after a result', 'run: a\nsay: b', { tools: [bash], results: ['r'] }, 'done: r|b'],
  ['more results than steps', 'run: a', { tools: [bash], results: ['1', '2'] }, 'done: 2'],
  ['a failure after a result', 'run: a\nfail: 429', { tools: [bash], results: ['r'] }, 429],
  ['a failure without a code', 'fail:', {}, 500],
  ['the default of slow', 'slow:', {}, /^chunk 1 .*chunk 10 $/],
  ['the default of drop', 'drop: x', {}, 'chunk 1 chunk 2 chunk 3 |drop'],
  ['a negative count', 'drop: -1', {}, 'chunk 1 chunk 2 chunk 3 |drop'],
]
for (const [name, text, more, expected] of answers) {
  test(`the answer to ${name}`, () => {
    if (expected instanceof RegExp) assert.match(answer(text, more), expected)
    else assert.equal(answer(text, more), expected)
  })
}

test('a stream has no more chunks than its ceiling', () => {
  const count = (n) => {
    const request = { system: '', tools: [], turns: [user(`slow: ${n}`)] }
    return decide(request, new Map()).parts[0].chunks.length
  }
  assert.deepEqual([99_999, 100_000, 100_001].map(count), [99_999, 100_000, 100_000])
})

test('a text is cut into two to eight chunks and stays whole', () => {
  const sizes = {
    '': 0,
    a: 1,
    word: 2,
    'two words': 2,
    'a b c d e f g h': 8,
    'a b c d e f g h i': 5,
  }
  for (const [text, size] of Object.entries(sizes)) {
    assert.equal(chunksOf(text).length, size, text)
    assert.equal(chunksOf(text).join(''), text)
  }
})
