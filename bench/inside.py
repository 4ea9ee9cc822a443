# SPDX-License-Identifier: BSD-2-Clause
"""The parts of bench/run about two processes of one host: Verbatim through memory that peers map,
by one copy, and by UDP (VERBATIM_MEMORY=auto, copy, off), beside UCX, libfabric, TCP and bare
memory. Each part runs everything once, then everything again; ratios are of medians."""
import os

from harness import words
from lab import Failure, Skip
import peers
from peers import BASE, MODES, MIB, Others, Perftest, environment, number

US, MPS, MBS = 'us', 'M/s', 'MB/s'
UCX_PUT = '-d memory -x posix'          # of UCT: UCX's lowest layer, a store into mapped memory
QPS, PAIRS = 16, 4
SPINNING_PAIRS = 20
IDLE_QPS = 64
SECONDS = 1                             # of programs that know of whole seconds only


class Inside:
    """@bench: the Bench of bench/run. @series: its class of values."""

    def __init__(self, bench, series):
        self.bench, self.table, self.series = bench, bench.table, series
        self.of = {}

    def start(self, topology):
        self.perftest = Perftest(topology)
        self.others = Others(topology, os.path.join(self.bench.place.directory, 'others'),
                             self.bench.programs)

    def count(self, in_two_seconds, multiple=64):
        """How often something is done, in proportion to --seconds; whole lists of @multiple."""
        return max(1, round(in_two_seconds * self.bench.seconds / 2 / multiple)) * multiple

    def measure(self, title, plan):
        """@plan: (name, unit, function, arguments ... and the mode, if it is ours) of each series.
        Interleaved; with --base ours are measured with the other build, too, before and behind, and have
        to lie within the spread of that."""
        ours = [row for row in plan if row[-1] in MODES] if peers.base_library else []
        for row in ours:
            at = plan.index(row)
            base = (row[0] + BASE, *row[1:-1], row[-1] + BASE)
            plan[at:at + 1] = [base, row, base]
        for name, unit, *_ in plan:
            self.of[name] = self.series(name, unit)
        for _ in range(self.bench.repeats):
            for name, _, function, *args in plan:
                self.bench.series(self.of[name], function, *args)
        self.table.say(title)
        for name in dict.fromkeys(row[0] for row in plan):
            self.table.say(f'    {name:42s} {self.of[name]}')
        for name, unit, *_ in ours:
            base = self.of[name + BASE]
            edge = (max if unit == US else min)(base.values, default=0)
            self.goal(name, name, edge / base.median if base.values else 1, more=unit != US,
                      base=name + BASE, base_name='base')

    def goal(self, work, ours, aim, more=False, base=None, base_name='', beside=()):
        """@ours, @base, @beside: names of series. @aim: in their unit, or times @base."""
        self.table.goal(work, self.of[ours], aim, more, self.of[base] if base else None, base_name,
                        [self.of[name] for name in beside if self.of[name].values])

    # ---- latency ----

    def latency(self, topology):
        self.start(topology)
        lat, others, n = self.perftest.latency, self.others, self.count(20000)
        plan = []
        for mode in MODES:
            for verb, size in (('send', '-s 2'), ('write', '-s 2'), ('read', '-s 2'),
                               ('atomic', '')):
                plan.append((f'ib_{verb}_lat, {mode}', US, lat, f'ib_{verb}_lat {size} -n {n}',
                             mode))
        plan += [
            ('UCX put, posix', US, others.ucx_latency, 'posix,self',
             f'-t put_lat {UCX_PUT} -s 8 -n {n} -w 1000'),
            ('UCX tag, posix', US, others.ucx_latency, 'posix,self',
             f'-t tag_lat -s 8 -n {n} -w 1000'),
            ('libfabric shm (mean)', US, others.fabric_latency, 'shm', 8, n),
            ('libfabric tcp (mean)', US, others.fabric_latency, 'tcp', 8, n),
            ('TCP, spinning (sockperf)', US, others.sockperf, 14, SECONDS),
            ('cache line', US, others.raw_latency, 'line -n', 10 * n),
            ('bare process_vm ping-pong', US, others.raw_latency, 'vm_pingpong -n', n),
            ('bare process_vm_readv, 2 bytes', US, others.raw_latency, 'vm_read -s 2'),
            ('bare process_vm_readv, 8 bytes', US, others.raw_latency, 'vm_read -s 8'),
            ('bare process_vm_writev, 8 bytes', US, others.raw_latency, 'vm_write -s 8'),
        ]
        self.measure('inside a host: latency, half a round trip (reads and atomics: a whole one)',
                     plan)
        line = {'base': 'cache line', 'base_name': 'line'}
        self.goal('ib_send_lat 2 B', 'ib_send_lat, mapped', 1, base='UCX tag, posix',
                  base_name='UCX tag', beside=('libfabric shm (mean)', 'TCP, spinning (sockperf)'))
        self.goal('ib_send_lat 2 B', 'ib_send_lat, mapped', 2.5, **line)
        self.goal('ib_write_lat 2 B', 'ib_write_lat, mapped', 1.5, **line,
                  beside=('UCX put, posix',))
        self.goal('ib_read_lat 2 B', 'ib_read_lat, mapped', 1.5, **line)
        self.goal('ib_atomic_lat', 'ib_atomic_lat, mapped', 1.5, **line)
        self.goal('ib_write_lat 2 B, copy', 'ib_write_lat, copy', 1.2,
                  base='bare process_vm ping-pong', base_name='bare')
        self.goal('ib_read_lat 2 B, copy', 'ib_read_lat, copy', 1.2,
                  base='bare process_vm_readv, 2 bytes', base_name='bare')

    # ---- messages a second ----

    def rate(self, topology):
        self.start(topology)
        messages, others, plan = self.perftest.messages, self.others, []
        for mode, count in (('mapped', 5e6), ('copy', 4e5), ('UDP', 4e5)):
            n = self.count(count)
            plan += [(f'ib_write_bw 8 B, {mode}', MPS, messages, f'ib_write_bw -s 8 -N -n {n}', mode),
                     (f'ib_write_bw 8 B, list of 16, {mode}', MPS, messages,
                      f'ib_write_bw -s 8 -N -l 16 -n {n}', mode)]
            n = self.count(2e6 if mode == 'mapped' else count)
            plan.append((f'ib_send_bw 64 B, {mode}', MPS, messages, f'ib_send_bw -s 64 -N -n {n}',
                         mode))
        n = self.count(3e6)
        plan += [('UCX put 8 B, posix', MPS, others.ucx_messages, 'posix,self',
                  f'-t put_bw {UCX_PUT} -s 8 -n {n} -w 1000'),
                 ('UCX tag 8 B, posix', MPS, others.ucx_messages, 'posix,self',
                  f'-t tag_bw -s 8 -n {n} -w 1000'),
                 ('UCX tag 64 B, posix', MPS, others.ucx_messages, 'posix,self',
                  f'-t tag_bw -s 64 -n {n} -w 1000')]
        self.measure('inside a host: messages a second, one QP', plan)
        self.goal('ib_write_bw 8 B', 'ib_write_bw 8 B, mapped', 10, more=True,
                  beside=('UCX put 8 B, posix', 'UCX tag 8 B, posix'))
        self.goal('ib_write_bw 8 B, post list', 'ib_write_bw 8 B, list of 16, mapped', 10, more=True)
        self.goal('ib_send_bw 64 B', 'ib_send_bw 64 B, mapped', 5, more=True,
                  beside=('UCX tag 64 B, posix',))

    # ---- bandwidth ----

    def bandwidth(self, topology):
        self.start(topology)
        others, plan = self.others, []
        verbs = ('write', 'read', 'send')
        for mode, count in (('mapped', 5000), ('copy', 3000), ('UDP', 1000)):
            for verb in verbs:
                plan.append((f'ib_{verb}_bw 1 MiB, {mode}', MBS, self.perftest.bandwidth,
                             f'ib_{verb}_bw -s {MIB} -N -n {self.count(count)}', mode))
        n = self.count(3000)
        raw = ('-s', MIB, '-t', min(self.bench.seconds / 4, 0.5))
        plan += [('memcpy 1 MiB, shared pages', MBS, others.raw_bandwidth, 'memcpy', *raw),
                 ('process_vm_writev 1 MiB', MBS, others.raw_bandwidth, 'vm_write', *raw),
                 ('process_vm_readv 1 MiB', MBS, others.raw_bandwidth, 'vm_read', *raw),
                 ('UCX put 1 MiB, posix', MBS, others.ucx_bandwidth, 'posix,self',
                  f'-t put_bw {UCX_PUT} -D short -s {MIB} -n {n} -w 10'),
                 ('UCX put 1 MiB, cma', MBS, others.ucx_bandwidth, 'posix,self',
                  f'-t put_bw -d memory -x cma -D zcopy -s {MIB} -n {n} -w 10'),
                 ('UCX tag 1 MiB, posix', MBS, others.ucx_bandwidth, 'posix,self',
                  f'-t tag_bw -s {MIB} -n {n} -w 10'),
                 ('UCX tag 1 MiB, cma', MBS, others.ucx_bandwidth, 'posix,cma,self',
                  f'-t tag_bw -s {MIB} -n {n} -w 10'),
                 ('libfabric shm 1 MiB (ping-pong)', MBS, others.fabric_bandwidth, 'shm', MIB, n // 4),
                 ('libfabric tcp 1 MiB (ping-pong)', MBS, others.fabric_bandwidth, 'tcp', MIB, n // 8),
                 ('TCP (iperf3)', MBS, others.iperf, MIB, SECONDS)]
        self.measure('inside a host: bandwidth, one QP', plan)
        for verb in verbs:
            self.goal(f'ib_{verb}_bw 1 MiB', f'ib_{verb}_bw 1 MiB, mapped', 0.95, more=True,
                      base='memcpy 1 MiB, shared pages', base_name='memcpy',
                      beside=('UCX tag 1 MiB, cma', 'TCP (iperf3)') if verb == 'send' else
                      ('UCX put 1 MiB, posix',))
        for verb, bare in (('write', 'process_vm_writev'), ('read', 'process_vm_readv'),
                           ('send', 'process_vm_writev')):
            self.goal(f'ib_{verb}_bw 1 MiB, copy', f'ib_{verb}_bw 1 MiB, copy', 0.95, more=True,
                      base=f'{bare} 1 MiB', base_name='bare')

    # ---- UC and UD ----

    def services(self, topology):
        """Beside RC at the same size."""
        self.start(topology)
        bandwidth, plan = self.perftest.bandwidth, []
        for mode in ('mapped', 'copy'):
            write = f'ib_write_bw -s 65536 -N -n {self.count(80000)}'
            send = f'ib_send_bw -s 4096 -N -n {self.count(300000)}'
            plan += [(f'{tool} {size}, {service}, {mode}', MBS, bandwidth, f'{line} -c {service}', mode)
                     for tool, size, line, services in (
                         ('ib_write_bw', '64 KiB', write, ('RC', 'UC')),
                         ('ib_send_bw', '4 KiB', send, ('RC', 'UC', 'UD')))
                     for service in services]
        self.measure('inside a host: UC and UD, one QP', plan)
        for mode in ('mapped', 'copy'):
            for row, service in (('ib_write_bw 64 KiB', 'UC'), ('ib_send_bw 4 KiB', 'UD'),
                                 ('ib_send_bw 4 KiB', 'UC')):
                self.goal(f'{row}, {service}, {mode}', f'{row}, {service}, {mode}', 0.5, more=True,
                          base=f'{row}, RC, {mode}', base_name='RC')

    # ---- more QPs and processes than processors ----

    def many(self, topology):
        """The total of messages of 64 bytes against that of one pair that spins on one QP."""
        self.start(topology)
        # With several QPs perftest spins for ever unless it is a multiple of its --cq-mod, 100: it
        # counts the last completion of each QP as 100 messages too, and stops polling too early.
        # Long: at its start each perftest measures its processor's frequency, in a busy loop.
        n = self.count(1000000, 100)
        one, pairs = self.perftest.messages, self.perftest.messages_of_pairs
        line = f'ib_send_bw -s 64 -N -n {n}'
        cases = [('one pair', one, line, 'mapped'),
                 ('one pair, events', one, f'{line} -e', 'mapped'),
                 (f'one pair, {QPS} QPs', one, f'{line} -q {QPS}', 'mapped'),
                 (f'{SPINNING_PAIRS} pairs', pairs,
                  f'ib_send_bw -s 64 -N -n {self.count(600000, 100)}', SPINNING_PAIRS, 'mapped'),
                 (f'{PAIRS} pairs, events', pairs, f'{line} -e', PAIRS, 'mapped'),
                 (f'{PAIRS} pairs, {QPS} QPs, events', pairs, f'{line} -e -q {QPS}', PAIRS,
                  'mapped')]
        self.measure('inside a host: ib_send_bw 64 B, total of all QPs',
                     [(name, MPS, *rest) for name, *rest in cases])
        for name, *_ in cases[1:]:
            self.goal(f'send 64 B, {name}', name, 0.5, more=True, base='one pair',
                      base_name='one pair')

    # ---- the target sleeps, both sleep ----

    def asleep(self, topology):
        """What a target that does not poll adds: at most the time that waking a thread takes.
        perftest's target of reads, writes and atomics waits in read() of a socket."""
        self.start(topology)
        lat, n = self.perftest.latency, self.count(10000)
        self.measure('inside a host: the target is asleep', [
            ('waking a thread', US, self.others.raw_latency, 'wake -n', n),
            ('waking a thread, other processor', US, self.others.raw_latency, 'wake_apart -n', n),
            ('ib_read_lat, target waits in read(), mapped', US, lat, f'ib_read_lat -s 2 -n {n}',
             'mapped'),
            ('ib_read_lat, target waits in read(), copy', US, lat, f'ib_read_lat -s 2 -n {n}',
             'copy'),
            ('ib_atomic_lat, target waits in read(), copy', US, lat, f'ib_atomic_lat -n {n}', 'copy'),
            ('ib_send_lat, both spin', US, lat, f'ib_send_lat -s 2 -n {n}', 'mapped'),
            ('ib_send_lat, both in ibv_get_cq_event', US, lat, f'ib_send_lat -s 2 -e -n {n}',
             'mapped')])
        wake = 'waking a thread, other processor'
        slept = self.series('spinning + waking on another processor', US)
        slept.values = [a + b for a, b in zip(self.of['ib_send_lat, both spin'].values,
                                              self.of[wake].values)]
        self.of[slept.name] = slept
        self.goal('ib_read_lat, target asleep', 'ib_read_lat, target waits in read(), mapped', 0.5)
        self.goal('ib_send_lat, both in ibv_get_cq_event', 'ib_send_lat, both in ibv_get_cq_event',
                  1, base=slept.name, base_name='spin + wake', beside=('waking a thread', wake))

    # ---- other programs have the processors ----

    def hogs(self, topology):
        """A busy loop for each processor beside two processes in ibv_get_cq_event(). These make progress
        themselves: what the workers take is wasted."""
        self.start(topology)
        line = f'ib_send_lat -s 2 -e -n {self.count(40000)}'
        self.table.say('inside a host: ib_send_lat -e beside a busy loop for each processor')
        for mode in ('mapped', 'UDP'):
            rows = [self.series(f'{what}, {mode}', unit) for what, unit in (
                ('latency', US), ('both workers, of one processor', '%'),
                ('processor time of a round trip', US))]
            for _ in range(self.bench.repeats):
                try:
                    values = self.perftest.latency_beside_hogs(line, mode)
                except (Failure, Skip) as why:
                    self.table.say(f'    {mode}: {str(why).splitlines()[0]}')
                    continue
                for series, value in zip(rows, values):
                    series.values.append(value)
            for series in rows:
                self.of[series.name] = series
                self.table.say(f'    {series.name:42s} {series}')
            self.goal(f'hogs, {mode}: workers', rows[1].name, 5)

    # ---- registration ----

    def registration(self, topology):
        """Of memory in use, for peers to map; beside getting as much from the system."""
        tool = os.path.join(self.bench.programs, 'register_regions')
        rows = [('4 KiB', f'-s {4 << 10}'), ('1 MiB', f'-s {MIB}'), ('64 MiB', f'-s {64 * MIB}'),
                ('4 KiB, 1000 mappings', f'-s {4 << 10} -m 1000')]
        ours = {name: self.series(f'register and deregister {name}', US) for name, _ in rows}
        other = {name: self.series(f'mmap, touch, munmap {name}', US) for name, _ in rows}
        for _ in range(self.bench.repeats):
            for name, line in rows:
                command = words(tool, line, '-t', min(self.bench.seconds / 4, 0.5))
                with topology.client.start(command, environment('mapped')) as program:
                    if program.wait(30) != 0:
                        self.table.say(f'    register_regions: {program.tail()}')
                        continue
                    for series, what in ((ours, 'deregister'), (other, 'munmap')):
                        series[name].values.append(
                            number(rf'{what}: median ([\d.]+) us', program.text, tool))
        self.table.say('inside a host: regions that peers map, registered and deregistered')
        for name, _ in rows:
            self.table.say(f'    {ours[name].name:42s} {ours[name]}\n'
                           f'    {other[name].name:42s} {other[name]}')

    def idle(self, topology):
        cpu, woken = self.series('idle CPU', '%'), self.series('idle wake-ups', '/s')
        tool, seconds = os.path.join(self.bench.programs, 'idle_qps'), 2
        for _ in range(self.bench.repeats):
            command = [tool, str(IDLE_QPS), str(seconds)]
            with topology.client.start(command, environment('mapped')) as program:
                if program.wait(30) != 0:
                    self.table.say(f'    idle_qps: {program.tail()}')
                    continue
                try:
                    cpu.values.append(number(r'idle cpu ([\d.]+)', program.text, 'idle_qps'))
                    woken.values.append(number(r'wake-ups (-?\d+)', program.text, 'idle_qps') /
                                        seconds)
                except Failure as why:
                    self.table.say(f'    {why}')
        self.of.update({'idle CPU': cpu, 'idle wake-ups': woken})
        self.table.say(f'inside a host: two idle processes, {IDLE_QPS} QPs between them\n'
                       f'    {"CPU of one":42s} {cpu}\n    {"wake-ups of its threads":42s} {woken}')
        self.goal('idle, CPU', 'idle CPU', 0.05)
        self.goal('idle, wake-ups', 'idle wake-ups', 0)
