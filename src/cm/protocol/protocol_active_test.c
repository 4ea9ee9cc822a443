/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The active side by scripts: what it says and is told in each turn that its request can take. The
 * peer is played by hand (test_support.h).
 */
#include "cm/protocol/test_support.h"

/* ---- connecting ---- */

static void a_req_says_what_its_caller_says(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connect connect = desk_connect_arguments(desk);
	struct cm_connection *connection;
	const struct cm_req *req;

	memcpy(&connect.local_ca_guid, "\1\2\3\4\5\6\7\10", 8);
	connect.private_data = "hello";
	connect.private_data_bytes = 5;
	connect.responder_resources = 3;
	connect.initiator_depth = 4;
	connect.retry_count = 7;
	connect.rnr_retry_count = 6;
	connect.srq = true;
	connect.ece_vendor_id = 0xabcdef;
	connect.ece_options = 9;
	assert_int_equal(cm_connect(desk->protocol, &connect, desk, desk->now_ns, &connection), 0);
	req = &desk_expect(desk, CM_MESSAGE_REQ)->req;
	assert_memory_equal(&desk->to[0], &desk->peer, sizeof(desk->peer));
	assert_int_equal(req->local_comm_id & ~((1u << DESK_ID_BITS) - 1), DESK_ID_BASE);
	assert_int_equal(req->local_comm_id, cm_local_id(connection));
	assert_int_equal(req->service_id, SERVICE);
	assert_int_equal(req->local_ca_guid, 0x0102030405060708);
	assert_int_equal(req->local_qpn, OUR_QPN);
	assert_int_equal(req->starting_psn, 0xabc);
	assert_int_equal(req->responder_resources, 3);
	assert_int_equal(req->initiator_depth, 4);
	assert_int_equal(req->retry_count, 7);
	assert_int_equal(req->rnr_retry_count, 6);
	assert_int_equal(req->srq, 1);
	assert_int_equal(req->local_response_timeout, 20);
	assert_int_equal(req->remote_response_timeout, 20);
	assert_int_equal(req->max_retries, 2);
	assert_int_equal(req->local_lid, 0xffff);
	assert_int_equal(req->subnet_local, 0);
	assert_int_equal(req->vendor_id, 0xabcdef);
	assert_int_equal(desk->sent[0].attribute_modifier, 9);
	assert_memory_equal(req->private_data, "hello\0\0", 7);
	assert_int_equal(desk->sent[0].transaction_id & 0xffffffff, req->local_comm_id);
	desk_close(desk);
}

static void what_cannot_be_said_is_refused(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connect connect = desk_connect_arguments(desk);
	struct cm_connection *connection;

	connect.private_data = "x";
	connect.private_data_bytes = 93;
	assert_int_equal(cm_connect(desk->protocol, &connect, desk, 1, &connection), EINVAL);
	connect.private_data_bytes = 0;
	connect.response_timeout = 32;
	assert_int_equal(cm_connect(desk->protocol, &connect, desk, 1, &connection), EINVAL);
	assert_int_equal(desk->protocol->count, 0);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	desk_close(desk);
}

static void a_rep_is_told_and_ready_to_use_sends_an_rtu(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_SENT);
	struct cm_message rep = peer_message(CM_MESSAGE_REP, connection->local_id);
	const struct cm_event *event;
	const struct cm_message *rtu;

	rep.rep.private_data[195] = 9;
	desk_receive(desk, &rep);
	event = desk_expect_event(desk, CM_EVENT_REP);
	assert_ptr_equal(event->connection, connection);
	assert_ptr_equal(event->owner, desk);
	assert_int_equal(event->message->rep.private_data[195], 9);
	assert_int_equal(cm_remote_qpn(connection), PEER_QPN);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);	/* it is the owner's turn */
	assert_int_equal(cm_ready_to_use(connection, "rtu", 3, desk->now_ns), 0);
	rtu = desk_expect(desk, CM_MESSAGE_RTU);
	assert_int_equal(rtu->rtu.local_comm_id, connection->local_id);
	assert_int_equal(rtu->rtu.remote_comm_id, PEER_ID);
	assert_memory_equal(rtu->rtu.private_data, "rtu", 4);
	assert_int_equal(rtu->transaction_id, connection->transaction_id);
	assert_ptr_equal(cm_find_qpn(desk->protocol, OUR_QPN), connection);

	/* The RTU was lost: the peer sends its REP again and gets the very same. */
	desk_receive(desk, &rep);
	assert_memory_equal(desk_expect(desk, CM_MESSAGE_RTU)->rtu.private_data, "rtu", 4);
	assert_int_equal(desk->counts[COUNTER_CM_DUPLICATE], 1);
	desk_close(desk);
}

