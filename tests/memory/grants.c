/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer may do with a key, and for how long: through memory exactly what it may over UDP. Each case is run
 * with VERBATIM_MEMORY=off first; every other mode has to come to the same completions and the same memory.
 */
#include <sys/mman.h>

#include "device/internal.h"
#include "local/grant/control.h"
#include "local/grant/grant.h"
#include "local/channel/peer.h"
#include "pair.h"
#include "verbs/verbs.h"

#define BYTES 65536u
#define HALF (BYTES / 2)

static bool goes_without_packets(void)
{
	const char *mode = getenv("VERBATIM_MEMORY");

	return strcmp(mode, "ring") && strcmp(mode, "off");
}

/* WRITEs and READs until both ends know what the other one grants. */
static void learn(struct end *end)
{
	unsigned i;

	for (i = 0; i < 10; i++) {
		CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 0) == IBV_WC_SUCCESS);
		CHECK(transfer(end, IBV_WR_RDMA_READ, 8, 8, 8) == IBV_WC_SUCCESS);
		usleep(500);
	}
}

static uint64_t direct(void)
{
	return counter_here(COUNTER_LOCAL_WRITE) + counter_here(COUNTER_LOCAL_READ) +
	       counter_here(COUNTER_LOCAL_ATOMIC);
}

/* A channel takes its time where others have the processors. */
static void await_direct(struct end *end)
{
	double until = now() + LIMIT_S;

	while (goes_without_packets() && !direct()) {
		CHECK(now() < until, "all goes as packets");
		CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, HALF) == IBV_WC_SUCCESS);
		usleep(500);
	}
}

/* ---- keys, rights, bounds ---- */

enum key { GOOD, OTHER_PD, READ_ONLY, WRITE_ONLY, ATOMIC_ONLY, NO_REMOTE, SHORT, GONE, KEYS };

static const struct key_use {
	enum ibv_wr_opcode opcode;
	enum key key;
	int64_t at; /* from the beginning of the region */
	uint32_t bytes;
	bool succeeds;
} attempts[] = {
	{IBV_WR_RDMA_WRITE, GOOD, 0, 64, true},
	{IBV_WR_RDMA_WRITE, OTHER_PD, 0, 64, false},
	{IBV_WR_RDMA_READ, OTHER_PD, 0, 64, false},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, OTHER_PD, 0, 8, false},
	{IBV_WR_RDMA_READ, READ_ONLY, 0, 64, true},
	{IBV_WR_RDMA_WRITE, READ_ONLY, 0, 64, false},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, READ_ONLY, 0, 8, false},
	{IBV_WR_RDMA_WRITE, WRITE_ONLY, 0, 64, true},
	{IBV_WR_RDMA_READ, WRITE_ONLY, 0, 64, false},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, WRITE_ONLY, 0, 8, false},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, ATOMIC_ONLY, 0, 8, true},
	{IBV_WR_RDMA_WRITE, ATOMIC_ONLY, 0, 64, false},
	{IBV_WR_RDMA_READ, ATOMIC_ONLY, 0, 64, false},
	{IBV_WR_RDMA_READ, NO_REMOTE, 0, 1, false},
	{IBV_WR_RDMA_WRITE, SHORT, 0, 4000, true},
	{IBV_WR_RDMA_WRITE, SHORT, 0, 4001, false},
	{IBV_WR_RDMA_WRITE, SHORT, 3999, 2, false},
	{IBV_WR_RDMA_READ, SHORT, 4000, 1, false},
	{IBV_WR_RDMA_READ, SHORT, -1, 1, false},
	{IBV_WR_RDMA_WRITE, SHORT, -4096, 8192, false},
	{IBV_WR_RDMA_READ, SHORT, INT64_MAX, 8, false},
	{IBV_WR_RDMA_WRITE, SHORT, 4001, 0, true}, /* nothing is moved: nothing is checked */
	{IBV_WR_RDMA_WRITE, GONE, 0, 64, false},
	{IBV_WR_RDMA_READ, GONE, 0, 64, false},
};
#define ATTEMPTS (sizeof(attempts) / sizeof(attempts[0]))

