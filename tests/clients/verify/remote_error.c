// SPDX-License-Identifier: BSD-2-Clause
/*
 * Requests that the other end refuses, each on a QP of its own. The client must get exactly the
 * status that the specification names, then flushes in order; the server's QP fails too, with its
 * receives flushed in order, or stays as it was where the specification says so.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "verify.h"

#define LEN 4096
#define ATOMIC IBV_WR_ATOMIC_FETCH_AND_ADD

/* What is asked, on what, and what comes of it. */
struct refusal {
	const char *name;
	enum ibv_wr_opcode opcode;
	size_t offset, len;
	int region_access;		/* of the server's region; 0: ALL_ACCESS */
	int qp_access;			/* of the server's QP; 0: all, -1: none */
	bool bad_key, other_pd, deregistered;
	enum ibv_wc_status status;
	enum ibv_event_type event;	/* at the server */
};

#define ACCESS_ERROR IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR
#define INVALID IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR
#define LW IBV_ACCESS_LOCAL_WRITE

static const struct refusal refusals[] = {
	{ "write, bad key", IBV_WR_RDMA_WRITE, 0, 8, 0, 0, true, 0, 0, ACCESS_ERROR },
	{ "read, bad key", IBV_WR_RDMA_READ, 0, 8, 0, 0, true, 0, 0, ACCESS_ERROR },
	{ "atomic, bad key", ATOMIC, 0, 8, 0, 0, true, 0, 0, ACCESS_ERROR },
	{ "write past the end", IBV_WR_RDMA_WRITE, LEN - 4, 8, 0, 0, 0, 0, 0, ACCESS_ERROR },
	{ "read past the end", IBV_WR_RDMA_READ, LEN - 4, 8, 0, 0, 0, 0, 0, ACCESS_ERROR },
	{ "write before the start", IBV_WR_RDMA_WRITE, -1ul, 8, 0, 0, 0, 0, 0, ACCESS_ERROR },
	{ "write around the address space", IBV_WR_RDMA_WRITE, -1ul << 63, 8, 0, 0, 0, 0, 0,
	  ACCESS_ERROR },
	{ "write of many packets past the end", IBV_WR_RDMA_WRITE, 1, 3 * LEN, 0, 0, 0, 0, 0,
	  ACCESS_ERROR },
	{ "region without remote write", IBV_WR_RDMA_WRITE, 0, 8, LW | IBV_ACCESS_REMOTE_READ, 0, 0,
	  0, 0, ACCESS_ERROR },
	{ "region without remote read", IBV_WR_RDMA_READ, 0, 8, LW | IBV_ACCESS_REMOTE_WRITE, 0, 0,
	  0, 0, ACCESS_ERROR },
	{ "region without remote atomic", ATOMIC, 0, 8, LW | IBV_ACCESS_REMOTE_WRITE, 0, 0, 0, 0,
	  ACCESS_ERROR },
	{ "write, region of another PD", IBV_WR_RDMA_WRITE, 0, 8, 0, 0, 0, true, 0, ACCESS_ERROR },
	{ "read, region deregistered", IBV_WR_RDMA_READ, 0, 8, 0, 0, 0, 0, true, ACCESS_ERROR },
	{ "QP without remote write", IBV_WR_RDMA_WRITE, 0, 8, 0, -1, 0, 0, 0, INVALID },
	{ "QP without remote read", IBV_WR_RDMA_READ, 0, 8, 0, -1, 0, 0, 0, INVALID },
	{ "QP without remote atomic", ATOMIC, 0, 8, 0, -1, 0, 0, 0, INVALID },
	{ "unaligned atomic", ATOMIC, 4, 8, 0, 0, 0, 0, 0, INVALID },
};
#define REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

enum { FIRST_RECV = 100, RECVS = 3, SENDS_BEHIND = 4 };

static void refusing_server(struct side *side, struct link *link, const struct refusal *r,
			    struct region *region)
{
	if (r->deregistered) {
		OK(ibv_dereg_mr(region->mr));
		region->mr = NULL;
	}
	for (int i = 0; i < RECVS; i++)
		recv_op(link, FIRST_RECV + i, NULL, 0);
	barrier(side);
	link_wait_error(link);
	expect_flush(link->recv_cq, FIRST_RECV, FIRST_RECV + RECVS - 1);
	expect_event(side, r->event);
}

