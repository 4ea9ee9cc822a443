#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
How long does OpenSM need to bring up a virtual InfiniBand fabric, and one of ibsim's?

    bench/fabric.py                             three sizes, the median of 5 runs each, as a table
    bench/fabric.py --only torus --repeat 1     one of them
    bench/fabric.py --large                     and a Clos of 5,000 hosts, without ibsim
    bench/fabric.py --only clients              200 programs that have a port open at once, on both
    bench/fabric.py --only paths                saquery of all path records of 144 hosts, beside what opensm needs

Debian packages: opensm, ibsim-utils, infiniband-diags, strace. Both have the same topology with the same GUIDs:
ibsim gives its own, so the file of `verbatim fabric` is what ibnetdiscover prints under ibsim. Runs
alternate. The time is from the start of opensm to SUBNET UP in its log; beside it that from DISCOVERING on.
The forwarding tables that it computed are compared, and the table of each switch with what the fabric then
has. Memory, MADs that were lost or had no answer, and how often the process woke up in two seconds without
SMPs, are the fabric's.
"""
import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get('TEST_BIN') or os.path.join(ROOT, 'build', 'bin')
VERBATIM = os.path.join(BIN, 'verbatim')
UMAD2SIM = '/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so'
SIZES = {
    'tree': 'fattree leaves=12 spines=8 hosts=12',          # 20 switches, 144 hosts
    'wide': 'fattree leaves=84 spines=16 hosts=25',         # 100 switches, 2,100 hosts
    'torus': 'torus 10x10x10 hosts=1',                      # 1,000 switches, 1,000 hosts
}
LARGE = {'clos': 'clos radix=36 hosts=5000'}                # 900 switches, 5,000 hosts
CLIENTS = 200
CROWD = 'fattree leaves=8 spines=2 hosts=25'                # a host for each of them
LIMIT_S = 900


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def seconds(log, words):
    """Of the last line of the log that has the words: "Nov 27 17:44:00 642507 [...] ...". None: none has."""
    found = re.findall(r'^\w+ +\d+ (\d+):(\d+):(\d+) (\d+) .*' + words, log, re.M)
    if not found:
        return None
    hours, minutes, whole, micro = (int(part) for part in found[-1])
    return hours * 3600 + minutes * 60 + whole + micro / 1e6


class Place:
    """Where OpenSM finds a subnet, ours or ibsim's: files of its own."""

    def __init__(self, scratch, name):
        self.directory = os.path.join(scratch, name)
        os.makedirs(self.directory, exist_ok=True)
        self.environment = dict(os.environ, OSM_TMP_DIR=self.directory, OSM_CACHE_DIR=self.directory)
        self.before = []

    def run(self, *command, **how):
        return subprocess.run(self.before + list(command), env=self.environment, cwd=self.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_S, **how)

    def bring_up(self, *options):
        """Seconds to SUBNET UP: from the start of opensm, and from DISCOVERING."""
        log = os.path.join(self.directory, 'opensm.log')
        for name in ('opensm.log', 'opensm-lfts.dump', 'guid2lid'):
            if os.path.exists(os.path.join(self.directory, name)):
                os.unlink(os.path.join(self.directory, name))
        now = time.time()
        start = time.localtime(now).tm_hour * 3600 + time.localtime(now).tm_min * 60 + now % 60
        ran = self.run('opensm', '-o', '-f', log, *options)
        with open(log, encoding='utf-8', errors='replace') as text:
            text = text.read()
        begin, end = seconds(text, 'Entering DISCOVERING'), seconds(text, 'SUBNET UP')
        if begin is None or end is None:
            sys.exit('%s: OpenSM did not bring up the subnet\n%s%s' % (self.directory, ran.stderr, text[-2000:]))
        return (end - start) % 86400, (end - begin) % 86400

    def tables(self):
        """What OpenSM computed."""
        with open(os.path.join(self.directory, 'opensm-lfts.dump'), encoding='utf-8') as dump:
            return dump.read()


