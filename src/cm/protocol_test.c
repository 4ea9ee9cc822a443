/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol by scripts: what is said and told in each turn a conversation can take. The peer is
 * played by hand (protocol_test_support.h).
 */
#include <sys/socket.h>

#include "cm/protocol_test_support.h"

/* ---- handlers of requests ---- */

static void forget(struct desk *desk, struct cm_connection *connection)
{
	cm_forget(connection);
}

static void ignore(struct desk *desk, struct cm_connection *connection)
{
}

static void reject(struct desk *desk, struct cm_connection *connection)
{
	assert_int_equal(cm_reject(connection, 28, NULL, 0, NULL, 0, desk->now_ns), 0);
}

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

/* ---- being asked ---- */

static void a_req_makes_a_connection_that_accept_answers(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req(), rtu;
	struct cm_connection *connection;
	const struct cm_message *rep;

	desk_listen(desk);
	connection = desk_arrive(desk, &req);
	assert_int_equal(cm_remote_qpn(connection), PEER_QPN);
	assert_int_equal(cm_address(connection)->hop_limit, 0);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	desk_accept(desk, connection);
	rep = desk_expect(desk, CM_MESSAGE_REP);
	assert_int_equal(rep->rep.local_comm_id, connection->local_id);
	assert_int_equal(rep->rep.remote_comm_id, PEER_ID);
	assert_int_equal(rep->rep.local_qpn, OUR_QPN);
	assert_int_equal(rep->rep.local_eecn, 0);
	assert_int_equal(rep->transaction_id, req.transaction_id);
	rtu = peer_message(CM_MESSAGE_RTU, connection->local_id);
	desk_receive(desk, &rtu);
	assert_non_null(desk_expect_event(desk, CM_EVENT_RTU)->message);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	desk_receive(desk, &rtu);
	assert_int_equal(desk->counts[COUNTER_CM_UNEXPECTED], 1);
	desk_close(desk);
}

static void an_xrc_target_stands_in_the_field_of_the_ee_context(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();
	const struct cm_rep *rep;

	desk_listen(desk);
	cm_req_set_transport(&req.req, CM_TRANSPORT_XRC);
	desk_accept(desk, desk_arrive(desk, &req));
	rep = &desk_expect(desk, CM_MESSAGE_REP)->rep;
	assert_int_equal(rep->local_eecn, OUR_QPN);
	assert_int_equal(rep->local_qpn, 0);
	assert_int_equal(rep->srq, 1);
	desk_close(desk);
}

static void a_repeated_req_gets_the_answer_of_the_hour(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req(), rtu, dreq;
	struct cm_connection *connection;

	desk_listen(desk);
	connection = desk_arrive(desk, &req);
	desk_receive(desk, &req);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_MRA)->mra.message, CM_ABOUT_REQ);
	desk_accept(desk, connection);
	desk_expect(desk, CM_MESSAGE_REP);
	desk_receive(desk, &req);
	assert_memory_equal(&desk_expect(desk, CM_MESSAGE_REP)->rep, &desk->sent[1].rep,
			    sizeof(struct cm_rep));
	rtu = peer_message(CM_MESSAGE_RTU, connection->local_id);
	desk_receive(desk, &rtu);
	desk_expect_event(desk, CM_EVENT_RTU);
	desk_receive(desk, &req);		/* replayed: nothing */
	desk_expect_quiet(desk);
	dreq = peer_message(CM_MESSAGE_DREQ, connection->local_id);
	desk_receive(desk, &dreq);
	desk_expect_event(desk, CM_EVENT_DREQ);
	desk_expect(desk, CM_MESSAGE_DREP);
	desk_receive(desk, &req);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.reason, CM_REJECT_STALE_CONNECTION);
	desk_close(desk);
}

