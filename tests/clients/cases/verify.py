# SPDX-License-Identifier: BSD-2-Clause
"""The data-checking client of tests/clients/verify, server and client, per test of its list."""
import re
import subprocess

from cases import alarms
from harness import Case, words
from lab import Failure, Skip, run_pair


# Of those with losses, and in one process, what make check runs; of those that are interrupted all the time.
LOSSY = ('rc_pieces', 'rc_mixed', 'rc_atomics', 'rc_stream', 'srq_shared')
ALARMED = ('rc_stream', 'rc_read', 'ud_send')


def listed(binary, env):
    """Names of its tests, with the words behind them (long, lossless, local)."""
    out = subprocess.run([binary, '--list'], capture_output=True, text=True, env=env, timeout=300)
    return [line.split() for line in out.stdout.splitlines()]


def verify(topology, test, options='', timeout=60, env=None, users=(None, None)):
    binary = topology.client.lab.verify
    if topology.client.variables.get('VERBATIM_MEMORY') == 'mapped':
        options += ' --aligned'         # only such memory can be
    pair = run_pair(topology, words(binary, '-t', f'^{test}$', options), timeout=timeout, env=env,
                    users=users)
    for program in (pair.server, pair.client):
        if skipped := re.search(r'^ok .* # SKIP (.*)', program.text, re.M):
            raise Skip(skipped[1])
    pair.check()
    if not re.search(r'^ok 1 ', pair.client.text, re.M):
        raise Failure('no result\n' + pair.report())


def lossy(topology, test, options):
    with topology.loss(1) as dropped:
        verify(topology, test, options, timeout=90)
        if not dropped():
            raise Skip('nothing was dropped')


def local(topology, test, timeout=60):
    """Both ends in one process (two threads), over the loopback of the device."""
    binary = topology.client.lab.verify
    command = words(binary, '--local -g 1 -t', f'^{test}$')
    with topology.client.start(command) as program:
        code = program.wait(timeout)
        if code != 0:
            raise Failure(f'exit status {code}\n{program.tail(30)}')


def not_built():
    raise Skip('the verify program is not built')


def cases(topology):
    lab = topology.client.lab
    if not lab.verify:
        yield Case('verify', not_built, True)
        return
    tests = listed(lab.verify, lab.env())
    for name, *tags in tests:
        long = 'long' in tags
        for gid in topology.gids:
            yield Case(f'verify {name} -g {gid}',
                       lambda n=name, g=gid, w=300 if long else 60: verify(
                           topology, n, f'-g {g}', timeout=w),
                       not long and gid == 1 and (topology.name == 'lo' or
                                                  topology.name == 'veth1500' and name in LOSSY))
        if not long and 'lossless' not in tags:
            yield Case(f'verify {name} with 1 % loss',
                       lambda n=name: lossy(topology, n, '-g 1'),
                       topology.name == 'veth1500' and name in LOSSY)
        if topology.name in ('lo', 'veth1500') and not long:
            yield Case(f'verify {name} under signals',
                       lambda n=name: verify(topology, n, '-g 1', timeout=90, env=alarms.preloaded(topology)),
                       topology.name == 'lo' and name in ALARMED)
        if topology.name == 'lo' and not long:
            yield Case(f'verify {name} in one process', lambda n=name: local(topology, n), name in LOSSY)
