/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links carry datagrams between hosts and processes. Data path of every medium: udp.c, loopback.c,
 * local/channel/ring.c, subnet/link.c. Binding and ICMP errors are UDP's own (udp.h). A link knows nothing of
 * what it carries.
 */
#ifndef VERBATIM_LINK_LINK_H
#define VERBATIM_LINK_LINK_H

#include <stdatomic.h>

#include "base/datagram.h"

/* Limits of one datagram: segments (UDP_MAX_SEGMENTS of older kernels) and bytes. */
#define LINK_SEGMENTS_MAX	64u
#define LINK_BYTES_MAX		65507u

struct link;

/* A multicast group that packets are wanted of. */
struct link_group {
	uint8_t gid[16];		/* MGID */
	uint8_t alias[16];		/* as it comes over IPv4; else the MGID */
	uint32_t interface;		/* of RoCE */
	uint16_t ib_port, lid;		/* of a fabric: the port, 0 elsewhere, and the MLID */
};

/* For a trace. */
#define LINK_WAY_MAX	256u
struct link_told {
	uint16_t lid;			/* that packets leave from; 0: there are none */
	char way[LINK_WAY_MAX];		/* in words; "": nobody knows */
};

struct link_ops {
	/* No ICRC is made for it: none is looked at, or it covers headers that the link adds. */
	bool unsealed;
	void (*close)(struct link *link);
	/*
	 * Fill in datagram->source_port as send() will use it (the ICRC covers it), and return how
	 * many equal segments may go in one datagram to there (1: no segmentation offload).
	 */
	unsigned (*prepare)(struct link *link, struct datagram *datagram);
	/*
	 * Send @count prepared datagrams, in order, from any thread. *sent = how many were taken:
	 * fewer than @count only with EAGAIN (buffer full) or EOPNOTSUPP (the next one is a run, and
	 * this way turns out to take none: its segments have to go one by one; prepare() knows
	 * from now on), or with any errno where errors_wanted. Otherwise a datagram that the medium
	 * refuses (no route, too big, no longer an address of ours) is dropped, counted and passed
	 * over. IPv4 segments leave with identification 0, 1, 2 ... and DF set.
	 */
	int (*send)(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent);
	/*
	 * Receive up to @max datagrams without blocking, one thread at a time. Their data belongs
	 * to the link and is valid until the next receive. *received = 0 when there is none.
	 */
	int (*receive)(struct link *link, struct datagram *datagram, unsigned max,
		       unsigned *received);
	/* Descriptors to wait on for reading: writes up to @max, returns how many. */
	unsigned (*event_fds)(struct link *link, int *fds, unsigned max);
	/* NULL: what the datagram says is all. Of a prepared one, from any thread. */
	void (*tell)(struct link *link, const struct datagram *datagram, struct link_told *told);
	/* In a fork()ed child: closes descriptors, and touches nothing else. NULL: somebody else does. */
	void (*abandon)(struct link *link);
	/*
	 * NULL: it is nothing to this link. Packets to QPNs of this slot (wire/qpn.h) are for this process: 0;
	 * EADDRINUSE: where the link leads the slot is another's.
	 */
	int (*claim)(struct link *link, uint32_t slot);
	/* Once a group. ENODEV: nothing of it comes by this link. leave() of another is nothing. */
	int (*join)(struct link *link, const struct link_group *group);
	void (*leave)(struct link *link, const struct link_group *group);
	/*
	 * NULL: never. It holds packets that it could not pass on: QPs keep what they have until it does not (any
	 * thread). What is sent all the same is held, too.
	 */
	bool (*is_full)(struct link *link);
};

/* Packets in @datagram. */
static inline unsigned link_segments(const struct datagram *datagram)
{
	size_t segment_bytes = datagram->segment_bytes;

	if (!segment_bytes)
		return 1;
	return (unsigned)((datagram->bytes + segment_bytes - 1) / segment_bytes);
}

struct link {
	const struct link_ops *ops;
	/*
	 * 0: prepare() is asked of each datagram. Else what it has filled in and returned stands for all that
	 * are addressed alike, until this number is another.
	 */
	_Atomic uint32_t epoch;
};

#endif
