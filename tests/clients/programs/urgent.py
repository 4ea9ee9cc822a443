#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""urgent.py server|client ADDRESS PORT: urgent data of TCP, as telnet uses them to interrupt. The server
sleeps until SIGURG, throws away what stands in front of the mark, and answers with the urgent byte."""
import fcntl
import os
import signal
import socket
import struct
import sys

SIOCATMARK = 0x8905
JUNK = 100000


def at_mark(sock):
    return struct.unpack('i', fcntl.ioctl(sock, SIOCATMARK, struct.pack('i', 0)))[0]


def serve(listener):
    sock, _ = listener.accept()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    fcntl.fcntl(sock, fcntl.F_SETOWN, os.getpid())
    for number in range(3):
        sock.sendall(b'?')
        if not signal.sigtimedwait([signal.SIGURG], 20):
            sys.exit(f'round {number}: no SIGURG in 20 s')
        skipped = 0
        while not at_mark(sock):
            skipped += len(sock.recv(4096))
        if skipped != JUNK:
            sys.exit(f'round {number}: {skipped} bytes in front of the mark')
        sock.sendall(sock.recv(1, socket.MSG_OOB))
        if sock.recv(1) != b'.' or at_mark(sock):
            sys.exit(f'round {number}: something else behind the mark')
    print('3 rounds')


def ask(sock):
    for number in range(3):
        if sock.recv(1) != b'?':
            sys.exit('the server has ended')
        byte = b'%d' % number
        sock.sendall(bytes(JUNK))
        sock.send(byte, socket.MSG_OOB)
        sock.sendall(b'.')
        if sock.recv(1) != byte:
            sys.exit(f'round {number}: another byte')
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    print('over', 'TCP' if info[0] == 1 else 'RDMA')


def main():
    role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    signal.signal(signal.SIGURG, lambda *_: None)
    if role == 'server':
        with socket.create_server((address, port)) as listener:
            serve(listener)
    else:
        with socket.create_connection((address, port), timeout=None) as sock:
            ask(sock)


main()
