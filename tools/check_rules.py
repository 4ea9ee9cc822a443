#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/check-rules.md, of src/check/rule.def:  check_rules.py ROOT > docs/check-rules.md"""
import re
import sys

HEAD = '''# The rules of `verbatim check`

Made of src/check/rule.def by tools/check_rules.py. An id is never used again for another rule.
All are of tier *state*, and on. "Seen in": public reports of programs that made the mistake;
tests/check/corpus.c has it as a program of our own, beside one that is right.
'''
RULE = re.compile(r'^RULE\(\w+, "(RV-[A-Z]+-\d+)", [^"]*?, \w+,\n(.*?)\)$', re.M | re.S)
CASE = re.compile(r'\{ ?"\w+", \w+,\s*"(RV-[A-Z]+-\d+)",\s*"([^"]*)" ?\}')


def text(literals):
    return ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


def main():
    root = sys.argv[1]
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
            rule, sentence, source, remedy, ', '.join(reports)))
    print('\n'.join(pages), end='')


if __name__ == '__main__':
    main()
