/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting: which opcode on which service (a second writing of ibv_post_send(3)'s table), states,
 * limits, what is copied, and what stands when a list is refused in the middle.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "object/placement.h"
#include "base/test_random.h"
#include "object/test_support.h"

#include "object/qp.h"

#define SQ_SIZE		6u
#define MAX_SGE		3u
#define MAX_INLINE	64u

struct fixture {
	struct qp qp;
	struct qp_access access;
	struct pd pd, other_pd;
	struct ah ah;
	struct mw mw;
	struct mr mr;
	uint8_t memory[256];
};

static struct fixture *fixture_new(enum ibv_qp_type type, enum ibv_qp_state state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	lock_init(&f->qp.lock);
	f->qp.type = type;
	f->qp.number = 0x12345;
	f->qp.access = &f->access;
	f->qp.pd = &f->pd;
	f->qp.attr.max_rd_atomic = 1;
	f->ah.ibv.pd = &f->pd.ibv;
	atomic_store(&f->ah.references, 1);
	f->mw.ibv.type = IBV_MW_TYPE_2;
	assert_int_equal(send_queue_init(&f->qp.sq, SQ_SIZE, MAX_SGE, MAX_INLINE), 0);
	assert_int_equal(recv_queue_init(&f->qp.rq, SQ_SIZE, MAX_SGE), 0);
	qp_set_state(&f->qp, state);
	return f;
}

static void fixture_free(struct fixture *f)
{
	send_queue_fini(&f->qp.sq);
	recv_queue_fini(&f->qp.rq);
	assert_int_equal(atomic_load(&f->ah.references), 1);
	free(f);
}

/* A work request that is right for its opcode; @sge is its one SGE, of 8 bytes. */
static struct ibv_send_wr good_wr(struct fixture *f, enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .wr_id = 0x77, .opcode = opcode, .sg_list = sge, .num_sge = 1 };

	*sge = (struct ibv_sge){ (uintptr_t)f->memory, 8, 0x1234 };
	if (opcode == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = &f->mw.ibv;
		wr.bind_mw.bind_info.mr = &f->mr.ibv;
	}
	if (f->qp.type == IBV_QPT_UD)
		wr.wr.ud.ah = &f->ah.ibv;
	return wr;
}

static int post(struct fixture *f, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err;

	lock_acquire(&f->qp.lock);
	err = qp_post_send(&f->qp, wr, &bad);
	lock_release(&f->qp.lock);
	assert_ptr_equal(bad, err ? wr : NULL);
	return err;
}

static const char *explain_post(struct fixture *f, struct ibv_send_wr *wr, int expected)
{
	struct listening explanation;
	int err;

	explanation_begin(&explanation);
	err = post(f, wr);
	assert_int_equal(err, expected);
	return explanation_end(&explanation);
}

static const struct send_wqe *last_wqe(const struct fixture *f)
{
	return send_queue_at(&f->qp.sq, f->qp.sq.head - 1);
}

/* ---- plain ones ---- */

/* One of those that programs post, or something else. */
static struct ibv_send_wr any_wr(struct fixture *f, struct ibv_sge sge[2], struct ibv_send_wr *next,
				 uint64_t *random)
{
	static const enum ibv_wr_opcode opcode[] = { IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_INV };
	static const unsigned flag[] = { 0, IBV_SEND_SIGNALED, IBV_SEND_FENCE, IBV_SEND_SOLICITED, IBV_SEND_INLINE,
					 IBV_SEND_IP_CSUM, 1u << 20 };
	static const uint32_t length[] = { 0, 8, 8, 8, 1u << 31, (1u << 31) + 1 };
	struct ibv_send_wr wr;
	bool odd = random_below(random, 3) == 0;

	*next = good_wr(f, IBV_WR_SEND, sge);
	wr = good_wr(f, opcode[random_below(random, 6)], sge);
	wr.wr_id = test_random(random);
	wr.send_flags = flag[random_below(random, odd ? 7 : 4)] | flag[random_below(random, 4)];
	sge[0].length = length[random_below(random, odd ? 6 : 4)];
	if (wr.send_flags & IBV_SEND_INLINE)
		sge[0].length = random_below(random, 8) ? 8 : MAX_INLINE - 5 + (uint32_t)random_below(random, 7);
	sge[1] = (struct ibv_sge){ (uintptr_t)f->memory, 4, 0x1234 };
	wr.num_sge = odd ? (int)random_below(random, MAX_SGE + 3) - 1 : 1;
	wr.num_sge = wr.num_sge > 2 && wr.num_sge <= (int)MAX_SGE ? 2 : wr.num_sge;
	wr.sg_list = odd && random_below(random, 4) == 0 ? NULL : sge;
	wr.imm_data = (uint32_t)test_random(random);
	wr.wr.rdma.remote_addr = test_random(random);
	wr.next = odd && random_below(random, 4) == 0 ? next : NULL;
	return wr;
}

