# SPDX-License-Identifier: BSD-2-Clause
"""Programs that store and move: fio over rdma_cm, qperf, an iSER target and its initiators, Ceph's monitor
by RDMA, and QEMU, which moves a running guest."""
import json
import os
import re
import socket
import time

from cases.middleware import both, finish, folder, need, under_verbatim
from harness import Case, words
from lab import PATIENCE, PORTS, Failure

NAME = 'iqn.2026-11.org.example:disk'
INITIATOR = 'iqn.2026-11.org.example:initiator'
# With -cm the connection is made by rdma_cm; UC and UD know LIDs only.
BY_CM = ('rc_bi_bw', 'rc_bw', 'rc_lat', 'rc_rdma_read_bw', 'rc_rdma_read_lat', 'rc_rdma_write_bw',
         'rc_rdma_write_lat', 'rc_rdma_write_poll_lat', 'rc_compare_swap_mr', 'rc_fetch_add_mr',
         'ver_rc_compare_swap', 'ver_rc_fetch_add')
BY_LID = {'uc_bi_bw': 'modify QP to RTR', 'uc_bw': 'modify QP to RTR', 'uc_lat': 'modify QP to RTR',
          'uc_rdma_write_bw': 'modify QP to RTR', 'uc_rdma_write_lat': 'modify QP to RTR',
          'uc_rdma_write_poll_lat': 'modify QP to RTR', 'ud_bi_bw': 'create address handle',
          'ud_bw': 'create address handle', 'ud_lat': 'create address handle'}


def fio(topology, verb, depth):
    need('fio')
    port = next(PORTS)
    common = words('fio --name=job --ioengine=rdma --bs=64k --size=16m', f'--port={port}')
    # fio connects with rnr_retry 0, so that SENDs fail where no receive is posted: all of them are before.
    server = common + (words('--rw=read --verb=recv --iodepth=256') if verb == 'send' else
                       words(f'--rw=read --verb={verb} --iodepth={depth}'))
    client = common + words(f'--rw=write --verb={verb} --iodepth={depth}',
                            f'--hostname={topology.server.address}')
    _, text = both(topology, under_verbatim(topology.server) + server,
                   under_verbatim(topology.client) + client, port, served=1)
    moved = re.search(r'io=([\d.]+MiB)', text)
    if not moved or moved[1] != '16.0MiB':
        raise Failure(f'not 16 MiB:\n{text[-2000:]}')


def qperf(topology, tests, expected=None):
    need('qperf')
    port = next(PORTS)
    with topology.server.start(under_verbatim(topology.server) + words('qperf -lp', port)) as server:
        topology.server.wait_listening(port, server)
        for test in tests:
            command = under_verbatim(topology.client) + words('qperf -lp', port, '-t 1 -cm 1',
                                                              topology.server.address, test)
            with topology.client.start(command) as client:
                text = finish(client, 20, 1 if expected else 0)
            if (expected or f'{test}:') not in text or not expected and ' = ' not in text:
                raise Failure(f'{test}: no result, or not the expected one:\n{text}')


def tgtadm(end, *arguments, socket_path):
    with end.start(words(f'env TGT_IPC_SOCKET={socket_path} tgtadm', *arguments)) as running:
        finish(running, 10)


def iser(topology):
    """A target of tgt 1.0.85 wants the initiator's name and address both bound."""
    need('tgtd', 'tgtadm', 'iscsi-inq', 'iscsi-perf')
    end, place, port = topology.server, folder(topology.server, 'iser'), next(PORTS)
    path, disk = os.path.join(place, 'ipc'), os.path.join(place, 'disk')
    with open(disk, 'wb') as file:
        file.write(os.urandom(8 << 20))
    os.chmod(disk, 0o666)
    command = under_verbatim(end, f'TGT_IPC_SOCKET={path}') + words('tgtd -f --iser', f'port={port}')
    with end.start(command) as target:
        end.wait_listening(port, target, served=1)
        for arguments in (f'--mode target --op new --tid 1 -T {NAME}',
                          f'--mode logicalunit --op new --tid 1 --lun 1 -b {disk}',
                          '--mode target --op bind --tid 1 -I ALL',
                          f'--mode target --op bind --tid 1 -Q {INITIATOR}'):
            tgtadm(end, '--lld iser', arguments, socket_path=path)
        url = f'iser://{topology.server.address}:{port}/{NAME}/1'
        for program, wanted in (('iscsi-inq', 'VIRTUAL-DISK'), ('iscsi-perf -m 8 -t 2', 'finished')):
            with topology.client.start(under_verbatim(topology.client) + words(
                    program, '-i', INITIATOR, url)) as initiator:
                text = finish(initiator, 20)
                if wanted not in text:
                    raise Failure(f'{program}: no "{wanted}":\n{text}\nthe target:\n{target.tail()}')
        return re.findall(r'iops average (\d+)', text)[-1] + ' reads of 4 KiB a second'


