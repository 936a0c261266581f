// A small client of each dialect, for tests of the endpoint: it makes a request out of plain words
// and reads the answer, streamed or whole, back into the same form whatever the dialect:
//
//   { text, thought, calls: [{ name, args }], stop }     `stop` is missing in a stream that broke
import http from 'node:http'
import { once } from 'node:events'

const MODEL = 'fake-model'
const SHELL = {
  type: 'object',
  properties: { command: { type: 'string' }, timeout: { type: 'number' } },
  required: ['command'],
}
const none = () => ({ text: '', thought: '', calls: [] })

// Tools are given as names, or as whole declarations where a dialect has more than one kind.
const declare = (tools, wrap) => tools.map((one) => (typeof one === 'string' ? wrap(one) : one))

const anthropic = {
  path: () => '/v1/messages?beta=true',
  request: ({ text, system, tools, results, stream }) => ({
    model: MODEL,
    stream,
    system: [{ type: 'text', text: system }],
    tools: declare(tools, (name) => ({ name, input_schema: SHELL })),
    messages: [
      { role: 'user', content: [{ type: 'text', text }] },
      ...results.map((content) => ({
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'x', content }],
      })),
    ],
  }),
  whole(body) {
    const answer = { ...none(), stop: body.stop_reason }
    for (const block of body.content) {
      answer.text += block.text ?? ''
      answer.thought += block.thinking ?? ''
      if (block.type === 'tool_use') answer.calls.push({ name: block.name, args: block.input })
    }
    return answer
  },
  streamed(events) {
    const blocks = []
    const answer = { content: blocks }
    for (const { event, data } of events) {
      if (event !== data.type) throw new Error(`event ${event} with data of type ${data.type}`)
      const block = blocks[data.index]
      if (event === 'content_block_start') blocks[data.index] = { ...data.content_block, json: '' }
      if (data.delta?.type === 'text_delta') block.text += data.delta.text
      if (data.delta?.type === 'thinking_delta') block.thinking += data.delta.thinking
      if (data.delta?.type === 'input_json_delta') block.json += data.delta.partial_json
      if (event === 'content_block_stop' && block.json) block.input = JSON.parse(block.json)
      if (event === 'message_delta') answer.stop_reason = data.delta.stop_reason
    }
    return anthropic.whole(answer)
  },
  end: 'message_stop',
  stops: { text: 'end_turn', call: 'tool_use' },
}

const responses = {
  path: () => '/v1/responses',
  request: ({ text, system, tools, results, stream }) => ({
    model: MODEL,
    stream,
    instructions: system,
    tools: declare(tools, (name) => ({ type: 'function', name, parameters: SHELL })),
    input: [
      { type: 'message', role: 'user', content: [{ type: 'input_text', text }] },
      ...results.map((output) => ({ type: 'function_call_output', call_id: 'x', output })),
    ],
  }),
  whole(body) {
    const answer = { ...none(), stop: body.status }
    for (const item of body.output) {
      for (const part of item.content ?? []) answer.text += part.text
      for (const part of item.summary ?? []) answer.thought += part.text
      if (item.type === 'function_call')
        answer.calls.push({ name: item.name, args: JSON.parse(item.arguments) })
      if (item.type === 'custom_tool_call') answer.calls.push({ name: item.name, args: item.input })
      if (item.type === 'local_shell_call')
        answer.calls.push({ name: 'local_shell', args: item.action.command })
    }
    return answer
  },
  streamed(events) {
    const answer = none()
    for (const [i, { event, data }] of events.entries()) {
      if (event !== data.type) throw new Error(`event ${event} with data of type ${data.type}`)
      if (data.sequence_number !== i) throw new Error(`number ${data.sequence_number} at ${i}`)
      if (event === 'response.output_text.delta') answer.text += data.delta
      if (event === 'response.reasoning_summary_text.delta') answer.thought += data.delta
      if (event !== 'response.completed') continue
      const whole = responses.whole(data.response)
      if (whole.text !== answer.text) throw new Error('the deltas are not the whole text')
      Object.assign(answer, whole, { thought: answer.thought })
    }
    return answer
  },
  end: 'response.completed',
  stops: { text: 'completed', call: 'completed' },
}

