# SPDX-License-Identifier: BSD-2-Clause
"""python3-pyverbs between two of our own processes: tests/interop/ops.py, every operation and
refusal both ways. The same script runs against the kernel's rxe in the guest."""
import os
import re

import lab
from harness import Case, words
from lab import Failure

OPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'interop', 'ops.py')


def operations(topology, gid, mtu):
    port = next(lab.PORTS)
    server, client = topology.server, topology.client
    script = words('/usr/bin/python3', os.path.normpath(OPS))
    with server.start(script + words(server.device, gid, mtu, port)) as one:
        server.wait_listening(port, one)
        with client.start(script + words(client.device, gid, mtu, port, server.address)) as two:
            two.wait(60)
            bad = re.findall(r'^not ok .*\n(?:#.*\n)*', two.text, re.M)
            if bad or two.code != 0:
                raise Failure(f'exit status {two.code}\n{"".join(bad[:10]) or two.tail()}\n'
                              f'the other end:\n{one.tail()}')
            return f'{len(re.findall("^ok", two.text, re.M))} operations'


def cases(topology):
    for gid in topology.gids:
        for mtu in (256, 1024, 4096):
            if mtu <= topology.mtu:
                yield Case(f'pyverbs: every operation, GID {gid}, path MTU {mtu}',
                           lambda g=gid, m=mtu: operations(topology, g, m),
                           mtu == topology.mtu and gid != 0 and topology.name != 'veth9000')