struct keys {
	uint32_t key[KEYS];
	uint64_t address[KEYS];
};

static void owns_regions(struct end *end, void *argument)
{
	static const unsigned access[KEYS] = {
		[GOOD] = ALL_ACCESS,
		[OTHER_PD] = ALL_ACCESS,
		[READ_ONLY] = IBV_ACCESS_REMOTE_READ,
		[WRITE_ONLY] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		[ATOMIC_ONLY] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		[NO_REMOTE] = IBV_ACCESS_LOCAL_WRITE,
		[SHORT] = ALL_ACCESS,
		[GONE] = ALL_ACCESS,
	};
	struct ibv_mr *mr[KEYS];
	struct keys keys;
	struct ibv_pd *other;
	char *memory;
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	other = ibv_alloc_pd(end->context);
	/* Blocks, where the mode has them: each region is the whole of one, but for SHORT, GOOD and GONE. */
	memory = end_memory(end, 3 * BYTES);
	for (i = 0; i < KEYS; i++) {
		char *at = i == OTHER_PD || i == READ_ONLY ? end_memory(end, BYTES)
							    : memory + (i % 3) * BYTES + 4096;

		mr[i] = ibv_reg_mr(i == OTHER_PD ? other : end->pd, at, i == SHORT ? 4000 : BYTES / 2,
				   (int)access[i]);
		CHECK(mr[i], "%m");
		keys.key[i] = mr[i]->rkey;
		keys.address[i] = (uintptr_t)at;
	}
	CHECK(!ibv_dereg_mr(mr[GONE]));
	tell(end->peer, &keys, sizeof(keys));
	for (i = 0; i < 2 * ATTEMPTS; i++) {
		end_connect(end);
		meet(end);
	}
	for (i = 0; i < GONE; i++)
		CHECK(!ibv_dereg_mr(mr[i]));
	CHECK(!ibv_dealloc_pd(other));
	end_close(end);
}

static enum ibv_wc_status try_it(struct end *end, const struct keys *keys,
				 const struct key_use *attempt)
{
	struct address own = end->there;
	enum ibv_wc_status status;

	end->there.rkey = keys->key[attempt->key];
	end->there.memory = keys->address[attempt->key];
	status = transfer(end, attempt->opcode, 0, attempt->bytes, (size_t)attempt->at);
	end->there = own;
	return status;
}

static void tries_all(struct end *end, void *argument)
{
	struct keys keys;
	unsigned i, k;

	end_open(end, BYTES, ALL_ACCESS);
	CHECK(hear(end->peer, &keys, sizeof(keys)));
	for (i = 0; i < 2 * ATTEMPTS; i++) {
		const struct key_use *attempt = &attempts[i % ATTEMPTS];
		enum ibv_wc_status status,
			expected = attempt->succeeds ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
		uint64_t before = direct();

		end_connect(end);
		learn(end);
		CHECK(!goes_without_packets() || direct() > before, "all went as packets");
		/* A key that is good goes the other way from some time on. */
		for (k = 0; k < (attempt->succeeds ? 5 : 1); k++) {
			status = try_it(end, &keys, attempt);
			CHECK(status == expected, "attempt %u: %s", i, ibv_wc_status_str(status));
			usleep(200);
		}
		meet(end);
	}
	end_close(end);
}

static bool keys_give_what_they_give_over_udp(void)
{
	return pair_run_in_each_mode(tries_all, owns_regions, NULL, 60);
}

/* ---- queue pairs that do not fit ---- */

enum misfit { WRONG_PSN, SMALLER_MTU, NOT_CONNECTED_BACK, NO_RIGHTS, MISFITS };

static void modify_access(struct end *end, unsigned access)
{
	struct ibv_qp_attr attr = {.qp_access_flags = access};

	CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_ACCESS_FLAGS), "%m");
}

