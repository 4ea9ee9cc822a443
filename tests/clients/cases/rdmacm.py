# SPDX-License-Identifier: BSD-2-Clause
"""rdmacm-utils and perftest -R: programs that connect by librdmacm. A run passes when both ends
exit with 0, say nothing of a connection refused or failed, and the data is right where they look.
"""
import contextlib
import ipaddress
import re
import time

from cases.perftest import rows
from harness import Case
from lab import PATIENCE, UNRELIABLE_TRIES, Failure, Skip, exact_limits
from meeting import PERHAPS, Meeting, wait_joined

RPING_SERVER = 'rping -s -a {a} -p {p} -v -V'
RPING_CLIENT = 'rping -c -a {a} -p {p} -v -V'

# name, server, client
CONNECTED = [
    ('rping -v -V -C 10', RPING_SERVER, RPING_CLIENT + ' -C 10'),
    ('rping -v -V -C 1000', RPING_SERVER, RPING_CLIENT + ' -C 1000'),
    ('rping -S 65535', RPING_SERVER + ' -S 65535', RPING_CLIENT + ' -S 65535 -C 100'),
    ('rping -q', RPING_SERVER + ' -q', RPING_CLIENT + ' -q -C 10'),
    ('rping -I', RPING_SERVER, RPING_CLIENT + ' -I {c} -C 10'),
    ('rping over IPv6', 'rping -s -a {a6} -p {p} -v -V', 'rping -c -a {a6} -p {p} -v -V -C 100'),
    ('rping to any IPv6 address', 'rping -s -a ::0 -p {p} -V', 'rping -c -a {a6} -p {p} -V -C 10'),
    ('rping over IPv4 to any address', 'rping -s -p {p} -V', RPING_CLIENT + ' -C 10'),
    ('rping over IPv4 to ::0', 'rping -s -a ::0 -p {p} -V', RPING_CLIENT + ' -C 10'),
    ('ucmatose', 'ucmatose -p {p}', 'ucmatose -s {a} -p {p}'),
    ('ucmatose -b', 'ucmatose -b {a} -p {p}', 'ucmatose -s {a} -b {c} -p {p}'),
    ('ucmatose over IPv6', 'ucmatose -b ::0 -p {p}', 'ucmatose -s {a6} -p {p}'),
    ('ucmatose -C 100 -S 65536', 'ucmatose -p {p} -C 100 -S 65536',
     'ucmatose -s {a} -p {p} -C 100 -S 65536'),
    ('ucmatose -c 100', 'ucmatose -p {p} -c 100', 'ucmatose -s {a} -p {p} -c 100'),
    ('ucmatose -m -c 5', 'ucmatose -p {p} -m -c 5', 'ucmatose -s {a} -p {p} -m -c 5'),
    ('ucmatose -t -a', 'ucmatose -p {p} -a 10', 'ucmatose -s {a} -p {p} -t 0x20 -a 10'),
    ('ucmatose -C 0', 'ucmatose -p {p} -C 0', 'ucmatose -s {a} -p {p} -C 0'),
    ('ucmatose -f ip', 'ucmatose -f ip -b {a} -p {p}', 'ucmatose -f ip -s {a} -p {p}'),
    ('ucmatose -f gid', 'ucmatose -f gid -b {gid} -p {p}', 'ucmatose -f gid -s {gid} -p {p}'),
    ('ucmatose -f gid -P ib', 'ucmatose -f gid -P ib -b {gid} -p {p}',
     'ucmatose -f gid -P ib -s {gid} -b {cgid} -p {p}'),
    ('ucmatose -f gid over IPv6', 'ucmatose -f gid -b {a6} -p {p}',
     'ucmatose -f gid -s {a6} -p {p}'),
    ('rdma_client, rdma_server', 'rdma_server -p {p}', 'rdma_client -s {a} -p {p}'),
    ('rdma_client, rdma_server -s', 'rdma_server -s {a} -p {p}', 'rdma_client -s {a} -p {p}'),
    ('rdma_xclient, rdma_xserver -c x', 'rdma_xserver -p {p} -c x',
     'rdma_xclient -s {a} -p {p} -c x'),
    ('rdma_xclient, rdma_xserver -c r', 'rdma_xserver -p {p} -c r',
     'rdma_xclient -s {a} -p {p} -c r'),
]
LINK_LOCAL = ('rping to a link-local address', 'rping -s -a {ll}%{here} -p {p} -V',
              'rping -c -a {ll}%{there} -p {p} -V -C 10')
