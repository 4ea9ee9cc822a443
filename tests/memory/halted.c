/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that is held by other means than SIGSTOP (stopped.c): by a debugger, all of its threads or
 * some of them, as gdb in non-stop mode does; frozen with its control group, as docker pause does.
 * Nothing fails meanwhile, and all arrives when it goes on. What a thread may change that runs is not
 * read: no SEND is completed early.
 */
#include "pair.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BYTES		4096u
#define HELD_S		1.0
/* 134 ms, three times: far less than it is held, and time to answer on a busy machine. */
#define SHORT_TIMEOUT	15
#define THREADS_MAX	32u

enum hold { BY_DEBUGGER, BUT_ONE_THREAD, BY_GROUP };

static void *idle(void *argument)
{
	for (;;)
		pause();
	return argument;
}

/* Its last thread has nothing to do with the library. */
static void is_held(struct end *end, void *argument)
{
	pthread_t thread;
	struct ibv_wc wc;
	pid_t own;
	char byte;

	end->timeout = SHORT_TIMEOUT;
	end->retry_count = 2;
	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	CHECK(!post_receive(end, 0, 64, 1) && !post_receive(end, 64, 64, 2), "%m");
	meet(end);
	CHECK(get(end, &wc, LIMIT_S) && !wc.status, "the first message");
	meet(end);	/* it is answered, too: who is held answers nothing */
	CHECK(!pthread_create(&thread, NULL, idle, NULL));
	own = getpid();
	tell(end->test, &own, sizeof(own));
	CHECK(hear(end->peer, &byte, 1));
	CHECK(get(end, &wc, LIMIT_S) && !wc.status && end->memory[64] == 's', "the second message");
	meet(end);
	end_close(end);
}

static void sends_to_it(struct end *end, void *argument)
{
	struct ibv_wc wc;
	char byte;

	end->timeout = SHORT_TIMEOUT;
	end->retry_count = 2;
	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	meet(end);
	memset(end->memory, 's', 64);
	CHECK(!transfer(end, IBV_WR_SEND, 0, 8, 0), "the first message");
	meet(end);
	CHECK(hear(end->test, &byte, 1)); /* it is held */
	CHECK(!post(end, IBV_WR_SEND, 0, 8, 0, 2), "%m");
	if (get(end, &wc, HELD_S))
		CHECK(!wc.status, "%s", ibv_wc_status_str(wc.status));
	else
		wc.wr_id = 0;
	if (*(enum hold *)argument == BUT_ONE_THREAD)
		CHECK(!counter_here(COUNTER_MESSAGE_EARLY), "completed while a thread of the peer runs");
	tell(end->test, "c", 1);
	CHECK(hear(end->test, &byte, 1)); /* it goes on */
	if (!wc.wr_id)
		CHECK(get(end, &wc, LIMIT_S) && !wc.status, "%s", ibv_wc_status_str(wc.status));
	tell(end->peer, "g", 1);
	meet(end);
	end_close(end);
}

/* ---- holding it ---- */

static unsigned list_threads(pid_t pid, pid_t thread[THREADS_MAX])
{
	struct dirent *entry;
	unsigned count = 0;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && count < THREADS_MAX && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			thread[count++] = atoi(entry->d_name);
	if (tasks)
		closedir(tasks);
	return count;
}

static bool attach(pid_t thread)
{
	return !ptrace(PTRACE_SEIZE, thread, NULL, NULL) && !ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) &&
	       waitpid(thread, NULL, __WALL) == thread;
}

static bool file_write(const char *group, const char *name, const char *text)
{
	char path[128];
	bool written;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return written;
}

static bool file_says(const char *group, const char *name, const char *text)
{
	char path[128], said[256] = "";
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, said, sizeof(said) - 1);
	if (fd >= 0)
		close(fd);
	return got > 0 && strstr(said, text);
}

