/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A conversation between two QPs: messages planned on either side, posted as room and the plan
 * allow, and the oracle that knows what must come of each. The checkers:
 *
 *	- data and atomic results equal the oracle's, nothing outside of permitted ranges changes
 *	- each work request completes exactly once, in order, signaled or failed
 *	- receives match the sends that consume them, each exactly once, in order (RC)
 *	- after a failure everything posted is flushed, and nothing succeeds
 *	- at the end all is answered, the QPs are in a legal state, nothing is held
 */
#ifndef VERBATIM_SIM_TALK_H
#define VERBATIM_SIM_TALK_H

#include "memory.h"
#include "sim/world/sim.h"

struct message {
	uint32_t number;		/* of its side, from 0; the wr_id */
	uint32_t key;			/* of its data */
	enum ibv_wr_opcode opcode;
	uint32_t length, imm, rkey;
	unsigned flags;			/* enum ibv_send_flags */
	struct span local, remote;	/* remote: WRITE, READ, atomic */
	uint64_t compare_add, swap, original, after;
	struct mw *mw;			/* BIND_MW: to all of the side's memory, as @rkey */
	struct mr *own_mr;		/* of the remote range, when it has one of its own */
	bool done, delivered;		/* completed; its receive completed */
	enum ibv_wc_status status;
};

struct receive {
	struct span grh;		/* UD: 40 bytes in front */
	struct span span;
	bool done;
};

struct side {
	struct talk *talk;
	struct side *peer;
	unsigned index;
	struct sim_host *host;
	struct qp *qp;
	uint32_t qpn;			/* outlives the QP */
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct memory memory;

	struct message *messages;
	uint32_t planned, posted, completed;	/* completed: also those known by a later one */
	uint32_t depth;				/* how many may be posted and not known completed */
	uint64_t next_post_ns;			/* not before */
	struct span counter;			/* the peer's atomics work on it */
	uint64_t counter_value;			/* what it is after all planned atomics */

	struct receive *receives;
	uint32_t receives_planned, receives_posted, receives_done;
	uint32_t receive_bytes;			/* capacity of each */
	uint64_t late_receives_ns;		/* each is posted so long after the one before */
	bool late_begun;
	uint32_t matched;			/* peer's messages looked at for a receive */

	bool deaf;				/* does not poll its CQs */
	bool failed;				/* an error completion was seen ... */
	enum ibv_wc_status send_status, recv_status;	/* ... the first of each queue */
	bool recv_failed;
	bool destroyed;
	uint32_t sends_ok, recvs_ok, flushed;
	uint64_t last_done_ns;
	/* Called for each completion, after the checks. */
	void (*on_completion)(struct side *side, const struct ibv_wc *wc, bool receive);
	void *argument;
};

struct talk_options {
	enum ibv_qp_type type;
	struct connect_options connect;
	uint32_t messages_max, receives_max;	/* per side; 0: 64 */
	size_t memory_bytes;			/* per side; 0: 256 KiB */
	uint32_t send_wrs, recv_wrs;		/* 0: enough for the above */
	uint32_t cq_size[2];			/* by side; 0: likewise */
	uint32_t receive_bytes;			/* 0: 8192 */
	bool use_srq;				/* on side 1 */
	bool lossless_semantics;		/* RC and nothing hostile: all must succeed */
};

struct talk {
	struct sim *sim;
	struct talk_options options;
	struct side side[2];
	struct ah *ah[2];
	uint32_t next_key;
	struct talk *next;			/* of its world */
};

/* Between hosts a and b, connected. */
struct talk *talk_create(struct sim_host *a, struct sim_host *b, const struct talk_options *options);
void talk_destroy(struct talk *talk);

/* Plan a message of side @index. @pieces: SGEs (1..PIECES_MAX). */
struct message *talk_plan(struct talk *talk, unsigned index, enum ibv_wr_opcode opcode,
			  uint32_t length, unsigned flags, unsigned pieces);
/* An atomic on the peer's counter; the oracle computes what it returns. */
struct message *talk_plan_atomic(struct talk *talk, unsigned index, bool compare, unsigned flags);
/* A FLUSH of the peer's counter, or of all of its region. */
struct message *talk_plan_flush(struct talk *talk, unsigned index, bool whole, unsigned flags);
/* Plan @count receives on side @index; they are posted by talk_start() or later. */
void talk_plan_receives(struct talk *talk, unsigned index, uint32_t count, unsigned pieces);
/* As many receives on both sides as the other side's messages consume. */
void talk_plan_all_receives(struct talk *talk, unsigned pieces);
bool message_consumes(const struct message *message);

/* Post what the depth allows, poll, repeat; also the application hook (argument: struct talk). */
void talk_progress(struct talk *talk);
void talk_application(struct sim *sim, void *argument);
/* Post the next planned receive now. */
bool talk_post_receive(struct side *side);
/* Run until nothing happens any more, then check the end. */
bool talk_run(struct talk *talk);
void talk_check_end(struct talk *talk);

#endif
