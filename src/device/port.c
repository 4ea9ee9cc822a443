/* SPDX-License-Identifier: BSD-2-Clause */
/* The ports of a device by number: which there are, their P_Keys and the routes that leave them. */
#include <errno.h>

#include "base/log.h"
#include "device/internal.h"

struct port *context_port(const struct hca_context *context, uint32_t number)
{
	return number - 1 < context->port_count ? context->ports[number - 1] : NULL;
}

uint32_t hca_ports(const struct hca_context *context)
{
	return context->port_count;
}

uint32_t hca_gids(const struct hca_context *context, uint32_t number)
{
	const struct port *port = context_port(context, number);

	return port ? port->gids : 0;
}

const char *context_ports_text(const struct hca_context *context)
{
	return context->port_count == 1 ? "port 1 only" : "ports 1 and 2";
}

int context_resolve(const struct hca_context *context, const struct ibv_ah_attr *attr, const char *who,
		    struct route *route)
{
	const struct port *port = context_port(context, attr->port_num);

	if (port)
		return port->ops->resolve(&context->hca->net, port, attr, who, route);
	explain("%s: ah_attr.port_num %u: the device has %s", who, attr->port_num, context_ports_text(context));
	return EINVAL;
}

uint16_t context_pkey(const struct hca_context *context, uint32_t number, uint32_t index)
{
	const struct port *port = context_port(context, number);

	return port && index < port->pkeys ?
		       atomic_load_explicit(&port->pkey[index], memory_order_relaxed) : 0;
}
