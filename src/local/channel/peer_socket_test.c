/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer's socket (peer.h): blocks arrive by the number of their grant, bells are dropped, and
 * anything a peer sends there costs a bounded number of descriptors, and none in the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "local/channel/peer.h"
#include "platform/fail.h"

static struct peer ours, theirs;	/* the two ends of a channel's socket */
static int before;

static unsigned count_fds(void)
{
	unsigned count = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int begin(void **state)
{
	int fds[2], on = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds))
		return -1;
	memset(&ours, 0, sizeof(ours));
	memset(&theirs, 0, sizeof(theirs));
	lock_init(&ours.inbox);
	lock_init(&theirs.inbox);
	ours.process.fd = fds[0];
	theirs.process.fd = fds[1];
	/* As after a handshake. */
	setsockopt(fds[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	before = (int)count_fds();
	return 0;
}

static int end(void **state)
{
	close(ours.process.fd);
	if (theirs.process.fd >= 0)
		close(theirs.process.fd);
	lock_destroy(&ours.inbox);
	lock_destroy(&theirs.inbox);
	return 0;
}

/* A file whose size tells which it is. */
static int file_of(unsigned size)
{
	int fd = memfd_create("block", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	return fd;
}

static void send_file(uint32_t region, unsigned size)
{
	int fd = file_of(size);

	assert_true(peer_send_block(&theirs, region, fd));
	close(fd);
}

static void expect_file(uint32_t region, unsigned size)
{
	struct stat stat;
	int fd = peer_take_block(&ours, region);

	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fstat(fd, &stat), 0);
	assert_int_equal(stat.st_size, size);
	close(fd);
}

/* Send anything: @bytes of @data with @count descriptors. */
static void send_anything(const void *data, size_t bytes, unsigned count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(16 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *header;
	unsigned i;
	int fd = STDIN_FILENO;

	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		*header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
					    .cmsg_len = CMSG_LEN(count * sizeof(int)) };
		for (i = 0; i < count; i++)
			memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(int));
	}
	assert_int_equal(sendmsg(theirs.process.fd, &message, MSG_NOSIGNAL), bytes);
}

static void a_block_is_found_by_its_grant(void **state)
{
	send_file(7, 4096);
	send_file(9, 8192);
	assert_int_equal(peer_take_block(&ours, 8), -1);
	expect_file(9, 8192);
	expect_file(7, 4096);
	assert_int_equal(peer_take_block(&ours, 7), -1);
	assert_int_equal(count_fds(), before);
}

/* 0 is not a grant, and marks free places. */
static void nobody_has_the_block_of_no_grant(void **state)
{
	assert_int_equal(peer_take_block(&ours, 0), -1);
	send_file(0, 4096);
	assert_int_equal(peer_take_block(&ours, 0), -1);
	assert_int_equal(count_fds(), before);
}

static void bells_are_dropped(void **state)
{
	unsigned i;

	for (i = 0; i < 12; i++)
		send_anything("", 1, 0);
	peer_read_socket(&ours);
	assert_false(peer_has_ended(&ours));
	assert_int_equal(recv(ours.process.fd, &i, sizeof(i), MSG_DONTWAIT), -1);
}

/*
 * The message that was to follow could not be sent: so the block is sent again, as often as that
 * happens.
 */
static void a_bell_is_taken_with_the_blocks_before_it(void **state)
{
	send_file(7, 4096);
	send_anything("", 1, 0);
	send_anything("", 1, 0);
	assert_true(peer_read_bell(&ours));
	assert_true(peer_took_bell(&ours));
	assert_true(peer_read_bell(&ours));
	assert_true(peer_took_bell(&ours));
	send_file(8, 4096);
	assert_false(peer_read_bell(&ours));
	assert_false(peer_took_bell(&ours));
	assert_false(peer_has_ended(&ours));
	expect_file(7, 4096);
	expect_file(8, 4096);
}

/* The first of two peers rings at each sleep; the other one ends, rings, and sends a block. */
static void who_rings_for_ever_hides_nobody(void **state)
{
	static struct peers peers;
	struct local local = { .peers = &peers, .bells_fd = epoll_create1(EPOLL_CLOEXEC) };
	struct peer other = { .channel = 1, .life = 2 };
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.u32 = 0 };
	unsigned turn;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	lock_init(&other.inbox);
	other.process.fd = fds[0];
	ours.life = 1;
	atomic_store(&peers.peer[0], &ours);
	atomic_store(&peers.peer[1], &other);
	assert_int_equal(epoll_ctl(local.bells_fd, EPOLL_CTL_ADD, ours.process.fd, &event), 0);
	event.data.u32 = 1;
	assert_int_equal(epoll_ctl(local.bells_fd, EPOLL_CTL_ADD, other.process.fd, &event), 0);
	assert_int_equal(send(fds[1], "", 1, 0), 1);
	close(fds[1]);
	for (turn = 0; !atomic_load(&local.peers_due); turn++) {
		assert_in_range(turn, 0, 40);
		send_anything("", 1, 0);
		local_silence_bells(&local);
	}
	assert_true(peer_took_bell(&other));
	assert_true(peer_has_ended(&other));
	/* It rings once more than it was heard, at most: nothing piles up. */
	local_silence_bells(&local);
	local_silence_bells(&local);
	assert_int_equal(epoll_wait(local.bells_fd, &event, 1, 0), 0);
	close(fds[0]);
	close(local.bells_fd);
	lock_destroy(&other.inbox);
}

