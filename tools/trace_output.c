/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a trace goes: a pcapng file, of which a ring keeps the end in memory until something fails, and lines of
 * text. A file that can no longer be written ends with its last whole block; the rest is read and dropped, so
 * that the program goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/recent.h"
#include "ladder.h"
#include "trace.h"
#include "trace/block.h"
#include "trace/expand.h"
#include "wire/cm_message.h"

#define BUFFER_BYTES	(1u << 20)
#define KEEPS_MAX	16u		/* times that a ring is written because something failed */

struct block {
	struct block *next;
	size_t bytes;
	uint8_t data[];
};

/* Large: file, ring and text are one destination; a record goes to all of them. */
struct output {
	struct output_options options;
	int fd;				/* -1: no file, or it could not be written */
	bool failed;
	uint64_t written, end_of_block;	/* bytes of the file, and of its whole blocks */
	uint32_t interfaces;
	size_t used;
	uint8_t *buffer;		/* [BUFFER_BYTES] */
	struct block *first, *last;	/* the ring */
	uint64_t kept_bytes;
	unsigned keeps;
	uint64_t began_ns;		/* of the first record: lines count from it */
	struct recent *seen;		/* packets: times sent, less times arrived, in the file */
};

/* ---- the file ---- */

static void output_fail(struct output *output, const char *why)
{
	fprintf(stderr, "verbatim trace: %s: %s: the trace ends here, the program goes on\n", output->options.file,
		why);
	if (ftruncate(output->fd, (off_t)output->end_of_block) && errno != EINVAL)
		fprintf(stderr, "verbatim trace: %s: its last block is cut: %s\n", output->options.file,
			strerror(errno));
	close(output->fd);
	output->fd = -1;
	output->failed = true;
}

/* A reader that goes away, as head(1) does, has seen enough. */
static void text_flush(struct output *output)
{
	int err = fflush(stdout) ? errno : ferror(stdout) ? EIO : 0;

	if (!err)
		return;
	output->options.text = false;
	__fpurge(stdout);
	clearerr(stdout);
	if (err == EPIPE)
		return;
	fprintf(stderr, "verbatim trace: standard output: %s: lines are missing, the program goes on\n",
		strerror(err));
	output->failed = true;
}

void output_flush(struct output *output)
{
	size_t done = 0;

	while (output->fd >= 0 && done < output->used) {
		ssize_t put = write(output->fd, output->buffer + done, output->used - done);

		if (put > 0)
			done += (size_t)put;
		if (put > 0 || (put < 0 && errno == EINTR))
			continue;
		output->end_of_block = output->written + pcapng_whole_blocks(output->buffer, done);
		output_fail(output, strerror(put ? errno : ENOSPC));
	}
	output->written += done;
	output->used = 0;
	if (output->options.text)
		text_flush(output);
}

static void file_add(struct output *output, const uint8_t *data, size_t bytes)
{
	if (output->fd < 0)
		return;
	if (output->options.limit_bytes && output->written + output->used + bytes > output->options.limit_bytes) {
		output_flush(output);
		output->end_of_block = output->written;
		if (output->fd >= 0)
			output_fail(output, "it has reached its --limit");
		return;
	}
	if (BUFFER_BYTES - output->used < bytes)
		output_flush(output);
	memcpy(output->buffer + output->used, data, bytes);
	output->used += bytes;
}

/* ---- the ring ---- */

static void ring_drop_oldest(struct output *output)
{
	struct block *block = output->first;

	output->first = block->next;
	output->kept_bytes -= block->bytes;
	free(block);
}

static void ring_add(struct output *output, const uint8_t *data, size_t bytes)
{
	struct block *block = malloc(sizeof(*block) + bytes);

	if (!block)
		return;
	block->next = NULL;
	block->bytes = bytes;
	memcpy(block->data, data, bytes);
	if (output->first)
		output->last->next = block;
	else
		output->first = block;
	output->last = block;
	output->kept_bytes += bytes;
	while (output->kept_bytes > output->options.ring_bytes)
		ring_drop_oldest(output);
}

static void ring_write(struct output *output)
{
	while (output->first) {
		file_add(output, output->first->data, output->first->bytes);
		ring_drop_oldest(output);
	}
	output_flush(output);
}

void output_keep(struct output *output)
{
	if (output->options.ring_bytes && output->keeps++ < KEEPS_MAX)
		ring_write(output);
}

