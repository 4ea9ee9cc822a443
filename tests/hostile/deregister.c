/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What has been deregistered is left alone, by a peer that was in the middle of a copy too: its
 * source is under userfaultfd, it is stopped, or frozen. The owner gets its memory back in bounded
 * time and uses it for other things; then the peer goes on.
 *
 *	director	victim			peer
 *	cue ------------------------------>	posts a WRITE, and faults on its source
 *	sees the fault, stops the peer
 *	cue ----------->  deregisters, reuses
 *	    <-----------  (within 2 s)
 *	gives the page, continues the peer -->	its WRITE completes
 *	cue ----------->  compares
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define LIMIT_S 2.0
#define COPY_BYTES (32 * KIB) /* the second half of the source is not there */
#define HELD_AT (COPY_BYTES / 2)
#define REGION_BYTES (256 * KIB)
#define WARM_UP 50

enum hold { SLOW, STOPPED, FROZEN };
enum ending { DEREGISTER, REREGISTER, DESTROY_QP, QP_TO_ERR, QP_TO_RESET };

struct scene {
	enum memory_kind kind;
	enum hold hold;
	enum ending ending;
	bool early;	 /* the victim deregisters before it has had time to look at who is there */
	unsigned cycles; /* with the same two processes */
};

/* ---- the victim ---- */

struct victim {
	struct node node;
	struct link link;
	char *memory, *other;
	struct ibv_mr *mr, *next_mr, *other_mr;
};

static void end_access(struct victim *victim, enum ending ending)
{
	struct ibv_qp_attr attr = {.qp_state = ending == QP_TO_ERR ? IBV_QPS_ERR : IBV_QPS_RESET};

	switch (ending) {
	case DEREGISTER:
		CHECK(!ibv_dereg_mr(victim->mr), "%m");
		break;
	case REREGISTER:
		CHECK(!ibv_rereg_mr(victim->mr, IBV_REREG_MR_CHANGE_ACCESS, victim->node.pd,
				    victim->memory, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE),
		      "%m");
		break;
	case DESTROY_QP:
		CHECK(!ibv_destroy_qp(victim->link.qp), "%m");
		break;
	default:
		CHECK(!ibv_modify_qp(victim->link.qp, &attr, IBV_QP_STATE), "%m");
		break;
	}
}

/* The memory is ours again: in it, and in what the allocator gives for it, lies something else. */
static void reuse(struct victim *victim, const struct scene *scene)
{
	if (scene->ending == DEREGISTER) {
		if (scene->kind != MEMORY_MMAP) {
			memory_free(scene->kind, victim->memory, REGION_BYTES);
			victim->memory = memory_make(scene->kind, REGION_BYTES);
		}
		victim->next_mr =
			region_make(&victim->node, victim->memory, REGION_BYTES, REMOTE_ALL);
	}
	victim->other = memory_make(scene->kind, REGION_BYTES);
	victim->other_mr = region_make(&victim->node, victim->other, REGION_BYTES, REMOTE_ALL);
	memset(victim->memory, 'n', REGION_BYTES);
	memset(victim->other, 'o', REGION_BYTES);
}

static void untouched(const char *memory, char value, const char *what)
{
	size_t i;

	for (i = 0; i < REGION_BYTES; i++)
		CHECK(memory[i] == value, "%s: byte %zu is %d", what, i, memory[i]);
}

/* Our other threads get the processor when we leave it to them: they are late. */
static void outrun_threads(void)
{
	struct sched_param none = {0};
	cpu_set_t one;
	DIR *threads = opendir("/proc/self/task");
	struct dirent *entry;

	CHECK(threads, "%m");
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	while ((entry = readdir(threads))) {
		pid_t thread = atoi(entry->d_name);

		if (thread <= 0 || sched_setaffinity(thread, sizeof(one), &one))
			continue;
		if (thread != getpid() && sched_setscheduler(thread, SCHED_IDLE, &none))
			say("thread %d is not idle: %m", (int)thread);
	}
	closedir(threads);
}

