// OpenAI Responses: POST …/responses.
import { callJson, resultTurn, textOf, tokensOf, userTurns } from './content.mjs'

const ENCRYPTED = 'ZmFrZQ=='
const TOOL_KINDS = new Set(['function', 'custom', 'local_shell'])

// Codex offers its tools in the body or, with newer models, in an input item; some in namespaces.
function readTools(body, items) {
  const added = items.filter((item) => item.type === 'additional_tools')
  const offered = [...(body.tools ?? []), ...added.flatMap((item) => item.tools ?? [])]
  return offered
    .flatMap((tool) => (tool.type === 'namespace' ? (tool.tools ?? []) : [tool]))
    .filter((tool) => TOOL_KINDS.has(tool.type))
    .map((tool) => ({
      name: tool.name ?? tool.type,
      kind: tool.type,
      schema: tool.parameters ?? {},
    }))
}

function read(body) {
  const isText = typeof body.input === 'string'
  const items = isText ? [{ role: 'user', content: body.input }] : (body.input ?? [])
  const turns = []
  for (const item of items) {
    if (item.role === 'user') turns.push(...userTurns(item.content))
    else if (item.type?.endsWith('_call_output')) turns.push(resultTurn(item.output))
  }
  const system = items.filter((item) => item.role === 'system').map((item) => item.content)
  return {
    system: textOf([body.instructions, ...system]),
    turns,
    tools: readTools(body, items),
    model: body.model,
    stream: !!body.stream,
  }
}

// The finished output item of a call, the field of it that is streamed, and its events' name.
function callItem(call, newId) {
  const { tool } = call
  const ids = { id: newId('fc'), call_id: newId('call'), status: 'completed' }
  if (tool.kind === 'local_shell') {
    const { command } = call.args
    const argv = Array.isArray(command) ? command : ['bash', '-lc', command]
    const action = { type: 'exec', command: argv, env: {} }
    return { item: { type: 'local_shell_call', ...ids, action } }
  }
  if (tool.kind === 'custom') {
    const item = { type: 'custom_tool_call', ...ids, name: tool.name, input: call.input }
    return { item, field: 'input', event: 'response.custom_tool_call_input' }
  }
  const item = { type: 'function_call', ...ids, name: tool.name, arguments: callJson(call) }
  return { item, field: 'arguments', event: 'response.function_call_arguments' }
}

// The answer is a list of output items; each is added, filled by deltas and done.
function writer({ emit, newId, request, inputTokens }) {
  const id = newId('resp')
  const output = []
  let sequence = 0
  const send = (type, data) => emit(type, { type, sequence_number: sequence++, ...data })
  const usage = () => ({
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: tokensOf(output),
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: inputTokens + tokensOf(output),
  })
  const envelope = (status) => ({
    id,
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    status,
    model: request.model,
    output: [...output],
    parallel_tool_calls: false,
    tool_choice: 'auto',
    tools: [],
    error: null,
    incomplete_details: null,
    usage: status === 'completed' ? usage() : null,
  })
  const item = async (start, finished, fill) => {
    const output_index = output.length
    send('response.output_item.added', { output_index, item: start })
    await fill({ item_id: start.id, output_index })
    output.push(finished)
    send('response.output_item.done', { output_index, item: finished })
  }
  // A part of an item: `prefix` and `name` make the event types, `at` says where it is.
  const part = async ({ prefix, name, at }, full, chunks, pace) => {
    send(`response.${prefix}_part.added`, { ...at, part: { ...full, text: '' } })
    for (const delta of chunks) {
      send(`response.${name}.delta`, { ...at, delta })
      await pace()
    }
    send(`response.${name}.done`, { ...at, text: full.text })
    send(`response.${prefix}_part.done`, { ...at, part: full })
  }
  return {
    begin() {
      send('response.created', { response: envelope('in_progress') })
      send('response.in_progress', { response: envelope('in_progress') })
    },
    async text(chunks, pace) {
      const full = { type: 'output_text', text: chunks.join(''), annotations: [] }
      const base = { type: 'message', id: newId('msg'), role: 'assistant' }
      const start = { ...base, status: 'in_progress', content: [] }
      const finished = { ...base, status: 'completed', content: [full] }
      await item(start, finished, (place) => {
        const at = { ...place, content_index: 0 }
        return part({ prefix: 'content', name: 'output_text', at }, full, chunks, pace)
      })
    },
    async think(chunks, pace) {
      const full = { type: 'summary_text', text: chunks.join('') }
      const base = { type: 'reasoning', id: newId('rs'), encrypted_content: ENCRYPTED }
      await item({ ...base, summary: [] }, { ...base, summary: [full] }, (place) => {
        const at = { ...place, summary_index: 0 }
        const names = { prefix: 'reasoning_summary', name: 'reasoning_summary_text', at }
        return part(names, full, chunks, pace)
      })
    },
    async call(call, pace) {
      const { item: finished, field, event } = callItem(call, newId)
      const start = { ...finished, status: 'in_progress', ...(field && { [field]: '' }) }
      await item(start, finished, async (at) => {
        if (!field) return
        send(`${event}.delta`, { ...at, delta: finished[field] })
        await pace()
        send(`${event}.done`, { ...at, [field]: finished[field] })
      })
    },
    end: () => send('response.completed', { response: envelope('completed') }),
    body: () => envelope('completed'),
  }
}

const error = ({ type, message }) => ({ error: { message, type, code: type, param: null } })

export const responses = { api: 'responses', path: /\/responses$/, read, writer, error }
