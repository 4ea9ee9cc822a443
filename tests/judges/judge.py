#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Runs a suite that others wrote, case by case, and compares the verdicts with those that are expected of it:
prints TAP, one line a group of cases. It runs where the suite was built, with nothing but Python.

    judge.py mpi MPIEXEC DIRECTORY EXPECTED PART...
                                                the parts of MPICH's test/mpi; a group is one of them
    judge.py list FILE EXPECTED                 commands of a shell, one a line, each a case that passes with
                                                status 0; a group is their first word
    judge.py unittest COMMAND EXPECTED          tests of Python's unittest in processes that write what they say
                                                to files in $JUDGED, one each; a group is a module
    judge.py gtest PROGRAM EXPECTED FILTER...   tests of googletest that one of the filters matches; a process runs
                                                them until it hangs or ends, and another the rest; a group is
                                                what stands before the name's slash

EXPECTED has a line for each deviation: verdict (failed, hung, crashed), pattern of names, reason. A case is
red when it deviates otherwise, when it passes though a line says that it does not, and so is a line that
nothing matches. "unsteady" is for what depends on the test's own races: it may fail, and may pass. "slow=SECONDS"
is no deviation: the limit of a case that takes longer than the others. Limits are those of an idle machine: a case
that exceeds its own, and is not expected to, is run once more behind all others, with PATIENCE times the limit.
With --verdicts FILE every verdict is written there as it falls, with the seconds it took.
"""
import argparse
import fnmatch
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time

KEPT_LINES = 30      # of what a case printed, shown when it is red
PATIENCE = 6         # a machine may be that much slower beside other work
verdicts = None      # the file of --verdicts


class Case:
    def __init__(self, name, group):
        self.name, self.group = name, group
        self.verdict, self.seconds, self.said = None, 0.0, []
        self.tries = 0

    def end(self, verdict, begin, said):
        self.verdict, self.seconds, self.said = verdict, time.monotonic() - begin, said[-KEPT_LINES:]
        self.tries += 1
        if verdicts:
            verdicts.write('%s %.1f %s\n' % (verdict, self.seconds, self.name))
            verdicts.flush()


def kill_session(process):
    """Whatever it has started: it leads a session of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def start(command, directory=None, extra=None):
    return subprocess.Popen(command, cwd=directory, env=dict(os.environ, **(extra or {})),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, start_new_session=True)


class Lines:
    """The lines of a process as they come, each waited for until a deadline."""

    def __init__(self, process):
        self.file, self.rest = process.stdout, b''

    def next(self, deadline):
        """A line; None at the end; TimeoutError past the deadline."""
        while b'\n' not in self.rest:
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([self.file], [], [], wait)[0]:
                raise TimeoutError
            got = os.read(self.file.fileno(), 65536)
            if not got:
                line, self.rest = self.rest, b''
                return line.decode(errors='replace') if line else None
            self.rest += got
        line, self.rest = self.rest.split(b'\n', 1)
        return line.decode(errors='replace')


