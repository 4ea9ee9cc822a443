/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watching slots: processes that end, stop, close, of this user and another; counts; many watchers.
 *
 * Needs a network namespace (root, or unprivileged user namespaces); skipped loudly otherwise.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/slot.h"
#include "host/slot_watch.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/netns_test.h"
#include "platform/patience_test.h"
#include "platform/wait.h"

#define NOBODY	65534
#define MS	1000000ull
#define PATIENCE_MS	((int)PATIENCE_S * 1000)
#define MANY	100
#define FEW	12

static bool real_root;
static struct slot_watch *mine;

struct holder {
	pid_t pid;
	int fd;
};

/* A process that holds @slot, turns its watch, and ends when its socket hangs up. */
static void hold(uint32_t slot, uid_t uid, int fd)
{
	struct slot_watch *watch;
	struct pollfd poll_fd[2] = { { .fd = fd, .events = POLLIN } };
	uint32_t gone[4];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(HANGING_S);
	if ((uid && setresuid(uid, uid, uid)) || slot_watch_open(&watch) ||
	    slot_watch_listen(watch, slot) || write(fd, "!", 1) != 1)
		_exit(1);
	poll_fd[1] = (struct pollfd){ .fd = slot_watch_event_fd(watch), .events = POLLIN };
	do {
		poll(poll_fd, 2, -1);
		slot_watch_turn(watch, gone, 4);
	} while (!poll_fd[0].revents);
	slot_watch_close(watch);
	for (;;)
		pause();		/* it has closed its devices, and lives on */
}

static struct holder start(uint32_t slot, uid_t uid)
{
	struct holder holder;
	int pair[2];
	char go;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	holder = (struct holder){ .pid = fork(), .fd = pair[0] };
	if (!holder.pid)
		hold(slot, uid, pair[1]);
	close(pair[1]);
	assert_int_equal(read(holder.fd, &go, 1), 1);
	return holder;
}

static void end(struct holder *holder)
{
	kill(holder->pid, SIGKILL);
	waitpid(holder->pid, NULL, 0);
	close(holder->fd);
}

/* The slot that is gone within @timeout_ms; 0: none. */
static uint32_t wait_gone(int timeout_ms)
{
	uint64_t end_ns = clock_now_ns() + (uint64_t)timeout_ms * MS;
	struct pollfd poll_fd = { .fd = slot_watch_event_fd(mine), .events = POLLIN };
	uint32_t slot;

	do {
		if (slot_watch_turn(mine, &slot, 1))
			return slot;
		poll(&poll_fd, 1, timeout_ms);
	} while (clock_now_ns() < end_ns);
	return 0;
}

static int setup(void **state)
{
	return !netns_renew() || slot_watch_open(&mine) || slot_watch_listen(mine, 1);
}

static int teardown(void **state)
{
	slot_watch_close(mine);
	return 0;
}

/* From the kill of a process with a slot until it is noticed. */
static uint64_t time_to_notice(uint32_t slot)
{
	struct holder holder = start(slot, 0);
	uint64_t then_ns;

	assert_int_equal(slot_watch_add(mine, slot), 0);
	then_ns = clock_now_ns();
	end(&holder);
	assert_int_equal(wait_gone(PATIENCE_MS), slot);
	return clock_now_ns() - then_ns;
}

static void a_kill_is_noticed_at_once_and_told_once(void **state)
{
	struct holder holder = start(7, 0), other = start(8, 0);
	unsigned tries = 0;

	assert_int_equal(slot_watch_add(mine, 9), ESRCH);
	assert_int_equal(slot_watch_add(mine, SLOT_COUNT + 7), ESRCH);
	assert_int_equal(slot_watch_add(mine, 7), 0);
	assert_int_equal(slot_watch_add(mine, 7), 0);
	assert_int_equal(slot_watch_add(mine, 8), 0);
	assert_int_equal(wait_gone(20), 0);
	end(&holder);
	assert_int_equal(wait_gone(PATIENCE_MS), 7);
	assert_int_equal(wait_gone(20), 0);
	while (time_to_notice(9) > 200 * MS)
		assert_in_range(++tries, 0, SOON_TRIES);
	assert_int_equal(slot_watch_add(mine, 7), ESRCH);
	end(&other);
	assert_int_equal(wait_gone(PATIENCE_MS), 8);
}

static void who_closes_its_devices_is_gone_too(void **state)
{
	struct holder holder = start(7, 0);

	assert_int_equal(slot_watch_add(mine, 7), 0);
	assert_int_equal(shutdown(holder.fd, SHUT_WR), 0);
	assert_int_equal(wait_gone(PATIENCE_MS), 7);
	assert_int_equal(kill(holder.pid, 0), 0);
	end(&holder);
}