/* A control group of version 2 of our own. False: none can be had here. */
static bool group_make(char group[64])
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char path[128];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", mounts[i]);
		snprintf(group, 64, "%s/verbatim-halted-%d", mounts[i], (int)getpid());
		if (!access(path, W_OK) && !mkdir(group, 0755)) {
			snprintf(path, sizeof(path), "%s/cgroup.freeze", group);
			if (!access(path, W_OK))
				return true;
			rmdir(group);
		}
	}
	return false;
}

struct held {
	pid_t thread[THREADS_MAX];
	unsigned count;
	char group[64];
};

static bool hold(struct held *held, pid_t pid, enum hold how)
{
	char number[16];
	unsigned i;

	held->count = 0;
	if (how == BY_GROUP) {
		snprintf(number, sizeof(number), "%d", (int)pid);
		if (!file_write(held->group, "cgroup.procs", number) ||
		    !file_write(held->group, "cgroup.freeze", "1"))
			return false;
		for (i = 0; i < 10000 && !file_says(held->group, "cgroup.events", "frozen 1"); i++)
			usleep(1000);
		return true;
	}
	/* In the order of their beginning: the idle one is the last. */
	held->count = list_threads(pid, held->thread) - (how == BUT_ONE_THREAD);
	for (i = 0; i < held->count; i++)
		if (!attach(held->thread[i]))
			return false;
	return true;
}

/* The first thread last: it may end the process, and who is dying cannot be let go, but only waited for. */
static void let_go(struct held *held, enum hold how)
{
	unsigned i;

	if (how == BY_GROUP)
		file_write(held->group, "cgroup.freeze", "0");
	for (i = held->count; i-- > 0;)
		if (ptrace(PTRACE_DETACH, held->thread[i], NULL, NULL))
			waitpid(held->thread[i], NULL, __WALL);
}

static bool hold_in(const char *mode, enum hold how, struct held *held, bool *able)
{
	struct pair pair;
	bool good;
	pid_t pid = 0;
	char byte;

	pair_start(&pair, mode, sends_to_it, is_held, &how);
	good = hear(pair.socket[RIGHT], &pid, sizeof(pid));
	*able = good && hold(held, pid, how);
	if (good)
		tell(pair.socket[LEFT], "h", 1);
	good = good && hear(pair.socket[LEFT], &byte, 1);
	let_go(held, how);
	if (good)
		tell(pair.socket[LEFT], "g", 1);
	good = pair_end(&pair, 30) && good;
	if (!good)
		printf("# mode %s\n", mode);
	return good;
}

static bool held_in_modes(enum hold how, struct held *held, bool *able)
{
	return hold_in("auto", how, held, able) && (!*able || hold_in("off", how, held, able));
}

/* ---- tests ---- */

static bool a_debugger_holds_all_of_its_threads(void)
{
	struct held held = {.count = 0};
	bool able, good = held_in_modes(BY_DEBUGGER, &held, &able);

	return good && !able ? skip("ptrace is forbidden") : good;
}

static bool a_debugger_holds_all_but_one(void)
{
	struct held held = {.count = 0};
	bool able, good = held_in_modes(BUT_ONE_THREAD, &held, &able);

	return good && !able ? skip("ptrace is forbidden") : good;
}

static bool its_control_group_is_frozen(void)
{
	struct held held = {.count = 0};
	bool able, good;
	unsigned i;

	if (!group_make(held.group))
		return skip("no control group of version 2 can be made here");
	good = held_in_modes(BY_GROUP, &held, &able);
	for (i = 0; i < 5000 && rmdir(held.group) && errno == EBUSY; i++)
		usleep(1000);
	return good && !able ? skip("processes cannot be moved into a control group here") : good;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
#define TEST(name) {#name, name}
		TEST(a_debugger_holds_all_of_its_threads),
		TEST(a_debugger_holds_all_but_one),
		TEST(its_control_group_is_frozen),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
