/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams from process to process: what one received and is for another goes over an abstract
 * Unix datagram socket that the other has bound, as a header of fixed layout and the packet.
 * The names are those of slots (slot.h) and of services (service.h).
 */
#ifndef VERBATIM_HOST_HAND_ON_H
#define VERBATIM_HOST_HAND_ON_H

#include <sys/socket.h>
#include <sys/un.h>

#include "base/datagram.h"

/* A socket to bind or to send by; -1: errno. */
int hand_on_socket(void);
/* Fills @name with the abstract name @text; returns its length. */
socklen_t hand_on_name(struct sockaddr_un *name, const char *text);

/* Never blocks. 0; ECONNREFUSED: nobody has @name; EAGAIN: its queue is full; errno of sendmsg. */
int hand_on_send(int fd, const struct sockaddr_un *name, socklen_t name_bytes,
		 const struct datagram *datagram);
/* handed_on is set; data goes to @buffer. 0; EAGAIN: none; EBADMSG: not one of these. */
int hand_on_receive(int fd, struct datagram *datagram, uint8_t *buffer, size_t size);

#endif
