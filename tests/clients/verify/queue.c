// SPDX-License-Identifier: BSD-2-Clause
/*
 * Completion queues (events, solicited ones, resize, overflow, the extended poll) and shared
 * receive queues.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "verify.h"

/* One event of the channel, acknowledged. */
static struct ibv_cq *take_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = NULL;
	void *context;

	CHECK(wait_readable(channel->fd, 5000), "no completion event");
	OK(ibv_get_cq_event(channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	return cq;
}

static struct ibv_comp_channel *channel_create(struct side *side)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(side->context);

	CHECK(channel, "ibv_create_comp_channel: %m");
	return channel;
}

/* One event for each arming, however many completions; none unless armed. */
static void cq_events(struct side *side)
{
	struct ibv_comp_channel *channel = channel_create(side);
	struct ibv_cq *cq = NULL;
	struct link link;
	void *context;

	link_open(side, &link, &(struct link_options){ .channel = channel });
	for (int i = 0; i < 4; i++)
		recv_op(&link, i, NULL, 0);
	OK(ibv_req_notify_cq(link.recv_cq, 0));
	barrier(side);
	for (int i = 0; i < 2; i++)
		send_op(&link, &(struct op){ .id = i, .opcode = IBV_WR_SEND });
	for (int i = 0; i < 2; i++)
		good_wc(link.send_cq, i);
	CHECK(take_event(channel) == link.recv_cq, "event of another CQ");
	for (int i = 0; i < 2; i++)
		good_wc(link.recv_cq, i);
	CHECK(!wait_readable(channel->fd, 20), "a second event of one arming");
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	CHECK(ibv_get_cq_event(channel, &cq, &context) == -1 && errno == EAGAIN,
	      "non-blocking ibv_get_cq_event: %m");
	barrier(side);
	send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND });
	good_wc(link.send_cq, 2);
	barrier(side);
	CHECK(!wait_readable(channel->fd, 20), "an event that nobody asked for");
	good_wc(link.recv_cq, 2);
	REFUSED(ibv_destroy_comp_channel(channel), EBUSY);
	link_close(&link);
	OK(ibv_destroy_comp_channel(channel));
}

/*
 * As with mlx5: what waits when the CQ is armed raises the event, unless it was polled; for solicited ones
 * alone, if one of those that wait is.
 */
static void cq_armed_late(struct side *side)
{
	struct ibv_comp_channel *channel = channel_create(side);
	struct link link;

	link_open(side, &link, &(struct link_options){ .channel = channel });
	for (int i = 0; i < 2; i++)
		recv_op(&link, i, NULL, 0);
	barrier(side);
	send_op(&link, &(struct op){ .id = 0, .opcode = IBV_WR_SEND });
	good_wc(link.send_cq, 0);
	barrier(side);
	OK(ibv_req_notify_cq(link.recv_cq, 1));
	CHECK(!wait_readable(channel->fd, 20), "nothing that waits is solicited");
	OK(ibv_req_notify_cq(link.recv_cq, 0));
	take_event(channel);
	OK(ibv_req_notify_cq(link.recv_cq, 0));
	CHECK(!wait_readable(channel->fd, 20), "a second event of one completion");
	good_wc(link.recv_cq, 0);
	OK(ibv_req_notify_cq(link.recv_cq, 0));
	CHECK(!wait_readable(channel->fd, 20), "an event for a completion that was polled");
	barrier(side);
	send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SOLICITED });
	good_wc(link.send_cq, 1);
	take_event(channel);
	good_wc(link.recv_cq, 1);
	recv_op(&link, 2, NULL, 0);
	barrier(side);
	send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SOLICITED });
	good_wc(link.send_cq, 2);
	barrier(side);
	OK(ibv_req_notify_cq(link.recv_cq, 1));
	take_event(channel);
	good_wc(link.recv_cq, 2);
	barrier(side);
	link_close(&link);
	OK(ibv_destroy_comp_channel(channel));
}

/* Event-driven ping-pong without polling between: no wake-up may be lost. */
static void cq_events_pingpong(struct side *side)
{
	struct ibv_comp_channel *channel = channel_create(side);
	struct link link;
	struct ibv_wc wc;
	int received = 0;

	link_open(side, &link, &(struct link_options){ .channel = channel });
	OK(ibv_req_notify_cq(link.recv_cq, 0));
	for (int i = 0; i < 16; i++)
		recv_op(&link, i, NULL, 0);
	barrier(side);
	if (!side->server)
		send_op(&link, &(struct op){ .id = 0, .opcode = IBV_WR_SEND });
	while (received < 2000) {
		take_event(channel);
		OK(ibv_req_notify_cq(link.recv_cq, 0));
		while (ibv_poll_cq(link.recv_cq, 1, &wc) > 0) {
			CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
			received++;
			recv_op(&link, received, NULL, 0);
			if (side->server || received < 2000)
				send_op(&link, &(struct op){ .id = received,
					.opcode = IBV_WR_SEND });
			while (ibv_poll_cq(link.send_cq, 1, &wc) > 0)
				CHECK(wc.status == IBV_WC_SUCCESS, "%s",
				      ibv_wc_status_str(wc.status));
		}
	}
	link_close(&link);
	OK(ibv_destroy_comp_channel(channel));
}

