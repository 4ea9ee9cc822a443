#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
The rules of ARCHITECTURE.md that can be read off the sources:  layering.py ROOT

  - #include lines of src/ go from layer to layer only where LAYERS allows it (those of unit
    tests may go anywhere: no product code can depend on them);
  - what one link alone has of a route (an arm of `struct route`) is named by those who make routes, and by
    those who send along them;
  - each source begins with the licence line and a comment that says what it is;
  - application memory is touched for requests in few files (MEMORY);
  - each C file is built: some meson.build (or a test script) names it.
"""
import os
import re
import sys

from tap import Tap

LAYERS = {
    'base': [],
    'tracepoint': ['base'],
    'platform': ['base'],
    'check': ['platform', 'tracepoint', 'base'],
    'wire': ['base'],
    'inject': ['wire', 'base'],
    'trace': ['wire', 'platform', 'tracepoint', 'base'],
    'ethernet': ['base'],
    'object': ['trace', 'ethernet', 'wire', 'tracepoint', 'base'],
    'transport': ['object', 'trace', 'ethernet', 'wire', 'tracepoint', 'base'],
    'link': ['wire', 'platform', 'tracepoint', 'base'],
    'host': ['wire', 'platform', 'base'],
    'local': ['host', 'link', 'transport', 'object', 'platform', 'base'],
    'local/block': ['platform', 'base'],
    'local/grant': ['transport', 'wire', 'platform', 'base'],
    'local/channel': ['local', 'local/grant', 'host', 'link', 'transport', 'object', 'wire', 'platform',
                      'tracepoint', 'base'],
    'local/move': ['local', 'local/channel', 'local/grant', 'local/block', 'host', 'transport', 'object', 'trace',
                   'wire', 'platform', 'tracepoint', 'base'],
    'config': ['platform', 'base'],
    'net': ['image', 'config', 'object', 'wire', 'platform', 'base'],
    'image': ['wire', 'base'],
    'fabric': ['image', 'wire', 'base'],
    'ib': ['image', 'config', 'platform', 'base'],
    'subnet': ['net', 'ib', 'image', 'link', 'config', 'object', 'wire', 'platform', 'tracepoint', 'base'],
    'engine': ['local', 'local/move', 'local/channel', 'transport', 'object', 'trace', 'ethernet',
               'link', 'host', 'inject', 'wire', 'platform', 'tracepoint', 'base'],
    'mad': ['engine', 'net', 'link', 'host', 'wire', 'platform', 'tracepoint', 'base'],
    'device': ['mad', 'engine', 'local', 'local/move', 'local/channel', 'local/block', 'transport',
               'link', 'subnet', 'net', 'config', 'object', 'ethernet', 'check', 'trace',
               'wire', 'platform', 'tracepoint', 'base'],
    'cm/protocol': ['wire', 'tracepoint', 'base'],
    'cm/sa': ['wire', 'tracepoint', 'base'],
    'cm/endpoint': ['cm/protocol', 'cm/sa', 'device', 'mad', 'net', 'wire', 'platform', 'tracepoint', 'base'],
    'inspect': ['cm/endpoint', 'device', 'object', 'trace', 'host', 'platform', 'base'],
    'verbs': ['device', 'check', 'trace', 'tracepoint', 'base'],
    'rdmacm': ['cm/endpoint', 'check', 'trace', 'tracepoint', 'base'],
    'rsockets': ['rdmacm', 'base'],
    'umad': ['ib', 'platform', 'base'],
    'rspreload': ['base'],
    'sim/world': ['transport', 'object', 'trace', 'wire', 'tracepoint', 'base'],
    'sim/program': ['sim/world', 'verbs', 'cm/protocol', 'object', 'trace', 'wire', 'tracepoint', 'base'],
}
# Who finds memory by a key, or copies where it may be unmapped. Of these for requests:
# transport/execute, and what goes without packets or messages.
MEMORY = {'object/access.c', 'base/copy.c', 'transport/execute.c', 'local/move/onesided.c',
          'local/move/fetch.c',
          'local/move/send.c',	# names the memory of a message to its receiver
          'object/qp_post.c',	# inline data, at the post
          'device/mr.c', 'device/dm.c', 'trace/file.c'}
MEMORY_CALL = re.compile(r'\b(mr_access_(?:begin|move|end|whole)|copy_user(?:_ordered)?|'
                         r'user_(?:compare_swap|fetch_add))\(')
CODE = ('.c', '.h', '.def', '.map')
SCRIPTS = ('.py', '.sh', '.build')
LICENCE = 'SPDX-License-Identifier: BSD-2-Clause'
# Unit tests and what they share, by the name of the file.
TEST = re.compile(r'(.*_)?test(_\w+)?\.\w+|fake_.*')
LICENCE_LINES = 5	# in scripts it follows "#!" and may follow other comments


def sources(root, folder, endings):
    """Paths, relative to the root, of files in a folder; hidden and generated ones apart."""
    for path, folders, names in os.walk(os.path.join(root, folder)):
        folders[:] = [name for name in folders if not name.startswith(('.', '__'))]
        for name in names:
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(path, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


def includes(text):
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', text, re.MULTILINE)


def layer_of(path):
    """Of a path below src/: its folder; None: it is in none."""
    folder = os.path.dirname(path)
    return folder if folder in LAYERS else None


def forbidden(layer, path, text):
    for included in includes(text):
        target = layer_of(included)
        if '/' not in included:
            yield '%s: "%s" is not written as "layer/file.h"' % (path, included)
        elif not target:
            yield '%s: "%s" is of no layer' % (path, included)
        elif target != layer and os.path.basename(included).endswith('internal.h'):
            yield '%s: "%s" is for %s alone' % (path, included, target)
        elif target != layer and target not in LAYERS[layer]:
            yield '%s: "%s": %s may include %s' % (
                path, included, layer, ', '.join(LAYERS[layer]) or 'nothing but itself')


def bad_edges(root):
    for path in sorted(sources(root, 'src', CODE)):
        layer = layer_of(os.path.relpath(path, 'src'))
        if not layer:
            yield path + ': not in the folder of a layer'
        elif not path.endswith(('_test.c', '_test.h')):
            yield from forbidden(layer, path, read(root, path))


# The members of the union in object/route.h, and who may name them.
ARM = re.compile(r'\broute(?:\.|->)roce\.|\b(?:route|came|way|back)(?:\.|->)(?:roce|ib)\.')
ARM_LAYERS = ('net', 'subnet', 'engine')
ROUTE = ('src/object/route.h', 'src/object/route.c')


def link_names(path, text):
    return ['%s: "%s": an arm of struct route' % (path, match.group(0)) for match in ARM.finditer(text)]


def link_bound(root):
    for path in sorted(sources(root, 'src', ('.c', '.h'))):
        layer = layer_of(os.path.relpath(path, 'src'))
        if layer not in ARM_LAYERS and path not in ROUTE and not path.endswith(('_test.c', '_test.h')):
            yield from link_names(path, read(root, path))


def memory_calls(path, text):
    code = re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL)
    for name in sorted(set(MEMORY_CALL.findall(code))):
        yield '%s: %s() is not for this file' % (path, name)


def touches_memory(root):
    for path in sorted(sources(root, 'src', ('.c',))):
        name = os.path.relpath(path, 'src')
        if name not in MEMORY and not TEST.fullmatch(os.path.basename(path)):
            yield from memory_calls(path, read(root, path))


def states_by_hand(path, text):
    if re.search(r'\bendpoint->state\s*=[^=]', text):
        yield path + ': a state of an endpoint is assigned: endpoint_move() and endpoint_take() do it'


def moves_endpoints(root):
    for path in sorted(sources(root, 'src/cm/endpoint', ('.c',))):
        if not path.endswith(('/state.c', '_test.c')):
            yield from states_by_hand(path, read(root, path))


def headless(root):
    for folder in ('src', 'tools', 'examples', 'bench', 'tests'):
        for path in sorted(sources(root, folder, CODE)):
            lines = read(root, path).split('\n')
            if lines[0] not in ('/* %s */' % LICENCE, '// ' + LICENCE):
                yield path + ': the first line is not the licence line'
            elif not lines[1].startswith('/*'):
                yield path + ': no comment below the licence line says what the file is'
        for path in sorted(sources(root, folder, SCRIPTS)):
            if LICENCE not in '\n'.join(read(root, path).split('\n')[:LICENCE_LINES]):
                yield path + ': no licence line'


def unbuilt(root):
    builders = ''.join(read(root, path) for path in sources(root, '.', ('meson.build',)))
    for folder in ('src', 'tools', 'bench'):
        for path in sorted(sources(root, folder, ('.c',))):
            stem = re.escape(os.path.basename(path)[:-2])	# meson may add the ".c" in a loop
            if not re.search(r"['/]%s(\.c)?'" % stem, builders):
                yield path + ': no meson.build names it'


def listed_twice(root):
    for path in sorted(sources(root, 'src', ('meson.build',))):
        names = re.findall(r"'([^']+\.c)'", read(root, path))
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield '%s: %s is listed twice' % (path, name)


def self_test():
    """The checks themselves, on sources that break each rule."""
    wrong = [
        ('wire', '#include "device/hca.h"'),
        ('base', '#include "wire/psn.h"'),
        ('verbs', '  #  include "object/qp.h"'),
        ('transport', '#include "internal.h"'),
        ('link', '#include "nowhere/x.h"'),
        ('transport', '#include "local/grant/grant.h"'),
        ('local', '#include "device/hca.h"'),
        ('cm/protocol', '#include "cm/endpoint/endpoint.h"'),
        ('cm/endpoint', '#include "cm/protocol/internal.h"'),
    ]
    right = [('engine', '#include "link/udp.h"'), ('verbs', '#include "verbs/verbs.h"'),
             ('cm/endpoint', '#include "cm/protocol/protocol.h"'), ('wire', '#include <stdint.h>')]
    for layer, line in wrong:
        if not list(forbidden(layer, 'x', line)):
            yield 'accepted in %s: %s' % (layer, line)
    if not list(memory_calls('x', '\terr = copy_user(to, from, 8);\n')) or \
            list(memory_calls('x', '/* as copy_user() does it */\n')):
        yield 'copies of memory are not told from comments'
    if not list(states_by_hand('x', 'endpoint->state = next;')) or \
            list(states_by_hand('x', 'endpoint->state == next')):
        yield 'assignments of states are not found'
    for layer, line in right:
        yield from forbidden(layer, 'x', line)
    if not link_names('x', 'qp->route.roce.interface') or link_names('x', 'qp->route.source'):
        yield 'the arms of struct route are not told from its other members'


def main():
    root = sys.argv[1]
    tap = Tap()
    tap.test('the layering check refuses what it has to', self_test())
    tap.test('includes go from layer to layer as the architecture says', bad_edges(root))
    tap.test('what one link has of a route is named in net/ and engine/ alone', link_bound(root))
    tap.test('the memory of applications is touched for requests in few files',
             touches_memory(root))
    tap.test('endpoints change their states by the table alone', moves_endpoints(root))
    tap.test('every source says its licence and what it is', headless(root))
    tap.test('every C file is built', unbuilt(root))
    tap.test('no C file is built twice', listed_twice(root))
    tap.end()


if __name__ == '__main__':
    main()
