/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The least that two processes of one host pay to exchange bytes, without any RDMA: what our memory
 * path is measured against. Each prints medians over batches of equal work, and bandwidths as means,
 * which is what perftest's are:
 *
 *	raw_memory line [-n COUNT]		two spinning processes, a cache line for each direction
 *	raw_memory vm_pingpong [-n COUNT]	the same by process_vm_writev with a guard byte, 2 bytes
 *	raw_memory wake|wake_apart [-n COUNT]	each asleep until the other's eventfd wakes it; kept on
 *						two processors, or wherever the scheduler likes
 *	raw_memory memcpy|vm_read|vm_write [-s BYTES] [-t SECONDS]
 *
 * memcpy copies between pages of a memfd, as mapped regions are. vm_read and vm_write copy between
 * ordinary pages of two processes. The guard is what the architecture prescribes before each
 * process_vm call: one byte that only the right image has, so each call has two pieces.
 */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ROUND_TRIPS	16u		/* in a batch: reading the clock costs as much as one */
#define BATCHES_MAX	1000000u
#define BATCHES_MIN	5u
#define SMALL_BYTES	4096u		/* up to here a batch has many copies */
#define LIMIT_S		120u
#define WAIT_STEP_NS	1000000ull

struct line {
	_Alignas(128) volatile uint16_t value;
};

/* Seen by both processes. */
struct shared {
	struct line to_child, to_parent;
	volatile int child_ready;
};

static struct shared *shared;
static struct line mine;		/* one in each process, after fork() */
static uint8_t guard = 1;
static int wake_child = -1, wake_parent = -1;
static double *taken_ns;		/* [BATCHES_MAX] */
static size_t batches;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *memory(size_t bytes, int flags)
{
	int fd = flags & MAP_SHARED ? memfd_create("raw_memory", MFD_CLOEXEC) : -1;
	void *made;

	if (flags & MAP_SHARED && (fd < 0 || ftruncate(fd, (off_t)bytes)))
		die("memfd");
	made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, 0);
	if (made == MAP_FAILED)
		die("mmap");
	if (fd >= 0)
		close(fd);
	return made;
}

/* ---- process_vm with the guard byte ---- */

typedef ssize_t transfer_fn(pid_t pid, const struct iovec *local, unsigned long local_count,
			    const struct iovec *remote, unsigned long remote_count,
			    unsigned long flags);

static void transfer(transfer_fn *move, pid_t pid, void *here, void *there, size_t bytes)
{
	uint8_t byte = 1;
	struct iovec local[2] = { { &byte, 1 }, { here, bytes } };
	struct iovec remote[2] = { { &guard, 1 }, { there, bytes } };

	if (move(pid, local, 2, remote, 2, 0) != (ssize_t)bytes + 1)
		die("process_vm");
}

/* ---- ping-pong ---- */

/* Hand @value to the other process (@pid), by way of @way; then wait for its answer. */
struct way {
	void (*give)(bool parent, pid_t pid, uint16_t value);
	void (*take)(bool parent, uint16_t value);
};

static void line_give(bool parent, pid_t pid, uint16_t value)
{
	(void)pid;
	*(parent ? &shared->to_child.value : &shared->to_parent.value) = value;
}

static void line_take(bool parent, uint16_t value)
{
	while (*(parent ? &shared->to_parent.value : &shared->to_child.value) != value)
		;
}

static void vm_give(bool parent, pid_t pid, uint16_t value)
{
	(void)parent;
	transfer(process_vm_writev, pid, &value, (void *)(uintptr_t)&mine.value, sizeof(value));
}

static void vm_take(bool parent, uint16_t value)
{
	(void)parent;
	while (mine.value != value)
		;
}

static void wake_give(bool parent, pid_t pid, uint16_t value)
{
	uint64_t one = 1;

	(void)pid;
	(void)value;
	if (write(parent ? wake_child : wake_parent, &one, sizeof(one)) != sizeof(one))
		die("eventfd");
}

static void wake_take(bool parent, uint16_t value)
{
	uint64_t count;

	(void)value;
	if (read(parent ? wake_parent : wake_child, &count, sizeof(count)) != sizeof(count))
		die("eventfd");
}

static const struct way way_line = { line_give, line_take };
static const struct way way_vm = { vm_give, vm_take };
static const struct way way_wake = { wake_give, wake_take };

static void answer(const struct way *way, pid_t parent, unsigned count)
{
	unsigned i;

	for (i = 1; i <= count; i++) {
		way->take(false, (uint16_t)i);
		way->give(false, parent, (uint16_t)i);
	}
}

static void ping(const struct way *way, pid_t child, unsigned count)
{
	uint64_t begin_ns = 0;
	unsigned i;

	for (i = 1; i <= count; i++) {
		if (i % ROUND_TRIPS == 1)
			begin_ns = now_ns();
		way->give(true, child, (uint16_t)i);
		way->take(true, (uint16_t)i);
		if (i % ROUND_TRIPS == 0)
			taken_ns[batches++] = (double)(now_ns() - begin_ns) / (2 * ROUND_TRIPS);
	}
}

/* ---- copies ---- */

struct copies {
	transfer_fn *move;	/* NULL: memcpy */
	void *here, *there;	/* in the child at the same addresses */
	size_t bytes;
};

