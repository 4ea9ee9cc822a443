/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RAW_PACKET QPs of vb_lo, whose frames come back; rules that steer them to QPs and to work queues; what
 * counts them.
 */
#include "device/device_test.h"

#include <sys/syscall.h>

#include "base/bytes.h"

#define FRAME_BYTES	64u
#define KEY		0x5a

/* ---- queue pairs and frames ---- */

static struct qp *raw_make(void)
{
	struct qp *qp = qp_make(IBV_QPT_RAW_PACKET);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	assert_int_equal(hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTR), 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTS), 0);
	return qp;
}

/* To the station with this last byte of its address; the type is nobody's, the last four bytes from @last. */
static void frame_write(uint8_t *at, uint8_t to, uint32_t last)
{
	const uint8_t header[14] = { 2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 99, 0x88, 0xb5 };

	memset(at, 0, FRAME_BYTES);
	memcpy(at, header, sizeof(header));
	put_be32(at + FRAME_BYTES - 4, last);
}

static void frame_send(struct qp *qp, uint8_t to)
{
	frame_write(memory, to, 0);
	assert_int_equal(post_send(qp, 100, FRAME_BYTES), 0);
	expect_wc(100, IBV_WC_SUCCESS);
}

static struct steered_flow *flow_of(struct qp *qp, const struct ibv_flow_attr *attr)
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

static const struct ibv_flow_attr *attr_of(const struct to_station *rule)
{
	return (const void *)rule;
}

static struct to_station to_station(uint8_t station)
{
	struct to_station rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .port = 1, .num_of_specs = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth),
			 .val = { .dst_mac = { 2, 0, 0, 0, 0, station } } } };

	memset(rule.eth.mask.dst_mac, 0xff, 6);
	return rule;
}

static struct steered_flow *flow_to(struct qp *qp, uint8_t station)
{
	const struct to_station rule = to_station(station);

	return flow_of(qp, attr_of(&rule));
}

/* The completion of a receive. */
static struct completion next_frame(void)
{
	uint64_t end_ns = clock_now_ns() + 10 * SECOND;
	struct completion completion;

	while (!hca_poll_cq_one(cq, &completion))
		assert_true(clock_now_ns() < end_ns);
	return completion;
}

/* Nothing comes any more: what was sent before a frame that arrives has arrived. */
static void expect_no_frame(struct qp *sender)
{
	struct qp *last = raw_make();
	struct steered_flow *flow = flow_to(last, 200);

	assert_int_equal(post_recv(last, 200), 0);
	frame_send(sender, 200);
	assert_int_equal(next_frame().wc.wr_id, 200);
	assert_int_equal(hca_destroy_flow(context, flow), 0);
	assert_int_equal(hca_destroy_qp(context, last), 0);
}

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
	struct qp *qp = raw_make();

	assert_int_equal(hca_pace_qp(qp_make(IBV_QPT_RC), 1000, 0), EOPNOTSUPP);
	assert_int_equal(hca_pace_qp(qp_make(IBV_QPT_RAW_PACKET), 1000, 0), EINVAL);
	assert_int_equal(hca_pace_qp(qp, LIMIT_RATE_KBPS + 1, 0), EINVAL);
	assert_int_equal(hca_pace_qp(qp, 512, FRAME_BYTES), 0);	/* 1 ms a frame */
	assert_int_equal(qp->attr.rate_limit, 512);
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

/* ---- work queues ---- */

static struct wq *wq_make(void)
{
	struct ibv_wq_init_attr attr = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = &pd->ibv,
					 .cq = (struct ibv_cq *)&cq->ibv };
	struct wq *wq = NULL;

	assert_int_equal(hca_create_wq(context, &attr, &wq), 0);
	/* What the header's inline function does. */
	pthread_mutex_init(&wq->ibv.mutex, NULL);
	pthread_cond_init(&wq->ibv.cond, NULL);
	return wq;
}

static int wq_move(struct wq *wq, enum ibv_wq_state to)
{
	const struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to };

	return hca_modify_wq(wq, &attr);
}

static int wq_fill(struct wq *wq, uint64_t wr_id, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)memory + MEMORY_BYTES / 2, 1024, lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	int err = hca_post_wq_recv(wq, &wr, &bad);

	if (err)
		assert_ptr_equal(bad, &wr);
	return err;
}

static struct rwq_table *table_of(struct wq **wq, uint32_t log)
{
	struct ibv_wq *entries[8];
	struct ibv_rwq_ind_table_init_attr attr = { .log_ind_tbl_size = log, .ind_tbl = entries };
	struct rwq_table *table = NULL;

	for (unsigned i = 0; i < 1u << log; i++)
		entries[i] = &wq[i]->ibv;
	assert_int_equal(hca_create_rwq_table(context, &attr, &table), 0);
	return table;
}

static struct ibv_qp_init_attr_ex spread_attr(struct rwq_table *table)
{
	static uint8_t key[HASH_KEY_BYTES];
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RAW_PACKET, .pd = &pd->ibv,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.rwq_ind_tbl = &table->ibv };

	memset(key, KEY, sizeof(key));
	attr.rx_hash_conf = (struct ibv_rx_hash_conf){ IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
		IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 };
	return attr;
}

