/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors: the destination of packets, resolved for the link. The application owns those of its
 * AHs; a connected QP has one from its modify to RTR.
 */
#ifndef VERBATIM_OBJECT_AH_H
#define VERBATIM_OBJECT_AH_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "base/ip_addr.h"
#include "object/pd.h"

/* IPv4 addresses are v4-mapped (::ffff:a.b.c.d) everywhere above the link. */
struct av {
	uint8_t source[16], destination[16];	/* addresses that the packets carry */
	uint32_t interface;			/* index of the egress one, for scoped addresses */
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	bool loopback;				/* destination is an address of this host */
	bool default_gid;			/* by GID 0 that is no address: the packets carry another */
	uint16_t source_port;			/* 0xC000..0xFFFF */
	uint16_t from_slot;			/* a connected QP's, to a peer on this host; else 0 */
};

struct ah_path;

struct ah {
	struct ibv_ah ibv;		/* first */
	struct ibv_ah_attr attr;	/* as given */
	struct av av;
	/*
	 * The application's and one per work request naming it. The last one to go (acq_rel in
	 * ah_put()) sees all earlier uses, and frees it.
	 */
	_Atomic uint32_t references;
	/* The transport's state of the way there, by peer process; freed by release(). */
	_Atomic(struct ah_path *) paths;
	void (*_Atomic release)(struct ah *ah);	/* NULL: there is nothing to free */
	struct list node;
};

static inline struct ah *to_ah(struct ibv_ah *ibv)
{
	return (struct ah *)ibv;
}

static inline void ah_get(struct ah *ah)
{
	atomic_fetch_add_explicit(&ah->references, 1, memory_order_relaxed);
}

void ah_put(struct ah *ah);	/* frees at 0 */

#endif
