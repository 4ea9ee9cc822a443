/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs behind which something changes before the next one: a SEND of one SGE goes by what was
 * decided for the one before it (src/local/move/shortcut.c), one with a second, empty SGE asks for all
 * rules. So it is with receives (src/local/move/receive.c), and with WRITEs (src/local/move/onesided.c). Whatever
 * has changed meanwhile, both have the same outcome: each scene is played with the one and with the other, and
 * compared.
 *
 * The region that such requests are from is used under the lock of the QP alone (struct mr_kept): that
 * it is no more behind ibv_dereg_mr() is seen with a thread that goes on posting.
 */
#include "hostile.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define REGION_BYTES (64 * KIB)
#define SENDS 6			/* before the change, and behind it */
#define COMPLETIONS (2 * SENDS)
#define KEPT_MARK 'k'
#define LATER_MARK '!'

enum change {
	NO_CHANGE, PEER_FAILS, PEER_RESETS, PEER_DIES, OWN_DRAIN, OWN_ERROR, OWN_AGAIN, REGION_GONE,
	REGION_REREGISTERED, REGION_SHORT, ARMED, NO_RECEIVE, LATE_RECEIVE, WRITE_BETWEEN, READ_BETWEEN,
	LONG_BETWEEN, LIST_BETWEEN, PEER_DRAINS, PEER_REGION_GONE, PEER_REGION_ANEW, PEER_RECEIVES_LESS,
	PEER_ARMS, PEER_REGION_SHORT, PEER_REGION_READ, PEER_REGION_ELSEWHERE, PEER_DENIES, CHANGES
};
#define BIT(change)	(1u << (change))
/* What means nothing to WRITEs, or leaves a receive that nobody takes. */
#define OF_RECEIVES	(BIT(NO_RECEIVE) | BIT(LATE_RECEIVE) | BIT(LONG_BETWEEN) | BIT(PEER_RECEIVES_LESS) | \
			 BIT(PEER_ARMS))
static const char *const change_name[CHANGES] = {
	"nothing", "the peer's QP fails", "the peer's QP is reset", "the peer dies", "SQD and back",
	"ERR", "connected anew", "the region is deregistered", "the region is registered anew",
	"the region is shorter", "the CQ is armed", "no receive is posted",
	"the receive is posted late", "a WRITE between them", "a READ between them",
	"a long SEND between them", "a list between them", "the peer's QP is in SQD for a while",
	"the region of the receives is deregistered", "it is registered anew", "the receives are shorter",
	"the peer's CQ is armed", "the peer's region is shorter", "the peer's region may be read alone",
	"the peer's region is in another PD", "the peer's QP lets nobody write",
};

struct outcome {
	int posted[COMPLETIONS];
	uint32_t completed, status[COMPLETIONS], received, receive_status[COMPLETIONS], events;
	uint64_t id[COMPLETIONS], receive_id[COMPLETIONS];
	char data[COMPLETIONS];
};

struct scene {
	enum change change;
	bool short_cut, writes;
	struct outcome *outcome; /* shared with the director */
};

static void begin(const struct scene *scene, struct node *node, struct link *link)
{
	CHECK(!setenv("VERBATIM_MEMORY", "auto", 1));
	node_open(node);
	link_make(link, node);
	link->timeout = 9;
	link->retry_count = 2;
	link->rnr_retry = scene->change == LATE_RECEIVE ? 7 : 1;
}

/* The mark is what arrives. */
static void send_one(const struct scene *scene, struct link *link, const struct ibv_mr *mr, char *memory,
		     unsigned number)
{
	struct ibv_sge sge[2] = { { (uintptr_t)memory + 64 * number, 64, mr->lkey },
				  { (uintptr_t)memory, 0, mr->lkey } };
	struct ibv_send_wr wr = { .wr_id = number, .sg_list = sge, .num_sge = scene->short_cut ? 1 : 2,
				  .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	memset(memory + 64 * number, 'a' + (int)number, 64);
	if (scene->writes) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.rkey = link->there.rkey;
		wr.wr.rdma.remote_addr = link->there.memory + 1024 * number;
	}
	if (number % 3 == 1)
		wr.send_flags |= IBV_SEND_SOLICITED;
	scene->outcome->posted[number] = ibv_post_send(link->qp, &wr, &bad);
}

