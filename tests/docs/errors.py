# SPDX-License-Identifier: BSD-2-Clause
"""docs/errors, what `verbatim explain` knows, against what there is: the enumerations of the headers, the reasons
and faults of our tables, the settings. Nothing is missing, nothing is made up."""
import functools
import importlib.util
import os
import re
import subprocess

ENUMS = {'status': ('infiniband/verbs.h', 'ibv_wc_status'), 'event': ('infiniband/verbs.h', 'ibv_event_type'),
         'state': ('infiniband/verbs.h', 'ibv_qp_state'), 'flag': ('infiniband/verbs.h', 'ibv_access_flags'),
         'cm': ('rdma/rdma_cma.h', 'rdma_cm_event_type')}


def known(root):
    """{kind: {name: entry}}."""
    spec = importlib.util.spec_from_file_location('errors_tool', os.path.join(root, 'tools', 'errors.py'))
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    reader = tool.Reader()
    folder = os.path.join(root, 'docs', 'errors')
    for name in sorted(os.listdir(folder)):
        if name.endswith('.txt'):
            reader.read(os.path.join(folder, name))
    reader.read_chinese(os.path.join(root, 'docs', 'errors.zh', 'short.txt'))
    return {kind.name: {entry.name: entry for entry in kind.entries} for kind in reader.kinds}


@functools.lru_cache
def preprocessed(header, *options):
    return subprocess.run(['gcc', '-E', '-P', *options, '-include', header, '-x', 'c', '/dev/null'], check=True,
                          capture_output=True, text=True).stdout


@functools.lru_cache
def macros(header):
    return set(re.findall(r'^#define (\w+)', preprocessed(header, '-dM'), re.M))


def enumerators(header, name):
    text = preprocessed(header)
    body = re.search(r'enum %s \{(.*?)\}' % name, text, re.S).group(1)
    return set(re.findall(r'\b((?:IBV|RDMA)_[A-Z0-9_]+)(?=\s*(?:=|,|$))', body))


def rows(root, path, macro):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return re.findall(r'^%s\(\s*(?:\d+,\s*)?([A-Z_0-9]+)' % macro, file.read(), re.M)


def words_of(entries):
    return {word for entry in entries.values() for word in entry.words()}


def problems(root, settings):
    have = known(root)
    for kind, (header, enum) in ENUMS.items():
        declared = enumerators(header, enum)
        for name in sorted(declared - have[kind].keys()):
            yield 'docs/errors has no %s' % name
        for name, entry in have[kind].items():
            if name not in declared | macros(header) and not entry.since:
                yield '%s: %s does not declare %s' % (entry.place, header, name)
    for kind, path, macro in (('reject', 'src/wire/cm_status.def', 'CM_REJECT'),
                              ('nak', 'src/transport/fault.def', 'FAULT')):
        words = words_of(have[kind])
        for name in rows(root, path, macro):
            if name not in words:
                yield 'docs/errors: no %s has the word %s of %s' % (kind, name, path)
    for entry in (e for entries in have.values() for e in entries.values() if not e.chinese):
        yield '%s: docs/errors.zh/short.txt has no %s' % (entry.place, entry.name)
    for name in sorted(settings - have['variable'].keys()):
        yield 'docs/errors/variable.txt has no %s' % name
    for name in sorted(name for name in have['variable'].keys() - settings if name.startswith('VERBATIM')):
        yield '%s: README has no %s' % (have['variable'][name].place, name)
