#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""zsh_completion.py VERBATIM FUNCTIONS: presses TAB in a zsh on a terminal, with its own completion system and
the function _verbatim of the directory FUNCTIONS, and looks at what the command line has become."""
import os
import pty
import select
import sys
import tempfile
import time

WAIT_S = 20
CASES = [
    ('verbatim tr', 'verbatim trace'),
    ('verbatim run --rs', 'verbatim run --rsockets'),
    ('verbatim trace --pay', 'verbatim trace --payload'),
    ('verbatim stats --prom', 'verbatim stats --prometheus'),
    ('verbatim help expl', 'verbatim help explain'),
    ('verbatim ladder one-captu', 'verbatim ladder one-capture'),
    ('verbatim run printen', 'verbatim run printenv'),
    ('verbatim run cat one-captu', 'verbatim run cat one-capture'),
]


class Shell:
    def __init__(self, directory, path):
        child, self.terminal = pty.fork()
        if not child:
            os.chdir(directory)
            environment = {'PATH': path + ':/usr/bin:/bin', 'TERM': 'dumb', 'HOME': directory,
                           'LC_ALL': 'C.UTF-8', 'VERBATIM_CONFIG': ''}
            os.execve('/usr/bin/zsh', ['zsh', '-f', '-i'], environment)
        self.child, self.said = child, ''

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def line_with(self, start):
        """The line that begins with it: what was typed is echoed behind a prompt, and is none."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            lines = self.said.replace('\r', '\n').split('\n')
            for line in lines[:-1]:
                if line.startswith(start):
                    self.said = ''
                    return line[len(start):].strip()
            if select.select([self.terminal], [], [], 0.2)[0]:
                try:
                    self.said += os.read(self.terminal, 65536).decode(errors='replace')
                except OSError:
                    break
        raise SystemExit('zsh said no line with %s: %r' % (start, self.said))

    def end(self):
        os.close(self.terminal)
        os.waitpid(self.child, 0)


def main(verbatim, functions):
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        open(os.path.join(directory, 'one-capture'), 'w').close()
        shell = Shell(directory, os.path.dirname(verbatim))
        shell.type("PS1='> '; fpath=('%s' $fpath); autoload -Uz compinit && compinit -u -D; "
                   "echo; echo ready:\n" % functions)
        shell.line_with('ready:')
        for typed, expected in CASES:
            # What TAB has left, behind "echo at the beginning of the line".
            shell.type(typed + '\t')
            shell.type('\x01echo line: \n')
            line = shell.line_with('line:')
            if line != expected:
                print('%s<TAB>: %r, not %r' % (typed, line, expected))
                wrong += 1
        shell.end()
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:3]))
