// SPDX-License-Identifier: BSD-2-Clause
/*
 * Objects and their dependants, kinds of memory regions, and that queries answer what was set.
 */
#include <errno.h>
#include <string.h>

#include "verify.h"

/* Nothing is destroyed under something that uses it, and all of it in the right order. */
static void busy_objects(struct side *side)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(side->context);
	struct ibv_pd *pd = ibv_alloc_pd(side->context);
	struct ibv_cq *cq = ibv_create_cq(side->context, 10, NULL, channel, 0);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
					 .srq = srq, .cap = { 4, 0, 1, 0, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	static char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);

	CHECK(channel && pd && cq && srq && qp && mr, "creation: %m");
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	REFUSED(ibv_destroy_cq(cq), EBUSY);
	REFUSED(ibv_destroy_srq(srq), EBUSY);
	REFUSED(ibv_destroy_comp_channel(channel), EBUSY);
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_cq(cq));
	OK(ibv_destroy_comp_channel(channel));
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	OK(ibv_destroy_srq(srq));
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	OK(ibv_dereg_mr(mr));
	OK(ibv_dealloc_pd(pd));
}

/* What an application leaves behind when it closes the context is no error. */
static void closing_frees_all(struct side *side)
{
	for (int i = 0; i < 20; i++) {
		struct ibv_context *context = ibv_open_device(side->context->device);
		struct ibv_pd *pd;
		struct ibv_cq *cq;
		struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
						 .cap = { 4, 4, 1, 1, 0 } };

		CHECK(context, "ibv_open_device: %m");
		pd = ibv_alloc_pd(context);
		cq = ibv_create_cq(context, 10, NULL, NULL, 0);
		CHECK(pd && cq, "creation: %m");
		attr.send_cq = attr.recv_cq = cq;
		CHECK(ibv_create_qp(pd, &attr), "ibv_create_qp: %m");
		OK(ibv_close_device(context));
	}
}

static void write_into(struct side *side, struct link *link, struct region *out, uint64_t address,
		       uint32_t rkey, uint32_t seed)
{
	pattern_fill(out->mem, 1000, seed + side->server);
	barrier(side);
	send_op(link, &(struct op){ .id = seed, .sges = 1, .sge = { sge_of(out, 0, 1000) },
		.opcode = IBV_WR_RDMA_WRITE, .address = address, .rkey = rkey });
	good_wc(link->send_cq, seed);
	barrier(side);
}

