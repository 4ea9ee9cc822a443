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
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
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

/* ---- connections that say nothing ---- */

#define SILENT_MAX 500
#define FLOOD_S 2.0

struct silence {
	int fd[SILENT_MAX];
	unsigned count, next, made;
};

/* To any abstract socket of this network that takes connections; nobody has told us which there are. */
static void connect_to(struct silence *silence, const char *name)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	socklen_t bytes;
	int fd;

	if (strlen(name) >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path + 1, name + 1, strlen(name) - 1);
	bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (connect(fd, (struct sockaddr *)&to, bytes)) {
		close(fd);
		return;
	}
	silence->made++;
	if (silence->count == SILENT_MAX)
		close(silence->fd[silence->next]);
	else
		silence->count++;
	silence->fd[silence->next] = fd;
	silence->next = (silence->next + 1) % SILENT_MAX;
}

static void connect_to_all(struct silence *silence)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512];

	CHECK(file, "%m");
	while (fgets(line, sizeof(line), file)) {
		char *name = strchr(line, '@');

		if (!name)
			continue;
		name[strcspn(name, "\n")] = '\0';
		connect_to(silence, name);
	}
	fclose(file);
}

static void silent_stranger(struct cast *cast)
{
	struct silence silence = {.count = 0};
	double until_s = now() + FLOOD_S;
	struct rlimit limit = {2 * SILENT_MAX, 2 * SILENT_MAX};

	become_plain(USER_B);
	setrlimit(RLIMIT_NOFILE, &limit);
	await_cue(cast, 0);
	cue(cast, 1); /* who connects to the victim from now on */
	for (until_s = now() + FLOOD_S; now() < until_s;)
		connect_to_all(&silence);
	say("%u connections made", silence.made);
	CHECK(silence.made > SILENT_MAX, "only %u connections", silence.made);
	await_cue(cast, 0);
}

#define STRANGERS_SHARE 200u /* descriptors that one other user may cost */

/* Its friend connects while the stranger is at it. */
static void flooded_victim(struct cast *cast)
{
	struct steady steady;
	struct holdings before, after;
	struct node node;

	become_plain(USER_A);
	node_open(&node);
	before = holdings_settled();
	cue(cast, 2);
	steady_connect(cast, 1, &steady, &node);
	steady_drive(&steady, FLOOD_S / 2);
	after = holdings_now();
	CHECK(after.descriptors < before.descriptors + STRANGERS_SHARE, "%u descriptors, %u before",
	      after.descriptors, before.descriptors);
	CHECK(steady.slowest_s < HONEST_LIMIT_S, "a round took %.1f s", steady.slowest_s);
	cue(cast, 2);
	steady_end(cast, 1, &steady);
	node_close(&node);
}

static void honest_friend(struct cast *cast)
{
	struct node node;

	become_plain(USER_A);
	await_cue(cast, 2);
	node_open(&node);
	steady_echo(cast, 0, &node);
	node_close(&node);
}

static void silent_connections(void)
{
	actor_fn *const actor[] = {flooded_victim, honest_friend, silent_stranger};
	struct cast cast;

	need_root();
	cast_start(&cast, 3, actor, NULL);
	cast_end(&cast, 20);
}

const struct hostile_case stranger_cases[] = {
	{"two-users", "two users share no memory", two_users},
	{"nameless-users", "nor do two that have no name in their user namespaces", nameless_users},
	{"roots-of-their-own", "nor do two that are root in user namespaces", roots_of_their_own},
	{"pid-namespaces", "data is right between PID namespaces", pid_namespaces},
	{"no-proc", "data is right where there is no /proc", no_proc},
	{"silent-connections", "connections of another user that say nothing hold up nobody",
	 silent_connections},
	{0},
};
