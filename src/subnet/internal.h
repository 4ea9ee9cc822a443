/* SPDX-License-Identifier: BSD-2-Clause */
/* Interface between the files of subnet/. */
#ifndef VERBATIM_SUBNET_INTERNAL_H
#define VERBATIM_SUBNET_INTERNAL_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/lock.h"
#include "ib/client.h"
#include "image/routes.h"
#include "subnet/subnet.h"

#define ENDS_MAX 8u /* ports of a node's HCAs */
#define RECEIVE_MAX 16u
#define SUBNET_ADDRESSES 32u /* of a node */
#define SUBNET_GONE 64u /* programs that have ended, between two turns; of more their peers are not told */
#define MESSAGE_MAX (sizeof(struct ctl_head) + CTL_PACKET_MAX)

enum { PORT_STATE_DOWN = 1, PORT_STATE_ACTIVE = 4, PHYS_POLLING = 2 };

/* A port of the node, as this process knows it. */
struct subnet_end {
	uint16_t port; /* IB_WAY_PORT */
	/* LID, LMC << 16, is it Active << 24: what senders look at, without a lock. */
	_Atomic uint32_t address;
	_Atomic uint32_t image_port;
	struct ctl_port now GUARDED; /* under subnet.lock, as those that follow */
	uint32_t events GUARDED;     /* 1 << enum ctl_event: to be raised */
	bool changed GUARDED;
};

struct subnet_group {
	uint16_t port, mlid;
	uint8_t mgid[16];
	unsigned joined; /* times */
};

struct subnet_address {
	uint16_t port, pkey; /* pkey 0: of the port's first */
	uint8_t ip[16];
};

/* Packets of LIDs that go through memory, or could (plane.c). */
struct plane_peer {
	/* Of the packets that were given to the relay: which was the last to it; and of datagrams or UC. */
	uint64_t relayed, unreliable;
	uint64_t behind; /* up to this one it was told BEHIND */
};

struct subnet_plane {
	struct subnet_ways ways; /* fixed, once set */
	_Atomic uint64_t fabric; /* the number of the image; 0: there is none */
	/* Leaf, but for that of a ring's end; under it what follows. */
	struct lock lock;
	struct image_routes routes GUARDED;
	void *image GUARDED, *tally GUARDED; /* mapped, or NULL */
	size_t image_bytes GUARDED;
	uint64_t relayed GUARDED;  /* packets so far */
	uint64_t drained GUARDED;  /* as many of them have arrived */
	unsigned leaving GUARDED;  /* some thread is about to send them */
	bool folding GUARDED;	   /* FOLDED is awaited: all goes by the relay */
	uint64_t folding_to GUARDED, fold_again_ns GUARDED;
	uint32_t folds GUARDED;
	struct plane_peer peer[IMAGE_SLOTS] GUARDED;
};

/* Where a packet goes through memory. */
struct plane_choice {
	struct tally_entry *entry;
	uint32_t folds, channel;
	uint32_t end, from; /* ports of the image */
	uint16_t slid;
};

/* Large: one a process, with all that it has told its fabric, to be told again. */
struct subnet {
	struct link link;
	struct link *loopback;
	struct counters *counters;
	struct ib_binding binding;
	int fd; /* the same number for ever: what it leads to may change */
	uint64_t file_hash;
	unsigned end_count; /* fixed */
	struct subnet_end end[ENDS_MAX];
	_Atomic bool up;
	_Atomic bool due;	   /* a turn is */
	bool lost;		   /* the turn's: ports were told */
	_Atomic uint64_t retry_ns; /* while it is not up */

	/* Leaf, but for plane.lock: messages that the fabric's socket had no room for (link.c). */
	struct lock held_lock;
	struct list held GUARDED_BY_MEMBER(held_lock);
	unsigned held_tracked GUARDED_BY_MEMBER(held_lock); /* as in struct sender */
	uint64_t held_wait_ns GUARDED_BY_MEMBER(held_lock);
	_Atomic unsigned held_count;
	_Atomic uint64_t held_try_ns; /* when it is tried again; 0: nothing is held */

