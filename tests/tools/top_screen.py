#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""top_screen.py VERBATIM PROGRAM: verbatim top on a pseudo terminal, beside two running processes of PROGRAM. What
it draws is kept as the screen of a VT100, keys are pressed, the terminal is made small. Prints TAP."""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

LIMIT_S = 20


class Screen:
    """As much of a VT100 as its description in terminfo makes programs use."""
    def __init__(self, rows, columns):
        self.resize(rows, columns)
        self.rest = ''

    def resize(self, rows, columns):
        self.rows, self.columns, self.y, self.x = rows, columns, 0, 0
        self.cells = [[' '] * columns for _ in range(rows)]
        self.top, self.bottom = 0, rows - 1

    def lines(self):
        return [''.join(line).rstrip() for line in self.cells]

    def scroll(self, by):
        blank = [' '] * self.columns
        for _ in range(abs(by)):
            del self.cells[self.top if by > 0 else self.bottom]
            self.cells.insert(self.bottom if by > 0 else self.top, list(blank))

    def letter(self, letter):
        if letter == '\r':
            self.x = 0
        elif letter == '\n':
            self.down()
        elif letter == '\b':
            self.x = max(self.x - 1, 0)
        elif letter >= ' ':
            if self.x >= self.columns:
                self.x = 0
                self.down()
            self.cells[self.y][self.x] = letter
            self.x += 1

    def down(self):
        if self.y == self.bottom:
            self.scroll(1)
        else:
            self.y = min(self.y + 1, self.rows - 1)

    def erase(self, begin, end):
        for at in range(begin, end):
            self.cells[at // self.columns][at % self.columns] = ' '

    def sequence(self, numbers, kind):
        first = numbers[0] if numbers else 0
        here = self.y * self.columns + min(self.x, self.columns - 1)
        if kind == 'H':
            self.y = min(max(first, 1), self.rows) - 1
            self.x = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif kind == 'J':
            self.erase(0 if first else here, self.rows * self.columns if first != 1 else here + 1)
        elif kind == 'K':
            line = self.y * self.columns
            self.erase(line if first else here, line + self.columns if first != 1 else here + 1)
        elif kind in 'ABCD':
            by = max(first, 1)
            self.y = min(max(self.y + {'A': -by, 'B': by}.get(kind, 0), 0), self.rows - 1)
            self.x = min(max(self.x + {'C': by, 'D': -by}.get(kind, 0), 0), self.columns - 1)
        elif kind == 'r':
            self.top = max(first, 1) - 1
            self.bottom = (numbers[1] if len(numbers) > 1 and numbers[1] else self.rows) - 1

    def feed(self, text):
        text, self.rest = self.rest + text, ''
        while text:
            if text[0] != '\x1b':
                self.letter(text[0])
                text = text[1:]
                continue
            found = re.match(r'\x1b(?:\[\??([0-9;]*)([A-Za-z])|([()].)|([^\[()]))', text, re.S)
            if not found:
                self.rest = text
                return
            if found[2]:
                self.sequence([int(n or 0) for n in found[1].split(';')], found[2])
            elif found[4] == 'M':
                if self.y == self.top:
                    self.scroll(-1)
                else:
                    self.y = max(self.y - 1, 0)
            elif found[4] == 'D':
                self.down()
            text = text[found.end():]


class Terminal:
    def __init__(self, command, rows, columns, term='vt100'):
        self.screen = Screen(rows, columns)
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ['TERM'] = term
            for name in ('COLUMNS', 'LINES'):
                os.environ.pop(name, None)
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
            os.execv(command[0], command)
        self.status = None

    def read(self, seconds):
        """Whatever comes within that time; False: the program has ended."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            got = os.read(self.fd, 65536)
        except OSError:
            got = b''
        self.screen.feed(got.decode('ascii', 'replace'))
        return bool(got)

    def wait(self, what):
        """Until what() is true of the lines; else says what is there. A screen that is half drawn has rows without
        columns: it is not there yet."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            try:
                if what(self.screen.lines()):
                    return True
            except IndexError:
                pass
            if not self.read(0.2):
                break
        for line in self.screen.lines():
            print('# |' + line)
        return False

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, rows, columns):
        while self.read(0):
            if not select.select([self.fd], [], [], 0)[0]:
                break
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def end(self):
        """Its exit status."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and self.read(0.2):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


count = failed = 0


def check(name, good):
    global count, failed
    count += 1
    failed += not good
    print('%s %d - %s' % ('ok' if good else 'not ok', count, name), flush=True)


def number(text):
    """Of "1.5k"."""
    found = re.fullmatch(r'([0-9.]+)([kMG]?)', text)
    return float(found[1]) * {'': 1, 'k': 1e3, 'M': 1e6, 'G': 1e9}[found[2]] if found else -1


def rows_of(lines, pattern):
    return [line.split() for line in lines[2:] if re.search(pattern, line)]


def main(verbatim, program):
    def processes_work(lines):
        rows = rows_of(lines, program)
        return len(rows) == 2 and all(number(row[3]) > 0 and row[2] == '1' for row in rows)

    def sends(lines):
        rows = rows_of(lines, '^0x[0-9a-f]{6} ')
        return program in lines[0] and len(rows) == 1 and rows[0][1:3] == ['RC', 'RTS'] and number(rows[0][4]) > 0

    def is_small(lines):
        return len(rows_of(lines, '^0x[0-9a-f]{6} ')) == 1 and lines[1].split()[0] == 'QP' and \
            'PEER' not in lines[1] and lines[9].startswith('q quit')

    top = Terminal([verbatim, 'top', '--delay', '0.5'], 30, 120)
    check('processes are listed, with rates', top.wait(processes_work))
    check('the titles and the keys are there', 'DIRECT/s' in top.screen.lines()[1] and
          'q quit' in top.screen.lines()[29])
    def has_history(lines):
        return re.match(r'\d+: DIRECT/s +[_.~=+*#-]{3,} most \d', lines[27]) is not None

    check('how the rate of the selected one went stands below', top.wait(has_history))
    top.press('?')
    check('? shows the keys and columns', top.wait(lambda lines: 'keys and columns' in lines[0] and
                                                   any('reverse the order' in line for line in lines)))
    top.press('x')
    check('any key goes back', top.wait(processes_work))
    top.press('\n')
    check('Enter shows the queue pairs of the selected one, with rates', top.wait(sends))
    top.resize(10, 40)
    check('a terminal of 40 columns has what fits', top.wait(is_small))
    top.resize(30, 100)
    check('it grows again', top.wait(lambda lines: 'PEER' in lines[1] and sends(lines)))
    top.press('<')
    check('< sorts by the column before', top.wait(lambda lines: '*PATH' in lines[1]))
    top.press('\x1b')
    check('Esc goes back', top.wait(processes_work))
    top.press('/nobody\n')
    check('a filter that nothing matches leaves nothing',
          top.wait(lambda lines: 'filter nobody' in lines[0] and not rows_of(lines, program)))
    top.press('\x1b')
    check('Esc takes it away', top.wait(lambda lines: 'filter' not in lines[0] and processes_work(lines)))
    top.press('q')
    check('q ends it', top.end() == 0)
    top = Terminal([verbatim, 'top'], 24, 80, 'no-such-terminal')
    check('a terminal that is not known is said',
          top.wait(lambda lines: any('is not known' in line for line in lines)) and top.end() == 1)
    print('1..%d' % count)
    return failed != 0


sys.exit(main(*sys.argv[1:]))
