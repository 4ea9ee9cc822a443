/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and routes of an id: rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3),
 * rdma_listen(3), rdma_get_src_port(3), rdma_get_dst_port(3).
 */
#include <endian.h>
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rdmacm.h"

uint16_t address_port(const struct sockaddr *address)
{
	switch (address->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)address)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)address)->sin6_port;
	case AF_IB:	/* the low 16 bits of a service ID of the IP port spaces */
		return htobe16((uint16_t)be64toh(((const struct sockaddr_ib *)address)->sib_sid));
	default:
		return 0;
	}
}

int id_refresh(struct id *id)
{
	struct rdma_route *route = &id->public.route;
	struct rdma_addr *address = &route->addr;
	struct endpoint_info info;
	int err;

	endpoint_query(id->endpoint, &info);
	if (!id->device && info.device[0]) {
		err = cm_device_get(info.device, &id->device);
		if (err)
			return err;
		id->public.verbs = id->device->verbs;
		id->public.port_num = info.port;
		if (!id->public.pd)
			id->public.pd = id->device->pd;
	}
	address->src_storage = info.source;
	if (info.destination.ss_family)
		address->dst_storage = info.destination;
	address->addr.ibaddr.sgid = info.sgid;
	address->addr.ibaddr.dgid = info.dgid;
	address->addr.ibaddr.pkey = htobe16(info.pkey);
	if (!info.has_route)
		return 0;
	if (!route->path_rec)
		route->path_rec = malloc(sizeof(*route->path_rec));
	if (!route->path_rec)
		return ENOMEM;
	*route->path_rec = info.path;
	route->num_paths = 1;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *public, struct sockaddr *addr)
{
	CALL();
	struct id *id = to_id(public);
	struct traced traced;
	int rc, err;

	traced_begin(&traced, public, NULL);
	if (!id || !address_bytes(addr)) {
		rc = refuse(EINVAL, "rdma_bind_addr: %s", !id ? "no id (null pointer)" :
			    "the address is not of IPv4, IPv6 or AF_IB");
	} else {
		err = endpoint_bind(id->endpoint, addr);
		rc = result(err ? err : id_refresh(id));
	}
	return traced_end(&traced, "rdma_bind_addr", rc);
}

int rdma_resolve_addr(struct rdma_cm_id *public, struct sockaddr *src_addr,
		      struct sockaddr *dst_addr, int timeout_ms)
{
	CALL();
	struct id *id = to_id(public);
	socklen_t bytes = address_bytes(dst_addr);
	struct traced traced;
	int rc, err;

	traced_begin(&traced, public, dst_addr);
	if (!id || !bytes || (src_addr && !address_bytes(src_addr))) {
		rc = refuse(EINVAL, "rdma_resolve_addr: %s", !id ? "no id (null pointer)" :
			    !bytes ? "the destination address is not of IPv4, IPv6 or AF_IB" :
				     "the source address is not of IPv4, IPv6 or AF_IB");
	} else {
		err = endpoint_resolve_address(id->endpoint, src_addr, dst_addr, timeout_ms);
		if (!err)
			memcpy(&public->route.addr.dst_storage, dst_addr, bytes);
		rc = err ? result(err) : id_complete(id);
	}
	return traced_end(&traced, "rdma_resolve_addr", rc);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	CALL();
	struct traced traced;
	int rc, err;

	traced_begin(&traced, id, NULL);
	if (!id) {
		rc = refuse(EINVAL, "rdma_resolve_route: no id (null pointer)");
	} else {
		err = endpoint_resolve_route(to_id(id)->endpoint, timeout_ms);
		rc = err ? result(err) : id_complete(to_id(id));
	}
	return traced_end(&traced, "rdma_resolve_route", rc);
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	CALL();
	struct traced traced;
	int rc, err;

	traced_begin(&traced, id, NULL);
	if (!id) {
		rc = refuse(EINVAL, "rdma_listen: no id (null pointer)");
	} else {
		err = endpoint_listen(to_id(id)->endpoint, backlog);
		rc = result(err ? err : id_refresh(to_id(id)));
	}
	return traced_end(&traced, "rdma_listen", rc);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return address_port(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return address_port(&id->route.addr.dst_addr);
}
