# SPDX-License-Identifier: BSD-2-Clause
"""Latency, bandwidth and message rate inside one host against the size of messages, 2 bytes to
8 MiB: measured like the tables of inside.py, drawn by gnuplot. Two panels a picture, one-sided
operations and messages."""
import os
import statistics
import subprocess

from inside import UCX_PUT
from lab import Failure, Skip
from peers import MIB, MODES, Others, Perftest

SIZES = (2, 8, 64, 512, 4096, 32768, 262144, MIB, 8 * MIB)
FABRIC_SIZES = (64, 4096, 65536, MIB)
TCP_SIZES = (64, 4096, 65536)
SECONDS = 1                         # of programs that know of whole seconds only

# Most messages, and most MB, of one run.
LIMITS = {'mapped': (400000, 1500), 'copy': (80000, 800), 'UDP': (40000, 250)}

ONE_SIDED, MESSAGES = 'one-sided operations', 'messages'
LATENCY, RATE = 'latency', 'rate'   # us; MB/s

COLOURS = {'mapped': '#1f4e9c', 'copy': '#2a9d5c', 'UDP': '#e08214', 'UCX posix': '#c2185b',
           'UCX cma': '#e78ac3', 'libfabric shm': '#7b3fa0', 'libfabric tcp': '#b39ddb',
           'TCP': '#7f7f7f', 'memcpy': '#000000', 'process_vm_writev': '#9e9e9e'}

# name, axis, kind, what is drawn of a value and its size
PICTURES = (('latency', 'us (half a round trip; READ: a whole one)', LATENCY, lambda v, size: v),
            ('bandwidth', 'MB/s', RATE, lambda v, size: v),
            ('rate', 'million messages a second', RATE, lambda v, size: v / size))

SCRIPT = '''set terminal {terminal}
set output '{output}'
set multiplot layout 1,2 title "{title}" noenhanced font ",15" offset 0,-0.2 \
	margins 0.06,0.985,0.31,0.87 spacing 0.07,0.1
set label 1 "{below}" at screen 0.5,0.02 center font ",10" textcolor rgb '#606060' noenhanced
set logscale x 2
set logscale y 10
set xrange [1.6:1.05e7]
set xtics ("2" 2, "16" 16, "128" 128, "1 Ki" 1024, "8 Ki" 8192, "64 Ki" 65536, \
	"512 Ki" 524288, "4 Mi" 4194304) font ",11"
set format y "%g"
set mytics 10
set grid xtics ytics linecolor rgb '#d8d8d8' linetype 1
set border linecolor rgb '#606060'
set tics nomirror
set xlabel "bytes of a message" offset 0,0.3
set yrange [{low}:{high}]
'''


