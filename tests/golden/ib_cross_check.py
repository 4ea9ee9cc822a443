#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
ib_cross_check.py IB_GOLDEN: InfiniBand packets of each header and attribute, as tshark reads them. TAP on stdout.

ib_golden writes them by our tables: the same bytes as infiniband.erf, which is kept. Each field that tshark
shows has to have the value that our tables read there; CRCs are computed anew, here, in words of Python.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(HERE, 'infiniband.erf')
ERF_HEADER = 16

# Our records, and what tshark calls them.
PREFIX = {
    'lrh': 'lrh', 'grh': 'grh', 'smp_directed': 'smpdirected', 'rmpp': 'rmpp', 'sa': 'sa',
    'notice': 'notice', 'trap_128': 'trap', 'trap_144': 'trap', 'trap_256': 'trap',
    'trap_257': 'trap', 'trap_259': 'trap',
    'node_description': 'nodedescription', 'node_info': 'nodeinfo', 'switch_info': 'switchinfo',
    'guid_info': 'switchinfo', 'port_info': 'portinfo', 'pkey_table': 'p_keytable', 'sl_to_vl': 'sltovlmappingtable',
    'vl_arbitration': 'vlarbitrationtable', 'linear_forwarding': 'linearforwardingtable',
    'multicast_forwarding': 'multicastforwardingtable', 'sm_info': 'sminfo', 'class_port_info': 'classportinfo',
    'port_counters': 'portcounters', 'port_counters_ext': 'portcounters_ext', 'node_record': 'sa',
    'port_info_record': 'sa', 'inform_info': 'informinfo', 'link_record': 'linkrecord',
    'service_record': 'linkrecord', 'path_record': 'pathrecord', 'mc_member_record': 'mcmemberrecord',
}
# Where tshark's name is not ours.
OTHER_NAME = {
    'smp_directed.m_key': 'infiniband.smplid.mkey', 'notice.producer_type': 'producertypevendorid',
    'notice.trap_number': 'trapnumberdeviceid',
    'node_description.node_string': 'nodestring', 'port_info.gid_prefix': 'guid',
    'trap_144.change_flags': None,      # bit by bit, at another place than LinkWidthEnabled has in release 1.3
}
# Fields of ours that tshark 4.0 does not have: too new (and it shows nothing of trap 259); it takes the D bit out of eight bytes, which are not there.
UNKNOWN = {
    'smp_directed.d', 'port_counters.counter_select_2', 'port_counters.port_xmit_wait', 'port_counters.qp1_dropped',
    'switch_info.multicast_fdb_top', 'port_info.multicast_pkey_trap_suppression_enabled',
    'port_info.link_speed_ext_active_2', 'port_info.link_speed_ext_supported_2',
    'port_info.link_speed_ext_enabled_2', 'port_info.capability_mask_2', 'port_info.link_speed_ext_active',
    'port_info.link_speed_ext_supported', 'port_info.link_speed_ext_enabled', 'pkey_table.p_key',
    'sl_to_vl.vl', 'path_record.service_id', 'path_record.qos_class', 'class_port_info.trap_hl',
}
# Of PortCountersExtended it has the first eight, of release 1.2.
UNKNOWN_EXT = re.compile(r'port_counters_ext\.(counter_select_2|.*_(errors|counter|discards|dropped|wait))$|'
                         r'port_counters_ext\.vl15_dropped$')
# Of several values it may show the first ones: half of the masks of a multicast table.
MANY = ('guid_info.guid', 'vl_arbitration.vl', 'vl_arbitration.weight', 'multicast_forwarding.port_mask')
# It shows what our tables read with other bits beside it: all 16 of the status; 4 and 4 of RRespTime and flags.
SHOWN = {
    'smp_directed.smp_status': lambda ours, seen: seen & 0x7fff == ours,
    'rmpp.r_resp_time': lambda ours, seen: seen == ours >> 1,
    'rmpp.rmpp_flags': lambda ours, seen: seen & 7 == ours,
}


def icrc_and_vcrc(packet):
    words = (packet[4] & 7) << 8 | packet[5]
    covered = bytearray(packet[:words * 4 - 4])
    headers = 8
    if covered[1] & 3 == 3:
        covered[0:8] = b'\xff' * 8
        covered[8] |= 0x0f
        covered[9:12] = b'\xff' * 3
        covered[15] = 0xff
        headers = 48
    else:
        covered[0] |= 0xf0
    covered[headers + 4] = 0xff
    vcrc = 0xffff
    for byte in packet[:words * 4]:
        vcrc ^= byte
        for _ in range(8):
            vcrc = vcrc >> 1 ^ (0xd008 if vcrc & 1 else 0)
    return struct.pack('<I', zlib.crc32(bytes(covered))), struct.pack('<H', vcrc ^ 0xffff)


def packets(path):
    with open(path, 'rb') as file:
        data = file.read()
    at = 24
    while at < len(data):
        length = struct.unpack('<I', data[at + 8:at + 12])[0]
        yield data[at + 16 + ERF_HEADER:at + 16 + length]
        at += 16 + length


