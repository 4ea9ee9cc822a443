/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim trace --summary: where the time of a trace went, as text. Calls and requests by kind with percentiles,
 * what connections waited for, how deep queues were, and the slowest requests with what happened meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ladder.h"
#include "tool.h"
#include "trace.h"

#define GROUPS_MAX	64u
#define SLOWEST		10u
#define GROUP_NAME	64u

/* Times of one kind of call, or of requests of one opcode. */
struct group {
	char name[GROUP_NAME];
	uint64_t *ns;
	unsigned count, room;
};

struct groups {
	struct group group[GROUPS_MAX];
	unsigned count;
};

static int group_add(struct groups *groups, const char *name, uint64_t ns)
{
	struct group *group;
	unsigned i;

	for (i = 0; i < groups->count && strcmp(groups->group[i].name, name); i++)
		;
	if (i == GROUPS_MAX)
		return 0;
	group = &groups->group[i];
	if (i == groups->count) {
		snprintf(group->name, sizeof(group->name), "%s", name);
		groups->count++;
	}
	if (capture_grow(&group->ns, group->count, &group->room, sizeof(*group->ns)))
		return ENOMEM;
	group->ns[group->count++] = ns;
	return 0;
}

static int group_order(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return one < other ? -1 : one > other;
}

static const char *summary_time(uint64_t ns, char text[24])
{
	if (ns < 10000)
		snprintf(text, 24, "%llu ns", (unsigned long long)ns);
	else if (ns < 10000000)
		snprintf(text, 24, "%.1f us", (double)ns / 1e3);
	else if (ns < 10000000000)
		snprintf(text, 24, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(text, 24, "%.1f s", (double)ns / 1e9);
	return text;
}

static void groups_print(struct groups *groups, const char *title)
{
	static const double parts[] = { .5, .9, .99, 1 };

	if (!groups->count)
		return;
	printf("\n%-34s %9s %10s %10s %10s %10s\n", title, "count", "median", "90 %", "99 %", "longest");
	for (unsigned i = 0; i < groups->count; i++) {
		struct group *group = &groups->group[i];

		qsort(group->ns, group->count, sizeof(*group->ns), group_order);
		printf("  %-32s %9u", group->name, group->count);
		for (size_t part = 0; part < sizeof(parts) / sizeof(*parts); part++) {
			unsigned at = (unsigned)((double)(group->count - 1) * parts[part] + .5);
			char text[24];

			printf(" %10s", summary_time(group->ns[at], text));
		}
		putchar('\n');
		free(group->ns);
	}
}

/* ---- requests, calls ---- */

static bool summary_value(const struct ladder_event *event, const char *key, char *value, size_t size)
{
	return ladder_json_value(event->json, event->json_bytes, key, value, size);
}

static void summary_lane(const struct ladder *ladder, uint32_t index, char *text, size_t size)
{
	const struct ladder_lane *lane = &ladder->lane[index];
	const char *process = lane->process >= 0 ? ladder->process[lane->process] : "?";

	if (lane->qpn == LADDER_NO_QP)
		snprintf(text, size, "%s", process);
	else
		snprintf(text, size, "QP 0x%06x of %s", lane->qpn, process);
}

static int summary_latencies(const struct ladder *ladder)
{
	static struct groups calls, requests;
	int err = 0;

	for (unsigned i = 0; !err && i < ladder->events; i++) {
		const struct ladder_event *event = &ladder->event[i];
		char name[32] = "", opcode[32] = "", ns[24], both[GROUP_NAME + 8];

		if (event->kind == LADDER_EVENT_CALL && summary_value(event, "ns", ns, sizeof(ns))) {
			summary_value(event, "name", name, sizeof(name));
			summary_value(event, "opcode", opcode, sizeof(opcode));
			snprintf(both, sizeof(both), "%s%s%s", name, *opcode ? " " : "", opcode);
			err = group_add(&calls, both, strtoull(ns, NULL, 10));
		} else if (event->latency_ns >= 0) {
			if (!summary_value(event, "opcode", opcode, sizeof(opcode)))
				strcpy(opcode, "failed");
			err = group_add(&requests, opcode, (uint64_t)event->latency_ns);
		}
	}
	groups_print(&requests, "from post to completion");
	groups_print(&calls, "in calls");
	return err;
}

/* ---- stalls ---- */

struct stall {
	uint64_t last_ns, rnr_ns, again_ns, longest_ns;
	unsigned rnrs, agains;
	bool is_rnr;			/* the latest packet was an RNR NAK */
};

/* How long each requester did nothing before it sent again: since the latest packet of its connection. */
static int summary_stalls(const struct ladder *ladder)
{
	struct stall *stalls = calloc(ladder->lanes + 1u, sizeof(*stalls));
	char rnr[24], again[24], longest[24], lane[128];
	bool any = false;

	if (!stalls)
		return ENOMEM;
	for (unsigned i = 0; i < ladder->packets; i++) {
		const struct ladder_packet *packet = &ladder->packet[i];
		bool answers = opcode_is_response(opcode_get(packet->opcode));
		struct stall *stall = &stalls[answers ? packet->to : packet->from];
		uint64_t stood_ns = stall->last_ns && packet->time_ns > stall->last_ns ?
				    packet->time_ns - stall->last_ns : 0;

		if (packet->flags & LADDER_RETRANSMISSION) {
			*(stall->is_rnr ? &stall->rnr_ns : &stall->again_ns) += stood_ns;
			stall->agains += !stall->is_rnr;
			if (stood_ns > stall->longest_ns)
				stall->longest_ns = stood_ns;
		}
		stall->rnrs += packet->kind == LADDER_RNR;
		stall->is_rnr = packet->kind == LADDER_RNR;
		stall->last_ns = answers && packet->received ? packet->received->time_ns : packet->time_ns;
	}
	for (uint32_t i = 0; i < ladder->lanes; i++) {
		const struct stall *stall = &stalls[i];

		if (!stall->rnrs && !stall->agains)
			continue;
		if (!any)
			printf("\nstalls\n");
		any = true;
		summary_lane(ladder, i, lane, sizeof(lane));
		printf("  %s: %u RNR NAKs, waited %s; %u packets sent again for other reasons, waited %s; longest "
		       "%s\n", lane, stall->rnrs, summary_time(stall->rnr_ns, rnr), stall->agains,
		       summary_time(stall->again_ns, again), summary_time(stall->longest_ns, longest));
	}
	if (!any)
		printf("\nstalls: none, by RNR NAKs or retransmission\n");
	free(stalls);
	return 0;
}

/* ---- queues ---- */

static void summary_depths(const struct ladder *ladder)
{
	bool any = false;
	char name[128];

	for (uint32_t i = 0; i < ladder->lanes; i++) {
		const struct ladder_lane *lane = &ladder->lane[i];

		if (!lane->posts)
			continue;
		if (!any)
			printf("\nrequests under way when one more was posted, signaled ones\n");
		any = true;
		summary_lane(ladder, i, name, sizeof(name));
		printf("  %s: %.1f on average, %u at most, of %llu posts\n", name,
		       (double)lane->depths / (double)lane->posts, lane->depth_most,
		       (unsigned long long)lane->posts);
	}
}

/* ---- the slowest ---- */

static const struct ladder *summary_of;		/* for qsort(), which has no argument */

static int slower_first(const void *a, const void *b)
{
	int64_t one = summary_of->event[*(const uint32_t *)a].latency_ns;
	int64_t other = summary_of->event[*(const uint32_t *)b].latency_ns;

	return one != other ? one > other ? -1 : 1 : *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* What happened on its connection meanwhile. */
static void slow_reason(const struct ladder *ladder, const struct ladder_event *event, char *text, size_t size)
{
	uint64_t begin_ns = event->time_ns - (uint64_t)event->latency_ns;
	unsigned rnrs = 0, agains = 0, lost = 0, packets = 0;

	for (unsigned i = 0; i < ladder->packets; i++) {
		const struct ladder_packet *packet = &ladder->packet[i];

		if (packet->time_ns < begin_ns || packet->time_ns > event->time_ns ||
		    (packet->from != event->lane && packet->to != event->lane))
			continue;
		packets++;
		rnrs += packet->kind == LADDER_RNR;
		agains += !!(packet->flags & LADDER_RETRANSMISSION);
		lost += !!(packet->flags & LADDER_LOST);
	}
	if (rnrs)
		snprintf(text, size, "%u RNR NAKs: the peer had posted no receive", rnrs);
	else if (lost || agains)
		snprintf(text, size, "%u packets sent again, %u seen to be lost", agains, lost);
	else if (packets > 1)
		snprintf(text, size, "%u packets of this queue pair meanwhile: it stood in the queue, or was "
			 "polled late", packets);
	else
		snprintf(text, size, "nothing else meanwhile: the peer took it late, or it was polled late");
}

static int summary_slowest(const struct ladder *ladder)
{
	uint32_t *found = calloc(ladder->events + 1u, sizeof(*found)), count = 0;
	uint64_t begin_ns = UINT64_MAX;

	if (!found)
		return ENOMEM;
	for (uint32_t i = 0; i < ladder->events; i++) {
		begin_ns = ladder->event[i].time_ns < begin_ns ? ladder->event[i].time_ns : begin_ns;
		if (ladder->event[i].latency_ns >= 0)
			found[count++] = i;
	}
	for (unsigned i = 0; i < ladder->packets; i++)
		begin_ns = ladder->packet[i].time_ns < begin_ns ? ladder->packet[i].time_ns : begin_ns;
	summary_of = ladder;
	if (count)
		qsort(found, count, sizeof(*found), slower_first);
	if (count)
		printf("\nthe slowest, from post to completion (times as in the chart: search for the wr_id "
		       "there)\n");
	for (uint32_t i = 0; i < count && i < SLOWEST; i++) {
		const struct ladder_event *event = &ladder->event[found[i]];
		char took[24], at[24], lane[128], reason[160], opcode[32] = "failed", wr_id[24] = "?";

		summary_value(event, "opcode", opcode, sizeof(opcode));
		summary_value(event, "wr_id", wr_id, sizeof(wr_id));
		summary_lane(ladder, event->lane, lane, sizeof(lane));
		slow_reason(ladder, event, reason, sizeof(reason));
		printf("  %10s  %s wr_id %s of %s, completed at %s: %s\n",
		       summary_time((uint64_t)event->latency_ns, took), opcode, wr_id, lane,
		       summary_time(event->time_ns - begin_ns, at), reason);
	}
	free(found);
	return 0;
}

/* ---- all of it ---- */

int trace_summary(char *const *paths, int count)
{
	struct capture capture = { .record = NULL };
	struct ladder ladder;
	int err = 0;

	for (int i = 0; !err && i < count; i++) {
		err = capture_read(&capture, paths[i]);
		if (err)
			fprintf(stderr, "verbatim trace: %s: %s\n", paths[i],
				err == EINVAL ? "no trace: make one with verbatim trace -o FILE" : strerror(err));
	}
	if (err) {
		capture_free(&capture);
		return EXIT_FAILURE;
	}
	capture_sort(&capture);
	err = ladder_make(&ladder, &capture, paths);
	if (!err) {
		printf("%u packets, %u operations through memory, %u events; problems: %u\n",
		       ladder.packets - ladder.operations, ladder.operations, ladder.events, ladder.problems);
		err = summary_latencies(&ladder);
		err = err ? err : summary_stalls(&ladder);
		summary_depths(&ladder);
		err = err ? err : summary_slowest(&ladder);
		ladder_free(&ladder);
	}
	capture_free(&capture);
	if (err)
		fprintf(stderr, "verbatim trace: %s\n", strerror(err));
	return err || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
