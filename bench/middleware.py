# SPDX-License-Identifier: BSD-2-Clause
"""The parts of bench/run about what applications start above verbs: UCX and Open MPI on our device, beside
the same UCX and Open MPI through shared memory, or TCP between hosts. Everything is run once, then everything
again; ratios are of medians."""
import contextlib
import os
import re
import subprocess

from harness import words
from inside import MBS, SECONDS, US, Inside
from lab import Failure, Skip
from peers import MIB, environment, number

RC, UD = 'rc_v,self', 'ud_v,self'
OPEN_MPI = 'mpirun.openmpi --allow-run-as-root --oversubscribe -n'
RANKS = 4
MANY_RANKS = 72
MANY_S = 300
# What Open MPI is told, and its environment beside; the first goes without verbs.
WAYS = {
    'shared memory': ('--mca pml ob1 --mca btl vader,self', {}),
    'UCX': ('--mca pml ucx --mca osc ucx', {'UCX_TLS': RC}),
    'OFI': ('--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm',
            {'FI_PROVIDER': 'verbs;ofi_rxm'}),
}
# Without verbs, beside what goes by UCX over them. By itself Open MPI takes UCX for no other transports.
BESIDE = {'UCX, shm': ('--mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any',
                       {'UCX_TLS': 'shm,self'})}
SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'tests', 'clients',
                       'programs')