static struct qp *spread_over(struct rwq_table *table)
{
	struct ibv_qp_init_attr_ex attr = spread_attr(table);
	struct qp *qp = NULL;

	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	return qp;
}

/* An IPv4 frame from 10.0.0.@from. */
static void ip_send(struct qp *sender, uint8_t from)
{
	const uint8_t ip[20] = {
		0x45, 0, 0, FRAME_BYTES - 14, 0, 0, 0, 0, 64, 200, 0, 0, 10, 0, 0, from, 10,
		0,    0, 1};

	frame_write(memory, 10, 0);
	put_be16(memory + 12, 0x0800);
	memcpy(memory + 14, ip, sizeof(ip));
	assert_int_equal(post_send(sender, 100, FRAME_BYTES), 0);
	expect_wc(100, IBV_WC_SUCCESS);
}

static void frames_of_one_flow_go_to_one_queue(void **state)
{
	struct wq *wq[4] = { wq_make(), wq_make(), wq_make(), wq_make() };
	struct qp *sender = raw_make(), *qp = spread_over(table_of(wq, 2));
	uint32_t first[16];
	unsigned used = 0;

	flow_to(qp, 10);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(wq_move(wq[i], IBV_WQS_RDY), 0);
	for (unsigned round = 0; round < 2; round++)
		for (uint8_t from = 0; from < 16; from++) {
			struct completion got;

			for (unsigned i = 0; i < 4; i++)
				if (!recv_queue_count(&wq[i]->queue))
					assert_int_equal(wq_fill(wq[i], i, mr->ibv.lkey), 0);
			ip_send(sender, from);
			got = next_frame();
			assert_int_equal(got.wc.status, IBV_WC_SUCCESS);
			assert_int_equal(got.wc.qp_num, wq[got.wc.wr_id]->number);
			if (!round)
				first[from] = got.wc.qp_num;
			assert_int_equal(got.wc.qp_num, first[from]);
			used |= 1u << got.wc.wr_id;
		}
	assert_int_equal(used, 15);
}

static void what_a_spreading_qp_cannot_do(void **state)
{
	struct wq *wq[1] = { wq_make() };
	struct rwq_table *table = table_of(wq, 0);
	struct qp *qp = spread_over(table);
	struct ibv_qp_init_attr_ex attr = spread_attr(table);
	uint8_t short_key[HASH_KEY_BYTES - 1] = { 0 };

	assert_int_equal(post_send(qp, 1, FRAME_BYTES), EINVAL);
	assert_int_equal(post_recv(qp, 1), EINVAL);
	assert_int_equal(hca_destroy_wq(context, wq[0]), EBUSY);
	assert_int_equal(hca_destroy_rwq_table(context, table), EBUSY);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	attr.rx_hash_conf.rx_hash_key_len = sizeof(short_key);
	assert_int_equal(hca_create_qp(context, &attr, &qp), EINVAL);
	attr = spread_attr(table);
	attr.rx_hash_conf.rx_hash_fields_mask |= 1u << 20;
	assert_int_equal(hca_create_qp(context, &attr, &qp), EOPNOTSUPP);
	attr = spread_attr(table);
	attr.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_RX_HASH;
	assert_int_equal(hca_create_qp(context, &attr, &qp), EINVAL);
	assert_int_equal(hca_destroy_rwq_table(context, table), 0);
	assert_int_equal(hca_destroy_wq(context, wq[0]), 0);
}

static void work_queues_have_states(void **state)
{
	struct wq *wq = wq_make();
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
				    .curr_wq_state = IBV_WQS_RDY, .wq_state = IBV_WQS_RDY };

	assert_int_equal(wq_fill(wq, 1, mr->ibv.lkey), EINVAL);
	assert_int_equal(wq_move(wq, IBV_WQS_ERR), EINVAL);
	assert_int_equal(hca_modify_wq(wq, &attr), EINVAL);
	assert_int_equal(wq_move(wq, IBV_WQS_RDY), 0);
	assert_int_equal(hca_modify_wq(wq, &attr), 0);
	assert_int_equal(wq_fill(wq, 1, mr->ibv.lkey), 0);
	assert_int_equal(wq_move(wq, IBV_WQS_ERR), 0);
	expect_wc(1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wq_fill(wq, 2, mr->ibv.lkey), 0);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wq_move(wq, IBV_WQS_RDY), EINVAL);
	assert_int_equal(wq_move(wq, IBV_WQS_RESET), 0);
	assert_int_equal(wq->ibv.state, IBV_WQS_RESET);
	attr = (struct ibv_wq_attr){ .attr_mask = IBV_WQ_ATTR_FLAGS, .flags = IBV_WQ_FLAGS_SCATTER_FCS,
				     .flags_mask = IBV_WQ_FLAGS_SCATTER_FCS };
	assert_int_equal(hca_modify_wq(wq, &attr), EOPNOTSUPP);
	attr.flags = attr.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
	assert_int_equal(hca_modify_wq(wq, &attr), 0);
	assert_true(wq->strips_vlan);
}

