/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes of a case, what they say to each other, and whose they are (hostile.h). */
#include "hostile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define HEAR_S 30

bool long_run;
uint64_t seed;

/* ---- ending in the middle ---- */

static struct cast *live_cast; /* of the director */
static pid_t director;

/* The director leaves nobody behind, stopped, frozen or waiting for it. */
static void leave(int status) __attribute__((noreturn));
static void leave(int status)
{
	int who;

	if (getpid() == director) {
		for (who = 0; live_cast && who < live_cast->count; who++)
			if (live_cast->pid[who] > 0)
				kill(live_cast->pid[who], SIGKILL);
		for (who = 0; live_cast && who < live_cast->count; who++)
			if (live_cast->pid[who] > 0)
				waitpid(live_cast->pid[who], NULL, 0);
		cgroup_abandon();
	}
	_exit(status);
}

/* ---- what is said to whoever reads the log ---- */

static void print_line(const char *before, const char *format, va_list arguments)
{
	char text[1024];
	int used = snprintf(text, sizeof(text), "%s", before);

	used += vsnprintf(text + used, sizeof(text) - (size_t)used - 1, format, arguments);
	if ((size_t)used > sizeof(text) - 2)
		used = sizeof(text) - 2;
	text[used++] = '\n';
	if (write(STDOUT_FILENO, text, (size_t)used) < 0)
		_exit(1);
}

void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line("# ", format, arguments);
	va_end(arguments);
}

void skip(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line("SKIP ", format, arguments);
	va_end(arguments);
	leave(SKIPPED);
}

void fail_at(const char *file, int line, const char *what, const char *format, ...)
{
	const char *base = strrchr(file, '/');
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	say("%s:%d: process %d: %s:%s", base ? base + 1 : file, line, (int)getpid(), what, text);
	leave(1);
}

/* ---- time and chance ---- */

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

uint64_t random_u(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t random_below(uint64_t below)
{
	return below ? random_u() % below : 0;
}

/* ---- the cast ---- */

static void be_actor(struct cast *cast, int me, int (*wires)[CAST_MAX + 1], actor_fn *run)
{
	int a, b;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cast->me = me;
	for (a = 0; a <= cast->count; a++)
		for (b = 0; b <= cast->count; b++)
			if (a == me && b != me)
				cast->wire[b] = wires[a][b];
			else if (a != b && a != me)
				close(wires[a][b]);
	seed += (uint64_t)me << 32;
	run(cast);
	exit(0);
}

void cast_start(struct cast *cast, unsigned count, actor_fn *const *actor, void *argument)
{
	int wires[CAST_MAX + 1][CAST_MAX + 1], a, b, pair[2];

	CHECK(count < CAST_MAX);
	live_cast = cast;
	director = getpid();
	*cast = (struct cast){.me = (int)count, .count = (int)count, .argument = argument};
	for (a = 0; a <= cast->count; a++)
		for (b = 0; b < a; b++) {
			CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "%m");
			wires[a][b] = pair[0];
			wires[b][a] = pair[1];
		}
	for (a = 0; a < cast->count; a++) {
		cast->pid[a] = fork();
		CHECK(cast->pid[a] >= 0, "%m");
		if (!cast->pid[a])
			be_actor(cast, a, wires, actor[a]);
	}
	for (a = 0; a < cast->count; a++) {
		for (b = 0; b <= cast->count; b++)
			if (a != b)
				close(wires[a][b]);
		cast->wire[a] = wires[cast->count][a];
	}
}

/* What an actor says by its status is the verdict of the case. */
static bool judge(int who, int status)
{
	if (status == -1)
		say("process %d of the cast has not ended in time", who);
	else if (WIFSIGNALED(status))
		say("process %d of the cast: signal %d (%s)", who, WTERMSIG(status),
		    strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == SKIPPED)
		leave(SKIPPED);
	else if (WEXITSTATUS(status))
		say("process %d of the cast: status %d", who, WEXITSTATUS(status));
	return !status;
}

