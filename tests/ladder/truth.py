#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does the chart show what happened?  truth.py VERBATIM EXAMPLES [all]

Programs run under `verbatim trace`, by each way that bytes can take inside a host, with and without faults;
what the page marks is compared with the counters that the processes end with. EXAMPLES: the folder of the
sources. Without "all" only some of the programs. Prints TAP."""
import json
import os
import re
import subprocess
import sys
import tempfile

VERBATIM, EXAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ALL = len(sys.argv) > 3
WAYS = {'direct': 'auto', 'copy': 'copy', 'ring': 'ring', 'UDP': 'off'}
LOST, DROPPED, AGAIN, DIRECT, MESSAGE, LATE = 1, 2, 4, 8, 256, 1024
NAK, RNR = 6, 7
BUSY = 4            # runnable processes for each processor

# Counters of drops that are no packets which a process has received.
ELSEWHERE = 'RX_FOREIGN_LOST RX_FORGED RX_MAD_ERROR_CUT TX_LINK NONE'.split()


def drops():
    """Names of the counters of packets that were not processed; but answers that nobody waits for any more are
    drawn as late."""
    source = os.path.join(os.path.dirname(EXAMPLES), 'src')
    with open(os.path.join(source, 'base/counter.def'), encoding='utf-8') as file:
        names = dict(re.findall(r'^COUNTER\((\w+),\s*"(\w+)"', file.read(), re.M))
    with open(os.path.join(source, 'tracepoint/drop.def'), encoding='utf-8') as file:
        rows = set(re.findall(r'^DROP\(\w+,\s*(\w+)', file.read(), re.M))
    return sorted(names[row] for row in rows - set(ELSEWHERE))


DROPS = drops()


def pair(program, address='127.0.0.1'):
    """Server and client, which comes again until the server listens."""
    return ('%s & server=$!; until sleep 0.2; %s %s || ! kill -0 $server; do :; done; wait $server'
            % (program, program, address))


def served(server, client):
    """By the connection manager: one client, which comes when the server has its name."""
    return '%s & await_server any && %s; wait' % (server, client)


def programs():
    few = {
        'hello_verbs': pair('./hello_verbs'),
        'ibv_rc_pingpong': pair('ibv_rc_pingpong -g 1 -n 40'),
        'ib_send_bw': pair('ib_send_bw -n 6000 -s 8192 -x 1'),
    }
    if not ALL:
        return few
    few.update({
        'hello_cm': served('./hello_cm', './hello_cm 127.0.0.1'),
        'hello_ep': served('./hello_ep', './hello_ep 127.0.0.1'),
        'hello_credits': served('./hello_credits', './hello_credits 127.0.0.1'),
        'rping': served('rping -s -a 127.0.0.1 -C 20', 'rping -c -a 127.0.0.1 -C 20'),
        'ibv_uc_pingpong': pair('ibv_uc_pingpong -g 1 -n 40'),
        'ibv_ud_pingpong': pair('ibv_ud_pingpong -g 1 -n 40'),
        'ibv_srq_pingpong': pair('ibv_srq_pingpong -g 1 -n 40'),
        'ib_write_bw': pair('ib_write_bw -n 1000 -s 8192 -x 1'),
        'ib_read_bw': pair('ib_read_bw -n 1000 -s 8192 -x 1'),
        'ib_send_lat': pair('ib_send_lat -n 300 -x 1'),
        'ib_write_lat': pair('ib_write_lat -n 300 -x 1'),
        'ib_read_lat': pair('ib_read_lat -n 300 -x 1'),
        'ib_atomic_bw': pair('ib_atomic_bw -n 300 -x 1'),
        'ib_atomic_lat': pair('ib_atomic_lat -n 300 -x 1'),
        'ib_send_bw -c UC': pair('ib_send_bw -c UC -n 300 -s 4096 -x 1'),
        'ib_send_bw -c UD': pair('ib_send_bw -c UD -n 300 -s 1024 -x 1'),
    })
    return few


class Run:
    """One trace, its page, its counters."""

    def __init__(self, command, way, server_fault=''):
        environment = dict(os.environ, VERBATIM_MEMORY=WAYS[way], VERBATIM_DEVICES='lo')
        if server_fault:
            command = 'export VERBATIM_FAULT=%s; ' % server_fault + command.replace(
                'server=$!', 'server=$!; unset VERBATIM_FAULT', 1)
        done = subprocess.run([VERBATIM, 'trace', '-o', 'truth.pcapng', '--', 'bash', '-c', command], text=True,
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                              check=False)
        self.said = done.stdout
        page = subprocess.run([VERBATIM, 'ladder', 'truth.pcapng', '--plain', '-o', 'truth.html'], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        if done.returncode or page.returncode:
            raise AssertionError('status %d, %d: %s%s' % (done.returncode, page.returncode, done.stdout[-1500:],
                                                          page.stdout))
        self.problems = int(re.search(r'^problems: (\d+)', page.stdout, re.M).group(1))
        self.page = page.stdout
        with open('truth.html', encoding='utf-8') as file:
            self.data = page_data(file.read())
        assert self.data['packet']['sent'], 'nothing passed between them: ' + done.stdout[-800:]
        self.counters = {}
        with open('truth.pcapng', 'rb') as file:
            for found in re.finditer(rb'"event":"counters",([^}]*)\}', file.read()):
                for name, value in json.loads(b'{' + found.group(1) + b'}').items():
                    self.counters[name] = self.counters.get(name, 0) + value

    def marked(self, flag):
        return sum(1 for flags in self.data['packet']['flags'] if flags & flag)

    def kinds(self, kind):
        return sum(1 for one in self.data['packet']['kind'] if one == kind)

    def counted(self, *names):
        return sum(self.counters.get(name, 0) for name in names)


def page_data(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))


def agree(run):
    """What the page marks and what the processes counted."""
    assert run.counters, 'no counters in the trace'
    counted, drawn = run.counted(*DROPS), run.marked(DROPPED)
    late = max(0, min(run.marked(LATE), counted - drawn))
    numbers = {
        'RNR': (run.kinds(RNR), run.counted('rcvd_rnr_err')),
        'NAK': (run.kinds(NAK), run.counted('rcvd_seq_err', 'rcvd_nak_err')),
        # What is late is no problem, and may come behind the last record of the counters.
        'dropped': (drawn, counted - late),
    }
    for what, (drawn, counted) in numbers.items():
        assert drawn == counted, '%s: %d drawn, %d counted; %r' % (what, drawn, counted, run.counters)
    again = run.counted('retransmits', 'probes')
    # A requester may go back and find that nothing is to be sent any more.
    assert again > 0 or run.marked(AGAIN) == 0, '%d drawn as sent again; %r' % (run.marked(AGAIN), run.counters)
    wrong = again + sum(counted for _, counted in numbers.values())
    marks = run.marked(LOST | DROPPED | AGAIN) + run.kinds(NAK) + run.kinds(RNR)
    assert (run.problems > 0) == (marks > 0) and (wrong > 0 or marks == 0), (
        '%d problems, %d marks, counters of %d: %s' % (run.problems, marks, wrong, run.page))
    for flags, psn in zip(run.data['packet']['flags'], run.data['packet']['psn']):
        assert (psn < 0) == bool(flags & (DIRECT | MESSAGE)), 'PSN %d of flags %d' % (psn, flags)


class Tests:
    def __init__(self):
        self.number = self.failed = 0

    def check(self, name, test):
        self.number += 1
        try:
            test()
            print('ok %d - %s' % (self.number, name), flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.failed += 1
            print('\n'.join('# ' + line for line in str(error).split('\n')[:20]))
            print('not ok %d - %s' % (self.number, name), flush=True)


def quiet(command, way):
    """What is drawn is what was counted. Through memory that is nothing, unless the machine is so busy that a
    connection's first packets are sent twice: then once more; and where it stays so busy, the first is enough."""
    for _ in range(5):
        run = Run(command, way)
        agree(run)
        if way in ('ring', 'UDP') or run.problems == 0:
            return
    load = os.getloadavg()[0]
    if load > BUSY * os.cpu_count():
        print('# problems inside a host at a load of %.1f, as counted: %s' % (load, run.page.split('\n')[0]))
        return
    raise AssertionError('problems inside a host: ' + run.page)