static void a_rep_that_comes_twice_before_the_owner_is_ready_asks_for_time(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_RCVD);
	struct cm_message rep = peer_message(CM_MESSAGE_REP, connection->local_id);
	const struct cm_mra *mra;

	desk_receive(desk, &rep);
	mra = &desk_expect(desk, CM_MESSAGE_MRA)->mra;
	assert_int_equal(mra->message, CM_ABOUT_REP);
	assert_int_equal(mra->service_timeout, 24);
	assert_int_equal(mra->remote_comm_id, PEER_ID);
	desk_close(desk);
}

static void a_req_is_sent_again_less_and_less_often_and_given_up(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_SENT);
	uint64_t start_ns = desk->now_ns, interval_ns = CM_TIME_NS(16), before_ns = start_ns;
	const struct cm_message *first, *message;
	unsigned sent = 0;

	for (;;) {
		desk_tick(desk);
		if (desk->event_count)
			break;
		message = desk_expect(desk, CM_MESSAGE_REQ);
		first = &desk->sent[0];
		assert_memory_equal(&message->req, &first->req, sizeof(first->req));
		assert_int_equal(message->transaction_id, first->transaction_id);
		if (desk->now_ns < start_ns + 3 * CM_TIME_NS(20))
			assert_in_range(desk->now_ns - before_ns, interval_ns,
					interval_ns + interval_ns / 4);
		before_ns = desk->now_ns;
		interval_ns = 2 * interval_ns > CM_TIME_NS(20) ? CM_TIME_NS(20) : 2 * interval_ns;
		sent++;
	}
	assert_in_range(sent, 5, 7);
	assert_int_equal(desk->now_ns - start_ns, 3 * CM_TIME_NS(20));
	assert_int_equal(desk_expect_event(desk, CM_EVENT_TIMEOUT)->retried, CM_MESSAGE_REQ);
	message = desk_expect(desk, CM_MESSAGE_REJ);
	assert_int_equal(message->rej.reason, CM_REJECT_TIMEOUT);
	assert_int_equal(message->rej.local_comm_id, connection->local_id);
	assert_int_equal(message->rej.remote_comm_id, 0);
	assert_int_equal(message->rej.info_bytes, 8);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	assert_string_equal(cm_state_name(connection), "over");
	cm_abandon(connection, desk->now_ns);
	assert_int_equal(desk->protocol->count, 0);
	desk_close(desk);
}

static void an_mra_puts_giving_up_off_but_not_for_ever(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_SENT);
	struct cm_message mra = peer_message(CM_MESSAGE_MRA, connection->local_id);
	uint64_t start_ns = desk->now_ns;

	mra.mra.service_timeout = 24;
	mra.mra.message = CM_ABOUT_REQ;
	desk_receive(desk, &mra);
	assert_int_equal(connection->give_up_ns, start_ns + CM_TIME_NS(24) + CM_TIME_NS(20));
	mra.mra.service_timeout = 0;		/* a small one does not shorten */
	desk_receive(desk, &mra);
	assert_int_equal(connection->give_up_ns, start_ns + CM_TIME_NS(24) + CM_TIME_NS(20));
	mra.mra.service_timeout = 31;		/* 2.4 hours: not believed, and not again and again */
	while (!desk->event_count) {
		desk_tick(desk);
		desk->sent_read = desk->sent_count = 0;
		desk_receive(desk, &mra);
	}
	assert_int_equal(desk->now_ns, start_ns + CM_TIME_NS(28));
	desk_expect_event(desk, CM_EVENT_TIMEOUT);
	desk_close(desk);
}

