/* SPDX-License-Identifier: BSD-2-Clause */
/* Which ACKs wait for a reply, for how long, and what ends that. */
#include "transport/ack_hold.h"
#include "transport/test_support.h"

#define REPLY_NS 1000u		/* from a WRITE to the post that follows */

/* ---- the rule ---- */

static void writes_that_are_replied_to_are_learnt(void **state)
{
	struct ack_hold hold = { 0 };
	uint64_t now_ns = 1000000;
	unsigned n;

	for (n = 0; n < HOLD_LEARN; n++, now_ns += 50000) {
		assert_false(ack_hold_begin(&hold, now_ns));
		ack_hold_reply(&hold, now_ns + REPLY_NS, true);
	}
	assert_true(ack_hold_begin(&hold, now_ns));
	assert_int_equal(hold.until_ns, now_ns + HOLD_NS);
}

static void late_replies_teach_nothing(void **state)
{
	struct ack_hold hold = { 0 };
	uint64_t now_ns = 1000000;
	unsigned n;

	for (n = 0; n < 10 * HOLD_LEARN; n++, now_ns += 50000) {
		assert_false(ack_hold_begin(&hold, now_ns));
		ack_hold_reply(&hold, now_ns + HOLD_NS + 1, true);
	}
}

static void nothing_is_held_where_nobody_keeps_the_deadline(void **state)
{
	struct ack_hold hold = { .replies = HOLD_LEARN };

	assert_true(ack_hold_begin(&hold, 1000000));
	ack_hold_reply(&hold, 1000000 + REPLY_NS, false);
	assert_false(ack_hold_begin(&hold, 2000000));
}

static void two_writes_without_a_reply_are_not_held(void **state)
{
	struct ack_hold hold = { .replies = HOLD_LEARN };

	assert_true(ack_hold_begin(&hold, 1000000));
	assert_false(ack_hold_begin(&hold, 1000100));
	ack_hold_reply(&hold, 1000200, true);
	assert_false(ack_hold_begin(&hold, 2000000));
}

/* Each message is replied to at once from here on: the next is held only after a pause. */
static unsigned writes_until_one_is_held(struct ack_hold *hold, uint64_t now_ns)
{
	unsigned n = 0;

	while (!ack_hold_begin(hold, now_ns += 50000)) {
		ack_hold_reply(hold, now_ns + REPLY_NS, true);
		n++;
	}
	return n;
}

/* The first one for as long as it takes to learn, further ones for twice as many each. */
static void misses_stop_it_for_many_writes(void **state)
{
	static const unsigned writes[] = { HOLD_LEARN, 7, 15, 31, 63, 63, 63 };
	struct ack_hold hold = { .replies = HOLD_LEARN };
	uint64_t now_ns = 1000000;
	unsigned i;

	assert_true(ack_hold_begin(&hold, now_ns));
	for (i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		ack_hold_miss(&hold);
		ack_hold_reply(&hold, now_ns + 2 * HOLD_NS, true);
		now_ns += 100 * 50000;
		assert_int_equal(writes_until_one_is_held(&hold, now_ns), writes[i]);
		now_ns += (writes[i] + 1) * 50000;
	}
}

/* A thread that lost its processor once has not changed its ways. */
static void replies_for_long_let_misses_be_forgotten(void **state)
{
	struct ack_hold hold = { .replies = HOLD_LEARN };
	uint64_t now_ns = 1000000;
	unsigned i, n;

	for (i = 0; i < 10; i++) {
		assert_true(ack_hold_begin(&hold, now_ns));
		ack_hold_miss(&hold);
		ack_hold_reply(&hold, now_ns + 2 * HOLD_NS, true);
		assert_int_equal(writes_until_one_is_held(&hold, now_ns += 5000000), HOLD_LEARN);
		now_ns += 50000 * (HOLD_LEARN + 1);
		for (n = 0; n <= HOLD_PROVEN; n++) {
			ack_hold_reply(&hold, now_ns + REPLY_NS, true);
			assert_true(ack_hold_begin(&hold, now_ns += 50000));
		}
		ack_hold_reply(&hold, now_ns + REPLY_NS, true);
		now_ns += 50000;
	}
}

/* The deadline has passed, and nobody came to see it before the post. */
static void a_reply_after_the_deadline_is_a_miss(void **state)
{
	struct ack_hold hold = { .replies = HOLD_LEARN };

	assert_true(ack_hold_begin(&hold, 1000000));
	ack_hold_reply(&hold, 1000000 + HOLD_NS + 1, true);
	assert_int_equal(writes_until_one_is_held(&hold, 2000000), HOLD_LEARN);
}

/* ---- of a QP ---- */

static void reply(struct station *s) UNCHECKED_LOCKS
{
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	transport_replied(&s->qp, s->now_ns, true);
}

static bool is_ready(struct station *s) UNCHECKED_LOCKS
{
	return transport_ready(&s->qp);
}

static bool is_due(struct station *s) UNCHECKED_LOCKS
{
	return transport_answer_is_due(&s->qp);
}

static void write_at(struct station *s, uint32_t number)
{
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + number, 8);
}

/*
 * Four WRITEs, each followed by one of ours. The next WRITE has number *number, and all of ours are
 * answered.
 */
static struct station *station_that_replies(uint32_t *number)
{
	struct station *s = station_rts(IBV_QPT_RC);

	for (*number = 0; *number < HOLD_LEARN; (*number)++) {
		write_at(s, *number);
		assert_true(is_ready(s));
		assert_int_equal(transmit(s), 1);
		s->now_ns += REPLY_NS;
		reply(s);
		assert_int_equal(transmit(s), 1);
		receive_ack(s, OUR_PSN + *number);
		s->now_ns += MILLISECOND;
	}
	return s;
}

