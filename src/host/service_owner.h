/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which claims on services (service.h) are trusted where it matters: those of root and of our own
 * user. Any program may bind any name without looking for collisions, and without the privilege
 * that a port needs; the user that the kernel reports is the only evidence.
 *
 * Internal to host/.
 */
#ifndef VERBATIM_HOST_SERVICE_OWNER_H
#define VERBATIM_HOST_SERVICE_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/name.h"

/* Is it a port below 1024, of the port spaces of IP? */
bool service_is_reserved(uint64_t id);

/*
 * Asks the kernel's list of sockets, at most 32 times in 100 ms, 4 times about one name; in
 * between, uses its last answer. *believed is false also if the kernel does not tell. 0; EAGAIN:
 * too many questions. Thread-safe.
 */
int service_is_believed(const struct abstract_name *claim, bool *believed);
/*
 * The same of any question about claims, under the same bounds: @judge says whether there is one that is
 * trusted, and which. @key names the question.
 */
int service_owner_ask(const struct abstract_name *key,
		      bool (*judge)(const struct abstract_name *key, void *context, struct abstract_name *found),
		      void *context, bool *believed, struct abstract_name *found);
/* Root, or our own user. */
bool service_owner_is_trusted(uid_t uid);
/* In a fork()ed child. */
void service_owners_forget(void);

#endif
