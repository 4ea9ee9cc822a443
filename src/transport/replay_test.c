/* SPDX-License-Identifier: BSD-2-Clause */
/* Responder resources: answers to READs and atomics, first and repeated (IBTA 9.7.5.1.8, 9.7.6). */
#include "transport/test_support.h"

static void a_read_is_answered_in_packets_of_the_mtu(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->memory[4096 + MTU] = 0x77;
	receive_read(s, PEER_PSN, 4096, 2 * MTU + 1);
	assert_int_equal(transmit(s), 3);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_FIRST, PEER_PSN);
	expect_sent(s, 1, OPCODE_RC_READ_RESPONSE_MIDDLE, PEER_PSN + 1);
	expect_sent(s, 2, OPCODE_RC_READ_RESPONSE_LAST, PEER_PSN + 2);
	assert_int_equal(sent(s, 1).payload[0], 0x77);
	assert_int_equal(sent(s, 2).payload_bytes, 1);
	assert_int_equal(sent(s, 2).aeth.msn, 1);
	/* The next request continues behind the responses. */
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 3, 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + 3);
	station_free(s);
}

static void responses_continue_where_the_quantum_stopped(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->quantum = 2;
	receive_read(s, PEER_PSN, 0, 3 * MTU);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 3, 8);
	assert_int_equal(transmit(s), 2);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_LAST, PEER_PSN + 2);
	/* An ACK must not overtake the responses: it would say that they are lost. */
	expect_sent(s, 1, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + 3);
	expect_silence(s);
	station_free(s);
}

static void duplicate_read_is_replayed_from_its_first_psn(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_read(s, PEER_PSN, 0, 3 * MTU);
	assert_int_equal(transmit(s), 3);
	s->memory[MTU] = 0x66;
	receive_read(s, PEER_PSN, 0, 3 * MTU);
	assert_int_equal(transmit(s), 3);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_FIRST, PEER_PSN);
	assert_int_equal(sent(s, 1).payload[0], 0x66);
	assert_int_equal(station_counter(s, COUNTER_RX_DUPLICATE), 1);
	station_free(s);
}

static void a_retried_read_covers_the_residue(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_read(s, PEER_PSN, 0, 3 * MTU + 1);
	transmit(s);
	receive_read(s, PEER_PSN + 2, 2 * MTU, MTU + 1);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_FIRST, PEER_PSN + 2);
	expect_sent(s, 1, OPCODE_RC_READ_RESPONSE_LAST, PEER_PSN + 3);
	receive_read(s, PEER_PSN + 3, 3 * MTU, 1);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_ONLY, PEER_PSN + 3);
	station_free(s);
}

static void a_retried_read_of_something_else_is_not_answered(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_read(s, PEER_PSN, 0, 2 * MTU);
	transmit(s);
	receive_read(s, PEER_PSN + 1, 0, MTU);
	receive_read(s, PEER_PSN + 1, MTU, MTU + 1);
	receive_read(s, PEER_PSN - 1, 0, 8);
	expect_silence(s);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	station_free(s);
}

static void a_repeated_read_while_it_is_answered_starts_again(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->quantum = 2;
	receive_read(s, PEER_PSN, 0, 4 * MTU);
	transmit(s);
	receive_read(s, PEER_PSN + 1, MTU, 3 * MTU);
	s->quantum = 64;
	assert_int_equal(transmit(s), 3);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_FIRST, PEER_PSN + 1);
	station_free(s);
}

static void a_duplicate_atomic_is_answered_from_what_was_stored(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t value = 40;
	int i;

	memcpy(s->memory, &value, 8);
	for (i = 0; i < 3; i++) {
		receive_fetch_add(s, PEER_PSN, 0, 2);
		assert_int_equal(transmit(s), 1);
		expect_sent(s, 0, OPCODE_RC_ATOMIC_ACKNOWLEDGE, PEER_PSN);
		assert_int_equal(sent(s, 0).atomic_original, 40);
	}
	memcpy(&value, s->memory, 8);
	assert_int_equal(value, 42);
	station_free(s);
}

static void a_duplicate_atomic_that_is_forgotten_is_dropped(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint32_t i;

	for (i = 0; i <= RD_ATOMIC_FEW; i++) {
		receive_fetch_add(s, PEER_PSN + i, 0, 1);
		assert_int_equal(transmit(s), 1);
	}
	receive_fetch_add(s, PEER_PSN, 0, 1);
	expect_silence(s);
	assert_int_equal(*(uint64_t *)(void *)s->memory, RD_ATOMIC_FEW + 1);
	station_free(s);
}

static void more_resources_are_made_without_forgetting_any(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint32_t i;

	for (i = 0; i < RD_ATOMIC_FEW; i++) {
		receive_fetch_add(s, PEER_PSN + i, 0, 1);
		assert_int_equal(transmit(s), 1);
	}
	station_reserve(s, 100);
	assert_int_equal(s->qp.responder.resource_count, 128);
	for (; i < 128; i++) {
		receive_fetch_add(s, PEER_PSN + i, 0, 1);
		assert_int_equal(transmit(s), 1);
	}
	for (i = 0; i < 128; i++) {
		receive_fetch_add(s, PEER_PSN + i, 0, 1);
		assert_int_equal(transmit(s), 1);
		assert_int_equal(sent(s, 0).atomic_original, i);
	}
	assert_int_equal(*(uint64_t *)(void *)s->memory, 128);
	station_free(s);
}

