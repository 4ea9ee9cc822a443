#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
cross_check.py GOLDEN_TOOL: do others read our packets as we meant them? TAP on stdout.

golden_tool writes packets of every opcode, built by the library; icrc.py, scapy (IPv4) and
tshark's dissector look at them. tshark also reads captures of the kernel's rxe, and must see in
them what our dump lines say. What is not installed is skipped.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import icrc  # noqa: E402

SCAPY_CAPTURES = ['golden-v4.pcap', 'golden-v4-mtu256.pcap', 'golden-v4-jumbo.pcap', 'rping.pcap',
                  'udaddy.pcap']
TSHARK_CAPTURES = ['golden-v4.pcap', 'golden-v6.pcap', 'golden-v4-mtu256.pcap', 'ud_pingpong.pcap']

# Each field that tshark shows, and where it is in our line.
FIELDS = {
    'infiniband.bth.destqp': r' qpn (0x\S+)',
    'infiniband.bth.psn': r' psn (\S+)',
    'infiniband.reth.va': r' (?:reth|atomic) (0x[0-9a-f]+)',
    'infiniband.reth.dmalen': r' reth 0x[0-9a-f]+\+(\d+)',
    'infiniband.reth.r_key': r' rkey (0x\S+)',
    'infiniband.atomiceth.swapdt': r' (?:swap|add) (0x\S+)',
    'infiniband.atomiceth.cmpdt': r' compare (0x\S+)',
    'infiniband.aeth.msn': r' msn (\S+)',
    'infiniband.atomicacketh.origremdt': r' original (0x\S+)',
    'infiniband.deth.q_key': r' qkey (0x\S+)',
    'infiniband.deth.srcqp': r' from (0x\S+)',
    'infiniband.immdt': r' imm (0x\S+)',
    'infiniband.ieth': r' invalidate (0x\S+)',
}
HEXADECIMAL = ('infiniband.bth.psn', 'infiniband.aeth.msn')     # in our line, without 0x
FLAGS = {'infiniband.bth.a': 'ackreq', 'infiniband.bth.se': 'solicited'}
# Opcodes without a name and headers in tshark before 4.2.
UNKNOWN = {(0x81, 'CNP'), (0x1c, 'RC_FLUSH'), (0x1d, 'RC_ATOMIC_WRITE'), (0xbc, 'XRC_FLUSH'),
           (0xbd, 'XRC_ATOMIC_WRITE'),
           (0xc0, 'GAPS')}          # of a manufacturer, and ours: src/wire/gaps.h
AETH_KINDS = {0: r' ack msn', 1: r' rnr nak ', 2: r' reserved syndrome ', 3: r' nak '}


def our_lines(tool, path):
    """Frame number -> dump line."""
    text = subprocess.run([tool, 'lines', path], check=True, capture_output=True, text=True).stdout
    return {int(line.split(' ', 1)[0]): line.split(' ', 1)[1] for line in text.splitlines()}


def tshark_names():
    """Opcode -> tshark's text for it."""
    text = subprocess.run(['tshark', '-G', 'values'], check=True, capture_output=True,
                          text=True).stdout
    rows = (line.split('\t') for line in text.splitlines())
    return {int(row[2], 0): row[3] for row in rows
            if row[0] == 'V' and row[1] == 'infiniband.bth.opcode'}


def our_spelling(text):
    """tshark's name of an opcode in the words of our table."""
    service, operation = re.search(r'\((\w+)\) - (.*)', text).groups()
    operation = operation.replace('RDMA ', '').replace('with Immediate', 'IMM')
    operation = operation.replace('with Invalidate', 'INV').replace('CmpSwap', 'COMPARE SWAP')
    operation = operation.replace('FetchAdd', 'FETCH ADD')
    return (service + ' ' + operation).upper().replace(' ', '_')


def tshark_rows(path):
    """One {field: text} for each RoCE packet."""
    names = (['frame.number', 'infiniband.bth.opcode', 'infiniband.bth.padcnt', 'udp.length',
              'infiniband.aeth.syndrome.opcode'] + list(FIELDS) + list(FLAGS))
    command = ['tshark', '-n', '-r', path, '--disable-protocol', 'rpcordma', '-Y',
               'infiniband.bth', '-T', 'fields', '-E', 'occurrence=f']
    for name in names:
        command += ['-e', name]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout
    return [dict(zip(names, line.split('\t'))) for line in text.splitlines()]


def number(text, base=0):
    return int(text.replace(':', ''), base)