static void spin_for_cue(struct cast *cast, int who)
{
	double until_s = now() + 30;
	char byte;

	while (recv(cast->wire[who], &byte, 1, MSG_DONTWAIT) != 1)
		CHECK(now() < until_s, "no cue");
}

static void victim_cycle(struct cast *cast, struct victim *victim, const struct scene *scene)
{
	double begin_s, took_s;

	link_make(&victim->link, &victim->node);
	victim->memory = memory_make(scene->kind, REGION_BYTES);
	victim->mr = region_make(&victim->node, victim->memory, REGION_BYTES, REMOTE_ALL);
	link_set_region(&victim->link, victim->mr);
	link_exchange(cast, 1, &victim->link);
	if (scene->early) {
		await_cue(cast, cast->count); /* the peer is stopped, and answers later */
		outrun_threads();
	}
	link_raise(&victim->link, IBV_QPS_RTS);
	cue(cast, 1);
	cue(cast, cast->count);
	if (scene->early)
		spin_for_cue(cast, cast->count);
	else
		await_cue(cast, cast->count);
	begin_s = now();
	end_access(victim, scene->ending);
	took_s = now() - begin_s;
	reuse(victim, scene);
	cue(cast, cast->count);
	await_cue(cast, cast->count);
	untouched(victim->memory, 'n', "the memory that was deregistered");
	untouched(victim->other, 'o', "another region");
	CHECK(took_s < LIMIT_S, "it took %.1f s to end the access to memory of %s", took_s,
	      memory_kind_name[scene->kind]);
	cue(cast, cast->count);
}

static void victim_clean_up(struct victim *victim, const struct scene *scene)
{
	CHECK(scene->ending == DESTROY_QP || !ibv_destroy_qp(victim->link.qp), "%m");
	CHECK(scene->ending == DEREGISTER || !ibv_dereg_mr(victim->mr), "%m");
	CHECK(scene->ending != DEREGISTER || !ibv_dereg_mr(victim->next_mr), "%m");
	CHECK(!ibv_dereg_mr(victim->other_mr), "%m");
	memory_free(scene->kind, victim->memory, REGION_BYTES);
	memory_free(scene->kind, victim->other, REGION_BYTES);
}

static void be_victim(struct cast *cast)
{
	const struct scene *scene = cast->argument;
	struct victim victim;
	unsigned cycle;

	node_open(&victim.node);
	for (cycle = 0; cycle < scene->cycles; cycle++) {
		victim_cycle(cast, &victim, scene);
		victim_clean_up(&victim, scene);
	}
}

/* ---- the peer ---- */

static int fault_descriptor(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		skip("userfaultfd with faults of the kernel: %m");
	CHECK(!ioctl(fd, UFFDIO_API, &api), "%m");
	return fd;
}

static void hold_pages(int fd, char *start, size_t bytes)
{
	struct uffdio_register range = {.range = {(uintptr_t)start, bytes},
					.mode = UFFDIO_REGISTER_MODE_MISSING};

	CHECK(!madvise(start, bytes, MADV_DONTNEED), "%m");
	CHECK(!ioctl(fd, UFFDIO_REGISTER, &range), "%m");
}

/* By now whatever two processes arrange with each other has been arranged. */
static void warm_up(struct link *link, const struct ibv_mr *mr)
{
	unsigned i;

	for (i = 0; i < WARM_UP; i++) {
		CHECK(transfer(link, IBV_WR_RDMA_WRITE, mr, 0, COPY_BYTES, 0) == IBV_WC_SUCCESS);
		usleep(i < 10 ? 2000 : 0);
	}
}

static void check_status(enum ibv_wc_status status)
{
	CHECK(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_RETRY_EXC_ERR,
	      "a WRITE that had not ended at deregistration: %s", ibv_wc_status_str(status));
}

