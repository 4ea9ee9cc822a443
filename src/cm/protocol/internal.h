/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internal interface of the connection management protocol.
 *
 *	protocol.c	one protocol: messages in, delivered to their connections
 *	state.c		state.def as a table; one step of one connection
 *	action.c	the actions of that table
 *	connection.c	connections and how they are found; the calls of protocol.h
 *	request.c	REQ and SIDR_REQ: repeated, stale, for nobody, new
 *	listen.c	listeners, and limits on the requests that wait for them
 *	retry.c		time: retries, giving up, the end of timewait
 *	send.c		messages as a connection writes them
 *
 * The event is the last thing in a step: after cm_step() the connection may be gone.
 */
#ifndef VERBATIM_CM_PROTOCOL_INTERNAL_H
#define VERBATIM_CM_PROTOCOL_INTERNAL_H

#include <errno.h>

#include "base/counters.h"
#include "base/timer_heap.h"
#include "base/list.h"
#include "cm/protocol/id_table.h"
#include "cm/protocol/protocol.h"

/* 4.096 us * 2^n, the unit of all times in messages. */
#define CM_TIME_NS(n)		(UINT64_C(4096) << (n))
#define CM_REFUSED_RETRY	11	/* 8 ms: after which a service that is not there is asked for again */
#define CM_HURRIED_RETRY	12	/* 17 ms: the first repetition when the process is to end */
#define CM_FIRST_RETRY		16	/* 268 ms: after which a message is sent again, at first */
#define CM_LAST_WORDS		18	/* 1.1 s: of a peer that died: other processes may have to forward them */
#define CM_RESPONSE_MIN		14	/* 67 ms .. 17 s: what peers can make us wait for an RTU */
#define CM_RESPONSE_MAX		22
#define CM_TIMEWAIT_MIN		16	/* 268 ms .. 4.3 s */
#define CM_TIMEWAIT_MAX		20
#define CM_SERVICE_TIMEOUT	24	/* 69 s, as Linux: of an MRA that we send by ourselves */
#define CM_SERVICE_MAX		24	/* of an MRA that we believe */
#define CM_PROLONG_MAX		28	/* 18 minutes: what MRAs can make of one exchange */
#define CM_PENDING_MAX		4096u	/* requests that wait for a listener's owner */
#define CM_ANSWERED_MAX		4096u	/* refused requests that are remembered, of a process */

enum cm_state {
#define CM_STATE(id, name) CM_STATE_##id,
#define CM_MOVE(id, action, next, event)
#define CM_CELLS(...)
#include "cm/protocol/state.def"
#undef CM_STATE
#undef CM_CELLS
	CM_STATES,
	CM_STATE_SAME,		/* of moves only */
};

enum cm_input {
#define CM_STATE(id, name)
#define CM_CELLS(input, ...) CM_INPUT_##input,
#include "cm/protocol/state.def"
#undef CM_MOVE
#undef CM_CELLS
	CM_INPUTS
};

enum cm_move {
#define CM_MOVE(id, action, next, event) CM_MOVE_##id,
#define CM_CELLS(...)
#include "cm/protocol/state.def"
#undef CM_STATE
#undef CM_MOVE
#undef CM_CELLS
	CM_MOVES
};

#define CM_EVENT_NONE ((enum cm_event_kind)-1)

/* What comes with an input: a message, or the arguments of a call. */
struct cm_details {
	uint64_t now_ns;
	const struct cm_message *message;
	const struct mad_address *from;
	const struct cm_accept *accept;
	const void *private_data, *info;
	uint8_t bytes, info_bytes;
	uint16_t reason;		/* REJECT */
	uint8_t service_timeout;	/* DELAY */
	uint8_t status;			/* ANSWER */
	uint32_t qpn, qkey;
	enum cm_message_kind lost;	/* LOST: which message */
	enum cm_message_kind retried;	/* made by EXPIRED */
	enum drop drop;			/* of the message: made by cm_drop() */
};

/*
 * One end of a connection, or of a SIDR exchange.
 * Large: it can be found by four keys, repeats messages from what it knows, and counts the time of
 * its retries.
 */
