/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pcapng and pcap -> records. A reader is a window on the file's bytes; numbers come in the order of the section
 * (or of the pcap file) that they stand in.
 *
 *	pcapng: section header { interface, packet, ... }	pcap: header { time, lengths, bytes }
 *	        block: type 32 | length 32 | body | length 32	      magic says: order, us or ns
 *
 * It does not look into packets (frame.c).
 */
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture_gzip.h"
#include "progress.h"

#define SECTION_HEADER	0x0a0d0d0au
#define ORDER_MAGIC	0x1a2b3c4du
#define PCAP_US		0xa1b2c3d4u
#define PCAP_NS		0xa1b23c4du
#define PCAP_HEADER	24u
#define PCAP_MODIFIED	0xa1b2cd34u	/* each record has 8 bytes more: interface, protocol, type */
#define PCAP_RECORD	16u
#define PCAP_LENGTH_MAX	(64u << 20)	/* of one packet: more is a broken file */
#define INTERFACES_MAX	65536u
#define READ_MAX	(16u << 20)	/* bytes at once */

enum block { BLOCK_INTERFACE = 1, BLOCK_PACKET_OLD = 2, BLOCK_SIMPLE = 3, BLOCK_PACKET = 6 };
enum option { OPTION_END = 0, OPTION_COMMENT = 1, OPTION_NAME = 2, OPTION_FLAGS = 2, OPTION_RESOLUTION = 9,
	      OPTION_OFFSET = 14 };

struct reader {
	struct capture *capture;
	const uint8_t *data;
	size_t bytes, at;
	bool swapped;
	unsigned first_source;		/* interface 0 of this section */
	struct interface { uint64_t units_per_s; int64_t offset_s; uint32_t snap; } *interface;
	unsigned interfaces, interface_room;
};

int capture_grow(void *array, size_t count, void *room, size_t element)
{
	unsigned *have = room;
	void *larger, **place = array;
	size_t want;

	if (count < *have)
		return 0;
	want = *have ? (size_t)*have * 2 : 16;
	larger = reallocarray(*place, want, element);
	if (!larger)
		return ENOMEM;
	*place = larger;
	*have = (unsigned)want;
	return 0;
}

static void __attribute__((format(printf, 2, 3)))
capture_warn(struct capture *capture, const char *format, ...)
{
	struct capture_warning *warning;
	va_list arguments;

	if (capture_grow(&capture->warning, capture->warnings, &capture->warning_room, sizeof(*warning)))
		return;
	warning = &capture->warning[capture->warnings++];
	warning->file = capture->files - 1;
	va_start(arguments, format);
	vsnprintf(warning->text, sizeof(warning->text), format, arguments);
	va_end(arguments);
}

/* ---- numbers ---- */

static uint16_t read16(const struct reader *reader, const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return reader->swapped ? __builtin_bswap16(value) : value;
}

static uint32_t read32(const struct reader *reader, const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return reader->swapped ? __builtin_bswap32(value) : value;
}

static uint64_t to_ns(uint64_t units, uint64_t units_per_s, int64_t offset_s)
{
	return (uint64_t)((units / units_per_s + (uint64_t)offset_s) * 1000000000u +
			  (uint64_t)((unsigned __int128)(units % units_per_s) * 1000000000u / units_per_s));
}

/* ---- records ---- */

static int add_record(struct capture *capture, const struct capture_record *record)
{
	unsigned room = (unsigned)capture->record_room;
	int err;

	if (capture->records >= CAPTURE_RECORDS_MAX)
		return E2BIG;
	err = capture_grow(&capture->record, capture->records, &room, sizeof(*record));
	capture->record_room = room;
	if (!err)
		capture->record[capture->records++] = *record;
	return err;
}

static int add_source(struct reader *reader, uint16_t linktype, const uint8_t *name, size_t name_bytes)
{
	struct capture *capture = reader->capture;
	struct capture_source *source;

	if (capture_grow(&capture->source, capture->sources, &capture->source_room, sizeof(*source)))
		return ENOMEM;
	source = &capture->source[capture->sources];
	*source = (struct capture_source){ .linktype = linktype, .file = capture->files - 1 };
	if (name) {
		source->name = strndup((const char *)name, name_bytes);
		if (!source->name)
			return ENOMEM;
	}
	capture->sources++;
	return 0;
}

/* ---- pcapng ---- */

struct options {
	const uint8_t *at;
	size_t bytes;
};

