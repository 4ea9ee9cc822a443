/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket: who proves that he may look is answered; strangers cost a bounded number of
 * descriptors for a bounded time, whatever they send. This process is both ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "host/name.h"
#include "inspect/inspect.h"
#include "platform/fail.h"
#include "platform/wait.h"

#define TAG 0x800u
#define SECOND 1000000000ull

static struct waiter waiter;
static struct inspect_server *server;
static uint64_t now_ns;
static int fds_before;

/* What the last command was given. */
static char asked[INSPECT_COMMAND_MAX + 1];
static uint64_t asked_cursor;
static unsigned asked_fds, sessions_left;
static int kept_fd;

static void count_leave(struct inspect_session *session)
{
	sessions_left++;
}

static const struct inspect_command with_leave = { .name = "stay", .leave = count_leave };

static int run(struct inspect_session *session, char *text, struct inspect_request *request,
	       struct inspect_answer *answer)
{
	strcpy(asked, text);
	asked_cursor = request->cursor;
	asked_fds = request->fds;
	kept_fd = -1;
	if (!strcmp(text, "stay"))
		session->owner = &with_leave;
	if (!strcmp(text, "keep") && request->fds) {
		kept_fd = request->fd[0];
		request->fd[0] = -1;
	}
	if (!strcmp(text, "fail")) {
		inspect_print(answer, "for a reason");
		return ENOSPC;
	}
	inspect_print(answer, "piece %u", (unsigned)request->cursor);
	answer->cursor = !strcmp(text, "long") && request->cursor < 3 ? request->cursor + 1 : 0;
	return 0;
}