	struct lock lock; /* leaf; held while a fabric that came back is asked */
	uint32_t slot[CTL_SLOTS_MAX] GUARDED_BY_MEMBER(lock);
	unsigned slot_count GUARDED_BY_MEMBER(lock);
	_Atomic uint32_t slots_seen[CTL_SLOTS_MAX]; /* the same + 1, for senders */
	struct subnet_group *group GUARDED_BY_MEMBER(lock);
	unsigned group_count GUARDED_BY_MEMBER(lock);
	struct ctl_service *service GUARDED_BY_MEMBER(lock);
	unsigned service_count GUARDED_BY_MEMBER(lock);
	bool own_known GUARDED_BY_MEMBER(lock);
	struct subnet_address own[SUBNET_ADDRESSES] GUARDED_BY_MEMBER(lock);
	unsigned own_count GUARDED_BY_MEMBER(lock);

	struct subnet_gone gone[SUBNET_GONE] GUARDED_BY_MEMBER(lock); /* not told yet */
	unsigned gone_count GUARDED_BY_MEMBER(lock);

	uint8_t *buffer; /* [RECEIVE_MAX][MESSAGE_MAX], of who receives */
	struct subnet_plane plane;
};

/* Of an end's address: the bits of its LIDs that are those of paths. */
static inline uint16_t lid_mask(uint32_t address)
{
	return (uint16_t)((1u << (address >> 16 & 7)) - 1);
}

/* NULL: the node has no such port. */
struct subnet_end *subnet_find_end(struct subnet *subnet, uint16_t port);
/* What a CHANGED says; any thread. */
void subnet_note_change(struct subnet *subnet, uint64_t events, const struct ctl_port *port);
/* A GONE; any thread. */
void subnet_note_gone(struct subnet *subnet, uint64_t slot, const struct ctl_gone *said);
/* The connection has ended; any thread. */
void subnet_note_end(struct subnet *subnet);
/* Do packets of that group to the port come back to us? */
bool subnet_is_joined(struct subnet *subnet, uint16_t port, uint16_t mlid);
/* Texts end where they have to, and codes are some that there are, whoever wrote them. */
void subnet_bound_port(struct ctl_port *port);
extern const struct link_ops subnet_link_ops;

/* link.c: the end of what is held. */
void subnet_held_end(struct subnet *subnet);

/* address.c: to a fabric that came back. */
void subnet_services_again(struct subnet *subnet) REQUIRES(subnet->lock);
/* plane.c */
void plane_begin(struct subnet_plane *plane);
void plane_end(struct subnet_plane *plane);
void plane_map(struct subnet_plane *plane, const struct ib_files *files);
/* Of subnet_ways. */
uint32_t plane_channel(const struct subnet_plane *plane, uint32_t slot);
/* True: through memory, as *choice, and it is counted. False: by the relay; then plane_relayed(). */
bool plane_choose(struct subnet *subnet, const struct subnet_end *end, uint32_t address,
		  const struct datagram *datagram, struct plane_choice *choice);
void plane_address(const struct plane_choice *choice, const struct datagram *datagram,
		   struct datagram *out);
/* The way of a packet, in words; "": not known. */
void plane_show(struct subnet *subnet, const struct subnet_end *end, uint32_t address,
		const struct datagram *datagram, char way[LINK_WAY_MAX]);
void plane_uncount(struct subnet_plane *plane, const struct plane_choice *choice,
		   const struct datagram *datagram);
void plane_relayed(struct subnet_plane *plane, unsigned count);
/* FOLDED has come: so many bytes wait for receivers. */
void plane_folded(struct subnet_plane *plane, uint64_t waiting);
/* connection.c: 0 or errno. */
int subnet_say_fold(struct subnet *subnet);

/* port.c: what @now says, for an open port. Under net->lock. */
void subnet_port_take(struct port *port, const struct ctl_port *now);
bool subnet_port_is(const struct port *port);

#endif
