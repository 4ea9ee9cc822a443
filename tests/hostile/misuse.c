/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An attacker of the same user who may not ptrace its victim. It has a QP that is connected, one
 * key to read and one to write, and the honest library in its process. Then it reads, writes,
 * fills, truncates whatever came into its address space and its descriptor table.
 *
 * The victim works with an honest process meanwhile, and watches: regions that nobody has a key of,
 * regions that may be read only, its own requests to the attacker, the time that its calls take.
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>

enum { VICTIM, FRIEND, ATTACKER, DIRECTOR };

#define HOARD_BYTES (256 * KIB)
#define SECRET_BYTES 32
#define ATTACK_S 1.5
#define CALL_LIMIT_S 2.0

/* ---- what the victim has, and the attacker is not to have ---- */

enum guarded { NO_RIGHTS, KEY_UNTOLD, OTHER_PD, GUARDED };
static const char *const guarded_name[GUARDED] = {"no remote rights", "a key that nobody was told",
						  "another PD"};

struct hoard {
	char *memory[MEMORY_KINDS][GUARDED];
	struct ibv_mr *mr[MEMORY_KINDS][GUARDED];
	struct ibv_pd *other_pd;
	char secret[SECRET_BYTES];
};

static void fill_with(char *memory, size_t bytes, const char *secret)
{
	size_t at;

	for (at = 100; at + SECRET_BYTES <= bytes; at += 500)
		memcpy(memory + at, secret, SECRET_BYTES);
}

static void hoard_make(struct hoard *hoard, struct node *node)
{
	enum memory_kind kind;
	enum guarded why;

	CHECK(getrandom(hoard->secret, SECRET_BYTES, 0) == SECRET_BYTES, "%m");
	hoard->other_pd = ibv_alloc_pd(node->context);
	CHECK(hoard->other_pd, "%m");
	for (kind = MEMORY_MMAP; kind < MEMORY_KINDS; kind++)
		for (why = NO_RIGHTS; why < GUARDED; why++) {
			hoard->memory[kind][why] = memory_make(kind, HOARD_BYTES);
			hoard->mr[kind][why] =
				ibv_reg_mr(why == OTHER_PD ? hoard->other_pd : node->pd,
					   hoard->memory[kind][why], HOARD_BYTES,
					   why == NO_RIGHTS ? IBV_ACCESS_LOCAL_WRITE : REMOTE_ALL);
			CHECK(hoard->mr[kind][why], "%m");
			fill_with(hoard->memory[kind][why], HOARD_BYTES, hoard->secret);
		}
}

static void hoard_check(const struct hoard *hoard)
{
	static char *whole;
	enum memory_kind kind;
	enum guarded why;

	if (!whole) {
		whole = calloc(1, HOARD_BYTES);
		CHECK(whole);
		fill_with(whole, HOARD_BYTES, hoard->secret);
	}
	for (kind = MEMORY_MMAP; kind < MEMORY_KINDS; kind++)
		for (why = NO_RIGHTS; why < GUARDED; why++)
			CHECK(!memcmp(hoard->memory[kind][why], whole, HOARD_BYTES),
			      "a region of %s with %s has changed", memory_kind_name[kind],
			      guarded_name[why]);
}

static void hoard_free(struct hoard *hoard)
{
	enum memory_kind kind;
	enum guarded why;

	for (kind = MEMORY_MMAP; kind < MEMORY_KINDS; kind++)
		for (why = NO_RIGHTS; why < GUARDED; why++) {
			CHECK(!ibv_dereg_mr(hoard->mr[kind][why]), "%m");
			memory_free(kind, hoard->memory[kind][why], HOARD_BYTES);
		}
	CHECK(!ibv_dealloc_pd(hoard->other_pd), "%m");
}

/* ---- what the attacker may have ---- */

struct grants {
	enum memory_kind kind;
	char *readable, *writable;
	struct ibv_mr *read_mr, *write_mr;
};

