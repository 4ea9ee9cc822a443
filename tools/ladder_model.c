/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records -> packets and events. What left one process and arrived at another is paired by its headers: the latest
 * sent one that nobody received yet, as an earlier one was lost and this is its repetition.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "ladder_pair.h"
#include "progress.h"
#include "wire/aeth.h"
#include "wire/psn.h"

#define LADDER_EVENTS		" events"	/* at the end of a source's name */
#define EARLY_NS	1000000000u	/* a sender that is interrupted takes its stamp so much later */
#define TAG_END		0u

/* ---- words of comments and events ---- */

const char *ladder_comment_value(const struct capture_record *record, const char *key, size_t *bytes)
{
	const char *at = record->comment, *end = at + record->comment_bytes;
	size_t length = strlen(key);

	while (at && at < end) {
		const char *semicolon = memchr(at, ';', (size_t)(end - at)), *stop = semicolon ? semicolon : end;

		while (at < stop && *at == ' ')
			at++;
		if ((size_t)(stop - at) > length && !memcmp(at, key, length) && at[length] == ' ') {
			*bytes = (size_t)(stop - at) - length - 1;
			return at + length + 1;
		}
		at = semicolon ? semicolon + 1 : end;
	}
	return NULL;
}

bool ladder_comment_is(const struct capture_record *record, const char *key, const char *value)
{
	size_t bytes = 0;
	const char *found = record ? ladder_comment_value(record, key, &bytes) : NULL;

	return found && bytes == strlen(value) && !memcmp(found, value, bytes);
}

uint32_t ladder_number(const char *text, size_t bytes, uint32_t otherwise)
{
	char digits[24], *end;
	unsigned long value;

	if (!bytes || bytes >= sizeof(digits))
		return otherwise;
	memcpy(digits, text, bytes);
	digits[bytes] = '\0';
	value = strtoul(digits, &end, 0);
	return *end || value > 0xffffff ? otherwise : (uint32_t)value;
}

/* End of the JSON string that begins behind @at; NULL: it does not end. */
static const char *ladder_json_string(const char *at, const char *end)
{
	for (; at < end && *at != '"'; at++)
		if (*at == '\\')
			at++;
	return at < end ? at : NULL;
}

/*
 * A quote behind { or a comma begins a string, and inside of strings quotes are escaped: so this is a key where
 * it is found, in JSON, whose first brace may lack. What is none may find anything inside of its bytes.
 */
static const char *ladder_json_key(const char *json, size_t bytes, const char *key, size_t length)
{
	char pattern[40];
	const char *at = json, *end = json + bytes;

	if (length + 2 > sizeof(pattern))
		return NULL;
	pattern[0] = pattern[length + 1] = '"';
	memcpy(pattern + 1, key, length);
	while ((at = memmem(at, (size_t)(end - at), pattern, length + 2))) {
		const char *before = at, *behind = at + length + 2;

		while (before > json && before[-1] == ' ')
			before--;
		for (; behind < end && *behind == ' '; behind++)
			;
		if ((before == json || before[-1] == '{' || before[-1] == ',') && behind < end && *behind == ':')
			return behind + 1;
		at++;
	}
	return NULL;
}

bool ladder_json_value(const char *json, size_t bytes, const char *key, char *value, size_t size)
{
	const char *end = json + bytes, *at = ladder_json_key(json, bytes, key, strlen(key)), *stop;

	if (!at)
		return false;
	for (; at < end && *at == ' '; at++)
		;
	if (at < end && *at == '"') {
		stop = ladder_json_string(++at, end);
	} else {
		for (stop = at; stop < end && *stop != ',' && *stop != '}'; stop++)
			;
	}
	if (!stop || (size_t)(stop - at) >= size)
		return false;
	memcpy(value, at, (size_t)(stop - at));
	value[stop - at] = '\0';
	return true;
}

/* ---- processes ---- */

static int ladder_process(struct ladder *ladder, const char *name, size_t bytes, int *process)
{
	for (unsigned i = 0; i < ladder->processes; i++)
		if (strlen(ladder->process[i]) == bytes && !memcmp(ladder->process[i], name, bytes)) {
			*process = (int)i;
			return 0;
		}
	if (capture_grow(&ladder->process, ladder->processes, &ladder->process_room, sizeof(char *)))
		return ENOMEM;
	ladder->process[ladder->processes] = strndup(name, bytes);
	if (!ladder->process[ladder->processes])
		return ENOMEM;
	*process = (int)ladder->processes++;
	return 0;
}