/* Armed for solicited completions: a plain one makes no event, a solicited or failed one does. */
static void cq_solicited(struct side *side)
{
	struct ibv_comp_channel *channel = channel_create(side);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct link link;

	link_open(side, &link, &(struct link_options){ .channel = channel });
	for (int i = 0; i < 4; i++)
		recv_op(&link, i, NULL, 0);
	OK(ibv_req_notify_cq(link.recv_cq, 1));
	barrier(side);
	send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_SEND });
	good_wc(link.send_cq, 1);
	good_wc(link.recv_cq, 0);
	CHECK(!wait_readable(channel->fd, 20), "an unsolicited completion made an event");
	barrier(side);
	send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND,
		.flags = IBV_SEND_SOLICITED });
	good_wc(link.send_cq, 2);
	CHECK(take_event(channel) == link.recv_cq, "event of another CQ");
	good_wc(link.recv_cq, 1);
	OK(ibv_req_notify_cq(link.recv_cq, 1));
	barrier(side);
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
	CHECK(take_event(channel) == link.recv_cq, "a flush makes an event too");
	expect_flush(link.recv_cq, 2, 3);
	link_close(&link);
	OK(ibv_destroy_comp_channel(channel));
}

/* Completions survive a resize; a CQ cannot shrink below what it holds. */
static void cq_resize(struct side *side)
{
	struct link link;

	link_open(side, &link, &(struct link_options){ .wr = 40, .cqe = 40 });
	for (int i = 0; i < 40; i++)
		recv_op(&link, i, NULL, 0);
	barrier(side);
	for (int i = 0; i < 40; i++)
		send_op(&link, &(struct op){ .id = i, .opcode = IBV_WR_SEND, .quiet = i < 39 });
	good_wc(link.send_cq, 39);
	barrier(side);
	good_wc(link.recv_cq, 0);
	OK(ibv_resize_cq(link.recv_cq, 1000));
	CHECK(link.recv_cq->cqe >= 1000, "cqe is %d", link.recv_cq->cqe);
	for (int i = 1; i < 10; i++)
		good_wc(link.recv_cq, i);
	CHECK(ibv_resize_cq(link.recv_cq, 5) == EINVAL, "shrunk below its content");
	CHECK(ibv_resize_cq(link.recv_cq, 0) == EINVAL, "shrunk to nothing");
	for (int i = 10; i < 40; i++)
		good_wc(link.recv_cq, i);
	OK(ibv_resize_cq(link.recv_cq, 50));
	link_close(&link);
}

/* More completions than the CQ holds: an asynchronous event of the CQ, and its QP fails. */
static void cq_overflow(struct side *side)
{
	struct link link;
	struct ibv_async_event event;
	int most;

	link_open(side, &link, &(struct link_options){ .wr = 300, .cqe = 4 });
	most = link.recv_cq->cqe;
	if (exchange_u64(side, most) > 299 || most > 299)
		skip(side, "the least CQ is too large for this test");
	if (side->server) {
		for (int i = 0; i <= most; i++)
			recv_op(&link, i, NULL, 0);
		barrier(side);
		CHECK(wait_readable(side->context->async_fd, 5000), "no event");
		OK(ibv_get_async_event(side->context, &event));
		CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == link.recv_cq,
		      "event %s", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
		link_wait_error(&link);
	} else {
		struct ibv_wc wc;

		barrier(side);
		for (int i = 0; i <= most; i++) {
			if (try_send(&link, &(struct op){ .id = i, .opcode = IBV_WR_SEND }))
				break;
			while (ibv_poll_cq(link.send_cq, 1, &wc) > 0)
				;
		}
	}
	link_close(&link);
}

