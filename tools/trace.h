/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interface of the files of `verbatim trace`:
 *
 *	trace.c		options, the program, the loop
 *	trace_source.c	one traced process: its share, reading its records
 *	trace_attach.c	a process that runs already
 *	trace_sort.c	records of all processes in the order of time
 *	trace_filter.c	which of them are wanted
 *	trace_output.c	the file, the ring, the lines of text
 */
#ifndef VERBATIM_TOOLS_TRACE_H
#define VERBATIM_TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/block.h"
#include "trace/record.h"

#define FILTER_VALUES	16u
#define NAME_BYTES	96u

/* ---- trace_filter.c ---- */

struct filter {
	uint32_t kinds;			/* enum trace_want; 0: all */
	unsigned qps, peers, processes, devices;
	uint32_t qp[FILTER_VALUES];
	uint8_t peer[FILTER_VALUES][16];
	char process[FILTER_VALUES][64], device[FILTER_VALUES][64];
};

/* Adds what --filter says. False after a line on stderr. */
bool filter_parse(struct filter *filter, const char *text);
bool filter_takes_process(const struct filter *filter, const char *program, pid_t pid);
bool filter_takes(const struct filter *filter, const struct trace_record *record, const uint8_t *data);

/* ---- trace_source.c ---- */

/* A traced process, from when it connects until all that it wrote is read. */
struct source {
	struct source *next;
	pid_t pid;
	int connection;			/* hangs up when it ends; -1: it has */
	int control;			/* of one that ran already: it is traced as long as this stands; or -1 */
	struct trace_share *share;
	uint32_t ring_bytes;
	uint64_t tail, lost;		/* lost: of these the file tells */
	uint64_t newest_ns;		/* of its records */
	uint64_t lost_ns, ended_ns;	/* when more was seen to be lost, and when it ended, which the file is */
					/* told when everything older has been written; 0: neither */
	uint32_t interface;		/* of its packets; its events have the next */
	uint32_t ethernet, fabric;	/* of its frames, and packets by LID; 0: none so far */
	char name[NAME_BYTES];		/* PROGRAM(PID) */
	bool is_described, is_wanted, is_broken;
	char *known;			/* lines: its queue pairs when it was attached, as it told; or NULL */
	size_t known_bytes;
};

struct share_options {
	uint32_t wanted, payload_bytes;
};

/* A memfd with an empty share; -1: errno. */
int share_create(const struct share_options *options);
/* Of that memfd, which stays the caller's. NULL: errno. */
struct source *source_open(int memfd, pid_t pid, int connection);
void source_close(struct source *source);
/* The next record and its data, valid until the next call; NULL: none, or the process wrote nonsense. */
const struct trace_record *source_read(struct source *source, uint8_t buffer[TRACE_RECORD_MAX]);
/* The ring may be overwritten up to what was read. */
void source_release(struct source *source);

/* ---- trace_attach.c ---- */

/* NULL: after a line on stderr. */
struct source *source_attach(pid_t pid, const struct share_options *options);
/* An event, with its text behind it, for each queue pair that was there before. Once. */
void source_tell_known(struct source *source, uint64_t time_ns,
		       void (*take)(void *owner, struct source *source, const struct trace_record *record),
		       void *owner);

/* ---- trace_sort.c ---- */

struct sorted {
	struct source *source;
	uint64_t time_ns;
	uint64_t number;		/* order of arrival */
	struct trace_record *record;	/* its data behind it */
	struct chunk *chunk;		/* where it lies */
};

struct sorter {
	struct sorted *entry;
	size_t first;			/* those before it were taken */
	size_t sorted, count;		/* up to here they are in order; all */
	size_t room;
	uint64_t numbers;
	struct chunk *filling, *spare;
};

/* False: no memory, and the record is dropped. */
bool sorter_add(struct sorter *sorter, struct source *source, const struct trace_record *record);
/* Calls @take with all up to @until_ns, the oldest first. */
void sorter_take(struct sorter *sorter, uint64_t until_ns,
		 void (*take)(void *owner, struct source *source, const struct trace_record *record), void *owner);

/* Frees what it has; records that were not taken are dropped. */
void sorter_close(struct sorter *sorter);

/* ---- trace_summary.c ---- */

/* Of traces that are files; exit status, after a line on stderr. */
int trace_summary(char *const *paths, int count);

/* ---- trace_output.c ---- */

struct output;

struct output_options {
	const char *file;		/* or NULL */
	uint64_t ring_bytes;		/* 0: write everything */
	uint64_t limit_bytes;		/* of the file; 0: none */
	bool text;
	enum trace_version version;	/* what goes through memory: as itself, or as packets */
};

/* 0, or errno after a line on stderr. */
int output_open(struct output **output, const struct output_options *options);
/* The interfaces of @source, before its first record. */
void output_describe(struct output *output, struct source *source);
void output_record(struct output *output, struct source *source, const struct trace_record *record,
		   const uint8_t *data);
/* A happening that the tracer knows of: a row of tracepoint.def and its fields. */
#define output_event(output, source, row, ...)                                                     \
	output_point(output, source, TRACEPOINT_OF_##row,                                          \
		     &(const struct tracepoint_##row){ __VA_ARGS__ })
void output_point(struct output *output, struct source *source, enum tracepoint row,
		  const void *fields);
/* Something failed: a ring is written now. */
void output_keep(struct output *output);
/* What is buffered is written. */
void output_flush(struct output *output);
/* False: it could not all be written, which was said. */
bool output_close(struct output *output);

#endif
