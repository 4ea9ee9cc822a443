/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ladder as a picture: SVG without scripts, for documents. A row for each packet and event, in the order
 * of time; what is too much for a picture is counted below it.
 *
 *	class t		time since the first row, microseconds
 *	class p, e, h	what a packet, an event, the head of a lifeline says
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ladder.h"
#include "wire/aeth.h"
#include "wire/cm_message.h"

#define ROWS_MAX	400u
#define MARGIN_LEFT	90
#define LANE_GAP	250
#define MARGIN_RIGHT	430	/* events stand right of their lifeline */
#define HEAD		54
#define ROW		24
#define SLANT		12
#define LINE		15	/* of what an event says, behind the first one */
#define TEXT_MAX	1024u
#define LINE_MAX	60u	/* characters */

/* One packet or event. */
struct svg_row {
	uint64_t time_ns;
	const struct ladder_packet *packet;	/* or NULL */
	const struct ladder_event *event;
	unsigned lines;
};

struct svg_text {
	char text[TEXT_MAX];
	size_t bytes;
};

static const char svg_style[] =
	"text{font:12px system-ui,sans-serif;fill:#24292f}.h{font-weight:600;text-anchor:middle}"
	".t{fill:#8c959f;text-anchor:end;font-size:11px}.p{text-anchor:middle}.e,.m{fill:#57606a}"
	".bad{fill:#b3261e}path,line{fill:none;stroke:#0969da;stroke-width:1.5}"
	".life{stroke:#d0d7de}circle{fill:#57606a}.k5 path{stroke:#1a7f37}"
	".k6 path,.k7 path,.lost path{stroke:#b3261e}.stop{stroke-width:3}"
	".again .stop{stroke-dasharray:none}.k8 path{stroke:#8250df}"
	".again path{stroke-dasharray:6 3}.mem path{stroke-width:3;stroke-opacity:.55}"
	"rect{fill:#fff}@media(prefers-color-scheme:dark){rect{fill:#0d1117}text{fill:#e6edf3}"
	".e,.m{fill:#9198a1}.life{stroke:#3d444d}circle{fill:#9198a1}.bad{fill:#ff7b72}}";

/* ---- words ---- */

static void __attribute__((format(printf, 2, 3))) svg_add(struct svg_text *text, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->text + text->bytes, sizeof(text->text) - text->bytes, format, arguments);
	va_end(arguments);
	if (length > 0)
		text->bytes = text->bytes + (size_t)length < sizeof(text->text) ? text->bytes + (size_t)length :
										  sizeof(text->text) - 1;
}

/* What is no printable ASCII becomes "?": traces hold anything. */
static void svg_put(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else
			putc(*text >= 0x20 && *text < 0x7f ? *text : '?', out);
	}
}

/* Through memory: no packet, and no PSN. */
static struct svg_text svg_operation(const struct ladder_packet *packet)
{
	static const char *const names[LADDER_KINDS] = { [LADDER_SEND] = "SEND", [LADDER_WRITE] = "WRITE",
							 [LADDER_READ] = "READ", [LADDER_ATOMIC] = "atomic" };
	struct svg_text text = { .bytes = 0 };

	svg_add(&text, "%s, %s", names[packet->kind] ? names[packet->kind] : "operation",
		packet->flags & LADDER_MESSAGE ? "message in a ring" :
		packet->sent && ladder_comment_is(packet->sent, "by", "store") ? "store" :
		packet->sent && ladder_comment_is(packet->sent, "by", "copy") ? "copy" : "through memory");
	if (packet->payload_bytes)
		svg_add(&text, ", %" PRIu32 " bytes", packet->payload_bytes);
	return text;
}

static struct svg_text svg_packet(const struct ladder_packet *packet)
{
	const struct opcode *op = opcode_get(packet->opcode);
	struct svg_text text = { .bytes = 0 };

