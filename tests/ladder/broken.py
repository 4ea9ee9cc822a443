#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""broken.py VERBATIM TRACE.pcapng: the trace cut off, and with bytes changed.

`verbatim ladder` makes a page of what is whole, or says why not, and never crashes or hangs."""
import random
import subprocess
import sys

CUTS, CHANGES = 40, 80


def broken(whole):
    """By the same numbers each time."""
    chance = random.Random(1)
    for step in range(CUTS):
        yield whole[:len(whole) * step // CUTS]
    for _ in range(CHANGES):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        yield bytes(data)


def main():
    verbatim, trace = sys.argv[1:]
    with open(trace, 'rb') as file:
        whole = file.read()
    pages = 0
    for number, data in enumerate(broken(whole)):
        with open('broken.pcapng', 'wb') as file:
            file.write(data)
        made = subprocess.run([verbatim, 'ladder', 'broken.pcapng', '-o', 'broken.html'], capture_output=True,
                              timeout=300, check=False)
        assert made.returncode in (0, 1), 'variant %d of %d bytes: %r' % (number, len(data), made)
        assert made.returncode == 0 or made.stderr, 'variant %d: no reason is given' % number
        pages += made.returncode == 0
    print('%d pages of %d broken traces' % (pages, CUTS + CHANGES))
    assert pages > CUTS, 'what is whole makes no page'


if __name__ == '__main__':
    main()
