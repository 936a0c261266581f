// OpenAI Chat Completions: POST …/chat/completions.
import { callJson, resultTurn, textOf, tokensOf, userTurns } from './content.mjs'

const SYSTEM_ROLES = new Set(['system', 'developer'])

function read(body) {
  const messages = body.messages ?? []
  const turns = []
  for (const message of messages) {
    if (message.role === 'user') turns.push(...userTurns(message.content))
    if (message.role === 'tool') turns.push(resultTurn(message.content))
  }
  const offered = (body.tools ?? []).map((tool) => tool.function).filter(Boolean)
  const system = messages.filter((message) => SYSTEM_ROLES.has(message.role))
  return {
    system: textOf(system.map((message) => message.content)),
    turns,
    tools: offered.map(({ name, parameters = {} }) => ({
      name,
      kind: 'function',
      schema: parameters,
    })),
    model: body.model,
    stream: !!body.stream,
  }
}

// The answer is one message that grows by deltas. Reasoning has no field in the standard; the
// programs that show it read reasoning_content.
function writer({ emit, newId, request, inputTokens }) {
  const base = {
    id: newId('chatcmpl'),
    created: Math.floor(Date.now() / 1000),
    model: request.model,
  }
  const message = { role: 'assistant', content: '' }
  const send = (delta, finish_reason = null, extra = {}) => {
    const choices = [{ index: 0, delta, finish_reason }]
    emit(null, { ...base, object: 'chat.completion.chunk', choices, ...extra })
  }
  const usage = () => ({
    prompt_tokens: inputTokens,
    completion_tokens: tokensOf(message),
    total_tokens: inputTokens + tokensOf(message),
  })
  const finishReason = () => (message.tool_calls ? 'tool_calls' : 'stop')
  const grow = (field) => async (chunks, pace) => {
    message[field] = (message[field] ?? '') + chunks.join('')
    for (const chunk of chunks) {
      send({ [field]: chunk })
      await pace()
    }
  }
  return {
    begin: () => send({ role: 'assistant', content: '' }),
    text: grow('content'),
    think: grow('reasoning_content'),
    async call(call, pace) {
      const { name } = call.tool
      const full = {
        id: newId('call'),
        type: 'function',
        function: { name, arguments: callJson(call) },
      }
      message.tool_calls = [full]
      send({ tool_calls: [{ index: 0, ...full, function: { name, arguments: '' } }] })
      await pace()
      send({ tool_calls: [{ index: 0, function: { arguments: full.function.arguments } }] })
    },
    end() {
      send({}, finishReason(), { usage: usage() })
      emit(null, '[DONE]')
    },
    body: () => ({
      ...base,
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: finishReason() }],
      usage: usage(),
    }),
  }
}

const error = ({ type, message }) => ({ error: { message, type, code: type, param: null } })

export const chat = { api: 'chat', path: /\/chat\/completions$/, read, writer, error }
