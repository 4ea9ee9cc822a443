# SPDX-License-Identifier: BSD-2-Clause
"""What the scripts of tests/abi share: one TAP line for each test, and the exit status."""
import sys


class Tap:
    def __init__(self):
        self.count, self.failed = 0, 0

    def test(self, name, problems):
        """A test passed when its list of problems is empty."""
        self.count += 1
        problems = list(problems)
        for problem in problems:
            print('#', problem)
        print('%sok %d - %s' % ('not ' if problems else '', self.count, name), flush=True)
        self.failed += bool(problems)

    def skip(self, name, reason):
        self.count += 1
        print('ok %d - %s # SKIP %s' % (self.count, name, reason), flush=True)

    def end(self):
        print('1..%d' % self.count)
        sys.exit(1 if self.failed else 0)
