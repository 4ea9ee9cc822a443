/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page: a template (tools/ladder), and in its middle the data as one JSON object, which the
 * scripts of the page draw. What a trace holds may be anything: strings are escaped so that they
 * cannot end the script that they stand in, and the scripts treat them as text only.
 *
 *	"packet" and "event" are columns, one array for each property; "raw" is the headers of all packets in
 *	base64, "table" what explains them: opcodes, fields, syndromes, docs/errors. Of large pages "pack" has both
 *	compressed (ladder_pack.c)
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "ladder.h"
#include "ladder_pack.h"
#include "ladder_template.h"
#include "progress.h"
#include "wire/aeth.h"
#include "wire/cm_table.h"

#define PAYLOAD_SHOWN	48u		/* bytes of payload that the page has of a packet */
#define PLAIN_ITEMS_MAX	4000u		/* packets and events; more are compressed */
#define PACK_PIECE	2048u		/* packets, or events, that are expanded at once */
#define ADDRESS_MAX	INET6_ADDRSTRLEN

/* ---- strings ---- */

/* Length of the UTF-8 sequence at @text, 0: it is none. */
static size_t page_utf8(const uint8_t *text, size_t bytes)
{
	size_t length = text[0] < 0x80 ? 1 : text[0] >= 0xc2 && text[0] < 0xe0 ? 2 :
			text[0] >= 0xe0 && text[0] < 0xf0 ? 3 : text[0] >= 0xf0 && text[0] < 0xf5 ? 4 : 0;

	if (!length || length > bytes)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return length;
}

static void page_string(FILE *out, const char *string, size_t bytes)
{
	const uint8_t *text = (const uint8_t *)string;

	putc('"', out);
	for (size_t i = 0, length; i < bytes; i += length) {
		length = page_utf8(text + i, bytes - i);
		if (!length) {
			fputs("\\ufffd", out);
			length = 1;
		} else if (length > 1) {
			fwrite(text + i, 1, length, out);
		} else if (text[i] < 0x20 || strchr("\"\\<>&", text[i])) {
			fprintf(out, "\\u%04x", text[i]);
		} else {
			putc(text[i], out);
		}
	}
	putc('"', out);
}

static void page_text(FILE *out, const char *string)
{
	if (string)
		page_string(out, string, strlen(string));
	else
		fputs("null", out);
}

static void page_name(FILE *out, const char *name)
{
	fprintf(out, "\"%s\":", name);
}

static void page_address(FILE *out, const uint8_t address[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	char text[ADDRESS_MAX] = "";

	if (frame_lid_of(address) >= 0)
		snprintf(text, sizeof(text), "LID %d", frame_lid_of(address));
	else if (memcmp(address, mapped, sizeof(mapped)))
		inet_ntop(AF_INET6, address, text, sizeof(text));
	else
		inet_ntop(AF_INET, address + 12, text, sizeof(text));
	page_text(out, text);
}

/* ---- tables ---- */

/* In the order of the headers on the wire. */
static const struct { unsigned header; const char *layer; } page_headers[] = {
	{ HDR_XRC, "XRCETH" }, { HDR_FETH, "FETH" }, { HDR_DETH, "DETH" }, { HDR_RETH, "RETH" },
	{ HDR_ATOMIC, "ATOMICETH" }, { HDR_AETH, "AETH" }, { HDR_ATOMIC_ACK, "ATOMICACKETH" },
	{ HDR_IMM, "IMMDT" }, { HDR_IETH, "IETH" }, { HDR_CNP, "CNP" },
};

static void page_opcodes(FILE *out)
{
	static const char *const services[] = { "RC", "UC", "UD", "XRC", "CNP", "GAPS" };
	const char *comma = "";

	page_name(out, "opcode");
	putc('{', out);
	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		if (!op)
			continue;
		fprintf(out, "%s\"%u\":{\"name\":\"%s\",\"service\":\"%s\",\"bytes\":%zu,\"response\":%s,"
			"\"layers\":[", comma, code, op->name, services[op->service], op->header_bytes,
			opcode_is_response(op) ? "true" : "false");
		comma = "";
		for (size_t i = 0; i < sizeof(page_headers) / sizeof(*page_headers); i++)
			if (op->headers & page_headers[i].header) {
				fprintf(out, "%s\"%s\"", comma, page_headers[i].layer);
				comma = ",";
			}
		fputs("]}", out);
		comma = ",\n";
	}
	fputs("},\n", out);
}

