/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes of one host that share memory with each other: two that connect to each other at once, many all
 * with all, and more with one than it has channels for. All data arrives, and in the end each has as many
 * descriptors and shared mappings as before.
 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "local/channel/ring.h"
#include "pair.h"

#define MANY_MAX 320u
#define PLACE 64u /* bytes for each other process */

#if defined(ADDRESS_SANITIZER) || defined(THREAD_SANITIZER)
#define ALL 24u
#define ALL_LONG 24u
#else
#define ALL 40u
#define ALL_LONG 200u
#endif
#define PEERS (CHANNELS_MAX + 20u)

/* What each tells the others, in memory that all have. */
struct member {
	uint32_t rkey;
	uint64_t memory;
	union ibv_gid gid;
	uint32_t qpn[MANY_MAX]; /* of the QP for each other one */
};

struct meeting {
	unsigned count;
	bool star; /* all talk to number 0, and not to each other */
	_Atomic unsigned arrived;
	_Atomic bool failed;
	struct member member[MANY_MAX];
};

struct one {
	struct meeting *meeting;
	unsigned number, met;
	struct end end; /* of the QP used last */
	struct ibv_qp *qp[MANY_MAX];
};

static void come_together(struct one *one)
{
	unsigned target = ++one->met * one->meeting->count;
	double until = now() + (long_run ? 600 : 240);

	atomic_fetch_add(&one->meeting->arrived, 1);
	while (atomic_load(&one->meeting->arrived) < target) {
		CHECK(!atomic_load(&one->meeting->failed), "another one failed");
		CHECK(now() < until, "number %u waits, and %u of %u have come", one->number,
		      atomic_load(&one->meeting->arrived), target);
		if (one->meeting->count > 2)
			usleep(2000);
	}
}

static bool talks_to(const struct one *one, unsigned other)
{
	return other != one->number && (!one->meeting->star || !one->number || !other);
}

/* ---- descriptors and mappings ---- */

/* Sockets for datagrams are kept for the next packet that comes to the wrong process: up to 16 (host/slot.c). */
static bool is_for_datagrams(int fd)
{
	int type = 0;
	socklen_t bytes = sizeof(type);

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) && type == SOCK_DGRAM;
}

static unsigned descriptors(void)
{
	DIR *fds = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned count = 0;

	CHECK(fds, "%m");
	while ((entry = readdir(fds)))
		count += entry->d_name[0] != '.' && !is_for_datagrams(atoi(entry->d_name));
	closedir(fds);
	return count;
}

/* ---- one process ---- */

static void open_one(struct one *one)
{
	struct member *me = &one->meeting->member[one->number];
	struct end *end = &one->end;
	unsigned i;

	*end = (struct end){.peer = -1, .test = -1, .mtu = IBV_MTU_1024, .rnr_retry = 7,
			    .timeout = long_run ? 21 : 18, .retry_count = 7};
	end_open(end, (size_t)2 * MANY_MAX * PLACE, ALL_ACCESS);
	CHECK(!ibv_query_gid(end->context, 1, 1, &me->gid), "%m");
	me->rkey = end->mr->rkey;
	me->memory = (uintptr_t)end->memory;
	for (i = 0; i < one->meeting->count; i++)
		if (talks_to(one, i)) {
			end_make_qp(end);
			one->qp[i] = end->qp;
			me->qpn[i] = end->qp->qp_num;
		}
}

static void choose(struct one *one, unsigned other)
{
	const struct member *member = &one->meeting->member[other];

	one->end.qp = one->qp[other];
	one->end.there = (struct address){.qpn = member->qpn[one->number],
					  .rkey = member->rkey,
					  .memory = member->memory,
					  .gid = member->gid};
}

#define HELLO(from, to) ((uint64_t)(from) << 32 | (to) | UINT64_C(1) << 63)

/* transfer() for many processes on few processors: none of them spins. */
static enum ibv_wc_status move(struct end *end, enum ibv_wr_opcode opcode, size_t offset, size_t there)
{
	double until = now() + 120;
	struct ibv_wc wc;
	int got;

	CHECK(!post(end, opcode, offset, 8, there, 1), "%m");
	while (!(got = ibv_poll_cq(end->cq, 1, &wc))) {
		CHECK(now() < until, "no completion");
		usleep(200);
	}
	CHECK(got == 1, "poll_cq: %d", got);
	return wc.status;
}