static void a_refused_req_that_is_repeated_is_refused_again_without_the_owner(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();
	struct cm_connection *connection;
	const struct cm_rej *rej;

	desk_listen(desk);
	connection = desk_arrive(desk, &req);
	assert_int_equal(cm_reject(connection, 28, NULL, 0, "no", 2, desk->now_ns), 0);
	cm_abandon(connection, desk->now_ns);
	rej = &desk_expect(desk, CM_MESSAGE_REJ)->rej;
	assert_int_equal(rej->local_comm_id, 0);
	assert_int_equal(rej->message, CM_ABOUT_REQ);
	desk_receive(desk, &req);
	rej = &desk_expect(desk, CM_MESSAGE_REJ)->rej;
	assert_memory_equal(rej->private_data, "no", 3);
	desk_expect_quiet(desk);
	desk_tick(desk);			/* some time later it is forgotten */
	assert_int_equal(desk->protocol->count, 0);
	desk_receive(desk, &req);
	desk_expect_event(desk, CM_EVENT_REQ);
	desk_close(desk);
}

static void an_mra_gives_our_id_away_and_a_rej_may_name_it(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_RCVD);
	const struct cm_mra *mra;

	assert_int_equal(cm_delay(connection, 19, "wait", 4, desk->now_ns), 0);
	mra = &desk_expect(desk, CM_MESSAGE_MRA)->mra;
	assert_int_equal(mra->service_timeout, 19);
	assert_int_equal(mra->local_comm_id, connection->local_id);
	assert_memory_equal(mra->private_data, "wait", 5);
	assert_int_equal(cm_reject(connection, 28, NULL, 0, NULL, 0, desk->now_ns), 0);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.local_comm_id,
			 connection->local_id);
	desk_close(desk);
}

static void what_the_handler_does_not_take_was_never_there(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();

	desk_listen(desk);
	desk->arrived = ignore;
	desk_receive(desk, &req);
	desk_expect_event(desk, CM_EVENT_REQ);
	assert_int_equal(desk->protocol->count, 0);
	desk->arrived = forget;
	desk_receive(desk, &req);
	desk_expect_event(desk, CM_EVENT_REQ);
	assert_int_equal(desk->protocol->count, 0);
	desk_expect_quiet(desk);
	desk->arrived = reject;			/* without taking it */
	desk_receive(desk, &req);
	desk_expect_event(desk, CM_EVENT_REQ);
	desk_expect(desk, CM_MESSAGE_REJ);
	desk_tick(desk);
	assert_int_equal(desk->protocol->count, 0);
	desk_close(desk);
}

static void nobody_listens_is_said_at_once(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req(), sidr = peer_sidr_req();
	const struct cm_message *answer;

	desk_receive(desk, &req);
	answer = desk_expect(desk, CM_MESSAGE_REJ);
	assert_int_equal(answer->rej.reason, CM_REJECT_INVALID_SERVICE_ID);
	assert_int_equal(answer->rej.remote_comm_id, PEER_ID);
	assert_int_equal(answer->rej.local_comm_id, 0);
	assert_int_equal(answer->rej.message, CM_ABOUT_REQ);
	assert_int_equal(answer->transaction_id, req.transaction_id);
	desk_receive(desk, &sidr);
	answer = desk_expect(desk, CM_MESSAGE_SIDR_REP);
	assert_int_equal(answer->sidr_rep.status, CM_SIDR_UNSUPPORTED);
	assert_int_equal(answer->sidr_rep.request_id, PEER_ID);
	assert_int_equal(desk->counts[COUNTER_CM_NO_SERVICE], 2);
	assert_int_equal(desk->protocol->count, 0);
	desk_close(desk);
}

static void impossible_requests_are_refused_with_what_would_be_right(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();
	const struct cm_rej *rej;

	desk_listen(desk);
	req.req.path_mtu = 6;
	desk_receive(desk, &req);
	rej = &desk_expect(desk, CM_MESSAGE_REJ)->rej;
	assert_int_equal(rej->reason, CM_REJECT_INVALID_MTU);
	assert_int_equal(rej->info_bytes, 1);
	assert_int_equal(rej->info[0], 5);
	req.req.path_mtu = 3;
	req.req.transport_service = CM_TRANSPORT_RD;
	desk_receive(desk, &req);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.reason,
			 CM_REJECT_INVALID_TRANSPORT);
	desk_close(desk);
}

