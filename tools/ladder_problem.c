/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What went wrong: marks are where a counter of a process moved (lost, dropped, RNR, NAK, sent again), and
 * each cause is one problem. What follows from a loss (drops out of order, a NAK, repetitions, answers to
 * those) belongs to it until the connection has caught up; a second loss meanwhile is a second cause.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ladder.h"
#include "wire/aeth.h"
#include "wire/psn.h"

#define FORGET_PSNS	(1 << 22)	/* what is so far back is no comparison any more: PSNs wrap */
#define SEQUENCE_NAK	0x60u

const char *ladder_cause_name(enum ladder_cause cause)
{
	static const char *const names[LADDER_CAUSES] = {
		[LADDER_CAUSE_LOST] = "lost", [LADDER_CAUSE_DROPPED] = "dropped", [LADDER_CAUSE_RNR] = "RNR NAK",
		[LADDER_CAUSE_NAK] = "NAK", [LADDER_CAUSE_AGAIN] = "sent again" };

	return names[cause];
}

static int problem_add(struct ladder *ladder, uint64_t time_ns, uint32_t item, enum ladder_cause cause)
{
	if (capture_grow(&ladder->problem, ladder->problems, &ladder->problem_room, sizeof(*ladder->problem)))
		return ENOMEM;
	ladder->problem[ladder->problems++] = (struct ladder_problem){ time_ns, item, (uint8_t)cause, 1 };
	return 0;
}

/* ---- numbers that find packets: sorted ---- */

struct keys {
	struct key { uint64_t key; uint32_t packet; } *key;
	unsigned count, room;
};

static int key_order(const void *a, const void *b)
{
	const struct key *one = a, *other = b;

	if (one->key != other->key)
		return one->key < other->key ? -1 : 1;
	return one->packet < other->packet ? -1 : one->packet > other->packet;
}

static int keys_add(struct keys *keys, uint64_t key, uint32_t packet)
{
	if (capture_grow(&keys->key, keys->count, &keys->room, sizeof(*keys->key)))
		return ENOMEM;
	keys->key[keys->count++] = (struct key){ key, packet };
	return 0;
}