static void does_not_fit(struct end *end, void *argument)
{
	const enum misfit misfit = *(const enum misfit *)argument;

	if (misfit == WRONG_PSN || misfit == NOT_CONNECTED_BACK) {
		end->retry_count = 1; /* nothing is to be answered */
		end->timeout = 12;
	}
	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_exchange(end);
	if (misfit == WRONG_PSN)
		end->there.psn = (end->there.psn - 100) & 0xffffff;
	else if (misfit == SMALLER_MTU)
		end->mtu = IBV_MTU_1024;
	else if (misfit == NOT_CONNECTED_BACK)
		end->there.qpn ^= 1;
	end_raise(end, IBV_QPS_RTS);
	if (misfit == NO_RIGHTS)
		modify_access(end, IBV_ACCESS_REMOTE_READ);
	meet(end);
	meet(end);
	end_close(end);
}

static void tries_misfit(struct end *end, void *argument)
{
	static const enum ibv_wc_status expected[MISFITS] = {
		IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_RETRY_EXC_ERR,
		IBV_WC_REM_INV_REQ_ERR};
	const enum misfit misfit = *(const enum misfit *)argument;
	enum ibv_wc_status status;
	unsigned i;

	if (misfit == WRONG_PSN || misfit == NOT_CONNECTED_BACK) {
		end->retry_count = 1; /* nothing is to be answered */
		end->timeout = 12;
	}
	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	if (misfit == NO_RIGHTS || misfit == SMALLER_MTU)
		for (i = 0; i < 50; i++)
			CHECK(transfer(end, IBV_WR_RDMA_READ, 0, 64, 64) == IBV_WC_SUCCESS);
	CHECK(misfit == NO_RIGHTS || !direct(), "without packets");
	status = transfer(end, IBV_WR_RDMA_WRITE, 0, 4000, 64);
	CHECK(status == expected[misfit], "%s", ibv_wc_status_str(status));
	meet(end);
	end_close(end);
}

static bool queue_pairs_that_do_not_fit_fail_as_over_udp(void)
{
	enum misfit misfit;

	for (misfit = 0; misfit < MISFITS; misfit++)
		if (!pair_run_in_each_mode(tries_misfit, does_not_fit, &misfit, 20)) {
			printf("# misfit %u\n", misfit);
			return false;
		}
	return true;
}

/* ---- what ends ---- */

/* Until one fails, as @expected; the other end ends it. */
static void writes_and_reads(struct end *end, enum ibv_wc_status expected)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	double until = now() + LIMIT_S;
	unsigned i;

	for (i = 0; status == IBV_WC_SUCCESS; i++) {
		CHECK(now() < until, "it can still be accessed");
		memset(end->memory, 0x77, HALF);
		status = transfer(end, i % 4 == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0,
				  i % 2 ? HALF : 64, 0);
	}
	CHECK(status == expected, "%s", ibv_wc_status_str(status));
}

#define ROUNDS (long_run ? 400u : 40u)

static void accesses(struct end *end, void *expected)
{
	unsigned round;

	end_open(end, BYTES, ALL_ACCESS);
	for (round = 0; round < ROUNDS; round++) {
		end_connect(end);
		if (!round) {
			await_direct(end);
			meet(end);
		}
		writes_and_reads(end, *(enum ibv_wc_status *)expected);
		meet(end);
	}
	CHECK(!direct() == !goes_without_packets(), "%llu without packets",
	      (unsigned long long)direct());
	end_close(end);
}

/* What is there when the access has ended is there for good. */
static void nothing_comes(struct end *end, unsigned round)
{
	size_t at;

	memset(end->memory, 0x11, BYTES);
	meet(end); /* its requests have failed */
	for (at = 0; at < BYTES; at++)
		CHECK(end->memory[at] == 0x11, "round %u: byte %zu came after the end", round, at);
}

