// A reporter for node's test runner: one JSON line per finished test, for tests/run.mjs.
//
// A suite (describe) is not a test, and neither is a file, unless it failed as a whole: a syntax error,
// a crash or a time-out has no test of its own to blame.
import path from 'node:path'

function fault(error) {
  const cause = error?.cause ?? error
  return cause?.stack ?? String(cause?.message ?? cause)
}

function line(event) {
  const { name, file, nesting, details, skip, todo } = event.data
  const isSuite = details?.type === 'suite'
  const failed = event.type === 'test:fail'
  // A suite or a file that fails only because of a test in it says nothing new.
  if (details?.error?.failureType === 'subtestsFailed') return ''
  if (isSuite && !failed) return ''
  const isFile = nesting === 0 && file && path.resolve(name) === file
  if (isFile && !failed) return ''
  const row = {
    name: isFile ? 'the file as a whole (see above)' : name,
    file: file ? path.relative(process.cwd(), file) : '',
    ms: details?.duration_ms ?? 0,
    ok: !failed,
  }
  if (failed) row.fault = fault(details.error)
  if (skip !== undefined) row.skip = skip === true || skip === '' ? 'no reason given' : skip
  if (todo !== undefined) row.skip = `to be done: ${todo}`
  // The reader of these lines takes U+2028 and U+2029 for line ends too.
  const text = JSON.stringify(row).replace(/[\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`)
  return `${text}\n`
}

export default async function* reporter(source) {
  for await (const event of source) {
    if (event.type === 'test:pass' || event.type === 'test:fail') yield line(event)
    // What a test prints is kept beside the results, not in them.
    if (event.type === 'test:stderr' || event.type === 'test:stdout') process.stderr.write(event.data.message)
  }
}
