// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory windows of both types, and what ends them: LOCAL_INV, SEND_WITH_INV, a new bind.
 */
#include <errno.h>
#include <string.h>

#include "verify.h"

#define LEN 4096
#define MW_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct windows {
	struct region region, out;
	struct link link;
};

static bool supported(struct side *side)
{
	struct ibv_device_attr attr;

	OK(ibv_query_device(side->context, &attr));
	return attr.max_mw > 0 && attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
							   IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

static void windows_open(struct side *side, struct windows *w)
{
	if (!exchange_u64(side, supported(side)) || !supported(side))
		skip(side, "no memory windows");
	region_create(side, &w->region, LEN, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	region_create(side, &w->out, LEN, IBV_ACCESS_LOCAL_WRITE);
	region_exchange(side, &w->region);
	link_open(side, &w->link, &(struct link_options){ 0 });
}

static void windows_close(struct windows *w)
{
	link_close(&w->link);
	region_destroy(&w->out);
	region_destroy(&w->region);
}

/* Bind a window of type 2 to [offset, offset + len) of the region; its new key. */
static uint32_t bind2(struct windows *w, struct ibv_mw *mw, size_t offset, size_t len,
		      unsigned access, enum ibv_wc_status status)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = 50, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = { .mr = w->region.mr, .length = len, .mw_access_flags = access,
				       .addr = (uintptr_t)w->region.mem + offset },
		},
	};

	OK(ibv_post_send(w->link.qp, &wr, &bad));
	expect_wc(w->link.send_cq, 50, status);
	return wr.bind_mw.rkey;
}

static struct op write_op(struct windows *w, uint64_t address, uint32_t rkey, size_t len)
{
	return (struct op){ .id = 60, .sges = 1, .sge = { sge_of(&w->out, 0, len) },
			    .opcode = IBV_WR_RDMA_WRITE, .address = address, .rkey = rkey };
}

/* Writes and reads through the window, of its range alone. */
static void through_window(struct windows *w, uint32_t rkey, size_t offset, size_t len)
{
	struct op op = write_op(w, w->region.peer_address + offset, rkey, len);

	pattern_fill(w->out.mem, len, 5);
	send_op(&w->link, &op);
	good_wc(w->link.send_cq, 60);
	memset(w->out.mem, 0, len);
	op.opcode = IBV_WR_RDMA_READ;
	send_op(&w->link, &op);
	good_wc(w->link.send_cq, 60);
	pattern_check(w->out.mem, len, 5, "READ through a window");
}

static void must_fail(struct windows *w, uint32_t rkey, size_t offset, size_t len)
{
	struct op op = write_op(w, w->region.peer_address + offset, rkey, len);

	send_op(&w->link, &op);
	expect_wc(w->link.send_cq, 60, IBV_WC_REM_ACCESS_ERR);
	CHECK(link_state(&w->link) == IBV_QPS_ERR, "state %d", link_state(&w->link));
}

static struct ibv_mw *window(struct side *side, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(side->pd, type);

	CHECK(mw, "ibv_alloc_mw: %m");
	return mw;
}

/* The server binds, the client uses, the client's SEND_WITH_INV ends it: the completion says. */
static void mw_send_inv(struct side *side)
{
	struct windows w;
	struct ibv_mw *mw = NULL;
	uint32_t rkey = 0;

	windows_open(side, &w);
	if (side->server) {
		mw = window(side, IBV_MW_TYPE_2);
		rkey = bind2(&w, mw, 64, 1000, MW_ACCESS, IBV_WC_SUCCESS);
		recv_op(&w.link, 1, NULL, 0);
		exchange_u64(side, rkey);
	} else {
		rkey = exchange_u64(side, 0);
		through_window(&w, rkey, 64, 1000);
		send_op(&w.link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND_WITH_INV,
			.rkey = rkey });
		good_wc(w.link.send_cq, 2);
	}
	if (side->server) {
		struct ibv_wc wc = good_wc(w.link.recv_cq, 1);

		CHECK(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == rkey,
		      "wc_flags 0x%x, invalidated 0x%x", wc.wc_flags, wc.invalidated_rkey);
	} else {
		must_fail(&w, rkey, 64, 8);
	}
	barrier(side);
	if (mw)
		OK(ibv_dealloc_mw(mw));
	windows_close(&w);
}