static void what_waits_for_a_listeners_owner_is_bounded(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_listener *listener = desk_listen(desk);
	struct cm_message req = peer_req(), third;
	struct cm_connection *first;

	cm_listener_limit(listener, 2);
	first = desk_arrive(desk, &req);
	req.req.local_comm_id++;
	req.req.local_qpn++;
	desk_arrive(desk, &req);
	third = req;
	third.req.local_comm_id++;
	third.req.local_qpn++;
	desk_receive(desk, &third);
	desk_expect_quiet(desk);
	assert_int_equal(desk->counts[COUNTER_CM_BACKLOG], 1);
	desk_accept(desk, first);		/* makes room */
	desk_expect(desk, CM_MESSAGE_REP);
	desk_arrive(desk, &third);
	cm_listener_free(listener, desk->now_ns);
	desk_accept(desk, desk->event[2].connection);	/* what was taken outlives the listener */
	desk_expect(desk, CM_MESSAGE_REP);
	desk_close(desk);
}

static void who_gave_up_its_req_is_found_by_its_own_id(void **unused)
{
	for (enum cm_state state = CM_STATE_REQ_RCVD; state <= CM_STATE_REP_SENT; state++) {
		struct desk *desk = desk_open();
		struct cm_connection *connection = desk_in_state(desk, state);
		struct cm_message rej = peer_message(CM_MESSAGE_REJ, 0);
		struct mad_address other = desk_address(1, 3);

		rej.rej.reason = CM_REJECT_TIMEOUT;
		desk_receive_from(desk, &other, &rej);
		desk_expect_quiet(desk);
		desk_receive(desk, &rej);
		assert_ptr_equal(desk_expect_event(desk, CM_EVENT_REJ)->connection, connection);
		desk_close(desk);
	}
}

static void a_rep_without_rtu_is_sent_again_and_given_up(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_SENT);
	uint64_t start_ns = desk->now_ns;

	for (desk_tick(desk); !desk->event_count; desk_tick(desk))
		desk_expect(desk, CM_MESSAGE_REP);
	assert_int_equal(desk->now_ns - start_ns, 3 * CM_TIME_NS(20));	/* as the REQ asked */
	assert_int_equal(desk_expect_event(desk, CM_EVENT_TIMEOUT)->retried, CM_MESSAGE_REP);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.reason, CM_REJECT_TIMEOUT);
	assert_int_equal(connection->state, CM_STATE_OVER);
	desk_close(desk);
}

static void a_peer_cannot_make_us_send_fast_or_wait_long(void **unused)
{
	for (unsigned timeout = 0; timeout <= 31; timeout += 31) {
		struct desk *desk = desk_open();
		struct cm_message req = peer_req();

		desk_listen(desk);
		req.req.local_response_timeout = (uint8_t)timeout;
		req.req.max_retries = 15;
		desk_accept(desk, desk_arrive(desk, &req));
		desk_flush(desk);
		for (unsigned sent = 0; !desk->event_count; sent++) {
			uint64_t before_ns = desk->now_ns;

			desk_tick(desk);
			if (!desk->event_count)
				assert_true(desk->now_ns - before_ns >= CM_TIME_NS(14));
			assert_true(sent < 24);
		}
		assert_true(desk->now_ns < SECOND + 17 * CM_TIME_NS(22));
		desk_flush(desk);
		desk_close(desk);
	}
}

static void the_first_packet_establishes_as_an_rtu_does(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_SENT);

	assert_int_equal(cm_establish(connection, desk->now_ns), 0);
	assert_null(desk_expect_event(desk, CM_EVENT_RTU)->message);
	assert_int_equal(cm_establish(connection, desk->now_ns), EISCONN);
	assert_int_equal(cm_deadline(desk->protocol), TIME_NEVER);
	desk_close(desk);
}

