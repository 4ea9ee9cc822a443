// SPDX-License-Identifier: BSD-2-Clause
/*
 * What our own end refuses: at post, in a completion, and in each state of the QP.
 */
#include <errno.h>
#include <string.h>

#include "verify.h"

#define LEN 4096

/* A send from memory that its key does not cover: an error completion, then flushes. */
static void rc_bad_local_key(struct side *side)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_READ, IBV_WR_RDMA_READ };
	struct region region, read_only;
	struct link link;

	region_create(side, &region, LEN, ALL_ACCESS);
	region_create(side, &read_only, LEN, 0);
	region_exchange(side, &region);
	for (int i = 0; i < 4; i++) {
		struct op op = { .id = 1, .opcode = opcodes[i], .sges = 1,
				 .rkey = region.peer_rkey, .address = region.peer_address,
				 .sge = { sge_of(&region, 0, 64) } };

		link_open(side, &link, &(struct link_options){ 0 });
		if (i == 3)
			op.sge[0] = sge_of(&read_only, 0, 64);	/* a READ writes locally */
		else if (i == 0)
			op.sge[0].length = LEN + 1;
		else
			op.sge[0].lkey ^= 0x4400;
		recv_op(&link, 7, NULL, 0);
		barrier(side);
		if (!side->server) {
			send_op(&link, &op);
			send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND });
			expect_wc(link.send_cq, 1, IBV_WC_LOC_PROT_ERR);
			expect_flush(link.send_cq, 2, 2);
			expect_flush(link.recv_cq, 7, 7);
		}
		link_close(&link);
	}
	region_destroy(&read_only);
	region_destroy(&region);
}

/* What ibv_post_send and ibv_post_recv say at once; what was posted before stays posted. */
static void post_refusals(struct side *side)
{
	struct region region;
	struct link link;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_send_wr wr[3] = { 0 }, *bad = NULL;
	struct ibv_sge sge[64];
	uint32_t posted = 0;

	region_create(side, &region, LEN, ALL_ACCESS);
	link_open(side, &link, &(struct link_options){ .wr = 8, .sge = 2, .inline_bytes = 32 });
	OK(ibv_query_qp(link.qp, &attr, IBV_QP_CAP, &init));
	for (int i = 0; i < 64; i++)
		sge[i] = sge_of(&region, i, 1);
	CHECK(init.cap.max_recv_sge < 64 && init.cap.max_send_sge < 64, "max_sge %u, %u",
	      init.cap.max_recv_sge, init.cap.max_send_sge);
	CHECK(try_recv(&link, 1, sge, init.cap.max_recv_sge + 1) == EINVAL, "too many SGEs");
	while (posted <= init.cap.max_recv_wr && !try_recv(&link, 10 + posted, NULL, 0))
		posted++;
	CHECK(posted == init.cap.max_recv_wr, "%u receives posted, max_recv_wr is %u", posted,
	      init.cap.max_recv_wr);
	CHECK(try_recv(&link, 1, NULL, 0) == ENOMEM, "one receive too many");
	barrier(side);

	/* The first of three is sent, the second is refused and named, the third not looked at. */
	for (int i = 0; i < 3; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = i, .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED, .next = i < 2 ? &wr[i + 1] : NULL };
	wr[1].sg_list = sge;
	wr[1].num_sge = init.cap.max_send_sge + 1;
	REFUSED(ibv_post_send(link.qp, wr, &bad), EINVAL);
	CHECK(bad == &wr[1], "bad_wr is %td", bad - wr);
	good_wc(link.send_cq, 0);
	good_wc(link.recv_cq, 10);
	sge[0].length = init.cap.max_inline_data + 1;
	wr[2].sg_list = sge;
	wr[2].num_sge = 1;
	wr[2].send_flags |= IBV_SEND_INLINE;
	REFUSED(ibv_post_send(link.qp, &wr[2], &bad), EINVAL);
	wr[2].opcode = 200;
	wr[2].send_flags = 0;
	CHECK(ibv_post_send(link.qp, &wr[2], &bad) == EINVAL, "opcode 200 is accepted");
	expect_no_wc(link.send_cq, 20);
	CHECK(link_state(&link) == IBV_QPS_RTS, "state %d", link_state(&link));
	link_close(&link);
	region_destroy(&region);
}

