/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners, by service ID. Several may listen on one: at different addresses, at any address of a
 * family. Requests that wait for an answer of the listener's owner are limited, since peers cause
 * them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/ip_addr.h"
#include "cm/protocol/internal.h"

static const uint8_t any_address[16];

static uint64_t service_hash(const struct cm_protocol *protocol, uint64_t service_id)
{
	return id_hash(protocol->seed, service_id);
}

/* The next listener on @service_id behind @after (NULL: the first). */
static struct cm_listener *next_listener(const struct cm_protocol *protocol, uint64_t service_id,
					 const struct cm_listener *after)
{
	const struct id_node *node = after ? &after->by_service : NULL;
	uint64_t hash = service_hash(protocol, service_id);

	while ((node = id_table_find(&protocol->by_service, hash, node))) {
		struct cm_listener *listener = container_of(node, struct cm_listener, by_service);

		if (listener->service_id == service_id)
			return listener;
	}
	return NULL;
}

static bool families_meet(int one, int other)
{
	return one == AF_UNSPEC || other == AF_UNSPEC || one == other;
}

int cm_listen(struct cm_protocol *protocol, uint64_t service_id, const uint8_t address[16],
	      int family, void *owner, struct cm_listener **listener)
{
	struct cm_listener *made, *other = NULL;

	while ((other = next_listener(protocol, service_id, other)))
		if (!memcmp(other->address, address, 16) &&
		    (memcmp(address, any_address, 16) || families_meet(other->family, family)))
			return EADDRINUSE;
	made = calloc(1, sizeof(*made));
	if (!made)
		return ENOMEM;
	made->protocol = protocol;
	made->service_id = service_id;
	memcpy(made->address, address, 16);
	made->family = family;
	made->owner = owner;
	made->limit = CM_PENDING_MAX;
	list_add_tail(&protocol->listeners, &made->node);
	id_table_insert(&protocol->by_service, &made->by_service,
			service_hash(protocol, service_id));
	*listener = made;
	return 0;
}

void cm_listener_limit(struct cm_listener *listener, unsigned pending)
{
	listener->limit = pending;
}

/* Rare: looks at all connections for those whose answer it was to give. */
void cm_listener_free(struct cm_listener *listener, uint64_t now_ns)
{
	struct cm_protocol *protocol = listener->protocol;
	struct list *node;

	if (listener->pending)
		list_for_each(node, &protocol->connections) {
			struct cm_connection *connection =
				list_entry(node, struct cm_connection, node);

			if (connection->listener == listener)
				cm_listener_drops(connection);
		}
	id_table_remove(&protocol->by_service, &listener->by_service);
	list_remove(&listener->node);
	free(listener);
}

bool cm_listener_has_room(const struct cm_listener *listener)
{
	return listener->pending < listener->limit;
}

void cm_listener_adds(struct cm_listener *listener, struct cm_connection *connection)
{
	connection->listener = listener;
	listener->pending++;
}

void cm_listener_drops(struct cm_connection *connection)
{
	connection->listener->pending--;
	connection->listener = NULL;
}

/* ---- the listener of a request ---- */

static struct cm_listener *find_exact(const struct cm_protocol *protocol, uint64_t service_id,
				      const uint8_t address[16])
{
	struct cm_listener *listener = NULL;

	if (!memcmp(address, any_address, 16))
		return NULL;
	while ((listener = next_listener(protocol, service_id, listener)))
		if (!memcmp(listener->address, address, 16))
			return listener;
	return NULL;
}

static struct cm_listener *find_any(const struct cm_protocol *protocol, uint64_t service_id,
				    int family)
{
	struct cm_listener *listener = NULL;

	while ((listener = next_listener(protocol, service_id, listener)))
		if (!memcmp(listener->address, any_address, 16) &&
		    families_meet(listener->family, family))
			return listener;
	return NULL;
}

/*
 * Addresses that the request names, the best first. The header of the IP CM service may be missing
 * (AF_IB), and what looks like one may be private data: the others are tried too.
 */
struct cm_listener *cm_find_listener(struct cm_protocol *protocol,
				     const struct cm_message *message,
				     const struct mad_address *from)
{
	bool is_req = message->kind == CM_MESSAGE_REQ;
	uint64_t service_id = is_req ? message->req.service_id : message->sidr_req.service_id;
	struct cm_listener *listener = NULL;
	const uint8_t *named[3];
	struct cm_ip_addresses ip;
	unsigned count = 0;

	if (!next_listener(protocol, service_id, NULL))
		return NULL;
	if (cm_message_ip(message, &ip))
		named[count++] = ip.destination;
	if (is_req)
		named[count++] = message->req.remote_gid;
	named[count++] = from->local;
	for (unsigned i = 0; !listener && i < count; i++)
		listener = find_exact(protocol, service_id, named[i]);
	for (unsigned i = 0; !listener && i < count; i++)
		listener = find_any(protocol, service_id,
				    ip_addr_is_ipv4(named[i]) ? AF_INET : AF_INET6);
	return listener;
}
