/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port 4791 bound address by address, where another program has it on some addresses of this host and so keeps us
 * from all of them together. What comes to its addresses goes to that program; the others work. No selector
 * distributes what comes to these sockets: processes that share an address forward to each other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ip_addr.h"
#include "link/udp_internal.h"
#include "platform/netdev.h"
#include "platform/socket_list.h"

static void address_close(struct udp_addresses *addresses)
{
	while (addresses->count)
		close(addresses->fd[--addresses->count]);
}

void udp_addresses_close(struct udp_link *udp)
{
	unsigned family;

	for (family = 0; family < UDP_FAMILY_COUNT; family++) {
		address_close(&udp->addresses[family]);
		atomic_store(&udp->addresses[family].taken_count, 0);
	}
}

static void address_note(struct udp_addresses *addresses, const uint8_t address[16])
{
	unsigned i, count = atomic_load(&addresses->taken_count);

	for (i = 0; i < count; i++)
		if (!memcmp(addresses->taken[i], address, 16))
			return;
	if (count == UDP_ADDRESSES_MAX)
		return;
	memcpy(addresses->taken[count], address, 16);
	atomic_store(&addresses->taken_count, count + 1);
}

/* One address. 0: bound, or taken by another program; errno. */
static int address_try(struct udp_addresses *addresses, enum udp_family family, const uint8_t address[16],
		       udp_opener *open)
{
	int fd, err = open(family, address, &fd);

	if (!err && fd >= 0)
		addresses->fd[addresses->count++] = fd;
	if (err != EADDRINUSE)
		return err;
	address_note(addresses, address);
	return 0;
}

/*
 * An address of lo that no program has any use for: if it is taken, so are all addresses, by rdma_rxe or
 * another user's Verbatim.
 */
static const uint8_t nobodys[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, 47, 91, 1 };

int udp_addresses_bind(struct udp_link *udp, enum udp_family family, udp_opener *open)
{
	struct udp_addresses *addresses = &udp->addresses[family];
	struct netdev *list;
	int i, count, err = netdev_list(&list, &count);

	if (err)
		return EADDRINUSE;
	for (i = 0; !err && i < count; i++)
		for (unsigned a = 0; !err && a < list[i].address_count; a++) {
			const struct netdev_address *address = &list[i].address[a];

			/* A link-local address needs its interface: those of one family are few, and left out. */
			if (udp_family_of(address->address) != family || address->tentative ||
			    (family == UDP_IPV6 && address->link_local) ||
			    addresses->count == UDP_ADDRESSES_MAX - 1)
				continue;
			err = address_try(addresses, family, address->address, open);
		}
	free(list);
	if (!err && family == UDP_IPV4)
		err = address_try(addresses, family, nobodys, open);
	/* Without a free address of IPv6 IPv4 works; whoever has all addresses has those of IPv4, too. */
	if (!err && (addresses->count || family == UDP_IPV6))
		return 0;
	address_close(addresses);
	atomic_store(&addresses->taken_count, 0);
	return err ? err : EADDRINUSE;
}

static void address_take_seen(void *context, const struct udp_seen *seen)
{
	struct udp_addresses *addresses = context;
	bool multicast = ip_addr_is_ipv4(seen->address) ? seen->address[12] >= 224 : seen->address[0] == 0xff;

	if (!seen->any && !multicast && memcmp(seen->address, nobodys, 16))
		address_note(addresses, seen->address);
}

/*
 * Of processes that are bound, the kernel lets a later one of the same user bind all addresses, whatever
 * another program has: its list of sockets tells. An address that an earlier process of ours has for itself
 * is in it as well; what is handed straight to the process that serves there arrives all the same.
 */
void udp_addresses_look(struct udp_link *udp)
{
	(void)socket_list_udp(AF_INET, ROCE_UDP_PORT, address_take_seen, &udp->addresses[UDP_IPV4]);
	(void)socket_list_udp(AF_INET6, ROCE_UDP_PORT, address_take_seen, &udp->addresses[UDP_IPV6]);
}

bool udp_address_is_taken(const struct link *link, const uint8_t address[16])
{
	enum udp_family family = udp_family_of(address);
	const struct udp_addresses *addresses = &udp_of(link)->addresses[family];
	unsigned i, count = atomic_load(&addresses->taken_count);
	/* All of 127.0.0.0/8 is lo's, which has one address. */
	size_t bytes = family == UDP_IPV4 && address[12] == 127 ? 13 : 16;

	for (i = 0; i < count; i++)
		if (!memcmp(addresses->taken[i], address, bytes))
			return true;
	return false;
}

const uint8_t *udp_first_taken(const struct link *link)
{
	unsigned family;

	for (family = 0; family < UDP_FAMILY_COUNT; family++)
		if (atomic_load(&udp_of(link)->addresses[family].taken_count))
			return udp_of(link)->addresses[family].taken[0];
	return NULL;
}
