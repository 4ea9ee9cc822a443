/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of state.def is complete and makes sense as a whole; and what connections really do,
 * each input tried in each state, is what it says.
 */
#include "cm/protocol/test_support.h"

#define CALLS_FIRST	CM_INPUT_ACCEPT
#define CALLS_LAST	CM_INPUT_ABANDON	/* of those that can be refused */

static bool is_message(unsigned input)
{
	return input < CALLS_FIRST;
}

static bool is_call(unsigned input)
{
	return input >= CALLS_FIRST && input < CALLS_LAST;
}

static bool is_refusal(enum cm_move move)
{
	return move == CM_MOVE_REFUSE || move == CM_MOVE_ALREADY;
}

static void every_cell_is_a_move_or_says_why_not(void **unused)
{
	for (unsigned input = 0; input < CM_INPUTS; input++)
		for (unsigned state = 0; state < CM_STATES; state++) {
			enum cm_move move = cm_cell((enum cm_state)state, (enum cm_input)input);

			assert_true(move < CM_MOVES);
			/* A peer is never told EINVAL, a caller never dropped without a word. */
			assert_true(!is_message(input) || !is_refusal(move));
			assert_true(!is_call(input) || (move != CM_MOVE_DROP && move != CM_MOVE_IDLE));
			assert_true(is_call(input) || !is_refusal(move));
		}
}

static void every_move_is_used_and_leads_to_a_state(void **unused)
{
	bool used[CM_MOVES] = { false };

	for (unsigned input = 0; input < CM_INPUTS; input++)
		for (unsigned state = 0; state < CM_STATES; state++)
			used[cm_cell((enum cm_state)state, (enum cm_input)input)] = true;
	for (unsigned move = 0; move < CM_MOVES; move++) {
		assert_true(used[move]);
		assert_true(cm_move_next((enum cm_move)move) < CM_STATES ||
			    cm_move_next((enum cm_move)move) == CM_STATE_SAME);
	}
}

static enum cm_state after(enum cm_state state, enum cm_input input)
{
	enum cm_state next = cm_move_next(cm_cell(state, input));

	return next == CM_STATE_SAME ? state : next;
}

static void every_state_is_reached_from_a_first_one(void **unused)
{
	bool reached[CM_STATES] = { [CM_STATE_REQ_SENT] = true, [CM_STATE_REQ_RCVD] = true,
				    [CM_STATE_SIDR_SENT] = true, [CM_STATE_SIDR_RCVD] = true };

	for (unsigned round = 0; round < CM_STATES; round++)
		for (unsigned input = 0; input < CM_INPUTS; input++)
			for (unsigned state = 0; state < CM_STATES; state++)
				if (reached[state])
					reached[after((enum cm_state)state,
						      (enum cm_input)input)] = true;
	for (unsigned state = 0; state < CM_STATES; state++)
		assert_true(reached[state]);
}

static void what_is_over_stays_over(void **unused)
{
	for (unsigned input = 0; input < CM_INPUTS; input++) {
		assert_int_equal(after(CM_STATE_OVER, (enum cm_input)input), CM_STATE_OVER);
		assert_int_equal(cm_move_event(cm_cell(CM_STATE_OVER, (enum cm_input)input)),
				 CM_EVENT_NONE);
	}
}

/* Whoever is abandoned ends by time alone, whatever the peer does not do. */
static void an_abandoned_connection_ends_by_itself(void **unused)
{
	for (unsigned state = 0; state < CM_STATES; state++) {
		enum cm_state now = after((enum cm_state)state, CM_INPUT_ABANDON);

		for (unsigned step = 0; now != CM_STATE_OVER && step < 3; step++)
			now = after(now, CM_INPUT_EXPIRED);
		assert_int_equal(now, CM_STATE_OVER);
	}
}

/* Where time has something to say, a timer runs, and the other way round. */
static void timers_run_where_time_matters(void **unused)
{
	for (unsigned state = 0; state < CM_STATES; state++) {
		struct desk *desk = desk_open();
		struct cm_connection *connection = desk_in_state(desk, (enum cm_state)state);

		assert_int_equal(timer_armed(&connection->timer),
				 cm_cell((enum cm_state)state, CM_INPUT_EXPIRED) != CM_MOVE_IDLE);
		desk_close(desk);
	}
}

/* A message that is good in every respect but that the state may not want it. */
static struct cm_message good_message(unsigned input, const struct cm_connection *connection)
{
	struct cm_message message;

	if (input == CM_INPUT_REQ)
		return peer_req();
	if (input == CM_INPUT_SIDR_REQ)
		return peer_sidr_req();
	message = peer_message((enum cm_message_kind)input, connection->local_id);
	if (input == CM_INPUT_MRA)
		message.mra.message = connection->active ? CM_ABOUT_REQ : CM_ABOUT_REP;
	return message;
}

