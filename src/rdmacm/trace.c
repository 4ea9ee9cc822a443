/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of librdmacm in a trace. What is said of the id is noted before the call: afterwards another thread
 * may have destroyed it.
 */
#include <arpa/inet.h>
#include <stdio.h>

#include "rdmacm/rdmacm.h"

void traced_begin_slowly(struct traced *traced, const struct rdma_cm_id *id, const struct sockaddr *peer)
{
	const struct sockaddr_in6 *in6;
	const struct sockaddr_in *in;
	char name[INET6_ADDRSTRLEN];

	traced->began_ns = tracepoint_now_ns();
	traced->qpn = 0;
	traced->peer[0] = '\0';
	if (!id)
		return;
	traced->qpn = id->qp ? id->qp->qp_num : 0;
	if (!peer)
		peer = &id->route.addr.dst_addr;
	in = (const void *)peer;
	in6 = (const void *)peer;
	/* "192.0.2.1:7471", or nothing. */
	if (peer->sa_family == AF_INET && inet_ntop(AF_INET, &in->sin_addr, name, sizeof(name)))
		snprintf(traced->peer, sizeof(traced->peer), "%s:%u", name, ntohs(in->sin_port));
	else if (peer->sa_family == AF_INET6 && inet_ntop(AF_INET6, &in6->sin6_addr, name, sizeof(name)))
		snprintf(traced->peer, sizeof(traced->peer), "[%s]:%u", name, ntohs(in6->sin6_port));
}

void traced_end_slowly(const struct traced *traced, const char *call, int rc)
{
	int saved = errno;

	tracepoint(cm_call, .name = call, .qp = traced->qpn, .id = traced->id,
		   .peer = traced->peer[0] ? traced->peer : NULL, .ns = traced->began_ns,
		   .error = rc ? errno : 0);
	errno = saved;
}
