/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes of one host, each connected to each: all data arrives, all of them end. There are
 * more of them than any table of peers may have places for.
 */
#include "hostile.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CROWD_MAX 200
#define SLOT_BYTES 64 /* of each process, in the memory of each: written | sent | the source */
#define UNDER_WAY 8   /* requests of one process */
#define LIMIT_S 45

struct board {
	_Atomic unsigned arrived[4]; /* at each barrier */
	_Atomic unsigned failed;
	struct address address[CROWD_MAX][CROWD_MAX]; /* of [from] for [to] */
};

struct member {
	struct board *board;
	unsigned me, count;
	struct node node;
	struct link link[CROWD_MAX];
	struct ibv_mr *mr;
	char *memory;
};

static double limit_s(void)
{
	return LIMIT_S * 10;
}

/* All are here. */
static void barrier(struct member *member, unsigned number)
{
	double until_s = now() + limit_s();

	member->board->arrived[number]++;
	while (member->board->arrived[number] < member->count) {
		CHECK(!member->board->failed, "another one has failed");
		CHECK(now() < until_s, "at barrier %u there are %u of %u", number,
		      member->board->arrived[number], member->count);
		usleep(2000);
	}
}

static size_t written_at(unsigned who)
{
	return who * SLOT_BYTES;
}

static size_t sent_at(unsigned who)
{
	return (CROWD_MAX + who) * SLOT_BYTES;
}

#define SOURCE_AT (2 * CROWD_MAX * SLOT_BYTES)
#define MEMBER_BYTES (SOURCE_AT + SLOT_BYTES)

static void stamp(char *at, unsigned who)
{
	memset(at, (int)(who + 1), SLOT_BYTES);
}

static void connect_all(struct member *member)
{
	unsigned i;

	for (i = 0; i < member->count; i++) {
		struct link *link = &member->link[i];

		if (i == member->me)
			continue;
		link_make(link, &member->node);
		link->timeout = 21; /* 8 s: many share a processor */
		link_set_region(link, member->mr);
		member->board->address[member->me][i] = link->here;
	}
	barrier(member, 0);
	for (i = 0; i < member->count; i++) {
		struct link *link = &member->link[i];

		if (i == member->me)
			continue;
		link->there = member->board->address[i][member->me];
		link_raise(link, IBV_QPS_INIT);
		CHECK(!post_receive(link, member->mr, sent_at(i), SLOT_BYTES, i));
		link_raise(link, IBV_QPS_RTS);
	}
	barrier(member, 1);
}

/* @turn: each begins with the next one, so that not all fall upon one. */
static void talk_to(struct member *member, unsigned turn)
{
	unsigned other = (member->me + turn) % member->count;
	struct link *link = &member->link[other];

	CHECK(!post(link, IBV_WR_RDMA_WRITE, member->mr, SOURCE_AT, SLOT_BYTES,
		    written_at(member->me), other));
	CHECK(!post(link, IBV_WR_SEND, member->mr, SOURCE_AT, SLOT_BYTES, 0, other));
}

/* To each a WRITE and a SEND, from each the same. */
static void talk_to_all(struct member *member)
{
	unsigned turn = 1, under_way = 0, due = 3 * (member->count - 1);
	double until_s = now() + limit_s();
	struct ibv_wc wc;
	int got;

	stamp(member->memory + SOURCE_AT, member->me);
	while (due) {
		for (; turn < member->count && under_way < UNDER_WAY; under_way += 2)
			talk_to(member, turn++);
		got = ibv_poll_cq(member->node.cq, 1, &wc);
		CHECK(got >= 0, "%d", got);
		CHECK(!got || wc.status == IBV_WC_SUCCESS, "opcode %d, with %llu: %s", wc.opcode,
		      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
		CHECK(now() < until_s, "%u completions are missing", due);
		if (!got)
			usleep(500);
		due -= (unsigned)got;
		under_way -= got && wc.opcode != IBV_WC_RECV;
	}
	barrier(member, 2);
}

static void check_all(struct member *member)
{
	char expected[SLOT_BYTES];
	unsigned i;

	for (i = 0; i < member->count; i++) {
		if (i == member->me)
			continue;
		stamp(expected, i);
		CHECK(!memcmp(member->memory + written_at(i), expected, SLOT_BYTES),
		      "what %u wrote is not here", i);
		CHECK(!memcmp(member->memory + sent_at(i), expected, SLOT_BYTES),
		      "what %u sent is not here", i);
	}
}

static void be_member(struct board *board, unsigned me, unsigned count)
{
	static struct member member;
	unsigned i;

	become_user(0);
	member.board = board;
	member.me = me;
	member.count = count;
	node_open(&member.node);
	member.memory = memory_make(MEMORY_ALIGNED, MEMBER_BYTES);
	member.mr = region_make(&member.node, member.memory, MEMBER_BYTES, REMOTE_ALL);
	connect_all(&member);
	talk_to_all(&member);
	check_all(&member);
	for (i = 0; i < count; i++)
		CHECK(i == me || !ibv_destroy_qp(member.link[i].qp), "%m");
	barrier(&member, 3);
	CHECK(!ibv_dereg_mr(member.mr), "%m");
	node_close(&member.node);
	exit(0);
}

static void crowd_of(unsigned count)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned i, failures = 0;
	pid_t pid[CROWD_MAX];
	int status;

	CHECK(board != MAP_FAILED, "%m");
	for (i = 0; i < count; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0, "%m");
		if (!pid[i])
			be_member(board, i, count);
	}
	for (i = 0; i < count; i++) {
		CHECK(wait(&status) > 0, "%m");
		if (status && !failures++)
			say("the first to fail: %s %d", WIFSIGNALED(status) ? "signal" : "status",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		board->failed = failures;
	}
	munmap(board, sizeof(*board));
	CHECK(!failures, "%u of %u processes", failures, count);
}

static void crowd(void)
{
	crowd_of(40);
}

/* A descriptor limit of 1024 is what processes have by default. */
static void large_crowd(void)
{
	struct rlimit limit;

	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max < 1024 ? limit.rlim_max : 1024;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	crowd_of(CROWD_MAX);
}

const struct hostile_case crowd_cases[] = {
	{"crowd", "40 processes talk to each other, and end", crowd},
	{"large-crowd", "so do 200", large_crowd, true},
	{0},
};
