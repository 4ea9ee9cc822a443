/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Common to the objects of a context: lists, numbers, events to be acknowledged, and their absence
 * in a fork()ed child.
 */
#include <errno.h>
#include <time.h>

#include "base/call.h"
#include "base/log.h"
#include "device/internal.h"
#include <stdio.h>
#include "device/limits.h"
#include "platform/clock.h"


bool context_is_dead(const struct hca_context *context, const char *who)
{
	if (__builtin_expect(!context->abandoned, 1))
		return false;
	explain("%s: the device was opened before fork() and belongs to the parent: open it again "
		"in the child", who);
	return true;
}

void object_enlist(struct hca_context *context, struct list *head, struct list *node)
{
	lock_acquire(&context->hca->objects);
	list_add_tail(head, node);
	lock_release(&context->hca->objects);
}

void object_delist(struct hca_context *context, struct list *node)
{
	lock_acquire(&context->hca->objects);
	list_remove(node);
	lock_release(&context->hca->objects);
}

int object_reserve(struct hca *hca, enum object_kind kind, const char *call)
{
	static const struct { uint32_t limit; const char *name; } kinds[OBJECT_KINDS] = {
		[OBJECT_PD] = { LIMIT_PD, "PDs (max_pd)" },
		[OBJECT_CQ] = { LIMIT_CQ, "CQs (max_cq)" },
		[OBJECT_SRQ] = { LIMIT_SRQ, "SRQs (max_srq)" },
		[OBJECT_AH] = { LIMIT_AH, "AHs (max_ah)" },
		[OBJECT_WQ] = { LIMIT_WQ, "work queues (max_wq_type_rq)" },
		[OBJECT_COMP_COUNTER] = { LIMIT_COMP_COUNTERS, "completion counters (max_counters)" },
		[OBJECT_RWQ_TABLE] = { LIMIT_RWQ_TABLES, "tables (max_rwq_indirection_tables)" },
	};
	bool is_full;

	lock_acquire(&hca->objects);
	is_full = hca->counts[kind] == kinds[kind].limit;
	if (!is_full)
		hca->counts[kind]++;
	lock_release(&hca->objects);
	if (!is_full)
		return 0;
	explain("%s: the process has reached its limit of %u %s: destroy some, or use them again", call,
		kinds[kind].limit, kinds[kind].name);
	return ENOMEM;
}

void object_unreserve(struct hca *hca, enum object_kind kind)
{
	lock_acquire(&hca->objects);
	hca->counts[kind]--;
	lock_release(&hca->objects);
}

uint32_t object_number(struct hca *hca)
{
	uint32_t number;

	lock_acquire(&hca->objects);
	number = ++hca->next_number;
	if (!number)
		number = ++hca->next_number;
	lock_release(&hca->objects);
	return number;
}

#define MOMENT_NS 20000000
#define HELD_BYTES 240

/* To look at the clock: where handlers are put off, call_cond_wait() does so. */
static void object_wait_a_moment(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += MOMENT_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until);
}

/* The kinds of events that are held. */
static const char *object_held_events(const struct ack_names *names, char out[HELD_BYTES])
{
	size_t used = 0;

	snprintf(out, HELD_BYTES, "of ibv_get_cq_event");
	for (unsigned i = 0; i < names->count; i++)
		if (atomic_load(&names->events[i].held))
			used += (size_t)snprintf(out + used, HELD_BYTES - used, "%s%s", used ? ", " : "",
						 async_event_name(names->events[i].ibv.event_type));
	return out;
}

/* A handler may leave from here for good: what waits can be destroyed again, then. */
void object_wait_for_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked,
			  const uint32_t *got, const struct ack_names *names)
{
	uint64_t since_ns = explaining() ? clock_now_ns() : TIME_NEVER;
	char held[HELD_BYTES];

	pthread_mutex_lock(mutex);
	while (*acked != *got) {
		unsigned missing = *got - *acked;
		bool told = since_ns == TIME_NEVER || clock_now_ns() - since_ns < ACK_PATIENCE_NS;

		if (told && since_ns != TIME_NEVER && !call_guarded)
			object_wait_a_moment(cond, mutex);
		else if (told)
			call_cond_wait(cond, mutex);
		if (told && !call_is_owed())
			continue;
		pthread_mutex_unlock(mutex);
		if (!told)
			explain("%s has waited for more than a second: events fetched and not "
					"acknowledged: %u (%s): call %s",
				names->call, missing, object_held_events(names, held), names->ack);
		if (!told)
			since_ns = TIME_NEVER;
		call_pause();
		pthread_mutex_lock(mutex);
	}
	pthread_mutex_unlock(mutex);
}