static void an_mra_about_something_else_means_nothing(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_SENT);
	struct cm_message mra = peer_message(CM_MESSAGE_MRA, connection->local_id);
	uint64_t give_up_ns = connection->give_up_ns;

	mra.mra.service_timeout = 24;
	mra.mra.message = CM_ABOUT_REP;
	desk_receive(desk, &mra);
	assert_int_equal(connection->give_up_ns, give_up_ns);
	assert_int_equal(desk->counts[COUNTER_CM_UNEXPECTED], 1);
	desk_close(desk);
}

static void a_rejected_req_is_told_with_reason_and_information(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_SENT);
	struct cm_message rej = peer_message(CM_MESSAGE_REJ, connection->local_id);
	const struct cm_rej *told;

	rej.rej.local_comm_id = 0;		/* who refuses a REQ needs no ID */
	rej.rej.message = CM_ABOUT_REQ;
	rej.rej.reason = CM_REJECT_CONSUMER_DEFINED;
	rej.rej.info_bytes = 127;		/* more than there is room for */
	rej.rej.info[71] = 3;
	rej.rej.private_data[0] = 4;
	desk_receive(desk, &rej);
	told = &desk_expect_event(desk, CM_EVENT_REJ)->message->rej;
	assert_int_equal(told->reason, 28);
	assert_int_equal(told->info_bytes, 72);
	assert_int_equal(told->info[71], 3);
	assert_int_equal(told->private_data[0], 4);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	desk_receive(desk, &rej);		/* once more: nobody is there */
	assert_int_equal(desk->counts[COUNTER_CM_UNKNOWN_ID], 1);
	desk_close(desk);
}

static void a_rejected_rep_tells_the_peer(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_RCVD);
	const struct cm_rej *rej;

	assert_int_equal(cm_reject(connection, CM_REJECT_NO_RESOURCES, "ari", 3, "data", 4,
				   desk->now_ns), 0);
	rej = &desk_expect(desk, CM_MESSAGE_REJ)->rej;
	assert_int_equal(rej->message, CM_ABOUT_REP);
	assert_int_equal(rej->reason, CM_REJECT_NO_RESOURCES);
	assert_int_equal(rej->remote_comm_id, PEER_ID);
	assert_int_equal(rej->info_bytes, 3);
	assert_memory_equal(rej->info, "ari", 4);
	assert_memory_equal(rej->private_data, "data", 5);
	assert_int_equal(cm_reject(connection, 1, NULL, 0, NULL, 0, desk->now_ns), EINVAL);
	desk_close(desk);
}

static void too_much_information_is_refused(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_RCVD);
	uint8_t data[255] = { 0 };

	assert_int_equal(cm_reject(connection, 1, data, 73, NULL, 0, desk->now_ns), EINVAL);
	assert_int_equal(cm_reject(connection, 1, NULL, 0, data, 149, desk->now_ns), EINVAL);
	assert_int_equal(cm_delay(connection, 32, NULL, 0, desk->now_ns), EINVAL);
	assert_int_equal(connection->state, CM_STATE_REQ_RCVD);
	desk_close(desk);
}

static void what_cannot_arrive_ends_at_once(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_connect(desk);
	uint8_t mad[MAD_BYTES];
	struct mad_address other = desk_address(1, 3);

	cm_message_write(desk_expect(desk, CM_MESSAGE_REQ), mad);
	cm_undeliverable(desk->protocol, &other, mad, desk->now_ns);	/* not where it was sent */
	desk_expect_quiet(desk);
	cm_undeliverable(desk->protocol, &desk->peer, mad, desk->now_ns);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_UNREACHABLE)->connection, connection);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	cm_undeliverable(desk->protocol, &desk->peer, mad, desk->now_ns);
	desk_close(desk);
}

