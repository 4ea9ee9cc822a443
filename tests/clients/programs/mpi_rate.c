// SPDX-License-Identifier: BSD-2-Clause
/*
 * What MPI makes of the transport that it was started with: latency and bandwidth of two ranks, and alltoall
 * of any number.
 *
 * mpi_rate COUNT: so many round trips and alltoalls of 8 bytes; a tenth of it, of large ones. Medians,
 * of alltoall means.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL	8
#define BLOCK	65536
#define LARGE	(1 << 20)
#define WINDOW	16

static int rank, ranks;

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}

/* Seconds, half a round trip of SMALL bytes. */
static double latency(char *buffer, double *took, int count)
{
	int i, warm = count / 10;

	for (i = -warm; i < count; i++) {
		double start = MPI_Wtime();

		if (rank == 0) {
			MPI_Send(buffer, SMALL, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(buffer, SMALL, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(buffer, SMALL, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(buffer, SMALL, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
		}
		if (i >= 0)
			took[i] = (MPI_Wtime() - start) / 2;
	}
	return median(took, count);
}

/* Bytes a second of windows of LARGE messages, each window answered. */
static double bandwidth(char *buffer, double *took, int count)
{
	MPI_Request requests[WINDOW];
	int i, k;
	char answer = 0;

	for (i = -2; i < count; i++) {
		double start = MPI_Wtime();

		for (k = 0; k < WINDOW; k++) {
			char *at = buffer + (size_t)k * LARGE;

			if (rank == 0)
				MPI_Isend(at, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[k]);
			else
				MPI_Irecv(at, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[k]);
		}
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(&answer, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(&answer, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
		if (i >= 0)
			took[i] = MPI_Wtime() - start;
	}
	return WINDOW * (double)LARGE / median(took, count);
}

/* Seconds of one alltoall of @bytes to each rank: a mean, as ranks may take turns on the processors. */
static double alltoall(char *from, char *to, int bytes, int count)
{
	int i, warm = count / 10 + 1;
	double start = 0;

	for (i = -warm; i < count; i++) {
		if (i == 0) {
			MPI_Barrier(MPI_COMM_WORLD);
			start = MPI_Wtime();
		}
		MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, MPI_COMM_WORLD);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	return (MPI_Wtime() - start) / count;
}

int main(int argc, char **argv)
{
	size_t size = (size_t)WINDOW * LARGE;
	int count;
	double *took, value;
	char *from, *to;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	count = argc > 1 ? atoi(argv[1]) : 0;
	if (count < 10 || ranks < 2 || (size_t)ranks * BLOCK > size) {
		fprintf(stderr, "usage: mpirun -n RANKS mpi_rate COUNT: 2 to %zu ranks, a count of 10 at least\n",
			size / BLOCK);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	took = calloc(count, sizeof(*took));
	from = malloc(size);
	to = malloc(size);
	if (!took || !from || !to)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(from, rank, size);
	memset(to, rank, size);

	if (ranks == 2) {
		value = latency(from, took, count);
		if (rank == 0)
			printf("latency %.3f us\n", value * 1e6);
		value = bandwidth(from, took, count / 500 + 5);
		if (rank == 0)
			printf("bandwidth %.1f MB/s\n", value / 1e6);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	value = alltoall(from, to, SMALL, count);
	if (rank == 0)
		printf("alltoall of %d bytes %.3f us\n", SMALL, value * 1e6);
	value = alltoall(from, to, BLOCK, count / 10);
	if (rank == 0)
		printf("alltoall of %d bytes %.3f us\n", BLOCK, value * 1e6);
	free(took);
	free(from);
	free(to);
	return MPI_Finalize();
}
