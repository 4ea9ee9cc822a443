# SPDX-License-Identifier: BSD-2-Clause
"""Many processes, and processes that are stopped, killed, forked, or somebody else's; hosts that wish ill."""
import contextlib
import os
import re
import signal
import time

from harness import Case, words
import lab
from lab import NOBODY, Failure, Skip, run_pair, started_pair
from meeting import Meeting

CROWD = 20
# Of each of two forgers: what one processor makes in a fraction of its time.
FORGED_A_SECOND = 10000
FORGED_SECONDS = 3


def crowd(topology):
    """20 spinning pairs at once: each ends, and no scheduling collapse (two cores and fair turns
    need a second or two; without yielding it takes ten times that)."""
    command = words('ibv_rc_pingpong -c -g 1 -n 1000 -s 1024')
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(started_pair(topology, command)) for _ in range(CROWD)]
        for number, pair in enumerate(pairs):
            for program in pair:
                if program.wait(60) != 0:
                    raise Failure(f'pair {number}: exit status {program.code} after '
                                  f'{program.seconds:.1f} s\n{program.tail()}')
    return f'{time.monotonic() - begin:.1f} s'


def crowd_at_once(topology, pairs):
    """All servers first, all clients then: the data phases overlap, and RC latencies stay sane."""
    command = words('ib_send_lat -F -n 1000 -s 64')
    with contextlib.ExitStack() as stack:
        servers, clients = [], []
        for _ in range(pairs):
            port = next(lab.PORTS)
            extra = lab.device_args(topology, topology.server) + ['-p', str(port)]
            servers.append((port, stack.enter_context(topology.server.start(command + extra))))
        for port, server in servers:
            topology.server.wait_listening(port, server)
            extra = lab.device_args(topology, topology.client) + ['-p', str(port)]
            clients.append(stack.enter_context(topology.client.start(
                command + extra + [topology.server.address])))
        for program in clients + [s for _, s in servers]:
            if program.wait(60) != 0:
                raise Failure(f'exit status {program.code} after {program.seconds:.1f} s\n'
                              + program.tail())


def stopped(topology):
    """A process under SIGSTOP, QPs open and its part of the port in its hand, disturbs nobody:
    others come, work and go; and when it continues it works."""
    port = next(lab.PORTS)
    command = words('ibv_rc_pingpong -c -g 1 -s 4096 -n 500 -p', port)
    extra = lab.device_args(topology, topology.server)
    with topology.server.start(command + extra) as sleeper:
        topology.server.wait_listening(port, sleeper)
        sleeper.signal(signal.SIGSTOP)
        for _ in range(3):
            for other in ('ibv_rc_pingpong -c -g 1 -n 1000', 'ibv_ud_pingpong -c -g 1 -s 1000',
                          'ibv_uc_pingpong -c -g 1 -n 1000'):
                pair = run_pair(topology, words(other), timeout=30).check()
                if pair.client.seconds > 10 * lab.PATIENCE:
                    raise Failure(f'{other} took {pair.client.seconds:.1f} s beside a stopped '
                                  'process')
        sleeper.signal(signal.SIGCONT)
        extra = lab.device_args(topology, topology.client)
        with topology.client.start(command + extra + [topology.server.address]) as client:
            for program in (client, sleeper):
                if program.wait(10) != 0:
                    raise Failure(f'after SIGCONT: exit status {program.code}\n{program.tail()}')


def paused_in_transfer(topology):
    """A target stopped for less than its peer's retry time: the transfer goes on afterwards."""
    command = words('ib_write_bw -F -s 65536 -D 3 -u 18')      # 1 s times 8
    with started_pair(topology, command) as (server, client):
        time.sleep(1)
        server.signal(signal.SIGSTOP)
        run_pair(topology, words('ibv_rc_pingpong -c -g 1'), timeout=30).check()
        time.sleep(0.5)
        server.signal(signal.SIGCONT)
        for program in (client, server):
            if program.wait(20) != 0:
                raise Failure(f'exit status {program.code}\n{program.tail()}')


