#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Names of static functions:  names.py ROOT

A backtrace, a profile and a message of valgrind show a function's name alone, so it has to say where it
is. Of the functions that src/ defines, tests left out:

  - no two files have a static function of the same name;
  - none in a .c file is a bare word: it carries its file's noun (retry_resume, not resume).
"""
import collections
import os
import re
import sys

from layering import TEST, read, sources
from tap import Tap

STATIC = re.compile(r'^static (?:inline )?(?:[\w*]+\s+)*\*?(\w+)\(.*?\)[^;={]*(\{|;|=)', re.M | re.S)
NO_FUNCTIONS = {'_Static_assert', 'static_assert', '__attribute__', 'GUARDED_BY', 'GUARDED_BY_MEMBER'}


def static_functions(text):
    return {match[1] for match in STATIC.finditer(text)
            if match[2] != '=' and match[1] not in NO_FUNCTIONS}


def shared(files):
    """@files: path to text."""
    homes = collections.defaultdict(list)
    for path, text in sorted(files.items()):
        for name in static_functions(text):
            homes[name].append(path)
    for name, paths in sorted(homes.items()):
        if len(paths) > 1:
            yield '%s() is in %s' % (name, ', '.join(paths))


def bare(files):
    for path, text in sorted(files.items()):
        if path.endswith('.c'):
            for name in sorted(static_functions(text)):
                if '_' not in name:
                    yield '%s: %s() does not say where it is' % (path, name)


PLANTED = {
    'src/a/first.c': '''
static const struct row rows[] = { ROW(1) };
static int first_check(int a,
		       int b)
{
}
static struct thing *find_thing(void) REQUIRES(lock)
{
}
static void begin(void);
''',
    'src/a/second.c': '''
static unsigned limit GUARDED_BY(lock);
static inline bool find_thing(void)
{
}
''',
}


def planted():
    found = list(shared(PLANTED))
    if found != ['find_thing() is in src/a/first.c, src/a/second.c']:
        yield 'shared: %s' % found
    found = list(bare(PLANTED))
    if found != ['src/a/first.c: begin() does not say where it is']:
        yield 'bare: %s' % found


def main():
    root = sys.argv[1]
    files = {path: read(root, path) for path in sources(root, 'src', ('.c', '.h'))
             if not TEST.fullmatch(os.path.basename(path))}
    tap = Tap()
    tap.test('planted names are found', planted())
    tap.test('no two files have a static function of the same name', shared(files))
    tap.test('static functions carry the noun of their file', bare(files))
    tap.end()


if __name__ == '__main__':
    main()
