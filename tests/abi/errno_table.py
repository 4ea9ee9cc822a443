#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
What each exported symbol does with errno when it fails:  errno_table.py CORE VERBS RDMACM SYMBOLS RDMACM_SYMBOLS

Every symbol of the lists has a row here; one without is an error. Each is called in a process of its own, with
zeros (or the arguments of its row), and errno 45 before:

  errno     answers a positive errno, and sets errno to it
  minus     answers a negative number, and sets errno
  pointer   answers NULL, and sets errno
  void      answers nothing, and sets errno
  open      succeeds so: its failures are in the client tests (verify errno)
  none      cannot fail, or answers otherwise (a name, a rate); it leaves errno alone
  data      is no function, or would read where its arguments lead
"""
import ctypes
import fnmatch
import os
import re
import signal
import sys

from tap import Tap

BEFORE = 45

# First row that fits counts. IBVERBS_1.0 of names that have a newer default refuse: structures of before 2007.
VERBS = '''
verbs_allow_disassociate_destroy data
ibv_copy_*                      data
verbs_register_driver_*         none
ibv_register_driver             none
__verbs_log                     none
__ioctl_final_num_attrs         void
verbs_uninit_context            void
verbs_set_ops                   void
verbs_init_cq                   void
ibv_dmabuf_heap_destroy         void
ibv_dmabuf_heap_free            void
ibv_dmabuf_heap_*               pointer
_verbs_init_and_alloc_context   pointer
verbs_open_device               pointer
ibv_cmd_export_dmabuf_fd        minus
ibv_cmd_poll_cq                 minus
ibv_read_ibdev_sysfs_file       minus
ibv_read_sysfs_file             minus
ibv_query_gid_type              minus
execute_ioctl                   errno
ibv_cmd_*                       errno
ibv_get_device_list@IBVERBS_1.0 pointer
ibv_free_device_list@IBVERBS_1.0 void
ibv_get_device_name@IBVERBS_1.0 pointer
ibv_get_device_guid@IBVERBS_1.0 void
ibv_ack_*@IBVERBS_1.0           void
ibv_ack_*                       none
_ibv_query_comp_cntr_caps       errno
ibv_create_comp_cntr            pointer
ibv_destroy_comp_cntr           errno
ibv_export_buf_dmabuf_fd        minus
ibv_*_comp_cntr                 errno
ibv_alloc_buf                   pointer
ibv_alloc_dmah                  pointer
ibv_alloc_pd                    pointer
ibv_attach_mcast                errno
ibv_close_device                minus
ibv_create_*                    pointer
ibv_dealloc_*                   errno
ibv_dereg_mr                    errno
ibv_destroy_*                   errno
ibv_detach_mcast                errno
ibv_dm_export_dmabuf_fd         minus
ibv_dofork_range                none
ibv_dontfork_range              none
ibv_*_str                       none
ibv_fork_init                   none
ibv_is_fork_initialized         none
ibv_free_*                      none
ibv_get_async_event             minus
ibv_get_cq_event                minus
ibv_get_pkey_index              minus
ibv_get_device_list             open
ibv_get_device_*                none
ibv_get_sysfs_path              none
ibv_import_device               pointer -1
ibv_import_*                    pointer
ibv_init_ah_from_wc             minus
ibv_modify_*                    errno
ibv_open_device                 pointer
ibv_qp_to_qp_ex                 none
ibv_query_qp_data_in_order      none
ibv_query_gid                   minus
ibv_query_pkey                  minus
_ibv_query_gid_table            minus
_ibv_query_gid_ex               errno
ibv_query_*                     errno
ibv_rate_to_*                   none
ibv_rereg_mr                    minus
ibv_reg_*                       pointer
ibv_resize_cq                   errno
ibv_resolve_eth_l2_from_gid     minus
ibv_set_ece                     errno
ibv_unimport_*                  void
mbps_to_ibv_rate                none
mult_to_ibv_rate                none
'''

RDMACM = '''
rdma_create_event_channel       open
rdma_get_devices                open
rdma_free*                      none
rdma_event_str                  none
rdma_destroy_id                 minus
rdma_destroy_*                  none
rdma_get_src_port               data
rdma_get_dst_port               data
rdma_*                          minus
rrecvmsg                        data
rsendmsg                        data
repoll_create                   open
repoll_ctl                      minus
repoll_wait                     minus
rpoll                           data
rselect                         minus   -1
r*                              minus   -1
'''


def rows(text):
    return [line.split() for line in text.strip().splitlines()]


def row_of(table, name, version):
    for pattern, kind, *arguments in table:
        of, _, at = pattern.partition('@')
        if fnmatch.fnmatchcase(name, of) and at in ('', version):
            return kind, [int(argument) for argument in arguments]
    return None, None


def function(library, libc, name, version):
    libc.dlvsym.restype = ctypes.c_void_p
    libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    address = libc.dlvsym(library._handle, name.encode(), version.encode())
    return ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 7, use_errno=True)(address)


def called(library, libc, name, version, arguments):
    """(answer, errno) of a call in a child; None: it did not return."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(10)
        call = function(library, libc, name, version)
        ctypes.set_errno(BEFORE)
        answer = call(*(arguments + [0] * 7)[:7])
        os.write(write_end, f'{answer} {ctypes.get_errno()}'.encode())
        os._exit(0)
    os.close(write_end)
    text = b''
    while part := os.read(read_end, 100):
        text += part
    os.close(read_end)
    os.waitpid(child, 0)
    return tuple(int(word) for word in text.split()) or None


def as_int(answer):
    return ctypes.c_int(answer & 0xffffffff).value


def is_right(kind, answer, errno):
    if kind == 'errno':
        return as_int(answer) > 0 and errno == as_int(answer)
    if kind == 'minus':
        return as_int(answer) < 0 and errno not in (0, BEFORE)
    if kind == 'pointer':
        return answer == 0 and errno not in (0, BEFORE)
    if kind == 'void':
        return errno not in (0, BEFORE)
    return kind == 'open' or errno == BEFORE


def check(tap, library, libc, table, symbols):
    for line in open(symbols):
        name, version = re.fullmatch(r'(\w+)@@?(\S+)', line.strip()).groups()
        kind, arguments = row_of(table, name, version)
        what = f'{name}@{version}'
        if kind is None:
            tap.test(f'{what} has a row', [f'add one to {os.path.basename(__file__)}'])
        elif kind != 'data':
            result = called(library, libc, name, version, arguments)
            right = result is not None and is_right(kind, *result)
            tap.test(f'{what}: {kind}', [] if right else [f'answer and errno: {result}'])


def main():
    core, verbs, rdmacm, symbols, rdmacm_symbols = sys.argv[1:]
    ctypes.CDLL(core, mode=ctypes.RTLD_GLOBAL)
    libc = ctypes.CDLL(None)
    tap = Tap()
    check(tap, ctypes.CDLL(verbs, mode=ctypes.RTLD_GLOBAL), libc, rows(VERBS), symbols)
    check(tap, ctypes.CDLL(rdmacm, mode=ctypes.RTLD_GLOBAL), libc, rows(RDMACM), rdmacm_symbols)
    tap.end()


main()