static void collect(struct outcome *outcome, struct node *node, unsigned count)
{
	struct ibv_wc wc;

	while (outcome->completed < count && get(node, &wc, 10)) {
		if (wc.wr_id >= COMPLETIONS)
			continue;
		outcome->id[outcome->completed] = wc.wr_id;
		outcome->status[outcome->completed++] = wc.status;
	}
}

static void move(struct link *link, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK(!ibv_modify_qp(link->qp, &attr, IBV_QP_STATE), "%m");
}

/* Both ends take part in some. */
static void change_of_requester(struct cast *cast, const struct scene *scene, struct link *link,
				struct ibv_mr **mr, char *memory, struct node *node)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct ibv_sge sge = { (uintptr_t)memory, 0, (*mr)->lkey };
	struct ibv_send_wr wr[2] = { { .wr_id = 1000, .next = &wr[1], .sg_list = &sge, .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE },
				     { .wr_id = 1001, .sg_list = &sge, .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE } }, *bad;

	switch (scene->change) {
	case OWN_DRAIN:
		move(link, IBV_QPS_SQD);
		move(link, IBV_QPS_RTS);
		break;
	case OWN_ERROR:
		move(link, IBV_QPS_ERR);
		break;
	case OWN_AGAIN:
		move(link, IBV_QPS_RESET);
		meet(cast, 1);
		link_raise(link, IBV_QPS_RTS);
		break;
	case REGION_GONE:
		CHECK(!ibv_dereg_mr(*mr), "%m");
		break;
	case REGION_REREGISTERED:
		CHECK(!ibv_dereg_mr(*mr), "%m");
		*mr = region_make(node, memory, REGION_BYTES, REMOTE_ALL);
		break;
	case REGION_SHORT:
		CHECK(!ibv_rereg_mr(*mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 64 * (SENDS + 2), 0),
		      "%m");
		break;
	case ARMED:
		CHECK(!ibv_req_notify_cq(node->cq, 0), "%m");
		break;
	case WRITE_BETWEEN:
		status = transfer(link, IBV_WR_RDMA_WRITE, *mr, 0, 4096, 0);
		break;
	case READ_BETWEEN:
		status = transfer(link, IBV_WR_RDMA_READ, *mr, 32 * KIB, 4096, 0);
		break;
	case LONG_BETWEEN:
		meet(cast, 1);		/* its receive is there */
		status = transfer(link, IBV_WR_SEND, *mr, 0, 16 * KIB, 0);
		break;
	case LIST_BETWEEN:
		wr[0].wr.rdma.rkey = wr[1].wr.rdma.rkey = link->there.rkey;
		wr[0].wr.rdma.remote_addr = wr[1].wr.rdma.remote_addr = link->there.memory;
		CHECK(!ibv_post_send(link->qp, wr, &bad), "%m");
		break;
	default:
		break;
	}
	CHECK(status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(status));
}

static void requester(struct cast *cast)
{
	const struct scene *scene = cast->argument;
	char *memory = memory_make(MEMORY_MMAP, REGION_BYTES);
	struct outcome *outcome = scene->outcome;
	struct node node;
	struct link link;
	struct ibv_mr *mr;
	unsigned n;

	begin(scene, &node, &link);
	mr = region_make(&node, memory, REGION_BYTES, REMOTE_ALL);
	link_set_region(&link, mr);
	link_exchange(cast, 1, &link);
	link_raise(&link, IBV_QPS_RTS);
	meet(cast, 1);
	for (n = 0; n < SENDS; n++) {
		send_one(scene, &link, mr, memory, n);
		/* The first are packets, until both have agreed. */
		collect(outcome, &node, n + 1);
	}
	meet(cast, 1);
	change_of_requester(cast, scene, &link, &mr, memory, &node);
	if (scene->change == PEER_DIES)
		usleep(200000);
	else
		meet(cast, 1);
	for (n = SENDS; n < 2 * SENDS; n++)
		send_one(scene, &link, mr, memory, n);
	if (scene->change == LATE_RECEIVE)
		meet(cast, 1);
	collect(outcome, &node, COMPLETIONS);
	if (scene->change == ARMED) {
		struct ibv_cq *cq;
		void *context;

		CHECK(!ibv_get_cq_event(node.channel, &cq, &context), "%m");
		ibv_ack_cq_events(cq, 1);
		outcome->events++;
	}
	if (scene->change != PEER_DIES)
		meet(cast, 1);
}

