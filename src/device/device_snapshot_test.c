/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics of the objects of a process: all of them once, in batches, with what they do. */
#include "device/device_test.h"

#include "device/observer.h"
#include "device/snapshot.h"
#include "object/dm.h"

/* All rows of a kind; how many. */
#define ALL_ROWS(kind, rows, max)                                                                  \
	({                                                                                         \
		uint64_t place = 0;                                                                \
		unsigned copied = 0;                                                               \
		while (place != SNAPSHOT_END && copied + SNAPSHOT_BATCH <= (max))                  \
			copied += hca_snapshot_##kind(hca, &place, (rows) + copied);               \
		assert_true(place == SNAPSHOT_END);                                                \
		copied;                                                                            \
	})

static struct snapshot_qp qps[400];
static struct snapshot_mr mrs[400];
static struct snapshot_cq cqs[400];
static struct snapshot_srq srqs[SNAPSHOT_BATCH];
static struct snapshot_device devices[SNAPSHOT_BATCH];

static const struct snapshot_qp *row_of(const struct qp *qp)
{
	unsigned count = ALL_ROWS(qps, qps, 400);

	for (unsigned i = 0; i < count; i++)
		if (qps[i].number == qp->number)
			return &qps[i];
	fail_msg("0x%06x is not there", qp->number);
	return NULL;
}

/* ---- all of them, once ---- */

#define MANY 200u

static void each_qp_comes_once(void **state)
{
	struct qp *made[MANY];
	unsigned i, j, count;

	for (i = 0; i < MANY; i++)
		made[i] = qp_make(IBV_QPT_RC);
	count = ALL_ROWS(qps, qps, 400);
	assert_int_equal(count, MANY);
	for (i = 0; i < MANY; i++) {
		for (j = 0; j < count && qps[j].number != made[i]->number; j++)
			;
		assert_true(j < count);
		assert_int_equal(qps[j].type, IBV_QPT_RC);
		assert_int_equal(qps[j].state, IBV_QPS_RESET);
		assert_string_equal(qps[j].device, "vb_lo");
		assert_null(qps[j].path.way);
		qps[j].number = 0;
	}
	assert_true(is_free(&hca->objects));
}

static void each_cq_and_region_comes_once(void **state)
{
	struct cq *made;
	struct mr *region;
	unsigned i, count;

	for (i = 0; i < MANY; i++) {
		assert_int_equal(cq_make(NULL, &made), 0);
		assert_int_equal(hca_reg_mr(context, pd, memory, 64, 0, 0, &region), 0);
	}
	count = ALL_ROWS(cqs, cqs, 400);
	assert_int_equal(count, MANY + 1);
	for (i = 1; i < count; i++)
		assert_true(cqs[i].number > cqs[i - 1].number);
	count = ALL_ROWS(mrs, mrs, 400);
	assert_int_equal(count, MANY + 1);
	for (i = 1; i < count; i++)
		assert_true(mrs[i].key > mrs[i - 1].key);
	assert_true(is_free(&hca->mrs.lock));
}

static void it_goes_on_at_a_place(void **state)
{
	struct qp *pair[2];
	const struct snapshot_qp *row;
	uint64_t from;

	qp_make_pair(pair);
	row = row_of(pair[1]);
	from = row->place;
	assert_int_equal(row->number, pair[1]->number);
	assert_true(hca_snapshot_qps(hca, &from, qps) >= 1);
	assert_int_equal(qps[0].number, pair[1]->number);
}

/* ---- QPs ---- */