def killed(topology, tool, victim):
    """kill -9 in mid-transfer: the survivor sees retry exceeded (status 12) or, where it only
    receives, can be ended; a new run works at once."""
    command = words(f'{tool} -F -s 65536 -D 20')
    with started_pair(topology, command) as (server, client):
        time.sleep(1.5)
        if not (server.alive() and client.alive()):
            raise Failure(f'ended too early\n{client.tail()}\n{server.tail()}')
        dead, left = (server, client) if victim == 'server' else (client, server)
        dead.signal(signal.SIGKILL)
        dead.wait(5)
        run_pair(topology, words('ibv_rc_pingpong -c -g 1'), timeout=30).check()
        if victim == 'server':
            if left.wait(8) is None:    # 8 tries of 67 ms, four times that allowed: 2.1 s
                raise Failure(f'the survivor still runs after {left.seconds:.1f} s\n'
                              + left.tail())
            if left.crashed() or left.code == 0 or not re.search(
                    r'status 12|vendor|retry', left.text, re.I):
                raise Failure(f'exit status {left.code}, retry exceeded expected\n{left.tail()}')
        else:
            left.end()
            if left.crashed():
                raise Failure(f'{left.crashed()}\n{left.tail()}')
    run_pair(topology, words(f'{tool} -F -s 65536 -n 200'), timeout=30).check()


def two_users(topology):
    """root and nobody on one host, at the same time, among and with each other."""
    if os.geteuid() != 0:
        raise Skip('needs root')
    both = ((0, 0), (NOBODY, NOBODY), (0, NOBODY), (NOBODY, 0))
    quick = words('ibv_rc_pingpong -c -g 1 -n 500')
    long = words('ib_send_lat -F -D 4 -s 64')
    with started_pair(topology, long, users=(NOBODY, NOBODY)) as theirs, \
            started_pair(topology, long, users=(0, 0)) as ours:
        for users in both:
            run_pair(topology, quick, users=users, timeout=30).check()
            run_pair(topology, words('ib_write_bw -F -n 200'), users=users, timeout=30).check()
        for program in (*theirs, *ours):
            if program.wait(30) != 0:
                raise Failure(f'exit status {program.code}\n{program.tail()}')
    # Not meanwhile: datagrams that wait in the socket of whoever holds the port are lost when it ends.
    for users in both:
        run_pair(topology, words('ibv_ud_pingpong -c -g 1 -n 200 -s 512'), users=users,
                 timeout=30).check()


def bystander_takes_over(topology):
    """The user who holds the port leaves; the other user's pairs, idle until then, go on."""
    if os.geteuid() != 0:
        raise Skip('needs root')
    holder = words('ibv_rc_pingpong -c -g 1 -n 500 -p', next(lab.PORTS))
    with topology.server.start(holder, user=NOBODY) as first:
        topology.server.wait_listening(int(holder[-1]), first)
        with started_pair(topology, words('ib_send_lat -F -D 4 -s 64'), users=(0, 0)) as pair:
            time.sleep(1.5)
            first.signal(signal.SIGKILL)
            for program in reversed(pair):
                if program.wait(30) != 0:
                    raise Failure(f'exit status {program.code}\n{program.tail()}')
    run_pair(topology, words('ibv_rc_pingpong -c -g 1'), users=(0, NOBODY)).check()


def idle(topology):
    """A server that waits for its client with everything open uses no CPU."""
    port = next(lab.PORTS)
    command = words('ibv_srq_pingpong -e -g 1 -p', port)
    extra = lab.device_args(topology, topology.server)
    with topology.server.start(command + extra) as server:
        topology.server.wait_listening(port, server)
        lab.assert_idle([server])


# ---- a hostile host ----

def forger_of(topology):
    path = os.path.join(os.path.dirname(topology.client.lab.verify or ''), '..', '..', 'netns', 'forger')
    if not os.access(path, os.X_OK):
        raise Skip('the program forger is not built')
    return os.path.normpath(path)


def address_of(program):
    """QPN and PSN of the first queue pair, as perftest tells them."""
    until = time.monotonic() + 10 * lab.PATIENCE
    while time.monotonic() < until:
        if told := re.search(r'local address: .*QPN (0x\w+) PSN (0x\w+)', program.text):
            return told.groups()
        time.sleep(0.02)
    raise Failure('no QPN was told\n' + program.tail())


