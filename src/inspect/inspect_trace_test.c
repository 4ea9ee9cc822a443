/* SPDX-License-Identifier: BSD-2-Clause */
/* The command "trace": it takes both descriptors, serves one tracer, and ends that one alone. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "inspect/inspect.h"
#include "trace/trace.h"

#define RING_BYTES	(64u << 10)
#define SHARE_BYTES	(TRACE_SHARE_BYTES + RING_BYTES)

static char said[1024];

/* A sealed share, and our end of the connection in *far_end. */
static struct inspect_request request_new(int *far_end)
{
	struct inspect_request request = { .arguments = "", .fds = 2 };
	int ends[2], memfd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct trace_share *share;

	assert_true(memfd >= 0);
	assert_int_equal(ftruncate(memfd, SHARE_BYTES), 0);
	share = mmap(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	assert_ptr_not_equal(share, MAP_FAILED);
	*share = (struct trace_share){ .magic = TRACE_MAGIC, .version = TRACE_VERSION, .ring_bytes = RING_BYTES,
				       .wanted = TRACE_CALLS, .record_bytes = sizeof(struct trace_record) };
	assert_int_equal(munmap(share, SHARE_BYTES), 0);
	assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	*far_end = ends[0];
	request.fd[0] = memfd;
	request.fd[1] = ends[1];
	return request;
}

static int ask(struct inspect_session *session, struct inspect_request *request)
{
	struct inspect_answer answer = { .text = said, .size = sizeof(said) };
	char text[] = "trace";
	int err;

	memset(said, 0, sizeof(said));
	err = inspect_run(session, text, request, &answer);
	/* As the server does. */
	for (unsigned i = 0; i < request->fds; i++)
		if (request->fd[i] >= 0)
			close(request->fd[i]);
	return err;
}

static void leave(struct inspect_session *session)
{
	if (session->owner)
		session->owner->leave(session);
	*session = (struct inspect_session){ 0 };
}

static int count_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void a_process_is_traced_until_the_client_leaves(void **state)
{
	struct inspect_session session = { 0 };
	int before = count_fds(), far_end;
	struct inspect_request request = request_new(&far_end);

	assert_false(trace_wants(TRACE_CALLS));
	assert_int_equal(ask(&session, &request), 0);
	assert_true(trace_wants(TRACE_CALLS));
	leave(&session);
	assert_false(trace_wants(UINT32_MAX));
	close(far_end);
	assert_int_equal(count_fds(), before);
}

static void a_second_tracer_is_refused_and_told_why(void **state)
{
	struct inspect_session first = { 0 }, second = { 0 };
	int before = count_fds(), far_end[3];
	struct inspect_request request = request_new(&far_end[0]), other = request_new(&far_end[1]);

	assert_int_equal(ask(&first, &request), 0);
	assert_int_equal(ask(&second, &other), EBUSY);
	assert_string_equal(said, "another verbatim trace records it already");
	leave(&second);
	assert_true(trace_wants(TRACE_CALLS));
	other = request_new(&far_end[2]);
	assert_int_equal(ask(&first, &other), EBUSY);	/* nor twice by one client */
	leave(&first);
	assert_false(trace_wants(UINT32_MAX));
	for (unsigned i = 0; i < 3; i++)
		close(far_end[i]);
	assert_int_equal(count_fds(), before);
}

/* Its connection hung up, and the server has not seen yet that the client went. */
static void a_tracer_that_is_gone_is_replaced_and_its_leave_ends_nothing_else(void **state)
{
	struct inspect_session gone = { 0 }, next = { 0 };
	int far_end;
	struct inspect_request request = request_new(&far_end);

	assert_int_equal(ask(&gone, &request), 0);
	close(far_end);
	request = request_new(&far_end);
	assert_int_equal(ask(&next, &request), 0);
	leave(&gone);
	assert_true(trace_wants(TRACE_CALLS));
	leave(&next);
	assert_false(trace_wants(UINT32_MAX));
	close(far_end);
}

static void what_is_no_share_is_refused_and_closed(void **state)
{
	struct inspect_session session = { 0 };
	int before = count_fds(), ends[2];
	struct inspect_request request = { .arguments = "", .fds = 2 }, none = { .arguments = "" };

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	request.fd[0] = ends[0];
	request.fd[1] = ends[1];
	assert_int_equal(ask(&session, &request), EINVAL);
	assert_string_equal(said, "what was sent is no share of records");
	assert_null(session.owner);
	assert_int_equal(ask(&session, &none), EINVAL);
	assert_int_equal(count_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_is_traced_until_the_client_leaves),
		cmocka_unit_test(a_second_tracer_is_refused_and_told_why),
		cmocka_unit_test(a_tracer_that_is_gone_is_replaced_and_its_leave_ends_nothing_else),
		cmocka_unit_test(what_is_no_share_is_refused_and_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
