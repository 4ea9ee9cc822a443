#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
What does a group cost by LID? Datagrams of 4 KiB to 8 receivers on 8 hosts of a star: one to the group,
which the switch copies, beside 8 of the same bytes, one to each. In both all receivers get all: a window of
64 is acknowledged by each of them before the next one. Copies that came in a second, medians of 8 turns,
and their ratio.

    bench/groups.py [--rounds N]            N windows a turn, 60

Debian packages: opensm, rdmacm-utils (mckey joins the group). `make tests` builds bench/group_rate.
"""
import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERBATIM = os.path.join(os.environ.get('TEST_BIN') or os.path.join(ROOT, 'build', 'bin'), 'verbatim')
PROGRAM = os.environ.get('GROUP_RATE') or os.path.join(ROOT, 'build', 'meson', 'bench', 'group_rate')
RECEIVERS = 8
GROUP = '239.6.6.1'
MGID = 'ff12:4001:ffff::f06:601'
PATIENCE_S = 120


def wait_for(what, look):
    end = time.monotonic() + PATIENCE_S
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            sys.exit('bench/groups.py: no ' + what)
        time.sleep(0.1)


def run(scratch, rounds, started):
    environment = dict(os.environ, XDG_RUNTIME_DIR=scratch, OSM_TMP_DIR=scratch, OSM_CACHE_DIR=scratch,
                       VERBATIM_FABRIC='groups', PATH=os.environ['PATH'] + ':/usr/sbin:/sbin')

    def start(command, **more):
        process = subprocess.Popen([VERBATIM] + command, text=True, **more)
        started.append(process)
        return process

    def at(number):
        return dict(environment, VERBATIM_NODE='host%d' % number)

    def said(*command):
        return subprocess.run([VERBATIM] + list(command), env=at(1), capture_output=True, text=True,
                              check=False).stdout

    star, partitions = os.path.join(scratch, 'star.topo'), os.path.join(scratch, 'partitions.conf')
    with open(star, 'w', encoding='utf-8') as out:
        out.write(said('fabric', '--make', 'star', 'hosts=%d' % (RECEIVERS + 1)))
    with open(partitions, 'w', encoding='utf-8') as out:
        out.write('Default=0x7fff, ipoib, mtu=5 : ALL=full;\n')      # of 4 KiB
    fabric = start(['fabric', star, '--name', 'groups'], env=environment, stdin=subprocess.PIPE,
                   stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    wait_for('fabric', lambda: 'host1' in said('fabric', '--name', 'groups', '--say', 'hosts'))
    start(['run', 'opensm', '-P', partitions, '-f', os.path.join(scratch, 'opensm.log')], env=at(1),
          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for('subnet', lambda: said('fabric', '--name', 'groups', '--say', 'show').count(' Active ') ==
             2 * (RECEIVERS + 1))
    for number in range(1, RECEIVERS + 2):      # who is in the group decides where switches send copies
        start(['run', 'mckey', '-m', GROUP, '-b', '127.77.0.%d' % number], env=at(number),
              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    line = re.compile(r'MGID\.*%s\s+Mlid\.*(0x\w+)' % MGID)
    mlid = wait_for('group', lambda: line.search(said('run', 'saquery', '-g'))).group(1)
    wait_for('tree', lambda: said('route', 'host1', mlid).count(': arrived') == RECEIVERS)
    ends, group = [], [mlid, MGID[:-1] + '7']       # of the same LID, and not mckey's
    for number in range(2, RECEIVERS + 2):
        receiver = start(['run', PROGRAM, 'receive'] + group, env=at(number), stdout=subprocess.PIPE)
        ends += receiver.stdout.readline().split()
    sent = start(['run', PROGRAM, 'send'] + group + [str(rounds)] + ends, env=at(1), stdout=subprocess.PIPE)
    lines = sent.communicate(timeout=10 * PATIENCE_S)[0]
    if sent.returncode or fabric.poll() is not None:
        sys.exit('bench/groups.py: status %d: %s' % (sent.returncode, lines))
    return {way: statistics.median(float(rate) for rate in re.findall('^%s (.*)$' % way, lines, re.M))
            for way in ('group', 'unicast')}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=60)
    args, started = parser.parse_args(), []
    with tempfile.TemporaryDirectory(prefix='vbgroups-') as scratch:
        try:
            rates = run(scratch, args.rounds, started)
        finally:
            for process in reversed(started):
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    process.wait()
    print('4 KiB to %d: to a group %.0f copies/s, to each by itself %.0f; ratio %.2f' % (
        RECEIVERS, rates['group'], rates['unicast'], rates['group'] / rates['unicast']))


main()