/* The next option: false at the end, and where a length leads out of the block. */
static bool next_option(const struct reader *reader, struct options *options, uint16_t *code,
			const uint8_t **value, uint16_t *bytes)
{
	size_t padded;

	if (options->bytes < 4)
		return false;
	*code = read16(reader, options->at);
	*bytes = read16(reader, options->at + 2);
	padded = (*bytes + 3u) & ~3u;
	if (*code == OPTION_END || padded > options->bytes - 4)
		return false;
	*value = options->at + 4;
	options->at += 4 + padded;
	options->bytes -= 4 + padded;
	return true;
}

static uint64_t resolution(uint8_t code)
{
	uint64_t units = 1;

	if (code & 0x80)
		return (code & 0x7f) < 63 ? 1ull << (code & 0x7f) : 1ull << 62;
	for (int i = 0; i < code && i < 18; i++)
		units *= 10;
	return units;
}

static int read_interface(struct reader *reader, const uint8_t *body, size_t bytes)
{
	struct interface *interface;
	struct options options = { body + 8, bytes - 8 };
	const uint8_t *value, *name = NULL;
	uint16_t code, length, name_bytes = 0;

	if (reader->interfaces >= INTERFACES_MAX)
		return E2BIG;
	if (capture_grow(&reader->interface, reader->interfaces, &reader->interface_room,
			 sizeof(*interface)))
		return ENOMEM;
	interface = &reader->interface[reader->interfaces];
	*interface = (struct interface){ .units_per_s = 1000000, .snap = read32(reader, body + 4) };
	while (next_option(reader, &options, &code, &value, &length)) {
		if (code == OPTION_NAME) {
			name = value;
			name_bytes = length;
		} else if (code == OPTION_RESOLUTION && length >= 1) {
			interface->units_per_s = resolution(value[0]);
		} else if (code == OPTION_OFFSET && length >= 8) {
			uint32_t low = read32(reader, value), high = read32(reader, value + 4);

			interface->offset_s = reader->swapped ? (int64_t)((uint64_t)low << 32 | high)
							      : (int64_t)((uint64_t)high << 32 | low);
		}
	}
	reader->interfaces++;
	return add_source(reader, read16(reader, body), name, name_bytes);
}

static void read_packet_options(const struct reader *reader, struct options options,
				struct capture_record *record)
{
	const uint8_t *value;
	uint16_t code, length;

	while (next_option(reader, &options, &code, &value, &length)) {
		if (code == OPTION_COMMENT && !record->comment) {
			record->comment = (const char *)value;
			record->comment_bytes = length;
		} else if (code == OPTION_FLAGS && length == 4) {
			uint32_t direction = read32(reader, value) & 3;

			record->direction = direction == 1 ? CAPTURE_IN : direction == 2 ? CAPTURE_OUT :
					    CAPTURE_UNKNOWN;
		}
	}
}

/* False: its interface or length makes no sense. */
static bool read_packet(const struct reader *reader, uint32_t type, const uint8_t *body, size_t bytes,
			struct capture_record *record)
{
	size_t head = type == BLOCK_SIMPLE ? 4 : 20, padded;
	uint32_t number = 0;
	const struct interface *interface;

	if (bytes < head)
		return false;
	if (type == BLOCK_PACKET)
		number = read32(reader, body);
	else if (type == BLOCK_PACKET_OLD)
		number = read16(reader, body);
	if (number >= reader->interfaces)
		return false;
	interface = &reader->interface[number];
	*record = (struct capture_record){ .source = reader->first_source + number, .data = body + head };
	if (type == BLOCK_SIMPLE) {
		record->length = record->bytes = read32(reader, body);
		if (interface->snap && record->bytes > interface->snap)
			record->bytes = interface->snap;
	} else {
		record->time_ns = to_ns((uint64_t)read32(reader, body + 4) << 32 | read32(reader, body + 8),
					interface->units_per_s, interface->offset_s);
		record->bytes = read32(reader, body + 12);
		record->length = read32(reader, body + 16);
	}
	if (record->bytes > bytes - head)	/* more than the original's length: verbatim trace pads */
		return false;
	padded = (record->bytes + 3u) & ~3u;
	if (padded < bytes - head)
		read_packet_options(reader, (struct options){ record->data + padded, bytes - head - padded },
				    record);
	return true;
}

