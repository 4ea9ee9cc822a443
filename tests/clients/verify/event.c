// SPDX-License-Identifier: BSD-2-Clause
/*
 * Asynchronous events and the states that bring them: communication established, send queue
 * drained; and that destroying an object waits for its events to be acknowledged.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

static void none_pending(struct side *side)
{
	struct ibv_async_event event;
	int flags = fcntl(side->context->async_fd, F_GETFL);

	fcntl(side->context->async_fd, F_SETFL, flags | O_NONBLOCK);
	CHECK(ibv_get_async_event(side->context, &event) == -1, "event %s",
	      ibv_event_type_str(event.event_type));
	fcntl(side->context->async_fd, F_SETFL, flags);
}

/* The first message that comes to a QP in RTR. */
static void comm_est(struct side *side)
{
	struct link link;
	struct link_options usual = { 0 };

	link_open(side, &link, &(struct link_options){ .no_rts = side->server });
	recv_op(&link, 1, NULL, 0);
	barrier(side);
	if (side->server) {
		expect_event(side, IBV_EVENT_COMM_EST);
		good_wc(link.recv_cq, 1);
		link_to_rts(&link, &usual);
		send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND });
		good_wc(link.send_cq, 2);
	} else {
		send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND });
		good_wc(link.send_cq, 2);
		good_wc(link.recv_cq, 1);
	}
	none_pending(side);
	link_close(&link);
}

/* SQD: what was posted is finished, an event says so, what is posted then waits for RTS. */
static void sq_drained(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct region region;
	struct link link;

	region_create(side, &region, 1 << 20, ALL_ACCESS);
	region_exchange(side, &region);
	link_open(side, &link, &(struct link_options){ 0 });
	recv_op(&link, 100, NULL, 0);
	barrier(side);
	for (int i = 0; i < 4; i++)
		send_op(&link, &(struct op){ .id = i, .sges = 1, .rkey = region.peer_rkey,
			.sge = { sge_of(&region, 0, 1 << 20) }, .opcode = IBV_WR_RDMA_WRITE,
			.address = region.peer_address });
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	expect_event(side, IBV_EVENT_SQ_DRAINED);
	CHECK(link_state(&link) == IBV_QPS_SQD, "state %d", link_state(&link));
	send_op(&link, &(struct op){ .id = 50, .opcode = IBV_WR_SEND });
	barrier(side);
	expect_no_wc(link.recv_cq, 30);
	barrier(side);
	attr.qp_state = IBV_QPS_RTS;
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
	good_wc(link.recv_cq, 100);
	link_close(&link);
	region_destroy(&region);
}

static void *acknowledge_later(void *event)
{
	pause_ms(100);
	ibv_ack_async_event(event);
	return NULL;
}

/* An event that was taken holds its object until it is acknowledged. */
static void destroy_waits_for_ack(struct side *side)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(side->pd, &init);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;
	struct link link;
	pthread_t thread;

	CHECK(srq, "ibv_create_srq: %m");
	link_open(side, &link, &(struct link_options){ .srq = srq });
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
	CHECK(wait_readable(side->context->async_fd, 5000), "no event");
	OK(ibv_get_async_event(side->context, &event));
	CHECK(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == link.qp,
	      "event %s", ibv_event_type_str(event.event_type));
	OK(pthread_create(&thread, NULL, acknowledge_later, &event));
	link_close(&link);
	OK(ibv_destroy_srq(srq));
	OK(pthread_join(thread, NULL));
}

/* An event of an object that is destroyed before anybody took it is never seen. */
static void destroyed_with_events(struct side *side)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(side->pd, &init);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct link link;

	CHECK(srq, "ibv_create_srq: %m");
	link_open(side, &link, &(struct link_options){ .srq = srq });
	OK(ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
	CHECK(wait_readable(side->context->async_fd, 5000), "no event");
	link_close(&link);
	OK(ibv_destroy_srq(srq));
	CHECK(!wait_readable(side->context->async_fd, 0), "async_fd is readable without an event");
	none_pending(side);
}

/* The same of completion channels: readable for the CQ that is still there, and for nothing else. */
static void cq_destroyed_with_events(struct side *side)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(side->context);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct link link[2];
	struct ibv_cq *cq;
	void *context;

	CHECK(channel, "ibv_create_comp_channel: %m");
	for (int i = 0; i < 2; i++) {
		link_open(side, &link[i], &(struct link_options){ .channel = channel });
		recv_op(&link[i], 1, NULL, 0);
		OK(ibv_req_notify_cq(link[i].recv_cq, 0));
		OK(ibv_modify_qp(link[i].qp, &attr, IBV_QP_STATE));
	}
	CHECK(wait_readable(channel->fd, 5000), "no event");
	link_close(&link[0]);
	CHECK(wait_readable(channel->fd, 5000), "the event of the other CQ is gone");
	OK(ibv_get_cq_event(channel, &cq, &context));
	CHECK(cq == link[1].recv_cq, "the event is of a CQ that is destroyed");
	ibv_ack_cq_events(cq, 1);
	CHECK(!wait_readable(channel->fd, 0), "the channel is readable without an event");
	link_close(&link[1]);
	OK(ibv_destroy_comp_channel(channel));
}

const struct test event_tests[] = {
	{ "comm_est", comm_est, 0 },
	{ "sq_drained", sq_drained, 0 },
	{ "destroy_waits_for_ack", destroy_waits_for_ack, 0 },
	{ "destroyed_with_events", destroyed_with_events, 0 },
	{ "cq_destroyed_with_events", cq_destroyed_with_events, 0 },
	{ 0 }
};
