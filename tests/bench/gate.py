#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What bench/run --gate and --goals decide, on made-up runs and counts, and what the gate builds from, in a
repository made for it. Nothing is measured."""
import argparse
import glob
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
sys.path[:0] = [os.path.join(ROOT, part) for part in ('bench', 'tests/netns')]
sys.dont_write_bytecode = True

import gate          # noqa: E402
import goals         # noqa: E402
import instructions  # noqa: E402
from lab import Failure  # noqa: E402
from samples import Series  # noqa: E402


class Verdict(unittest.TestCase):
    def test_idle(self):
        self.assertEqual(gate.verdict([], [], [], False)[0], gate.PASSED)
        for worse in (['a'], [], []), ([], ['b'], []), ([], [], ['c']):
            status, said = gate.verdict(*worse, False)
            self.assertEqual(status, gate.WORSE)
            self.assertIn((worse[0] + worse[1] + worse[2])[0], said)

    def test_on_a_busy_machine_only_instructions_count(self):
        for slower, unmeasured in ([], []), (['a'], []), ([], ['c']):
            status, said = gate.verdict(slower, [], unmeasured, True)
            self.assertEqual(status, gate.UNDECIDED)
            self.assertIn('times prove nothing', said)
        self.assertEqual(gate.verdict([], ['post'], [], True)[0], gate.WORSE)


class Rounds(unittest.TestCase):
    def judged(self, *rounds):
        """Is it worse, and after how many rounds? @rounds: runs of old and new; the last comes again."""
        old, new = Series('old', 'us'), Series('new', 'us')
        count = 0

        def measure():
            nonlocal count
            count += 1
            runs = rounds[min(count, len(rounds)) - 1]
            old.values += runs[0]
            new.values += runs[1]
        return gate.is_worse(old, new, measure), count

    def test_what_is_no_worse_is_run_once(self):
        self.assertEqual(self.judged(([1] * 10, [1] * 10)), (False, 1))

    def test_what_seems_worse_is_run_again_and_all_runs_count(self):
        self.assertEqual(self.judged(([1] * 10, [2] * 10)), (True, gate.ROUNDS))
        self.assertEqual(self.judged(([1] * 10, [2] * 10), ([1] * 10, [0.5] * 11)), (False, 2))
        self.assertEqual(self.judged(([1] * 10, [2] * 10), ([1] * 10, [0.5] * 9)), (False, 3))

    def test_without_results_nothing_is_worse(self):
        self.assertEqual(self.judged(([], [1])), (False, 1))


class Instructions(unittest.TestCase):
    TEXT = '''/some/build
  post       1 in a row:   600.0 instructions,  7.00 locked
  receive   16 in a row:   480.5 instructions, 11.00 locked, 1.00 polls
'''

    def test_what_request_cost_prints(self):
        self.assertEqual(instructions.parse(self.TEXT),
                         {'post, 1 in a row': 600.0, 'receive, 16 in a row': 480.5})

    def test_two_of_a_hundred_more_are_no_more(self):
        for now, more in ((510, []), (510.1, ['post']), (1, [])):
            self.assertEqual(instructions.compare({'post': 500}, {'post': now})[1], more)

    def compared(self, old, new):
        """Rows that take more, and how often each was counted; the last count stays."""
        counted = {'old': 0, 'new': 0}

        def counts(name, values):
            def count():
                counted[name] += 1
                return {'post': values[min(counted[name], len(values)) - 1]}
            return count
        more = instructions.compare_builds(counts('old', old), counts('new', new))[1]
        self.assertEqual(counted['old'], counted['new'])
        return more, counted['old']

    def test_what_is_more_is_counted_again(self):
        self.assertEqual(self.compared([500], [505]), ([], 1))
        self.assertEqual(self.compared([500], [700, 650, 500]), ([], 3))
        self.assertEqual(self.compared([700, 500], [690, 520]), ([], 1))
        self.assertEqual(self.compared([500], [700, 520]), (['post'], instructions.TRIES))

    def test_rows_of_one_side_are_said(self):
        lines, more = instructions.compare({'a': 1, 'b': 1}, {'b': 1, 'c': 9})
        self.assertEqual((len(lines), more), (3, []))
        self.assertIn('only before', lines[0])
        self.assertIn('only now', lines[2])


def row(goal, worst=None, more=False, limit=True):
    return goals.Row('key', 'work', 'lo', 'us', ('ours', None), ('limit', None) if limit else None,
                     goal, worst, more)


def result(made, ours, limit=None):
    series = Series('ours', 'us', made.more), Series('limit', 'us', made.more)
    series[0].values, series[1].values = list(ours), list(limit or [])
    return goals.Result(made, series[0], series[1] if limit is not None else None)


class Goals(unittest.TestCase):
    def test_ratio_to_the_neighbour(self):
        self.assertTrue(result(row(1.2, 1.6), [12, 24, 48], [10, 20, 40]).met())
        self.assertFalse(result(row(1.1, 1.6), [12, 24, 48], [10, 20, 40]).met())

    def test_a_goal_that_is_met_half_of_the_time_is_not_met(self):
        made = result(row(1.0, 1.3), [7.0] * 6 + [64.0] * 4, [10.0] * 10)
        self.assertFalse(made.met())
        self.assertIn('2 BIMODAL', made.cells())
        self.assertIn('median 0.7 <= 1 met; worst 6.4 <= 1.3 MISSED', made.verdict())

    def test_more_is_better(self):
        self.assertTrue(result(row(18, 14, True, False), [18, 19, 14]).met())
        self.assertFalse(result(row(18, 14, True, False), [18, 19, 13.9]).met())

    def test_no_worst(self):
        self.assertTrue(result(row(500, limit=False), [500]).met())
        self.assertEqual(result(row(500, limit=False), [500]).cells()[5:8], ['500', '-', ''])

    def test_no_result_is_missed(self):
        for made in result(row(1), [], []), result(row(1), [5], []), result(row(1, limit=False), []):
            self.assertFalse(made.met())
            self.assertIn('NO RESULT', made.cells())
            self.assertIn('MISSED', made.verdict())

    def test_lines_of_the_table_are_whole(self):
        made = [result(row(1.2, 1.6), [1], [1]), result(row(1), [], [])]
        lines = goals.table_of(made)
        self.assertEqual(len(lines), 3)
        self.assertIn('met', lines[1])

    def test_each_row_has_a_name_of_its_own(self):
        bench = argparse.Namespace(table=None, seconds=1)
        for task in goals.Goals(bench, None), gate.Gate(bench, None):
            names = task.names()
            self.assertEqual(len(names), len(set(names)))
            self.assertGreater(len(names), 15)


def comes_true(condition):
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def is_running(pid):
    try:
        with open(f'/proc/{pid}/stat') as stat:
            return stat.read().rsplit(') ', 1)[1][0] not in 'ZX'
    except OSError:
        return False


class Sources(unittest.TestCase):
    """A repository of two commits whose `make` prints and then copies."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = os.path.join(self.scratch.name, 'root')
        os.environ['TMPDIR'] = tempfile.tempdir = self.scratch.name
        self.addCleanup(setattr, tempfile, 'tempdir', None)
        self.addCleanup(os.environ.pop, 'TMPDIR')
        os.mkdir(self.root)
        self.git('init', '-q')
        self.write('Makefile', 'all:\n\t@mkdir -p build/lib && cp source build/lib/\n')
        self.write('.gitignore', 'build\n')
        for text in 'one', 'two':
            self.write('source', text)
            self.git('add', '-A')
            self.git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', text)

    def git(self, *words):
        subprocess.run(['git', '-C', self.root, *words], check=True)

    def write(self, name, text):
        with open(os.path.join(self.root, name), 'w') as file:
            file.write(text)

    def built(self, commit=''):
        """What the old and the new build have; the folder is gone behind it."""
        said, chosen = [], argparse.Namespace(base=None, lib=None)
        with gate.Builds(self.root, commit, chosen, said.append) as builds:
            texts = []
            for build in builds.old, builds.new:
                with open(os.path.join(build, 'lib', 'source')) as file:
                    texts.append(file.read())
        self.assertEqual(self.left(), [])
        return texts

    def left(self):
        return glob.glob(os.path.join(self.scratch.name, 'verbatim-gate-*'))

    def test_a_tree_without_changes_is_compared_with_the_commit_before(self):
        self.assertEqual(self.built(), ['one', 'two'])

    def test_a_tree_with_changes_is_compared_with_its_commit(self):
        self.write('source', 'three')
        self.assertEqual(self.built(), ['two', 'three'])

    def test_a_commit_by_name(self):
        self.write('source', 'three')
        self.assertEqual(self.built('HEAD~1'), ['one', 'three'])

    def test_the_tree_itself_is_not_built(self):
        self.built()
        self.assertFalse(os.path.exists(os.path.join(self.root, 'build')))

    def test_new_files_count_and_removed_ones_do_not(self):
        self.write('Makefile', 'all:\n\t@mkdir -p build/lib && cp new build/lib/source\n')
        self.write('new', 'four')
        os.unlink(os.path.join(self.root, 'source'))
        directory = os.path.join(self.scratch.name, 'copy')
        gate.copy_tree(self.root, directory)
        self.assertEqual(sorted(os.listdir(directory)), ['.gitignore', 'Makefile', 'new'])

    def test_no_such_commit(self):
        for wrong in 'nothing', '--all', 'HEAD~7':
            with self.assertRaises(Failure):
                self.built(wrong)
            self.assertEqual(self.left(), [])

    def test_a_build_that_is_interrupted_ends_and_leaves_nothing(self):
        path = os.path.join(self.scratch.name, 'pids')
        self.write('Makefile', f'all:\n\t@sh -c \'echo $$$$ $$PPID >{path}.new; mv {path}.new {path}; '
                   'exec sleep 3600\'\n')
        self.git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qam', 'three')

        class Interrupted(Exception):
            pass

        def interrupt(*_):
            raise Interrupted
        before = signal.signal(signal.SIGUSR1, interrupt)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        main = threading.get_ident()

        def waits_for_make():
            frame = sys._current_frames()[main]
            while frame and frame.f_code.co_name != 'communicate':
                frame = frame.f_back
            return frame and os.path.exists(path)

        def interrupt_the_build():
            if comes_true(waits_for_make):
                os.kill(os.getpid(), signal.SIGUSR1)
        threading.Thread(target=interrupt_the_build, daemon=True).start()
        with self.assertRaises(Interrupted):
            self.built('HEAD')
        with open(path) as file:
            for pid in file.read().split():
                self.assertTrue(comes_true(lambda pid=pid: not is_running(pid)), pid)
        self.assertEqual(self.left(), [])

    def test_what_does_not_build_is_said_and_leaves_nothing(self):
        self.write('Makefile', 'all:\n\t@echo it is broken; false\n')
        with self.assertRaisesRegex(Failure, 'it is broken'):
            self.built()
        self.assertEqual(self.left(), [])


unittest.main()