static void output_add(struct output *output, const uint8_t *data, size_t bytes)
{
	if (output->options.ring_bytes)
		ring_add(output, data, bytes);
	else
		file_add(output, data, bytes);
}

/* ---- opening and closing ---- */

/* Two tracers would overwrite what the other one wrote. Not every file system has locks. -1: errno. */
static int output_open_file(const char *name)
{
	int err, fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ((!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) &&
		       (!ftruncate(fd, 0) || errno == EINVAL)))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

int output_open(struct output **opened, const struct output_options *options)
{
	struct output *output = calloc(1, sizeof(*output));

	if (output) {
		output->buffer = malloc(BUFFER_BYTES);
		output->seen = calloc(1, sizeof(*output->seen));
	}
	if (!output || !output->buffer || !output->seen) {
		if (output) {
			free(output->buffer);
			free(output->seen);
		}
		free(output);
		return ENOMEM;
	}
	output->options = *options;
	output->fd = -1;
	if (options->file) {
		output->fd = output_open_file(options->file);
		if (output->fd < 0) {
			int err = errno;

			fprintf(stderr, "verbatim trace: cannot write %s: %s\n", options->file,
				err == EWOULDBLOCK ? "another trace is being written to it" : strerror(err));
			free(output->buffer);
			free(output->seen);
			free(output);
			return err;
		}
		output->used = pcapng_write_section(output->buffer);
	}
	*opened = output;
	return 0;
}

bool output_close(struct output *output)
{
	bool good;

	ring_write(output);
	if (output->fd >= 0 && close(output->fd)) {
		fprintf(stderr, "verbatim trace: %s: %s\n", output->options.file, strerror(errno));
		output->failed = true;
	}
	good = !output->failed;
	free(output->buffer);
	free(output->seen);
	free(output);
	return good;
}

/* ---- interfaces ---- */

void output_describe(struct output *output, struct source *source)
{
	char events[NAME_BYTES + 8];
	uint8_t block[PCAPNG_INTERFACE_MAX];

	snprintf(events, sizeof(events), "%s events", source->name);
	source->interface = output->interfaces;
	output->interfaces += 2;
	source->is_described = true;
	file_add(output, block, pcapng_write_interface(PCAPNG_RAW_IP, source->name, block));
	file_add(output, block, pcapng_write_interface(PCAPNG_EXPORTED_PDU, events, block));
}

/* Of frames of RoCE v1, and of packets by LID; few processes have any. */
static uint32_t output_interface(struct output *output, const struct source *source, uint32_t *number,
				 enum pcapng_link link, const char *what)
{
	char name[NAME_BYTES + 16];
	uint8_t block[PCAPNG_INTERFACE_MAX];

	if (!*number) {
		*number = output->interfaces++;
		snprintf(name, sizeof(name), "%s %s", source->name, what);
		file_add(output, block, pcapng_write_interface(link, name, block));
	}
	return *number;
}

/* ---- lines of text ---- */

static void text_begin(struct output *output, const struct source *source, uint64_t time_ns)
{
	uint64_t us;

	if (!output->began_ns)
		output->began_ns = time_ns;
	us = time_ns > output->began_ns ? (time_ns - output->began_ns) / 1000 : 0;
	printf("%llu.%06llu %s ", (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000),
	       source->name);
}

static void text_packet(struct output *output, const struct source *source, const struct trace_record *record,
			const uint8_t *data, size_t bytes, uint32_t length, bool outbound)
{
	const struct opcode *op = bytes ? opcode_get(data[0]) : NULL;
	char comment[TRACE_COMMENT_MAX], lids[40] = "";
	size_t payload = op && length > op->header_bytes + ICRC_BYTES ? length - op->header_bytes - ICRC_BYTES : 0;

	if (!output->options.text)
		return;
	text_begin(output, source, record->time_ns);
	trace_comment(record, (const char *)data + bytes, comment);
	if (record->slid)
		snprintf(lids, sizeof(lids), ", LID %u to %u, SL %u", record->slid, record->dlid, record->sl);
	if (bytes >= BTH_BYTES)
		printf("%s %s 0x%06x psn %u, %zu B%s (%s)\n", outbound ? "->" : "<-", op ? op->name : "not RoCEv2",
		       packet_peek_qpn(data, bytes), get_be32(data + 8) & 0xffffff, payload, lids, comment);
	else
		printf("%s too short: %zu B (%s)\n", outbound ? "->" : "<-", bytes, comment);
}

