/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses of ids and rsockets. */
#ifndef VERBATIM_RDMACM_SOCKADDR_H
#define VERBATIM_RDMACM_SOCKADDR_H

#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

/* 0: NULL or an unknown family. */
static inline socklen_t address_bytes(const struct sockaddr *address)
{
	switch (address ? address->sa_family : AF_UNSPEC) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

#endif
