#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
What does data cost by LID, through three switches of a virtual fabric, beside the same programs
without one?

    bench/bylid.py                  ib_send_lat and ib_write_bw, RC: medians of 7 runs, their ratio
    bench/bylid.py --datagrams      UD and UC, too

Debian packages: opensm, perftest, infiniband-diags. The programs without a fabric share memory, as
packets alone: VERBATIM_MEMORY=ring. Runs alternate, and each program has a processor. Beside
them: the processor time of the fabric's process meanwhile, in ticks of 10 ms, and the packets that
came to host3, as perfquery tells. Needs an interface with an address: lo is enough.
"""
import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get('TEST_BIN') or os.path.join(ROOT, 'build', 'bin')
VERBATIM = os.path.join(BIN, 'verbatim')
ROW = os.path.join(ROOT, 'tests', 'fabric', 'row.topo')
DATAGRAMS = os.path.join(ROOT, 'build', 'meson', 'tests', 'fabric', 'datagrams')
ROWS = (('ib_send_lat', 'us, typical', 4, 'less'), ('ib_write_bw', 'MB/s', 3, 'more'))
MORE = (('ib_send_lat -c UD', 'us, typical', 4, 'less'), ('ib_send_lat -c UC', 'us, typical', 4, 'less'),
        ('ib_send_bw -c UD -s 4096', 'MB/s', 3, 'more'))
PATIENCE_S = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return str(probe.getsockname()[1])


def listens(port):
    with open('/proc/net/tcp', encoding='ascii') as four, open('/proc/net/tcp6', encoding='ascii') as six:
        return bool(re.search(r':%04X \S+ 0A ' % int(port), four.read() + six.read()))


class Fabric:
    def __init__(self, scratch):
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=scratch, VERBATIM_FABRIC='bench',
                                OSM_TMP_DIR=scratch, OSM_CACHE_DIR=scratch)
        self.environment.pop('VERBATIM_MEMORY', None)
        self.log = os.path.join(scratch, 'log')
        with open(self.log, 'w', encoding='utf-8') as log:
            self.process = subprocess.Popen(
                [VERBATIM, 'fabric', ROW, '--name', 'bench', '--sm'], stdin=subprocess.PIPE,
                stdout=log, stderr=subprocess.STDOUT, env=self.environment)
        end = time.monotonic() + PATIENCE_S
        while 'subnet up' not in self.said():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit('verbatim fabric: ' + self.said())
            time.sleep(0.05)

    def said(self):
        with open(self.log, encoding='utf-8') as log:
            return log.read()

    def at(self, node):
        return dict(self.environment, VERBATIM_NODE=node)

    def ticks(self):
        with open('/proc/%d/stat' % self.process.pid, encoding='ascii') as stat:
            fields = stat.read().rsplit(')', 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def sent(self):
        """Packets that left the last switch for host3."""
        lid = re.search(r'Base lid: (\d+)', self.tool('ibstat')).group(1)
        said = self.tool('perfquery', '-x', lid, '1')
        return int(re.search(r'PortRcvPkts:\.*(\d+)', said).group(1))

    def tool(self, *command):
        return subprocess.run([VERBATIM, 'run'] + list(command), env=self.at('host3'), text=True,
                              capture_output=True, check=True).stdout

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


def measure(words, column, environments, roce):
    """A number of the client's table."""
    port = free_port()
    count = '5000' if '_lat' in words else '20000'
    command = [VERBATIM, 'run'] + words.split() + ['-F', '-p', port, '-n', count]
    if roce:
        command += ['-x', '1']
    processors = sorted(os.sched_getaffinity(0))
    pinned = [['taskset', '-c', str(processors[at])] + command for at in (0, -1)]
    server = subprocess.Popen(pinned[0], env=environments[0], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + PATIENCE_S
        while not listens(port):
            if server.poll() is not None or time.monotonic() > end:
                sys.exit('%s: the server: %s' % (words, server.communicate()[0]))
            time.sleep(0.01)
        client = subprocess.run(pinned[1] + ['127.0.0.1'], env=environments[1], capture_output=True, text=True,
                                timeout=PATIENCE_S)
        server.communicate(timeout=PATIENCE_S)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    found = re.search(r'^ *\d+ +\d+ +\d.*$', client.stdout, re.M)
    if client.returncode or not found:
        sys.exit('%s: status %d: %s%s' % (words, client.returncode, client.stdout, client.stderr))
    return float(found.group(0).split()[column])


def compare(fabric, row, repeat):
    words, unit, column, better = row
    without = dict(os.environ, VERBATIM_MEMORY='ring')
    for name in ('VERBATIM_FABRIC', 'VERBATIM_NODE'):
        without.pop(name, None)
    values = {'by LID': [], 'ring': []}
    ticks, sent = fabric.ticks(), fabric.sent()
    for _ in range(repeat):
        values['ring'].append(measure(words, column, (without, without), True))
        values['by LID'].append(measure(words, column, (fabric.at('host1'), fabric.at('host3')), False))
    ticks = fabric.ticks() - ticks
    mine, theirs = (statistics.median(values[name]) for name in ('by LID', 'ring'))
    ranges = ', '.join('%.2f..%.2f' % (min(all_), max(all_)) for all_ in values.values())
    print('%-26s %9.2f and %9.2f %s: ratio %.2f (%s is better); ranges %s' % (
        words, mine, theirs, unit, mine / theirs, better, ranges))
    print('%28s fabric\'s process: %d ticks, packets to host3: %d' % (
        'the', ticks, fabric.sent() - sent), flush=True)


def main():
    parser = argparse.ArgumentParser(description='Data by LID beside shared memory without a fabric.')
    parser.add_argument('--repeat', type=int, default=7, help='runs of each')
    parser.add_argument('--datagrams', action='store_true', help='UD and UC, too')
    options = parser.parse_args()
    for program in ('opensm', 'ib_send_lat', 'perfquery'):
        if not shutil.which(program, path=os.environ['PATH'] + ':/usr/sbin'):
            sys.exit(program + ' is missing: apt-get install opensm perftest infiniband-diags')
    with tempfile.TemporaryDirectory(prefix='bylid.') as scratch:
        fabric = Fabric(scratch)
        try:
            print('by LID over three switches, and without a fabric (VERBATIM_MEMORY=ring):', flush=True)
            for row in ROWS + (MORE if options.datagrams else ()):
                compare(fabric, row, options.repeat)
        finally:
            fabric.close()


if __name__ == '__main__':
    main()
