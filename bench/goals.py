# SPDX-License-Identifier: BSD-2-Clause
"""bench/run --goals: what Verbatim is to reach, each row beside its limit, by turns; the ratio of
each run to its neighbour, median and worst of those, and modes.

Neither ours nor the limits are pinned: so are programs run, and on two idle processors the scheduler
keeps two that spin apart. --pin puts servers on the first processor and clients on the second, ours
and limits alike, but for rows of more than two processes. Latencies of a run are medians of thousands
of round trips, so the first ones, which connect and map, do not count; of rates so much is sent that
they do not matter."""
import contextlib
import copy
import dataclasses
import os
import re
import statistics
import time
import typing

import instructions
import lab
import load
from connections import Connections
from inside import MBS, MPS, US, Inside
from lab import Failure, Skip
from middleware import RANKS, RC, Middleware
from peers import number
from samples import Series, ratios
from udp import Udp

SIM_SEEDS = 10
COUNTED = 3                 # runs of request_cost: a peer that has lost its processor is waked, which adds
DATAGRAM_BYTES = 20         # of UDP's payload for 2 bytes: BTH, padding, ICRC
MTU = 1024                  # of RoCE, on an interface of 1500
GBPS = 'Gb/s'
SHAPED_MESSAGES = 4000      # of 64 KiB in two seconds, 130 MB/s: more than the link takes
SHAPED_MBIT = 400
FRAME = MTU + 58            # bytes as tbf counts them: Ethernet, IPv4, UDP, BTH, ICRC
# 92 % of the link. Not in bytes: of those nft lets a second's worth by before it says that they are too many.
MARKS_FROM = f'{SHAPED_MBIT * 1000000 // 8 * 92 // 100 // FRAME}/second burst 32 packets'
FLOWS, FLOW_S = 8, 6        # perftest leaves out the first two seconds and the last


@dataclasses.dataclass
class Row:
    """@ours, @limit: name, and function of a topology; without a limit @goal is in @unit. @worst: the
    goal of the worst run. @spread: more processes than processors, never pinned. @fixed: no times: the
    functions give the values of all runs."""
    key: str
    work: str
    where: str
    unit: str
    ours: tuple[str, typing.Callable]
    limit: tuple[str, typing.Callable] | None
    goal: float
    worst: float | None = None
    more: bool = False
    spread: bool = False
    fixed: bool = False


class Pinned(lab.End):
    """An end whose programs stay on one processor."""

    def __init__(self, end, processor):
        super().__init__(end.namespace, end.device, end.address, end.address6, end.user, end.lab,
                         end.variables)
        self.processor = processor

    def start(self, command, env=None, user=None):
        on = ['taskset', '-c', str(self.processor)]
        return super().start(on + command, env, user)


def pinned(topology):
    out = copy.copy(topology)
    out.server, out.client = Pinned(topology.server, 0), Pinned(topology.client, 1)
    return out


def whole_packets(topology):
    """Batches of datagrams (GSO) are cut before they leave: a loss or a mark hits one packet, as on a cable."""
    for namespace, link in zip(topology.namespaces, ('va', 'vb')):
        namespace.call('ip', 'link', 'set', 'dev', link, 'gso_max_segs', '1')
    return topology


def shaped(topology):
    """A link of SHAPED_MBIT with 20 ms of room in the client's direction."""
    topology.client.namespace.call(
        *f'tc qdisc add dev vb root tbf rate {SHAPED_MBIT}mbit burst 64kb latency 20ms'.split())
    return topology