/* LOCAL_INV ends the window too. */
static void mw_local_inv(struct side *side)
{
	struct windows w;
	struct ibv_mw *mw = NULL;
	uint32_t rkey;

	windows_open(side, &w);
	if (side->server) {
		mw = window(side, IBV_MW_TYPE_2);
		rkey = bind2(&w, mw, 0, LEN, MW_ACCESS, IBV_WC_SUCCESS);
		exchange_u64(side, rkey);
		barrier(side);
		send_op(&w.link, &(struct op){ .id = 3, .opcode = IBV_WR_LOCAL_INV, .rkey = rkey });
		good_wc(w.link.send_cq, 3);
		barrier(side);
	} else {
		rkey = exchange_u64(side, 0);
		through_window(&w, rkey, 0, LEN);
		barrier(side);
		barrier(side);
		must_fail(&w, rkey, 0, 8);
	}
	barrier(side);
	if (mw)
		OK(ibv_dealloc_mw(mw));
	windows_close(&w);
}

/* One bind, signaled or not, of a window on any queue pair; the completion says @status. */
static void bind_by(struct windows *w, struct ibv_mw *mw, uint32_t rkey, size_t len, enum ibv_wc_status status)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = 51, .opcode = IBV_WR_BIND_MW,
		.send_flags = status == IBV_WC_SUCCESS ? IBV_SEND_SIGNALED : 0,
		.bind_mw = {
			.mw = mw, .rkey = rkey,
			.bind_info = { .mr = w->region.mr, .length = len, .mw_access_flags = MW_ACCESS,
				       .addr = (uintptr_t)w->region.mem },
		},
	};

	OK(ibv_post_send(w->link.qp, &wr, &bad));
	expect_wc(w->link.send_cq, 51, status);
}

/*
 * The consumer chooses the low 8 bits of a type 2 window's key; the rest stays, whatever the request has there.
 * After an invalidation the window can be bound again, by the same key as well.
 */
static void mw_keys(struct side *side)
{
	static const uint32_t wanted[] = { 0xba, 1024, 0xffffffff, 1024, 1025, 0 };
	struct ibv_mw *mw = NULL, *second = NULL;
	struct windows w;

	windows_open(side, &w);
	if (side->server) {
		mw = window(side, IBV_MW_TYPE_2);
		second = window(side, IBV_MW_TYPE_2);
		bind_by(&w, second, 1024, 8, IBV_WC_SUCCESS);
	}
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		uint32_t rkey = 0;

		if (side->server) {
			rkey = (mw->rkey & ~0xffu) | (wanted[i] & 0xff);
			bind_by(&w, mw, wanted[i], LEN, IBV_WC_SUCCESS);
			CHECK(mw->rkey == rkey, "key 0x%x, not 0x%x", mw->rkey, rkey);
			CHECK(rkey != second->rkey, "two windows have the key 0x%x", rkey);
		}
		rkey = exchange_u64(side, rkey) | rkey;
		if (!side->server)
			through_window(&w, rkey, 0, LEN);
		barrier(side);
		if (side->server) {
			send_op(&w.link, &(struct op){ .id = 3, .opcode = IBV_WR_LOCAL_INV, .rkey = rkey });
			good_wc(w.link.send_cq, 3);
		}
	}
	barrier(side);
	if (side->server) {
		OK(ibv_dealloc_mw(mw));
		OK(ibv_dealloc_mw(second));
	}
	windows_close(&w);
}

/* What type 2 does not allow, each on queue pairs of its own; without IBV_SEND_SIGNALED they tell as well. */
static void mw_type2_errors(struct side *side)
{
	enum { REBIND, REBIND_SAME, EMPTY, INVALIDATE_OTHER_KEY, INVALIDATE_TWICE, OTHER_QP, ERRORS };

	for (int i = 0; i < ERRORS; i++) {
		struct ibv_mw *mw = window(side, IBV_MW_TYPE_2);
		struct windows w, other;
		uint32_t rkey;

		windows_open(side, &w);
		windows_open(side, &other);
		if (i != EMPTY)
			bind_by(&w, mw, 1024, LEN, IBV_WC_SUCCESS);
		rkey = mw->rkey;
		if (i == INVALIDATE_TWICE) {
			send_op(&w.link, &(struct op){ .id = 3, .opcode = IBV_WR_LOCAL_INV, .rkey = rkey });
			good_wc(w.link.send_cq, 3);
		}
		if (i == REBIND || i == REBIND_SAME || i == EMPTY) {
			bind_by(&w, mw, i == REBIND_SAME ? rkey : rkey + 1, i == EMPTY ? 0 : LEN,
				IBV_WC_MW_BIND_ERR);
		} else {
			send_op(i == OTHER_QP ? &other.link : &w.link, &(struct op){ .id = 4, .quiet = true,
				.opcode = IBV_WR_LOCAL_INV,
				.rkey = i == INVALIDATE_OTHER_KEY ? rkey ^ 1 : rkey });
			expect_wc(i == OTHER_QP ? other.link.send_cq : w.link.send_cq, 4, IBV_WC_MW_BIND_ERR);
		}
		CHECK(link_state(i == OTHER_QP ? &other.link : &w.link) == IBV_QPS_ERR, "case %d goes on", i);
		/* Bound or not, it does not keep its queue pair. */
		windows_close(&other);
		link_close(&w.link);
		OK(ibv_dealloc_mw(mw));
		region_destroy(&w.out);
		region_destroy(&w.region);
	}
}