static void what_was_accepted_can_be_taken_back(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_SENT);
	struct cm_message rtu = peer_message(CM_MESSAGE_RTU, connection->local_id);
	struct cm_message dreq = peer_message(CM_MESSAGE_DREQ, connection->local_id);
	struct cm_message req = peer_req();
	const struct cm_rej *rej;

	cm_abandon(connection, desk->now_ns);
	rej = &desk_expect(desk, CM_MESSAGE_REJ)->rej;
	assert_int_equal(rej->message, CM_ABOUT_OTHER);
	assert_int_equal(rej->local_comm_id, connection->local_id);
	desk_receive(desk, &req);		/* the REJ was lost: whatever the peer believes */
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.message, CM_ABOUT_OTHER);
	desk_receive(desk, &rtu);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.message, CM_ABOUT_OTHER);
	desk_receive(desk, &dreq);
	desk_expect(desk, CM_MESSAGE_DREP);
	assert_null(cm_find_qpn(desk->protocol, OUR_QPN));
	desk_tick(desk);
	assert_int_equal(desk->protocol->count, 0);
	desk_close(desk);
}

static void a_req_that_was_taken_back_is_not_told_again(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_RCVD);
	struct cm_message rej = peer_message(CM_MESSAGE_REJ, 0), req = peer_req();

	desk_receive(desk, &rej);
	desk_expect_event(desk, CM_EVENT_REJ);
	assert_int_equal(cm_accept(connection, &(struct cm_accept){ .local_qpn = 1 }, desk->now_ns),
			 EINVAL);
	cm_abandon(connection, desk->now_ns);
	desk_receive(desk, &req);		/* a copy that came late */
	desk_expect_quiet(desk);
	desk_close(desk);
}

static void refused_requests_are_remembered_within_bounds(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();

	desk_listen(desk);
	desk->arrived = reject;
	for (unsigned i = 0; i < CM_ANSWERED_MAX + 10; i++) {
		req.req.local_comm_id++;
		desk_receive(desk, &req);
		desk_flush(desk);
	}
	assert_int_equal(desk->protocol->count, CM_ANSWERED_MAX);
	while (cm_deadline(desk->protocol) != TIME_NEVER)
		desk_tick(desk);
	assert_int_equal(desk->protocol->count, 0);
	assert_int_equal(desk->protocol->answered, 0);
	desk_close(desk);
}

static void a_dreq_before_its_rep_waits_for_it(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REQ_SENT);
	struct cm_message dreq = peer_message(CM_MESSAGE_DREQ, connection->local_id);
	struct cm_message rep = peer_message(CM_MESSAGE_REP, connection->local_id);

	desk_receive(desk, &dreq);
	desk_expect_quiet(desk);
	desk_receive(desk, &rep);
	desk_expect_event(desk, CM_EVENT_REP);
	desk_receive(desk, &dreq);
	desk_expect_quiet(desk);
	assert_int_equal(cm_ready_to_use(connection, NULL, 0, desk->now_ns), 0);
	desk_expect(desk, CM_MESSAGE_RTU);
	desk_receive(desk, &dreq);
	desk_expect(desk, CM_MESSAGE_DREP);
	desk_expect_event(desk, CM_EVENT_DREQ);
	desk_close(desk);
}

/* ---- for whom a request is ---- */

static void put_ip_header(struct cm_message *req, const char *version, uint8_t last)
{
	static const uint8_t mapped[16] = { [12] = 10 };

	memcpy(req->req.private_data, version, 2);
	memcpy(req->req.private_data + 20, mapped, 16);
	req->req.private_data[35] = last;
}

static void exact_addresses_win_over_any(void **unused)
{
	static const uint8_t any[16];
	struct desk *desk = desk_open();
	struct mad_address here = desk_address(1, 2), elsewhere = desk_address(9, 2);
	struct cm_listener *wide, *exact, *again;
	struct cm_message req = peer_req();
	char owners[2];

	assert_int_equal(cm_listen(desk->protocol, SERVICE, any, AF_UNSPEC, &owners[0], &wide), 0);
	assert_int_equal(cm_listen(desk->protocol, SERVICE, here.local, AF_INET, &owners[1], &exact),
			 0);
	assert_int_equal(cm_listen(desk->protocol, SERVICE, any, AF_INET6, desk, &again), EADDRINUSE);
	assert_int_equal(cm_listen(desk->protocol, SERVICE, here.local, AF_INET, desk, &again),
			 EADDRINUSE);
	put_ip_header(&req, "\0\x40", 1);
	desk_receive_from(desk, &elsewhere, &req);	/* the header says which */
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_REQ)->owner, &owners[1]);
	put_ip_header(&req, "\0\x40", 9);
	req.req.local_comm_id++;
	req.req.local_qpn++;
	desk_receive_from(desk, &elsewhere, &req);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_REQ)->owner, &owners[0]);
	put_ip_header(&req, "\7\x40", 9);		/* no header: where the packet came to */
	req.req.local_comm_id++;
	req.req.local_qpn++;
	desk_receive_from(desk, &here, &req);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_REQ)->owner, &owners[1]);
	cm_listener_free(exact, desk->now_ns);
	req.req.local_comm_id++;
	req.req.local_qpn++;
	desk_receive_from(desk, &here, &req);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_REQ)->owner, &owners[0]);
	desk_close(desk);
}