static void receive_some(const struct scene *scene, struct link *link, const struct ibv_mr *mr, unsigned from,
			 unsigned to)
{
	uint32_t bytes = scene->change == PEER_RECEIVES_LESS && from >= SENDS ? 63 : 64;

	for (; from < to; from++) {
		struct ibv_sge sge[2] = { { (uintptr_t)mr->addr + 1024 * from, bytes, mr->lkey },
					  { (uintptr_t)mr->addr, 0, mr->lkey } };
		struct ibv_recv_wr wr = { .wr_id = from, .sg_list = sge,
					  .num_sge = scene->short_cut ? 1 : 2 }, *bad;

		if (from == COMPLETIONS)
			sge[0].length = 16 * KIB;
		CHECK(!ibv_post_recv(link->qp, &wr, &bad), "%m");
	}
}

/* True: the receives that are left name another region. */
static bool change_of_target(struct scene *scene, struct node *node, struct link *link, struct ibv_mr **mr,
			     char *memory)
{
	switch (scene->change) {
	case PEER_FAILS:
		move(link, IBV_QPS_ERR);
		break;
	case PEER_RESETS:
	case OWN_AGAIN:
		move(link, IBV_QPS_RESET);
		break;
	case PEER_DRAINS:
		move(link, IBV_QPS_SQD);
		move(link, IBV_QPS_RTS);
		break;
	case PEER_REGION_GONE:
		CHECK(!ibv_dereg_mr(*mr), "%m");
		break;
	case PEER_REGION_ANEW:
		CHECK(!ibv_dereg_mr(*mr), "%m");
		*mr = region_make(node, memory, REGION_BYTES, REMOTE_ALL);
		return true;
	case PEER_RECEIVES_LESS:
		return true;
	case PEER_REGION_SHORT:
		CHECK(!ibv_rereg_mr(*mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 1024 * (SENDS + 2), 0),
		      "%m");
		break;
	case PEER_REGION_READ:
		CHECK(!ibv_rereg_mr(*mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ), "%m");
		break;
	case PEER_REGION_ELSEWHERE:
		CHECK(!ibv_rereg_mr(*mr, IBV_REREG_MR_CHANGE_PD, ibv_alloc_pd(node->context), NULL, 0, 0), "%m");
		break;
	case PEER_DENIES:
		CHECK(!ibv_modify_qp(link->qp, &(struct ibv_qp_attr){ .qp_access_flags = IBV_ACCESS_REMOTE_READ },
				     IBV_QP_ACCESS_FLAGS), "%m");
		break;
	case PEER_ARMS:
		CHECK(!ibv_req_notify_cq(node->cq, 0), "%m");
		break;
	default:
		break;
	}
	return false;
}