/* What it takes is what qp_post_send() makes of it; what that refuses it leaves alone. */
static void a_plain_request_is_taken_as_any_other(void **state) UNCHECKED_LOCKS
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS), *twin = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	size_t bytes = sizeof(struct send_wqe) + MAX_INLINE;	/* and SGEs */
	unsigned taken = 0, with_header = 0, refused = 0, writes = 0, n;
	uint64_t random = 40;

	test_random_fill(&random, f->memory, sizeof(f->memory));

	for (n = 0; n < 20000; n++) {
		struct ibv_send_wr next, wr, *bad;
		struct ibv_sge sge[2];
		uint32_t head = f->qp.sq.head;
		bool is_write;

		f->qp.signal_all = twin->qp.signal_all = n % 2;
		wr = any_wr(f, sge, &next, &random);
		memset(send_queue_at(&f->qp.sq, head), 0xee, bytes);	/* what was there before */
		memset(send_queue_at(&twin->qp.sq, head), 0xee, bytes);
		is_write = qp_post_is_write(&f->qp, &wr);
		if (!qp_post_plain(&f->qp, &wr)) {
			assert_false(is_write);
			assert_int_equal(f->qp.sq.head, head);
			refused++;
			continue;
		}
		assert_int_equal(f->qp.sq.head, head + 1);
		assert_int_equal(is_write, last_wqe(f)->opcode == IBV_WR_RDMA_WRITE &&
					   !(last_wqe(f)->flags & IBV_SEND_INLINE));
		writes += is_write;
		taken++;
		with_header += wr.num_sge == 2;
		twin->qp.sq.head = head;
		wqe_slots_free_to(&twin->qp.sq.slots, head);
		assert_int_equal(qp_post_send(&twin->qp, &wr, &bad), 0);
		assert_int_equal(twin->qp.sq.head, head + 1);
		assert_memory_equal(last_wqe(f), last_wqe(twin), bytes);
		assert_int_not_equal(last_wqe(twin)->opcode, WR_FAULTY);
		if (wqe_slots_used(&f->qp.sq.slots, f->qp.sq.head) == f->qp.sq.size) {
			assert_null(qp_post_plain(&f->qp, &wr));	/* full */
			assert_false(qp_post_is_write(&f->qp, &wr));
			f->qp.sq.tail = f->qp.sq.sent = f->qp.sq.head;
			wqe_slots_free_to(&f->qp.sq.slots, f->qp.sq.head);
		}
	}
	assert_true(taken > 2000 && with_header > 50 && refused > 2000 && writes > 200);
	f->qp.sq.tail = f->qp.sq.head;
	twin->qp.sq.tail = twin->qp.sq.head;
	fixture_free(f);
	fixture_free(twin);
}

/* ---- opcodes and states ---- */

static bool allowed(enum ibv_qp_type type, int opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return true;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		return type != IBV_QPT_UD;
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_SEND_WITH_INV:
	case WR_ATOMIC_WRITE:
		return type == IBV_QPT_RC;
	default:
		return false;
	}
}

/* What libmlx5 takes of any type: the opcode table of ibv_post_send(3). */
static bool taken(enum ibv_qp_type type, int opcode)
{
	return (opcode >= IBV_WR_RDMA_WRITE && opcode <= IBV_WR_SEND_WITH_INV) || allowed(type, opcode);
}