static void cq_extended(struct side *side)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 100, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(side->context, &attr);
	struct region region;
	struct link link;
	int err;

	CHECK(cq, "ibv_create_cq_ex: %m");
	region_create(side, &region, 4096, IBV_ACCESS_LOCAL_WRITE);
	link_open(side, &link, &(struct link_options){ .recv_cq = ibv_cq_ex_to_cq(cq) });
	for (int i = 0; i < 3; i++)
		recv_region(&link, i, &region, 0, 4096);
	barrier(side);
	for (int i = 0; i < 3; i++)
		send_op(&link, &(struct op){ .id = i, .sges = 1, .sge = { sge_of(&region, 0, i) },
			.opcode = IBV_WR_SEND_WITH_IMM, .imm = i + 5, .quiet = i < 2 });
	good_wc(link.send_cq, 2);
	while ((err = ibv_start_poll(cq, &poll)) == ENOENT)
		;
	for (int i = 0; i < 3; i++) {
		OK(err);
		CHECK(cq->status == IBV_WC_SUCCESS && cq->wr_id == (uint64_t)i, "status %d, id %d",
		      cq->status, (int)cq->wr_id);
		CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV, "opcode");
		CHECK(ibv_wc_read_byte_len(cq) == (uint32_t)i, "byte_len");
		CHECK(be32toh(ibv_wc_read_imm_data(cq)) == i + 5u, "immediate");
		CHECK(ibv_wc_read_qp_num(cq) == link.qp->qp_num, "qp_num");
		do
			err = i < 2 ? ibv_next_poll(cq) : 0;
		while (err == ENOENT);
	}
	ibv_end_poll(cq);
	link_close(&link);
	region_destroy(&region);
}

static struct ibv_srq *srq_create(struct side *side, uint32_t wr)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = wr, .max_sge = 2 } };
	struct ibv_srq *srq = ibv_create_srq(side->pd, &attr);

	CHECK(srq, "ibv_create_srq: %m");
	return srq;
}

static void srq_recv(struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = sge ? 1 : 0 }, *bad;

	OK(ibv_post_srq_recv(srq, &wr, &bad));
}

/* Four QPs of RC take their receives from one queue; the completion says whose it is. */
static void srq_shared(struct side *side)
{
	enum { QPS = 4, EACH = 25, LEN = 3000 };
	struct ibv_srq *srq = srq_create(side, QPS * EACH);
	struct ibv_cq *cq = ibv_create_cq(side->context, QPS * EACH, NULL, NULL, 0);
	struct region out, in;
	struct link link[QPS];
	int per_qp[QPS] = { 0 };

	CHECK(cq, "ibv_create_cq: %m");
	region_create(side, &out, QPS * LEN, 0);
	region_create(side, &in, QPS * EACH * LEN, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < QPS * EACH; i++) {
		struct ibv_sge sge = sge_of(&in, i * LEN, LEN);

		srq_recv(srq, i, &sge);
	}
	for (int q = 0; q < QPS; q++) {
		link_open(side, &link[q], &(struct link_options){ .srq = srq, .recv_cq = cq });
		pattern_fill(out.mem + q * LEN, LEN, q);
	}
	for (int i = 0; i < QPS * EACH; i++)
		send_op(&link[i % QPS], &(struct op){ .id = i / QPS, .sges = 1,
			.opcode = IBV_WR_SEND_WITH_IMM, .imm = i % QPS,
			.sge = { sge_of(&out, i % QPS * LEN, LEN) } });
	for (int i = 0; i < QPS * EACH; i++) {
		struct ibv_wc wc = wait_wc(cq);
		uint32_t q = be32toh(wc.imm_data);

		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		CHECK(q < QPS && wc.qp_num == link[q].qp->qp_num, "message of QP %u", q);
		pattern_check(in.mem + wc.wr_id * LEN, LEN, q, "message through an SRQ");
		per_qp[q]++;
	}
	for (int q = 0; q < QPS; q++) {
		CHECK(per_qp[q] == EACH, "%d messages of QP %d", per_qp[q], q);
		for (int i = 0; i < EACH; i++)
			good_wc(link[q].send_cq, i);
	}
	REFUSED(ibv_destroy_srq(srq), EBUSY);
	barrier(side);
	for (int q = 0; q < QPS; q++) {
		OK(ibv_destroy_qp(link[q].qp));
		OK(ibv_destroy_cq(link[q].send_cq));
	}
	OK(ibv_destroy_cq(cq));
	OK(ibv_destroy_srq(srq));
	region_destroy(&in);
	region_destroy(&out);
}

/* The limit event comes once, when fewer than the limit are left; then it must be armed anew. */
/*
 * A receive of an SRQ is checked against the SRQ's protection domain, whatever the QP's is: of both types, short
 * and long. The wrong one fails the receive, and of RC the sender too.
 */