struct told {
	uint32_t read_key, write_key;
	uint64_t readable, writable;
	char secret[SECRET_BYTES];
};

static void grants_make(struct grants *grants, struct node *node, enum memory_kind kind)
{
	grants->kind = kind;
	grants->readable = memory_make(kind, HOARD_BYTES);
	grants->writable = memory_make(kind, HOARD_BYTES);
	memset(grants->readable, 'r', HOARD_BYTES);
	grants->read_mr = region_make(node, grants->readable, HOARD_BYTES,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	grants->write_mr = region_make(node, grants->writable, HOARD_BYTES, REMOTE_ALL);
}

static void grants_tell(struct cast *cast, const struct grants *grants, const char *secret)
{
	struct told told = {grants->read_mr->rkey, grants->write_mr->rkey,
			    (uintptr_t)grants->readable, (uintptr_t)grants->writable, ""};

	memcpy(told.secret, secret, SECRET_BYTES);
	tell(cast, ATTACKER, &told, sizeof(told));
}

static void grants_check(const struct grants *grants)
{
	size_t i;

	for (i = 0; i < HOARD_BYTES; i++)
		CHECK(grants->readable[i] == 'r',
		      "a region that may only be read has changed at %zu", i);
}

static void grants_free(struct grants *grants)
{
	CHECK(!ibv_dereg_mr(grants->read_mr) && !ibv_dereg_mr(grants->write_mr), "%m");
	memory_free(grants->kind, grants->readable, HOARD_BYTES);
	memory_free(grants->kind, grants->writable, HOARD_BYTES);
}

/* The attacker as an honest peer: after this the two share what they will share. */
static void use_grants(struct link *link, const struct ibv_mr *mr, const struct told *told)
{
	const char *memory = mr->addr;
	unsigned i;

	for (i = 0; i < 30; i++) {
		link->there.rkey = told->write_key;
		link->there.memory = told->writable;
		CHECK(transfer(link, IBV_WR_RDMA_WRITE, mr, 0, 32 * KIB, 0) == IBV_WC_SUCCESS);
		link->there.rkey = told->read_key;
		link->there.memory = told->readable;
		CHECK(transfer(link, IBV_WR_RDMA_READ, mr, 32 * KIB, 32 * KIB, 0) ==
		      IBV_WC_SUCCESS);
		CHECK(memory[32 * KIB] == 'r');
		usleep(i < 10 ? 2000 : 0);
	}
}

/* ---- requests to the attacker: each completes, once, in order ---- */

#define BURST 16

struct burst {
	struct node node; /* with a CQ for these alone */
	struct link link;
	char *memory;
	struct ibv_mr *mr;
	uint64_t posted, completed;
	double last_s; /* of a completion, or of the first request that waits for one */
	bool failed;
};

static void burst_connect(struct cast *cast, struct burst *burst)
{
	memset(burst, 0, sizeof(*burst));
	node_open(&burst->node);
	burst->memory = memory_make(MEMORY_MMAP, 64 * KIB);
	burst->mr = region_make(&burst->node, burst->memory, 64 * KIB, REMOTE_ALL);
	link_make(&burst->link, &burst->node);
	burst->link.timeout = 12;
	burst->link.rnr_retry = 3;
	link_set_region(&burst->link, burst->mr);
	link_exchange(cast, ATTACKER, &burst->link);
	link_raise(&burst->link, IBV_QPS_RTS);
	meet(cast, ATTACKER);
}

static bool is_of_the_peer(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_BAD_RESP_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return true;
	default:
		return false;
	}
}

