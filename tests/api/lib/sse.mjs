// A reader of server-sent events that keeps ids, names, data and how the stream ended.
import { open } from './http.mjs'
import { until, within } from './proc.mjs'

export class Sse {
  constructor(res) {
    this.res = res
    this.status = res.statusCode
    this.events = []
    this.comments = 0
    this.text = ''
    this.isClean = undefined // true: the stream was ended, false: it broke
    res.setEncoding('utf8')
    res.on('data', (text) => this.feed(text))
    this.ended = new Promise((done) => {
      res.on('end', () => {
        this.isClean ??= res.complete
        done()
      })
      res.on('close', () => {
        this.isClean ??= res.complete
        done()
      })
      res.on('error', () => {
        this.isClean ??= false
        done()
      })
    })
  }

  feed(text) {
    this.text += text
    for (let at; (at = this.text.indexOf('\n\n')) >= 0; this.text = this.text.slice(at + 2))
      this.frame(this.text.slice(0, at))
  }
  frame(text) {
    const event = { data: [] }
    for (const line of text.split('\n')) {
      if (line.startsWith(':')) {
        this.comments++
        continue
      }
      const [, field, value] = line.match(/^([^:]*):? ?(.*)$/)
      if (field === 'data') event.data.push(value)
      else event[field] = value
    }
    if (event.data.length) this.events.push({ ...event, data: event.data.join('\n') })
  }

  // Waits until n events are there.
  async atLeast(n, limitMs = 20_000) {
    const enough = () => this.events.length >= n || this.isClean !== undefined
    await until(enough, 'events', limitMs).catch((error) => {
      error.message = `${n} events wanted, ${this.events.length} seen within ${limitMs} ms`
      throw error
    })
    if (this.events.length < n)
      throw new Error(`stream ended after ${this.events.length} of ${n} events`)
    return this.events
  }
  close() {
    this.res.destroy()
  }
}

export async function subscribe(base, path, { headers = {}, ...more } = {}) {
  const res = await open(base, path, {
    headers: { accept: 'text/event-stream', ...headers },
    ...more,
  })
  return new Sse(res)
}
export const endOf = (sse, limitMs) => within(sse.ended, 'end of the event stream', limitMs)