# The port of udaddy is its own, 7174: its -p is the port space.
DATAGRAM = [
    ('udaddy', 'udaddy', 'udaddy -s {a}'),
    ('udaddy -b', 'udaddy -b {a}', 'udaddy -s {a} -b {c}'),
    ('udaddy over IPv6', 'udaddy -b ::0', 'udaddy -s {a6}'),
    ('udaddy -p 0x2', 'udaddy -p 0x2', 'udaddy -s {a} -p 0x2'),
    ('udaddy -P ipoib -t', 'udaddy -P ipoib', 'udaddy -s {a} -P ipoib -t 0x20'),
    ('udaddy -c 10 -C 50 -S 1024', 'udaddy -c 10 -C 50 -S 1024',
     'udaddy -s {a} -c 10 -C 50 -S 1024'),
    ('udaddy -C 0', 'udaddy -C 0', 'udaddy -s {a} -C 0'),
    ('udaddy -f gid', 'udaddy -f gid -b {gid}', 'udaddy -f gid -s {gid}'),
]
UDADDY_PORT = 7174
QUICK = ('rping -v -V -C 1000', 'rping -S 65535', 'rping -q', 'rping over IPv6',
         'rping over IPv4 to ::0', 'ucmatose', 'ucmatose over IPv6', 'ucmatose -C 100 -S 65536',
         'ucmatose -c 100', 'ucmatose -m -c 5', 'ucmatose -t -a', 'ucmatose -f gid',
         'ucmatose -f gid -P ib', 'rdma_client, rdma_server', 'rdma_xclient, rdma_xserver -c r',
         'rdma_xclient, rdma_xserver -c x', 'udaddy', 'udaddy over IPv6', 'udaddy -p 0x2',
         'udaddy -c 10 -C 50 -S 1024', 'udaddy -f gid')
PERFTEST = [f'ib_{op}_{kind}' for op in ('send', 'write', 'read', 'atomic')
            for kind in ('lat', 'bw')]


def one(topology, server, client, timeout=60, port=None):
    Meeting(topology, port).run(server, client, timeout)


def datagram(topology, server, client, timeout=20):
    """UD may lose a message on a busy machine, and udaddy waits for it for ever: another try."""
    with exact_limits():
        for number in range(1, UNRELIABLE_TRIES + 1):
            try:
                one(topology, server, client, timeout, UDADDY_PORT)
                return f'at try {number}' if number > 1 else ''
            except Failure as why:
                if number == UNRELIABLE_TRIES or not str(why).startswith('not finished'):
                    raise
    return ''


def persistent(topology, count, options='-C 200'):
    """One rping -P, @count clients whose data phases overlap. The rping of this release loses a
    request that comes while it takes another one, so each waits until the last one pings."""
    meeting = Meeting(topology)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(meeting.server('rping -s -P -a {a} -p {p}'))
        clients = []
        for _ in range(count):
            client = stack.enter_context(meeting.client(
                'stdbuf -oL rping -c -a {a} -p {p} -v -V ' + options))
            clients.append(client)
            until = time.monotonic() + 10 * PATIENCE
            while 'ping data' not in client.text:
                if client.code is None and not client.alive() or time.monotonic() > until:
                    raise Failure(f'client {len(clients)} pings not\n{client.tail()}\n'
                                  f'server:\n{server.tail()}')
                time.sleep(0.005)
        for number, client in enumerate(clients):
            if client.wait(60) != 0:
                raise Failure(f'client {number}: exit status {client.code}\n{client.tail()}\n'
                              f'server:\n{server.tail()}')
        if not server.alive():
            raise Failure(f'the server ended\n{server.tail()}')


def cmtime(topology, count, options='', timeout=60):
    """Its client's own times; microseconds a connection as the result."""
    pair = Meeting(topology).run(f'cmtime -b {{a}} -p {{p}} -c {count}',
                                 f'cmtime -s {{a}} -p {{p}} -c {count} {options}',
                                 timeout=timeout, endless=PERHAPS)
    rows = dict(re.findall(r'^([a-z ]+?) *: .* ([\d.]+)$', pair.client.text, re.M))
    # Release 56 prints a table: the step, microseconds of each, in all, ...
    rows |= {name.removeprefix('cm '): each for name, each in re.findall(
        r'^(cm connect|disconnect) +(\d+) +\d+ +\d', pair.client.text, re.M)}
    if 'connect' not in rows or 'disconnect' not in rows or re.search(r'fail|error',
                                                                      pair.client.text):
        raise Failure(pair.report())
    return f"connect {rows['connect']} us, disconnect {rows['disconnect']} us each"


def mckey_variants(topology):
    """(group as joined, arguments of the receiver, of the sender): groups of their own."""
    return [('239.77.1.1', '-m 239.77.1.1 -b {a}', '-m 239.77.1.1 -b {c}'),
            ('239.77.1.2', '-m 239.77.1.2 -b {a} -c 3 -C 50 -S 1000',
             '-m 239.77.1.2 -b {c} -C 50 -S 1000'),
            ('239.77.1.3', '-M ::ffff:239.77.1.3 -b {a}', '-M ::ffff:239.77.1.3 -b {c}'),
            ('239.77.1.4', '-m 239.77.1.4 -b {a} -p 0x2', '-m 239.77.1.4 -b {c} -p 0x2'),
            ('239.77.1.5', '-m 239.77.1.5 -b {a}', '-m 239.77.1.5 -b {c} -o'),
            ('ff0e::77:6', '-m ff0e::77:6 -b {a6}', '-m ff0e::77:6 -b {c6}'),
            ('ff0e::77:7', '-M ff0e::77:7 -b {a6}', '-M ff0e::77:7 -b {c6}')]