def forge(topology, stack, kind, server=('0', '0'), client=('0', '0'), seconds=FORGED_SECONDS):
    """From each end's host to the other end's, which expects the PSNs of the first."""
    forger = forger_of(topology)
    return [stack.enter_context(end.start(
        [forger, other.address, kind, str(FORGED_A_SECOND), str(seconds), qpn, psn]))
        for end, other, qpn, psn in ((topology.client, topology.server, server[0], client[1]),
                                     (topology.server, topology.client, client[0], server[1]))]


def bandwidth(topology, kind=None):
    """MB/s of an RDMA WRITE stream of FORGED_SECONDS, beside forgers of @kind."""
    command = words(f'ib_write_bw -F -s 65536 -D {FORGED_SECONDS}')
    with contextlib.ExitStack() as stack:
        server, client = stack.enter_context(started_pair(topology, command))
        forgers = []
        if kind:
            forgers = forge(topology, stack, kind, address_of(server), address_of(client))
        for program in (client, server):
            if program.wait(30) != 0:
                raise Failure(f'exit status {program.code} beside {kind}\n{program.tail()}')
        for program in forgers:
            if program.wait(10) != 0 or not re.search(r'^[1-9]\d* packets', program.text, re.M):
                raise Failure(f'the forger did not do its work\n{program.tail()}')
        told = re.findall(r'^ *65536 +\d+ +[\d.]+ +([\d.]+)', client.text, re.M)
        if not told:
            raise Failure('no bandwidth was told\n' + client.tail())
        return float(told[-1])


def forged(topology, kind):
    """Beside them a stream keeps more than half of its bandwidth; the best of three, for other programs."""
    forger_of(topology)
    best = 0
    for _ in range(3):
        quiet, beside = bandwidth(topology), bandwidth(topology, kind)
        best = max(best, beside / quiet)
        if best > 0.5:
            return f'{best:.2f} of the bandwidth'
    raise Failure(f'{best:.2f} of the bandwidth')


def forged_data(topology, kind):
    """What arrives is what was sent, and connections come about and end as they should."""
    with contextlib.ExitStack() as stack:
        forgers = forge(topology, stack, kind, seconds=FORGED_SECONDS + 2)
        checks = [words(topology.client.lab.verify, '-g 1 -t', '^rc_stream$'),
                  words('ibv_rc_pingpong -c -g 1 -n 2000'), words('ibv_ud_pingpong -c -g 1 -s 1000')]
        for command in checks:
            run_pair(topology, command, timeout=60).check()
        connects = 'ib_write_bw -F -R -n 500 -p {p}'
        Meeting(topology).run(connects, connects + ' {a}', timeout=30)
        for program in forgers:
            if program.wait(FORGED_SECONDS + 12) != 0:
                raise Failure(program.tail())


def cases(topology):
    local, usual = topology.name == 'lo', topology.name != 'veth9000'
    yield Case(f'{CROWD} spinning pairs of ibv_rc_pingpong', lambda: crowd(topology), False)
    for pairs in (CROWD // 2, CROWD):
        yield Case(f'{pairs} pairs of ib_send_lat at once', lambda p=pairs: crowd_at_once(topology, p),
                   local and pairs < CROWD)
    yield Case('a stopped process disturbs nobody', lambda: stopped(topology), topology.name == 'veth1500')
    yield Case('a target paused in a transfer', lambda: paused_in_transfer(topology), local)
    for tool in ('ib_write_bw', 'ib_send_bw', 'ib_read_bw'):
        for victim in ('server', 'client'):
            yield Case(f'kill -9 of the {victim} of {tool}',
                       lambda t=tool, v=victim: killed(topology, t, v),
                       tool == 'ib_write_bw' and (local or usual and victim == 'server'))
    if topology.name == 'veth1500':
        for kind in ('garbage', 'rc', 'cm', 'group'):
            yield Case(f'a stream beside forged packets: {kind}', lambda k=kind: forged(topology, k))
            yield Case(f'data and connections beside forged packets: {kind}',
                       lambda k=kind: forged_data(topology, k), kind == 'cm')
    yield Case('an idle process uses no CPU', lambda: idle(topology), local)
    if local:
        yield Case('root and nobody on one host', lambda: two_users(topology), True)
        yield Case('the user who holds the port leaves', lambda: bystander_takes_over(topology),
                   True)