static void refused_client(struct side *side, struct link *link, const struct refusal *r,
			   struct region *region, struct region *local)
{
	struct op op = { .id = 1, .opcode = r->opcode, .sges = 1, .compare_add = 1,
			 .sge = { sge_of(local, 0, r->len) },
			 .address = region->peer_address + r->offset,
			 .rkey = r->bad_key ? region->peer_rkey ^ 0x5500 : region->peer_rkey };

	for (int i = 0; i < RECVS; i++)
		recv_op(link, FIRST_RECV + i, NULL, 0);
	barrier(side);
	send_op(link, &op);
	for (int i = 0; i < SENDS_BEHIND; i++)
		send_op(link, &(struct op){ .id = 2 + i, .opcode = IBV_WR_SEND, .quiet = i % 2 });
	expect_wc(link->send_cq, 1, r->status);
	expect_flush(link->send_cq, 2, 1 + SENDS_BEHIND);	/* unsignalled ones too */
	expect_flush(link->recv_cq, FIRST_RECV, FIRST_RECV + RECVS - 1);
	CHECK(link_state(link) == IBV_QPS_ERR, "state %d", link_state(link));
	/* What is posted in ERR is flushed as well. */
	send_op(link, &(struct op){ .id = 90, .opcode = IBV_WR_SEND });
	recv_op(link, 91, NULL, 0);
	expect_flush(link->send_cq, 90, 90);
	expect_flush(link->recv_cq, 91, 91);
}

static void refuse(struct side *side, const struct refusal *r)
{
	struct region region, local;
	struct ibv_pd *own = side->pd, *other = ibv_alloc_pd(side->context);
	struct link link;

	CHECK(other, "ibv_alloc_pd: %m");
	if (r->other_pd)
		side->pd = other;
	region_create(side, &region, LEN, r->region_access ? r->region_access : (int)ALL_ACCESS);
	side->pd = own;
	region_create(side, &local, 4 * LEN, LW);
	memset(region.mem, 0x77, LEN);
	region_exchange(side, &region);
	link_open(side, &link, &(struct link_options){ .access = r->qp_access });
	if (side->server)
		refusing_server(side, &link, r, &region);
	else
		refused_client(side, &link, r, &region, &local);
	if (r->len <= 8)
		byte_check(region.mem, LEN, 0x77, "region behind a refusal");
	link_close(&link);
	region_destroy(&local);
	region_destroy(&region);
	OK(ibv_dealloc_pd(other));
}

static void rc_refused(struct side *side)
{
	for (size_t i = 0; i < REFUSALS; i++) {
		refuse(side, &refusals[i]);
		if (!side->server)
			printf("# %s: refused as specified\n", refusals[i].name);
	}
}

/* A message longer than the receive it gets. */
static void rc_too_long(struct side *side)
{
	struct region region;
	struct link link;

	region_create(side, &region, 65536, LW);
	link_open(side, &link, &(struct link_options){ 0 });
	if (side->server) {
		recv_region(&link, 1, &region, 0, 5000);
		recv_region(&link, 2, &region, 0, 5000);
		barrier(side);
		expect_wc(link.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
		expect_flush(link.recv_cq, 2, 2);
	} else {
		barrier(side);
		send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_SEND, .sges = 1,
			.sge = { sge_of(&region, 0, 5001) } });
		expect_wc(link.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	}
	CHECK(link_state(&link) == IBV_QPS_ERR, "state %d", link_state(&link));
	link_close(&link);
	region_destroy(&region);
}

