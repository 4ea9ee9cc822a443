/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that are killed, stopped or frozen at any instant: while they open the device, connect, and
 * work. Who is stopped or frozen is killed then, or goes on for a while and is killed later. The
 * survivor is one process for all of them. Each of its requests and receives completes once, in
 * order, in time, with a status that the specification has for it; its memory, descriptors, threads
 * and mappings are as before. What goes on sees the same rules kept.
 */
#include "hostile.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define GRANTED_BYTES (256 * KIB)
#define PIECE                                                                                      \
	(64 * KIB) /* the first is sent from, the second received into, the others are M's         \
		    */
#define WINDOW 12
#define RECEIVES 8
#define RECEIVE_BYTES (PIECE / RECEIVES)
#define SEND_ID (1ull << 40)

/* What the survivor says of each. */
#define CONNECTED 'k'
#define ENDED 'e'

struct traffic {
	struct link link;
	struct ibv_mr *mr;
	uint64_t posted, completed, received;
	unsigned receives; /* that are posted */
	bool failed;
};

/* ---- a wire that may end at any time ---- */

static bool wire_send(int wire, const void *what, size_t bytes)
{
	return send(wire, what, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool wire_receive(int wire, void *what, size_t bytes)
{
	return recv(wire, what, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static bool wire_has_ended(int wire)
{
	char byte;

	return recv(wire, &byte, 1, MSG_DONTWAIT) == 0;
}

/* ---- mixed work ---- */

static void traffic_receive(struct traffic *traffic, uint64_t number)
{
	CHECK(!post_receive(&traffic->link, traffic->mr, PIECE + number % RECEIVES * RECEIVE_BYTES,
			    RECEIVE_BYTES, number));
	traffic->receives++;
}

static bool traffic_connect(struct traffic *traffic, struct node *node, struct ibv_mr *mr, int wire)
{
	unsigned i;

	memset(traffic, 0, sizeof(*traffic));
	traffic->mr = mr;
	link_make(&traffic->link, node);
	traffic->link.timeout = 10; /* 4 ms */
	traffic->link.retry_count = 3;
	traffic->link.rnr_retry = 6;
	link_set_region(&traffic->link, mr);
	if (!wire_send(wire, &traffic->link.here, sizeof(traffic->link.here)) ||
	    !wire_receive(wire, &traffic->link.there, sizeof(traffic->link.there)))
		return false;
	link_raise(&traffic->link, IBV_QPS_INIT);
	for (i = 0; i < RECEIVES; i++)
		traffic_receive(traffic, i);
	link_raise(&traffic->link, IBV_QPS_RTS);
	return true;
}

static void traffic_post(struct traffic *traffic)
{
	static const enum ibv_wr_opcode opcode[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM,
						    IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wr_opcode chosen = opcode[random_below(5)];
	uint32_t bytes = (uint32_t)random_below(random_below(2) ? 200 : RECEIVE_BYTES) + 1;

	if (chosen == IBV_WR_ATOMIC_FETCH_AND_ADD)
		bytes = 8;
	CHECK(!post(&traffic->link, chosen, traffic->mr, 0, bytes,
		    2 * PIECE + random_below(PIECE) / 8 * 8, SEND_ID + traffic->posted++));
}

static void take_send(struct traffic *traffic, const struct ibv_wc *wc)
{
	CHECK(wc->wr_id == SEND_ID + traffic->completed, "completion of request %llu, not %llu",
	      (unsigned long long)wc->wr_id - SEND_ID, (unsigned long long)traffic->completed);
	switch (wc->status) {
	case IBV_WC_SUCCESS:
		CHECK(!traffic->failed, "success after a failure");
		break;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		CHECK(!traffic->failed, "a second failure: %s", ibv_wc_status_str(wc->status));
		traffic->failed = true;
		break;
	default:
		CHECK(traffic->failed && wc->status == IBV_WC_WR_FLUSH_ERR, "request %llu: %s",
		      (unsigned long long)traffic->completed, ibv_wc_status_str(wc->status));
	}
	traffic->completed++;
}

static void take_receive(struct traffic *traffic, const struct ibv_wc *wc)
{
	CHECK(wc->wr_id == traffic->received, "completion of receive %llu, not %llu",
	      (unsigned long long)wc->wr_id, (unsigned long long)traffic->received);
	CHECK(wc->status == IBV_WC_SUCCESS ||
		      (wc->status == IBV_WC_WR_FLUSH_ERR &&
		       (traffic->failed || traffic->link.qp->state == IBV_QPS_ERR)),
	      "receive %llu: %s", (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	traffic->receives--;
	traffic->received++;
	if (wc->status == IBV_WC_SUCCESS && traffic->link.qp->state != IBV_QPS_ERR)
		traffic_receive(traffic, traffic->received + traffic->receives);
}

static bool traffic_take(struct traffic *traffic)
{
	struct ibv_wc wc;
	int got = ibv_poll_cq(traffic->link.node->cq, 1, &wc);

	CHECK(got >= 0, "%d", got);
	if (got && wc.wr_id >= SEND_ID)
		take_send(traffic, &wc);
	else if (got)
		take_receive(traffic, &wc);
	return got;
}

static void traffic_go_on(struct traffic *traffic)
{
	while (traffic_take(traffic))
		;
	while (!traffic->failed && traffic->posted - traffic->completed < WINDOW)
		traffic_post(traffic);
}

/* Nobody is there any more: what is outstanding ends all the same. */
static void traffic_end(struct traffic *traffic)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	double until_s = now() + COMPLETE_S;

	while (traffic->completed < traffic->posted) {
		traffic_take(traffic);
		CHECK(now() < until_s, "request %llu of %llu has not completed after %d s",
		      (unsigned long long)traffic->completed, (unsigned long long)traffic->posted,
		      COMPLETE_S);
	}
	CHECK(!ibv_modify_qp(traffic->link.qp, &attr, IBV_QP_STATE), "%m");
	while (traffic->receives) {
		traffic_take(traffic);
		CHECK(now() < until_s, "%u receives have not been flushed", traffic->receives);
	}
}

/* ---- the survivor ---- */

struct survivor {
	struct node node;
	struct ibv_mr *mr, *quiet_mr;
	char *quiet, *shadow;
};

static void survivor_open(struct survivor *survivor)
{
	size_t i;

	node_open(&survivor->node);
	survivor->mr = region_make(&survivor->node, memory_make(MEMORY_ALIGNED, GRANTED_BYTES),
				   GRANTED_BYTES, REMOTE_ALL);
	survivor->quiet = memory_make(MEMORY_ALIGNED, GRANTED_BYTES);
	survivor->shadow = memory_make(MEMORY_MMAP, GRANTED_BYTES);
	survivor->quiet_mr =
		region_make(&survivor->node, survivor->quiet, GRANTED_BYTES, REMOTE_ALL);
	for (i = 0; i < GRANTED_BYTES; i++)
		survivor->quiet[i] = survivor->shadow[i] = (char)random_u();
}

static bool survive(struct cast *cast, struct survivor *survivor, int wire)
{
	static const char working = CONNECTED;
	struct traffic traffic;
	bool connected = traffic_connect(&traffic, &survivor->node, survivor->mr, wire);

	if (connected)
		tell(cast, cast->count, &working, 1);
	while (connected && !traffic.failed && !wire_has_ended(wire))
		traffic_go_on(&traffic);
	if (connected)
		traffic_end(&traffic);
	CHECK(!ibv_destroy_qp(traffic.link.qp), "%m");
	CHECK(!memcmp(survivor->quiet, survivor->shadow, GRANTED_BYTES),
	      "bytes that nobody was to write have changed");
	return connected;
}

static unsigned kill_count(void)
{
	return long_run ? 10000 : 60;
}

static void be_survivor(struct cast *cast)
{
	static const char ended = ENDED;
	struct holdings before = {0};
	unsigned round, worked = 0;
	struct survivor survivor;
	int wire;

	become_user(0);
	survivor_open(&survivor);
	cue(cast, cast->count);
	for (round = 0; (wire = receive_descriptor(cast, cast->count)) >= 0; round++) {
		worked += survive(cast, &survivor, wire);
		close(wire);
		if (round == kill_count() / 2) /* by now all is there that is opened once */
			before = holdings_settled();
		tell(cast, cast->count, &ended, 1);
	}
	CHECK(round > 1 && worked > round / 4, "of %u peers only %u had connected", round, worked);
	holdings_compare(&before);
}

/* ---- those who are killed, stopped and frozen ---- */

/* Stops last for less and for more than the survivor's patience, which is 4 tries of 4 ms. */
#define WORK_US 10000
#define HALT_US 30000
#define RESUME_US 5000

enum fate { FATE_KILL, FATE_STOP, FATE_FREEZE, FATES };

struct fates {
	struct cgroup freezer;
	bool can_freeze;
	unsigned count[FATES];
};

static void be_mortal(struct cast *cast, int wire)
{
	struct traffic traffic;
	struct node node;
	struct ibv_mr *mr;

	close(cast->wire[0]);
	become_user(0);
	node_open(&node);
	mr = region_make(&node, memory_make(MEMORY_ALIGNED, GRANTED_BYTES), GRANTED_BYTES,
			 REMOTE_ALL);
	CHECK(traffic_connect(&traffic, &node, mr, wire));
	while (!traffic.failed)
		traffic_go_on(&traffic);
	pause();
}

static void halt(struct fates *fates, enum fate fate, pid_t pid, bool halted)
{
	if (fate == FATE_STOP)
		kill(pid, halted ? SIGSTOP : SIGCONT);
	else
		cgroup_freeze(&fates->freezer, halted);
}

/* In the end it is dead, and was so while it was halted in half of the cases. */
static void meet_fate(struct fates *fates, pid_t pid)
{
	enum fate fate = (enum fate)random_below(fates->can_freeze ? FATES : FATE_FREEZE);
	bool resumes = random_below(2);

	fates->count[fate]++;
	if (fate == FATE_FREEZE)
		cgroup_add(&fates->freezer, pid);
	usleep((useconds_t)random_below(WORK_US));
	if (fate != FATE_KILL) {
		halt(fates, fate, pid, true);
		usleep((useconds_t)random_below(HALT_US));
	}
	if (fate != FATE_KILL && resumes) {
		halt(fates, fate, pid, false);
		usleep((useconds_t)random_below(RESUME_US));
	}
	kill(pid, SIGKILL);
	if (fate == FATE_FREEZE && !resumes) /* of version 1: it dies when it thaws */
		halt(fates, fate, pid, false);
}

/* Most of them when they work, some while they get there. */
static void kill_one(struct cast *cast, struct fates *fates)
{
	char stage = 0;
	int wires[2], status;
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires), "%m");
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid) {
		close(wires[0]);
		be_mortal(cast, wires[1]);
	}
	close(wires[1]);
	send_descriptor(cast, 0, wires[0]);
	close(wires[0]);
	if (random_below(4))
		hear(cast, 0, &stage, 1);
	meet_fate(fates, pid);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "status %x", status);
	while (stage != ENDED)
		hear(cast, 0, &stage, 1);
}

static void kills(void)
{
	actor_fn *const actor[] = {be_survivor};
	unsigned i;
	uint64_t first = seed;
	struct fates fates = {0};
	const char *why = cgroup_try(&fates.freezer, "freezer");
	struct cast cast;

	fates.can_freeze = !why;
	say("seed %#llx", (unsigned long long)seed);
	if (why)
		say("nobody is frozen: %s", why);
	cast_start(&cast, 1, actor, NULL);
	await_cue(&cast, 0);
	for (i = 0; i < kill_count(); i++) {
		seed = first + i;
		kill_one(&cast, &fates);
	}
	cue(&cast, 0);
	cast_end(&cast, 30);
	if (!why)
		cgroup_remove(&fates.freezer);
	say("%u killed, %u stopped, %u frozen", fates.count[FATE_KILL], fates.count[FATE_STOP],
	    fates.count[FATE_FREEZE]);
}

const struct hostile_case kill_cases[] = {
	{"kills", "peers are killed, stopped, frozen at any instant: a survivor of them all is right",
	 kills},
	{0},
};