/* A file without names of interfaces, but with directions: of one process, which its name stands for. */
static int ladder_process_of_file(struct ladder *ladder, const char *path, int *process)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	return ladder_process(ladder, name, strcspn(name, "."), process);
}

/* What traces have: packets of NAME, and another source of that file, its events, NAME events. */
static bool ladder_is_process(const struct capture *capture, const struct capture_source *source, size_t bytes)
{
	if (bytes && source->name[bytes - 1] == ')')
		return true;
	for (unsigned i = 0; bytes && i < capture->sources; i++) {
		const struct capture_source *other = &capture->source[i];

		if (other->file == source->file && other->name && !strncmp(other->name, source->name, bytes) &&
		    !strcmp(other->name + bytes, LADDER_EVENTS))
			return true;
	}
	return false;
}

/* "PROGRAM(PID)", "PROGRAM(PID) events" and others (docs/trace-format.md) are one process: of its name so much. */
static size_t ladder_process_bytes(const char *name)
{
	static const char *const tails[] = { LADDER_EVENTS, " ethernet", " fabric" };
	size_t bytes = strlen(name);

	for (unsigned i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		size_t tail = strlen(tails[i]);

		if (bytes > tail && !strcmp(name + bytes - tail, tails[i]))
			return bytes - tail;
	}
	return bytes;
}

static int ladder_find_processes(struct ladder *ladder, char *const *paths)
{
	const struct capture *capture = ladder->capture;
	bool *directed = calloc(capture->sources ? capture->sources : 1, sizeof(*directed));
	int err = 0;

	ladder->source_process = calloc(capture->sources ? capture->sources : 1, sizeof(int));
	if (!directed || !ladder->source_process)
		err = ENOMEM;
	for (size_t i = 0; !err && i < capture->records; i++)
		if (capture->record[i].direction != CAPTURE_UNKNOWN)
			directed[capture->record[i].source] = true;
	for (unsigned i = 0; !err && i < capture->sources; i++) {
		const struct capture_source *source = &capture->source[i];
		size_t bytes = source->name ? ladder_process_bytes(source->name) : 0;

		ladder->source_process[i] = -1;
		if (ladder_is_process(capture, source, bytes))
			err = ladder_process(ladder, source->name, bytes, &ladder->source_process[i]);
		else if (directed[i])
			err = ladder_process_of_file(ladder, paths[source->file], &ladder->source_process[i]);
	}
	free(directed);
	return err;
}

/* ---- one record ---- */

static void ladder_classify(struct ladder_event *event)
{
	static const struct { const char *name; enum ladder_event_kind kind; } kinds[] = {
		{ "call", LADDER_EVENT_CALL }, { "completion", LADDER_EVENT_COMPLETION },
		{ "state", LADDER_EVENT_STATE }, { "queue_pair", LADDER_EVENT_STATE },
		{ "drop", LADDER_EVENT_DROP },
		{ "fault", LADDER_EVENT_FAULT }, { "lost", LADDER_EVENT_LOST },
		{ "operation", LADDER_EVENT_MEMORY }, { "consumed", LADDER_EVENT_MEMORY },
	};
	char name[24] = "", value[48];

	event->kind = LADDER_EVENT_OTHER;
	event->latency_ns = -1;
	ladder_json_value(event->json, event->json_bytes, "event", name, sizeof(name));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(name, kinds[i].name))
			event->kind = (uint8_t)kinds[i].kind;
	if (event->kind == LADDER_EVENT_COMPLETION)
		event->failed = ladder_json_value(event->json, event->json_bytes, "status", value,
						  sizeof(value)) &&
				strcmp(value, "SUCCESS") && strcmp(value, "WR_FLUSH_ERR");
	else
		event->failed = ladder_json_value(event->json, event->json_bytes, "error", value, sizeof(value));
}

