/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a page shows what happened: every moment (a packet sent, received, an event) by time; what is folded away
 * at first; lanes from left to right. Pages of a million packets open without sorting.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ladder.h"

struct moment {
	uint64_t time_ns;
	uint32_t code;		/* of struct ladder_order */
};

static uint64_t order_sent(const struct ladder_packet *packet)
{
	return packet->sent ? packet->sent->time_ns : packet->received->time_ns;
}

static uint64_t order_received(const struct ladder_packet *packet)
{
	return packet->received ? packet->received->time_ns : packet->sent->time_ns;
}

/* A sender may take its stamp when the call that sent is over: not later than received. */
static uint64_t order_begin(const struct ladder_packet *packet)
{
	uint64_t sent = order_sent(packet), received = order_received(packet);

	return sent < received ? sent : received;
}

uint64_t ladder_moment_ns(const struct ladder *ladder, uint32_t moment)
{
	uint32_t item = moment / 2;

	if (item >= ladder->packets)
		return ladder->event[item - ladder->packets].time_ns;
	return moment & 1 ? ladder->packet[item].received->time_ns : order_begin(&ladder->packet[item]);
}

/* ---- moments ---- */

/* What begins stands before what ends at the same time. */
static int order_compare(const void *one, const void *other)
{
	const struct moment *a = one, *b = other;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	if ((a->code & 1) != (b->code & 1))
		return a->code & 1 ? 1 : -1;
	return a->code < b->code ? -1 : a->code > b->code;
}

static int order_moments(const struct ladder *ladder, struct ladder_order *order)
{
	size_t most = (size_t)ladder->packets * 2 + ladder->events, count = 0;
	struct moment *moment = calloc(most + 1, sizeof(*moment));

	order->moment = calloc(most + 1, sizeof(*order->moment));
	if (!moment || !order->moment) {
		free(moment);
		return ENOMEM;
	}
	for (uint32_t i = 0; i < ladder->packets; i++) {
		const struct ladder_packet *packet = &ladder->packet[i];

		if (packet->sent)
			moment[count++].code = i * 2;
		if (packet->received && !(packet->flags & LADDER_INSTANT))
			moment[count++].code = i * 2 + 1;
	}
	for (uint32_t i = 0; i < ladder->events; i++)
		moment[count++].code = (ladder->packets + i) * 2;
	for (size_t i = 0; i < count; i++)
		moment[i].time_ns = ladder_moment_ns(ladder, moment[i].code);
	qsort(moment, count, sizeof(*moment), order_compare);
	for (size_t i = 0; i < count; i++)
		order->moment[i] = moment[i].code;
	order->moments = (uint32_t)count;
	free(moment);
	return 0;
}

/* ---- what is folded ---- */

