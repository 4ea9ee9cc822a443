# SPDX-License-Identifier: BSD-2-Clause
"""perftest's raw_ethernet_lat and raw_ethernet_bw: RAW_PACKET QPs and the flows that each steers its frames by,
between two namespaces, with CAP_NET_RAW; and what an ordinary user is told."""
import os
import time

from cases.perftest import rows
from harness import Case, words
from lab import NOBODY, PATIENCE, Failure, Pair

ALL_PROTOCOLS = '0003'      # of a packet socket that receives, in /proc/net/packet
PORTS = '-j 10.77.0.2 -J 10.77.0.1 -k 6000 -K 5000'     # both ends send, and take, the same


def mac_of(end):
    """The address of the interface that the device is named after."""
    line = end.namespace.call('ip', '-o', 'link', 'show', 'dev', end.device.removeprefix('vb_'))
    return line.split('link/ether ')[1].split()[0]


def receives(end):
    with open(f'/proc/{end.namespace.pid}/net/packet') as table:
        return any(line.split()[3] == ALL_PROTOCOLS for line in list(table)[1:])


def command(tool, role, own, peer, options):
    return words(tool, '--' + role, '-F', '-d', own.device, '-B', mac_of(own), '-E', mac_of(peer), options)


def started(topology, tool, options):
    """Both ends, to their end."""
    server, client = topology.server, topology.client
    with server.start(command(tool, 'server', server, client, options), user=0) as one:
        until = time.monotonic() + 10 * PATIENCE
        while one.alive() and not receives(server):
            if time.monotonic() > until:
                raise Failure('the server has no packet socket after 10 s:\n' + one.tail())
            time.sleep(0.01)
        with client.start(command(tool, 'client', client, server, options), user=0) as two:
            two.wait(30)
            one.wait(10)
            return Pair(one, two).check()


def latency(topology, options):
    pair = started(topology, 'raw_ethernet_lat', f'-n 500 -s 64 {options}')
    if [row[:2] for row in rows(pair.client.text)] != [(64, 500)]:
        raise Failure('not 500 exchanges of 64 bytes\n' + pair.report())


def bandwidth(topology):
    """Without flow control: what comes is no more than was sent, and most of it where it is paced."""
    options = '-D 2 -s 1024'
    pair = started(topology, 'raw_ethernet_bw', options)
    sent, got = rows(pair.client.text), rows(pair.server.text)
    if not sent or not got or not 0 < got[0][1] <= 2 * sent[0][1]:
        raise Failure('no frames came, or more than were sent\n' + pair.report())


def paced(topology):
    """2000 frames of 1 KiB at 20 MiB/s: 0.1 s, and none is lost."""
    pair = started(topology, 'raw_ethernet_bw', '-n 2000 -s 1024 --rate_limit=20 --rate_limit_type=PP '
                   '--rate_units=M --burst_size=4')
    rate = max(rows(pair.server.text)[0][2:4])
    if not 1 < rate < 22:
        raise Failure(f'{rate} MiB/s, of at most 20\n' + pair.report())


def refused(topology):
    end = topology.client
    with end.start(words('raw_ethernet_bw --client -F -B 02:00:00:00:00:01 -E 02:00:00:00:00:02 -n 100 -d',
                         end.device), user=NOBODY) as program:
        program.wait(20)
        if not program.code or 'CAP_NET_RAW' not in program.text:
            raise Failure(f'exit status {program.code}, without a remedy:\n' + program.tail())


def cases(topology):
    if os.geteuid() == 0 and topology.name == 'lo':
        yield Case('raw_ethernet_bw as an ordinary user is told of CAP_NET_RAW', lambda: refused(topology), True)
    if topology.name == 'lo':
        return
    quick = topology.name == 'veth1500'
    yield Case('raw_ethernet_lat', lambda: latency(topology, ''), quick)
    yield Case('raw_ethernet_lat by IP and UDP ports', lambda: latency(topology, PORTS), quick)
    yield Case('raw_ethernet_lat with VLAN tags', lambda: latency(topology, '--vlan_en'), quick)
    yield Case('raw_ethernet_bw', lambda: bandwidth(topology), quick)
    yield Case('raw_ethernet_bw at 20 MiB/s', lambda: paced(topology), quick)
