/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes with little: memory of a small control group, no files, no descriptors. And their
 * children, whose memory is their own.
 */
#include "hostile.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- 100 MiB in a control group that has 160 ---- */

#define SMALL_GROUP (160 * MIB)
#define LARGE_REGION (100 * MIB)

static void register_in_small_group(struct cast *cast)
{
	enum memory_kind kind = *(enum memory_kind *)cast->argument;
	struct ibv_mr *mr;
	struct node node;
	char *memory;

	await_cue(cast, cast->count);
	node_open(&node);
	memory = memory_make(kind, LARGE_REGION);
	mr = region_make(&node, memory, LARGE_REGION, REMOTE_ALL);
	memset(memory, 1, LARGE_REGION);
	CHECK(!ibv_dereg_mr(mr), "%m");
	memset(memory, 2, LARGE_REGION);
	node_close(&node);
}

static void small_group(void)
{
	actor_fn *const actor[] = {register_in_small_group};
	enum memory_kind kind;
	struct cgroup cgroup;
	struct cast cast;
	int status;

	for (kind = MEMORY_MMAP; kind <= MEMORY_HEAP; kind++) {
		cast_start(&cast, 1, actor, &kind);
		cgroup_make(&cgroup, "memory");
		cgroup_limit(&cgroup, SMALL_GROUP);
		cgroup_add(&cgroup, cast.pid[0]);
		cue(&cast, 0);
		CHECK(waitpid(cast.pid[0], &status, 0) == cast.pid[0], "%m");
		cast.pid[0] = 0;
		cgroup_remove(&cgroup);
		CHECK(!WIFSIGNALED(status), "%s: killed by signal %d (%s)", memory_kind_name[kind],
		      WTERMSIG(status), strsignal(WTERMSIG(status)));
		CHECK(!status, "%s: status %d", memory_kind_name[kind], WEXITSTATUS(status));
	}
}

/* ---- children ---- */

#define FORK_BYTES (256 * KIB)

typedef void poverty_fn(void);

static void rich(void)
{
}

static void without_files(void)
{
	char place[] = "/tmp/hostile-root-XXXXXX";

	CHECK(mkdtemp(place), "%m");
	CHECK(!chdir(place), "%m");
	rmdir(place); /* it stays for as long as somebody is in it, and has nothing in it */
	if (chroot("."))
		skip("chroot: %m");
}

static void without_descriptors(void)
{
	struct rlimit none = {0, 0};

	CHECK(!setrlimit(RLIMIT_NOFILE, &none), "%m");
}

static void check_all(const char *memory, char value, const char *who)
{
	size_t i;

	for (i = 0; i < FORK_BYTES; i++)
		CHECK(memory[i] == value, "%s sees %d at %zu, not %d", who, memory[i], i, value);
}

/* Sees what was there at fork(), and nothing of what the parent and its peers do since. */
static void be_child(struct cast *cast, char *memory, const int *pipes)
{
	char byte;

	close(cast->wire[1]); /* when the parent ends, everybody is to know */
	close(cast->wire[cast->count]);
	close(pipes[1]);
	close(pipes[2]);
	check_all(memory, 'p', "the child, at first,");
	memset(memory, 'c', FORK_BYTES);
	CHECK(write(pipes[3], "w", 1) == 1 && read(pipes[0], &byte, 1) == 1, "%m");
	check_all(memory, 'c', "the child, after the parent's stores,");
	_exit(0);
}

/* @mr: of that memory, or NULL: it has been deregistered. */
static void fork_once(struct cast *cast, char *memory, struct ibv_mr *mr, const int *pipes)
{
	int status;
	pid_t pid;
	char byte;

	memset(memory, 'p', FORK_BYTES);
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid)
		be_child(cast, memory, pipes);
	CHECK(read(pipes[2], &byte, 1) == 1, "%m");
	check_all(memory, 'p', "the parent, after the child's stores,");
	memset(memory, 'q', FORK_BYTES);
	if (mr)
		be_written(cast, mr, 0, FORK_BYTES);
	CHECK(write(pipes[1], "w", 1) == 1, "%m");
	CHECK(waitpid(pid, &status, 0) == pid && !status, "the child: status %x", status);
}

static void forking_victim(struct cast *cast)
{
	poverty_fn *become_poor = *(poverty_fn **)cast->argument;
	enum memory_kind kind;
	char *memory[MEMORY_KINDS];
	struct ibv_mr *mr[MEMORY_KINDS];
	struct node node;
	struct link link;
	int pipes[4];

	CHECK(!pipe(pipes) && !pipe(pipes + 2), "%m");
	node_open(&node);
	link_connect(cast, 1, &link, &node, NULL);
	for (kind = MEMORY_MMAP; kind < MEMORY_KINDS; kind++) {
		memory[kind] = memory_make(kind, FORK_BYTES);
		mr[kind] = region_make(&node, memory[kind], FORK_BYTES, REMOTE_ALL);
		be_written(cast, mr[kind], 0, FORK_BYTES);
	}
	become_poor();
	for (kind = MEMORY_MMAP; kind < MEMORY_KINDS; kind++)
		fork_once(cast, memory[kind], mr[kind], pipes);
	for (kind = MEMORY_MMAP; kind < MEMORY_KINDS; kind++) {
		CHECK(!ibv_dereg_mr(mr[kind]), "%m");
		fork_once(cast, memory[kind], NULL, pipes);
	}
	dismiss_writing_peer(cast);
}

static void fork_after(poverty_fn *become_poor)
{
	actor_fn *const actor[] = {forking_victim, writing_peer};
	struct cast cast;

	cast_start(&cast, 2, actor, &become_poor);
	cast_end(&cast, 60);
}

static void fork_rich(void)
{
	fork_after(rich);
}

static void fork_in_chroot(void)
{
	fork_after(without_files);
}

static void fork_without_descriptors(void)
{
	fork_after(without_descriptors);
}

const struct hostile_case address_space_cases[] = {
	{"small-group", "100 MiB are registered in a control group that has 160", small_group},
	{"fork", "a child's copy of registered memory is its own", fork_rich},
	{"fork-chroot", "so it is in a chroot that has no /proc", fork_in_chroot},
	{"fork-no-descriptor", "so it is when no descriptor can be opened",
	 fork_without_descriptors},
	{0},
};