/* A send queue holds max_send_wr; the completion, polled, makes room. */
static void send_queue_full(struct side *side)
{
	struct link link;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t most, posted = 0;

	link_open(side, &link, &(struct link_options){ .wr = 8, .rnr_retry = 7 });
	OK(ibv_query_qp(link.qp, &attr, IBV_QP_CAP, &init));
	most = init.cap.max_send_wr;
	if (!side->server) {
		while (posted <= most &&
		       !try_send(&link, &(struct op){ .id = posted, .opcode = IBV_WR_SEND }))
			posted++;
		CHECK(posted == most, "%u sends posted, max_send_wr is %u", posted, most);
		CHECK(try_send(&link, &(struct op){ .opcode = IBV_WR_SEND }) == ENOMEM, "errno");
	}
	barrier(side);
	for (uint32_t i = 0; i < most; i++) {
		if (side->server) {
			recv_op(&link, i, NULL, 0);
			good_wc(link.recv_cq, i);
		} else {
			good_wc(link.send_cq, i);
		}
	}
	link_close(&link);
}

static uint32_t post_quietly_until_full(struct link *link, uint32_t most)
{
	uint32_t posted = 0;

	while (posted <= most &&
	       !try_send(link, &(struct op){.id = posted, .opcode = IBV_WR_SEND, .quiet = true}))
		posted++;
	return posted;
}

/*
 * As with mlx5: a request that is executed has its slot until its completion was polled, or that of a later
 * one; unsignaled requests alone fill the queue for ever. Receives: until they are polled.
 */
static void slots_are_free_when_polled(struct side *side)
{
	struct link link;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t most;

	link_open(side, &link, &(struct link_options){ .wr = 8, .cqe = 8 });
	OK(ibv_query_qp(link.qp, &attr, IBV_QP_CAP, &init));
	most = init.cap.max_send_wr;
	CHECK(exchange_u64(side, most) == most && init.cap.max_recv_wr == most, "ends differ");
	for (uint32_t i = 0; side->server && i < most; i++)
		recv_op(&link, i, NULL, 0);
	barrier(side);
	if (!side->server) {
		for (uint32_t i = 0; i + 1 < most; i++)
			send_op(&link, &(struct op){ .id = i, .opcode = IBV_WR_SEND, .quiet = i != 3 });
		send_op(&link, &(struct op){ .id = most, .opcode = IBV_WR_SEND, .quiet = true });
	}
	barrier(side);
	if (side->server) {
		pause_ms(50);	/* all of it comes, and nobody polls */
		CHECK(try_recv(&link, 0, NULL, 0) == ENOMEM, "a receive that nobody polled for makes room");
		for (uint32_t i = 0; i < most; i++)
			good_wc(link.recv_cq, i);
		for (uint32_t i = 0; i < most; i++)
			recv_op(&link, i, NULL, 0);
		CHECK(try_recv(&link, 0, NULL, 0) == ENOMEM, "one receive too many");
	} else {
		CHECK(try_send(&link, &(struct op){ .opcode = IBV_WR_SEND }) == ENOMEM, "room without polling");
		good_wc(link.send_cq, 3);
	}
	barrier(side);
	if (!side->server) {
		CHECK(post_quietly_until_full(&link, most) == 4, "polling the fourth makes room for four");
		expect_no_wc(link.send_cq, 20);
		CHECK(try_send(&link, &(struct op){.opcode = IBV_WR_SEND}) == ENOMEM,
		      "unsignaled ones make room");
	}
	barrier(side);
	link_close(&link);
}

