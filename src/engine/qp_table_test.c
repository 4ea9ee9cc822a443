/* SPDX-License-Identifier: BSD-2-Clause */
/* QP numbers: from slots of this host, found again, not used again at once, and given back. */
#include "engine/fake_link_test.h"

#include <netinet/in.h>

#include "link/udp.h"
#include "local/channel/peer.h"
#include "platform/netns_test.h"

static struct qp one, another;
static struct qp *const full = &another;	/* stands at each place of a slot that is full */

static int begin(void **state)
{
	if (engine_begin(state) || slot_watch_open(&engine->watch) || udp_open(&engine->udp, &counters))
		return -1;
	return slots_claim(engine);
}

static int end(void **state)
{
	slots_release(engine);
	slot_watch_close(engine->watch);
	engine->udp->ops->close(engine->udp);
	return engine_end(state);
}

static int add(struct qp *qp, unsigned *index)
{
	int err;

	lock_acquire(&engine->progress);
	err = qp_table_add(engine, qp, index);
	lock_release(&engine->progress);
	return err;
}

static struct qp *find(uint32_t qpn)
{
	struct qp *qp;

	lock_acquire(&engine->progress);
	qp = qp_table_find(engine, qpn);
	lock_release(&engine->progress);
	return qp;
}

static void drop(struct qp *qp)
{
	lock_acquire(&engine->progress);
	qp_table_remove(engine, qp);
	lock_release(&engine->progress);
}

static void fill_slot(unsigned slot)
{
	uint32_t i;

	for (i = 0; i < QP_PER_SLOT; i++)
		engine->qps.table[slot][i] = full;
	engine->qps.used[slot] = QP_PER_SLOT;
}

static void a_number_leads_to_its_qp_alone(void **state)
{
	unsigned index[2];

	assert_int_equal(add(&one, &index[0]), 0);
	assert_int_equal(add(&another, &index[1]), 0);
	assert_int_equal(qpn_slot(one.number), engine->qps.slot[0].number);
	assert_int_equal(index[0], qpn_index(one.number));
	assert_int_not_equal(one.number, another.number);
	assert_ptr_equal(find(one.number), &one);
	assert_ptr_equal(find(another.number), &another);
	assert_null(find(one.number ^ 1u << 20));	/* another process's slot */
	assert_int_equal(engine->qps.count, 2);
	drop(&one);
	assert_null(find(one.number));
	assert_ptr_equal(find(another.number), &another);
	drop(&another);
	assert_int_equal(engine->qps.count, 0);
}

static void numbers_go_round(void **state)
{
	uint32_t before;
	unsigned index;

	engine->qps.next[0] = QP_PER_SLOT - 1;
	assert_int_equal(add(&one, &index), 0);
	assert_int_equal(qpn_index(one.number), QP_PER_SLOT - 1);
	before = one.number;
	drop(&one);
	assert_int_equal(add(&one, &index), 0);
	assert_int_not_equal(one.number, before);
	assert_int_equal(qpn_index(one.number), 0);
	drop(&one);
}

static void numbers_in_use_are_passed_over(void **state)
{
	unsigned index;

	assert_int_equal(add(&one, &index), 0);
	engine->qps.next[0] = qpn_index(one.number);
	assert_int_equal(add(&another, &index), 0);
	assert_int_equal(qpn_index(another.number), (qpn_index(one.number) + 1) % QP_PER_SLOT);
	drop(&one);
	drop(&another);
}

static void a_full_slot_is_followed_by_another_one(void **state)
{
	uint32_t second;
	unsigned index;

	fill_slot(0);
	assert_int_equal(add(&one, &index), 0);
	assert_int_equal(engine->qps.slot_count, 2);
	second = engine->qps.slot[1].number;
	assert_int_equal(qpn_slot(one.number), second);
	assert_int_equal(index, QP_PER_SLOT + qpn_index(one.number));
	assert_true(engine_has_slot(engine, second));
	assert_ptr_equal(find(one.number), &one);
	drop(&one);
	assert_int_equal(engine->qps.used[1], 0);
	engine->qps.table[0][7] = NULL;
	engine->qps.used[0]--;
	assert_int_equal(add(&one, &index), 0);		/* there is room in the first again */
	assert_int_equal(index, 7);
	drop(&one);
}

static void a_process_has_eight_slots_and_no_more(void **state)
{
	unsigned i, index = 99;

	for (i = 0; i < ENGINE_SLOTS_MAX; i++) {
		fill_slot(i);
		if (i + 1 < ENGINE_SLOTS_MAX)
			assert_int_equal(slots_claim(engine), 0);
	}
	assert_int_equal(add(&one, &index), ENOMEM);
	assert_int_equal(index, 99);
	assert_int_equal(engine->qps.slot_count, ENGINE_SLOTS_MAX);
}