def our_fields(tool, path):
    """(packet, record.field) -> text."""
    text = subprocess.run([tool, 'fields', path], check=True, capture_output=True, text=True).stdout
    rows = (line.split(' ', 3) for line in text.splitlines())
    return {(int(row[0]), row[1] + '.' + row[2]): row[3] for row in rows}


def tshark_names():
    """Names of fields without underscores -> the name."""
    text = subprocess.run(['tshark', '-G', 'fields'], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout
    names = [row.split('\t')[2] for row in text.splitlines() if row.startswith('F\t')]
    return {re.sub(r'_', '', name): name for name in names if name.startswith('infiniband.')}


def tshark_name(key, names):
    record, field = key.split('.')
    field = OTHER_NAME.get(key, field)
    if field and field.startswith('infiniband.'):
        return field
    return field and names.get('infiniband.%s.%s' % (PREFIX[record].replace('_', ''), field.replace('_', '')))


def tshark_rows(path, names):
    """packet -> {name: [values]}"""
    command = ['tshark', '-n', '-r', path, '-T', 'fields', '-E', 'occurrence=a', '-E', 'aggregator=;',
               '-e', 'frame.number']
    for name in names:
        command += ['-e', name]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout
    rows = {}
    for line in text.split('\n'):
        parts = line.split('\t')
        if len(parts) > 1:
            rows[int(parts[0])] = dict(zip(names, parts[1:]))
    return rows


def value(text, ours):
    """A number of either spelling, or bytes as hexadecimal digits."""
    if re.fullmatch(r'[0-9a-f:]+', text) and text.count(':') > 1 and len(ours) == 32:       # a GID
        import ipaddress
        return ipaddress.IPv6Address(text).packed.hex()
    if re.fullmatch(r'0x[0-9a-f]+|\d+', text):
        return int(text, 0)
    if text in ('True', 'False'):
        return int(text == 'True')
    return text.replace(':', '')


def differences(tool, names):
    fields, compared = our_fields(tool, KEPT), set()
    wanted = sorted({tshark_name(key, names) for _, key in fields if not key.startswith('crc.')} - {None})
    rows = tshark_rows(KEPT, wanted)
    for (number, key), ours in sorted(fields.items()):
        if is_unknown(key):
            continue
        name = tshark_name(key, names)
        if not name:
            if OTHER_NAME.get(key, '') is not None:
                yield '%s: tshark has no such field' % key
            continue
        theirs = rows.get(number, {}).get(name, '')
        if not theirs:
            continue
        compared.add(key)
        seen = [value(text, ours) for text in theirs.split(';')]
        if key in MANY:
            mine = [int(text) for text in ours.split(',')]
            if not seen or seen != mine[:len(seen)]:
                yield 'packet %d, %s: %s, tshark %s' % (number, key, ours, theirs)
        elif key in SHOWN:
            if not SHOWN[key](int(ours), seen[0]):
                yield 'packet %d, %s: %s, tshark %s' % (number, key, ours, theirs)
        elif len(seen) > 1 and len(ours) > 32:          # bytes, shown in pieces
            if ''.join(re.sub('^0x', '', text) for text in theirs.split(';')) != ours:
                yield 'packet %d, %s: %s, tshark %s' % (number, key, ours, theirs)
        elif (int(ours) if ours.isdigit() and not isinstance(seen[0], str) else ours) not in seen:
            yield 'packet %d, %s: %s, tshark %s' % (number, key, ours, theirs)
    for key in sorted({key for _, key in fields} - compared):
        if not is_unknown(key) and OTHER_NAME.get(key, '') is not None:
            yield '%s is in no packet as tshark sees them' % key
    print('# %d fields of %d packets compared' % (len(compared), len(rows)))


def is_unknown(key):
    return key.startswith(('crc.', 'trap_259.')) or key in UNKNOWN or UNKNOWN_EXT.match(key) or key.endswith('_string')


def crc_differences():
    for number, packet in enumerate(packets(KEPT), 1):
        icrc, vcrc = icrc_and_vcrc(packet)
        if packet[-6:-2] != icrc or packet[-2:] != vcrc:
            yield 'packet %d' % number


def main():
    tool, count, failed = sys.argv[1], 0, 0

    def test(name, problems):
        nonlocal count, failed
        count += 1
        problems = list(problems)
        for problem in problems[:30]:
            print('#', problem)
        failed += bool(problems)
        print('%sok %d - %s' % ('not ' if problems else '', count, name), flush=True)

    with tempfile.NamedTemporaryFile() as built:
        subprocess.run([tool, 'build', built.name], check=True)
        with open(KEPT, 'rb') as kept:
            same = kept.read() == built.read()
    test('the packets are written as they were kept', [] if same else ['infiniband.erf differs'])
    test('there are 300 packets at least', [] if len(list(packets(KEPT))) >= 300 else ['fewer'])
    test('the CRCs are right', crc_differences())
    if shutil.which('tshark'):
        test('tshark reads each field as we do', differences(tool, tshark_names()))
    else:
        print('ok 4 - tshark reads each field as we do # SKIP no tshark')
        count += 1
    print('1..%d' % count)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
