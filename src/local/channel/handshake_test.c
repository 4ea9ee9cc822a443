/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes connect; a process that does not match, or is not what it claims, is refused and
 * leaves nothing behind. In a network namespace of the test.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "host/name.h"
#include "local/channel/handshake.h"
#include "platform/fail.h"
#include "platform/memory.h"
#include "platform/netns_test.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define BYTES 8192u
#define WAIT_NS 300000000u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#define LISTENERS_SLOT 7u
#define OUR_SLOT 9u
#define USER 12345u
#define OTHER_USER 23456u

/* One process: what it says, its side, and where it listens. */
struct party {
	struct hello hello;
	char *side;
	int side_fd, listen_fd;
};

static bool real_root;

/* As the holder of that slot would. 0 or errno. */
static int listen_as(uint32_t slot, int *fd)
{
	struct abstract_name name = name_of_slot(SLOT_CHANNEL_NAME, slot);
	int err;

	*fd = name_socket(SOCK_SEQPACKET);
	if (*fd < 0)
		return errno;
	err = name_bind(*fd, &name);
	if (!err)
		err = handshake_listen(*fd);
	if (err)
		close(*fd);
	return err;
}

/* 0 or errno: also for children, which cannot assert. */
static int party_open(struct party *party, uint32_t slot)
{
	int err;

	*party = (struct party){ .hello = { .slot_count = 2, .slot = { slot, slot + 100 },
					    .side_bytes = BYTES, .guard = 0x1234567890 + slot,
					    .late = slot & 1 } };
	err = memory_private(BYTES, (void **)&party->side);
	if (!err)
		err = memory_shared("side", BYTES, party->side, &party->side_fd);
	return err ? err : listen_as(slot, &party->listen_fd);
}

static void party_make(struct party *party)
{
	assert_int_equal(party_open(party, OUR_SLOT), 0);
}

static void party_end(struct party *party)
{
	memory_release(party->side, BYTES, party->side_fd);
	close(party->listen_fd);
}

static int connect_as(uint32_t slot, const struct hello *hello, int side_fd, struct handshake_peer *peer)
{
	int err = handshake_connect(slot, peer);

	return err ? err : handshake_greet(peer, hello, side_fd);
}

static int connect_to_listener(struct party *party, struct handshake_peer *peer)
{
	unsigned tries = 5;
	int err;

	do {
		err = connect_as(LISTENERS_SLOT, &party->hello, party->side_fd, peer);
		if (!err)
			err = handshake_receive(peer, WAIT_NS);
	} while (err == ECONNRESET && --tries);
	return err;
}

static int count_fds(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

/* ---- a process that listens ---- */

static bool wait_for(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, 5000) == 1;
}

/* The connector's side has the right content: say so in ours. */
static bool look_at(const struct handshake_peer *peer, struct party *party)
{
	char *theirs;

	if (memory_map_sealed(peer->side_fd, BYTES, false, (void **)&theirs))
		return false;
	if (!strcmp(theirs, "the connector's"))
		strcpy(party->side, "the listener's");
	return true;
}

static bool turns_away;	/* a listener goes on after it has turned another user away */

/* @later: the user that it becomes when it listens. */
static void listen_for_one(int ready_fd, int verdict, uid_t user, uid_t later)
{
	struct handshake_peer peer;
	struct party party;
	int err;

	if ((user && setuid(user)) || party_open(&party, LISTENERS_SLOT))
		_exit(3);
	if (later && setuid(later))
		_exit(4);
	if (write(ready_fd, "", 1) != 1)
		_exit(1);
	do	/* on a busy machine a hello comes late, and its sender again */
		err = wait_for(party.listen_fd) ? handshake_accept(party.listen_fd, &peer) : EAGAIN;
	while (err == ETIMEDOUT || (turns_away && err == EPERM));
	if (err)
		_exit(1);
	if (!verdict && !look_at(&peer, &party))
		_exit(2);
	handshake_answer(&peer, &party.hello, verdict, party.side_fd);
	pause();
	_exit(0);
}

