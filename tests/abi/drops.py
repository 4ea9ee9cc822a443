#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Reasons of drops (src/tracepoint/drop.def):  drops.py ROOT

  - each row is named by a dropper, or is a fault of transport/fault.def, and each fault has a row;
  - whoever drops something names the row: its counter is named by nobody else.
"""
import os
import re
import sys

from layering import TEST, read, sources
from tap import Tap

ROW = re.compile(r'^DROP\((\w+),\s*(\w+)', re.M)
TABLE = 'src/tracepoint/drop.def'
FAULTS = 'src/transport/fault.def'
# Counters that also count what is not dropped, and those that are read.
ALSO = {'src/base/hardware_counter.def', 'src/device/qp_last.c'}


def problems(rows, faults, files):
    """@rows: reason to counter; @files: path to text."""
    text = ''.join(files.values())
    for reason in rows:
        if reason not in faults and not re.search(r'\bDROP_%s\b' % reason, text):
            yield 'nobody drops anything for the reason %s' % reason
    for fault in sorted(faults - set(rows)):
        yield 'fault %s has no row' % fault
    for counter in sorted(set(rows.values()) - {'NONE'}):
        for path, body in sorted(files.items()):
            if path not in ALSO and re.search(r'\bCOUNTER_%s\b' % counter, body):
                yield '%s names COUNTER_%s: a reason of %s has it' % (path, counter, TABLE)


def planted():
    found = list(problems({'GOOD': 'RX_GOOD', 'LAZY': 'NONE'}, {'OTHER'},
                          {'src/a/a.c': 'count(DROP_GOOD); count(COUNTER_RX_GOOD)'}))
    if len(found) != 3:
        yield str(found)


def main():
    root = sys.argv[1]
    rows = dict(ROW.findall(read(root, TABLE)))
    faults = set(re.findall(r'^FAULT\(\s*(\w+)', read(root, FAULTS), re.M))
    files = {path: read(root, path) for path in sources(root, 'src', ('.c', '.h', '.def'))
             if not TEST.fullmatch(os.path.basename(path)) and path != TABLE}
    tap = Tap()
    tap.test('planted mistakes are found', planted())
    tap.test('each reason is used, and by its name alone', problems(rows, faults, files))
    tap.end()


if __name__ == '__main__':
    main()