/* The receive that a WRITE with immediate would take fails with it, however many packets it has. */
static void rc_write_imm_refused(struct side *side)
{
	static const size_t sizes[] = { 8, 4000, 100000 };

	for (int i = 0; i < 6; i++) {
		size_t len = sizes[i / 2];
		struct region region, out;
		struct link link;
		bool disabled = i & 1;

		region_create(side, &region, len, ALL_ACCESS);
		region_create(side, &out, len, LW);
		region_exchange(side, &region);
		link_open(side, &link, &(struct link_options){ .access = disabled ? -1 : 0 });
		if (side->server)
			for (int id = 1; id <= 3; id++)
				recv_op(&link, id, NULL, 0);
		barrier(side);
		if (!side->server) {
			send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sges = 1,
				.sge = { sge_of(&out, 0, len) }, .address = region.peer_address,
				.rkey = disabled ? region.peer_rkey : region.peer_rkey ^ 0x5500 });
			expect_wc(link.send_cq, 1, disabled ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
		} else {
			expect_wc(link.recv_cq, 1, disabled ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_LOC_ACCESS_ERR);
			expect_flush(link.recv_cq, 2, 3);
			CHECK(link_state(&link) == IBV_QPS_ERR, "state %d", link_state(&link));
		}
		barrier(side);
		link_close(&link);
		region_destroy(&out);
		region_destroy(&region);
	}
}

/* What a SEND with invalidate cannot invalidate (class J): the receive fails, and nobody tells the sender. */
static void rc_invalidate_refused(struct side *side)
{
	for (int i = 0; i < 3; i++) {
		struct region region;
		struct link link;

		region_create(side, &region, LEN, ALL_ACCESS);
		region_exchange(side, &region);
		link_open(side, &link, &(struct link_options){ .timeout = 12, .retry = 2 });
		if (side->server)
			for (int id = 1; id <= 2; id++)
				recv_region(&link, id, &region, 0, LEN);
		barrier(side);
		if (!side->server) {
			send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_SEND_WITH_INV, .sges = 1,
				.sge = { sge_of(&region, 0, i ? LEN : 8) },
				.rkey = i == 2 ? region.peer_rkey ^ 0x5500 : region.peer_rkey });
			send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND });
			expect_wc(link.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
			expect_flush(link.send_cq, 2, 2);
		} else {
			expect_wc(link.recv_cq, 1, IBV_WC_MW_BIND_ERR);
			expect_flush(link.recv_cq, 2, 2);
		}
		CHECK(link_state(&link) == IBV_QPS_ERR, "state %d", link_state(&link));
		barrier(side);
		link_close(&link);
		region_destroy(&region);
	}
}

/* A receive into memory that its key does not cover. */
static void rc_bad_receive(struct side *side)
{
	struct region region;
	struct link link;
	struct ibv_sge sge;

	region_create(side, &region, 4096, LW);
	link_open(side, &link, &(struct link_options){ 0 });
	sge = sge_of(&region, 4000, 200);
	if (side->server) {
		recv_op(&link, 1, &sge, 1);
		recv_op(&link, 2, NULL, 0);
		barrier(side);
		expect_wc(link.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
		expect_flush(link.recv_cq, 2, 2);
	} else {
		barrier(side);
		send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_SEND, .sges = 1,
			.sge = { sge_of(&region, 0, 200) } });
		expect_wc(link.send_cq, 1, IBV_WC_REM_OP_ERR);
	}
	link_close(&link);
	region_destroy(&region);
}

static int64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* No receive at the other end: an error after rnr_retry waits; with 7, none ever. */
static void rc_rnr(struct side *side)
{
	struct link link;

	link_open(side, &link, &(struct link_options){ .rnr_retry = 2, .min_rnr_timer = 14 });
	if (!side->server) {
		int64_t begin = milliseconds(), took;

		send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_SEND });
		send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND });
		expect_wc(link.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		took = milliseconds() - begin;	/* the timer of code 14 is 1.28 ms, twice */
		CHECK(took >= 2 && took < 2000, "after %d ms", (int)took);
		expect_flush(link.send_cq, 2, 2);
		CHECK(link_state(&link) == IBV_QPS_ERR, "state %d", link_state(&link));
	}
	barrier(side);
	if (side->server)		/* a QP that said "not ready" is not in error */
		CHECK(link_state(&link) == IBV_QPS_RTS, "state %d", link_state(&link));
	link_close(&link);

	link_open(side, &link, &(struct link_options){ .rnr_retry = 7, .timeout = 13, .retry = 2,
						       .min_rnr_timer = 14 });
	if (!side->server) {
		send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_SEND });
		expect_no_wc(link.send_cq, 300);
		barrier(side);
		good_wc(link.send_cq, 1);
	} else {
		barrier(side);
		recv_op(&link, 1, NULL, 0);
		good_wc(link.recv_cq, 1);
	}
	link_close(&link);
}