static void each_service_takes_its_opcodes_and_fails_others_in_their_turn(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (unsigned i = 0; i < 3; i++) {
		for (int opcode = -1; opcode < 300; opcode++) {
			struct fixture *f = fixture_new(types[i], IBV_QPS_RTS);
			struct ibv_sge sge;
			struct ibv_send_wr wr = good_wr(f, (enum ibv_wr_opcode)opcode, &sge);

			assert_int_equal(post(f, &wr), taken(types[i], opcode) ? 0 : EINVAL);
			if (taken(types[i], opcode) && !allowed(types[i], opcode)) {
				assert_int_equal(last_wqe(f)->opcode, WR_FAULTY);
				assert_int_equal(last_wqe(f)->status, IBV_WC_LOC_QP_OP_ERR);
				assert_int_equal(last_wqe(f)->imm, opcode);
				assert_null(last_wqe(f)->ah);
			} else if (taken(types[i], opcode)) {
				assert_int_equal(last_wqe(f)->opcode, opcode);
				assert_int_equal(last_wqe(f)->status, 0);
			}
			fixture_free(f);
		}
	}
}

static void sends_are_taken_from_rts_on_and_receives_in_every_state(void **state)
{
	for (int s = IBV_QPS_RESET; s <= IBV_QPS_ERR; s++) {
		struct fixture *f = fixture_new(IBV_QPT_RC, (enum ibv_qp_state)s);
		struct ibv_recv_wr recv = { 0 }, *bad_recv = NULL;
		struct ibv_sge sge;
		struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);
		int err = qp_post_recv(&f->qp, &recv, &bad_recv);

		assert_int_equal(post(f, &wr), s >= IBV_QPS_RTS ? 0 : EINVAL);
		assert_int_equal(err, 0);
		assert_null(bad_recv);
		fixture_free(f);
	}
}

static void a_qp_that_was_reset_takes_no_receives(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_recv_wr recv = { 0 }, *bad = NULL;

	lock_acquire(&f->qp.lock);
	qp_modify_apply(&f->qp, &attr, IBV_QP_STATE);
	assert_int_equal(qp_post_recv(&f->qp, &recv, &bad), EINVAL);
	assert_ptr_equal(bad, &recv);
	attr.qp_state = IBV_QPS_INIT;
	qp_modify_apply(&f->qp, &attr, IBV_QP_STATE);
	lock_release(&f->qp.lock);
	assert_int_equal(qp_post_recv(&f->qp, &recv, &bad), 0);
	fixture_free(f);
}

static void a_post_in_the_wrong_state_is_explained(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTR);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);

	assert_mentions(explain_post(f, &wr, EINVAL),
			"ibv_post_send: qp 0x012345 wr_id 0x77: the qp is in RTR");
	fixture_free(f);
}

static void flags_that_are_none_have_no_effect_and_are_explained(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);

	wr.send_flags = IBV_SEND_SIGNALED | 1u << 14;
	assert_mentions(explain_post(f, &wr, 0), "send_flags 0x4002: 0x4000 is none of enum ibv_send_flags");
	fixture_free(f);
}

static void an_empty_list_is_posted_in_every_state(void **state)
{
	for (enum ibv_qp_state qp_state = IBV_QPS_RESET; qp_state <= IBV_QPS_ERR; qp_state++) {
		struct fixture *f = fixture_new(IBV_QPT_RC, qp_state);
		struct ibv_recv_wr *bad = NULL;

		assert_int_equal(post(f, NULL), 0);
		assert_int_equal(qp_post_recv(&f->qp, NULL, &bad), 0);
		assert_null(bad);
		fixture_free(f);
	}
}

