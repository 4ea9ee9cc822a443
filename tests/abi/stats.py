#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Fields of statistics (src/inspect/stats.def):  stats.py ROOT CC...

  - docs/stats.md names each;
  - a row that is added is sent by processes and is a metric, with no other line changed.
"""
import os
import re
import subprocess
import sys
import tempfile

from layering import read
from tap import Tap

TABLE = 'src/inspect/stats.def'
ROW = re.compile(r'^(?:[A-Z]+_?[A-Z]*)\((?:[^,]*->[^,]*, )?\w+,\s*(\w+),', re.M)
ADDED = 'QP(number, planted, 4711, GAUGE, "qp_planted", "a field more")\n'
MAKERS = {'src/inspect/stats.c': r'record_number\(&record, "planted", 4711\)',
          'tools/observe_prometheus.c': r'"qp", "planted", "qp_planted", "gauge", "a field more"'}


def undocumented(rows, page):
    for name in rows:
        if '`%s`' % name not in page:
            yield 'docs/stats.md does not name %s' % name


def not_made(root, compiler):
    """What the makers are after a row was added to a copy of the table."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, 'inspect'))
        table = read(root, TABLE)
        for added in ('', ADDED):
            with open(os.path.join(folder, 'inspect', 'stats.def'), 'w', encoding='utf-8') as file:
                file.write(table.replace('\nCQ(number', '\n' + added + 'CQ(number', 1))
            for path, made in MAKERS.items():
                text = subprocess.run(compiler + ['-E', '-P', '-D_GNU_SOURCE', '-I' + folder,
                                                  '-I' + os.path.join(root, 'src'),
                                                  os.path.join(root, path)],
                                      capture_output=True, text=True, check=True).stdout
                if bool(re.search(made, text)) != bool(added):
                    yield '%s: the row is %s' % (path, 'missing' if added else 'there unasked')


def main():
    root = sys.argv[1]
    rows = ROW.findall(read(root, TABLE))
    tap = Tap()
    tap.test('rows are found', [] if len(rows) > 70 and 'why' in rows else [str(rows)])
    tap.test('a field without words is found',
             [] if list(undocumented(['one', 'two'], '`one`')) else ['it is not'])
    tap.test('each field has words in docs/stats.md', undocumented(rows, read(root, 'docs/stats.md')))
    tap.test('one row is all that a field takes', not_made(root, sys.argv[2:]))
    tap.end()


if __name__ == '__main__':
    main()
