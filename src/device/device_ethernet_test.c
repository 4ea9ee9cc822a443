/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RAW_PACKET QPs of vb_lo, whose frames come back; rules that steer them to QPs; what counts
 * them.
 */
#include "device/device_ethernet_test.h"

#include <sys/syscall.h>

static void frames_go_where_a_rule_says(void **state)
{
	struct qp *sender = raw_make(), *qp[2] = { raw_make(), raw_make() };
	struct completion got;

	for (unsigned i = 0; i < 2; i++) {
		flow_to(qp[i], (uint8_t)(10 + i));
		assert_int_equal(post_recv(qp[i], i), 0);
	}
	frame_send(sender, 11);
	got = next_frame();
	assert_int_equal(got.wc.wr_id, 1);
	assert_int_equal(got.wc.qp_num, qp[1]->number);
	assert_int_equal(got.wc.byte_len, FRAME_BYTES);
	assert_int_equal(got.wc.opcode, IBV_WC_RECV);
	assert_memory_equal(memory, memory + MEMORY_BYTES / 2, FRAME_BYTES);
	frame_send(sender, 12);		/* nobody's */
	frame_send(sender, 10);
	assert_int_equal(next_frame().wc.wr_id, 0);
	expect_no_frame(sender);
}

static void a_rule_ends_with_its_flow(void **state)
{
	struct qp *sender = raw_make(), *qp = raw_make();
	struct steered_flow *flow = flow_to(qp, 10);

	assert_int_equal(post_recv(qp, 1), 0);
	assert_int_equal(hca_destroy_qp(context, qp), EBUSY);
	assert_int_equal(hca_destroy_flow(context, flow), 0);
	frame_send(sender, 10);
	expect_no_frame(sender);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
}

/* A device whose last rule is gone listens no more; the last QP takes the socket away. */
static void sockets_are_open_while_they_are_needed(void **state)
{
	const unsigned before = fds_open();
	struct qp *qp = raw_make();
	struct steered_flow *flow;

	assert_int_equal(fds_open(), before + 1);
	flow = flow_to(qp, 10);
	assert_int_equal(fds_open(), before + 2);
	assert_int_equal(hca_destroy_flow(context, flow), 0);
	assert_int_equal(fds_open(), before + 1);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_int_equal(fds_open(), before);
}

static void who_has_the_same_rule_gets_a_copy(void **state)
{
	struct qp *sender = raw_make(), *qp[2] = { raw_make(), raw_make() };
	uint64_t got = 0;

	for (unsigned i = 0; i < 2; i++) {
		flow_to(qp[i], 10);
		assert_int_equal(post_recv(qp[i], 1u << i), 0);
	}
	frame_send(sender, 10);
	got = next_frame().wc.wr_id;
	got |= next_frame().wc.wr_id;
	assert_int_equal(got, 3);
	expect_no_frame(sender);
}

static void the_first_rule_takes_and_a_sniffer_sees(void **state)
{
	struct qp *sender = raw_make(), *first = raw_make(), *later = raw_make(), *sniffer = raw_make();
	const struct ibv_flow_attr all = { .type = IBV_FLOW_ATTR_SNIFFER, .port = 1 };
	struct to_station rule = to_station(10);
	uint64_t got;

	rule.attr.priority = 1;
	flow_of(later, attr_of(&rule));
	flow_to(first, 10);
	flow_of(sniffer, &all);
	assert_int_equal(post_recv(first, 1), 0);
	assert_int_equal(post_recv(later, 2), 0);
	assert_int_equal(post_recv(sniffer, 4), 0);
	frame_send(sender, 10);
	got = next_frame().wc.wr_id;
	got |= next_frame().wc.wr_id;
	assert_int_equal(got, 5);
	expect_no_frame(sender);
}

