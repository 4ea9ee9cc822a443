# SPDX-License-Identifier: BSD-2-Clause
"""perftest: send, write, read and atomic, latency and bandwidth, with the options that change what
the library has to do. A run passes when both ends exit with 0 and print a row for each size."""
import contextlib
import glob
import math
import os
import re

from harness import Case, words
from lab import PORTS, Failure, Pair, Skip, exact_limits, run_pair, unreliable

OPS = ('send', 'write', 'read', 'atomic')
CONNECTIONS = {'send': ('RC', 'UC', 'UD', 'XRC'), 'write': ('RC', 'UC', 'XRC'), 'read': ('RC', 'XRC'),
               'atomic': ('RC', 'XRC')}
FIGURE = r'([\d.]+|-?inf|-?nan)'
# Latency with -D has two figures: mean, and rate.
ROW = re.compile(rf'^ *(\d+) +(\d+) +{FIGURE} +{FIGURE}(?:[ \t]+{FIGURE})?', re.M)
# perftest measures the rate of its clock for each row. Where other processes disturb that it says so,
# and the figures of the row, but nothing else, are infinite or zero.
UNMEASURED = 'Correlation coefficient'
# Its XRC domains: files that it creates and leaves, which no other user can open.
XRC_FILES = '/tmp/xrc_domain*'


def group(gid):
    """Options for a group that a packet with this source can reach. What perftest takes without
    -M is an interface-local address, which never leaves a machine."""
    groups = {0: '255:18:0:0:0:0:0:0:0:0:0:0:0:0:77:1', 2: '255:21:0:0:0:0:0:0:0:0:0:0:0:0:77:1',
              1: '0:0:0:0:0:0:0:0:0:0:255:255:239:77:77:1'}
    return f'-x {gid} -M {groups[gid]}'


def rows(text):
    """The result rows: size, iterations, then figures."""
    return [(int(r[0]), int(r[1]), *(float(figure) for figure in r[2:] if figure))
            for r in ROW.findall(text)]


def expect_rows(pair, sizes):
    found = rows(pair.client.text)
    if [r[0] for r in found] != list(sizes):
        raise Failure(f'rows for sizes {[r[0] for r in found]}, expected {list(sizes)}\n'
                      + pair.report())
    # 0.00 MB/s is what a pause of 20 ms makes of 50 messages of 2 bytes: then the rate is not 0.
    if any(not 0 < max(r[3:]) < math.inf for r in found) and UNMEASURED not in pair.client.text:
        raise Failure('a figure of zero, or none\n' + pair.report())


def all_sizes(topology, connection):
    """-a: powers of two from 2 up to 8 MiB, or to the path MTU for UD."""
    top = topology.mtu if connection == 'UD' else 8 << 20
    return [1 << n for n in range(1, 24) if 1 << n <= top]


def one(topology, tool, options, sizes=None, timeout=100, env=None):
    """Run one pair of @tool with @options (a string or a list)."""
    text = options if isinstance(options, str) else ' '.join(options)
    if re.search('-c U[CD]', text):
        return unreliable(lambda: reliable(topology, tool, options, sizes, timeout / 2, env))
    return reliable(topology, tool, options, sizes, timeout, env)


def forget_xrc_domains():
    for name in glob.glob(XRC_FILES):
        with contextlib.suppress(OSError):
            os.unlink(name)


def reliable(topology, tool, options, sizes, timeout, env):
    forget_xrc_domains()
    command = words(tool, '-F', *(options if isinstance(options, list) else [options]))
    pair = run_pair(topology, command, timeout=timeout, env=env).check()
    if sizes:
        expect_rows(pair, sizes)
    elif not rows(pair.client.text):
        raise Failure('no result row\n' + pair.report())


def basic(topology):
    """Every tool, every connection type it has."""
    for op in OPS:
        for kind in ('lat', 'bw'):
            for connection in CONNECTIONS[op]:
                # without flow control a receiver can be overrun: all receives posted beforehand
                count = 300 if connection == 'UD' and kind == 'bw' else 1000
                size = 8 if op == 'atomic' else min(4096, topology.mtu)
                options = words('-c', connection, '-n', count,
                                None if op == 'atomic' else f'-s {size}')
                quick = connection == 'RC' or topology.name == 'lo' and op == 'send'
                yield f'ib_{op}_{kind}', options, [size], quick


