/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues, tables of them, and the QPs that spread their frames over these. */
#include "device/device_ethernet_test.h"

#define KEY		0x5a

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

	assert_int_equal(wq_fill(wq, 3, mr->ibv.lkey), 0);	/* waits for RDY */
	assert_int_equal(wq_move(wq, IBV_WQS_ERR), EINVAL);
	assert_int_equal(hca_modify_wq(wq, &attr), EINVAL);
	assert_int_equal(wq_move(wq, IBV_WQS_RDY), 0);
	assert_int_equal(hca_modify_wq(wq, &attr), 0);
	assert_int_equal(wq_fill(wq, 1, mr->ibv.lkey), 0);
	assert_int_equal(wq_move(wq, IBV_WQS_ERR), 0);
	expect_wc(3, IBV_WC_WR_FLUSH_ERR);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(frames_of_one_flow_go_to_one_queue),
		DEVICE_TEST(what_a_spreading_qp_cannot_do),
		DEVICE_TEST(work_queues_have_states),
		DEVICE_TEST(a_wrong_key_ends_a_work_queue),
		DEVICE_TEST(a_work_queue_has_its_own_pd),
		DEVICE_TEST(wrong_attributes_are_refused),
	};

	DEVICE_TESTS(tests);
}
