#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""inside.py LIBRARY VERIFY FILTER [--long]   (inside the guest, layout split)

First two of our own processes under Yama (yama.py). Then namespace b has Verbatim on vb, the first
namespace the kernel's rxe0 on va. Every pair runs in both directions; every packet's ICRC is
checked by the other stack, which drops it when it is wrong, so that whatever works here has it
right."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), 'netns')]
sys.dont_write_bytecode = True

import lab                                      # noqa: E402
import yama                                     # noqa: E402
from harness import Tap, words                  # noqa: E402
from lab import Failure, Pair                   # noqa: E402
from meeting import Meeting, refused, wait_joined       # noqa: E402

PINGPONGS = [('rc', 1), ('rc', 1024), ('rc', 1025), ('rc', 65537), ('rc', 1 << 20), ('uc', 1024),
             ('uc', 4000), ('ud', 1), ('ud', 1024), ('srq', 4096)]
PERFTEST = ['ib_send_lat -n 100', 'ib_send_bw -n 100 -s 65536', 'ib_write_lat -n 100',
            'ib_write_bw -n 100 -s 65536', 'ib_read_lat -n 100', 'ib_read_bw -n 50 -s 65536',
            'ib_atomic_lat -n 100', 'ib_atomic_bw -n 100', 'ib_send_lat -c UC -n 100',
            'ib_send_lat -c UD -n 100', 'ib_write_bw -q 4 -n 50 -s 8192',
            'ib_send_bw -b -n 50 -s 8192', 'ib_send_bw -e -n 50',
            'ib_write_bw -m 256 -n 50 -s 9999']

# Connected by librdmacm: name, server, client, port (udaddy has one of its own).
CONNECTED = [
    ('rping -C 20', 'rping -s -a {a} -p {p} -v -V', 'rping -c -a {a} -p {p} -v -V -C 20', None),
    ('rping -C 20 over IPv6', 'rping -s -a {a6} -p {p} -v -V',
     'rping -c -a {a6} -p {p} -v -V -C 20', None),
    ('rping -S 60000', 'rping -s -a {a} -p {p} -V -S 60000',
     'rping -c -a {a} -p {p} -V -C 5 -S 60000', None),
    ('ucmatose', 'ucmatose -b {a} -p {p}', 'ucmatose -s {a} -p {p}', None),
    ('ucmatose -c 5 -C 20 -S 8192', 'ucmatose -b {a} -p {p} -c 5 -C 20 -S 8192',
     'ucmatose -s {a} -p {p} -c 5 -C 20 -S 8192', None),
    ('rdma_client', 'rdma_server -s {a} -p {p}', 'rdma_client -s {a} -p {p}', None),
    ('udaddy', 'udaddy -b {a}', 'udaddy -s {a}', 7174),
    ('udaddy -c 3 -S 1000 over IPv6', 'udaddy -b {a6} -c 3 -S 1000',
     'udaddy -s {a6} -c 3 -S 1000', 7174),
    ('ib_write_lat -R', 'ib_write_lat -R -F -n 50 -p {p}', 'ib_write_lat -R -F -n 50 -p {p} {a}',
     None),
    ('ib_send_lat -R -c UD', 'ib_send_lat -R -c UD -F -n 50 -p {p}',
     'ib_send_lat -R -c UD -F -n 50 -p {p} {a}', None),
]


class Ends:
    """A topology of the two stacks, for a Meeting: way 'out' is a client on Verbatim."""

    def __init__(self, split, way):
        self.server, self.client = ((split.rxe, split.ours) if way == 'out'
                                    else (split.ours, split.rxe))


