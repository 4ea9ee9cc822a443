/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may share memory with whom, as the kernel judges: users, user namespaces that know no users,
 * PID and mount namespaces, connections of other users that say nothing. Data goes from one to the
 * other all the same, by whatever way is left.
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DRIVE_S 0.2

/* What becomes of an actor before it opens the device. */
typedef void change_fn(void);

struct meeting {
	change_fn *change[2];
	bool may_share;
};

static void as_a(void)
{
	become_user(USER_A);
}

static void as_b(void)
{
	become_user(USER_B);
}

static void as_test(void)
{
	become_user(0);
}

/* A user namespace in which no user has a name: to itself, each is 65534. */
static void without_name(unsigned uid)
{
	become_user(uid);
	if (unshare(CLONE_NEWUSER))
		skip("no user namespace: %m");
	CHECK(geteuid() == 65534, "%u", (unsigned)geteuid());
}

static void nameless_a(void)
{
	without_name(USER_A);
}

static void nameless_b(void)
{
	without_name(USER_B);
}

/* A user namespace in which this user is root. */
static void as_root_of_its_own(unsigned uid)
{
	become_user(uid);
	if (unshare(CLONE_NEWUSER))
		skip("no user namespace: %m");
	write_text("/proc/self/uid_map", "0 %u 1", uid);
	CHECK(geteuid() == 0);
}

static void root_a(void)
{
	as_root_of_its_own(USER_A);
}

static void root_b(void)
{
	as_root_of_its_own(USER_B);
}

/* The caller goes on in a child, which is the first process of the namespace. */
static void in_pid_namespace(void)
{
	int status;
	pid_t pid;

	become_user(0);
	if (unshare(CLONE_NEWPID))
		skip("no PID namespace: %m");
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return;
	}
	CHECK(waitpid(pid, &status, 0) == pid, "%m");
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void without_proc(void)
{
	become_user(0);
	if (unshare(CLONE_NEWNS) || mount("none", "/proc", "tmpfs", 0, NULL))
		skip("no /proc to hide: %m");
}

static void meeting_driver(struct cast *cast)
{
	const struct meeting *meeting = cast->argument;
	struct steady steady;
	struct node node;

	meeting->change[0]();
	node_open(&node);
	steady_connect(cast, 1, &steady, &node);
	steady_drive(&steady, DRIVE_S);
	cue(cast, cast->count);
	await_cue(cast, cast->count);
	steady_end(cast, 1, &steady);
	node_close(&node);
}

static void meeting_echo(struct cast *cast)
{
	const struct meeting *meeting = cast->argument;
	struct node node;

	meeting->change[1]();
	node_open(&node);
	steady_echo(cast, 0, &node);
	node_close(&node);
}

static void let_meet(change_fn *a, change_fn *b, bool may_share)
{
	actor_fn *const actor[] = {meeting_driver, meeting_echo};
	struct meeting meeting = {{a, b}, may_share};
	char name[128] = "";
	struct cast cast;
	unsigned shared;

	cast_start(&cast, 2, actor, &meeting);
	await_cue(&cast, 0);
	if (!may_share) {
		shared = shared_between(cast.pid[0], cast.pid[1], name, sizeof(name));
		CHECK(!shared, "they share %u mappings, one of them%s", shared, name);
	}
	cue(&cast, 0);
	cast_end(&cast, 20);
}

static void two_users(void)
{
	need_root();
	let_meet(as_test, as_b, false);
	let_meet(as_b, as_test, false);
	let_meet(as_a, as_b, false);
}

static void nameless_users(void)
{
	need_root();
	let_meet(nameless_a, nameless_b, false);
	let_meet(nameless_a, as_b, false);
	let_meet(as_a, nameless_b, false);
}

static void roots_of_their_own(void)
{
	need_root();
	let_meet(root_a, root_b, false);
	let_meet(root_a, as_test, false);
	let_meet(as_test, root_b, false);
}

static void pid_namespaces(void)
{
	let_meet(in_pid_namespace, as_test, true);
	let_meet(as_test, in_pid_namespace, true);
	let_meet(in_pid_namespace, in_pid_namespace, true);
}

static void no_proc(void)
{
	let_meet(without_proc, as_test, true);
	let_meet(as_test, without_proc, true);
}

const struct hostile_case stranger_cases[] = {
	{"two-users", "two users share no memory", two_users},
	{"nameless-users", "nor do two that have no name in their user namespaces", nameless_users},
	{"roots-of-their-own", "nor do two that are root in user namespaces", roots_of_their_own},
	{"pid-namespaces", "data is right between PID namespaces", pid_namespaces},
	{"no-proc", "data is right where there is no /proc", no_proc},
	{0},
};
