# SPDX-License-Identifier: BSD-2-Clause
"""UCX: its own ucx_perftest over RC and UD, and Open MPI over it, with a program that checks what it
receives. RC endpoints of UCX are connected through UD ones, so both kinds need UD."""
import functools
import importlib.util
import os
import re
import shutil
import subprocess

from harness import Case, words
from lab import Failure, Skip, run_pair

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USED = {'rc_v': 'rc_verbs', 'ud_v': 'ud_verbs'}     # as UCX names them in its log
FINAL = re.compile(r'^Final: +(\d+) +([\d.]+)', re.M)
LONG = ('tag_bw -s 65536', 'tag_lat -s 1048576 -n 100', 'tag_sync_lat', 'ucp_put_lat',
        'ucp_put_bw -s 65536', 'ucp_get', 'ucp_add', 'ucp_fadd', 'ucp_cswap', 'stream_lat',
        'ucp_am_lat -s 5000')
PRELOAD = 'libverbatim-preload.so'      # found as the libraries are; a path could have blanks
PARTS = ('ring', 'collective', 'one_sided')


def setting(end, transport, more=''):
    """The command that starts a program of UCX with this transport on this device."""
    if not os.path.exists(os.path.join(end.lab.library, PRELOAD)):
        raise Failure(f'no {PRELOAD} in {end.lab.library}')
    return words(f'env LD_PRELOAD={PRELOAD} UCX_NET_DEVICES={end.device}:1', more,
                 f'UCX_TLS={transport},self UCX_LOG_LEVEL=info')


def need(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Skip(f'not installed: {", ".join(missing)}')


@functools.lru_cache(maxsize=None)
def program():
    """One that was built with MPI takes it for granted that mpirun starts it."""
    usage = subprocess.run(['ucx_perftest', '-h'], capture_output=True, text=True, check=False).stdout
    return ['ucx_perftest'] + (['-P', '0'] if re.search(r'^ *-P <0\|1>', usage, re.M) else [])


def check_used(text, transport, end):
    if f'{USED[transport]}/{end.device}:1' not in text:
        raise Failure(f'{USED[transport]} of {end.device} was not used:\n{text[-2000:]}')


def perftest(topology, transport, test, gid=1, timeout=25):
    """A pair to its end; the median that it prints. UCX gives up what hangs after 30 s."""
    need('ucx_perftest')
    more = f'UCX_IB_GID_INDEX={gid}'
    pair = run_pair(topology, setting(topology.server, transport, more) + program(),
                    setting(topology.client, transport, more) + program() + words(
                        '-w 100 -n 1000 -t', test), timeout=timeout)
    pair.check()
    check_used(pair.client.text, transport, topology.client)
    final = FINAL.search(pair.client.text)
    if not final or int(final[1]) < 100:
        raise Failure('no final row\n' + pair.report())
    return f'{final[2]} us'


def chosen(topology):
    """UCX by itself takes the device, where it has the choice of TCP. Not of shared memory, which later releases
    find between network namespaces, too: hosts have none."""
    need('ucx_perftest')
    command = words('env LD_PRELOAD=' + PRELOAD, 'UCX_LOG_LEVEL=info UCX_TLS=^sm') + program()
    pair = run_pair(topology, command, command + words('-w 100 -n 1000 -t tag_lat'), timeout=25).check()
    check_used(pair.client.text, 'rc_v', topology.client)


def listed(topology):
    need('ucx_info')
    end = topology.server
    with end.start(words('env LD_PRELOAD=' + PRELOAD, 'ucx_info -d')) as running:
        code = running.wait(20)
        for name in USED.values():
            if code != 0 or not re.search(rf'Transport: {name}\n#\s+Device: {end.device}:1', running.text):
                raise Failure(f'no {name} of {end.device}, exit status {code}\n{running.tail()}')


def open_mpi(topology, transport, ranks):
    """Ranks on one host: point to point by the PML of UCX, one-sided by its OSC."""
    need('mpirun')
    if not importlib.util.find_spec('mpi4py'):
        raise Skip('not installed: python3-mpi4py')
    end = topology.server
    command = setting(end, transport) + words(
        'mpirun --allow-run-as-root --oversubscribe -n', ranks, '--mca pml ucx --mca osc ucx',
        '/usr/bin/python3') + [os.path.join(HERE, 'programs', 'mpi_exchange.py')]
    with end.start(command) as program:
        code = program.wait(90)
        if code != 0:
            raise Failure(f'exit status {code} after {program.seconds:.1f} s\n{program.tail()}')
        check_used(program.text, transport, end)
        for part in PARTS:
            if f'{part}: {ranks} ranks' not in program.text:
                raise Failure(f'no line of {part}:\n{program.tail()}')


def cases(topology):
    if getattr(topology, 'reference', False):
        return
    yield Case('ucx_info -d has the device', lambda: listed(topology), topology.name == 'lo')
    if topology.name != 'lo':
        yield Case('ucx_perftest, UCX chooses', lambda: chosen(topology), topology.name == 'veth1500')
    for transport in USED:
        yield Case(f'ucx_perftest tag_lat over {transport}', lambda t=transport: perftest(
            topology, t, 'tag_lat'), topology.name != 'veth9000')
        for test in LONG:
            yield Case(f'ucx_perftest {test} over {transport}',
                       lambda t=transport, w=test: perftest(topology, t, w), False)
        for ranks in (2, 4) if topology.name == 'lo' else ():
            yield Case(f'Open MPI, {ranks} ranks over {transport}', lambda t=transport, r=ranks:
                       open_mpi(topology, t, r), ranks == 2)
        yield Case(f'ucx_perftest tag_lat over {transport}, IPv6', lambda t=transport: perftest(
            topology, t, 'tag_lat', gid=2), topology.name == 'veth1500')
        yield Case(f'ucx_perftest tag_lat over {transport} with 1 % loss', lambda t=transport: lossy(
            topology, t), False)


def lossy(topology, transport):
    with topology.loss(1) as dropped:
        perftest(topology, transport, 'tag_lat -s 4096', timeout=60)
        if not dropped():
            raise Failure('nothing was dropped: this proves nothing')
