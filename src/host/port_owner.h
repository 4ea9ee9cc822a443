/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which user has UDP port 4791 of this network namespace: what came to the port is handed on by that
 * user's processes, and by nobody else (forward.h).
 */
#ifndef VERBATIM_HOST_PORT_OWNER_H
#define VERBATIM_HOST_PORT_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * May @uid hand packets on to us: root, our own user, the user who has the port, or had it a second ago? By
 * the kernel's list of sockets, in which one is looked for at most ten times a second. @now_ns: of the
 * monotonic clock. Thread-safe.
 */
bool port_owner_may_forward(uid_t uid, uint64_t now_ns);
/* In a fork()ed child. */
void port_owner_forget(void);

#endif
