#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
calls.py ROOT: every public function is a call, that puts signal handlers off (src/base/call.h): its first line
says so. Those of the .map files, and what the tables of struct ibv_context point to.
"""
import glob
import os
import re
import sys

from tap import Tap

# They take no lock and change nothing but what their arguments point to; or refuse.
PURE = re.compile(
    r'\w+_str|.*rate.*|ibv_(copy|import|unimport)_\w+|ibv_get_sysfs_path|ibv_get_device_(name|guid|index)|'
    r'ibv_(fork_init|is_fork_initialized|do(nt)?fork_range|qp_to_qp_ex|resolve_eth_l2_from_gid)|'
    r'ibv_(query_qp_data_in_order|set_ece|query_ece|alloc_dmah|dealloc_dmah|reg_dmabuf_mr|dm_export_dmabuf_fd)|'
    r'rdma_get_(src|dst)_port|rdma_get_remote_ece|rdma_set_local_ece|'
    r'umad_(done|size|status|debug|dump|addr_dump|get_fd|get_mad|get_mad_addr|[gs]et_pkey|set_grh)|'
    r'umad_(set_addr|set_addr_net|release_ca|release_port|free_ca_device_list|sort_ca_device_list)')
# getaddrinfo() may take long, and what it does is the C library's.
NAMES = re.compile(r'rdma_(getaddrinfo|freeaddrinfo|resolve_addrinfo|query_addrinfo)')
# Of drivers, who are not there: they refuse.
PRIVATE = re.compile(r'ibv_cmd_\w+|_?verbs_\w+|__\w+|execute_ioctl|ibv_dmabuf_heap_\w+|ibv_query_gid_type|'
                     r'ibv_read_ibdev_sysfs_file')
CALL = re.compile(r'\tCALL(_HOLDING|_BLOCKING|_POINT|_TWIN)?\(\);\n')


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def public(root):
    for name in ('verbs/libibverbs.map', 'rdmacm/librdmacm.map', 'umad/libibumad.map'):
        yield from re.findall(r'^\t\t(\w+);', read(root, 'src', name), re.M)
    yield from re.findall(r'= (\w+_verb|\w+_alloc|\w+_dealloc);', read(root, 'src/verbs/ops.c'))


def bodies(root, name):
    for path in (path for folder in ('verbs', 'rdmacm', 'rsockets', 'umad')
                 for path in glob.glob(os.path.join(root, 'src', folder, '*.c'))):
        if '_test.c' in path:
            continue
        for match in re.finditer(r'^[a-z][^\n;#]*[ *]' + name + r'\([^;{}]*\)\n\{\n', read(path), re.M):
            yield os.path.relpath(path, root), read(path)[match.end():]


def problems(root):
    for name in sorted(set(public(root))):
        if PURE.fullmatch(name) or NAMES.fullmatch(name) or PRIVATE.fullmatch(name):
            continue
        found = list(bodies(root, name))
        if not found:
            yield '%s is defined nowhere that this test knows of' % name
        for path, body in found:
            if not CALL.match(body):
                yield '%s: %s() does not begin with CALL()' % (path, name)


TAP = Tap()
TAP.test('public functions put signal handlers off', problems(sys.argv[1]))
TAP.end()