static int count_fds(void)
{
	int fd, count = 0;

	for (fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int begin(void **state)
{
	fail_clear();
	now_ns = 1;
	sessions_left = 0;
	if (waiter_open(&waiter))
		return -1;
	fds_before = count_fds();
	return inspect_server_open(&server, NULL, &waiter, TAG, run);
}

static int end(void **state)
{
	fail_clear();
	inspect_server_close(server);
	if (count_fds() != fds_before)
		return -1;
	waiter_close(&waiter);
	return 0;
}

/* ---- the other end ---- */

static int connect_client(void)
{
	char text[64];
	struct abstract_name name;
	int fd;

	snprintf(text, sizeof(text), INSPECT_PREFIX "%d", (int)getpid());
	name = name_of(text);
	return name_connect(&name, SOCK_SEQPACKET, &fd) ? -1 : fd;
}

static void say(int fd, enum inspect_kind kind, uint64_t cursor, const void *text, size_t bytes)
{
	struct inspect_head head = { .magic = INSPECT_MAGIC, .version = INSPECT_VERSION, .kind = (uint16_t)kind,
				     .bytes = (uint32_t)bytes, .cursor = cursor };
	struct iovec iov[2] = { { .iov_base = &head, .iov_len = sizeof(head) },
				{ .iov_base = (void *)(uintptr_t)text, .iov_len = bytes } };

	assert_int_equal(writev(fd, iov, 2), (ssize_t)(sizeof(head) + bytes));
}

/* The bytes of the answer's text; -1: there is none yet; -2: the connection has ended. */
static int hear(int fd, struct inspect_head *head, char text[INSPECT_ANSWER_MAX + 1])
{
	struct iovec iov[2] = { { .iov_base = head, .iov_len = sizeof(*head) },
				{ .iov_base = text, .iov_len = INSPECT_ANSWER_MAX } };
	ssize_t got = readv(fd, iov, 2);

	if (got < 0 && errno == EAGAIN)
		return -1;
	if (got < (ssize_t)sizeof(*head))
		return -2;
	text[got - (ssize_t)sizeof(*head)] = '\0';
	return (int)(got - (ssize_t)sizeof(*head));
}

static void turn(void)
{
	inspect_server_turn(server, now_ns);
}

static bool has_ended(int fd)
{
	struct inspect_head head;
	char text[INSPECT_ANSWER_MAX + 1];

	return hear(fd, &head, text) == -2;
}

static int prove(int fd)
{
	struct inspect_head head;
	char text[INSPECT_ANSWER_MAX + 1], nonce[INSPECT_NONCE_BYTES];
	struct iovec here = { nonce, sizeof(nonce) }, there = { NULL, sizeof(nonce) };

	say(fd, INSPECT_HELLO, 0, NULL, 0);
	turn();
	if (hear(fd, &head, text) != 0)
		return -1;
	there.iov_base = (void *)(uintptr_t)head.value;
	assert_int_equal(process_vm_readv(getpid(), &here, 1, &there, 1, 0), sizeof(nonce));
	say(fd, INSPECT_PROOF, 0, nonce, sizeof(nonce));
	turn();
	return hear(fd, &head, text) == 0 && head.status == 0 ? 0 : -1;
}

static int connect_proven(void)
{
	int fd = connect_client();

	assert_true(fd >= 0);
	assert_int_equal(prove(fd), 0);
	return fd;
}

/* ---- tests ---- */

static void the_nonce_is_the_proof_and_then_commands_are_answered(void **state)
{
	int fd = connect_proven();
	struct inspect_head head;
	char text[INSPECT_ANSWER_MAX + 1];

	say(fd, INSPECT_COMMAND, 0, "hello there", 11);
	turn();
	assert_int_equal(hear(fd, &head, text), 7);
	assert_string_equal(text, "piece 0");
	assert_string_equal(asked, "hello there");
	assert_int_equal(head.kind, INSPECT_COMMAND);
	assert_int_equal(head.status, 0);
	assert_int_equal(head.cursor, 0);
	close(fd);
}

static void a_long_answer_goes_on_where_the_cursor_says(void **state)
{
	int fd = connect_proven();
	struct inspect_head head = { .cursor = 0 };
	char text[INSPECT_ANSWER_MAX + 1];
	unsigned pieces = 0;

	do {
		say(fd, INSPECT_COMMAND, head.cursor, "long", 4);
		turn();
		assert_int_equal(hear(fd, &head, text), 7);
		assert_int_equal(asked_cursor, pieces++);
	} while (head.cursor);
	assert_int_equal(pieces, 4);
	close(fd);
}

static void a_command_that_fails_says_why(void **state)
{
	int fd = connect_proven();
	struct inspect_head head;
	char text[INSPECT_ANSWER_MAX + 1];

	say(fd, INSPECT_COMMAND, 0, "fail", 4);
	turn();
	assert_int_equal(hear(fd, &head, text), 12);
	assert_int_equal(head.status, ENOSPC);
	assert_string_equal(text, "for a reason");
	close(fd);
}

static void send_with_fds(int fd, const char *command, unsigned count, int passed)
{
	struct inspect_head head = { .magic = INSPECT_MAGIC, .version = INSPECT_VERSION, .kind = INSPECT_COMMAND,
				     .bytes = (uint32_t)strlen(command) };
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)(uintptr_t)command, strlen(command) } };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(16 * sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes,
				  .msg_controllen = CMSG_SPACE(count * sizeof(int)) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	unsigned i;

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	for (i = 0; i < count; i++)
		memcpy(CMSG_DATA(header) + i * sizeof(int), &passed, sizeof(int));
	assert_true(sendmsg(fd, &message, 0) > 0);
}

static void a_command_keeps_a_descriptor_and_the_others_are_closed(void **state)
{
	int fd = connect_proven(), passed = memfd_create("passed", MFD_CLOEXEC), before;
	struct inspect_head head;
	char text[INSPECT_ANSWER_MAX + 1];

	before = count_fds();
	send_with_fds(fd, "keep", 3, passed);
	turn();
	assert_int_equal(hear(fd, &head, text), 7);
	assert_int_equal(asked_fds, 3);
	assert_int_equal(count_fds(), before + 1);
	assert_true(fcntl(kept_fd, F_GETFD) & FD_CLOEXEC);
	close(kept_fd);
	send_with_fds(fd, "keep", 5, passed);	/* more than there is room for */
	turn();
	assert_true(has_ended(fd));
	close(passed);
	close(fd);
}

static void descriptors_of_strangers_are_not_even_received(void **state)
{
	int fd = connect_client(), passed = memfd_create("passed", MFD_CLOEXEC);
	int before = count_fds();

	turn();
	send_with_fds(fd, "keep", 3, passed);
	turn();
	assert_true(has_ended(fd));
	assert_int_equal(count_fds(), before);
	close(passed);
	close(fd);
}

