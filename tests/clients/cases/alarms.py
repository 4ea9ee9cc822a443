# SPDX-License-Identifier: BSD-2-Clause
"""Programs under a storm of signals (tests/clients/alarms.c): each call is interrupted at any instant of
it, the verify client's too (verify.py). Not here: what ends with EINTR after any
handler, as poll() does."""
import os

from harness import Case, words
from lab import Skip, run_pair
from meeting import Meeting

# Server, client; by the connection manager.
CONNECTED = (
    ('rping', 'rping -s -a {a} -p {p} -v -V', 'rping -c -a {a} -p {p} -v -V -C 300'),
    ('ucmatose', 'ucmatose -p {p} -c 20 -C 50', 'ucmatose -s {a} -p {p} -c 20 -C 50'),
    ('rdma_client', 'rdma_server -p {p}', 'rdma_client -s {a} -p {p}'),
    ('ib_write_bw -R', 'ib_write_bw -F -R -n 1000 -p {p}', 'ib_write_bw -F -R -n 1000 -p {p} {a}'),
)
PLAIN = ('ibv_rc_pingpong -g 1 -c -n 2000', 'ibv_rc_pingpong -g 1 -c -e -n 2000',
         'ibv_srq_pingpong -g 1 -c -e -n 500', 'ibv_ud_pingpong -g 1 -c -e -n 500 -s 1000',
         'ib_send_lat -F -e -n 2000', 'ib_read_bw -F -e -n 500', 'ib_atomic_bw -F -n 500')
QUICK = ('rping', 'ucmatose', 'ibv_srq_pingpong -g 1 -c -e -n 500', 'ib_read_bw -F -e -n 500')


def preloaded(topology):
    build = os.path.dirname(os.path.dirname(topology.client.lab.verify or ''))
    path = os.path.join(build, 'libalarms.so')
    if not os.path.exists(path):
        raise Skip('the library alarms is not built')
    return {'LD_PRELOAD': path}


def put_off(topology):
    """The same, with handlers that wait until calls end, as under verbatim run."""
    library = os.path.join(topology.client.lab.library or '/', 'libverbatim-preload.so')
    if not os.path.exists(library):
        raise Skip('no libverbatim-preload.so')
    return {'LD_PRELOAD': preloaded(topology)['LD_PRELOAD'] + ' ' + library}


def cases(topology):
    for name, server, client in CONNECTED:
        yield Case(f'{name} under signals', lambda s=server, c=client: Meeting(topology).run(
            s, c, timeout=60, env=preloaded(topology)) and None, topology.name == 'lo' and name in QUICK)
        yield Case(f'{name} under signals that wait', lambda s=server, c=client: Meeting(topology).run(
            s, c, timeout=60, env=put_off(topology)) and None, topology.name == 'lo' and name in QUICK)
    for command in PLAIN:
        yield Case(f'{command} under signals', lambda c=command: run_pair(
            topology, words(c), timeout=60, env=preloaded(topology)).check(),
            topology.name == 'lo' and command in QUICK)
        yield Case(f'{command} under signals that wait', lambda c=command: run_pair(
            topology, words(c), timeout=60, env=put_off(topology)).check(),
            topology.name == 'lo' and command in QUICK)
