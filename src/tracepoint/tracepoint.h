/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens, as typed records: tracepoint.def. Whoever does something worth a record says
 *
 *	tracepoint(state, .qp = qp->number, .from = "INIT", .to = "RTR", .why = "ibv_modify_qp");
 *
 * which is one load and a branch while nobody listens. Listeners take the fields in the bytes of the
 * record; whoever shows them makes JSON of those. May be called with any lock held.
 */
#ifndef VERBATIM_TRACEPOINT_TRACEPOINT_H
#define VERBATIM_TRACEPOINT_TRACEPOINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracepoint/want.h"

#define TRACEPOINT_BYTES	1000u	/* of a record, and of its JSON */

/* A number that is there or not: .bytes = SOME(8). */
struct tracepoint_some { bool is; uint64_t value; };
#define SOME(number) { true, (number) }

/* Types of fields: what the member holds; what is not there is left out. */
#define TRACEPOINT_NUMBER	uint64_t
#define TRACEPOINT_SIGNED	int64_t
#define TRACEPOINT_SOME		struct tracepoint_some
#define TRACEPOINT_QPN		uint32_t
#define TRACEPOINT_QPN_IF	uint32_t		/* 0: not there */
#define TRACEPOINT_KEY		struct tracepoint_some	/* 0x00001234 */
#define TRACEPOINT_POINTER	const void *
#define TRACEPOINT_FLAG		bool			/* false: not there */
#define TRACEPOINT_TEXT		const char *		/* NULL: not there */
#define TRACEPOINT_ERRNO	int			/* 0: not there */
#define TRACEPOINT_NS		uint64_t		/* when it began; how long it took */
#define TRACEPOINT_MEMBERS	const char *		/* of JSON, as they are */

#define TRACEPOINT(row, kind, event) \
	struct tracepoint_##row { \
		uint64_t time_ns;	/* 0: now */ \
		bool failure;		/* after it a ring of records is kept */
#define FIELD(row, type, member) TRACEPOINT_##type member;
#define TRACEPOINT_END(row) };
#include "tracepoint/tracepoint.def"
#undef TRACEPOINT
#undef FIELD
#undef TRACEPOINT_END

enum tracepoint {
#define TRACEPOINT(row, kind, event) TRACEPOINT_OF_##row,
#define FIELD(row, type, member)
#define TRACEPOINT_END(row)
#include "tracepoint/tracepoint.def"
	TRACEPOINTS
};
enum {
#undef TRACEPOINT
#define TRACEPOINT(row, kind, event) TRACEPOINT_WANT_##row = TRACE_##kind,
#include "tracepoint/tracepoint.def"
#undef TRACEPOINT
#undef FIELD
#undef TRACEPOINT_END
};

/* What a listener gets; valid during the call. */
struct tracepoint_record {
	enum tracepoint row;
	uint32_t want;			/* enum trace_want */
	uint32_t qpn;			/* 0: of none */
	uint64_t time_ns;
	bool failure;
	const uint8_t *data;		/* for tracepoint_members() */
	size_t bytes;
};

/* Who gets records of what trace_wanted names; NULL: nobody. Calls may be under way meanwhile. */
void tracepoint_listen(void (*take)(const struct tracepoint_record *record));

/* Nanoseconds since 1970; of a simulated run, which sets its clock, the time in that. */
uint64_t tracepoint_now_ns(void);
void tracepoint_set_clock(uint64_t (*now_ns)(void));
/* When a call began. 0: nobody wants to know. */
static inline uint64_t tracepoint_began_ns(void)
{
	return trace_wants(TRACE_CALLS) ? tracepoint_now_ns() : 0;
}

#define tracepoint(row, ...)                                                                       \
	do {                                                                                       \
		if (trace_wants(TRACEPOINT_WANT_##row))                                            \
			tracepoint_emit(TRACEPOINT_OF_##row,                                       \
					&(const struct tracepoint_##row){ __VA_ARGS__ });          \
	} while (0)
/* @fields: of the struct of that row. */
void tracepoint_emit(enum tracepoint row, const void *fields);

/* The record of a happening whose struct is @fields: *record->data is in @data. */
void tracepoint_encode(enum tracepoint row, const void *fields, uint64_t now_ns,
		       uint8_t data[TRACEPOINT_BYTES], struct tracepoint_record *record);
/* "event":"state","qp":... of a record's bytes: members of a JSON object. Its length; 0: it is none. */
size_t tracepoint_members(const void *data, size_t bytes, char out[TRACEPOINT_BYTES]);
/* @text for a JSON string, without the quotes. Returns @out. */
const char *tracepoint_quote(const char *text, char *out, size_t size);

#endif