static void tags_drops_and_counts(void **state)
{
	struct qp *sender = raw_make(), *qp = raw_make();
	struct to_station tagged = to_station(10), dropped = to_station(11), counted_too = to_station(12);
	struct ibv_counter_attach_attr packets = { .counter_desc = IBV_COUNTER_PACKETS, .index = 1 };
	struct ibv_counter_attach_attr bytes = { .counter_desc = IBV_COUNTER_BYTES, .index = 0 };
	struct flow_counters *counters = NULL;
	struct steered_flow *flow;
	uint64_t values[3] = { 9, 9, 9 };

	assert_int_equal(hca_create_counters(context, &counters), 0);
	assert_int_equal(hca_attach_counters(counters, &packets), 0);
	assert_int_equal(hca_attach_counters(counters, &packets), EBUSY);
	assert_int_equal(hca_attach_counters(counters, &bytes), 0);
	tagged.attr.num_of_specs = dropped.attr.num_of_specs = counted_too.attr.num_of_specs = 2;
	tagged.tag = (struct ibv_flow_spec_action_tag){ IBV_FLOW_SPEC_ACTION_TAG, sizeof(tagged.tag), 0x77 };
	dropped.drop = (struct ibv_flow_spec_action_drop){ IBV_FLOW_SPEC_ACTION_DROP, sizeof(dropped.drop) };
	counted_too.count = (struct ibv_flow_spec_counter_action){ IBV_FLOW_SPEC_ACTION_COUNT,
								   sizeof(counted_too.count), &counters->ibv };
	flow_of(qp, attr_of(&tagged));
	flow_of(qp, attr_of(&dropped));
	flow = flow_of(qp, attr_of(&counted_too));
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(post_recv(qp, i), 0);
	frame_send(sender, 11);
	frame_send(sender, 10);
	assert_int_equal(next_frame().frame.flow_tag, 0x77);
	frame_send(sender, 12);
	assert_int_equal(next_frame().frame.flow_tag, 0);
	frame_send(sender, 12);
	assert_int_equal(next_frame().wc.wr_id, 3);
	assert_int_equal(hca_read_counters(counters, values, 3), 0);
	assert_int_equal(values[0], 2 * FRAME_BYTES);
	assert_int_equal(values[1], 2);
	assert_int_equal(values[2], 0);
	assert_int_equal(hca_destroy_counters(context, counters), EBUSY);
	assert_int_equal(hca_destroy_flow(context, flow), 0);
	assert_int_equal(hca_destroy_counters(context, counters), 0);
}

static void counters_have_a_few_places(void **state)
{
	struct ibv_counter_attach_attr attr = {.counter_desc = IBV_COUNTER_PACKETS,
					       .index = FLOW_COUNTER_INDICES};
	struct flow_counters *counters = NULL;
	uint64_t values[FLOW_COUNTER_INDICES + 1];

	assert_int_equal(hca_create_counters(context, &counters), 0);
	assert_int_equal(hca_attach_counters(counters, &attr), EINVAL);
	attr.index--;
	attr.counter_desc = 2;
	assert_int_equal(hca_attach_counters(counters, &attr), EINVAL);
	assert_int_equal(hca_read_counters(counters, values, FLOW_COUNTER_INDICES + 1), EINVAL);
	assert_int_equal(hca_read_counters(counters, values, 0), EINVAL);
	assert_int_equal(hca_read_counters(counters, values, FLOW_COUNTER_INDICES), 0);
}

static void only_ethernet_is_steered(void **state)
{
	struct to_station rule = to_station(10);
	struct steered_flow *flow = NULL;

	assert_int_equal(hca_create_flow(context, qp_make(IBV_QPT_UD), attr_of(&rule), &flow), EINVAL);
	rule.attr.port = 2;
	assert_int_equal(hca_create_flow(context, qp_make(IBV_QPT_RAW_PACKET), attr_of(&rule), &flow), EINVAL);
	assert_null(flow);
}

static void frames_have_a_header_and_no_more_than_the_mtu(void **state)
{
	struct qp *qp = raw_make();

	assert_int_equal(post_send(qp, 1, 13), EINVAL);
	assert_int_equal(post_send(qp, 1, LIMIT_FRAME_BYTES + 1), EINVAL);
	frame_write(memory, 10, 0);
	assert_int_equal(post_send(qp, 1, LIMIT_FRAME_BYTES), 0);
	expect_wc(1, IBV_WC_SUCCESS);
}

