/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of RAW_PACKET QPs of vb_lo, whose frames come back: queue pairs, frames, and flows to stations. */
#ifndef VERBATIM_DEVICE_DEVICE_ETHERNET_TEST_H
#define VERBATIM_DEVICE_DEVICE_ETHERNET_TEST_H

#include "device/device_test.h"

#include "base/bytes.h"

#define FRAME_BYTES	64u

/* ---- queue pairs and frames ---- */

static inline struct qp *raw_make(void)
{
	struct qp *qp = qp_make(IBV_QPT_RAW_PACKET);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	assert_int_equal(hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTR), 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTS), 0);
	return qp;
}

/* To the station with this last byte of its address; the type is nobody's, the last four bytes from @last. */
static inline void frame_write(uint8_t *at, uint8_t to, uint32_t last)
{
	const uint8_t header[14] = { 2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 99, 0x88, 0xb5 };

	memset(at, 0, FRAME_BYTES);
	memcpy(at, header, sizeof(header));
	put_be32(at + FRAME_BYTES - 4, last);
}

static inline void frame_send(struct qp *qp, uint8_t to)
{
	frame_write(memory, to, 0);
	assert_int_equal(post_send(qp, 100, FRAME_BYTES), 0);
	expect_wc(100, IBV_WC_SUCCESS);
}

static inline struct steered_flow *flow_of(struct qp *qp, const struct ibv_flow_attr *attr)
{
	struct steered_flow *flow = NULL;

	assert_int_equal(hca_create_flow(context, qp, attr, &flow), 0);
	return flow;
}

struct to_station {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	union {
		struct ibv_flow_spec_action_tag tag;
		struct ibv_flow_spec_action_drop drop;
		struct ibv_flow_spec_counter_action count;
	};
} __attribute__((packed, aligned(8)));

static inline const struct ibv_flow_attr *attr_of(const struct to_station *rule)
{
	return (const void *)rule;
}

static inline struct to_station to_station(uint8_t station)
{
	struct to_station rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .port = 1, .num_of_specs = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth),
			 .val = { .dst_mac = { 2, 0, 0, 0, 0, station } } } };

	memset(rule.eth.mask.dst_mac, 0xff, 6);
	return rule;
}

static inline struct steered_flow *flow_to(struct qp *qp, uint8_t station)
{
	const struct to_station rule = to_station(station);

	return flow_of(qp, attr_of(&rule));
}

/* The completion of a receive. */
static inline struct completion next_frame(void)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	struct completion completion;

	while (!hca_poll_cq_one(cq, &completion))
		assert_true(clock_now_ns() < end_ns);
	return completion;
}

/* Nothing comes any more: what was sent before a frame that arrives has arrived. */
static inline void expect_no_frame(struct qp *sender)
{
	struct qp *last = raw_make();
	struct steered_flow *flow = flow_to(last, 200);

	assert_int_equal(post_recv(last, 200), 0);
	frame_send(sender, 200);
	assert_int_equal(next_frame().wc.wr_id, 200);
	assert_int_equal(hca_destroy_flow(context, flow), 0);
	assert_int_equal(hca_destroy_qp(context, last), 0);
}

#endif