struct cm_connection {
	struct cm_protocol *protocol;
	void *owner;
	struct cm_listener *listener;		/* while it waits for an answer */
	struct list node;			/* protocol->connections */
	struct id_node by_id, by_remote, by_remote_qpn, by_qpn;
	struct timer timer;
	uint64_t give_up_ns, limit_ns;		/* of what is retried */
	uint64_t interval_ns;			/* until it is sent the next time */
	uint64_t patient_ns;			/* until then nobody needs to listen there */
	struct cm_message *kept;		/* to be sent again; NULL: made anew */
	struct mad_address address;
	uint64_t transaction_id, service_id;
	uint64_t local_ca_guid;			/* host order */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn, remote_psn;
	uint8_t state;				/* enum cm_state */
	uint8_t transport;			/* enum cm_transport */
	uint8_t response_timeout, max_retries, timewait, linger;
	bool active;		/* we sent the REQ or SIDR_REQ */
	bool datagram;		/* SIDR */
	bool peer_known;	/* remote_id is */
	bool taken;		/* has or had an owner of its own */
	bool abandoned;
	bool waits;		/* we sent an MRA */
	bool kept_now;		/* by the action of this step */
	bool heard;		/* a message of the peer had our ID */
	bool dying;		/* the peer died before its RTU came */
	bool hurried;		/* by cm_leave() */
	uint8_t unasked;	/* repetitions since its last REQ, while it was not heard */
	uint8_t lost;		/* undeliverable message while sending: 1 + enum cm_message_kind; or 0 */
};

/* A request whose event is being handled; the connection may go meanwhile. */
struct cm_arrival {
	struct cm_connection *connection;
	struct cm_arrival *outer;
};

struct cm_protocol {
	const struct cm_ops *ops;
	void *host;
	struct list connections;
	size_t count;
	struct list listeners;
	struct id_table by_id, by_remote, by_remote_qpn, by_qpn, by_service;
	struct timer_heap timers;
	struct cm_arrival *arrival;
	uint64_t seed;
	uint32_t id_base, id_mask, next_id, transaction_high;
	unsigned id_bits;
	unsigned sending;
	unsigned answered;		/* connections in that state */
	unsigned spare;			/* further repetitions to peers that were not heard: retry.c */
	uint64_t spare_ns;		/* when spare was last refilled */
};

struct cm_listener {
	struct cm_protocol *protocol;
	struct id_node by_service;
	struct list node;		/* protocol->listeners */
	void *owner;
	uint64_t service_id;
	uint8_t address[16];
	int family;
	unsigned pending, limit;
};

/* ---- state.c ---- */

/* One step. 0, or what the action refused with. */
int cm_step(struct cm_connection *connection, enum cm_input input, struct cm_details *details);
void cm_enter(struct cm_connection *connection, enum cm_state state, uint64_t now_ns);
void cm_report(struct cm_connection *connection, void *owner, enum cm_event_kind kind,
	       struct cm_details *details);
enum cm_move cm_cell(enum cm_state state, enum cm_input input);
enum cm_state cm_move_next(enum cm_move move);
enum cm_event_kind cm_move_event(enum cm_move move);
const char *cm_input_name(enum cm_input input);

/* ---- action.c ---- */

typedef int cm_action(struct cm_connection *connection, struct cm_details *details);
cm_action cm_do_drop, cm_do_refuse, cm_do_refuse_again, cm_do_nothing, cm_do_ask_for_time,
	cm_do_repeat, cm_do_answer_dreq, cm_do_reject_stale, cm_do_prolong, cm_do_refuse_path,
	cm_do_take_reject, cm_do_take_sidr_rep, cm_do_take_rep, cm_do_send_rep, cm_do_send_rtu, cm_do_send_mra,
	cm_do_send_reject, cm_do_send_timeout, cm_do_send_dreq, cm_do_send_sidr_rep,
	cm_do_send_final_dreq, cm_do_listen_on, cm_do_check_lost;

/* ---- connection.c ---- */

/* NULL: no memory, or no communication ID left. In state OVER, known to nobody. */
struct cm_connection *cm_connection_new(struct cm_protocol *protocol,
					const struct mad_address *address);