def descendants(pid):
    """@pid and the processes below it."""
    children = {}
    for name in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError, IndexError, ValueError), open(f'/proc/{name}/stat') as stat:
            parent = int(stat.read().rsplit(') ', 1)[1].split()[1])
            children.setdefault(parent, []).append(int(name))
    found, todo = [pid], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def shared_out_mb(pids):
    """Memory of processes, MB: each shared page counts in parts that add up to one."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f'/proc/{pid}/smaps_rollup') as rollup:
            found = re.search(r'^Pss: +(\d+) kB', rollup.read(), re.M)
            total += int(found[1]) * 1024 / 1e6 if found else 0
    return total


class Middleware(Inside):
    """@bench: the Bench of bench/run. @series: its class of values."""

    # ---- UCX ----

    def ucx(self, topology):
        """Inside a host: tags over our RC and UD queue pairs, and over shared memory."""
        self.start(topology)
        lat, bw, n, large = (self.others.ucx_latency, self.others.ucx_bandwidth, self.count(20000),
                             self.count(3000))
        tag_lat, tag_bw = f'-t tag_lat -s 8 -n {n} -w 1000', f'-t tag_bw -s {MIB} -n {large} -w 10'
        put, get = (f'-t {test} -s {{}} -n {{}} -w 10' for test in ('ucp_put_bw', 'ucp_get'))
        plan = [('UCX tag 8 B, posix', US, lat, 'posix,self', tag_lat),
                ('UCX tag 8 B, rc_v', US, lat, RC, tag_lat, 'mapped'),
                ('UCX tag 8 B, ud_v', US, lat, UD, tag_lat, 'mapped'),
                ('UCX tag 1 MiB, posix', MBS, bw, 'posix,self', tag_bw),
                ('UCX tag 1 MiB, posix and cma', MBS, bw, 'posix,cma,self', tag_bw),
                ('UCX tag 1 MiB, rc_v', MBS, bw, RC, tag_bw, 'mapped'),
                ('UCX tag 1 MiB, ud_v', MBS, bw, UD, tag_bw, 'mapped')]
        # Where UCX makes a get of messages, ucx_perftest's target answers when it wakes up, each millisecond.
        plan += [('UCX get 8 B, tcp', MBS, bw, 'tcp,self', get.format(8, n // 16))]
        for size, name, count in ((8, '8 B', n), (65536, '64 KiB', large)):
            for transport, tls in ('rc_v', RC), ('ud_v', UD):
                plan += [(f'UCX {what} {name}, {transport}', MBS, bw, tls, line.format(size, count), 'mapped')
                         for what, line in (('put', put), ('get', get))]
        self.measure('inside a host: UCX over verbs', plan)
        for transport, aim in ('rc_v', 2), ('ud_v', 3):
            self.goal(f'UCX tag 8 B, {transport}', f'UCX tag 8 B, {transport}', aim,
                      base='UCX tag 8 B, posix', base_name='posix')
        best = max(('UCX tag 1 MiB, posix', 'UCX tag 1 MiB, posix and cma'),
                   key=lambda name: self.of[name].median if self.of[name].values else 0)
        self.goal('UCX tag 1 MiB, rc_v', 'UCX tag 1 MiB, rc_v', 0.5, more=True, base=best,
                  base_name='shared memory')
        for name in '8 B', '64 KiB':
            for transport in 'rc_v', 'ud_v':
                self.goal(f'UCX get {name}, {transport}', f'UCX get {name}, {transport}', 1, more=True,
                          base=f'UCX put {name}, {transport}', base_name='put')

    def ucx_between(self, topology):
        """Between hosts: our RC beside UCX's TCP."""
        self.start(topology)
        others, n, large = self.others, self.count(5000), self.count(500)
        tag_lat, tag_bw = f'-t tag_lat -s 8 -n {n} -w 500', f'-t tag_bw -s {MIB} -n {large} -w 10'
        self.measure(f'UCX between hosts, {topology.name}', [
            ('UCX tag 8 B, tcp', US, others.ucx_latency, 'tcp,self', tag_lat),
            ('UCX tag 8 B, rc_v', US, others.ucx_latency, RC, tag_lat, 'UDP, run'),
            ('UCX tag 8 B, ud_v', US, others.ucx_latency, UD, tag_lat, 'UDP, run'),
            ('UCX tag 1 MiB, tcp', MBS, others.ucx_bandwidth, 'tcp,self', tag_bw),
            ('UCX tag 1 MiB, rc_v', MBS, others.ucx_bandwidth, RC, tag_bw, 'UDP, run')])
        for transport in 'rc_v', 'ud_v':
            self.goal(f'UCX tag 8 B, {transport}, {topology.name}', f'UCX tag 8 B, {transport}', 1,
                      base='UCX tag 8 B, tcp', base_name='tcp')

    # ---- Open MPI ----

    def program(self, source):
        """The path of an MPI program, compiled once."""
        binary = os.path.join(self.bench.place.directory, source.removesuffix('.c'))
        if not os.path.exists(binary):
            built = subprocess.run(['mpicc.openmpi', '-O2', '-o', binary, os.path.join(SOURCES, source)],
                                   capture_output=True, text=True, timeout=120, check=False)
            if built.returncode:
                raise Failure(f'{source} does not compile:\n{built.stderr[-400:]}')
        return binary

    def mpi_environment(self, way):
        """Where it runs and its variables: only what goes by verbs has our library."""
        variables = {**WAYS, **BESIDE}[way][1]
        bare = way in BESIDE or not variables
        return ((self.others.end, variables) if bare
                else (self.others.ours[0], {**environment('mapped'), **variables}))

    def mpi_run(self, way, ranks, count):
        end, variables = self.mpi_environment(way)
        command = (words(OPEN_MPI, ranks, {**WAYS, **BESIDE}[way][0])
                   + [self.program('mpi_rate.c'), str(count)])
        with end.start(command, variables) as running:
            if running.wait(60) != 0:
                raise Failure(f'Open MPI, {way}: exit status {running.code}: {running.tail()}')
            return running.text

    def mpi(self, topology):
        """All values of one run at a time; the ways in turn."""
        self.start(topology)
        rows = {'latency': (2, US, r'^latency ([\d.]+) us'),
                'bandwidth': (2, MBS, r'^bandwidth ([\d.]+) MB/s'),
                f'alltoall of {RANKS} ranks, 8 B': (RANKS, US, r'^alltoall of 8 bytes ([\d.]+) us'),
                f'alltoall of {RANKS} ranks, 64 KiB': (RANKS, US, r'^alltoall of 65536 bytes ([\d.]+) us')}
        for way in WAYS:
            for row, (_, unit, _) in rows.items():
                name = f'Open MPI {row}, {way}'
                self.of[name] = self.series(name, unit)
        for _ in range(self.bench.repeats):
            for way in WAYS:
                for ranks, count in (2, self.count(20000)), (RANKS, self.count(2000)):
                    try:
                        text = self.mpi_run(way, ranks, count)
                        for row, (of, _, pattern) in rows.items():
                            if of == ranks:
                                self.of[f'Open MPI {row}, {way}'].values.append(number(pattern, text, 'mpi_rate'))
                    except (Failure, Skip) as why:
                        self.table.say(f'    {why}')
        self.table.say('inside a host: Open MPI')
        for row, (_, unit, _) in rows.items():
            own = f'Open MPI {row}, shared memory'
            self.table.say(f'    {own:42s} {self.of[own]}')
            for way in list(WAYS)[1:]:
                name = f'Open MPI {row}, {way}'
                self.table.say(f'    {name:42s} {self.of[name]}')
                self.goal(name, name, 0.5 if unit == MBS else 2, more=unit == MBS, base=own,
                          base_name='its own')

    def ranks(self, topology):
        """Many ranks of Open MPI over UCX on few processors: seconds, and memory at its greatest."""
        self.start(topology)
        for mode in 'mapped', 'UDP, run':
            seconds = self.series(f'{MANY_RANKS} ranks, {mode}', 's')
            memory = self.series(f'memory of a rank, {mode}', 'MB')
            end = self.others.ours[0]
            command = words(OPEN_MPI, MANY_RANKS, WAYS['UCX'][0]) + [self.program('mpi_verify.c'), 'alltoall',
                                                                     'onesided']
            with end.start(command, {**environment(mode), **WAYS['UCX'][1]}) as running:
                most = 0
                while running.wait(SECONDS) is None and running.seconds < MANY_S:
                    most = max(most, shared_out_mb(descendants(running.pid)))
                if running.code == 0 and f'done: {MANY_RANKS} ranks' in running.text:
                    seconds.values.append(running.seconds)
                    memory.values.append(most / MANY_RANKS)
                else:
                    self.table.say(f'    {seconds.name}: exit status {running.code}: {running.tail(4)}')
            self.table.say(f'Open MPI over UCX, alltoall and one-sided with verification, {mode}\n'
                           f'    {seconds.name:42s} {seconds}\n    {memory.name:42s} {memory}')
