/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The passive side by scripts: who is asked, what is answered, what a repeated or a stale request
 * does. The peer is played by hand (test_support.h).
 */
#include <sys/socket.h>

#include "cm/protocol/test_support.h"

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

/* Requests in the name of hosts that did not send them: at most three messages for each, and a few. */
static void forged_requests_are_not_answered_many_times(void **unused)
{
	struct desk *desk = desk_open();
	struct cm_message req = peer_req();
	uint64_t begin_ns = desk->now_ns;
	unsigned i, total = 0, forged = 300;

	desk_listen(desk);
	req.req.max_retries = 15;
	for (i = 0; i < forged; i++) {
		desk->peer = desk_address(1, (uint8_t)(2 + i % 200));
		req.req.local_comm_id = 1000 + i;
		req.req.local_qpn = 1000 + i;
		desk_accept(desk, desk_arrive(desk, &req));
		total += desk->sent_count;
		desk_flush(desk);
		desk->now_ns += 1000000;
	}
	assert_int_equal(total, forged);
	while (cm_deadline(desk->protocol) != TIME_NEVER) {
		desk_tick(desk);
		total += desk->sent_count;
		desk_flush(desk);
	}
	assert_in_range(total, 2 * forged, 3 * forged + 64 + (desk->now_ns - begin_ns) / 250000000);
	assert_true(desk->counts[COUNTER_CM_UNASKED] > forged);
	desk_close(desk);
}

static void tick_without_spare(struct desk *desk)
{
	desk->protocol->spare = 0;
	desk->protocol->spare_ns = cm_deadline(desk->protocol);
	desk_tick(desk);
}

/* Who repeats its request asks; who was heard is there. */
static void who_is_there_gets_all_repetitions(void **unused)
{
	for (unsigned heard = 0; heard < 2; heard++) {
		struct desk *desk = desk_open();
		struct cm_connection *connection = desk_in_state(desk, CM_STATE_REP_SENT);
		struct cm_message req = peer_req(), mra = peer_message(CM_MESSAGE_MRA, connection->local_id);

		mra.mra.message = CM_ABOUT_REP;
		connection->give_up_ns = TIME_NEVER - 1;
		tick_without_spare(desk);
		desk_expect(desk, CM_MESSAGE_REP);
		tick_without_spare(desk);
		desk_expect_quiet(desk);
		if (heard) {
			desk_receive(desk, &mra);
			desk_expect_quiet(desk);
		} else {
			desk_receive(desk, &req);
			desk_expect(desk, CM_MESSAGE_REP);
		}
		tick_without_spare(desk);
		desk_expect(desk, CM_MESSAGE_REP);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(forged_requests_are_not_answered_many_times),
		cmocka_unit_test(who_is_there_gets_all_repetitions),
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