void cm_connection_free(struct cm_connection *connection);
/* Out of the tables by which messages find it. */
void cm_hide(struct cm_connection *connection);
void cm_hide_remote_qpn(struct cm_connection *connection);
void cm_hide_qpn(struct cm_connection *connection);
void cm_index_remote(struct cm_connection *connection);
void cm_index_remote_qpn(struct cm_connection *connection);
void cm_index_qpn(struct cm_connection *connection);
/* The order in which IDs are given out, below id_base. */
uint32_t cm_permute(const struct cm_protocol *protocol, uint32_t number);
struct cm_connection *cm_find_id(struct cm_protocol *protocol, uint32_t local_id);
struct cm_connection *cm_find_remote(struct cm_protocol *protocol, const struct mad_address *from,
				     uint32_t remote_id, bool datagram);
struct cm_connection *cm_find_remote_qpn(struct cm_protocol *protocol,
					 const struct mad_address *from, uint32_t qpn,
					 const struct cm_connection *but);

/* ---- request.c ---- */

void cm_take_request(struct cm_protocol *protocol, struct cm_details *details);
void cm_take_sidr_request(struct cm_protocol *protocol, struct cm_details *details);

/* ---- listen.c ---- */

struct cm_listener *cm_find_listener(struct cm_protocol *protocol,
				     const struct cm_message *message,
				     const struct mad_address *from);
bool cm_listener_has_room(const struct cm_listener *listener);
void cm_listener_adds(struct cm_listener *listener, struct cm_connection *connection);
void cm_listener_drops(struct cm_connection *connection);

/* ---- retry.c ---- */

/* The timer that goes with the connection's state. */
void cm_retry_arm(struct cm_connection *connection, uint64_t now_ns);
void cm_retry_prolong(struct cm_connection *connection, uint8_t service_timeout, uint64_t now_ns);
void cm_retry_expired(struct cm_connection *connection, uint64_t now_ns);
void cm_retry_hurry(struct cm_connection *connection, uint64_t now_ns);
void cm_retry_listen_on(struct cm_connection *connection, uint64_t now_ns);
void cm_retry_soon(struct cm_connection *connection, uint64_t now_ns);
bool cm_state_retries(enum cm_state state);
void cm_retry_patience(struct cm_connection *connection, uint8_t patience, uint64_t now_ns);
/* "Nobody listens": true: it is asked again, before long. */
bool cm_retry_refused(struct cm_connection *connection, uint64_t now_ns);

/* ---- send.c ---- */

/* The transaction ID of what it begins. */
uint64_t cm_transaction(const struct cm_connection *connection);
/* A message of @kind with both IDs and the transaction of the connection, the rest zero. */
void cm_begin(const struct cm_connection *connection, enum cm_message_kind kind,
	      struct cm_message *message);
/* EINVAL: too long. */
int cm_put_private_data(struct cm_message *message, const void *data, uint8_t bytes);
void cm_send(struct cm_connection *connection, const struct cm_message *message);
/* Keeps it to be sent again in the state that follows. 0 or ENOMEM. */
int cm_keep(struct cm_connection *connection, const struct cm_message *message);
void cm_drop_kept(struct cm_connection *connection);
/* What the connection waits for an answer to, once more. */
void cm_send_again(struct cm_connection *connection);
void cm_send_mra(struct cm_connection *connection, uint8_t service_timeout);
void cm_send_plain(struct cm_connection *connection, enum cm_message_kind kind);
/* Answers to @details->message that no connection stands behind. */
void cm_reply_reject(struct cm_protocol *protocol, const struct cm_details *details,
		     enum cm_about about, uint16_t reason, const void *info, uint8_t info_bytes);
void cm_reply_drep(struct cm_protocol *protocol, const struct cm_details *details);
/* To a LAP: enum cm_apr. */
void cm_reply_apr(struct cm_protocol *protocol, const struct cm_details *details, uint8_t status);
void cm_reply_sidr(struct cm_protocol *protocol, const struct cm_details *details, uint8_t status);

void cm_count(const struct cm_protocol *protocol, enum counter counter);
/* Counts it, and notes it as what becomes of the message. */
void cm_drop(const struct cm_protocol *protocol, struct cm_details *details, enum drop why);

#endif
