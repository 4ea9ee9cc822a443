/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that are held back: until a time, or until others of their QP have overtaken them. Copies, in
 * memory that was allocated at the beginning. No clock of its own; the caller serialises access.
 */
#ifndef VERBATIM_INJECT_HOLD_H
#define VERBATIM_INJECT_HOLD_H

#include "base/datagram.h"
#include "base/list.h"
#include "base/timer_heap.h"

#define HOLD_PACKETS	4096u
#define HOLD_BYTES	4352u		/* of a packet; PATH_MTU_MAX and its headers fit */

struct held {
	struct timer timer;		/* in the heap of its direction; or free */
	struct list node;		/* free, or in overtaken */
	unsigned overtakers;		/* so many are missing; 0: it waits for its time alone */
	uint32_t qp;
	bool outbound;
	void *way;			/* the caller's: by which link it goes on */
	uint32_t dest_qpn;		/* the caller's, too */
	struct datagram datagram;	/* one packet; its data is here */
};

struct hold {
	struct timer_heap heap[2];	/* in, out */
	struct list free, overtaken;
	struct held *held;		/* [HOLD_PACKETS] */
	uint8_t *bytes;			/* [HOLD_PACKETS][HOLD_BYTES] */
	unsigned count;
};

int hold_init(struct hold *hold);	/* 0 or ENOMEM; hold_fini() is due in any case */
void hold_fini(struct hold *hold);

/*
 * Keep a copy of @datagram, which is one packet, until @due_ns, or until @overtakers others of @qp passed
 * (hold_passed()), whichever is first. NULL: there is no room, or it is too long.
 */
struct held *hold_add(struct hold *hold, const struct datagram *datagram, bool outbound, uint32_t qp,
		      uint64_t due_ns, unsigned overtakers);
/* A packet of @qp passes: those that it overtakes are that much nearer. */
void hold_passed(struct hold *hold, bool outbound, uint32_t qp);
/* The next that is due at @now_ns, in the order of their times; hold_release() it afterwards. NULL: none. */
struct held *hold_take(struct hold *hold, bool outbound, uint64_t now_ns);
void hold_release(struct hold *hold, struct held *held);
/* When the next is due; TIME_NEVER: none. */
uint64_t hold_next(const struct hold *hold, bool outbound);

#endif
