/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams from process to process: what one received and is for another goes over an abstract
 * Unix datagram socket that the other has bound, as a header of fixed layout and the packet.
 * The names are those of slots (slot.h) and of services (service.h).
 */
#ifndef VERBATIM_HOST_HAND_ON_H
#define VERBATIM_HOST_HAND_ON_H

#include "base/datagram.h"
#include "host/name.h"

/* Never blocks. 0; ECONNREFUSED: nobody has @name; EAGAIN: its queue is full; errno of sendmsg. */
int hand_on_send(int fd, const struct name *name, const struct datagram *datagram);
/* Before hand_on_receive(): the kernel says who sends. 0 or errno. */
int hand_on_prepare(int fd);
/*
 * handed_on is set; data goes to @buffer. 0; EAGAIN: none; EBADMSG: not one of these; EPERM: of a user who
 * does not have the port (port_owner.h), and so no packet of a network.
 */
int hand_on_receive(int fd, struct datagram *datagram, uint8_t *buffer, size_t size);

#endif
