/* SPDX-License-Identifier: BSD-2-Clause */
/* Interfaces as devices: what device.c and port.c share. */
#ifndef VERBATIM_HCA_DEVICE_H
#define VERBATIM_HCA_DEVICE_H

#include <stdint.h>

#include "hca/naming.h"

/* EUI-64 of the interface's MAC address, in network order. */
uint64_t device_guid(const struct netdev *netdev);

/* Configuration and interfaces, read anew; *named is malloc'ed. 0 or errno, explained. */
int device_find_all(struct named_netdev **named, int *count);

#endif