static void a_block_that_is_sent_anew_takes_the_place_of_the_one_before(void **state)
{
	unsigned i;

	for (i = 1; i <= 3 * PASSED_MAX; i++) {
		send_file(7, i * 4096);
		peer_read_socket(&ours);
		assert_int_equal(count_fds(), before + 1);
	}
	expect_file(7, 3 * PASSED_MAX * 4096);
	assert_int_equal(peer_take_block(&ours, 7), -1);
	assert_int_equal(count_fds(), before);
	/* Others have room. */
	send_file(8, 4096);
	expect_file(8, 4096);
}

/* Of the blocks not asked for the oldest are dropped: the latest ones are about to be asked for. */
static void blocks_that_nobody_takes_make_room_for_others(void **state)
{
	uint32_t region;

	for (region = 1; region <= 100; region++) {
		send_file(region, region * 4096);
		peer_read_socket(&ours);
		assert_in_range(count_fds(), before, before + PASSED_MAX);
	}
	for (region = 1; region <= 100 - PASSED_MAX; region++)
		assert_int_equal(peer_take_block(&ours, region), -1);
	for (; region <= 100; region++)
		expect_file(region, region * 4096);
	assert_int_equal(count_fds(), before);
}

/*
 * Nor is the peer that says it: it may have sent its own end of the socket, so that its end is
 * never seen.
 */
static void what_is_no_block_is_not_kept(void **state)
{
	static const uint32_t words[4] = { 5, 5, 5, 5 };
	uint64_t random = 2;
	unsigned i, count;

	for (i = 0; i < 2000; i++) {
		size_t bytes = 1 + test_random(&random) % sizeof(words);

		count = (unsigned)(test_random(&random) % 16);
		send_anything(words, bytes, count);
		peer_read_socket(&ours);
		assert_in_range(count_fds(), before, before + 1);
		/* A bell is all that is right among these. */
		assert_int_equal(peer_has_ended(&ours), bytes != 1 || count);
		ours.ended = false;
	}
	send_anything(words, sizeof(words[0]), 1);
	assert_int_equal(peer_take_block(&ours, 5), -1);
	assert_true(peer_has_ended(&ours));
	assert_int_equal(count_fds(), before);
}

static void the_end_of_a_peer_is_noticed_behind_what_it_sent(void **state)
{
	send_file(7, 4096);
	close(theirs.process.fd);
	theirs.process.fd = -1;
	before--;
	assert_false(peer_has_ended(&ours));
	peer_read_socket(&ours);
	assert_true(peer_has_ended(&ours));
	expect_file(7, 4096);
	assert_int_equal(count_fds(), before);
	assert_false(peer_send_block(&ours, 1, STDIN_FILENO));
}

/* No process reads: the call reports it instead of waiting. */
static void a_full_socket_is_no_place_to_wait(void **state)
{
	unsigned sent = 0;

	while (peer_send_block(&theirs, 1 + sent, STDIN_FILENO))
		assert_true(++sent < 100000);
	assert_true(sent > 0);
	while (sent--)
		peer_read_socket(&ours);
	assert_true(peer_send_block(&theirs, 1, STDIN_FILENO));
	fail_set(FAIL_SENDMSG, 1, ENOBUFS);
	assert_false(peer_send_block(&theirs, 1, STDIN_FILENO));
	fail_clear();
	while (peer_take_block(&ours, 1) >= 0)
		;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_block_is_found_by_its_grant),
		TEST(nobody_has_the_block_of_no_grant),
		TEST(bells_are_dropped),
		TEST(a_bell_is_taken_with_the_blocks_before_it),
		TEST(who_rings_for_ever_hides_nobody),
		TEST(a_block_that_is_sent_anew_takes_the_place_of_the_one_before),
		TEST(blocks_that_nobody_takes_make_room_for_others),
		TEST(what_is_no_block_is_not_kept),
		TEST(the_end_of_a_peer_is_noticed_behind_what_it_sent),
		TEST(a_full_socket_is_no_place_to_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
