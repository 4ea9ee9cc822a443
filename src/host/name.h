/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abstract Unix sockets: how the processes of one network namespace find each other. They are not
 * files; the kernel frees a name when its socket is closed, for any reason.
 */
#ifndef VERBATIM_HOST_NAME_H
#define VERBATIM_HOST_NAME_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct abstract_name {
	struct sockaddr_un address;
	socklen_t bytes;
};

struct abstract_name name_of(const char *text);
/* @prefix and the number, in decimal. */
struct abstract_name name_of_slot(const char *prefix, uint32_t slot);

/* Of SOCK_DGRAM or SOCK_SEQPACKET, non-blocking, close-on-exec; -1: errno. */
int name_socket(int type);
int name_bind(int fd, const struct abstract_name *name);		/* 0 or errno: EADDRINUSE */
/* A SOCK_SEQPACKET that listens as @name. 0 or errno. */
int name_listen(const struct abstract_name *name, int backlog, int *fd);
/* 0; ECONNREFUSED: no socket has @name; EAGAIN: the listener's backlog is full; others. */
int name_connect(const struct abstract_name *name, int type, int *fd);
/*
 * Ends a connection. Call it when its descriptor is no longer recorded anywhere: another thread may
 * fork at this moment, and the child closes recorded descriptors, which could be another file's by
 * then. A child that inherited the descriptor does not keep the connection alive.
 */
void name_disconnect(int fd);

#endif
