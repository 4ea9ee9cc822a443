#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Who calls whom in src/, file by file:  cycles.py ROOT [--edges | --components FOLDER]

  - calls by name go from layer to layer only as includes may (LAYERS of layering.py), those of inline
    functions apart: they come with a header that may be included;
  - files of a folder that need each other, by name or through tables, are few (LIMIT);
  - structs are small, or say why they are not.

x.c and x.h are one file here. A file calls by name what it calls or takes the address of, in macros
that it uses, too. It calls through a table where it calls a member of a struct: what any file has put
there, by an initialiser, an assignment, or a call of a function that assigns its argument. Three
things are not seen: calls through variables, through arguments that are not kept in a struct, and
from one library to another's public functions. Files of a folder need each other by calls inside the
folder; cycles that leave it and come back are not counted.

--edges prints each edge and its reasons; --components the files of FOLDER that need each other
("all": of all folders together).
"""
import os
import re
import sys

from call_graph import Graph, Tree
from layering import LAYERS, TEST, layer_of, read, sources
from tap import Tap

# Files of the largest component of a folder; LIMIT_OTHERS: of one that is not here. Only lower them.
LIMIT = {
    'base': 1,
    'platform': 1,
    'wire': 1,
    'object': 1,
    'transport': 7,
    'link': 3,
    'host': 1,
    'mad': 1,
    'cm/protocol': 4,
    'cm/endpoint': 10,
    'verbs': 5,
    'rdmacm': 4,
    'rsockets': 10,
}
LIMIT_OTHERS = 4
MEMBERS_MAX = 25	# of a struct: those of nested structs without a tag, and bit-fields, too


def unread(tree):
    for path, source in sorted(tree.files.items()):
        if not source.whole:
            yield path + ': its brackets do not match, perhaps for an #if'


def folders(tree):
    return sorted({os.path.dirname(path) for path in tree.files})


def upward(graph):
    for folder in folders(graph.tree):
        if folder not in LAYERS:
            yield folder + ': it is no layer of layering.py'
    for (start, end), names in sorted(graph.named.items()):
        layer, target = layer_of(start), layer_of(end)
        names = [name for name in names if not graph.is_inline(end, name)]
        if names and layer and target and target not in [layer] + LAYERS[layer]:
            yield '%s uses %s of %s: %s may use %s' % (
                start, ', '.join(sorted(names)), end, layer, ', '.join(LAYERS[layer]) or 'itself alone')


def too_large_components(graph, limits):
    for folder in folders(graph.tree):
        limit = limits.get(folder, LIMIT_OTHERS)
        for component in graph.components(folder):
            if len(component) > limit:
                yield '%s: %d files need each other, and %d may: %s' % (
                    folder, len(component), limit, ' '.join(map(os.path.basename, component)))


def lower_limits(graph, limits):
    """What LIMIT could be lowered to."""
    for folder, limit in sorted(limits.items()):
        largest = max(map(len, graph.components(folder)), default=1)
        if folder not in folders(graph.tree):
            yield '%s: there is no such folder: LIMIT need not name it' % folder
        elif largest < limit:
            yield '%s: the largest component has %d: LIMIT may be lowered from %d' % (
                folder, largest, limit)


def is_excused(struct):
    return re.search(r'(^|[.?!)] )Large: \w', struct.comment) is not None


def large_structs(tree):
    structs = [struct for tag in sorted(tree.structs) for struct in tree.structs[tag]]
    large = [struct for struct in structs if struct.count > MEMBERS_MAX and not is_excused(struct)]
    for struct in large:
        yield '%s: struct %s has %d members, more than %d, and no "Large: why" right above' % (
            struct.path, struct.tag, struct.count, MEMBERS_MAX)


def load(root):
    """The product's sources, tests and their helpers left out."""
    texts = {}
    for path in sources(root, 'src', ('.c', '.h', '.def')):
        if not TEST.fullmatch(os.path.basename(path)):
            texts[os.path.relpath(path, 'src')] = read(root, path)
    return texts