/* A region is addressed by what it was registered with: an iova, or from zero. */
static void region_addresses(struct side *side)
{
	struct region out, target;
	struct link link;
	uint64_t iova, rkey;

	region_create(side, &out, 1000, 0);
	region_create(side, &target, 4096, ALL_ACCESS);
	iova = 0x7f0000000000ull | ((uintptr_t)target.mem & 4095);	/* hardware maps pages */
	link_open(side, &link, &(struct link_options){ 0 });
	OK(ibv_dereg_mr(target.mr));
	target.mr = ibv_reg_mr_iova(side->pd, target.mem, target.size, iova, ALL_ACCESS);
	CHECK(target.mr, "ibv_reg_mr_iova: %m");
	rkey = exchange_u64(side, target.mr->rkey);
	write_into(side, &link, &out, iova + 24, rkey, 1);
	pattern_check(target.mem + 24, 1000, 1 + !side->server, "write by iova");

	OK(ibv_dereg_mr(target.mr));
	target.mr = ibv_reg_mr(side->pd, target.mem, target.size,
			       ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	CHECK(target.mr, "ibv_reg_mr, zero based: %m");
	rkey = exchange_u64(side, target.mr->rkey);
	write_into(side, &link, &out, 77, rkey, 5);
	pattern_check(target.mem + 77, 1000, 5 + !side->server, "write, zero based");
	link_close(&link);
	region_destroy(&target);
	region_destroy(&out);
}

/* Reregistering changes access, address or PD, and the keys with them. */
static void region_rereg(struct side *side)
{
	struct region out, target;
	struct link link;
	uint32_t old;

	region_create(side, &out, 1000, 0);
	region_create(side, &target, 8192, IBV_ACCESS_LOCAL_WRITE);
	link_open(side, &link, &(struct link_options){ 0 });
	old = target.mr->rkey;
	OK(ibv_rereg_mr(target.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS));
	region_exchange(side, &target);
	write_into(side, &link, &out, target.peer_address, target.peer_rkey, 1);
	pattern_check(target.mem, 1000, 1 + !side->server, "write after rereg");
	OK(ibv_rereg_mr(target.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, target.mem + 4096, 4096,
			0));
	region_exchange(side, &target);
	write_into(side, &link, &out, target.peer_address + 4096, target.peer_rkey, 3);
	pattern_check(target.mem + 4096, 1000, 3 + !side->server, "write after rereg");
	CHECK(target.mr->addr == target.mem + 4096 && target.mr->length == 4096,
	      "addr %p, length %zu", target.mr->addr, target.mr->length);
	CHECK(old, "a key of zero");
	link_close(&link);
	region_destroy(&target);
	region_destroy(&out);
}

/* Flags that make no sense are refused, those that are hints are not. */
static void region_flags(struct side *side)
{
	static char memory[4096];
	struct ibv_mr *mr;

	CHECK(!ibv_reg_mr(side->pd, memory, sizeof(memory), IBV_ACCESS_REMOTE_WRITE) &&
	      errno == EINVAL, "remote write without local write: %m");
	CHECK(!ibv_reg_mr(side->pd, memory, sizeof(memory), IBV_ACCESS_REMOTE_ATOMIC) &&
	      errno == EINVAL, "remote atomic without local write: %m");
	mr = ibv_reg_mr(side->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE |
			IBV_ACCESS_RELAXED_ORDERING);
	CHECK(mr, "relaxed ordering: %m");
	CHECK(mr->lkey && mr->addr == memory && mr->length == sizeof(memory), "what it returns");
	OK(ibv_dereg_mr(mr));
}

static void query_answers(struct side *side)
{
	struct link_options options = { .timeout = 13, .retry = 5, .rnr_retry = 6,
					.min_rnr_timer = 20, .wr = 33, .sge = 3 };
	struct link link;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	link_open(side, &link, &options);
	OK(ibv_query_qp(link.qp, &attr, (IBV_QP_DEST_QPN << 1) - 1, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS && attr.cur_qp_state == IBV_QPS_RTS, "state %d",
	      attr.qp_state);
	CHECK(attr.timeout == 13 && attr.retry_cnt == 5 && attr.rnr_retry == 6 &&
	      attr.min_rnr_timer == 20, "timers %u %u %u %u", attr.timeout, attr.retry_cnt,
	      attr.rnr_retry, attr.min_rnr_timer);
	CHECK(attr.path_mtu == side->mtu && attr.dest_qp_num == link.peer_qpn, "path_mtu %d, "
	      "dest_qp_num 0x%x", attr.path_mtu, attr.dest_qp_num);
	CHECK(attr.sq_psn == link.psn && attr.rq_psn == link.peer_psn, "sq_psn 0x%x, rq_psn 0x%x",
	      attr.sq_psn, attr.rq_psn);
	CHECK(attr.max_rd_atomic == 8 && attr.max_dest_rd_atomic == 8, "rd_atomic %u %u",
	      attr.max_rd_atomic, attr.max_dest_rd_atomic);
	CHECK(attr.ah_attr.is_global && attr.ah_attr.grh.sgid_index == side->gid_index &&
	      !memcmp(&attr.ah_attr.grh.dgid, &side->peer_gid, 16), "address vector");
	CHECK(attr.port_num == 1 && attr.qp_access_flags == ALL_ACCESS, "port %u, access 0x%x",
	      attr.port_num, attr.qp_access_flags);
	CHECK(init.cap.max_send_wr >= 33 && init.cap.max_recv_wr >= 33 &&
	      init.cap.max_send_sge >= 3 && init.cap.max_recv_sge >= 3, "capacities");
	CHECK(init.qp_type == IBV_QPT_RC && init.send_cq == link.send_cq &&
	      init.recv_cq == link.recv_cq, "type and CQs");
	link_close(&link);
}

/* Transitions without a required attribute, with a wrong value, or from the wrong state. */
static void modify_refusals(struct side *side)
{
	struct link_options usual = { 0 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct link link;

	link_create(side, &link, &usual);
	REFUSED(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT),
		EINVAL);
	attr.port_num = 2;
	REFUSED(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS), EINVAL);
	attr.qp_state = IBV_QPS_RTS;
	REFUSED(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE), EINVAL);
	CHECK(link_state(&link) == IBV_QPS_RESET, "state %d", link_state(&link));
	link_to_init(&link, &usual);
	attr.qp_state = IBV_QPS_RTR;		/* as for InfiniBand: no GRH */
	attr.path_mtu = side->mtu;
	attr.dest_qp_num = link.peer_qpn;
	attr.ah_attr.dlid = 1;
	attr.ah_attr.port_num = 1;
	REFUSED(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER), EINVAL);
	CHECK(link_state(&link) == IBV_QPS_INIT, "state %d", link_state(&link));
	link_to_rtr(&link, &usual);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.rnr_retry = 8;			/* three bits */
	REFUSED(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
		EINVAL);
	link_to_rts(&link, &usual);
	link_close(&link);
}