static void a_frame_that_does_not_fit_is_dropped(void **state)
{
	struct qp *sender = raw_make(), *qp = raw_make();

	flow_to(qp, 10);
	frame_send(sender, 10);		/* there is no receive */
	expect_no_frame(sender);
	assert_int_equal(counted(COUNTER_RX_NO_RECV), 1);
	assert_int_equal(post_recv(qp, 1), 0);
	frame_write(memory, 10, 0);
	assert_int_equal(post_send(sender, 2, 1025), 0);	/* the receive has 1024 */
	expect_wc(2, IBV_WC_SUCCESS);
	expect_no_frame(sender);
	assert_int_equal(counted(COUNTER_RX_TOO_LONG), 1);
	frame_send(sender, 10);
	assert_int_equal(next_frame().wc.wr_id, 1);
}

static void rates_are_of_this_type_in_rts(void **state)
{
	struct qp *qp = raw_make(), *early = qp_make(IBV_QPT_RAW_PACKET);

	assert_int_equal(hca_pace_qp(qp_make(IBV_QPT_RC), 1000, 0), EOPNOTSUPP);
	assert_int_equal(hca_pace_qp(early, 1000, 0), EINVAL);
	assert_int_equal(early->attr.rate_limit, 0);
	assert_int_equal(hca_pace_qp(qp, LIMIT_RATE_KBPS + 1, 0), EINVAL);
	assert_int_equal(hca_modify_qp(qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
						     .rate_limit = LIMIT_RATE_KBPS + 1 },
				       IBV_QP_STATE | IBV_QP_RATE_LIMIT), EINVAL);
	assert_int_equal(hca_pace_qp(qp, 512, FRAME_BYTES), 0);	/* 1 ms a frame */
	assert_int_equal(qp->attr.rate_limit, 512);
}

/* Members of the extended attributes that comp_mask does not name may hold anything. */
static void a_table_counts_only_if_it_is_named(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RAW_PACKET);
	struct qp *qp = NULL;

	attr.rwq_ind_tbl = (struct ibv_rwq_ind_table *)memory;
	attr.send_cq = attr.recv_cq = NULL;
	assert_int_equal(hca_create_qp(context, &attr, &qp), EINVAL);
	assert_null(qp);
}

/* The frames that may not leave at once leave later, without another call than polling. */
static void frames_leave_at_their_rate(void **state)
{
	struct qp *qp = raw_make();
	uint64_t begin_ns = clock_now_ns();

	assert_int_equal(hca_pace_qp(qp, 512, FRAME_BYTES), 0);
	frame_write(memory, 10, 0);
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(post_send(qp, i, FRAME_BYTES), 0);
	for (uint64_t i = 0; i < 12; i++)
		expect_wc(i, IBV_WC_SUCCESS);
	assert_true(clock_now_ns() - begin_ns >= 9 * MS);
	assert_int_equal(post_send(qp, 20, FRAME_BYTES), 0);
	assert_int_equal(post_send(qp, 21, FRAME_BYTES), 0);
	assert_int_equal(hca_pace_qp(qp, 0, 0), 0);	/* and now at once */
	expect_wc(20, IBV_WC_SUCCESS);
	expect_wc(21, IBV_WC_SUCCESS);
}

/* The tag that the kernel takes off a received frame is there again, or in the completion. */
static void tags_are_put_back_or_stripped(void **state)
{
	struct qp *sender = raw_make(), *keeps = raw_make(), *strips;
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RAW_PACKET);
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct completion got;
	uint64_t which;

	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
	assert_int_equal(hca_create_qp(context, &attr, &strips), 0);
	assert_int_equal(hca_modify_qp(strips, &init, IBV_QP_STATE | IBV_QP_PORT), 0);
	assert_int_equal(to_state(strips, IBV_QPS_RTR), 0);
	for (which = 0; which < 2; which++) {
		struct qp *qp = which ? strips : keeps;
		struct steered_flow *flow = flow_to(qp, 10);

		assert_int_equal(post_recv(qp, which), 0);
		frame_write(memory, 10, 0x01020304);
		put_be32(memory + 12, 0x81004123);
		put_be16(memory + 16, 0x88b5);
		assert_int_equal(post_send(sender, 100, FRAME_BYTES), 0);
		expect_wc(100, IBV_WC_SUCCESS);
		got = next_frame();
		assert_int_equal(got.wc.wr_id, which);
		assert_int_equal(got.wc.byte_len, which ? FRAME_BYTES - 4 : FRAME_BYTES);
		assert_int_equal(got.frame.cvlan, which ? 0x4123 : 0);
		if (!which)
			assert_memory_equal(memory, memory + MEMORY_BYTES / 2, FRAME_BYTES);
		else
			assert_memory_equal(memory + 16, memory + MEMORY_BYTES / 2 + 12, FRAME_BYTES - 16);
		assert_int_equal(hca_destroy_flow(context, flow), 0);
	}
}