static void peer_cycle(struct cast *cast, struct node *node, struct ibv_mr *mr, int fault_fd)
{
	const struct scene *scene = cast->argument;
	char *memory = mr->addr;
	struct ibv_wc wc;
	struct link link;

	memset(memory, 'w', COPY_BYTES);
	link_make(&link, node);
	link.timeout = 12;
	link_exchange(cast, 0, &link);
	if (scene->early) {
		cue(cast, cast->count); /* to be stopped, */
		await_cue(cast, cast->count);
	}
	link_raise(&link, IBV_QPS_RTS);
	await_cue(cast, 0);
	if (!scene->early)
		warm_up(&link, mr);
	hold_pages(fault_fd, memory + HELD_AT, COPY_BYTES - HELD_AT);
	if (!scene->early) {
		cue(cast, cast->count);
		await_cue(cast, cast->count);
	}
	CHECK(!post(&link, IBV_WR_RDMA_WRITE, mr, 0, COPY_BYTES, 0, 1));
	CHECK(get(node, &wc, 20), "the WRITE does not complete");
	CHECK(!ibv_destroy_qp(link.qp), "%m");
	tell(cast, cast->count, &wc.status, sizeof(wc.status));
	await_cue(cast, cast->count);
}

static void be_peer(struct cast *cast)
{
	const struct scene *scene = cast->argument;
	int fault_fd = fault_descriptor();
	struct ibv_mr *mr;
	struct node node;
	unsigned cycle;

	send_descriptor(cast, cast->count, fault_fd);
	node_open(&node);
	mr = region_make(&node, memory_make(MEMORY_MMAP, COPY_BYTES), COPY_BYTES,
			 IBV_ACCESS_LOCAL_WRITE);
	for (cycle = 0; cycle < scene->cycles; cycle++)
		peer_cycle(cast, &node, mr, fault_fd);
}

/* ---- the director ---- */

/* The page that the peer waits for. */
static uint64_t await_fault(int fault_fd)
{
	struct pollfd wait = {.fd = fault_fd, .events = POLLIN};
	struct uffd_msg message;

	CHECK(poll(&wait, 1, 10000) == 1, "the WRITE does not read its source");
	CHECK(read(fault_fd, &message, sizeof(message)) == sizeof(message), "%m");
	CHECK(message.event == UFFD_EVENT_PAGEFAULT, "event %x", message.event);
	return message.arg.pagefault.address & ~(PAGE - 1);
}

/* The pages from there on. */
static void give_pages(int fault_fd, uint64_t at)
{
	static char page[COPY_BYTES];
	struct uffdio_range range = {at, HELD_AT};
	struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = HELD_AT};

	memset(page, 'w', sizeof(page));
	if (ioctl(fault_fd, UFFDIO_COPY, &copy))
		say("not all pages were missing: %m");
	CHECK(!ioctl(fault_fd, UFFDIO_UNREGISTER, &range), "%m"); /* which wakes it, too */
}

static void hold_peer(struct cast *cast, enum hold hold, struct cgroup *cgroup)
{
	if (hold == STOPPED)
		kill(cast->pid[1], SIGSTOP); /* a fault of the kernel's ends first */
	else if (hold == FROZEN)
		cgroup_freeze(cgroup, true);
}

static void release_peer(struct cast *cast, enum hold hold, struct cgroup *cgroup)
{
	if (hold == STOPPED)
		kill(cast->pid[1], SIGCONT);
	else if (hold == FROZEN)
		cgroup_freeze(cgroup, false);
}

/* The victim goes to meet a peer that does not answer now, and does when we let it. */
static void let_them_miss(struct cast *cast)
{
	await_cue(cast, 1);
	kill(cast->pid[1], SIGSTOP);
	CHECK(wait_state(cast->pid[1], "T"), "the peer does not stop");
	cue(cast, 0);
	await_cue(cast, 0);
	kill(cast->pid[1], SIGCONT);
	cue(cast, 1);
}

static void direct_cycle(struct cast *cast, const struct scene *scene, int fault_fd,
			 struct cgroup *cgroup)
{
	enum ibv_wc_status status;
	uint64_t page;

