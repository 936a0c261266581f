// What the kernel says about a process, and waiting for a state.
import { readFileSync, readdirSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

// Polls a state that has no event of its own (a file of /proc, a metric) until fn() is truthy.
export async function until(fn, what, limitMs = 10_000) {
  const deadline = Date.now() + limitMs
  for (;;) {
    const seen = await fn()
    if (seen) return seen
    if (Date.now() > deadline) throw new Error(`not within ${limitMs} ms: ${what}`)
    await pause(10)
  }
}

// Rejects when the promise takes longer; every wait of a test goes through here or has a limit inside.
// `what` may be a function: then the text is made only when it is needed.
export async function within(promise, what, limitMs = 10_000) {
  let timer
  const late = new Promise((_, reject) => {
    const text = () => (typeof what === 'function' ? what() : what)
    timer = setTimeout(() => reject(new Error(`not within ${limitMs} ms: ${text()}`)), limitMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

function statusKb(pid, key) {
  const line = readFileSync(`/proc/${pid}/status`, 'utf8').match(
    new RegExp(`^${key}:\\s+(\\d+) kB`, 'm'),
  )
  return line ? Number(line[1]) * 1024 : 0
}
export const rssBytes = (pid) => statusKb(pid, 'VmRSS')
export const peakBytes = (pid) => statusKb(pid, 'VmHWM')
export const openFds = (pid) => readdirSync(`/proc/${pid}/fd`).length
export const MiB = 1024 * 1024

// A zombie counts as gone: it runs nothing and only waits for its parent to read the status.
export function isAlive(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return !['Z', 'X'].includes(stat.slice(stat.lastIndexOf(')') + 2)[0])
  } catch {
    return false
  }
}

function parentOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return 0
  }
}

// Every process below pid, however deep.
export function descendants(pid) {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
  const parents = new Map(all.map((p) => [p, parentOf(p)]))
  const found = new Set([pid])
  for (let grew = true; grew;) {
    grew = false
    for (const [child, parent] of parents)
      if (found.has(parent) && !found.has(child)) grew = !!found.add(child)
  }
  found.delete(pid)
  return [...found]
}
