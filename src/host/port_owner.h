/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The user that has UDP port 4791 of this network namespace: only that user's processes forward packets
 * from the port (forward.h). Internal to host/.
 */
#ifndef VERBATIM_HOST_PORT_OWNER_H
#define VERBATIM_HOST_PORT_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * May @uid forward packets to us? True for root, our own user, and the user that has the port or
 * had it a second ago. Searches the kernel's list of sockets, at most ten times a second. @now_ns:
 * of the monotonic clock. Thread-safe.
 */
bool port_owner_may_forward(uid_t uid, uint64_t now_ns);
/* In a fork()ed child. */
void port_owner_forget(void);

#endif
