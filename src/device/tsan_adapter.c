/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ThreadSanitizer is told of the adapter: tsan_adapter.h.
 *
 * An adapter may access the memory of a request at any time from the post on, and is done when the
 * completion is polled: that is what the sanitizer is told at the post, whenever the copy is made,
 * and by which process. To it the adapter is threads of its own ("fibers", which exist in name
 * only): each access is made in the fiber of its queue, after what the poster did so far, and
 * before what is done after the poll. Anything else that the application does with this memory is
 * unordered, and so a race.
 *
 *	poster              fiber of the queue                     who polls
 *	  release(queue) ->   acquire(queue)
 *	                      write_range(buffer)
 *	                      release(request number)  -------->     acquire(request number)
 *
 * Two requests may name the same memory, and programs do that where they do not care for the data.
 * So accesses of different queues that overlap are ordered, by `ranges`, what adapters accessed of
 * late; those that are pushed out of there come before all later ones. What is lost by this, and
 * where queues share a fiber, is a report, never a right program's silence.
 */
#include "device/tsan_adapter.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fork.h"

#define FIBERS		32u
#define FIBER_JANITOR	FIBERS			/* orders what is pushed out of `ranges` */
#define NO_SYNC		1u			/* __tsan_switch_to_fiber_no_sync */
#define QUEUES		4096u			/* powers of two */
#define REQUESTS	16384u
#define KEYS		1024u
#define POSTS		64u
#define RANGES		1024u
#define ENDS_BYTES	(2u << 20)		/* of larger accesses only the ends are told */
#define STACK_MAX	24

/* A send or receive queue that was posted to, by its address. */
struct tsan_queue {
	const void *of;
	uint32_t fiber;
	bool renumbered;
	uint64_t posters, all;		/* keys: those who posted; all of its accesses */
};

struct tsan_range {
	uintptr_t start, end;		/* both 0: unused */
	uint32_t fiber;
	bool writes;
};

/* What follows, and fibers are used by one thread at a time. */
static struct lock tsan_device;
static struct tsan_queue queues[QUEUES] GUARDED_BY(tsan_device);
static uint32_t fibers_given GUARDED_BY(tsan_device);
static void *fibers[FIBERS + 1] GUARDED_BY(tsan_device);
static struct tsan_range ranges[RANGES] GUARDED_BY(tsan_device);
static uint32_t range_next GUARDED_BY(tsan_device);

/* By a hash of the queue: held while one posts. */
static struct lock tsan_posts[POSTS];

/* Keys for the sanitizer: only their addresses matter. */
static uint64_t requests[REQUESTS], regions[KEYS], messages[KEYS], pushed_out;

static uint32_t tsan_hash(uint64_t value)
{
	return (uint32_t)((value * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static uint64_t *request_key(const void *queue, uint32_t number)
{
	return &requests[(tsan_hash((uintptr_t)queue) + number) % REQUESTS];
}

static uint64_t *region_key(uint32_t lkey)
{
	return &regions[tsan_hash(lkey) % KEYS];
}

static uint64_t *message_key(uint32_t qpn)
{
	return &messages[tsan_hash(qpn) % KEYS];
}

void tsan_find_site(struct tsan_site *site)
{
	void *stack[STACK_MAX], *caller = tsan_caller();
	int count = backtrace(stack, STACK_MAX), first = 0;

	while (first < count && stack[first] != caller)
		first++;
	if (first == count) {	/* without unwind tables: the one frame that is known */
		stack[0] = caller;
		first = 0;
		count = 1;
	}
	for (site->frames = 0; site->frames < TSAN_FRAMES && first < count; first++)
		site->frame[site->frames++] = stack[first];
}

/* In a full table: the place of another one, which shares all that is noted here. */
static struct tsan_queue *queue_find(const void *of) REQUIRES(tsan_device)
{
	uint32_t hash = tsan_hash((uintptr_t)of), tries;
	struct tsan_queue *queue;

	for (tries = 0; tries < QUEUES; tries++) {
		queue = &queues[(hash + tries) % QUEUES];
		if (queue->of == of)
			return queue;
		if (!queue->of) {
			queue->of = of;
			queue->fiber = fibers_given++ % FIBERS;
			return queue;
		}
	}
	return &queues[hash % QUEUES];
}

static void *fiber_get(uint32_t number) REQUIRES(tsan_device)
{
	if (!fibers[number]) {
		fibers[number] = tsan_runtime.create_fiber(0);
		tsan_runtime.set_fiber_name(fibers[number], "RDMA adapter");
	}
	return fibers[number];
}

/* What ranges[at] ordered is before all later accesses: its place is needed. */
static void range_push_out(uint32_t at, void *current) REQUIRES(tsan_device)
{
	tsan_runtime.switch_to_fiber(fiber_get(FIBER_JANITOR), NO_SYNC);
	tsan_runtime.acquire(&ranges[at]);
	tsan_runtime.release(&pushed_out);
	tsan_runtime.switch_to_fiber(current, NO_SYNC);
}

/* After those accesses of other queues' requests that it overlaps with. */
static void range_order(const struct tsan_range *range) REQUIRES(tsan_device)
{
	for (uint32_t i = 0; i < RANGES; i++)
		if (ranges[i].start < range->end && range->start < ranges[i].end &&
		    ranges[i].fiber != range->fiber && (ranges[i].writes || range->writes))
			tsan_runtime.acquire(&ranges[i]);
}

static void range_note(const struct tsan_range *range) REQUIRES(tsan_device)
{
	uint32_t i;

	for (i = 0; i < RANGES; i++)
		if (ranges[i].start == range->start && ranges[i].end == range->end &&
		    ranges[i].fiber == range->fiber && ranges[i].writes == range->writes)
			break;
	if (i == RANGES) {
		i = range_next++ % RANGES;
		if (ranges[i].end)
			range_push_out(i, fiber_get(range->fiber));
		ranges[i] = *range;
	}
	tsan_runtime.release(&ranges[i]);
}

/* Reports show their names. */

static __attribute__((noinline)) void adapter_reads(uintptr_t start, size_t bytes)
{
	tsan_runtime.read_range((void *)start, bytes);
	__asm__ volatile("");		/* no tail call: its caller is shown */
}

static __attribute__((noinline)) void adapter_writes(uintptr_t start, size_t bytes)
{
	tsan_runtime.write_range((void *)start, bytes);
	__asm__ volatile("");
}

static void fiber_access(uint32_t fiber, const struct tsan_access *access) REQUIRES(tsan_device)
{
	const struct tsan_range range = { .start = access->start, .end = access->start + access->bytes,
					  .fiber = fiber, .writes = access->writes };

	void (*tell)(uintptr_t start, size_t bytes) = access->writes ? adapter_writes : adapter_reads;

	range_order(&range);
	if (access->bytes <= 2 * ENDS_BYTES) {
		tell(access->start, access->bytes);
	} else {
		tell(access->start, ENDS_BYTES);
		tell(range.end - ENDS_BYTES, ENDS_BYTES);
	}
	range_note(&range);
	tsan_runtime.release(region_key(access->lkey));
}

/* A handler that began here would belong to the fiber, and run when that is used again. */
static void signals_block(uint64_t *saved)
{
	const uint64_t all = UINT64_MAX;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, saved, sizeof(all));
}

static void signals_restore(const uint64_t *saved)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, saved, NULL, sizeof(*saved));
}