static void deregisters(struct end *end, void *argument)
{
	unsigned round;

	end_open(end, BYTES, ALL_ACCESS);
	for (round = 0; round < ROUNDS; round++) {
		end_connect(end);
		if (!round)
			meet(end); /* requests go without packets, where they do at all */
		usleep(round * 977 % 3000);
		CHECK(!ibv_dereg_mr(end->mr));
		nothing_comes(end, round);
		end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
		CHECK(end->mr, "%m");
	}
	end_close(end);
}

static enum ibv_wc_status no_access = IBV_WC_REM_ACCESS_ERR, no_operation = IBV_WC_REM_INV_REQ_ERR;

static bool nothing_is_written_after_deregistration(void)
{
	return pair_run_in_each_mode(accesses, deregisters, &no_access, 120);
}

/* The key stays, its rights do not; then the key is of another memory. */
static void reregisters(struct end *end, void *argument)
{
	char *other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_pd *pd;
	unsigned round;
	bool by_pd;

	end_open(end, BYTES, ALL_ACCESS);
	pd = ibv_alloc_pd(end->context);
	for (round = 0; round < ROUNDS; round++) {
		end_connect(end);
		if (!round)
			meet(end); /* requests go without packets, where they do at all */
		usleep(round * 977 % 3000);
		by_pd = round % 3 == 1;
		if (round % 3 == 2)
			CHECK(!ibv_rereg_mr(end->mr, IBV_REREG_MR_CHANGE_TRANSLATION |
							     IBV_REREG_MR_CHANGE_ACCESS,
					    NULL, other, BYTES, IBV_ACCESS_LOCAL_WRITE));
		else
			CHECK(!ibv_rereg_mr(end->mr,
					    by_pd ? IBV_REREG_MR_CHANGE_PD
						  : IBV_REREG_MR_CHANGE_ACCESS,
					    by_pd ? pd : NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
		nothing_comes(end, round);
		CHECK(!ibv_rereg_mr(end->mr, IBV_REREG_MR_CHANGE_TRANSLATION |
						     IBV_REREG_MR_CHANGE_ACCESS |
						     IBV_REREG_MR_CHANGE_PD,
				    end->pd, end->memory, BYTES, ALL_ACCESS));
	}
	CHECK(!ibv_dealloc_pd(pd));
	end_close(end);
}

static bool nothing_is_written_after_reregistration(void)
{
	return pair_run_in_each_mode(accesses, reregisters, &no_access, 120);
}

/* The queue pair lets in other requests. A message back has both ends agree anew. */
static void forbids(struct end *end, void *argument)
{
	unsigned round, i;

	end_open(end, BYTES, ALL_ACCESS);
	for (round = 0; round < ROUNDS; round++) {
		end_connect(end);
		if (!round)
			meet(end); /* requests go without packets, where they do at all */
		usleep(round * 977 % 3000);
		modify_access(end, round % 2 ? 0 : IBV_ACCESS_REMOTE_ATOMIC);
		memset(end->memory, 0x11, BYTES);
		for (i = 0; i < 3 && round % 4 > 1; i++) {
			struct ibv_wc wc;

			end->there.memory += HALF;
			CHECK(!post(end, IBV_WR_RDMA_WRITE, 0, 64, 0, 1), "%m");
			end->there.memory -= HALF;
			CHECK(get(end, &wc, LIMIT_S), "no completion");
		}
		nothing_comes(end, round);
	}
	end_close(end);
}

static bool nothing_is_written_after_a_queue_pair_forbids_it(void)
{
	return pair_run_in_each_mode(accesses, forbids, &no_operation, 120);
}

/* ---- what begins again ---- */

static void changes_its_mind(struct end *end, void *argument)
{
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	for (i = 0; i < 20; i++) {
		meet(end);
		modify_access(end, ALL_ACCESS);
		meet(end);
	}
	meet(end);
	end_close(end);
}

static void goes_on(struct end *end, void *argument)
{
	uint64_t before;
	double until;
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	for (i = 0; i < 20; i++) {
		meet(end);
		meet(end);
		before = direct();
		until = now() + LIMIT_S;
		do {
			learn(end);
			learn(end);
		} while (goes_without_packets() && direct() - before <= 10 && now() < until);
		CHECK(goes_without_packets() == (direct() - before > 10),
		      "round %u: %u requests went without packets", i,
		      (unsigned)(direct() - before));
	}
	meet(end);
	end_close(end);
}

static bool after_other_rights_requests_go_without_packets_again(void)
{
	return pair_run_in_each_mode(goes_on, changes_its_mind, NULL, 60);
}

/* ---- many regions ---- */

#define MANY (GRANTS_MAX + 1000u)
#define PART 16u

static void owns_many(struct end *end, void *argument)
{
	uint32_t *keys = calloc(MANY, sizeof(*keys)), i;
	struct ibv_mr **mr = calloc(MANY, sizeof(*mr));

	end_open(end, MANY * PART, ALL_ACCESS);
	for (i = 0; i < MANY; i++) {
		mr[i] = ibv_reg_mr(end->pd, end->memory + i * PART, PART, ALL_ACCESS);
		CHECK(mr[i], "%m");
		keys[i] = mr[i]->rkey;
	}
	end_connect(end);
	tell(end->peer, keys, MANY * sizeof(*keys));
	meet(end);
	for (i = 0; i < MANY; i++) {
		CHECK(*(uint32_t *)(end->memory + i * PART) == i, "region %u", i);
		CHECK(!*(uint32_t *)(end->memory + i * PART + 4), "beside region %u", i);
		CHECK(!ibv_dereg_mr(mr[i]));
	}
	meet(end);
	meet(end);
	free(keys);
	free(mr);
	end_close(end);
}

static void uses_many(struct end *end, void *argument)
{
	uint32_t *keys = calloc(MANY, sizeof(*keys)), i, k, own;
	uint64_t before;

	end_open(end, 4096, ALL_ACCESS);
	end_connect(end);
	CHECK(hear(end->peer, keys, MANY * sizeof(*keys)));
	own = end->there.rkey;
	for (k = 0; k < 3; k++)
		for (i = 0; i < MANY; i++) {
			end->there.rkey = keys[i];
			*(uint32_t *)end->memory = k == 2 ? i : 77;
			CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 4, i * PART) == IBV_WC_SUCCESS,
			      "region %u", i);
		}
	CHECK(!goes_without_packets() || direct() > GRANTS_MAX / 2, "%llu of %u without packets",
	      (unsigned long long)direct(), 3 * MANY);
	meet(end);
	meet(end);
	/* Room again. */
	end->there.rkey = own;
	before = direct();
	for (i = 0; i < 8; i++) /* a key that was refused is asked for again later */
		learn(end);
	CHECK(goes_without_packets() == (direct() > before), "there is no room for a grant");
	free(keys);
	meet(end);
	end_close(end);
}

