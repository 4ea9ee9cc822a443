#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""cm_fork.py PORT SECONDS: a listener of librdmacm (python3-pyverbs) that forks before its client
comes. The child sleeps that long, holding nothing; the parent serves one client of rdma_client."""
import os
import sys
import time

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.qp import QPCap, QPInitAttr

BYTES = 16


def main():
    port, seconds = sys.argv[1], float(sys.argv[2])
    cap = QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
    address = AddrInfo(src='0.0.0.0', src_service=port, port_space=ce.RDMA_PS_TCP,
                       flags=ce.RAI_PASSIVE)
    listener = CMID(creator=address, qp_init_attr=QPInitAttr(qp_type=e.IBV_QPT_RC, cap=cap))
    listener.listen()
    if not os.fork():
        time.sleep(seconds)
        os._exit(0)
    print('forked', flush=True)
    connection = listener.get_request()
    region = connection.reg_msgs(BYTES + 40)
    connection.post_recv(region)
    connection.accept()
    completion = connection.get_recv_comp()
    while completion is None:
        completion = connection.get_recv_comp()
    if completion.status or completion.byte_len != BYTES:
        sys.exit(f'status {completion.status}, {completion.byte_len} bytes')
    connection.post_send(region, length=BYTES)
    while connection.get_send_comp() is None:
        pass
    connection.disconnect()
    print('served', flush=True)


main()