def mckey(topology):
    """All variants side by side: each spends three seconds asleep."""
    meeting = Meeting(topology)
    variants = mckey_variants(topology)
    with contextlib.ExitStack() as stack:
        receivers = [stack.enter_context(topology.server.start(meeting.words(f'mckey {receiver}')))
                     for _, receiver, _ in variants]
        for (group, _, _), program in zip(variants, receivers):
            spelled = group if '.' in group else ipaddress.ip_address(group).packed.hex()
            wait_joined(topology.server.namespace, spelled, program)
        senders = [stack.enter_context(meeting.client(f'mckey -s {sender}'))
                   for _, _, sender in variants]
        bad = []
        until = time.monotonic() + 15 * PATIENCE
        for (group, _, _), sender, receiver in zip(variants, senders, receivers):
            for program, role in ((sender, 'sender'), (receiver, 'receiver')):
                if program.wait((until - time.monotonic()) / PATIENCE) != 0 \
                        or 'data transfers complete' not in program.text:
                    bad.append(f'{group}: {role}: exit status {program.code}\n{program.tail()}')
        if bad:
            raise Failure('\n'.join(bad))
    return f'{len(variants)} groups'


def perftest(topology, tool, options='-R'):
    """With -R rdma_cm connects the QPs of the test, with -z those of the set-up only."""
    size = '' if 'atomic' in tool else ' -s 1024'
    command = f'{tool} -F -n 100{size} {options} -p {{p}}'
    pair = Meeting(topology).run(command, command + ' {a}', timeout=30)
    if not [row for row in rows(pair.client.text) if row[1]]:
        raise Failure('no result row\n' + pair.report())


def lossy(topology, run):
    with topology.loss(1) as dropped:
        detail = run()
        if not dropped():
            raise Skip('nothing was dropped')
        return detail


def plain_cases(topology):
    for name, server, client in CONNECTED:
        yield Case(name, lambda s=server, c=client: one(topology, s, c),
                   name in QUICK and topology.name != 'veth9000')
    if topology.name != 'lo':
        yield Case(LINK_LOCAL[0], lambda: one(topology, *LINK_LOCAL[1:]),
                   topology.name == 'veth1500')
    for name, server, client in DATAGRAM:
        yield Case(name, lambda s=server, c=client: datagram(topology, s, c),
                   name in QUICK and topology.name != 'veth9000')


def lossy_cases(topology):
    quick = topology.name == 'veth1500'
    for name, server, client in (
            ('rping -v -V -C 300', RPING_SERVER, RPING_CLIENT + ' -C 300'),
            ('ucmatose -C 100 -S 65536', 'ucmatose -p {p} -C 100 -S 65536',
             'ucmatose -s {a} -p {p} -C 100 -S 65536'),
            ('ucmatose -c 100', 'ucmatose -p {p} -c 100', 'ucmatose -s {a} -p {p} -c 100'),
            ('rdma_client, rdma_server', 'rdma_server -p {p}', 'rdma_client -s {a} -p {p}')):
        yield Case(f'{name} with 1 % loss', lambda s=server, c=client: lossy(
            topology, lambda: one(topology, s, c, 90)), quick and '-C' in name)
    yield Case('cmtime -c 300 with 1 % loss',
               lambda: lossy(topology, lambda: cmtime(topology, 300, timeout=120)), quick)
    for tool in ('ib_send_lat', 'ib_write_bw', 'ib_read_bw'):
        yield Case(f'{tool} -R with 1 % loss',
                   lambda t=tool: lossy(topology, lambda: perftest(topology, t)), False)


def cases(topology):
    usual = topology.name != 'veth9000'
    yield from plain_cases(topology)
    yield Case('rping -P with 5 clients', lambda: persistent(topology, 5), usual)
    yield Case('rping -P with 30 clients', lambda: persistent(topology, 30), False)
    yield Case('cmtime -c 1000', lambda: cmtime(topology, 1000), usual)
    yield Case('cmtime -c 100 -b', lambda: cmtime(topology, 100, '-b {c}'), False)
    yield Case('mckey, all its options', lambda: mckey(topology), topology.name == 'lo')
    for tool in PERFTEST:
        yield Case(f'{tool} -R', lambda t=tool: perftest(topology, t), topology.name == 'lo'
                   or topology.name == 'veth1500' and tool in ('ib_send_lat', 'ib_read_bw'))
    for tool in ('ib_send_lat', 'ib_send_bw'):
        yield Case(f'{tool} -R -c UD', lambda t=tool: perftest(topology, t, '-R -c UD'),
                   usual and tool == 'ib_send_lat')
    for tool in PERFTEST:
        yield Case(f'{tool} -z', lambda t=tool: perftest(topology, t, '-z -x 1'),
                   usual and tool == 'ib_write_lat')
    yield Case('ib_send_bw -R -q 8', lambda: perftest(topology, 'ib_send_bw', '-R -q 8'), False)
    yield from lossy_cases(topology)
