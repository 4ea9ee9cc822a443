/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim trace -p PID: has a running process record what it does, by its control socket (inspect/client.h). It
 * does so as long as that connection stands, and only if the kernel lets us read its memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inspect/client.h"
#include "trace.h"

/* A share, and a connection of which the process gets the other end. NULL: process->why. */
static struct source *attach_share(struct inspected *process, const struct share_options *options)
{
	int ends[2] = { -1, -1 }, memfd = share_create(options);
	struct source *source = NULL;

	if (memfd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		goto out;
	source = source_open(memfd, process->pid, ends[0]);
	if (!source)
		goto out;
	ends[0] = -1;		/* the source's */
	if (inspect_ask(process, "trace", (int[]){ memfd, ends[1] }, 2, INSPECT_WAIT_MS, NULL,
			NULL)) {
		source_close(source);
		source = NULL;
	}
out:
	if (!source && !process->why[0])
		snprintf(process->why, sizeof(process->why), "no memory to record process %d: %s",
			 (int)process->pid, strerror(errno));
	for (unsigned i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	if (memfd >= 0)
		close(memfd);
	return source;
}

struct source *source_attach(pid_t pid, const struct share_options *options)
{
	struct source *source = NULL;
	struct inspected process;

	if (!inspect_begin(pid, &process))
		inspect_prove_all(&process, 1, INSPECT_WAIT_MS);
	if (process.stage == INSPECTED_PROVEN)
		source = attach_share(&process, options);
	if (!source) {
		fprintf(stderr, "verbatim trace: %s\n", process.why);
		inspect_end(&process);
		return NULL;
	}
	source->control = process.fd;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "verbatim trace: records %s(%d) until it ends, or Ctrl-C\n", process.program,
			(int)pid);
	return source;
}
