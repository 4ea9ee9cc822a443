#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Fields of statistics (src/inspect/stats.def):  stats.py ROOT CC...

  - docs/stats.md names each under its kind, and no other;
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
ROW = re.compile(r'^([A-Z]+(?:_ID)?)(?:_IF)?\((?:[^,]*->[^,]*, )?\w+,\s*(\w+),', re.M)
# What an answer is made of besides rows (tools/observe.c).
FRAME = {'complete', 'devices', 'qps', 'cqs', 'srqs', 'mrs', 'cm_ids', 'counters', 'hardware'}
LISTS = {'cqs': 'CQ', 'srqs': 'SRQ', 'mrs': 'MR', 'cm_ids': 'CM_ID'}
ADDED = 'QP(number, planted, 4711, GAUGE, "qp_planted", "a field more")\n'
MAKERS = {'src/inspect/stats.c': r'record_number\(&record, "planted", 4711\)',
          'tools/observe_prometheus.c': r'"qp", "planted", "qp_planted", "gauge", "a field more"'}


def named(text):
    """The names in a text, without examples in parentheses."""
    while (shorter := re.sub(r'\([^()]*\)', '', text)) != text:
        text = shorter
    return set(re.findall(r'`(\w+)`', text))


def described(page):
    """The fields of each kind in docs/stats.md."""
    section = {}
    for part in page.split('\n## ')[1:]:
        title, _, text = part.partition('\n')
        section[title.strip()] = text
    rows = lambda title: [line.split('|')[1:3] for line in section[title].split('\n') if line.startswith('| `')]
    fields = {'PROCESS': set().union(*(named(row[0]) for row in rows('A process'))) - FRAME,
              'DEVICE': named(section['devices']),
              'QP': set().union(*(named(row[0]) for row in rows('qps')))}
    for name, text in rows('cqs, srqs, mrs, cm_ids'):
        fields[LISTS[name.strip(' `')]] = named(text)
    return fields


def different(table, page):
    """@table: (kind, name) of each row."""
    fields = described(page)
    for kind in sorted({kind for kind, _ in table} | set(fields)):
        rows = {name for owner, name in table if owner == kind}
        for name in sorted(rows - fields.get(kind, set())):
            yield 'docs/stats.md does not name %s of %s' % (name, kind)
        for name in sorted(fields.get(kind, set()) - rows):
            yield 'docs/stats.md names %s of %s, which no row sends' % (name, kind)


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
    page = read(root, 'docs/stats.md')
    tap.test('rows are found', [] if len(rows) > 70 and ('QP', 'why') in rows else [str(rows)])
    tap.test('a field without words is found',
             [] if len(list(different(rows + [('CQ', 'planted')], page))) == 1 else ['it is not'])
    fewer = [row for row in rows if row != ('QP', 'srq')]
    tap.test('words without a field are found',
             [] if len(list(different(fewer, page))) == 1 else ['they are not'])
    tap.test('docs/stats.md names the fields of each kind, and no other', different(rows, page))
    tap.test('one row is all that a field takes', not_made(root, sys.argv[2:]))
    tap.end()


if __name__ == '__main__':
    main()
