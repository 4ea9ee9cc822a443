/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of happenings, tracepoint.def, expanded: structs to bytes, and bytes to members of JSON.
 *
 *	| row, 2 bytes | fields in their order |
 *
 * Numbers have 8 bytes, texts 2 with their length in front; NONE: the text is not there. What else may
 * not be there has a byte in front that says whether it is.
 */
#include "tracepoint/tracepoint.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/print.h"

#define LONG_NS		10000000u	/* a call that takes longer is recorded when it returned */
#define NONE		UINT16_MAX
#define FIELD_MAX	9u		/* bytes, of one that is no text */

_Atomic uint32_t trace_wanted;

enum field_type {
	TYPE_NUMBER,
	TYPE_SIGNED,
	TYPE_SOME,
	TYPE_QPN,
	TYPE_QPN_IF,
	TYPE_KEY,
	TYPE_POINTER,
	TYPE_FLAG,
	TYPE_TEXT,
	TYPE_ERRNO,
	TYPE_NS,
	TYPE_MEMBERS,
};

struct field { const char *name; enum field_type type; size_t offset; };

#define TRACEPOINT(row, kind, event) static const struct field fields_##row[] = {
#define FIELD(row, type, member) { #member, TYPE_##type, offsetof(struct tracepoint_##row, member) },
#define TRACEPOINT_END(row) { NULL, TYPE_NUMBER, 0 } };
#include "tracepoint/tracepoint.def"
#undef TRACEPOINT
#undef FIELD
#undef TRACEPOINT_END

static const struct {
	const char *event;
	uint32_t want;
	const struct field *field;
} tracepoint_rows[TRACEPOINTS] = {
#define TRACEPOINT(row, kind, event) { event, TRACE_##kind, fields_##row },
#define FIELD(row, type, member)
#define TRACEPOINT_END(row)
#include "tracepoint/tracepoint.def"
#undef TRACEPOINT
#undef FIELD
#undef TRACEPOINT_END
};

static void (*_Atomic listener)(const struct tracepoint_record *record);

void tracepoint_listen(void (*take)(const struct tracepoint_record *record))
{
	atomic_store_explicit(&listener, take, memory_order_release);
}

/* ---- to bytes ---- */

struct encoder {
	uint8_t *data;
	size_t used;
};

static void encode_number(struct encoder *encoder, uint64_t number)
{
	memcpy(encoder->data + encoder->used, &number, sizeof(number));
	encoder->used += sizeof(number);
}

static void encode_some(struct encoder *encoder, bool is, uint64_t number)
{
	encoder->data[encoder->used++] = is;
	if (is)
		encode_number(encoder, number);
}

/* What does not fit is cut: explanations have at most 1024 bytes. */
static void encode_text(struct encoder *encoder, const char *text)
{
	size_t room = TRACEPOINT_BYTES - encoder->used - sizeof(uint16_t),
	       length = text ? strlen(text) : 0;
	uint16_t bytes = text ? (uint16_t)(length < room ? length : room) : NONE;

	memcpy(encoder->data + encoder->used, &bytes, sizeof(bytes));
	encoder->used += sizeof(bytes);
	if (!text)
		return;
	memcpy(encoder->data + encoder->used, text, bytes);
	encoder->used += bytes;
}

/* How long a call took, and the time of its record: when it began, or ended, if it took long. */
static uint64_t encode_took(struct tracepoint_record *record, uint64_t began_ns, uint64_t now_ns)
{
	uint64_t took_ns = began_ns && began_ns < now_ns ? now_ns - began_ns : 0;

	record->time_ns = took_ns > LONG_NS ? now_ns : now_ns - took_ns;
	return took_ns;
}

void tracepoint_encode(enum tracepoint row, const void *fields, uint64_t now_ns,
		       uint8_t data[TRACEPOINT_BYTES], struct tracepoint_record *record)
{
	struct encoder encoder = { .data = data };
	const uint16_t number = (uint16_t)row;

	*record = (struct tracepoint_record){ .row = row, .want = tracepoint_rows[row].want, .data = data };
	memcpy(&record->time_ns, fields, sizeof(record->time_ns));
	memcpy(&record->failure, (const uint8_t *)fields + sizeof(record->time_ns),
	       sizeof(record->failure));
	record->time_ns = record->time_ns ? record->time_ns : now_ns;
	memcpy(data, &number, sizeof(number));
	encoder.used = sizeof(number);
	for (const struct field *field = tracepoint_rows[row].field; field->name; field++) {
		const void *value = (const uint8_t *)fields + field->offset;
		const struct tracepoint_some *some = value;

		if (encoder.used + FIELD_MAX > TRACEPOINT_BYTES)
			break;
		switch (field->type) {
		case TYPE_NUMBER:
		case TYPE_SIGNED:
			encode_number(&encoder, *(const uint64_t *)value);
			break;
		case TYPE_SOME:
		case TYPE_KEY:
			encode_some(&encoder, some->is, some->value);
			break;
		case TYPE_QPN:
		case TYPE_QPN_IF:
			record->qpn = *(const uint32_t *)value;
			encode_some(&encoder, field->type == TYPE_QPN || record->qpn, record->qpn);
			break;
		case TYPE_POINTER:
			encode_number(&encoder, (uintptr_t)*(const void *const *)value);
			break;
		case TYPE_FLAG:
			encode_some(&encoder, *(const bool *)value, 1);
			break;
		case TYPE_ERRNO:
			encode_some(&encoder, *(const int *)value, (uint64_t)*(const int *)value);
			break;
		case TYPE_NS:
			encode_number(&encoder,
				      encode_took(record, *(const uint64_t *)value, now_ns));
			break;
		case TYPE_TEXT:
		case TYPE_MEMBERS:
			encode_text(&encoder, *(const char *const *)value);
			break;
		}
	}
	record->bytes = encoder.used;
}

