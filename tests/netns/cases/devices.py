# SPDX-License-Identifier: BSD-2-Clause
"""What the machine's devices look like: ibv_devices, ibv_devinfo, ibv_asyncwatch."""
import ipaddress
import os
import re
import time

from harness import Case
import lab
from lab import Failure, wait_link

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def finished(end, command, timeout=10):
    """Run one program to its end; its output."""
    with end.start(command) as program:
        if program.wait(timeout) != 0:
            raise Failure(f'{" ".join(command)}: exit status {program.code}\n{program.tail()}')
        return program.text


def list_devices(topology):
    for end in {id(e): e for e in (topology.server, topology.client)}.values():
        text = finished(end, ['ibv_devices'])
        if not re.search(rf'^\s+{end.device}\s+[0-9a-f]{{16}}$', text, re.M):
            raise Failure(f'no line for {end.device}:\n{text}')


def describe(topology):
    """ibv_devinfo -v tells the truth about port, MTU and GIDs."""
    end = topology.client
    text = finished(end, ['ibv_devinfo', '-v', '-d', end.device])
    fields = dict(re.findall(r'^\s+(\w+):\s+(.*?)\s*$', text, re.M))
    expected = {'state': 'PORT_ACTIVE (4)', 'link_layer': 'Ethernet', 'max_mtu': '4096 (5)',
                'max_msg_sz': '0x80000000', 'phys_port_cnt': '1', 'port_lid': '0', 'sm_lid': '0'}
    wrong = {k: (fields.get(k), v) for k, v in expected.items() if fields.get(k) != v}
    if not fields.get('active_mtu', '').startswith(f'{topology.mtu} '):
        wrong['active_mtu'] = (fields.get('active_mtu'), topology.mtu)
    if not re.match(r'ATOMIC_(HCA|GLOB)', fields.get('atomic_cap', '')):
        wrong['atomic_cap'] = (fields.get('atomic_cap'), 'ATOMIC_HCA or better')
    gids = {int(i): g for i, g in re.findall(r'GID\[\s*(\d+)\]:\s+([0-9a-f:.]+)', text)}
    if 0 not in gids or not gids[0].startswith('fe80:'):
        wrong['GID[0]'] = (gids.get(0), 'fe80:...')
    v4 = ipaddress.ip_address(gids.get(1, '::'))
    if not v4.ipv4_mapped or str(v4.ipv4_mapped) != end.address:
        wrong['GID[1]'] = (gids.get(1), f'::ffff:{end.address}')
    if end.device != 'vb_lo' and gids.get(2) != str(ipaddress.ip_address(end.address6 or '::')):
        wrong['GID[2]'] = (gids.get(2), end.address6)
    if gids and 'RoCE v2' not in text:
        wrong['GID type'] = ('', 'RoCE v2')
    if wrong:
        raise Failure(f'(found, expected): {wrong}\n{text}')


def no_device(topology):
    """An unknown device is refused by the program itself."""
    with topology.client.start(['ibv_devinfo', '-d', 'nosuch']) as program:
        if program.wait(10) in (0, None) or program.crashed():
            raise Failure(f'exit status {program.code}\n{program.tail()}')


def watch(topology):
    """ibv_asyncwatch prints the events of an interface going down and up."""
    end = topology.client
    link = end.device.removeprefix('vb_')
    with end.start(['stdbuf', '-oL', 'ibv_asyncwatch', '-d', end.device]) as program:
        wait_for(program, 'async event FD')
        end.namespace.call('ip', 'link', 'set', link, 'down')
        try:
            wait_for(program, 'PORT_ERR')
        finally:
            end.namespace.call('ip', 'link', 'set', link, 'up')
            restore_address(end, link)
        wait_for(program, 'PORT_ACTIVE')
        if not program.alive():
            raise Failure(f'it ended: {program.code}\n{program.tail()}')


def tell_ids(topology):
    """An id of rdma_cm is told that its interface has another MAC address, and that it is gone."""
    end = topology.client
    for command in ('ip link add x0 type veth peer name x1', 'ip addr add 10.99.0.1/24 dev x0',
                    'ip link set x1 up', 'ip link set x0 up'):
        end.namespace.call(*command.split())
    try:
        with end.start(['/usr/bin/python3', os.path.join(HERE, 'cm_events.py'), '10.99.0.1', '2']) as program:
            wait_for(program, 'bound')
            end.namespace.call(*'ip link set x0 address 02:00:00:00:00:77'.split())
            wait_for(program, 'RDMA_CM_EVENT_ADDR_CHANGE')
            end.namespace.call('ip', 'link', 'del', 'x0')
            wait_for(program, 'RDMA_CM_EVENT_DEVICE_REMOVAL')
            wait_for(program, 'ended')
            if program.wait(10):
                raise Failure(f'exit status {program.code}\n{program.tail()}')
    finally:
        end.namespace.call('sh', '-c', 'ip link del x0 2>/dev/null; true')


def restore_address(end, link):
    """Taking an interface down deletes its global IPv6 address (lo gets ::1 by itself)."""
    if link != 'lo':
        end.namespace.call('ip', '-6', 'addr', 'replace', f'{end.address6}/64', 'dev', link,
                           'nodad')
    wait_link(end.namespace, link)


def wait_for(program, word, timeout=5):
    until = time.monotonic() + timeout * lab.PATIENCE
    while word not in program.text:
        if time.monotonic() > until or not program.alive():
            raise Failure(f'no {word} within {timeout} s (exit status {program.code}):\n'
                          + program.tail())
        time.sleep(0.02)


def through_run(topology):
    """`verbatim run` lists the device and answers its sysfs paths."""
    end = topology.client
    tool = os.path.join(os.path.dirname(end.lab.library), 'bin', 'verbatim')
    base = f'/sys/class/infiniband/{end.device}'
    text = finished(end, [tool, 'run', '--', 'sh', '-c',
                          f'ibv_devices; cat {base}/ports/1/state {base}/ports/1/gids/1'])
    if end.device not in text or '4: ACTIVE' not in text or 'ffff' not in text:
        raise Failure(text)


def cases(topology):
    yield Case('ibv_devices lists the interface', lambda: list_devices(topology), True)
    yield Case('ibv_devinfo -v is truthful', lambda: describe(topology), True)
    yield Case('ibv_devinfo of an unknown device fails', lambda: no_device(topology), True)
    yield Case('ibv_asyncwatch sees the interface go down and up', lambda: watch(topology), True)
    if topology.name != 'lo':
        yield Case('ids are told of a new MAC address, and of the end of an interface', lambda: tell_ids(topology),
                   topology.name == 'veth1500')
    if topology.client.lab.library:
        yield Case('verbatim run answers sysfs', lambda: through_run(topology), True)
