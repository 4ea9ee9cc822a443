/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim trace -p PID: has a running process record what it does, by its control socket (inspect/client.h). It
 * does so as long as that connection stands, and only if the kernel lets us read its memory. What it has by then
 * is asked for as `verbatim stats` does.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inspect/client.h"
#include "trace.h"

#define KNOWN_MAX	(128u << 20)	/* bytes that a process may tell of its queue pairs */

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

static int keep_known(void *context, const char *text, size_t bytes)
{
	struct source *source = context;
	char *larger;

	if (memchr(text, '\0', bytes) || source->known_bytes + bytes >= KNOWN_MAX)
		return EPROTO;
	larger = realloc(source->known, source->known_bytes + bytes + 1);
	if (!larger)
		return ENOMEM;
	memcpy(larger + source->known_bytes, text, bytes);
	source->known = larger;
	source->known_bytes += bytes;
	larger[source->known_bytes] = '\0';
	return 0;
}

/* Behind the share, so that none is missing. A process that does not answer in time is traced all the same. */
static void ask_what_is_there(struct source *source, struct inspected *process)
{
	int err = inspect_ask(process, "stats qps", NULL, 0, INSPECT_WAIT_MS, keep_known, source);

	if (err)
		fprintf(stderr, "verbatim trace: not all queue pairs that %s(%d) has already are listed: %s\n",
			process->program, (int)process->pid, process->why[0] ? process->why : strerror(err));
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
	ask_what_is_there(source, &process);
	source->control = process.fd;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "verbatim trace: records %s(%d) until it ends, or Ctrl-C\n", process.program,
			(int)pid);
	return source;
}

/* ---- what was there ---- */

/* A record of `stats`: {"record":"qp","qp":"0x000123",...}. Its members, or NULL: it is another, or none. */
static const char *members_of(const char *line, size_t bytes, unsigned *qpn)
{
	static const char begin[] = "{\"record\":\"qp\",";

	if (bytes < sizeof(begin) || strncmp(line, begin, sizeof(begin) - 1) || line[bytes - 1] != '}')
		return NULL;
	for (size_t i = 0; i < bytes; i++)
		if (!isprint((unsigned char)line[i]))
			return NULL;
	line += sizeof(begin) - 1;
	return sscanf(line, "\"qp\":\"0x%6x\"", qpn) == 1 ? line : NULL;
}

/* As many of the members, whole ones, as an event may have: what identifies it comes first. */
static size_t members_that_fit(const char *members)
{
	size_t most = TRACE_TEXT_MAX - sizeof("\"event\":\"queue_pair\","), bytes = strlen(members) - 1;

	if (bytes <= most)
		return bytes;
	while (most && strncmp(members + most, ",\"", 2))
		most--;
	return most;
}

void source_tell_known(struct source *source, uint64_t time_ns,
		       void (*take)(void *owner, struct source *source, const struct trace_record *record),
		       void *owner)
{
	struct {
		struct trace_record record;
		char text[TRACE_TEXT_MAX];
	} event = { .record = { .kind = TRACE_IS_EVENT, .want = TRACE_STATES, .time_ns = time_ns } };
	char *line, *rest = source->known;

	while ((line = strsep(&rest, "\n"))) {
		const char *members = members_of(line, strlen(line), &event.record.qpn);

		if (!members)
			continue;
		event.record.captured = (uint32_t)snprintf(event.text, sizeof(event.text),
							   "\"event\":\"queue_pair\",%.*s",
							   (int)members_that_fit(members), members);
		take(owner, source, &event.record);
	}
	free(source->known);
	source->known = NULL;
}
