/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The communication management protocol (IBTA chapter 12): all connections of a process. It has
 * no clock, socket, thread, lock or randomness: calls, messages and the time come in; messages,
 * events and the next deadline come out. The same code runs in production (cm/endpoint/agent.c), in
 * the simulator and under the fuzzer. The caller serialises all calls on one struct cm_protocol.
 *
 *	rules		state.def: state x (message or call or timeout), proved total
 *	messages	wire/cm_message.def: byte, bit, width
 *
 *	active:   connect -> REQ_SENT -> (REP) REP_RCVD -> ready_to_use -> ESTABLISHED
 *	passive:  listen, (REQ) REQ_RCVD -> accept -> REP_SENT -> (RTU) ESTABLISHED
 *	both:     disconnect -> DREQ_SENT -> (DREP) TIMEWAIT -> gone;  (DREQ) answered with a DREP
 */
#ifndef VERBATIM_CM_PROTOCOL_PROTOCOL_H
#define VERBATIM_CM_PROTOCOL_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracepoint/drop.h"
#include "wire/cm_message.h"
#include "wire/mad.h"

struct cm_protocol;
struct cm_connection;		/* one end of one connection, or of one SIDR exchange */
struct cm_listener;

/*
 * What happened to a connection. Data lives as long as the call.
 *
 * A connection with an owner lives until cm_abandon(), whatever became of it: its owner calls that
 * once, also after the events that say "over". A new connection (REQ, SIDR_REQ) has no owner: one
 * that the handler does not take (cm_set_owner), reject, answer or abandon is forgotten without a
 * word when the handler returns, so that the peer asks again (a full backlog).
 */
enum cm_event_kind {
	CM_EVENT_REQ,		/* a new connection on a listener: message->req */
	CM_EVENT_REP,		/* message->rep: cm_ready_to_use() or cm_reject() */
	CM_EVENT_RTU,		/* message->rtu, or the peer's first packet: established */
	CM_EVENT_REJ,		/* message->rej: over; had it been established: now in timewait */
	CM_EVENT_TIMEOUT,	/* no answer to REQ, REP or SIDR_REQ after all retries: over */
	CM_EVENT_UNREACHABLE,	/* the peer's host says that nobody is there: over */
	/* The peer disconnects (answered already), is dead (cm_peer_died) or has forgotten the
	 * connection (a REQ for the same QP of its): now in timewait. Without RTU before: the RTU was
	 * lost. Only the first has a message. */
	CM_EVENT_DREQ,
	CM_EVENT_DREP,		/* our DREQ was answered or given up: now in timewait */
	CM_EVENT_TIMEWAIT_EXIT,	/* the QP number may be used again: over */
	CM_EVENT_SIDR_REQ,	/* on a listener: message->sidr_req: cm_sidr_answer() */
	CM_EVENT_SIDR_REP,	/* message->sidr_rep: over */
};

struct cm_event {
	enum cm_event_kind kind;
	struct cm_connection *connection;
	void *owner;			/* of the connection; REQ and SIDR_REQ: of the listener */
	const struct cm_message *message;	/* NULL for those without one */
	const struct mad_address *from;	/* of the message; NULL without one */
	uint8_t retried;		/* TIMEOUT: which message: enum cm_message_kind */
	enum drop *drop;		/* REQ, SIDR_REQ: set when it is dropped, and counted */
};

/*
 * Called during cm_*() calls. event() may call all cm_*() functions of the same protocol but
 * cm_protocol_free(); send() may call cm_undeliverable(), which then takes effect in a
 * cm_tick(). After each cm_*() call cm_deadline() may be another.
 */
struct cm_ops {
	void (*send)(void *host, const struct mad_address *to, const struct cm_message *message);
	void (*event)(void *host, const struct cm_event *event);
	uint32_t (*random)(void *host);
	/* A drop or a refusal, by its counter (base/counter.def). */
	void (*count)(void *host, int counter);
};

/*
 * @comm_id_base: the high bits of all communication IDs we choose (mad/gsi.h: the slot), low
 * bits zero; @comm_id_bits: how many low bits are ours. NULL: no memory.
 */
