// check-layers finds what it is there for, and only that.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

const script = path.join(import.meta.dirname, '../../scripts/check-layers')

// A tree with these files in src/; returns the exit status and the lines of the script.
function check(t, files) {
  const top = fs.mkdtempSync(path.join(os.tmpdir(), 'layers-'))
  t.after(() => fs.rmSync(top, { recursive: true }))
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(top, 'src', name)), { recursive: true })
    fs.writeFileSync(path.join(top, 'src', name), text)
  }
  const end = spawnSync(process.execPath, [script, top], { encoding: 'utf8' })
  return { status: end.status, lines: end.stdout.trim().split('\n').filter(Boolean) }
}

const wrong = [
  ['an include to the left', { 'io/a.c': '\n#include "http/req.h"\n' }, 'src/io/a.c:2: io must not include http'],
  ['a neighbour', { 'json/a.c': '#include "io/loop.h"\n' }, 'src/json/a.c:1: json must not include io'],
  ['cli reaching into api', { 'cli/a.c': '#include "api/app.h"\n' }, 'src/cli/a.c:1: cli must not include api'],
  ['an include without its folder', { 'io/a.c': '#include "loop.h"\n' }, 'src/io/a.c:1: include "loop.h" by'],
  ['a folder that is no layer', { 'util/a.c': '\n' }, "src/util/a.c:1: no layer is called 'util'"],
  ['uv.h outside io', { 'http/a.c': '#include <uv.h>\n' }, 'src/http/a.c:1: the loop library is not for http'],
  ['a uv call outside io', { 'proc/a.c': 'void f(void)\n{\n        uv_run(l, 0);\n}\n' }, 'src/proc/a.c:3:'],
  ['sqlite outside store', { 'event/a.c': '#include <sqlite3.h>\n' }, 'src/event/a.c:1: SQLite is not for event'],
  ['fork outside proc', { 'core/a.c': 'int p = fork();\n' }, 'src/core/a.c:1: starting processes'],
  ['exec outside proc', { 'cli/a.c': 'execvp (a, b);\n' }, 'src/cli/a.c:1: starting processes'],
  ['logging below the edges', { 'http/a.c': 'LOG(LOG_INFO, "x");\n' }, 'src/http/a.c:1: logging is not for http'],
  ['a banned function', { 'base/a.c': '(void) strcpy(a, b);\n' }, 'src/base/a.c:1: a banned function'],
  ['an empty tree', { 'readme.txt': '' }, 'no source in'],
]
for (const [name, files, want] of wrong) {
  test(`refuses ${name}`, (t) => {
    const { status, lines } = check(t, files)
    assert.equal(status, 1)
    assert.equal(lines.length, 1, lines.join('\n'))
    assert.ok(lines[0].startsWith(want), `${lines[0]}\nshould start with\n${want}`)
  })
}

test('accepts what points to the right', (t) => {
  const { status, lines } = check(t, {
    'main.c': '#include "api/app.h"\n#include "cli/cli.h"\nint main(void)\n{\n        LOG(LOG_INFO, "up");\n}\n',
    'api/app.c': '#include "ui/assets.h"\n#include "core/app.h"\n#include "base/log.h"\nvoid f(void) { LOG(LOG_INFO, "x"); }\n',
    'cli/cli.c': '#include "client/client.h"\n#include "proc/detach.h"\n#include "base/option.h"\n',
    'store/s.c': '#include <sqlite3.h>\n#include "event/store.h"\n#include "store/s.h"\n',
    'proc/p.c': '#include "io/watch.h"\npid_t p = fork();\n',
    'io/l.c': '#include <uv.h>\n#include "base/error.h"\nuv_loop_t l;\n',
  })
  assert.deepEqual(lines, [])
  assert.equal(status, 0)
})

test('does not mistake words for code', (t) => {
  const { status, lines } = check(t, {
    'base/log.c': 'void log_fields(int level)\n{\n}\n',
    'core/a.c':
      '/* fork() is for proc;\n * system() for nobody */\nchar *s = "execve(2) and LOG(x)"; // uv_run()\n' +
      'int f(struct ops *o)\n{\n        localtime_r(a, b);\n        return o->clone(o) + o->exec.fork(1) + my_system(2);\n}\n',
  })
  assert.deepEqual(lines, [])
  assert.equal(status, 0)
})

test('the tree itself is in order', () => {
  const end = spawnSync(process.execPath, [script], { encoding: 'utf8' })
  assert.equal(end.stdout, '')
  assert.equal(end.status, 0)
})