static void page_layers(FILE *out)
{
	const char *comma = "";

	page_name(out, "layer");
	putc('{', out);
#define LAYER(id, name, clause, words) \
	fprintf(out, "%s\"%s\":[\"%s\",\"%s\",\"%s\"]", comma, #id, name, clause, words), \
	comma = ",\n";
#define FIELD(layer, name, bit, width, format, words)
#define CM_CLAUSE(message, clause, words)
#define CM_WORDS(field, words)
#include "ladder/field.def"
#undef LAYER
#undef FIELD
	fputs("},\n\"field\":[", out);
	comma = "";
#define LAYER(id, name, clause, words)
#define FIELD(layer, name, bit, width, format, words) \
	fprintf(out, "%s[\"%s\",\"%s\",%u,%u,\"%s\",\"%s\"]", comma, #layer, name, bit, width, #format, words), \
	comma = ",\n";
#include "ladder/field.def"
#undef FIELD
#undef CM_CLAUSE
#undef CM_WORDS
	fputs("],\n", out);
}

static const char *page_cm_clause(enum cm_message_kind kind, const char **words)
{
#define FIELD(layer, name, bit, width, format, words)
#define CM_CLAUSE(message, clause, text) if (kind == CM_MESSAGE_##message) { *words = text; return clause; }
#define CM_WORDS(field, words)
#include "ladder/field.def"
#undef CM_CLAUSE
#undef CM_WORDS
	*words = "";
	return "12.6";
}

static const char *page_cm_words(const char *field)
{
#define CM_CLAUSE(message, clause, words)
#define CM_WORDS(name, text) if (!strcmp(field, #name)) return text;
#include "ladder/field.def"
#undef LAYER
#undef FIELD
#undef CM_CLAUSE
#undef CM_WORDS
	return "";
}

static void page_cm(FILE *out)
{
	page_name(out, "cm");
	putc('[', out);
	for (unsigned kind = 0; kind < CM_MESSAGE_KINDS; kind++) {
		const struct cm_layout *layout = cm_layout((enum cm_message_kind)kind);
		const char *words, *clause = page_cm_clause((enum cm_message_kind)kind, &words);

		fprintf(out, "%s{\"name\":\"%s\",\"clause\":\"%s\",\"words\":\"%s\",\"private\":%u,\"fields\":[",
			kind ? ",\n" : "", layout->name, clause, words, layout->private_bytes);
		for (unsigned i = 0; i < layout->fields; i++)
			fprintf(out, "%s[\"%s\",%u,%u,%u,\"%s\"]", i ? "," : "", layout->field[i].name,
				layout->field[i].bit, layout->field[i].width, layout->field[i].member_bytes,
				page_cm_words(layout->field[i].name));
		fputs("]}", out);
	}
	fputs("],\n", out);
}

/* Names and sentences of numbers that CM messages carry. */
static void page_numbers(FILE *out, const char *name, unsigned count, const char *(*of)(unsigned),
			 const char *(*text)(unsigned))
{
	const char *comma = "";

	page_name(out, name);
	putc('{', out);
	for (unsigned i = 0; i < count; i++)
		if (of(i)) {
			fprintf(out, "%s\"%u\":[\"%s\",\"%s\"]", comma, i, of(i), text ? text(i) : "");
			comma = ",";
		}
	fputs("},\n", out);
}

static const char *page_reject(unsigned number) { return cm_reject_name((uint16_t)number); }
static const char *page_reject_text(unsigned number) { return cm_reject_text((uint16_t)number); }
static const char *page_sidr(unsigned number) { return cm_sidr_name((uint8_t)number); }
static const char *page_sidr_text(unsigned number) { return cm_sidr_text((uint8_t)number); }
static const char *page_apr(unsigned number) { return cm_apr_name((uint8_t)number); }
static const char *page_apr_text(unsigned number) { return cm_apr_text((uint8_t)number); }
static const char *page_syndrome(unsigned number) { return aeth_name((uint8_t)number); }

/* What docs/errors knows of names that a chart shows. */
static void page_errors(FILE *out)
{
	static const char *const wanted[] = { "status", "nak", "state", "event", "cm", "reject" };
	const char *comma = "";

	page_name(out, "errors");
	putc('[', out);
	for (const struct error_entry *entry = error_entries; entry->name; entry++) {
		const char *kind = error_kinds[entry->kind].name;
		bool is_wanted = false;

		for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
			is_wanted = is_wanted || !strcmp(kind, wanted[i]);
		if (!is_wanted)
			continue;
		fprintf(out, "%s[\"%s\",", comma, kind);
		page_text(out, entry->name);
		fprintf(out, ",%ld,", entry->number);
		page_text(out, entry->heading);
		putc(',', out);
		page_text(out, entry->text);
		putc(']', out);
		comma = ",\n";
	}
	fputs("]\n", out);
}

static void page_tables(FILE *out)
{
	page_name(out, "table");
	fputs("{\n", out);
	page_opcodes(out);
	page_layers(out);
	page_cm(out);
	page_numbers(out, "reject", 64, page_reject, page_reject_text);
	page_numbers(out, "sidr", 32, page_sidr, page_sidr_text);
	page_numbers(out, "apr", 32, page_apr, page_apr_text);
	page_numbers(out, "syndrome", 256, page_syndrome, NULL);
	page_errors(out);
	fputs("},\n", out);
}

/* ---- what was recorded ---- */

static void page_lanes(const struct ladder *ladder, FILE *out)
{
	page_name(out, "process");
	putc('[', out);
	for (unsigned i = 0; i < ladder->processes; i++) {
		if (i)
			putc(',', out);
		page_text(out, ladder->process[i]);
	}
	fputs("],\n\"lane\":[", out);
	for (unsigned i = 0; i < ladder->lanes; i++) {
		const struct ladder_lane *lane = &ladder->lane[i];

		fprintf(out, "%s[%d,%" PRId64 ",%" PRIu32 ",", i ? ",\n" : "", lane->process,
			lane->qpn == LADDER_NO_QP ? -1 : lane->qpn == LADDER_QP_UNKNOWN ? -2 : (int64_t)lane->qpn,
			lane->peer_qpn);
		if (lane->has_address)
			page_address(out, lane->address);
		else
			fputs("null", out);
		putc(']', out);
	}
	fputs("],\n", out);
}

static uint64_t page_begin(const struct ladder *ladder)
{
	uint64_t begin = UINT64_MAX;

	if (ladder->packets)
		begin = ladder->packet[0].time_ns;
	for (unsigned i = 0; i < ladder->packets; i++)
		if (ladder->packet[i].time_ns < begin)
			begin = ladder->packet[i].time_ns;
	for (unsigned i = 0; i < ladder->events; i++)
		if (ladder->event[i].time_ns < begin)
			begin = ladder->event[i].time_ns;
	return begin == UINT64_MAX ? 0 : begin;
}

typedef int64_t page_column_fn(const struct ladder_packet *packet, uint64_t begin);

static int64_t page_end_ns(const struct capture_record *record, uint64_t begin)
{
	return record ? (int64_t)(record->time_ns - begin) : -1;
}

static int64_t page_sent(const struct ladder_packet *p, uint64_t begin) { return page_end_ns(p->sent, begin); }
static int64_t page_received(const struct ladder_packet *p, uint64_t begin)
{
	return page_end_ns(p->received, begin);
}

static int64_t page_from(const struct ladder_packet *p, uint64_t begin) { return p->from; }
static int64_t page_to(const struct ladder_packet *p, uint64_t begin) { return p->to; }
static int64_t page_opcode(const struct ladder_packet *p, uint64_t begin) { return p->opcode; }
static int64_t page_kind(const struct ladder_packet *p, uint64_t begin) { return p->kind; }
static int64_t page_flags(const struct ladder_packet *p, uint64_t begin) { return p->flags; }
static int64_t page_psn(const struct ladder_packet *p, uint64_t begin)
{
	return p->psn == LADDER_NO_PSN ? -1 : (int64_t)p->psn;
}

static int64_t page_bytes(const struct ladder_packet *p, uint64_t begin) { return p->payload_bytes; }
static int64_t page_syndrome_of(const struct ladder_packet *p, uint64_t begin) { return p->syndrome; }
static int64_t page_cm_of(const struct ladder_packet *p, uint64_t begin) { return p->cm; }
static int64_t page_form(const struct ladder_packet *p, uint64_t begin) { return p->form; }
static int64_t page_acks(const struct ladder_packet *p, uint64_t begin) { return p->acks; }
static int64_t page_acked(const struct ladder_packet *p, uint64_t begin)
{
	return p->acked_by == LADDER_NONE ? -1 : (int64_t)p->acked_by;
}

static const struct { const char *name; page_column_fn *of; } page_columns[] = {
	{ "sent", page_sent }, { "received", page_received }, { "from", page_from }, { "to", page_to },
	{ "opcode", page_opcode }, { "kind", page_kind }, { "flags", page_flags }, { "psn", page_psn },
	{ "bytes", page_bytes }, { "syndrome", page_syndrome_of }, { "cm", page_cm_of }, { "acks", page_acks },
	{ "acked", page_acked }, { "form", page_form },
};

/* Base64 of a stream of bytes. */
struct base64 {
	FILE *out;
	uint32_t bits;
	unsigned held;		/* bytes in bits */
};

static const char page_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64_put(struct base64 *base64, const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		base64->bits = base64->bits << 8 | data[i];
		if (++base64->held < 3)
			continue;
		for (int shift = 18; shift >= 0; shift -= 6)
			putc(page_digits[base64->bits >> shift & 63], base64->out);
		base64->held = 0;
		base64->bits = 0;
	}
}

static void base64_end(struct base64 *base64)
{
	unsigned held = base64->held;

	if (!held)
		return;
	base64->bits <<= 8 * (3 - held);
	for (unsigned i = 0; i < 4; i++)
		putc(i <= held ? page_digits[base64->bits >> (18 - 6 * i) & 63] : '=', base64->out);
}

static const struct capture_record *page_record(const struct ladder_packet *packet)
{
	return packet->sent ? packet->sent : packet->received;
}

/* How many bytes of a packet the page has; *frame: its layers. */
static uint32_t page_shown(const struct ladder *ladder, const struct ladder_packet *packet, struct frame *frame)
{
	const struct capture_record *record = page_record(packet);
	uint32_t payload, headers;

	if (packet->operation != LADDER_NONE) {		/* no packet */
		*frame = (struct frame){ .ip = FRAME_LAYER_NONE, .ethernet = FRAME_LAYER_NONE,
					 .lrh = FRAME_LAYER_NONE };
		return ladder->operation[packet->operation].bytes;
	}

	frame_parse(record, ladder->capture->source[record->source].linktype, frame);
	headers = (uint32_t)frame->bth + packet->header_bytes;
	payload = frame->payload_captured;
	if (packet->kind != LADDER_CM && payload > PAYLOAD_SHOWN)
		payload = PAYLOAD_SHOWN;
	return headers + payload;
}

static const uint8_t *page_data(const struct ladder *ladder, const struct ladder_packet *packet)
{
	return packet->operation == LADDER_NONE ? page_record(packet)->data :
						  ladder->operation[packet->operation].extension;
}

static void page_raw(const struct ladder *ladder, FILE *out)
{
	struct base64 base64 = { .out = out };
	struct frame frame;

	page_name(out, "shown");
	putc('[', out);
	for (unsigned i = 0; i < ladder->packets; i++)
		fprintf(out, "%s%u", i ? "," : "", page_shown(ladder, &ladder->packet[i], &frame));
	fputs("],\n\"ip\":[", out);
	for (unsigned i = 0; i < ladder->packets; i++) {
		page_shown(ladder, &ladder->packet[i], &frame);
		fprintf(out, "%s%d", i ? "," : "", frame.ip);
	}
	fputs("],\n\"link\":[", out);
	for (unsigned i = 0; i < ladder->packets; i++) {
		page_shown(ladder, &ladder->packet[i], &frame);
		fprintf(out, "%s%d", i ? "," : "", frame.lrh >= 0 ? frame.lrh : frame.ethernet);
	}
	fputs("],\n\"bth\":[", out);
	for (unsigned i = 0; i < ladder->packets; i++)
		fprintf(out, "%s%d", i ? "," : "",
			ladder->packet[i].operation == LADDER_NONE ? (int)ladder->packet[i].bth : -1);
	fputs("]},\n\"raw\":\"", out);
	for (unsigned i = 0; i < ladder->packets; i++) {
		uint32_t shown = page_shown(ladder, &ladder->packet[i], &frame);

		base64_put(&base64, page_data(ladder, &ladder->packet[i]), shown);
	}
	base64_end(&base64);
	fputs("\",\n", out);
}

/* Comments of sender and receiver: objects, since most packets of captures have none. */
static void page_comments(const struct ladder *ladder, FILE *out)
{
	const char *comma = "";

	page_name(out, "comment");
	putc('{', out);
	for (unsigned i = 0; i < ladder->packets; i++) {
		const struct ladder_packet *packet = &ladder->packet[i];
		const struct capture_record *ends[] = { packet->sent, packet->received };

		if (!(ends[0] && ends[0]->comment) && !(ends[1] && ends[1]->comment))
			continue;
		fprintf(out, "%s\"%u\":[", comma, i);
		for (int end = 0; end < 2; end++) {
			if (end)
				putc(',', out);
			if (ends[end] && ends[end]->comment)
				page_string(out, ends[end]->comment, ends[end]->comment_bytes);
			else
				fputs("null", out);
		}
		putc(']', out);
		comma = ",\n";
	}
	fputs("},\n", out);
}

/* Of messages in memory: their number, and when their sender saw that they were consumed. */
static void page_operations(const struct ladder *ladder, uint64_t begin, FILE *out)
{
	const char *comma = "";

	page_name(out, "memory");
	putc('{', out);
	for (unsigned i = 0; i < ladder->packets; i++) {
		const struct ladder_operation *operation;

		if (ladder->packet[i].operation == LADDER_NONE)
			continue;
		operation = &ladder->operation[ladder->packet[i].operation];
		if (operation->message == LADDER_NONE)
			continue;
		fprintf(out, "%s\"%u\":[%" PRIu32 ",%" PRId64 "]", comma, i, operation->message,
			operation->taken_ns ? (int64_t)(operation->taken_ns - begin) : -1);
		comma = ",";
	}
	fputs("},\n", out);
}

/* Item, cause, how much of the chart belongs to it. */
static void page_problems(const struct ladder *ladder, FILE *out)
{
	page_name(out, "cause");
	putc('[', out);
	for (unsigned i = 0; i < LADDER_CAUSES; i++)
		fprintf(out, "%s\"%s\"", i ? "," : "", ladder_cause_name((enum ladder_cause)i));
	fputs("],\n\"problem\":[", out);
	for (unsigned i = 0; i < ladder->problems; i++)
		fprintf(out, "%s[%" PRIu32 ",%u,%" PRIu32 "]", i ? "," : "", ladder->problem[i].item,
			ladder->problem[i].cause, ladder->problem[i].times);
	fputs("],\n", out);
}

/* As enum ladder_kind goes on. */
static unsigned page_event_kind(const struct ladder_event *event)
{
	return LADDER_KINDS + (event->kind < LADDER_EVENT_OTHER ? event->kind : LADDER_EVENT_OTHER);
}

static void page_events(const struct ladder *ladder, uint64_t begin, FILE *out)
{
	page_name(out, "event");
	putc('[', out);
	for (unsigned i = 0; i < ladder->events; i++) {
		const struct ladder_event *event = &ladder->event[i];

		fprintf(out, "%s[%" PRIu64 ",%" PRIu32 ",", i ? ",\n" : "", event->time_ns - begin, event->lane);
		page_string(out, event->json, event->json_bytes);
		fprintf(out, ",%" PRId64 ",%u,%d]", event->latency_ns, page_event_kind(event), event->failed);
	}
	fputs("],\n", out);
}

static void page_packets(const struct ladder *ladder, const struct ladder_order *order, uint64_t begin, FILE *out)
{
	fputs("\"packet\":{\n", out);
	for (size_t column = 0; column < sizeof(page_columns) / sizeof(*page_columns); column++) {
		page_name(out, page_columns[column].name);
		putc('[', out);
		for (unsigned i = 0; i < ladder->packets; i++)
			fprintf(out, "%s%" PRId64, i ? "," : "",
				page_columns[column].of(&ladder->packet[i], begin));
		fputs("],\n", out);
	}
	page_raw(ladder, out);
	page_comments(ladder, out);
	page_events(ladder, begin, out);
	page_name(out, "moment");
	for (uint32_t i = 0; i < order->moments; i++)
		fprintf(out, "%c%" PRIu32, i ? ',' : '[', order->moment[i]);
	fputs(order->moments ? "],\n" : "[],\n", out);
}

/* ---- the same, compressed: of large pages ---- */

enum place { PLACE_SHOWN, PLACE_IP, PLACE_LINK, PLACE_BTH, PLACES };

static const char *const page_places[PLACES] = { "shown", "ip", "link", "bth" };

/* Where layers are in the bytes of each packet. 0 or ENOMEM. */
static int page_find_places(const struct ladder *ladder, int32_t *places)
{
	struct frame frame;

	for (unsigned i = 0; i < ladder->packets; i++) {
		int32_t *place = places + (size_t)i * PLACES;

		place[PLACE_SHOWN] = (int32_t)page_shown(ladder, &ladder->packet[i], &frame);
		place[PLACE_IP] = frame.ip;
		place[PLACE_LINK] = frame.lrh >= 0 ? frame.lrh : frame.ethernet;
		place[PLACE_BTH] = ladder->packet[i].operation == LADDER_NONE ? (int32_t)ladder->packet[i].bth :
										-1;
	}
	return 0;
}

enum event_column { EVENT_TIME, EVENT_LANE, EVENT_KIND, EVENT_FAILED, EVENT_LATENCY, EVENT_COLUMNS };

static const char *const page_event_columns[EVENT_COLUMNS] = { "time", "lane", "kind", "failed", "latency" };

static int64_t page_event_value(const struct ladder_event *event, unsigned column, uint64_t begin)
{
	switch (column) {
	case EVENT_TIME:
		return (int64_t)(event->time_ns - begin);
	case EVENT_LANE:
		return event->lane;
	case EVENT_KIND:
		return page_event_kind(event);
	case EVENT_FAILED:
		return event->failed;
	default:
		return event->latency_ns;
	}
}

/* What all rows of a column, or of a table with this column, are asked for. */
struct page_source {
	const struct ladder *ladder;
	const int32_t *places;
	uint64_t begin;
	unsigned column;
};

typedef int64_t page_value_fn(const struct page_source *source, unsigned row);

static int64_t page_packet_value(const struct page_source *source, unsigned row)
{
	return page_columns[source->column].of(&source->ladder->packet[row], source->begin);
}

static int64_t page_place_value(const struct page_source *source, unsigned row)
{
	return source->places[(size_t)row * PLACES + source->column];
}

static int64_t page_event_column(const struct page_source *source, unsigned row)
{
	return page_event_value(&source->ladder->event[row], source->column, source->begin);
}

/* Where all rows are the same, that number; bytes where they fit; else differences. */
static int page_pack_column(const struct page_source *source, const char *name, unsigned rows, page_value_fn *of,
			    struct pack *pack, FILE *out)
{
	int64_t least = rows ? of(source, 0) : 0, most = least;
	int err;

	page_name(out, name);
	for (unsigned i = 0; i < rows; i++) {
		int64_t value = of(source, i);

		least = value < least ? value : least;
		most = value > most ? value : most;
	}
	if (least == most) {
		fprintf(out, "%" PRId64, least);
		return 0;
	}
	if (least < 0 || most > UINT8_MAX) {
		for (unsigned i = 0; i < rows; i++)
			pack_number(pack, of(source, i));
		return pack_write(pack, out);
	}
	for (unsigned i = 0; i < rows; i++) {
		uint8_t value = (uint8_t)of(source, i);

		pack_bytes(pack, &value, 1);
	}
	fputs("{\"bytes\":", out);
	err = pack_write(pack, out);
	putc('}', out);
	return err;
}

/*
 * Moments, as steps in three lists: packets that begin, that end, events. Each has the steps of its own list, most
 * of them 1; behind all of them their times.
 */
static int page_pack_moments(const struct ladder *ladder, const struct ladder_order *order, uint64_t begin,
			     struct pack *pack, FILE *out)
{
	int64_t before[] = { -1, -1, (int64_t)ladder->packets - 1 };

	for (uint32_t i = 0; i < order->moments; i++) {
		int64_t item = order->moment[i] / 2;
		unsigned list = item >= ladder->packets ? 2 : order->moment[i] & 1;

		pack_step(pack, item - before[list], list);
		before[list] = item;
	}
	for (uint32_t i = 0; i < order->moments; i++)
		pack_number(pack, (int64_t)(ladder_moment_ns(ladder, order->moment[i]) - begin));
	fprintf(out, "},\n\"moments\":%" PRIu32 ",\"moment\":", order->moments);
	return pack_write(pack, out);
}

/* A column is expanded when it is asked for. */
static int page_pack_columns(const struct ladder *ladder, const struct ladder_order *order, uint64_t begin,
			     const int32_t *places, struct pack *pack, FILE *out)
{
	struct page_source source = { .ladder = ladder, .places = places, .begin = begin };
	unsigned columns = sizeof(page_columns) / sizeof(*page_columns);
	int err = 0;

	fprintf(out, "\"pack\":{\"packets\":%u,\"events\":%u,\"piece\":%u,\n\"packet\":{", ladder->packets,
		ladder->events, PACK_PIECE);
	for (source.column = 0; !err && source.column < columns; source.column++) {
		fputs(source.column ? ",\n" : "", out);
		err = page_pack_column(&source, page_columns[source.column].name, ladder->packets,
				       page_packet_value, pack, out);
	}
	for (source.column = 0; !err && source.column < PLACES; source.column++) {
		fputs(",\n", out);
		err = page_pack_column(&source, page_places[source.column], ladder->packets, page_place_value,
				       pack, out);
	}
	fputs("},\n\"event\":{", out);
	for (source.column = 0; !err && source.column < EVENT_COLUMNS; source.column++) {
		fputs(source.column ? ",\n" : "", out);
		err = page_pack_column(&source, page_event_columns[source.column], ladder->events,
				       page_event_column, pack, out);
	}
	return err ? err : page_pack_moments(ladder, order, begin, pack, out);
}

typedef void page_put_fn(const struct ladder *ladder, unsigned item, const int32_t *places, struct pack *pack);

static void page_put_raw(const struct ladder *ladder, unsigned item, const int32_t *places, struct pack *pack)
{
	pack_bytes(pack, page_data(ladder, &ladder->packet[item]),
		   (size_t)places[(size_t)item * PLACES + PLACE_SHOWN]);
}

/* Of both ends. */
static void page_put_comment(const struct ladder *ladder, unsigned item, const int32_t *places, struct pack *pack)
{
	const struct capture_record *ends[] = { ladder->packet[item].sent, ladder->packet[item].received };

	for (int end = 0; end < 2; end++)
		pack_text(pack, ends[end] ? ends[end]->comment : NULL, ends[end] ? ends[end]->comment_bytes : 0);
}

static void page_put_event(const struct ladder *ladder, unsigned item, const int32_t *places, struct pack *pack)
{
	pack_text(pack, ladder->event[item].json, ladder->event[item].json_bytes);
}

static int page_pieces(const struct ladder *ladder, const char *name, unsigned items, page_put_fn *put,
		       const int32_t *places, struct pack *pack, FILE *out)
{
	int err = 0;

	fprintf(out, ",\"%s\":[", name);
	for (unsigned i = 0; !err && i < items; i++) {
		put(ladder, i, places, pack);
		if (i % PACK_PIECE != PACK_PIECE - 1 && i != items - 1)
			continue;
		progress_show("writing", i, items);
		err = pack_write(pack, out);
		fputs(i == items - 1 ? "" : ",\n", out);
	}
	putc(']', out);
	return err;
}

static int page_packed(const struct ladder *ladder, const struct ladder_order *order, uint64_t begin, FILE *out)
{
	int32_t *places = calloc((size_t)ladder->packets + 1, sizeof(*places) * PLACES);
	struct pack pack = { .data = NULL };
	int err = places ? page_find_places(ladder, places) : ENOMEM;

	err = err ? err : page_pack_columns(ladder, order, begin, places, &pack, out);
	err = err ? err : page_pieces(ladder, "raw", ladder->packets, page_put_raw, places, &pack, out);
	err = err ? err : page_pieces(ladder, "comment", ladder->packets, page_put_comment, places, &pack, out);
	err = err ? err : page_pieces(ladder, "text", ladder->events, page_put_event, places, &pack, out);
	fputs("},\n", out);
	pack_free(&pack);
	free(places);
	return err;
}

/*
 * How many packets and events are of each kind; lanes from left to right; of events that are folded away at first,
 * runs: the first, how many.
 */
static void page_order(const struct ladder *ladder, const struct ladder_order *order, FILE *out)
{
	uint32_t kinds[LADDER_KINDS + LADDER_EVENT_OTHER + 1] = { 0 };
	const char *comma = "";

	for (uint32_t i = 0; i < ladder->packets; i++)
		kinds[ladder->packet[i].kind]++;
	for (uint32_t i = 0; i < ladder->events; i++)
		kinds[page_event_kind(&ladder->event[i])]++;
	page_name(out, "kinds");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		fprintf(out, "%c%" PRIu32, i ? ',' : '[', kinds[i]);
	fprintf(out, "],\n\"median\":%" PRIu64 ",\n\"lane_order\":", order->median_ns);
	for (uint32_t i = 0; i < ladder->lanes; i++)
		fprintf(out, "%c%" PRIu32, i ? ',' : '[', order->lane[i]);
	fputs(ladder->lanes ? "],\n\"fold\":[" : "[],\n\"fold\":[", out);
	for (uint32_t i = 0, count; i < ladder->events; i += count + 1) {
		for (count = 0; i + count < ladder->events && order->folded[i + count];)
			count++;
		if (!count)
			continue;
		fprintf(out, "%s[%" PRIu32 ",%" PRIu32 "]", comma, ladder->packets + i, count);
		comma = ",";
	}
	fputs("],\n", out);
}

static int page_items(const struct ladder *ladder, bool plain, FILE *out)
{
	uint64_t begin = page_begin(ladder);
	struct ladder_order order;
	int err = ladder_order_make(ladder, &order);

	if (err)
		return err;
	fprintf(out, "\"begin\":\"%" PRIu64 "\",\n", begin);
	if (!plain && ladder->packets + ladder->events > PLAIN_ITEMS_MAX)
		err = page_packed(ladder, &order, begin, out);
	else
		page_packets(ladder, &order, begin, out);
	page_order(ladder, &order, out);
	page_operations(ladder, begin, out);
	page_problems(ladder, out);
	ladder_order_free(&order);
	return err;
}

static void __attribute__((format(printf, 3, 4)))
page_warning(FILE *out, const char **comma, const char *format, ...)
{
	char text[600];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fputs(*comma, out);
	page_text(out, text);
	*comma = ",";
}

static void page_warnings(const struct ladder *ladder, const struct ladder_page *page, FILE *out)
{
	const struct capture *capture = ladder->capture;
	const char *comma = "";

	page_name(out, "warning");
	putc('[', out);
	for (unsigned i = 0; i < capture->warnings; i++)
		page_warning(out, &comma, "%.300s: %s", page->paths[capture->warning[i].file],
			     capture->warning[i].text);
	if (ladder->too_many)
		page_warning(out, &comma, "only the first %u packets and events are shown", LADDER_PACKETS_MAX);
	if (ladder->missing)
		page_warning(out, &comma, "%" PRIu64 " records are missing: the tracer was too slow or the disk "
			     "full; what seems to be lost may be one of them", ladder->missing);
	if (ladder->cut)
		page_warning(out, &comma, "%u packets left out: their headers were not captured whole",
			     ladder->cut);
	fputs("],\n\"file\":[", out);
	for (unsigned i = 0; i < capture->files; i++) {
		if (i)
			putc(',', out);
		page_text(out, page->paths[i]);
	}
	fputs("],\n", out);
}

int ladder_page_write(const struct ladder *ladder, const struct ladder_page *page, FILE *out)
{
	int err;

	fwrite(ladder_template_begin, 1, ladder_template_begin_bytes, out);
	fputs("{\"version\":\"" VERBATIM_VERSION "\",\n\"title\":", out);
	page_text(out, page->title);
	fputs(",\n\"about\":", out);
	page_text(out, page->about);
	fputs(",\n\"home\":", out);
	page_text(out, page->home);
	fputs(",\n", out);
	page_warnings(ladder, page, out);
	page_lanes(ladder, out);
	err = page_items(ladder, page->plain, out);
	page_tables(out);
	fprintf(out, "\"left_out\":%u,\"unknown\":%u}\n", ladder->left_out, ladder->unknown);
	fwrite(ladder_template_end, 1, ladder_template_end_bytes, out);
	return err;
}
