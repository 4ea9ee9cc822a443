/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that wait, each set up in a process of its own so that it waits for ever. */
#ifndef TESTS_SIGNALS_WAITS_H
#define TESTS_SIGNALS_WAITS_H

#include <stdbool.h>

struct wait {
	const char *name;
	/* Makes what the call needs. */
	void (*prepare)(void);
	/* The call. It comes back when a handler without SA_RESTART has run; or never (@forever). */
	void (*call)(void);
	bool forever;
	bool as_poll;		/* also after handlers with SA_RESTART */
	const char *(*missing)(void);	/* what the call needs and cannot be had here, or NULL */
};

extern const struct wait waits[];		/* ends with a null name */

/* The process ends, and says where it was. */
void __attribute__((noreturn)) wait_fail(const char *what);
#define NEED(condition) do { if (!(condition)) wait_fail(#condition); } while (0)

#endif