CEPH = '''[global]
fsid = 8f1a7a2e-6b2e-4a94-8b32-1c5a3d1f2a11
mon_initial_members = a
mon_host = v2:{address}:{port}
ms_type = async+rdma
ms_cluster_type = async+rdma
ms_public_type = async+rdma
ms_async_rdma_device_name = {device}
ms_async_rdma_local_gid = {gid}
ms_async_rdma_roce_ver = 1
ms_async_rdma_receive_queue_len = 256
ms_async_rdma_receive_buffers = 1024
ms_async_rdma_send_buffers = 256
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_data = {place}/mon
admin_socket = {place}/$name.asok
run_dir = {place}
log_file = {place}/$name.log
crash_dir = {place}
'''


def gid_of(address):
    parts = [int(part) for part in address.split('.')]
    return '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' % tuple(parts)


def ceph(topology):
    """A monitor and the client that asks for its state: all of their messages go by RDMA."""
    need('ceph-mon', 'monmaptool', 'ceph')
    server, port = topology.server, next(PORTS)
    place = folder(server, 'ceph')
    configuration = {end: os.path.join(place, f'{role}.conf') for role, end in (
        ('client', topology.client), ('server', server))}
    for end, path in configuration.items():
        with open(path, 'w', encoding='ascii') as file:
            file.write(CEPH.format(address=server.address, port=port, device=end.device, place=place,
                                   gid=gid_of(end.address)))
    for command in (f'monmaptool --create --fsid 8f1a7a2e-6b2e-4a94-8b32-1c5a3d1f2a11 --addv a '
                    f'[v2:{server.address}:{port}] {place}/map',
                    f'ceph-mon -c {configuration[server]} -i a --mkfs --monmap {place}/map'):
        with server.start(words(command)) as running:
            finish(running, 30)
    command = under_verbatim(server) + words('ceph-mon -c', configuration[server], '-i a -f --public-addr',
                                             f'v2:{server.address}:{port}')
    with server.start(command) as monitor:
        server.wait_listening(port, monitor, timeout=20)
        with topology.client.start(under_verbatim(topology.client) + words(
                'ceph -c', configuration[topology.client], '--connect-timeout 20 -s')) as client:
            if 'quorum a' not in finish(client, 40):
                raise Failure(f'no quorum:\n{client.tail()}\nthe monitor:\n{monitor.tail()}')


class Qmp:
    """The control socket of a QEMU."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20 * PATIENCE)
        self.socket.connect(path)
        self.file = self.socket.makefile('rw')
        self.file.readline()
        self.call('qmp_capabilities')

    def call(self, name, **arguments):
        self.file.write(json.dumps({'execute': name, 'arguments': arguments}) + '\n')
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            if 'error' in answer:
                raise Failure(f'{name}: {answer["error"]}')
            if 'return' in answer:
                return answer['return']


def await_file(path, program):
    end = time.monotonic() + 20 * PATIENCE
    while not os.path.exists(path):
        if not program.alive() or time.monotonic() > end:
            raise Failure(f'{program.name} did not start:\n{program.tail()}')
        time.sleep(0.05)


def migration(topology):
    need('qemu-system-x86_64')
    place, port = folder(topology.server, 'qemu'), next(PORTS)
    uri = f'rdma:{topology.server.address}:{port}'
    machine = words('qemu-system-x86_64 -M pc,accel=tcg -m 128 -display none -serial none -nodefaults -qmp')
    paths = [os.path.join(place, name) for name in ('to', 'from')]
    to, origin = (machine + [f'unix:{path},server=on,wait=off'] for path in paths)
    with topology.server.start(under_verbatim(topology.server) + to + ['-incoming', uri]) as one, \
            topology.client.start(under_verbatim(topology.client) + origin) as two:
        await_file(paths[0], one)
        await_file(paths[1], two)
        topology.server.wait_listening(port, one, served=1)
        target, source = Qmp(paths[0]), Qmp(paths[1])
        source.call('migrate', uri=uri)
        state, end = {}, time.monotonic() + 40 * PATIENCE
        while state.get('status') not in ('completed', 'failed') and time.monotonic() < end:
            time.sleep(0.1)
            state = source.call('query-migrate')
        if state.get('status') != 'completed' or not target.call('query-status')['running']:
            raise Failure(f'{state}\nto:\n{one.tail()}\nfrom:\n{two.tail()}')
        source.call('quit')
        target.call('quit')
        finish(one, 10)
        finish(two, 10)
        return f'{state["ram"]["transferred"] >> 10} KiB in {state["total-time"]} ms'


def cases(topology):
    if getattr(topology, 'reference', False):
        return
    for verb in ('write', 'read', 'send'):
        for depth in (1, 16):
            yield Case(f'fio verb={verb} iodepth={depth}', lambda v=verb, d=depth: fio(topology, v, d),
                       False)
    yield Case('qperf, RC by rdma_cm', lambda: qperf(topology, BY_CM), False)
    for why in sorted(set(BY_LID.values())):
        yield Case(f'qperf, UC and UD by LID: failed to {why}', lambda w=why: qperf(
            topology, [test for test in BY_LID if BY_LID[test] == w], 'failed to ' + w), False)
    yield Case('iSER: tgtd, iscsi-inq, iscsi-perf', lambda: iser(topology), False)
    yield Case('Ceph: monitor and client by async+rdma', lambda: ceph(topology), False)
    yield Case('QEMU: live migration by RDMA', lambda: migration(topology), False)
