# SPDX-License-Identifier: BSD-2-Clause
"""The parts of bench/run about RC over UDP, on lo and between two hosts: small messages a second, replies,
and bandwidth beside bare UDP that does the same work (GSO, GRO, ICRC). Everything is run once, then
everything again; ratios are of medians."""
import os
import re

import lab
from harness import words
from lab import Failure
from peers import MIB, number

US, MPS, MBS, S_PER_GB = 'us', 'M/s', 'MB/s', 's/GB'
BANDWIDTH_BYTES = 65536
# perftest measures the processor's clock for some tenths of a second: what a short run takes is taken off.
SHORT = 64


def timed(command):
    """@command, and at its end a line with its processor time."""
    return ['bash', '-c', 'TIMEFORMAT="cpu %U %S"; time "$@"', '-', *command]


def cpu_of(text):
    found = re.search(r'^cpu ([\d.]+) ([\d.]+)', text, re.M)
    if not found:
        raise Failure(f'no processor time in:\n{text[-400:]}')
    return float(found[1]) + float(found[2])


class Udp:
    """@bench: the Bench of bench/run. @series: its class of values."""

    def __init__(self, bench, series):
        self.bench, self.table, self.series = bench, bench.table, series
        self.of = {}

    def count(self, in_two_seconds):
        return max(1, round(in_two_seconds * self.bench.seconds / 2 / 128)) * 128

    def measure(self, topology, title, plan):
        """@plan: (name, unit, function, arguments ...) of each series."""
        self.of = {name: self.series(name, unit) for name, unit, *_ in plan}
        for _ in range(self.bench.repeats):
            for name, _, function, *args in plan:
                self.bench.series(self.of[name], function, topology, *args)
        self.table.say(f'{title}, {topology.name}')
        for name, one in self.of.items():
            self.table.say(f'    {name:42s} {one}')

    def goal(self, topology, ours, aim, more=False, base=None, base_name='', beside=()):
        self.table.goal(f'{ours}, {topology.name}', self.of[ours], aim, more,
                        self.of[base] if base else None, base_name, [self.of[one] for one in beside])

    # ---- one number each ----

    def messages(self, topology, command):
        text = self.bench.pair(topology, command).client.text
        return number(r'^ *\d+ +\d+ +[\d.]+ +[\d.]+\s+([\d.]+)', text, command)

    def typical(self, topology, command):
        text = self.bench.pair(topology, command).client.text
        return number(r'^ *\d+ +\d+ +[\d.]+ +[\d.]+ +([\d.]+) ', text, command)

    def passive(self, topology, count):
        """A WRITE to a process that never posts, one at a time, to its completion."""
        return 1 / self.messages(topology, f'ib_write_bw -F -s 2 -t 1 -Q 1 -N -n {count}')

    @staticmethod
    def wait_bound(end, port, server):
        """Until the server has its UDP port."""
        end.wait_listening(port, server, served=1)

    def bare(self, topology, count, *options, size=8):
        """Median half round trip of bare UDP; @options: of the server."""
        port = next(lab.PORTS)
        tool = os.path.join(self.bench.programs, 'udp_pingpong')
        with topology.server.start(words(tool, *options, '-s', size, '-p', port)) as server:
            self.wait_bound(topology.server, port, server)
            with topology.client.start(words(tool, '-s', size, '-n', count, '-p', port,
                                             topology.server.address)) as client:
                if client.wait(60) != 0:
                    raise Failure(f'udp_pingpong: {client.tail()}\n{server.tail()}')
                return number(r'median ([\d.]+)', client.text, tool)

    def round_trip(self, topology, count, *options):
        return 2 * self.bare(topology, count, *options)

    def write_bw(self, topology, mtu, in_two_seconds=20000, more=''):
        count = self.count(in_two_seconds)
        command = f'ib_write_bw -F -s {BANDWIDTH_BYTES} -m {mtu} -n {count} {more}'
        text = self.bench.pair(topology, command).client.text
        return number(rf'^ *{BANDWIDTH_BYTES} +\d+ +[\d.]+ +([\d.]+)', text, 'ib_write_bw') * MIB / 1e6

    def write_cpu(self, topology, mtu):
        """Both processes', for what the longer of two runs sends more."""
        taken, long = [], self.count(20000) + SHORT
        for count in (SHORT, long):
            command = timed(words('ib_write_bw', '-F', '-s', BANDWIDTH_BYTES, '-m', mtu, '-n', count))
            pair = lab.run_pair(topology, command, timeout=60).check()
            taken.append(cpu_of(pair.server.text) + cpu_of(pair.client.text))
        return (taken[1] - taken[0]) / ((long - SHORT) * BANDWIDTH_BYTES / 1e9)

    def blast(self, topology, segment, *form):
        """What bare UDP with an ICRC receives: its output, both ends'; @form: more options of the sender."""
        port = next(lab.PORTS)
        tool = os.path.join(self.bench.programs, 'udp_blast')
        with topology.server.start(words(tool, '-c', '-p', port)) as server:
            self.wait_bound(topology.server, port, server)
            with topology.client.start(words(tool, '-c', '-p', port, '-s', segment, '-t',
                                             self.bench.seconds, *form, topology.server.address)) as client:
                if client.wait(60) != 0 or server.wait(10) != 0:
                    raise Failure(f'udp_blast: {client.tail()}\n{server.tail()}')
                return client.text, server.text

    def blast_bw(self, topology, segment, *form):
        return number(r'received ([\d.]+) Gb/s', self.blast(topology, segment, *form)[1], 'udp_blast') * 1000 / 8

    def blast_cpu(self, topology, segment):
        return sum(number(r'cpu ([\d.]+) s/GB', text, 'udp_blast')
                   for text in self.blast(topology, segment))

    # ---- parts ----

    def rate(self, topology):
        n = self.count(1000000)
        write, listed, send = 'ib_write_bw 8 B', 'ib_write_bw 8 B, list of 16', 'ib_send_bw 64 B'
        self.measure(topology, 'UDP: messages a second, one QP', [
            (write, MPS, self.messages, f'ib_write_bw -F -s 8 -N -n {n}'),
            (listed, MPS, self.messages, f'ib_write_bw -F -s 8 -N -l 16 -n {n}'),
            (send, MPS, self.messages, f'ib_send_bw -F -s 64 -N -n {n}')])
        self.goal(topology, write, 1, more=True, beside=(listed,))
        self.goal(topology, send, 0.8, more=True)

    def reply(self, topology):
        n = self.count(20000)
        send, write, passive = 'ib_send_lat 2 B', 'ib_write_lat 2 B', 'WRITE 2 B, passive target, completion'
        bare, asleep = 'bare UDP', 'bare UDP, server sleeps, whole round trip'
        self.measure(topology, 'UDP: replies, half a round trip', [
            (bare, US, self.bare, n),
            (send, US, self.typical, f'ib_send_lat -F -s 2 -n {n}'),
            (write, US, self.typical, f'ib_write_lat -F -s 2 -n {n}'),
            (passive, US, self.passive, n),
            (asleep, US, self.round_trip, n, '-w')])
        self.goal(topology, send, 1.3, base=bare, base_name='bare')
        self.goal(topology, write, 1.3, base=send, base_name='send')
        self.goal(topology, passive, 1, base=asleep, base_name='asleep')

    def bandwidth(self, topology, mtu):
        ours, blast = 'ib_write_bw 64 KiB', 'UDP blast with ICRC'
        segment = mtu + 60                      # headers and ICRC of a WRITE
        self.measure(topology, 'UDP: bandwidth', [
            (ours, MBS, self.write_bw, mtu), (blast, MBS, self.blast_bw, segment),
            (f'{ours}: CPU time', S_PER_GB, self.write_cpu, mtu),
            (f'{blast}: CPU time', S_PER_GB, self.blast_cpu, segment)])
        self.goal(topology, ours, 0.8, more=True, base=blast, base_name='blast')