class Ibsim(Place):
    def __init__(self, scratch, file):
        super().__init__(scratch, 'ibsim')
        self.environment.update(LD_PRELOAD=UMAD2SIM, SIM_HOST='host1')
        self.process = subprocess.Popen(['ibsim', '-s', '-N', '8000', '-S', '1200', '-P', '80000', file],
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        time.sleep(1)

    def close(self):
        stop(self.process)


class Ours(Place):
    def __init__(self, scratch, file):
        super().__init__(scratch, 'verbatim')
        self.environment.update(XDG_RUNTIME_DIR=scratch, VERBATIM_FABRIC='bench', VERBATIM_NODE='host1')
        self.before = [VERBATIM, 'run']
        self.process = subprocess.Popen([VERBATIM, 'fabric', file, '--name', 'bench'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env=self.environment)
        line = self.process.stdout.readline()
        if 'fabric' not in line:
            sys.exit('verbatim fabric: ' + line + self.process.stdout.read())

    def memory_kib(self):
        with open('/proc/%d/status' % self.process.pid, encoding='ascii') as status:
            return int(re.search(r'VmRSS:\s*(\d+)', status.read()).group(1))

    def switches(self):
        """How often it went to sleep, or was made to."""
        with open('/proc/%d/status' % self.process.pid, encoding='ascii') as status:
            return sum(int(count) for count in re.findall(r'ctxt_switches:\s*(\d+)', status.read()))

    def lost(self):
        """MADs that did not arrive, or had no answer in time."""
        self.process.stdin.write('statistics\n')
        self.process.stdin.flush()
        lost = 0
        for line in self.process.stdout:
            found = re.match(r'(lost_\w+|timeouts|retries) +(\d+)$', line)
            lost += int(found.group(2)) if found else 0
            if line.startswith('lost_mads'):
                return lost
        raise SystemExit('the fabric ended')

    def close(self):
        stop(self.process)


def make(recipe, path):
    text = subprocess.run([VERBATIM, 'fabric', '--make'] + recipe.split(), check=True, capture_output=True,
                          text=True).stdout
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def compare(scratch, recipe, repeat):
    file, snapshot = os.path.join(scratch, 'recipe.topo'), os.path.join(scratch, 'snapshot.topo')
    make(recipe, file)
    theirs = Ibsim(scratch, file)
    theirs.bring_up('-D', '0x43')
    tables = theirs.tables()
    with open(snapshot, 'w', encoding='utf-8') as out:
        out.write(theirs.run('ibnetdiscover').stdout)
    theirs.close()
    ours = Ours(scratch, snapshot)
    ours.bring_up('-D', '0x43')
    row = {'same tables': 'yes' if ours.tables() == tables else 'NO'}
    again = ours.run('ibnetdiscover').stdout
    with open(snapshot, encoding='utf-8') as text:
        row['same fabric'] = 'yes' if links(again) == links(text.read()) else 'NO'
    ours.close()
    times, discovering = {'ours': [], 'ibsim': []}, {'ours': [], 'ibsim': []}
    for _ in range(repeat):
        for name, kind, path in (('ibsim', Ibsim, file), ('ours', Ours, snapshot)):
            place = kind(scratch, path)
            whole, part = place.bring_up()
            times[name].append(whole)
            discovering[name].append(part)
            if name == 'ours':
                row['MiB'] = '%.0f' % (place.memory_kib() / 1024)
                row['lost'] = str(place.lost())
                time.sleep(6)   # traps to an SM that is gone are repeated
                before = place.switches()
                time.sleep(2)
                row['woke up'] = str(place.switches() - before)
            place.close()
    for name, values in times.items():
        row[name + ' s'] = '%.3f' % statistics.median(values)
        row[name + ' range'] = '%.3f..%.3f' % (min(values), max(values))
    row['ratio'] = ratio(times)
    row['from DISCOVERING'] = '%.3f and %.3f: %s' % (
        statistics.median(discovering['ours']), statistics.median(discovering['ibsim']), ratio(discovering))
    return row


def ratio(times):
    return '%.2f' % (statistics.median(times['ours']) / statistics.median(times['ibsim']))


def crowd(scratch):
    """How many of CLIENTS programs, each on a host of its own, have its port open at the same time."""
    file, row = os.path.join(scratch, 'recipe.topo'), {}
    make(CROWD, file)
    for name, kind, variable in (('ours', Ours, 'VERBATIM_NODE'), ('ibsim', Ibsim, 'SIM_HOST')):
        place = kind(scratch, file)
        programs = []
        for number in range(1, CLIENTS + 1):
            environment = dict(place.environment, **{variable: 'host%d' % number})
            programs.append(subprocess.Popen(place.before + ['ibping', '-S'], env=environment,
                                             cwd=place.directory,
                                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL))
        time.sleep(10)
        row[name] = '%d of %d' % (sum(program.poll() is None for program in programs), CLIENTS)
        for program in programs:
            stop(program)
        place.close()
    return row


def exchange_ms(log, begins, ends):
    """From the return of the last call of the log that has the words @begins (in 1/1000 s) to the call with @ends
    behind it: the time of a call that waited is the one at which it returned."""
    begun = taken = None
    with open(log, encoding='utf-8', errors='replace') as lines:
        for line in lines:
            match = re.match(r'\d+ +(\d+\.\d+) (.*?)(?: <(\d+\.\d+)>)?$', line)
            if not match:
                continue
            at_s = float(match.group(1)) + (float(match.group(3) or 0) if match.group(2).startswith('recv') else 0)
            if all(word in line for word in begins):
                begun, taken = at_s, None
            elif begun and taken is None and all(word in line for word in ends):
                taken = at_s - begun
    if taken is None:
        sys.exit('%s: no request, or no answer' % log)
    return taken * 1e3


def paths(scratch, repeat):
    """26,896 path records: a message of 1.7 MB, of 8,606 RMPP segments over up to four cables. What opensm
    needs is from when it is handed the request to when it hands over its answer; what saquery waits, from
    its request to its answer. Both by strace, which stops them at the calls of umad alone. Beside them the
    whole of saquery, most of which is its start and its text."""
    file = os.path.join(scratch, 'recipe.topo')
    make(SIZES['tree'], file)
    ours = Ours(scratch, file)
    log, conf, calls, asked = (os.path.join(ours.directory, name)
                               for name in ('opensm.log', 'conf', 'opensm.calls', 'saquery.calls'))
    traced = ['strace', '-D', '-f', '--seccomp-bpf', '-ttt', '-T', '-s', '64', '-e', 'trace=sendmsg,recvmsg', '-o']
    with open(conf, 'w', encoding='utf-8') as settings:
        settings.write('force_log_flush TRUE\n')
    manager = subprocess.Popen(ours.before + traced + [calls, 'opensm', '-F', conf, '-f', log],
                               env=ours.environment, cwd=ours.directory,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    request = r'"\1\3\2\22'         # SubnAdmGetTable()
    try:
        end = time.monotonic() + 60
        while subprocess.run(['grep', '-qs', 'SUBNET UP', log], check=False).returncode:
            if time.monotonic() > end:
                sys.exit('opensm did not bring up the subnet')
            time.sleep(0.1)
        ours.environment['VERBATIM_NODE'] = 'host144'
        rows = []
        for _ in range(repeat):
            before_s = time.monotonic()
            said = ours.run('saquery', 'PR').stdout
            clock_s = time.monotonic() - before_s
            if said.count('PathRecord dump:') != 164 * 164:
                sys.exit('%d path records' % said.count('PathRecord dump:'))
            ours.run(*traced, asked, 'saquery', 'PR')
            served_ms = exchange_ms(calls, ('recvmsg', request), ('sendmsg', 'SCM_RIGHTS'))
            waited_ms = exchange_ms(asked, ('sendmsg', 'iov_len=256}'), ('recvmsg', 'SCM_RIGHTS'))
            rows.append((served_ms, waited_ms, waited_ms / served_ms, clock_s * 1e3))
        served_ms, waited_ms, ratio_of, clock_ms = (statistics.median(column) for column in zip(*rows))
        return {'opensm ms': '%.1f' % served_ms, 'saquery waits ms': '%.1f' % waited_ms,
                'ratio': '%.2f' % ratio_of, 'range': '%.2f..%.2f' % (min(row[2] for row in rows),
                                                                      max(row[2] for row in rows)),
                'whole of saquery ms': '%.0f' % clock_ms}
    finally:
        stop(manager)
        ours.close()


def alone(scratch, recipe):
    file = os.path.join(scratch, 'recipe.topo')
    make(recipe, file)
    ours = Ours(scratch, file)
    whole, part = ours.bring_up()
    row = {'ours s': '%.3f' % whole, 'from DISCOVERING': '%.3f' % part,
           'MiB': '%.0f' % (ours.memory_kib() / 1024), 'lost': str(ours.lost())}
    ours.close()
    return row


def links(text):
    """Nodes and cables of an ibnetdiscover file, as a set; without LIDs, which an SM may give otherwise."""
    found, node = set(), None
    for line in text.splitlines():
        match = re.match(r'(Switch|Ca|Rt)\s+(\d+)\s+"([^"]+)"\s+# "([^"]*)"', line)
        if match:
            node = match.group(3)
            found.add(match.groups())
        match = re.match(r'\[(\d+)\](?:\([0-9a-f]+\))?\s*"([^"]+)"\[(\d+)\].* (\d+x\w+)', line)
        if match:
            found.add((node,) + match.groups())
    return found


def main():
    parser = argparse.ArgumentParser(description='Bring-up of a subnet: verbatim fabric beside ibsim.')
    parser.add_argument('--only', choices=sorted(dict(SIZES, **LARGE, clients='', paths='')), help='one of them')
    parser.add_argument('--repeat', type=int, default=5, help='runs of each')
    parser.add_argument('--large', action='store_true', help='and 5,000 hosts, without ibsim')
    options = parser.parse_args()
    for program in ('opensm', 'ibsim', 'ibnetdiscover'):
        if not shutil.which(program):
            sys.exit(program + ' is missing: apt-get install opensm ibsim-utils infiniband-diags')
    if options.only in (None, 'clients'):
        with tempfile.TemporaryDirectory(prefix='fabric.') as scratch:
            row = crowd(scratch)
        print('%d programs at once: %s' % (CLIENTS, ', '.join('%s %s' % pair for pair in row.items())), flush=True)
    if options.only in (None, 'paths'):
        with tempfile.TemporaryDirectory(prefix='fabric.') as scratch:
            row = paths(scratch, options.repeat)
        print('all path records of 144 hosts: %s' % ', '.join('%s %s' % pair for pair in row.items()), flush=True)
    chosen = dict(SIZES, **(LARGE if options.large or options.only in LARGE else {}))
    for name, recipe in chosen.items():
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory(prefix='fabric.') as scratch:
            row = alone(scratch, recipe) if name in LARGE else compare(scratch, recipe, options.repeat)
        print('%s: %s' % (recipe, ', '.join('%s %s' % pair for pair in row.items())), flush=True)


if __name__ == '__main__':
    main()
