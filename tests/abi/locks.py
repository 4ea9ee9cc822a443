#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
The table of locks in docs/locks.md and the code say the same:  locks.py ROOT

  - each lock of src/ (its unit tests apart) is in the table, each one in the table exists;
  - UNCHECKED_LOCKS is used seldom, each time below a comment that says why;
  - GUARDED_BY() names a lock that exists, GUARDED_BY_MEMBER() one of the same struct.

That the code keeps to what is annotated is clang's to check (src/base/lock.h).
"""
import os
import re
import sys

from tap import Tap

UNCHECKED_MAX = 8		# may only go down

LOCK_TYPES = r'(?:struct (?:owned_)?lock|pthread_mutex_t|pthread_rwlock_t|pthread_spinlock_t)'
# A declaration that ends in ';', ',' or an initializer: no parameter, no pointer.
DECLARED = re.compile(r'^[ \t]*(?:static )?%s ((?:\w+(?:\[[^\]]*\])?(?:, )?)+)(?:;| =)' % LOCK_TYPES,
                      re.MULTILINE)
TESTS = re.compile(r'(_test(_support)?|test_support|/test_\w+)\.[ch]$')
HOME = 'src/base/lock.h'


def sources(root):
    """{path: text} of the product's C code."""
    found = {}
    for folder, _, names in os.walk(os.path.join(root, 'src')):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            if name.endswith(('.c', '.h')) and not TESTS.search(path):
                with open(os.path.join(root, path), encoding='utf-8') as file:
                    found[path] = file.read()
    return found


def without_comments(text):
    """The same text: comments are blanks, lines keep their numbers."""
    return re.sub(r'/\*.*?\*/|//[^\n]*', lambda m: re.sub(r'[^\n]', ' ', m[0]), text,
                  flags=re.DOTALL)


def structs(text):
    """(name, body) of each struct that is defined at the left margin."""
    for m in re.finditer(r'^(?:static )?struct (?:CAPABILITY )?(\w+) \{\n(.*?)^\}', text,
                         re.MULTILINE | re.DOTALL):
        yield m[1], m[2]


def locks_in(text):
    """The locks that a source declares, as the table names them."""
    text = without_comments(text)
    for name, body in structs(text):
        for m in DECLARED.finditer(body):
            for member in m[1].split(', '):
                yield '%s.%s' % (name, member.split('[')[0])
    for m in re.finditer(r'^(?:static )?%s (?!\*)([^;()]*?);' % LOCK_TYPES, text, re.MULTILINE):
        for part in re.sub(r'\{[^}]*\}', '', m[1]).split(','):
            yield re.match(r'\s*(\w+)', part)[1]


def locks_of(files):
    return {lock: path for path, text in files.items() if path != HOME for lock in locks_in(text)}


def table_of(document):
    """The locks that the table names, in its order."""
    section = document.partition('\n## Locks\n')[2].partition('\n## ')[0]
    rows = [row.split('|') for row in re.findall(r'^\|.*\|$', section, re.MULTILINE)[2:]]
    return [lock for row in rows for lock in re.findall(r'`([\w.]+)`', row[2])]


def unknown(locks, table):
    for lock in sorted(set(locks) - set(table)):
        yield '%s: %s is not in the table of docs/locks.md' % (locks[lock], lock)
    for lock in sorted(set(table) - set(locks)):
        yield 'docs/locks.md: there is no lock %s' % lock
    for lock in sorted({lock for lock in table if table.count(lock) > 1}):
        yield 'docs/locks.md: %s is there twice' % lock


def unchecked_in(text):
    """(line, has a reason) of each function that is not checked."""
    lines, code = text.split('\n'), without_comments(text).split('\n')
    for n, line in enumerate(code):
        if not re.search(r'\bUNCHECKED_LOCKS\b', line) or line.startswith('#'):
            continue
        start = n
        while start and code[start - 1].strip() and code[start - 1].rstrip()[-1] not in ';}':
            start -= 1
        yield n + 1, start > 0 and lines[start - 1].rstrip().endswith('*/')


def unreasoned(files):
    for path, text in sorted(files.items()):
        if path != HOME:
            for line, reason in unchecked_in(text):
                if not reason:
                    yield '%s:%d: no comment above says why it is unchecked' % (path, line)