/* A WRITE to its place of ours, and a READ of what it is said to be. */
static void talk(struct one *one, unsigned other)
{
	uint64_t *words = (uint64_t *)one->end.memory + MANY_MAX * PLACE / 8;
	enum ibv_wc_status status;

	choose(one, other);
	words[0] = HELLO(one->number, other);
	status = move(&one->end, IBV_WR_RDMA_WRITE, MANY_MAX * PLACE, one->number * PLACE);
	CHECK(status == IBV_WC_SUCCESS, "%u to %u: %s", one->number, other,
	      ibv_wc_status_str(status));
	words[1] = 0;
	status = move(&one->end, IBV_WR_RDMA_READ, MANY_MAX * PLACE + 8, one->number * PLACE);
	CHECK(status == IBV_WC_SUCCESS && words[1] == words[0], "%u from %u: %s", one->number,
	      other, ibv_wc_status_str(status));
}

/* One channel between two: each has two mappings, the own side and the other's. */
static void check_one_channel(void)
{
	double until = now() + LIMIT_S;

	/* A refused attempt's side may still be there. */
	while (map_lines(CHANNEL_MAPPING) != 2 && now() < until)
		usleep(1000);
	CHECK(map_lines(CHANNEL_MAPPING) == 2, "%u mappings of channels", map_lines(CHANNEL_MAPPING));
}

/* As many as there can be. */
static void check_shared(const struct one *one)
{
	unsigned shared = map_lines(CHANNEL_MAPPING) / 2, others = one->meeting->count - 1;

	printf("# number 0 shares memory with %u of %u others\n", shared, others);
	fflush(stdout);
	CHECK(shared <= CHANNELS_MAX && shared >= 10);
	if (one->meeting->star)
		CHECK(shared < others, "there is room for all");
}

static void be_one(struct one *one)
{
	unsigned before, i, k, count = one->meeting->count;

	before = descriptors();
	open_one(one);
	come_together(one);
	for (i = 0; i < count; i++)
		if (talks_to(one, i)) {
			choose(one, i);
			end_raise(&one->end, IBV_QPS_RTS);
		}
	come_together(one);
	for (k = 0; k < 4; k++)
		for (i = 1; i < count; i++)
			if (talks_to(one, (one->number + i) % count))
				talk(one, (one->number + i) % count);
	come_together(one);
	for (i = 0; i < count; i++)
		CHECK(!talks_to(one, i) || *(uint64_t *)(one->end.memory + i * PLACE) ==
						   HELLO(i, one->number),
		      "nothing of %u's has come to %u", i, one->number);
	if (count == 2)
		check_one_channel();
	else if (!one->number)
		check_shared(one);
	come_together(one);
	for (i = 0; i < count; i++)
		if (one->qp[i])
			CHECK(!ibv_destroy_qp(one->qp[i]));
	one->end.qp = NULL;
	end_close(&one->end);
	CHECK(descriptors() == before, "%u descriptors more", descriptors() - before);
	CHECK(!map_lines("memfd:verbatim"), "%u mappings", map_lines("memfd:verbatim"));
}

/* ---- all of them ---- */

static void start(struct meeting *meeting, unsigned number, pid_t *pid)
{
	static struct one one;

	*pid = fork();
	CHECK(*pid >= 0, "%m");
	if (*pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("VERBATIM_MEMORY", "auto", 1);
	one = (struct one){.meeting = meeting, .number = number};
	be_one(&one);
	exit(0);
}

static bool meet_all(unsigned count, bool star)
{
	struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[MANY_MAX];
	int status;
	unsigned i, failed = 0;

	CHECK(meeting != MAP_FAILED && count <= MANY_MAX, "%m");
	meeting->count = count;
	meeting->star = star;
	fflush(stdout);
	for (i = 0; i < count; i++)
		start(meeting, i, &pid[i]);
	for (i = 0; i < count; i++) {
		if (waitpid(-1, &status, 0) < 0 || status) {
			atomic_store(&meeting->failed, true);
			failed++;
		}
	}
	munmap(meeting, sizeof(*meeting));
	if (failed)
		printf("# %u of %u processes failed\n", failed, count);
	return !failed;
}

/* Attempts that cross: most end as one channel without a rule for them, so there are many rounds. */
static bool two_that_connect_at_once_share_one_channel(void)
{
	unsigned i, rounds = long_run ? 2000 : 60;

	for (i = 0; i < rounds; i++)
		if (!meet_all(2, false))
			return false;
	return true;
}

static bool all_talk_to_all(void)
{
	return meet_all(long_run ? ALL_LONG : ALL, false);
}

static bool who_has_no_channel_left_goes_over_udp(void)
{
	if (!long_run)
		return skip("hundreds of processes take minutes (--long)");
	return meet_all(PEERS, true);
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
	const struct test tests[] = {
		TEST(two_that_connect_at_once_share_one_channel),
		TEST(all_talk_to_all),
		TEST(who_has_no_channel_left_goes_over_udp),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