/* Anybody may have bound a port: then the process has another slot. */
static void a_slot_whose_port_is_taken_is_passed_over(void **state)
{
	struct sockaddr_in name = { .sin_family = AF_INET };
	static int taken[SLOT_COUNT];
	uint32_t slot;

	for (slot = 1; slot < SLOT_COUNT - 1; slot++) {
		taken[slot] = -1;
		if (slot == engine->qps.slot[0].number || slot % 16 == 5)
			continue;
		name.sin_port = htons(udp_slot_port(slot));
		taken[slot] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(taken[slot], (struct sockaddr *)&name, sizeof(name)), 0);
	}
	assert_int_equal(slots_claim(engine), 0);
	assert_int_equal(engine->qps.slot[1].number % 16, 5);
	for (slot = 1; slot < SLOT_COUNT - 1; slot++)
		if (taken[slot] >= 0)
			close(taken[slot]);
}

static bool has_port(uint32_t number)
{
	bool has;

	assert_int_equal(engine_peer_has_port(engine, number, "test", &has), 0);
	return has;
}

static void a_peer_that_has_claimed_a_slot_has_its_port(void **state)
{
	uint32_t number = engine->qps.slot[0].number;
	struct slot other;

	assert_false(has_port(number));	/* of this process */
	assert_int_equal(slot_claim(&other), 0);
	assert_true(has_port(other.number));
	close(other.channel_fd);				/* as a version that knows no such ports */
	other.channel_fd = -1;
	assert_true(slot_is_claimed(other.number));
	assert_false(has_port(other.number));
	slot_release(&other);
	assert_false(has_port(other.number));
}

/* Nobody holds the slot: who asks the host hears of no port. */
static void a_peer_with_a_channel_has_its_port_unasked(void **state)
{
	uint32_t number = engine->qps.slot[0].number;
	struct slot other;

	assert_int_equal(slot_claim(&other), 0);
	slot_release(&other);
	engine->local.peers = calloc(1, sizeof(*engine->local.peers));
	assert_non_null(engine->local.peers);
	assert_false(has_port(other.number));
	engine->local.peers->channel_of[other.number] = 1;
	engine->local.peers->channel_of[number] = 1;
	assert_true(has_port(other.number));
	assert_false(has_port(number));	/* of this process, whatever a peer says */
	engine->local.peers->channel_of[other.number] = 0;
	assert_false(has_port(other.number));
	free(engine->local.peers);
	engine->local.peers = NULL;
}

static void keeps(struct qp *qp, uint32_t source, uint32_t receive) UNCHECKED_LOCKS
{
	qp_notes(qp)->source = (struct mr_kept){ .key = source, .length = 8 };
	qp_notes(qp)->receive = (struct mr_kept){ .key = receive, .length = 8 };
}

static void expect_kept(struct qp *qp, uint32_t source, uint32_t receive) UNCHECKED_LOCKS
{
	assert_int_equal(qp_notes(qp)->source.key, source);
	assert_int_equal(qp_notes(qp)->source.length, source ? 8 : 0);
	assert_int_equal(qp_notes(qp)->receive.key, receive);
	assert_int_equal(qp_notes(qp)->receive.length, receive ? 8 : 0);
}

static void a_region_that_goes_is_forgotten_by_who_keeps_it(void **state)
{
	const uint32_t key = 0x1234, other = 0x4321;
	unsigned index;

	assert_int_equal(send_queue_init(&one.sq, 1, 1, 0), 0);
	assert_int_equal(send_queue_init(&another.sq, 1, 1, 0), 0);
	assert_int_equal(add(&one, &index), 0);
	assert_int_equal(add(&another, &index), 0);
	keeps(&one, key, other);
	keeps(&another, other, key);
	qp_table_end_kept(engine, one.number, key);
	expect_kept(&one, 0, other);
	expect_kept(&another, other, key);
	keeps(&one, key, key);
	qp_table_end_kept(engine, MR_KEPT_BY_SOME, key);
	expect_kept(&one, 0, 0);
	expect_kept(&another, other, 0);
	/* It has been destroyed meanwhile. */
	drop(&another);
	qp_table_end_kept(engine, another.number, other);
	expect_kept(&another, other, 0);
	drop(&one);
	send_queue_fini(&one.sq);
	send_queue_fini(&another.sq);
}

static void slots_are_given_back(void **state)
{
	uint32_t number = engine->qps.slot[0].number;

	assert_true(slot_is_claimed(number));
	slots_release(engine);
	engine->qps.slot_count = 0;
	assert_false(slot_is_claimed(number));
}

int main(void)
{
#define TABLE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TABLE_TEST(a_number_leads_to_its_qp_alone),
		TABLE_TEST(numbers_go_round),
		TABLE_TEST(numbers_in_use_are_passed_over),
		TABLE_TEST(a_full_slot_is_followed_by_another_one),
		TABLE_TEST(a_process_has_eight_slots_and_no_more),
		TABLE_TEST(a_slot_whose_port_is_taken_is_passed_over),
		TABLE_TEST(a_peer_that_has_claimed_a_slot_has_its_port),
		TABLE_TEST(a_peer_with_a_channel_has_its_port_unasked),
		TABLE_TEST(a_region_that_goes_is_forgotten_by_who_keeps_it),
		TABLE_TEST(slots_are_given_back),
	};
	bool real_root;

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
