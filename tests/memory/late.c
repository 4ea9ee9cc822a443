/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that come to share memory later than their queue pairs are connected: because one did
 * not answer in time, or had no descriptor to spare. Until then packets go over UDP; the change, in
 * the middle of traffic, loses and repeats nothing, also while somebody else sends what each of them expects of
 * the other. And who cannot be met is left alone in the end.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "device/internal.h"
#include "forger.h"
#include "host/group_internal.h"
#include "local/channel/ring.h"
#include "pair.h"
#include "trace/trace.h"
#include "verbs/verbs.h"

/* By an answer, and not by a further try. In the long run hundreds of processes of other tests are at work. */
#define AT_ONCE_S (long_run ? 10.0 : 1.0)
#define DEPTH 64u /* receives; requests outstanding at most */
#define PLACE_BYTES 32768u
#define WINDOW 32u /* messages that the other end has not heard of */
#define MORE 300u  /* messages through memory, before the end */
#define EARLY	200u	/* packets that are forged before a queue pair takes any */
#define QKEY 0x1234u
#define GRH 40u
#define TRACED_ROW 24u /* messages in a row that are traced, or not */

/* The channel to the other end. */
static uint32_t channel_of(const struct end *end)
{
	return local_channel(&to_hca(end->context)->hca->engine.local,
			     qpn_slot(end->there.qpn));
}

static bool shares_memory(const struct end *end)
{
	return channel_of(end) != LOCAL_NO_CHANNEL;
}

/* Packets and messages of ours that the peer has taken from there. */
static uint32_t through_memory(const struct end *end)
{
	return ring_progress(to_hca(end->context)->hca->engine.local.channel_link, channel_of(end));
}

static void await_memory(const struct end *end, double limit_s)
{
	double until_s = now() + limit_s;

	while (!shares_memory(end)) {
		CHECK(now() < until_s, "no memory is shared after %.1f s", limit_s);
		usleep(1000);
	}
}

/*
 * One descriptor more, or as many as is usual: a channel takes two (its side, a connection), finding the
 * way to the peer one.
 */
static void allow_descriptors(bool allow)
{
	static rlim_t usual;
	struct rlimit limit;
	int next = dup(0);

	close(next);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit), "%m");
	if (!usual)
		usual = limit.rlim_cur;
	limit.rlim_cur = allow ? usual : (rlim_t)next + 1;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit), "%m");
}

/* Two members of the port group watch each other, each by a descriptor that the other end holds as well. */
static void await_watchers(const struct end *end)
{
	struct port_group *group = to_hca(end->context)->hca->engine.group;
	double until_s = now() + LIMIT_S;
	bool watched = !group;		/* another user has the port: nobody is watched */

	while (!watched) {
		CHECK(now() < until_s, "the ends do not watch each other");
		usleep(1000);
		pair_lock(&group->lock);
		watched = group->watch.watcher_count && group->watch.watched_count;
		pair_unlock(&group->lock);
	}
}

/* ---- traffic: each end sends numbered messages, and checks those of the other ---- */

struct message {
	uint32_t number, heard; /* of the messages of the other end */
	uint32_t bytes, state;
};
enum { SENDING, DONE, LAST };

struct traffic {
	struct end *end;
	struct ibv_ah *ah;
	enum ibv_qp_type type;
	uint32_t sent, completed, heard, acknowledged;
	uint32_t told;		/* what our last message said of heard */
	uint32_t atomics, through_memory, outstanding;
	uint64_t written;
	uint32_t first_missing; /* UD */
	uint64_t early;		/* bit i: first_missing + i has come */
	bool peer_done, over;
	_Atomic uint64_t *forward_lost;
	struct forger *forger;	/* NULL: nobody forges, or has begun to */
	bool traced;		/* a trace wants payload now and then: packets */
	bool never_shared;	/* VERBATIM_MEMORY=off */
};

static char *send_place(struct traffic *traffic, uint32_t number)
{
	return traffic->end->memory + (size_t)(number % DEPTH) * PLACE_BYTES;
}

