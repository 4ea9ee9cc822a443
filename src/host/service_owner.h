/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose claims on services (service.h) are believed where it matters: those of root and of our own user. Any
 * program may bind any name without a look at what it collides with, and without the privilege that a port
 * takes; what the kernel knows of its user is all that there is to judge by.
 */
#ifndef VERBATIM_HOST_SERVICE_OWNER_H
#define VERBATIM_HOST_SERVICE_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "host/name.h"

/* Is it a port below 1024, of the port spaces of IP? */
bool service_is_reserved(uint64_t id);

/*
 * By the kernel's list of sockets, which is asked at most 32 times in 100 ms, 4 of them about one name; in
 * between by what it said of that. False also where the kernel does not say. 0; EAGAIN: too much was asked.
 * Thread-safe.
 */
int service_is_believed(const struct name *claim, bool *believed);
/* In a fork()ed child. */
void service_owners_forget(void);

#endif