/* Once one has failed the others have a second to say why, too. */
void cast_end(struct cast *cast, double limit_s)
{
	double until_s = now() + limit_s;
	int who, status, left = 0;
	bool good = true;

	do {
		if (left)
			usleep(500);
		for (who = left = 0; who < cast->count; who++) {
			if (cast->pid[who] <= 0)
				continue;
			left++;
			if (waitpid(cast->pid[who], &status, WNOHANG) != cast->pid[who])
				continue;
			cast->pid[who] = 0;
			good &= judge(who, status);
			until_s = good || now() + 1 > until_s ? until_s : now() + 1;
		}
	} while (left && now() < until_s);
	for (who = 0; who < cast->count; who++) {
		if (cast->pid[who] > 0)
			good = judge(who, -1);
		close(cast->wire[who]);
	}
	if (!good)
		leave(1);
	live_cast = NULL;
}

void cast_kill(struct cast *cast, int who)
{
	kill(cast->pid[who], SIGKILL);
	waitpid(cast->pid[who], NULL, 0);
	cast->pid[who] = 0;
}

void cast_forget(struct cast *cast, int who)
{
	cast_kill(cast, who);
}

/* The other one is gone: its own words say why, so that ours are not the first to be read. */
static void lost(struct cast *cast, int who)
{
	if (cast->me != cast->count)
		fail_at(__FILE__, __LINE__, "hear", " process %d of the cast is gone", who);
	cast_end(cast, 1);
	fail_at(__FILE__, __LINE__, "hear", " process %d of the cast has left early", who);
}

void tell(struct cast *cast, int who, const void *what, size_t bytes)
{
	if (send(cast->wire[who], what, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		lost(cast, who);
}

/* Not by poll(), which a process that may have no descriptors is refused. */
bool hear_within(struct cast *cast, int who, void *what, size_t bytes, double limit_s)
{
	double until_s = now() + limit_s, left_s;
	size_t done = 0;

	while (done < bytes && (left_s = until_s - now()) > 0) {
		long us = (long)(left_s * 1e6) + 1;
		struct timeval limit = {us / 1000000, us % 1000000};
		ssize_t got;

		CHECK(!setsockopt(cast->wire[who], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)),
		      "%m");
		got = recv(cast->wire[who], (char *)what + done, bytes - done, 0);
		if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
			lost(cast, who);
		done += got > 0 ? (size_t)got : 0;
	}
	return done == bytes;
}

void hear(struct cast *cast, int who, void *what, size_t bytes)
{
	CHECK(hear_within(cast, who, what, bytes, HEAR_S), "nothing from process %d of the cast",
	      who);
}

void cue(struct cast *cast, int who)
{
	tell(cast, who, "c", 1);
}

bool await_cue_within(struct cast *cast, int who, double limit_s)
{
	char byte;

	if (!hear_within(cast, who, &byte, 1, limit_s))
		return false;
	CHECK(byte == 'c', "process %d of the cast is elsewhere", who);
	return true;
}

void await_cue(struct cast *cast, int who)
{
	CHECK(await_cue_within(cast, who, HEAR_S), "no cue from process %d of the cast", who);
}

void meet(struct cast *cast, int who)
{
	cue(cast, who);
	await_cue(cast, who);
}

void send_descriptor(struct cast *cast, int who, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'd';
	struct iovec iov = {&byte, 1};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
	CHECK(sendmsg(cast->wire[who], &message, MSG_NOSIGNAL) == 1, "%m");
}

int receive_descriptor(struct cast *cast, int who)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = {&byte, 1};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *head;
	int fd = -1;

	if (recvmsg(cast->wire[who], &message, MSG_CMSG_CLOEXEC) == 1 &&
	    (head = CMSG_FIRSTHDR(&message)))
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

/* ---- users ---- */

bool is_root(void)
{
	return geteuid() == 0;
}

bool has_other_users(void)
{
	unsigned inside, outside, count = 0;
	FILE *file = fopen("/proc/self/uid_map", "r");

	if (!file || fscanf(file, "%u %u %u", &inside, &outside, &count) != 3)
		count = 0;
	if (file)
		fclose(file);
	return is_root() && count > 65534;
}

void need_root(void)
{
	if (!has_other_users())
		skip("needs root, and other users to become");
}

void drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	CHECK(!syscall(SYS_capset, &head, none), "%m");
}

/* A change of the user forgets that we die with the director, and makes us undumpable. */
void become_user(unsigned uid)
{
	if (uid) {
		CHECK(!setgroups(0, NULL), "%m");
		CHECK(!setresgid(uid, uid, uid), "%m");
		CHECK(!setresuid(uid, uid, uid), "%m");
	}
	CHECK(!prctl(PR_SET_DUMPABLE, 1), "%m");
	CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL), "%m");
}