def print_edges(graph):
    for start, end in graph.edges():
        reasons = ['by name: ' + name for name in sorted(graph.named.get((start, end), ()))]
        reasons += ['through ' + slot for slot in sorted(graph.tabled.get((start, end), ()))]
        print('%s -> %s: %s' % (start, end, '; '.join(reasons)))


def print_components(graph, folder):
    for component in graph.components(folder):
        print('%d: %s' % (len(component), ' '.join(component)))


RUN = 'struct runner { int (*run)(void); int count; };\n'
X, Y = '#include "wire/x.h"\n', '#include "wire/y.h"\n'
GO = 'static int go(void) { return 1; }\n'
# What: sources, edges that there have to be, edges that there may not.
PLANTED = {
    'a cycle by name': ({
        'wire/a.c': 'int b(void); int a(void) { return b(); }',
        'wire/b.c': 'int a(void); int b(void) { int (*f)(void) = a; return f(); }',
    }, 'wire/a>wire/b wire/b>wire/a', ''),
    'a cycle through a table, by an initialiser': ({
        'wire/a.h': RUN + 'int b(const struct runner *r);',
        'wire/a.c': '#include "wire/a.h"\n' + GO +
                    'static const struct runner mine = { .run = go, .count = 1 };\n'
                    'int a(void) { return b(&mine); }',
        'wire/b.c': '#include "wire/a.h"\nint b(const struct runner *r) { return r->run(); }',
    }, 'wire/a>wire/b wire/b>wire/a', ''),
    'a cycle through a table, by an assignment': ({
        'wire/x.h': RUN + 'struct box { struct runner *runner; }; int b(struct box *box);',
        'wire/a.c': X + GO + 'int a(struct box *box) { box->runner->run = go; return b(box); }',
        'wire/b.c': X + 'int b(struct box *box) { return box[0].runner->run(); }',
    }, 'wire/a>wire/b wire/b>wire/a', ''),
    'a table that its callee fills, and one without names': ({
        'wire/x.h': RUN + 'void set(struct runner *r, int (*run)(void));',
        'wire/a.c': X + GO + 'void a(struct runner *r) { set(r, go); }',
        'wire/b.c': X + 'void set(struct runner *r, int (*run)(void)) { r->run = run; }\n'
                    'int b(struct runner *r) { return (r)->run(); }',
        'wire/c.c': X + GO + 'struct runner all[] = { [1] = { go, 2 } };',
    }, 'wire/a>wire/b wire/b>wire/a wire/b>wire/c', 'wire/a>wire/c'),
    'two structs with slots of one name': ({
        'wire/x.h': RUN,
        'wire/y.h': 'struct other { int (*run)(void); };',
        'wire/a.c': X + GO + 'struct runner a = { .run = go };',
        'wire/b.c': Y + GO + 'struct other b = { .run = go };',
        'wire/c.c': X + Y + 'int c(struct other *o) { return o->run(); }',
        'wire/d.c': X + Y + 'int d(void) { return (*any()).run(); }',
    }, 'wire/c>wire/b wire/d>wire/a wire/d>wire/b', 'wire/c>wire/a'),
    'a name that is not that function': ({
        'wire/x.h': 'int count(void); int close(int fd);',
        'wire/a.c': 'int count(void) { return 1; }',
        'wire/b.c': X + 'static int count(void) { return 2; }\nint b(void) { return count(); }',
        'wire/c.c': X + '/* count() */ const char *c = "count()";\n'
                    'int in(int count) { return count; }',
        'wire/d.c': X + 'int d(struct l *l) { unsigned i, count = l->count; return f(count); }',
        'wire/e.c': 'int e(void) { return close(1) + sizeof(count); }',
        'rspreload/a.c': 'int close(int fd) { return fd; }',
    }, '', 'wire/b>wire/a wire/c>wire/a wire/d>wire/a wire/e>wire/a wire/e>rspreload/a'),
    'names that macros make': ({
        'wire/x.def': 'ROW(one)\nROW(two)',
        'wire/x.h': '#define ROW(name) int do_##name(void);\n#include "wire/x.def"\n#undef ROW\n'
                    '#define TWICE(f) (f() + \\\n\t\tlast())\nint last(void);',
        'wire/a.c': '#define ROW(name) int do_##name(void) { return 1; }\n#include "wire/x.def"',
        'wire/b.c': X + 'int (*const table[])(void) = {\n#define ROW(name) do_##name,\n'
                    '#include "wire/x.def"\n};',
        'wire/c.c': X + 'int c(void) { return TWICE(do_two); }',
        'wire/d.c': 'int last(void) { return 1; }',
    }, 'wire/b>wire/a wire/c>wire/a wire/c>wire/d', 'wire/x>wire/d'),
}
UPWARD = {
    'base/base.h': 'static inline int low(void) { return 1; } int lower(void);',
    'base/base.c': '#include "base/base.h"\nint high(void); int lower(void) { return high(); }',
    'wire/psn.h': 'static inline int next(void) { return 1; } int previous(void);',
    'wire/psn.c': '#include "wire/psn.h"\nint previous(void) { return 1; }',
    'verbs/verbs.c': '#include "base/base.h"\n#include "wire/psn.h"\n'
                     'int high(void) { return low() + lower() + next() + previous(); }',
}
STRUCT = '%sstruct planted { %s int *b : 3, (*c)(int, int); ' \
         'union { int d; struct { int e, f[2]; } g; }; };'


