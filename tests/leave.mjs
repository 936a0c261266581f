// Loaded before each test file: a socket or timer that a test forgot must not keep its file alive for
// ever. Once all its tests are over a file has a moment to end by itself; then it is ended, and said so.
import { after } from 'node:test'

const GRACE_MS = 3000

if (process.env.NODE_TEST_CONTEXT) {
  after(() => {
    setTimeout(() => {
      const kept = process.getActiveResourcesInfo().filter((name) => name !== 'Timeout')
      process.stderr.write(`${process.argv[1]}: still open after the last test: ${[...new Set(kept)].join(', ')}\n`)
      process.exit()
    }, GRACE_MS).unref()
  })
}