static void an_answered_req_that_could_not_arrive_means_nothing(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_connect(desk);
	struct cm_message rep = peer_message(CM_MESSAGE_REP, connection->local_id);
	uint8_t mad[MAD_BYTES];

	cm_message_write(desk_expect(desk, CM_MESSAGE_REQ), mad);
	desk_receive(desk, &rep);
	desk_expect_event(desk, CM_EVENT_REP);
	cm_undeliverable(desk->protocol, &desk->peer, mad, desk->now_ns);
	assert_int_equal(cm_ready_to_use(connection, NULL, 0, desk->now_ns), 0);
	desk_expect(desk, CM_MESSAGE_RTU);
	cm_undeliverable(desk->protocol, &desk->peer, mad, desk->now_ns);
	assert_int_equal(connection->state, CM_STATE_ESTABLISHED);
	desk_close(desk);
}

static void send_may_say_at_once_that_there_is_no_way(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection;

	desk->no_route = true;
	connection = desk_connect(desk);
	desk_expect(desk, CM_MESSAGE_REQ);
	desk_expect_quiet(desk);	/* not before cm_connect() has returned */
	desk_tick(desk);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_UNREACHABLE)->connection, connection);
	desk_close(desk);
}

static void a_goodbye_that_cannot_arrive_does_not_stop_timewait(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);

	desk->no_route = true;
	cm_peer_died(connection, desk->now_ns);
	desk_expect(desk, CM_MESSAGE_DREQ);
	desk_expect_event(desk, CM_EVENT_DREQ);
	desk_tick(desk);
	desk_expect_event(desk, CM_EVENT_TIMEWAIT_EXIT);
	desk_close(desk);
}

static void a_repetition_that_cannot_arrive_ends_what_it_repeats(void **unused)
{
	struct desk *desk = desk_open();

	desk_in_state(desk, CM_STATE_REP_SENT);
	desk->no_route = true;
	desk_tick(desk);
	desk_expect(desk, CM_MESSAGE_REP);
	desk_expect_event(desk, CM_EVENT_UNREACHABLE);
	desk_close(desk);
}

static void a_lost_rtu_of_a_dead_peer_ends_the_connection(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_RCVD);
	uint8_t mad[MAD_BYTES];

	assert_int_equal(cm_ready_to_use(connection, NULL, 0, desk->now_ns), 0);
	cm_message_write(desk_expect(desk, CM_MESSAGE_RTU), mad);
	cm_undeliverable(desk->protocol, &desk->peer, mad, desk->now_ns);
	assert_null(desk_expect_event(desk, CM_EVENT_DREQ)->message);
	assert_int_equal(connection->state, CM_STATE_TIMEWAIT);
	desk_close(desk);
}

static void letting_go_of_a_req_tells_the_peer_and_leaves_nothing(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_SENT);
	struct cm_message rep = peer_message(CM_MESSAGE_REP, connection->local_id);
	const struct cm_rej *rej;

	cm_abandon(connection, desk->now_ns);
	rej = &desk_expect(desk, CM_MESSAGE_REJ)->rej;
	assert_int_equal(rej->reason, CM_REJECT_TIMEOUT);
	assert_int_equal(desk->protocol->count, 0);
	desk_receive(desk, &rep);		/* crossed on the way */
	rej = &desk_expect(desk, CM_MESSAGE_REJ)->rej;
	assert_int_equal(rej->reason, CM_REJECT_INVALID_COMM_ID);
	assert_int_equal(rej->message, CM_ABOUT_REP);
	assert_int_equal(rej->remote_comm_id, PEER_ID);
	desk_close(desk);
}

/* ---- SIDR ---- */

static void a_service_id_is_resolved(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_SIDR_SENT);
	struct cm_message rep = peer_message(CM_MESSAGE_SIDR_REP, connection->local_id);
	const struct cm_event *event;

	desk_tick(desk);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_SIDR_REQ)->sidr_req.request_id,
			 connection->local_id);
	rep.sidr_rep.qpn = 5;
	rep.sidr_rep.qkey = 6;
	rep.sidr_rep.info_bytes = 200;
	desk_receive(desk, &rep);
	event = desk_expect_event(desk, CM_EVENT_SIDR_REP);
	assert_int_equal(event->message->sidr_rep.qpn, 5);
	assert_int_equal(event->message->sidr_rep.info_bytes, 72);
	desk_receive(desk, &rep);
	desk_expect_quiet(desk);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	cm_abandon(connection, desk->now_ns);
	assert_int_equal(desk->protocol->count, 0);
	desk_close(desk);
}

