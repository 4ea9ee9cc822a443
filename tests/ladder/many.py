#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A capture with many packets:  many.py FILE PACKETS

Messages of four packets and their ACK between two queue pairs, some repeated after a NAK, as tcpdump would
have them between both."""
import struct
import sys

PCAP = struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 65535, 101)
SENDER, RECEIVER = ((10, 0, 0, 1), 0x11), ((10, 0, 0, 2), 0x22)


def frame(source, destination, opcode, psn, extension=b'', payload=b''):
    bth = struct.pack('>BBHII', opcode, 0x40, 0xffff, destination[1], psn & 0xffffff)
    roce = bth + extension + payload + bytes(4)
    udp = struct.pack('>HHHH', 50000, 4791, 8 + len(roce), 0)
    ip = struct.pack('>BBHHHBBH4B4B', 0x45, 0, 28 + len(roce), 0, 0x4000, 64, 17, 0, *source[0], *destination[0])
    return ip + udp + roce


def packets():
    psn = 0
    while True:
        for part, opcode in enumerate((0, 1, 1, 2)):
            yield frame(SENDER, RECEIVER, opcode, psn + part, payload=bytes(64))
        if psn % 4000 == 3600:
            yield frame(RECEIVER, SENDER, 17, psn + 3, bytes([0x60, 0, 0, 0]))
            yield frame(SENDER, RECEIVER, 2, psn + 3, payload=bytes(64))
        yield frame(RECEIVER, SENDER, 17, psn + 3, bytes([0x1f, 0, 0, 1]))
        psn += 4


def main():
    path, count = sys.argv[1], int(sys.argv[2])
    now = 1700000000 * 10**9
    with open(path, 'wb') as file:
        file.write(PCAP)
        for number, data in zip(range(count), packets()):
            now += 1000 if number % 500 else 3000000
            file.write(struct.pack('<IIII', now // 10**9, now % 10**9, len(data), len(data)) + data)


if __name__ == '__main__':
    main()