static void copy_for(const struct copies *copies, pid_t child, double seconds)
{
	unsigned times = copies->bytes <= SMALL_BYTES ? 256 : 1, i;
	uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9);

	while (batches < BATCHES_MAX && (batches < BATCHES_MIN || now_ns() < end_ns)) {
		uint64_t begin_ns = now_ns();

		for (i = 0; i < times; i++) {
			if (copies->move)
				transfer(copies->move, child, copies->here, copies->there,
					 copies->bytes);
			else
				memcpy(copies->there, copies->here, copies->bytes);
			__asm__ volatile("" : : "r"(copies->there) : "memory");
		}
		taken_ns[batches++] = (double)(now_ns() - begin_ns) / times;
	}
}

/* ---- the two processes ---- */

static int compare(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static void report(const char *what, size_t bytes)
{
	double median_ns, sum_ns = 0;
	size_t i;

	for (i = 0; i < batches; i++)
		sum_ns += taken_ns[i];
	qsort(taken_ns, batches, sizeof(*taken_ns), compare);
	median_ns = taken_ns[batches / 2];
	printf("%s: median %.4f us, least %.4f us", what, median_ns / 1e3, taken_ns[0] / 1e3);
	if (bytes)
		printf(", %.1f MB/s", (double)(bytes * batches) / sum_ns * 1e3);
	printf("\n");
}

/* On the first processor that we may use, or on the last. */
static void stay_on(bool last)
{
	cpu_set_t may, one;
	int cpu, chosen = -1;

	if (sched_getaffinity(0, sizeof(may), &may))
		die("sched_getaffinity");
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && (last || chosen < 0))
			chosen = cpu;
	CPU_ZERO(&one);
	CPU_SET(chosen, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("sched_setaffinity");
}

static void start(pid_t *child, pid_t parent)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);	/* fails where there is no Yama */
	*child = fork();
	if (*child < 0)
		die("fork");
	alarm(LIMIT_S);
	if (*child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		exit(1);
	mine.value = 0;
	guard = 1;
}

static void wait_for_child(void)
{
	struct timespec step = { .tv_nsec = WAIT_STEP_NS };

	while (!shared->child_ready)
		nanosleep(&step, NULL);
}

static void run_pingpong(const char *name, const struct way *way, unsigned count, bool apart)
{
	pid_t parent = getpid(), child;

	count = count / ROUND_TRIPS * ROUND_TRIPS;
	wake_child = eventfd(0, EFD_CLOEXEC);
	wake_parent = eventfd(0, EFD_CLOEXEC);
	mine.value = 0;
	start(&child, parent);
	if (apart)
		stay_on(!child);
	if (!child) {
		shared->child_ready = 1;
		answer(way, parent, count);
		_exit(0);
	}
	wait_for_child();
	ping(way, child, count);
	report(name, 0);
}

static void run_copies(const char *name, transfer_fn *move, size_t bytes, double seconds)
{
	int flags = move ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	struct copies copies = { move, memory(bytes, flags), memory(bytes, flags), bytes };
	pid_t child;

	start(&child, getpid());
	if (!child) {
		memset(copies.there, 1, bytes);		/* pages of its own */
		shared->child_ready = 1;
		for (;;)
			pause();			/* until its parent ends it */
	}
	wait_for_child();
	memset(copies.here, 2, bytes);
	copy_for(&copies, child, seconds);
	report(name, bytes);
	kill(child, SIGKILL);
}

static int usage(void)
{
	fprintf(stderr, "usage: raw_memory line|vm_pingpong|wake|wake_apart [-n COUNT]\n"
			"       raw_memory memcpy|vm_read|vm_write [-s BYTES] [-t SECONDS]\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned long count = 200000, bytes = 8;
	double seconds = 0.2;
	int option;

	optind = 2;
	while (argc > 1 && (option = getopt(argc, argv, "n:s:t:")) != -1) {
		if (option == 'n')
			count = strtoul(optarg, NULL, 10);
		else if (option == 's')
			bytes = strtoul(optarg, NULL, 10);
		else if (option == 't')
			seconds = strtod(optarg, NULL);
		else
			return usage();
	}
	if (count < ROUND_TRIPS || count > BATCHES_MAX * ROUND_TRIPS || !bytes ||
	    bytes > 1ul << 30 || !(seconds >= 0 && seconds <= LIMIT_S / 2))
		return usage();
	shared = memory(sizeof(*shared), MAP_SHARED);
	taken_ns = memory(BATCHES_MAX * sizeof(*taken_ns), MAP_PRIVATE | MAP_ANONYMOUS);
	if (!strcmp(what, "line"))
		run_pingpong(what, &way_line, (unsigned)count, false);
	else if (!strcmp(what, "vm_pingpong"))
		run_pingpong(what, &way_vm, (unsigned)count, false);
	else if (!strcmp(what, "wake"))
		run_pingpong(what, &way_wake, (unsigned)count, false);
	else if (!strcmp(what, "wake_apart"))
		run_pingpong(what, &way_wake, (unsigned)count, true);
	else if (!strcmp(what, "memcpy"))
		run_copies(what, NULL, bytes, seconds);
	else if (!strcmp(what, "vm_read"))
		run_copies(what, process_vm_readv, bytes, seconds);
	else if (!strcmp(what, "vm_write"))
		run_copies(what, process_vm_writev, bytes, seconds);
	else
		return usage();
	return 0;
}
