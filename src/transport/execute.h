/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Execution of requests: the only place of transport/ that touches the memory of applications.
 * Packets (responder_run.c, replay.c, unreliable.c), frames (raw.c), messages (message_receive.c)
 * and our own requests (requester.c, completer.c) name memory and say what is to be done with it.
 * Requests that need neither packets nor messages are local/move/onesided.c's and local/move/fetch.c's;
 * tests/abi/layering.py looks that there are no others.
 *
 * The reason of a fault is in call->why.
 */
#ifndef VERBATIM_TRANSPORT_EXECUTE_H
#define VERBATIM_TRANSPORT_EXECUTE_H

#include "transport/internal.h"

/* ---- lists of requests and receives ---- */

enum sge_result { SGE_OK, SGE_PROTECTION };

/* Copy @bytes from @offset of the request's data to @out. SGE_PROTECTION: reason in call->why. */
enum sge_result sge_gather(struct qp_call *call, const struct send_wqe *wqe, uint64_t offset,
			   uint8_t *out, uint32_t bytes);
/*
 * Copy @data to @offset of the request's list. @last: this completes the message
 * (copy_user_ordered).
 */
enum sge_result sge_scatter(struct qp_call *call, const struct send_wqe *wqe, uint64_t offset,
			    const uint8_t *data, uint32_t bytes, bool last);
/* The same for the receive that was taken; or for one of a work queue, by @accessor. */
enum sge_result recv_scatter(struct qp_call *call, uint64_t offset, const uint8_t *data,
			     uint32_t bytes, bool last) REQUIRES(call->qp->lock);
enum sge_result recv_scatter_for(struct qp_call *call, const struct mr_accessor *accessor,
				 const struct recv_wqe *recv, uint64_t offset, const uint8_t *data,
				 uint32_t bytes, bool last);
/* May all of it be scattered to the request's list now? */
enum sge_result sge_check(struct qp_call *call, const struct send_wqe *wqe);

/*
 * Locate, in the receive that was taken, the destination of a part to fetch: adds its pieces to
 * @fetch, each with an access that is held until fetch_release().
 */
enum sge_result recv_locate(struct qp_call *call, uint64_t offset, uint32_t bytes,
			    struct message_fetch *fetch) REQUIRES(call->qp->lock);
void fetch_release(struct message_fetch *fetch);

/* ---- what the peer names by key ---- */

struct target {
	uint64_t address, bytes;
	uint32_t rkey;
	unsigned need;			/* rights: IBV_ACCESS_... */
};

/*
 * Hold it for this QP, until execute_end(): call->access. No bytes need no key. FAULT_ACCESS: it
 * may not.
 */
enum fault execute_begin(struct qp_call *call, const struct target *target)
	REQUIRES(call->qp->lock);
void execute_end(struct qp_call *call);
/* Has the QP the rights to all that the key names, whatever the range says? Nothing is held. */
enum fault execute_may(struct qp_call *call, const struct target *target) REQUIRES(call->qp->lock);
/* Copy from it to @out, as @accessor. FAULT_ACCESS, FAULT_MEMORY. */
enum fault execute_fetch(struct qp_call *call, const struct mr_accessor *accessor,
			 const struct target *target, uint8_t *out);

/* ---- data of the peer ---- */

struct payload {
	const uint8_t *data;
	uint32_t bytes;
	bool last;			/* ends the message: its last cache line becomes visible last */
};

/* Data of a SEND, in order: to the receive that was taken. FAULT_LOCAL_PROTECTION. */
enum fault execute_send(struct qp_call *call, const struct payload *payload)
	REQUIRES(call->qp->lock);
/*
 * All data of a SEND: to @recv, of one SGE, in the region of the row or in another one, which is
 * the row's then. False: it is not one SGE with room for it, or its memory is not accessible.
 */
bool execute_send_in_row(struct message_row *row, const struct recv_wqe *recv, const uint8_t *data,
			 uint32_t bytes)
	REQUIRES(row->qp->lock);
/* Lets the region of the row go. */
void execute_end_row(struct message_row *row);
/* Data of an RDMA WRITE: to the target that is held. FAULT_MEMORY. */
enum fault execute_write(struct qp_call *call, const struct payload *payload)
	REQUIRES(call->qp->lock);
/*
 * Where the part @fetch goes that the caller copies: into @target, NULL: the receive that was
 * taken.
 */
bool execute_locate(struct qp_call *call, const struct target *target, struct message_fetch *fetch)
	REQUIRES(call->qp->lock);
/* FAULT_UNALIGNED, FAULT_MEMORY: nothing has changed. */
enum fault execute_atomic(struct qp_call *call, const struct packet *packet, uint64_t *original);
/* ATOMIC_WRITE. */
enum fault execute_word(struct qp_call *call, const struct packet *packet);

/* Of a SEND with invalidate. FAULT_INVALIDATE. */
enum fault execute_invalidate(struct qp_call *call, uint32_t rkey) REQUIRES(call->qp->lock);

#endif
