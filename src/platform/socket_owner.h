/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owner of an abstract Unix datagram socket. SO_PEERCRED covers streams only and /proc lists no users;
 * sock_diag(7) does.
 */
#ifndef VERBATIM_PLATFORM_SOCKET_OWNER_H
#define VERBATIM_PLATFORM_SOCKET_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The user who made the SOCK_DGRAM socket with the abstract name @name (without its NUL), in this thread's network
 * namespace: as this user namespace maps users, the overflow UID for one that it does not map. Takes time in
 * proportion to the Unix sockets there are. 0; ENOENT: no socket has it; errno: the kernel does not tell.
 */
int socket_owner(const char *name, uid_t *uid);

/* A socket that has a name. */
struct socket_seen {
	const char *name;		/* without its NUL in front */
	int type;			/* SOCK_DGRAM, ... */
	uid_t uid;
	uint32_t inode;
};

/* The same of each whose name begins with @prefix, of all types. 0 or errno: the kernel does not tell. */
int socket_owners(const char *prefix, void (*visit)(void *context, const struct socket_seen *seen), void *context);
/*
 * Of one @type and in one of @states, a bit for each, without users (uid is 0): what older kernels tell,
 * too. *visited, unless NULL: set with the first.
 */
int socket_names(uint32_t states, int type, const char *prefix,
		 void (*visit)(void *context, const struct socket_seen *seen), void *context, bool *visited);

#endif
