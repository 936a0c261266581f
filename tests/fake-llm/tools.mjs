// Turning a tool step into a call of a tool that the agent really offers. Every agent names its
// tools and their arguments differently, so both are found by what they usually are called.

// In order of preference, in lower case.
const NAMES = {
  run: ['bash', 'shell', 'exec_command', 'shell_command', 'local_shell', 'run_shell_command',
    'execute_command', 'run_command', 'run_commands', 'run_terminal_cmd', 'launch-process',
    'terminal', 'execute'],
  write: ['write', 'write_file', 'write_to_file', 'create_file', 'create', 'save-file',
    'apply_patch', 'editor'],
  read: ['read', 'read_file', 'view', 'read_files'],
}

// The fields by which Codex lets a model ask for leave to work outside of the sandbox.
const ESCALATION = {
  sandbox_permissions: 'require_escalated',
  justification: 'Scripted request: may I run this?',
}

const EMPTY = { boolean: false, number: 0, integer: 0, array: [], object: {} }

function findTool(tools, verb) {
  const named = (name) => tools.find((tool) => tool.name.toLowerCase() === name)
  return NAMES[verb].map(named).find(Boolean)
}

const shellQuote = (text) => `'${text.replaceAll("'", `'\\''`)}'`
function addFilePatch(path, text) {
  const added = text.split('\n').map((line) => `+${line}\n`)
  return `*** Begin Patch\n*** Add File: ${path}\n${added.join('')}*** End Patch\n`
}

const typeOf = (property) =>
  Array.isArray(property.type) ? property.type[0] : String(property.type ?? 'string').toLowerCase()

function knownValue(key, type, value) {
  if (type !== 'array') return value
  // A shell tool that takes a list wants an argv.
  return /cmd|command$/.test(key) ? ['bash', '-lc', value] : [value]
}

// Arguments by the tool's own schema: what we know by name, and something harmless for what else
// is required.
function argumentsFor({ properties = {}, required = [] }, known) {
  const args = {}
  for (const [name, property] of Object.entries(properties)) {
    const key = name.toLowerCase().replaceAll('_', '')
    const type = typeOf(property)
    if (Object.hasOwn(known, key)) args[name] = knownValue(key, type, known[key])
    else if (required.includes(name))
      args[name] = property.default ?? property.enum?.[0] ?? EMPTY[type] ?? 'scripted step'
  }
  return args
}

const commands = (arg) => ({ command: arg, cmd: arg, commands: arg, script: arg })
const paths = (path) => ({
  path, filepath: path, absolutepath: path, targetfile: path, paths: path,
})

// verb → values by argument name, written without underscores.
const KNOWN = {
  run: ({ arg }) => commands(arg),
  ask: ({ arg }) => ({
    ...commands(arg),
    sandboxpermissions: ESCALATION.sandbox_permissions,
    justification: ESCALATION.justification,
  }),
  write: ({ path, text }) => ({
    ...paths(path),
    content: text,
    filecontent: text,
    contents: text,
    filetext: text,
    newtext: text,
    input: addFilePatch(path, text),
    patch: addFilePatch(path, text),
    patchtext: addFilePatch(path, text),
  }),
  read: ({ path }) => ({ ...paths(path), files: { path } }),
}

// "NAME {json}": the arguments go to the tool as they are.
function namedCall(arg, tools) {
  const [, name = '', json = ''] = /^(\S+)\s*(.*)$/s.exec(arg) ?? []
  const tool = tools.find((one) => one.name === name) ?? { name, kind: 'function' }
  if (tool.kind === 'custom') return { tool, input: json }
  try {
    return { tool, args: JSON.parse(json || '{}') }
  } catch (error) {
    return { fault: `bad arguments in "tool: ${arg}": ${error.message}` }
  }
}

// Codex's code mode: one custom tool whose input is JavaScript that calls the others.
function codeModeCall(tool, verb, { arg, path, text }) {
  if (verb === 'write') {
    const patch = JSON.stringify(addFilePatch(path, text))
    return { tool, input: `text(await tools.apply_patch(${patch}));` }
  }
  const cmd = verb === 'read' ? `cat ${shellQuote(path)}` : arg
  const args = JSON.stringify({ cmd, ...(verb === 'ask' && ESCALATION) })
  return { tool, input: `text(await tools.exec_command(${args}));` }
}

const asCommand = {
  read: ({ path }) => `cat ${shellQuote(path)}`,
  write: ({ path, text }) => `printf '%s' ${shellQuote(text)} > ${shellQuote(path)}`,
}

// The call for a tool step: { tool, args } or, for tools that take plain text, { tool, input };
// { fault } when the step cannot become one.
export function toolCall({ verb, arg }, tools) {
  if (verb === 'tool') return namedCall(arg, tools)
  const [, path = arg, text = ''] = /^(\S+)\s?(.*)$/s.exec(arg) ?? []
  const step = { arg, path, text }
  const codeMode = tools.find((tool) => tool.name === 'exec' && tool.kind === 'custom')
  if (codeMode) return codeModeCall(codeMode, verb, step)

  const tool = findTool(tools, verb === 'ask' ? 'run' : verb)
  if (!tool && asCommand[verb]) {
    const call = toolCall({ verb: 'run', arg: asCommand[verb](step) }, tools)
    return call.fault ? { fault: `no tool offered for "${verb}: ${arg}"` } : call
  }
  if (!tool) return { fault: `no tool offered for "${verb}: ${arg}"` }
  if (tool.kind === 'custom')
    return { tool, input: verb === 'write' ? addFilePatch(path, text) : arg }
  // This one comes without a schema: the API itself fixes its form.
  if (tool.kind === 'local_shell') return { tool, args: { command: arg } }
  return { tool, args: argumentsFor(tool.schema, KNOWN[verb](step)) }
}
