/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose an abstract Unix datagram socket is. The name of a stream says it by SO_PEERCRED to who connects; a
 * datagram socket has no such thing, and the kernel's list in /proc no users: sock_diag (man 7 sock_diag) has.
 */
#ifndef VERBATIM_PLATFORM_SOCKET_OWNER_H
#define VERBATIM_PLATFORM_SOCKET_OWNER_H

#include <sys/types.h>

/*
 * The user who made the SOCK_DGRAM socket with the abstract name @name (without its NUL), in this thread's network
 * namespace: as this user namespace has them, the overflow user for one that it does not have. Takes time in
 * proportion to the Unix sockets there are. 0; ENOENT: nobody has it; errno: the kernel does not say.
 */
int socket_owner(const char *name, uid_t *uid);

#endif
