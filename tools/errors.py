#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles docs/errors/*.txt, what `verbatim explain` knows, into one of its forms:

    errors.py c    VERSION FILE...    the table that tools/explain.c searches
    errors.py man  VERSION FILE...    verbatim-errors(7)
    errors.py html VERSION FILE...    the same as a page for browsers

FILEs of docs/errors.zh are in Chinese, by the names of the English ones, and only the table has them.

docs/errors/README.md describes the format. What does not follow it ends the build, with file and line.
"""
import html
import re
import sys
import textwrap
import unicodedata

WIDTH = 78
SECTIONS = {'Causes:': 'Usual causes, the most likely first', 'Find out:': 'How to find out which',
            'Mend:': 'How to mend it', 'By call:': 'By call', 'See:': 'See also'}
CHINESE_SECTIONS = {'Causes:': '常见原因（最可能的在前）', 'Find out:': '如何判断是哪一种', 'Mend:': '如何解决',
                    'By call:': '按调用', 'See:': '另见'}
OPENING, CLOSING = '（“‘「『《', '，。：；、？！）”’」』》'
ENTRY = re.compile(r'\[(\w+)(?: (0x[0-9a-f]+|\d+))?(?: since (rdma-core \d+))?\](?: (.*))?$')


class Kind:
    """A chapter: entries of one enumeration."""

    def __init__(self, name):
        self.name, self.title, self.prefixes, self.suffix, self.header = name, '', [], '', ''
        self.what, self.numbers, self.text, self.entries = '', True, [], []
        self.chinese = None         # the same kind in Chinese


class Entry:
    def __init__(self, kind, match, place):
        self.kind, self.name, self.place = kind, match.group(1), place
        self.number = int(match.group(2), 0) if match.group(2) else None
        self.hexadecimal = (match.group(2) or '').startswith('0x')
        self.since = match.group(3)
        self.aliases = [a.strip() for a in (match.group(4) or '').split(';') if a.strip()]
        self.meaning = []           # paragraphs
        self.sections = {}          # title: items
        self.chinese = None         # the same entry in Chinese

    def heading(self):
        if self.number is None:
            return self.name
        return '%s (%s)' % (self.name, hex(self.number) if self.hexadecimal else self.number)

    def calls(self):
        """(names of calls, text) of the section By call."""
        for item in self.sections.get('By call:', []):
            names, _, text = item.partition(': ')
            yield names.split(', '), text

    def words(self):
        """All that finds it, in capitals, with _ for what is no letter or digit."""
        found = [self.name]
        for prefix in self.kind.prefixes:
            if self.name.startswith(prefix):
                bare = self.name[len(prefix):]
                parts = prefix.strip('_').split('_')
                found += ['_'.join(parts[i:] + [bare]) for i in range(1, len(parts) + 1)]
        if self.kind.suffix:
            found += [w[:-len(self.kind.suffix)] for w in found if w.endswith(self.kind.suffix)]
        found += self.aliases
        return sorted({word_of(w) for w in found})


def word_of(text):
    return re.sub(r'[^A-Z0-9]+', '_', text.upper()).strip('_')


def is_wide(character):
    return unicodedata.east_asian_width(character) in 'WF'


def joined(text, line):
    """One text of two lines: no space beside Chinese punctuation, nor between two Chinese characters."""
    marks = OPENING + CLOSING
    tight = text[-1] in marks or line[0] in marks or (is_wide(text[-1]) and is_wide(line[0]))
    return text + ('' if tight else ' ') + line


def fail(place, text):
    sys.exit('%s: %s' % (place, text))


class Reader:
    def __init__(self):
        self.kinds, self.entry, self.section, self.blank = [], None, None, True

    def read(self, path, encoding='ascii'):
        self.entry = None
        with open(path, encoding=encoding) as file:
            for number, line in enumerate(file, 1):
                self.line(line.rstrip('\n'), '%s:%d' % (path, number))

    def read_chinese(self, path):
        """After the English file of the same name, with which it shares what is not translated."""
        chinese = Reader()
        chinese.read(path, 'utf-8')
        check(chinese.kinds)
        for translated in chinese.kinds:
            kind = next((k for k in self.kinds if k.name == translated.name), None)
            if not kind or kind.chinese:
                fail(path, 'kind %s is none, or is there twice' % translated.name)
            kind.chinese = translated
            entries = {entry.name: entry for entry in kind.entries}
            for entry in translated.entries:
                if entry.name not in entries:
                    fail(entry.place, '%s is no entry of %s' % (entry.name, kind.name))
                if 'See:' in entry.sections:
                    fail(entry.place, 'See: is that of the English entry')
                if [names for names, _ in entry.calls()] != [names for names, _ in entries[entry.name].calls()]:
                    fail(entry.place, 'By call: has other calls than the English entry')
                entry.sections['See:'] = entries[entry.name].sections.get('See:', [])
                entries[entry.name].chinese = entry

    def line(self, line, place):
        if line.startswith('#'):
            return
        match = ENTRY.match(line)
        if not line.strip():
            self.blank = True
            return
        if match:
            self.begin_entry(match, place)
        elif line.startswith('kind: '):
            self.kinds.append(Kind(line[6:]))
            self.entry = self.section = None
        elif self.entry is None:
            self.of_kind(line, place)
        else:
            self.of_entry(line, place)
        self.blank = False

    def begin_entry(self, match, place):
        if not self.kinds:
            fail(place, 'an entry before a line "kind: ..."')
        self.entry, self.section = Entry(self.kinds[-1], match, place), None
        self.kinds[-1].entries.append(self.entry)

    def of_kind(self, line, place):
        key, _, value = line.partition(': ')
        kind = self.kinds[-1] if self.kinds else fail(place, 'expected "kind: ..."')
        if key in ('title', 'suffix', 'header', 'what'):
            setattr(kind, key, value)
        elif key == 'prefixes':
            kind.prefixes = value.split()
        elif key == 'numbers':
            kind.numbers = value == 'yes'
        else:
            self.paragraph(kind.text, line)

    def paragraph(self, paragraphs, line):
        if self.blank or not paragraphs:
            paragraphs.append(line.strip())
        else:
            paragraphs[-1] = joined(paragraphs[-1], line.strip())

    def of_entry(self, line, place):
        section = re.match(r'(Causes|Find out|Mend|By call|See):(.*)$', line)
        if section:
            self.section = section.group(1) + ':'
            self.entry.sections[self.section] = [section.group(2).strip()] if section.group(2) else []
        elif self.section is None:
            self.paragraph(self.entry.meaning, line)
        elif line.startswith('- '):
            self.entry.sections[self.section].append(line[2:])
        elif self.entry.sections[self.section] and (line.startswith('  ') or self.section == 'See:'):
            items = self.entry.sections[self.section]
            items[-1] = joined(items[-1], line.strip())
        else:
            fail(place, 'expected an item ("- ") or its next line ("  ")')


def check(kinds):
    for kind in kinds:
        if not kind.title or not kind.what or not kind.entries:
            sys.exit('kind %s: no title, what or entries' % kind.name)
        seen = set()
        for entry in kind.entries:
            if not entry.meaning:
                fail(entry.place, entry.name + ' has no meaning')
            if entry.name in seen:
                fail(entry.place, entry.name + ' is there twice')
            seen.add(entry.name)
            for names, text in entry.calls():
                if not text or not all(re.fullmatch(r'\w+', n) for n in names):
                    fail(entry.place, 'By call: expected "- call, call: text"')


# The command ------------------------------------------------------------------------------------

def wrapped(text, first='', rest=''):
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)


def cells(text):
    """Columns of a terminal. Quotes and dashes have one or two, by its font: they count as two."""
    return sum(2 if unicodedata.east_asian_width(c) in 'WFA' else 1 for c in text)


def wrapped_chinese(text, first='  ', rest='  '):
    """As wrapped(). Lines break between Chinese characters, too, but no mark is at its wrong end."""
    lines, line = [], first
    for piece in re.findall('[%s]*(?:[!-~]+|.)[%s]*' % (OPENING, CLOSING), text):
        if cells(line + piece) > WIDTH and line.strip() and piece.strip():
            lines.append(line.rstrip())
            line = rest
        if piece.strip() or line != rest:
            line += piece
    return lines + [line.rstrip()] if line.strip() else lines


def items_text(section, items, wrap):
    lines = []
    for number, item in enumerate(items, 1):
        if section == 'See:':
            lines += wrap(item, '  ', '  ')
        elif section == 'By call:':
            names, _, text = item.partition(': ')
            lines += wrap(names, '  ', '    ') + wrap(text, '      ', '      ')
        else:
            mark = '%d.' % number if section == 'Causes:' else '-'
            lines += wrap(item, '  %-2s ' % mark, '     ')
    return lines


def entry_text(entry, titles=None, wrap=wrapped):
    lines = []
    for paragraph in entry.meaning:
        lines += wrap(paragraph, '  ', '  ') + ['']
    for section, title in (titles or SECTIONS).items():
        if entry.sections.get(section) and section != 'By call:':
            lines += [title] + items_text(section, entry.sections[section], wrap) + ['']
    return lines[:-1]


def calls_text(entry, titles=None, wrap=wrapped):
    titles = titles or SECTIONS
    return ['', titles['By call:']] + items_text('By call:', entry.sections.get('By call:', []), wrap)


def texts(entry, *form):
    """Of the table: text, and text by call. Lines each, [] for none."""
    return [entry_text(entry, *form), calls_text(entry, *form) if list(entry.calls()) else []]


def sentence(text):
    """With a capital, unless it begins with the name of an argument."""
    word = text.split()[0]
    return text if re.search('[^a-z]', word) or word == 'cqe' else text[0].upper() + text[1:]


def c_string(text):
    return '"%s"' % text.replace('\\', '\\\\').replace('"', '\\"')


def c_lines(lines, indent):
    """One string, a literal for each line."""
    if not lines:
        return '""'
    return ('\n' + indent).join(c_string(line)[:-1] + '\\n"' for line in lines)


def write_c(kinds):
    headers = sorted({k.header for k in kinds if k.header})
    print('/* Made by tools/errors.py from docs/errors. */')
    for header in headers:
        print('#include <%s>' % header)
    print('#include "explain.h"\n')
    for kind in kinds:
        for entry in kind.entries:
            if kind.header and entry.number is not None and not entry.since:
                print('_Static_assert((unsigned)%s == %du, "docs/errors");' % (entry.name, entry.number))
    print('\nconst struct error_kind error_kinds[] = {')
    for kind in kinds:
        print('\t{ %s, %s, %s, %s, %s },' % (
            c_string(kind.name), c_string(kind.what), c_string(kind.title),
            c_string(kind.chinese.what), 'true' if kind.numbers else 'false'))
    print('\t{ NULL, NULL, NULL, NULL, false },\n};\n\nconst struct error_entry error_entries[] = {')
    for index, kind in enumerate(kinds):
        for entry in kind.entries:
            both = texts(entry) + texts(entry.chinese, CHINESE_SECTIONS, wrapped_chinese)
            print('\t{ %d, %s, %s, %d,\n\t  %s,\n\t  %s },' % (
                index, c_string(entry.name), c_string(entry.heading()),
                -1 if entry.number is None else entry.number, c_string(' ' + ' '.join(entry.words()) + ' '),
                ',\n\t  '.join(c_lines(lines, '\t  ') for lines in both)))
    print('\t{ 0, NULL, NULL, -1, NULL, NULL, NULL, NULL, NULL },\n};\n')
    print('const struct error_call error_calls[] = {')
    for entry in (e for k in kinds for e in k.entries):
        for (names, text), (_, chinese) in zip(entry.calls(), entry.chinese.calls()):
            text = sentence(text)
            for name in names:
                print('\t{ %s, %s, %s,\n\t  %s,\n\t  %s },' % (
                    c_string(name), c_string(entry.name), c_string(word_of(name)),
                    c_lines(wrapped(text, '  ', '  '), '\t  '),
                    c_lines(wrapped_chinese(chinese), '\t  ')))
    print('\t{ NULL, NULL, NULL, NULL, NULL },\n};')


# The man page -----------------------------------------------------------------------------------

def roff(text):
    text = text.replace('\\', '\\e').replace('-', '\\-').replace("'", '\\(aq')
    return '\\&' + text if text.startswith('.') else text


def write_man(kinds, version):
    print('.\\" SPDX-License-Identifier: BSD-2-Clause\n.\\" Made by tools/errors.py from docs/errors.')
    print('.TH VERBATIM\\-ERRORS 7 "" "Verbatim %s" "Miscellaneous"' % version)
    print('.SH NAME\nverbatim\\-errors \\- what RDMA programs get told when something fails, and why')
    print('.SH DESCRIPTION\nEach entry says what a number or name means, what usually causes it (the most '
          'likely cause first), how to find out which it is, and how to mend it: on Verbatim, on RDMA '
          'adapters and on rdma_rxe of Linux.\n.PP\nThe command\n.B verbatim explain\n.I WORD\n'
          'prints one entry; see\n.BR verbatim (1).')
    for kind in kinds:
        print('.SH %s' % roff(kind.title.upper()))
        for paragraph in kind.text:
            print('.PP\n' + roff(paragraph))
        for entry in kind.entries:
            print('.SS %s' % roff(entry.heading()))
            print('\n.PP\n'.join(roff(p) for p in entry.meaning))
            for section, title in SECTIONS.items():
                if entry.sections.get(section):
                    man_section(section, title, entry.sections[section])
    print('.SH SEE ALSO\n.BR verbatim (1),\n.BR verbatim (7),\n.BR ibv_poll_cq (3),\n'
          '.BR ibv_get_async_event (3),\n.BR rdma_get_cm_event (3)')


def man_section(section, title, items):
    print('.PP\n.I %s' % title)
    for number, item in enumerate(items, 1):
        if section == 'See:':
            print('.RS 4\n%s\n.RE' % roff(item))
        elif section == 'By call:':
            names, _, text = item.partition(': ')
            print('.TP\n.B %s\n%s' % (roff(names), roff(text)))
        else:
            print('.IP %s 4\n%s' % ('%d.' % number if section == 'Causes:' else '\\(bu', roff(item)))


# The page ---------------------------------------------------------------------------------------

STYLE = '''body { font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; }
h2 { border-bottom: 1px solid #888; margin-top: 2.5em; } h3 { margin: 2em 0 .3em; font-family: monospace; }
h4 { margin: .8em 0 .2em; font-size: 1em; } p, ul, ol, dl { margin: .3em 0; }
dt { font-family: monospace; } nav a { margin-right: .8em; white-space: nowrap; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } a { color: #8bf; } }'''


def anchor(entry):
    return '%s-%s' % (entry.kind.name, entry.name)


def html_items(section, items):
    text = html.escape
    if section == 'See:':
        return ''.join('<p>%s</p>' % text(i) for i in items)
    if section == 'By call:':
        return '<dl>%s</dl>' % ''.join('<dt>%s</dt><dd>%s</dd>' % tuple(map(text, i.split(': ', 1)))
                                       for i in items)
    tag = 'ol' if section == 'Causes:' else 'ul'
    return '<%s>%s</%s>' % (tag, ''.join('\n<li>%s</li>' % text(i) for i in items), tag)


def write_html(kinds, version):
    print('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
          '<meta name="viewport" content="width=device-width"/><title>Verbatim: errors</title>'
          '<style>%s</style></head><body>' % STYLE)
    print('<h1>Errors of RDMA programs</h1>\n<p>What <code>verbatim explain WORD</code> of Verbatim %s '
          'prints: what a number or name means, its usual causes (the most likely first), how to find '
          'out which it is, and how to mend it.</p>' % html.escape(version))
    for kind in kinds:
        print('<nav><h4>%s</h4>%s</nav>' % (html.escape(kind.title), '\n'.join(
            '<a href="#%s">%s</a>' % (anchor(e), html.escape(e.name)) for e in kind.entries)))
    for kind in kinds:
        print('<h2>%s</h2>' % html.escape(kind.title))
        for paragraph in kind.text:
            print('<p>%s</p>' % html.escape(paragraph))
        for entry in kind.entries:
            print('<h3 id="%s">%s</h3>' % (anchor(entry), html.escape(entry.heading())))
            for paragraph in entry.meaning:
                print('<p>%s</p>' % html.escape(paragraph))
            for section, title in SECTIONS.items():
                if entry.sections.get(section):
                    print('<h4>%s</h4>%s' % (title, html_items(section, entry.sections[section])))
    print('</body></html>')


def load(paths):
    reader = Reader()
    for path in paths:
        (reader.read_chinese if 'errors.zh' in path else reader.read)(path)
    check(reader.kinds)
    for entry in (e for kind in reader.kinds for e in kind.entries if not e.chinese):
        fail(entry.place, entry.name + ' is not in docs/errors.zh')
    return reader.kinds


def main():
    form, version, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    kinds = load(paths)
    sys.stdout.reconfigure(encoding='utf-8')        # whatever the locale of the build
    if form == 'c':
        write_c(kinds)
    elif form == 'man':
        write_man(kinds, version)
    else:
        write_html(kinds, version)


if __name__ == '__main__':
    main()
