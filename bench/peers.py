# SPDX-License-Identifier: BSD-2-Clause
"""The programs that bench/run measures inside one host, each run once for one number: perftest on
Verbatim, and what others offer for the same work. All numbers: us one way, MB/s (10^6 bytes), or
millions of messages a second."""
import contextlib
import os
import re
import time

import lab
from harness import words
from lab import Failure

MIB = 1 << 20
PATIENCE_S = 30                     # of one run of one program

# What VERBATIM_MEMORY says, by the names that the tables have. `mapped` is as under `verbatim run`, whose
# library makes the programs' page-aligned memory of blocks; UCX finds devices only with it.
MODES = {'mapped': 'auto', 'copy': 'copy', 'UDP': 'off', 'UDP, run': 'off'}
PRELOAD = {'mapped': 'libverbatim-preload.so', 'UDP, run': 'libverbatim-preload.so'}
# Another build of the libraries, to be measured in turn with this one (bench/run --base).
BASE = ', base'
base_library = None


def environment(mode):
    name = mode.removesuffix(BASE)
    out = {'VERBATIM_MEMORY': MODES[name]}
    if name in PRELOAD:
        out['LD_PRELOAD'] = PRELOAD[name]
    if mode != name:
        out['LD_LIBRARY_PATH'] = base_library
    return out


def number(pattern, text, program):
    found = re.search(pattern, text, re.M)
    if not found:
        raise Failure(f'{program}: no result in its output:\n{text[-400:]}')
    return float(found[1])


def threads_ns(pid):
    """Processor time of all threads of a process, and of Verbatim's worker; None: there is no worker."""
    used = []
    with contextlib.suppress(OSError):
        for task in os.scandir(f'/proc/{pid}/task'):
            with open(f'{task.path}/comm') as name, open(f'{task.path}/schedstat') as stat:
                used.append((name.read().strip(), int(stat.read().split()[0])))
    worker = [ns for name, ns in used if name == 'verbatim']
    return (sum(ns for _, ns in used), worker[0]) if worker else None


class Perftest:
    """Unmodified perftest between two processes on lo of @topology."""

    def __init__(self, topology):
        self.topology = topology

    def run(self, command, mode):
        line = words(command)
        pair = lab.run_pair(self.topology, line, timeout=PATIENCE_S, env=environment(mode))
        return pair.check().client.text

    @staticmethod
    def latencies(text):
        """Half round trips by size; typical ones, as perftest calls the median."""
        rows = re.findall(r'^ *(\d+) +\d+ +[\d.]+ +[\d.]+ +([\d.]+) ', text, re.M)
        if not rows:
            raise Failure(f'perftest: no result in its output:\n{text[-400:]}')
        return {int(size): float(us) for size, us in rows}

    def latency(self, command, mode):
        return next(iter(self.latencies(self.run(f'{command} -F', mode)).values()))

    def latency_beside_hogs(self, command, mode):
        """With a busy loop for each processor: us; what both workers take of one processor, %; processor
        time of both processes for each round trip, us."""
        ends, line, seen = self.topology, words(command, '-F'), []
        with contextlib.ExitStack() as stack:
            for _ in range(os.cpu_count()):
                stack.enter_context(ends.client.start(['sh', '-c', 'while :; do :; done']))
            one, two = stack.enter_context(lab.started_pair(ends, line, env=environment(mode)))
            until = time.monotonic() + PATIENCE_S
            while two.alive() and time.monotonic() < until:
                used = [threads_ns(program.pid) for program in (one, two)]
                if None not in used:
                    seen.append((time.monotonic(), *map(sum, zip(*used))))
                time.sleep(0.01)
            two.wait(0)
            one.wait(10)
            text = lab.Pair(one, two).check().client.text
        if len(seen) < 2:
            raise Failure(f'{command}: ended too soon to see its workers')
        seconds, all_ns, workers_ns = (after - before for before, after in zip(seen[0], seen[-1]))
        mean_us = number(r'^ *\d+ +\d+ +[\d.]+ +[\d.]+ +[\d.]+\s+([\d.]+)', text, command)
        return (next(iter(self.latencies(text).values())), workers_ns / seconds / 1e7,
                all_ns / 1e9 / seconds * 2 * mean_us)

    @staticmethod
    def rate_of(text):
        """MB/s and millions of messages a second."""
        row = re.search(r'^ *\d+ +\d+ +[\d.]+ +([\d.]+)\s+([\d.]+)', text, re.M)
        if not row:
            raise Failure(f'perftest: no result in its output:\n{text[-400:]}')
        return float(row[1]) * MIB / 1e6, float(row[2])

    def bandwidth(self, command, mode):
        return self.rate_of(self.run(f'{command} -F', mode))[0]

    def messages(self, command, mode):
        return self.rate_of(self.run(f'{command} -F', mode))[1]

    def messages_of_pairs(self, command, count, mode):
        """Of @count pairs of processes at once, the sum."""
        return sum(messages for _, messages in self.rates_of_pairs(command, count, mode))

    def rates_of_pairs(self, command, count, mode):
        """Of @count pairs of processes at once: MB/s and millions of messages a second, of each."""
        ends, line = self.topology, words(command, '-F')
        with contextlib.ExitStack() as stack:
            servers, clients = [], []
            for _ in range(count):
                port = next(lab.PORTS)
                started = ends.server.start(line + ['-p', str(port)], environment(mode))
                servers.append((port, stack.enter_context(started)))
            for port, server in servers:
                ends.server.wait_listening(port, server)
            for port, _ in servers:
                at = ['-p', str(port), ends.server.address]
                started = ends.client.start(line + at, environment(mode))
                clients.append(stack.enter_context(started))
            until = time.monotonic() + PATIENCE_S
            for client in clients:
                if client.wait(until - time.monotonic()) != 0:
                    raise Failure(f'{command}: exit status {client.code}: {client.tail()}')
            return [self.rate_of(client.text) for client in clients]