static void the_ack_leaves_behind_the_reply(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	assert_false(is_ready(s));
	assert_true(is_due(s));
	assert_int_equal(deadline_of(s), s->now_ns + HOLD_NS);
	s->now_ns += REPLY_NS;
	reply(s);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_WRITE_ONLY, OUR_PSN + number);
	expect_sent(s, 1, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + number);
	assert_true(s->batch->packet[1].bytes <= s->batch->packet[0].bytes);	/* one datagram */
	assert_false(is_due(s));
	expect_silence(s);
	receive_ack(s, OUR_PSN + number);
	station_free(s);
}

static void a_send_is_replied_to_likewise(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	post_recv(s, 1, 64);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + number, 8);
	assert_false(is_ready(s));
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	reply(s);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 1, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + number);
	station_free(s);
}

/* The ACKs in the middle of a long message keep the peer's window open. */
static void only_the_end_of_a_message_waits(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);
	struct packet packet = packet_of(OPCODE_RC_WRITE_FIRST, PEER_PSN + number);

	packet.payload = some_bytes;
	packet.payload_bytes = MTU;
	packet.ack_request = true;
	packet.reth.address = (uintptr_t)s->memory;
	packet.reth.rkey = s->mr.ibv.rkey;
	packet.reth.length = MTU + 8;
	receive(s, &packet);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	receive_data(s, OPCODE_RC_WRITE_LAST, PEER_PSN + number + 1, 8);
	assert_false(is_ready(s));
	station_free(s);
}

static void the_ack_leaves_alone_at_the_deadline(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	pass_time(s, HOLD_NS - 1);
	assert_false(is_ready(s));
	pass_time(s, 1);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + number);
	assert_int_equal(deadline_of(s), TIME_NEVER);
	write_at(s, number + 1);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	station_free(s);
}

static void a_passive_target_is_never_delayed(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint32_t number;

	for (number = 0; number < 200; number++) {
		write_at(s, number);
		assert_true(is_ready(s));
		assert_int_equal(deadline_of(s), TIME_NEVER);
		assert_int_equal(transmit(s), 1);
		s->now_ns += MILLISECOND;
	}
	station_free(s);
}

/* The peer asks again: it gets its answer at once. */
static void a_repeated_write_is_answered_at_once(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	assert_false(is_ready(s));
	write_at(s, number);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + number);
	station_free(s);
}

static void a_second_write_has_both_answered(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	write_at(s, number + 1);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + number + 1);
	station_free(s);
}

static void a_send_behind_it_has_both_answered(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	post_recv(s, 1, 64);
	write_at(s, number);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + number + 1, 8);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + number + 1);
	station_free(s);
}

/* Its response answers the WRITE, too. */
static void a_read_behind_it_does_not_wait(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	receive_read(s, PEER_PSN + number + 1, 0, 8);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_ONLY, PEER_PSN + number + 1);
	assert_int_equal(deadline_of(s), TIME_NEVER);
	station_free(s);
}

static void a_gap_behind_it_is_reported_at_once(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	write_at(s, number + 2);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	assert_int_equal(sent(s, 0).aeth.syndrome, aeth_syndrome(AETH_NAK, NAK_SEQUENCE));
	station_free(s);
}

/* Before a QP is reset or destroyed, what is due is transmitted (device/qp_last.c). */
static void it_goes_with_whatever_is_transmitted(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	assert_true(is_due(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + number);
	assert_int_equal(deadline_of(s), TIME_NEVER);
	station_free(s);
}

static void in_reset_there_is_none(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	station_move(s, IBV_QPS_RESET);
	assert_false(is_due(s));
	assert_int_equal(deadline_of(s), TIME_NEVER);
	station_free(s);
}

static void in_sqd_acks_do_not_wait(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	station_move(s, IBV_QPS_SQD);
	write_at(s, number);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	station_free(s);
}

static void a_reply_that_cannot_leave_lets_the_ack_go(void **state)
{
	uint32_t number;
	struct station *s = station_that_replies(&number);

	write_at(s, number);
	s->qp.requester.rnr_until_ns = s->now_ns + MILLISECOND;
	reply(s);
	assert_true(is_ready(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + number);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(writes_that_are_replied_to_are_learnt),
		TEST(late_replies_teach_nothing),
		TEST(nothing_is_held_where_nobody_keeps_the_deadline),
		TEST(two_writes_without_a_reply_are_not_held),
		TEST(misses_stop_it_for_many_writes),
		TEST(replies_for_long_let_misses_be_forgotten),
		TEST(a_reply_after_the_deadline_is_a_miss),
		TEST(the_ack_leaves_behind_the_reply),
		TEST(a_send_is_replied_to_likewise),
		TEST(only_the_end_of_a_message_waits),
		TEST(the_ack_leaves_alone_at_the_deadline),
		TEST(a_passive_target_is_never_delayed),
		TEST(a_repeated_write_is_answered_at_once),
		TEST(a_second_write_has_both_answered),
		TEST(a_send_behind_it_has_both_answered),
		TEST(a_read_behind_it_does_not_wait),
		TEST(a_gap_behind_it_is_reported_at_once),
		TEST(it_goes_with_whatever_is_transmitted),
		TEST(in_reset_there_is_none),
		TEST(in_sqd_acks_do_not_wait),
		TEST(a_reply_that_cannot_leave_lets_the_ack_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