	if (scene->early) {
		let_them_miss(cast);
	} else {
		await_cue(cast, 0);
		await_cue(cast, 1);
		cue(cast, 1);
	}
	page = await_fault(fault_fd);
	hold_peer(cast, scene->hold, cgroup);
	cue(cast, 0);
	if (!await_cue_within(cast, 0, 10))
		fail_at(__FILE__, __LINE__, "deregister", " it has not ended after 10 s");
	give_pages(fault_fd, page);
	release_peer(cast, scene->hold, cgroup);
	hear(cast, 1, &status, sizeof(status));
	cue(cast, 0);
	await_cue(cast, 0);
	check_status(status);
	cue(cast, 1);
}

static void play(const struct scene *scene)
{
	actor_fn *const actor[] = {be_victim, be_peer};
	struct scene copy = *scene;
	struct cgroup cgroup;
	struct cast cast;
	unsigned cycle;
	int fault_fd;

	if (scene->hold == FROZEN)
		cgroup_make(&cgroup, "freezer");
	cast_start(&cast, 2, actor, &copy);
	if (scene->hold == FROZEN)
		cgroup_add(&cgroup, cast.pid[1]);
	fault_fd = receive_descriptor(&cast, 1);
	for (cycle = 0; fault_fd >= 0 && cycle < scene->cycles; cycle++)
		direct_cycle(&cast, scene, fault_fd, &cgroup);
	cast_end(&cast, 20);
	close(fault_fd);
	if (scene->hold == FROZEN)
		cgroup_remove(&cgroup);
}

static void play_kinds(enum hold hold, enum ending ending, unsigned cycles)
{
	struct scene scene = {.hold = hold, .ending = ending, .cycles = cycles};

	for (scene.kind = MEMORY_MMAP; scene.kind < MEMORY_KINDS; scene.kind++)
		play(&scene);
}

static void slow_peer(void)
{
	play_kinds(SLOW, DEREGISTER, 2);
}

static void stopped_peer(void)
{
	play_kinds(STOPPED, DEREGISTER, 1);
}

static void frozen_peer(void)
{
	play_kinds(FROZEN, DEREGISTER, 1);
}

static void slow_peer_rereg(void)
{
	play_kinds(SLOW, REREGISTER, 1);
}

static void slow_peer_destroy(void)
{
	play_kinds(SLOW, DESTROY_QP, 1);
}

static void slow_peer_reset(void)
{
	play_kinds(SLOW, QP_TO_RESET, 1);
}

static void slow_peer_error(void)
{
	play_kinds(STOPPED, QP_TO_ERR, 1);
}

static void unmet_peer(void)
{
	struct scene scene = {.hold = SLOW, .early = true, .cycles = 1, .kind = MEMORY_MMAP};
	unsigned i;

	for (i = 0; i < (long_run ? 40 : 6); i++) {
		scene.kind = i % MEMORY_KINDS;
		play(&scene);
	}
}

/* ---- stopped at any instant, which needs no privilege ---- */

/* Of blocks, much: the peer stores there itself, and is to be caught at it. */
static size_t stream_bytes(enum memory_kind kind)
{
	return kind == MEMORY_ALIGNED ? 16 * MIB : MIB;
}

static void streamed_victim(struct cast *cast)
{
	const enum memory_kind kind = *(enum memory_kind *)cast->argument;
	const size_t bytes = stream_bytes(kind);
	double begin_s, took_s;
	struct ibv_mr *mr;
	struct node node;
	struct link link;
	char *memory;
	size_t i;
	char go;

	node_open(&node);
	for (hear(cast, 2, &go, 1); go == 'g'; hear(cast, 2, &go, 1)) {
		memory = memory_make(kind, bytes);
		mr = region_make(&node, memory, bytes, REMOTE_ALL);
		link_connect(cast, 1, &link, &node, mr);
		await_cue(cast, 2);
		begin_s = now();
		CHECK(!ibv_dereg_mr(mr), "%m");
		took_s = now() - begin_s;
		memset(memory, 'n', bytes);
		mr = region_make(&node, memory, bytes, REMOTE_ALL);
		cue(cast, 2);
		CHECK(took_s < LIMIT_S, "it took %.1f s to deregister", took_s);
		await_cue(cast, 1);
		for (i = 0; i < bytes; i++)
			CHECK(memory[i] == 'n', "byte %zu is %d after deregistration", i,
			      memory[i]);
		CHECK(!ibv_destroy_qp(link.qp) && !ibv_dereg_mr(mr), "%m");
		memory_free(kind, memory, bytes);
	}
}