struct cm_protocol *cm_protocol_new(const struct cm_ops *ops, void *host, uint32_t comm_id_base,
				    unsigned comm_id_bits);
void cm_protocol_free(struct cm_protocol *protocol);

/* ---- input ---- */

/* A MAD of the class came. Whatever it holds: at worst a counter goes up. Returns why it was dropped. */
enum drop cm_receive(struct cm_protocol *protocol, const struct mad_address *from,
		     const uint8_t mad[MAD_BYTES], uint64_t now_ns);
/* A MAD that we sent cannot arrive at @to (ICMP): its exchange ends now. */
void cm_undeliverable(struct cm_protocol *protocol, const struct mad_address *to,
		      const uint8_t mad[MAD_BYTES], uint64_t now_ns);
uint64_t cm_deadline(const struct cm_protocol *protocol);	/* TIME_NEVER: none */
void cm_tick(struct cm_protocol *protocol, uint64_t now_ns);

/* ---- listening ---- */

/*
 * Requests for @service_id that come to @address (v4-mapped; all zero: any of @family, AF_UNSPEC:
 * both families) or, without an IP CM header, by the GID that they came to.
 * Exact addresses win over any. 0; EADDRINUSE; ENOMEM.
 */
int cm_listen(struct cm_protocol *protocol, uint64_t service_id, const uint8_t address[16],
	      int family, void *owner, struct cm_listener **listener);
/* How many requests may wait for an answer at a time (4096 at first); others are dropped. */
void cm_listener_limit(struct cm_listener *listener, unsigned pending);
/* Requests that were taken (cm_set_owner) stay with their owners. */
void cm_listener_free(struct cm_listener *listener, uint64_t now_ns);

/* ---- connecting ---- */

/*
 * What a REQ says, as far as the caller decides it.
 * Large: a REQ has that many fields (IBTA 12.6.5).
 */
struct cm_connect {
	uint64_t service_id;
	struct mad_address address;
	uint8_t local_gid[16], remote_gid[16];
	uint64_t local_ca_guid;			/* network order */
	uint32_t local_qpn, starting_psn, local_qkey;
	enum cm_transport transport;		/* RC, UC, XRC ... (wire/cm_message.h) */
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	bool flow_control, srq;
	uint8_t path_mtu;			/* enum ibv_mtu */
	uint8_t packet_rate;			/* enum ibv_rate */
	uint8_t local_ack_timeout;		/* 4.096 us * 2^n */
	uint8_t service_level, traffic_class, hop_limit;
	uint32_t flow_label;
	uint16_t pkey;
	uint16_t local_lid, remote_lid;		/* of a path within a subnet: hop_limit 0 or 1 */
	/*
	 * 4.096 us * 2^n: both CM response timeouts; given up when it has passed max_retries + 1
	 * times. What may be lost is sent again earlier, and then less and less often.
	 */
	uint8_t response_timeout;
	uint8_t max_retries;
	/*
	 * 4.096 us * 2^n: servers are often just about to listen. "Nobody listens" is an answer from
	 * then on only; until then the request is repeated. 0: it is one at once.
	 */
	uint8_t patience;
	const void *private_data;		/* up to 92 bytes, IP CM header included */
	uint8_t private_data_bytes;
	uint32_t ece_vendor_id, ece_options;	/* vendor ID of the REQ, attribute modifier */
};

/* Send a REQ. 0; EINVAL; ENOMEM. */
int cm_connect(struct cm_protocol *protocol, const struct cm_connect *connect, void *owner,
	       uint64_t now_ns, struct cm_connection **connection);

struct cm_accept {
	uint32_t local_qpn, starting_psn, local_qkey;
	uint64_t local_ca_guid;
	uint8_t responder_resources, initiator_depth, rnr_retry_count, target_ack_delay;
	uint8_t failover_accepted;
	bool flow_control, srq;
	const void *private_data;		/* up to 196 bytes */
	uint8_t private_data_bytes;
	uint32_t ece_vendor_id, ece_options;	/* vendor ID of the REP, attribute modifier */
};