/* The sums of IP and UDP are written where the flag asks for it. */
static void checksums_are_written_on_request(void **state)
{
	struct qp *sender = raw_make(), *qp = raw_make();
	struct ibv_sge sge = { (uintptr_t)memory, FRAME_BYTES, mr->ibv.lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	const uint8_t headers[28] = {0x45, 0,
				     0,	   FRAME_BYTES - 14,
				     0,	   0,
				     0,	   0,
				     64,   17,
				     0,	   0,
				     10,   0,
				     0,	   2,
				     10,   0,
				     0,	   1,
				     1,	   2,
				     3,	   4,
				     0,	   FRAME_BYTES - 34,
				     0,	   0};

	flow_to(qp, 10);
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t *got = memory + MEMORY_BYTES / 2;

		frame_write(memory, 10, 0);
		put_be16(memory + 12, 0x0800);
		memcpy(memory + 14, headers, sizeof(headers));
		wr.send_flags = i ? IBV_SEND_IP_CSUM : 0;
		assert_int_equal(post_recv(qp, 1), 0);
		assert_int_equal(hca_post_send(sender, &wr, &bad), 0);
		expect_wc(7, IBV_WC_SUCCESS);
		assert_int_equal(next_frame().wc.wc_flags, i ? IBV_WC_IP_CSUM_OK : 0);
		assert_int_equal(get_be16(got + 24), i ? 0x66b9 : 0);
		assert_int_equal(get_be16(got + 40) != 0, i);
		assert_int_equal(get_be16(memory + 24), 0);	/* the application's copy stays */
	}
}

/* ---- without the right to it ---- */

/* Of this thread alone; CAP_NET_RAW is in the first word. */
static void allow_packet_sockets(bool allow)
{
	struct { uint32_t version; int pid; } header = { 0x20080522, 0 };
	struct { uint32_t effective, permitted, inheritable; } words[2];

	assert_int_equal(syscall(SYS_capget, &header, words), 0);
	words[0].effective &= ~(1u << 13);
	words[0].effective |= allow ? words[0].permitted & 1u << 13 : 0;
	assert_int_equal(syscall(SYS_capset, &header, words), 0);
}

static void without_the_right_it_is_eperm(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RAW_PACKET);
	const unsigned before = fds_open();
	struct qp *qp = NULL;

	allow_packet_sockets(false);
	assert_int_equal(hca_create_qp(context, &attr, &qp), EPERM);
	allow_packet_sockets(true);
	assert_null(qp);
	assert_int_equal(fds_open(), before);
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(frames_go_where_a_rule_says),
		DEVICE_TEST(a_rule_ends_with_its_flow),
		DEVICE_TEST(sockets_are_open_while_they_are_needed),
		DEVICE_TEST(who_has_the_same_rule_gets_a_copy),
		DEVICE_TEST(the_first_rule_takes_and_a_sniffer_sees),
		DEVICE_TEST(tags_drops_and_counts),
		DEVICE_TEST(counters_have_a_few_places),
		DEVICE_TEST(only_ethernet_is_steered),
		DEVICE_TEST(frames_have_a_header_and_no_more_than_the_mtu),
		DEVICE_TEST(a_frame_that_does_not_fit_is_dropped),
		DEVICE_TEST(rates_are_of_this_type_in_rts),
		DEVICE_TEST(a_table_counts_only_if_it_is_named),
		DEVICE_TEST(frames_leave_at_their_rate),
		DEVICE_TEST(tags_are_put_back_or_stripped),
		DEVICE_TEST(checksums_are_written_on_request),
		DEVICE_TEST(without_the_right_it_is_eperm),
	};

	DEVICE_TESTS(tests);
}
