/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forwarding datagrams between processes: a datagram that one received for another goes over an
 * abstract Unix datagram socket that the other has bound, as a header of fixed layout and the
 * packet. The names are those of slots (slot.h) and of services (service.h). Nonces, the proofs of
 * slots, travel the same way. Internal to host/.
 */
#ifndef VERBATIM_HOST_FORWARD_H
#define VERBATIM_HOST_FORWARD_H

#include "base/datagram.h"
#include "host/name.h"

/*
 * Never blocks. 0; ECONNREFUSED: no socket has @name; EAGAIN: its queue is full; errno of sendmsg.
 */
int forward_send(int fd, const struct abstract_name *name, const struct datagram *datagram);
/* A nonce in place of a packet; returns the same. */
int forward_send_nonce(int fd, const struct abstract_name *name, uint64_t nonce);
/* Call it before forward_receive(): the kernel then names the sender. 0 or errno. */
int forward_prepare(int fd);
/*
 * forwarded is set; data goes to @buffer. 0; EAGAIN: none; EBADMSG: malformed; EPERM: of a user
 * that does not have the port (port_owner.h), so not a packet of a network; ENOMSG: it was a nonce,
 * of any user: *nonce and *sender are filled (bytes 0: a socket without a name). Both may be NULL:
 * then a nonce is EBADMSG.
 */
int forward_receive(int fd, struct datagram *datagram, uint8_t *buffer, size_t size,
		    struct abstract_name *sender, uint64_t *nonce);

#endif
