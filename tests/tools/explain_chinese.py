#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""explain_chinese.py VERBATIM: entries of `verbatim explain` where the language is Chinese."""
import os
import re
import subprocess
import sys
import unicodedata

WIDTH = 78
TITLES = {'Usual causes, the most likely first': '常见原因（最可能的在前）',
          'How to find out which': '如何判断是哪一种', 'How to mend it': '如何解决', 'See also': '另见',
          'By call': '按调用'}
ITEM = re.compile(r'^  (?:\d+\.|-) ', re.M)


def explain(verbatim, language, *words):
    environment = {k: v for k, v in os.environ.items() if k != 'LANG' and not k.startswith('LC_')}
    return subprocess.run([verbatim, 'explain', *words], env={**environment, 'LANG': language}, check=True,
                          capture_output=True).stdout.decode()


def columns(line):
    """At most: quotes and dashes have two in some fonts."""
    return sum(2 if unicodedata.east_asian_width(c) in 'WFA' else 1 for c in line)


def problems_of_lines(text):
    for line in text.split('\n'):
        if columns(line) > WIDTH:
            yield '%d columns: %s' % (columns(line), line)
        if line.strip() and line.strip()[0] in '，。：；、？！）”』」':
            yield 'begins with a closing mark: ' + line
        if line and line[-1] in '（“『「':
            yield 'ends with an opening mark: ' + line


def prose(chinese):
    """Without the names of other entries, and without messages, which are quoted as they are printed."""
    return re.sub(r'"[^"]*"', '', re.sub(r'\n另见\n.*?(\n\n|$)', r'\1', chinese, flags=re.S))


def problems_of_entry(english, chinese):
    for title, translated in TITLES.items():
        if ('\n%s\n' % title in english) != ('\n%s\n' % translated in chinese):
            yield 'the section "%s" is not there as "%s"' % (title, translated)
    if len(ITEM.findall(english)) != len(ITEM.findall(chinese)):
        yield 'other numbers of items'
    if re.search(r'\b(the|of|is)\b', prose(chinese)):
        yield 'some of it is English'


def problems_of_call(english, chinese):
    rows = [set(re.findall('^\\S.*%s\n((?:  .*\n)+)' % end, text, re.M))
            for end, text in ((':', english), ('：', chinese))]
    if not rows[0] or len(rows[0]) != len(rows[1]):
        yield '%d rows, not %d' % (len(rows[1]), len(rows[0]))
    if re.search(r'\b(the|of|is|general)\b', prose(chinese)):
        yield 'some of it is English'


def main():
    verbatim, failed, seen = sys.argv[1], 0, 0
    for kind in re.findall(r'\((\w+)\)$', explain(verbatim, 'C'), re.M):
        for name in re.findall(r'  (\w+)', explain(verbatim, 'C', kind).split('\n', 1)[1]):
            english, chinese = (explain(verbatim, language, kind, name) for language in ('C', 'zh_CN.UTF-8'))
            seen += 1
            for problem in [*problems_of_lines(chinese), *problems_of_entry(english, chinese)]:
                print('%s %s: %s' % (kind, name, problem))
                failed += 1
            if kind == 'errno':
                call = re.search(r'\nBy call\n  (\w+)', english).group(1)
                for problem in problems_of_call(*(explain(verbatim, language, name, call)
                                                  for language in ('C', 'zh_CN.UTF-8'))):
                    print('%s %s: %s' % (name, call, problem))
                    failed += 1
    if not seen:
        print('there is no entry')
    sys.exit(bool(failed or not seen))


if __name__ == '__main__':
    main()
