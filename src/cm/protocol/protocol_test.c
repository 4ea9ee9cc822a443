/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol by scripts: how connections end, what strangers may say, and the protocol as a
 * whole. The peer is played by hand (test_support.h).
 */
#include "cm/protocol/test_support.h"

/* ---- disconnecting ---- */

static void a_disconnect_is_answered_and_waited_out(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_message drep = peer_message(CM_MESSAGE_DREP, connection->local_id);
	const struct cm_dreq *dreq;

	assert_int_equal(cm_disconnect(connection, "bye", 3, desk->now_ns), 0);
	dreq = &desk_expect(desk, CM_MESSAGE_DREQ)->dreq;
	assert_int_equal(dreq->remote_qpn, PEER_QPN);
	assert_memory_equal(dreq->private_data, "bye", 4);
	assert_int_equal(cm_disconnect(connection, NULL, 0, desk->now_ns), EINVAL);
	desk_tick(desk);
	assert_memory_equal(desk_expect(desk, CM_MESSAGE_DREQ)->dreq.private_data, "bye", 4);
	desk_receive(desk, &drep);
	desk_expect_event(desk, CM_EVENT_DREP);
	desk_receive(desk, &drep);
	desk_expect_quiet(desk);
	assert_int_equal(cm_deadline(desk->protocol), desk->now_ns + CM_TIME_NS(18));
	desk_tick(desk);
	desk_expect_event(desk, CM_EVENT_TIMEWAIT_EXIT);
	assert_null(cm_find_qpn(desk->protocol, OUR_QPN));
	cm_abandon(connection, desk->now_ns);
	assert_int_equal(desk->protocol->count, 0);
	desk_close(desk);
}

static void a_dreq_is_answered_as_often_as_it_comes(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_message dreq = peer_message(CM_MESSAGE_DREQ, connection->local_id);

	dreq.transaction_id = 0x99;
	for (unsigned round = 0; round < 3; round++) {
		const struct cm_message *drep;

		desk_receive(desk, &dreq);
		drep = desk_expect(desk, CM_MESSAGE_DREP);
		assert_int_equal(drep->transaction_id, 0x99);
		assert_int_equal(drep->drep.local_comm_id, connection->local_id);
		assert_int_equal(drep->drep.remote_comm_id, PEER_ID);
	}
	desk_expect_event(desk, CM_EVENT_DREQ);
	cm_abandon(connection, desk->now_ns);
	desk_tick(desk);
	assert_int_equal(desk->protocol->count, 0);
	desk_receive(desk, &dreq);		/* of nobody any more: all the same */
	desk_expect(desk, CM_MESSAGE_DREP);
	assert_int_equal(desk->counts[COUNTER_CM_UNKNOWN_ID], 1);
	desk_close(desk);
}

static void both_may_disconnect_at_the_same_time(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_DREQ_SENT);
	struct cm_message dreq = peer_message(CM_MESSAGE_DREQ, connection->local_id);
	struct cm_message drep = peer_message(CM_MESSAGE_DREP, connection->local_id);

	desk_receive(desk, &dreq);
	desk_expect(desk, CM_MESSAGE_DREP);
	desk_expect_event(desk, CM_EVENT_DREQ);
	desk_receive(desk, &drep);
	desk_expect_quiet(desk);
	assert_int_equal(connection->state, CM_STATE_TIMEWAIT);
	desk_close(desk);
}

static void a_dreq_that_is_never_answered_is_given_up(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_DREQ_SENT);

	for (desk_tick(desk); !desk->event_count; desk_tick(desk))
		desk_expect(desk, CM_MESSAGE_DREQ);
	assert_null(desk_expect_event(desk, CM_EVENT_DREP)->message);
	assert_int_equal(connection->state, CM_STATE_TIMEWAIT);
	desk_close(desk);
}

static void a_dreq_for_another_qp_is_dropped(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_message dreq = peer_message(CM_MESSAGE_DREQ, connection->local_id);

	dreq.dreq.remote_qpn++;
	desk_receive(desk, &dreq);
	desk_expect_quiet(desk);
	assert_int_equal(desk->counts[COUNTER_CM_UNEXPECTED], 1);
	assert_int_equal(connection->state, CM_STATE_ESTABLISHED);
	desk_close(desk);
}

