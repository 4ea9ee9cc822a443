#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Headers compile alone:  headers.py ROOT CC

  - those of the distribution that programs use, in C and (where a compiler is there) C++, so that
    what is compiled against them here is what programs see;
  - each of src/, so that no file depends on the order of its #include lines: those that no source file has first,
    since a build has compiled the others so.
"""
import os
import re
import shutil
import subprocess
import sys

from tap import Tap

PUBLIC = ['infiniband/verbs.h', 'infiniband/verbs_api.h', 'infiniband/sa.h', 'infiniband/mlx5dv.h',
          'infiniband/mlx4dv.h', 'infiniband/efadv.h', 'rdma/rdma_cma.h', 'rdma/rdma_verbs.h',
          'rdma/rsocket.h']


def errors(compiler, language, include, options):
    command = compiler + ['-x', language, '-fsyntax-only', '-Wall', '-Werror'] + options + ['-']
    run = subprocess.run(command, input='#include %s\n' % include, text=True, capture_output=True)
    return [] if run.returncode == 0 else ['%s: %s' % (include, run.stderr.strip())]


def has_umad_ca_pair(compiler):
    """As src/umad/meson.build asks."""
    return subprocess.run(compiler + ['-x', 'c', '-fsyntax-only', '-'], capture_output=True, text=True,
                          input='#include <infiniband/umad.h>\nstruct umad_ca_pair pair;\n').returncode == 0


def own_headers(root):
    """Those of src/ whose #include is no source file's first line of code."""
    sources = [os.path.join(path, name) for path, _, names in sorted(os.walk(os.path.join(root, 'src')))
               for name in sorted(names)]
    first = set()
    for source in sources:
        with open(source, encoding='utf-8', errors='replace') as text:
            begin = re.search(r'^#\s*(?:include "([^"]+)"|\w+)|^\w', text.read(), re.M) \
                if source.endswith('.c') else None
        first.add(begin and begin.group(1))
    for source in sources:
        name = os.path.relpath(source, os.path.join(root, 'src'))
        if name.endswith('.h') and name not in first:
            yield '"%s"' % name


def main():
    root, compiler = sys.argv[1], sys.argv[2:]
    tap = Tap()
    tap.test('public headers compile in C', sum(
        (errors(compiler, 'c', '<%s>' % name, ['-std=gnu11']) for name in PUBLIC), []))
    cxx = shutil.which('g++') or shutil.which('clang++')
    if cxx:
        tap.test('public headers compile in C++', sum(
            (errors([cxx], 'c++', '<%s>' % name, []) for name in PUBLIC), []))
    else:
        tap.skip('public headers compile in C++', 'no C++ compiler')
    options = ['-std=gnu11', '-D_GNU_SOURCE', '-I', os.path.join(root, 'src')]
    if has_umad_ca_pair(compiler):
        options.append('-DHAVE_UMAD_CA_PAIR')
    tap.test('each header of src/ compiles alone', sum(
        (errors(compiler, 'c', name, options) for name in own_headers(root)), []))
    tap.end()


main()