/* WRITEs until one is refused. */
static void streaming_peer(struct cast *cast)
{
	const size_t bytes = stream_bytes(*(enum memory_kind *)cast->argument);
	enum ibv_wc_status status;
	struct ibv_mr *mr;
	struct node node;
	struct link link;
	char go;

	node_open(&node);
	mr = region_make(&node, memory_make(MEMORY_MMAP, bytes), bytes,
			 IBV_ACCESS_LOCAL_WRITE);
	memset(mr->addr, 'w', bytes);
	for (hear(cast, 2, &go, 1); go == 'g'; hear(cast, 2, &go, 1)) {
		link_connect(cast, 0, &link, &node, mr);
		cue(cast, 2);
		do
			status = transfer(&link, IBV_WR_RDMA_WRITE, mr, 0, bytes, 0);
		while (status == IBV_WC_SUCCESS);
		check_status(status);
		CHECK(!ibv_destroy_qp(link.qp), "%m");
		cue(cast, 0);
	}
}

static void stop_streams(enum memory_kind kind)
{
	actor_fn *const actor[] = {streamed_victim, streaming_peer};
	unsigned i, times = long_run ? 200 : 5;
	struct cast cast;

	cast_start(&cast, 2, actor, &kind);
	for (i = 0; i < times; i++) {
		tell(&cast, 0, "g", 1);
		tell(&cast, 1, "g", 1);
		await_cue(&cast, 1);
		usleep((useconds_t)random_below(20000)); /* any instant of the stream */
		kill(cast.pid[1], SIGSTOP);
		CHECK(wait_state(cast.pid[1], "T"), "the peer does not stop");
		cue(&cast, 0);
		if (!await_cue_within(&cast, 0, 5))
			say("round %u: the peer is stopped, and ibv_dereg_mr has not returned", i);
		kill(cast.pid[1], SIGCONT);
	}
	tell(&cast, 0, "e", 1);
	tell(&cast, 1, "e", 1);
	cast_end(&cast, 20);
}

static void stopped_stream(void)
{
	stop_streams(MEMORY_MMAP);
}

static void stopped_stores(void)
{
	stop_streams(MEMORY_ALIGNED);
}

/* ---- stopped in two stores at a time, by two threads ---- */

#define TWICE_BYTES (16 * MIB)

struct streamer {
	struct node node;
	struct link link;
	struct ibv_mr *mr;
};

static void two_blocks_victim(struct cast *cast)
{
	struct ibv_mr *mr[2];
	struct link link[2];
	struct node node;
	char *memory[2];
	unsigned n;
	size_t i;
	char go;

	node_open(&node);
	for (hear(cast, 2, &go, 1); go == 'g'; hear(cast, 2, &go, 1)) {
		for (n = 0; n < 2; n++) {
			memory[n] = memory_make(MEMORY_ALIGNED, TWICE_BYTES);
			mr[n] = region_make(&node, memory[n], TWICE_BYTES, REMOTE_ALL);
			link_connect(cast, 1, &link[n], &node, mr[n]);
		}
		await_cue(cast, 2);
		for (n = 0; n < 2; n++) {
			CHECK(!ibv_dereg_mr(mr[n]), "%m");
			memset(memory[n], 'n', TWICE_BYTES);
			usleep(100000); /* whoever was not done in time is nobody's peer by now */
		}
		cue(cast, 2);
		await_cue(cast, 1);
		for (n = 0; n < 2; n++) {
			for (i = 0; i < TWICE_BYTES; i++)
				CHECK(memory[n][i] == 'n', "block %u, byte %zu is %d after deregistration",
				      n, i, memory[n][i]);
			CHECK(!ibv_destroy_qp(link[n].qp), "%m");
			memory_free(MEMORY_ALIGNED, memory[n], TWICE_BYTES);
		}
	}
}

