#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
The seam between local/ and the rooms beside it:  seam.py ROOT

Prints, and limits, what crosses it in each direction: the functions that one side calls of the other
by name, inline ones included, and what local/ reads or writes of the requester and the responder of a
QP, which are the transport's. What goes through a table (struct local_ops) is no crossing by name.
"""
import collections
import os
import re
import sys

from call_graph import Graph, Tree
from layering import TEST, read, sources
from tap import Tap

# (from, to): functions, at most. Only lower them.
LIMIT = {
    ('local', 'transport'): 28,
    ('transport', 'local'): 0,
    ('engine', 'local'): 30,
    ('device', 'local'): 22,
    ('local', 'engine'): 0,
    ('local', 'device'): 0,
}
MEMBERS = 6		# of requester and responder
MEMBER = re.compile(r'\b(?:qp->)?((?:requester|responder)(?:->|\.)\w+)')
COMMENT = re.compile(r'/\*.*?\*/', re.DOTALL)


def room(path):
    return path.split('/')[0]


def crossings(graph):
    """{(room, room): {function: files that call it}} of rooms that LIMIT names."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for (start, end), names in graph.named.items():
        if (room(start), room(end)) in LIMIT:
            for name in names:
                found[room(start), room(end)][name].add(start)
    return found


def members(texts):
    """Of the machines of a QP, which local/ names."""
    return sorted({re.sub('->', '.', name) for path, text in texts.items() if room(path) == 'local'
                   for name in MEMBER.findall(COMMENT.sub('', text))})


def too_many(found):
    for pair, limit in LIMIT.items():
        if len(found[pair]) > limit:
            yield '%s calls %d functions of %s, and %d may be: %s' % (
                pair[0], len(found[pair]), pair[1], limit, ' '.join(sorted(found[pair])))
        elif len(found[pair]) < limit:
            yield '%s calls %d functions of %s: lower LIMIT' % (pair[0], len(found[pair]), pair[1])


def self_test():
    texts = {'transport/t.h': 'int t_one(int n);\nstatic inline int t_two(int n)\n{\n\treturn n;\n}\n',
             'transport/t.c': '#include "transport/t.h"\nint t_one(int n)\n{\n\treturn n;\n}\n',
             'local/l.c': '#include "transport/t.h"\nint l(int n);\nint l(int n)\n{\n'
                          '\t/* requester.a */\n\treturn t_one(n) + t_two(n) + t_one(qp->requester.b);\n}\n'}
    found = crossings(Graph(Tree(texts)))
    if sorted(found['local', 'transport']) != ['t_one', 't_two'] or found['transport', 'local']:
        yield 'crossings: %s' % {pair: sorted(names) for pair, names in found.items()}
    if members(texts) != ['requester.b']:
        yield 'members: %s' % members(texts)


def main():
    root = sys.argv[1]
    tap = Tap()
    texts = {os.path.relpath(path, 'src'): read(root, path) for path in sources(root, 'src', ('.c', '.h', '.def'))
             if not TEST.fullmatch(os.path.basename(path))}
    tap.test('crossings are counted as they are', self_test())
    found, named = crossings(Graph(Tree(texts))), members(texts)
    for pair in LIMIT:
        print('# %s -> %s: %d' % (pair + (len(found[pair]),)))
    print('# of the machines of a QP local/ names %d members: %s' % (len(named), ' '.join(named)))
    tap.test('functions that cross the seam of local/ are no more than LIMIT says', too_many(found))
    tap.test('local/ names no more than %d members of the machines of a QP' % MEMBERS,
             ['%d: %s' % (len(named), 'lower MEMBERS' if len(named) < MEMBERS else ' '.join(named))]
             if len(named) != MEMBERS else [])
    tap.end()


if __name__ == '__main__':
    main()