def everything(topology):
    """-a, every size that a tool has. perftest takes its clock anew for each, up to 20 s in all: one is quick."""
    for op in ('send', 'write', 'read'):
        for kind in ('lat', 'bw'):
            for connection in CONNECTIONS[op]:
                quick = connection == 'RC' and op == 'write' and kind == 'bw' and topology.name == 'lo'
                yield (f'ib_{op}_{kind}', words('-a -n 50 -c', connection),
                       all_sizes(topology, connection), quick)


def variants(topology):
    """The options one at a time."""
    for op in OPS:
        bw, lat = f'ib_{op}_bw', f'ib_{op}_lat'
        size = '' if op == 'atomic' else '-s 8192'
        # ib_write_bw measures its clock for a second first.
        yield bw, f'-q 16 -n 200 {size}', None, op != 'write'
        yield bw, f'-b -n 500 {size}', None, op != 'write'
        yield bw, f'-b -q 16 -n 100 {size}', None, False
        yield bw, f'-l 8 -n 400 {size}', None, False
        yield bw, f'-Q 1 -t 16 -n 400 {size}', None, False
        if op != 'write':                   # it has no -e: a target is told nothing
            yield bw, f'-e -n 500 {size}', None, True
            yield lat, f'-e -n 500 {"-s 64" if size else ""}', None, True
        if op in ('send', 'write'):
            for inline in (0, 64):
                yield lat, f'-I {inline} -s 64 -n 500', [64], inline == 64
                yield bw, f'-I {inline} -s 64 -n 1000', [64], inline == 64 and op == 'send'
        for mtu in (256, 512, 1024, 2048, 4096):
            if mtu <= topology.mtu and op != 'atomic':
                yield bw, f'-m {mtu} -s 65536 -n 200', [65536], False
                yield lat, f'-m {mtu} -s 10000 -n 200', [10000], mtu in (256, topology.mtu) and op == 'write'
        for gid in topology.gids:
            yield lat, f'-x {gid} -n 300', None, op == 'send'
        yield lat, '-D 1', None, False
    for kind in ('CMP_AND_SWAP', 'FETCH_AND_ADD'):
        yield 'ib_atomic_lat', f'-A {kind} -n 500', [8], True
        yield 'ib_atomic_bw', f'-A {kind} -n 500', [8], False
    yield 'ib_send_bw', '--use-srq -q 4 -n 200 -r 1024 -s 4096', None, True
    yield 'ib_send_bw', '-c UC -q 16 -n 100 -s 1024', None, False
    yield 'ib_send_bw', '--use_old_post_send -n 500', None, True
    yield 'ib_write_bw', '-D 2 -s 65536', [65536], False
    yield 'ib_write_bw', '--odp -n 200', None, False
    for gid in topology.gids if topology.name != 'lo' else [1, 2]:      # multicast
        yield 'ib_send_bw', f'-g -c UD -n 200 -s 1000 {group(gid)}', [1000], True
        yield 'ib_send_lat', f'-g -c UD -n 200 -s 64 {group(gid)}', [64], False


LOSSY = [('ib_send_lat', '-n 1000'), ('ib_send_bw', '-n 1000 -s 65536'),
         ('ib_write_lat', '-n 1000'), ('ib_write_bw', '-n 1000 -s 65536'),
         ('ib_read_lat', '-n 1000'), ('ib_read_bw', '-n 500 -s 65536'),
         ('ib_atomic_lat', '-n 1000'), ('ib_atomic_bw', '-n 1000'),
         ('ib_write_bw', '-q 16 -n 100 -s 65536'), ('ib_send_bw', '-b -n 500 -s 65536'),
         ('ib_send_bw', '-e -n 500 -s 65536'), ('ib_send_bw', '-a -n 20'),
         ('ib_write_bw', '-m 256 -n 200 -s 65536'), ('ib_send_bw', '-c XRC -n 500 -s 65536'),
         ('ib_write_bw', '-c XRC -q 4 -n 200 -s 65536'), ('ib_read_lat', '-c XRC -n 500')]
