// The script language: how a user's text tells the model what to answer. README.md lists the steps.

const STEP = /^[ \t]*(say|think|run|ask|write|read|tool|slow|fail|drop|hang):[ \t]*(.*)$/s
const TOOL_VERBS = new Set(['run', 'ask', 'write', 'read', 'tool'])

export const isToolVerb = (verb) => TOOL_VERBS.has(verb)

// The steps of a text, in order: lines "verb: argument"; "\n" in an argument stands for a newline.
export function parseScript(text) {
  const found = text.split(/\r?\n/).map((line) => STEP.exec(line))
  return found
    .filter(Boolean)
    .map(([, verb, arg]) => ({ verb, arg: arg.trim().replaceAll('\\n', '\n') }))
}

// Agents put blocks of their own beside the user's words: reminders in tags, AGENTS.md.
const isContext = (text) => /^\s*</.test(text) || text.startsWith('# AGENTS.md')
// Some front ends quote the whole prompt before they send it on.
const unquote = (text) => (/^".*"\s*$/s.test(text) ? text.trim().slice(1, -1) : text)

// The script is the newest user text that has a step or is not an agent's context. The tool results
// after it belong to it: their number says how many of its tool steps are done.
export function findScript(turns) {
  const texts = turns.map((turn) => (turn.kind === 'user' ? unquote(turn.text) : undefined))
  const at = texts.findLastIndex(
    (text) => text !== undefined && (parseScript(text).length > 0 || !isContext(text)),
  )
  if (at < 0) return { text: '', results: [] }
  const later = turns.slice(at + 1).filter((turn) => turn.kind === 'result')
  return { text: texts[at], results: later.map((turn) => turn.text) }
}

// What is left once `doneCount` tool results are there: the steps after the last finished one.
export function remainingSteps(steps, doneCount) {
  let left = doneCount
  let next = 0
  while (left > 0 && next < steps.length) if (isToolVerb(steps[next++].verb)) left--
  return steps.slice(next)
}