	if (packet->cm >= 0)
		svg_add(&text, "CM %s", cm_message_name((enum cm_message_kind)packet->cm));
	else if (packet->kind == LADDER_NAK || packet->kind == LADDER_RNR)
		svg_add(&text, "%s", aeth_name(packet->syndrome));
	else
		svg_add(&text, "%s", op ? op->name : "unknown opcode");
	if (packet->operation != LADDER_NONE)
		return svg_operation(packet);
	if (packet->cm < 0)
		svg_add(&text, ", PSN %" PRIu32, packet->psn);
	if (packet->cm < 0 && packet->payload_bytes)
		svg_add(&text, ", %" PRIu32 " bytes", packet->payload_bytes);
	if (packet->flags & LADDER_RETRANSMISSION)
		svg_add(&text, ", again");
	if (packet->flags & LADDER_LOST)
		svg_add(&text, ", lost");
	if (packet->flags & LADDER_DROPPED)
		svg_add(&text, ", dropped");
	return text;
}

static struct svg_text svg_event(const struct ladder_event *event)
{
	static const char *const keys[] = { "name", "opcode", "status", "from", "to", "state", "reason",
					    "text", "error", "bytes", "wr_id" };
	static const char *const before[] = { "", "", "", "", "-> ", "", "", "", "fails: ", "bytes ", "wr_id " };
	struct svg_text text = { .bytes = 0 };
	char kind[32] = "", value[TEXT_MAX];

	ladder_json_value(event->json, event->json_bytes, "event", kind, sizeof(kind));
	if (strcmp(kind, "call"))
		svg_add(&text, "%s: ", kind);
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (ladder_json_value(event->json, event->json_bytes, keys[i], value, sizeof(value)) &&
		    !(!strcmp(kind, "cm") && !strcmp(keys[i], "status") && !strcmp(value, "0")))
			svg_add(&text, "%s%s%s", text.bytes && text.text[text.bytes - 1] != ' ' ? " " : "",
				before[i], value);
	return text;
}

static bool svg_event_is(const struct ladder_event *event, const char *kind)
{
	char value[32];

	return ladder_json_value(event->json, event->json_bytes, "event", value, sizeof(value)) &&
	       !strcmp(value, kind);
}

/* ---- drawing ---- */

struct svg {
	const struct ladder *ladder;
	FILE *out;
	uint32_t *column;	/* of each lane */
};

static const struct ladder_lane *svg_sorted;	/* for qsort(), which has no argument */

/* Processes side by side: calls outside, queue pairs, which talk to each other, inside. */
static int svg_lane_order(const void *one, const void *other)
{
	const struct ladder_lane *a = &svg_sorted[*(const uint32_t *)one];
	const struct ladder_lane *b = &svg_sorted[*(const uint32_t *)other];
	int left = a->process % 2 ? -1 : 1;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if ((a->qpn == LADDER_NO_QP) != (b->qpn == LADDER_NO_QP))
		return a->qpn == LADDER_NO_QP ? -left : left;
	return a->qpn == b->qpn ? 0 : a->qpn < b->qpn ? -left : left;
}

static bool svg_place(struct svg *svg)
{
	uint32_t lanes = svg->ladder->lanes, *order = calloc(lanes + 1u, sizeof(*order));

	svg->column = calloc(lanes + 1u, sizeof(*svg->column));
	if (!order || !svg->column) {
		free(order);
		return false;
	}
	for (uint32_t i = 0; i < lanes; i++)
		order[i] = i;
	svg_sorted = svg->ladder->lane;
	qsort(order, lanes, sizeof(*order), svg_lane_order);
	for (uint32_t i = 0; i < lanes; i++)
		svg->column[order[i]] = i;
	free(order);
	return true;
}

static int svg_x(const struct svg *svg, uint32_t lane)
{
	return MARGIN_LEFT + 60 + (int)(lane < svg->ladder->lanes ? svg->column[lane] : 0) * LANE_GAP;
}