static void a_wrong_key_ends_a_work_queue(void **state)
{
	struct wq *wq[1] = { wq_make() };
	struct qp *sender = raw_make(), *qp = spread_over(table_of(wq, 0));
	struct ibv_async_event event;

	flow_to(qp, 10);
	assert_int_equal(wq_move(wq[0], IBV_WQS_RDY), 0);
	assert_int_equal(wq_fill(wq[0], 1, mr->ibv.lkey ^ 0x100), 0);
	assert_int_equal(wq_fill(wq[0], 2, mr->ibv.lkey), 0);
	ip_send(sender, 1);
	expect_wc(1, IBV_WC_LOC_PROT_ERR);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(hca_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_WQ_FATAL);
	assert_ptr_equal(event.element.wq, &wq[0]->ibv);
	hca_ack_async_event(&event);
	assert_int_equal(wq[0]->ibv.state, IBV_WQS_ERR);
	ip_send(sender, 1);
	expect_no_frame(sender);
}

/* Their keys are of the work queue's protection domain, not of the QP's. */
static void a_work_queue_has_its_own_pd(void **state)
{
	struct ibv_wq_init_attr attr = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1,
					 .cq = (struct ibv_cq *)&cq->ibv };
	struct qp *sender = raw_make(), *qp;
	struct mr *other_mr = NULL;
	struct pd *other = NULL;
	struct wq *wq = NULL;

	assert_int_equal(hca_alloc_pd(context, &other), 0);
	assert_int_equal(hca_reg_mr(context, other, memory, MEMORY_BYTES, (uintptr_t)memory,
				    ALL_ACCESS, &other_mr),
			 0);
	attr.pd = &other->ibv;
	assert_int_equal(hca_create_wq(context, &attr, &wq), 0);
	pthread_mutex_init(&wq->ibv.mutex, NULL);
	pthread_cond_init(&wq->ibv.cond, NULL);
	qp = spread_over(table_of(&wq, 0));
	flow_to(qp, 10);
	assert_int_equal(wq_move(wq, IBV_WQS_RDY), 0);
	assert_int_equal(wq_fill(wq, 1, other_mr->ibv.lkey), 0);
	ip_send(sender, 1);
	expect_wc(1, IBV_WC_SUCCESS);
	assert_int_equal(wq_fill(wq, 2, mr->ibv.lkey), 0);
	ip_send(sender, 1);
	expect_wc(2, IBV_WC_LOC_PROT_ERR);
}

static void wrong_attributes_are_refused(void **state)
{
	struct ibv_wq_init_attr good = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = &pd->ibv,
					 .cq = (struct ibv_cq *)&cq->ibv }, attr = good;
	struct ibv_wq *entries[2] = { NULL, NULL };
	struct ibv_rwq_ind_table_init_attr table = { .log_ind_tbl_size = 1, .ind_tbl = entries };
	struct rwq_table *made = NULL;
	struct wq *wq = NULL;

	attr.wq_type = 1;
	assert_int_equal(hca_create_wq(context, &attr, &wq), EINVAL);
	attr = good;
	attr.cq = NULL;
	assert_int_equal(hca_create_wq(context, &attr, &wq), EINVAL);
	attr = good;
	attr.max_wr = 0;
	assert_int_equal(hca_create_wq(context, &attr, &wq), EINVAL);
	attr = good;
	attr.max_sge = LIMIT_SGE + 1;
	assert_int_equal(hca_create_wq(context, &attr, &wq), EINVAL);
	attr = good;
	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	attr.create_flags = IBV_WQ_FLAGS_DELAY_DROP;
	assert_int_equal(hca_create_wq(context, &attr, &wq), EOPNOTSUPP);
	assert_null(wq);
	assert_int_equal(hca_create_rwq_table(context, &table, &made), EINVAL);
	entries[0] = &wq_make()->ibv;
	assert_int_equal(hca_create_rwq_table(context, &table, &made), EINVAL);
	table.log_ind_tbl_size = LIMIT_RWQ_TABLE_LOG + 1;
	assert_int_equal(hca_create_rwq_table(context, &table, &made), EINVAL);
	assert_null(made);
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
		DEVICE_TEST(frames_leave_at_their_rate),
		DEVICE_TEST(frames_of_one_flow_go_to_one_queue),
		DEVICE_TEST(what_a_spreading_qp_cannot_do),
		DEVICE_TEST(work_queues_have_states),
		DEVICE_TEST(a_wrong_key_ends_a_work_queue),
		DEVICE_TEST(a_work_queue_has_its_own_pd),
		DEVICE_TEST(wrong_attributes_are_refused),
		DEVICE_TEST(tags_are_put_back_or_stripped),
		DEVICE_TEST(checksums_are_written_on_request),
		DEVICE_TEST(without_the_right_it_is_eperm),
	};

	DEVICE_TESTS(tests);
}
