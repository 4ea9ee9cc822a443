/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo(3), rdma_freeaddrinfo(3): getaddrinfo(3) in terms of QP types and port spaces.
 * Answers what getaddrinfo answers (EAI_*), or -1 and errno. One result; no route in it: RoCE
 * routes as IP does, rdma_resolve_route() finds it.
 */
#include <endian.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rdmacm.h"

static int socket_type(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int addrinfo_protocol(int port_space, int type)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		return IPPROTO_TCP;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IPPROTO_UDP;
	case RDMA_PS_IB:
		return type == SOCK_STREAM ? IPPROTO_TCP : type == SOCK_DGRAM ? IPPROTO_UDP : 0;
	default:
		return 0;
	}
}

static void convert_hints(const struct rdma_addrinfo *hints, struct addrinfo *out)
{
	memset(out, 0, sizeof(*out));
	if (hints->ai_flags & RAI_PASSIVE)
		out->ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		out->ai_flags |= AI_NUMERICHOST;
	if (hints->ai_family != AF_IB) {
		out->ai_family = hints->ai_family;
	} else if (hints->ai_flags & RAI_FAMILY) {
		/* GIDs are written as IPv6 addresses are; that of an IPv4 address as that, too. */
		out->ai_family = AF_INET6;
		out->ai_flags |= AI_V4MAPPED;
	}
	out->ai_socktype = socket_type(hints->ai_qp_type);
	out->ai_protocol = addrinfo_protocol(hints->ai_port_space, out->ai_socktype);
}

static int copy_address(const void *from, socklen_t bytes, struct sockaddr **to, socklen_t *to_bytes)
{
	*to = malloc(bytes);
	if (!*to)
		return -1;
	memcpy(*to, from, bytes);
	*to_bytes = bytes;
	return 0;
}

/* A GID that was written as an IPv6 address; the port becomes part of the service ID. */
static int copy_as_gid(const struct sockaddr_in6 *from, int port_space, struct sockaddr **to,
		       socklen_t *to_bytes)
{
	uint16_t port = be16toh(from->sin6_port);
	uint64_t mask = (port_space ? RDMA_IB_IP_PS_MASK : 0) | (port ? RDMA_IB_IP_PORT_MASK : 0);
	struct sockaddr_ib address = {
		.sib_family = AF_IB,
		.sib_pkey = htobe16(0xffff),
		.sib_flowinfo = from->sin6_flowinfo,
		.sib_sid = htobe64(((uint64_t)port_space << 16) + port),
		.sib_sid_mask = htobe64(mask),
		.sib_scope_id = from->sin6_scope_id,
	};

	memcpy(&address.sib_addr, &from->sin6_addr, sizeof(address.sib_addr));
	return copy_address(&address, sizeof(address), to, to_bytes);
}

static int convert_result(struct rdma_addrinfo *out, const struct rdma_addrinfo *hints,
			  const struct addrinfo *found)
{
	bool passive = hints->ai_flags & RAI_PASSIVE;
	bool gid = hints->ai_family == AF_IB && (hints->ai_flags & RAI_FAMILY) &&
		   (hints->ai_flags & RAI_NUMERICHOST) && found->ai_family == AF_INET6;
	struct sockaddr **address = passive ? &out->ai_src_addr : &out->ai_dst_addr;
	socklen_t *bytes = passive ? &out->ai_src_len : &out->ai_dst_len;
	char **name = passive ? &out->ai_src_canonname : &out->ai_dst_canonname;

	out->ai_qp_type = hints->ai_qp_type;
	if (!out->ai_qp_type && found->ai_socktype == SOCK_STREAM)
		out->ai_qp_type = IBV_QPT_RC;
	if (!out->ai_qp_type && found->ai_socktype == SOCK_DGRAM)
		out->ai_qp_type = IBV_QPT_UD;
	out->ai_port_space = hints->ai_port_space;
	if (!out->ai_port_space && found->ai_protocol == IPPROTO_TCP)
		out->ai_port_space = RDMA_PS_TCP;
	if (!out->ai_port_space && found->ai_protocol == IPPROTO_UDP)
		out->ai_port_space = RDMA_PS_UDP;
	out->ai_flags = passive ? RAI_PASSIVE : 0;
	out->ai_family = gid ? AF_IB : found->ai_family;
	if (found->ai_canonname) {
		*name = strdup(found->ai_canonname);
		if (!*name)
			return -1;
	}
	if (gid)
		return copy_as_gid((const struct sockaddr_in6 *)found->ai_addr,
				   out->ai_port_space, address, bytes);
	return copy_address(found->ai_addr, found->ai_addrlen, address, bytes);
}

static int by_name(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *out)
{
	static const struct rdma_addrinfo none;
	struct addrinfo *found, wanted;
	int rc;

	if (hints)
		convert_hints(hints, &wanted);
	rc = getaddrinfo(node, service, hints ? &wanted : NULL, &found);
	if (rc)
		return rc;
	rc = convert_result(out, hints ? hints : &none, found);
	freeaddrinfo(found);
	return rc;
}

/* Neither node nor service: what the hints say is the answer. */
static int by_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *out)
{
	out->ai_flags = hints->ai_flags;
	out->ai_family = hints->ai_family;
	out->ai_qp_type = hints->ai_qp_type;
	out->ai_port_space = hints->ai_port_space;
	if (!hints->ai_dst_len)
		return 0;
	return copy_address(hints->ai_dst_addr, hints->ai_dst_len, &out->ai_dst_addr,
			    &out->ai_dst_len);
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *info;
	int rc;

	if (!res || (!node && !service && !hints))
		return refuse(EINVAL, "rdma_getaddrinfo: %s (null pointer)", res ?
			      "no node, service or hints" : "no place for the result");
	info = calloc(1, sizeof(*info));
	if (!info)
		return -1;
	rc = node || service ? by_name(node, service, hints, info) : by_hints(hints, info);
	if (!rc && !info->ai_src_len && hints && hints->ai_src_len)
		rc = copy_address(hints->ai_src_addr, hints->ai_src_len, &info->ai_src_addr,
				  &info->ai_src_len);
	if (rc) {
		rdma_freeaddrinfo(info);
		return rc;
	}
	*res = info;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}
