/* SPDX-License-Identifier: BSD-2-Clause */
/* Privileges of this process, as the kernel judges them. */
#ifndef VERBATIM_PLATFORM_PRIVILEGE_H
#define VERBATIM_PLATFORM_PRIVILEGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * May the process bind this port of an IP protocol? Ports from 1024 on are always allowed; below, the
 * kernel is asked (CAP_NET_BIND_SERVICE, net.ipv4.ip_unprivileged_port_start).
 */
bool may_bind_port(uint16_t port);

/* May the process open packet sockets in its network namespace? 0; EPERM: CAP_NET_RAW is missing; errno. */
int may_open_packet_sockets(void);

/* UID shown for every user that this user namespace does not map; such users are indistinguishable. */
uid_t overflow_uid(void);

#endif