static void a_qp_with_an_srq_takes_no_receives(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_recv_wr wr = { 0 }, *bad = NULL;
	struct srq srq;

	f->qp.srq = &srq;
	assert_int_equal(qp_post_recv(&f->qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	fixture_free(f);
}

/* ---- what is copied ---- */

static void a_write_is_copied_whole(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = good_wr(f, IBV_WR_RDMA_WRITE_WITH_IMM, sge);
	const struct send_wqe *wqe;

	sge[1] = (struct ibv_sge){ 0x2000, 0, 2 };
	sge[2] = (struct ibv_sge){ 0x3000, 100, 3 };
	wr.num_sge = 3;
	wr.send_flags = IBV_SEND_SOLICITED;
	wr.imm_data = htonl(0x01020304);
	wr.wr.rdma.remote_addr = 0xabcdef0123456789;
	wr.wr.rdma.rkey = 0x55;
	assert_int_equal(post(f, &wr), 0);
	wqe = last_wqe(f);
	assert_int_equal(wqe->wr_id, 0x77);
	assert_int_equal(wqe->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(wqe->flags, IBV_SEND_SOLICITED);
	assert_int_equal(wqe->length, 108);
	assert_int_equal(wqe->imm, 0x01020304);
	assert_int_equal(wqe->remote_address, 0xabcdef0123456789);
	assert_int_equal(wqe->rkey, 0x55);
	assert_int_equal(wqe->sge_count, 3);
	assert_memory_equal(wqe->sge, sge, sizeof(sge));
	fixture_free(f);
}

static void inline_data_is_gathered_at_the_post(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, sge);
	uint8_t expected[MAX_INLINE];

	for (unsigned i = 0; i < sizeof(f->memory); i++)
		f->memory[i] = (uint8_t)i;
	sge[0].length = 10;
	sge[1] = (struct ibv_sge){ 0, 0, 0 };
	sge[2] = (struct ibv_sge){ (uintptr_t)f->memory + 100, 54, 0 };
	memcpy(expected, f->memory, 10);
	memcpy(expected + 10, f->memory + 100, 54);
	wr.num_sge = 3;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(post(f, &wr), 0);
	memset(f->memory, 0xee, sizeof(f->memory));
	assert_int_equal(last_wqe(f)->length, 64);
	assert_int_equal(last_wqe(f)->sge_count, 0);
	assert_memory_equal(last_wqe(f)->inline_data, expected, 64);
	fixture_free(f);
}

static void atomics_invalidations_and_binds_keep_their_operands(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);

	wr.wr.atomic.remote_addr = 0x1001;	/* not aligned: the responder's to refuse */
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.swap = 2;
	wr.wr.atomic.rkey = 3;
	assert_int_equal(post(f, &wr), 0);
	assert_int_equal(last_wqe(f)->remote_address, 0x1001);
	assert_int_equal(last_wqe(f)->compare_add, 1);
	assert_int_equal(last_wqe(f)->swap, 2);
	assert_int_equal(last_wqe(f)->rkey, 3);

	wr = good_wr(f, IBV_WR_LOCAL_INV, &sge);
	wr.invalidate_rkey = 0x01020304;
	assert_int_equal(post(f, &wr), 0);
	assert_int_equal(last_wqe(f)->imm, 0x01020304);
	assert_int_equal(last_wqe(f)->length, 0);

	wr = good_wr(f, IBV_WR_BIND_MW, &sge);
	wr.bind_mw.rkey = 0x99;
	wr.bind_mw.bind_info.length = 5;
	assert_int_equal(post(f, &wr), 0);
	assert_ptr_equal(last_wqe(f)->mw, &f->mw);
	assert_int_equal(last_wqe(f)->rkey, 0x99);
	assert_int_equal(last_wqe(f)->bind.length, 5);
	fixture_free(f);
}

static void a_window_has_its_new_rkey_after_the_post(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_BIND_MW, &sge);

	/* Of the key that it is given, the low 8 bits are taken. */
	f->mw.ibv.rkey = 0x12345600;
	wr.bind_mw.rkey = 0xabcdef99;
	assert_int_equal(post(f, &wr), 0);
	assert_int_equal(f->mw.ibv.rkey, 0x12345699);
	assert_int_equal(last_wqe(f)->rkey, 0x12345699);
	/* But not after a refusal. */
	wr.bind_mw.rkey = 0x100;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ .length = 1 };
	assert_int_equal(post(f, &wr), EINVAL);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = (struct ibv_mr *)f, .length = (1ull << 31) + 1 };
	assert_int_equal(post(f, &wr), EOPNOTSUPP);
	assert_int_equal(f->mw.ibv.rkey, 0x12345699);
	fixture_free(f);
}

static void sq_sig_all_signals_each_request(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);

	assert_int_equal(post(f, &wr), 0);
	assert_false(last_wqe(f)->flags & IBV_SEND_SIGNALED);
	f->qp.signal_all = true;
	assert_int_equal(post(f, &wr), 0);
	assert_true(last_wqe(f)->flags & IBV_SEND_SIGNALED);
	fixture_free(f);
}

static void a_ud_send_holds_its_address_handle(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_UD, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);

	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = 0x80000000;
	assert_int_equal(post(f, &wr), 0);
	assert_int_equal(atomic_load(&f->ah.references), 2);
	assert_ptr_equal(last_wqe(f)->ah, &f->ah);
	assert_int_equal(last_wqe(f)->remote_qpn, 0xffffff);
	assert_int_equal(last_wqe(f)->remote_qkey, 0x80000000);
	fixture_free(f);	/* the queue gives it back */
}

/* ---- limits ---- */