void tsan_record(const void *of, uint32_t number, const struct tsan_site *site,
		 const struct tsan_access *access, unsigned count)
{
	struct tsan_queue *queue;
	uint64_t mask;
	void *self;
	unsigned i;
	int frame;

	lock_acquire(&tsan_device);
	signals_block(&mask);
	queue = queue_find(of);
	tsan_runtime.release(&queue->posters);
	self = tsan_runtime.current_fiber();
	tsan_runtime.switch_to_fiber(fiber_get(queue->fiber), NO_SYNC);
	tsan_runtime.acquire(&queue->posters);
	tsan_runtime.acquire(&pushed_out);
	for (frame = site->frames; frame--;)
		tsan_runtime.func_entry(site->frame[frame]);
	for (i = 0; i < count; i++)
		fiber_access(queue->fiber, &access[i]);
	for (frame = site->frames; frame--;)
		tsan_runtime.func_exit();
	tsan_runtime.release(request_key(of, number));
	tsan_runtime.release(&queue->all);
	tsan_runtime.switch_to_fiber(self, NO_SYNC);
	signals_restore(&mask);
	lock_release(&tsan_device);
}

struct lock *tsan_post_lock(const void *queue)
{
	return &tsan_posts[tsan_hash((uintptr_t)queue) % POSTS];
}

void tsan_polled(const void *of, uint32_t number)
{
	struct lock *posts = tsan_post_lock(of);
	struct tsan_queue *queue;
	bool renumbered;

	lock_acquire(posts);
	lock_acquire(&tsan_device);
	queue = queue_find(of);
	renumbered = queue->renumbered;
	lock_release(&tsan_device);
	tsan_runtime.acquire(renumbered ? &queue->all : request_key(of, number));
	lock_release(posts);
}

void tsan_renumber(const void *of)
{
	if (!tsan_is_on())
		return;
	lock_acquire(&tsan_device);
	queue_find(of)->renumbered = true;
	lock_release(&tsan_device);
}

void tsan_emptied(const void *of)
{
	struct tsan_queue *queue;

	if (!tsan_is_on())
		return;
	lock_acquire(&tsan_device);
	queue = queue_find(of);
	lock_release(&tsan_device);
	tsan_runtime.acquire(&queue->all);
}

void tsan_deregistered(uint32_t lkey)
{
	tsan_after(region_key(lkey));
}

void tsan_sending_to(uint32_t qpn)
{
	tsan_before(message_key(qpn));
}

void tsan_received_by(uint32_t qpn)
{
	tsan_after(message_key(qpn));
}

static void tsan_after_fork_child(void)
{
	lock_init(&tsan_device);
	for (unsigned i = 0; i < POSTS; i++)
		lock_init(&tsan_posts[i]);
}

void tsan_watch_fork(void)
{
	static const struct fork_handlers handlers = { .child = tsan_after_fork_child };

	fork_register(FORK_TSAN, &handlers);
}
