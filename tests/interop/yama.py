# SPDX-License-Identifier: BSD-2-Clause
"""ptrace_scope 1 of Yama, which several distributions have: two processes of one user, neither of
them the other's ancestor, may not copy from each other. Data goes through rings, and blocks are
mapped all the same; the counters of both ends tell which it was."""
import contextlib
import os
import re
import tempfile

import lab
from harness import words
from lab import Failure, Skip, run_pair

SCOPE = '/proc/sys/kernel/yama/ptrace_scope'
TESTS = ('rc_send', 'rc_write', 'rc_read', 'rc_write_imm', 'rc_atomics', 'rc_mixed', 'rc_stream')
# They have WRITEs with immediate data too: messages, which count as WRITEs without packets.
WITH_MESSAGES = ('rc_write_imm', 'rc_mixed', 'rc_stream')
# Not nobody, 65534: that is also how users look who are not known here, and there only a ptrace
# check shows that it is the same one.
USER = 1000
# Ordinary memory and memory that peers can map: options of verify, environment.
KINDS = {'ordinary memory': ('', {'VERBATIM_MALLOC': 'private'}),
         'blocks': ('--aligned', {})}


@contextlib.contextmanager
def scope_of_one():
    """Skips where there is no Yama, or it cannot be told."""
    try:
        with open(SCOPE) as file:
            before = file.read()
        with open(SCOPE, 'w') as file:
            file.write('1')
    except OSError as why:
        raise Skip(f'{SCOPE}: {why.strerror}')
    try:
        yield
    finally:
        with open(SCOPE, 'w') as file:
            file.write(before)


def counters(program):
    return {name: int(value) for name, value in re.findall(r'^# (\w+) (\d+)$', program.text, re.M)}


def judge(pair, kind, test):
    """Each end shares memory with the other and may not copy; it reached blocks, or nothing."""
    direct = {}
    for program in (pair.server, pair.client):
        seen = counters(program)
        # Refused only by who shares memory; in a slow guest not at the first try (memory_refused).
        if not seen.get('direct_refused'):
            raise Failure(f'copies are allowed, or no memory is shared: {seen}\n{pair.report()}')
        for name in ('direct_writes', 'direct_reads', 'direct_atomics', 'mapped_regions'):
            if name != 'direct_writes' or test not in WITH_MESSAGES:
                direct[name] = direct.get(name, 0) + seen.get(name, 0)
    # A request of no bytes needs no memory: the first of each end may be executed in the peer.
    if kind == 'ordinary memory' and any(value > (0 if name == 'mapped_regions' else 2)
                                         for name, value in direct.items()):
        raise Failure(f'not through rings: {direct}\n{pair.report()}')
    return direct


def log_directory():
    directory = tempfile.mkdtemp(prefix='verbatim-yama-')
    os.chmod(directory, 0o755)
    return directory


def run(library, verify, kind):
    options, more = KINDS[kind]
    place = lab.Lab(library, log_directory())
    topology = lab.loopback(place, USER, variables={'LD_PRELOAD': 'libverbatim-preload.so', **more})
    total = {}
    try:
        for test in TESTS:
            pair = run_pair(topology, words(verify, f'--counters -t ^{test}$', options)).check()
            for name, value in judge(pair, kind, test).items():
                total[name] = total.get(name, 0) + value
    finally:
        topology.close()
    if kind == 'blocks' and not all(total.values()):
        raise Failure(f'nothing of some kind went to blocks: {total}')
    return ', '.join(f'{name} {value}' for name, value in total.items())


def case(library, verify, kind):
    with scope_of_one():
        return run(library, verify, kind)


def cases(library, verify):
    """Name and function of each."""
    for kind in KINDS:
        yield f'Yama: {kind}', lambda k=kind: case(library, verify, k)