/* After CM_EVENT_REQ: @owner owns it from now on. */
void cm_set_owner(struct cm_connection *connection, void *owner);
/* All below: 0; EINVAL: the connection's state does not allow it, or an argument is wrong. */
int cm_accept(struct cm_connection *connection, const struct cm_accept *accept, uint64_t now_ns);
int cm_ready_to_use(struct cm_connection *connection, const void *private_data, uint8_t bytes,
		    uint64_t now_ns);
/*
 * "I need more time": the peer waits 4.096 us * 2^@service_timeout more. Nobody has to: a repeated
 * REQ or REP that the owner has not answered yet gets an MRA of 69 s by itself.
 */
int cm_delay(struct cm_connection *connection, uint8_t service_timeout, const void *private_data,
	     uint8_t bytes, uint64_t now_ns);
/* @reason: enum cm_reject_reason; @info: up to 72 bytes of ARI. */
int cm_reject(struct cm_connection *connection, uint16_t reason, const void *info,
	      uint8_t info_bytes, const void *private_data, uint8_t bytes, uint64_t now_ns);
/* The QP saw traffic before the RTU (IBV_EVENT_COMM_EST, rdma_notify). EISCONN: it is up already. */
int cm_establish(struct cm_connection *connection, uint64_t now_ns);
/* Established, or accepted and still without RTU. */
int cm_disconnect(struct cm_connection *connection, const void *private_data, uint8_t bytes,
		  uint64_t now_ns);
/* The peer's process is known to be dead, or the QP gave up: no DREQ will be answered. CM_EVENT_DREQ
 * follows if it was established; CM_EVENT_UNREACHABLE if it was being set up. Without RTU: CM_EVENT_RTU and _DREQ
 * if that comes within a second, else CM_EVENT_TIMEOUT. */
void cm_peer_died(struct cm_connection *connection, uint64_t now_ns);
/*
 * The process is about to end: connections are disconnected, and DREQs without an answer are repeated within
 * milliseconds. Returns how many wait for one; may be called again.
 */
unsigned cm_leave(struct cm_protocol *protocol, uint64_t now_ns);
/*
 * The owner is gone: no event comes any more. Says to the peer what its state asks for (REJ,
 * DREQ) and goes on by itself until timewait is over.
 */
void cm_abandon(struct cm_connection *connection, uint64_t now_ns);
/*
 * Only from CM_EVENT_REQ and CM_EVENT_SIDR_REQ (the backlog is full): as if the message had been
 * lost on the way; the peer sends it again. No answer, no event.
 */
void cm_forget(struct cm_connection *connection);

/* The connection of which @qpn is our QP, one that is not in timewait if there is. NULL: none. */
struct cm_connection *cm_find_qpn(struct cm_protocol *protocol, uint32_t qpn);
/* Calls @visit for each connection that is not in timewait or over; it may end and abandon any. */
void cm_for_each(struct cm_protocol *protocol,
		 void (*visit)(void *context, struct cm_connection *connection), void *context);

uint32_t cm_local_id(const struct cm_connection *connection);
uint32_t cm_remote_qpn(const struct cm_connection *connection);	/* 0: not known yet */
const struct mad_address *cm_address(const struct cm_connection *connection);
const char *cm_state_name(const struct cm_connection *connection);

/* ---- service ID resolution (UD) ---- */

struct cm_sidr {
	uint64_t service_id;
	struct mad_address address;
	uint16_t pkey;
	uint8_t response_timeout, max_retries;
	uint8_t patience;			/* as of a cm_connect */
	const void *private_data;		/* up to 216 bytes, IP CM header included */
	uint8_t private_data_bytes;
};
int cm_sidr(struct cm_protocol *protocol, const struct cm_sidr *sidr, void *owner, uint64_t now_ns,
	    struct cm_connection **connection);
/* Ends the exchange; the connection goes when it is abandoned. @status: enum cm_sidr_status. */
int cm_sidr_answer(struct cm_connection *connection, uint8_t status, uint32_t qpn, uint32_t qkey,
		   const void *private_data, uint8_t bytes, uint64_t now_ns);

#endif