void become_plain(unsigned uid)
{
	become_user(has_other_users() ? uid : 0);
	drop_capabilities();
}

void write_text(const char *path, const char *format, ...)
{
	char text[256];
	va_list arguments;
	int bytes, fd = open(path, O_WRONLY | O_CLOEXEC);

	va_start(arguments, format);
	bytes = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	CHECK(fd >= 0, "%s: %m", path);
	CHECK(write(fd, text, (size_t)bytes) == bytes, "%s: %m", path);
	close(fd);
}

bool wait_state(pid_t pid, const char *states)
{
	double until_s = now() + 5;
	char path[64], line[512], *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (now() < until_s) {
		FILE *file = fopen(path, "r");

		if (!file)
			return false;
		end = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
		fclose(file);
		if (end && end[1] && strchr(states, end[2]))
			return true;
		usleep(500);
	}
	return false;
}

/* ---- what a process holds ---- */

static unsigned entries(const char *path)
{
	DIR *directory = opendir(path);
	unsigned count = 0;

	CHECK(directory, "%s: %m", path);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

struct holdings holdings_now(void)
{
	static struct span span[SPANS_MAX];

	return (struct holdings){.descriptors = entries("/proc/self/fd"),
				 .threads = entries("/proc/self/task"),
				 .shared_mappings = spans_of(getpid(), span, true)};
}

struct holdings holdings_settled(void)
{
	struct holdings last = holdings_now(), next;
	double since_s = now(), until_s = now() + 5;

	while (now() < since_s + 0.3 && now() < until_s) {
		usleep(10000);
		next = holdings_now();
		if (memcmp(&last, &next, sizeof(next)))
			since_s = now();
		last = next;
	}
	return last;
}

/* The line of /proc/net/unix about it, from its flags on; "" for other sockets. */
static void describe_socket(const char *target, char *text, size_t bytes)
{
	FILE *file = fopen("/proc/net/unix", "r");
	unsigned long inode, wanted;
	char line[512];

	text[0] = '\0';
	if (sscanf(target, "socket:[%lu]", &wanted) != 1)
		wanted = 0;
	while (wanted && file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*x: %*x %*x %*x %*x %*x %lu", &inode) == 1 && inode == wanted)
			snprintf(text, bytes, "%.*s", (int)strcspn(line + 28, "\n"), line + 28);
	if (file)
		fclose(file);
}

static void say_descriptors(void)
{
	char path[300], target[256], more[256];
	int fd;

	for (fd = 0; fd < 1024; fd++) {
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		bytes = readlink(path, target, sizeof(target) - 1);
		if (bytes < 0)
			continue;
		target[bytes] = '\0';
		describe_socket(target, more, sizeof(more));
		say("descriptor %d: %s %s", fd, target, more);
	}
}

static void say_mappings(void)
{
	static struct span span[SPANS_MAX];
	unsigned i, count = spans_of(getpid(), span, true);

	for (i = 0; i < count; i++)
		say("mapping %p: %zu bytes, %s, inode %llu, %s", (void *)span[i].start,
		    span[i].bytes, span[i].rights, (unsigned long long)span[i].inode, span[i].name);
}

/* Sockets to send from are opened as they are needed, and kept: not one for each that ever came. */
#define KEPT_SOCKETS 64

static bool holds_more(const struct holdings *after, const struct holdings *before)
{
	return after->descriptors > before->descriptors + KEPT_SOCKETS ||
	       after->threads > before->threads || after->shared_mappings > before->shared_mappings;
}

void holdings_compare(const struct holdings *before)
{
	struct holdings after = holdings_now();
	double until_s = now() + 5;

	while (holds_more(&after, before) && now() < until_s) {
		usleep(10000);
		after = holdings_now();
	}
	if (holds_more(&after, before)) {
		say_descriptors();
		say_mappings();
	}
	CHECK(!holds_more(&after, before),
	      "descriptors %u (before: %u), threads %u (%u), shared mappings %u (%u)",
	      after.descriptors, before->descriptors, after.threads, before->threads,
	      after.shared_mappings, before->shared_mappings);
}
