# SPDX-License-Identifier: BSD-2-Clause
"""A program of MPI that checks what it receives: messages around the ring of ranks, a collective,
and memory of others, written and read. For mpirun; prints one line per part, from rank 0."""
import time

from mpi4py import MPI

SIZES = (0, 1, 8, 1000, 1 << 13, 1 << 16, 1 << 20)
world = MPI.COMM_WORLD
rank, ranks = world.rank, world.size
left, right = (rank - 1) % ranks, (rank + 1) % ranks


def pattern(size, seed):
    row = bytes((seed * 31 + i * 7) & 0xff for i in range(251))    # 251: pages differ
    return bytearray((row * (size // 251 + 1))[:size])


def ring():
    """Each rank sends to its right, and gets what its left made."""
    for size in SIZES:
        got = bytearray(size)
        world.Sendrecv([pattern(size, rank), MPI.BYTE], right, 1, [got, MPI.BYTE], left, 1)
        assert got == pattern(size, left), f'rank {rank}: another {size} bytes'


def collective():
    assert world.allreduce(rank + 1) == ranks * (ranks + 1) // 2
    assert world.allgather(rank * rank) == [n * n for n in range(ranks)]


def one_sided():
    """Write to the right, then read it back from there: osc."""
    size = 1 << 16
    memory, mine = bytearray(size), pattern(size, rank)
    window = MPI.Win.Create(memory, comm=world)
    window.Fence()
    window.Put([mine, MPI.BYTE], right)     # kept until the fence: it is read in between
    window.Fence()
    assert memory == pattern(size, left), f'rank {rank}: another put'
    back = bytearray(size)
    window.Lock(right)
    window.Get([back, MPI.BYTE], right)
    window.Unlock(right)
    assert back == mine, f'rank {rank}: another get'
    world.Barrier()
    window.Free()


for part in (ring, collective, one_sided):
    begin = time.monotonic()
    part()
    world.Barrier()
    if rank == 0:
        print(f'{part.__name__}: {ranks} ranks, {(time.monotonic() - begin) * 1e3:.1f} ms', flush=True)
