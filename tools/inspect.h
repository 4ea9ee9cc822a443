/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looks at processes that use Verbatim, through their control sockets (src/inspect/protocol.h): those of this
 * network namespace whose memory the kernel lets us read. What a process answers is its own word: it is checked
 * for form, and a process that does not answer costs INSPECT_WAIT_MS, all of them together.
 *
 *	inspect_begin_all() or inspect_begin()	-> connected, and asked for the proof
 *	inspect_prove()				each: may we look?
 *	inspect_ask()				commands
 *	inspect_end()
 */
#ifndef VERBATIM_TOOLS_INSPECT_H
#define VERBATIM_TOOLS_INSPECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INSPECT_WAIT_MS 2000u

struct inspected {
	pid_t pid;			/* 0: of a PID namespace that we do not see */
	uid_t uid;
	int fd;				/* -1: not connected */
	char program[64];		/* as the kernel names it, without control characters */
	char why[256];			/* after a failure: the reason, to be printed */
};

/*
 * Every process of this network namespace that has a device open, or those of a program's name (NULL: all).
 * *list is malloc'ed. 0 or errno, with the reason in @why.
 */
int inspect_begin_all(const char *program, struct inspected **list, unsigned *count, char *why, size_t size);
/* One process. 0; errno: process->why says it. */
int inspect_begin(pid_t pid, struct inspected *process);
/*
 * Prove that the kernel lets us look. @deadline_ns: CLOCK_MONOTONIC. 0; EPERM: it does not; ETIMEDOUT,
 * EPROTO, ...: process->why.
 */
int inspect_prove(struct inspected *process, uint64_t deadline_ns);
uint64_t inspect_deadline_ns(void);

/*
 * "NAME ARGUMENTS", with descriptors to pass or NULL; each piece of the answer goes to @take: text of that
 * length, not terminated. Each piece may take INSPECT_WAIT_MS. 0; errno of the process, of @take, or of the
 * socket: process->why.
 */
typedef int inspect_take(void *context, const char *text, size_t bytes);
int inspect_ask(struct inspected *process, const char *command, const int *fds, unsigned fd_count,
		inspect_take *take, void *context);
void inspect_end(struct inspected *process);

#endif
