/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State of the transport per QP: the requester (our requests, until they are answered) and the
 * responder (the peer's requests). Data only; the rules are in transport/. All of it is under
 * qp->lock, but for path_turn (path->lock).
 *
 *	            una_psn          send_psn          next_psn
 *	   answered    |    in flight   |   to be resent   |   never sent
 */
#ifndef VERBATIM_OBJECT_QP_TRANSPORT_H
#define VERBATIM_OBJECT_QP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct echoes;
struct opcode;
struct path;
struct recv_wqe;
struct srq;

/*
 * READs and atomics in progress per QP and direction: the limit of max_rd_atomic and
 * max_dest_rd_atomic (as rxe: perftest asks each side for the other's maximum). Room for the first few is part
 * of the QP, room for more is allocated when a modify asks for it.
 */
#define RD_ATOMIC_MAX 128u
#define RD_ATOMIC_FEW 2u

/* Receives of the peer, as far as it announced them (IBTA 9.7.7.2; transport/credits.h). */
struct credits {
	bool limited;
	uint32_t limit_ssn;		/* last send sequence number that it has a receive for */
};

/* Silence of the peer, and what is done about it (transport/loss.h). */
struct loss {
	uint64_t progress_ns;		/* last answer, or first transmission after none was due */
	uint64_t sent_ns;		/* last transmission */
	uint64_t rto_ns;		/* delay of a probe, from the path's round-trip times */
	uint32_t probe_end_psn;		/* one past the last PSN that the probe asks an answer for */
	uint32_t guard_psn;		/* gone back to it: more signs of the same loss are not new ones ... */
	bool guarded;			/* ... if this is set */
	bool probe_due;			/* to be written by the next transmit */
	bool probing;			/* written, not answered */
	bool hold;			/* nothing but probes until the peer is heard again */
	bool stopped;			/* its process does not run: silence says nothing */
	uint8_t retry_left;
	uint8_t probe_shift;		/* probes in a row without an answer: backs off */
	uint8_t graces : 4;		/* timeouts that did not count: the peer's process is alive */
	uint8_t probe_backoff : 4;	/* probes answered since a round trip was measured */
	uint32_t sent_packets, resent_packets;	/* since the last answer: for explanations */
};

/* Why the peer's QP leaves our requests unanswered, as its process says (transport/refusal.h). */
struct refusal {
	uint8_t why;			/* enum drop; 0: it has said nothing */
	uint32_t value, psn;		/* of the request that was dropped */
};

/* Requests that were posted and leave together (transport/gather.h). */
struct gather {
	uint64_t since_ns;		/* when the oldest of them was posted; 0: none */
	uint8_t streak;			/* not 0: batches were filled lately */
};

enum barrier_state {
	BARRIER_NONE,			/* packets may be under way */
	BARRIER_ASKED,			/* the peer was asked behind all packets, and nothing was sent since */
	BARRIER_PASSED,			/* it has answered: nothing is under way */
};

/* transport/pace.h */
struct pace {
	uint32_t kbps;			/* 0: no limit */
	uint32_t burst_bytes;		/* may leave at once after a pause */
	uint64_t due_ns;		/* when what has left would be over, at that rate */
	uint64_t held_until_ns;		/* nothing leaves until then; 0: not held */
};

/* UC: has the peer received all packets? (transport/barrier.h) */
struct barrier {
	enum barrier_state state;
	uint64_t until_ns;		/* BARRIER_ASKED: then packets go on */
};

/*
 * Our requests. Retransmission and credits are structs of their own.
 * Large: it serves RC, UC, UD and requests that need no packets; the PSNs and the window that they
 * share change together, under qp->lock.
 */
struct requester {
	uint32_t una_psn;		/* oldest that is not answered */
	uint32_t send_psn;		/* next to be put on the wire */
	uint32_t next_psn;		/* one past the highest ever put on the wire */
	uint32_t send_wqe;		/* number of the work request that send_psn belongs to */

	uint32_t ssn;			/* send sequence number of the last request begun */
	struct credits credits;

	uint32_t rd_outstanding;	/* READ requests and atomics in flight */
	uint32_t flight_bytes;		/* of the path's window, taken by us */
	uint32_t acked_bytes;		/* of those: answered, soon to be given back */

	struct loss loss;
	struct gather gather;
	struct pace pace;
	uint8_t rnr_left;
	uint16_t congestion;		/* as @recovery below, and of the same pool */
	uint32_t rnr_psn;		/* that the peer had no receive for ... */
	uint64_t rnr_until_ns;		/* waiting after an RNR NAK; 0: not */
	uint64_t rnr_since_ns;		/* ... since then, for explanations */

	bool timing;			/* measuring the round trip of timing_psn */
	_Atomic bool path_turn;		/* woken by the path: may go before waiting QPs */
	uint16_t recovery;		/* 1 + number in the process's pool (transport/recovery.h); 0: none */
	uint32_t timing_psn;
	uint64_t timing_ns;

	/* UC and UD: waiting for room in the flow of that path (transport/flow.h); NULL: not */
	struct path *blocked;
	uint64_t blocked_until_ns;
	uint32_t blocked_bytes;		/* that it waits for */

	/* Requests that need no packets (transport/direct.h) */
	bool prefers_direct;		/* they may be carried out directly, once nothing is in flight */
	bool direct_waits;		/* the next one will be: others have a turn before it */
	uint8_t in_packets;		/* such requests begun as packets, one after the other */
	struct barrier barrier;

	/* Messages (transport/message.h): the oldest requests of the send queue, sent and not answered */
	uint32_t local_messages;
	uint32_t refused;		/* the oldest of them: to be sent as packets */
	uint32_t packets_until;		/* requests before this number are, having been refused */
	uint32_t message_sequence;	/* of the next one */
	uint32_t stalled_at;		/* a request that waited for messages before it ... */
	uint8_t stalls;			/* ... one of so many */
	/*
	 * Of those completed before the peer took them (local/move/commit.c): the last 16, the last in
	 * bit 0: takes a receive; and how long ago the last one was that does not. 0: there is none,
	 * 1: it is the last.
	 */
	uint8_t early_write_age;
	uint16_t early_receives;
	uint32_t message_progress;	/* how far the peer had got when a timer expired last */

	bool drain_reported;		/* SQD: SQ_DRAINED was raised */
	bool completion_lost;		/* a CQ overflowed: fail at the end of this call */
};

enum resource_kind { RESOURCE_NONE, RESOURCE_READ, RESOURCE_ATOMIC, RESOURCE_PLACEMENT };

/* Responder resource: all that is needed to answer a READ or atomic, also repeatedly. */
struct resource {
	uint8_t kind;			/* enum resource_kind */
	bool active;			/* an answer is due, from send_psn on */
	bool answered;			/* in full, at least once */
	bool piece;			/* READ: another piece of the same request follows */
	uint32_t first_psn, last_psn;	/* of the responses */
	uint32_t send_psn;		/* next response */
	uint32_t reply_first_psn;	/* where this (perhaps repeated) answer begins */
	uint32_t reply_end;		/* READ: offset in the request where it ends */
	uint32_t rkey, length;
	uint32_t pd;			/* READ: the protection domain that @rkey is looked up in */
	uint64_t address;
	uint64_t original;		/* atomic: the original value */
	uint64_t position;		/* responder's, when it was made: PSNs come round again */
};

enum answer_kind { ANSWER_NONE, ANSWER_ACK, ANSWER_NAK };

/* An ACK that waits for the application's reply (transport/ack_hold.h). */
struct ack_hold {
	uint64_t until_ns;		/* the ACK that is due waits until then; 0: it does not */
	uint64_t arrived_ns;		/* of the last message, unless a post followed it; 0: one did */
	uint8_t replies;		/* messages in a row that a post followed at once */
	uint8_t pause;			/* so many messages have theirs at once, after a miss */
	uint8_t hits;			/* ACKs that had their reply, in a row */
	uint8_t last_pause;		/* how long the last pause was; 0: that is forgotten */
};

/* So many in the second that began then (object/guesses.h). */
struct guesses {
	uint32_t count;
	uint64_t since_ns;
};

/*
 * The peer's requests: the message in progress, its receive, the answer that is due, responder
 * resources. Large: a packet may change all four, which refer to one PSN sequence.
 */
struct responder {
	uint32_t expected_psn;
	uint32_t msn;			/* messages completed */
	uint64_t position;		/* expected_psn, but without end */
	const struct opcode *previous;	/* of the message in progress; NULL: none */

	union {
		struct {		/* RDMA WRITE in progress */
			uint64_t write_address;
			uint32_t write_rkey, write_length;
		};
		struct {		/* SEND in progress, to a tag-matching SRQ */
			uint64_t tag;
			uint32_t tag_context;
		};
	};
	uint32_t received;		/* bytes of the message in progress */

	uint32_t message_sequence;	/* of the next message (transport/message.h) ... */
	uint32_t message_done;		/* ... and bytes of it that were copied */
	bool shortcut;			/* the next message was decided on (local/move/receive.c) */

	/* The receive that a message took; given to the next one if the message was dropped (UC) */
	bool recv_taken;
	uint8_t tagged;			/* enum tagged (transport/tags.c): how it was taken */
	struct recv_wqe *recv;

	struct srq *target;		/* XRC_RECV: that the last request named */
	struct guesses wrong_keys;	/* UC: in packets; RC: in messages */
	struct guesses key_probes;	/* for keys, by a peer inside this host */
	uint64_t recv_bytes;		/* capacity of its SGEs */

	/* Answer due after those of all active resources */
	uint8_t answer;			/* enum answer_kind */
	uint8_t answer_syndrome;
	uint32_t answer_psn;
	struct ack_hold hold;
	bool nak_sent;			/* waiting for expected_psn: later packets are not NAKed */
	bool answer_late;		/* requests left it no room: it goes first next time */
	bool echo_congestion;		/* the next answer carries BECN */
	bool established;		/* COMM_EST was raised */
	uint8_t strange_count;		/* times that unexpected_psn came, before anything was executed */
	uint32_t unexpected_psn;
	bool acked;			/* an ACK was sent, the last one for acked_psn */
	uint32_t acked_psn;
	uint32_t resource_count;	/* of the ring: few, or an allocation */
	struct resource *resource;
	struct echoes *echoes;		/* UC and UD: owed to senders (transport/echo.h) */
	struct resource few[RD_ATOMIC_FEW];
	uint32_t resource_next;		/* number of the next one */
	uint32_t active_count;		/* whose answer is due ... */
	uint32_t unanswered_count;	/* ... for the first time */
	uint32_t first_active;		/* no resource of a lower number is active */
};

#endif