/* WRITEs are stores where they are to a block: under `verbatim run` what is aligned to pages is one. */
static void target(struct cast *cast)
{
	struct scene *scene = cast->argument;
	struct outcome *outcome = scene->outcome;
	char *memory = memory_make(scene->writes ? MEMORY_ALIGNED : MEMORY_MMAP, REGION_BYTES);
	bool later = scene->change == NO_RECEIVE || scene->change == LATE_RECEIVE || scene->change == OWN_AGAIN ||
		     scene->change == LONG_BETWEEN || scene->change == PEER_REGION_ANEW ||
		     scene->change == PEER_RECEIVES_LESS;
	struct node node;
	struct link link;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	unsigned n;

	begin(scene, &node, &link);
	mr = region_make(&node, memory, REGION_BYTES, REMOTE_ALL);
	link_set_region(&link, mr);
	link_exchange(cast, 0, &link);
	link_raise(&link, IBV_QPS_INIT);
	receive_some(scene, &link, mr, 0, later ? SENDS : COMPLETIONS);
	link_raise(&link, IBV_QPS_RTS);
	meet(cast, 0);
	meet(cast, 0);
	if (scene->change == PEER_DIES)
		_exit(0);	/* closing nothing */
	if (change_of_target(scene, &node, &link, &mr, memory))
		receive_some(scene, &link, mr, SENDS, COMPLETIONS);
	if (scene->change == OWN_AGAIN) {
		meet(cast, 0);
		link_raise(&link, IBV_QPS_INIT);
		receive_some(scene, &link, mr, SENDS, COMPLETIONS);
		link_raise(&link, IBV_QPS_RTS);
	}
	if (scene->change == LONG_BETWEEN) {
		receive_some(scene, &link, mr, COMPLETIONS, COMPLETIONS + 1);
		receive_some(scene, &link, mr, SENDS, COMPLETIONS);
		meet(cast, 0);
	}
	meet(cast, 0);
	if (scene->change == LATE_RECEIVE) {
		usleep(20000);
		receive_some(scene, &link, mr, SENDS, COMPLETIONS);
		meet(cast, 0);
	}
	meet(cast, 0);
	if (scene->change == PEER_ARMS) {
		struct ibv_cq *cq;
		void *context;

		CHECK(!ibv_get_cq_event(node.channel, &cq, &context), "%m");
		ibv_ack_cq_events(cq, 1);
		outcome->events++;
	}
	while (outcome->received < COMPLETIONS && ibv_poll_cq(node.cq, 1, &wc) > 0) {
		if (wc.wr_id >= COMPLETIONS)
			continue;
		outcome->receive_id[outcome->received] = wc.wr_id;
		if (wc.status == IBV_WC_SUCCESS)
			outcome->data[outcome->received] = memory[1024 * wc.wr_id];
		outcome->receive_status[outcome->received++] = wc.status;
	}
	for (n = 0; scene->writes && n < COMPLETIONS; n++)
		outcome->data[n] = memory[1024 * n];
}

static void play(struct scene *scene, bool short_cut, struct outcome *outcome)
{
	actor_fn *const actor[] = { requester, target };
	struct cast cast;

	memset(scene->outcome, 0, sizeof(*outcome));
	scene->short_cut = short_cut;
	cast_start(&cast, 2, actor, scene);
	cast_end(&cast, 30);
	*outcome = *scene->outcome;
}

static void compare(bool writes)
{
	struct scene scene = { .writes = writes };
	struct outcome long_way, short_cut;
	unsigned n, differences = 0;

	scene.outcome = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(scene.outcome != MAP_FAILED, "%m");
	for (scene.change = 0; scene.change < CHANGES; scene.change++) {
		if (writes && OF_RECEIVES & BIT(scene.change))
			continue;
		play(&scene, false, &long_way);
		play(&scene, true, &short_cut);
		if (!memcmp(&long_way, &short_cut, sizeof(long_way)))
			continue;
		differences++;
		say("%s:", change_name[scene.change]);
		for (n = 0; n < COMPLETIONS; n++)
			say("  %2u: posted %d and %d, completed %llu %s and %llu %s; "
			    "received %u '%c' and %u '%c'", n,
			    long_way.posted[n], short_cut.posted[n], (unsigned long long)long_way.id[n],
			    ibv_wc_status_str(long_way.status[n]), (unsigned long long)short_cut.id[n],
			    ibv_wc_status_str(short_cut.status[n]), long_way.receive_status[n], long_way.data[n],
			    short_cut.receive_status[n], short_cut.data[n]);
	}
	CHECK(!differences, "%u differences", differences);
}

static void compare_sends(void)
{
	compare(false);
}

static void compare_writes(void)
{
	compare(true);
}

/* ---- a key of another QP ---- */