class Goals:
    """@bench: the Bench of bench/run. @chosen: its options."""

    def __init__(self, bench, chosen):
        self.bench, self.table, self.chosen = bench, bench.table, chosen
        self.udp, self.connections = Udp(bench, Series), Connections(bench, Series)
        self.middleware = Middleware(bench, Series)
        self.topologies, self.counted, self.simulated = {}, None, None
        self.stack = contextlib.ExitStack()
        self.rows = self.inside_rows() + self.udp_rows() + self.other_rows()

    def names(self):
        return [row.key for row in self.rows]

    # ---- where ----

    def topology(self, name):
        if name not in self.topologies:
            place = self.bench.place
            made = {'lo': lambda: lab.loopback(place), 'veth': lambda: lab.veth(place, 1500),
                    'lossy': lambda: whole_packets(lab.veth(place, 1500)),
                    'shaped': lambda: whole_packets(lab.veth(place, 1500))}[name]()
            self.stack.callback(made.close)
            if name == 'shaped':
                shaped(made)
            self.topologies[name] = made
        return self.topologies[name]

    def placed(self, name, spread=False):
        """With --pin: programs on processors of their own."""
        return pinned(self.topology(name)) if self.chosen.pin and not spread else self.topology(name)

    def inside(self, topology):
        inside = Inside(self.bench, Series)
        inside.start(topology)
        return inside

    # ---- one number each ----

    def latency(self, topology, verb):
        """Half a round trip: the mean of the middle half of them. perftest's table has hundredths of a
        microsecond, and where the clock itself has steps of 10 ns, a median is one of these."""
        count = self.udp.count(50000)
        size = '' if verb == 'atomic' else '-s 2 '  # those of atomics are 8 bytes
        text = self.inside(topology).perftest.run(f'ib_{verb}_lat -F -U {size}-n {count}', 'mapped')
        taken = [float(us) for us in re.findall(r'^\d+, ([\d.e+-]+)$', text, re.M)]
        if len(taken) < count / 2:
            raise Failure(f'ib_{verb}_lat: {len(taken)} results of {count}:\n{text[-400:]}')
        taken.sort()
        return statistics.fmean(taken[len(taken) // 4:len(taken) * 3 // 4])

    def messages(self, topology, line, in_two_seconds):
        count = self.udp.count(in_two_seconds)
        return self.inside(topology).perftest.messages(f'{line} -N -n {count}', 'mapped')

    def line(self, topology):
        count = self.udp.count(1000000)
        return self.inside(topology).others.raw_latency('line -n', count)

    def ucx(self, topology, what, line, in_two_seconds, mode=None):
        """Over our RC, or what UCX itself takes of shared memory."""
        measure = getattr(self.inside(topology).others, f'ucx_{what}')
        line = f'{line} -n {self.udp.count(in_two_seconds)} -w 1000'
        return measure(RC if mode else 'shm,self', line, mode)

    def typical(self, topology, verb):
        return self.udp.typical(topology, f'ib_{verb}_lat -F -s 2 -n {self.udp.count(20000)}')

    def bare(self, topology):
        return self.udp.bare(topology, self.udp.count(20000), size=DATAGRAM_BYTES)

    def lossy(self, topology):
        with topology.loss(1) as lost:
            return self.of_some(lost, self.udp.write_bw(topology, MTU))

    def lossless(self, topology):
        """Each packet asked of the same filter, which takes processor time, and goes on."""
        with topology.filtered('udp dport 4791 numgen random mod 1000 < 10 counter') as met:
            return self.of_some(met, self.udp.write_bw(topology, MTU))

    @staticmethod
    def of_some(counted, value):
        """@value, if the filter has met packets: otherwise it says nothing."""
        if not counted():
            raise Failure('no packet was lost or marked')
        return value

    def shaped(self, topology):
        """ECT by the program's traffic class, or packets would be only from the first loss on."""
        return self.udp.write_bw(topology, MTU, SHAPED_MESSAGES, '--tclass=2')

    def marked(self, topology):
        """Marked where the rate is above 92 % of the link's, as by a switch whose queue begins to fill."""
        with topology.filtered(f'udp dport 4791 ip ecn ect0 limit rate over {MARKS_FROM} '
                               'counter ip ecn set ce') as marked:
            return self.of_some(marked, self.shaped(topology))

    def fairness(self, topology):
        """Jain's index of flows of processes of their own: 1 where all have the same."""
        rates = [rate for rate, _ in self.inside(topology).perftest.rates_of_pairs(
            f'ib_write_bw -s 65536 -D {FLOW_S}', FLOWS, 'UDP')]
        return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))

    def connects(self, topology, tcp, memory='off'):
        return self.connections.rate(topology, tcp, 64, self.udp.count(4000),
                                     variables={'VERBATIM_MEMORY': memory})

    def alltoall(self, topology, way, size):
        self.middleware.start(topology)
        text = self.middleware.mpi_run(way, RANKS, self.udp.count(2000))
        return number(rf'^alltoall of {size} bytes ([\d.]+) us', text, 'mpi_rate')

    def instructions_of(self, work):
        if self.counted is None:
            build = os.path.dirname(self.chosen.lib)
            self.counted = [instructions.count(build) for _ in range(COUNTED)]
        if not all(work in counted for counted in self.counted):
            raise Failure(f'request_cost counts no {work}')
        return [counted[work] for counted in self.counted]

    def goodput(self, delay_us, column):
        """Of each seed: column 0 without loss, 1 with 1 %."""
        if self.simulated is None:
            tool = os.path.join(os.path.dirname(self.chosen.programs), 'tests', 'sim', 'sim_matrix')
            if not os.access(tool, os.X_OK):
                raise Failure(f'{tool} is missing: make tests')
            self.simulated = lab.call([tool, '--loss', str(SIM_SEEDS)])
        found = re.findall(rf'^delay {delay_us} us seed \d+ none ([\d.]+) lost ([\d.]+)$',
                           self.simulated, re.M)
        if len(found) != SIM_SEEDS:
            raise Failure(f'sim_matrix: {len(found)} results of {SIM_SEEDS}')
        return [float(one[column]) for one in found]

    # ---- the rows ----

    def inside_rows(self):
        write = 'ib_write_lat 2 B', lambda at: self.latency(at, 'write')
        send = 'ib_send_lat 2 B', lambda at: self.latency(at, 'send')
        line = 'a cache line there', self.line
        tag = 'UCX tag 2 B, shm', lambda at: self.ucx(at, 'latency', '-t tag_lat -s 2', 100000)
        rate = 'UCX tag 64 B, shm', lambda at: self.ucx(at, 'messages', '-t tag_bw -s 64', 6e6)

        def counted(work, batch):
            return f'request_cost {work}', lambda at: self.instructions_of(f'{work}, {batch} in a row')
        return [
            Row('write-line', 'WRITE 2 B one way / cache line', 'lo', US, write, line, 1.2, 1.6),
            Row('send-line', 'SEND 2 B one way / cache line', 'lo', US, send, line, 2, 3),
            Row('send-tag', 'SEND 2 B one way / UCX tag', 'lo', US, send, tag, 1, 1.5),
            Row('write-rate', '8 B WRITEs, one post each', 'lo', MPS,
                ('ib_write_bw 8 B', lambda at: self.messages(at, 'ib_write_bw -s 8', 1e7)),
                None, 18, 14, more=True),
            Row('send-rate', '64 B SENDs / UCX tag', 'lo', MPS,
                ('ib_send_bw 64 B', lambda at: self.messages(at, 'ib_send_bw -s 64', 4e6)),
                rate, 0.8, 0.6, more=True),
            *(Row(f'instructions-{name}-{batch}', f'instructions: {what}, {batch} in a row', 'lo',
                  'instructions', counted(work, batch), None, 500, fixed=True)
              for name, what, work in (('send', 'post of a SEND', 'post'),
                                       ('write', 'post of a WRITE', 'write'),
                                       ('receive', 'receive of a SEND', 'receive'))
              for batch in (1, 16))]

    def udp_rows(self):
        out = []
        for where in 'lo', 'veth':
            send = 'ib_send_lat 2 B, UDP', lambda at: self.typical(at, 'send')
            out += [
                Row(f'send-udp-{where}', f'SEND over UDP / bare UDP, {where}', where, US, send,
                    ('bare UDP', self.bare), 1.3, 1.6),
                Row(f'write-udp-{where}', f'write_lat over UDP / send_lat, {where}', where, US,
                    ('ib_write_lat 2 B, UDP', lambda at: self.typical(at, 'write')), send, 1, 1.3)]
        return out + [
            Row('bandwidth-udp', '64 KiB WRITE over UDP / GSO blast with ICRC', 'lo', MBS,
                ('ib_write_bw 64 KiB, UDP', lambda at: self.udp.write_bw(at, 4096)),
                ('UDP blast', lambda at: self.udp.blast_bw(at, 4096 + 60)), 0.85, 0.75, more=True),
            Row('bandwidth-udp-form', '64 KiB WRITE over UDP / blast of such messages', 'lo', MBS,
                ('ib_write_bw 64 KiB, UDP', lambda at: self.udp.write_bw(at, 4096)),
                ('UDP blast, as WRITEs', lambda at: self.udp.blast_bw(at, 4096 + 16, '-w')), 0.85, 0.75,
                more=True),
            *(Row(f'goodput-{delay}us', f'goodput at 1 % loss / none, virtual, {delay} us', 'lo',
                  GBPS, ('1 % lost', lambda at, us=delay: self.goodput(us, 1)),
                  ('nothing lost', lambda at, us=delay: self.goodput(us, 0)), 0.9, 0.8, more=True,
                  fixed=True) for delay in (3, 50)),
            Row('goodput-veth', 'goodput at 1 % loss / none, veth', 'lossy', MBS,
                ('ib_write_bw 64 KiB, 1 % lost', self.lossy),
                ('nothing lost', self.lossless), 0.9, 0.8, more=True),
            Row('marks-veth', 'goodput through 400 Mb/s, marked / without marks', 'shaped', MBS,
                ('marked above 92 %', self.marked), ('nothing marked', self.shaped), 0.8, 0.7,
                more=True),
            Row('fairness-veth', f'Jain\'s index of {FLOWS} flows through 400 Mb/s', 'shaped', 'of 1',
                (f'ib_write_bw 64 KiB, {FLOWS} flows', self.fairness), None, 0.9, 0.8, more=True,
                spread=True)]

    def other_rows(self):
        tag = '-t tag_lat -s 8'
        out = [Row('ucx', 'UCX over rc_v, tag 8 B / UCX shm', 'lo', US,
                   ('UCX tag 8 B, rc_v', lambda at: self.ucx(at, 'latency', tag, 50000, 'mapped')),
                   ('UCX tag 8 B, shm', lambda at: self.ucx(at, 'latency', tag, 100000)), 1.2)]
        for size, name in (8, '8 B'), (65536, '64 KiB'):
            work = f'Open MPI alltoall {name}, {RANKS} ranks'
            ours = f'{work}, rc_v', lambda at, s=size: self.alltoall(at, 'UCX', s)
            for key, way, what in ((f'alltoall-{size}', 'UCX, shm', 'UCX shm'),
                                   (f'alltoall-{size}-own', 'shared memory', 'its own shm')):
                limit = f'the same, {what}', lambda at, s=size, w=way: self.alltoall(at, w, s)
                out.append(Row(key, f'{work} / {what}', 'lo', US, ours, limit, 1.5, spread=True))
        for key, where, memory in (('lo', 'lo', 'auto'), ('lo-udp', 'lo', 'off'), ('veth', 'veth', 'off')):
            out.append(Row(f'connects-{key}', f'connects a second / TCP, 64 under way, {key}', where, '/s',
                           ('rdma_cm connects', lambda at, m=memory: self.connects(at, False, m)),
                           ('TCP connects', lambda at: self.connects(at, True)), 0.8, more=True))
        return out

    # ---- a run ----

    def one_run(self, series, function, topology):
        """False, and said: no value."""
        try:
            value = function(topology)
            series.values += value if isinstance(value, list) else [value]
            return True
        except (Failure, Skip) as why:
            self.table.say(f'    {series.name}: {str(why).splitlines()[0]}')
            return False

    def measure(self, row):
        """Runs of ours and of the limit: a run whose neighbour failed does not count."""
        ours = Series(row.ours[0], row.unit, row.more)
        limit = Series(row.limit[0], row.unit, row.more) if row.limit else None
        try:
            topology = self.placed(row.where, row.spread or row.fixed)
        except (Failure, Skip) as why:
            self.table.say(f'    {row.key}: {str(why).splitlines()[0]}')
            return ours, limit
        for _ in range(1 if row.fixed else self.chosen.repeats):
            if self.one_run(ours, row.ours[1], topology) and limit and \
                    not self.one_run(limit, row.limit[1], topology):
                del ours.values[len(limit.values):]
        return ours, limit

    def run(self, row):
        begin, share = time.monotonic(), load.Share()
        ours, limit = self.measure(row)
        others = share.others()
        result = Result(row, ours, limit, 0 if row.fixed else others)
        self.table.say(f'{row.key}: {row.work} ({time.monotonic() - begin:.0f} s)')
        for series in filter(None, (ours, limit, result.judged if limit else None)):
            self.table.say(f'    {series.name:34s} {series}')
        self.table.say('    ' + result.verdict())
        return result

    def run_all(self, keys):
        """The table, whole, of these rows; how many were missed."""
        with self.stack:
            results = [self.run(row) for row in self.rows if row.key in keys]
        self.table.say('')
        for line in table_of(results):
            self.table.say(line)
        missed = [one.row.key for one in results if not one.met()]
        self.table.say(f'{len(results) - len(missed)} of {len(results)} goals met; missed: '
                       + (', '.join(missed) or 'nothing'))
        return len(missed)


