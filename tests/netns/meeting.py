# SPDX-License-Identifier: BSD-2-Clause
"""Programs that meet by the connection manager: a server on a port that only it knows of, clients
that connect to it. There is no TCP port to wait for: what is served is seen from outside in the
claims of service IDs (lab.Namespace.serves)."""
import contextlib
import re
import time

from lab import PATIENCE, PORTS, Failure, Pair, exact_limits, thread_states

# What programs print of events that are no success; some end with status 0 all the same.
BAD_EVENT = re.compile(r'RDMA_CM_EVENT_(ADDR_ERROR|ROUTE_ERROR|CONNECT_ERROR|UNREACHABLE|REJECTED'
                       r'|MULTICAST_ERROR)|data verification failed|data mismatch')


PERHAPS = 'perhaps'


class Meeting:
    """One port, and the addresses of a topology. Command lines are templates: {p} the port, {a} and
    {a6} the server's addresses, {c} and {c6} the client's, {gid} and {cgid} the GIDs of {a} and
    {c}, {ll} the server's link-local address, {here} and {there} its scope at either end."""

    def __init__(self, topology, port=None):
        self.topology = topology
        self.port = port or next(PORTS)
        server, client = topology.server, topology.client
        self.values = {'p': self.port, 'a': server.address, 'a6': server.address6,
                       'c': client.address, 'c6': client.address6,
                       'gid': f'::ffff:{server.address}', 'cgid': f'::ffff:{client.address}',
                       'here': server.device.removeprefix('vb_'),
                       'there': client.device.removeprefix('vb_'),
                       'tmp': server.lab.directory}

    def words(self, template):
        if '{ll}' in template:
            text = self.topology.server.namespace.call('ip', '-6', 'addr', 'show', 'dev',
                                                       self.values['here'])
            self.values['ll'] = re.search(r'inet6 (fe80:\S+?)/', text)[1]
        return template.format(**self.values).split()

    def server(self, template, env=None, user=None):
        """A server that listens by now; for a `with`."""
        program = self.topology.server.start(self.words(template), env, user)
        try:
            self.topology.server.wait_listening(self.port, program, served=1)
        except BaseException:
            program.end()
            raise
        return program

    def client(self, template, env=None, user=None):
        return self.topology.client.start(self.words(template), env, user)

    def run(self, server, client, timeout=60, grace=10, endless=False, env=None,
            users=(None, None)):
        """Both to their ends with status 0, or a Failure. @endless: the server's end is ours;
        PERHAPS: in some releases."""
        with self.server(server, env, users[0]) as one, self.client(client, env, users[1]) as two:
            two.wait(timeout)
            if two.code is None or not endless:
                with exact_limits() if two.code != 0 else contextlib.nullcontext():
                    one.wait(grace if two.code is not None else 0)
            return self.judge(one, two, endless)

    @staticmethod
    def judge(one, two, endless=False):
        pair = Pair(one, two)
        left = [p for p in (two, one) if p.code is None and p.alive()]
        if two in left or left and not endless:
            raise Failure(f'not finished after {two.seconds:.1f} s: {thread_states(left)}\n'
                          + pair.report())
        if endless is True and not left:
            raise Failure(f'the server ended by itself ({one.crashed() or one.code})\n'
                          + pair.report())
        if endless and left:
            if two.code:
                pair.check()
            one.end()
        else:
            pair.check()
        if BAD_EVENT.search(pair.text):
            raise Failure(f'{BAD_EVENT.search(pair.text)[0]}\n{pair.report()}')
        return pair


def refused(topology, template, event, limit_s, port=None):
    """A client that nobody takes says @event, soon: not at each try, if the machine is busy."""
    for _ in range(10):
        with Meeting(topology, port).client(template) as client:
            code = client.wait(limit_s + 10)
            if code in (None, 0) or client.crashed():
                raise Failure(f'exit status {code} after {client.seconds:.1f} s\n{client.tail()}')
            if not re.search(event, client.text):
                raise Failure(f'nothing like {event}:\n{client.tail()}')
            if client.seconds <= limit_s:
                return f'{client.seconds:.2f} s'
    raise Failure(f'it took {client.seconds:.1f} s\n{client.tail()}')


def wait_joined(namespace, group, program, timeout=5):
    """Until an interface of the namespace is a member of the group (dotted, or hex of 128 bits)."""
    if '.' in group:
        table, word = 'igmp', '%02X%02X%02X%02X' % tuple(int(b) for b in group.split('.')[::-1])
    else:
        table, word = 'igmp6', group
    until = time.monotonic() + timeout * PATIENCE
    while True:
        with open(f'/proc/{namespace.pid}/net/{table}') as lines:
            if word in lines.read():
                return
        if time.monotonic() > until or not program.alive():
            raise Failure(f'{group} is not joined\n{program.tail()}')
        time.sleep(0.02)
