/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From posting a request to its completion. Requests of a queue pair complete in the order in which they were
 * posted: a completion is that of the oldest signaled request with its wr_id, and what is before that is over.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ladder.h"

/* The send queue of a lane. */
struct posted {
	struct request { uint64_t wr_id, time_ns; } *request;
	unsigned head, count, room;
};

static bool latency_number(const struct ladder_event *event, const char *key, uint64_t *value)
{
	char text[24];

	if (!ladder_json_value(event->json, event->json_bytes, key, text, sizeof(text)))
		return false;
	*value = strtoull(text, NULL, 10);
	return true;
}

static int latency_post(struct posted *posted, struct ladder_lane *lane, const struct ladder_event *event)
{
	unsigned depth;
	char name[40], value[16];
	uint64_t wr_id;

	if (event->failed || !ladder_json_value(event->json, event->json_bytes, "name", name, sizeof(name)) ||
	    !ladder_json_value(event->json, event->json_bytes, "opcode", value, sizeof(value)) ||
	    ladder_json_value(event->json, event->json_bytes, "unsignaled", value, sizeof(value)) ||
	    !latency_number(event, "wr_id", &wr_id))
		return 0;
	if (capture_grow(&posted->request, posted->count, &posted->room, sizeof(*posted->request)))
		return ENOMEM;
	depth = posted->count - posted->head;
	lane->posts++;
	lane->depths += depth;
	lane->depth_most = depth > lane->depth_most ? depth : lane->depth_most;
	posted->request[posted->count++] = (struct request){ wr_id, event->time_ns };
	return 0;
}

static void latency_complete(struct posted *posted, struct ladder_event *event)
{
	char opcode[32] = "";
	uint64_t wr_id;

	ladder_json_value(event->json, event->json_bytes, "opcode", opcode, sizeof(opcode));
	if (!strncmp(opcode, "RECV", 4) || !latency_number(event, "wr_id", &wr_id))
		return;
	for (unsigned i = posted->head; i < posted->count; i++) {
		if (posted->request[i].wr_id != wr_id)
			continue;
		event->latency_ns = (int64_t)(event->time_ns - posted->request[i].time_ns);
		if (event->latency_ns < 0)
			event->latency_ns = 0;
		posted->head = i + 1;
		return;
	}
}

int ladder_find_latencies(struct ladder *ladder)
{
	struct posted *posted = calloc(ladder->lanes + 1u, sizeof(*posted));
	int err = posted ? 0 : ENOMEM;

	for (unsigned i = 0; !err && i < ladder->events; i++) {
		struct ladder_event *event = &ladder->event[i];

		if (event->kind == LADDER_EVENT_CALL)
			err = latency_post(&posted[event->lane], &ladder->lane[event->lane], event);
		else if (event->kind == LADDER_EVENT_COMPLETION)
			latency_complete(&posted[event->lane], event);
	}
	for (unsigned i = 0; posted && i < ladder->lanes; i++)
		free(posted[i].request);
	free(posted);
	return err;
}
