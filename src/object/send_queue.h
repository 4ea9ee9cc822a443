/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send queue of a QP: a ring of work requests, checked and copied at post time (inline data
 * too), numbered by ever-growing counters:
 *
 *	freed <= tail <= sent <= head	freed: oldest whose slot is taken (wqe_slots.h); tail: oldest not
 *					completed; sent: next to be put on the wire for the first time;
 *					head: next to be posted
 */
#ifndef VERBATIM_OBJECT_SEND_QUEUE_H
#define VERBATIM_OBJECT_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "object/ah.h"
#include "object/mr.h"
#include "object/ring_memory.h"
#include "object/wqe_slots.h"
#include "object/wr.h"

struct mw;

/*
 * One request. Large: a slot of the ring serves every kind of request, and holds what the transport
 * notes of it.
 */
struct send_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;			/* enum ibv_send_flags; SIGNALED set when sq_sig_all */
	uint32_t length;		/* bytes of all SGEs, or of the inline data */
	uint32_t imm;			/* host order of imm_data; or the rkey to invalidate */
	uint64_t remote_address;	/* RDMA, atomic */
	uint32_t rkey;
	uint32_t sge_count;
	uint64_t compare_add, swap;	/* atomic */
	/* UD */
	struct ah *ah;			/* holds a reference, put when the request is retired */
	uint32_t remote_qpn, remote_qkey;
	uint32_t remote_srqn;		/* XRC */
	/* BIND_MW */
	struct mw *mw;
	union {
		struct ibv_mw_bind_info bind;
		struct { uint32_t bytes; uint8_t type, level; } flush;	/* FLUSH; @length is 0 */
	};
	/* Written by the transport */
	uint32_t first_psn, last_psn;	/* of the request; of the responses for READ and atomic */
	uint32_t ssn;			/* send sequence number (IBTA 9.7.7.2.5: credits) */
	uint32_t chunk_bytes;		/* READ: asked for in pieces of this many bytes */
	uint64_t token;			/* of a message: which answer is its (transport/message.h) */
	uint8_t state;			/* enum wqe_state (transport/internal.h); 0 when posted */
	uint8_t status;			/* enum ibv_wc_status, once it failed; of WR_FAULTY: from the post on */
	union {
		struct ibv_sge sge[0];
		uint8_t inline_data[0];	/* flags & IBV_SEND_INLINE: @length bytes */
	};
};

/*
 * A region of the peer that may be written by the QP's requests, and is mapped here: so it was found
 * to be when its grant @id had this @version. Forgotten when the next shortcut is opened.
 */
struct shortcut_target {
	uint32_t rkey, id;
	uint64_t version;
	uint64_t start, length, host;	/* as in struct peer_region; length 0: none */
	uint8_t *mapped;
};

/*
 * What a QP has found for its shortcuts (qp->shortcut), under its lock: the peer's region that the
 * last WRITE was to, our own that the last SEND or WRITE was from, and that of the last receive in a
 * row.
 */
struct shortcut_notes {
	struct shortcut_target target;
	struct mr_kept source, receive;
};
_Static_assert(sizeof(struct shortcut_notes) <= sizeof(struct send_wqe), "they fit in a slot");

struct send_queue {
	uint8_t *ring;			/* behind one more slot, at whose end struct shortcut_notes lies */
	size_t stride;
	uint32_t size, max_sge, max_inline;
	uint32_t mask;			/* slots of the ring - 1; they are a power of two */
	uint32_t head, sent, tail;
	struct wqe_slots slots;
	struct ring_memory memory;	/* of the ring: set before send_queue_init() */
};

int send_queue_init(struct send_queue *queue, uint32_t size, uint32_t max_sge,
		    uint32_t max_inline);
void send_queue_fini(struct send_queue *queue);	/* gives back the AHs of what is still queued */

static inline struct send_wqe *send_queue_at(const struct send_queue *queue, uint32_t number)
{
	return (struct send_wqe *)(queue->ring + (size_t)(number & queue->mask) * queue->stride);
}

static inline struct shortcut_notes *send_queue_notes(const struct send_queue *queue)
{
	return (struct shortcut_notes *)queue->ring - 1;
}

#endif
