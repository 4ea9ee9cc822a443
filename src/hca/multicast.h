/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups as addresses: what route.c and multicast.c share. */
#ifndef VERBATIM_HCA_MULTICAST_H
#define VERBATIM_HCA_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>

/* Is the address (v4-mapped or IPv6) a multicast group? */
bool multicast_is(const uint8_t address[16]);
/* The IPv4 group under which an IPv6 group travels when it is sent to from an IPv4 GID. */
void multicast_alias(const uint8_t gid[16], uint8_t alias[16]);

#endif