/*
 * Nothing is allocated or freed under the lock: what is not needed any more comes back in the room.
 */
static void the_smaller_room_is_handed_back(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct transport_room room;
	struct resource *few = s->qp.responder.resource, *first, *larger;

	assert_int_equal(transport_reserve(&room, RD_ATOMIC_FEW), 0);
	assert_null(room.resource);
	transport_install(&s->qp, &room);
	assert_ptr_equal(s->qp.responder.resource, few);

	assert_int_equal(transport_reserve(&room, RD_ATOMIC_FEW + 1), 0);
	first = room.resource;
	transport_install(&s->qp, &room);
	assert_ptr_equal(s->qp.responder.resource, first);
	assert_null(room.resource);

	assert_int_equal(transport_reserve(&room, RD_ATOMIC_MAX), 0);
	larger = room.resource;
	transport_install(&s->qp, &room);
	assert_ptr_equal(s->qp.responder.resource, larger);
	assert_ptr_equal(room.resource, first);
	transport_unreserve(&room);

	assert_int_equal(transport_reserve(&room, RD_ATOMIC_FEW + 1), 0);
	first = room.resource;
	transport_install(&s->qp, &room);
	assert_ptr_equal(s->qp.responder.resource, larger);
	assert_int_equal(s->qp.responder.resource_count, RD_ATOMIC_MAX);
	assert_ptr_equal(room.resource, first);
	transport_unreserve(&room);
	station_free(s);
}

static void an_ack_to_a_duplicate_does_not_pass_a_read(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 8);
	receive_read(s, PEER_PSN + 2, 0, 8);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 3, 8);
	transmit(s);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + 1);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 3, 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + 3);
	station_free(s);
}

static void a_replay_gives_way_to_a_new_request(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint32_t i;

	s->qp.attr.max_dest_rd_atomic = 1;
	receive_read(s, PEER_PSN, 0, 8);
	transmit(s);
	/* The first answer was only late: the peer has it, and asks for more. */
	receive_read(s, PEER_PSN, 0, 8);
	receive_read(s, PEER_PSN + 1, 0, 8);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	for (i = transmit(s); i > 0; i--)
		assert_int_equal(sent(s, i - 1).op->code, OPCODE_RC_READ_RESPONSE_ONLY);
	station_free(s);
}

static void a_read_whose_region_dies_is_nakked(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->quantum = 1;
	receive_read(s, PEER_PSN, 0, 3 * MTU);
	transmit(s);
	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN + 1);
	assert_int_equal(sent(s, 0).aeth.syndrome, aeth_syndrome(AETH_NAK, NAK_ACCESS));
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_silence(s);
	station_free(s);
}

/* A late copy of a READ that was answered. */
static void a_repeated_read_whose_region_is_gone_is_no_error(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_read(s, PEER_PSN, 0, 2 * MTU);
	assert_int_equal(transmit(s), 2);
	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	receive_read(s, PEER_PSN, 0, 2 * MTU);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN);
	assert_int_equal(sent(s, 0).aeth.syndrome, aeth_syndrome(AETH_NAK, NAK_ACCESS));
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	/* What is new is answered as ever. */
	receive_read(s, PEER_PSN + 2, 0, 0);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_ONLY, PEER_PSN + 2);
	station_free(s);
}

static void what_was_stored_is_forgotten_before_psns_come_round(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_fetch_add(s, PEER_PSN, 0, 1);
	transmit(s);
	s->qp.responder.position += 1 << 24;
	receive_fetch_add(s, PEER_PSN, 0, 1);
	expect_silence(s);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_read_is_answered_in_packets_of_the_mtu),
		TEST(responses_continue_where_the_quantum_stopped),
		TEST(duplicate_read_is_replayed_from_its_first_psn),
		TEST(a_retried_read_covers_the_residue),
		TEST(a_retried_read_of_something_else_is_not_answered),
		TEST(a_repeated_read_while_it_is_answered_starts_again),
		TEST(a_duplicate_atomic_is_answered_from_what_was_stored),
		TEST(a_duplicate_atomic_that_is_forgotten_is_dropped),
		TEST(more_resources_are_made_without_forgetting_any),
		TEST(the_smaller_room_is_handed_back),
		cmocka_unit_test(the_smaller_room_is_handed_back),
		TEST(an_ack_to_a_duplicate_does_not_pass_a_read),
		TEST(a_replay_gives_way_to_a_new_request),
		TEST(a_read_whose_region_dies_is_nakked),
		TEST(a_repeated_read_whose_region_is_gone_is_no_error),
		TEST(what_was_stored_is_forgotten_before_psns_come_round),
	};

	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
