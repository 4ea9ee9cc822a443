# SPDX-License-Identifier: BSD-2-Clause
"""ibv_{rc,uc,ud,srq}_pingpong of ibverbs-utils: polling and sleeping, each GID index, sizes from
one byte to 4 MiB (UD: to the path MTU). All with -c, their own check of the data."""
import contextlib
import re

from harness import Case, words
from lab import Failure, Skip, exact_limits, run_pair, unreliable

SIZES = [1, 2, 100, 1023, 1024, 1025, 4096, 65536, 1 << 20, 4 << 20]
KINDS = ('rc', 'uc', 'ud', 'srq')


def check_output(program, size, iterations):
    """The first line that a pingpong prints, with the amount of data it was asked to move."""
    text = program.text
    if 'invalid data' in text:
        raise Failure(f'wrong data:\n{program.tail()}')
    expected = f'{size * iterations * 2} bytes in '
    if not re.search(f'^{expected}', text, re.M):
        raise Failure(f'expected "{expected}...":\n{program.tail()}')


def pingpong(topology, kind, size, events, gid, iterations, timeout=60, extra=''):
    command = words(f'ibv_{kind}_pingpong -c -g', gid, '-s', size, '-n', iterations,
                    '-e' if events else None, extra)
    pair = run_pair(topology, command, timeout=timeout)
    if "isn't completion timestamp capable" in pair.text:
        raise Skip('the device has no completion timestamps')
    pair.check()
    for program in (pair.server, pair.client):
        check_output(program, size, iterations)
    return pair


def one(topology, kind, size, events, gid):
    iterations = iterations_for(size)
    # ibv_srq_pingpong counts messages of all its queue pairs, 16 by default: whoever has counted 10 ends while the
    # other's next ones are under way.
    extra = '-q 1' if kind == 'srq' and iterations < 16 else ''

    def run():
        pingpong(topology, kind, size, events, gid, iterations,
                 timeout=25 if kind in ('uc', 'ud') else 60, extra=extra)
    return unreliable(run) if kind in ('uc', 'ud') else run()


def sizes(topology, kind):
    if kind == 'ud':
        return sorted({s for s in SIZES if s < topology.mtu} | {topology.mtu})
    return SIZES


def iterations_for(size):
    return 1000 if size <= 4096 else 100 if size <= 65536 else 10


def is_quick(kind, size, events, gid):
    """A size of one packet for all, both extremes without -e, and big messages over GID 1."""
    return (gid, size, events) in ((0, 1024, True), (2, 1024, False), (1, 1, False), (1, 4096, True),
                                   (1, 65536, True), (1, 4 << 20, False))


def xrc(topology, options):
    """XRC: it says how much it moved, and does not look at it."""
    pair = run_pair(topology, words('ibv_xsrq_pingpong -g 1', options), timeout=60).check()
    if 'success' not in pair.client.text:
        raise Failure('no success\n' + pair.report())


def cases(topology):
    for kind in KINDS:
        for gid in topology.gids:
            for events in (False, True):
                for size in sizes(topology, kind):
                    name = f'ibv_{kind}_pingpong -g {gid}{" -e" if events else ""} -s {size}'
                    yield Case(name, lambda k=kind, s=size, e=events, g=gid: one(
                        topology, k, s, e, g), is_quick(kind, size, events, gid))
    for extra, name in (('-N', 'new post API'), ('-t', 'completion timestamps'),
                        ('-m 256', 'path MTU 256'), ('-r 10', 'ten receives')):
        yield Case(f'ibv_rc_pingpong {extra}: {name}',
                   lambda x=extra: pingpong(topology, 'rc', 4096, False, 1, 200, extra=x),
                   topology.name == 'lo')
    yield Case('ibv_srq_pingpong -q 1 -e', lambda: pingpong(
        topology, 'srq', 4096, True, 1, 500, extra='-q 1'), False)
    for extra in ('', ' -e', ' -s 100000 -n 200', ' -m 256'):
        yield Case(f'ibv_xsrq_pingpong{extra}', lambda x=extra: xrc(topology, x), not extra)
    for kind in KINDS:
        yield Case(f'ibv_{kind}_pingpong with 1 % loss', lambda k=kind: lossy(topology, k),
                   kind not in ('uc', 'ud') or kind == 'ud' and topology.name == 'lo')


def lossy(topology, kind):
    """RC ends with the same result; UC and UD may hang, but neither crash nor see wrong data."""
    size = 4096 if kind in ('rc', 'srq') else topology.mtu
    count = 500
    reliable = kind in ('rc', 'srq')
    with topology.loss(1) as dropped:
        try:
            with contextlib.nullcontext() if reliable else exact_limits():
                pair = run_pair(topology, words(f'ibv_{kind}_pingpong -c -g 1 -s', size, '-n', count),
                                timeout=60 if reliable else 4, grace=30 if reliable else 1)
        except Failure as hung:
            if reliable or not hasattr(hung, 'pair'):
                raise
            pair = hung.pair
        if not dropped():
            raise Failure('nothing was dropped: this proves nothing') if reliable else Skip(
                'nothing was dropped')
    for program in (pair.server, pair.client):
        if program.crashed() or 'invalid data' in program.text:
            raise Failure(f'{program.crashed()}\n{pair.report()}')
    if reliable:
        pair.check()
        check_output(pair.client, size, count)