static bool more_regions_than_can_be_granted_do_no_harm(void)
{
	return pair_run_in_each_mode(uses_many, owns_many, NULL, 120);
}

/* ---- many queue pairs ---- */

#define PDS 4u
#define QPS 8u /* of each */

/* Both ends do the same: each QP writes where it may, and then where it may not. */
static void many_pairs(struct end *end, void *argument)
{
	struct end pair[PDS][QPS];
	uint32_t their_key[PDS];
	struct ibv_mr *mr[PDS];
	struct ibv_pd *pd[PDS];
	enum ibv_wc_status status;
	unsigned p, q, i;

	end_open(end, BYTES, ALL_ACCESS);
	for (p = 0; p < PDS; p++) {
		pd[p] = ibv_alloc_pd(end->context);
		mr[p] = ibv_reg_mr(pd[p], end->memory, BYTES, ALL_ACCESS);
		CHECK(pd[p] && mr[p], "%m");
		for (q = 0; q < QPS; q++) {
			pair[p][q] = *end;
			pair[p][q].pd = pd[p];
			pair[p][q].mr = mr[p];
			pair[p][q].qp = NULL;
			end_connect(&pair[p][q]);
			their_key[p] = pair[p][q].there.rkey;
		}
	}
	await_direct(&pair[0][0]);
	meet(end);
	for (i = 0; i < 20; i++)
		for (p = 0; p < PDS; p++)
			for (q = 0; q < QPS; q++) {
				unsigned place = (p * QPS + q) * 8;

				*(uint64_t *)(end->memory + place) = place + i;
				CHECK(transfer(&pair[p][q], IBV_WR_RDMA_WRITE, place, 8,
					       HALF + place) == IBV_WC_SUCCESS);
			}
	meet(end);
	for (p = 0; p < PDS * QPS * 8; p += 8)
		CHECK(*(uint64_t *)(end->memory + HALF + p) == p + 19);
	for (p = 0; p < PDS; p++)
		for (q = end->side; q < QPS; q += 2) {
			pair[p][q].there.rkey = their_key[(p + 1 + q % (PDS - 1)) % PDS];
			status = transfer(&pair[p][q], IBV_WR_RDMA_WRITE, 0, 8, 0);
			CHECK(status == IBV_WC_REM_ACCESS_ERR, "%s, pd %u, qp %u",
			      ibv_wc_status_str(status), p, q);
		}
	CHECK(!direct() == !goes_without_packets(), "%llu", (unsigned long long)direct());
	meet(end);
	for (p = 0; p < PDS; p++) {
		for (q = 0; q < QPS; q++)
			CHECK(!ibv_destroy_qp(pair[p][q].qp));
		CHECK(!ibv_dereg_mr(mr[p]) && !ibv_dealloc_pd(pd[p]));
	}
	end_close(end);
}