static void lengths_are_accepted_up_to_their_limits(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		enum ibv_wr_opcode opcode;
		unsigned flags;
		uint64_t good, bad;
	} cases[] = {
		{ IBV_QPT_RC, IBV_WR_SEND, 0, 1ull << 31, (1ull << 31) + 1 },
		{ IBV_QPT_RC, IBV_WR_SEND, 0, 0, 3ull * UINT32_MAX },
		{ IBV_QPT_RC, IBV_WR_RDMA_READ, 0, 1ull << 31, (1ull << 32) },
		{ IBV_QPT_UC, IBV_WR_SEND, 0, 1ull << 31, (1ull << 31) + 1 },
		{ IBV_QPT_UD, IBV_WR_SEND, 0, 4096, 4097 },
		{ IBV_QPT_RC, IBV_WR_SEND, IBV_SEND_INLINE, MAX_INLINE, MAX_INLINE + 1 },
		{ IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 4 },
		{ IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 16 },
	};

	for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t left = i % 2 ? cases[i / 2].bad : cases[i / 2].good;
		struct fixture *f = fixture_new(cases[i / 2].type, IBV_QPS_RTS);
		struct ibv_sge sge[3];
		struct ibv_send_wr wr = good_wr(f, cases[i / 2].opcode, sge);

		wr.send_flags = cases[i / 2].flags;
		for (wr.num_sge = 0; left || !wr.num_sge; wr.num_sge++) {
			uint32_t part = left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;

			sge[wr.num_sge] = (struct ibv_sge){ (uintptr_t)f->memory, part, 0 };
			left -= part;
		}
		bool refused = i % 2 && cases[i / 2].flags;	/* inline data has to be there */

		if (post(f, &wr) != (refused ? EINVAL : 0) ||
		    (!refused && (last_wqe(f)->status == IBV_WC_LOC_LEN_ERR) != i % 2))
			fail_msg("case %u %s", i / 2, i % 2 ? "bad" : "good");
		fixture_free(f);
	}
}

static void a_ud_message_is_no_longer_than_the_mtu_of_the_qp(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_UD, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);

	f->qp.mtu = 1024;
	sge.length = 1024;
	assert_int_equal(post(f, &wr), 0);
	sge.length = 1025;
	assert_mentions(explain_post(f, &wr, 0),
			"1025 bytes: a UD message has at most the MTU of the port, 1024; it "
			"completes with IBV_WC_LOC_LEN_ERR");
	assert_int_equal(last_wqe(f)->opcode, WR_FAULTY);
	assert_int_equal(last_wqe(f)->status, IBV_WC_LOC_LEN_ERR);
	fixture_free(f);
}

static void the_number_of_sges_is_limited(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge[4] = { { 0 } };
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, sge);

	wr.num_sge = 3;
	assert_int_equal(post(f, &wr), 0);
	wr.num_sge = 4;
	assert_mentions(explain_post(f, &wr, EINVAL), "num_sge 4");
	wr.num_sge = -1;
	assert_int_equal(post(f, &wr), EINVAL);
	wr.num_sge = 1;
	wr.sg_list = NULL;
	assert_int_equal(post(f, &wr), EINVAL);
	wr.num_sge = 0;
	assert_int_equal(post(f, &wr), 0);
	fixture_free(f);
}

static void only_sends_and_writes_may_be_inline(void **state)
{
	static const enum ibv_wr_opcode good[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
		IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM };
	static const enum ibv_wr_opcode bad[] = { IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		wr = good_wr(f, good[i], &sge);
		wr.send_flags = IBV_SEND_INLINE;
		assert_int_equal(post(f, &wr), 0);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		wr = good_wr(f, bad[i], &sge);
		wr.send_flags = IBV_SEND_INLINE;
		assert_int_equal(post(f, &wr), EINVAL);
	}
	fixture_free(f);
}

static void inline_means_nothing_to_a_request_without_data(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_LOCAL_INV, IBV_WR_BIND_MW };
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;

	for (unsigned i = 0; i < 2; i++) {
		struct ibv_send_wr wr = good_wr(f, opcodes[i], &sge);

		wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
		assert_int_equal(post(f, &wr), 0);
		assert_int_equal(last_wqe(f)->opcode, opcodes[i]);
	}
	fixture_free(f);
}

