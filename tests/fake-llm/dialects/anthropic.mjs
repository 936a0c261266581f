// Anthropic Messages: POST …/messages.
import { callJson, resultTurn, textOf, tokensOf, userTurns } from './content.mjs'

const SIGNATURE = 'ZmFrZQ=='

function read(body) {
  const turns = []
  for (const message of body.messages ?? []) {
    if (message.role !== 'user') continue
    turns.push(...userTurns(message.content))
    const blocks = Array.isArray(message.content) ? message.content : []
    const results = blocks.filter((block) => block.type === 'tool_result')
    turns.push(...results.map((block) => resultTurn(block.content)))
  }
  const tools = (body.tools ?? []).map((tool) => ({
    name: tool.name,
    kind: 'function',
    schema: tool.input_schema ?? {},
  }))
  return { system: textOf(body.system), turns, tools, model: body.model, stream: !!body.stream }
}

// The answer is a list of content blocks; each is opened, filled by deltas and closed.
function writer({ emit, newId, request, inputTokens }) {
  const id = newId('msg')
  const content = []
  const send = (type, data) => emit(type, { type, ...data })
  const envelope = (extra) => ({
    id,
    type: 'message',
    role: 'assistant',
    model: request.model,
    stop_sequence: null,
    ...extra,
  })
  const stopReason = () => (content.some((b) => b.type === 'tool_use') ? 'tool_use' : 'end_turn')
  const usage = (output_tokens) => ({
    input_tokens: inputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens,
  })
  const block = async (start, deltas, finished, pace) => {
    const index = content.length
    send('content_block_start', { index, content_block: start })
    for (const delta of deltas) {
      send('content_block_delta', { index, delta })
      await pace()
    }
    send('content_block_stop', { index })
    content.push(finished)
  }
  return {
    begin() {
      const message = envelope({ content: [], stop_reason: null, usage: usage(1) })
      send('message_start', { message })
    },
    async text(chunks, pace) {
      const deltas = chunks.map((text) => ({ type: 'text_delta', text }))
      const start = { type: 'text', text: '' }
      await block(start, deltas, { ...start, text: chunks.join('') }, pace)
    },
    async think(chunks, pace) {
      const deltas = chunks.map((thinking) => ({ type: 'thinking_delta', thinking }))
      deltas.push({ type: 'signature_delta', signature: SIGNATURE })
      const start = { type: 'thinking', thinking: '', signature: '' }
      const finished = { ...start, thinking: chunks.join(''), signature: SIGNATURE }
      await block(start, deltas, finished, pace)
    },
    async call(call, pace) {
      const json = callJson(call)
      const middle = Math.ceil(json.length / 2)
      const halves = [json.slice(0, middle), json.slice(middle)]
      const deltas = halves.map((partial_json) => ({ type: 'input_json_delta', partial_json }))
      const start = { type: 'tool_use', id: newId('toolu'), name: call.tool.name, input: {} }
      await block(start, deltas, { ...start, input: JSON.parse(json) }, pace)
    },
    end() {
      const delta = { stop_reason: stopReason(), stop_sequence: null }
      send('message_delta', { delta, usage: usage(tokensOf(content)) })
      send('message_stop', {})
    },
    body: () => envelope({ content, stop_reason: stopReason(), usage: usage(tokensOf(content)) }),
  }
}

const error = ({ type, message, newId }) => ({
  type: 'error',
  error: { type, message },
  request_id: newId('req'),
})

export const anthropic = { api: 'anthropic', path: /\/messages$/, read, writer, error }