/* "name":"x","qp":1 becomes name x qp 1: what is inside of strings stays, but for the backslashes. */
static void text_members(const char *json, size_t bytes)
{
	bool inside = false;

	for (size_t i = 0; i < bytes; i++) {
		if (inside && json[i] == '\\' && i + 1 < bytes)
			putchar(json[++i]);
		else if (json[i] == '"')
			inside = !inside;
		else
			putchar(!inside && (json[i] == ':' || json[i] == ',') ? ' ' : json[i]);
	}
}

/* What the status of a CM event stands for: an errno, or the reason of a REJ. NULL: 0, or not known. */
static const char *text_cm_status(const char *members, size_t bytes)
{
	char name[64], status[16];
	long value;

	if (!ladder_json_value(members, bytes, "event", name, sizeof(name)) || strcmp(name, "cm") ||
	    !ladder_json_value(members, bytes, "name", name, sizeof(name)) ||
	    !ladder_json_value(members, bytes, "status", status, sizeof(status)))
		return NULL;
	value = strtol(status, NULL, 10);
	if (value < 0 && value > -4096)
		return strerrorname_np((int)-value);
	return value > 0 && value <= UINT16_MAX && !strcmp(name, "RDMA_CM_EVENT_REJECTED") ?
	       cm_reject_name((uint16_t)value) : NULL;
}

static void text_event(struct output *output, const struct source *source, uint64_t time_ns, const char *members,
		       size_t bytes)
{
	static const char event[] = "\"event\":";
	const char *status;

	if (!output->options.text)
		return;
	status = text_cm_status(members, bytes);
	text_begin(output, source, time_ns);
	if (bytes > sizeof(event) && !memcmp(members, event, sizeof(event) - 1)) {
		members += sizeof(event) - 1;
		bytes -= sizeof(event) - 1;
	}
	text_members(members, bytes);
	printf(status ? " (%s)\n" : "\n", status);
}

/* ---- records ---- */

struct expanding {
	struct output *output;
	struct source *source;
	const struct trace_record *record;
};

/* What went through memory: one line, and none for the packets that it stands for. */
static void text_operation(struct output *output, const struct source *source, const struct trace_record *record,
			   const struct trace_operation *operation)
{
	static const char *const names[] = { [VERB_SEND] = "SEND", [VERB_WRITE] = "WRITE", [VERB_READ] = "READ",
					     [VERB_ATOMIC] = "ATOMIC" };
	char comment[TRACE_COMMENT_MAX];

	if (!output->options.text)
		return;
	text_begin(output, source, record->time_ns);
	trace_comment(record, NULL, comment);
	if (operation->verb == VERB_ACK)
		printf("<- taken from the ring (%s)\n", comment);
	else
		printf("%s %s_%s 0x%06x, %u B (%s)\n", record->flags & TRACE_OUTBOUND ? "->" : "<-",
		       operation->service == SERVICE_UC ? "UC" : "RC",
		       operation->verb < sizeof(names) / sizeof(*names) ? names[operation->verb] : "operation",
		       operation->dest_qpn, operation->bytes, comment);
}

/* Of a packet, or of a message and its place in it. */
static uint64_t seen_key(const struct trace_record *record, const uint8_t *data, uint32_t length)
{
	uint64_t key = 0xcbf29ce484222325u ^ length;

	for (unsigned i = 0; i < 16; i++)
		key = ((key ^ record->source[i]) * 0x100000001b3u ^ record->destination[i]) * 0x100000001b3u;
	for (unsigned i = 0; i < BTH_BYTES; i++)
		if (i != 4)	/* FECN and BECN change on the way */
			key = (key ^ data[i]) * 0x100000001b3u;
	if (record->flags & TRACE_HAS_MESSAGE)
		key = (key ^ record->message) * 0x100000001b3u;
	return (key ^ key >> 29) | 1;
}

/* Is its other end in the file? Then this is no packet more. */
static bool is_twin(struct output *output, const struct trace_record *record, const uint8_t *data, size_t bytes,
		    uint32_t length, bool outbound)
{
	uint64_t key = bytes >= BTH_BYTES ? seen_key(record, data, length) : 0;
	int64_t *ahead;
	bool twin;

	if (!key || record->drop == TRACE_DROP_FAULT)	/* it never comes */
		return false;
	ahead = recent_value(output->seen, key);
	twin = outbound ? *ahead < 0 : *ahead > 0;
	*ahead += outbound ? 1 : -1;
	return twin;
}