/* A window gives its own range and rights, not those of its region. */
static void mw_bounds(struct side *side)
{
	for (int i = 0; i < 3; i++) {
		struct windows w;
		struct ibv_mw *mw = NULL;

		windows_open(side, &w);
		if (side->server) {
			mw = window(side, IBV_MW_TYPE_2);
			exchange_u64(side, bind2(&w, mw, 100, 200, i == 2 ? IBV_ACCESS_REMOTE_READ :
						 IBV_ACCESS_REMOTE_WRITE, IBV_WC_SUCCESS));
		} else {
			static const size_t at[] = { 99, 300, 150 };

			must_fail(&w, exchange_u64(side, 0), at[i], 1);
		}
		barrier(side);
		if (mw)
			OK(ibv_dealloc_mw(mw));
		windows_close(&w);
	}
}

/* ibv_bind_mw, type 1: a new bind ends the old key; a bind of length 0 ends the window. */
static void mw_type1(struct side *side)
{
	struct windows w;
	struct ibv_mw *mw = NULL;

	windows_open(side, &w);
	if (side->server) {
		struct ibv_mw_bind bind = {
			.wr_id = 7, .send_flags = IBV_SEND_SIGNALED,
			.bind_info = { .mr = w.region.mr, .addr = (uintptr_t)w.region.mem,
				       .length = 512, .mw_access_flags = MW_ACCESS } };
		uint32_t old;

		mw = window(side, IBV_MW_TYPE_1);
		bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
		REFUSED(ibv_bind_mw(w.link.qp, mw, &bind), EINVAL);
		bind.bind_info.mw_access_flags = MW_ACCESS;
		OK(ibv_bind_mw(w.link.qp, mw, &bind));
		good_wc(w.link.send_cq, 7);
		old = mw->rkey;
		exchange_u64(side, old);
		barrier(side);
		OK(ibv_bind_mw(w.link.qp, mw, &bind));
		good_wc(w.link.send_cq, 7);
		CHECK(mw->rkey != old, "a new bind keeps the key 0x%x", old);
		exchange_u64(side, mw->rkey);
	} else {
		uint32_t old = exchange_u64(side, 0);

		through_window(&w, old, 0, 512);
		barrier(side);
		through_window(&w, exchange_u64(side, 0), 0, 512);
		must_fail(&w, old, 0, 8);
	}
	barrier(side);
	if (mw)
		OK(ibv_dealloc_mw(mw));
	windows_close(&w);
}

/* A region with windows stays; one without MW_BIND, or of another PD, takes none. */
static void mw_rules(struct side *side)
{
	struct windows w;
	struct ibv_mw *mw, *foreign;
	struct ibv_pd *pd = ibv_alloc_pd(side->context);
	struct ibv_mr *whole;

	CHECK(pd, "ibv_alloc_pd: %m");
	windows_open(side, &w);
	mw = window(side, IBV_MW_TYPE_2);
	bind2(&w, mw, 0, LEN, MW_ACCESS, IBV_WC_SUCCESS);
	REFUSED(ibv_dereg_mr(w.region.mr), EBUSY);
	OK(ibv_dealloc_mw(mw));
	foreign = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(foreign, "ibv_alloc_mw: %m");
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	OK(ibv_dealloc_mw(foreign));
	mw = window(side, IBV_MW_TYPE_2);
	whole = w.region.mr;
	w.region.mr = ibv_reg_mr(side->pd, w.region.mem, LEN, ALL_ACCESS);
	CHECK(w.region.mr, "ibv_reg_mr: %m");
	bind2(&w, mw, 0, LEN, MW_ACCESS, IBV_WC_MW_BIND_ERR);
	CHECK(link_state(&w.link) == IBV_QPS_ERR, "state %d", link_state(&w.link));
	OK(ibv_dereg_mr(w.region.mr));
	w.region.mr = whole;
	OK(ibv_dealloc_mw(mw));
	OK(ibv_dealloc_pd(pd));
	windows_close(&w);
}

/* Refusals are not repeated (remote_error.c). */
const struct test window_tests[] = {
	{ "mw_send_inv", mw_send_inv, TAG_LOSSLESS },
	{ "mw_local_inv", mw_local_inv, TAG_LOSSLESS },
	{ "mw_keys", mw_keys, TAG_LOSSLESS },
	{ "mw_type2_errors", mw_type2_errors, TAG_LOSSLESS },
	{ "mw_bounds", mw_bounds, TAG_LOSSLESS },
	{ "mw_type1", mw_type1, TAG_LOSSLESS },
	{ "mw_rules", mw_rules, 0 },
	{ 0 }
};
