#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A trace as `verbatim trace` writes it, with many packets:  large.py FILE PACKETS

Two processes, SENDs of 1024 bytes and their ACKs by UDP, each recorded at both ends with comments, and of each
SEND the post and the completion at both ends. Some wait for a receiver that is not ready, some are sent again."""
import struct
import sys

CLIENT, SERVER = (0x11, bytes((10, 0, 0, 1))), (0x22, bytes((10, 0, 0, 2)))


def option(code, value):
    return struct.pack('<HH', code, len(value)) + value + bytes(-len(value) % 4)


def block(kind, body):
    length = 12 + len(body)
    return struct.pack('<II', kind, length) + body + struct.pack('<I', length)


def section():
    return block(0x0a0d0d0a, struct.pack('<IHHq', 0x1a2b3c4d, 1, 0, -1))


def interface(linktype, name):
    return block(1, struct.pack('<HHI', linktype, 0, 0) + option(2, name.encode()) + option(9, b'\x09') +
                 option(0, b''))


def enhanced(number, now, data, length, *options):
    body = struct.pack('<IIIII', number, now >> 32, now & 0xffffffff, len(data), length)
    body += data + bytes(-len(data) % 4)
    return block(6, body + b''.join(options) + option(0, b''))


def packet(number, now, outbound, source, destination, opcode, psn, extension, payload, comment):
    roce = struct.pack('>BBHII', opcode, 0x40, 0xffff, destination[0], psn & 0xffffff | 0x80000000) + extension
    roce += bytes(16) if payload else b''
    roce += struct.pack('<I', psn * 2654435761 & 0xffffffff)
    udp = struct.pack('>HHHH', 50000, 4791, 8 + len(roce), 0)
    ip = struct.pack('>BBHHHBBH', 0x45, 0, 28 + len(roce), psn & 0xffff, 0x4000, 64, 17, 0)
    ip += source[1] + destination[1]
    data = ip + udp + roce
    text = ('payload %d; ' % payload if payload else '') + 'path udp; qp 0x%06x; state RTS' % (
        source if outbound else destination)[0] + comment
    return enhanced(number, now, data, len(data) + payload, option(1, text.encode()),
                    option(2, struct.pack('<I', 2 if outbound else 1)))


def event(number, now, text):
    data = bytes((0, 12, 0, 4)) + b'json' + bytes(4) + ('{"v":1,"thread":%d,%s}' % (100 + number, text)).encode()
    return enhanced(number, now, data, len(data))


def call(number, now, qpn, wr_id):
    return event(number, now, '"event":"call","name":"ibv_post_send","qp":"0x%06x","wr_id":%d,"opcode":"SEND",'
                              '"bytes":1024,"sges":1,"ns":%d' % (qpn, wr_id, 600 + wr_id * 7919 % 900))


def completion(number, now, qpn, wr_id, opcode):
    return event(number, now, '"event":"completion","cq":2,"qp":"0x%06x","wr_id":%d,"status":"SUCCESS",'
                              '"opcode":"%s","bytes":1024' % (qpn, wr_id, opcode))


def blocks():
    now, psn = 1700000000 * 10**9, 1000
    while True:
        now += 2500 + psn * 7907 % 1900
        if psn % 3000 == 0:
            now += 4000000                      # nothing was to be done
        yield 0, call(1, now, 0x11, psn)
        tries = 3 if psn % 2500 == 0 else 1     # the receiver is not ready twice
        for number in range(tries):
            yield 1, packet(0, now + 400, True, CLIENT, SERVER, 4, psn, b'', 1024, '; wr_id %d' % psn +
                            ('; retransmission %d' % number if number else ''))
            yield 0, packet(2, now + 9000, False, CLIENT, SERVER, 4, psn, b'', 1024, '')
            answer = struct.pack('>BBH', 0x2e if number < tries - 1 else 0x1f, 0, psn & 0xffff)
            yield 1, packet(2, now + 9500, True, SERVER, CLIENT, 17, psn, answer, 0, '')
            yield 0, packet(0, now + 17000, False, SERVER, CLIENT, 17, psn, answer, 0, '')
            now += 0 if number == tries - 1 else 700000
        yield 0, completion(3, now + 10000, 0x22, psn, 'RECV')
        yield 0, completion(1, now + 18000, 0x11, psn, 'SEND')
        yield 0, event(3, now + 18500, '"event":"call","name":"ibv_post_recv","qp":"0x000022","wr_id":%d,'
                                       '"bytes":1024,"sges":1,"ns":200' % psn)
        psn += 1


def main():
    path, count = sys.argv[1], int(sys.argv[2])
    with open(path, 'wb') as file:
        file.write(section())
        for name in ('client(10)', 'server(11)'):
            file.write(interface(101, name) + interface(252, name + ' events'))
        for packets, data in blocks():
            count -= packets
            if count < 0:
                break
            file.write(data)


if __name__ == '__main__':
    main()