static bool each_queue_pair_has_the_keys_of_its_pd(void)
{
	return pair_run_in_each_mode(many_pairs, many_pairs, NULL, 60);
}

/* ---- requests in a list ---- */

#define LIST 12u
#define LISTS 60u
#define SPOILT_LISTS 32u

/* What a list is spoilt by, from its request @at on. */
enum spoilt { NOTHING, REMOTE_BOUNDS, REMOTE_KEY, LOCAL_BOUNDS, LOCAL_KEY, SPOILT };

struct list_of {
	struct ibv_send_wr wr[LIST];
	struct ibv_sge sge[LIST];
	unsigned seed;
	char theirs[HALF];	/* the target, as it should be */
	char ours[HALF];	/* what READs bring, as it should be */
};

static unsigned any(struct list_of *list, unsigned below)
{
	list->seed = list->seed * 1664525u + 1013904223u;
	return (list->seed >> 8) % below;
}

/*
 * Requests near each other and, unless all are to be @close, apart, and longer than a page; inline ones
 * between.
 */
static void fill_list(struct end *end, struct list_of *list, bool close)
{
	unsigned i, base = any(list, HALF - 16384) & ~4095u;
	bool reads = any(list, 3) == 0;	/* a WRITE may overtake a READ (IBTA 10.8.3.3) */

	for (i = 0; i < LIST; i++) {
		uint32_t bytes = close || any(list, 8) ? 1 + any(list, 200) : 1 + any(list, 8000);
		unsigned here = close ? base + any(list, 3800) :
				any(list, 6) ? base + any(list, 8192) : any(list, HALF - 8000);

		list->sge[i] = (struct ibv_sge){ (uintptr_t)end->memory + here + (reads ? HALF : 0), bytes,
						 end->mr->lkey };
		list->wr[i] = (struct ibv_send_wr){
			.wr_id = i, .sg_list = &list->sge[i], .num_sge = 1,
			.next = i + 1 < LIST ? &list->wr[i + 1] : NULL,
			.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED |
				      (!reads && bytes <= 64 && any(list, 3) == 0 ? IBV_SEND_INLINE : 0),
			.wr.rdma = { end->there.memory + any(list, HALF - 8000), end->there.rkey } };
	}
}