static void *stream(void *argument)
{
	struct streamer *streamer = argument;
	enum ibv_wc_status status;

	do
		status = transfer(&streamer->link, IBV_WR_RDMA_WRITE, streamer->mr, 0, TWICE_BYTES, 0);
	while (status == IBV_WC_SUCCESS);
	check_status(status);
	return NULL;
}

static void two_threads_peer(struct cast *cast)
{
	struct streamer streamer[2];
	pthread_t thread[2];
	unsigned n;
	char go;

	for (n = 0; n < 2; n++) {
		node_open(&streamer[n].node);
		streamer[n].mr = region_make(&streamer[n].node, memory_make(MEMORY_MMAP, TWICE_BYTES),
					     TWICE_BYTES, IBV_ACCESS_LOCAL_WRITE);
		memset(streamer[n].mr->addr, 'w', TWICE_BYTES);
	}
	for (hear(cast, 2, &go, 1); go == 'g'; hear(cast, 2, &go, 1)) {
		for (n = 0; n < 2; n++)
			link_connect(cast, 0, &streamer[n].link, &streamer[n].node, streamer[n].mr);
		for (n = 0; n < 2; n++)
			CHECK(!pthread_create(&thread[n], NULL, stream, &streamer[n]));
		cue(cast, 2);
		for (n = 0; n < 2; n++) {
			CHECK(!pthread_join(thread[n], NULL));
			CHECK(!ibv_destroy_qp(streamer[n].link.qp), "%m");
		}
		cue(cast, 0);
	}
}

static void stopped_twice(void)
{
	actor_fn *const actor[] = {two_blocks_victim, two_threads_peer};
	unsigned i, times = long_run ? 60 : 5;
	struct cast cast;

	cast_start(&cast, 2, actor, NULL);
	for (i = 0; i < times; i++) {
		tell(&cast, 0, "g", 1);
		tell(&cast, 1, "g", 1);
		await_cue(&cast, 1);
		usleep(20000 + (useconds_t)random_below(20000));
		kill(cast.pid[1], SIGSTOP);
		CHECK(wait_state(cast.pid[1], "T"), "the peer does not stop");
		cue(&cast, 0);
		if (!await_cue_within(&cast, 0, 10))
			say("round %u: the peer is stopped, and ibv_dereg_mr has not returned", i);
		kill(cast.pid[1], SIGCONT);
	}
	tell(&cast, 0, "e", 1);
	tell(&cast, 1, "e", 1);
	cast_end(&cast, 20);
}

/* ---- a mapping that the peer has kept ---- */

#define KEPT_BLOCKS 4

/* All of it is @value, but for what the peer has written, 'h': how many bytes. */
static size_t count_kept(const char *memory, char value)
{
	size_t i, kept = 0;

	for (i = 0; i < REGION_BYTES; i++) {
		CHECK(memory[i] == value || memory[i] == 'h', "byte %zu is %d", i, memory[i]);
		kept += memory[i] == 'h';
	}
	return kept;
}

static void kept_victim(struct cast *cast)
{
	char *memory[KEPT_BLOCKS], *target;
	struct ibv_mr *mr;
	struct node node;
	struct link link;
	unsigned i;

	node_open(&node);
	target = memory_make(MEMORY_ALIGNED, REGION_BYTES);
	mr = region_make(&node, target, REGION_BYTES, REMOTE_ALL);
	link_connect(cast, 1, &link, &node, mr);
	await_cue(cast, 1); /* it has a second mapping, of which its library knows nothing */
	CHECK(!ibv_dereg_mr(mr), "%m");
	for (i = 0; i < KEPT_BLOCKS; i++) {
		memory[i] = memory_make(MEMORY_ALIGNED, REGION_BYTES);
		region_make(&node, memory[i], REGION_BYTES, REMOTE_ALL);
		memset(memory[i], 'o', REGION_BYTES);
	}
	memset(target, 'n', REGION_BYTES);
	cue(cast, 1);
	await_cue(cast, 1);
	/* SECURITY.md and decision 10 say so, and why: who changes it changes them. */
	CHECK(count_kept(target, 'n') == REGION_BYTES, "a mapping that was kept shows other pages");
	for (i = 0; i < KEPT_BLOCKS; i++)
		CHECK(!count_kept(memory[i], 'o'), "a block that it has no key of was written");
	memory_free(MEMORY_ALIGNED, target, REGION_BYTES);
	for (i = 0; i < KEPT_BLOCKS; i++) {
		memory[i] = memory_make(MEMORY_ALIGNED, REGION_BYTES);
		memset(memory[i], 'o', REGION_BYTES);
	}
	cue(cast, 1);
	await_cue(cast, 1);
	for (i = 0; i < KEPT_BLOCKS; i++)
		CHECK(!count_kept(memory[i], 'o'), "memory was written that the block was not");
}

