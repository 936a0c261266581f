// What was asked of the endpoint: the newest requests in memory, and a line per finished one in
// a file.
import { EventEmitter, once } from 'node:events'
import fs from 'node:fs'

const MAX_KEPT = 10_000

export class RequestLog {
  // An entry is complete once it is `isDone`; until then it grows as the request is answered.
  requests = []
  #changes = new EventEmitter().setMaxListeners(0)
  #file

  constructor(file) {
    this.#file = file
  }

  open(method, path) {
    const entry = { time: new Date().toISOString(), method, path, hungUp: false, isDone: false }
    this.requests.push(entry)
    if (this.requests.length > MAX_KEPT) this.requests.shift()
    return entry
  }
  update(entry, fields) {
    Object.assign(entry, fields)
    this.#changes.emit('change')
  }
  close(entry) {
    this.update(entry, { isDone: true })
    const { isDone, ...line } = entry
    if (this.#file) fs.appendFileSync(this.#file, `${JSON.stringify(line)}\n`)
  }

  // The first entry that `fits`, now or later.
  async seen(fits, limitMs = 10_000) {
    const signal = AbortSignal.timeout(limitMs)
    for (;;) {
      const found = this.requests.find(fits)
      if (found) return found
      await once(this.#changes, 'change', { signal }).catch(() => {
        throw new Error(`no such request within ${limitMs} ms, ${this.requests.length} others`)
      })
    }
  }
}
