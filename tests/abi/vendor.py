#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Vendor libraries and programs of each release load with ours:  vendor.py LIST CORE VERBS RDMACM COMPILER...

For each version IBVERBS_PRIVATE_* of LIST (tests/abi/symbols), a library is linked to all its symbols as
libmlx5 is to those that it uses, with a stub for libibverbs that has them at that version. It registers a
driver when it is loaded. A program that is linked to it has to start, with every symbol bound, and one
that asks for a version that does not exist must not. A program that was linked to the newest release takes each
public symbol at its version: from a stub that has them, too.
"""
import os
import re
import subprocess
import sys
import tempfile

from tap import Tap

DATA = 'verbs_allow_disassociate_destroy'
NOWHERE = '1'        # no release has this number

PROGRAM = '''
extern int vendor_query_gid_type(void), vendor_command(void);
int main(void)
{
	return vendor_query_gid_type() == -1 && vendor_command() == 95 ? 0 : 1;
}
'''


def versions(listed):
    """{number: {symbols}}"""
    found = {}
    with open(listed, encoding='ascii') as lines:
        for name, number in re.findall(r'^(\w+)@+IBVERBS_PRIVATE_(\d+)$', lines.read(), re.M):
            found.setdefault(number, set()).add(name)
    return found


def public(listed):
    """{IBVERBS_1.0, RDMACM_1.5 ...: {symbols}}, those that a program is linked to today"""
    found = {}
    with open(listed, encoding='ascii') as lines:
        for name, version in re.findall(r'^(\w+)@@([A-Z]+_[0-9]+\.[0-9]+)$', lines.read(), re.M):
            found.setdefault(version, set()).add(name)
    return found


def stub(names):
    return ''.join('char %s;\n' % name if name == DATA else 'int %s(void) { return 0; }\n' % name
                   for name in sorted(names))


def calls(functions):
    """In a function that nobody calls: bound when it is loaded, or never."""
    return (''.join('extern int %s();\n' % name for name in functions) +
            'void never(void)\n{\n%s}\n' % ''.join('\t%s();\n' % name for name in functions))


def vendor(names, number):
    text = calls(sorted(names - {DATA}))
    text += 'extern char %s;\nint (*sink)(), data;\n' % DATA
    text += 'void *address(void) { return &%s; }\n' % DATA
    text += ('__attribute__((constructor)) static void load(void) { verbs_register_driver_%s(0); data = %s; }\n'
             % (number, DATA))
    text += 'int vendor_query_gid_type(void) { return ibv_query_gid_type(0, 1, 0, 0); }\n'
    text += 'int vendor_command(void) { return ibv_cmd_alloc_pd(0, 0, 0, 0, 0, 0); }\n'
    return text


def compile_to(scratch, compiler, name, text, *options):
    source = os.path.join(scratch, name + '.c')
    with open(source, 'w', encoding='ascii') as file:
        file.write(text)
    subprocess.run(compiler + ['-w', '-std=gnu11', source, '-o', os.path.join(scratch, name), *options],
                   check=True, timeout=300)


def build_stub(scratch, compiler, library, found):
    """What is linked to, in place of the library: {version: {symbols}}."""
    script = os.path.join(scratch, 'stub.map')
    with open(script, 'w', encoding='ascii') as file:
        for version, names in found.items():
            file.write('%s { global: %s; };\n' % (version, '; '.join(sorted(names))))
    compile_to(scratch, compiler, 'libstub.so', stub(set.union(*found.values())), '-shared', '-fPIC',
               '-Wl,-soname,' + library, '-Wl,--version-script=' + script)
    return os.path.join(scratch, 'libstub.so')


def build(scratch, compiler, names, number):
    linked = build_stub(scratch, compiler, 'libibverbs.so.1', {'IBVERBS_PRIVATE_' + number: names})
    compile_to(scratch, compiler, 'libvendor.so', vendor(names, number), '-shared', '-fPIC', linked, '-Wl,-z,lazy')
    compile_to(scratch, compiler, 'program', PROGRAM, os.path.join(scratch, 'libvendor.so'),
               '-Wl,-rpath,' + scratch, '-Wl,--allow-shlib-undefined')


def build_program(scratch, compiler, library, found):
    """In place of what build() made."""
    linked = build_stub(scratch, compiler, library, found)
    text = calls(sorted(set.union(*found.values()))) + 'int main(void) { return 0; }\n'
    compile_to(scratch, compiler, 'program', text, '-fno-builtin', linked)


def start(scratch, libraries):
    """What the dynamic linker complains of, '' when the program ends well."""
    environment = dict(os.environ, LD_BIND_NOW='1', LD_LIBRARY_PATH=':'.join(libraries), LC_ALL='C')
    for name in ('VERBATIM_EXPLAIN', 'VERBATIM_LOG', 'LD_PRELOAD'):
        environment.pop(name, None)
    done = subprocess.run([os.path.join(scratch, 'program')], env=environment, capture_output=True, text=True,
                          timeout=300)
    return '' if done.returncode == 0 else 'status %d: %s' % (done.returncode, done.stderr[-500:])


def main():
    listed, libraries, compiler = sys.argv[1], sys.argv[2:5], sys.argv[5:]
    tap = Tap()
    found = versions(listed)
    with tempfile.TemporaryDirectory() as scratch:
        for number in sorted(found):
            build(scratch, compiler, found[number], number)
            problem = start(scratch, libraries)
            tap.test('a library linked to the %d symbols of IBVERBS_PRIVATE_%s loads'
                     % (len(found[number]), number), [problem] if problem else [])
        # The same with another number: the test can fail.
        names = {name.replace('_34', '_' + NOWHERE) for name in found['34']}
        build(scratch, compiler, names, NOWHERE)
        problem = start(scratch, libraries)
        tap.test('one of a release that does not exist is refused',
                 [] if "version `IBVERBS_PRIVATE_%s' not found" % NOWHERE in problem else [problem or 'it starts'])
        for library, newest in (('libibverbs.so.1', 'IBVERBS_1.18'), ('librdmacm.so.1', 'RDMACM_1.5')):
            found = public(os.path.join(os.path.dirname(listed), library.split('.')[0] + '.symbols'))
            build_program(scratch, compiler, library, found)
            problem = start(scratch, libraries) if newest in found else 'no ' + newest
            tap.test('%s: a program linked to all of %d versions, %s among them, loads'
                     % (library, len(found), newest), [problem] if problem else [])
            version = newest.split('_', maxsplit=1)[0] + '_9.9'
            build_program(scratch, compiler, library, dict(found, **{version: {'of_no_release'}}))
            problem = start(scratch, libraries)
            tap.test('%s: one linked to %s is refused' % (library, version),
                     [] if "version `%s' not found" % version in problem else [problem or 'it starts'])
    tap.end()


main()