static void a_connection_can_end_before_its_rtu_comes(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_SENT);
	struct cm_message dreq = peer_message(CM_MESSAGE_DREQ, connection->local_id);

	assert_int_equal(cm_disconnect(connection, NULL, 0, desk->now_ns), 0);
	desk_expect(desk, CM_MESSAGE_DREQ);
	desk_close(desk);

	desk = desk_open();
	connection = desk_in_state(desk, CM_STATE_REP_SENT);
	dreq.dreq.remote_comm_id = connection->local_id;
	desk_receive(desk, &dreq);
	desk_expect(desk, CM_MESSAGE_DREP);
	desk_expect_event(desk, CM_EVENT_DREQ);
	desk_close(desk);
}

static void a_dead_peer_is_told_as_what_the_connection_was(void **unused)
{
	static const struct { enum cm_state state; enum cm_event_kind event; } cases[] = {
		{ CM_STATE_REQ_SENT, CM_EVENT_UNREACHABLE },
		{ CM_STATE_REP_RCVD, CM_EVENT_UNREACHABLE },
		{ CM_STATE_REQ_RCVD, CM_EVENT_UNREACHABLE },
		{ CM_STATE_ESTABLISHED, CM_EVENT_DREQ },
		{ CM_STATE_DREQ_SENT, CM_EVENT_DREP },
		{ CM_STATE_SIDR_SENT, CM_EVENT_UNREACHABLE },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct desk *desk = desk_open();

		cm_peer_died(desk_in_state(desk, cases[i].state), desk->now_ns);
		desk_expect_event(desk, cases[i].event);
		desk_flush(desk);
		desk_close(desk);
	}
}

static void the_end_of_the_process_is_said_again_within_milliseconds(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_message drep = peer_message(CM_MESSAGE_DREP, connection->local_id);
	uint64_t begin_ns = desk->now_ns;

	desk_flush(desk);
	assert_int_equal(cm_leave(desk->protocol, desk->now_ns), 1);
	desk_expect(desk, CM_MESSAGE_DREQ);
	for (unsigned i = 0; i < 4; i++) {
		desk_tick(desk);
		desk_expect(desk, CM_MESSAGE_DREQ);
		assert_int_equal(cm_leave(desk->protocol, desk->now_ns), 1);
	}
	assert_true(desk->now_ns - begin_ns < UINT64_C(400000000));
	desk_receive(desk, &drep);
	desk_expect_event(desk, CM_EVENT_DREP);
	assert_int_equal(cm_leave(desk->protocol, desk->now_ns), 0);
	desk_flush(desk);
	desk_close(desk);
}

/* Its RTU and what it sent may come behind the news of its end. */
static void the_last_words_of_a_dead_peer_count(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_SENT);
	struct cm_message rtu = peer_message(CM_MESSAGE_RTU, connection->local_id);

	cm_peer_died(connection, desk->now_ns);
	cm_peer_died(connection, desk->now_ns);		/* told twice: by its slot and by the QP */
	desk_expect_quiet(desk);
	desk_receive(desk, &rtu);
	desk_expect_event(desk, CM_EVENT_RTU);
	desk_tick(desk);
	desk_expect_event(desk, CM_EVENT_DREQ);
	desk_flush(desk);
	desk_close(desk);
}

static void a_dead_peer_that_left_no_word_times_out_within_seconds(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_SENT);
	uint64_t died_ns = desk->now_ns;

	cm_peer_died(connection, died_ns);
	desk_tick(desk);
	desk_expect_event(desk, CM_EVENT_TIMEOUT);
	assert_true(desk->now_ns - died_ns < UINT64_C(2000000000));
	desk_flush(desk);
	desk_close(desk);
}

static void a_rej_of_what_was_answered_long_ago_means_nothing(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_message rej = peer_message(CM_MESSAGE_REJ, connection->local_id);

	rej.rej.message = CM_ABOUT_REQ;		/* a copy of our REQ got to another process */
	desk_receive(desk, &rej);
	rej.rej.local_comm_id = 0;
	desk_receive(desk, &rej);
	desk_expect_quiet(desk);
	rej.rej.local_comm_id = PEER_ID;
	rej.rej.message = CM_ABOUT_OTHER;
	desk_receive(desk, &rej);
	desk_expect_event(desk, CM_EVENT_REJ);
	assert_int_equal(connection->state, CM_STATE_TIMEWAIT);
	desk_close(desk);
}