def planted(command, fault):
    """Exactly what was lost on purpose is drawn as lost."""
    run = Run(command, 'UDP', fault)
    lost = sum(int(n) for n in re.findall(r'(\d+) lost \(', run.said))
    assert lost > 0, 'no loss was planted: ' + run.said[-800:]
    assert run.marked(LOST) == lost, '%d drawn as lost, %d planted: %s%s' % (
        run.marked(LOST), lost, run.said, run.page)
    assert run.problems >= lost
    agree(run)


def main():
    if 'BASH_FUNC_await_server%%' not in os.environ:
        sys.exit('truth.py: run it by tests/ladder/run, which exports await_server (tests/tap.sh)')
    tests = Tests()
    with tempfile.TemporaryDirectory(prefix='truth-', dir=os.environ.get('TEST_TMP')) as folder:
        os.chdir(folder)
        for name in ('hello_verbs', 'hello_cm', 'hello_ep', 'hello_credits') if ALL else ('hello_verbs',):
            subprocess.run(['gcc', os.path.join(EXAMPLES, name + '.c'), '-o', name, '-libverbs', '-lrdmacm'],
                           check=True)
        for name, command in programs().items():
            for way in WAYS:
                tests.check('%s by %s: drawn is what was counted' % (name, way),
                            lambda command=command, way=way: quiet(command, way))
        pingpong = pair('ibv_rc_pingpong -g 1 -n 40')
        for fault in ('drop=request:3', 'drop=ack:2', 'drop=0.05,kind=send,seed=3')[:3 if ALL else 2]:
            tests.check('VERBATIM_FAULT=%s: exactly the planted losses are drawn' % fault,
                        lambda fault=fault: planted(pingpong, fault))
    print('1..%d' % tests.number)
    return 1 if tests.failed else 0


if __name__ == '__main__':
    sys.exit(main())
