#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Rows of happenings (src/tracepoint/tracepoint.def):  tracepoints.py ROOT

  - each row is emitted somewhere, and each of its fields is filled in by some of those who do;
  - docs/trace-format.md names each event and each field of it.
"""
import os
import re
import sys

from layering import TEST, read, sources
from tap import Tap

TABLE = 'src/tracepoint/tracepoint.def'
# Emitting macros that name a row for their callers, and the calls of those.
WRAPPED = {'call': 'verbs_traced'}


def calls(text, name):
    """The arguments of each call of @name, to its closing bracket."""
    for match in re.finditer(r'\b%s\(' % name, text):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += (text[at] == '(') - (text[at] == ')')
            at += 1
        yield text[match.end():at]


def problems(rows, text, page):
    """@rows: row to (event, fields)."""
    for row, (event, fields) in rows.items():
        emitted = [one for name in ('tracepoint', 'output_event') for one in calls(text, name)
                   if re.match(r'([\w>-]+, \w+, )?%s\b' % row, re.sub(r'\s+', ' ', one).lstrip())]
        emitted += calls(text, WRAPPED[row]) if row in WRAPPED else []
        if not emitted:
            yield 'nobody emits %s' % row
            continue
        for field, kind in fields:
            if not any(re.search(r'\.%s\b' % field, one) for one in emitted):
                yield '%s: nobody fills in %s' % (row, field)
        lines = ''.join(line for line in page.split('\n') if line.startswith('| `%s` |' % event))
        if not lines:
            yield 'docs/trace-format.md has no event %s' % event
        for field, kind in fields:
            if lines and kind != 'MEMBERS' and '`%s`' % field not in lines:
                yield 'docs/trace-format.md: %s has no %s' % (event, field)


def planted():
    rows = {'good': ('good', [('one', 'TEXT')]), 'lazy': ('lazy', []), 'half': ('half', [('two', 'TEXT')])}
    found = list(problems(rows, 'tracepoint(good, .one = f(1)); tracepoint(half, .one = 2);',
                          '| `good` | `one` |'))
    if len(found) != 3:
        yield str(found)


def main():
    root = sys.argv[1]
    table = read(root, TABLE)
    rows = {row: (event, re.findall(r'^\tFIELD\(%s, (\w+),\s*(\w+)\)' % row, table, re.M))
            for row, event in re.findall(r'^TRACEPOINT\((\w+), \w+, "(\w+)"\)', table, re.M)}
    rows = {row: (event, [(field, kind) for kind, field in fields]) for row, (event, fields) in rows.items()}
    text = ''.join(read(root, path) for folder in ('src', 'tools') for path in sources(root, folder, ('.c', '.h'))
                   if not TEST.fullmatch(os.path.basename(path)) and path != 'src/tracepoint/tracepoint.h')
    tap = Tap()
    tap.test('planted mistakes are found', planted())
    tap.test('each row is emitted, with each of its fields, and documented',
             problems(rows, text, read(root, 'docs/trace-format.md')))
    tap.end()


if __name__ == '__main__':
    main()
