// The page in a real browser: it loads without an error, says how the server is, and fits a phone.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { chromium } from 'playwright-core'
import { start } from '../api/lib/server.mjs'

const LIMIT = { timeout: 60_000 }
const PHONE = { width: 360, height: 740 }
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync',
  '--disable-background-networking', '--disable-component-update']

describe('the page', () => {
  let browser
  before(async () => {
    browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS })
  })
  after(() => browser?.close())

  // Opens the page and gathers everything that the browser complains about.
  async function open(t, server, options = {}) {
    const context = await browser.newContext(options)
    t.after(() => context.close())
    const page = await context.newPage()
    const complaints = []
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('console', (line) => line.type() === 'error' && complaints.push(line.text()))
    await page.goto(`${server.url}/ui/`)
    return { page, complaints }
  }
  const status = (page, text) => page.getByRole('status').filter({ hasText: text }).waitFor({ timeout: 10_000 })

  test('says that the server is healthy', LIMIT, async (t) => {
    const server = await start(t)
    const { page, complaints } = await open(t, server)
    await status(page, 'Healthy')
    assert.equal(await page.title(), 'Sandbox Agent')
    assert.match(await page.locator('#request').textContent(), new RegExp(`^curl ${server.url}/v1/health`))
    assert.deepEqual(complaints, [])
  })

  test('says that a token is asked for, and shows how to give it', LIMIT, async (t) => {
    const server = await start(t, { args: ['--token', 'secret'] })
    const { page } = await open(t, server)
    await status(page, 'asks for a token')
    assert.match(await page.locator('#request').textContent(), /Authorization: Bearer/)
  })

  test('says when the server is gone', LIMIT, async (t) => {
    const server = await start(t)
    const { page } = await open(t, server)
    await status(page, 'Healthy')
    await server.stop()
    await status(page, 'No answer')
  })

  test('fits a phone in light and dark without scrolling sideways', LIMIT, async (t) => {
    const server = await start(t)
    for (const colorScheme of ['light', 'dark']) {
      const { page } = await open(t, server, { viewport: PHONE, colorScheme })
      await status(page, 'Healthy')
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
      assert.ok(wide <= 0, `${colorScheme}: ${wide} px too wide`)
    }
  })
})
