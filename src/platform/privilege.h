/* SPDX-License-Identifier: BSD-2-Clause */
/* What this process may do that others may not, as the kernel judges. */
#ifndef VERBATIM_PLATFORM_PRIVILEGE_H
#define VERBATIM_PLATFORM_PRIVILEGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * May it take this port of an IP protocol: one from net.ipv4.ip_unprivileged_port_start on (1024 where nobody
 * has changed that), or any with CAP_NET_BIND_SERVICE over the network namespace? As Linux's rdma_cm asks.
 */
bool may_bind_port(uint16_t port);

/* The number that all users have whom this user namespace has none for: they cannot be told apart by it. */
uid_t overflow_uid(void);

#endif
