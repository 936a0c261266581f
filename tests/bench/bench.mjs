// Ours and the peer in one run, with the same flags, compared before they are timed.
//
//   node tests/bench/bench.mjs [--quick] [--strict] [--json FILE] [--only server,files,processes]
//
// docs/bench.md says how to read the table. SA_BIN and SA_PEER name other binaries.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import os from 'node:os'
import { BINARIES, NotMeasured, ROUNDS, SECONDS, SERVER_FLAGS, TOKEN } from './lib.mjs'
import { buildProbe, checkTools, flag, must, printTable, rows } from './lib.mjs'
import { benchServer } from './server.mjs'
import { benchFiles } from './files.mjs'
import { benchProcesses } from './processes.mjs'

const PARTS = { server: benchServer, files: benchFiles, processes: benchProcesses }

const versionOf = (name) => execFileSync(BINARIES[name], ['--version'], { encoding: 'utf8' }).trim()

async function main() {
  const chosen = flag.only?.split(',') ?? Object.keys(PARTS)
  for (const name of chosen) must(PARTS[name], `there is no part '${name}'`)
  checkTools()
  buildProbe()
  console.log(`ours: ${versionOf('ours')}; peer: ${versionOf('peer')}`)
  console.log(
    `flags: server ${SERVER_FLAGS.join(' ').replace(TOKEN, '…')}; requests carry Authorization and Origin;` +
      ' logs go to files; the store is on, as by default',
  )
  console.log(
    `machine: ${os.cpus().length} x ${os.cpus()[0].model}; load ${os
      .loadavg()
      .map((n) => n.toFixed(1))
      .join(' ')};` + ` ${ROUNDS} rounds, interleaved, medians; wrk -t1 -d${SECONDS}s`,
  )

  for (const name of chosen) await PARTS[name]()
  printTable()
  if (flag.json)
    writeFileSync(
      flag.json,
      `${JSON.stringify({ flags: SERVER_FLAGS.filter((f) => f !== TOKEN), rows }, null, 2)}\n`,
    )
  const missed = rows.filter((r) => r.verdict === 'MISS').length
  console.log(
    missed
      ? `${missed} of ${rows.filter((r) => r.target).length} targets missed`
      : 'every target met',
  )
  return missed && flag.strict ? 1 : 0
}

// Servers that are still up after a failure would keep us waiting for them: leaving ends them.
try {
  process.exit(await main())
} catch (error) {
  console.error(error instanceof NotMeasured ? `bench: not measured: ${error.message}` : error)
  process.exit(1)
}
