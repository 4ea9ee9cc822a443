# SPDX-License-Identifier: BSD-2-Clause
"""Open MPI and MPICH over verbs, by the ways that they have to it, with a program that checks what it
receives (programs/mpi_verify.c). All ranks are on one host, as many jobs of a CI are."""
import re
import subprocess

from cases.middleware import built, finish, need, under_verbatim
from harness import Case, words
from lab import Failure, Skip

PARTS = ('p2p', 'alltoall', 'allreduce', 'onesided', 'atomics')
OPEN_MPI = 'mpirun.openmpi --allow-run-as-root --oversubscribe -n'
# Name, compiler, what starts it, its environment, what its log must have.
WAYS = {
    'Open MPI, UCX, rc': ('mpicc.openmpi', OPEN_MPI, '--mca pml ucx --mca osc ucx',
                          ('UCX_TLS=rc_v,self', 'UCX_LOG_LEVEL=info'), 'rc_verbs/'),
    'Open MPI, UCX, ud': ('mpicc.openmpi', OPEN_MPI, '--mca pml ucx --mca osc ucx',
                          ('UCX_TLS=ud_v,self', 'UCX_LOG_LEVEL=info'), 'ud_verbs/'),
    'Open MPI, UCX, which chooses': ('mpicc.openmpi', OPEN_MPI, '--mca pml ucx --mca osc ucx', (), ''),
    'Open MPI, OFI': ('mpicc.openmpi', OPEN_MPI,
                      '--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm '
                      '--mca mtl_base_verbose 10', ('FI_PROVIDER=verbs;ofi_rxm',), 'component ofi selected'),
    'MPICH, UCX, rc': ('mpicc.mpich', 'mpirun.mpich -n', '', (
        'MPIR_CVAR_NOLOCAL=1', 'UCX_TLS=rc_v,self', 'UCX_LOG_LEVEL=info'), 'rc_verbs/'),
    'MPICH, as it is': ('mpicc.mpich', 'mpirun.mpich -n', '', (), ''),
}
QUICK = ('Open MPI, OFI',)


def verified(topology, way, ranks, parts=PARTS, timeout=60, settings=()):
    compiler, start, options, environment, used = WAYS[way]
    end = topology.server
    need(start.split()[0])
    program = built(end, 'mpi_verify.c', compiler)
    command = under_verbatim(end, *environment, *settings) + words(start, ranks, options) + [program, *parts]
    with end.start(command) as running:
        text = finish(running, timeout)
        for part in parts:
            if f'{part}: {ranks} ranks, right' not in text:
                raise Failure(f'no line of {part}:\n{running.tail()}')
        if f'done: {ranks} ranks' not in text or used not in text:
            raise Failure(f'no end, or {used or "its way"} was not used:\n{running.tail()}')
        return ', '.join(f'{name} {seconds} s' for name, seconds in re.findall(
            r'^(\w+): \d+ ranks, right, ([\d.]+) s', text, re.M))


def without_a_way(topology):
    """The openib BTL of Debian's Open MPI 4.1 connects by datagrams to LIDs, which RoCE has not: it says so,
    and no rank hangs."""
    need('mpirun.openmpi', 'ompi_info')
    if 'btl: openib' not in subprocess.run(['ompi_info'], capture_output=True, text=True, timeout=300,
                                           check=False).stdout:
        raise Skip('this Open MPI has no openib: it went with 5.0')
    end = topology.server
    command = under_verbatim(end) + words(OPEN_MPI, 2, '--mca pml ob1 --mca btl openib,self',
                                          '--mca btl_openib_allow_ib 1') + [
        built(end, 'mpi_verify.c', 'mpicc.openmpi'), 'p2p']
    with end.start(command) as running:
        code = running.wait(30)
        if code in (0, None) or 'CPCs attempted:       udcm' not in running.text:
            raise Failure(f'exit status {code}\n{running.tail(40)}')


def cases(topology):
    if topology.name != 'lo':
        return
    for way in WAYS:
        for ranks in (2, 4):
            yield Case(f'{way}: {ranks} ranks', lambda w=way, r=ranks: verified(topology, w, r),
                       way in QUICK and ranks == 2)
    yield Case('Open MPI, openib: no way to connect, and says so', lambda: without_a_way(topology), False)
    for name, settings in ('', ()), (' by UDP', ('VERBATIM_MEMORY=off',)):
        yield Case(f'72 ranks of Open MPI over UCX{name}', lambda s=settings: verified(
            topology, 'Open MPI, UCX, rc', 72, ('alltoall', 'onesided'), 300, s), False)