static int call(unsigned input, struct cm_connection *connection, uint64_t now_ns)
{
	const struct cm_accept accept = { .local_qpn = OUR_QPN };

	switch (input) {
	case CM_INPUT_ACCEPT:
		return cm_accept(connection, &accept, now_ns);
	case CM_INPUT_READY:
		return cm_ready_to_use(connection, NULL, 0, now_ns);
	case CM_INPUT_DELAY:
		return cm_delay(connection, 20, NULL, 0, now_ns);
	case CM_INPUT_REJECT:
		return cm_reject(connection, 28, NULL, 0, NULL, 0, now_ns);
	case CM_INPUT_ESTABLISH:
		return cm_establish(connection, now_ns);
	case CM_INPUT_LEAVE:
		return cm_disconnect(connection, NULL, 0, now_ns);
	case CM_INPUT_ANSWER:
		return cm_sidr_answer(connection, 0, OUR_QPN, 1, NULL, 0, now_ns);
	default:
		cm_peer_died(connection, now_ns);
		return 0;
	}
}

static void calls_do_what_the_table_says(void **unused)
{
	for (unsigned state = 0; state < CM_STATES; state++)
		for (unsigned input = CALLS_FIRST; input <= CM_INPUT_DIED; input++) {
			enum cm_move move = cm_cell((enum cm_state)state, (enum cm_input)input);
			struct desk *desk = desk_open();
			struct cm_connection *connection =
				desk_in_state(desk, (enum cm_state)state);
			int expected = move == CM_MOVE_REFUSE ? EINVAL :
				       move == CM_MOVE_ALREADY  ? EISCONN : 0;

			if (input != CM_INPUT_ABANDON) {
				assert_int_equal(call(input, connection, desk->now_ns), expected);
				assert_int_equal(connection->state,
						 after((enum cm_state)state, (enum cm_input)input));
				assert_int_equal(desk->event_count,
						 cm_move_event(move) != CM_EVENT_NONE);
			}
			desk_flush(desk);
			desk_close(desk);
		}
}

/* Nobody finds what is OVER, but what messages may not do to it is in the table all the same. */
static void messages_do_what_the_table_says(void **unused)
{
	for (unsigned state = 0; state < CM_STATES; state++)
		for (unsigned input = 0; input < CALLS_FIRST; input++) {
			enum cm_move move = cm_cell((enum cm_state)state, (enum cm_input)input);
			struct desk *desk = desk_open();
			struct cm_connection *connection =
				desk_in_state(desk, (enum cm_state)state);
			struct cm_message message = good_message(input, connection);

			/* Not a repeated request, but a new one. */
			if ((input == CM_INPUT_REQ || input == CM_INPUT_SIDR_REQ) &&
			    (connection->active || connection->datagram != (input != CM_INPUT_REQ))) {
				desk_close(desk);
				continue;
			}
			desk_receive(desk, &message);
			assert_int_equal(connection->state,
					 after((enum cm_state)state, (enum cm_input)input));
			assert_int_equal(desk->event_count, cm_move_event(move) != CM_EVENT_NONE);
			if (desk->event_count)
				assert_int_equal(desk->event[0].kind, cm_move_event(move));
			if (move == CM_MOVE_DROP && desk->counts[COUNTER_CM_UNEXPECTED] +
							desk->counts[COUNTER_CM_UNKNOWN_ID] != 1)
				fail_msg("%s in state %s is not counted",
					 cm_input_name((enum cm_input)input),
					 cm_state_name(connection));
			desk_flush(desk);
			desk_close(desk);
		}
}

static void abandoning_in_any_state_tells_nobody_and_frees_in_the_end(void **unused)
{
	for (unsigned state = 0; state < CM_STATES; state++) {
		struct desk *desk = desk_open();

		cm_abandon(desk_in_state(desk, (enum cm_state)state), desk->now_ns);
		for (unsigned ticks = 0; cm_deadline(desk->protocol) != TIME_NEVER; ticks++) {
			desk_tick(desk);
			assert_true(ticks < 40);
			desk->sent_read = desk->sent_count;
		}
		desk->sent_read = desk->sent_count;
		assert_int_equal(desk->protocol->count, 0);
		assert_int_equal(desk->protocol->by_id.count, 0);
		assert_int_equal(desk->protocol->by_remote.count, 0);
		assert_int_equal(desk->protocol->by_remote_qpn.count, 0);
		assert_int_equal(desk->protocol->by_qpn.count, 0);
		desk_close(desk);
	}
}

static void states_and_inputs_have_names(void **unused)
{
	struct cm_connection connection = { .state = CM_STATE_DREQ_SENT };

	assert_string_equal(cm_state_name(&connection), "DREQ sent");
	assert_string_equal(cm_input_name(CM_INPUT_SIDR_REP), "SIDR_REP");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_is_a_move_or_says_why_not),
		cmocka_unit_test(every_move_is_used_and_leads_to_a_state),
		cmocka_unit_test(every_state_is_reached_from_a_first_one),
		cmocka_unit_test(what_is_over_stays_over),
		cmocka_unit_test(an_abandoned_connection_ends_by_itself),
		cmocka_unit_test(timers_run_where_time_matters),
		cmocka_unit_test(calls_do_what_the_table_says),
		cmocka_unit_test(messages_do_what_the_table_says),
		cmocka_unit_test(abandoning_in_any_state_tells_nobody_and_frees_in_the_end),
		cmocka_unit_test(states_and_inputs_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
