#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""cm_events.py ADDRESS COUNT: binds an id of librdmacm (by ctypes) to an IPv4 address, says so, and prints
the names of the events that come, until there were so many; then destroys the id."""
import ctypes
import socket
import sys

PS_TCP = 0x0106
EVENT_KIND_AT = 16      # of struct rdma_cm_event, behind id and listen_id


def must(result, call):
    if result:
        sys.exit(f'{call}: {result}, errno {ctypes.get_errno()}')


def main():
    address, count = socket.inet_aton(sys.argv[1]), int(sys.argv[2])
    cm = ctypes.CDLL('librdmacm.so.1', use_errno=True)
    cm.rdma_create_event_channel.restype = ctypes.c_void_p
    cm.rdma_event_str.restype = ctypes.c_char_p
    channel, handle, event = (ctypes.c_void_p(each) for each in (cm.rdma_create_event_channel(), None, None))
    bound = socket.AF_INET.to_bytes(2, sys.byteorder) + bytes(2) + address + bytes(8)
    must(cm.rdma_create_id(channel, ctypes.byref(handle), None, PS_TCP), 'rdma_create_id')
    must(cm.rdma_bind_addr(handle, bound), 'rdma_bind_addr')
    print('bound', flush=True)
    for _ in range(count):
        must(cm.rdma_get_cm_event(channel, ctypes.byref(event)), 'rdma_get_cm_event')
        kind = ctypes.c_int.from_address(event.value + EVENT_KIND_AT).value
        print(cm.rdma_event_str(kind).decode(), flush=True)
        must(cm.rdma_ack_cm_event(event), 'rdma_ack_cm_event')
    must(cm.rdma_destroy_id(handle), 'rdma_destroy_id')
    cm.rdma_destroy_event_channel(channel)
    print('ended', flush=True)


main()