/* The mapping of the block that was written to: 'w' all over, writable here. */
static char *find_granted(void)
{
	static struct span span[SPANS_MAX];
	unsigned count = spans_of(getpid(), span, true), i;

	for (i = 0; i < count; i++)
		if (span[i].bytes >= REGION_BYTES && span[i].rights[1] == 'w' &&
		    strstr(span[i].name, "verbatim-block") && span[i].start[0] == 'w' &&
		    span[i].start[REGION_BYTES - 1] == 'w')
			return span[i].start;
	return NULL;
}

static void keeping_peer(struct cast *cast)
{
	char *source, *granted, *kept;
	struct ibv_mr *mr;
	struct node node;
	struct link link;
	unsigned i;

	node_open(&node);
	source = memory_make(MEMORY_MMAP, REGION_BYTES); /* no block: it would be found */
	mr = region_make(&node, source, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
	memset(source, 'w', REGION_BYTES);
	link_connect(cast, 0, &link, &node, mr);
	for (i = 0; i < WARM_UP; i++)
		CHECK(!transfer(&link, IBV_WR_RDMA_WRITE, mr, 0, REGION_BYTES, 0));
	granted = find_granted();
	if (!granted)
		skip("the block is not mapped by its peer");
	kept = mremap(granted, 0, REGION_BYTES, MREMAP_MAYMOVE);
	CHECK(kept != MAP_FAILED, "%m");
	cue(cast, 0);
	await_cue(cast, 0);
	memset(kept, 'h', REGION_BYTES);
	cue(cast, 0);
	await_cue(cast, 0); /* the block was freed */
	memset(kept, 'h', REGION_BYTES);
	cue(cast, 0);
}

static void kept_mapping(void)
{
	actor_fn *const actor[] = {kept_victim, keeping_peer};
	struct cast cast;

	cast_start(&cast, 2, actor, NULL);
	cast_end(&cast, 30);
}

const struct hostile_case deregister_cases[] = {
	{"slow-peer", "memory is left alone by a peer that was in the middle of a copy", slow_peer},
	{"stopped-peer", "by one that was stopped there", stopped_peer},
	{"frozen-peer", "by one whose control group was frozen there", frozen_peer},
	{"slow-peer-rereg", "so it is when its region loses the right to be written",
	 slow_peer_rereg},
	{"slow-peer-destroy", "so it is when the QP is destroyed", slow_peer_destroy},
	{"slow-peer-reset", "so it is when the QP is reset", slow_peer_reset},
	{"stopped-peer-error", "so it is when the QP goes to ERR, the peer being stopped",
	 slow_peer_error},
	{"unmet-peer", "by one that began before the owner knew of it", unmet_peer},
	{"stopped-stream", "by one that was stopped at any instant of a stream of WRITEs",
	 stopped_stream},
	{"stopped-stores", "also where it maps the memory, which is not freed", stopped_stores},
	{"kept-mapping", "a mapping that its holder has duplicated reaches its block, until that is freed, "
			 "and nothing else", kept_mapping},
	{"stopped-twice", "and in two such stores, by two threads", stopped_twice},
	{0},
};
