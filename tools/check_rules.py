#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
docs/check-rules.md, of src/check/rule.def:	check_rules.py ROOT > docs/check-rules.md
docs/check-devices.md, of profile.def:	check_rules.py ROOT devices > docs/check-devices.md
"""
import re
import sys

HEAD = '''# The rules of `verbatim check`

Made of src/check/rule.def by tools/check_rules.py. An id is never used again for another rule.
All are of tier *state*, and on; RV-DEVICE speaks with `--device` alone. "Seen in": public reports of
programs that made the mistake; tests/check/corpus.c has it as a program of our own, beside one that is right.
"Written in": man pages of rdma-core and Linux; where they say nothing, a page or source that everybody can
read. Clauses of IBTA volume 1 stand there only where such a source quotes them.
'''
RULE = re.compile(r'^RULE\(\w+, "(RV-[A-Z]+-\d+)", [^"]*?, \w+,\n(.*?)\)$', re.M | re.S)
CASE = re.compile(r'\{ ?"\w+", \w+,\s*"(RV-[A-Z]+-\d+)",\s*"([^"]*)"')


def text(literals):
    return ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


DEVICES = '''# Adapters that `verbatim check --device` knows

Made of src/check/profile.def by tools/check_rules.py: what is known of each adapter, and where it is written.
What is not in a table is not known, or differs by firmware and configuration, and is not looked at:
the last line of each says which that is. With `--strict` the device tells these limits itself, and refuses what
would not fit with the errno that the adapter would give.
'''
GIDS = {'V1_LINK_LOCAL': 'link-local, RoCE v1', 'V2_LINK_LOCAL': 'link-local, RoCE v2',
        'V1_ADDRESS': 'of an address, RoCE v1', 'V2_ADDRESS': 'of an address, RoCE v2'}


def value(kind, words):
    if kind.startswith('GID_'):
        return GIDS[words]
    if kind.startswith(('HAS_', 'PINS', 'ARM_')):
        return 'yes' if words == '1' else 'no'
    if kind == 'TYPES':
        return words.replace(' |', ',')
    return words if words.startswith('0x') else '{:,}'.format(int(words))


def devices(root):
    with open(root + '/src/check/profile.def', encoding='utf-8') as file:
        table = file.read()
    kinds = re.findall(r'^KIND\((\w+), "([^"]*)"\)', table, re.M)
    sources = dict(re.findall(r'^SOURCE\((\w+), "([^"]*)"\)', table, re.M))
    common = re.search(r'#define OF_MLX5\(profile\)(.*?)\n\n', table, re.S).group(1)
    facts = {}
    for profile, kind, words, source in re.findall(r'FACT\((\w+), (\w+), ([^,]*), (\w+)\)', table):
        facts[profile, kind] = words, source
    for profile in re.findall(r'^OF_MLX5\((\w+)\)', table, re.M):
        for kind, words, source in re.findall(r'FACT\(profile, (\w+), ([^,]*), (\w+)\)', common):
            facts[profile, kind] = words, source
    print(DEVICES)
    for profile, named, about in re.findall(r'^PROFILE\((\w+), "([^"]*)", "([^"]*)"\)', table, re.M):
        print('## `%s`: %s\n\n| what | value | written in |\n|---|---|---|' % (named, about))
        for kind, words in kinds:
            if (profile, kind) in facts:
                what, source = facts[profile, kind]
                print('| %s | %s | %s |' % (words, value(kind, what), sources[source]))
        print('\nNot known: %s.\n' % '; '.join(words for kind, words in kinds
                                               if (profile, kind) not in facts))


def main():
    root = sys.argv[1]
    if sys.argv[2:] == ['devices']:
        devices(root)
        return
    with open(root + '/src/check/rule.def', encoding='utf-8') as file:
        rules = RULE.findall(file.read())
    with open(root + '/tests/check/corpus.c', encoding='utf-8') as file:
        cases = CASE.findall(file.read())
    pages = [HEAD]
    for rule, words in rules:
        sentence, source, remedy = (text(part) for part in re.split(r'(?<="),\n', words))
        reports = dict.fromkeys(report for which, of in cases if which == rule
                                for report in of.split(', '))
        pages.append('## %s\n\n%s.\n\n- Written in: %s\n- To do: %s\n- Seen in: %s\n' % (
            rule, sentence, source, remedy, ', '.join(name for name in reports if name != '-') or
            'no public report that is known'))
    print('\n'.join(pages), end='')


if __name__ == '__main__':
    main()
