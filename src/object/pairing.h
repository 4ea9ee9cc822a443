/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutual grants of a connected queue pair and its peer inside this host, by which requests need no packets
 * (local/move/pairing.c). Under qp->lock, except the word that @alive points to.
 */
#ifndef VERBATIM_OBJECT_PAIRING_H
#define VERBATIM_OBJECT_PAIRING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAIRING_TARGETS 16u

/* Protection domains of the peer's SRQs, as a requester of XRC knows them, by number modulo PAIRING_TARGETS. */
struct pairing_targets {
	struct {
		uint32_t srqn, pd;	/* number 0: none */
	} entry[PAIRING_TARGETS];
};

struct pairing {
	uint32_t life;			/* of the channel that all of this is about; 0: none */
	uint32_t asked_srqn;		/* XRC: the peer was asked about that SRQ; 0: no such question is open */
	_Atomic uint32_t *alive;	/* in our side of the channel: holds @ours while that is granted */
	uint32_t ours, theirs;		/* grants of the two QPs; 0: none */
	uint32_t pd, access;		/* of theirs: protection domain, qp_access_flags */
	uint64_t place;			/* where the peer's QP lies in its process; 0: not known */
	bool agreed;			/* the peer says that our requests may go without packets */
	bool asked;			/* the peer was asked; no answer yet */
	bool presence_waits;		/* it has not taken what it had been sent by then: presence_put */
	uint16_t wait, patience;	/* requests until it is asked again; the next such number */
	uint32_t presence_put;		/* cells in its channel (local_presence()) */
	uint64_t again_ns;		/* or from then on (coarse clock) */
};

/*
 * End our grant and forget the peer's. A caller that has to wait for accesses does so afterwards.
 */
static inline void pairing_end(struct pairing *pairing)
{
	uint32_t ours = pairing->ours;

	/* The word may be another grant's by now. */
	if (pairing->alive)
		atomic_compare_exchange_strong(pairing->alive, &ours, 0);
	/* Before the application overwrites what a peer may be copying still; pairs with F10 of local/. */
	atomic_thread_fence(memory_order_seq_cst);	/* F11 */
	*pairing = (struct pairing){ .life = 0 };
}

#endif
