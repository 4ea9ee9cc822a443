#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
functions.py ROOT CC...: the size of functions, as the compiler sees their calls (gcc -fcallgraph-info):

  - of the static functions of src/, how many have one caller, which calls them in one place: each is a piece of
    another function. A piece that has no name of its own is better left where it came from. (What is called in
    several places of one function is said beside: there it saves a repetition.);
  - how many functions of one file are passed one after the other, at most. Functions that call each other in a
    ring count as one.

Prints both. The limits are only lowered: DEPTH holds of every file that DEEPER does not name.
"""
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

from tap import Tap

ONE_CALLER = 0.405
DEPTH = 7
DEEPER = {}
NODE = re.compile(r'node: \{ title: "([^"]*)" label: "([^"\\]*)\\n([^":\\]*):\d+:\d+[^"]*"( shape : ellipse)?')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"')
TEST = re.compile(r'.*_test\.c|fake_.*')


class File:
    """The functions that a file defines: {title: name}, and which of them each calls."""

    def __init__(self, path, graph):
        self.path = path
        # An ellipse is defined elsewhere. What a system's header declares has its place there.
        self.names = {title: name for title, name, where, elsewhere in NODE.findall(graph)
                      if where == path or not (elsewhere or ':' in title)}
        self.calls = collections.defaultdict(set)
        self.callers = collections.defaultdict(set)
        self.places = collections.Counter()
        for caller, callee in EDGE.findall(graph):
            if caller in self.names and callee in self.names and caller != callee:
                self.calls[caller].add(callee)
                self.callers[callee].add(caller)
                self.places[callee] += 1

    def statics(self):
        return [title for title in self.names if ':' in title]

    def pieces(self):
        return [title for title in self.statics() if self.places[title] == 1]

    def repeated(self):
        return [title for title in self.statics() if len(self.callers[title]) == 1 < self.places[title]]

    def reach(self, title):
        found, todo = set(), [title]
        while todo:
            for callee in self.calls[todo.pop()] - found:
                found.add(callee)
                todo.append(callee)
        return found

    def longest(self):
        """Names, from the first caller on; of a ring that which is entered."""
        reach = {title: self.reach(title) for title in self.names}
        ring = {title: {title} | {other for other in reach[title] if title in reach[other]}
                for title in self.names}
        best = {}

        def chain(title):
            key = min(ring[title])
            if key not in best:
                following = {callee for member in ring[title] for callee in self.calls[member]}
                rest = [chain(callee) for callee in sorted(following - ring[title])]
                best[key] = [self.names[title]] + max(rest, key=len, default=[])
            return best[key]

        return max((chain(title) for title in sorted(self.names)), key=len, default=[])


def files(root):
    for path, _, names in sorted(os.walk(os.path.join(root, 'src'))):
        for name in sorted(names):
            if name.endswith('.c') and not TEST.fullmatch(name):
                yield os.path.relpath(os.path.join(path, name), root)


def graph(root, compiler, path, scratch):
    out = os.path.join(scratch, path.replace('/', '-')[:-2])
    subprocess.run(compiler + ['-std=gnu11', '-O0', '-w', '-D_GNU_SOURCE', '-Isrc', '-fcallgraph-info',
                               '-S', path, '-o', out + '.s'], cwd=root, check=True,
                   env=dict(os.environ, CCACHE_DISABLE='1'))      # ccache keeps no call graphs
    os.unlink(out + '.s')
    with open(out + '.ci', encoding='utf-8') as text:
        return File(path, text.read())


def read(root, compiler, paths):
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda path: graph(root, compiler, path, scratch), paths))


def too_deep(tree):
    for file in tree:
        chain, limit = file.longest(), DEEPER.get(file.path, DEPTH)
        if len(chain) > limit:
            yield '%s: %d deep, and %d may: %s' % (file.path, len(chain), limit, ' -> '.join(chain))
        elif file.path in DEEPER and len(chain) < limit:
            yield '%s: %d deep: lower DEEPER' % (file.path, len(chain))


def self_test(compiler):
    """A file whose figures are known."""
    text = '''static int leaf(int n) { return n; }
static int twice(int n) { return leaf(n) + leaf(n); }
static int ping(int n);
static int pong(int n) { return n ? ping(n - 1) : twice(n); }
static int ping(int n) { return pong(n); }
static int unused(int n) { return n; }
int entry(int n);
int entry(int n) { return ping(n) + unused(n) + twice(n); }
'''
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, 'src'))
        with open(os.path.join(root, 'src', 'x.c'), 'w', encoding='utf-8') as file:
            file.write(text)
        file = read(root, compiler, files(root))[0]
    if file.longest() != ['entry', 'ping', 'twice', 'leaf']:
        yield 'the longest chain is %s' % file.longest()
    found = [{file.names[title] for title in titles} for titles in (file.pieces(), file.repeated())]
    if len(file.statics()) != 5 or found != [{'pong', 'unused'}, {'leaf'}]:
        yield 'pieces, and what one function calls in several places: %s' % found


def main():
    root, compiler = sys.argv[1], sys.argv[2:] or ['gcc']
    tap = Tap()
    version = subprocess.run(compiler + ['--version'], stdout=subprocess.PIPE, text=True, check=True).stdout
    if 'clang' in version:
        tap.skip('the size of functions', 'the calls come from gcc')
        tap.end()
    tap.test('calls are counted as they are', self_test(compiler))
    tree = read(root, compiler, list(files(root)))
    statics = sum(len(file.statics()) for file in tree)
    pieces = sum(len(file.pieces()) for file in tree)
    deepest = max(tree, key=lambda file: len(file.longest()))
    print('# %d of %d static functions have one caller: %.1f %%; %d more are called in several places of one '
          'function; the deepest chain, in %s, has %d' % (
              pieces, statics, 100 * pieces / statics, sum(len(file.repeated()) for file in tree),
              deepest.path, len(deepest.longest())))
    tap.test('static functions with one caller are no more than %.1f %%' % (100 * ONE_CALLER),
             ['%.1f %%' % (100 * pieces / statics)] if pieces > ONE_CALLER * statics else [])
    tap.test('functions of a file are passed one after the other at most %d deep' % DEPTH, too_deep(tree))
    tap.end()


if __name__ == '__main__':
    main()