static void a_read_that_could_never_start_is_refused(void **state) UNCHECKED_LOCKS
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_RDMA_READ, &sge);

	f->qp.attr.max_rd_atomic = 0;
	assert_mentions(explain_post(f, &wr, EINVAL), "max_rd_atomic");
	qp_set_state(&f->qp, IBV_QPS_ERR);
	assert_int_equal(post(f, &wr), 0);
	fixture_free(f);
}

static void wrong_operands_of_ud_and_bind_are_refused(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_UD, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);

	wr.wr.ud.remote_qpn = 0x1000000;
	assert_int_equal(post(f, &wr), EINVAL);
	wr.wr.ud.remote_qpn = 1;
	wr.wr.ud.ah = NULL;
	assert_mentions(explain_post(f, &wr, EINVAL), "address handle");
	wr.wr.ud.ah = &f->ah.ibv;
	f->ah.ibv.pd = &f->other_pd.ibv;
	assert_int_equal(f->qp.sq.head, 0);
	assert_mentions(explain_post(f, &wr, 0), "protection domain");
	assert_int_equal(last_wqe(f)->status, IBV_WC_LOC_QP_OP_ERR);
	assert_null(last_wqe(f)->ah);
	fixture_free(f);

	f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	wr = good_wr(f, IBV_WR_BIND_MW, &sge);
	wr.bind_mw.mw = NULL;
	assert_int_equal(post(f, &wr), EINVAL);
	wr = good_wr(f, IBV_WR_BIND_MW, &sge);
	wr.bind_mw.bind_info.mr = NULL;
	assert_int_equal(post(f, &wr), 0);	/* length 0: unbinds */
	wr.bind_mw.bind_info.length = 1;
	assert_int_equal(post(f, &wr), EINVAL);
	fixture_free(f);
}

/* ---- lists ---- */

static void requests_before_the_bad_one_stand(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_UD, IBV_QPS_RTS);
	struct ibv_send_wr wr[4], *bad = NULL;
	struct ibv_sge sge;

	for (unsigned i = 0; i < 4; i++) {
		wr[i] = good_wr(f, i == 2 ? (enum ibv_wr_opcode)99 : IBV_WR_SEND, &sge);
		wr[i].wr_id = i;
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	lock_acquire(&f->qp.lock);
	assert_int_equal(qp_post_send(&f->qp, wr, &bad), EINVAL);
	lock_release(&f->qp.lock);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(f->qp.sq.head, 2);
	assert_int_equal(last_wqe(f)->wr_id, 1);
	assert_int_equal(atomic_load(&f->ah.references), 3);
	fixture_free(f);
}

static int post_all(struct fixture *f, struct ibv_send_wr *wr)
{
	int err;

	lock_acquire(&f->qp.lock);
	err = qp_post_send_all(&f->qp, wr);
	lock_release(&f->qp.lock);
	return err;
}

/* Two binds of one window: taken back one after the other. */
static void all_of_a_list_stand_or_none(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr[3];
	int i;

	f->mw.ibv.rkey = 0x55;
	for (i = 0; i < 3; i++) {
		wr[i] = good_wr(f, IBV_WR_BIND_MW, &sge);
		wr[i].bind_mw.rkey = 0x56 + (uint32_t)i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[2].opcode = (enum ibv_wr_opcode)99;
	assert_int_equal(post_all(f, wr), EINVAL);
	assert_int_equal(f->qp.sq.head, f->qp.sq.tail);
	assert_int_equal(f->mw.ibv.rkey, 0x55);
	wr[2].opcode = IBV_WR_BIND_MW;
	assert_int_equal(post_all(f, wr), 0);
	assert_int_equal(f->qp.sq.head - f->qp.sq.tail, 3);
	assert_int_equal(f->mw.ibv.rkey, 0x58);
	fixture_free(f);
}

/* fixture_free() counts the references. */
static void what_is_taken_back_holds_no_address_handle(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_UD, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wrong = good_wr(f, IBV_WR_SEND, &sge), wr = wrong;

	wrong.num_sge = -1;
	wr.next = &wrong;
	assert_int_equal(post_all(f, &wr), EINVAL);
	assert_int_equal(f->qp.sq.head, f->qp.sq.tail);
	fixture_free(f);
}

static void a_full_queue_gives_enomem_at_exactly_its_size_also_where_counters_wrap(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);

	f->qp.sq.head = f->qp.sq.sent = f->qp.sq.tail = UINT32_MAX - 2;
	wqe_slots_free_to(&f->qp.sq.slots, f->qp.sq.tail);
	for (unsigned i = 0; i < SQ_SIZE; i++) {
		wr.wr_id = i;
		assert_int_equal(post(f, &wr), 0);
	}
	assert_mentions(explain_post(f, &wr, ENOMEM), "max_send_wr");
	for (unsigned i = 0; i < SQ_SIZE; i++)
		assert_int_equal(send_queue_at(&f->qp.sq, f->qp.sq.tail + i)->wr_id, i);
	f->qp.sq.tail++;
	assert_int_equal(post(f, &wr), ENOMEM);
	wqe_slot_free(&(struct wqe_slot){ &f->qp.sq.slots, f->qp.sq.tail - 1, false });
	assert_int_equal(post(f, &wr), 0);
	assert_int_equal(post(f, &wr), ENOMEM);
	fixture_free(f);
}

