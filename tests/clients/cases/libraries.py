# SPDX-License-Identifier: BSD-2-Clause
"""Libraries above verbs: libfabric with its fi_pingpong, gloo, librpma, and the way in which NCCL loads
libibverbs; UCX is in ucx.py."""
import contextlib
import errno
import re
import time

from cases.middleware import both, built, finish, folder, need, under_verbatim
from harness import Case, words
from lab import PATIENCE, PORTS, Failure

# Endpoint types of libfabric, and the provider that has them.
ENDPOINTS = {'msg': 'verbs', 'rdm': 'verbs;ofi_rxm', 'dgram': 'verbs'}


def fi_pingpong(topology, endpoint, size):
    need('fi_pingpong')
    port = next(PORTS)
    options = words('-p', ENDPOINTS[endpoint], '-e', endpoint, '-I 200 -c', '-S', size)
    server, client = (under_verbatim(end) + ['fi_pingpong'] for end in (topology.server, topology.client))
    for number in range(3):
        try:
            texts = both(topology, server + options + words('-B', port),
                         client + options + words('-P', port, topology.server.address), port)
            break
        except Failure as why:
            # All is over, but the slower end saw its peer leave before its last message was acknowledged.
            if number == 2 or not re.search(rf'exit status {errno.ECANCELED}\b', str(why)) \
                    or not re.search(' =200 ', str(why)):
                raise
    rows = [line for line in texts[1].splitlines() if '=200' in line]
    if not rows:
        raise Failure(f'no row of results:\n{texts[1][-2000:]}')
    return f'{rows[-1].split()[-2]} us'


def fabric(topology, endpoint):
    """Between hosts, too: a program of ours."""
    server, client = topology.server, topology.client
    program = built(server, 'fabric_verify.c', 'gcc', '-lfabric')
    with server.start(under_verbatim(server) + [program] + words(endpoint, 'server', server.address)) as one:
        until = time.monotonic() + 15 * PATIENCE
        while not (port := re.search(r'^port (\d+)$', one.text, re.M)):
            if not one.alive() or time.monotonic() > until:
                raise Failure(f'the server does not listen:\n{one.tail()}')
            time.sleep(0.05)
        with client.start(under_verbatim(client) + [program] + words(endpoint, 'client', server.address,
                                                                     port[1])) as two:
            if '200 blocks: right' not in finish(two, 30):
                raise Failure(f'no result\n{two.tail()}')
        finish(one, 10)


def gloo(topology, ranks):
    """Rank 0 on the server's end, the others on the client's."""
    program = built(topology.server, 'gloo_allreduce.cc', 'g++', '-lgloo', '-libverbs')
    meeting = folder(topology.server, 'gloo')
    with contextlib.ExitStack() as stack:
        running = []
        for rank in range(ranks):
            end = topology.client if rank else topology.server
            running.append(stack.enter_context(end.start(under_verbatim(end) + [program] + words(
                rank, ranks, meeting, end.device, 1))))
        for rank, one in enumerate(running):
            if f'rank {rank}: right' not in finish(one, 40):
                raise Failure(f'rank {rank}: no result\n{one.tail()}')


def rpma(topology):
    program = built(topology.server, 'rpma_verify.c', 'gcc', '-lrpma', '-libverbs')
    port, address = next(PORTS), topology.server.address
    both(topology, under_verbatim(topology.server) + [program] + words('server', address, port),
         under_verbatim(topology.client) + [program] + words('client', address, port), port, served=1)


def loader(topology):
    end = topology.server
    program = built(end, 'net_loader.c', 'gcc', '-D_GNU_SOURCE', '-ldl')
    with end.start(under_verbatim(end) + [program, end.device]) as running:
        return finish(running, 30).splitlines()[-1]


def cases(topology):
    if getattr(topology, 'reference', False):
        return
    # Its server is bound to localhost where it is connected to; datagrams go to the first device's address.
    for endpoint in ENDPOINTS if topology.name == 'lo' else ('dgram',):
        for size in (64, 4096) if endpoint == 'dgram' else (64, 1048576):
            if endpoint != 'dgram' or size < topology.mtu:
                yield Case(f'fi_pingpong {endpoint} {size}', lambda e=endpoint, s=size: fi_pingpong(
                    topology, e, s), size == 64 and topology.name == 'lo')
    for endpoint in 'msg', 'rdm':
        yield Case(f'libfabric {endpoint}', lambda e=endpoint: fabric(topology, e), False)
    for ranks in (2, 4):
        yield Case(f'gloo over ibverbs, {ranks} ranks', lambda r=ranks: gloo(topology, r), False)
    yield Case('librpma: write, flush, atomic write, read', lambda: rpma(topology), False)
    yield Case('libibverbs loaded as NCCL does', lambda: loader(topology), topology.name == 'lo')
