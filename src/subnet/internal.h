/* SPDX-License-Identifier: BSD-2-Clause */
/* Interface between the files of subnet/. */
#ifndef VERBATIM_SUBNET_INTERNAL_H
#define VERBATIM_SUBNET_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "ib/client.h"
#include "subnet/subnet.h"

#define ENDS_MAX 8u /* ports of a node's HCAs */
#define RECEIVE_MAX 16u
#define SUBNET_ADDRESSES 32u /* of a node */
#define MESSAGE_MAX (sizeof(struct ctl_head) + CTL_PACKET_MAX)

enum { PORT_STATE_DOWN = 1, PORT_STATE_ACTIVE = 4, PHYS_POLLING = 2 };

/* A port of the node, as this process knows it. */
struct subnet_end {
	uint16_t port; /* IB_WAY_PORT */
	/* LID, LMC << 16, is it Active << 24: what senders look at, without a lock. */
	_Atomic uint32_t address;
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
	uint16_t port;
	uint8_t ip[16];
};

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
	_Atomic uint64_t full_ns;  /* since when the socket takes nothing; 0: it does */

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

	uint8_t *buffer; /* [RECEIVE_MAX][MESSAGE_MAX], of who receives */
};

/* NULL: the node has no such port. */
struct subnet_end *subnet_find_end(struct subnet *subnet, uint16_t port);
/* What a CHANGED says; any thread. */
void subnet_note_change(struct subnet *subnet, uint64_t events, const struct ctl_port *port);
/* The connection has ended; any thread. */
void subnet_note_end(struct subnet *subnet);
/* Do packets of that group to the port come back to us? */
bool subnet_is_joined(struct subnet *subnet, uint16_t port, uint16_t mlid);
/* Texts end where they have to, and codes are some that there are, whoever wrote them. */
void subnet_bound_port(struct ctl_port *port);
extern const struct link_ops subnet_link_ops;

/* address.c: to a fabric that came back. */
void subnet_services_again(struct subnet *subnet) REQUIRES(subnet->lock);

/* port.c: what @now says, for an open port. Under net->lock. */
void subnet_port_take(struct port *port, const struct ctl_port *now);
bool subnet_port_is(const struct port *port);

#endif
