/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command "trace": from now on the process is traced, until the client goes or the device closes. With it
 * come two descriptors, the share (trace/record.h) and a socket that hangs up when the tracer ends.
 */
#include <errno.h>
#include <string.h>

#include "inspect/inspect.h"
#include "trace/trace.h"

extern const struct inspect_command inspect_trace;

static int trace_answer(struct inspect_session *session, struct inspect_request *request,
			struct inspect_answer *answer)
{
	uint32_t tracer = 0;
	int err;

	if (request->fds != 2) {
		inspect_print(answer, "trace takes two descriptors, not %u", request->fds);
		return EINVAL;
	}
	err = session->owner ? EBUSY : trace_attach(request->fd[0], request->fd[1], &tracer);
	if (!session->owner)
		request->fd[0] = request->fd[1] = -1;
	if (err) {
		inspect_print(answer, "%s", err == EBUSY ? "another verbatim trace records it already" :
			      err == EPROTO ? "its libraries are of another release" :
			      err == EINVAL ? "what was sent is no share of records" : strerror(err));
		return err;
	}
	session->owner = &inspect_trace;
	session->state = (void *)(uintptr_t)tracer;
	return 0;
}

static void trace_leave(struct inspect_session *session)
{
	trace_detach((uint32_t)(uintptr_t)session->state);
}

const struct inspect_command inspect_trace = { .name = "trace", .answer = trace_answer, .leave = trace_leave };
