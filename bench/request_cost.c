/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests between two processes of this host, for callgrind: what post_one(), take_one() and
 * refill_one() take, by bench/request_cost.
 *
 *	request_cost WORK BATCH ALONE
 *
 * WORK: post, complete, receive, refill (of SENDs of 64 bytes: ibv_post_send(); the poll that finds
 * its completion; the poll that finds a message; ibv_post_recv()), write, polled (of WRITEs of 8
 * bytes to device memory), empty (the poll that finds nothing). BATCH requests are posted in a row before
 * the other side moves, and have come before it does. ALONE: a thread domain, and a CQ of one thread.
 *
 * What is counted is done by one thread. The library has another one, which makes progress while no
 * thread polls: how much of the work it takes depends on the machine. It is kept in its sleep.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pair.h"

#define WARM	64
#define OWNED	1100	/* rounds more, behind which a lock is its only user's (base/lock.c) */
#define ROUNDS	100
#define DEPTH	64

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static _Alignas(64) char buffer[4096];
static const char *work;
static unsigned batch;
static bool alone, measured;
static unsigned polls;

/*
 * In place of the C library's. Under callgrind that takes longer than where nobody else runs, and the
 * library would take it for the turn of another process, after which it yields, and looks again, sooner.
 */
int sched_yield(void)
{
	return 0;
}

/* ---- the library's own thread ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	pthread_t counted;		/* the thread that is not it */
	bool kept, sleeps;
} other = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };

static void fall_asleep(void)
{
	pthread_mutex_lock(&other.lock);
	other.sleeps = true;
	pthread_cond_broadcast(&other.moved);
	pthread_mutex_unlock(&other.lock);
}

static long wake_up(long result)
{
	pthread_mutex_lock(&other.lock);
	while (other.kept)
		pthread_cond_wait(&other.moved, &other.lock);
	other.sleeps = false;
	pthread_mutex_unlock(&other.lock);
	return result;
}

/* From now on it stays in epoll_wait() or ppoll(), where it holds no lock. */
static void keep_other_thread(void)
{
	pthread_mutex_lock(&other.lock);
	other.kept = true;
	while (!other.sleeps)
		pthread_cond_wait(&other.moved, &other.lock);
	pthread_mutex_unlock(&other.lock);
}

/* In front of the C library's: these are what it sleeps in. */
int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
	if (pthread_equal(pthread_self(), other.counted))
		return (int)syscall(SYS_epoll_wait, fd, events, most, timeout_ms);
	fall_asleep();
	return (int)wake_up(syscall(SYS_epoll_wait, fd, events, most, timeout_ms));
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec left = timeout ? *timeout : (struct timespec){ 0 };

	if (pthread_equal(pthread_self(), other.counted))
		return (int)syscall(SYS_ppoll, fds, count, timeout ? &left : NULL, mask, 8);
	fall_asleep();
	return (int)wake_up(syscall(SYS_ppoll, fds, count, timeout ? &left : NULL, mask, 8));
}

static bool is(const char *name)
{
	return !strcmp(work, name);
}

static bool wr_is_send(void)
{
	return !is("write") && !is("polled") && !is("empty");
}

static void open_device(struct end *end)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_cq_init_attr_ex of_cq = { .cqe = 4 * DEPTH, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					     .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 } };

	expect(list && list[0], "a device");
	context = ibv_open_device(list[0]);
	expect(context && (pd = ibv_alloc_pd(context)), "ibv_open_device");
	if (alone) {
		struct ibv_td_init_attr of_td = { 0 };
		struct ibv_parent_domain_init_attr of_domain = { .pd = pd, .td = ibv_alloc_td(context, &of_td) };

		of_cq.parent_domain = ibv_alloc_parent_domain(context, &of_domain);
		of_cq.comp_mask |= IBV_CQ_INIT_ATTR_MASK_PD;
		expect(of_cq.parent_domain != NULL, "ibv_alloc_parent_domain");
		pd = of_cq.parent_domain;
		cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &of_cq));
	} else {
		cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
	}
	expect(cq != NULL, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(pd, &attr);
	expect(qp && !ibv_query_gid(context, 1, 1, &end->gid), "ibv_create_qp");
	end->qpn = qp->qp_num;
}

/* ---- what is counted, by these names ---- */

__attribute__((noinline)) int post_one(struct ibv_send_wr *wr);
__attribute__((noinline)) int take_one(struct ibv_wc *wc);
__attribute__((noinline)) int refill_one(struct ibv_recv_wr *wr);