def finish(process, limit_s):
    """The whole output and the verdict of a program that is one case."""
    lines, said, deadline = Lines(process), [], time.monotonic() + limit_s
    try:
        while (line := lines.next(deadline)) is not None:
            said.append(line)
        status = process.wait(max(0.1, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        kill_session(process)
        return said, 'hung'
    kill_session(process)
    return said, 'passed' if status == 0 else 'crashed' if status < 0 else 'failed'


def mpi_cases(directory, part):
    """From its list: name, ranks, and words like timeLimit=300 or env=NAME=VALUE."""
    with open(os.path.join(directory, part, 'testlist'), encoding='ascii') as rows:
        for number, row in enumerate(rows):
            words = row.split('#')[0].split()
            if len(words) < 2 or not words[1].isdigit():
                continue
            settings = [word.split('=', 1) for word in words[2:] if '=' in word]
            yield Case('%s/%s:%d' % (part, words[0], number + 1), part), words[0], int(words[1]), settings


def run_mpi(options, expected):
    cases, programs = [], []
    for part in options.part:
        where = os.path.join(options.directory, part)
        for case, program, ranks, settings in mpi_cases(options.directory, part):
            cases.append(case)
            words = dict(settings)
            if ranks > options.ranks or not os.access(os.path.join(where, program), os.X_OK):
                case.end('skipped', time.monotonic(), ['%d ranks, or not built' % ranks])
                continue
            env = dict(value.split('=', 1) for key, value in settings if key == 'env')
            arguments = [value for key, value in settings if key == 'arg']
            command = shlex.split(options.mpiexec) + ['-n', str(ranks), './' + program] + arguments
            programs.append((case, command, where, env, words))
    for case, command, where, env, words in programs:
        begin = time.monotonic()
        said, verdict = finish(start(command, where, env),
                               expected.limit(case, max(options.limit, int(words.get('timeLimit', 0)))))
        if 'resultTest' in words:    # of its status: the program is to end with an error
            verdict = {'passed': 'failed', 'failed': 'passed', 'crashed': 'passed'}.get(verdict, verdict)
        elif verdict == 'passed' and not any(line.strip().lower() == 'no errors' for line in said):
            verdict = 'failed'
        case.end(verdict, begin, said)
        if expected.once_more(case):
            programs.append((case, command, where, env, words))
    return cases


def run_list(options, expected):
    with open(options.file, encoding='ascii') as rows:
        commands = [row.strip() for row in rows if row.strip() and row[0] != '#']
    cases = [Case(command, os.path.basename(command.split()[0])) for command in commands]
    waiting = list(cases)
    for case in waiting:
        begin = time.monotonic()
        said, verdict = finish(start(['bash', '-c', case.name]), expected.limit(case, options.limit))
        case.end(verdict, begin, said)
        if expected.once_more(case):
            waiting.append(case)
    return cases


UNITTEST = re.compile(r'^(\w+) \(([\w.]+)\) \.\.\. ?(.*)')
UNITTEST_END = re.compile(r'(?:^|\s|\.)(ok|FAIL|ERROR|skipped\b.*)$')


def unittest_verdicts(lines):
    """(name, verdict, what it said) of each test; what other output came between does not matter."""
    name, said = None, []
    for line in lines:
        begin = UNITTEST.match(line)
        if begin:
            if name:
                yield name, 'crashed', said
            test, where, line = begin.groups()
            name, said = where if where.endswith('.' + test) else where + '.' + test, []
        said.append(line)
        end = UNITTEST_END.search(line) if name else None
        if end:
            word = end.group(1)
            yield name, {'ok': 'passed', 'FAIL': 'failed', 'ERROR': 'failed'}.get(word, 'skipped'), said
            name = None
    if name:
        yield name, 'crashed', said


def run_unittest(options, expected):
    """Of several processes that run the same tests, the worst verdict counts."""
    order = ('passed', 'skipped', 'failed', 'crashed')
    cases, begin = {}, time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        process = start(['bash', '-c', options.command], None, {'JUDGED': directory})
        said, verdict = finish(process, PATIENCE * options.limit)
        for file in sorted(os.listdir(directory)):
            with open(os.path.join(directory, file), encoding='utf-8', errors='replace') as text:
                lines = text.read().splitlines()
            for name, found, words in unittest_verdicts(lines):
                case = cases.setdefault(name, Case(name, name.split('.')[0]))
                if case.verdict is None or order.index(found) > order.index(case.verdict):
                    case.end(found, time.monotonic(), words + lines if found == 'failed' else words)
    # A failure is said twice, by the test and by the whole.
    if verdict != 'failed' or not any(case.verdict == 'failed' for case in cases.values()):
        cases['the whole'] = Case('the whole', 'the whole')
        cases['the whole'].end(verdict, begin, said)
    return list(cases.values())


GTEST_LINE = re.compile(r'\[ +(RUN|OK|FAILED|SKIP|SKIPPED) +\] ?([^\s,]*)')
GTEST_ENDS = {'OK': 'passed', 'FAILED': 'failed', 'SKIPPED': 'skipped'}
GTEST_AT_ONCE = 400     # names of an argument


def gtest_names(program, filters):
    """SUITE.NAME of each, from lines that are a suite, or indented a name of it; comments follow."""
    said = subprocess.run(shlex.split(program) + ['--gtest_list_tests', '--gtest_filter=' + ':'.join(filters)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
    suite = None
    for line in said.decode(errors='replace').splitlines():
        word = line.split('#')[0].strip()
        if word.endswith('.') and not line.startswith(' '):
            suite = word
        elif suite and line.startswith('  ') and word:
            yield suite + word


def run_some_gtest(options, expected, waiting):
    """One process; takes the cases out of @waiting that it has ended."""
    process = start(shlex.split(options.program) + ['--gtest_color=no',
                     '--gtest_filter=' + ':'.join(list(waiting)[:GTEST_AT_ONCE])])
    lines, case, last, verdict, said = Lines(process), None, None, None, []
    begin = time.monotonic()
    deadline = begin + options.limit
    try:
        while (line := lines.next(deadline)) is not None:
            said.append(line)
            found = GTEST_LINE.search(line)
            word, name = found.groups() if found else (None, None)
            if word == 'RUN' and name in waiting:
                case, said, verdict, begin = waiting[name], [], None, time.monotonic()
                deadline = begin + expected.limit(case, options.limit)
            elif case and word == 'SKIP':       # UCX's word, of a test that then ends with OK
                verdict = 'skipped'
            elif case and word in GTEST_ENDS and name == case.name:
                case.end(verdict or GTEST_ENDS[word], begin, said)
                del waiting[name]
                last, case, deadline = case, None, time.monotonic() + options.limit
        died = process.wait(max(0.1, deadline - time.monotonic())) < 0 and 'crashed'
    except (TimeoutError, subprocess.TimeoutExpired):
        died = 'hung'
    kill_session(process)
    if case:
        del waiting[case.name]
        case.end(died or 'crashed', begin, said)
        if expected.once_more(case):
            waiting[case.name] = case
    elif last and died:     # in what it does behind a case
        last.end(died, begin, said)
    return said


def run_gtest(options, expected):
    cases = [Case(name, name.split('/')[0].split('.')[0]) for name in gtest_names(options.program, options.filter)]
    waiting = {case.name: case for case in cases}
    while waiting:
        before = sum(case.tries for case in cases)
        said = run_some_gtest(options, expected, waiting)
        if sum(case.tries for case in cases) == before:     # it does not get as far as a case
            for case in waiting.values():
                case.end('crashed', time.monotonic(), said)
            break
    return cases


class Expected:
    """The rows of a file: verdict, pattern, reason."""

    def __init__(self, path):
        with open(path, encoding='ascii') as rows:
            self.rows = [row.split(None, 2) for row in rows if row.strip() and row[0] != '#']
        for row in self.rows:
            known = re.fullmatch(r'failed|hung|crashed|unsteady|slow=\d+', row[0])
            assert len(row) == 3 and known, '%s: %s' % (path, row)
        self.used = set()

    def rows_of(self, name, slow):
        for index, (verdict, pattern, reason) in enumerate(self.rows):
            if verdict.startswith('slow=') == slow and fnmatch.fnmatchcase(name, pattern):
                self.used.add(index)
                yield verdict, reason.strip()

    def of(self, name):
        return next(self.rows_of(name, False), (None, None))

    def limit(self, case, usual_s):
        """Seconds of its next try."""
        limit_s = next((float(verdict[5:]) for verdict, reason in self.rows_of(case.name, True)), usual_s)
        return limit_s * (PATIENCE if case.tries else 1)

    def once_more(self, case):
        return case.verdict == 'hung' and case.tries == 1 and self.of(case.name)[0] not in ('hung', 'unsteady')


def report(suite, cases, expected):
    """TAP; True when all is as expected."""
    good, number, total = True, 0, {}
    for group in dict.fromkeys(case.group for case in cases):
        count, wrong = {}, []
        for case in (case for case in cases if case.group == group):
            verdict, reason = expected.of(case.name)
            kind = case.verdict if case.verdict in ('passed', 'skipped') else 'deviations'
            count[kind] = count.get(kind, 0) + 1
            total[case.verdict] = total.get(case.verdict, 0) + 1
            if kind == 'deviations' and verdict not in (case.verdict, 'unsteady'):
                wrong.append((case, 'not expected'))
            elif kind == 'passed' and verdict not in (None, 'unsteady'):
                wrong.append((case, 'expected: %s, since %s' % (verdict, reason)))
        for case, why in wrong:
            print('# %s: %s, %s' % (case.name, case.verdict, why))
            print(''.join('#     %s\n' % line for line in case.said), end='')
        number += 1
        good &= not wrong
        print('%sok %d - %s: %s: %s' % ('not ' if wrong else '', number, suite, group, ', '.join(
            '%d %s' % (count[kind], kind) for kind in sorted(count, reverse=True))), flush=True)
    for index, row in enumerate(expected.rows):
        if index not in expected.used:
            number, good = number + 1, False
            print('not ok %d - %s: nothing is called %s' % (number, suite, row[1]))
    tally = ', '.join('%d %s' % (total[kind], kind) for kind in sorted(total, reverse=True))
    print('# %s: %d cases: %s; %d s' % (suite, len(cases), tally, sum(case.seconds for case in cases)))
    print('1..%d' % number)
    return good and number > 0


def main():
    global verdicts
    parser = argparse.ArgumentParser(description='Runs a suite of others and compares its verdicts.')
    parser.add_argument('--limit', type=float, default=60, help='seconds of a case')
    parser.add_argument('--name', default='judge', help='of the suite')
    parser.add_argument('--ranks', type=int, default=6, help='more are skipped')
    parser.add_argument('--verdicts', help='a file to write them to')
    kinds = parser.add_subparsers(required=True)
    kind = kinds.add_parser('mpi')
    kind.add_argument('mpiexec')
    kind.add_argument('directory')
    kind.add_argument('expected')
    kind.add_argument('part', nargs='+')
    kind.set_defaults(run=run_mpi)
    kind = kinds.add_parser('list')
    kind.add_argument('file')
    kind.add_argument('expected')
    kind.set_defaults(run=run_list)
    kind = kinds.add_parser('unittest')
    kind.add_argument('command')
    kind.add_argument('expected')
    kind.set_defaults(run=run_unittest)
    kind = kinds.add_parser('gtest')
    kind.add_argument('program')
    kind.add_argument('expected')
    kind.add_argument('filter', nargs='+')
    kind.set_defaults(run=run_gtest)
    options = parser.parse_args()
    expected = Expected(options.expected)
    if options.verdicts:
        verdicts = open(options.verdicts, 'w', encoding='utf-8')
    cases = options.run(options, expected)
    return 0 if report(options.name, cases, expected) else 1


if __name__ == '__main__':
    sys.exit(main())
