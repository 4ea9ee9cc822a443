# SPDX-License-Identifier: BSD-2-Clause
"""Sockets over RDMA: rcopy, rstream, riostream and udpong of rdmacm-utils, and iperf3, which knows
of no RDMA, over the library that is preloaded."""
import hashlib
import os
import re
import tempfile

from harness import Case
from lab import Failure, exact_limits
from meeting import Meeting
from . import rdmacm

MIB = 1 << 20
URGENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'programs', 'urgent.py')
# name, options of both ends (rstream: -T v checks the data)
STREAMS = [
    ('rstream', '-S 1000 -C 100 -I 20 -T v'),
    ('rstream', '-S 64 -C 1 -I 2000 -T b -T v'),
    ('rstream', '-S 65536 -C 50 -I 4 -T b -T v'),
    ('rstream', '-S 65536 -C 50 -I 4 -T a -T v'),
    ('rstream', '-S 4096 -C 50 -I 20 -T a -T b -T v'),
    ('rstream', '-S 1048576 -C 8 -I 2 -T n -T v'),
    ('rstream', '-S 100000 -C 50 -I 2 -B 16384 -T v'),
    ('rstream', '-S 1000 -C 50 -I 20 -T r -T v'),
    ('rstream', '-S 32 -C 50 -I 20 -i 0 -T v'),
    ('rstream', '-S 1000 -C 50 -I 20 -k 3 -T v'),
    ('riostream', '-S 1000 -C 1 -I 500 -T v'),
    ('riostream', '-S 65536 -C 20 -I 4 -T v'),
    ('riostream', '-S 64 -C 1 -I 300 -T b -T v'),
    ('riostream', '-S 4096 -C 20 -I 20 -T a -T v'),
    ('riostream', '-S 1048576 -C 4 -I 2 -T v'),
]
WHOLE = [('rstream', ''), ('rstream', '-S all'), ('rstream', '-T b'), ('rstream', '-T a'),
         ('riostream', ''), ('riostream', '-S all'), ('riostream', '-T b')]
PONGS = ['-S 1000 -C 500 -T e', '-S 64 -C 2000', '-S 1000 -C 500 -T b -T e',
         '-S 900 -C 500 -T a -T e']
ROW = re.compile(r'^\S+ +\S+ +.* +[\d.]+s +[\d.]+ +[\d.]+ *$', re.M)


def stream(topology, tool, options, timeout=60, rows=1, server='-b {a}', client='-s {a}'):
    pair = Meeting(topology).run(f'{tool} -p {{p}} {server} {options}',
                                 f'{tool} -p {{p}} {client} {options}', timeout)
    for program in (pair.client, pair.server):
        if len(ROW.findall(program.text)) < rows:
            raise Failure(f'fewer than {rows} result rows\n{pair.report()}')
    return ROW.findall(pair.client.text)[0] if rows == 1 else ''


def udpong(topology, options, timeout=10, tries=8):
    """Its server never ends. When an answer takes over a millisecond, its client asks again; the
    second answer it takes for that of its next question, sends from then on what it received, and
    never ends. So it gets a few tries, on a machine that does other things."""
    for left in reversed(range(tries)):
        try:
            with exact_limits():
                pair = Meeting(topology).run(f'udpong -b {{a}} -p {{p}} {options}',
                                             f'udpong -s {{a}} -p {{p}} {options}', timeout,
                                             endless=True)
            break
        except Failure as why:
            if not left or not str(why).startswith('not finished'):
                raise
    if not ROW.search(pair.client.text):
        raise Failure('no result row\n' + pair.report())
    return '' if left == tries - 1 else f'at try {tries - left}'


