// What the scripted model answers to one request. It has no memory but the conversation it is sent,
// as a real one; only the counted failures of "fail: CODE K" are kept outside.
import { findScript, isToolVerb, parseScript, remainingSteps } from './script.mjs'
import { toolCall } from './tools.mjs'

const TITLE = 'Scripted session'
const RESULT_SHOWN = 200
const TEXT_CHUNKS = 8
const MAX_CHUNKS = 100_000

// A few chunks of whole words; a single word is cut in two, so that a stream has more than one.
export function chunksOf(text) {
  const words = text.match(/\s*\S+\s*$|\s*\S+/g) ?? [text]
  if (words.length === 1) {
    const middle = Math.ceil(text.length / 2)
    return [text.slice(0, middle), text.slice(middle)].filter(Boolean)
  }
  const size = Math.ceil(words.length / TEXT_CHUNKS)
  const count = Math.ceil(words.length / size)
  return Array.from({ length: count }, (_, i) => words.slice(i * size, (i + 1) * size).join(''))
}

const textPart = (text) => ({ type: 'text', chunks: chunksOf(text) })
const numbered = (count) => Array.from({ length: count }, (_, i) => `chunk ${i + 1} `)

function countOf(arg, fallback) {
  const count = arg === '' ? fallback : Number(arg)
  return Number.isInteger(count) && count >= 0 ? Math.min(count, MAX_CHUNKS) : fallback
}

// Steps that are the same whatever the request: verb → parts.
const PLAIN = {
  say: (arg) => [textPart(arg)],
  think: (arg) => [{ type: 'think', chunks: chunksOf(arg) }, textPart('thought it through')],
  slow: (arg) => [{ type: 'text', chunks: numbered(countOf(arg, 10)), isSlow: true }],
  drop: (arg) => [{ type: 'text', chunks: numbered(countOf(arg, 3)) }, { type: 'drop' }],
  hang: () => [{ type: 'hang' }],
}

// Agents ask for a title or a summary of a session by a request of their own, often without tools.
function isTitleRequest(text, { tools, system }) {
  if (/\bgenerate a [\w ]*title\b/i.test(text)) return true
  return tools.length === 0 && /\b(title|summar\w+|topic)\b/i.test(system)
}
// Some want it as a JSON object and show an example of that.
const titleReply = (text) =>
  /\{\s*"title"/.test(text) ? JSON.stringify({ title: TITLE }) : TITLE

// "CODE [K]": the status to fail with now, or the parts to go on with.
function failStep(arg, text, failures) {
  const [code, limit] = arg.split(/\s+/).map(Number)
  const seen = (failures.get(text) ?? 0) + 1
  failures.set(text, seen)
  if (!limit || seen <= limit) return { status: code >= 400 && code <= 599 ? code : 500 }
  return { parts: [textPart(`recovered after ${limit} failures`)] }
}

// Answers { text, status } for an HTTP error or { text, parts }, where `text` is the script and a
// part is { type: 'text' | 'think' | 'call' | 'drop' | 'hang', chunks?, isSlow?, call? }. A call
// ends the answer: its result comes with the next request. `failures` is a map of the caller's.
export function decide(request, failures) {
  const { text, results } = findScript(request.turns)
  if (isTitleRequest(text, request)) return { text, parts: [textPart(titleReply(text))] }
  const steps = parseScript(text)
  if (steps.length === 0) return { text, parts: [textPart(`echo: ${text.trim()}`)] }

  const rest = remainingSteps(steps, results.length)
  const parts = []
  if (results.length > 0 && !rest.some((step) => isToolVerb(step.verb)))
    parts.push(textPart(`done: ${results.at(-1).trim().slice(0, RESULT_SHOWN)}`))
  for (const step of rest) {
    if (isToolVerb(step.verb)) {
      const call = toolCall(step, request.tools)
      if (!call.fault) return { text, parts: [...parts, { type: 'call', call }] }
      parts.push(textPart(call.fault))
    } else if (step.verb === 'fail') {
      const failed = failStep(step.arg, text, failures)
      if (failed.status) return { text, status: failed.status }
      parts.push(...failed.parts)
    } else parts.push(...PLAIN[step.verb](step.arg))
  }
  return { text, parts }
}
