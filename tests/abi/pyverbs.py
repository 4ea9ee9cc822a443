#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
The tests that Debian's python3-pyverbs brings for itself, unmodified, on our library:

  pyverbs.py CORE_DIRECTORY VERBS_DIRECTORY RDMACM_DIRECTORY

They go through nearly every verb and rdma_cm, with traffic of a device to itself. What they skip (RAW_PACKET ...)
because the device says that it lacks it is counted as skipped; modules that would be skipped whole
(NICs' own) are not in the list.
The files are unpacked to a directory of our own, as the package compresses some of them.
"""
import gzip
import os
import shutil
import subprocess
import sys
import tempfile

from tap import Tap

TESTS = '/usr/share/doc/rdma-core/tests'
MODULES = ['test_device', 'test_pd', 'test_mr', 'test_cq', 'test_addr', 'test_parent_domain',
           'test_qp', 'test_qpex', 'test_cqex', 'test_cq_events', 'test_atomic',
           'test_relaxed_ordering', 'test_fork', 'test_rdmacm', 'test_odp', 'test_shared_pd',
           'test_flow', 'test_rss_traffic', 'test_tag_matching', 'test_srq']

# What they expect of an adapter and no man page says. Likewise skipped.
ALIGNED = 'expects copies to device memory at offsets that are no multiple of 4 to be refused'
OTHERWISE = {
    'test_device.DMTest.test_dm_write_bad_flow': ALIGNED,
    'test_mr.DeviceMemoryAPITest.test_dm_bad_access': ALIGNED,
    'test_device.DMTest.test_multi_process_alloc_dm': 'uses a context in a fork()ed child',
}

# They read /sys/class/infiniband, which is answered under `verbatim run`: of rdma-core 56.
UNDER_RUN = {'test_device.DeviceTest.test_get_pkey_index'}

# Runs a module and prints a line for each test: verdict, tab, name, tab, reason.
RUNNER = '''
import importlib, sys, unittest
module, device = sys.argv[1:]
sys.argv = ['pyverbs', '--dev', device, '--port', '1', '--gid', '1']
import args_parser
args_parser.parser.parse_args()

# Addresses are looked for by interfaces' names below /sys/class/infiniband, where lo has none.
if device == 'vb_lo':
    import tests.base
    tests.base.RDMATestCase._get_ip_mac = lambda case, dev, port, index: case.args.append(
        [dev, port, index, '127.0.0.1', '00:00:00:00:00:00'])

def say(verdict, test, reason=''):
    name = test.id().split('.', 1)[-1]
    print(verdict, name, ' '.join(str(reason).split()), sep='\\t', flush=True)

class Result(unittest.TestResult):
    def addSuccess(self, test):
        say('passed', test)
    def addSkip(self, test, reason):
        say('skipped', test, reason)
    def addError(self, test, error):
        say('failed', test, self._exc_info_to_string(error, test))
    addFailure = addError

name, _, within = module.partition('.')
module = importlib.import_module('tests.' + name)
loader = unittest.defaultTestLoader
suite = loader.loadTestsFromName(within, module) if within else loader.loadTestsFromModule(module)
suite.run(Result())
'''


def unpack(folder):
    target = os.path.join(folder, 'tests')
    os.mkdir(target)
    for name in os.listdir(TESTS):
        path = os.path.join(TESTS, name)
        if name.endswith('.gz'):
            with gzip.open(path) as packed, open(os.path.join(target, name[:-3]), 'wb') as file:
                shutil.copyfileobj(packed, file)
        elif os.path.isfile(path):
            shutil.copy(path, target)
    # Importing the package would load every module, those of NICs too.
    with open(os.path.join(target, '__init__.py'), 'w', encoding='ascii'):
        pass


def tests_have(folder, name):
    module, _, test = name.split('.')
    with open(os.path.join(folder, 'tests', module + '.py'), encoding='utf-8') as source:
        return f'def {test}(' in source.read()


def device_of(environment):
    run = subprocess.run(['/usr/bin/python3', '-c', 'import pyverbs.device as d\n'
                          'print(*(x.name.decode() for x in d.get_device_list()))'],
                         env=environment, capture_output=True, text=True, timeout=300)
    names = run.stdout.split()
    return 'vb_lo' if 'vb_lo' in names else names[0] if names else None


def under_run(environment, core):
    """With what `verbatim run` adds, if it is built: <build>/lib, beside <build>/meson/src."""
    library = os.path.join(os.path.dirname(os.path.dirname(core)), 'lib')
    if not os.path.exists(os.path.join(library, 'libverbatim-preload.so')):
        return None
    return dict(environment, LD_LIBRARY_PATH=library, LD_PRELOAD='libverbatim-preload.so')


def run_module(tap, module, device, environment):
    command = ['/usr/bin/python3', '-c', RUNNER, module, device]
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        output, why = run.stdout, run.stderr[-1000:] if run.returncode else ''
    except subprocess.TimeoutExpired as late:
        output, why = (late.stdout or b'').decode(), 'took over 60 s'
    for line in output.splitlines():
        verdict, name, reason = (line.split('\t') + ['', ''])[:3]
        if name in UNDER_RUN and module != name:
            continue
        if verdict == 'skipped' or name in OTHERWISE:
            tap.skip(name, OTHERWISE.get(name, reason))
        elif verdict in ('passed', 'failed'):
            tap.test(name, [reason] if verdict == 'failed' else [])
    if why or not output:
        tap.test(module + ' ends well', [why or 'it printed nothing'])


def main():
    tap = Tap()
    directories = [os.path.realpath(path) for path in reversed(sys.argv[1:4])]
    if not os.path.isdir(TESTS) or not os.path.isdir('/usr/lib/python3/dist-packages/pyverbs'):
        tap.skip('the tests of pyverbs', 'python3-pyverbs is not installed')
        tap.end()
    with tempfile.TemporaryDirectory(prefix='verbatim-pyverbs-') as folder:
        unpack(folder)
        environment = dict(os.environ, LD_LIBRARY_PATH=':'.join(directories),
                           PYTHONDONTWRITEBYTECODE='1',
                           PYTHONPATH=folder + ':' + os.path.join(folder, 'tests'))
        environment.pop('LD_PRELOAD', None)
        device = device_of(environment)
        if not device:
            tap.skip('the tests of pyverbs', 'this machine offers no device')
            tap.end()
        for module in MODULES:
            if not os.path.exists(os.path.join(folder, 'tests', module + '.py')):
                continue                        # of later releases
            run_module(tap, module, device, environment)
        prepared = under_run(environment, directories[-1])
        for name in sorted(UNDER_RUN):
            if prepared and tests_have(folder, name):
                run_module(tap, name, device, prepared)
    tap.end()


main()