/* Index behind the last of @key. */
static unsigned keys_behind(const struct keys *keys, uint64_t key)
{
	unsigned low = 0, high = keys->count;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (keys->key[middle].key <= key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool keys_have(const struct keys *keys, uint64_t key)
{
	unsigned at = keys_behind(keys, key);

	return at && keys->key[at - 1].key == key;
}

static void keys_sort(struct keys *keys)
{
	if (keys->count)
		qsort(keys->key, keys->count, sizeof(*keys->key), key_order);
}

/* ---- losses ---- */

static bool problem_event_is(const struct ladder_event *event, const char *key, const char *value)
{
	char text[64];

	return ladder_json_value(event->json, event->json_bytes, key, text, sizeof(text)) && !strcmp(text, value);
}

static uint32_t problem_event_number(const struct ladder_event *event, const char *key)
{
	char text[24];

	return ladder_json_value(event->json, event->json_bytes, key, text, sizeof(text)) ?
	       ladder_number(text, strlen(text), LADDER_NONE) : LADDER_NONE;
}

static uint64_t loss_key(uint32_t qpn, uint32_t psn, uint8_t opcode)
{
	return (uint64_t)qpn << 40 | (uint64_t)psn << 8 | opcode;
}

static bool is_underway(const struct ladder_packet *packet)
{
	return packet->sent && !packet->received && packet->sent->direction == CAPTURE_OUT &&
	       packet->operation == LADDER_NONE;
}

/* Sent and not received, though what was sent later from the same place to the same QP did arrive. */
static int losses_by_order(struct ladder *ladder, const bool *has_gaps)
{
	uint64_t *until = calloc(ladder->flows + 1u, sizeof(*until));

	if (!until)
		return ENOMEM;
	for (unsigned i = 0; i < ladder->packets; i++) {
		const struct ladder_packet *packet = &ladder->packet[i];

		if (packet->sent && packet->received && packet->sent->time_ns > until[packet->flow])
			until[packet->flow] = packet->sent->time_ns;
	}
	for (unsigned i = 0; i < ladder->packets; i++) {
		struct ladder_packet *packet = &ladder->packet[i];
		int process = ladder->lane[packet->to].process;

		if (!is_underway(packet))
			continue;
		if (packet->flags & LADDER_PLANTED ||
		    (process >= 0 && !has_gaps[process] && packet->time_ns < until[packet->flow]))
			packet->flags |= LADDER_LOST;
	}
	free(until);
	return 0;
}

static const char *const losing[] = { "loss", "blackhole", "overflow" };

/* A fault at the receiver, which has no record of the packet: of the latest such packet that is underway. */
static int losses_by_fault(struct ladder *ladder, const struct keys *underway, uint32_t index)
{
	const struct ladder_event *event = &ladder->event[index];
	uint32_t qpn = event->qpn, psn = problem_event_number(event, "psn");
	char name[64] = "";
	bool loses = false;

	ladder_json_value(event->json, event->json_bytes, "name", name, sizeof(name));
	for (size_t i = 0; i < sizeof(losing) / sizeof(*losing); i++)
		loses = loses || !strcmp(name, losing[i]);
	if (!loses || !problem_event_is(event, "direction", "in") || psn == LADDER_NONE)
		return 0;
	ladder_json_value(event->json, event->json_bytes, "opcode", name, sizeof(name));
	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		if (!op || strcmp(op->name, name))
			continue;
		for (unsigned at = keys_behind(underway, loss_key(qpn, psn, op->code)); at-- > 0;) {
			struct ladder_packet *packet = &ladder->packet[underway->key[at].packet];

			if (underway->key[at].key != loss_key(qpn, psn, op->code))
				break;
			if (packet->flags & LADDER_PLANTED || packet->time_ns > event->time_ns)
				continue;
			packet->flags |= LADDER_LOST | LADDER_PLANTED;
			return 0;
		}
	}
	return problem_add(ladder, event->time_ns, ladder->packets + index, LADDER_CAUSE_LOST);
}

static int losses_find(struct ladder *ladder)
{
	bool *has_gaps = calloc(ladder->processes + 1u, sizeof(*has_gaps));
	struct keys underway = { .key = NULL };
	int err = has_gaps ? 0 : ENOMEM;

	for (unsigned i = 0; !err && i < ladder->packets; i++)
		if (is_underway(&ladder->packet[i]))
			err = keys_add(&underway, loss_key(ladder->packet[i].dest_qpn, ladder->packet[i].psn,
							   ladder->packet[i].opcode), i);
	keys_sort(&underway);
	for (unsigned i = 0; !err && i < ladder->events; i++) {
		const struct ladder_event *event = &ladder->event[i];
		uint32_t records = event->kind == LADDER_EVENT_LOST ?
				   problem_event_number(event, "records") : 0;

		if (records) {
			has_gaps[event->process] = true;
			ladder->missing += records == LADDER_NONE ? 1 : records;
		} else if (event->kind == LADDER_EVENT_FAULT) {
			err = losses_by_fault(ladder, &underway, i);
		}
	}
	if (!err)
		err = losses_by_order(ladder, has_gaps);
	free(underway.key);
	free(has_gaps);
	return err;
}

/* ---- causes ---- */

/* Requests from one lane to another, and their answers. */
struct course {
	uint32_t from, to;
	bool used, started, known;	/* known: until and problem are */
	bool open;			/* not caught up yet */
	uint32_t highest;		/* PSN */
	uint32_t until;			/* PSN: up to here all that goes wrong follows from problem */
	unsigned problem;		/* index of the latest */
};

struct courses {
	struct course *course;
	size_t mask;
};

static struct course *course_of(struct courses *courses, uint32_t from, uint32_t to)
{
	size_t at = (from * 0x9e3779b1u ^ to * 0x85ebca6bu) & courses->mask;

	while (courses->course[at].used && (courses->course[at].from != from || courses->course[at].to != to))
		at = (at + 1) & courses->mask;
	courses->course[at].used = true;
	courses->course[at].from = from;
	courses->course[at].to = to;
	return &courses->course[at];
}

/* @always: a cause of its own, whatever went before. */
static int course_mark(struct ladder *ladder, struct course *course, uint32_t item, enum ladder_cause cause,
		       bool always)
{
	const struct ladder_packet *packet = &ladder->packet[item];
	bool follows = course->known && (course->open || psn_diff(packet->psn, course->until) <= 0);

	if (!always && follows) {
		ladder->problem[course->problem].times++;
	} else {
		if (problem_add(ladder, packet->time_ns, item, cause))
			return ENOMEM;
		course->problem = ladder->problems - 1;
		course->known = true;
	}
	course->open = true;
	course->until = course->highest;
	return 0;
}

static enum ladder_cause course_cause(const struct ladder *ladder, const struct course *course)
{
	return course->known ? (enum ladder_cause)ladder->problem[course->problem].cause : LADDER_CAUSES;
}

/* Is the latest problem a drop that the refusal @packet explains, of what it names or what is behind? */
static bool course_explains(const struct ladder *ladder, const struct course *course,
			    const struct ladder_packet *packet)
{
	const struct ladder_problem *problem;

	if (!course->known || !course->open)
		return false;
	problem = &ladder->problem[course->problem];
	return problem->cause == LADDER_CAUSE_DROPPED && problem->item < ladder->packets &&
	       psn_diff(packet->psn, ladder->packet[problem->item].psn) <= 0;
}

/* NAKs of a gap follow from what made it; any other one is a cause, as is a receiver that is not ready. */
static int course_nak(struct ladder *ladder, struct course *course, uint32_t item)
{
	const struct ladder_packet *packet = &ladder->packet[item];
	bool is_rnr = packet->kind == LADDER_RNR;
	enum ladder_cause cause = is_rnr ? LADDER_CAUSE_RNR : LADDER_CAUSE_NAK;
	bool other = (is_rnr || packet->syndrome != SEQUENCE_NAK) && course_cause(ladder, course) != cause;

	if (other && course_explains(ladder, course, packet)) {
		struct ladder_problem *problem = &ladder->problem[course->problem];

		*problem = (struct ladder_problem){ packet->time_ns, item, (uint8_t)cause, problem->times };
		other = false;
	}
	return course_mark(ladder, course, item, cause, other);
}

static int course_step(struct ladder *ladder, struct course *course, uint32_t item)
{
	const struct ladder_packet *packet = &ladder->packet[item];
	const struct opcode *op = opcode_get(packet->opcode);
	bool answers = opcode_is_response(op);
	int err = 0;

	if (!course->started || psn_diff(packet->psn, course->highest) > 0)
		course->highest = packet->psn;
	course->started = true;
	if (course->known && psn_diff(course->highest, course->until) > FORGET_PSNS)
		course->known = course->open = false;
	if (packet->flags & LADDER_RETRANSMISSION)
		err = course_mark(ladder, course, item, LADDER_CAUSE_AGAIN, false);
	if (!err && packet->flags & LADDER_LOST)
		err = course_mark(ladder, course, item, LADDER_CAUSE_LOST, true);
	else if (!err && packet->flags & LADDER_DROPPED)
		err = course_mark(ladder, course, item, LADDER_CAUSE_DROPPED, false);
	else if (!err && (packet->kind == LADDER_NAK || packet->kind == LADDER_RNR))
		err = course_nak(ladder, course, item);
	else if (answers && course->open && psn_diff(packet->psn, course->until) >= 0)
		course->open = false;
	return err;
}

/* Datagrams and what else nobody answers for: each for itself. */
static int problem_alone(struct ladder *ladder, uint32_t item)
{
	const struct ladder_packet *packet = &ladder->packet[item];

	if (packet->flags & LADDER_LOST)
		return problem_add(ladder, packet->time_ns, item, LADDER_CAUSE_LOST);
	if (packet->flags & LADDER_DROPPED)
		return problem_add(ladder, packet->time_ns, item, LADDER_CAUSE_DROPPED);
	return 0;
}

static int causes_find(struct ladder *ladder)
{
	struct courses courses = { .mask = 1023 };
	int err = 0;

	while (courses.mask < (size_t)ladder->packets * 2)
		courses.mask = courses.mask * 2 + 1;
	courses.course = calloc(courses.mask + 1, sizeof(*courses.course));
	if (!courses.course)
		return ENOMEM;
	for (uint32_t i = 0; !err && i < ladder->packets; i++) {
		const struct ladder_packet *packet = &ladder->packet[i];
		const struct opcode *op = opcode_get(packet->opcode);
		bool answers = opcode_is_response(op);

		if (packet->operation != LADDER_NONE)
			continue;
		if (op->service == SERVICE_RC || op->service == SERVICE_XRC)
			err = course_step(ladder, course_of(&courses, answers ? packet->to : packet->from,
							    answers ? packet->from : packet->to), i);
		else
			err = problem_alone(ladder, i);
	}
	free(courses.course);
	return err;
}

/* ---- drops that are in the trace as an event alone ---- */

static uint64_t drop_key(int process, uint32_t qpn, uint32_t psn)
{
	return (uint64_t)(uint32_t)process << 48 | (uint64_t)(qpn & 0xffffff) << 24 | (psn & 0xffffff);
}

static int drops_find(struct ladder *ladder)
{
	struct keys dropped = { .key = NULL };
	int err = 0;

	for (unsigned i = 0; !err && i < ladder->packets; i++)
		if (ladder->packet[i].flags & (LADDER_DROPPED | LADDER_LATE))
			err = keys_add(&dropped, drop_key(ladder->lane[ladder->packet[i].to].process,
							  ladder->packet[i].dest_qpn, ladder->packet[i].psn), i);
	keys_sort(&dropped);
	for (unsigned i = 0; !err && i < ladder->events; i++) {
		const struct ladder_event *event = &ladder->event[i];

		if (event->kind == LADDER_EVENT_DROP &&
		    !keys_have(&dropped, drop_key((int)event->process, event->qpn,
						  problem_event_number(event, "psn"))))
			err = problem_add(ladder, event->time_ns, ladder->packets + i, LADDER_CAUSE_DROPPED);
	}
	free(dropped.key);
	return err;
}

static int problem_order(const void *a, const void *b)
{
	const struct ladder_problem *one = a, *other = b;

	if (one->time_ns != other->time_ns)
		return one->time_ns < other->time_ns ? -1 : 1;
	return one->item < other->item ? -1 : one->item > other->item;
}

int ladder_find_problems(struct ladder *ladder)
{
	int err = losses_find(ladder);

	err = err ? err : causes_find(ladder);
	err = err ? err : drops_find(ladder);
	if (!err && ladder->problems)
		qsort(ladder->problem, ladder->problems, sizeof(*ladder->problem), problem_order);
	return err;
}
