/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program does, as `verbatim check` is told it: a record for each call that makes, changes
 * or ends an object, posts, polls, arms or waits. Posts are told before they are made, so that no
 * completion is known before its request; what is made is told afterwards.
 *
 * Objects are named by the addresses that the program has for them, and by the numbers that reports
 * show.
 */
#ifndef VERBATIM_CHECK_RECORD_H
#define VERBATIM_CHECK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define CHECK_KINDS(KIND)                                                                          \
	KIND(CONTEXT, "context")                                                                   \
	KIND(PD, "pd")                                                                             \
	KIND(MR, "mr")                                                                             \
	KIND(CQ, "cq")                                                                             \
	KIND(CHANNEL, "channel")                                                                   \
	KIND(SRQ, "srq")                                                                           \
	KIND(QP, "qp")                                                                             \
	KIND(AH, "ah")                                                                             \
	KIND(MW, "mw")                                                                             \
	KIND(WQ, "wq")                                                                             \
	KIND(TABLE, "table of WQs")                                                                \
	KIND(TD, "thread domain")                                                                  \
	KIND(DOMAIN, "parent domain")                                                              \
	KIND(XRCD, "xrcd")                                                                         \
	KIND(DM, "dm")                                                                             \
	KIND(FLOW, "flow")                                                                         \
	KIND(COUNTERS, "counters")                                                                 \
	KIND(ID, "rdma_cm_id")                                                                     \
	KIND(CM_CHANNEL, "event channel")
enum check_kind {
	CHECK_NOTHING,
#define CHECK_KIND(kind, name) CHECK_##kind,
	CHECK_KINDS(CHECK_KIND)
#undef CHECK_KIND
		CHECK_KIND_COUNT
};

enum check_what {
	CHECK_ASK,		/* kind: about to be made, or qp: modified; what it shall have */
	CHECK_LOOK,		/* what the device has was asked for: limits, or else GIDs */
	CHECK_MADE,		/* kind, object, number and what it belongs to */
	CHECK_ENDING,		/* it is about to be destroyed */
	CHECK_ENDED,		/* it was, or not: error */
	CHECK_STATE,		/* qp: state */
	CHECK_POST_SEND,	/* object: qp; one request */
	CHECK_POST_RECV,	/* object: qp or srq; one request */
	CHECK_POST_FAILED,	/* object: qp or srq; receive; error; its last @count were not */
	CHECK_POLLED,		/* object: cq; count: asked for, got */
	CHECK_COMPLETION,	/* object: cq; number: of the qp; wr_id, status, opcode, receive */
	CHECK_ARM,		/* object: cq; count: completions that stand in it */
	CHECK_WAIT,		/* object: channel: ibv_get_cq_event() begins */
	CHECK_EVENT,		/* object: cq: ibv_get_cq_event() has one */
	CHECK_ACK,		/* object: cq; count */
	CHECK_ASYNC,		/* context: ibv_get_async_event(); object: it has one of that */
	CHECK_ASYNC_ACK,	/* object */
	CHECK_CM_CALL,		/* object: id; call was made: error; bytes of private data */
	CHECK_CM_EVENT,		/* object: id; it has got an event: state: that */
	CHECK_CM_ACK,		/* object: id */
	CHECK_GONE,		/* address, bytes: memory that is freed, moved or unmapped */
	CHECK_READ,		/* object: cq; wr_id, status: call reads a field of that */
	CHECK_END,		/* of the process; error: its exit status */
	CHECK_WHATS
};

struct check_sge {
	uint64_t address;
	uint32_t bytes, lkey;
};

/* Large: what each kind of record has is beside the others'. */
struct check_record {
	enum check_what what;
	enum check_kind kind;
	const char *call;	/* "ibv_post_send" */
	uint64_t object;
	uint32_t number;	/* as it is shown; of an mr: its lkey */
	uint32_t stack;		/* stack.h; 0: none */
	uint64_t thread;
	int error;
	/* What it belongs to, or 0. */
	uint64_t context, pd, send_cq, recv_cq, srq, channel, ah;
	uint64_t domain, other;	/* a parent domain; other: one of another kind */
	bool one_thread;	/* made for one thread at a time */
	uint64_t inside;	/* another thread that is in a call on the object. 0: none */
	/* Of a cq: entries; of others: above. */
	uint32_t count, got;
	/* Of a qp. */
	uint32_t type, state, max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	bool signal_all;
	bool has_operations;	/* shall be made for some operations only (ibv_create_qp_ex) */
	bool of_manager;	/* MADE or ENDED by librdmacm, not by the program itself */
	/* Of a qp that shall be modified: what is set; of an ah: the path. 0: not set. */
	uint32_t rd_atomic, dest_rd_atomic, mtu;
	bool has_path, is_global, has_dgid, has_sgid;	/* sgid: our port has one there */
	uint32_t port, sgid_index, dlid, ports;	/* ports: that the device has */
	bool has_port, needs_grh;		/* port is set; our port takes no path without a GRH */
	/* Of CHECK_LOOK: limits of our device by enum check_fact; of GIDs: NULL. */
	const uint64_t *limits;
	/* Of an mr that shall be made: bytes that may be locked; UINT64_MAX: any. */
	uint64_t lockable;
	/* Of an mr: address is where it begins for SGEs. */
	uint64_t address, bytes;
	uint32_t rkey, access;
	/* Of a request or a completion. */
	uint64_t wr_id;
	uint32_t opcode, status;
	bool signaled, inlined, receive;
	uint64_t remote;	/* address at the peer */
	bool reads;		/* its SGEs are written to: a receive, READ or atomic */
	const struct check_sge *sge;
	uint32_t sges;
	/* Of a post: its place among all. Of memory that is gone: the last that is meant. */
	uint64_t sequence;
	/* Of an arming. */
	bool solicited;
	/* Of a wait: the descriptor of the channel is non-blocking; an event is there already. */
	bool nonblocking, has_event;
};

#endif