def too_many(files, limit):
    count = sum(len(list(unchecked_in(text))) for path, text in files.items()
                if path != HOME)
    if count > limit:
        yield 'UNCHECKED_LOCKS is used %d times, %d are allowed' % (count, limit)
    elif count < limit:
        yield 'UNCHECKED_LOCKS is used %d times: lower the constant %d of this script' % (count,
                                                                                         limit)


def bad_guards(files, locks):
    variables = {lock for lock in locks if '.' not in lock}
    for path, text in sorted(files.items()):
        if path == HOME:
            continue
        text = without_comments(text)
        for lock in re.findall(r'\bGUARDED_BY\(([^)]*)\)', text):
            if lock not in variables:
                yield '%s: GUARDED_BY(%s): there is no such lock' % (path, lock)
        total = len(re.findall(r'\bGUARDED_BY_MEMBER\(', text))
        for name, body in structs(text):
            for lock in re.findall(r'\bGUARDED_BY_MEMBER\(([^)]*)\)', body):
                total -= 1
                if '%s.%s' % (name, lock) not in locks:
                    yield '%s: GUARDED_BY_MEMBER(%s): struct %s has no such lock' % (path, lock,
                                                                                   name)
        if total:
            yield '%s: GUARDED_BY_MEMBER() outside of a struct' % path


PLANTED = '''/* A comment: struct lock no_lock; */
struct thing {
	struct lock lock, other;	/* struct lock commented; */
	struct lock many[4];
	struct lock *pointer;
	int a GUARDED_BY_MEMBER(lock);
};
static struct lock one = LOCK_INITIALIZER, two = LOCK_INITIALIZER;
static pthread_mutex_t old = PTHREAD_MUTEX_INITIALIZER;
static struct lock set[8] = { [0 ... 7] = LOCK_INITIALIZER };
static int b GUARDED_BY(one);
static struct lock *find(int n);

static void f(struct lock *lock) UNCHECKED_LOCKS
{
}

/* Because. */
static void g(struct lock *lock,
	      int n)
	UNCHECKED_LOCKS
{
}
'''
PLANTED_LOCKS = {'thing.lock', 'thing.other', 'thing.many', 'one', 'two', 'old', 'set'}


def self_test():
    """The checks themselves, on sources that break each rule."""
    files = {'src/x/x.c': PLANTED}
    locks = locks_of(files)
    if set(locks) != PLANTED_LOCKS:
        yield 'found %s' % sorted(locks)
    document = '\n## Locks\n|Row|Lock|Guards|\n|---|---|---|\n|x|%s|y|\n\n## Next\n'
    table = table_of(document % ', '.join('`%s`' % lock for lock in sorted(PLANTED_LOCKS)))
    if list(unknown(locks, table)):
        yield 'refused a table that is complete'
    for wrong in (table[1:], table + ['gone.lock'], table + table[:1]):
        if not list(unknown(locks, wrong)):
            yield 'accepted the table %s' % wrong
    if [reason for _, reason in unchecked_in(PLANTED)] != [False, True]:
        yield 'UNCHECKED_LOCKS: %s' % list(unchecked_in(PLANTED))
    if len(list(unreasoned(files))) != 1:
        yield 'a reason that is missing was not found'
    if list(too_many(files, 2)) or not list(too_many(files, 1)):
        yield 'miscounted UNCHECKED_LOCKS'
    if not list(too_many(files, 3)):
        yield 'the limit may be higher than it has to be'
    if list(bad_guards(files, locks)):
        yield 'refused guards that exist'
    for old, new in (('GUARDED_BY(one)', 'GUARDED_BY(none)'),
                     ('MEMBER(lock)', 'MEMBER(none)'),
                     ('int b GUARDED_BY(', 'int b GUARDED_BY_MEMBER(')):
        if not list(bad_guards({'src/x/x.c': PLANTED.replace(old, new)}, locks)):
            yield 'accepted %s' % new


def main():
    root = sys.argv[1]
    files = sources(root)
    locks = locks_of(files)
    with open(os.path.join(root, 'docs', 'locks.md'), encoding='utf-8') as file:
        table = table_of(file.read())
    tap = Tap()
    tap.test('the checks of locks refuse what they have to', self_test())
    tap.test('the table has every lock, and no other', unknown(locks, table))
    tap.test('every function that is unchecked says why', unreasoned(files))
    tap.test('few functions are unchecked', too_many(files, UNCHECKED_MAX))
    tap.test('what guards data is a lock', bad_guards(files, locks))
    tap.end()


main()