static void a_connected_qp_tells_of_its_peer_and_queues(void **state)
{
	const struct snapshot_qp *row;
	struct qp *pair[2];

	qp_make_pair(pair);
	assert_int_equal(post_recv(pair[1], 1), 0);
	assert_int_equal(post_recv(pair[1], 2), 0);
	assert_int_equal(post_send(pair[0], 3, 100), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(3, IBV_WC_SUCCESS);
	row = row_of(pair[0]);
	assert_int_equal(row->state, IBV_QPS_RTS);
	assert_int_equal(row->path.qpn, pair[1]->number);
	assert_string_equal(row->path.way, "itself");
	assert_int_equal(row->path.address[15], 1);
	assert_int_equal(row->mtu, 1024);
	assert_int_equal(row->sends.size, 16);
	assert_int_equal(row->sends.posted, 0);
	assert_int_equal(row->sends.done, 1);
	assert_int_equal(row->next_psn, 1);
	assert_int_equal(row->pd, pd->number);
	assert_int_equal(row->send_cq, cq->number);
	row = row_of(pair[1]);
	assert_int_equal(row->receives.size, 16);
	assert_int_equal(row->receives.posted, 1);
	assert_int_equal(row->receives.done, 1);
	assert_int_equal(row->expected_psn, 1);
	assert_int_equal(row->last_error, IBV_WC_SUCCESS);
}

static void a_receiver_that_is_late_is_counted_on_both_sides(void **state)
{
	struct qp *pair[2];
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;

	qp_make_pair(pair);
	assert_int_equal(post_send(pair[0], 3, 100), 0);
	while (!row_of(pair[0])->tally[QP_COUNTER_RNR_RECEIVED])
		assert_true(clock_now_ns() < end_ns);
	assert_true(row_of(pair[1])->tally[QP_COUNTER_RNR_SENT] > 0);
	assert_int_equal(row_of(pair[1])->tally[QP_COUNTER_RNR_RECEIVED], 0);
	assert_int_equal(row_of(pair[0])->sends.posted, 1);
	assert_int_equal(post_recv(pair[1], 1), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(3, IBV_WC_SUCCESS);
}

static void a_failure_is_told_and_what_it_flushes_is_not(void **state)
{
	struct ibv_sge sge = { (uintptr_t)memory, 100, mr->ibv.lkey };
	struct ibv_send_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { (uintptr_t)memory, mr->ibv.rkey ^ 0x100 } }, *bad;
	struct qp *pair[2];

	qp_make_pair(pair);
	assert_int_equal(post_recv(pair[0], 6), 0);
	assert_int_equal(hca_post_send(pair[0], &wr, &bad), 0);
	expect_wc(5, IBV_WC_REM_ACCESS_ERR);
	expect_wc(6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(row_of(pair[0])->last_error, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(row_of(pair[0])->state, IBV_QPS_ERR);
	assert_int_equal(counted(COUNTER_REQUEST_FAILED), 1);
	assert_int_equal(counted(COUNTER_RX_NAK_ACCESS), 1);
	assert_int_equal(counted(COUNTER_RECEIVE_FLUSHED), 1);
}

static void the_next_qp_of_a_number_begins_at_zero(void **state)
{
	struct qp *qp = qp_make(IBV_QPT_RC);

	atomic_store(&qp->access->tally[QP_COUNTER_DROPS], 7);
	atomic_store(&qp->access->last_error, 12);
	hca->engine.qps.next[0] = qpn_index(qp->number);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	qp = qp_make(IBV_QPT_RC);
	assert_int_equal(row_of(qp)->tally[QP_COUNTER_DROPS], 0);
	assert_int_equal(row_of(qp)->last_error, 0);
}

/* ---- CQs, SRQs, regions, devices ---- */

static void a_cq_tells_what_waits_in_it(void **state)
{
	struct qp *pair[2];
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	struct ibv_wc wc[2];

	qp_make_pair(pair);
	assert_int_equal(post_recv(pair[1], 1), 0);
	assert_int_equal(post_send(pair[0], 2, 10), 0);
	do {
		assert_true(clock_now_ns() < end_ns);
		assert_int_equal(ALL_ROWS(cqs, cqs, 400), 1);
	} while (cqs[0].queue.posted < 2);
	assert_int_equal(cqs[0].users, 4);
	assert_string_equal(cqs[0].armed, "no");
	assert_int_equal(hca_poll_cq(cq, 2, wc), 2);
	assert_int_equal(ALL_ROWS(cqs, cqs, 400), 1);
	assert_int_equal(cqs[0].queue.posted, 0);
	assert_int_equal(cqs[0].queue.done, 2);
	assert_false(cqs[0].overflowed);
}

static void an_srq_tells_its_receives(void **state)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 10, .max_sge = 1, .srq_limit = 0 } };
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->ibv.lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct srq *srq;

	attr.pd = &pd->ibv;
	attr.comp_mask = IBV_SRQ_INIT_ATTR_PD;
	assert_int_equal(hca_create_srq(context, &attr, &srq), 0);
	assert_int_equal(hca_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(ALL_ROWS(srqs, srqs, SNAPSHOT_BATCH), 1);
	assert_int_equal(srqs[0].number, srq->number);
	assert_int_equal(srqs[0].queue.posted, 1);
	assert_true(srqs[0].queue.size >= 10);
	assert_int_equal(srqs[0].pd, pd->number);
}

static const struct snapshot_mr *region_row(uint32_t key)
{
	unsigned count = ALL_ROWS(mrs, mrs, 400);

	for (unsigned i = 0; i < count; i++)
		if (mrs[i].key == key)
			return &mrs[i];
	return NULL;
}

static void a_region_is_told_as_long_as_its_key_lives(void **state)
{
	struct snapshot_process before, after;
	struct mr *made;
	uint32_t key;

	hca_snapshot_process(hca, &before);
	assert_int_equal(hca_reg_mr(context, pd, memory, 100, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE,
				    &made), 0);
	key = made->ibv.lkey;
	assert_int_equal(region_row(key)->bytes, 100);
	assert_int_equal(region_row(key)->address, (uintptr_t)memory);
	assert_int_equal(region_row(key)->access, IBV_ACCESS_LOCAL_WRITE);
	assert_string_equal(region_row(key)->device, "vb_lo");
	assert_true(region_row(key)->age_ns < 10 * SECOND);
	assert_int_equal(hca_rereg_mr(context, made, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 300, 0), 0);
	assert_int_equal(region_row(key)->bytes, 300);
	hca_snapshot_process(hca, &after);
	assert_int_equal(after.mrs, before.mrs + 1);
	assert_int_equal(after.mr_bytes, before.mr_bytes + 300);
	assert_int_equal(hca_dereg_mr(context, made), 0);
	assert_null(region_row(key));
	hca_snapshot_process(hca, &after);
	assert_int_equal(after.mrs, before.mrs);
	assert_int_equal(after.mr_bytes, before.mr_bytes);
}

static void regions_are_of_kinds(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct mr *null, *device;
	struct dm *dm;

	assert_int_equal(hca_alloc_null_mr(context, pd, &null), 0);
	assert_int_equal(hca_alloc_dm(context, &attr, &dm), 0);
	assert_int_equal(hca_reg_dm_mr(context, pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED, &device), 0);
	assert_string_equal(region_row(null->ibv.lkey)->kind, "null");
	assert_string_equal(region_row(device->ibv.lkey)->kind, "device");
	assert_string_equal(region_row(mr->ibv.lkey)->kind, "memory");
}

static void a_process_counts_its_objects(void **state)
{
	struct snapshot_process process;
	struct qp *pair[2];

	qp_make_pair(pair);
	hca_snapshot_process(hca, &process);
	assert_int_equal(process.contexts, 1);
	assert_int_equal(process.qps, 2);
	assert_int_equal(process.cqs, 1);
	assert_int_equal(process.mrs, 1);
	assert_int_equal(process.mr_bytes, MEMORY_BYTES);
	assert_int_equal(process.channels, 0);
	assert_int_equal(process.slot, hca->engine.qps.slot[0].number);
	assert_int_equal(ALL_ROWS(devices, devices, SNAPSHOT_BATCH), 1);
	assert_string_equal(devices[0].name, "vb_lo");
	assert_string_equal(devices[0].interface, "lo");
	assert_int_equal(devices[0].contexts, 1);
	assert_true(devices[0].active && devices[0].gids > 0 && devices[0].mtu >= 1024);
}

/* ---- counters of the host ---- */

static void add_of_others(const char *device, uint64_t *values)
{
	assert_string_equal(device, "vb_lo");
	values[COUNTER_TX_PACKETS] += 5;
}

static void counters_of_the_host_are_ours_and_those_of_others(void **state)
{
	const struct hca_observer *before = hca_observer_of();
	const struct hca_observer fake = { .add_others = add_of_others };
	uint64_t values[COUNTER_COUNT];

	hca_observe(&fake);
	counter_add(hca->engine.counters, COUNTER_TX_PACKETS, 7);
	counter_add(hca->engine.counters, COUNTER_RX_ICRC, 1);
	hca_read_host_counters(context, values);
	hca_observe(before);
	assert_int_equal(values[COUNTER_TX_PACKETS], counted(COUNTER_TX_PACKETS) + 5);
	assert_int_equal(values[COUNTER_RX_ICRC], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(each_qp_comes_once),
		DEVICE_TEST(each_cq_and_region_comes_once),
		DEVICE_TEST(it_goes_on_at_a_place),
		DEVICE_TEST(a_connected_qp_tells_of_its_peer_and_queues),
		DEVICE_TEST(a_receiver_that_is_late_is_counted_on_both_sides),
		DEVICE_TEST(a_failure_is_told_and_what_it_flushes_is_not),
		DEVICE_TEST(the_next_qp_of_a_number_begins_at_zero),
		DEVICE_TEST(a_cq_tells_what_waits_in_it),
		DEVICE_TEST(an_srq_tells_its_receives),
		DEVICE_TEST(a_region_is_told_as_long_as_its_key_lives),
		DEVICE_TEST(regions_are_of_kinds),
		DEVICE_TEST(a_process_counts_its_objects),
		DEVICE_TEST(counters_of_the_host_are_ours_and_those_of_others),
	};

	DEVICE_TESTS(tests);
}