def planted_edges():
    for what, (texts, there, absent) in PLANTED.items():
        tree = Tree(texts)
        found = {'>'.join(edge) for edge in Graph(tree).edges()}
        yield from unread(tree)
        for edge in set(there.split()) - found:
            yield '%s: %s is not found' % (what, edge)
        for edge in set(absent.split()) & found:
            yield '%s: %s is found' % (what, edge)


def planted_structs():
    few, many = ('int %s;' % ', '.join('a%d' % i for i in range(count)) for count in (20, 21))
    for comment, members, refused in (
            ('', few, False), ('', many, True),
            ('/* What it is.\n * Large: it is\n * a test. */\n', many, False),
            ('/* Large. */\n', many, True),
            ('/* Large: it is above. */\nint x;\n', many, True)):
        problems = list(large_structs(Tree({'wire/x.h': STRUCT % (comment, members)})))
        if bool(problems) != refused:
            yield 'a struct of 5 members and %d, below "%s": %s' % (
                members.count('a'), comment.strip(), problems or 'accepted')


def self_test():
    """The checks themselves, on sources that break each rule, and some that only seem to."""
    yield from planted_edges()
    yield from planted_structs()
    problems = [problem.split(':')[0] for problem in upward(Graph(Tree(UPWARD)))]
    if problems != ['base/base uses high of verbs/verbs', 'verbs/verbs uses previous of wire/psn']:
        yield 'calls by name: refused are %s' % problems
    graph = Graph(Tree(PLANTED['a cycle by name'][0]))
    if [limit for limit in (1, 2) if list(too_large_components(graph, {'wire': limit}))] != [1]:
        yield 'a cycle of two files: the limit is not obeyed'
    if not list(lower_limits(graph, {'wire': 3})) or list(lower_limits(graph, {'wire': 2})):
        yield 'a cycle of two files: its limit could be lowered'
    if not list(unread(Tree({'wire/x.h': 'int x(void) {'}))):
        yield 'a bracket without its partner is accepted'


def main():
    tree = Tree(load(sys.argv[1]))
    graph = Graph(tree)
    if sys.argv[2:] == ['--edges']:
        return print_edges(graph)
    if sys.argv[2:3] == ['--components'] and len(sys.argv) == 4:
        return print_components(graph, sys.argv[3].removeprefix('src/').rstrip('/'))
    tap = Tap()
    tap.test('the checks find what they have to', self_test())
    tap.test('every source can be read', unread(tree))
    tap.test('calls by name go from layer to layer as the architecture says', upward(graph))
    tap.test('few files of a folder need each other', too_large_components(graph, LIMIT))
    for hint in lower_limits(graph, LIMIT):
        print('#', hint)
    tap.test('structs are small, or say why not', large_structs(tree))
    return tap.end()


if __name__ == '__main__':
    main()