static void a_repeated_sidr_req_gets_the_same_answer_without_the_owner(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message request = peer_sidr_req();
	struct cm_connection *connection;

	desk_listen(desk);
	connection = desk_arrive(desk, &request);
	desk_receive(desk, &request);		/* not answered yet: patience */
	desk_expect_quiet(desk);
	assert_int_equal(cm_sidr_answer(connection, CM_SIDR_SUCCESS, 7, 8, "data", 4,
					desk->now_ns), 0);
	cm_abandon(connection, desk->now_ns);
	for (unsigned round = 0; round < 2; round++) {
		const struct cm_sidr_rep *rep = &desk_expect(desk, CM_MESSAGE_SIDR_REP)->sidr_rep;

		assert_int_equal(rep->request_id, PEER_ID);
		assert_int_equal(rep->qpn, 7);
		assert_int_equal(rep->qkey, 8);
		assert_int_equal(rep->service_id, SERVICE);
		assert_memory_equal(rep->private_data, "data", 5);
		if (!round)
			desk_receive(desk, &request);
	}
	desk_tick(desk);
	assert_int_equal(desk->protocol->count, 0);
	desk_close(desk);
}

static void an_unanswered_sidr_req_is_given_up(void **unused)
{
	struct desk *desk = desk_open();

	desk_in_state(desk, CM_STATE_SIDR_SENT);
	for (desk_tick(desk); !desk->event_count; desk_tick(desk))
		desk_expect(desk, CM_MESSAGE_SIDR_REQ);
	assert_int_equal(desk_expect_event(desk, CM_EVENT_TIMEOUT)->retried, CM_MESSAGE_SIDR_REQ);
	desk_close(desk);
}

static void a_sidr_req_that_is_let_go_is_refused(void **unused)
{
	struct desk *desk = desk_open();

	cm_abandon(desk_in_state(desk, CM_STATE_SIDR_RCVD), desk->now_ns);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_SIDR_REP)->sidr_rep.status, CM_SIDR_REJECTED);
	desk_close(desk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_req_says_what_its_caller_says),
		cmocka_unit_test(what_cannot_be_said_is_refused),
		cmocka_unit_test(a_rep_is_told_and_ready_to_use_sends_an_rtu),
		cmocka_unit_test(a_rep_that_comes_twice_before_the_owner_is_ready_asks_for_time),
		cmocka_unit_test(a_req_is_sent_again_less_and_less_often_and_given_up),
		cmocka_unit_test(an_mra_puts_giving_up_off_but_not_for_ever),
		cmocka_unit_test(an_mra_about_something_else_means_nothing),
		cmocka_unit_test(a_rejected_req_is_told_with_reason_and_information),
		cmocka_unit_test(a_rejected_rep_tells_the_peer),
		cmocka_unit_test(too_much_information_is_refused),
		cmocka_unit_test(what_cannot_arrive_ends_at_once),
		cmocka_unit_test(an_answered_req_that_could_not_arrive_means_nothing),
		cmocka_unit_test(send_may_say_at_once_that_there_is_no_way),
		cmocka_unit_test(a_goodbye_that_cannot_arrive_does_not_stop_timewait),
		cmocka_unit_test(a_repetition_that_cannot_arrive_ends_what_it_repeats),
		cmocka_unit_test(a_lost_rtu_of_a_dead_peer_ends_the_connection),
		cmocka_unit_test(letting_go_of_a_req_tells_the_peer_and_leaves_nothing),
		cmocka_unit_test(a_service_id_is_resolved),
		cmocka_unit_test(a_repeated_sidr_req_gets_the_same_answer_without_the_owner),
		cmocka_unit_test(an_unanswered_sidr_req_is_given_up),
		cmocka_unit_test(a_sidr_req_that_is_let_go_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
