# SPDX-License-Identifier: BSD-2-Clause
"""The rows of bench/run that are about librdmacm: connects a second beside TCP's on the same path,
and where their time goes; what connections cost that are held; rsockets beside TCP."""
import os
import re
import statistics
import time

import lab
from harness import words
from lab import Failure

READY_S = 10                        # until a server says that it listens
HELD = 10000


class Steps:
    """How long the steps of a connection take: the median of each over the runs."""

    def __init__(self):
        self.taken = {}

    def add(self, text, pattern):
        for name, value in re.findall(pattern, text, re.M):
            self.taken.setdefault(name.strip(), []).append(float(value))

    def say(self, table, title):
        table.say(f'    {title}')
        for name, values in self.taken.items():
            table.say(f'        {name:30s} {statistics.median(values):.4g} us '
                      f'({min(values):.4g} .. {max(values):.4g})')


def ended_well(program, timeout):
    if program.wait(timeout) != 0:
        raise Failure(f'{program.name}: {program.code}: {program.tail()}')


def wait_until_ready(program):
    until = time.monotonic() + READY_S
    while 'listening' not in program.text:
        if not program.alive() or time.monotonic() > until:
            raise Failure(f'{program.name} does not listen: {program.tail()}')
        time.sleep(0.01)


class Connections:
    """@bench: the Bench of bench/run. @series: its class of values."""

    def __init__(self, bench, series):
        self.bench, self.table, self.series = bench, bench.table, series

    # ---- connects a second ----

    def rate(self, topology, tcp, inflight, count, steps=None, variables=None):
        """Of connect_rate between two processes; @variables: theirs besides."""
        tool = os.path.join(self.bench.programs, 'connect_rate')
        command = words(tool, '-T' if tcp else None, '-c', count, '-p', next(lab.PORTS))
        with topology.server.start(command, variables) as server:
            wait_until_ready(server)
            command += words('-j', inflight, topology.server.address)
            with topology.client.start(command, variables) as client:
                ended_well(client, 60)
            ended_well(server, 10)
        if steps:
            steps.add(client.text + server.text, r'^step (.*?) +median +([\d.]+)')
        return float(re.search(r'connects per second (\d+)', client.text)[1])

    def cmtime(self, topology, count, steps):
        """Of cmtime of rdmacm-utils, whose server never ends: it does each step for all connections
        before the next step."""
        port = next(lab.PORTS)
        with topology.server.start(words('cmtime -b', topology.server.address, '-p', port)):
            time.sleep(0.5)
            command = words('cmtime -s', topology.server.address, '-c', count, '-p', port)
            with topology.client.start(command) as client:
                ended_well(client, 60)
        row = r'^([a-z][a-z ]+?) *: +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)$'
        found = re.findall(row, client.text, re.M)
        if len(found) < 6:
            raise Failure(f'cmtime: no table: {client.tail()}')
        steps.add(client.text, row)
        return 1e6 / sum(float(us) for _, us in found)

    def connects(self, topology):
        """Interleaved: many under way, cmtime, one at a time, TCP both ways."""
        many, one = Steps(), Steps()
        ours = self.series('rdma_cm, 64 under way', '/s')
        theirs = self.series('cmtime -c 1000, unmodified', '/s')
        single = self.series('rdma_cm, one at a time', '/s')
        tcp = self.series('TCP, 64 under way', '/s')
        tcp_single = self.series('TCP, one at a time', '/s')
        for _ in range(self.bench.repeats):
            self.bench.series(ours, self.rate, topology, False, 64, 4000)
            self.bench.series(tcp, self.rate, topology, True, 64, 4000)
            self.bench.series(theirs, self.cmtime, topology, 1000, many)
            self.bench.series(single, self.rate, topology, False, 1, 1000, one)
            self.bench.series(tcp_single, self.rate, topology, True, 1, 4000)
        self.table.ratio(f'connects a second, {topology.name}', ours, tcp, 0.25, True)
        self.table.ratio(f'connects a second by cmtime, {topology.name}', theirs, tcp, 0.25, True)
        many.say(self.table, 'steps of cmtime, each for 1000 connections, a connection')
        self.table.ratio(f'connects one at a time, {topology.name}', single, tcp_single, 0.25, True)
        one.say(self.table, 'steps of one connection, events included')

    # ---- connections that are held ----

    def hold(self, topology):
        measured = {}
        for role in ('server', 'client'):
            measured[role] = (self.series('CPU while idle', '%'),
                              self.series('memory of a connection', 'bytes'),
                              self.series('descriptors added', 'in all'))
        tool = os.path.join(self.bench.programs, 'hold_connections')
        for _ in range(self.bench.repeats):
            command = words(tool, HELD, 5, topology.server.address, next(lab.PORTS))
            with topology.client.start(command) as program:
                if program.wait(120) != 0:
                    self.table.say(f'    hold_connections: {program.tail()}')
                    continue
            for role, series in measured.items():
                for one, what in zip(series, ('idle cpu', 'bytes per connection',
                                              'descriptors added')):
                    one.values.append(float(re.search(f'{role}: {what} ([\\d.]+)',
                                                      program.text)[1]))
        for role, (cpu, memory, descriptors) in measured.items():
            self.table.bound(f'{HELD} connections held, {role}: CPU', cpu, 0.05)
            self.table.bound(f'{HELD} connections held, {role}: memory', memory, 8192)
            self.table.bound(f'{HELD} connections held, {role}: descriptors', descriptors, 64)

    # ---- rsockets ----

    def rstream(self, topology, options, column, variables=None):
        """The result of a custom test of rstream: column 0 Gb/s, 1 us a transfer."""
        port = next(lab.PORTS)
        with topology.server.start(words('rstream -b', topology.server.address, '-p', port,
                                         options), variables) as server:
            time.sleep(0.5)
            with topology.client.start(words('rstream -s', topology.server.address, '-p', port,
                                             options), variables) as client:
                ended_well(client, 60)
            ended_well(server, 10)
        return float(re.search(r'^custom.*s +([\d.]+) +([\d.]+) *$', client.text, re.M)[1 + column])

    def bandwidth(self, topology, variables=None):
        """There and back, one direction at a time: 64 KiB, 1.3 GB each way; MB/s."""
        return self.rstream(topology, '-S 65536 -C 2000 -I 10', 0, variables) * 1e9 / 8 / 1e6

    def latency(self, topology, variables=None, sockets=''):
        return self.rstream(topology, sockets + '-S 64 -C 1 -I 20000', 1, variables)

    def preloaded(self, topology, variables):
        """iperf3, which knows of no RDMA, as under run --rsockets."""
        library = os.path.join(self.bench.place.library, 'rsocket', 'librspreload.so')
        return self.bench.tcp(topology, dict(variables, LD_PRELOAD=library))

    def rsockets(self, topology):
        """Over UDP, and through the memory that processes of one host share; beside TCP."""
        tcp = self.series('iperf3, one TCP stream', 'MB/s')
        tcp_latency = self.series('rstream -T s (TCP), 64 bytes', 'us')
        ways = {}
        for way, memory in (('UDP', 'off'), ('memory', 'auto')):
            ways[way] = ({'VERBATIM_MEMORY': memory},
                         self.series(f'rstream, 64 KiB, over {way}', 'MB/s'),
                         self.series(f'iperf3 on rsockets, over {way}', 'MB/s'),
                         self.series(f'rstream, 64 bytes, over {way}', 'us'))
        for _ in range(self.bench.repeats):
            self.bench.series(tcp, self.bench.tcp, topology)
            for variables, stream, iperf, latency in ways.values():
                self.bench.series(stream, self.bandwidth, topology, variables)
                self.bench.series(iperf, self.preloaded, topology, variables)
                self.bench.series(latency, self.latency, topology, variables)
            self.bench.series(tcp_latency, self.latency, topology, None, '-T s ')
        for way, (_, stream, iperf, latency) in ways.items():
            name = f'rsockets over {way}, {topology.name}'
            self.table.ratio(f'{name}: bandwidth', stream, tcp, 1, True)
            self.table.ratio(f'{name}: iperf3', iperf, tcp, 1, True)
            self.table.ratio(f'{name}: latency', latency, tcp_latency, 1, False)