/* It listens when this returns; -1: it could not. */
static pid_t start_listener(int verdict, uid_t user, uid_t later)
{
	int ready[2];
	bool listens;
	char byte;
	pid_t pid;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		close(ready[0]);
		listen_for_one(ready[1], verdict, user, later);
	}
	close(ready[1]);
	listens = read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return listens ? pid : -1;
}

static pid_t listener(int verdict)
{
	pid_t pid = start_listener(verdict, 0, 0);

	assert_true(pid > 0);
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

/* ---- meeting ---- */

static void two_processes_share_memory_until_one_ends(void **state)
{
	struct handshake_peer peer;
	struct pollfd pollfd = { .events = POLLIN };
	struct party party;
	char *theirs;
	pid_t pid = listener(0);

	party_make(&party);
	strcpy(party.side, "the connector's");
	assert_int_equal(connect_to_listener(&party, &peer), 0);
	assert_int_equal(peer.pid, pid);
	assert_int_equal(peer.hello.slot_count, 2);
	assert_int_equal(peer.hello.slot[0], LISTENERS_SLOT);
	assert_int_equal(peer.hello.slot[1], LISTENERS_SLOT + 100);
	assert_int_equal(peer.hello.guard, 0x1234567890 + LISTENERS_SLOT);
	assert_int_equal(peer.hello.late, 1);
	assert_int_equal(peer.hello.side_bytes, BYTES);
	assert_int_equal(memory_map_sealed(peer.side_fd, BYTES, true, (void **)&theirs), EPERM);
	assert_int_equal(memory_map_sealed(peer.side_fd, BYTES, false, (void **)&theirs), 0);
	assert_string_equal(theirs, "the listener's");
	/* The connection stays, for bells. */
	assert_int_equal(send(peer.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
	pollfd.fd = peer.fd;
	assert_int_equal(poll(&pollfd, 1, 0), 0);
	end(pid);
	assert_int_equal(poll(&pollfd, 1, 60000), 1);
	assert_true(pollfd.revents & POLLHUP);
	/* Shared memory outlives its owner: no access faults. */
	assert_string_equal(theirs, "the listener's");
	munmap(theirs, BYTES);
	handshake_close(&peer);
	assert_int_equal(peer.fd, -1);
	assert_int_equal(peer.side_fd, -1);
	assert_int_equal(connect_to_listener(&party, &peer), ECONNREFUSED);
	party_end(&party);
}

static void the_verdict_of_the_listener_is_passed_on(void **state)
{
	struct handshake_peer peer;
	struct party party;
	pid_t pid = listener(EALREADY);
	int before;

	party_make(&party);
	before = count_fds();
	assert_int_equal(connect_to_listener(&party, &peer), EALREADY);
	assert_int_equal(peer.side_fd, -1);
	assert_int_equal(count_fds(), before);
	end(pid);
	party_end(&party);
}

static void one_that_does_not_answer_is_not_waited_for(void **state)
{
	struct handshake_peer peer;
	struct party party;
	pid_t pid = listener(0);

	stop(pid);
	party_make(&party);
	assert_int_equal(connect_to_listener(&party, &peer), EAGAIN);
	assert_false(handshake_is_answered(&peer));
	end(pid);
	assert_true(handshake_is_answered(&peer));
	assert_int_equal(handshake_receive(&peer, WAIT_NS), ECONNRESET);
	assert_int_equal(peer.fd, -1);
	party_end(&party);
}

static void an_answer_may_come_late(void **state)
{
	struct handshake_peer peer;
	struct party party;
	pid_t pid = listener(0);

	stop(pid);
	party_make(&party);
	strcpy(party.side, "the connector's");
	assert_int_equal(connect_as(LISTENERS_SLOT, &party.hello, party.side_fd, &peer), 0);
	assert_int_equal(handshake_receive(&peer, 0), EAGAIN);
	kill(pid, SIGCONT);
	assert_int_equal(handshake_receive(&peer, 10 * (uint64_t)WAIT_NS), 0);
	handshake_close(&peer);
	end(pid);
	party_end(&party);
}

static void a_verdict_that_would_say_wait_is_none(void **state)
{
	static const int verdicts[] = { EAGAIN, 4096, -1 };
	struct handshake_peer peer;
	struct party party;
	unsigned i;
	pid_t pid;

	party_make(&party);
	for (i = 0; i < 3; i++) {
		pid = listener(verdicts[i]);
		assert_int_equal(connect_to_listener(&party, &peer), EPROTO);
		end(pid);
	}
	party_end(&party);
}

/* ---- identity ---- */

static int exit_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/*
 * In a child: become that user, before it connects or after, and say a hello that would be welcome.
 */
static void say_hello_as(uid_t user, bool before, const struct hello *welcome)
{
	struct abstract_name name = name_of_slot(SLOT_CHANNEL_NAME, OUR_SLOT);
	struct hello hello = *welcome;
	int fd;

	hello.magic = HANDSHAKE_MAGIC;
	hello.version = HANDSHAKE_VERSION;
	if ((before && setuid(user)) || name_connect(&name, SOCK_SEQPACKET, &fd) || setuid(user))
		_exit(1);
	_exit(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello));
}

static void another_user_is_turned_away_by_both(void **state)
{
	struct handshake_peer peer;
	struct party party;
	pid_t pid;

	if (!real_root) {
		print_message("SKIPPED: to become another user takes root\n");
		skip();
	}
	pid = start_listener(0, USER, 0);
	assert_true(pid > 0);
	party_make(&party);
	assert_int_equal(connect_to_listener(&party, &peer), EPERM);
	end(pid);
	pid = fork();
	if (!pid)
		_exit(setuid(USER) ? 99 : connect_as(OUR_SLOT, &party.hello, party.side_fd,
							    &peer));
	assert_int_equal(exit_of(pid), EPERM);
	assert_int_equal(handshake_accept(party.listen_fd, &peer), EPERM);
	pid = fork();
	if (!pid)
		say_hello_as(USER, true, &party.hello);
	assert_int_equal(exit_of(pid), 0);
	assert_int_equal(handshake_accept(party.listen_fd, &peer), EPERM);
	assert_int_equal(handshake_accept(party.listen_fd, &peer), EAGAIN);
	party_end(&party);
}

/* listen() and connect() were called by root: that is what SO_PEERCRED says for ever. */
static void who_has_become_another_user_is_turned_away(void **state)
{
	struct handshake_peer peer;
	struct party party;
	pid_t pid;
	int err;

	if (!real_root) {
		print_message("SKIPPED: to become another user takes root\n");
		skip();
	}
	pid = start_listener(EALREADY, 0, USER);
	assert_true(pid > 0);
	party_make(&party);
	/* It was trusted when it called listen(), but is another user now. */
	err = connect_as(LISTENERS_SLOT, &party.hello, party.side_fd, &peer);
	assert_true(!err || err == ECONNRESET);	/* it hung up before we spoke */
	assert_int_equal(exit_of(pid), 1);
	if (!err)
		handshake_close(&peer);
	pid = fork();
	if (!pid)
		say_hello_as(USER, false, &party.hello);
	assert_int_equal(exit_of(pid), 0);
	assert_int_equal(handshake_accept(party.listen_fd, &peer), EPERM);
	party_end(&party);
}

/* What answers on a connection that root accepted. */
static void an_answer_of_another_user_is_none(void **state)
{
	struct handshake_peer peer, came;
	struct party party;
	pid_t pid;

	if (!real_root) {
		print_message("SKIPPED: to become another user takes root\n");
		skip();
	}
	party_make(&party);
	assert_int_equal(connect_as(OUR_SLOT, &party.hello, party.side_fd, &peer), 0);
	assert_int_equal(handshake_accept(party.listen_fd, &came), 0);
	assert_int_equal(came.pid, getpid());
	pid = fork();
	if (!pid)
		_exit(setuid(USER) ? 99 : handshake_answer(&came, &party.hello, 0, party.side_fd));
	assert_int_equal(handshake_receive(&peer, 10 * (uint64_t)WAIT_NS), EPERM);
	end(pid);
	handshake_close(&came);
	party_end(&party);
}

/* A user namespace in which no user has a number: all users look the same there. */
static bool become_unmapped(uid_t user)
{
	return !setgid(user) && !setuid(user) && !prctl(PR_SET_DUMPABLE, 1) &&
	       !unshare(CLONE_NEWUSER) && geteuid() == 65534;
}

#define UNKNOWN 250	/* no errno: it could not be tried */

/* In a child: what a connection comes to, of two unmapped processes. @same: both are one user. */
static int meet_unmapped(bool same)
{
	struct handshake_peer peer;
	struct party party;
	int ready[2], err;
	char byte;
	pid_t pid;

	if (pipe(ready) || (same && !become_unmapped(USER)))
		return UNKNOWN;
	pid = fork();
	if (!pid) {
		close(ready[0]);
		if (!same && !become_unmapped(USER))
			_exit(UNKNOWN);
		turns_away = true;	/* who had ended would be another user's no longer */
		listen_for_one(ready[1], 0, 0, 0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 || (!same && !become_unmapped(OTHER_USER)))
		err = UNKNOWN;
	else
		err = party_open(&party, OUR_SLOT);
	if (!err)
		err = connect_to_listener(&party, &peer);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);	/* its name is free again */
	return err;
}

static int meet_unmapped_apart(bool same)
{
	pid_t pid = fork();

	if (!pid)
		_exit(meet_unmapped(same));
	return exit_of(pid);
}

static void unmapped_users_are_not_taken_for_one_another(void **state)
{
	int same;

	if (!real_root) {
		print_message("SKIPPED: to become another user takes root\n");
		skip();
	}
	same = meet_unmapped_apart(true);
	if (same == UNKNOWN) {
		print_message("SKIPPED: no user namespaces for ordinary users\n");
		skip();
	}
	/* One and the same user: the kernel lets one look into the other. */
	assert_int_equal(same, 0);
	assert_int_equal(meet_unmapped_apart(false), EPERM);
}

/* ---- what it says ---- */

static int stranger(const void *data, size_t bytes, const int *fds, unsigned count)
{
	struct abstract_name name = name_of_slot(SLOT_CHANNEL_NAME, OUR_SLOT);
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd;

	assert_int_equal(name_connect(&name, SOCK_SEQPACKET, &fd), 0);
	if (count) {
		struct cmsghdr *header;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		*header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
					    .cmsg_len = CMSG_LEN(count * sizeof(int)) };
		memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	}
	assert_true(sendmsg(fd, &message, 0) >= 0);
	return fd;
}

/* The result of @bytes of @data with these descriptors; none of them is kept, in any case. */
static int accept_from_stranger(struct party *party, const void *data, size_t bytes, const int *fds,
				unsigned count)
{
	struct handshake_peer peer;
	int before = count_fds(), fd = stranger(data, bytes, fds, count);
	int err = handshake_accept(party->listen_fd, &peer);

	if (!err)
		handshake_close(&peer);
	close(fd);
	assert_int_equal(count_fds(), before);
	return err;
}

static struct hello good_hello(const struct party *party)
{
	struct hello hello = party->hello;

	hello.magic = HANDSHAKE_MAGIC;
	hello.version = HANDSHAKE_VERSION;
	return hello;
}

static void what_is_no_hello_is_refused(void **state)
{
	struct party party;
	struct hello good, bad[9];
	uint8_t longer[sizeof(struct hello) + 1] = { 0 };
	unsigned i;

	party_make(&party);
	good = good_hello(&party);
	assert_int_equal(accept_from_stranger(&party, &good, sizeof(good), &party.side_fd, 1), 0);
	for (i = 0; i < 9; i++)
		bad[i] = good;
	bad[0].magic++;
	bad[1].version++;
	bad[2].version--;
	bad[3].slot_count = HANDSHAKE_SLOTS + 1;
	bad[4].slot_count = UINT32_MAX;
	bad[5].slot[1] = 0;
	bad[6].slot[0] = SLOT_COUNT - 1;
	bad[7].slot[1] = UINT32_MAX;
	bad[8].verdict = 4096;
	for (i = 0; i < 9; i++)
		assert_int_equal(accept_from_stranger(&party, &bad[i], sizeof(good), &party.side_fd, 1),
				 EPROTO);
	for (i = 1; i < sizeof(good); i++)
		assert_int_equal(accept_from_stranger(&party, &good, i, &party.side_fd, 1), EPROTO);
	assert_int_equal(accept_from_stranger(&party, longer, sizeof(longer), NULL, 0), EPROTO);
	assert_int_equal(accept_from_stranger(&party, "hello", 5, NULL, 0), EPROTO);
	assert_int_not_equal(accept_from_stranger(&party, "", 0, NULL, 0), 0);
	party_end(&party);
}

/* Random bytes replace some of it: what is accepted is sound. */
static void junk_is_refused_or_harmless(void **state)
{
	struct party party;
	struct hello hello;
	uint64_t random = 8;
	unsigned round, i, taken = 0;

	party_make(&party);
	for (round = 0; round < 2000; round++) {
		struct handshake_peer peer;
		unsigned changes = 1 + (unsigned)(test_random(&random) % 4);
		int fd, err;

		hello = good_hello(&party);
		while (changes--)
			((uint8_t *)&hello)[test_random(&random) % sizeof(hello)] =
				(uint8_t)test_random(&random);
		fd = stranger(&hello, sizeof(hello), &party.side_fd, 1);
		err = handshake_accept(party.listen_fd, &peer);
		close(fd);
		if (err)
			continue;
		taken++;
		assert_int_equal(peer.hello.magic, HANDSHAKE_MAGIC);
		assert_int_equal(peer.hello.version, HANDSHAKE_VERSION);
		assert_int_equal(peer.hello.side_bytes, BYTES);
		assert_in_range(peer.hello.slot_count, 0, HANDSHAKE_SLOTS);
		for (i = 0; i < peer.hello.slot_count; i++)
			assert_in_range(peer.hello.slot[i], 1, SLOT_COUNT - 2);
		handshake_close(&peer);
	}
	assert_in_range(taken, 100, 1900);
	party_end(&party);
}

static int memory_with(int seals, size_t bytes, unsigned flags)
{
	int fd = memfd_create("side", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0)
		return -1;
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Otherwise it could be truncated while we use it, or written by another process. */
static void a_side_that_is_not_sealed_is_refused(void **state)
{
	static const int seals[] = { F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL };
	struct party party;
	struct hello hello;
	int fds[2], fd;
	unsigned i;

	party_make(&party);
	hello = good_hello(&party);
	for (i = 0; i < 4; i++) {
		fd = memory_with(SEALS & ~seals[i], BYTES, 0);
		assert_int_equal(accept_from_stranger(&party, &hello, sizeof(hello), &fd, 1), EPROTO);
		close(fd);
	}
	fd = memory_with(SEALS, BYTES / 2, 0);
	assert_int_equal(accept_from_stranger(&party, &hello, sizeof(hello), &fd, 1), EPROTO);
	close(fd);
	fd = memory_with(SEALS, 2u << 20, MFD_HUGETLB);
	hello.side_bytes = 2u << 20;
	if (fd >= 0)
		assert_int_equal(accept_from_stranger(&party, &hello, sizeof(hello), &fd, 1), EPROTO);
	close(fd);
	hello.side_bytes = BYTES;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(accept_from_stranger(&party, &hello, sizeof(hello), fds, 1), EPROTO);
	assert_int_equal(accept_from_stranger(&party, &hello, sizeof(hello), fds + 1, 1), EPROTO);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(accept_from_stranger(&party, &hello, sizeof(hello), NULL, 0), EPROTO);
	party_end(&party);
}

static void more_descriptors_than_one_are_not_kept(void **state)
{
	struct party party;
	struct hello hello;
	int fds[8];
	unsigned i;

	party_make(&party);
	hello = good_hello(&party);
	for (i = 0; i < 8; i++)
		fds[i] = party.side_fd;
	for (i = 2; i <= 8; i++)
		assert_int_equal(accept_from_stranger(&party, &hello, sizeof(hello), fds, i), 0);
	fds[0] = STDIN_FILENO;
	assert_int_equal(accept_from_stranger(&party, &hello, sizeof(hello), fds, 8), EPROTO);
	party_end(&party);
}

/* A process that connects and sends nothing delays the worker by some milliseconds at most. */
static void who_says_nothing_is_turned_away(void **state)
{
	struct abstract_name name = name_of_slot(SLOT_CHANNEL_NAME, OUR_SLOT);
	struct handshake_peer peer;
	struct party party;
	int before, fd;

	party_make(&party);
	before = count_fds();
	assert_int_equal(name_connect(&name, SOCK_SEQPACKET, &fd), 0);
	assert_int_equal(handshake_accept(party.listen_fd, &peer), ETIMEDOUT);
	close(fd);
	assert_int_equal(name_connect(&name, SOCK_SEQPACKET, &fd), 0);
	close(fd);
	assert_int_equal(handshake_accept(party.listen_fd, &peer), ECONNRESET);
	assert_int_equal(handshake_accept(party.listen_fd, &peer), EAGAIN);
	assert_int_equal(count_fds(), before);
	party_end(&party);
}

static void failures_are_passed_on(void **state)
{
	static const enum fail_point point[] = { FAIL_SOCKET, FAIL_CONNECT, FAIL_SENDMSG };
	struct handshake_peer peer;
	struct party party;
	unsigned i;
	int fd, before;
	pid_t pid = listener(0);

	party_make(&party);
	before = count_fds();
	for (i = 0; i < 3; i++) {
		fail_set(point[i], 1, EMFILE);
		assert_int_equal(connect_to_listener(&party, &peer), EMFILE);
		fail_clear();
	}
	fail_set(FAIL_LISTEN, 1, EPERM);
	assert_int_equal(listen_as(8, &fd), EPERM);
	fail_clear();
	assert_int_equal(connect_as(OUR_SLOT, &party.hello, party.side_fd, &peer), 0);
	fail_set(FAIL_RECVMSG, 1, ENOBUFS);
	fd = handshake_accept(party.listen_fd, &(struct handshake_peer){ .fd = -1 });
	assert_int_equal(fd, ENOBUFS);
	fail_clear();
	handshake_close(&peer);
	assert_int_equal(count_fds(), before);
	end(pid);
	party_end(&party);
}

/* A new namespace: what a failed test left behind has no names here. */
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
		TEST(one_that_does_not_answer_is_not_waited_for),
		TEST(an_answer_may_come_late),
		TEST(a_verdict_that_would_say_wait_is_none),
		TEST(another_user_is_turned_away_by_both),
		TEST(who_has_become_another_user_is_turned_away),
		TEST(an_answer_of_another_user_is_none),
		TEST(unmapped_users_are_not_taken_for_one_another),
		TEST(what_is_no_hello_is_refused),
		TEST(junk_is_refused_or_harmless),
		TEST(a_side_that_is_not_sealed_is_refused),
		TEST(more_descriptors_than_one_are_not_kept),
		TEST(who_says_nothing_is_turned_away),
		TEST(failures_are_passed_on),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
