# SPDX-License-Identifier: BSD-2-Clause
"""Processes that listen and connect beside each other: ports, requests that nobody takes, listeners
and peers that are killed, stopped, forked, idle, or somebody else's."""
import contextlib
import os
import re
import signal
import time

from harness import Case
import lab
from lab import NOBODY, Failure, Skip
from meeting import Meeting, refused

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLE = ('rdma_server -p {p}', 'rdma_client -s {a} -p {p}')
# A server that waits for a second client, and a client that waits for the end: idle, connected.
IDLE_SERVER, IDLE_CLIENT = 'ucmatose -c 2 -C 0 -p {p}', 'ucmatose -C 0 -s {a} -p {p}'


def own_ports(topology):
    """Five servers on ports of their own; the third is asked for, it alone ends."""
    meetings = [Meeting(topology) for _ in range(5)]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(m.server(EXAMPLE[0])) for m in meetings]
        for asked in (2, 4, 0):
            with meetings[asked].client(EXAMPLE[1]) as client:
                client.wait(10)
                servers[asked].wait(5)
                meetings[asked].judge(servers[asked], client)
        wrong = [n for n in (1, 3) if not servers[n].alive()]
        if wrong:
            raise Failure(f'servers {wrong} ended too\n{servers[wrong[0]].tail()}')


def in_use(topology):
    """EADDRINUSE from another process, and of another user; other port spaces are their own."""
    meeting = Meeting(topology)
    users = (None, 0, NOBODY) if os.geteuid() == 0 else (None,)
    with meeting.server('rping -s -P -a {a} -p {p}'):
        for user in users:
            for second in ('rping -s -a {a} -p {p}', 'ucmatose -p {p}', 'ucmatose -b ::0 -p {p}'):
                with topology.server.start(meeting.words(second), user=user) as program:
                    code = program.wait(5)
                    if code in (None, 0) or 'Address already in use' not in program.text:
                        raise Failure(f'{second}: exit status {code}\n{program.tail()}')
        meeting.run('udpong -b {a} -p {p}', 'udpong -s {a} -p {p} -S 64 -C 10 -T e', endless=True)
    one = Meeting(topology)
    one.run(*EXAMPLE)
    one.run(*EXAMPLE)           # the port is free at once


def privileged(topology):
    """A port below 1024 takes CAP_NET_BIND_SERVICE, as with TCP: root has it, nobody has not."""
    if os.geteuid():
        raise Skip('other users take root')
    meeting = Meeting(topology, 81)
    with topology.server.start(meeting.words('rping -s -P -a {a} -p {p}'), user=NOBODY) as program:
        code = program.wait(5)
        if code in (None, 0) or 'Permission denied' not in program.text:
            raise Failure(f'exit status {code}\n{program.tail()}')
        if 'CAP_NET_BIND_SERVICE' not in program.text:
            raise Failure(f'no explanation\n{program.tail()}')
    with topology.server.start(meeting.words('rping -s -P -a {a} -p {p}'), user=0) as server:
        topology.server.wait_listening(81, server, served=1)
        with topology.client.start(meeting.words('rping -c -a {a} -p {p} -C 3 -V'), user=0) as client:
            if client.wait(10) != 0:
                raise Failure(f'{client.tail()}\n{server.tail()}')


def specific_addresses(topology):
    """The same port on two addresses of a host."""
    meeting = Meeting(topology)
    with meeting.server('rping -s -P -a {a} -p {p}') as first, \
            topology.server.start(meeting.words('rping -s -a {a6} -p {p}')) as second:
        topology.server.wait_listening(meeting.port, second, served=2)
        for address, server in (('{a6}', second), ('{a}', first)):
            with meeting.client(f'rping -c -a {address} -p {{p}} -C 3 -V') as client:
                if client.wait(10) != 0:
                    raise Failure(f'{address}: {client.tail()}\n{server.tail()}')
        if second.wait(5) != 0 or not first.alive():
            raise Failure(f'{second.tail()}\n{first.tail()}')


def restarted(topology, times):
    """A listener killed and restarted on one port, a client each time."""
    meeting = Meeting(topology)
    begin = time.monotonic()
    for number in range(times):
        with meeting.server('rping -s -P -a {a} -p {p}') as server, \
                meeting.client('rping -c -a {a} -p {p} -C 2 -V') as client:
            if client.wait(10) != 0:
                raise Failure(f'client {number}: exit status {client.code} after '
                              f'{client.seconds:.1f} s\n{client.tail()}\n{server.tail()}')
            server.signal(signal.SIGKILL)
            server.wait(5)
    return f'{(time.monotonic() - begin) / times * 1000:.0f} ms each'


