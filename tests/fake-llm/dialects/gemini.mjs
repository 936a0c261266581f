// Gemini: POST …/models/M:generateContent and …/models/M:streamGenerateContent.
import { resultTurn, textOf, tokensOf } from './content.mjs'

function readPart({ functionResponse, text }) {
  if (!functionResponse) return text ? { kind: 'user', text } : undefined
  const { output, error, ...rest } = functionResponse.response ?? {}
  return resultTurn(output ?? error ?? JSON.stringify(rest))
}

function read(body, path) {
  const parts = (body.contents ?? [])
    .filter((content) => content.role !== 'model')
    .flatMap((content) => content.parts ?? [])
  const offered = (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? [])
  return {
    system: textOf(body.systemInstruction?.parts),
    turns: parts.map(readPart).filter(Boolean),
    tools: offered.map((tool) => ({
      name: tool.name,
      kind: 'function',
      schema: tool.parametersJsonSchema ?? tool.parameters ?? {},
    })),
    model: /models\/([^:]+):/.exec(path)?.[1],
    stream: path.endsWith(':streamGenerateContent'),
  }
}

// The answer is a list of parts; a streamed event holds those that are new.
function writer({ emit, newId, request, inputTokens }) {
  const parts = []
  const envelope = (some, finishReason) => ({
    candidates: [
      { index: 0, content: { role: 'model', parts: some }, ...(finishReason && { finishReason }) },
    ],
    modelVersion: request.model,
    usageMetadata: {
      promptTokenCount: inputTokens,
      candidatesTokenCount: tokensOf(parts),
      totalTokenCount: inputTokens + tokensOf(parts),
    },
  })
  const add = (part) => {
    parts.push(part)
    emit(null, envelope([part]))
  }
  const grow = (extra) => async (chunks, pace) => {
    for (const text of chunks) {
      add({ text, ...extra })
      await pace()
    }
  }
  return {
    begin() {},
    text: grow({}),
    think: grow({ thought: true }),
    async call({ tool, args }) {
      add({ functionCall: { id: newId('call'), name: tool.name, args } })
    },
    end: () => emit(null, envelope([{ text: '' }], 'STOP')),
    body: () => envelope(parts, 'STOP'),
  }
}

const error = ({ status, type, message }) => ({
  error: { code: status, message, status: type.toUpperCase() },
})

const path = /:(generateContent|streamGenerateContent)$/
export const gemini = { api: 'gemini', path, read, writer, error }
