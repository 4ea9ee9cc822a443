# SPDX-License-Identifier: BSD-2-Clause
"""The ways of data between two processes of one host (docs/decisions/0010): what runs on lo in the
default way, `auto`, runs in each other mode as well, in the long run. The quick run has those named
here: each operation over each connection, polling and sleeping, small and large."""
import re

import lab

# With this library memory of the programs is blocks, which peers map; without it `mapped` is `auto`.
PRELOAD = {'mapped': 'libverbatim-preload.so'}
NAMES = ('mapped', 'copy', 'ring', 'off')

QUICK = [
    'ib_send_bw -c RC -n 1000 -s 4096', 'ib_read_bw -e -n 500 -s 8192', 'ibv_rc_pingpong -g 1 -e -s 65536',
    'ibv_rc_pingpong -g 1 -s 4194304', 'ibv_uc_pingpong -g 1 -s 1024',
    'ibv_ud_pingpong -g 1 -e -s 1024', 'ibv_srq_pingpong -g 1 -s 1024', 'rping -S 65535', 'udaddy',
    'rstream -S 65536 -C 50 -I 4 -T a -T v', 'ucx_perftest tag_lat over rc_v',
    'verify rc_send -g 1', 'verify rc_pieces -g 1', 'verify rc_inline -g 1',
    'verify rc_write -g 1', 'verify rc_write_imm -g 1', 'verify rc_read -g 1',
    'verify rc_atomics -g 1', 'verify rc_mixed -g 1', 'verify uc_send -g 1',
    'verify uc_write_imm -g 1', 'verify ud_send -g 1', 'verify cq_events_pingpong -g 1',
    'verify srq_shared -g 1',
]

# They set a mode themselves, their packets are never those of this path, or they move no data.
APART = re.compile(r'with 1 % loss|in the trace|^mckey| -g -c UD |is refused|in one process|^cmtime'
                   r'|-C 0$')
# The same again from another address or by another set-up, or minutes of it.
AGAIN = re.compile(r'-[gx] 0\b|IPv6|GID 0|-f gid|_(lat|bw) -[Rz]|-D \d|-c U[CD] .*-a |-a .*-c U[CD]'
                   r'|every test|256 MiB|rc_two_gib|^72 ranks|^ucx_info|^QEMU|^Ceph')


def select(case):
    """A case of lo as one of these topologies has it, or None."""
    if APART.search(case.name) or AGAIN.search(case.name):
        return None
    case.quick = case.name in QUICK
    return case


def topologies(place):
    """Name and maker of each."""
    return {f'lo, memory {mode}': lambda m=mode: topology(place, m) for mode in NAMES}


def topology(place, mode):
    """lo, whose programs have the mode in their environment."""
    variables = {'VERBATIM_MEMORY': mode}
    if mode in PRELOAD:
        variables['LD_PRELOAD'] = PRELOAD[mode]
    return lab.loopback(place, variables=variables)
