/* SPDX-License-Identifier: BSD-2-Clause */
/* Which interfaces become devices, in which order, under which names (VERBATIM_DEVICES). */
#ifndef VERBATIM_NET_NAMING_H
#define VERBATIM_NET_NAMING_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "platform/netdev.h"

#define DEVICE_NAME_MAX 64	/* IBV_SYSFS_NAME_MAX */

struct named_netdev {
	struct netdev netdev;
	char name[DEVICE_NAME_MAX];
};

/*
 * The interfaces of @list that are up, have an address and are allowed, named and in order
 * (routable ones first, lo last, unless the configuration orders them). *named is malloc'ed.
 * 0, EINVAL (configuration; said), ENOMEM.
 */
int naming_apply(const struct config *config, const struct netdev *list, int count,
		 struct named_netdev **named, int *named_count);

/* May a device have that name? */
bool naming_is_valid(const char *name);

/* Settings and interfaces, read anew: every device of this host. *named is malloc'ed. 0 or errno, explained. */
int naming_list(struct named_netdev **named, int *count);

/* The interfaces there are, as text: "lo (up), eth0 (down), eth1 (no address)". */
void naming_describe(char *text, size_t bytes);

#endif