static void a_full_queue_says_how_many_are_executed_and_whether_any_is_signaled(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = good_wr(f, IBV_WR_SEND, &sge);

	for (unsigned i = 0; i < SQ_SIZE; i++)
		assert_int_equal(post(f, &wr), 0);
	f->qp.sq.tail += 2;
	f->qp.number = 0x54321;	/* told before of the other */
	assert_mentions(explain_post(f, &wr, ENOMEM),
			"6 requests are outstanding (executed: 2), and none is signaled");
	f->qp.sq.tail = f->qp.sq.head;
	wqe_slots_free_to(&f->qp.sq.slots, f->qp.sq.tail);
	wr.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(post(f, &wr), 0);
	wr.send_flags = 0;
	for (unsigned i = 1; i < SQ_SIZE; i++)
		assert_int_equal(post(f, &wr), 0);
	assert_mentions(explain_post(f, &wr, ENOMEM), "(executed: 0); a slot is free when");
	fixture_free(f);
}

static void a_list_in_a_circle_ends(void **state)
{
	struct fixture *f = fixture_new(IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_sge sge;
	struct ibv_send_wr *bad = NULL, wr = good_wr(f, IBV_WR_SEND, &sge);

	wr.next = &wr;
	lock_acquire(&f->qp.lock);
	assert_int_equal(qp_post_send(&f->qp, &wr, &bad), ENOMEM);
	lock_release(&f->qp.lock);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_request_is_taken_as_any_other),
		cmocka_unit_test(each_service_takes_its_opcodes_and_fails_others_in_their_turn),
		cmocka_unit_test(sends_are_taken_from_rts_on_and_receives_in_every_state),
		cmocka_unit_test(a_qp_that_was_reset_takes_no_receives),
		cmocka_unit_test(a_post_in_the_wrong_state_is_explained),
		cmocka_unit_test(flags_that_are_none_have_no_effect_and_are_explained),
		cmocka_unit_test(an_empty_list_is_posted_in_every_state),
		cmocka_unit_test(a_qp_with_an_srq_takes_no_receives),
		cmocka_unit_test(a_write_is_copied_whole),
		cmocka_unit_test(inline_data_is_gathered_at_the_post),
		cmocka_unit_test(atomics_invalidations_and_binds_keep_their_operands),
		cmocka_unit_test(a_window_has_its_new_rkey_after_the_post),
		cmocka_unit_test(sq_sig_all_signals_each_request),
		cmocka_unit_test(a_ud_send_holds_its_address_handle),
		cmocka_unit_test(lengths_are_accepted_up_to_their_limits),
		cmocka_unit_test(a_ud_message_is_no_longer_than_the_mtu_of_the_qp),
		cmocka_unit_test(the_number_of_sges_is_limited),
		cmocka_unit_test(only_sends_and_writes_may_be_inline),
		cmocka_unit_test(inline_means_nothing_to_a_request_without_data),
		cmocka_unit_test(a_read_that_could_never_start_is_refused),
		cmocka_unit_test(wrong_operands_of_ud_and_bind_are_refused),
		cmocka_unit_test(requests_before_the_bad_one_stand),
		cmocka_unit_test(all_of_a_list_stand_or_none),
		cmocka_unit_test(what_is_taken_back_holds_no_address_handle),
		cmocka_unit_test(
			a_full_queue_gives_enomem_at_exactly_its_size_also_where_counters_wrap),
		cmocka_unit_test(a_full_queue_says_how_many_are_executed_and_whether_any_is_signaled),
		cmocka_unit_test(a_list_in_a_circle_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
