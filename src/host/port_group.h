/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of one user that share port 4791, and the selection of the socket for each packet. A
 * classic BPF program on the destination QPN's slot bits selects the socket by its index in the
 * group; probes find out the kernel's order of indices: the program steers a probe datagram to
 * index i, and the member that receives it answers (over the slot sockets). The map is updated when
 * a process joins, or when a member receives a packet for another slot. Members forward foreign
 * packets (slot.h), so a stale map costs time, never packets.
 */
#ifndef VERBATIM_HOST_PORT_GROUP_H
#define VERBATIM_HOST_PORT_GROUP_H

#include "base/counters.h"
#include "host/slot.h"

struct port_group;

/* @slots: those of this process, @count of them; fds of udp_bound_fds(). */
int port_group_join(struct port_group **group, int fd4, int fd6, const struct slot *slots,
		    unsigned count, struct counters *counters);
void port_group_leave(struct port_group *group);
void port_group_add_slot(struct port_group *group, const struct slot *slot);
/* Announces the services of this process, so that the selector sends their requests here. */
void port_group_set_services(struct port_group *group, const uint64_t *ids, unsigned count,
			     uint64_t now_ns);

/* Is this received datagram a probe or answer of the group? If so, it is handled here. */
bool port_group_takes(struct port_group *group, const struct datagram *datagram);
/* A packet for @slot came to us by mistake: derive the map anew, soon. Cheap to call often. */
void port_group_stale(struct port_group *group, uint64_t now_ns);
/* When port_group_tick() wants to be called (TIME_NEVER: no need), and the call. Never blocks. */
uint64_t port_group_deadline(const struct port_group *group);
void port_group_tick(struct port_group *group, uint64_t now_ns);

/* Nothing is being derived: the selector is as good as it can be now. */
bool port_group_is_settled(struct port_group *group);

/*
 * Readable when a member came or left: then call port_group_tick(), also before the deadline.
 * Without it a member killed while another is stopped may cost packets until another member
 * notices.
 */
int port_group_event_fd(const struct port_group *group);

/*
 * While another user owns the port: an fd that becomes readable (hang-up) when one of the
 * owner's processes may have left, so that udp_bind() is worth another try. -1: none found.
 */
int port_owner_watch(void);

/* In a fork()ed child: close the group's own descriptors, touch nothing else. */
void port_group_abandon(struct port_group *group);

#endif
