// SPDX-License-Identifier: BSD-2-Clause
/* A program of MPI that checks all that it receives: for mpirun, compiled with the mpicc of the MPI that
 * it is to run on. Each argument is a part; without any, all of them run. Rank 0 prints one line per part
 * that every rank found right. After a byte that is not what it should be, the rank says which, and
 * aborts.
 *
 * The sizes are on both sides of the limits at which MPI libraries change their protocol: inline, eager,
 * by rendezvous. What is written is different for each pair of ranks, size and round. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE (2u << 20)

static const size_t sizes[] = { 0, 1, 7, 8, 64, 1000, 4096, 8192, 20000, 65536, 300001, 1u << 20, MAX_SIZE };
static int rank, ranks;

static void fail(const char *part, int from, size_t size, size_t at)
{
	fprintf(stderr, "rank %d: %s: byte %zu of %zu from rank %d is wrong\n", rank, part, at, size, from);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *get(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (!memory) {
		fprintf(stderr, "rank %d: no memory for %zu bytes\n", rank, size);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return memory;
}

static uint32_t seed_of(int from, int to, unsigned round)
{
	return (uint32_t)from * 2654435761u + (uint32_t)to * 40503u + round * 9176u + 1;
}

static void fill(unsigned char *data, size_t size, int from, int to, unsigned round)
{
	uint32_t value = seed_of(from, to, round);

	for (size_t i = 0; i < size; i++) {
		value = value * 1664525u + 1013904223u;
		data[i] = (unsigned char)(value >> 24);
	}
}

static void check(const char *part, const unsigned char *data, size_t size, int from, int to, unsigned round)
{
	uint32_t value = seed_of(from, to, round);

	for (size_t i = 0; i < size; i++) {
		value = value * 1664525u + 1013904223u;
		if (data[i] != (unsigned char)(value >> 24))
			fail(part, from, size, i);
	}
}

/* Each rank sends to the right and receives from the left; then the messages of all sizes at once. */
static void p2p(void)
{
	const unsigned count = sizeof(sizes) / sizeof(sizes[0]);
	const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	unsigned char *out[sizeof(sizes) / sizeof(sizes[0])], *in[sizeof(sizes) / sizeof(sizes[0])];
	MPI_Request requests[2 * sizeof(sizes) / sizeof(sizes[0])];

	for (unsigned i = 0; i < count; i++) {
		out[i] = get(sizes[i]);
		in[i] = get(sizes[i]);
		fill(out[i], sizes[i], rank, right, i);
		MPI_Sendrecv(out[i], (int)sizes[i], MPI_BYTE, right, 1, in[i], (int)sizes[i], MPI_BYTE, left, 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check("p2p", in[i], sizes[i], left, rank, i);
		memset(in[i], 0, sizes[i]);
	}
	for (unsigned i = 0; i < count; i++)
		MPI_Irecv(in[i], (int)sizes[i], MPI_BYTE, left, (int)i, MPI_COMM_WORLD, &requests[i]);
	for (unsigned i = 0; i < count; i++)	/* the other way round: most messages are not the next one */
		MPI_Isend(out[count - 1 - i], (int)sizes[count - 1 - i], MPI_BYTE, right, (int)(count - 1 - i),
			  MPI_COMM_WORLD, &requests[count + i]);
	MPI_Waitall((int)(2 * count), requests, MPI_STATUSES_IGNORE);
	for (unsigned i = 0; i < count; i++) {
		check("p2p at once", in[i], sizes[i], left, rank, i);
		free(in[i]);
		free(out[i]);
	}
}

static void alltoall(void)
{
	static const size_t blocks[] = { 1, 8, 1024, 16384, 100000 };

	for (unsigned n = 0; n < sizeof(blocks) / sizeof(blocks[0]); n++) {
		const size_t size = ranks > 16 && blocks[n] > 16384 ? 32768 : blocks[n];
		unsigned char *out = get(size * (size_t)ranks), *in = get(size * (size_t)ranks);

		for (int to = 0; to < ranks; to++)
			fill(out + (size_t)to * size, size, rank, to, n);
		MPI_Alltoall(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, MPI_COMM_WORLD);
		for (int from = 0; from < ranks; from++)
			check("alltoall", in + (size_t)from * size, size, from, rank, n);
		free(in);
		free(out);
	}
}

static void allreduce(void)
{
	static const int counts[] = { 1, 17, 1000, 100000 };

	for (unsigned n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
		int64_t *out = get((size_t)counts[n] * sizeof(*out)), *in = get((size_t)counts[n] * sizeof(*in));
		const int64_t sum = (int64_t)ranks * (ranks - 1) / 2;

		for (int i = 0; i < counts[n]; i++)
			out[i] = (int64_t)rank * (i + 3) + i;
		MPI_Allreduce(out, in, counts[n], MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < counts[n]; i++)
			if (in[i] != sum * (i + 3) + (int64_t)i * ranks)
				fail("allreduce", rank, (size_t)counts[n] * sizeof(*in), (size_t)i * sizeof(*in));
		free(in);
		free(out);
	}
}

/* Each rank writes to a part of its own in the memory of each other, then reads it back from there. */
static void put_and_get(size_t size)
{
	unsigned char *memory, *out = get(size * (size_t)ranks), *back = get(size * (size_t)ranks);
	MPI_Win window;

	MPI_Win_allocate((MPI_Aint)(size * (size_t)ranks), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	memset(memory, 0, size * (size_t)ranks);
	MPI_Win_fence(0, window);
	for (int step = 0; step < ranks; step++) {
		const int to = (rank + step) % ranks;

		fill(out + (size_t)to * size, size, rank, to, 77);
		MPI_Put(out + (size_t)to * size, (int)size, MPI_BYTE, to, (MPI_Aint)((size_t)rank * size),
			(int)size, MPI_BYTE, window);
	}
	MPI_Win_fence(0, window);
	for (int from = 0; from < ranks; from++)
		check("put", memory + (size_t)from * size, size, from, rank, 77);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	for (int step = 0; step < ranks; step++) {
		const int from = (rank + step) % ranks;

		MPI_Get(back + (size_t)from * size, (int)size, MPI_BYTE, from, (MPI_Aint)((size_t)rank * size),
			(int)size, MPI_BYTE, window);
	}
	MPI_Win_unlock_all(window);
	for (int to = 0; to < ranks; to++)
		check("get", back + (size_t)to * size, size, rank, to, 77);
	MPI_Win_free(&window);
	free(back);
	free(out);
}

static void onesided(void)
{
	put_and_get(8);
	put_and_get(4000);
	put_and_get(ranks > 16 ? 16384 : 250000);
}

/* A counter at rank 0, which each rank raises: each value of it is seen once. */
static void atomics(void)
{
	const int rounds = ranks > 16 ? 10 : 200;
	int64_t *memory, one = 1, sum = 0, seen = 0, mine = 0;
	MPI_Win window;

	MPI_Win_allocate(sizeof(*memory), sizeof(*memory), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	*memory = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < rounds; i++) {
		MPI_Fetch_and_op(&one, &seen, MPI_INT64_T, 0, 0, MPI_SUM, window);
		MPI_Win_flush(0, window);
		mine += seen;
	}
	MPI_Win_unlock_all(window);
	MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	const int64_t last = (int64_t)rounds * ranks;
	if (sum != last * (last - 1) / 2)
		fail("atomics", 0, sizeof(sum), 0);
	MPI_Win_free(&window);
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "p2p", p2p }, { "alltoall", alltoall }, { "allreduce", allreduce }, { "onesided", onesided },
	{ "atomics", atomics },
};

static int is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return 1;
	return argc == 1;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!is_wanted(parts[i].name, argc, argv))
			continue;
		const double begin = MPI_Wtime();
		parts[i].run();
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 0)
			printf("%s: %d ranks, right, %.3f s\n", parts[i].name, ranks, MPI_Wtime() - begin);
		fflush(stdout);
	}
	MPI_Finalize();
	if (rank == 0)
		printf("done: %d ranks\n", ranks);
	return 0;
}
