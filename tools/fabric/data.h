/* SPDX-License-Identifier: BSD-2-Clause */
/* What data.c and plane.c have in common: who is attached where. */
#ifndef VERBATIM_TOOLS_FABRIC_DATA_H
#define VERBATIM_TOOLS_FABRIC_DATA_H

#include "fabric/visitor.h"
#include "wire/qpn.h"

#define DATA_BUCKETS		4096u

struct plane_image;
struct plane_tally;

struct data_port {
	uint32_t node, events;		/* events: a mask of what has not been told */
	bool changed;
	struct ctl_port last;		/* as it was told */
};

/* A node that has been attached to, with all its HCAs. */
struct data_host {
	struct list node;
	uint32_t number;
	struct list attached;
	struct visitor *slot[SLOT_COUNT];
	struct list services;		/* gmp.c */
	unsigned ports;
	struct data_port *port;
};

struct attached {
	struct list node;		/* of the host */
	struct visitor *visitor;
	struct data_host *host;
	uint32_t slot[CTL_SLOTS_MAX];
	unsigned slots, groups, services, members;
	unsigned wrong_claims;
	struct list group;
	struct list service, member;	/* gmp.c */
	struct list dirty;		/* of the plane: its queue is to be written */
	bool is_dirty;
	/* flow control */
	struct list waiters;		/* senders that its queue has paused */
	struct list waiting;		/* of the one that this one waits for */
	struct attached *waits_for;
	uint32_t wait_node[2], wait_port[2];	/* its own port, and the one before the receiver */
	struct list full;		/* of the plane, if it has waiters */
	uint64_t read_us;		/* some of it was read, or it has had waiters since */
	uint64_t looked_us, cpu_us;	/* the last look; the processor time that it had used then */
	uint64_t idle_us, held_us;	/* own time in which it read nothing; too little */
	bool stalled;
	uint64_t sent, received, refused, discarded;
	struct plane_tally *tally;	/* of packets that it hands over by itself; or NULL */
};

struct data_plane {
	struct data_host **host;	/* by node; NULL: nobody has been attached there */
	uint32_t host_count;
	struct list hosts, dirty, full;
	struct data_group *bucket[DATA_BUCKETS];
	bool changed;			/* some port is */
	struct visitor *sender;		/* whose packet is on its way, from: */
	uint32_t sender_node, sender_port;
	struct plane_image *image;	/* NULL: there is no memory for it */
};

/* ---- data.c ---- */

struct data_port *data_port_find(struct data_host *host, uint32_t hca, uint32_t port);
struct data_port *data_port_at(struct data_host *host, uint32_t node, uint32_t port);
bool data_has_slot(const struct attached *attached, uint32_t slot);
/* A packet joins what the program has not read. */
enum fabric_arrival data_deliver(struct room *room, struct visitor *visitor,
				 const struct ctl_port *port, const uint8_t *packet, size_t bytes);
/* What its packets have come to. */
void data_flush(struct data_plane *plane);

/* ---- gmp.c ---- */

/* A packet of a program's QP1, LRH to ICRC. False: it is none that may be sent. */
bool gmp_send(struct visitor *visitor, struct data_port *port, const uint8_t *packet, size_t bytes);
/* Its program is gone: so are its services, and what it has joined it leaves. */
void gmp_detach(struct attached *attached);

/* ---- plane.c ---- */

/* NULL: none; then all packets come by here. */
struct plane_image *plane_image_new(struct room *room);
void plane_image_free(struct plane_image *image);
/* At the end of a turn: what has changed. */
void plane_update(struct room *room, struct plane_image *image);
/* The number of a port in the image. */
uint32_t plane_port(const struct plane_image *image, uint32_t node, uint32_t port);
void plane_set_host(struct plane_image *image, uint32_t node, uint32_t host);
/* @host: its number + 1; 0: nobody has the slot; IMAGE_NONE: programs of several hosts have it. */
void plane_set_slot(struct plane_image *image, uint32_t slot, uint32_t host);
/* Ends the answer to ATTACH with image and tally; NULL: nothing was sent. */
struct plane_tally *plane_give(struct visitor *visitor);
/* Adds what a program at the host has counted to the ports. @tally may be NULL, as below. */
void plane_fold(struct room *room, struct plane_tally *tally, const struct data_host *host);
/* All entries are free again. */
void plane_tally_reset(struct plane_tally *tally);
void plane_tally_free(struct plane_tally *tally);

#endif