static void spoil_list(struct end *end, struct list_of *list, enum spoilt how, unsigned at)
{
	struct ibv_send_wr *wr = &list->wr[at];

	wr->send_flags = IBV_SEND_SIGNALED;
	if (how == REMOTE_BOUNDS)
		wr->wr.rdma.remote_addr = end->there.memory + BYTES - list->sge[at].length + 1;
	else if (how == REMOTE_KEY)
		wr->wr.rdma.rkey ^= 1;
	else if (how == LOCAL_BOUNDS)
		list->sge[at].addr = (uintptr_t)end->memory + BYTES - list->sge[at].length + 1;
	else if (how == LOCAL_KEY)
		list->sge[at].lkey ^= 1;
}

/* The effect of the first @count requests, on the copies. */
static void expect_list(struct end *end, struct list_of *list, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		char *theirs = list->theirs + (list->wr[i].wr.rdma.remote_addr - end->there.memory);
		size_t here = list->sge[i].addr - (uintptr_t)end->memory, bytes = list->sge[i].length;

		if (list->wr[i].opcode == IBV_WR_RDMA_WRITE)
			memcpy(theirs, end->memory + here, bytes);
		else
			memcpy(list->ours + (here - HALF), theirs, bytes);
	}
}

static enum ibv_wc_status status_of(enum spoilt how)
{
	return how == NOTHING ? IBV_WC_SUCCESS :
	       how == REMOTE_BOUNDS || how == REMOTE_KEY ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR;
}

static void run_list(struct end *end, struct list_of *list, enum spoilt how, unsigned at)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	unsigned i;

	fill_list(end, list, how != NOTHING);
	spoil_list(end, list, how, at);
	CHECK(!ibv_post_send(end->qp, list->wr, &bad));
	expect_list(end, list, how == NOTHING ? LIST : at);
	for (i = 0; i < LIST; i++) {
		enum ibv_wc_status status = how == NOTHING || i < at ? IBV_WC_SUCCESS :
					    i == at ? status_of(how) : IBV_WC_WR_FLUSH_ERR;

		CHECK(get(end, &wc, LIMIT_S) && wc.wr_id == i);
		CHECK(wc.status == status, "request %u of a list spoilt by %d at %u: %s", i, how, at,
		      ibv_wc_status_str(wc.status));
	}
	CHECK(!memcmp(end->memory + HALF, list->ours, HALF), "what READs brought");
}

/* Their half as it is, by a READ. */
static void compare_theirs(struct end *end, struct list_of *list)
{
	CHECK(transfer(end, IBV_WR_RDMA_READ, HALF, HALF, 0) == IBV_WC_SUCCESS);
	CHECK(!memcmp(end->memory + HALF, list->theirs, HALF), "what WRITEs brought");
	memcpy(list->ours, list->theirs, HALF);
}

static void posts_lists(struct end *end, void *argument)
{
	struct list_of *list = calloc(1, sizeof(*list));
	unsigned i;

	list->seed = 7;
	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_connect(end);
	for (i = 0; i < HALF; i++)
		end->memory[i] = (char)any(list, 256);
	await_direct(end);
	compare_theirs(end, list);	/* they are zeros, but for the WRITEs of await_direct() behind HALF */
	for (i = 0; i < LISTS; i++) {
		run_list(end, list, NOTHING, 0);
		compare_theirs(end, list);
	}
	for (i = 0; i < SPOILT_LISTS; i++) {
		run_list(end, list, REMOTE_BOUNDS + i % (SPOILT - REMOTE_BOUNDS), 1 + any(list, LIST - 1));
		meet(end);
		end_connect(end);
		compare_theirs(end, list);
	}
	meet(end);
	free(list);
	end_close(end);
}