/* ---- from bytes ---- */

const char *tracepoint_quote(const char *text, char *out, size_t size)
{
	size_t used = 0;

	for (; *text && used + 3 < size; text++) {
		if (*text == '"' || *text == '\\')
			out[used++] = '\\';
		out[used++] = (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text;
	}
	out[used] = '\0';
	return out;
}

struct decoder {
	const uint8_t *data;
	size_t bytes, at;
	struct print print;	/* what does not fit whole is left out */
};

static bool decode_bytes(struct decoder *decoder, void *value, size_t bytes)
{
	if (decoder->bytes - decoder->at < bytes)
		return false;
	memcpy(value, decoder->data + decoder->at, bytes);
	decoder->at += bytes;
	return true;
}

/* A text that is too long with its quotes is cut, as one that was too long for the record. */
static bool decode_text(struct decoder *decoder, const struct field *field)
{
	char text[TRACEPOINT_BYTES], quoted[TRACEPOINT_BYTES];
	size_t taken = decoder->print.used + strlen(field->name) + sizeof(",\"\":\"\"");
	uint16_t bytes;

	if (!decode_bytes(decoder, &bytes, sizeof(bytes)))
		return false;
	if (bytes == NONE)
		return true;
	if (bytes >= sizeof(text) || !decode_bytes(decoder, text, bytes))
		return false;
	text[bytes] = '\0';
	if (field->type == TYPE_MEMBERS)
		print_format(&decoder->print, ",%s", text);
	else if (taken < TRACEPOINT_BYTES)
		print_format(&decoder->print, ",\"%s\":\"%s\"", field->name,
			     tracepoint_quote(text, quoted, TRACEPOINT_BYTES - taken));
	return true;
}

static void decode_number(struct decoder *decoder, const struct field *field, uint64_t number)
{
	const char *error;

	print_format(&decoder->print, ",\"%s\":", field->name);
	switch (field->type) {
	case TYPE_QPN:
	case TYPE_QPN_IF:
		print_format(&decoder->print, "\"0x%06llx\"", (unsigned long long)number);
		break;
	case TYPE_KEY:
		print_format(&decoder->print, "\"0x%08llx\"", (unsigned long long)number);
		break;
	case TYPE_POINTER:
		if (number)
			print_format(&decoder->print, "\"0x%llx\"", (unsigned long long)number);
		else
			print_format(&decoder->print, "\"(nil)\"");
		break;
	case TYPE_FLAG:
		print_format(&decoder->print, "true");
		break;
	case TYPE_ERRNO:
		error = strerrorname_np((int)number);
		print_format(&decoder->print, "\"%s\"", error ? error : "unknown");
		break;
	case TYPE_SIGNED:
		print_format(&decoder->print, "%s%llu", (int64_t)number < 0 ? "-" : "",
			     (int64_t)number < 0 ? -(unsigned long long)number : number);
		break;
	default:
		print_format(&decoder->print, "%llu", (unsigned long long)number);
		break;
	}
}

static bool decode_field(struct decoder *decoder, const struct field *field)
{
	uint8_t is = 1;
	uint64_t number;

	switch (field->type) {
	case TYPE_TEXT:
	case TYPE_MEMBERS:
		return decode_text(decoder, field);
	case TYPE_NUMBER:
	case TYPE_SIGNED:
	case TYPE_POINTER:
	case TYPE_NS:
		break;
	default:
		if (!decode_bytes(decoder, &is, sizeof(is)))
			return false;
	}
	if (is && !decode_bytes(decoder, &number, sizeof(number)))
		return false;
	if (is)
		decode_number(decoder, field, number);
	return true;
}

size_t tracepoint_members(const void *data, size_t bytes, char out[TRACEPOINT_BYTES])
{
	struct decoder decoder = { .data = data, .bytes = bytes,
				    .print = { .text = out, .size = TRACEPOINT_BYTES } };
	uint16_t row;

	if (!decode_bytes(&decoder, &row, sizeof(row)) || row >= TRACEPOINTS)
		return 0;
	print_format(&decoder.print, "\"event\":\"%s\"", tracepoint_rows[row].event);
	for (const struct field *field = tracepoint_rows[row].field; field->name; field++)
		if (!decode_field(&decoder, field))
			return 0;
	return decoder.print.used;
}

/* ---- emitting ---- */

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t (*_Atomic tracepoint_clock)(void) = wall_ns;

void tracepoint_set_clock(uint64_t (*now_ns)(void))
{
	atomic_store_explicit(&tracepoint_clock, now_ns, memory_order_relaxed);
}

uint64_t tracepoint_now_ns(void)
{
	return atomic_load_explicit(&tracepoint_clock, memory_order_relaxed)();
}

void tracepoint_emit(enum tracepoint row, const void *fields)
{
	void (*take)(const struct tracepoint_record *record) =
		atomic_load_explicit(&listener, memory_order_acquire);
	uint8_t data[TRACEPOINT_BYTES];
	struct tracepoint_record record;

	if (!take)
		return;
	tracepoint_encode(row, fields, tracepoint_now_ns(), data, &record);
	take(&record);
}