LOSSY_UNRELIABLE = [('ib_send_lat', '-c UD -n 2000'), ('ib_send_bw', '-c UD -n 2000 -s 1024'),
                    ('ib_send_lat', '-c UC -n 2000'), ('ib_send_bw', '-c UC -n 2000 -s 1024'),
                    ('ib_write_bw', '-c UC -n 2000 -s 65536'), ('ib_write_lat', '-c UC -n 2000'),
                    ('ib_send_bw', f'-g -c UD -n 2000 -s 1000 {group(1)}')]


def lossy(topology, tool, options):
    """Same results under loss, only slower."""
    with topology.loss(1) as dropped:
        one(topology, tool, options, timeout=60)
        if not dropped():
            raise Failure('nothing was dropped: this proves nothing')


def lossy_unreliable(topology, tool, options):
    """It may wait for ever for what was lost; it must not crash."""
    with topology.loss(1):
        try:
            with exact_limits():
                pair = run_pair(topology, words(tool, '-F', options), timeout=5, grace=1)
        except Failure as hung:
            if not hasattr(hung, 'pair'):
                raise
            pair = hung.pair
    for program in (pair.server, pair.client):
        if program.crashed():
            raise Failure(f'{program.crashed()}\n{pair.report()}')


def repaired(topology):
    """What was lost is sent again, and little else: only the first loss is repaired by going back."""
    with topology.loss(1) as dropped:
        data = trace_of(topology, 'ib_write_bw -F -s 65536 -n 1000')
        if not dropped():
            raise Failure('nothing was dropped: this proves nothing')
    sent, needed = data.count(WRITE_MIDDLE), 1000 * (65536 // topology.mtu - 2)
    if not data.count(GAPS) or not needed <= sent < 1.2 * needed:
        raise Failure(f'{sent} packets for {needed}; {data.count(GAPS)} that ask or tell of gaps')


def shaped(topology):
    """Eight flows of processes of their own, through a link of 400 Mb/s with 20 ms of room: each has its share."""
    link = topology.client.device.removeprefix('vb_')
    try:
        topology.client.namespace.call(
            *f'tc qdisc add dev {link} root tbf rate 400mbit burst 64kb latency 20ms'.split())
    except Failure as why:
        raise Skip(f'the kernel has no token bucket here: {why}')
    try:
        with contextlib.ExitStack() as stack:
            programs = []
            for _ in range(FLOWS):
                port = next(PORTS)
                command = words('ib_write_bw -F -s 65536 -D 6 -p', port)
                server = stack.enter_context(topology.server.start(command))
                topology.server.wait_listening(port, server)
                programs.append((server, port))
            flows = [stack.enter_context(topology.client.start(
                words('ib_write_bw -F -s 65536 -D 6 -p', port, topology.server.address)))
                     for _, port in programs]
            for flow in flows:
                if flow.wait(60) != 0:
                    raise Failure(flow.tail())
            rates = [float(re.search(r'^ *65536 +\d+ +[\d.]+ +([\d.]+)', flow.text, re.M)[1]) for flow in flows]
    finally:
        topology.client.namespace.call(*f'tc qdisc delete dev {link} root'.split())
    fairness = sum(rates) ** 2 / (FLOWS * sum(rate * rate for rate in rates))     # Jain's index
    if fairness < 0.8 or sum(rates) < 25:
        raise Failure(f'{rates} MiB/s: fairness {fairness:.2f} (1: all alike), of 47 MiB/s that there are')
    return f'{sum(rates):.0f} MiB/s, fairness {fairness:.2f}'


def marked(topology):
    """Marks of the network (ECN) come back to the sender as CNPs, with the bytes that adapters expect."""
    with topology.marks(5) as marks:
        data = trace_of(topology, 'ib_write_bw -F -s 65536 -n 1000 --tclass=2')
        if not marks():
            raise Failure('nothing was marked: this proves nothing')
    cnps = len(re.findall(CNP, data, re.S))
    if not cnps:
        raise Failure(f'{marks()} packets were marked, and no CNP came')


WRITE_MIDDLE = b'\x07\x40\xff\xff'
FLOWS = 8
GAPS = b'\xc0\x40\xff\xff'           # of a code for manufacturers, as src/wire/gaps.h has it
CNP = rb'\x81\x40\xff\xff\x40...\0{20}'        # BECN, no PSN, 16 bytes of zeros
WRITE_ONLY = b'\x0a\x40\xff\xff'      # RC WRITE Only, migrated, P_Key 0xffff


def trace_of(topology, command, variables=None):
    """What the client of that pair has traced."""
    trace = topology.client.lab.log_path('trace') + '-%p.pcapng'
    port = next(PORTS)
    with topology.server.start(words(command, '-p', port), variables, user=os.getuid()) as one:
        topology.server.wait_listening(port, one)
        with topology.client.start(words(command, '-p', port, topology.server.address),
                                   {'VERBATIM_TRACE': trace + ',as-packets', **(variables or {})},
                                   user=os.getuid()) as two:
            two.wait(60)
            one.wait(10)
            Pair(one, two).check()
            files = glob.glob(trace.replace('%p', '*'))
    return b''.join(open(f, 'rb').read() for f in files)


def traced(topology):
    """A client that traces sees each WRITE, inside a host too, whatever the server would allow."""
    seen = trace_of(topology, 'ib_write_lat -F -s 8 -n 200').count(WRITE_ONLY)
    if seen < 200:
        raise Failure(f'{seen} of 200 WRITEs are in the trace')


def together(topology):
    """Small WRITEs posted one by one share datagram batches, in which the IPv4 identification counts."""
    data = trace_of(topology, 'ib_write_bw -F -s 8 -n 5000', {'VERBATIM_MEMORY': 'off'})
    found = [match.start() for match in re.finditer(re.escape(WRITE_ONLY), data)]
    first = sum(data[at - 24:at - 22] == b'\0\0' for at in found if data[at - 28] == 0x45)
    if len(found) < 5000 or not first:
        raise Failure(f'{len(found)} of 5000 WRITEs are in the trace, {first} begin a batch')
    if first > 2500:
        raise Failure(f'5000 WRITEs of 8 bytes were sent as {first} batches')


def cases(topology):
    if topology.name == 'lo':
        yield Case('ib_write_lat, each WRITE in the trace', lambda: traced(topology), True)
    if topology.name != 'veth9000':
        yield Case('ib_write_bw, small WRITEs leave together', lambda: together(topology), True)
    for source in (basic, everything, variants):
        for tool, options, sizes, quick in source(topology):
            text = options if isinstance(options, str) else ' '.join(options)
            if topology.name == 'veth9000':     # what larger packets change
                quick = quick and '-m ' in text
            elif topology.name != 'lo' and source is variants:      # not what the device is asked by, but the wire
                quick = quick and re.search('-(m|x|g) ', text)
            yield Case(f'{tool} {" ".join(text.split())}',
                       lambda t=tool, o=text, s=sizes: one(topology, t, o, s), quick)
    for number, (tool, options) in enumerate(LOSSY):
        quick = number in (0, 3, 5, 7, 8) and topology.name == 'veth1500'
        yield Case(f'{tool} {options} with 1 % loss',
                   lambda t=tool, o=options: lossy(topology, t, o), quick)
    if topology.name.startswith('veth'):
        yield Case('ib_write_bw with 1 % loss: what is sent again', lambda: repaired(topology), False)
        yield Case('ib_write_bw with 5 % marked: CNPs', lambda: marked(topology), False)
    if topology.name == 'veth1500':
        yield Case('ib_write_bw, eight flows through 400 Mb/s', lambda: shaped(topology), False)
    for tool, options in LOSSY_UNRELIABLE:
        yield Case(f'{tool} {options} with 1 % loss does not crash',
                   lambda t=tool, o=options: lossy_unreliable(topology, t, o), False)