static void svg_heads(const struct svg *svg, int height)
{
	const struct ladder *ladder = svg->ladder;
	FILE *out = svg->out;

	for (uint32_t i = 0; i < ladder->lanes; i++) {
		const struct ladder_lane *lane = &ladder->lane[i];
		char address[INET6_ADDRSTRLEN] = "", qp[32] = "";

		if (lane->process < 0 && lane->has_address && frame_lid_of(lane->address) >= 0)
			snprintf(address, sizeof(address), "LID %d", frame_lid_of(lane->address));
		else if (lane->process < 0 && lane->has_address)
			inet_ntop(AF_INET6, lane->address, address, sizeof(address));
		if (lane->qpn == LADDER_QP_UNKNOWN)
			snprintf(qp, sizeof(qp), "unknown QP");
		else if (lane->qpn != LADDER_NO_QP)
			snprintf(qp, sizeof(qp), "QP 0x%06" PRIx32, lane->qpn);
		fprintf(out, "<line class=\"life\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n<text class=\"h\" "
			"x=\"%d\" y=\"20\">", svg_x(svg, i), svg_x(svg, i), HEAD - 8, height, svg_x(svg, i));
		svg_put(out, lane->process < 0 ? address : ladder->process[lane->process]);
		fprintf(out, "</text>\n<text class=\"h\" x=\"%d\" y=\"37\">%s</text>\n", svg_x(svg, i), qp);
	}
}

static void svg_draw_packet(const struct svg *svg, const struct ladder_packet *packet, int y)
{
	FILE *out = svg->out;
	bool lost = packet->flags & (LADDER_LOST | LADDER_DROPPED);
	double part = packet->flags & LADDER_LOST ? .62 : packet->flags & LADDER_DROPPED ? .92 : 1;
	int x0 = svg_x(svg, packet->from), x1 = x0 + (int)((svg_x(svg, packet->to) - x0) * part);
	int y0 = y - 4, y1 = y0 + (int)(SLANT * part), side = x1 < x0 ? 7 : -7;
	struct svg_text text = svg_packet(packet);

	fprintf(out, "<g class=\"k%u%s%s%s\">", packet->kind,
		packet->flags & LADDER_RETRANSMISSION ? " again" : "",
		packet->flags & (LADDER_DIRECT | LADDER_RING) ? " mem" : "", lost ? " lost" : "");
	if (packet->from == packet->to)	/* to itself */
		fprintf(out, "<path d=\"M%d %dh28v%dh-28m7 -4l-7 4l7 4\"/><text class=\"e\" x=\"%d\" y=\"%d\">",
			x0, y0, SLANT, x0 + 36, y0 + 10);
	else
		fprintf(out, "<path d=\"M%d %dL%d %d\"/><text class=\"p\" x=\"%d\" y=\"%d\">", x0, y0, x1, y1,
			(x0 + svg_x(svg, packet->to)) / 2, y0 - 1);
	svg_put(out, text.text);
	fputs("</text>", out);
	if (packet->flags & LADDER_LOST)
		fprintf(out, "<path d=\"M%d %dl8 8m0 -8l-8 8\"/>", x1 - 4, y1 - 4);
	else if (lost)			/* it arrived, and went no further */
		fprintf(out, "<path class=\"stop\" d=\"M%d %dv14\"/>", x1, y1 - 7);
	else if (packet->from != packet->to)
		fprintf(out, "<path d=\"M%d %dl%d -5m0 9l%d -4\"/>", x1, y1, side, -side);
	fputs("</g>\n", out);
}

/* How much of a text goes into one line. */
static size_t svg_line(const char *text)
{
	size_t bytes = LINE_MAX;

	if (strlen(text) <= LINE_MAX)
		return strlen(text);
	while (bytes && text[bytes] != ' ')
		bytes--;
	return bytes ? bytes : LINE_MAX;
}

static unsigned svg_lines(const struct ladder_event *event)
{
	struct svg_text text = svg_event(event);
	unsigned lines = 0;

	for (const char *line = text.text; *line; lines++) {
		line += svg_line(line);
		line += *line == ' ';
	}
	return lines ? lines : 1;
}