/* Exported PDU: tags of type 16, length 16, value; TAG_END; then the JSON. */
static int ladder_add_event(struct ladder *ladder, struct pairs *pairs, const struct capture_record *record)
{
	struct ladder_event *event;
	uint32_t at = 0, length;
	char value[24];

	for (;;) {
		uint16_t tag;

		if (record->bytes - at < 4)
			return 0;
		tag = get_be16(record->data + at);
		length = get_be16(record->data + at + 2);
		at += 4;
		if (tag == TAG_END)
			break;
		if (length > record->bytes - at)
			return 0;
		at += length;
	}
	if (ladder->events >= LADDER_PACKETS_MAX) {
		ladder->too_many = true;
		return 0;
	}
	if (capture_grow(&ladder->event, ladder->events, &ladder->event_room, sizeof(*event)))
		return ENOMEM;
	event = &ladder->event[ladder->events];
	*event = (struct ladder_event){ .time_ns = record->time_ns, .qpn = LADDER_NO_QP,
		.process = (unsigned)ladder->source_process[record->source],
		.json = (const char *)record->data + at, .json_bytes = record->bytes - at };
	ladder_classify(event);
	if (ladder_json_value(event->json, event->json_bytes, "qp", value, sizeof(value)))
		event->qpn = ladder_number(value, strlen(value), LADDER_NO_QP);
	if (event->kind == LADDER_EVENT_MEMORY)
		return ladder_memory_event(ladder, pairs, event, record);
	if (!ladder_memory_left_out(ladder, pairs, event))
		ladder->events++;
	return 0;
}

static enum ladder_kind ladder_kind_of(const struct frame *frame, bool mad)
{
	const struct packet *packet = &frame->packet;

	switch (packet->op->verb) {
	case VERB_SEND:
		return mad ? LADDER_CM : LADDER_SEND;
	case VERB_WRITE:
	case VERB_ATOMIC_WRITE:
		return LADDER_WRITE;
	case VERB_READ:
	case VERB_RESPONSE:
		return LADDER_READ;
	case VERB_ATOMIC:
	case VERB_ATOMIC_ACK:
		return LADDER_ATOMIC;
	case VERB_FLUSH:
		return LADDER_FLUSH;
	case VERB_CNP:
	case VERB_GAPS:
		return LADDER_CNP;
	case VERB_ACK:
		break;
	}
	switch (aeth_kind(packet->aeth.syndrome)) {
	case AETH_RNR:
		return LADDER_RNR;
	case AETH_NAK:
		return LADDER_NAK;
	default:
		return LADDER_ACK;
	}
}

/* @answers: to what was sent, or an echo of it. */
static uint16_t ladder_flags_of(const struct capture_record *record, bool answers)
{
	size_t bytes;
	uint16_t flags = 0;

	if (record->comment) {
		if (ladder_comment_is(record, "dropped", "on purpose"))
			flags |= LADDER_PLANTED;
		else if (answers && ladder_comment_is(record, "dropped", "rx_no_qp"))
			flags |= LADDER_LATE;
		else if (ladder_comment_value(record, "dropped", &bytes))
			flags |= LADDER_DROPPED;
		if (ladder_comment_value(record, "retransmission", &bytes))
			flags |= LADDER_RETRANSMISSION;
		if (ladder_comment_is(record, "path", "direct"))
			flags |= LADDER_DIRECT;
		if (ladder_comment_is(record, "path", "ring"))
			flags |= LADDER_RING;
		if (flags & LADDER_RING && ladder_comment_value(record, "message", &bytes))
			flags |= LADDER_MESSAGE;
	}
	if (record->direction == CAPTURE_UNKNOWN)
		flags |= LADDER_INSTANT;
	return flags;
}

