/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time, events, randomness. Events of one instant happen in the order in which they were added,
 * timers before them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/sim.h"

#define HANDLED_MAX	3000000ull
#define END_NS		(3600 * SECOND)

struct sim *sim_create(uint64_t seed)
{
	struct sim *sim = calloc(1, sizeof(*sim));

	if (!sim)
		abort();
	sim->batch = calloc(1, sizeof(*sim->batch));
	if (!sim->batch || !(sim->batch->data = malloc(TX_BYTES_MAX)))
		abort();
	sim->seed = seed;
	sim->random = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
	sim->now_ns = SECOND;
	sim->handled_max = HANDLED_MAX;
	sim->end_ns = END_NS;
	return sim;
}

void sim_destroy(struct sim *sim)
{
	size_t i;

	for (i = 0; i < sim->event_count; i++)
		free(sim->heap[i].data);
	for (i = 0; i < sim->host_count; i++)
		host_destroy(sim->host[i]);
	free(sim->heap);
	free(sim->batch->data);
	free(sim->batch);
	free(sim);
}

/* splitmix64: any seed is good, neighbouring ones too. */
uint64_t sim_random(struct sim *sim)
{
	uint64_t z = sim->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint32_t sim_below(struct sim *sim, uint32_t n)
{
	return (uint32_t)((sim_random(sim) >> 32) * n >> 32);
}

bool sim_chance(struct sim *sim, uint32_t per_million)
{
	return per_million && sim_below(sim, MILLION) < per_million;
}

void sim_fail(struct sim *sim, const char *format, ...)
{
	va_list arguments;
	int n;

	if (sim->failed)
		return;
	sim->failed = true;
	n = snprintf(sim->failure, sizeof(sim->failure), "at %.3f ms: ",
		     (double)(sim->now_ns - SECOND) / 1e6);
	va_start(arguments, format);
	vsnprintf(sim->failure + n, sizeof(sim->failure) - (size_t)n, format, arguments);
	va_end(arguments);
}

/* ---- the heap ---- */

static bool sim_is_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

void sim_event_add(struct sim *sim, struct sim_event event)
{
	size_t i;

	if (sim->event_count == sim->event_capacity) {
		sim->event_capacity = sim->event_capacity ? 2 * sim->event_capacity : 256;
		sim->heap = realloc(sim->heap, sim->event_capacity * sizeof(*sim->heap));
		if (!sim->heap)
			abort();
	}
	event.order = sim->order++;
	for (i = sim->event_count++; i && sim_is_before(&event, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim->heap[i] = sim->heap[(i - 1) / 2];
	sim->heap[i] = event;
}

static struct sim_event sim_take_event(struct sim *sim)
{
	struct sim_event first = sim->heap[0], last = sim->heap[--sim->event_count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < sim->event_count) {
		if (child + 1 < sim->event_count && sim_is_before(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!sim_is_before(&sim->heap[child], &last))
			break;
		sim->heap[i] = sim->heap[child];
		i = child;
	}
	sim->heap[i] = last;
	return first;
}

void sim_call_at(struct sim *sim, uint64_t at_ns, void (*call)(struct sim *, void *), void *argument)
{
	sim_event_add(sim, (struct sim_event){ .at_ns = at_ns, .kind = EVENT_CALL, .call = call,
					       .argument = argument });
}

/* ---- running ---- */

static void sim_handle(struct sim *sim, struct sim_event *event)
{
	sim->running = event->host;
	switch (event->kind) {
	case EVENT_ARRIVE:
		net_arrive(sim, event);
		break;
	case EVENT_SERVE:
		net_serve(sim, event);
		free(event->data);
		break;
	case EVENT_PUMP:
		event->host->pump_planned = false;
		host_pump(event->host);
		break;
	case EVENT_CALL:
		event->call(sim, event->argument);
		break;
	}
}

/* The host with the earliest timer; *at_ns is when. */
static struct sim_host *sim_next_timer(struct sim *sim, uint64_t *at_ns)
{
	struct sim_host *host = NULL;
	unsigned i;

	*at_ns = TIME_NEVER;
	for (i = 0; i < sim->host_count; i++) {
		uint64_t deadline_ns = host_deadline(sim->host[i]);

		if (deadline_ns < *at_ns) {
			*at_ns = deadline_ns;
			host = sim->host[i];
		}
	}
	return host;
}

bool sim_run(struct sim *sim, uint64_t until_ns)
{
	sim->stopped = false;
	while (!sim->failed && !sim->stopped) {
		uint64_t timer_ns, event_ns = sim->event_count ? sim->heap[0].at_ns : TIME_NEVER;
		struct sim_host *timer = sim_next_timer(sim, &timer_ns);
		uint64_t next_ns = timer_ns < event_ns ? timer_ns : event_ns;

		if (next_ns == TIME_NEVER)
			return true;
		if (next_ns > until_ns) {
			sim->now_ns = until_ns;
			return true;
		}
		if (++sim->handled > sim->handled_max || next_ns > sim->end_ns)
			sim_fail(sim, "does not terminate: %llu events, %llu packets",
				 (unsigned long long)sim->handled, (unsigned long long)sim->sent);
		if (next_ns > sim->now_ns)
			sim->now_ns = next_ns;
		if (timer_ns <= event_ns) {
			sim->running = timer;
			host_expire(timer);
		} else {
			struct sim_event event = sim_take_event(sim);

			sim_handle(sim, &event);
		}
		if (sim->application)
			sim->application(sim, sim->application_argument);
	}
	return !sim->failed;
}