class Curves:
    """@bench: the Bench of bench/run."""

    def __init__(self, bench):
        self.bench = bench
        self.points = {}            # (LATENCY or RATE, panel, line): {size: [value, ...]}

    def add(self, kind, panel, line, values):
        """@values: a function; what fails leaves a gap, and a line in the table."""
        try:
            for size, value in values().items():
                self.points.setdefault((kind, panel, line), {}).setdefault(size, []).append(value)
        except (Failure, Skip) as why:
            self.bench.table.say(f'    curve of {line}, {panel}: {str(why).splitlines()[0]}')

    def measure(self, topology):
        """A third of the repetitions of the tables, or most of the time would be spent here."""
        rounds = max(1, self.bench.repeats // 3)
        perftest = Perftest(topology)
        others = Others(topology, os.path.join(self.bench.place.directory, 'curves'),
                        self.bench.programs)
        for _ in range(rounds):
            for mode in MODES:
                self.ours(perftest, mode)
            self.ucx(others)
            self.rest(others)
        self.bench.table.say(f'inside a host: {len(self.points)} curves over the size of messages, '
                             f'{rounds} runs of each')

    def count(self, size, mode):
        """Of messages in a run; a multiple of what perftest's queues hold."""
        messages, megabytes = LIMITS[mode]
        most = min(messages, megabytes * 1e6 / size) * min(self.bench.seconds / 2, 1)
        return max(round(most / 16), 1) * 16

    # ---- perftest ----

    def ours(self, perftest, mode):
        n = self.count(4 * MIB, mode)
        for panel, verb in ((ONE_SIDED, 'write'), (ONE_SIDED, 'read'), (MESSAGES, 'send')):
            line = f'{verb.upper()}, {mode}'
            self.add(LATENCY, panel, line, lambda v=verb: perftest.latencies(
                perftest.run(f'ib_{v}_lat -F -a -n {n}', mode)))
            for size in SIZES:
                self.add(RATE, panel, line, lambda v=verb, s=size: {
                    s: self.bandwidth(perftest, f'ib_{v}_bw', s, mode)})

    def bandwidth(self, perftest, program, size, mode):
        command = f'{program} -F -N -s {size} -n {self.count(size, mode)}'
        megabytes, messages = perftest.rate_of(perftest.run(command, mode))
        return messages * size if size < 4096 else megabytes    # the one has digits for small sizes

    # ---- others ----

    def ucx(self, others):
        cases = ((ONE_SIDED, 'UCX posix', 'put', 'posix,self', f'{UCX_PUT} -D short'),
                 (ONE_SIDED, 'UCX cma', 'put', 'posix,self', '-d memory -x cma -D zcopy'),
                 (MESSAGES, 'UCX posix', 'tag', 'posix,self', ''),
                 (MESSAGES, 'UCX cma', 'tag', 'posix,cma,self', ''))
        for panel, line, test, transports, options in cases:
            few = self.count(4 * MIB, 'mapped')
            latency = [f'-t {test}_lat {options} -s {size} -n {min(few * 20, 2**28 // size)} -w 20'
                       for size in SIZES]
            rate = [f'-t {test}_bw {options} -s {size} -n {self.count(size, "mapped")} -w 20'
                    for size in SIZES]
            if 'cma' not in options:
                self.add(LATENCY, panel, line, lambda: dict(zip(SIZES, (
                    row[1] for row in others.ucx(transports, latency)))))
            self.add(RATE, panel, line, lambda: dict(zip(SIZES, (
                row[5] * MIB / 1e6 for row in others.ucx(transports, rate)))))

    def rest(self, others):
        few = self.count(2 * MIB, 'UDP')
        for provider in ('shm', 'tcp'):
            for size in FABRIC_SIZES:
                self.add(LATENCY, MESSAGES, f'libfabric {provider}', lambda p=provider, s=size: {
                    s: others.fabric_latency(p, s, few * (1 if s == MIB else 10))})
        for size in TCP_SIZES:
            self.add(LATENCY, MESSAGES, 'TCP', lambda s=size: {
                s: others.sockperf(min(s, 65000), SECONDS)})
        for size in TCP_SIZES + (MIB,):
            self.add(RATE, MESSAGES, 'TCP', lambda s=size: {s: others.iperf(s, SECONDS)})
        for line, what in (('memcpy', 'memcpy'), ('process_vm_writev', 'vm_write')):
            for size in SIZES:
                self.add(RATE, ONE_SIDED, line, lambda w=what, s=size: {
                    s: others.raw_bandwidth(w, '-s', s, '-t', 0.1)})

    # ---- files ----

    def save(self, path, below):
        """The points as a table, and a picture of each kind; their names."""
        if not self.points:
            return []
        with open(f'{path}-curves.tsv', 'w') as file:
            file.write(f'# {below}\n# us (latency) or MB/s (rate): median, least, greatest\n')
            for (kind, panel, line), sizes in sorted(self.points.items()):
                for size, values in sorted(sizes.items()):
                    file.write(f'{kind}\t{panel}\t{line}\t{size}\t'
                               f'{statistics.median(values):.5g}\t{min(values):.5g}\t'
                               f'{max(values):.5g}\t{len(values)}\n')
        written = [f'{path}-curves.tsv']
        for picture in PICTURES:
            written += self.draw(path, below, *picture)
        return written

    def draw(self, path, below, name, axis, kind, value):
        panels = {ONE_SIDED: [], MESSAGES: []}
        drawn = []
        for (of, panel, line), sizes in self.points.items():
            if of == kind:
                rows = [(size, value(statistics.median(values), size))
                        for size, values in sorted(sizes.items())]
                panels[panel].append((line, rows))
                drawn += [y for _, y in rows if y > 0]
        if not drawn:
            return []
        svg = f'{path}-{name}.svg'
        script = SCRIPT.format(terminal='svg size 1240,680 font "sans,12" background "white"',
                               output=svg, title=f'Inside one host: {name}', below=below,
                               low=10 ** self.floor(min(drawn)), high=10 ** self.floor(max(drawn), 1))
        order = list(COLOURS)
        for panel, lines in panels.items():
            lines.sort(key=lambda one: (', ' not in one[0], one[0].startswith('READ'),
                                      order.index(one[0].split(', ')[-1])))
            if lines:
                script += self.panel(panel, axis, lines)
        done = subprocess.run(['gnuplot'], input=script, text=True, capture_output=True)
        if done.returncode:
            self.bench.table.say(f'    gnuplot: {done.stderr.strip()}')
            return []
        return [svg]

    @staticmethod
    def floor(value, more=0):
        """The power of ten below, or above."""
        return len(f'{value:.0f}') - 1 + more if value >= 1 else \
            -next(n for n in range(1, 12) if value * 10 ** n >= 1) + more

    @staticmethod
    def panel(panel, axis, lines):
        """One plot command and its data."""
        script, parts = '', []
        for index, (line, rows) in enumerate(lines):
            block = f'$data{index}'
            script += f'{block} << EOD\n' + ''.join(f'{x} {y:.6g}\n' for x, y in rows) + 'EOD\n'
            way = line.split(', ')[-1]
            dashes = 2 if line.startswith('READ') else 1
            own = ', ' in line
            parts.append(f'{block} using 1:2 with linespoints title "{line}" '
                         f'linecolor rgb "{COLOURS[way]}" linewidth {2.4 if own else 1.5} '
                         f'dashtype {dashes if own else 4} pointsize {0.5 if own else 0.45} '
                         f'pointtype {7 if own else 6}')
        return (f'set title "{panel}" font ",13" offset 0,-0.6\nset ylabel "{axis}" offset 1,0\n'
                'set key at graph 0.5,-0.17 center top horizontal Left reverse samplen 2.5 '
                'font ",11" width 1 maxrows 5 noenhanced\n'
                f'{script}plot ' + ', \\\n\t'.join(parts) + '\nunset label 1\n')