def wait_for(program, word, timeout=5):
    until = time.monotonic() + timeout * lab.PATIENCE
    while word not in program.text:
        if time.monotonic() > until or not program.alive():
            raise Failure(f'no {word}\n{program.tail()}')
        time.sleep(0.02)


def connected(meeting, stack):
    """An idle connected pair."""
    server = stack.enter_context(meeting.server(IDLE_SERVER))
    client = stack.enter_context(meeting.client(IDLE_CLIENT))
    time.sleep(0.5)
    for program in (server, client):
        if not program.alive():
            raise Failure(f'it ended\n{program.tail()}')
    return server, client


def killed_idle(topology):
    """kill -9 of a process that is connected and idle: on its own host the peer knows at once, though not each
    time, if the machine is busy."""
    best = min_until(10, lambda: time_to_know(topology), 1)
    if best > 1:
        raise Failure(f'it took {best:.1f} s')
    Meeting(topology).run(*EXAMPLE)
    return f'{best:.2f} s'


def min_until(tries, measure, enough):
    """The least of @tries measures at most, one that is @enough at once."""
    best = None
    for _ in range(tries):
        now = measure()
        best = now if best is None else min(best, now)
        if best <= enough:
            break
    return best


def time_to_know(topology):
    meeting = Meeting(topology)
    with contextlib.ExitStack() as stack:
        server, client = connected(meeting, stack)
        begin = time.monotonic()
        server.signal(signal.SIGKILL)
        if client.wait(5) != 0 or 'return status 0' not in client.text:
            raise Failure(f'exit status {client.code}, no DISCONNECTED\n{client.tail()}')
        return time.monotonic() - begin


def killed_busy(topology, victim):
    """kill -9 in the middle of an rping, on one host: the survivor ends, soon."""
    meeting = Meeting(topology)
    with meeting.server('stdbuf -oL rping -s -a {a} -p {p} -v') as server, \
            meeting.client('rping -c -a {a} -p {p}') as client:
        wait_for(server, 'ping data')
        dead, left = (server, client) if victim == 'server' else (client, server)
        begin = time.monotonic()
        dead.signal(signal.SIGKILL)
        code, seconds = left.wait(2), time.monotonic() - begin
        if code is None or left.crashed():
            raise Failure(f'exit status {code} after {seconds:.1f} s\n{left.tail()}')
        if not re.search('DISCONNECT EVENT|completion failed', left.text):
            raise Failure(f'it never heard of it\n{left.tail()}')
    return f'{seconds:.2f} s'


def killed_far(topology):
    """kill -9 of a target on another host: the transport gives up after its retries, 8 times the
    2.1 s of the connection manager, of which four times as much is allowed."""
    meeting = Meeting(topology)
    command = 'ib_write_bw -R -F -s 65536 -D 60 -p {p}'
    with meeting.server(command) as server, meeting.client(command + ' {a}') as client:
        time.sleep(3)
        begin = time.monotonic()
        server.signal(signal.SIGKILL)
        code, seconds = client.wait(75), time.monotonic() - begin
        if code in (0, None) or client.crashed() or seconds > 70 * 2:
            raise Failure(f'exit status {code} after {seconds:.1f} s\n{client.tail()}')
    return f'{seconds:.1f} s'


def stopped(topology):
    """A listener under SIGSTOP, with its part of the port in its hand, delays nobody's requests."""
    bystander, meeting = Meeting(topology), Meeting(topology)
    with contextlib.ExitStack() as stack:
        sleepers = [stack.enter_context(Meeting(topology).server('rping -s -P -a {a} -p {p}'))
                    for _ in range(3)]
        sleepers.append(stack.enter_context(bystander.server('rping -s -P -a {a} -p {p}')))
        for sleeper in sleepers:
            sleeper.signal(signal.SIGSTOP)
        worst = 0
        for _ in range(5):
            worst = max(worst, min_until(5, lambda: meeting.run(*EXAMPLE).client.seconds, 2))
            meeting.run('ucmatose -p {p} -c 5', 'ucmatose -s {a} -p {p} -c 5', timeout=20)
        if worst > 2:
            raise Failure(f'a connect took {worst:.1f} s')
        for sleeper in sleepers:
            sleeper.signal(signal.SIGCONT)
        with bystander.client('rping -c -a {a} -p {p} -C 3 -V') as client:
            if client.wait(10) != 0:
                raise Failure(f'after SIGCONT\n{client.tail()}\n{sleepers[-1].tail()}')
    return 'each within 2 s'


