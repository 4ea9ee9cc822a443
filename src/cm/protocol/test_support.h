/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: a desk, which is one protocol and all that comes out of it, read in order. The peer is
 * the test: it writes messages by hand.
 */
#ifndef VERBATIM_CM_PROTOCOL_TEST_SUPPORT_H
#define VERBATIM_CM_PROTOCOL_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/test_random.h"
#include "cm/protocol/internal.h"

#define DESK_MAX	64u
#define DESK_ID_BASE	0x12c00000u
#define DESK_ID_BITS	22u
#define SERVICE		UINT64_C(0x0000000001061c06)
#define PEER_ID		0x77u
#define PEER_QPN	0x4321u
#define OUR_QPN		0x1234u
#define SECOND		UINT64_C(1000000000)

struct desk {
	struct cm_protocol *protocol;
	uint64_t now_ns, random;
	struct cm_message sent[DESK_MAX];
	struct mad_address to[DESK_MAX];
	unsigned sent_count, sent_read;
	struct cm_event event[DESK_MAX];
	struct cm_message event_message[DESK_MAX];
	unsigned event_count, event_read;
	unsigned counts[COUNTER_COUNT];
	struct mad_address peer;
	/* What the handler of REQ and SIDR_REQ does; NULL: takes it. */
	void (*arrived)(struct desk *desk, struct cm_connection *connection);
	/* What the handler of any event does besides. */
	void (*told)(struct desk *desk, const struct cm_event *event);
	/* send() says that it cannot arrive. */
	bool no_route;
};

static inline void desk_sent(void *host, const struct mad_address *to,
			     const struct cm_message *message)
{
	struct desk *desk = host;
	uint8_t mad[MAD_BYTES];

	assert_true(desk->sent_count < DESK_MAX);
	desk->to[desk->sent_count] = *to;
	desk->sent[desk->sent_count++] = *message;
	cm_message_write(message, mad);
	if (desk->no_route)
		cm_undeliverable(desk->protocol, to, mad, desk->now_ns);
}

static inline void desk_told(void *host, const struct cm_event *event)
{
	struct desk *desk = host;
	unsigned at = desk->event_count++;

	assert_true(at < DESK_MAX);
	desk->event[at] = *event;
	if (event->message) {
		desk->event_message[at] = *event->message;
		desk->event[at].message = &desk->event_message[at];
	}
	if (event->kind == CM_EVENT_REQ || event->kind == CM_EVENT_SIDR_REQ) {
		if (desk->arrived)
			desk->arrived(desk, event->connection);
		else
			cm_set_owner(event->connection, desk);
	}
	if (desk->told)
		desk->told(desk, event);
}

static inline uint32_t desk_random(void *host)
{
	return (uint32_t)test_random(&((struct desk *)host)->random);
}

static inline void desk_counted(void *host, int counter)
{
	((struct desk *)host)->counts[counter]++;
}

static const struct cm_ops desk_ops = {
	.send = desk_sent, .event = desk_told, .random = desk_random, .count = desk_counted,
};

static inline struct mad_address desk_address(uint8_t local, uint8_t remote)
{
	struct mad_address address = { .hop_limit = 7 };

	address.local[10] = address.local[11] = address.remote[10] = address.remote[11] = 0xff;
	address.local[12] = address.remote[12] = 10;
	address.local[15] = local;
	address.remote[15] = remote;
	return address;
}

static inline struct desk *desk_open(void)
{
	struct desk *desk = calloc(1, sizeof(*desk));

	assert_non_null(desk);
	desk->random = 7;
	desk->now_ns = SECOND;
	desk->peer = desk_address(1, 2);
	desk->protocol = cm_protocol_new(&desk_ops, desk, DESK_ID_BASE, DESK_ID_BITS);
	assert_non_null(desk->protocol);
	return desk;
}

/* All that came out must have been looked at. */
static inline void desk_close(struct desk *desk)
{
	assert_int_equal(desk->sent_read, desk->sent_count);
	assert_int_equal(desk->event_read, desk->event_count);
	cm_protocol_free(desk->protocol);
	free(desk);
}

static inline void desk_receive_from(struct desk *desk, const struct mad_address *from,
				     const struct cm_message *message)
{
	uint8_t mad[MAD_BYTES];

	cm_message_write(message, mad);
	cm_receive(desk->protocol, from, mad, desk->now_ns);
}

static inline void desk_receive(struct desk *desk, const struct cm_message *message)
{
	desk_receive_from(desk, &desk->peer, message);
}

/* The next message that went out; it must be of @kind. */
static inline const struct cm_message *desk_expect(struct desk *desk, enum cm_message_kind kind)
{
	if (desk->sent_read == desk->sent_count)
		fail_msg("nothing was sent, a %s was expected", cm_message_name(kind));
	assert_string_equal(cm_message_name(desk->sent[desk->sent_read].kind),
			    cm_message_name(kind));
	return &desk->sent[desk->sent_read++];
}

static inline const struct cm_event *desk_expect_event(struct desk *desk, enum cm_event_kind kind)
{
	assert_int_not_equal(desk->event_read, desk->event_count);
	assert_int_equal(desk->event[desk->event_read].kind, kind);
	return &desk->event[desk->event_read++];
}

/* Nothing went out and nobody was told. */
static inline void desk_expect_quiet(const struct desk *desk)
{
	assert_int_equal(desk->sent_read, desk->sent_count);
	assert_int_equal(desk->event_read, desk->event_count);
}

static inline void desk_flush(struct desk *desk)
{
	desk->sent_read = desk->sent_count = 0;
	desk->event_read = desk->event_count = 0;
}