def pattern_file(path, size):
    """A file whose every block is another one, and its checksum."""
    block = bytes((i * 7 + (i >> 8)) & 0xff for i in range(MIB - 8))
    total = hashlib.sha256()
    with open(path, 'wb') as file:
        for number in range((size + MIB - 1) // MIB):
            part = (number.to_bytes(8, 'little') + block)[:size - number * MIB]
            total.update(part)
            file.write(part)
    return total.hexdigest()


def checksum(path):
    total = hashlib.sha256()
    with open(path, 'rb') as file:
        for part in iter(lambda: file.read(MIB), b''):
            total.update(part)
    return total.hexdigest()


def rcopy(topology, size, count=1, timeout=60):
    """@count copies to one server, each with the checksum of what was sent."""
    with tempfile.TemporaryDirectory(dir=topology.client.lab.directory) as directory:
        os.chmod(directory, 0o777)
        source = os.path.join(directory, 'source')
        expected = pattern_file(source, size)
        os.chmod(source, 0o666)
        meeting = Meeting(topology)
        with meeting.server('rcopy -p {p}') as server:
            for number in range(count):
                copy = os.path.join(directory, f'copy{number}')
                with meeting.client(f'rcopy {source} {{a}}:{copy} -p {{p}}') as client:
                    if client.wait(timeout) != 0 or not server.alive():
                        raise Failure(f'copy {number}: exit status {client.code}\n'
                                      f'{client.tail()}\nserver:\n{server.tail()}')
                    if not os.path.exists(copy) or checksum(copy) != expected:
                        raise Failure(f'another checksum\n{client.tail()}\n{server.tail()}')
                    said = re.findall(r'= ([\d.]+ Gb/sec)', client.text)
        return said[0] if said else ''


def preload(topology):
    path = os.path.join(topology.client.lab.library or '/', 'rsocket', 'librspreload.so')
    if not os.path.exists(path):
        raise Failure(f'no {path}')
    return f'env LD_PRELOAD={path} '


def iperf3(topology, options, address='{a}', amount='-n 64M'):
    """Unmodified, over the preload library: the amount that was asked for has arrived."""
    before = preload(topology)
    pair = Meeting(topology).run(f'{before}iperf3 -s -1 -p {{p}}',
                                 f'{before}iperf3 -c {address} -p {{p}} {amount} {options}')
    found = re.search(r'sec +([\d.]+ \S+) +([\d.]+ \S+) .*receiver', pair.client.text)
    if not found or found[1].startswith('0.00'):
        raise Failure('nothing received\n' + pair.report())
    return found[2]


def urgent(topology):
    """SIGURG, SIOCATMARK and MSG_OOB of a program that knows of sockets only."""
    before = preload(topology)
    program = f'{before}/usr/bin/python3 {URGENT}'
    pair = Meeting(topology).run(f'{program} server {{a}} {{p}}', f'{program} client {{a}} {{p}}')
    if 'over RDMA' not in pair.client.text or '3 rounds' not in pair.server.text:
        raise Failure('not over RDMA\n' + pair.report())


def cases(topology):
    usual = topology.name != 'veth9000'
    for tool, options in STREAMS:
        yield Case(f'{tool} {options}', lambda t=tool, o=options: stream(topology, t, o), usual)
    for tool in ('rstream', 'riostream'):
        yield Case(f'{tool} over IPv6', lambda t=tool: stream(
            topology, t, '-S 1000 -C 20 -I 20 -T v', server='-b {a6}', client='-s {a6}'),
            usual and tool == 'rstream')
        yield Case(f'{tool} -f gid', lambda t=tool: stream(
            topology, t, '-f gid -S 1000 -C 20 -I 20 -T v', server='-b {gid}', client='-s {gid}'),
            usual and tool == 'rstream')
    yield Case('rstream to any address', lambda: stream(
        topology, 'rstream', '-S 1000 -C 20 -I 20 -T v', server=''), False)
    for tool, options in WHOLE:
        if topology.name == 'lo' or not options:        # a minute and more
            rows = 24 if 'all' in options else 8
            yield Case(f'{tool} {options}, every test', lambda t=tool, o=options, r=rows: stream(
                topology, t, o, 300, r), False)
    for options in PONGS:
        yield Case(f'udpong {options}', lambda o=options: udpong(topology, o), usual)
    if topology.name == 'lo':
        yield Case('udpong, every test', lambda: udpong(topology, '', 60), False)
    yield Case('rcopy of 16 MiB', lambda: rcopy(topology, 16 * MIB + 4711), usual)
    yield Case('rcopy of 256 MiB', lambda: rcopy(topology, 256 * MIB, timeout=200), False)
    yield Case('rcopy, 5 files to one server', lambda: rcopy(topology, MIB, 5), False)
    yield Case('urgent data, SIGURG and the mark over rsockets', lambda: urgent(topology), usual)
    yield Case('iperf3 over rsockets', lambda: iperf3(topology, ''), usual)
    yield Case('iperf3 -R over rsockets', lambda: iperf3(topology, '-R'), False)
    yield Case('iperf3 -P 4 over rsockets', lambda: iperf3(topology, '-P 4'), False)
    yield Case('iperf3 -6 over rsockets', lambda: iperf3(topology, '', '{a6}'), False)
    lossy = topology.name == 'veth1500'
    for name, run in (
            ('rstream -S 65536', lambda: stream(topology, 'rstream', '-S 65536 -C 50 -I 2 -T v')),
            ('riostream -S 4096',
             lambda: stream(topology, 'riostream', '-S 4096 -C 20 -I 20 -T v')),
            ('rcopy of 4 MiB', lambda: rcopy(topology, 4 * MIB)),
            ('udpong -T e', lambda: udpong(topology, '-S 1000 -C 200 -T e', tries=6))):
        yield Case(f'{name} with 1 % loss', lambda r=run: rdmacm.lossy(topology, r),
                   lossy and name != 'udpong -T e')
    yield Case('iperf3 over rsockets with 1 % loss',
               lambda: rdmacm.lossy(topology, lambda: iperf3(topology, '', amount='-n 8M')), False)