#define OTHERS 2		/* QPs, each of a PD of its own at the target, with a region there */
#define WARM 200u

static enum ibv_wc_status write_one(struct node *node, struct link *link, const struct ibv_mr *mr,
				    const struct address *to)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
				  .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { to->memory, to->rkey } }, *bad;
	struct ibv_wc wc = { 0 };

	CHECK(!ibv_post_send(link->qp, &wr, &bad), "%m");
	CHECK(get(node, &wc, 10), "no completion");
	return wc.status;
}

/* Both regions are known and mapped here, and each is for its own QP. */
static void key_requester(struct cast *cast)
{
	char *memory = memory_make(MEMORY_MMAP, PAGE);
	struct link link[OTHERS];
	struct node node;
	struct ibv_mr *mr;
	unsigned n;

	node_open(&node);
	mr = region_make(&node, memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
	for (n = 0; n < OTHERS; n++)
		link_connect(cast, 1, &link[n], &node, mr);
	memset(memory, KEPT_MARK, PAGE);
	for (n = 0; n < OTHERS * WARM; n++)
		CHECK(write_one(&node, &link[n / WARM], mr, &link[n / WARM].there) == IBV_WC_SUCCESS);
	memset(memory, LATER_MARK, PAGE);
	CHECK(write_one(&node, &link[1], mr, &link[0].there) == IBV_WC_REM_ACCESS_ERR,
	      "a WRITE to a region of another PD");
	meet(cast, 1);
}

static void key_target(struct cast *cast)
{
	struct node node[OTHERS];
	struct link link[OTHERS];
	char *memory[OTHERS];
	unsigned n;

	node_open(&node[0]);
	for (n = 0; n < OTHERS; n++) {
		memory[n] = memory_make(MEMORY_ALIGNED, PAGE);
		node[n] = node[0];
		node[n].pd = ibv_alloc_pd(node[0].context);
		CHECK(node[n].pd, "%m");
		link_connect(cast, 0, &link[n], &node[n], region_make(&node[n], memory[n], PAGE, REMOTE_ALL));
	}
	meet(cast, 0);
	for (n = 0; n < OTHERS; n++)
		CHECK(memory[n][0] == KEPT_MARK, "what came is %d", memory[n][0]);
}

static void use_key_of_another(void)
{
	actor_fn *const actor[] = { key_requester, key_target };
	struct cast cast;

	CHECK(!setenv("VERBATIM_MEMORY", "auto", 1));
	cast_start(&cast, 2, actor, NULL);
	cast_end(&cast, 60);
}

/* ---- a region goes while another thread posts from it ---- */

#define ROUNDS 12
#define LATER_MOST 1000u	/* requests that are posted when the region is gone */
#define SENDER_WINDOW 32u

/* Shared by both ends. */
struct losing {
	bool writes;
	_Atomic unsigned over;		/* rounds whose requests are all posted */
};

struct sender {
	struct node node;
	struct link link;
	struct ibv_mr *mr;
	bool writes;
	_Atomic unsigned posted;
	_Atomic bool gone;		/* the region */
};

/* Until a request fails, which is NULL: the region is gone then. */
static void *sender_run(void *argument)
{
	struct sender *sender = argument;
	struct ibv_sge sge = { (uintptr_t)sender->mr->addr, 64, sender->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
				  .opcode = sender->writes ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
				  .wr.rdma = { sender->link.there.memory, sender->link.there.rkey } }, *bad;
	unsigned done = 0, posted = 0, later;
	struct ibv_wc wc;

	for (later = 0; later < LATER_MOST; later += atomic_load(&sender->gone)) {
		CHECK(!ibv_post_send(sender->link.qp, &wr, &bad), "%m");
		atomic_store(&sender->posted, ++posted);
		do {
			int got = ibv_poll_cq(sender->node.cq, 1, &wc);

			CHECK(got >= 0, "%m");
			if (got && wc.status != IBV_WC_SUCCESS)
				return NULL;
			done += (unsigned)got;
		} while (posted - done >= SENDER_WINDOW);
	}
	return sender;
}

static void losing_requester(struct cast *cast)
{
	struct losing *losing = cast->argument;
	unsigned round;

	for (round = 0; round < ROUNDS; round++) {
		char *memory = memory_make(MEMORY_MMAP, PAGE);
		struct sender sender = { .writes = losing->writes };
		unsigned wanted = 100 + (unsigned)random_below(3000);
		pthread_t thread;
		void *good;

		memset(memory, KEPT_MARK, PAGE);
		node_open(&sender.node);
		sender.mr = region_make(&sender.node, memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
		link_connect(cast, 1, &sender.link, &sender.node, sender.mr);
		CHECK(!pthread_create(&thread, NULL, sender_run, &sender));
		while (atomic_load(&sender.posted) < wanted)
			sched_yield();
		CHECK(!ibv_dereg_mr(sender.mr), "%m");
		memset(memory, LATER_MARK, PAGE);
		atomic_store(&sender.gone, true);
		CHECK(!pthread_join(thread, &good));
		CHECK(!good, "requests from a region that is gone succeed");
		atomic_store(&losing->over, round + 1);
		meet(cast, 1);
		CHECK(!ibv_destroy_qp(sender.link.qp), "%m");
		node_close(&sender.node);
	}
}

static void unharmed_target(struct cast *cast)
{
	struct losing *losing = cast->argument;
	unsigned round;

	for (round = 0; round < ROUNDS; round++) {
		char *memory = memory_make(losing->writes ? MEMORY_ALIGNED : MEMORY_MMAP, PAGE);
		struct node node;
		struct link link;
		struct ibv_mr *mr;
		struct ibv_wc wc;
		unsigned n;

		node_open(&node);
		mr = region_make(&node, memory, PAGE, REMOTE_ALL);
		link_make(&link, &node);
		link_set_region(&link, mr);
		link_exchange(cast, 0, &link);
		link_raise(&link, IBV_QPS_INIT);
		for (n = 0; n < SENDER_WINDOW && !losing->writes; n++)
			CHECK(!post_receive(&link, mr, 64 * n, 64, n));
		link_raise(&link, IBV_QPS_RTS);
		meet(cast, 0);
		while (atomic_load(&losing->over) == round) {
			if (ibv_poll_cq(node.cq, 1, &wc) <= 0 || wc.status != IBV_WC_SUCCESS)
				continue;
			CHECK(memory[64 * wc.wr_id] == KEPT_MARK, "what came is %d", memory[64 * wc.wr_id]);
			CHECK(!post_receive(&link, mr, 64 * wc.wr_id, 64, wc.wr_id));
		}
		await_cue(cast, 0);
		CHECK(!memchr(memory, LATER_MARK, PAGE), "what was written behind ibv_dereg_mr() arrived");
		cue(cast, 0);
		CHECK(!ibv_destroy_qp(link.qp), "%m");
		CHECK(!ibv_dereg_mr(mr), "%m");
		node_close(&node);
	}
}

static void lose_region(bool writes)
{
	actor_fn *const actor[] = { losing_requester, unharmed_target };
	struct losing *losing = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cast cast;

	CHECK(losing != MAP_FAILED, "%m");
	losing->writes = writes;
	CHECK(!setenv("VERBATIM_MEMORY", "auto", 1));
	cast_start(&cast, 2, actor, losing);
	cast_end(&cast, 60);
}

static void lose_region_of_sends(void)
{
	lose_region(false);
}

static void lose_region_of_writes(void)
{
	lose_region(true);
}

const struct hostile_case shortcut_cases[] = {
	{ "shortcut", "a SEND is the same, whatever changed behind the one before it", compare_sends },
	{ "shortcut_write", "a WRITE is the same, whatever changed behind the one before it", compare_writes },
	{ "shortcut_key", "a WRITE to a region that another QP may write", use_key_of_another },
	{ "kept_send", "a region that goes while another thread posts SENDs from it", lose_region_of_sends },
	{ "kept_write", "a region that goes while another thread posts WRITEs from it", lose_region_of_writes },
	{ 0 },
};