static void a_stopped_process_is_not_gone_and_its_death_is_noticed(void **state)
{
	struct holder holder = start(7, 0);

	kill(holder.pid, SIGSTOP);
	assert_int_equal(slot_watch_add(mine, 7), 0);
	assert_int_equal(wait_gone(50), 0);
	end(&holder);
	assert_int_equal(wait_gone(PATIENCE_MS), 7);
}

static void another_users_process_can_be_watched(void **state)
{
	struct holder holder;

	if (!real_root) {
		print_message("SKIPPED: there are no other users in a user namespace\n");
		skip();
	}
	holder = start(7, NOBODY);
	assert_int_equal(slot_watch_add(mine, 7), 0);
	end(&holder);
	assert_int_equal(wait_gone(PATIENCE_MS), 7);
}

static void watches_are_counted(void **state)
{
	struct holder holder = start(7, 0);

	assert_int_equal(slot_watch_add(mine, 7), 0);
	assert_int_equal(slot_watch_add(mine, 7), 0);
	slot_watch_remove(mine, 7);
	slot_watch_remove(mine, 7);
	slot_watch_remove(mine, 7);	/* one too many does no harm */
	end(&holder);
	assert_int_equal(wait_gone(20), 0);
}

static void the_next_holder_is_watched_apart_from_the_last(void **state)
{
	struct holder holder = start(7, 0);

	assert_int_equal(slot_watch_add(mine, 7), 0);
	assert_int_equal(slot_watch_add(mine, 7), 0);
	end(&holder);
	assert_int_equal(wait_gone(PATIENCE_MS), 7);
	slot_watch_remove(mine, 7);
	holder = start(7, 0);
	assert_int_equal(slot_watch_add(mine, 7), 0);
	slot_watch_remove(mine, 7);	/* the second of the first two */
	end(&holder);
	assert_int_equal(wait_gone(PATIENCE_MS), 7);
}

static void a_watch_is_kept_for_the_next_who_needs_it(void **state)
{
	struct holder holder = start(7, 0);

	assert_int_equal(slot_watch_add(mine, 7), 0);
	slot_watch_remove(mine, 7);
	fail_set(FAIL_CONNECT, 1, EIO);
	assert_int_equal(slot_watch_add(mine, 7), 0);	/* without a new connection */
	fail_clear();
	end(&holder);
	assert_int_equal(wait_gone(PATIENCE_MS), 7);
	slot_watch_remove(mine, 7);
	assert_int_equal(slot_watch_add(mine, 7), ESRCH);
}

static void a_kept_watch_is_not_taken_for_one_of_the_next_holder(void **state)
{
	struct holder holder = start(7, 0);

	assert_int_equal(slot_watch_add(mine, 7), 0);
	slot_watch_remove(mine, 7);
	end(&holder);			/* which we have no turn to notice */
	holder = start(7, 0);
	assert_int_equal(slot_watch_add(mine, 7), 0);
	assert_int_equal(wait_gone(20), 0);
	end(&holder);
	assert_int_equal(wait_gone(PATIENCE_MS), 7);
}

static void our_own_slot_is_never_gone(void **state)
{
	assert_int_equal(slot_watch_add(mine, 1), 0);
	assert_int_equal(wait_gone(20), 0);
	slot_watch_remove(mine, 1);
	assert_int_equal(slot_watch_listen(mine, 1), EADDRINUSE);
}

