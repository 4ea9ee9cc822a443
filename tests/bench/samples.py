#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The statistics of bench/run on made-up runs: modes, histogram, the worst quarter, the rule of the gate."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'bench'))
sys.dont_write_bytecode = True

from samples import Series, histogram, modes, ratios  # noqa: E402


def series(values, more=False):
    made = Series('made up', 'us', more)
    made.values = list(values)
    return made


class Modes(unittest.TestCase):
    def sizes(self, *values):
        for order in (values, values[::-1], values[1::2] + values[::2]):
            parts = modes(order)
            self.assertEqual(sorted(values), [value for part in parts for value in part])
        return [len(part) for part in parts]

    def test_equal_runs_are_one(self):
        self.assertEqual(self.sizes(*[5.0] * 10), [10])

    def test_noise_is_one(self):
        self.assertEqual(self.sizes(5.1, 5.0, 5.3, 4.9, 5.6, 5.2, 5.0, 5.4, 5.1, 5.2), [10])

    def test_a_lone_bad_run_is_none(self):
        self.assertEqual(self.sizes(*[5.0, 5.1, 5.2] * 3, 46.0), [10])

    def test_a_fifth_is_one(self):
        self.assertEqual(self.sizes(*[5.0, 5.1, 5.2, 5.3] * 2, 44.0, 46.0), [8, 2])
        self.assertEqual(self.sizes(*[5.0] * 18, 44.0, 45.0), [20])
        self.assertEqual(self.sizes(*[5.0] * 16, *[44.0] * 4), [16, 4])

    def test_write_lat_over_udp(self):
        self.assertEqual(self.sizes(5.05, 5.12, 6.33, 5.73, 28.1, 31.3, 36.0, 46.5, 42.0, 5.3), [5, 5])

    def test_sends_of_64_bytes(self):
        self.assertEqual(self.sizes(1.8, 1.9, 2.0, 1.8, 4.9, 5.2, 5.4, 5.3, 5.1, 1.95), [5, 5])

    def test_three(self):
        self.assertEqual(self.sizes(1.0, 1.02, 1.01, 2.0, 2.04, 2.03, 4.0, 4.1, 4.05, 4.0), [3, 3, 4])

    def test_a_wide_spread_without_a_gap_is_one(self):
        self.assertEqual(self.sizes(*range(1, 11)), [10])
        self.assertEqual(self.sizes(*(1.29 ** n for n in range(10))), [10])

    def test_states_that_touch_are_one(self):
        self.assertEqual(self.sizes(1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.7, 1.8, 1.9, 2.0), [10])
        self.assertEqual(self.sizes(*[1.0] * 5, *[1.2] * 5), [10])

    def test_a_gap_no_wider_than_the_noise_is_none(self):
        self.assertEqual(self.sizes(1.0, 1.1, 1.25, 1.4, 1.5, 2.0, 2.3, 2.6, 2.8, 3.0), [10])

    def test_few(self):
        self.assertEqual(modes([]), [[]])
        self.assertEqual(self.sizes(3.0), [1])
        self.assertEqual(self.sizes(3.0, 30.0), [2])
        self.assertEqual(self.sizes(3.0, 3.1, 30.0), [3])
        self.assertEqual(self.sizes(3.0, 3.1, 30.0, 31.0), [2, 2])

    def test_nothing_is_no_state(self):
        self.assertEqual(self.sizes(0.0, 0.0, 1.0, 1.0), [4])

    def test_what_is_said(self):
        self.assertEqual(series([5.0] * 5 + [40.0] * 5).say_modes(), 'BIMODAL: 5 at 5, 5 at 40')
        self.assertIn('BIMODAL', str(series([5.0] * 5 + [40.0] * 5)))
        self.assertEqual(series([1] * 3 + [2] * 3 + [4] * 3).say_modes(), '3 MODES: 3 at 1, 3 at 2, 3 at 4')
        self.assertNotIn('MOD', str(series([5.0, 5.1, 5.2, 5.3])))
        self.assertEqual(str(series([])), 'no result')


class Histogram(unittest.TestCase):
    def test_each_run_is_in_a_column(self):
        for values in ([1], [1, 1, 1], [5.0, 5.1, 5.6, 9.0], [1, 10, 100, 1e6], [1.1 ** n for n in range(30)]):
            drawn = histogram(values)
            self.assertEqual(sum(int(c) for c in drawn if c.isdigit()), len(values), drawn)
            self.assertLessEqual(len(drawn), 42)

    def test_columns(self):
        self.assertEqual(histogram([1.0] * 3 + [1.05]), '[4]')
        self.assertEqual(histogram([1.0, 1.0, 1.15, 1.5]), '[21..1]')
        self.assertEqual(histogram([1.0] * 12), '[#]')
        self.assertEqual(histogram([]), '')
        self.assertEqual(histogram([0.0, 1.0]), '')


class Worst(unittest.TestCase):
    def test_less_is_better(self):
        self.assertEqual(series(range(1, 11)).worst, 10)
        self.assertEqual(series(range(1, 11)).worst_quartile, 7.75)

    def test_more_is_better(self):
        self.assertEqual(series(range(1, 11), more=True).worst, 1)
        self.assertEqual(series(range(1, 11), more=True).worst_quartile, 3.25)

    def test_one_run(self):
        self.assertEqual(series([3]).worst_quartile, 3)


class Gate(unittest.TestCase):
    def test_the_median_is_held_against_the_worst_quarter(self):
        old = range(1, 11)
        for value, good in ((7.75, True), (7.76, False), (1, True)):
            self.assertEqual(series([value] * 10).is_no_worse(series(old)), good, value)
        for value, good in ((3.25, True), (3.24, False), (10, True)):
            self.assertEqual(series([value] * 10, True).is_no_worse(series(old, True)), good, value)

    def test_outliers_of_the_new_are_forgiven(self):
        self.assertTrue(series([1.0] * 6 + [90.0] * 4).is_no_worse(series([1.0] * 10)))
        self.assertFalse(series([1.0] * 4 + [90.0] * 6).is_no_worse(series([1.0] * 10)))


class Ratios(unittest.TestCase):
    def test_neighbours(self):
        made = ratios(series([2, 4, 9], True), series([1, 2, 3]))
        self.assertEqual((made.values, made.worst, made.median), ([2, 2, 3], 2, 2))


unittest.main()