static void an_alternate_path_is_refused(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_message lap = peer_message(CM_MESSAGE_LAP, connection->local_id);
	const struct cm_message *apr;

	desk_receive(desk, &lap);
	apr = desk_expect(desk, CM_MESSAGE_APR);
	assert_int_equal(apr->apr.status, CM_APR_UNSUPPORTED);
	assert_int_equal(apr->apr.remote_comm_id, PEER_ID);
	assert_int_equal(apr->transaction_id, lap.transaction_id);
	desk_expect_quiet(desk);
	desk_close(desk);
}

/* ---- strangers ---- */

static void messages_for_unknown_ids_only_count(void **unused)
{
	struct desk *desk = desk_open();

	for (unsigned kind = 0; kind < CM_MESSAGE_KINDS; kind++) {
		struct cm_message message =
			peer_message((enum cm_message_kind)kind, DESK_ID_BASE | 5);

		if (kind == CM_MESSAGE_REQ || kind == CM_MESSAGE_SIDR_REQ)
			continue;
		desk_receive(desk, &message);
	}
	desk_expect(desk, CM_MESSAGE_REJ);	/* of the REP */
	desk_expect(desk, CM_MESSAGE_DREP);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_APR)->apr.status, CM_APR_INVALID_COMM_INSTANCE);
	assert_int_equal(desk->counts[COUNTER_CM_UNKNOWN_ID], CM_MESSAGE_KINDS - 2);
	assert_int_equal(desk->protocol->count, 0);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	desk_close(desk);
}

static void messages_from_elsewhere_only_count(void **unused)
{
	for (unsigned state = 0; state < CM_STATE_OVER; state++) {
		struct desk *desk = desk_open();
		struct cm_connection *connection = desk_in_state(desk, (enum cm_state)state);
		struct mad_address other = desk_address(1, 3);
		uint64_t deadline_ns = cm_deadline(desk->protocol);
		unsigned counted;

		for (unsigned kind = 0; kind < CM_MESSAGE_KINDS; kind++) {
			struct cm_message message =
				peer_message((enum cm_message_kind)kind, connection->local_id);

			if (kind != CM_MESSAGE_REQ && kind != CM_MESSAGE_SIDR_REQ)
				desk_receive_from(desk, &other, &message);
		}
		counted = desk->counts[COUNTER_CM_WRONG_ADDRESS] +
			  desk->counts[COUNTER_CM_UNKNOWN_ID];
		assert_int_equal(counted, CM_MESSAGE_KINDS - 2);
		assert_int_equal(connection->state, state);
		assert_int_equal(cm_deadline(desk->protocol), deadline_ns);
		assert_int_equal(desk->event_count, 0);
		desk_flush(desk);
		desk_close(desk);
	}
}

static void messages_with_anothers_id_only_count(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_message dreq = peer_message(CM_MESSAGE_DREQ, connection->local_id);

	dreq.dreq.local_comm_id++;
	desk_receive(desk, &dreq);
	desk_expect(desk, CM_MESSAGE_DREP);	/* as for a connection that is gone */
	assert_int_equal(connection->state, CM_STATE_ESTABLISHED);
	assert_int_equal(desk->counts[COUNTER_CM_UNKNOWN_ID], 1);
	desk_close(desk);
}

static void what_is_no_message_only_counts(void **unused)
{
	struct desk *desk = desk_open();
	uint8_t mad[MAD_BYTES] = { 0 };

	cm_receive(desk->protocol, &desk->peer, mad, desk->now_ns);
	assert_int_equal(desk->counts[COUNTER_CM_MALFORMED], 1);
	desk_expect_quiet(desk);
	desk_close(desk);
}

/* ---- the whole ---- */

static void disconnect_all(void *context, struct cm_connection *connection)
{
	unsigned *visited = context;

	(*visited)++;
	cm_abandon(connection, SECOND);
}

static void every_connection_is_visited_though_it_goes(void **unused)
{
	struct desk *desk = desk_open();
	unsigned visited = 0;

	for (unsigned i = 0; i < 20; i++)
		desk_connect(desk);
	cm_for_each(desk->protocol, disconnect_all, &visited);
	assert_int_equal(visited, 20);
	assert_int_equal(desk->protocol->count, 0);
	desk_flush(desk);
	desk_close(desk);
}

