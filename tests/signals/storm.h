/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A storm of signals whose handler leaves by siglongjmp() whatever it has interrupted. What the files of
 * the program share: steps, which make calls until they are interrupted, and what they work on.
 *
 * A step may end behind any instruction of it. So what it destroys it takes out of its variable first, and
 * what a call gives it is in a variable that outlasts it.
 */
#ifndef TESTS_SIGNALS_STORM_H
#define TESTS_SIGNALS_STORM_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct step {
	const char *name;
	void (*run)(void);
};

/* The groups; each is an array that ends with a null name. */
extern const struct step verbs_steps[], cm_steps[], socket_steps[];

/* Before the storm, and after it: the same objects still work. Without signals. */
void verbs_open(void);
void verbs_check(void);
void verbs_close(void);
void cm_open(void);
void cm_check(void);
void cm_close(void);
void sockets_open(void);
void sockets_check(void);
void sockets_close(void);

unsigned storm_random(void);
/* Handlers come back as long as it is set: the C library is in the middle of something of its own. */
extern volatile bool storm_stays;
/* Takes it out of its variable. */
#define TAKE(variable) ({ __typeof__(variable) taken_ = (variable); (variable) = NULL; taken_; })

/* The program ends, and says where it was. */
void __attribute__((noreturn)) storm_fail(const char *what);
#define NEED(condition) do { if (!(condition)) storm_fail(#condition); } while (0)

/* verbs_open()'s */
extern struct ibv_context *context;

#endif