static char *receive_place(struct traffic *traffic, uint32_t number)
{
	return traffic->end->memory + (size_t)(DEPTH + number % DEPTH) * PLACE_BYTES;
}

/* Behind the messages: what atomics and WRITEs change here, and where their results go. */
enum { COUNTER, CELL, ORIGINAL, READ_BACK };

static size_t word_offset(unsigned word)
{
	return (size_t)2 * DEPTH * PLACE_BYTES + 64u * word;
}

static uint64_t *word_of(struct end *end, unsigned word)
{
	return (uint64_t *)(end->memory + word_offset(word));
}

static uint32_t bytes_of(const struct traffic *traffic, uint32_t number)
{
	static const uint32_t bytes[] = {16, 64, 4000, 200, 17, 20000, 1000, 9000};

	return traffic->type == IBV_QPT_UD && bytes[number % 8] > 4000 ? 3000 : bytes[number % 8];
}

static char body_of(uint32_t number, uint32_t at)
{
	return (char)(number * 7 + at);
}

static void send_message(struct traffic *traffic, uint32_t state)
{
	struct message message = {.number = traffic->sent,
				  .heard = traffic->heard,
				  .bytes = bytes_of(traffic, traffic->sent),
				  .state = state};
	char *place = send_place(traffic, traffic->sent);
	struct ibv_sge sge = {
		.addr = (uintptr_t)place, .length = message.bytes, .lkey = traffic->end->mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = 'm',
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};
	uint32_t i;

	memcpy(place, &message, sizeof(message));
	for (i = sizeof(message); i < message.bytes; i++)
		place[i] = body_of(message.number, i);
	if (traffic->type == IBV_QPT_UD) {
		wr.wr.ud.ah = traffic->ah;
		wr.wr.ud.remote_qpn = traffic->end->there.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	CHECK(!ibv_post_send(traffic->end->qp, &wr, &bad), "%m");
	traffic->sent++;
	traffic->told = traffic->heard;
	traffic->outstanding++;
}

/* Both windows may fill before either end has heard anything: then one message more says that all came. */
static bool may_send(const struct traffic *traffic)
{
	uint32_t ahead = traffic->sent - traffic->acknowledged;

	return ahead < WINDOW || (ahead == WINDOW && traffic->heard - traffic->told == WINDOW);
}

/* One at a time, so that the result has a place. */
static void send_one_sided(struct traffic *traffic)
{
	struct end *end = traffic->end;

	if (traffic->sent % 8 == 0) {
		CHECK(!post(end, IBV_WR_ATOMIC_FETCH_AND_ADD, word_offset(ORIGINAL), 8,
			    word_offset(COUNTER), 'a'));
		traffic->outstanding++;
	} else {
		traffic->written = traffic->sent;
		*word_of(end, READ_BACK) = traffic->written;
		CHECK(!post(end, IBV_WR_RDMA_WRITE, word_offset(READ_BACK), 8, word_offset(CELL),
			    'w'));
		CHECK(!post(end, IBV_WR_RDMA_READ, word_offset(ORIGINAL), 8, word_offset(CELL),
			    'r'));
		traffic->outstanding += 2;
	}
}

static void give_receive(struct traffic *traffic, uint32_t number)
{
	CHECK(!post_receive(traffic->end,
			    (size_t)(receive_place(traffic, number) - traffic->end->memory),
			    PLACE_BYTES, 'R'));
}

/* Once each; in which order they come nobody promises. */
static void note_datagram(struct traffic *traffic, uint32_t number)
{
	uint32_t ahead = number - traffic->first_missing;

	CHECK(ahead < 64 && !(traffic->early >> ahead & 1), "message %u came twice, or %u is lost; counters:%s",
	      number, traffic->first_missing, counters_here());
	traffic->early |= 1ull << ahead;
	for (; traffic->early & 1; traffic->early >>= 1)
		traffic->first_missing++;
}

static void receive_message(struct traffic *traffic, const struct ibv_wc *wc)
{
	uint32_t skip = traffic->type == IBV_QPT_UD ? GRH : 0, i;
	const char *place = receive_place(traffic, traffic->heard) + skip;
	struct message message;

	memcpy(&message, place, sizeof(message));
	if (traffic->type == IBV_QPT_UD)
		note_datagram(traffic, message.number);
	else
		CHECK(message.number == traffic->heard, "message %u came as number %u",
		      message.number, traffic->heard);
	CHECK(wc->byte_len == message.bytes + skip &&
	      message.bytes == bytes_of(traffic, message.number));
	for (i = sizeof(message); i < message.bytes; i++)
		CHECK(place[i] == body_of(message.number, i), "byte %u of message %u", i,
		      message.number);
	if (message.heard > traffic->acknowledged)
		traffic->acknowledged = message.heard;
	traffic->peer_done |= message.state != SENDING;
	traffic->over |= message.state == LAST;
	give_receive(traffic, traffic->heard++);
}

static void take_completion(struct traffic *traffic, const struct ibv_wc *wc)
{
	uint64_t original = 0;

	CHECK(wc->status == IBV_WC_SUCCESS, "%c: %s", (int)wc->wr_id,
	      ibv_wc_status_str(wc->status));
	if (wc->wr_id == 'R') {
		receive_message(traffic, wc);
		return;
	}
	traffic->outstanding--;
	if (wc->wr_id == 'a' || wc->wr_id == 'r') /* else one may be writing there */
		original = *word_of(traffic->end, ORIGINAL);
	if (wc->wr_id == 'a')
		CHECK(original == traffic->atomics++, "the counter was %u after %u atomics",
		      (unsigned)original, traffic->atomics - 1);
	else if (wc->wr_id == 'r')
		CHECK(original == traffic->written, "%u was written, %u is there",
		      (unsigned)traffic->written, (unsigned)original);
}

static void take_completions(struct traffic *traffic)
{
	struct ibv_wc wc[16];
	int i, got = ibv_poll_cq(traffic->end->cq, 16, wc);

	CHECK(got >= 0, "poll_cq: %d", got);
	*traffic->forward_lost = counter_here(COUNTER_RX_FOREIGN_LOST) + counter_here(COUNTER_TX_LINK);
	for (i = 0; i < got; i++)
		take_completion(traffic, &wc[i]);
	if (!got)
		sched_yield();
}

/* From the moment on that the network is believed no more. */
static void aim_forger(struct traffic *traffic)
{
	struct qp *qp = to_qp(traffic->end->qp);

	pair_lock(&qp->lock);
	if (qp->way != BY_NETWORK) {
		forger_aim(traffic->forger, traffic->end->side, qp->number, qp->responder.expected_psn,
			   qp->requester.una_psn);
		traffic->forger = NULL;
	}
	pair_unlock(&qp->lock);
}

/* As when a tracer comes and goes, on one end. */
static void trace_some(const struct traffic *traffic)
{
	bool wanted = traffic->sent / TRACED_ROW % 2;

	if (wanted)
		atomic_fetch_or(&trace_wanted, TRACE_PAYLOAD);
	else
		atomic_fetch_and(&trace_wanted, ~TRACE_PAYLOAD);
}

static void run_traffic(struct traffic *traffic, double free_after_s)
{
	double begin_s = now(), until_s = begin_s + LIMIT_S;
	bool last = false;

	while (!last || !traffic->over || traffic->outstanding) {
		CHECK(now() < until_s,
		      "sent %u, %u outstanding, %u heard there, heard %u%s; counters:%s", traffic->sent,
		      traffic->outstanding, traffic->acknowledged, traffic->heard,
		      shares_memory(traffic->end) ? ", memory is shared" : "", counters_here());
		if (free_after_s >= 0 && now() > begin_s + free_after_s) {
			allow_descriptors(true);
			free_after_s = -1;
		}
		take_completions(traffic);
		if (traffic->forger)
			aim_forger(traffic);
		if (traffic->traced)
			trace_some(traffic);
		if (last || traffic->outstanding > DEPTH - 4)
			continue;
		if (traffic->peer_done && traffic->through_memory >= MORE) {
			last = true;
			send_message(traffic, LAST);
		} else if (may_send(traffic)) {
			traffic->through_memory += traffic->never_shared || shares_memory(traffic->end);
			send_message(traffic, traffic->through_memory >= MORE ? DONE : SENDING);
			if (traffic->type == IBV_QPT_RC && traffic->outstanding == 1)
				send_one_sided(traffic);
		}
	}
}

/* ---- queue pairs of each kind ---- */

/* The one descriptor that is left may be used by the worker at the moment, which tries to meet the other end. */
static bool worker_has_descriptor(int err)
{
	if (err != EMFILE)
		return false;
	usleep(1000);
	return true;
}

static void modify(struct end *end, struct ibv_qp_attr *attr, int mask)
{
	double until_s = now() + LIMIT_S;
	int err;

	do
		err = ibv_modify_qp(end->qp, attr, mask);
	while (worker_has_descriptor(err) && now() < until_s);
	CHECK(!err, "%s", strerror(err));
}

static void raise_rc(struct end *end)
{
	double until_s = now() + LIMIT_S;

	end->may_lack_descriptors = true;
	do
		end_raise(end, IBV_QPS_RTS);
	while (end->lacks_descriptors && worker_has_descriptor(EMFILE) && now() < until_s);
	CHECK(!end->lacks_descriptors, "no descriptor after %.1f s", LIMIT_S);
}

static void make_qp(struct end *end, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {.send_cq = end->cq,
					.recv_cq = end->cq,
					.qp_type = type,
					.cap = {.max_send_wr = 2 * DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	end->qp = ibv_create_qp(end->pd, &attr);
	CHECK(end->qp, "%m");
}

static void raise_uc(struct end *end)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	modify(end, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = end->mtu,
		.dest_qp_num = end->there.qpn,
		.rq_psn = end->there.psn,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = end->there.gid, .sgid_index = 1, .hop_limit = 64}}};
	modify(end, &attr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = end->psn};
	modify(end, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static void raise_ud(struct traffic *traffic)
{
	struct end *end = traffic->end;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_ah_attr ah = {.is_global = 1,
				 .port_num = 1,
				 .grh = {.dgid = end->there.gid, .sgid_index = 1, .hop_limit = 64}};
	double until_s = now() + LIMIT_S;

	modify(end, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	attr.qp_state = IBV_QPS_RTR;
	modify(end, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	modify(end, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	do
		traffic->ah = ibv_create_ah(end->pd, &ah);
	while (!traffic->ah && worker_has_descriptor(errno) && now() < until_s);
	CHECK(traffic->ah, "%m");
}

static void raise_qp(struct traffic *traffic)
{
	if (traffic->type == IBV_QPT_RC)
		raise_rc(traffic->end);
	else if (traffic->type == IBV_QPT_UC)
		raise_uc(traffic->end);
	else
		raise_ud(traffic);
}

/* ---- in the middle of traffic ---- */

struct plan {
	enum ibv_qp_type type;
	struct forger *forger;
	bool at_once;		/* nothing keeps the ends from meeting */
	bool never;		/* they never share memory */
	bool aimed_early;	/* the forger begins before the queue pairs take packets */
	bool one_late;		/* RIGHT is connected when memory is shared, LEFT before */
	bool traced[2];
	bool packets[2];	/* as with VERBATIM_TRACE or VERBATIM_FAULT */
	double free_after_s[2];
	uint64_t forged_before;
	_Atomic uint64_t forward_lost[2]; /* by each end, of its own and of what it forwards */
};

static void talks(struct end *end, void *argument)
{
	struct plan *plan = argument;
	struct traffic traffic = {.end = end,
				  .type = plan->type,
				  .forger = plan->forger,
				  .traced = plan->traced[end->side],
				  .never_shared = plan->never,
				  .forward_lost = &plan->forward_lost[end->side]};
	bool is_late = plan->one_late && end->side == RIGHT;
	bool by_udp = plan->never || (plan->type == IBV_QPT_UC && !plan->at_once && !is_late);
	uint32_t i;

	if (plan->packets[end->side])
		setenv("VERBATIM_MEMORY", "ring", 1);
	end_open(end, word_offset(4), ALL_ACCESS);
	make_qp(end, plan->type);
	end_exchange(end);
	if (plan->aimed_early) {
		forger_aim(plan->forger, end->side, end->qp->qp_num, end->there.psn, end->psn);
		while (forger_sent(plan->forger) < plan->forged_before + EARLY)
			usleep(1000);
	}
	if (!plan->at_once && !is_late)
		await_watchers(end);
	allow_descriptors(plan->at_once || is_late);
	meet(end);
	if (is_late)
		await_memory(end, LIMIT_S);
	raise_qp(&traffic);
	for (i = 0; i < DEPTH; i++)
		give_receive(&traffic, i);
	CHECK(plan->at_once || is_late || !shares_memory(end), "nothing kept the ends from meeting");
	if (plan->one_late)
		allow_descriptors(true);
	meet(end);
	run_traffic(&traffic, plan->free_after_s[end->side]);
	CHECK(traffic.sent > MORE, "all of it went through memory");
	CHECK((through_memory(end) < MORE) == by_udp, "%u through memory", through_memory(end));
	meet(end);
	CHECK(*word_of(end, COUNTER) == 0 || plan->type == IBV_QPT_RC);
	if (traffic.ah)
		CHECK(!ibv_destroy_ah(traffic.ah));
	end_close(end);
}

/* Datagrams that found no room in a socket, of all processes here. */
static unsigned long long lost_by_kernel(void)
{
	FILE *file = fopen("/proc/net/snmp", "re");
	unsigned long long lost = 0;
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Udp: %*u %*u %*u %*u %llu", &lost) == 1)
			break;
	if (file)
		fclose(file);
	return lost;
}

/*
 * UC and UD may lose what the kernel drops where a receiver has no processor, on the way to us or from a
 * process that forwards: that proves nothing.
 */
static bool may_be_lost(const struct plan *plan, unsigned long long *before, unsigned *excuses)
{
	unsigned long long lost = lost_by_kernel(), more = lost - *before;

	*before = lost;
	more += plan->forward_lost[LEFT] + plan->forward_lost[RIGHT];
	if (plan->type == IBV_QPT_RC || !more || ++*excuses > 4)
		return false;
	printf("# the kernel dropped %llu datagrams: once more\n", more);
	return true;
}

static bool change_in_traffic(enum ibv_qp_type type, bool one_late)
{
	/* The first tries of the worker are after 10 and after 110 ms. */
	static const double after_s[][2] = {{0, 0}, {0.005, 1}, {1, 0.002}, {0.05, 0.02}};
	unsigned long long lost = lost_by_kernel();
	unsigned i, rounds = long_run ? 40 : 4, excuses = 0;
	struct plan *plan = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool ok = true;

	CHECK(plan != MAP_FAILED, "%m");
	for (i = 0; ok && i < rounds; i++) {
		/* Nobody needs memory for UC: the third try, after 1.1 s, is the last. */
		double scale = type == IBV_QPT_UC ? 0.3 : 1;

		*plan = (struct plan){.type = type,
				      .one_late = one_late,
				      .free_after_s = {after_s[i % 4][0] * scale,
						       after_s[i % 4][1] * scale}};
		if (pair_run((i + i / 4) % 2 ? "ring" : "mapped", talks, talks, plan, 60))
			continue;
		printf("# round %u\n", i);
		ok = may_be_lost(plan, &lost, &excuses);
		i--;
	}
	munmap(plan, sizeof(*plan));
	return ok;
}

static bool rc_goes_over_to_memory_in_the_middle_of_traffic(void)
{
	return change_in_traffic(IBV_QPT_RC, false);
}

/* Ends that send packets, because of a trace or a fault, and such that a tracer comes to. */
static bool run_beside_forger(enum forger_kind kind, enum ibv_qp_type type, const struct plan *what,
			      unsigned rounds)
{
	unsigned long long lost = lost_by_kernel();
	unsigned excuses = 0;
	struct plan *plan = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct forger *forger = forger_start(kind, type);
	bool good = true;
	unsigned i;

	CHECK(plan != MAP_FAILED, "%m");
	if (what->aimed_early)
		forger_try(forger, 2);
	for (i = 0; good && i < rounds; i++) {
		*plan = *what;
		plan->type = type;
		plan->forger = forger;
		plan->traced[LEFT] = i % 2;
		plan->traced[RIGHT] = i % 5 == 4;
		plan->packets[LEFT] = i % 7 == 5 && !what->never;
		plan->packets[RIGHT] = i % 3 == 2 && !what->never;
		plan->forged_before = forger_sent(forger);
		forger_aim(forger, LEFT, 0, 0, 0);
		forger_aim(forger, RIGHT, 0, 0, 0);
		if (pair_run(what->never ? "off" : i % 4 < 2 ? "mapped" : "copy", talks, talks, plan, 60))
			continue;
		printf("# round %u\n", i);
		good = what->never && may_be_lost(plan, &lost, &excuses);
		i--;
	}
	printf("# %llu packets were forged\n", (unsigned long long)forger_sent(forger));
	good = good && forger_sent(forger) > rounds;
	munmap(plan, sizeof(*plan));
	return forger_end(forger) && good;
}

static bool change_beside_forger(enum forger_kind kind, enum ibv_qp_type type, bool at_once, unsigned rounds)
{
	const struct plan plan = {.at_once = at_once};

	return run_beside_forger(kind, type, &plan, rounds);
}

static bool forged_packets_enter_no_connection_through_memory(void)
{
	return change_beside_forger(FORGER_UDP, IBV_QPT_RC, true, long_run ? 200 : 6);
}

static bool nor_do_those_of_the_user_who_has_the_port(void)
{
	return change_beside_forger(FORGER_OWNER, IBV_QPT_RC, true, long_run ? 200 : 6);
}

static bool nor_do_they_enter_one_of_uc(void)
{
	return change_beside_forger(FORGER_UDP, IBV_QPT_UC, true, long_run ? 200 : 5) &&
	       change_beside_forger(FORGER_OWNER, IBV_QPT_UC, true, long_run ? 200 : 5);
}

static bool nor_while_the_way_changes(void)
{
	return change_beside_forger(FORGER_UDP, IBV_QPT_RC, false, long_run ? 1000 : 8);
}

static bool nor_while_it_changes_where_another_user_has_the_port(void)
{
	return change_beside_forger(FORGER_OWNER, IBV_QPT_RC, false, long_run ? 200 : 6);
}

/* Packets of its kind already wait in the socket when the queue pair begins to take any. */
static bool nor_those_that_came_before_the_queue_pair_was_ready(void)
{
	const struct plan at_once = {.at_once = true, .aimed_early = true}, later = {.aimed_early = true};

	return run_beside_forger(FORGER_UDP, IBV_QPT_RC, &at_once, long_run ? 200 : 6) &&
	       run_beside_forger(FORGER_UDP, IBV_QPT_UC, &at_once, long_run ? 100 : 5) &&
	       run_beside_forger(FORGER_UDP, IBV_QPT_RC, &later, long_run ? 100 : 5);
}

/* They know each other by the source port, which no other process can have. */
static bool nor_do_they_enter_one_over_udp(void)
{
	const struct plan plan = {.at_once = true, .never = true, .aimed_early = true};

	return run_beside_forger(FORGER_UDP, IBV_QPT_RC, &plan, long_run ? 200 : 6) &&
	       run_beside_forger(FORGER_UDP, IBV_QPT_UC, &plan, long_run ? 100 : 5);
}

/* UC repairs nothing: its packets go one way all the time. */
static bool uc_stays_with_udp_in_the_middle_of_traffic(void)
{
	return change_in_traffic(IBV_QPT_UC, false);
}

/* One end sends by UDP, and hears what comes through memory; the other one the opposite. */
static bool uc_hears_an_end_that_came_later(void)
{
	return change_in_traffic(IBV_QPT_UC, true);
}

static bool ud_goes_over_to_memory_in_the_middle_of_traffic(void)
{
	return change_in_traffic(IBV_QPT_UD, false);
}

/* ---- one that was too slow ---- */

/* It is stopped while the other one connects. */
static void is_slow(struct end *end, void *argument)
{
	char byte;

	end_open(end, 4096, ALL_ACCESS);
	end_make_qp(end);
	end_exchange(end);
	tell(end->test, "o", 1);
	CHECK(hear(end->peer, &byte, 1)); /* it has connected */
	await_memory(end, AT_ONCE_S);	  /* without a modify of ours */
	end_raise(end, IBV_QPS_RTS);
	meet(end);
	meet(end);
	end_close(end);
}

static void waits(struct end *end, void *argument)
{
	char byte;

	end_open(end, 4096, ALL_ACCESS);
	end_make_qp(end);
	end_exchange(end);
	tell(end->test, "o", 1);
	CHECK(hear(end->test, &byte, 1)); /* it is stopped */
	end_raise(end, IBV_QPS_RTS);
	CHECK(!shares_memory(end));
	tell(end->test, "c", 1);
	CHECK(hear(end->test, &byte, 1)); /* it goes on */
	await_memory(end, AT_ONCE_S);
	tell(end->peer, "c", 1);
	meet(end);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 4096, 0) == IBV_WC_SUCCESS);
	meet(end);
	end_close(end);
}

static bool who_was_too_slow_is_met_when_he_answers(void)
{
	struct pair pair;
	char byte;
	bool good;

	pair_start(&pair, "mapped", waits, is_slow, NULL);
	good = hear(pair.socket[LEFT], &byte, 1) && hear(pair.socket[RIGHT], &byte, 1);
	pair_stop(&pair, RIGHT);
	tell(pair.socket[LEFT], "s", 1);
	good = good && hear(pair.socket[LEFT], &byte, 1);
	kill(pair.pid[RIGHT], SIGCONT);
	tell(pair.socket[LEFT], "g", 1);
	return pair_end(&pair, 30) && good;
}

/* ---- one that will never be met ---- */

static void takes_no_part(struct end *end, void *argument)
{
	char byte;

	setenv("VERBATIM_MEMORY", "off", 1);
	end_open(end, 4096, ALL_ACCESS);
	end_connect(end);
	(void)hear(end->peer, &byte, 1);
}

static void tries_in_vain(struct end *end, void *argument)
{
	unsigned long slept = 3;
	unsigned window;

	end_open(end, 4096, ALL_ACCESS);
	end_connect(end);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 4096, 0) == IBV_WC_SUCCESS);
	CHECK(!shares_memory(end));
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	/* Tries after 10 ms, 110 ms, 1.1 s, and with no QP connected no more: it comes to rest. */
	for (window = 0; window < 6 && slept > 2; window++) {
		slept = worker_sleeps();
		usleep(1700000);
		slept = worker_sleeps() - slept;
	}
	CHECK(slept <= 2, "%lu wake-ups", slept);
	end_close(end);
}

static bool who_cannot_be_met_is_left_alone_when_nobody_needs_him(void)
{
	return pair_run("mapped", tries_in_vain, takes_no_part, NULL, 30);
}

int main(int argc, char **argv)
{
#define TEST(function)                                                                             \
	{                                                                                          \
#function, function                                                                \
	}
	const struct test tests[] = {
		TEST(rc_goes_over_to_memory_in_the_middle_of_traffic),
		TEST(forged_packets_enter_no_connection_through_memory),
		TEST(nor_do_those_of_the_user_who_has_the_port),
		TEST(nor_do_they_enter_one_of_uc),
		TEST(nor_while_the_way_changes),
		TEST(nor_while_it_changes_where_another_user_has_the_port),
		TEST(nor_those_that_came_before_the_queue_pair_was_ready),
		TEST(nor_do_they_enter_one_over_udp),
		TEST(uc_stays_with_udp_in_the_middle_of_traffic),
		TEST(uc_hears_an_end_that_came_later),
		TEST(ud_goes_over_to_memory_in_the_middle_of_traffic),
		TEST(who_was_too_slow_is_met_when_he_answers),
		TEST(who_cannot_be_met_is_left_alone_when_nobody_needs_him),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
