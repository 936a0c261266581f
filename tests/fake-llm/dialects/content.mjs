// What the dialects share: reading nested content, and writing calls and token counts.

// The text of a string, a block, or a list of them, however deep.
export function textOf(content) {
  if (content === null || content === undefined) return ''
  if (typeof content === 'string') return content
  if (Array.isArray(content)) return content.map(textOf).filter(Boolean).join('\n')
  if (typeof content === 'object')
    return textOf(content.text ?? content.content ?? content.output ?? '')
  return String(content)
}

// A user's blocks stay apart: the script is one of them, the others may be an agent's own context.
export function userTurns(content) {
  const blocks = Array.isArray(content) ? content : [content]
  return blocks
    .filter((block) => block?.type !== 'tool_result')
    .map(textOf)
    .filter(Boolean)
    .map((text) => ({ kind: 'user', text }))
}

export const resultTurn = (content) => ({ kind: 'result', text: textOf(content) })

export const callJson = (call) => JSON.stringify(call.args ?? { input: call.input })

// A stable number of the right order; nobody here counts tokens.
export const tokensOf = (value) => Math.max(1, Math.ceil(JSON.stringify(value ?? '').length / 4))