static void abandon_at_once(struct desk *desk, const struct cm_event *event)
{
	if (event->kind != CM_EVENT_REQ && event->kind != CM_EVENT_SIDR_REQ)
		cm_abandon(event->connection, desk->now_ns);
}

static void the_handler_may_let_go_of_what_it_is_told(void **unused)
{
	for (unsigned state = 0; state < CM_STATE_OVER; state++) {
		struct desk *desk = desk_open();
		struct cm_connection *connection = desk_in_state(desk, (enum cm_state)state);

		desk->told = abandon_at_once;
		cm_peer_died(connection, desk->now_ns);
		while (cm_deadline(desk->protocol) != TIME_NEVER)
			desk_tick(desk);
		desk_flush(desk);
		desk_close(desk);
	}
}

static void ids_run_out_and_come_back(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connect connect = desk_connect_arguments(desk);
	struct cm_connection *made[7], *one_more;

	cm_protocol_free(desk->protocol);
	desk->protocol = cm_protocol_new(&desk_ops, desk, 0, 3);
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(cm_connect(desk->protocol, &connect, desk, 1, &made[i]), 0);
		assert_in_range(cm_local_id(made[i]), 1, 7);
	}
	assert_int_equal(cm_connect(desk->protocol, &connect, desk, 1, &one_more), ENOMEM);
	cm_abandon(made[3], 1);
	assert_int_equal(cm_connect(desk->protocol, &connect, desk, 1, &one_more), 0);
	desk_flush(desk);
	desk_close(desk);
}

static void ten_thousand_connections_are_held_and_found(void **unused)
{
	enum { MANY = 10000 };
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();
	struct cm_connection **made = calloc(MANY, sizeof(*made));

	assert_non_null(made);
	desk_listen(desk);
	for (unsigned i = 0; i < MANY; i++) {
		struct cm_accept accept = { .local_qpn = 0x100 + i };
		struct cm_message rtu;

		req.req.local_comm_id = 0x1000 + i;
		req.req.local_qpn = 0x2000 + i;
		made[i] = desk_arrive(desk, &req);
		assert_int_equal(cm_accept(made[i], &accept, desk->now_ns), 0);
		rtu = peer_message(CM_MESSAGE_RTU, made[i]->local_id);
		rtu.rtu.local_comm_id = req.req.local_comm_id;
		desk_receive(desk, &rtu);
		desk_flush(desk);
		assert_null(made[i]->kept);
	}
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(cm_find_qpn(desk->protocol, 0x100 + i), made[i]);
	assert_true(sizeof(struct cm_connection) <= 320);
	free(made);
	desk_close(desk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_disconnect_is_answered_and_waited_out),
		cmocka_unit_test(a_dreq_is_answered_as_often_as_it_comes),
		cmocka_unit_test(both_may_disconnect_at_the_same_time),
		cmocka_unit_test(a_dreq_that_is_never_answered_is_given_up),
		cmocka_unit_test(a_dreq_for_another_qp_is_dropped),
		cmocka_unit_test(a_connection_can_end_before_its_rtu_comes),
		cmocka_unit_test(a_dead_peer_is_told_as_what_the_connection_was),
		cmocka_unit_test(the_last_words_of_a_dead_peer_count),
		cmocka_unit_test(the_end_of_the_process_is_said_again_within_milliseconds),
		cmocka_unit_test(a_dead_peer_that_left_no_word_times_out_within_seconds),
		cmocka_unit_test(a_rej_of_what_was_answered_long_ago_means_nothing),
		cmocka_unit_test(an_alternate_path_is_refused),
		cmocka_unit_test(messages_for_unknown_ids_only_count),
		cmocka_unit_test(messages_from_elsewhere_only_count),
		cmocka_unit_test(messages_with_anothers_id_only_count),
		cmocka_unit_test(what_is_no_message_only_counts),
		cmocka_unit_test(every_connection_is_visited_though_it_goes),
		cmocka_unit_test(the_handler_may_let_go_of_what_it_is_told),
		cmocka_unit_test(ids_run_out_and_come_back),
		cmocka_unit_test(ten_thousand_connections_are_held_and_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