def connect_to_stopped(topology):
    """rdma_connect() to a process under SIGSTOP waits, as for one that is slow, and is done after SIGCONT."""
    meeting = Meeting(topology)
    for _ in range(3):
        with meeting.server('rping -s -a {a} -p {p} -C 3') as server:
            server.signal(signal.SIGSTOP)
            with meeting.client('rping -c -a {a} -p {p} -C 3 -V') as client:
                time.sleep(1)           # an attempt that fails at once would have ended
                if not client.alive():
                    raise Failure(f'it did not wait: exit status {client.wait(1)}\n{client.tail()}')
                server.signal(signal.SIGCONT)
                for program in (client, server):
                    if program.wait(20) != 0:
                        raise Failure(f'exit status {program.code}\n{client.tail()}\n{server.tail()}')


# What a client of rping hears is a REP, and then answers to its DREQ: none of these comes.
NO_DREP = ';'.join(f'drop=cm:{number},direction=in' for number in range(2, 40))


def exit_beside_silence(topology):
    """exit() repeats a DREQ that is not answered, for 600 ms at most. On one host alone: from another ICMP says
    that the process there has ended, and nobody waits."""
    meeting = Meeting(topology)

    def seconds():
        with meeting.server('rping -s -a {a} -p {p} -C 3') as server, \
                meeting.client('rping -c -a {a} -p {p} -C 3', {'VERBATIM_FAULT': NO_DREP}) as client:
            for program in (client, server):
                if program.wait(20) != 0:
                    raise Failure(f'exit status {program.code}\n{client.tail()}\n{server.tail()}')
            if '(1 cm)' not in client.text:
                raise Failure(f'no answer was lost\n{client.tail()}')
            return client.seconds

    fastest = min_until(5, seconds, 1.5)
    if fastest < 0.5 or fastest > 1.5:
        raise Failure(f'the client took {fastest:.1f} s')
    return f'{fastest:.1f} s'


def two_users(topology):
    """root and nobody on one host listen and connect, in every combination, at the same time."""
    if os.geteuid() != 0:
        raise Skip('needs root')
    with Meeting(topology).server('rping -s -P -a {a} -p {p}', user=NOBODY), \
            Meeting(topology).server('rping -s -P -a {a} -p {p}', user=0):
        for users in ((0, 0), (NOBODY, NOBODY), (0, NOBODY), (NOBODY, 0)):
            for pair in (EXAMPLE, ('ucmatose -p {p} -c 3', 'ucmatose -s {a} -p {p} -c 3'),
                         ('rping -s -a {a} -p {p} -V', 'rping -c -a {a} -p {p} -V -C 20')):
                Meeting(topology).run(*pair, users=users, timeout=20)
            datagrams(topology, users)


def datagrams(topology, users, tries=3):
    """udaddy waits for ever for a datagram that is lost, and between users on a busy machine one may
    be: the queues of unix sockets, by which they are handed on, are short."""
    for left in reversed(range(tries)):
        try:
            Meeting(topology, 7174).run('udaddy', 'udaddy -s {a}', users=users, timeout=10)
            return
        except Failure:
            if not left:
                raise


def nobody_serves(topology):
    """REJECTED, where a process of ours lives there, whether or not it knows of
    connections: invalid service ID."""
    event = r'RDMA_CM_EVENT_REJECTED, error 8\b'
    with Meeting(topology).server('rping -s -P -a {a} -p {p}'):
        seconds = refused(topology, 'rping -c -a {a} -p {p} -C 1', event, 1)
    with Meeting(topology).server('ibv_rc_pingpong -g 1 -p {p}'):
        refused(topology, 'rping -c -a {a} -p {p} -C 1', event, 1)
        refused(topology, 'udaddy -s {a}', 'RDMA_CM_EVENT_UNREACHABLE', 1)
    return seconds


def nobody_there(topology):
    """Nobody has port 4791 over there: UNREACHABLE; in one namespace the client itself has it."""
    event = 'REJECTED, error 8' if topology.name == 'lo' else 'UNREACHABLE, error -'
    seconds = refused(topology, 'rping -c -a {a} -p {p} -C 1', f'RDMA_CM_EVENT_{event}', 1)
    event = 'UNREACHABLE' if topology.name != 'lo' else '(REJECTED|UNREACHABLE)'
    refused(topology, 'udaddy -s {a}', f'RDMA_CM_EVENT_{event}', 1)
    return seconds


def taken_address(topology):
    """Another program has port 4791 of the server's lo: other addresses work, and connections of one user
    inside."""
    script = ('import socket, time; taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); '
              'taken.bind(("127.0.0.1", 4791)); print("bound", flush=True); time.sleep(60)')
    with topology.server.start(['/usr/bin/python3', '-c', script]) as stranger:
        wait_for(stranger, 'bound')
        meeting = Meeting(topology)
        for count in (3, 30):
            with meeting.server('rping -s -a {a} -p {p} -C ' + str(count)) as server, \
                    meeting.client(f'rping -c -a {{a}} -p {{p}} -C {count} -V') as client:
                if client.wait(20) != 0 or server.wait(5) != 0:
                    raise Failure(f'{client.tail()}\n{server.tail()}')
                if 'another socket has UDP port 4791 of 127.0.0.1' not in server.text:
                    raise Failure(f'no explanation\n{server.tail()}')