static void burst_take(struct burst *burst)
{
	struct ibv_wc wc;
	int got;

	while ((got = ibv_poll_cq(burst->node.cq, 1, &wc)) > 0) {
		CHECK(burst->completed < burst->posted, "a completion too many: %llu",
		      (unsigned long long)wc.wr_id);
		CHECK(wc.wr_id == burst->completed, "completion of %llu, not %llu",
		      (unsigned long long)wc.wr_id, (unsigned long long)burst->completed);
		CHECK(is_of_the_peer(wc.status), "request %llu: %s", (unsigned long long)wc.wr_id,
		      ibv_wc_status_str(wc.status));
		burst->failed |= wc.status != IBV_WC_SUCCESS;
		burst->completed++;
		burst->last_s = now();
	}
	CHECK(!got, "ibv_poll_cq: %d", got);
	CHECK(burst->completed == burst->posted || now() - burst->last_s < 10,
	      "request %llu has not completed in 10 s", (unsigned long long)burst->completed);
}

static void burst_post(struct burst *burst)
{
	static const enum ibv_wr_opcode opcode[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						    IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wr_opcode chosen = opcode[random_below(4)];

	if (burst->completed == burst->posted)
		burst->last_s = now();
	CHECK(!post(&burst->link, chosen, burst->mr, 0,
		    chosen == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : (uint32_t)random_below(32 * KIB), 0,
		    burst->posted++));
}

static void burst_go_on(struct burst *burst)
{
	burst_take(burst);
	while (!burst->failed && burst->posted - burst->completed < BURST)
		burst_post(burst);
}

static void burst_end(struct burst *burst)
{
	while (burst->completed < burst->posted)
		burst_take(burst);
	CHECK(!ibv_destroy_qp(burst->link.qp), "%m");
	CHECK(!ibv_dereg_mr(burst->mr), "%m");
	memory_free(MEMORY_MMAP, burst->memory, 64 * KIB);
	node_close(&burst->node);
}

/* ---- the victim ---- */

static bool undumpable;
static int starter; /* says that the attack has begun */

static void become_victim(void)
{
	become_plain(USER_A);
	if (undumpable)
		CHECK(!prctl(PR_SET_DUMPABLE, 0), "%m");
}

/* Registering and deregistering stay calls that return. */
static void register_something(struct node *node)
{
	static char memory[64 * KIB];
	double begin_s = now();
	struct ibv_mr *mr = region_make(node, memory, sizeof(memory), REMOTE_ALL);

	CHECK(!ibv_dereg_mr(mr), "%m");
	CHECK(now() - begin_s < CALL_LIMIT_S, "to register and deregister took %.1f s",
	      now() - begin_s);
}

static void attacked_victim(struct cast *cast)
{
	double until_s, begin_s;
	struct holdings before;
	struct steady steady;
	struct grants grants;
	struct hoard hoard;
	struct burst burst;
	struct node node;

	become_victim();
	node_open(&node);
	hoard_make(&hoard, &node);
	steady_connect(cast, FRIEND, &steady, &node);
	steady_drive(&steady, 0.1);
	before = holdings_settled();
	burst_connect(cast, &burst);
	grants_make(&grants, &burst.node, MEMORY_ALIGNED);
	grants_tell(cast, &grants, hoard.secret);
	await_cue(cast, starter);
	for (until_s = now() + ATTACK_S; now() < until_s;) {
		burst_go_on(&burst);
		steady_drive(&steady, 0.02);
		register_something(&node);
		hoard_check(&hoard);
		grants_check(&grants);
	}
	CHECK(steady.slowest_s < HONEST_LIMIT_S, "a round with an honest peer took %.1f s",
	      steady.slowest_s);
	begin_s = now();
	grants_free(&grants);
	CHECK(now() - begin_s < 2 * CALL_LIMIT_S, "to deregister what was granted took %.1f s",
	      now() - begin_s);
	cue(cast, DIRECTOR); /* who ends the attacker */
	await_cue(cast, DIRECTOR);
	burst_end(&burst);
	steady_drive(&steady, 0.1);
	holdings_compare(&before);
	steady_end(cast, FRIEND, &steady);
	hoard_check(&hoard);
	hoard_free(&hoard);
	node_close(&node);
}

static void honest_friend(struct cast *cast)
{
	struct node node;

	become_plain(USER_A);
	node_open(&node);
	steady_echo(cast, VICTIM, &node);
	node_close(&node);
}

/* ---- the attacker ---- */

struct attacker {
	struct node node;
	struct link link;
	struct ibv_mr *mr;
	struct told told;
};

static void attacker_connect(struct cast *cast, struct attacker *attacker)
{
	become_plain(USER_A);
	attack_spare_descriptors();
	node_open(&attacker->node);
	attacker->mr = region_make(&attacker->node, memory_make(MEMORY_MMAP, 64 * KIB), 64 * KIB,
				   REMOTE_ALL);
	link_connect(cast, VICTIM, &attacker->link, &attacker->node, attacker->mr);
	hear(cast, VICTIM, &attacker->told, sizeof(attacker->told));
	use_grants(&attacker->link, attacker->mr, &attacker->told);
}

static void scribble_on_everything(void *argument)
{
	static struct span span[SPANS_MAX];
	unsigned spans = attack_map_everything(span);

	attack_scribble(span, spans, 60);
}

static void misuse_descriptors(void *argument)
{
	attack_descriptors(60);
}

/* The parent is asleep; it is stopped there, so that what would wake it stays full. */
static void fill_descriptors(void *argument)
{
	pid_t parent = getppid();

	usleep(100000);
	CHECK(wait_state(parent, "S"), "the attacker does not sleep");
	kill(parent, SIGSTOP);
	CHECK(wait_state(parent, "T"), "the attacker does not stop");
	attack_fill(0.05);
	cue(argument, DIRECTOR);
	attack_fill(60);
}

/* Until it is killed. Half of the time its own library goes on, with what is being scribbled on. */
static void attack_with(struct cast *cast, void (*one)(void *), void (*other)(void *))
{
	bool goes_on = random_below(2);
	struct attacker attacker;

	attacker_connect(cast, &attacker);
	attack_fork(one, NULL);
	if (other)
		attack_fork(other, NULL);
	cue(cast, VICTIM);
	while (goes_on)
		use_grants(&attacker.link, attacker.mr, &attacker.told);
	pause();
}

static void scribbler(struct cast *cast)
{
	attack_with(cast, scribble_on_everything, NULL);
}

static void truncator(struct cast *cast)
{
	attack_with(cast, misuse_descriptors, NULL);
}

static void vandal(struct cast *cast)
{
	attack_with(cast, scribble_on_everything, misuse_descriptors);
}

/* Asleep: it has to be woken. */
static void sleeper(struct cast *cast)
{
	struct attacker attacker;
	struct ibv_cq *cq;
	void *context;

	attacker_connect(cast, &attacker);
	CHECK(!ibv_req_notify_cq(attacker.node.cq, 0), "%m");
	attack_fork(fill_descriptors, cast);
	ibv_get_cq_event(attacker.node.channel, &cq, &context);
	pause();
}

/* ---- what can be read ---- */

/* In the friend's place, who is not needed. */
static void idler(struct cast *cast)
{
}

static unsigned ask_what_is_seen(struct cast *cast)
{
	unsigned pages;

	hear(cast, ATTACKER, &pages, sizeof(pages));
	return pages;
}

static void secretive_victim(struct cast *cast)
{
	char *later[2 * MEMORY_KINDS];
	enum memory_kind kind;
	struct grants grants;
	struct hoard hoard;
	struct burst burst;
	unsigned pages, i;

	become_victim();
	burst_connect(cast, &burst);
	hoard_make(&hoard, &burst.node);
	for (kind = MEMORY_MMAP; kind < MEMORY_KINDS; kind++) {
		grants_make(&grants, &burst.node, kind);
		grants_tell(cast, &grants, hoard.secret);
		pages = ask_what_is_seen(cast);
		CHECK(!pages, "%u pages of regions that it has no key of", pages);
		grants_free(&grants);
		for (i = 0; i < 2; i++) {
			later[2 * kind + i] = memory_make(kind, HOARD_BYTES);
			fill_with(later[2 * kind + i], HOARD_BYTES, hoard.secret);
		}
		region_make(&burst.node, later[2 * kind], HOARD_BYTES, REMOTE_ALL);
		cue(cast, ATTACKER);
		pages = ask_what_is_seen(cast);
		CHECK(!pages, "%u pages where memory of %s was deregistered and used again", pages,
		      memory_kind_name[kind]);
	}
	cue(cast, ATTACKER);
}

static void reader(struct cast *cast)
{
	struct attacker attacker;
	enum memory_kind kind;
	unsigned pages;

	for (kind = MEMORY_MMAP; kind < MEMORY_KINDS; kind++) {
		if (kind == MEMORY_MMAP) {
			attacker_connect(cast, &attacker);
		} else {
			hear(cast, VICTIM, &attacker.told, sizeof(attacker.told));
			use_grants(&attacker.link, attacker.mr, &attacker.told);
		}
		pages = attack_find(attacker.told.secret, SECRET_BYTES);
		tell(cast, VICTIM, &pages, sizeof(pages));
		await_cue(cast, VICTIM);
		pages = attack_find(attacker.told.secret, SECRET_BYTES);
		tell(cast, VICTIM, &pages, sizeof(pages));
	}
	await_cue(cast, VICTIM);
}

static void let_read(bool refuse_ptrace)
{
	actor_fn *const actor[] = {secretive_victim, idler, reader};
	struct cast cast;

	undumpable = refuse_ptrace;
	cast_start(&cast, 3, actor, NULL);
	cast_end(&cast, 30);
}

static void secrets_undumpable(void)
{
	let_read(true);
}

static void secrets(void)
{
	let_read(false);
}

/* ---- cases ---- */

static void let_attack(actor_fn *attacker, bool refuse_ptrace)
{
	actor_fn *const actor[] = {attacked_victim, honest_friend, attacker};
	struct cast cast;

	undumpable = refuse_ptrace;
	starter = ATTACKER;
	cast_start(&cast, 3, actor, NULL);
	await_cue(&cast, VICTIM);
	cast_forget(&cast, ATTACKER);
	cue(&cast, VICTIM);
	cast_end(&cast, 30);
}

static void scribble_undumpable(void)
{
	let_attack(scribbler, true);
}

static void scribble(void)
{
	let_attack(scribbler, false);
}

static void truncate_undumpable(void)
{
	let_attack(truncator, true);
}

static void truncate_everything(void)
{
	let_attack(truncator, false);
}

static void both_at_once(void)
{
	let_attack(vandal, true);
}

static void blocking_descriptors(void)
{
	actor_fn *const actor[] = {attacked_victim, honest_friend, sleeper};
	struct cast cast;

	undumpable = true;
	starter = DIRECTOR;
	cast_start(&cast, 3, actor, NULL);
	await_cue(&cast, ATTACKER);
	cue(&cast, VICTIM);
	CHECK(await_cue_within(&cast, VICTIM, 15), "the victim does not go on");
	cast_forget(&cast, ATTACKER);
	cue(&cast, VICTIM);
	cast_end(&cast, 30);
}

const struct hostile_case misuse_cases[] = {
	{"secrets-undumpable", "a peer that may not ptrace us sees nothing that it has no key of",
	 secrets_undumpable},
	{"secrets", "nor does a peer of the same user see it, in what is mapped", secrets},
	{"scribble-undumpable", "a peer that may not ptrace us scribbles on all that it has",
	 scribble_undumpable},
	{"scribble", "a peer of the same user scribbles on all that it has", scribble},
	{"truncate-undumpable", "a peer that may not ptrace us misuses its descriptors",
	 truncate_undumpable},
	{"truncate", "a peer of the same user misuses its descriptors", truncate_everything},
	{"vandal", "both at once", both_at_once},
	{"blocking-descriptors", "a peer fills what we would write to, and is stopped",
	 blocking_descriptors},
	{0},
};
