# SPDX-License-Identifier: BSD-2-Clause
"""Is the machine idle? What other programs, and other guests of its host, took of the processors."""
import os
import time

BUSY = 0.05
LOOK_S = 2


def processors_used_s():
    """By all programs of the machine, and by those of ours that have ended; interrupts are nobody's."""
    with open('/proc/stat', encoding='ascii') as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]]
    ours = os.times()
    user, nice, system, stolen = ticks[0], ticks[1], ticks[2], ticks[7]
    return ((user + nice + system + stolen) / os.sysconf('SC_CLK_TCK'),
            ours.user + ours.system + ours.children_user + ours.children_system)


class Share:
    """Which part of the processors did others have since this was made? Ask when ours have ended."""

    def __init__(self):
        self.begin, self.used = time.monotonic(), processors_used_s()

    def others(self):
        everybody, ours = (now - then for now, then in zip(processors_used_s(), self.used))
        return max(0, everybody - ours) / (os.cpu_count() * max(time.monotonic() - self.begin, 0.01))


def others_now():
    """While nothing of ours runs."""
    share = Share()
    time.sleep(LOOK_S)
    return share.others()


def say_busy(part):
    return (f'other programs have {100 * part:.0f} % of the processors '
            f'({100 * BUSY:.0f} % is idle enough)')
