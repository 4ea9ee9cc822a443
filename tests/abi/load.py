#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Programs and libraries of the distribution load with ours in the place of theirs:

  load.py CORE_DIRECTORY VERBS_DIRECTORY RDMACM_DIRECTORY

Each test is a process of its own, with LD_LIBRARY_PATH as a user would set it.
"""
import glob
import os
import shutil
import subprocess
import sys

from tap import Tap

PRELUDE = '''
import ctypes, os, sys
def load(name):
    return ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
def ours():
    maps = open('/proc/self/maps').read()
    lines = {line.split()[-1] for line in maps.splitlines() if 'libibverbs.so' in line}
    wrong = [path for path in lines if not path.startswith(os.environ['OURS'])]
    if wrong or not lines:
        sys.exit('libibverbs.so.1 loaded from %s' % (wrong or 'nowhere'))
def device_list(verbs):
    verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
    count = ctypes.c_int(-1)
    devices = verbs.ibv_get_device_list(ctypes.byref(count))
    if not devices:
        sys.exit('ibv_get_device_list failed')
    return devices, count.value
'''

TWICE = '''
first = load('libibverbs.so.1')
devices, count = device_list(first)
first.ibv_free_device_list.argtypes = [ctypes.c_void_p]
first.ibv_free_device_list(devices)
second = load('libibverbs.so.1')
assert first._handle == second._handle
import _ctypes
_ctypes.dlclose(second._handle)
_ctypes.dlclose(first._handle)
third = load('libibverbs.so.1')
devices, again = device_list(third)
if again != count:
    sys.exit('%d devices, %d after closing and opening the library' % (count, again))
ours()
'''

PRIVATE = '''
verbs = ctypes.CDLL('libibverbs.so.1', mode=os.RTLD_NOW | os.RTLD_LOCAL)
devices, count = device_list(verbs)
ours()
'''

CONNECTION = '''
import _ctypes
connection = ctypes.CDLL('librdmacm.so.1', mode=os.RTLD_NOW | os.RTLD_LOCAL)
connection.rdma_create_event_channel.restype = ctypes.c_void_p
connection.rdma_destroy_event_channel.argtypes = [ctypes.c_void_p]
for _ in range(2):
    channel = connection.rdma_create_event_channel()
    if not channel:
        sys.exit('rdma_create_event_channel failed')
    connection.rdma_destroy_event_channel(channel)
    _ctypes.dlclose(connection._handle)
    connection = ctypes.CDLL('librdmacm.so.1', mode=os.RTLD_NOW | os.RTLD_LOCAL)
    connection.rdma_create_event_channel.restype = ctypes.c_void_p
    connection.rdma_destroy_event_channel.argtypes = [ctypes.c_void_p]
device_list(load('libibverbs.so.1'))
ours()
maps = open('/proc/self/maps').read().splitlines()
for part in ('libverbatim-core', 'librdmacm'):
    files = {line.split()[-1] for line in maps if part in line}
    if len(files) != 1 or not files.pop().startswith(os.environ['OURS']):
        sys.exit('%s is there more than once, or not ours' % part)
'''

FOREIGN = '''
verbs, vendor = load('libibverbs.so.1'), load('%s')
devices, count = device_list(verbs)
vendor.%s.argtypes = [ctypes.c_void_p]
vendor.%s.restype = ctypes.c_bool
for i in range(count):
    if vendor.%s(devices[i]):
        sys.exit('it takes our device for one of its own')
ours()
'''

OPENED = '''
import errno
verbs, vendor = load('libibverbs.so.1'), load('libmlx5.so.1')
devices, count = device_list(verbs)
vendor = ctypes.CDLL('libmlx5.so.1', use_errno=True)
vendor.mlx5dv_open_device.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
vendor.mlx5dv_open_device.restype = ctypes.c_void_p
for i in range(count):
    if vendor.mlx5dv_open_device(devices[i], None):
        sys.exit('mlx5dv_open_device opened our device')
    if ctypes.get_errno() != errno.EOPNOTSUPP:
        sys.exit('errno %d' % ctypes.get_errno())
'''


def run(command, environment):
    """[] when the program ended well within its time, else why not."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return ['took over 60 s: ' + ' '.join(command[:1])]
    if done.returncode:
        return ['status %d: %s%s' % (done.returncode, done.stdout[-500:], done.stderr[-1500:])]
    return []


def find_library(name):
    for folder in ('/usr/lib/*-linux-gnu', '/lib/*-linux-gnu', '/usr/lib64', '/usr/lib'):
        if glob.glob(os.path.join(folder, name)):
            return True
    return False


def main():
    core, verbs, connection = (os.path.realpath(path) for path in sys.argv[1:4])
    environment = dict(os.environ, OURS=os.path.commonpath([core, verbs]),
                       LD_LIBRARY_PATH=verbs + ':' + core)
    for name in ('VERBATIM_EXPLAIN', 'VERBATIM_LOG', 'LD_PRELOAD'):
        environment.pop(name, None)
    tap = Tap()

    def python(name, text):
        tap.test(name, run(['/usr/bin/python3', '-c', PRELUDE + text], environment))

    python('the library can be opened twice, closed and opened again', TWICE)
    python('it works when opened with RTLD_LOCAL', PRIVATE)
    with_connection = dict(environment, LD_LIBRARY_PATH=':'.join([connection, verbs, core]))
    tap.test('librdmacm can be opened alone, closed and opened again, and shares the core',
             run(['/usr/bin/python3', '-c', PRELUDE + CONNECTION], with_connection))
    for name in ('libmlx5.so.1', 'libmlx4.so.1', 'libefa.so.1', 'librdmacm.so.1'):
        if find_library(name):
            python(name + ' loads with all its symbols bound', 'load("%s")\nours()' % name)
        else:
            tap.skip(name + ' loads with all its symbols bound', 'not installed')
    if find_library('libmlx5.so.1'):
        name = 'mlx5dv_is_supported'
        python('libmlx5 finds no device of its own', FOREIGN % ('libmlx5.so.1', name, name, name))
        python('libmlx5 is refused when it opens our device', OPENED)
    for path in sorted(glob.glob('/usr/lib/*-linux-gnu/libibverbs/lib*-rdmav34.so')):
        python(os.path.basename(path) + ' loads', 'load("libibverbs.so.1")\nload("%s")' % path)
    if os.path.isdir('/usr/lib/python3/dist-packages/pyverbs'):
        tap.test('pyverbs imports', run(
            ['/usr/bin/python3', '-c', 'import pyverbs.device, pyverbs.qp, pyverbs.cq, pyverbs.mr, '
             'pyverbs.wr, pyverbs.addr; pyverbs.device.get_device_list()'], environment))
    else:
        tap.skip('pyverbs imports', 'python3-pyverbs is not installed')
    for program in ('ibv_devices', 'ibv_devinfo'):
        if shutil.which(program):
            tap.test(program + ' runs', run([program], environment))
        else:
            tap.skip(program + ' runs', 'ibverbs-utils is not installed')
    tap.end()


main()