static void takes_lists(struct end *end, void *argument)
{
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_connect(end);
	for (i = 0; i < SPOILT_LISTS; i++) {
		meet(end);
		end_connect(end);
	}
	meet(end);
	end_close(end);
}

static bool lists_of_requests_are_checked_one_by_one(void)
{
	return pair_run_in_each_mode(posts_lists, takes_lists, NULL, 60);
}

/* ---- guesses ---- */

#define GUESSES 200u

static struct local *local_of(const struct end *end)
{
	return &to_hca(end->context)->hca->engine.local;
}

/* Asks for a key, as no requester would: again and again, and for any. */
static void ask(struct end *end, uint32_t key)
{
	struct local *local = local_of(end);
	struct qp *qp = to_qp(end->qp);
	struct control control = { .kind = CONTROL_ASK_KEY, .key = key };
	struct peer *peer = peer_of_slot(local, qpn_slot(end->there.qpn));
	double until = now() + LIMIT_S;
	struct ibv_wc wc;

	pair_lock(&qp->lock);
	control.qp = qp->pairing.theirs;
	pair_unlock(&qp->lock);
	CHECK(peer && control.qp);
	while (!control_send(local, peer, &control, 0)) {
		CHECK(now() < until, "the ring is full");
		CHECK(!ibv_poll_cq(end->cq, 1, &wc));
	}
}

/* Is a WRITE by that key among those that go directly, after a while? */
static bool is_granted(struct end *end, uint32_t key, double limit_s)
{
	struct peer *peer = peer_of_slot(local_of(end), qpn_slot(end->there.qpn));
	struct peer_region region;
	double until = now() + limit_s;
	struct ibv_wc wc;

	ask(end, key);
	while (now() < until) {
		CHECK(!ibv_poll_cq(end->cq, 1, &wc));
		if (peer_region_find(peer->regions, key, &region))
			return true;
	}
	return false;
}

static void guesses(struct end *end, void *argument)
{
	uint32_t keys[2], i;

	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_connect(end);
	CHECK(hear(end->peer, keys, sizeof(keys)));
	await_direct(end);
	for (i = 0; i < GUESSES; i++)
		ask(end, keys[0] ^ (i + 1));
	CHECK(!is_granted(end, keys[0], 0.2), "found by guessing");
	usleep(1200000);
	CHECK(is_granted(end, keys[1], 20), "one question more is not answered either");
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 0) == IBV_WC_SUCCESS);
	meet(end);
	end_close(end);
}

static void is_guessed_at(struct end *end, void *argument)
{
	struct ibv_mr *mr[2];
	uint32_t keys[2], i;

	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_connect(end);
	for (i = 0; i < 2; i++) {
		mr[i] = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
		CHECK(mr[i], "%m");
		keys[i] = mr[i]->rkey;
	}
	tell(end->peer, keys, sizeof(keys));
	meet(end);
	CHECK(counter_here(COUNTER_RX_KEY) > GUESSES, "%s", counters_here());
	for (i = 0; i < 2; i++)
		CHECK(!ibv_dereg_mr(mr[i]));
	end_close(end);
}

static bool a_peer_that_asks_finds_no_key_by_guessing(void)
{
	return pair_run("auto", guesses, is_guessed_at, NULL, 60);
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
	const struct test tests[] = {
		TEST(keys_give_what_they_give_over_udp),
		TEST(queue_pairs_that_do_not_fit_fail_as_over_udp),
		TEST(nothing_is_written_after_deregistration),
		TEST(nothing_is_written_after_reregistration),
		TEST(nothing_is_written_after_a_queue_pair_forbids_it),
		TEST(after_other_rights_requests_go_without_packets_again),
		TEST(more_regions_than_can_be_granted_do_no_harm),
		TEST(each_queue_pair_has_the_keys_of_its_pd),
		TEST(lists_of_requests_are_checked_one_by_one),
		TEST(a_peer_that_asks_finds_no_key_by_guessing),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