/* By state: receives in each, but not after a move to RESET; sends from RTS on; all in ERR (flushed). */
static void post_by_state(struct side *side)
{
	struct link_options usual = { 0 };
	struct op op = { .id = 1, .opcode = IBV_WR_SEND };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct link link;

	link_create(side, &link, &usual);
	recv_op(&link, 1, NULL, 0);
	CHECK(try_send(&link, &op) == EINVAL, "send in RESET");
	link_to_init(&link, &usual);
	CHECK(try_send(&link, &op) == EINVAL, "send in INIT");
	recv_op(&link, 2, NULL, 0);
	link_to_rtr(&link, &usual);
	CHECK(try_send(&link, &op) == EINVAL, "send in RTR");
	recv_op(&link, 3, NULL, 0);
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
	recv_op(&link, 4, NULL, 0);
	send_op(&link, &op);
	expect_flush(link.recv_cq, 1, 4);
	expect_flush(link.send_cq, 1, 1);
	attr.qp_state = IBV_QPS_RESET;
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
	CHECK(try_recv(&link, 5, NULL, 0) == EINVAL, "receive in RESET again");
	link_to_init(&link, &usual);
	recv_op(&link, 5, NULL, 0);
	barrier(side);
	link_to_rtr(&link, &usual);	/* and it works again, from the start */
	link_to_rts(&link, &usual);
	barrier(side);
	send_op(&link, &op);
	good_wc(link.send_cq, 1);
	good_wc(link.recv_cq, 5);
	link_close(&link);
}

/* As with mlx5: what the type of the QP does not have is posted, and completes with an error. */
static void ops_of_other_types(struct side *side)
{
	static const struct {
		enum ibv_qp_type type;
		enum ibv_wr_opcode opcode;
		uint32_t length;
		enum ibv_wc_status status;
	} cases[] = {
		{ IBV_QPT_UD, IBV_WR_RDMA_READ, 8, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UD, IBV_WR_RDMA_WRITE, 8, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UD, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UD, IBV_WR_LOCAL_INV, 0, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UC, IBV_WR_RDMA_READ, 8, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UC, IBV_WR_ATOMIC_CMP_AND_SWP, 8, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UC, IBV_WR_SEND_WITH_INV, 8, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 9, IBV_WC_LOC_LEN_ERR },
		{ IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP, 4, IBV_WC_LOC_LEN_ERR },
	};
	struct region region;

	region_create(side, &region, LEN, ALL_ACCESS);
	region_exchange(side, &region);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct op op = { .id = 2, .opcode = cases[i].opcode, .sges = cases[i].length ? 1 : 0,
				 .rkey = region.peer_rkey, .address = region.peer_address,
				 .sge = { sge_of(&region, 0, cases[i].length) }, .quiet = true };
		struct link link;

		link_open(side, &link, &(struct link_options){ .type = cases[i].type });
		barrier(side);
		if (!side->server) {
			send_op(&link, &op);
			expect_wc(link.send_cq, 2, cases[i].status);
		}
		barrier(side);
		link_close(&link);
	}
	region_destroy(&region);
}

/* Moving to RESET drops what was posted, without completions, also those not polled yet. */
static void reset_forgets(struct side *side)
{
	struct link_options usual = { 0 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct link link;

	link_open(side, &link, &usual);
	for (int i = 0; i < 5; i++)
		recv_op(&link, i, NULL, 0);
	barrier(side);
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
	expect_no_wc(link.recv_cq, 20);
	CHECK(link_state(&link) == IBV_QPS_RESET, "state %d", link_state(&link));
	link_close(&link);
}

const struct test local_error_tests[] = {
	{ "rc_bad_local_key", rc_bad_local_key, 0 },
	{ "post_refusals", post_refusals, 0 },
	{ "send_queue_full", send_queue_full, 0 },
	{ "ops_of_other_types", ops_of_other_types, 0 },
	{ "slots_are_free_when_polled", slots_are_free_when_polled, 0 },
	{ "post_by_state", post_by_state, 0 },
	{ "reset_forgets", reset_forgets, 0 },
	{ 0 }
};
