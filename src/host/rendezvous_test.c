/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes meet; whoever is no match is turned away. In a network namespace of the test. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/rendezvous.h"
#include "platform/fail.h"
#include "platform/memory.h"
#include "platform/netns_test.h"

#define BYTES 8192u
#define WAIT_NS 300000000u

struct party {
	struct rendezvous_card card;
	struct rendezvous_gifts gifts;
	int listen_fd;
	char *arena, *channel, *pool;
};

static bool real_root;

static void party_make(struct party *party, uint32_t slot)
{
	*party = (struct party){ .card = { .slot_count = 1, .slot = { slot }, .arena_bytes = BYTES,
					   .channel_bytes = BYTES, .pool_bytes = BYTES } };
	assert_int_equal(memory_shared("arena", BYTES, (void **)&party->arena,
				       &party->gifts.arena_fd), 0);
	assert_int_equal(memory_shared("pool", BYTES, (void **)&party->pool,
				       &party->gifts.pool_fd), 0);
	assert_int_equal(memory_shared("channel", BYTES, (void **)&party->channel,
				       &party->gifts.channel_fd), 0);
	party->gifts.doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(rendezvous_listen(slot, &party->listen_fd), 0);
}

static void party_end(struct party *party)
{
	memory_release(party->arena, BYTES, party->gifts.arena_fd);
	memory_release(party->channel, BYTES, party->gifts.channel_fd);
	memory_release(party->pool, BYTES, party->gifts.pool_fd);
	close(party->gifts.doorbell_fd);
	close(party->listen_fd);
}

static int connect_to(struct party *party, uint32_t slot, struct rendezvous_peer *peer)
{
	int err = rendezvous_connect(slot, &party->card, &party->gifts, peer);

	return err ? err : rendezvous_hear(peer, WAIT_NS);
}

/* A process of its own that holds slot 7 and answers the first who comes with @verdict. */
static pid_t listener(int verdict, uid_t uid)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct rendezvous_peer peer;
		struct pollfd pollfd = { .events = POLLIN };
		struct party party;

		if (uid && setuid(uid))
			_exit(3);
		party_make(&party, 7);
		strcpy(party.arena, "the listener's");
		pollfd.fd = party.listen_fd;
		if (write(ready[1], "", 1) != 1 || poll(&pollfd, 1, 5000) != 1 ||
		    rendezvous_take(party.listen_fd, &peer))
			_exit(1);
		if (!verdict) {
			char *channel;

			if (memory_map(peer.channel_fd, BYTES, true, (void **)&channel))
				_exit(2);
			strcpy(channel, "written by the listener");
		}
		rendezvous_answer(&peer, &party.card, verdict, &party.gifts);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* It has stopped when this returns. */
static void stop(pid_t pid)
{
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void two_processes_share_memory_until_one_ends(void **state)
{
	struct rendezvous_peer peer;
	struct pollfd pollfd = { .events = POLLIN };
	struct party party;
	char *arena;
	pid_t pid = listener(0, 0);

	party_make(&party, 9);
	assert_int_equal(connect_to(&party, 7, &peer), 0);
	assert_int_equal(peer.pid, pid);
	assert_int_equal(peer.card.slot[0], 7);
	assert_int_equal(memory_map(peer.arena_fd, peer.card.arena_bytes, false, (void **)&arena), 0);
	assert_string_equal(arena, "the listener's");
	assert_string_equal(party.channel, "written by the listener");
	assert_int_equal(eventfd_write(peer.doorbell_fd, 1), 0);
	pollfd.fd = peer.fd;
	assert_int_equal(poll(&pollfd, 1, 0), 0);
	end(pid);
	assert_int_equal(poll(&pollfd, 1, 1000), 1);
	assert_true(pollfd.revents & POLLHUP);
	munmap(arena, BYTES);
	rendezvous_part(&peer);
	assert_int_equal(connect_to(&party, 7, &peer), ECONNREFUSED);
	party_end(&party);
}

static void the_verdict_of_the_listener_is_passed_on(void **state)
{
	struct rendezvous_peer peer;
	struct party party;
	pid_t pid = listener(EALREADY, 0);

	party_make(&party, 9);
	assert_int_equal(connect_to(&party, 7, &peer), EALREADY);
	end(pid);
	party_end(&party);
}

static void another_user_is_turned_away_by_both(void **state)
{
	struct rendezvous_peer peer;
	struct pollfd came = { .events = POLLIN };
	struct party party;
	pid_t pid;

	if (!real_root)
		skip();
	pid = listener(0, 12345);
	party_make(&party, 9);
	assert_int_equal(connect_to(&party, 7, &peer), EPERM);
	end(pid);
	pid = fork();
	if (!pid) {
		struct party other = { .gifts = party.gifts, .card = party.card };

		_exit(setuid(12345) ? 99 : connect_to(&other, 9, &peer));
	}
	came.fd = party.listen_fd;
	assert_int_equal(poll(&came, 1, 5000), 1);
	assert_int_equal(rendezvous_take(party.listen_fd, &peer), EPERM);
	end(pid);
	assert_int_equal(rendezvous_take(party.listen_fd, &peer), EAGAIN);
	party_end(&party);
}

static void one_that_does_not_answer_is_not_waited_for(void **state)
{
	struct rendezvous_peer peer;
	struct party party;
	pid_t pid = listener(0, 0);

	stop(pid);
	party_make(&party, 9);
	assert_int_equal(connect_to(&party, 7, &peer), EAGAIN);
	end(pid);
	assert_int_equal(rendezvous_hear(&peer, WAIT_NS), ECONNRESET);
	assert_int_equal(peer.fd, -1);
	party_end(&party);
}

static void an_answer_may_come_late(void **state)
{
	struct rendezvous_peer peer;
	struct party party;
	pid_t pid = listener(0, 0);

	stop(pid);
	party_make(&party, 9);
	assert_int_equal(rendezvous_connect(7, &party.card, &party.gifts, &peer), 0);
	assert_int_equal(rendezvous_hear(&peer, 0), EAGAIN);
	kill(pid, SIGCONT);
	assert_int_equal(rendezvous_hear(&peer, WAIT_NS), 0);
	assert_string_equal(party.channel, "written by the listener");
	rendezvous_part(&peer);
	end(pid);
	party_end(&party);
}

static void a_verdict_that_would_say_wait_is_none(void **state)
{
	struct rendezvous_peer peer;
	struct party party;
	pid_t pid = listener(EAGAIN, 0);

	party_make(&party, 9);
	assert_int_equal(connect_to(&party, 7, &peer), EPROTO);
	end(pid);
	party_end(&party);
}

/* Connects to slot 9 by hand and says @bytes of @data with @fds. */
static int stranger(const void *data, size_t bytes, const int *fds, unsigned count)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "\0" RENDEZVOUS_NAME "9" };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	char control[CMSG_SPACE(8 * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = bytes };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	assert_int_equal(connect(fd, (struct sockaddr *)&name,
				 offsetof(struct sockaddr_un, sun_path) + 2 +
				 strlen(RENDEZVOUS_NAME)), 0);
	if (count) {
		struct cmsghdr *header;

		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		*header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
					    .cmsg_len = CMSG_LEN(count * sizeof(int)) };
		memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	}
	assert_true(sendmsg(fd, &message, 0) >= 0);
	return fd;
}