class Result:
    """What a row came to. @judged: what its goals are about."""

    def __init__(self, row, ours, limit, others=0.0):
        self.row, self.ours, self.limit, self.others = row, ours, limit, others
        self.judged = ratios(ours, limit) if limit else ours

    def reaches(self, value, goal):
        return value >= goal if self.row.more else value <= goal

    def met(self):
        if not self.judged.values or not self.reaches(self.judged.median, self.row.goal):
            return False
        return self.row.worst is None or self.reaches(self.judged.worst, self.row.worst)

    def part(self, value, goal):
        """A value, what it should be, and whether it is."""
        sign = '>=' if self.row.more else '<='
        return (f'{value:.4g}', f'{sign} {goal:g}' if goal is not None else '-',
                '' if goal is None else 'met' if self.reaches(value, goal) else 'MISSED')

    def cells(self):
        if not self.judged.values:
            return [self.row.key, self.row.work, 'NO RESULT'] + [''] * 7
        modes = self.judged.modes
        return [self.row.key, self.row.work, *self.part(self.judged.median, self.row.goal),
                *self.part(self.judged.worst, self.row.worst), str(len(self.judged.values)),
                f'{modes} BIMODAL' if modes == 2 else f'{modes} MODES' if modes > 2 else '1']

    def verdict(self):
        if not self.judged.values:
            return 'no result: MISSED'
        said = [' '.join((name, *self.part(value, goal))).rstrip() for name, value, goal in (
            ('median', self.judged.median, self.row.goal), ('worst', self.judged.worst, self.row.worst))]
        if self.others > load.BUSY:
            said.append('NOT IDLE: ' + load.say_busy(self.others))
        return '; '.join(said)


def table_of(results):
    """Lines, with a head; ratios to the limit, or in the unit of the goal."""
    rows = [['row', 'work', 'median', 'goal', '', 'worst', 'goal', '', 'runs', 'modes']]
    rows += [one.cells() for one in results]
    width = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ['  '.join(cell.ljust(w) for cell, w in zip(row, width)).rstrip() for row in rows]
