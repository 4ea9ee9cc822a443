/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Next hops, without privileges: the table is asked by rtnetlink, and an empty datagram to the discard port makes
 * the kernel look for an entry that is missing. Its hop limit is 1, since only the next hop matters.
 *
 * Only an entry that the kernel itself calls incomplete or failed is believed to be a silent neighbour. Interfaces
 * without ARP have no such entries, and where questions are not answered nothing is known.
 */
#include "platform/neighbour.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/call.h"
#include "base/ip_addr.h"
#include "platform/clock.h"

#define PORT_DISCARD	9
#define STEP_MAX_MS	16
#define NEIGHBOUR_SILENT	(NUD_INCOMPLETE | NUD_FAILED)

struct neighbour_entry {
	uint16_t state;			/* NUD_*; 0: none */
	bool has_mac;
	uint8_t mac[6];
};

static int take_entry(const struct nlmsghdr *message, void *context)
{
	const struct ndmsg *neighbour = mnl_nlmsg_get_payload(message);
	struct neighbour_entry *entry = context;
	const struct nlattr *attribute;

	if (message->nlmsg_type != RTM_NEWNEIGH)
		return MNL_CB_STOP;
	entry->state = neighbour->ndm_state;
	mnl_attr_for_each(attribute, message, sizeof(*neighbour))
		if (mnl_attr_get_type(attribute) == NDA_LLADDR &&
		    mnl_attr_get_payload_len(attribute) == sizeof(entry->mac)) {
			memcpy(entry->mac, mnl_attr_get_payload(attribute), sizeof(entry->mac));
			entry->has_mac = true;
		}
	return MNL_CB_STOP;
}

/* No entry, or no answer (before Linux 5.0 there is none for one neighbour): its state is 0. */
static struct neighbour_entry neighbour_find(struct netlink *netlink, const struct netdev_route *route)
{
	bool ipv4 = ip_addr_is_ipv4(route->hop);
	struct neighbour_entry entry = { 0 };
	unsigned skip = ipv4 ? 12 : 0;
	char buffer[128];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct ndmsg *neighbour;

	message->nlmsg_type = RTM_GETNEIGH;
	message->nlmsg_flags = NLM_F_REQUEST;
	neighbour = mnl_nlmsg_put_extra_header(message, sizeof(*neighbour));
	neighbour->ndm_family = ipv4 ? AF_INET : AF_INET6;
	neighbour->ndm_ifindex = (int)route->interface;
	mnl_attr_put(message, NDA_DST, 16 - skip, route->hop + skip);
	if (netlink_ask(netlink, message, take_entry, &entry))
		entry.state = 0;
	return entry;
}

static uint16_t neighbour_state(struct netlink *netlink, const struct netdev_route *route)
{
	return neighbour_find(netlink, route).state;
}

static void neighbour_provoke(const uint8_t source[16], const uint8_t destination[16], uint32_t interface)
{
	bool ipv4 = ip_addr_is_ipv4(destination), scoped = ip_addr_is_link_local_ipv6(destination);
	struct sockaddr_in from4 = { .sin_family = AF_INET }, to4 = { .sin_family = AF_INET };
	struct sockaddr_in6 from6 = { .sin6_family = AF_INET6 }, to6 = { .sin6_family = AF_INET6 };
	socklen_t bytes = ipv4 ? sizeof(to4) : sizeof(to6);
	int one = 1, fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	memcpy(&from4.sin_addr, source + 12, 4);
	memcpy(&from6.sin6_addr, source, 16);
	memcpy(&to4.sin_addr, destination + 12, 4);
	memcpy(&to6.sin6_addr, destination, 16);
	to4.sin_port = to6.sin6_port = htons(PORT_DISCARD);
	from6.sin6_scope_id = to6.sin6_scope_id = scoped ? interface : 0;
	(void)setsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TTL : IPV6_UNICAST_HOPS,
			 &one, sizeof(one));
	if (!bind(fd, ipv4 ? (void *)&from4 : (void *)&from6, bytes))
		(void)sendto(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, ipv4 ? (void *)&to4 : (void *)&to6, bytes);
	close(fd);
}

bool neighbour_answers(struct netlink *netlink, const struct netdev_route *route, const uint8_t source[16],
		       const uint8_t destination[16])
{
	uint16_t state = neighbour_state(netlink, route);

	if (!state || (state & NUD_FAILED)) {	/* while it is incomplete the kernel asks by itself */
		neighbour_provoke(source, destination, route->interface);
		state = neighbour_state(netlink, route);
	}
	return !(state & NEIGHBOUR_SILENT);
}

int neighbour_await(struct netlink *netlink, const struct netdev_route *route, const uint8_t source[16],
		    const uint8_t destination[16])
{
	uint64_t end_ns = clock_now_ns() + NEIGHBOUR_WAIT_MS * 1000000ull;
	uint16_t state = neighbour_state(netlink, route);
	int step_ms = 1;

	if (state && !(state & NEIGHBOUR_SILENT))
		return 0;
	neighbour_provoke(source, destination, route->interface);
	for (;;) {
		state = neighbour_state(netlink, route);
		if (!(state & NEIGHBOUR_SILENT))
			return 0;
		if ((state & NUD_FAILED) || clock_now_ns() >= end_ns)
			return ETIMEDOUT;
		if (call_nap(step_ms) < 0 && errno == EINTR && call_is_owed())
			return 0;
		step_ms = step_ms < STEP_MAX_MS ? 2 * step_ms : STEP_MAX_MS;
	}
}

bool neighbour_mac(struct netlink *netlink, uint32_t interface, const uint8_t source[16],
		   const uint8_t destination[16], uint8_t mac[6])
{
	struct netdev_route route = { .interface = interface };
	struct neighbour_entry entry;

	memcpy(route.hop, destination, sizeof(route.hop));
	entry = neighbour_find(netlink, &route);
	if (!entry.state || (entry.state & NEIGHBOUR_SILENT) || !entry.has_mac) {
		neighbour_provoke(source, destination, interface);
		return false;
	}
	memcpy(mac, entry.mac, sizeof(entry.mac));
	return true;
}