static void without_a_header_the_gid_says_for_whom_it_is(void **unused)
{
	struct desk *desk = desk_open();
	uint8_t gid[16] = { 0xfe, 0x80, [15] = 5 };
	struct cm_listener *listener;
	struct cm_message req = peer_req();

	assert_int_equal(cm_listen(desk->protocol, SERVICE, gid, AF_UNSPEC, desk, &listener), 0);
	desk_receive(desk, &req);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.reason,
			 CM_REJECT_INVALID_SERVICE_ID);
	memcpy(req.req.remote_gid, gid, 16);
	desk_receive(desk, &req);
	desk_expect_event(desk, CM_EVENT_REQ);
	desk_close(desk);
}

static void families_of_wildcards_are_told_apart(void **unused)
{
	static const uint8_t any[16];
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();
	struct cm_listener *v4, *v6;
	char owners[2];

	assert_int_equal(cm_listen(desk->protocol, SERVICE, any, AF_INET, &owners[0], &v4), 0);
	assert_int_equal(cm_listen(desk->protocol, SERVICE, any, AF_INET6, &owners[1], &v6), 0);
	put_ip_header(&req, "\0\x60", 1);
	desk_receive(desk, &req);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_REQ)->owner, &owners[1]);
	put_ip_header(&req, "\0\x40", 1);
	req.req.local_comm_id++;
	req.req.local_qpn++;
	desk_receive(desk, &req);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_REQ)->owner, &owners[0]);
	desk_close(desk);
}

/* ---- stale connections ---- */

static void a_req_with_the_qp_of_a_connection_ends_that_one(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_message req = peer_req();

	desk_listen(desk);
	req.req.local_comm_id = PEER_ID + 1;
	req.transaction_id++;
	desk_receive(desk, &req);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.reason, CM_REJECT_STALE_CONNECTION);
	desk_expect(desk, CM_MESSAGE_DREQ);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_DREQ)->connection, connection);
	assert_int_equal(desk->counts[COUNTER_CM_STALE], 1);
	desk_receive(desk, &req);		/* in timewait the QP is free to connect anew */
	desk_expect_event(desk, CM_EVENT_REQ);
	desk_close(desk);
}

static void an_id_in_use_again_is_no_repeated_req(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_SENT);
	struct cm_message req = peer_req();

	req.req.starting_psn++;
	req.req.local_qpn++;
	desk_receive(desk, &req);
	desk_expect(desk, CM_MESSAGE_REJ);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_UNREACHABLE)->connection, connection);
	desk_receive(desk, &req);
	desk_expect_event(desk, CM_EVENT_REQ);
	desk_close(desk);
}

static void another_hosts_qp_of_the_same_number_is_another_qp(void **unused)
{
	struct desk *desk = desk_open();
	struct mad_address other = desk_address(1, 3);
	struct cm_message req = peer_req();

	desk_in_state(desk, CM_STATE_ESTABLISHED);
	desk_listen(desk);
	desk_receive_from(desk, &other, &req);
	desk_expect_event(desk, CM_EVENT_REQ);
	desk_close(desk);
}

