/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of this thread's network namespace, as the kernel lists them. Asked by sock_diag(7), where
 * the kernel itself leaves out what is not wanted; where that cannot be had (a sandbox, a kernel without
 * it) the lists of proc(5) are read, as long as they are. Either way of all users, without privileges.
 */
#ifndef VERBATIM_PLATFORM_SOCKET_LIST_H
#define VERBATIM_PLATFORM_SOCKET_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "platform/socket_owner.h"

struct udp_seen {
	uint8_t address[16];		/* that it is bound to, of IPv4 as ::ffff:a.b.c.d */
	bool any;			/* that is all addresses of its family */
	uid_t uid;			/* as this user namespace maps users */
	uint32_t inode;
};

/*
 * The sockets of UDP port @port; @family: AF_INET or AF_INET6. The list comes in pieces: one that comes
 * or goes meanwhile may be left out, and others may be seen twice. 0 or errno: the list cannot be had,
 * or not all of it.
 */
int socket_list_udp(int family, uint16_t port, void (*visit)(void *context, const struct udp_seen *seen),
		    void *context);

/*
 * The abstract Unix sockets of @type whose names begin with @prefix; of a connection-mode type those that
 * listen, and not the connections that have their name. Without users. 0 or errno, as above.
 */
int socket_list_names(int type, const char *prefix,
		      void (*visit)(void *context, const struct socket_seen *seen), void *context);

#endif
