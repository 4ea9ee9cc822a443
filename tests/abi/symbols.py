#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Is the library the ABI that programs were linked against?  symbols.py LIBRARY LIST [ORIGINAL]

LIST has a line "name@@VERSION" for the default version of a symbol and "name@VERSION" for another
one. ORIGINAL is the distribution's library, of whatever release: programs of the distribution are
linked to what it has, so ours has all of that, of the same kinds, in version nodes that inherit from
each other in the same way. The list is of several releases, so ours may have more.
"""
import os
import re
import subprocess
import sys

from tap import Tap


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env=dict(os.environ, LC_ALL='C')).stdout


def symbols(library):
    """{"name@@VERSION": (kind, size)} of what the library defines, its version nodes apart."""
    found = {}
    for line in output_of('readelf', '--dyn-syms', '-W', library).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].endswith(':') or fields[6] in ('UND', 'ABS'):
            continue
        if fields[4] in ('GLOBAL', 'WEAK'):
            found[fields[7]] = (fields[3], int(fields[2], 0))
    return found


def version_parents(library):
    """{version: [versions it inherits from]}"""
    parents, current = {}, None
    for line in output_of('readelf', '-V', '-W', library).splitlines():
        if 'version_r' in line:
            break
        name = re.search(r'Flags: (\S+) .*Name: (\S+)', line)
        if name and 'Rev' in line:
            current = None if name.group(1) == 'BASE' else name.group(2)
            if current:
                parents[current] = []
        parent = re.search(r'Parent \d+: (\S+)', line)
        if parent and current:
            parents[current].append(parent.group(1))
    return parents


def dynamic(library, tag):
    pattern = r'\(%s\).*[\[:] ?([^\]\n]*)\]?' % tag
    return re.findall(pattern, output_of('readelf', '-d', '-W', library))


def kinds_differ(ours, original):
    for name, (kind, size) in sorted(original.items()):
        if name not in ours:
            continue
        if ours[name][0] != kind:
            yield '%s: %s, the original has %s' % (name, ours[name][0], kind)
        elif kind == 'OBJECT' and ours[name][1] != size:
            yield '%s: %d bytes, the original has %d' % (name, ours[name][1], size)


def parents_differ(ours, original):
    for version, parents in sorted(original.items()):
        if ours.get(version) != parents:
            yield '%s inherits from %s, in the original from %s' % (
                version, ours.get(version, 'nothing: it is missing'), parents)


def main():
    library, listed = sys.argv[1:3]
    original = sys.argv[3] if len(sys.argv) > 3 else None
    tap = Tap()
    ours = symbols(library)
    with open(listed, encoding='ascii') as lines:
        wanted = {line.strip() for line in lines if line.strip()}
    tap.test('every listed symbol is there at its version and default',
             ('missing: ' + name for name in sorted(wanted - set(ours))))
    tap.test('no other symbol is exported',
             ('not in the list: ' + name for name in sorted(set(ours) - wanted)))
    soname = os.path.basename(library)
    soname = re.sub(r'(\.so\.\d+).*', r'\1', soname)
    tap.test('the library is named as programs ask for it',
             [] if dynamic(library, 'SONAME') == [soname] else [str(dynamic(library, 'SONAME'))])
    runpath = ':'.join(dynamic(library, 'RUNPATH')).split(':')
    tap.test('it finds the core beside itself, and RPATH does not override the user',
             [] if '$ORIGIN' in runpath and not dynamic(library, 'RPATH') else [str(runpath)])
    tap.test('it cannot be unloaded',
             [] if 'NODELETE' in ''.join(dynamic(library, 'FLAGS_1')) else ['no -z nodelete'])
    needed = dynamic(library, 'NEEDED')
    # libgcc_s unwinds rsockets when their thread is cancelled; the C library loads it for that, too.
    allowed = re.compile(r'(libverbatim-core|libibverbs|libc|libgcc_s|libasan|libubsan|libtsan|ld-linux).*')
    tap.test('it needs the core and the C library only',
             (name for name in needed if not allowed.fullmatch(name)))
    if original and os.path.exists(original):
        theirs = symbols(original)
        tap.test('every symbol of the original is there',
                 ('missing: ' + name for name in sorted(set(theirs) - set(ours))))
        tap.test('each symbol is of the same kind as in the original', kinds_differ(ours, theirs))
        tap.test('the versions inherit from each other as in the original',
                 parents_differ(version_parents(library), version_parents(original)))
    else:
        tap.skip('ours and the original agree', 'the original is not installed')
    tap.end()


main()