const chatAnswer = (message, stop) => ({
  text: message.content,
  thought: message.reasoning_content ?? '',
  calls: (message.tool_calls ?? []).map((call) => ({
    name: call.function.name,
    args: JSON.parse(call.function.arguments),
  })),
  stop,
})
const chat = {
  path: () => '/v1/chat/completions',
  request: ({ text, system, tools, results, stream }) => ({
    model: MODEL,
    stream,
    tools: declare(tools, (name) => ({ type: 'function', function: { name, parameters: SHELL } })),
    messages: [
      { role: 'system', content: system },
      { role: 'user', content: text },
      ...results.map((content) => ({ role: 'tool', tool_call_id: 'x', content })),
    ],
  }),
  whole: ({ choices: [{ message, finish_reason }] }) => chatAnswer(message, finish_reason),
  streamed(events) {
    const message = { content: '', reasoning_content: '' }
    let stop
    for (const { data } of events) {
      if (data === '[DONE]') continue
      const [{ delta, finish_reason }] = data.choices
      message.content += delta.content ?? ''
      message.reasoning_content += delta.reasoning_content ?? ''
      for (const { index, function: piece } of delta.tool_calls ?? []) {
        message.tool_calls ??= []
        message.tool_calls[index] ??= { function: { name: piece.name, arguments: '' } }
        message.tool_calls[index].function.arguments += piece.arguments
      }
      stop = finish_reason ?? stop
    }
    return chatAnswer(message, stop)
  },
  end: '[DONE]',
  stops: { text: 'stop', call: 'tool_calls' },
}

const gemini = {
  path: (stream) =>
    `/v1beta/models/${MODEL}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  request: ({ text, system, tools, results }) => ({
    systemInstruction: { parts: [{ text: system }] },
    tools: [
      {
        functionDeclarations: declare(tools, (name) => ({ name, parametersJsonSchema: SHELL })),
      },
    ],
    contents: [
      { role: 'user', parts: [{ text }] },
      ...results.map((output) => ({
        role: 'user',
        parts: [{ functionResponse: { name: 'x', response: { output } } }],
      })),
    ],
  }),
  whole: (body) => gemini.streamed([{ data: body }]),
  streamed(events) {
    const answer = none()
    for (const { data } of events) {
      const [{ content, finishReason }] = data.candidates
      for (const part of content.parts) {
        answer[part.thought ? 'thought' : 'text'] += part.text ?? ''
        if (part.functionCall)
          answer.calls.push({ name: part.functionCall.name, args: part.functionCall.args })
      }
      answer.stop = finishReason ?? answer.stop
    }
    return answer
  },
  stops: { text: 'STOP', call: 'STOP' },
}

export const dialects = { anthropic, responses, chat, gemini }

const plain = { text: '', system: 'You are an agent.', tools: [], results: [] }

// Sends a request and answers node's own response as soon as its head is there.
export async function post(url, path, body, { signal } = {}) {
  const req = http.request(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    agent: false,
    signal,
  })
  req.end(typeof body === 'string' ? body : JSON.stringify(body))
  const [res] = await once(req, 'response')
  return res
}

export async function readAll(res) {
  let text = ''
  res.setEncoding('utf8')
  for await (const piece of res) text += piece
  return text
}

// Server-sent events as { event, data }, with data parsed where it is JSON.
export function parseEvents(text) {
  const frames = text.split('\n\n').filter(Boolean)
  return frames.map((frame) => {
    const fields = frame.split('\n').map((line) => /^(\w+): (.*)$/s.exec(line).slice(1))
    const { event, data } = Object.fromEntries(fields)
    return { event, data: data.startsWith('{') ? JSON.parse(data) : data }
  })
}

// One request in a dialect: { status, body } when it failed, else the answer and, for a stream, its
// events. A stream that is cut gives { isCut: true } and what was in it.
export async function talk(url, api, { stream = false, signal, ...words }) {
  const dialect = dialects[api]
  const asked = dialect.request({ ...plain, ...words, stream })
  const res = await post(url, dialect.path(stream), asked, { signal })
  if (!stream || res.statusCode !== 200) {
    const body = JSON.parse(await readAll(res))
    if (res.statusCode !== 200) return { status: res.statusCode, body }
    return { status: 200, ...dialect.whole(body) }
  }
  let text = ''
  let isCut = false
  res.setEncoding('utf8').on('data', (piece) => (text += piece))
  await once(res, 'end').catch(() => (isCut = true))
  const events = parseEvents(text)
  return { status: 200, isCut, events, ...dialect.streamed(events) }
}