class Others:
    """Programs that know of no Verbatim, on the same lo as the same user."""

    def __init__(self, topology, directory, programs):
        self.programs = programs
        os.makedirs(directory, exist_ok=True)
        # Without our library: some of these link libibverbs as well.
        bare = lab.Lab(None, directory)
        self.ours = topology.server, topology.client
        self.bare = [lab.End(end.namespace, end.device, end.address, end.address6, end.user, bare)
                     for end in self.ours]
        self.end = self.bare[0]

    def pair(self, server, client, env=None, served=False, ends=None):
        """Output of the client; @server ends with it, or is ended. @ends: where, as a pair; both on the server's
        host without our library unless given."""
        at, other = ends or (self.end, self.end)
        with at.start(server, env) as one:
            at.wait_listening(self.port_of(server), one, served=served)
            with other.start(client, env) as two:
                if two.wait(PATIENCE_S) != 0:
                    raise Failure(f'{two.name}: exit status {two.code}: {two.tail()}')
                return two.text

    @staticmethod
    def port_of(command):
        return int(next(command[i + 1] for i, word in enumerate(command) if word in ('-p', '-B')
                        and command[i + 1].isdigit()))

    # ---- UCX ----

    def ucx(self, transports, lines, mode=None):
        """ucx_perftest over @transports: for each line of options (-t names the test) the row of
        numbers that it ends with. Both ends read the lines from a file. @mode: over our library, in this way;
        otherwise without it."""
        port, env = next(lab.PORTS), {'UCX_TLS': transports, 'UCX_WARN_UNUSED_ENV_VARS': 'n'}
        env.update(environment(mode) if mode else {})
        path = self.end.lab.log_path('ucx-batch')
        with open(path, 'w') as file:
            file.writelines(f'case{i} {line}\n' for i, line in enumerate(lines))
        tool = words('ucx_perftest -f -v -p', port, '-b', path)
        text = self.pair(tool, tool + [self.end.address], env, ends=self.ours if mode else self.bare)
        rows = [[float(field) for field in row.split(',')[-8:]]
                for row in re.findall(r'^case\d+,.*$', text, re.M)]
        if len(rows) != len(lines):
            raise Failure(f'ucx_perftest: {len(rows)} results of {len(lines)}:\n{text[-400:]}')
        return rows

    def ucx_latency(self, transports, line, mode=None):
        return self.ucx(transports, [line], mode)[0][1]

    def ucx_bandwidth(self, transports, line, mode=None):
        return self.ucx(transports, [line], mode)[0][5] * MIB / 1e6

    def ucx_messages(self, transports, line, mode=None):
        return self.ucx(transports, [line], mode)[0][7] / 1e6

    # ---- libfabric ----

    def fabric(self, provider, size, count):
        """fi_pingpong: mean half round trip, MB/s of the same ping-pong."""
        port, kind = next(lab.PORTS), 'rdm' if provider == 'shm' else 'msg'
        line = words('fi_pingpong -p', provider, '-e', kind, '-I', count, '-S', size)
        text = self.pair(line + ['-B', str(port)], line + ['-P', str(port), self.end.address])
        row = re.search(r'^\S+ +\S+ +=?\S+ +\S+ +\S+s +([\d.]+) +([\d.]+) +[\d.]+ *$', text, re.M)
        if not row:
            raise Failure(f'fi_pingpong: no result in its output:\n{text[-400:]}')
        return float(row[2]), float(row[1])

    def fabric_latency(self, provider, size, count):
        return self.fabric(provider, size, count)[0]

    def fabric_bandwidth(self, provider, size, count):
        return self.fabric(provider, size, count)[1]

    # ---- sockets ----

    def sockperf(self, size, seconds, spinning=True):
        """Median half round trip over TCP."""
        port, how = next(lab.PORTS), '--nonblocked' if spinning else None
        text = self.pair(words('sockperf server --tcp', how, '-i', self.end.address, '-p', port),
                         words('sockperf ping-pong --tcp', how, '-i', self.end.address, '-p', port,
                               '-m', size, '-t', seconds))
        return number(r'percentile 50\.000 = +([\d.]+)', text, 'sockperf')

    def iperf(self, size, seconds):
        """One TCP stream, written in pieces of @size: MB/s."""
        port = next(lab.PORTS)
        text = self.pair(words('iperf3 -s -1 -p', port),
                         words('iperf3 -f k -c', self.end.address, '-p', port, '-l', size, '-t',
                               seconds))
        found = re.findall(r'([\d.]+) Kbits/sec +receiver', text)
        if not found:
            raise Failure(f'iperf3: no result in its output:\n{text[-400:]}')
        return float(found[-1]) * 1000 / 8e6

    # ---- bare memory ----

    def raw(self, *command):
        with self.end.start(words(os.path.join(self.programs, 'raw_memory'), *command)) as program:
            if program.wait(PATIENCE_S) != 0:
                raise Failure(f'raw_memory: exit status {program.code}: {program.tail()}')
            return program.text

    def raw_latency(self, *command):
        return number(r'median ([\d.]+) us', self.raw(*command), 'raw_memory')

    def raw_bandwidth(self, *command):
        return number(r', ([\d.]+) MB/s', self.raw(*command), 'raw_memory')
