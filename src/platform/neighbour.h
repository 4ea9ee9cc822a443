/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does the next hop of a route answer? The kernel keeps a table of neighbours by ARP and neighbour discovery; an
 * adapter's driver waits for an entry before it makes an address handle or connects a queue pair.
 */
#ifndef VERBATIM_PLATFORM_NEIGHBOUR_H
#define VERBATIM_PLATFORM_NEIGHBOUR_H

#include "platform/netdev.h"

#define NEIGHBOUR_WAIT_MS 1000u		/* as Linux's ib_core */

/*
 * Waits until the next hop on @route from @source to @destination is known; one that is known already costs a
 * question. 0; ETIMEDOUT: it does not answer. What cannot be found out, or was interrupted by a signal, is 0.
 */
int neighbour_await(struct netlink *netlink, const struct netdev_route *route, const uint8_t source[16],
		    const uint8_t destination[16]);

/*
 * The same without waiting: does the next hop answer, or is nothing known of it? If not, the kernel
 * is made to look for it, and the next call says what came of that.
 */
bool neighbour_answers(struct netlink *netlink, const struct netdev_route *route, const uint8_t source[16],
		       const uint8_t destination[16]);

/*
 * Without waiting: the hardware address of @destination, which is on the link of @interface. False: it is not
 * known; the kernel is made to look for it, from @source, and the next call may find it. (Since Linux 5.0.)
 */
bool neighbour_mac(struct netlink *netlink, uint32_t interface, const uint8_t source[16],
		   const uint8_t destination[16], uint8_t mac[6]);

#endif