static void svg_draw_event(const struct svg *svg, const struct ladder_event *event, int y)
{
	FILE *out = svg->out;
	int x = svg_x(svg, event->lane);
	struct svg_text text = svg_event(event);

	fprintf(out, "<circle cx=\"%d\" cy=\"%d\" r=\"3\"/><text class=\"%s\" x=\"%d\" y=\"%d\">", x, y,
		strstr(text.text, "fails") ? "bad" : "e", x + 8, y + 4);
	for (char *line = text.text; *line; y += LINE) {
		size_t bytes = svg_line(line);
		char next = line[bytes];

		if (line != text.text)
			fprintf(out, "<text class=\"m\" x=\"%d\" y=\"%d\">", x + 8, y + 4);
		line[bytes] = '\0';
		svg_put(out, line);
		fputs("</text>\n", out);
		line[bytes] = next;
		line += bytes + (next == ' ');
	}
}

/* ---- rows ---- */

static int svg_order(const void *one, const void *other)
{
	const struct svg_row *a = one, *b = other;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	if (!a->packet != !b->packet)
		return !a->packet - !b->packet;
	/* As they were recorded. */
	return a->packet ? (a->packet > b->packet) - (a->packet < b->packet) :
			   (a->event > b->event) - (a->event < b->event);
}

static struct svg_row *svg_rows(const struct ladder *ladder, unsigned *count)
{
	struct svg_row *rows = calloc((size_t)ladder->packets + ladder->events + 1, sizeof(*rows));

	*count = 0;
	for (unsigned i = 0; rows && i < ladder->packets; i++)
		rows[(*count)++] = (struct svg_row){ ladder->packet[i].time_ns, &ladder->packet[i], NULL, 1 };
	for (unsigned i = 0; rows && i < ladder->events; i++)
		if (!svg_event_is(&ladder->event[i], "counters"))
			rows[(*count)++] = (struct svg_row){ ladder->event[i].time_ns, NULL, &ladder->event[i],
							    svg_lines(&ladder->event[i]) };
	if (rows)
		qsort(rows, *count, sizeof(*rows), svg_order);
	return rows;
}

int ladder_svg_write(const struct ladder *ladder, const struct ladder_page *page, FILE *out)
{
	unsigned count, shown;
	struct svg_row *rows = svg_rows(ladder, &count);
	struct svg svg = { .ladder = ladder, .out = out };
	int width, height, end = HEAD, at = HEAD;

	if (!rows || !svg_place(&svg)) {
		free(rows);
		return ENOMEM;
	}
	shown = count < ROWS_MAX ? count : ROWS_MAX;
	width = MARGIN_LEFT + 60 + (ladder->lanes ? (int)ladder->lanes - 1 : 0) * LANE_GAP + MARGIN_RIGHT;
	for (unsigned i = 0; i < shown; i++)
		end += ROW + (int)(rows[i].lines - 1) * LINE;
	height = end + 16 + (shown < count ? ROW : 0);
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\"><title>", width,
		height, width);
	svg_put(out, page->title ? page->title : "verbatim ladder");
	fprintf(out, "</title><style>%s</style><rect width=\"100%%\" height=\"100%%\"/>\n", svg_style);
	svg_heads(&svg, end);
	for (unsigned i = 0; i < shown; i++) {
		int y = at + ROW / 2;

		fprintf(out, "<text class=\"t\" x=\"%d\" y=\"%d\">%.1f us</text>", MARGIN_LEFT - 8, y + 4,
			(double)(rows[i].time_ns - rows[0].time_ns) / 1000);
		if (rows[i].packet)
			svg_draw_packet(&svg, rows[i].packet, y);
		else
			svg_draw_event(&svg, rows[i].event, y);
		at += ROW + (int)(rows[i].lines - 1) * LINE;
	}
	if (shown < count)
		fprintf(out, "<text class=\"bad\" x=\"%d\" y=\"%d\">and %u more: verbatim ladder -o PAGE.html "
			"shows all</text>\n", MARGIN_LEFT, height - 8, count - shown);
	fputs("</svg>\n", out);
	free(svg.column);
	free(rows);
	return 0;
}