static void a_wrong_nonce_ends_the_connection(void **state)
{
	char nonce[INSPECT_NONCE_BYTES] = "wrong", text[INSPECT_ANSWER_MAX + 1];
	struct inspect_head head;
	size_t bytes;

	for (bytes = 0; bytes <= sizeof(nonce); bytes += sizeof(nonce) / 2) {
		int fd = connect_client();

		say(fd, INSPECT_HELLO, 0, NULL, 0);
		turn();
		assert_int_equal(hear(fd, &head, text), 0);
		say(fd, INSPECT_PROOF, 0, nonce, bytes);
		turn();
		assert_true(has_ended(fd));
		close(fd);
	}
}

static void commands_without_a_proof_end_the_connection(void **state)
{
	char text[INSPECT_ANSWER_MAX + 1];
	struct inspect_head head;
	int fd = connect_client();

	asked[0] = '\0';
	say(fd, INSPECT_COMMAND, 0, "hello", 5);
	turn();
	assert_true(has_ended(fd));
	close(fd);
	fd = connect_client();
	say(fd, INSPECT_HELLO, 0, NULL, 0);
	turn();
	assert_int_equal(hear(fd, &head, text), 0);
	say(fd, INSPECT_COMMAND, 0, "hello", 5);
	turn();
	assert_true(has_ended(fd));
	close(fd);
	assert_string_equal(asked, "");
}

static void garbage_ends_the_connection_and_nothing_else(void **state)
{
	uint64_t random = 7;
	uint8_t bytes[INSPECT_COMMAND_MAX + 64];
	unsigned i, j;

	for (i = 0; i < 300; i++) {
		int fd = i % 2 ? connect_proven() : connect_client();
		size_t length = test_random(&random) % sizeof(bytes) + 1;
		struct inspect_head head = { .magic = INSPECT_MAGIC, .version = INSPECT_VERSION };

		for (j = 0; j < length; j++)
			bytes[j] = (uint8_t)test_random(&random);
		/* Half of them a sound beginning with a length or kind that is none. */
		head.kind = (uint16_t)(test_random(&random) % 5);
		head.bytes = (uint32_t)(length - sizeof(head) + test_random(&random) % 2 * 3 + 1);
		if (i % 4 > 1 && length > sizeof(head))
			memcpy(bytes, &head, sizeof(head));
		if (write(fd, bytes, length) != (ssize_t)length)
			fail_msg("the socket takes messages of %zu bytes", length);
		turn();
		assert_true(has_ended(fd));
		close(fd);
	}
}

static void strangers_that_stay_silent_hold_places_for_a_second(void **state)
{
	int fd[16], before = count_fds();
	unsigned i, ended = 0;

	for (i = 0; i < 16; i++)
		fd[i] = connect_client();
	for (i = 0; i < 8; i++)
		turn();
	for (i = 0; i < 16; i++)
		ended += has_ended(fd[i]);
	assert_int_equal(ended, 12);	/* a user's share is four */
	assert_int_equal(count_fds(), before + 16 + 4);
	assert_int_equal(inspect_server_deadline(server), now_ns + SECOND);
	now_ns += SECOND;
	turn();
	for (i = 0; i < 16; i++) {
		assert_true(has_ended(fd[i]));
		close(fd[i]);
	}
	assert_int_equal(count_fds(), before);
	assert_true(inspect_server_deadline(server) == INSPECT_NEVER);
}

static void a_proven_client_stays_and_more_of_them_than_there_are_places_are_refused(void **state)
{
	int fd[9], before = count_fds();
	unsigned i;

	for (i = 0; i < 8; i++)
		fd[i] = connect_proven();
	now_ns += 3600 * SECOND;
	turn();
	fd[8] = connect_client();
	turn();
	assert_true(has_ended(fd[8]));
	for (i = 0; i < 8; i++)
		assert_false(has_ended(fd[i]));
	for (i = 0; i < 9; i++)
		close(fd[i]);
	turn();
	assert_int_equal(count_fds(), before);
}

static void a_client_that_does_not_read_is_dropped(void **state)
{
	int fd = connect_proven();
	unsigned i;

	for (i = 0; i < 4096; i++) {
		struct inspect_head head = { .magic = INSPECT_MAGIC, .version = INSPECT_VERSION,
					     .kind = INSPECT_COMMAND };

		if (send(fd, &head, sizeof(head), MSG_NOSIGNAL) < 0)
			break;
		turn();
	}
	assert_in_range(i, 1, 4095);
	close(fd);
}