def compare_row(row, line, opcode_names):
    """What differs between tshark's fields and our line, or ''."""
    opcode = number(row['infiniband.bth.opcode'])
    name = line.split(' ', 1)[0]
    if opcode in opcode_names and our_spelling(opcode_names[opcode]) != name:
        return 'opcode %s, %s' % (opcode_names[opcode], name)
    if opcode not in opcode_names and (opcode, name) not in UNKNOWN:
        return 'opcode %d, %s' % (opcode, name)
    for field, pattern in FIELDS.items():
        if ((name.startswith('XRC_') or (opcode, name) in UNKNOWN)
                and not field.startswith('infiniband.bth.')):
            continue                    # tshark knows the names of XRC, and none of its headers
        match = re.search(pattern, line)
        theirs = row[field]
        if field == 'infiniband.atomiceth.cmpdt' and name == 'RC_FETCH_ADD':
            continue                    # there, but without a meaning: we do not print it
        if bool(match) != bool(theirs):
            return '%s "%s"' % (field, theirs)
        if not match:
            continue
        ours = number(match.group(1), 16 if field in HEXADECIMAL else 0)
        bare = not theirs.startswith('0x') and field in ('infiniband.immdt', 'infiniband.ieth')
        if number(theirs, 16 if bare else 0) != ours:
            return '%s %s, %s' % (field, theirs, match.group(1))
    for field, word in FLAGS.items():
        if (row[field] in ('1', 'True')) != (' ' + word in line):
            return '%s %s' % (field, row[field])
    kind = row['infiniband.aeth.syndrome.opcode']
    if kind and not name.startswith('XRC_') and not re.search(AETH_KINDS[number(kind)], line):
        return 'syndrome kind ' + kind
    payload = re.search(r' payload (\d+)', line)
    pad = -int(payload.group(1)) & 3 if payload else 0
    return '' if pad == number(row['infiniband.bth.padcnt']) else 'pad'


def compare_capture(tool, path, opcode_names):
    lines = our_lines(tool, path)
    rows = tshark_rows(path)
    if len(rows) != len(lines) or not rows:
        return ['%s: tshark sees %d packets, we %d' % (path, len(rows), len(lines))]
    found = []
    for row in rows:
        line = lines[int(row['frame.number'])]
        difference = compare_row(row, line, opcode_names)
        if difference:
            found.append('%s frame %s: %s: %s' % (path, row['frame.number'], difference, line))
    return found


def check_icrc_py(path):
    packets = list(icrc.packets(path))
    wrong = sum(icrc.icrc(ip[:-4]) != ip[-4:] for ip, _ in packets)
    return ['%d of %d wrong' % (wrong, len(packets))] if wrong or not packets else []


def check_scapy(paths):
    import logging
    logging.getLogger('scapy').setLevel(logging.ERROR)
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP
    count, found = 0, []
    for path in paths:
        for ip, _ in icrc.packets(path):
            if ip[0] >> 4 != 4:
                continue
            packet = IP(bytes(ip))
            count += 1
            if packet[BTH].compute_icrc(bytes(packet[BTH])) != bytes(ip[-4:]):
                found.append('%s: packet %d' % (path, count))
    return found if count else ['no IPv4 packet']


def have_scapy():
    try:
        import scapy.contrib.roce  # noqa: F401
        return True
    except ImportError:
        return False


class Tap:
    def __init__(self):
        self.count, self.failed = 0, 0

    def report(self, name, found):
        self.count += 1
        self.failed += bool(found)
        print('%sok %d - %s' % ('not ' if found else '', self.count, name))
        for text in found[:10]:
            print('# ' + text)

    def skip(self, name, reason):
        self.count += 1
        print('ok %d - %s # SKIP %s' % (self.count, name, reason))


def main(tool):
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix='verbatim-golden-') as scratch:
        built = os.path.join(scratch, 'built.pcap')
        subprocess.run([tool, 'build', built], check=True)
        tap.report('icrc_py_verifies_our_packets', check_icrc_py(built))
        if have_scapy():
            tap.report('scapy_verifies_our_packets_over_ipv4', check_scapy([built]))
            tap.report('scapy_and_we_agree_on_captured_packets',
                       check_scapy([os.path.join(HERE, name) for name in SCAPY_CAPTURES]))
        else:
            tap.skip('scapy_verifies_our_packets_over_ipv4', 'no python3-scapy')
        if shutil.which('tshark'):
            names = tshark_names()
            tap.report('tshark_dissects_our_packets_as_we_meant_them',
                       compare_capture(tool, built, names))
            found = []
            for name in TSHARK_CAPTURES:
                found += compare_capture(tool, os.path.join(HERE, name), names)
            tap.report('our_lines_say_of_captures_what_tshark_does', found)
        else:
            tap.skip('tshark_dissects_our_packets_as_we_meant_them', 'no tshark')
    print('1..%d' % tap.count)
    return 1 if tap.failed else 0


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