static void ladder_fill(struct ladder_packet *packet, const struct capture_record *record,
			const struct frame *frame)
{
	struct cm_message message;
	const struct packet *parsed = &frame->packet;
	const char *qpn, *told;
	size_t bytes;

	*packet = (struct ladder_packet){
		.time_ns = record->time_ns, .bth = (uint32_t)frame->bth, .opcode = parsed->op->code,
		.header_bytes = (uint16_t)parsed->op->header_bytes, .syndrome = parsed->aeth.syndrome,
		.cm = -1, .psn = parsed->psn,
		.flags = ladder_flags_of(record, opcode_is_response(parsed->op) || opcode_is_notice(parsed->op)),
		.form = (uint8_t)frame->form, .dest_qpn = parsed->dest_qpn,
		.source_qpn = LADDER_QP_UNKNOWN, .payload_bytes = (uint32_t)parsed->payload_bytes,
		.acked_by = LADDER_NONE, .acks_first = LADDER_NONE, .from = LADDER_NONE, .to = LADDER_NONE,
		.operation = LADDER_NONE,
	};
	memcpy(packet->source, frame->source, 16);
	memcpy(packet->destination, frame->destination, 16);
	if (frame_cm(frame, &message))
		packet->cm = (int8_t)message.kind;
	/* Both sides disconnected at once: each DREP answers what needs no answer any more. */
	if (packet->cm == CM_MESSAGE_DREP && packet->flags & LADDER_DROPPED)
		packet->flags ^= LADDER_DROPPED | LADDER_LATE;
	if (frame->is_fragment)
		packet->flags |= LADDER_FRAGMENT;
	packet->kind = (uint8_t)ladder_kind_of(frame, parsed->op->service == SERVICE_UD && parsed->dest_qpn <= 1);
	if (parsed->op->headers & HDR_DETH)
		packet->source_qpn = parsed->deth.source_qpn;
	else if (parsed->echo.present)
		packet->source_qpn = parsed->echo.qpn;
	told = record->comment ? ladder_comment_value(record, "payload", &bytes) : NULL;
	if (told)
		packet->payload_bytes = ladder_number(told, bytes, packet->payload_bytes);
	if (record->direction == CAPTURE_IN) {
		packet->received = record;
		return;
	}
	packet->sent = record;
	qpn = record->comment ? ladder_comment_value(record, "qp", &bytes) : NULL;
	if (qpn)
		packet->source_qpn = ladder_number(qpn, bytes, packet->source_qpn);
}

static int ladder_add_packet(struct ladder *ladder, struct pairs *pairs, const struct capture_record *record,
			     const struct frame *frame)
{
	struct ladder_packet packet;
	uint32_t at;
	bool joined;

	ladder_fill(&packet, record, frame);
	if (ladder_is_memory(&packet))
		return ladder_memory_add(ladder, pairs, &packet, record, frame);
	return ladder_pair_add(ladder, pairs, ladder_pair_of_packet(&packet, record), &packet, record, &at,
			       &joined);
}

static int ladder_read_records(struct ladder *ladder)
{
	const struct capture *capture = ladder->capture;
	struct pairs pairs = { .opened = calloc(ladder->processes + 1u, sizeof(struct opened)) };
	int err = pairs.opened ? 0 : ENOMEM;

	for (unsigned i = 0; !err && i <= ladder->processes; i++)
		pairs.opened[i].packet = LADDER_NONE;
	for (size_t i = 0; !err && i < capture->records; i++) {
		const struct capture_record *record = &capture->record[i];
		uint16_t linktype = capture->source[record->source].linktype;
		struct frame frame;

		progress_show("packets", i, capture->records);
		if (linktype == LINKTYPE_EXPORTED_PDU && ladder->source_process[record->source] >= 0 &&
		    frame_parse(record, linktype, &frame) == FRAME_OTHER) {
			err = ladder_add_event(ladder, &pairs, record);
			continue;
		}
		switch (frame_parse(record, linktype, &frame)) {
		case FRAME_PACKET:
			err = ladder_add_packet(ladder, &pairs, record, &frame);
			break;
		case FRAME_CUT:
			ladder->cut++;
			break;
		case FRAME_UNKNOWN:
			ladder->unknown++;
			break;
		case FRAME_REST:
			ladder->rests++;
			break;
		case FRAME_LINK:
			ladder->unread++;
			ladder->unread_linktype = linktype;
			break;
		case FRAME_OTHER:
			ladder->left_out++;
			break;
		}
	}
	ladder_pairs_free(&pairs);
	return err;
}

/* ---- what packets say of each other ---- */

/* Requests from one lane to another. */
struct stream {
	uint32_t from, to;
	bool started;
	uint32_t highest;		/* PSN of requests */
	uint32_t *waiting;		/* packets without an answer */
	unsigned head, count, room;
};

struct streams {
	struct stream *stream;
	size_t mask, used;
};

static struct stream *ladder_stream(struct streams *streams, uint32_t from, uint32_t to)
{
	size_t at = (from * 0x9e3779b1u ^ to * 0x85ebca6bu) & streams->mask;