/* A QP connected to itself. */
static void loopback_to_itself(struct side *side)
{
	struct link_options usual = { 0 };
	struct region out, in;
	struct link link;

	region_create(side, &out, 100000, 0);
	region_create(side, &in, 100000, ALL_ACCESS);
	link_create(side, &link, &usual);
	link.peer_qpn = link.qp->qp_num;
	link.peer_psn = link.psn;
	side->peer_gid = side->gid;
	link_to_init(&link, &usual);
	link_to_rtr(&link, &usual);
	link_to_rts(&link, &usual);
	pattern_fill(out.mem, out.size, 3);
	recv_region(&link, 1, &in, 0, in.size);
	send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND, .sges = 1,
		.sge = { sge_of(&out, 0, out.size) } });
	good_wc(link.send_cq, 2);
	good_wc(link.recv_cq, 1);
	pattern_check(in.mem, in.size, 3, "message to itself");
	memset(in.mem, 0, in.size);
	send_op(&link, &(struct op){ .id = 3, .opcode = IBV_WR_RDMA_WRITE, .sges = 1,
		.sge = { sge_of(&out, 0, out.size) }, .address = (uintptr_t)in.mem,
		.rkey = in.mr->rkey });
	good_wc(link.send_cq, 3);
	pattern_check(in.mem, in.size, 3, "write to itself");
	link_close(&link);
	region_destroy(&in);
	region_destroy(&out);
}

/* Fails with what it answers in errno; succeeds and leaves errno as it was. */
#define FAILS(call)                                                                       \
	do {                                                                              \
		errno = EL2HLT;                                                           \
		int answer = (call);                                                      \
		CHECK(answer > 0 && errno == answer, #call ": %d, errno %d", answer, errno); \
	} while (0)
#define KEEPS(call)                                                                       \
	do {                                                                              \
		errno = EL2HLT;                                                           \
		int answer = (call);                                                      \
		CHECK(!answer && errno == EL2HLT, #call ": %d, errno %d", answer, errno);  \
	} while (0)

static void errno_is_set(struct side *side)
{
	struct ibv_context *context = side->context;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, channel, 0);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_recv_wr receive = { .num_sge = 50 }, *bad_receive;
	struct ibv_modify_cq_attr moderation = { .attr_mask = 2 };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_srq_attr large = { .max_wr = 1u << 30 };
	struct ibv_send_wr send = { .opcode = 77 }, *bad;
	struct ibv_mw_bind bind = { .wr_id = 1 };	/* the QP is in RESET */
	union ibv_gid gid = { .raw = { 1 } };
	struct ibv_values_ex values = { .comp_mask = 64 };
	struct ibv_port_attr port;

	CHECK(pd && channel && cq && srq && qp && mw, "objects");
	FAILS(ibv_dealloc_pd(pd));
	FAILS(ibv_destroy_comp_channel(channel));
	FAILS(ibv_destroy_cq(cq));
	FAILS(ibv_destroy_srq(srq));
	FAILS(ibv_modify_qp(qp, &rts, IBV_QP_STATE));
	FAILS(ibv_modify_srq(srq, &large, IBV_SRQ_MAX_WR));
	FAILS(ibv_query_port(context, 9, &port));
	FAILS(ibv_resize_cq(cq, 1 << 30));
	FAILS(ibv_modify_cq(cq, &moderation));
	FAILS(ibv_attach_mcast(qp, &gid, 0));
	FAILS(ibv_detach_mcast(qp, &gid, 0));
	FAILS(ibv_bind_mw(qp, mw, &bind));
	FAILS(ibv_query_rt_values_ex(context, &values));
	FAILS(ibv_post_send(qp, &send, &bad));
	FAILS(ibv_post_srq_recv(srq, &receive, &bad_receive));
	KEEPS(ibv_query_port(context, 1, &port));
	KEEPS(ibv_req_notify_cq(cq, 0));
	KEEPS(ibv_dealloc_mw(mw));
	KEEPS(ibv_destroy_qp(qp));
	KEEPS(ibv_destroy_srq(srq));
	KEEPS(ibv_destroy_cq(cq));
	KEEPS(ibv_destroy_comp_channel(channel));
	KEEPS(ibv_dealloc_pd(pd));
	errno = EL2HLT;
	pd = ibv_alloc_pd(context);
	CHECK(pd && errno == EL2HLT, "ibv_alloc_pd: errno %d", errno);
	KEEPS(ibv_dealloc_pd(pd));
}

const struct test object_tests[] = {
	{ "errno_is_set", errno_is_set, 0 },
	{ "busy_objects", busy_objects, 0 },
	{ "closing_frees_all", closing_frees_all, 0 },
	{ "region_addresses", region_addresses, 0 },
	{ "region_rereg", region_rereg, 0 },
	{ "region_flags", region_flags, 0 },
	{ "query_answers", query_answers, 0 },
	{ "modify_refusals", modify_refusals, 0 },
	{ "loopback_to_itself", loopback_to_itself, 0 },
	{ 0 }
};
