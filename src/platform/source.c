/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources of work, asked and served in the order in which they were registered. */
#include "platform/source.h"

#include <assert.h>

#include "platform/wait.h"

void sources_init(struct sources *sources, struct waiter *waiter)
{
	*sources = (struct sources){ .waiter = waiter };
}

void source_register(struct sources *sources, struct source *source, const struct source_ops *ops,
		     void *owner)
{
	assert(sources->count < SOURCES_MAX);
	source->ops = ops;
	source->owner = owner;
	source->tag = WAIT_DOORBELL << (sources->count + 1);
	sources->row[++sources->count] = source;
	if (!ops->turn)
		sources->anyones |= source->tag;
	if (ops->pending)
		sources->pending |= source->tag;
}

static struct source *source_of_tag(const struct sources *sources, uint32_t tag)
{
	return sources->row[__builtin_ctz(tag)];
}

void source_poll(struct sources *sources, const struct source *source, bool each)
{
	if (each)
		atomic_fetch_or(&sources->polled, source->tag);
	else
		atomic_fetch_and(&sources->polled, ~source->tag);
}

void source_set_due(struct sources *sources, const struct source *source)
{
	atomic_fetch_or(&sources->due, source->tag);
}

void sources_receive(struct sources *sources, uint32_t also, struct receiver *receiver)
{
	uint32_t rows = atomic_load_explicit(&sources->polled, memory_order_relaxed) | also;

	if (atomic_load_explicit(&sources->due, memory_order_relaxed))
		rows |= atomic_exchange(&sources->due, 0);
	for (; rows; rows &= rows - 1) {
		struct source *source = source_of_tag(sources, rows);

		source->ops->receive(source, receiver);
	}
}

bool sources_are_pending(const struct sources *sources)
{
	uint32_t rows;

	for (rows = sources->pending; rows; rows &= rows - 1) {
		struct source *source = source_of_tag(sources, rows);

		if (source->ops->pending(source))
			return true;
	}
	return false;
}

int source_watch(struct sources *sources, const struct source *source, int fd)
{
	return waiter_add(sources->waiter, fd, source->tag);
}

void source_unwatch(struct sources *sources, int fd)
{
	waiter_remove(sources->waiter, fd);
}

void sources_woken(const struct sources *sources, uint32_t ready)
{
	unsigned i;

	for (i = 1; i <= sources->count; i++) {
		struct source *source = sources->row[i];

		if ((ready & source->tag) && source->ops->woken)
			source->ops->woken(source);
	}
}

static uint64_t source_asked(struct source *source)
{
	return source->ops->asked_ns ? source->ops->asked_ns(source) : UINT64_MAX;
}

static uint64_t source_deadline(struct source *source)
{
	return source->ops->deadline_ns ? source->ops->deadline_ns(source) : UINT64_MAX;
}

static bool source_is_due(struct source *source)
{
	return source->ops->is_due && source->ops->is_due(source);
}

void sources_turn(const struct sources *sources, uint32_t ready, uint64_t now_ns)
{
	unsigned i;

	for (i = 1; i <= sources->count; i++) {
		struct source *source = sources->row[i];

		if (source->ops->turn &&
		    ((ready & source->tag) || source_is_due(source) ||
		     source_asked(source) <= now_ns || source_deadline(source) <= now_ns))
			source->ops->turn(source, ready & source->tag, now_ns);
	}
}

bool sources_are_due(const struct sources *sources)
{
	unsigned i;

	for (i = 1; i <= sources->count; i++)
		if (source_is_due(sources->row[i]))
			return true;
	return false;
}

uint64_t sources_asked(const struct sources *sources)
{
	uint64_t asked_ns = UINT64_MAX, next_ns;
	unsigned i;

	for (i = 1; i <= sources->count; i++) {
		next_ns = source_asked(sources->row[i]);
		if (next_ns < asked_ns)
			asked_ns = next_ns;
	}
	return asked_ns;
}

uint64_t sources_deadline(const struct sources *sources)
{
	uint64_t deadline_ns = sources_asked(sources), next_ns;
	unsigned i;

	for (i = 1; i <= sources->count; i++) {
		next_ns = source_deadline(sources->row[i]);
		if (next_ns < deadline_ns)
			deadline_ns = next_ns;
	}
	return deadline_ns;
}

void sources_abandon(const struct sources *sources)
{
	unsigned i;

	for (i = 1; i <= sources->count; i++)
		if (sources->row[i]->ops->abandon)
			sources->row[i]->ops->abandon(sources->row[i]);
}
