# SPDX-License-Identifier: BSD-2-Clause
"""What repeated runs of one thing measured, and what can be said of it: median, worst, modes.
Nothing here measures; tests/bench/samples.py has made-up samples.

**A mode** is a state in which a part of the runs was. Sorted by size, the runs are cut wherever one
is more than STEP times the run below. Then, the smallest jump first, two neighbours become one again
as long as one of them has fewer than a fifth of the runs (or fewer than two), or the jump between
them is not APART times as wide as each of them is by itself, on a logarithmic scale. What is left are
modes. So a lone bad run is no mode (it is the worst, which has a goal of its own), nor is a wide
spread without a gap; runs at 5 us with some at 30 us are two. Of ten runs that are spread evenly from
1 to 10, it takes one set in twenty for several modes; of two states a factor of 1.5 apart, each with
a noise of 3 %, it finds both in 49 of 50."""
import math
import statistics

STEP = 1.25
LEAST_PART = 0.2
APART = 1.5
BIN = 1.1                           # of the histogram: from one column to the next
COLUMNS = 40


def modes(values):
    """The runs of each mode, sorted; a list of one list where there are no several. Values are positive."""
    values = sorted(values)
    if not values or values[0] <= 0:
        return [values]
    parts = [[values[0]]]
    for below, value in zip(values, values[1:]):
        if value > STEP * below:
            parts.append([])
        parts[-1].append(value)
    least = max(2, math.ceil(LEAST_PART * len(values)))

    def jump(i):
        return parts[i + 1][0] / parts[i][-1]

    def is_one(i):
        both = parts[i:i + 2]
        return min(map(len, both)) < least or jump(i) <= max(part[-1] / part[0] for part in both) ** APART
    while joined := [i for i in range(len(parts) - 1) if is_one(i)]:
        i = min(joined, key=jump)
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def histogram(values):
    """Runs by size: a column for each tenth more, with the runs it has; # are ten and more."""
    values = sorted(values)
    if not values or values[0] <= 0:
        return ''
    wide = max(math.log(BIN), math.log(values[-1] / values[0]) / (COLUMNS - 1))
    counts = [0] * (1 + int(math.log(values[-1] / values[0]) / wide + 1e-9))
    for value in values:
        counts[min(int(math.log(value / values[0]) / wide + 1e-9), len(counts) - 1)] += 1
    return '[' + ''.join('.' if not n else str(n) if n < 10 else '#' for n in counts) + ']'


class Series:
    """What repeated runs of one thing measured. @more: is more better?"""

    def __init__(self, name, unit, more=False):
        self.name, self.unit, self.more, self.values = name, unit, more, []

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def worst(self):
        return (min if self.more else max)(self.values)

    @property
    def worst_quartile(self):
        """The edge of the worst quarter of the runs."""
        if len(self.values) < 2:
            return self.median
        return statistics.quantiles(self.values, n=4, method='inclusive')[0 if self.more else 2]

    @property
    def modes(self):
        return len(modes(self.values))

    def say_modes(self):
        """Nothing where there is one mode."""
        parts = modes(self.values)
        if len(parts) < 2:
            return ''
        name = {2: 'BIMODAL'}.get(len(parts), f'{len(parts)} MODES')
        return f'{name}: ' + ', '.join(f'{len(part)} at {statistics.median(part):.4g}'
                                       for part in parts)

    def __str__(self):
        if not self.values:
            return 'no result'
        said = (f'{self.median:.5g} {self.unit} ({min(self.values):.5g} .. '
                f'{max(self.values):.5g})')
        if len(self.values) > 2:
            said += f' {histogram(self.values)}'
        return f'{said} {self.say_modes()}'.rstrip()

    def is_no_worse(self, than):
        """The rule of the gate: is the median within the worst quarter's edge of the other's runs?"""
        edge = than.worst_quartile
        return self.median >= edge if self.more else self.median <= edge


def ratios(ours, limit, unit='x'):
    """Of each run and the run of the limit that was its neighbour."""
    out = Series(f'{ours.name} / {limit.name}', unit, ours.more)
    out.values = [a / b for a, b in zip(ours.values, limit.values)]
    return out