static bool is_same_host(const struct side *side)
{
	return !side->local && !memcmp(&side->gid, &side->peer_gid, sizeof(side->gid));
}

/* The other end's QP is gone: retry exceeded, not before its time and not long after. */
static void rc_retry_exceeded(struct side *side)
{
	struct link link;
	bool gone = side->server;

	link_create(side, &link, &(struct link_options){ 0 });
	link_to_init(&link, &(struct link_options){ 0 });
	link_to_rtr(&link, &(struct link_options){ 0 });
	link_to_rts(&link, &(struct link_options){ .timeout = 14, .retry = 3 });
	barrier(side);
	if (gone)
		OK(ibv_destroy_qp(link.qp));
	barrier(side);
	if (!gone) {
		int64_t begin = milliseconds(), took;

		for (int i = 1; i <= 3; i++)
			send_op(&link, &(struct op){ .id = i, .opcode = IBV_WR_SEND });
		recv_op(&link, 9, NULL, 0);
		expect_wc(link.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
		/* 4 tries of 67 ms, up to four times as long; another process of the host may say at once. */
		took = milliseconds() - begin;
		CHECK(took < 16 * 67 + 500, "after %d ms", (int)took);
		CHECK(took >= 4 * 67 || is_same_host(side), "after %d ms", (int)took);
		expect_flush(link.send_cq, 2, 3);
		expect_flush(link.recv_cq, 9, 9);
		OK(ibv_destroy_qp(link.qp));
	}
	OK(ibv_destroy_cq(link.send_cq));
	OK(ibv_destroy_cq(link.recv_cq));
}

/* UC refuses in silence: the sender is content, the receiver goes on with the next message. */
static void uc_refused(struct side *side)
{
	struct region region, out;
	struct link link;

	region_create(side, &region, LEN, ALL_ACCESS);
	region_create(side, &out, LEN, LW);
	memset(region.mem, 0x66, LEN);
	pattern_fill(out.mem, LEN, 2);
	region_exchange(side, &region);
	link_open(side, &link, &(struct link_options){ .type = IBV_QPT_UC });
	recv_region(&link, 1, &region, 0, 64);
	barrier(side);
	send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_RDMA_WRITE, .sges = 1,
		.sge = { sge_of(&out, 0, 64) }, .address = region.peer_address,
		.rkey = region.peer_rkey ^ 0x5500 });
	good_wc(link.send_cq, 1);
	barrier(side);
	byte_check(region.mem, LEN, 0x66, "region behind a refusal");
	barrier(side);
	send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND, .sges = 1,
		.sge = { sge_of(&out, 0, 64) } });
	good_wc(link.send_cq, 2);
	good_wc(link.recv_cq, 1);
	pattern_check(region.mem, 64, 2, "message behind a refusal");
	link_close(&link);
	region_destroy(&out);
	region_destroy(&region);
}

/* A QP that has refused a request is in error, and repeats nothing: a NAK that is lost is not sent again. */
const struct test remote_error_tests[] = {
	{ "rc_refused", rc_refused, TAG_LOSSLESS },
	{ "rc_write_imm_refused", rc_write_imm_refused, TAG_LOSSLESS },
	{ "rc_invalidate_refused", rc_invalidate_refused, TAG_LOSSLESS },
	{ "rc_too_long", rc_too_long, TAG_LOSSLESS },
	{ "rc_bad_receive", rc_bad_receive, TAG_LOSSLESS },
	{ "rc_rnr", rc_rnr, 0 },
	{ "rc_retry_exceeded", rc_retry_exceeded, 0 },
	{ "uc_refused", uc_refused, TAG_LOSSLESS },
	{ 0 }
};