static void what_is_no_card_is_refused(void **state)
{
	struct rendezvous_peer peer;
	struct party party;
	struct rendezvous_card card;
	int fd[3], unsealed = memfd_create("unsealed", 0), all[4], i;

	party_make(&party, 9);
	all[0] = party.gifts.arena_fd;
	all[1] = party.gifts.doorbell_fd;
	all[2] = party.gifts.pool_fd;
	all[3] = unsealed;
	assert_int_equal(ftruncate(unsealed, BYTES), 0);
	card = party.card;
	card.magic = RENDEZVOUS_MAGIC;
	card.version = RENDEZVOUS_VERSION + 1;
	fd[0] = stranger("hello", 5, NULL, 0);
	fd[1] = stranger(&card, sizeof(card), all, 4);
	card.version = RENDEZVOUS_VERSION;
	fd[2] = stranger(&card, sizeof(card), all, 4);
	for (i = 0; i < 3; i++) {
		assert_int_equal(rendezvous_take(party.listen_fd, &peer), EPROTO);
		close(fd[i]);
	}
	fd[0] = stranger("", 0, NULL, 0);
	shutdown(fd[0], SHUT_RDWR);
	assert_int_not_equal(rendezvous_take(party.listen_fd, &peer), 0);
	close(fd[0]);
	/* What is to be a doorbell and is something else could block or raise SIGPIPE. */
	all[3] = party.gifts.channel_fd;
	assert_int_equal(pipe(fd), 0);
	all[1] = fd[1];
	fd[2] = stranger(&card, sizeof(card), all, 4);
	assert_int_equal(rendezvous_take(party.listen_fd, &peer), EPROTO);
	close(fd[0]);
	close(fd[1]);
	close(fd[2]);
	all[1] = party.gifts.doorbell_fd;
	/* The same with memory that is sealed is taken. */
	fd[0] = stranger(&card, sizeof(card), all, 4);
	assert_int_equal(rendezvous_take(party.listen_fd, &peer), 0);
	rendezvous_part(&peer);
	close(fd[0]);
	close(unsealed);
	party_end(&party);
}

static void one_without_a_pool_is_welcome(void **state)
{
	struct rendezvous_peer peer;
	struct party party;
	pid_t pid = listener(0, 0);
	int pool_fd;

	party_make(&party, 9);
	pool_fd = party.gifts.pool_fd;
	party.gifts.pool_fd = -1;
	party.card.pool_bytes = 0;
	assert_int_equal(connect_to(&party, 7, &peer), 0);
	assert_string_equal(party.channel, "written by the listener");
	rendezvous_part(&peer);
	end(pid);
	party.gifts.pool_fd = pool_fd;
	party_end(&party);
}

static void failures_are_passed_on(void **state)
{
	static const enum fail_point point[] = { FAIL_SOCKET, FAIL_CONNECT, FAIL_SENDMSG };
	struct rendezvous_peer peer;
	struct party party;
	unsigned i;
	int fd;
	pid_t pid = listener(0, 0);

	party_make(&party, 9);
	for (i = 0; i < 3; i++) {
		fail_set(point[i], 1, EMFILE);
		assert_int_equal(connect_to(&party, 7, &peer), EMFILE);
		fail_clear();
	}
	fail_set(FAIL_BIND, 1, EPERM);
	assert_int_equal(rendezvous_listen(8, &fd), EPERM);
	fail_clear();
	end(pid);
	party_end(&party);
}

/* What a test that failed has left has no names here. */
static int renew(void **state)
{
	return netns_renew() ? 0 : -1;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, renew)
	const struct CMUnitTest tests[] = {
		TEST(two_processes_share_memory_until_one_ends),
		TEST(the_verdict_of_the_listener_is_passed_on),
		TEST(another_user_is_turned_away_by_both),
		TEST(one_that_does_not_answer_is_not_waited_for),
		TEST(an_answer_may_come_late),
		TEST(a_verdict_that_would_say_wait_is_none),
		TEST(what_is_no_card_is_refused),
		TEST(one_without_a_pool_is_welcome),
		TEST(failures_are_passed_on),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
