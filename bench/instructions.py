# SPDX-License-Identifier: BSD-2-Clause
"""What bench/request_cost counts: instructions of a request. On a busy machine a peer may sleep where
it does not on an idle one, and waking it adds to the count: the least of some runs is what is meant."""
import os
import re

from lab import Failure, call

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'request_cost')
ROW = re.compile(r'^ +(\w+) +(\d+) in a row: +([\d.]+) instructions', re.M)
MORE = 1.02                 # times those of before are no more than before
TRIES = 6                   # of a count that seems to be more


def parse(text):
    """Of the output for one build: {'post, 1 in a row': instructions}."""
    return {f'{work}, {batch} in a row': float(count) for work, batch, count in ROW.findall(text)}


def count(build):
    """Of a build directory, whose lib/ is of a release build."""
    found = parse(call([TOOL, build]))
    if not found:
        raise Failure(f'{TOOL} printed no rows')
    return found


def least(*counted):
    """Of several runs of one build."""
    return {name: min(one[name] for one in counted if name in one)
            for name in dict.fromkeys(name for one in counted for name in one)}


def compare_builds(count_old, count_new):
    """compare(), and again as long as there is a row that takes more: then it is no accident."""
    old, new = {}, {}
    for _ in range(TRIES):
        old, new = least(old, count_old()), least(new, count_new())
        lines, more = compare(old, new)
        if not more:
            break
    return lines, more


def compare(old, new):
    """Lines of a table, and the names of the rows that take more than before. A row that one of them
    does not have is said, and compared with nothing."""
    lines, worse = [], []
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in old or name not in new:
            lines.append(f'    {name:28s} only {"before" if name in old else "now"}')
            continue
        more = new[name] > MORE * old[name]
        worse += [name] * more
        lines.append(f'    {name:28s} {old[name]:8.1f} {new[name]:8.1f}  '
                     f'{100 * (new[name] / old[name] - 1):+6.1f} %{"  MORE" * more}')
    return lines, worse
