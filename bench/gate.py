# SPDX-License-Identifier: BSD-2-Clause
"""bench/run --gate [COMMIT]: is this tree slower than that commit? Both are built anew, the same way,
in a folder that goes again; each row is run on one and the other by turns. The rule for times: no
row's median is worse than the edge of the worst quarter of the old runs. With ten runs and a noise of
5 % that calls one row in seven worse where nothing has changed; so what seems worse is run again, up
to ROUNDS times, and all runs count: 1 in 500 then, and of rows that take 10 % more 99 in 100. For
instructions (bench/request_cost): none of the counts is more than 2 % above the old one. On a machine
that is not idle times prove nothing; instructions do."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

import instructions
import load
from goals import Goals
from inside import MBS, MPS, US
from lab import Failure, Skip
from peers import MIB
from samples import Series

PASSED, WORSE, UNDECIDED = 0, 1, 3      # exit status; 2 is wrong use
ROUNDS = 5


def verdict(slower, more, unmeasured, busy):
    """Names of rows whose times, whose counts got worse, that have no result; whether the machine was
    busy. The exit status, and a line that says why."""
    if more:
        return WORSE, f'WORSE: instructions of {"; ".join(more)}'
    if busy:
        return UNDECIDED, ('UNDECIDED: instructions are no more than before; the machine was not idle, so '
                           'times prove nothing' + (f' (slower: {"; ".join(slower)})' if slower else ''))
    if slower or unmeasured:
        said = [f'slower: {"; ".join(slower)}'] * bool(slower)
        said += [f'no result: {"; ".join(unmeasured)}'] * bool(unmeasured)
        return WORSE, 'WORSE: ' + ', '.join(said)
    return PASSED, 'PASSED: no row is slower, and none takes more instructions'


def is_worse(old, new, measure, rounds=ROUNDS):
    """Is @new worse than @old? measure() adds runs to both; again as long as it seems so."""
    for _ in range(rounds):
        measure()
        if not (old.values and new.values) or new.is_no_worse(old):
            return False
    return True


# ---- two builds ----

def git(root, *words):
    done = subprocess.run(['git', '-C', root, *words], capture_output=True, check=False)
    if done.returncode:
        raise Failure(f'git {" ".join(words)}: {done.stderr.decode().strip()}')
    return done.stdout


def commit_before(root):
    """What a tree is compared with by itself: its last commit, or the one before, where nothing has
    changed since."""
    return 'HEAD' if git(root, 'status', '--porcelain', '--untracked-files=no').strip() else 'HEAD~1'


def unpack(archive, directory):
    os.makedirs(directory)
    done = subprocess.run(['tar', '-x', '-C', directory], input=archive, capture_output=True,
                          check=False)
    if done.returncode:
        raise Failure(f'tar: {done.stderr.decode().strip()}')


def copy_commit(root, commit, directory):
    unpack(git(root, 'archive', commit), directory)


def copy_tree(root, directory):
    """The tree as it is, without what git ignores."""
    listed = git(root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard')
    names = [name for name in listed.split(b'\0')
             if name and os.path.lexists(os.path.join(os.fsencode(root), name))]
    done = subprocess.run(['tar', '-c', '-C', root, '--null', '-T', '-'], input=b'\0'.join(names),
                          capture_output=True, check=False)
    if done.returncode:
        raise Failure(f'tar: {done.stderr.decode().strip()}')
    unpack(done.stdout, directory)


def build(directory):
    """A release build, as `make` makes it; its build directory."""
    command = ['setpriv', '--pdeathsig', 'TERM', 'make', '-C', directory, 'all']
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as made:
        try:
            said, _ = made.communicate()
        except BaseException:                       # a signal: nobody goes on building
            os.killpg(made.pid, signal.SIGTERM)
            raise
    if made.returncode:
        raise Failure(f'{directory} does not build:\n{said[-2000:]}')
    return os.path.join(directory, 'build')


class Builds:
    """@old, @new: build directories, made in a folder that goes with the `with` block; with --base
    that one and --lib."""

    def __init__(self, root, commit, chosen, say):
        self.root, self.commit, self.chosen, self.say, self.scratch = root, commit, chosen, say, None

    def __enter__(self):
        try:
            if self.chosen.base:
                self.old, self.new = (os.path.dirname(os.path.abspath(one))
                                      for one in (self.chosen.base, self.chosen.lib))
                self.say(f'old: {self.old}; new: {self.new}')
            else:
                self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        commit = git(self.root, 'rev-parse', '--verify', '--end-of-options',
                     (self.commit or commit_before(self.root)) + '^{commit}').decode().strip()
        name = git(self.root, 'log', '-1', '--format=%h %s', commit).decode().strip()
        self.scratch = tempfile.mkdtemp(prefix='verbatim-gate-')
        os.chmod(self.scratch, 0o755)               # programs run as another user
        old, new = (os.path.join(self.scratch, one) for one in ('old', 'new'))
        copy_commit(self.root, commit, old)
        copy_tree(self.root, new)
        self.say(f'old: {name}; new: the tree as it is; both are built')
        self.old, self.new = build(old), build(new)

    def __exit__(self, *_):
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)


# ---- rows ----

class Gate:
    """@bench: the Bench of bench/run. @chosen: its options."""

    def __init__(self, bench, chosen):
        self.bench, self.table, self.chosen = bench, bench.table, chosen
        self.goals = Goals(bench, chosen)

    def rows(self):
        """(name, where, unit, more, function): our side of the goals that are times, and what else goes
        inside a host and over UDP."""
        found = {}
        for row in self.goals.rows:
            if not row.fixed and row.where != 'shaped':     # there the link decides
                name = f'{row.ours[0]}, {row.where}'
                found.setdefault(name, (name, row.where, row.unit, row.more, row.ours[1]))
        return list(found.values()) + self.inside_rows() + self.udp_rows()

    def names(self):
        return [row[0] for row in self.rows()]

    def inside_rows(self):
        count = self.goals.udp.count

        def perftest(at):
            return self.goals.inside(at).perftest

        def bandwidth(line, mode):
            return lambda at: perftest(at).bandwidth(line, mode)
        rows = [('ib_read_lat 2 B', US, lambda at: self.goals.latency(at, 'read')),
                ('ib_atomic_lat', US, lambda at: self.goals.latency(at, 'atomic')),
                ('ib_write_lat 2 B, copy', US,
                 lambda at: perftest(at).latency(f'ib_write_lat -s 2 -n {count(20000)}', 'copy')),
                ('ib_write_bw 8 B, list of 16', MPS,
                 lambda at: self.goals.messages(at, 'ib_write_bw -s 8 -l 16', 1e7))]
        for mode, times in ('mapped', 1), ('copy', 0.5):
            rows += [(f'ib_{verb}_bw 1 MiB, {mode}', MBS, bandwidth(
                f'ib_{verb}_bw -s {MIB} -N -n {count(5000 * times)}', mode))
                for verb in ('write', 'read', 'send')]
        rows += [('ib_write_bw 64 KiB, UC', MBS,
                  bandwidth(f'ib_write_bw -s 65536 -N -c UC -n {count(80000)}', 'mapped')),
                 ('ib_send_bw 4 KiB, UD', MBS,
                  bandwidth(f'ib_send_bw -s 4096 -N -c UD -n {count(300000)}', 'mapped'))]
        return [(name, 'lo', unit, unit != US, function) for name, unit, function in rows]

    def udp_rows(self):
        udp, count = self.goals.udp, self.goals.udp.count
        rows = [(f'UDP: {line}', MPS,
                 lambda at, line=line: udp.messages(at, f'{line} -F -N -n {count(1000000)}'))
                for line in ('ib_write_bw -s 8', 'ib_send_bw -s 64')]
        rows += [('UDP: WRITE to a passive target', US, lambda at: udp.passive(at, count(20000)))]
        return [(name, 'lo', unit, unit != US, function) for name, unit, function in rows]

    # ---- a run ----

    def round(self, row, series):
        """@series: of each build. Both by turns, and who is first by turns, too."""
        name, where, _, _, function = row
        topology = self.goals.placed(where)
        for n in range(self.chosen.repeats):
            for build in list(series)[::-1 if n % 2 else 1]:
                self.bench.place.library = os.path.join(build, 'lib')
                try:
                    series[build].values.append(function(topology))
                except (Failure, Skip) as why:
                    self.table.say(f'    {name}, {series[build].name}: {str(why).splitlines()[0]}')

    def times(self, builds, busy):
        """Rows that got slower, and those without a result on either side. @busy: once is enough."""
        slower, unmeasured = [], []
        with self.goals.stack:
            for row in self.rows():
                name, _, unit, more, _ = row
                if self.chosen.only and name not in self.chosen.only:
                    continue
                old, new = Series('old', unit, more), Series('new', unit, more)
                worse = is_worse(old, new, lambda row=row, series={builds.old: old, builds.new: new}:
                                 self.round(row, series), 1 if busy else ROUNDS)
                if not (old.values and new.values):
                    unmeasured.append(name)
                    self.table.say(f'{name}: NO RESULT')
                    continue
                slower += [name] * worse
                self.table.say(f'{name}: new/old {new.median / old.median:.2f}, {len(old.values)} runs'
                               f'{" SLOWER" * worse}\n    old {old}\n    new {new}; old worst quarter: '
                               f'from {old.worst_quartile:.4g}')
        return slower, unmeasured

    def instructions(self, builds):
        self.table.say('instructions of a request: old, new')
        lines, more = instructions.compare_builds(lambda: instructions.count(builds.old),
                                                  lambda: instructions.count(builds.new))
        for line in lines:
            self.table.say(line)
        return more

    def run(self, root):
        """Exit status."""
        with Builds(root, self.chosen.gate, self.chosen, self.table.say) as builds:
            more = self.instructions(builds)
            share, before = load.Share(), load.others_now()
            if before > load.BUSY:
                self.table.say(f'NOT IDLE, times prove nothing: {load.say_busy(before)}')
            begin = time.monotonic()
            slower, unmeasured = self.times(builds, before > load.BUSY)
            meanwhile = share.others()
            self.table.say(f'{time.monotonic() - begin:.0f} s; meanwhile {load.say_busy(meanwhile)}')
        status, said = verdict(slower, more, unmeasured, max(before, meanwhile) > load.BUSY)
        self.table.say(said)
        return status
