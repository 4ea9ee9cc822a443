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

FOLDERS = ('errors', 'errors.zh')


def texts(root, folder):
    return sorted(name for name in os.listdir(os.path.join(root, 'docs', folder)) if name.endswith('.txt'))


def known(root):
    """{kind: {name: entry}}."""
    spec = importlib.util.spec_from_file_location('errors_tool', os.path.join(root, 'tools', 'errors.py'))
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    paths = [os.path.join(root, 'docs', folder, name) for folder in FOLDERS for name in texts(root, folder)]
    return {kind.name: {entry.name: entry for entry in kind.entries} for kind in tool.load(paths)}


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


# What is the same in both languages: numbers, names, options, settings, and our commands.
FACT = re.compile(r'[A-Za-z0-9_.]*[0-9_][A-Za-z0-9_.=]*|[A-Z][A-Z0-9]+|(?<![\w-])--?[a-z]+|verbatim [a-z]+')


def facts(text):
    text = re.sub(r'(\d)(st|nd|rd|th)\b|(_Key)s\b', r'\1\3', text)
    return {fact.rstrip('.=') for fact in FACT.findall(text)} - {''}


def of_chinese(entry, title, english, chinese):
    """What one paragraph or item of both says."""
    for fact in sorted(facts(english) - facts(chinese)):
        yield '%s: %s of %s lacks "%s"' % (entry.place, title, entry.name, fact)
    made_up = sorted(fact for fact in facts(chinese) - facts(english) if '_' in fact)
    for fact in made_up:
        yield '%s: %s of %s has "%s", which the English has not' % (entry.place, title, entry.name, fact)
    if re.search('[\u4e00-\u9fff][,;:?!()]|[,;?!()][\u4e00-\u9fff]', chinese):
        yield '%s: %s of %s has an ASCII mark beside a Chinese character' % (entry.place, title, entry.name)
    if not re.search('[\u4e00-\u9fff]', chinese) and re.search(r'\b(the|is|of|and|a|or)\b', chinese):
        yield '%s: %s of %s is not translated' % (entry.place, title, entry.name)


def translations(root, have):
    """Each entry is there in Chinese (the build sees to that), and says what the English says."""
    with open(os.path.join(root, 'tools', 'meson.build'), encoding='utf-8') as file:
        built = re.search(r"'errors\.zh'\]\n\tforeach name : \[(.*?)\]", file.read(), re.S).group(1)
    built = {word + '.txt' for word in re.findall(r'\w+', built)}
    for folder in FOLDERS:
        for name in sorted(set(texts(root, folder)) ^ built):
            yield 'docs/%s/%s: not both in the folder and in tools/meson.build' % (folder, name)
    for entry in (e for entries in have.values() for e in entries.values()):
        chinese = entry.chinese
        yield from of_chinese(chinese, 'the meaning', ' '.join(entry.meaning), ' '.join(chinese.meaning))
        for title, items in entry.sections.items():
            others = chinese.sections.get(title, [])
            if len(items) != len(others):
                yield '%s: %s of %s has %d items, not %d' % (
                    chinese.place, title, entry.name, len(others), len(items))
            for one, other in zip(items, others):
                if title != 'See:':
                    yield from of_chinese(chinese, title, one, other)
        for title in chinese.sections.keys() - entry.sections.keys() - {'See:'}:
            yield '%s: %s of %s is not in the English' % (chinese.place, title, entry.name)


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
    yield from translations(root, have)
    for name in sorted(settings - have['variable'].keys()):
        yield 'docs/errors/variable.txt has no %s' % name
    for name in sorted(name for name in have['variable'].keys() - settings if name.startswith('VERBATIM')):
        yield '%s: docs/environment.md has no %s' % (have['variable'][name].place, name)