	while (streams->stream[at].started &&
	       (streams->stream[at].from != from || streams->stream[at].to != to))
		at = (at + 1) & streams->mask;
	return &streams->stream[at];
}

static bool ladder_is_reliable(const struct opcode *op)
{
	return op->service == SERVICE_RC || op->service == SERVICE_XRC;
}

/* Its sender said of each packet whether it is a repetition: nothing needs to be concluded from PSNs. */
static bool ladder_tells_repetitions(const struct ladder_packet *packet)
{
	size_t bytes;

	return packet->sent && packet->sent->comment && ladder_comment_value(packet->sent, "path", &bytes);
}

static int ladder_request(struct ladder *ladder, struct stream *stream, uint32_t index)
{
	struct ladder_packet *packet = &ladder->packet[index];

	if (!stream->started) {
		*stream = (struct stream){ .from = packet->from, .to = packet->to, .started = true,
					   .highest = packet->psn };
	} else if (psn_diff(packet->psn, stream->highest) <= 0) {
		packet->flags |= ladder_tells_repetitions(packet) || packet->flags & LADDER_DUPLICATE
				 ? 0 : LADDER_RETRANSMISSION;
	} else {
		stream->highest = packet->psn;
	}
	if (capture_grow(&stream->waiting, stream->count, &stream->room, sizeof(uint32_t)))
		return ENOMEM;
	stream->waiting[stream->count++] = index;
	return 0;
}

/* An ACK, and a response too, answers for all requests up to its PSN (IBTA 9.7.5.1). */
static void ladder_answer(struct ladder *ladder, struct stream *stream, uint32_t index)
{
	struct ladder_packet *answer = &ladder->packet[index];
	const struct opcode *op = opcode_get(answer->opcode);

	if (!stream->started || (op->headers & HDR_AETH && aeth_kind(answer->syndrome) != AETH_ACK))
		return;
	while (stream->head < stream->count) {
		uint32_t first = stream->waiting[stream->head];

		if (psn_diff(ladder->packet[first].psn, answer->psn) > 0)
			return;
		ladder->packet[first].acked_by = index;
		if (!(ladder->packet[first].flags & LADDER_RETRANSMISSION) && !answer->acks++)
			answer->acks_first = first;
		stream->head++;
	}
}

static int ladder_relate(struct ladder *ladder)
{
	struct streams streams = { .mask = 1023 };
	int err = 0;

	while (streams.mask < (size_t)ladder->packets * 2)
		streams.mask = streams.mask * 2 + 1;
	streams.stream = calloc(streams.mask + 1, sizeof(*streams.stream));
	if (!streams.stream)
		return ENOMEM;
	for (uint32_t i = 0; !err && i < ladder->packets; i++) {
		struct ladder_packet *packet = &ladder->packet[i];
		const struct opcode *op = opcode_get(packet->opcode);

		if (!ladder_is_reliable(op) || packet->operation != LADDER_NONE)
			continue;
		if (opcode_is_response(op))
			ladder_answer(ladder, ladder_stream(&streams, packet->to, packet->from), i);
		else
			err = ladder_request(ladder, ladder_stream(&streams, packet->from, packet->to), i);
	}
	for (size_t i = 0; i <= streams.mask; i++)
		free(streams.stream[i].waiting);
	free(streams.stream);
	return err;
}

int ladder_make(struct ladder *ladder, struct capture *capture, char *const *paths)
{
	int err;

	*ladder = (struct ladder){ .capture = capture };
	err = ladder_find_processes(ladder, paths);
	err = err ? err : ladder_read_records(ladder);
	err = err ? err : ladder_assign_lanes(ladder);
	err = err ? err : ladder_relate(ladder);
	err = err ? err : ladder_find_problems(ladder);
	err = err ? err : ladder_find_latencies(ladder);
	if (err)
		ladder_free(ladder);
	return err;
}

void ladder_free(struct ladder *ladder)
{
	for (unsigned i = 0; i < ladder->processes; i++)
		free(ladder->process[i]);
	free(ladder->process);
	free(ladder->packet);
	free(ladder->event);
	free(ladder->lane);
	free(ladder->source_process);
	free(ladder->operation);
	free(ladder->problem);
	*ladder = (struct ladder){ .packet = NULL };
}
