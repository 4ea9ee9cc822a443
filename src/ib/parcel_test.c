/* SPDX-License-Identifier: BSD-2-Clause */
/* Long messages over a socket, and files that are not what they should be. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ib/parcel.h"

#define LONG	(3u << 20)

static int ends[2];

static int parcel_begin(void **unused)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static void short_ones_go_as_they_are_and_long_ones_with_a_file(void **unused)
{
	uint8_t *out = malloc(LONG), *in = malloc(LONG);
	struct iovec iov = { .iov_base = out };
	void *memory;
	int file;

	for (unsigned i = 0; i < LONG; i++)
		out[i] = (uint8_t)(i / 3);
	iov.iov_len = PARCEL_INLINE_MAX;
	assert_int_equal(parcel_send(ends[0], &iov, 1), 0);
	assert_int_equal(parcel_receive(ends[1], in, LONG, &file), PARCEL_INLINE_MAX);
	assert_int_equal(file, -1);
	iov.iov_len = LONG;
	assert_int_equal(parcel_send(ends[0], &iov, 1), 0);
	assert_int_equal(parcel_receive(ends[1], in, PARCEL_INLINE_MAX, &file), PARCEL_HEAD);
	assert_memory_equal(in, out, PARCEL_HEAD);
	assert_true(file >= 0);
	assert_int_equal(parcel_read(file, in, LONG - 1), EBADF);
	memset(in, 1, PARCEL_HEAD);
	assert_int_equal(parcel_read(file, in, LONG), 0);
	assert_memory_equal(in + PARCEL_HEAD, out + PARCEL_HEAD, LONG - PARCEL_HEAD);
	assert_int_equal(in[PARCEL_HEAD - 1], 1);	/* the datagram's, not the file's */
	assert_int_equal(ftruncate(file, 5), -1);
	assert_int_equal(parcel_map(file, LONG - 1, &memory), EBADF);
	assert_int_equal(parcel_map(file, LONG, &memory), 0);
	assert_memory_equal(memory, out, LONG);
	munmap(memory, LONG);
	/* The file goes on with another head. */
	memset(in, 7, PARCEL_HEAD);
	assert_int_equal(parcel_pass(ends[0], in, file), 0);
	close(file);
	memset(in, 0, LONG);
	assert_int_equal(parcel_receive(ends[1], in, PARCEL_INLINE_MAX, &file), PARCEL_HEAD);
	assert_int_equal(in[0], 7);
	assert_int_equal(parcel_read(file, in, LONG), 0);
	assert_memory_equal(in + PARCEL_HEAD, out + PARCEL_HEAD, LONG - PARCEL_HEAD);
	close(file);
	free(in);
	free(out);
}

static void no_other_file_is_read(void **unused)
{
	char name[] = "/tmp/verbatim-parcel-XXXXXX", data[16];
	int pipes[2], memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int disk = mkstemp(name);

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(ftruncate(memory, sizeof(data)), 0);
	assert_int_equal(ftruncate(disk, sizeof(data)), 0);
	assert_int_equal(parcel_read(pipes[0], data, sizeof(data)), EBADF);
	assert_int_equal(parcel_read(disk, data, sizeof(data)), EBADF);
	assert_int_equal(parcel_read(memory, data, sizeof(data)), EBADF);	/* not sealed */
	assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
			       F_SEAL_SEAL), 0);
	assert_int_equal(parcel_read(memory, data, sizeof(data)), 0);
	close(memory);
	close(disk);
	unlink(name);
	close(pipes[0]);
	close(pipes[1]);
}

/* To touch a hole takes memory, and where there is none the process that touches it ends. */
static void a_file_with_holes_is_read_and_not_mapped(void **unused)
{
	static const unsigned seals[] = { F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL };
	uint8_t *data = malloc(LONG), byte = 5;
	void *memory;

	for (unsigned missing = 0; missing <= 5; missing++) {	/* 4: none; 5: likewise, and it has pages enough */
		int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		assert_int_equal(ftruncate(file, LONG), 0);
		if (missing == 5)
			assert_int_equal(fallocate(file, FALLOC_FL_KEEP_SIZE, LONG, LONG), 0);
		assert_int_equal(pwrite(file, &byte, 1, LONG - 1), 1);
		for (unsigned i = 0; i < 4; i++)
			if (i != missing)
				assert_int_equal(fcntl(file, F_ADD_SEALS, seals[i]), 0);
		assert_int_equal(parcel_map(file, LONG, &memory), missing < 4 ? EBADF : EOPNOTSUPP);
		assert_int_equal(parcel_read(file, data, LONG), missing < 4 ? EBADF : 0);
		close(file);
	}
	assert_int_equal(data[PARCEL_HEAD], 0);
	assert_int_equal(data[LONG - 1], 5);
	free(data);
}

static void what_does_not_fit_is_refused_with_its_file(void **unused)
{
	uint8_t *out = calloc(1, LONG);
	struct iovec iov = { .iov_base = out, .iov_len = LONG };
	int file, next = dup(ends[0]);

	close(next);
	assert_int_equal(parcel_send(ends[0], &iov, 1), 0);
	errno = 0;
	assert_int_equal(parcel_receive(ends[1], out, 100, &file), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_int_equal(file, -1);
	file = dup(ends[0]);
	assert_int_equal(file, next);		/* nothing was left open */
	close(file);
	free(out);
}

/* However many files come, none stays open but the one that is given out. */
static void more_files_than_one_are_refused(void **unused)
{
	for (unsigned count = 1; count <= 5; count++) {
		char byte = 0;
		struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
		char control[CMSG_SPACE(5 * sizeof(int))] = { 0 }, data[8];
		struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
					  .msg_controllen = CMSG_LEN(count * sizeof(int)) };
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		int next = dup(ends[0]), file;

		close(next);
		*head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)),
					  .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		for (unsigned i = 0; i < count; i++)
			memcpy(CMSG_DATA(head) + i * sizeof(int), &ends[0], sizeof(int));
		assert_int_equal(sendmsg(ends[0], &message, 0), 1);
		assert_int_equal(parcel_receive(ends[1], data, sizeof(data), &file),
				 count == 1 ? 1 : -1);
		if (count == 1)
			close(file);
		file = dup(ends[0]);
		assert_int_equal(file, next);
		close(file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_ones_go_as_they_are_and_long_ones_with_a_file),
		cmocka_unit_test(no_other_file_is_read),
		cmocka_unit_test(a_file_with_holes_is_read_and_not_mapped),
		cmocka_unit_test(what_does_not_fit_is_refused_with_its_file),
		cmocka_unit_test(more_files_than_one_are_refused),
	};

	return cmocka_run_group_tests(tests, parcel_begin, NULL);
}
