/* SPDX-License-Identifier: BSD-2-Clause */
/* riomap, riounmap, riowrite: data in its place before the message behind it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

enum { SIZE = 300000, SMALL = 100 };

static void one_mapping(int rs)
{
	int count = 2;

	OK(rsetsockopt(rs, SOL_RDMA, RDMA_IOMAPSIZE, &count, sizeof(count)));
}

/* The server owns the buffers. */
static void owner(struct pair *pair)
{
	int rs = meet(pair, one_mapping);
	char *buffer = calloc(1, SIZE), *other = calloc(1, SIZE), third[SMALL], byte;
	off_t offset;

	CHECK(buffer && other, "no memory");
	OK(riomap(rs, buffer, SIZE, PROT_WRITE, 0, 1000000));
	FAILS(riomap(rs, other, SIZE, PROT_WRITE, 0, 1000000 + SIZE - 1), EEXIST);
	offset = riomap(rs, other, SIZE, PROT_WRITE, 0, -1);
	CHECK(offset != -1, "%m");
	FAILS(riomap(rs, third, SMALL, PROT_WRITE, 0, 0), ENOSPC);
	CHECK(riomap(rs, third, SMALL, PROT_NONE, 0, 0) != -1, "%m");
	FAILS(riomap(rs, third, SMALL, PROT_EXEC, 0, 0), EINVAL);
	CHECK(rsend(rs, &offset, sizeof(offset), 0) == sizeof(offset), "%m");

	for (int i = 0; i < 50; i++) {
		CHECK(rrecv(rs, &byte, 1, 0) == 1, "%m");
		check_fill((uint32_t)i, 0, buffer, SIZE);
		check_fill((uint32_t)i + 1000, 0, other + 7, SMALL);
		CHECK(rsend(rs, "", 1, 0) == 1, "%m");
	}
	CHECK(rrecv(rs, &byte, 1, 0) == 1, "%m");
	OK(riounmap(rs, buffer, SIZE));
	FAILS(riounmap(rs, buffer, SIZE), EINVAL);
	OK(riounmap(rs, third, SMALL));
	CHECK(rsend(rs, "", 1, 0) == 1, "%m");
	CHECK(rrecv(rs, &byte, 1, 0) == 1, "%m");
	check_fill(77, 0, other, SMALL);
	OK(rclose(rs));
}

static void writer(struct pair *pair)
{
	int rs = meet(pair, one_mapping);
	static char data[SIZE];
	off_t offset;
	char byte;

	CHECK(rrecv(rs, &offset, sizeof(offset), MSG_WAITALL) == sizeof(offset), "%m");
	for (uint32_t i = 0; i < 50; i++) {
		fill(i, 0, data, SIZE);
		CHECK(riowrite(rs, data, SIZE, 1000000, 0) == SIZE, "%m");
		fill(i + 1000, 0, data, SMALL);
		CHECK(riowrite(rs, data, SMALL, offset + 7, 0) == SMALL, "%m");
		CHECK(rsend(rs, "", 1, 0) == 1, "%m");
		CHECK(rrecv(rs, &byte, 1, 0) == 1, "%m");
	}
	FAILS((ssize_t)riowrite(rs, data, 1, 999999, 0), EINVAL);
	/* What lies in the mapping is written, the rest is not. */
	CHECK(riowrite(rs, data, 20, 1000000 + SIZE - 10, 0) == 10, "%m");
	CHECK(rsend(rs, "", 1, 0) == 1, "%m");
	CHECK(rrecv(rs, &byte, 1, 0) == 1, "%m");
	FAILS((ssize_t)riowrite(rs, data, 1, 1000000, 0), EINVAL);
	fill(77, 0, data, SMALL);
	CHECK(riowrite(rs, data, SMALL, offset, 0) == SMALL, "%m");
	CHECK(rsend(rs, "", 1, 0) == 1, "%m");
	expect_end(rs);
	OK(rclose(rs));
}

struct taker {
	int rs;
	char *buffer;
	atomic_int ended, taken, refused;
};

static void *take_away(void *argument)
{
	struct taker *taker = argument;

	errno = 0;
	if (!riounmap(taker->rs, taker->buffer, SMALL))
		taker->taken++;
	else if (errno == EINVAL)
		taker->refused++;
	taker->ended++;
	return NULL;
}

/* The peer, which is told first, reads nothing: whoever takes the mapping away waits. */
static void taken_away_twice(struct pair *pair)
{
	int rs = meet(pair, one_mapping);
	struct taker taker = { .rs = rs, .buffer = calloc(1, SMALL) };
	pthread_t thread[2];

	CHECK(taker.buffer, "no memory");
	OK(riomap(rs, taker.buffer, SMALL, PROT_WRITE, 0, 0));
	OK(rfcntl(rs, F_SETFL, O_NONBLOCK));
	while (rsend(rs, "", 1, 0) == 1)
		;
	CHECK(errno == EAGAIN, "%m");
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&thread[i], NULL, take_away, &taker), "no thread");
	while (!taker.ended)
		usleep(1000);
	CHECK(taker.refused == 1, "%d refused, %d taken", taker.refused, taker.taken);
	tell(pair, 1);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(thread[i], NULL), "no end");
	CHECK(taker.taken == 1 && taker.refused == 1, "%d refused, %d taken", taker.refused, taker.taken);
	OK(rclose(rs));
}

static void reads_late(struct pair *pair)
{
	int rs = meet(pair, one_mapping);
	char data[4096];

	CHECK(hear(pair) == 1, "another number");
	while (rrecv(rs, data, sizeof(data), 0) > 0)
		;
	OK(rclose(rs));
}

const struct test iomap_tests[] = {
	{ "riowrite puts data into its place before the next message", owner, writer },
	{ "of two threads that take a mapping away one does", taken_away_twice, reads_late },
	{ NULL, NULL, NULL },
};