static unsigned open_fds(void)
{
	unsigned count = 0;
	int fd;

	for (fd = 0; fd < 512; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Until so many descriptors are open: the kernel tells of what has ended when it comes to that. */
static bool nothing_goes_until_open(unsigned least, unsigned most)
{
	return comes_true((assert_int_equal(wait_gone(1), 0), open_fds() >= least && open_fds() <= most));
}

static void few_watches_are_kept(void **state)
{
	struct holder holder[FEW];
	unsigned i, before = open_fds();

	for (i = 0; i < FEW; i++) {
		holder[i] = start(20 + i, 0);
		assert_int_equal(slot_watch_add(mine, 20 + i), 0);
		slot_watch_remove(mine, 20 + i);
	}
	assert_in_range(open_fds(), before + FEW, before + FEW + 8);	/* FEW: the sockets of start() */
	for (i = 0; i < FEW; i++)
		end(&holder[i]);
	assert_true(nothing_goes_until_open(before, before));
}

/* Watchers that come and go leave nothing behind in the watched process; a backlog is no limit. */
static void many_watchers_come_and_go(void **state)
{
	static struct slot_watch *watcher[MANY];
	unsigned i, round, before = open_fds();

	for (round = 0; round < 3; round++) {
		for (i = 0; i < MANY; i++) {
			assert_int_equal(slot_watch_open(&watcher[i]), 0);
			assert_int_equal(slot_watch_add(watcher[i], 1), 0);
			if (i % 7 == 0)
				wait_gone(0);
		}
		for (i = 0; i < MANY; i++)
			slot_watch_close(watcher[i]);
		assert_true(nothing_goes_until_open(before, before));
	}
}

#define STRANGERS 300u

/* In a process of another user: a refused watch does not mean that the process has ended. */
static int watch_as_stranger(int go)
{
	static struct slot_watch *watcher[STRANGERS];
	uint32_t gone;
	unsigned i;
	char byte;

	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 1;
	for (i = 0; i < STRANGERS; i++)
		if (slot_watch_open(&watcher[i]) || slot_watch_add(watcher[i], 1))
			return 2;
	if (write(go, "r", 1) != 1 || read(go, &byte, 1) != 1)
		return 3;
	for (i = 0; i < STRANGERS; i++) {
		if (slot_watch_turn(watcher[i], &gone, 1))
			return 4;
		slot_watch_remove(watcher[i], 1);
		slot_watch_close(watcher[i]);
	}
	return 0;
}

static void another_user_costs_few_descriptors(void **state)
{
	unsigned before = open_fds();
	int pair[2], status;
	char byte;
	pid_t pid;

	if (geteuid()) {
		print_message("SKIPPED: to become another user takes root\n");
		skip();
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (!pid)
		_exit(watch_as_stranger(pair[1]));
	close(pair[1]);
	assert_int_equal(read(pair[0], &byte, 1), 1);
	assert_true(nothing_goes_until_open(before + 100, before + 130));
	assert_int_equal(write(pair[0], "g", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pair[0]);
	assert_true(nothing_goes_until_open(before, before));
}

static void without_descriptors_watchers_wait_in_the_backlog(void **state)
{
	struct slot_watch *first, *second;
	struct pollfd poll_fd = { .fd = slot_watch_event_fd(mine), .events = POLLIN };
	uint32_t gone;

	assert_int_equal(slot_watch_open(&first), 0);
	assert_int_equal(slot_watch_open(&second), 0);
	assert_int_equal(slot_watch_add(first, 1), 0);
	assert_int_equal(wait_gone(1), 0);
	assert_int_equal(slot_watch_add(second, 1), 0);
	fail_set(FAIL_SOCKET, 1, EMFILE);
	assert_int_equal(wait_gone(1), 0);
	fail_clear();
	assert_int_equal(poll(&poll_fd, 1, 0), 0);	/* and no thread spins on it */
	slot_watch_close(first);
	assert_int_equal(wait_gone(1), 0);	/* its place is the other's */
	slot_watch_close(mine);
	assert_int_equal(slot_watch_turn(second, &gone, 1), 1);
	assert_int_equal(gone, 1);
	slot_watch_close(second);
	assert_int_equal(slot_watch_open(&mine), 0);
}

static void what_fails_is_said(void **state)
{
	struct slot_watch *watch;

	fail_set(FAIL_EPOLL, 1, EMFILE);
	assert_int_equal(slot_watch_open(&watch), EMFILE);
	fail_set(FAIL_ALLOCATE, 1, 0);
	assert_int_equal(slot_watch_open(&watch), ENOMEM);
	fail_set(FAIL_SOCKET, 1, EMFILE);
	assert_int_equal(slot_watch_listen(mine, 5), EMFILE);
	fail_set(FAIL_LISTEN, 1, EIO);
	assert_int_equal(slot_watch_listen(mine, 5), EIO);
	fail_set(FAIL_EPOLL_ADD, 1, ENOSPC);
	assert_int_equal(slot_watch_listen(mine, 5), ENOSPC);
	fail_set(FAIL_SOCKET, 1, EMFILE);
	assert_int_equal(slot_watch_add(mine, 5), EMFILE);
	fail_set(FAIL_CONNECT, 1, ECONNREFUSED);
	assert_int_equal(slot_watch_add(mine, 5), ESRCH);
	fail_clear();
	assert_int_equal(slot_watch_listen(mine, 5), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_kill_is_noticed_at_once_and_told_once),
		TEST(who_closes_its_devices_is_gone_too),
		TEST(a_stopped_process_is_not_gone_and_its_death_is_noticed),
		TEST(another_users_process_can_be_watched),
		TEST(watches_are_counted),
		TEST(the_next_holder_is_watched_apart_from_the_last),
		TEST(a_watch_is_kept_for_the_next_who_needs_it),
		TEST(a_kept_watch_is_not_taken_for_one_of_the_next_holder),
		TEST(few_watches_are_kept),
		TEST(our_own_slot_is_never_gone),
		TEST(many_watchers_come_and_go),
		TEST(another_user_costs_few_descriptors),
		TEST(without_descriptors_watchers_wait_in_the_backlog),
		TEST(what_fails_is_said),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