class Named(lab.Namespace):
    """A namespace that exists already, by the name that `ip netns` gave it."""

    def __init__(self, name):
        self.holder = subprocess.Popen(['ip', 'netns', 'exec', name, 'sh', '-c',
                                        'echo ready; exec cat'], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.holder.stdout.readline()
        self.pid = self.holder.pid


class Side(lab.End):
    """A stack with its device, and the index of its GID for each kind of address."""

    def __init__(self, namespace, device, address, address6, library, gids):
        place = lab.Lab(library, tempfile.mkdtemp(dir='/run'))
        super().__init__(namespace, device, address, address6, None, place)
        self.gids = gids


def rxe_gids():
    return {kind: int(subprocess.check_output(['gid.sh', 'rxe0', kind], text=True) or -1)
            for kind in ('4', '6', 'll')}


class Split:
    """The two stacks, server and client in either role."""

    def __init__(self, library, mtu):
        subprocess.run(['topo.sh', 'split', str(mtu)], check=True)
        self.rxe = Side(lab.Host(), 'rxe0', '10.77.0.1', 'fd77::1', None, rxe_gids())
        self.ours = Side(Named('b'), 'vb_vb', '10.77.0.2', 'fd77::2', library,
                         {'ll': 0, '4': 1, '6': 2})
        self.mtu = 4096 if mtu > 4200 else 1024

    def close(self):
        self.ours.namespace.close()

    def run(self, tool, way, kind='4', option='-g', timeout=60):
        """One pair: way 'out' is a client on Verbatim, 'in' a client on rxe."""
        server, client = (self.rxe, self.ours) if way == 'out' else (self.ours, self.rxe)
        port = next(lab.PORTS)
        parts = [words(tool, '-d', end.device, option, end.gids[kind], '-p', port)
                 for end in (server, client)]
        with server.start(parts[0]) as one:
            server.wait_listening(port, one, 30)
            with client.start(parts[1] + [server.address]) as two:
                two.wait(timeout)
                one.wait(10)
                return Pair(one, two).check()

    def ops(self, kind, mtu):
        """ops.py, driven from Verbatim's end; its lines of TAP."""
        port = next(lab.PORTS)
        script = [sys.executable, os.path.join(HERE, 'ops.py')]
        arguments = [words(end.device, end.gids[kind], mtu, port)
                     for end in (self.rxe, self.ours)]
        with self.rxe.start(script + arguments[0]) as server:
            self.rxe.wait_listening(port, server, 30)
            with self.ours.start(script + arguments[1] + [self.rxe.address]) as driver:
                if driver.wait(240) is None or not re.search(r'^1\.\.\d+', driver.text, re.M):
                    raise Failure(f'it did not finish ({driver.code})\n{driver.tail()}\n'
                                  f'rxe:\n{server.tail()}')
                return driver.text


def report_ops(tap, split, kind, mtu):
    """Each line of ops.py as one of ours."""
    name = f'ops over {"IPv" + kind if kind != "ll" else "link-local"}, path MTU {mtu}'
    try:
        text = split.ops(kind, mtu)
    except Failure as why:
        tap.report(name, 'fail', str(why), 0)
        return
    for verdict, line, detail in re.findall(r'^(ok|not ok) \d+ - (.*)\n((?:#.*\n)*)', text, re.M):
        tap.report(f'{name}: {line}', 'pass' if verdict == 'ok' else 'fail',
                   detail if verdict != 'ok' else '', 0)


def pairs(split, verify, long):
    """Name and function of each pair of programs."""
    kinds = ('4', '6', 'll') if long else ('4', '6')
    for way in ('out', 'in'):
        for number, (kind, size) in enumerate(PINGPONGS):
            for address in kinds if number in (2, 6, 8) else ('4',):
                for events in ('', ' -e') if number in (1, 5, 8) else ('',):
                    tool = f'ibv_{kind}_pingpong -c -n 50 -s {size}{events}'
                    yield (f'{way}: {tool} over {address}',
                           lambda t=tool, w=way, a=address: split.run(t, w, a))
        for number, tool in enumerate(PERFTEST):
            for address in kinds if number < 2 else ('4',):
                yield (f'{way}: {tool} over {address}',
                       lambda t=tool, w=way, a=address: split.run(f'{t} -F', w, a, '-x'))
        for name, server, client, port in CONNECTED:
            yield (f'{way}: {name}', lambda w=way, s=server, c=client, p=port:
                   Meeting(Ends(split, w), p).run(s, c))
        yield f'{way}: cmtime -c 50', lambda w=way: Meeting(Ends(split, w)).run(
            'cmtime -b {a} -p {p} -c 50', 'cmtime -s {a} -p {p} -c 50', endless=True)
        yield f'{way}: mckey', lambda w=way: multicast(split, w)
        yield f'{way}: a connection to a port that nobody serves', lambda w=way: nobody(split, w)
        if os.access(verify, os.X_OK):
            for test in verify_tests(verify, long):
                yield (f'{way}: verify {test}',
                       lambda t=test, w=way: split.run(f'{verify} -t ^{t}$', w, '4'))


def multicast(split, way):
    """The server receives what the client sends to a group."""
    ends, group = Ends(split, way), '239.77.3.1'
    with ends.server.start(words('mckey -m', group, '-b', ends.server.address)) as receiver:
        wait_joined(ends.server.namespace, group, receiver, 15)
        with ends.client.start(words('mckey -s -m', group, '-b', ends.client.address)) as sender:
            sender.wait(30)
            receiver.wait(10)
            pair = Pair(receiver, sender).check()
    if pair.text.count('data transfers complete') != 2:
        raise Failure(pair.report())


def nobody(split, way):
    """Refused with "invalid service ID", by whoever lives there."""
    ends = Ends(split, way)
    with Meeting(ends).server('rping -s -P -a {a} -p {p}'):
        refused(ends, 'rping -c -a {a} -p {p} -C 1', r'RDMA_CM_EVENT_REJECTED, error 8\b', 15)


def verify_tests(verify, long):
    """The tests of verify that move data, without those that want what rxe does not do."""
    listed = subprocess.run([verify, '--list'], capture_output=True, text=True).stdout
    names = [line.split()[0] for line in listed.splitlines() if ' data' in line]
    brief = ('rc_send', 'rc_write_imm', 'rc_read', 'rc_mixed', 'rc_atomics', 'uc_send', 'ud_send')
    return [n for n in names if long or n in brief]


def one_mtu(tap, library, verify, chosen, long, mtu):
    split = Split(library, mtu)
    try:
        if mtu == 1500:
            for name, function in pairs(split, verify, long):
                if re.search(chosen, name):
                    tap.run(name, function)
            runs = (('4', 1024), ('6', 1024), ('4', 256)) + ((('ll', 1024),) if long else ())
        else:
            runs = (('4', 4096),) + ((('6', 4096),) if long else ())
        for kind, path_mtu in runs:
            if re.search(chosen, f'ops {kind} {path_mtu}'):
                report_ops(tap, split, kind, path_mtu)
    finally:
        split.close()


def main():
    library, verify, chosen = sys.argv[1:4]
    tap = Tap()
    for name, function in yama.cases(library, verify):
        if re.search(chosen, name):
            tap.run(name, function)
    for mtu in (1500, 9000):
        one_mtu(tap, library, verify, chosen, '--long' in sys.argv, mtu)
    return tap.end()


if __name__ == '__main__':
    sys.exit(main())
