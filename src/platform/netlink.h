/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to the kernel by rtnetlink (libmnl), one at a time. Opening and closing a socket costs
 * twice as much as asking for a route: frequent requests share a socket. It stays in the network
 * namespace where it was opened, whatever setns() does to the calling thread.
 */
#ifndef VERBATIM_PLATFORM_NETLINK_H
#define VERBATIM_PLATFORM_NETLINK_H

#include <libmnl/libmnl.h>

#include "base/lock.h"

struct netlink {
	struct lock lock;		/* leaf; held while the kernel answers */
	struct mnl_socket *socket;	/* NULL: none could be had; each question opens one */
	unsigned sequence GUARDED_BY_MEMBER(lock);	/* of the last question, under lock */
};

void netlink_open(struct netlink *netlink);
void netlink_close(struct netlink *netlink);
/* In a fork()ed child: the descriptor, and nothing else. */
void netlink_abandon(struct netlink *netlink);

/*
 * @take is called for each message of the answer. @netlink NULL: a socket for this question, in the
 * network namespace of the calling thread. 0 or errno, the kernel's word or @take's.
 */
int netlink_ask(struct netlink *netlink, struct nlmsghdr *question, mnl_cb_t take, void *context);
/* The same of another protocol of netlink(7), by a socket for this question. */
int netlink_ask_once(int protocol, struct nlmsghdr *question, mnl_cb_t take, void *context);

#endif