static bool order_is(const struct ladder_event *event, const char *const *names)
{
	char name[24] = "";

	ladder_json_value(event->json, event->json_bytes, "event", name, sizeof(name));
	for (; *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

static bool order_posts(const struct ladder_event *event)
{
	char name[40] = "";

	ladder_json_value(event->json, event->json_bytes, "name", name, sizeof(name));
	return !strncmp(name, "ibv_post_", 9) || !strncmp(name, "ibv_wr_", 7);
}

/*
 * Calls and states before the first packet, but posts, which are why there are packets; and what only ends, behind
 * the last packet and completion. Nothing that failed.
 */
static int order_folds(const struct ladder *ladder, struct ladder_order *order)
{
	static const char *const ends[] = { "call", "process", "counters", "state", "queue_pair", NULL };
	static const char *const connections[] = { "cm", NULL };
	uint64_t first = UINT64_MAX, last = 0;

	order->folded = calloc(ladder->events + 1u, 1);
	if (!order->folded)
		return ENOMEM;
	for (uint32_t i = 0; i < ladder->packets; i++) {
		uint64_t begin = order_begin(&ladder->packet[i]), end = order_received(&ladder->packet[i]);

		first = begin < first ? begin : first;
		last = end > last ? end : last;
	}
	for (uint32_t i = 0; i < ladder->events; i++) {
		const struct ladder_event *event = &ladder->event[i];

		if (event->time_ns > last && (event->kind == LADDER_EVENT_COMPLETION ||
					      (event->kind >= LADDER_EVENT_OTHER && !order_is(event, ends))))
			last = event->time_ns;
	}
	for (uint32_t i = 0; ladder->packets && i < ladder->events; i++) {
		const struct ladder_event *event = &ladder->event[i];
		bool quiet;

		if (event->time_ns >= first && event->time_ns <= last)
			continue;
		quiet = !event->failed && order_is(event, ends);
		order->folded[i] = event->time_ns > last ? quiet :
			(quiet || order_is(event, connections)) && !order_posts(event);
	}
	return 0;
}

static int order_compare_steps(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

static int order_median(const struct ladder *ladder, struct ladder_order *order)
{
	uint64_t *step = calloc(order->moments + 1u, sizeof(*step)), before = 0;
	size_t steps = 0;
	bool began = false;

	if (!step)
		return ENOMEM;
	for (uint32_t i = 0; i < order->moments; i++) {
		uint32_t item = order->moment[i] / 2;
		uint64_t now;

		if (item >= ladder->packets && order->folded[item - ladder->packets])
			continue;
		now = ladder_moment_ns(ladder, order->moment[i]);
		if (began)
			step[steps++] = now - before;
		before = now;
		began = true;
	}
	qsort(step, steps, sizeof(*step), order_compare_steps);
	order->median_ns = steps ? step[steps / 2] : 0;
	free(step);
	return 0;
}

/* ---- lanes ---- */

/* Lanes of one process, or of one address, stand together: who sends first, the client, left. */
struct group {
	uint64_t first_ns;
	uint32_t speaks;	/* how many sent before it; LADDER_NONE: it never sends */
	uint32_t place;		/* from left to right */
};

struct lane_place {
	uint32_t lane;
	uint32_t group;		/* its first lane */
	uint64_t first_ns;
	int outward;
};

static const struct group *order_groups;	/* for qsort(), which has no argument */

static int order_compare_groups(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
	const struct group *left = &order_groups[a], *right = &order_groups[b];

	if (left->speaks != right->speaks)
		return left->speaks < right->speaks ? -1 : 1;
	if (left->first_ns != right->first_ns)
		return left->first_ns < right->first_ns ? -1 : 1;
	return a < b ? -1 : a > b;
}

static int order_compare_lanes(const void *one, const void *other)
{
	const struct lane_place *a = one, *b = other;
	uint32_t left = order_groups[a->group].place, right = order_groups[b->group].place;

	if (left != right)
		return left < right ? -1 : 1;
	if (a->outward != b->outward)
		return a->outward < b->outward ? -1 : 1;
	if (a->first_ns != b->first_ns)
		return a->first_ns < b->first_ns ? -1 : 1;
	return a->lane < b->lane ? -1 : a->lane > b->lane;
}

static bool order_together(const struct ladder_lane *one, const struct ladder_lane *other)
{
	if (one->process >= 0 || other->process >= 0)
		return one->process == other->process;
	return one->has_address == other->has_address &&
	       (!one->has_address || !memcmp(one->address, other->address, sizeof(one->address)));
}

static void order_seen(struct lane_place *place, struct group *group, uint32_t lane, uint64_t time_ns)
{
	if (time_ns < place[lane].first_ns)
		place[lane].first_ns = time_ns;
	if (time_ns < group[place[lane].group].first_ns)
		group[place[lane].group].first_ns = time_ns;
}

static void order_look(const struct ladder *ladder, const struct ladder_order *order, struct lane_place *place,
		       struct group *group)
{
	uint32_t speakers = 0;

	for (uint32_t i = 0; i < order->moments; i++) {
		uint32_t item = order->moment[i] / 2;
		const struct ladder_packet *packet = &ladder->packet[item];

		if (item >= ladder->packets) {
			const struct ladder_event *event = &ladder->event[item - ladder->packets];

			order_seen(place, group, event->lane, event->time_ns);
			continue;
		}
		if (group[place[packet->from].group].speaks == LADDER_NONE)
			group[place[packet->from].group].speaks = speakers++;
		order_seen(place, group, packet->from, order_sent(packet));
		order_seen(place, group, packet->to, order_sent(packet));
	}
}

static void order_place(const struct ladder *ladder, struct ladder_order *order, struct lane_place *place,
			struct group *group, uint32_t *list)
{
	uint32_t groups = 0;

	for (uint32_t i = 0; i < ladder->lanes; i++) {
		group[i] = (struct group){ .first_ns = UINT64_MAX, .speaks = LADDER_NONE };
		place[i] = (struct lane_place){ .lane = i, .group = i, .first_ns = UINT64_MAX };
		for (uint32_t j = 0; j < groups && place[i].group == i; j++)
			if (order_together(&ladder->lane[list[j]], &ladder->lane[i]))
				place[i].group = list[j];
		if (place[i].group == i)
			list[groups++] = i;
	}
	order_look(ladder, order, place, group);
	order_groups = group;
	qsort(list, groups, sizeof(*list), order_compare_groups);
	for (uint32_t i = 0; i < groups; i++)
		group[list[i]].place = i;
	for (uint32_t i = 0; i < ladder->lanes; i++) {
		int rank = ladder->lane[i].qpn == LADDER_NO_QP ? 0 : ladder->lane[i].qpn == 1 ? 1 : 2;

		/* The last group has what is no data at its outer side, too: queue pairs face each other. */
		place[i].outward = groups > 1 && group[place[i].group].place == groups - 1 ? -rank : rank;
	}
	qsort(place, ladder->lanes, sizeof(*place), order_compare_lanes);
	for (uint32_t i = 0; i < ladder->lanes; i++)
		order->lane[i] = place[i].lane;
}

static int order_lanes(const struct ladder *ladder, struct ladder_order *order)
{
	struct lane_place *place = calloc(ladder->lanes + 1u, sizeof(*place));
	struct group *group = calloc(ladder->lanes + 1u, sizeof(*group));
	uint32_t *list = calloc(ladder->lanes + 1u, sizeof(*list));

	order->lane = calloc(ladder->lanes + 1u, sizeof(*order->lane));
	if (place && group && list && order->lane)
		order_place(ladder, order, place, group, list);
	free(place);
	free(group);
	free(list);
	return place && group && list && order->lane ? 0 : ENOMEM;
}

int ladder_order_make(const struct ladder *ladder, struct ladder_order *order)
{
	int err;

	*order = (struct ladder_order){ .moment = NULL };
	err = order_moments(ladder, order);
	err = err ? err : order_folds(ladder, order);
	err = err ? err : order_median(ladder, order);
	err = err ? err : order_lanes(ladder, order);
	if (err)
		ladder_order_free(order);
	return err;
}

void ladder_order_free(struct ladder_order *order)
{
	free(order->moment);
	free(order->folded);
	free(order->lane);
	*order = (struct ladder_order){ .moment = NULL };
}