static void a_rep_with_the_qp_of_a_connection_is_stale_too(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_connection *old = desk_in_state(desk, CM_STATE_ESTABLISHED);
	struct cm_connection *connection = desk_connect(desk);
	struct cm_message rep = peer_message(CM_MESSAGE_REP, connection->local_id);

	desk_flush(desk);
	rep.rep.local_comm_id++;
	desk_receive(desk, &rep);
	assert_int_equal(desk_expect(desk, CM_MESSAGE_REJ)->rej.reason, CM_REJECT_STALE_CONNECTION);
	desk_expect(desk, CM_MESSAGE_DREQ);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_DREQ)->connection, old);
	assert_int_equal(connection->state, CM_STATE_REQ_SENT);
	desk_receive(desk, &rep);
	assert_ptr_equal(desk_expect_event(desk, CM_EVENT_REP)->connection, connection);
	desk_close(desk);
}

static void peers_without_a_qp_are_never_stale(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();

	desk_listen(desk);
	req.req.local_qpn = 0;
	desk_arrive(desk, &req);
	req.req.local_comm_id++;
	desk_arrive(desk, &req);
	desk_close(desk);
}

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
		{ CM_STATE_REP_SENT, CM_EVENT_UNREACHABLE },
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
		cmocka_unit_test(a_req_makes_a_connection_that_accept_answers),
		cmocka_unit_test(an_xrc_target_stands_in_the_field_of_the_ee_context),
		cmocka_unit_test(a_repeated_req_gets_the_answer_of_the_hour),
		cmocka_unit_test(a_refused_req_that_is_repeated_is_refused_again_without_the_owner),
		cmocka_unit_test(an_mra_gives_our_id_away_and_a_rej_may_name_it),
		cmocka_unit_test(what_the_handler_does_not_take_was_never_there),
		cmocka_unit_test(nobody_listens_is_said_at_once),
		cmocka_unit_test(impossible_requests_are_refused_with_what_would_be_right),
		cmocka_unit_test(what_waits_for_a_listeners_owner_is_bounded),
		cmocka_unit_test(who_gave_up_its_req_is_found_by_its_own_id),
		cmocka_unit_test(a_rep_without_rtu_is_sent_again_and_given_up),
		cmocka_unit_test(a_peer_cannot_make_us_send_fast_or_wait_long),
		cmocka_unit_test(the_first_packet_establishes_as_an_rtu_does),
		cmocka_unit_test(what_was_accepted_can_be_taken_back),
		cmocka_unit_test(a_req_that_was_taken_back_is_not_told_again),
		cmocka_unit_test(refused_requests_are_remembered_within_bounds),
		cmocka_unit_test(a_dreq_before_its_rep_waits_for_it),
		cmocka_unit_test(exact_addresses_win_over_any),
		cmocka_unit_test(without_a_header_the_gid_says_for_whom_it_is),
		cmocka_unit_test(families_of_wildcards_are_told_apart),
		cmocka_unit_test(a_req_with_the_qp_of_a_connection_ends_that_one),
		cmocka_unit_test(an_id_in_use_again_is_no_repeated_req),
		cmocka_unit_test(another_hosts_qp_of_the_same_number_is_another_qp),
		cmocka_unit_test(a_rep_with_the_qp_of_a_connection_is_stale_too),
		cmocka_unit_test(peers_without_a_qp_are_never_stale),
		cmocka_unit_test(a_disconnect_is_answered_and_waited_out),
		cmocka_unit_test(a_dreq_is_answered_as_often_as_it_comes),
		cmocka_unit_test(both_may_disconnect_at_the_same_time),
		cmocka_unit_test(a_dreq_that_is_never_answered_is_given_up),
		cmocka_unit_test(a_dreq_for_another_qp_is_dropped),
		cmocka_unit_test(a_connection_can_end_before_its_rtu_comes),
		cmocka_unit_test(a_dead_peer_is_told_as_what_the_connection_was),
		cmocka_unit_test(a_rej_of_what_was_answered_long_ago_means_nothing),
		cmocka_unit_test(an_alternate_path_is_refused),
		cmocka_unit_test(a_service_id_is_resolved),
		cmocka_unit_test(a_repeated_sidr_req_gets_the_same_answer_without_the_owner),
		cmocka_unit_test(an_unanswered_sidr_req_is_given_up),
		cmocka_unit_test(a_sidr_req_that_is_let_go_is_refused),
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