int post_one(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, wr, &bad);
}

int take_one(struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, 1, wc);
}

int refill_one(struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return ibv_post_recv(qp, wr, &bad);
}

static void post(struct ibv_send_wr *wr, bool counts)
{
	struct ibv_send_wr *bad;

	expect(!(counts ? post_one(wr) : ibv_post_send(qp, wr, &bad)), "ibv_post_send");
}

static void take(bool counts)
{
	struct ibv_wc wc;
	int got;

	do {
		got = counts ? take_one(&wc) : ibv_poll_cq(cq, 1, &wc);
		polls += counts;
		expect(got >= 0, "ibv_poll_cq");
	} while (!got);
	expect(wc.status == IBV_WC_SUCCESS, "a completion");
}

static void take_nothing(void)
{
	struct ibv_wc wc;

	expect(!take_one(&wc), "a CQ that is empty");
}

static void refill(bool counts)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 64, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	expect(!(counts ? refill_one(&wr) : ibv_post_recv(qp, &wr, &bad)), "ibv_post_recv");
}

static void pass(int fd)
{
	char byte = 0;

	expect(write(fd, &byte, 1) == 1, "the other end");
}

static void await(int fd)
{
	char byte;

	if (read(fd, &byte, 1) == 1)
		return;
	if (measured)
		printf("%u polls\n", polls);
	exit(0);
}

static void serve(int fd)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct end own, peer;
	unsigned round, n;
	struct ibv_dm *dm;

	open_device(&own);
	dm = ibv_alloc_dm(context, &attr);
	mr = ibv_reg_dm_mr(pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_WRITE);
	expect(dm && mr, "ibv_alloc_dm");
	own.rkey = mr->rkey;
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	connect_to(qp, fd, &own, &peer);
	for (n = 0; n < batch; n++)
		refill(false);
	for (round = 0;; round++) {
		bool now = round >= WARM + OWNED && measured;

		if (measured && round == WARM)
			keep_other_thread();
		pass(fd);
		/* Who posts to a sleeper has to wake it: this one polls, unless polls are counted. */
		if (!is("post"))
			await(fd);
		for (n = 0; n < batch && wr_is_send(); n++)
			take(now && is("receive"));
		for (n = 0; n < batch && now && is("empty"); n++)
			take_nothing();
		for (n = 0; n < batch && wr_is_send(); n++)
			refill(now && is("refill"));
	}
}

static void request(int fd)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 64, 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct end own, peer;
	unsigned round, n;

	open_device(&own);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	expect(mr != NULL, "ibv_reg_mr");
	sge.lkey = mr->lkey;
	connect_to(qp, fd, &own, &peer);
	if (!wr_is_send()) {
		sge.length = 8;
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.rkey = peer.rkey;
	}
	await(fd);
	for (round = 0; round < WARM + OWNED + ROUNDS; round++) {
		bool now = round >= WARM + OWNED && measured;

		if (measured && round == WARM)
			keep_other_thread();
		for (n = 0; n < batch; n++)
			post(&wr, now && (is("post") || is("write")));
		if (!is("post"))
			pass(fd);
		await(fd);		/* all of the batch is there, and has its answer */
		for (n = 0; n < batch; n++)
			take(now && (is("complete") || is("polled")));
	}
	if (measured)
		printf("%u polls\n", polls);
	exit(0);
}

static void run(bool server, int fd)
{
	if (server)
		serve(fd);
	request(fd);
}

int main(int count, char **word)
{
	char own[16];
	bool server;
	int fds[2];

	expect(count == 4 || count == 6, "request_cost WORK BATCH ALONE");
	other.counted = pthread_self();
	work = word[1];
	batch = (unsigned)atoi(word[2]);
	alone = atoi(word[3]);
	expect(batch && batch <= DEPTH, "a batch of 1 to 64");
	if (count == 6) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(atoi(word[4]), atoi(word[5]));
	}
	expect(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
	server = is("receive") || is("refill") || is("empty");
	if (!fork()) {	/* not under valgrind */
		snprintf(own, sizeof(own), "%d", fds[1]);
		close(fds[0]);
		execl(word[0], word[0], word[1], word[2], word[3], server ? "0" : "1", own, NULL);
		_exit(127);
	}
	close(fds[1]);
	measured = true;
	run(server, fds[0]);
	return 0;
}
