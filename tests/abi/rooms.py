#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
rooms.py ROOT BUILD: each folder of src/ is a library, which links with those below it.

  - `rooms` of src/meson.build has what LAYERS of layering.py allows;
  - from a clean tree a unit test compiles its own room, those below it, and what `taken` names. The steps are
    ninja's; those of packet_test are printed.

That each room links with what is below it, and needs no more, the linker has said when the build made room_links.
"""
import ast
import os
import re
import subprocess
import sys

from layering import LAYERS, read
from tap import Tap

SHOWN = 'packet_test'
HEADERS = {'local'}		# folders without a source
COMPILED = re.compile(r' -c (\S+)$')
UNITY = re.compile(r'#include\s*[<"](.*)[>"]')


def table(text, name):
    """A dictionary of a meson.build: its syntax is Python's."""
    return ast.literal_eval(re.search(r'^\t*%s = (\{.*?^\t*\})' % name, text, re.M | re.S).group(1))


def disagreements(rooms, layers):
    for room, below in rooms.items():
        if room not in layers:
            yield '%s: LAYERS does not have it' % room
        elif set(below) != set(layers[room]) - HEADERS:
            yield '%s: links with %s, and LAYERS says %s' % (room, ', '.join(below), ', '.join(layers[room]))


def reach(rooms, room):
    found = {room}
    for other in rooms[room]:
        found |= reach(rooms, other)
    return found


def folder(root, build, path):
    return os.path.relpath(os.path.dirname(os.path.join(build, path)), os.path.join(root, 'src'))


def steps(build, targets):
    return subprocess.run(['ninja', '-C', build, '-t', 'commands'] + ['src/' + target for target in targets],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def compiled(root, build, targets):
    """Folders of src/ of which files are compiled for them. Of what meson puts several files into, those."""
    for line in steps(build, targets):
        for path in COMPILED.findall(line):
            if '-unity' in path:
                yield from (folder(root, build, name) for name in UNITY.findall(read(build, path)))
            else:
                yield folder(root, build, path)


def too_much(root, build, rooms, taken):
    for room in rooms:
        names = os.listdir(os.path.join(root, 'src', room))
        tests = sorted(name[:-2] for name in names if name.endswith('_test.c'))
        alone = [name for name in tests if name not in taken]
        for names in [alone] * bool(alone) + [[name] for name in tests if name in taken]:
            allowed = reach(rooms, room)
            for other in taken.get(names[0], []):
                allowed |= reach(rooms, other)
            for extra in sorted(set(compiled(root, build, names)) - allowed):
                yield '%s: %s: compiles %s, too' % (room, ' '.join(names), extra)


def self_test():
    if list(disagreements({'a': ['b']}, {'a': ['b', 'local']})):
        yield 'a folder of headers is asked for'
    for rooms in ({'a': []}, {'a': ['b', 'c']}, {'c': []}):
        if not list(disagreements(rooms, {'a': ['b']})):
            yield 'accepted: %s' % rooms
    if table("x = {\n\t'a': ['b'],\t# why\n}\n", 'x') != {'a': ['b']}:
        yield 'the table is not read'


def main():
    root, build = sys.argv[1:3]
    tap = Tap()
    text = read(root, 'src/meson.build')
    rooms, taken = table(text, 'rooms'), table(text, 'taken')
    tap.test('the checks find what they have to', self_test())
    tap.test('rooms link with those that LAYERS has below them', disagreements(rooms, LAYERS))
    print('# %s:' % SHOWN)
    for line in steps(build, [SHOWN]):
        print('#', re.sub(r'^.* (-c|-o) ', r'\1 ', line)[:90])
    folders = sorted(set(compiled(root, build, [SHOWN])))
    tap.test('a unit test of wire/ compiles wire/ and base/',
             [] if folders == ['base', 'wire'] else ['it compiles %s' % ', '.join(folders)])
    tap.test('unit tests compile their own room and those below', too_much(root, build, rooms, taken))
    tap.end()


if __name__ == '__main__':
    main()