static void put_packet(struct output *output, struct source *source, const struct trace_record *record,
		       const uint8_t *data, size_t bytes, uint32_t length, bool outbound)
{
	uint8_t block[TRACE_BLOCK_MAX];

	if (record->path != TRACE_DIRECT && !(record->flags & TRACE_HAS_MESSAGE))
		text_packet(output, source, record, data, bytes, length, outbound);
	if (output->options.file) {
		bool twin = is_twin(output, record, data, bytes, length, outbound);
		uint32_t interface = source->interface + twin;

		if (record->slid && !twin)
			interface = output_interface(output, source, &source->fabric, PCAPNG_ERF, "fabric");
		else if (record->path == TRACE_ETHERNET && !twin)
			interface = output_interface(output, source, &source->ethernet, PCAPNG_ETHERNET,
						     "ethernet");

		output_add(output, block,
			   trace_packet_block(record, interface, outbound, twin, data, bytes, length, block));
	}
}

static void put_expanded(void *owner, const struct expanded *packet)
{
	const struct expanding *expanding = owner;
	struct trace_record record = *expanding->record;

	/* A request's identity is not its answer's. */
	if (packet->outbound != !!(record.flags & TRACE_OUTBOUND))
		record.flags &= (uint8_t)~TRACE_HAS_WR_ID;
	record.flags = (uint8_t)((record.flags & ~TRACE_OUTBOUND) | (packet->outbound ? TRACE_OUTBOUND : 0));
	if (packet->outbound != !!(expanding->record->flags & TRACE_OUTBOUND)) {
		memcpy(record.source, expanding->record->destination, 16);
		memcpy(record.destination, expanding->record->source, 16);
	}
	put_packet(expanding->output, expanding->source, &record, packet->headers, packet->header_bytes,
		   packet->length, packet->outbound);
}

static void put_event(struct output *output, struct source *source, const struct trace_record *record,
		      const char *members, size_t bytes)
{
	uint8_t block[TRACE_BLOCK_MAX];
	size_t length = bytes ? trace_event_block(record, output->options.version,
						  source->interface + 1, members, bytes, block)
			      : 0;

	if (!length)
		return;
	text_event(output, source, record->time_ns, members, bytes);
	if (output->options.file)
		output_add(output, block, length);
}

void output_point(struct output *output, struct source *source, enum tracepoint row,
		  const void *fields)
{
	uint8_t data[TRACEPOINT_BYTES];
	char members[TRACEPOINT_BYTES];
	struct tracepoint_record point;

	tracepoint_encode(row, fields, 0, data, &point);
	put_event(output, source, &(const struct trace_record){ .time_ns = point.time_ns }, members,
		  tracepoint_members(data, point.bytes, members));
}

static void put_operation(struct output *output, struct source *source, const struct trace_record *record,
			  const uint8_t *data)
{
	struct expanding expanding = { output, source, record };
	struct trace_operation operation;
	uint8_t block[TRACE_BLOCK_MAX];
	uint32_t left_out;

	memcpy(&operation, data, sizeof(operation));
	text_operation(output, source, record, &operation);
	if (output->options.version == TRACE_AS_OPERATIONS) {
		if (output->options.file)
			output_add(output, block,
				   trace_operation_block(record, &operation, source->interface + 1,
							 block));
		return;
	}
	if (!trace_expand(&operation, record->flags & TRACE_OUTBOUND, record->qpn, put_expanded, &expanding,
			  &left_out) || !left_out)
		return;
	output_event(output, source, lost, .time_ns = record->time_ns, .records = left_out,
		     .qp = record->qpn, .why = "packets in the middle of one operation");
}

void output_record(struct output *output, struct source *source, const struct trace_record *record,
		   const uint8_t *data)
{
	char members[TRACE_TEXT_MAX];

	if (record->kind == TRACE_IS_PACKET)
		put_packet(output, source, record, data, record->captured, record->length,
			   record->flags & TRACE_OUTBOUND);
	else if (record->kind == TRACE_IS_OPERATION && record->captured >= sizeof(struct trace_operation))
		put_operation(output, source, record, data);
	else if (record->kind == TRACE_IS_POINT || record->kind == TRACE_IS_EVENT)
		put_event(output, source, record, members,
			  trace_event_members(record, data, members));
}