static int read_section(struct reader *reader, const uint8_t *at, size_t bytes)
{
	uint32_t magic;

	if (bytes < 12)
		return EINVAL;
	memcpy(&magic, at + 8, sizeof(magic));
	if (magic != ORDER_MAGIC && magic != __builtin_bswap32(ORDER_MAGIC))
		return EINVAL;
	reader->swapped = magic != ORDER_MAGIC;
	reader->first_source = reader->capture->sources;
	reader->interfaces = 0;
	return 0;
}

/* One block. 0; -1 when the rest of the file cannot be read; or errno. */
static int read_block(struct reader *reader, unsigned *strange)
{
	const uint8_t *at = reader->data + reader->at;
	size_t left = reader->bytes - reader->at;
	struct capture_record record;
	uint32_t type, length;
	int err = 0;

	if (left < 12)
		return -1;
	memcpy(&type, at, sizeof(type));
	if (type == SECTION_HEADER && read_section(reader, at, left))
		return -1;
	type = read32(reader, at);
	length = read32(reader, at + 4);
	if (length < 12 || length % 4 || length > left || read32(reader, at + length - 4) != length)
		return -1;
	if (type == BLOCK_INTERFACE && length >= 20) {
		err = read_interface(reader, at + 8, length - 12);
	} else if (type == BLOCK_PACKET || type == BLOCK_SIMPLE || type == BLOCK_PACKET_OLD) {
		if (read_packet(reader, type, at + 8, length - 12, &record))
			err = add_record(reader->capture, &record);
		else
			(*strange)++;
	}
	reader->at += length;
	return err;
}

static int read_pcapng(struct reader *reader)
{
	unsigned strange = 0;
	int err = 0;

	while (!err && reader->at < reader->bytes)
		err = read_block(reader, &strange);
	if (strange)
		capture_warn(reader->capture, "%u packets left out: their lengths make no sense", strange);
	if (err >= 0)
		return err;
	if (!reader->at)
		return EINVAL;
	capture_warn(reader->capture, "broken off: byte %zu begins no whole block; what precedes is shown",
		     reader->at);
	return 0;
}

/* ---- pcap ---- */

static bool pcap_magic(struct reader *reader, uint64_t *units_per_s, uint32_t *record_bytes)
{
	uint32_t magic;

	memcpy(&magic, reader->data, sizeof(magic));
	reader->swapped = magic == __builtin_bswap32(PCAP_US) || magic == __builtin_bswap32(PCAP_NS) ||
			  magic == __builtin_bswap32(PCAP_MODIFIED);
	magic = read32(reader, reader->data);
	*units_per_s = magic == PCAP_NS ? 1000000000 : 1000000;
	*record_bytes = magic == PCAP_MODIFIED ? PCAP_RECORD + 8 : PCAP_RECORD;
	return magic == PCAP_US || magic == PCAP_NS || magic == PCAP_MODIFIED;
}

static int read_pcap(struct reader *reader, uint64_t units_per_s, uint32_t head)
{
	/* Above the type: length of the frame check sequence, and flags. */
	int err = add_source(reader, (uint16_t)read32(reader, reader->data + 20), NULL, 0);

	for (reader->at = PCAP_HEADER; !err && reader->at < reader->bytes;) {
		const uint8_t *at = reader->data + reader->at;
		size_t left = reader->bytes - reader->at;
		struct capture_record record = { .source = reader->first_source, .data = at + head };

		record.bytes = left < head ? UINT32_MAX : read32(reader, at + 8);
		if (left < head || record.bytes > left - head ||
		    record.bytes > PCAP_LENGTH_MAX) {
			capture_warn(reader->capture, "broken off: byte %zu begins no whole packet; what "
				     "precedes is shown", reader->at);
			break;
		}
		record.length = read32(reader, at + 12);
		if (record.length < record.bytes)
			record.length = record.bytes;
		record.time_ns = (uint64_t)read32(reader, at) * 1000000000u +
				 (uint64_t)read32(reader, at + 4) * (1000000000u / units_per_s);
		reader->at += head + record.bytes;
		err = add_record(reader->capture, &record);
	}
	return err;
}

/* ---- files ---- */