/* To the next deadline, which there is. */
static inline void desk_tick(struct desk *desk)
{
	assert_true(cm_deadline(desk->protocol) != TIME_NEVER);
	desk->now_ns = cm_deadline(desk->protocol);
	cm_tick(desk->protocol, desk->now_ns);
}

/* ---- what the peer writes ---- */

static inline struct cm_message peer_message(enum cm_message_kind kind, uint32_t our_id)
{
	struct cm_message message = { .kind = kind, .transaction_id = 0x1111 };

	if (kind == CM_MESSAGE_SIDR_REP) {
		message.sidr_rep.request_id = our_id;
	} else {
		message.rtu.local_comm_id = PEER_ID;
		if (kind != CM_MESSAGE_SIDR_REQ)
			message.rtu.remote_comm_id = our_id;
	}
	if (kind == CM_MESSAGE_DREQ)
		message.dreq.remote_qpn = OUR_QPN;
	if (kind == CM_MESSAGE_REP)
		message.rep.local_qpn = PEER_QPN;
	if (kind == CM_MESSAGE_REJ)
		message.rej.message = CM_ABOUT_OTHER;
	return message;
}

static inline struct cm_message peer_req(void)
{
	struct cm_message message = { .kind = CM_MESSAGE_REQ, .transaction_id = 0x1111 };

	message.req.local_comm_id = PEER_ID;
	message.req.service_id = SERVICE;
	message.req.local_qpn = PEER_QPN;
	message.req.starting_psn = 0x55;
	message.req.path_mtu = 3;
	message.req.local_response_timeout = message.req.remote_response_timeout = 20;
	message.req.max_retries = 2;
	message.req.local_ack_timeout = 18;
	return message;
}

static inline struct cm_message peer_sidr_req(void)
{
	struct cm_message message = { .kind = CM_MESSAGE_SIDR_REQ, .transaction_id = 0x1111 };

	message.sidr_req.request_id = PEER_ID;
	message.sidr_req.service_id = SERVICE;
	return message;
}

/* ---- connections in a state, with nothing left to read ---- */

static inline struct cm_connect desk_connect_arguments(const struct desk *desk)
{
	return (struct cm_connect){
		.service_id = SERVICE, .address = desk->peer, .local_qpn = OUR_QPN,
		.starting_psn = 0xabc, .transport = CM_TRANSPORT_RC, .path_mtu = 3,
		.response_timeout = 20, .max_retries = 2, .local_ack_timeout = 18,
		.hop_limit = 64,
	};
}

static inline struct cm_connection *desk_connect(struct desk *desk)
{
	struct cm_connect connect = desk_connect_arguments(desk);
	struct cm_connection *connection;

	assert_int_equal(cm_connect(desk->protocol, &connect, desk, desk->now_ns, &connection), 0);
	return connection;
}

static inline struct cm_listener *desk_listen(struct desk *desk)
{
	static const uint8_t any[16];
	struct cm_listener *listener;

	assert_int_equal(cm_listen(desk->protocol, SERVICE, any, 0, desk, &listener), 0);
	return listener;
}

static inline struct cm_connection *desk_arrive(struct desk *desk, const struct cm_message *request)
{
	desk_receive(desk, request);
	assert_int_equal(desk->event_count, desk->event_read + 1);
	return desk->event[desk->event_read++].connection;
}

static inline void desk_accept(struct desk *desk, struct cm_connection *connection)
{
	const struct cm_accept accept = { .local_qpn = OUR_QPN, .starting_psn = 0xabc,
					  .local_ca_guid = 5 };

	assert_int_equal(cm_accept(connection, &accept, desk->now_ns), 0);
}

/* The listener that passive states need stays behind. */
static inline struct cm_connection *desk_in_state(struct desk *desk, enum cm_state state)
{
	const struct cm_sidr sidr = { .service_id = SERVICE, .address = desk->peer,
				      .response_timeout = 20, .max_retries = 2 };
	struct cm_message message = peer_req();
	struct cm_connection *connection;

	switch (state) {
	case CM_STATE_REQ_SENT:
	case CM_STATE_REP_RCVD:
	case CM_STATE_ESTABLISHED:
	case CM_STATE_DREQ_SENT:
	case CM_STATE_TIMEWAIT:
	case CM_STATE_OVER:
		connection = desk_connect(desk);
		message = peer_message(CM_MESSAGE_REP, connection->local_id);
		if (state == CM_STATE_REQ_SENT)
			break;
		desk_receive(desk, &message);
		if (state == CM_STATE_REP_RCVD)
			break;
		if (state == CM_STATE_OVER) {
			cm_peer_died(connection, desk->now_ns);
			break;
		}
		assert_int_equal(cm_ready_to_use(connection, NULL, 0, desk->now_ns), 0);
		if (state == CM_STATE_ESTABLISHED)
			break;
		assert_int_equal(cm_disconnect(connection, NULL, 0, desk->now_ns), 0);
		message = peer_message(CM_MESSAGE_DREP, connection->local_id);
		if (state == CM_STATE_TIMEWAIT)
			desk_receive(desk, &message);
		break;
	case CM_STATE_SIDR_SENT:
		assert_int_equal(cm_sidr(desk->protocol, &sidr, desk, desk->now_ns, &connection), 0);
		break;
	case CM_STATE_SIDR_RCVD:
		desk_listen(desk);
		message = peer_sidr_req();
		connection = desk_arrive(desk, &message);
		break;
	default:
		desk_listen(desk);
		connection = desk_arrive(desk, &message);
		if (state == CM_STATE_REP_SENT)
			desk_accept(desk, connection);
		if (state == CM_STATE_ANSWERED)
			assert_int_equal(cm_reject(connection, 28, NULL, 0, NULL, 0, desk->now_ns), 0);
	}
	assert_int_equal(connection->state, state);
	desk_flush(desk);
	return connection;
}

#endif