static void a_command_hears_of_the_end_of_its_session(void **state)
{
	struct inspect_head head;
	char text[INSPECT_ANSWER_MAX + 1];
	int fd = connect_proven();

	say(fd, INSPECT_COMMAND, 0, "stay", 4);
	turn();
	assert_int_equal(hear(fd, &head, text), 7);
	assert_int_equal(sessions_left, 0);
	close(fd);
	turn();
	assert_int_equal(sessions_left, 1);
}

static void without_descriptors_it_rests_for_a_second_and_does_not_spin(void **state)
{
	int fd = connect_client();

	fail_set(FAIL_SOCKET, 1, EMFILE);
	turn();
	assert_int_equal(waiter_wait(&waiter, 0), 0);		/* the connection waits, and wakes nobody */
	assert_int_equal(inspect_server_deadline(server), now_ns + SECOND);
	now_ns += SECOND;
	turn();
	assert_true(inspect_server_deadline(server) != INSPECT_NEVER);	/* the client's */
	assert_int_equal(prove(fd), 0);
	assert_true(inspect_server_deadline(server) == INSPECT_NEVER);
	close(fd);
}

static void a_name_that_is_taken_gets_a_number(void **state)
{
	struct inspect_server *others[7], *none = NULL;
	char text[64];
	struct abstract_name name;
	unsigned i;
	int fd;

	for (i = 0; i < 7; i++)
		assert_int_equal(inspect_server_open(&others[i], NULL, &waiter, TAG, run), 0);
	assert_int_equal(inspect_server_open(&none, NULL, &waiter, TAG, run), EADDRINUSE);
	assert_null(none);
	snprintf(text, sizeof(text), INSPECT_PREFIX "%d-7", (int)getpid());
	name = name_of(text);
	assert_int_equal(name_connect(&name, SOCK_SEQPACKET, &fd), 0);
	close(fd);
	for (i = 0; i < 7; i++)
		inspect_server_close(others[i]);
}

static void opening_fails_without_a_trace(void **state)
{
	static const enum fail_point points[] = { FAIL_ALLOCATE, FAIL_SOCKET, FAIL_BIND, FAIL_LISTEN,
						  FAIL_EPOLL_ADD };
	struct inspect_server *none = NULL;
	int before = count_fds();
	unsigned i;

	for (i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		fail_set(points[i], 1, EMFILE);
		assert_int_not_equal(inspect_server_open(&none, NULL, &waiter, TAG, run), 0);
		assert_null(none);
		assert_int_equal(count_fds(), before);
	}
}

static void a_forked_child_closes_what_it_inherited_and_the_client_stays(void **state)
{
	int fd = connect_proven(), status;
	struct inspect_head head;
	char text[INSPECT_ANSWER_MAX + 1];
	pid_t child = fork();

	if (!child) {
		int before = count_fds();

		inspect_server_abandon(server);
		_exit(count_fds() == before - 2 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	say(fd, INSPECT_COMMAND, 0, "hello", 5);
	turn();
	assert_int_equal(hear(fd, &head, text), 7);
	close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(the_nonce_is_the_proof_and_then_commands_are_answered),
		TEST(a_long_answer_goes_on_where_the_cursor_says),
		TEST(a_command_that_fails_says_why),
		TEST(a_command_keeps_a_descriptor_and_the_others_are_closed),
		TEST(descriptors_of_strangers_are_not_even_received),
		TEST(a_wrong_nonce_ends_the_connection),
		TEST(commands_without_a_proof_end_the_connection),
		TEST(garbage_ends_the_connection_and_nothing_else),
		TEST(strangers_that_stay_silent_hold_places_for_a_second),
		TEST(a_proven_client_stays_and_more_of_them_than_there_are_places_are_refused),
		TEST(a_client_that_does_not_read_is_dropped),
		TEST(a_command_hears_of_the_end_of_its_session),
		TEST(without_descriptors_it_rests_for_a_second_and_does_not_spin),
		TEST(a_name_that_is_taken_gets_a_number),
		TEST(opening_fails_without_a_trace),
		TEST(a_forked_child_closes_what_it_inherited_and_the_client_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