static void srq_domain_case(struct side *side, enum ibv_qp_type type, size_t len, bool right)
{
	struct ibv_pd *own = side->pd, *other = ibv_alloc_pd(side->context);
	bool reliable = type == IBV_QPT_RC;
	struct region out, in;
	struct ibv_srq *srq;
	struct ibv_sge sge;
	struct link link;

	CHECK(other, "ibv_alloc_pd: %m");
	region_create(side, &out, len, ALL_ACCESS);
	side->pd = other;
	srq = srq_create(side, 16);
	side->pd = right ? other : own;
	region_create(side, &in, len, ALL_ACCESS);
	side->pd = own;
	sge = sge_of(&in, 0, len);
	srq_recv(srq, 1, &sge);
	pattern_fill(out.mem, len, 3);
	link_open(side, &link, &(struct link_options){ .srq = srq, .type = type });
	barrier(side);
	if (!side->server) {
		send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND, .sges = 1,
			.sge = { sge_of(&out, 0, len) } });
		expect_wc(link.send_cq, 2, right || !reliable ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
	} else {
		expect_wc(link.recv_cq, 1, right ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
		CHECK(link_state(&link) == (right ? IBV_QPS_RTS : IBV_QPS_ERR), "state %d", link_state(&link));
		if (right)
			pattern_check(in.mem, len, 3, "message to an SRQ of another domain");
	}
	barrier(side);
	link_close(&link);
	OK(ibv_destroy_srq(srq));
	region_destroy(&in);
	region_destroy(&out);
	OK(ibv_dealloc_pd(other));
}

static void srq_domain(struct side *side)
{
	static const size_t sizes[] = { 8, 3000, 300000 };

	for (int i = 0; i < 12; i++)
		srq_domain_case(side, i & 1 ? IBV_QPT_UC : IBV_QPT_RC, sizes[i / 4], i & 2);
}

static void srq_limit(struct side *side)
{
	struct ibv_srq *srq = srq_create(side, 64);
	struct ibv_srq_attr attr = { .srq_limit = 5 };
	struct link link;

	link_open(side, &link, &(struct link_options){ .srq = srq });
	for (int i = 0; i < 8; i++)
		srq_recv(srq, i, NULL);
	OK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	OK(ibv_query_srq(srq, &attr));
	CHECK(attr.srq_limit == 5, "srq_limit %u", attr.srq_limit);
	barrier(side);
	for (int i = 0; i < 8; i++) {
		send_op(&link, &(struct op){ .id = i, .opcode = IBV_WR_SEND });
		good_wc(link.send_cq, i);
		good_wc(link.recv_cq, i);
		barrier(side);
		CHECK(i >= 3 || !wait_readable(side->context->async_fd, 5),
		      "an event with %d receives left", 7 - i);
		if (i == 3)
			expect_event(side, IBV_EVENT_SRQ_LIMIT_REACHED);
		barrier(side);
	}
	CHECK(!wait_readable(side->context->async_fd, 20), "a second limit event");
	OK(ibv_query_srq(srq, &attr));
	CHECK(attr.srq_limit == 0, "the limit is still armed: %u", attr.srq_limit);
	link_close(&link);
	OK(ibv_destroy_srq(srq));
}

/* A QP on an SRQ that fails: Last WQE Reached; the SRQ's receives stay for others. */
static void srq_last_wqe(struct side *side)
{
	struct ibv_srq *srq = srq_create(side, 16);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct link link, second;

	srq_recv(srq, 1, NULL);
	link_open(side, &link, &(struct link_options){ .srq = srq });
	link_open(side, &second, &(struct link_options){ .srq = srq });
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
	expect_event(side, IBV_EVENT_QP_LAST_WQE_REACHED);
	expect_no_wc(link.recv_cq, 20);
	barrier(side);
	send_op(&second, &(struct op){ .id = 2, .opcode = IBV_WR_SEND });
	good_wc(second.send_cq, 2);
	good_wc(second.recv_cq, 1);
	link_close(&second);
	link_close(&link);
	OK(ibv_destroy_srq(srq));
}

const struct test queue_tests[] = {
	{ "cq_events", cq_events, 0 },
	{ "cq_armed_late", cq_armed_late, 0 },
	{ "cq_events_pingpong", cq_events_pingpong, TAG_DATA },
	{ "cq_solicited", cq_solicited, 0 },
	{ "cq_resize", cq_resize, 0 },
	{ "cq_overflow", cq_overflow, 0 },
	{ "cq_extended", cq_extended, 0 },
	{ "srq_shared", srq_shared, TAG_DATA },
	{ "srq_domain", srq_domain, TAG_LOSSLESS },
	{ "srq_limit", srq_limit, 0 },
	{ "srq_last_wqe", srq_last_wqe, 0 },
	{ 0 }
};
