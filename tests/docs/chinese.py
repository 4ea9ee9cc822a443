# SPDX-License-Identifier: BSD-2-Clause
"""Whether a Chinese page has the structure of the English one: headings by level, rows of tables, items of
lists, links, program output, and commands, in the same order. What it says nobody checks but readers."""
import os
import re

PAIRS = [('README.md', 'README.zh.md')] + [('docs/%s.md' % name, 'docs/%s.zh.md' % name)
                                           for name in ('environment', 'noncontig', 'supported')]


def pairs(root):
    """Every English page and its translation, relative to the root."""
    found = [pair for pair in PAIRS if os.path.exists(os.path.join(root, pair[1]))]
    for folder in ('tutorial', 'recipes'):
        for name in sorted(os.listdir(os.path.join(root, 'docs', folder))):
            if name.endswith('.md'):
                found.append((os.path.join('docs', folder, name), os.path.join('docs', folder + '.zh', name)))
    return found


def has_prose(line):
    """Comments of code and picture captions may be translated: such lines are not compared."""
    return re.search(r'[^\x00-\x7f]', line) is not None


def link_of(target):
    for chinese, english in (('../tutorial/pictures/', 'pictures/'), ('../tutorial.zh/', '../tutorial/'),
                             ('docs/tutorial.zh/', 'docs/tutorial/'),
                             ('docs/recipes.zh/', 'docs/recipes/'), ('../recipes/', ''),
                             ('noncontig.zh.md', 'noncontig.md'), ('supported.zh.md', 'supported.md'),
                             ('environment.zh.md', 'environment.md'), ('README.zh.md', 'README.md')):
        target = target.replace(chinese, english)
    return target


def outline(text):
    """One (line number, kind, detail) for each part that both pages must have."""
    parts, fence = [], None
    for number, line in enumerate(text.split('\n'), 1):
        if line.startswith('```'):
            fence = None if fence is not None else line[3:]
            parts.append((number, 'fence', line[3:]))
        elif fence is not None:
            parts.append((number, 'output', line))
        elif line.startswith('    ') and line.strip():
            parts.append((number, 'code', line.strip()))
        elif line.startswith('#'):
            parts.append((number, 'heading', line.split(' ')[0]))
        elif line.startswith('|'):
            parts.append((number, 'row', line.replace('\\|', '').count('|')))
        elif re.match(r'([-*]|\d+\.) ', line):
            parts.append((number, 'item', line.split(' ')[0]))
    return parts


def comparable(part, other):
    """Lines of code that either page has in words count as lines, not by what they say."""
    return part[1] == 'code' and other[1] == 'code' and (has_prose(part[2]) or has_prose(other[2]))


def halfwidth(root, page):
    """Punctuation of ASCII in a Chinese sentence, without a blank beside it; code, output and links aside."""
    fence = False
    with open(os.path.join(root, page), encoding='utf-8') as file:
        lines = file.read().split('\n')
    for number, line in enumerate(lines, 1):
        fence ^= line.startswith('```')
        prose = re.sub(r'`[^`]*`|\]\([^)]*\)', 'x', line)
        if not fence and not line.startswith('    ') and re.search(r'[\u4e00-\u9fff]', prose) and \
                re.search(r'(?<!\d)[,;?](?=\S|$)|[\u4e00-\u9fff*][(:"]', prose):
            yield '%s:%d has halfwidth punctuation' % (page, number)


def differences(root, english, chinese):
    path = os.path.join(root, chinese)
    if not os.path.exists(path):
        yield '%s has no translation %s' % (english, chinese)
        return
    yield from halfwidth(root, chinese)
    texts = []
    for name in (english, chinese):
        with open(os.path.join(root, name), encoding='utf-8') as file:
            texts.append(file.read())
    left, right = outline(texts[0]), outline(texts[1])
    for part, other in zip(left, right):
        if part[1:] != other[1:] and not comparable(part, other):
            yield '%s:%d has %s %s, %s:%d has %s %s' % (
                (english,) + part + (chinese,) + other)
            return
    if len(left) != len(right):
        yield '%s has %d parts, %s has %d' % (english, len(left), chinese, len(right))
    links = [sorted({link_of(t) for t in re.findall(r'\]\(([^)#]+)', text)} - {'README.md'})
             for text in texts]
    if links[0] != links[1]:
        yield '%s and %s link to different pages: %s' % (
            english, chinese, sorted(set(links[0]) ^ set(links[1])))


def problems(root):
    for english, chinese in pairs(root):
        yield from differences(root, english, chinese)
