/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looks at processes that use Verbatim, through their control sockets (protocol.h): those of this network
 * namespace whose memory the kernel lets us read. What a process answers is its own word: it is checked for
 * form. Processes that do not answer cost INSPECT_WAIT_MS, all of them together; one that has proven that it
 * lives, and then keeps us waiting, as much again.
 *
 *	inspect_begin_all() or inspect_begin()	-> connected, and asked for the proof
 *	inspect_prove_all()			of which we may look at
 *	inspect_ask()				commands
 *	inspect_end()
 */
#ifndef VERBATIM_INSPECT_CLIENT_H
#define VERBATIM_INSPECT_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INSPECT_WAIT_MS	1000u

enum inspected_stage { INSPECTED_FAILED, INSPECTED_HELLO, INSPECTED_PROOF, INSPECTED_PROVEN };

struct inspected {
	pid_t pid;			/* 0: of a PID namespace that we do not see */
	uid_t uid;
	int fd;				/* -1: not connected */
	enum inspected_stage stage;
	int err;			/* errno of a failure; EPERM: it is not ours to see */
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
/* Prove to each that the kernel lets us look: then it is INSPECTED_PROVEN. Waits at most @wait_ms for all. */
void inspect_prove_all(struct inspected *list, unsigned count, unsigned wait_ms);

/*
 * "NAME ARGUMENTS", with descriptors to pass or NULL; each piece of the answer goes to @take: text of that
 * length, not terminated. Waits for all pieces together at most @wait_ms. 0; errno of the process, of @take, or
 * of the socket: process->why.
 */
typedef int inspect_take(void *context, const char *text, size_t bytes);
int inspect_ask(struct inspected *process, const char *command, const int *fds, unsigned fd_count,
		unsigned wait_ms, inspect_take *take, void *context);
void inspect_end(struct inspected *process);

#endif