def explained(topology):
    """What cannot be, says which devices there are."""
    for template, words in (
            ('ucmatose -b 192.0.2.1 -p {p}', ('bind address failed: Cannot assign',)),
            ('ucmatose -s 192.0.2.1 -p {p}', ('getting addr: Network is unreachable', 'there is no route')),
            ('ucmatose -s 10.77.0.99 -p {p}', ('ADDR_ERROR, error: -110', 'answered no ARP'))):
        if '10.77' in template and not topology.server.address.startswith('10.77.'):
            continue            # on lo no address is silent
        meeting = Meeting(topology)
        with meeting.client(template) as program:
            if program.wait(5) in (None, 0) or program.crashed():
                raise Failure(f'exit status {program.code}\n{program.tail()}')
            for word in words + (r'verbatim: .*' + topology.client.device,):
                if not re.search(word, program.text):
                    raise Failure(f'{template}: nothing like {word}:\n{program.tail()}')


def idle(topology):
    """Both ends of a connection at rest, and the listener: no CPU."""
    with contextlib.ExitStack() as stack:
        pair = connected(Meeting(topology), stack)
        lab.assert_idle(pair)


def forked(topology):
    """A listener that forks: the parent serves, and the child holds neither packets nor port."""
    meeting = Meeting(topology)
    script = f'/usr/bin/python3 {HERE}/cm_fork.py {{p}} '
    with meeting.server(script + '3') as server:
        wait_for(server, 'forked')
        with meeting.client(EXAMPLE[1]) as client:
            client.wait(10)
            server.wait(5)
            meeting.judge(server, client)
    with meeting.server(script + '4') as server:
        wait_for(server, 'forked')
        server.signal(signal.SIGKILL)       # its child lives on
        server.wait(5)
        meeting.run(*EXAMPLE)


def localhost_without_lo(topology):
    """127.0.0.1 where lo is no device: another one stands in, for programs of the host alone."""
    meeting, env = Meeting(topology), {'VERBATIM_DEVICES': '!lo,*'}
    with meeting.server('rping -s -a 127.0.0.1 -p {p} -V', env) as server:
        with meeting.client('rping -c -a {a} -p {p} -C 3') as stranger:
            if stranger.wait(10) in (None, 0):
                raise Failure(f'taken from another host: {stranger.tail()}\n{server.tail()}')
        with topology.server.start(meeting.words('rping -c -a 127.0.0.1 -p {p} -C 3 -V'), env) as client:
            client.wait(10)
            server.wait(5)
            meeting.judge(server, client)


def cases(topology):
    usual = topology.name != 'veth9000'
    local = topology.name == 'lo'
    yield Case('CM: five listeners, the right one is reached', lambda: own_ports(topology), usual)
    yield Case('CM: a port in use, across processes and users', lambda: in_use(topology), usual)
    yield Case('CM: ports below 1024 take a privilege', lambda: privileged(topology), local)
    yield Case('CM: one port on two addresses', lambda: specific_addresses(topology), usual)
    yield Case('CM: another program has the port of lo', lambda: taken_address(topology), usual)
    for times in (10, 100):
        yield Case(f'CM: a listener killed and restarted {times} times', lambda t=times: restarted(topology, t),
                   times == 10 and usual)
    if local:
        yield Case('CM: kill -9 of an idle peer', lambda: killed_idle(topology), True)
        yield Case('CM: root and nobody on one host', lambda: two_users(topology), True)
        yield Case('CM: an exit beside a peer that is silent', lambda: exit_beside_silence(topology), True)
        for victim in ('server', 'client'):
            yield Case(f'CM: kill -9 of the {victim} of rping',
                       lambda v=victim: killed_busy(topology, v), True)
    else:
        yield Case('CM: 127.0.0.1 where lo is no device', lambda: localhost_without_lo(topology), usual)
        yield Case('CM: kill -9 of a target on another host', lambda: killed_far(topology), False)
    yield Case('CM: stopped listeners delay nobody', lambda: stopped(topology), local)
    yield Case('CM: a server that is stopped is waited for', lambda: connect_to_stopped(topology), local)
    yield Case('CM: a port that nobody serves', lambda: nobody_serves(topology), usual)
    yield Case('CM: a host where nobody is', lambda: nobody_there(topology), usual)
    yield Case('CM: what fails is explained', lambda: explained(topology), usual)
    yield Case('CM: an idle connection uses no CPU', lambda: idle(topology), local)
    yield Case('CM: a listener that forks', lambda: forked(topology), usual)
