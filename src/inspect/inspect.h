/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket of this process, and the commands that it answers. Opened with the HCA, served
 * by the worker between its other work: an answer is made in pieces, each of bounded size and time.
 *
 *	server.c	the socket: who connects, who has proven that he may look
 *	command.c	finds the command (command.def)
 *	start.c		starts and stops it with the HCA
 *	stats.c		the command "stats"
 *	trace.c		the command "trace"
 *
 * While nobody looks it costs one descriptor, and no instruction of the data path. Failing to open it
 * is no error: the process cannot be looked at then.
 */
#ifndef VERBATIM_INSPECT_INSPECT_H
#define VERBATIM_INSPECT_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inspect/protocol.h"

struct hca;
struct waiter;

/* ---- commands ---- */

struct inspect_command;

/* One client that has proven its right, as commands see it. Zero at first. */
struct inspect_session {
	struct hca *hca;
	const struct inspect_command *owner;	/* set by a command that wants its leave() called */
	void *state;				/* the owner's */
};

struct inspect_request {
	const char *arguments;		/* behind the command's name, 0-terminated; the client's: check it */
	uint64_t cursor;		/* 0, or what the answer before this one has set */
	int fd[INSPECT_FDS];		/* a command that keeps one sets it to -1 */
	unsigned fds;
};

struct inspect_answer {
	char *text;
	size_t size, bytes;
	uint64_t cursor;		/* set it where the answer goes on */
};

struct inspect_command {
	const char *name;
	/*
	 * On the worker, without locks; has to be brief, and neither blocks nor believes anything that it is
	 * given. 0; errno: the answer is the reason. Another request for the rest of an answer comes with
	 * its cursor.
	 */
	int (*answer)(struct inspect_session *session, struct inspect_request *request,
		      struct inspect_answer *answer);
	/* The client went, or the device closes: what it had begun ends. May be NULL. */
	void (*leave)(struct inspect_session *session);
};

/* Appends. False, and nothing is appended: it does not fit. */
bool inspect_print(struct inspect_answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* "NAME ARGUMENTS", as a client has sent it: finds the command and has it answer. 0 or errno. */
int inspect_run(struct inspect_session *session, char *text, struct inspect_request *request,
		struct inspect_answer *answer);

/* ---- the socket ---- */

struct inspect_server;

#define INSPECT_NEVER UINT64_MAX

/*
 * @tag: that the waiter is to return for our sockets. @run answers commands: inspect_run(). 0 or errno. To
 * be closed when the worker has ended; abandoned in a fork()ed child, where descriptors are closed and
 * nothing else is touched.
 */
int inspect_server_open(struct inspect_server **server, struct hca *hca, struct waiter *waiter, uint32_t tag,
			int (*run)(struct inspect_session *, char *, struct inspect_request *,
				   struct inspect_answer *));
void inspect_server_close(struct inspect_server *server);
void inspect_server_abandon(struct inspect_server *server);
/*
 * By the worker: a socket of ours may be readable, or the deadline is over. At most one message of each
 * client.
 */
void inspect_server_turn(struct inspect_server *server, uint64_t now_ns);
/* Any thread. INSPECT_NEVER: there is nothing to do but when a socket is readable. */
uint64_t inspect_server_deadline(const struct inspect_server *server);

#endif
