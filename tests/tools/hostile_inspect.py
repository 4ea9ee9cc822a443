#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Claims to be a process of Verbatim on a control socket, and is none (src/inspect/protocol.h): answers in a MODE.
Prints its process ID when it listens; ends by a signal, or after a minute."""
import ctypes
import os
import signal
import socket
import struct
import sys

HEAD = struct.Struct('=IHHIIQQ')
MAGIC, VERSION = 0x76624953, 1
HELLO, PROOF, COMMAND = 1, 2, 3
nonce = ctypes.create_string_buffer(b'n' * 32, 32)


def answer(kind, text=b'', cursor=0, value=0):
    return HEAD.pack(MAGIC, VERSION, kind, 0, len(text), cursor, value) + text


def answers(mode, kind, count):
    if mode == 'silent':
        return None
    if mode == 'garbage':
        return b'\x1b[2J' * 100
    if kind == HELLO:
        return answer(HELLO, value=ctypes.addressof(nonce))
    if kind == PROOF:
        return answer(PROOF)
    if mode == 'endless':
        text = b'{"record":"process","qp_count":7}\n' if count == 2 else b'{"record":"qp"}\n'
        return answer(COMMAND, b'' if count % 2 else text, cursor=count + 1)
    return answer(COMMAND, b'{"record":"process","program":"\x1b[2J"}\n')


def serve(mode, connection):
    count = 0
    while True:
        message = connection.recv(65536)
        if not message:
            return
        kind = HEAD.unpack(message[:HEAD.size])[2]
        said = answers(mode, kind, count)
        count += 1
        if said:
            connection.send(said)


signal.alarm(60)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind('\0verbatim-inspect-%d' % os.getpid())
listener.listen(8)
print(os.getpid(), flush=True)
while True:
    connection, _ = listener.accept()
    try:
        serve(sys.argv[1], connection)
    except (ConnectionError, BrokenPipeError):
        pass
    connection.close()