int capture_parse(struct capture *capture, uint8_t *data, size_t bytes)
{
	struct reader reader = { .capture = capture, .data = data, .bytes = bytes,
				 .first_source = capture->sources };
	uint8_t **files = reallocarray(capture->file, capture->files + 1, sizeof(*files));
	uint64_t units_per_s;
	uint32_t magic = 0, head;
	int err = EINVAL;

	if (!files) {
		free(data);
		return ENOMEM;
	}
	capture->file = files;
	capture->file[capture->files++] = data;
	if (bytes >= sizeof(magic))
		memcpy(&magic, data, sizeof(magic));
	if (magic == SECTION_HEADER)
		err = read_pcapng(&reader);
	else if (bytes >= PCAP_HEADER && pcap_magic(&reader, &units_per_s, &head))
		err = read_pcap(&reader, units_per_s, head);
	free(reader.interface);
	if (err == E2BIG) {
		capture_warn(capture, "only the first %u packets are read", CAPTURE_RECORDS_MAX);
		err = 0;
	}
	return err;
}

static bool begins_a_capture(const uint8_t *data)
{
	static const uint32_t magics[] = { SECTION_HEADER, PCAP_US, PCAP_NS, PCAP_MODIFIED };
	uint32_t magic;

	memcpy(&magic, data, sizeof(magic));
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (magic == magics[i] || magic == __builtin_bswap32(magics[i]))
			return true;
	return gzip_begins(data, sizeof(magic));
}

/*
 * Reads to the end of the file, a pipe too, or to CAPTURE_FILE_MAX; of what is no capture (a device without an
 * end) no more than its first bytes.
 */
static int slurp(int fd, uint8_t **data, size_t *bytes, bool *whole)
{
	size_t room = 1 << 16, total = 0;
	struct stat status;
	ssize_t got = 1;
	int err;

	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size > 0)
		total = (size_t)status.st_size + 1;
	if (total)
		room = total < CAPTURE_FILE_MAX ? total : CAPTURE_FILE_MAX;
	*data = malloc(room);
	*bytes = 0;
	while (*data && got > 0 && *bytes < CAPTURE_FILE_MAX &&
	       (*bytes < sizeof(uint32_t) || begins_a_capture(*data))) {
		if (*bytes == room) {
			uint8_t *larger = realloc(*data, room *= 2);

			if (!larger)
				break;
			*data = larger;
		}
		progress_show("reading", *bytes, total);
		got = read(fd, *data + *bytes, room - *bytes < READ_MAX ? room - *bytes : READ_MAX);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got > 0)
			*bytes += (size_t)got;
	}
	*whole = got == 0;
	if (*data && (got == 0 || *bytes >= CAPTURE_FILE_MAX))
		return 0;
	err = got < 0 ? errno : *data && *bytes >= sizeof(uint32_t) && !begins_a_capture(*data) ? EINVAL : ENOMEM;
	free(*data);
	return err;
}

int capture_read(struct capture *capture, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	uint8_t *data, *packed = NULL;
	size_t bytes;
	bool whole, unpacked = true;

	if (fd < 0)
		return errno;
	err = slurp(fd, &data, &bytes, &whole);
	close(fd);
	if (err)
		return err;
	if (gzip_begins(data, bytes)) {
		packed = data;
		err = gzip_expand(packed, bytes, CAPTURE_FILE_MAX, &data, &bytes, &unpacked);
		free(packed);
	}
	if (!err)
		err = capture_parse(capture, data, bytes);
	if (!err && !whole)
		capture_warn(capture, "only its first GiB is read");
	else if (!err && !unpacked)
		capture_warn(capture, bytes == CAPTURE_FILE_MAX ? "only its first GiB is read" :
			     "its compressed bytes break off: what precedes is shown");
	return err;
}

const char *capture_other_form(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint8_t begin[16];
	ssize_t got = fd < 0 ? -1 : read(fd, begin, sizeof(begin));

	if (fd >= 0)
		close(fd);
	return got > 0 ? gzip_other_form(begin, (size_t)got) : NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct capture_record *one = a, *other = b;

	if (one->time_ns != other->time_ns)
		return one->time_ns < other->time_ns ? -1 : 1;
	/* Equal times: as read. Records are in that order, and so are their bytes within a file. */
	if (one->source != other->source)
		return one->source < other->source ? -1 : 1;
	return one->data < other->data ? -1 : one->data > other->data;
}

void capture_sort(struct capture *capture)
{
	if (capture->records)
		qsort(capture->record, capture->records, sizeof(*capture->record), by_time);
}

void capture_free(struct capture *capture)
{
	for (unsigned i = 0; i < capture->sources; i++)
		free(capture->source[i].name);
	for (unsigned i = 0; i < capture->files; i++)
		free(capture->file[i]);
	free(capture->source);
	free(capture->record);
	free(capture->warning);
	free(capture->file);
	*capture = (struct capture){ .record = NULL };
}
