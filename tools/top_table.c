/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of verbatim top: rows with rates, of two samples (top.h). */
#include "top.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/counters.h"

#define WAIT_MS		1000u
#define BLIND_COLUMNS	2u	/* of a process that is not shown, before the reason */

/* A title has room for the mark of the column that is sorted by. */
static const struct top_column process_columns[] = {
	{ "PID", 7, TOP_EXACT }, { "PROGRAM", 15, TOP_TEXT }, { "QPS", 5, TOP_NUMBER },
	{ "DIRECT/s", 9, TOP_RATE }, { "TX/s", 6, TOP_RATE }, { "RX/s", 6, TOP_RATE }, { "TXB/s", 8, TOP_BYTES },
	{ "RXB/s", 8, TOP_BYTES }, { "RETRY", 6, TOP_NUMBER }, { "RNR", 5, TOP_NUMBER }, { "ERR", 5, TOP_NUMBER },
	{ "DROP", 5, TOP_NUMBER }, { "MR", 8, TOP_BYTES }, { "PEERS", 6, TOP_NUMBER }, { "USER", 6, TOP_EXACT },
};
static const struct top_column qp_columns[] = {
	{ "QP", 8, TOP_TEXT }, { "TYPE", 5, TOP_TEXT }, { "STATE", 6, TOP_TEXT }, { "PATH", 6, TOP_TEXT },
	{ "SENT/s", 7, TOP_RATE }, { "RECV/s", 7, TOP_RATE }, { "SQ", 9, TOP_USED }, { "RQ", 9, TOP_USED },
	{ "PEER", 15, TOP_TEXT }, { "PEER QP", 8, TOP_TEXT }, { "RETRY", 6, TOP_NUMBER }, { "RNR", 5, TOP_NUMBER },
	{ "ERR", 4, TOP_EXACT }, { "FLIGHT", 8, TOP_BYTES }, { "WINDOW", 8, TOP_BYTES }, { "WAITS", 8, TOP_TEXT },
};

#define COUNT(array)	(sizeof(array) / sizeof(array[0]))

static const struct view {
	const char *command;		/* for observe() */
	const struct top_column *column;
	unsigned columns, sorted;	/* by this at first */
} views[TOP_KINDS] = {
	[TOP_PROCESSES] = { "stats process", process_columns, COUNT(process_columns), 3 },
	[TOP_QPS] = { "stats qps", qp_columns, COUNT(qp_columns), 4 },
};

/* ---- samples ---- */

static uint64_t time_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void top_sample_take(struct top_sample *sample, enum top_kind kind, const char *what)
{
	sample->err = observe(what, views[kind].command, WAIT_MS, &sample->observed);
	sample->time_ns = time_now_ns();
}

void top_sample_free(struct top_sample *sample)
{
	if (sample->time_ns)
		observed_free(&sample->observed);
	*sample = (struct top_sample){ .time_ns = 0 };
}

/* ---- cells ---- */

/* Sums of counters: of each in the list once. */
struct counter_list { const enum counter *counter; unsigned count; };
#define COUNTER_LIST(...) { (const enum counter[]){ __VA_ARGS__ }, COUNT(((const enum counter[]){ __VA_ARGS__ })) }

static uint64_t counters_sum(const struct observed_process *process,
			     const struct counter_list *list)
{
	const struct observed_record *counters = observed_first(process, "counters");
	bool seen[COUNTER_COUNT + 1] = { [COUNTER_NONE] = true };
	uint64_t sum = 0;

	for (unsigned i = 0; i < list->count; i++) {
		if (!seen[list->counter[i]])
			sum += observed_number(counters, counter_name(list->counter[i]));
		seen[list->counter[i]] = true;
	}
	return sum;
}

static const struct counter_list direct_counters = COUNTER_LIST(
	COUNTER_LOCAL_WRITE, COUNTER_LOCAL_SEND, COUNTER_LOCAL_READ, COUNTER_LOCAL_ATOMIC);
static const struct counter_list traffic_counters[] = {
	COUNTER_LIST(COUNTER_TX_PACKETS),
	COUNTER_LIST(COUNTER_RX_PACKETS),
	COUNTER_LIST(COUNTER_TX_BYTES),
	COUNTER_LIST(COUNTER_RX_BYTES),
};
static const struct counter_list retry_counters = COUNTER_LIST(COUNTER_RETRANSMIT, COUNTER_PROBE);
static const struct counter_list rnr_counters = COUNTER_LIST(COUNTER_RX_RNR_NAK);
static const struct counter_list error_counters =
	COUNTER_LIST(COUNTER_REQUEST_FAILED, COUNTER_RECEIVE_FAILED);
/* The reasons to drop, but for requests out of sequence or repeated: to those a responder answers. */
static const enum counter drop_rows[] = {
#define DROPS_DROPS(counter) COUNTER_##counter,
#define DROPS_NONE(counter) COUNTER_##counter,
#define DROPS_DUPLICATES(counter)
#define DROPS_SEQUENCE(counter)
#define DROP(reason, counter, tally, words, peer, key) DROPS_##tally(counter)
#include "tracepoint/drop.def"
#undef DROP
};
static const struct counter_list drop_counters = { drop_rows, COUNT(drop_rows) };

/* Counts only grow; a smaller one is of another process with that number. */
static double rate_of(uint64_t now, uint64_t before, double seconds)
{
	return seconds > 0 && now >= before ? (double)(now - before) / seconds : 0;
}

static double counter_rate(const struct observed_process *now, const struct observed_process *before,
			   const struct counter_list *list, double seconds)
{
	return before ? rate_of(counters_sum(now, list), counters_sum(before, list), seconds) : 0;
}

static void fill_process(struct top_row *row, const struct observed_process *now,
			 const struct observed_process *before, double seconds)
{
	const struct observed_record *process = observed_first(now, "process");
	struct top_cell *cell = row->cell;
	unsigned i;

	snprintf(row->name, sizeof(row->name), "%d", (int)now->process.pid);
	cell[0].number = now->process.pid;
	cell[1].text = now->process.program;
	cell[14].number = now->process.uid;
	row->blind = !now->shown;
	row->why = now->shown ? "" : now->process.why;
	if (!now->shown)
		return;
	cell[2].number = (double)observed_number(process, OBSERVED(process, qp_count));
	cell[3].number = counter_rate(now, before, &direct_counters, seconds);
	for (i = 0; i < 4; i++)
		cell[4 + i].number = counter_rate(now, before, &traffic_counters[i], seconds);
	cell[8].number = (double)counters_sum(now, &retry_counters);
	cell[9].number = (double)counters_sum(now, &rnr_counters);
	cell[10].number = (double)counters_sum(now, &error_counters);
	cell[11].number = (double)counters_sum(now, &drop_counters);
	cell[12].number = (double)observed_number(process, OBSERVED(process, mr_bytes));
	cell[13].number = (double)observed_number(process, OBSERVED(process, shares_memory_with));
}

/* Modulo 2^32, as the process counts them. */
static double qp_rate(const struct observed_record *now, const struct observed_record *before, const char *name,
		      double seconds)
{
	uint32_t grown = (uint32_t)observed_number(now, name) - (uint32_t)observed_number(before, name);

	return before && seconds > 0 ? (double)grown / seconds : 0;
}

static void fill_qp(struct top_row *row, const struct observed_record *now, const struct observed_record *before,
		    double seconds)
{
	static const struct {
		unsigned column;
		const char *field, *of;
	} fields[] = {
		{ 6, OBSERVED(qp, send_posted), OBSERVED(qp, send_size) },
		{ 7, OBSERVED(qp, recv_posted), OBSERVED(qp, recv_size) },
		{ 10, OBSERVED(qp, retransmissions) }, { 11, OBSERVED(qp, rnr_received) },
		{ 12, OBSERVED(qp, last_error) }, { 13, OBSERVED(qp, in_flight_bytes) },
		{ 14, OBSERVED(qp, window_bytes) },
	}, texts[] = {
		{ 0, OBSERVED(qp, qp) }, { 1, OBSERVED(qp, type) }, { 2, OBSERVED(qp, state) },
		{ 3, OBSERVED(qp, path) }, { 8, OBSERVED(qp, peer) }, { 9, OBSERVED(qp, peer_qp) },
		{ 15, OBSERVED(qp, waits_for) },
	};
	unsigned i;

	snprintf(row->name, sizeof(row->name), "%s", observed_text(now, OBSERVED(qp, qp)));
	row->why = observed_text(now, OBSERVED(qp, why));
	for (i = 0; i < COUNT(texts); i++)
		row->cell[texts[i].column].text = observed_text(now, texts[i].field);
	for (i = 0; i < COUNT(fields); i++) {
		row->cell[fields[i].column].number = (double)observed_number(now, fields[i].field);
		if (fields[i].of)
			row->cell[fields[i].column].of = (double)observed_number(now, fields[i].of);
	}
	row->cell[4].number = qp_rate(now, before, OBSERVED(qp, sends_completed), seconds);
	row->cell[5].number = qp_rate(now, before, OBSERVED(qp, receives_taken), seconds);
}

/* ---- rows ---- */

static const struct observed_process *process_before(const struct top_sample *before, pid_t pid)
{
	for (unsigned i = 0; before->time_ns && i < before->observed.count; i++)
		if (before->observed.process[i].process.pid == pid && before->observed.process[i].shown)
			return &before->observed.process[i];
	return NULL;
}

static int by_qp(const void *a, const void *b)
{
	return strcmp(observed_text(*(const struct observed_record *const *)a, "qp"),
		      observed_text(*(const struct observed_record *const *)b, "qp"));
}

/* The QPs of a process, by number: *count of them, malloc'ed. NULL: none, or out of memory. */
static const struct observed_record **qps_by_number(const struct observed_process *process, unsigned *count)
{
	const struct observed_record **sorted = process ? calloc(process->count + 1, sizeof(*sorted)) : NULL;

	*count = 0;
	for (unsigned i = 0; sorted && i < process->count; i++)
		if (!strcmp(process->record[i].kind, "qp"))
			sorted[(*count)++] = &process->record[i];
	if (sorted)
		qsort(sorted, *count, sizeof(*sorted), by_qp);
	return sorted;
}

static unsigned add_qps(struct top_row *row, const struct observed_process *process,
			const struct top_sample *before, double seconds)
{
	unsigned known, count = 0, i;
	const struct observed_record **sorted =
		qps_by_number(process_before(before, process->process.pid), &known);

	for (i = 0; i < process->count; i++) {
		const struct observed_record *qp = &process->record[i], **found;

		if (strcmp(qp->kind, "qp") || qp->hidden)
			continue;
		found = sorted ? bsearch(&qp, sorted, known, sizeof(*sorted), by_qp) : NULL;
		fill_qp(&row[count++], qp, found ? *found : NULL, seconds);
	}
	free(sorted);
	return count;
}

static unsigned rows_at_most(enum top_kind kind, const struct observed *observed)
{
	unsigned rows = 0;

	if (kind == TOP_PROCESSES)
		return observed->count;
	for (unsigned i = 0; i < observed->count; i++)
		rows += observed->process[i].count;
	return rows;
}

static unsigned add_rows(struct top_row *row, enum top_kind kind, const struct top_sample *now,
			 const struct top_sample *before)
{
	double seconds = before->time_ns ? (double)(now->time_ns - before->time_ns) / 1e9 : 0;
	unsigned rows = 0, i;

	for (i = 0; i < now->observed.count; i++) {
		const struct observed_process *process = &now->observed.process[i];

		if (kind == TOP_QPS)
			rows += add_qps(&row[rows], process, before, seconds);
		else
			fill_process(&row[rows++], process, process_before(before, process->process.pid), seconds);
	}
	for (i = 0; i < rows; i++)
		row[i].place = i;
	return rows;
}

/* ---- text ---- */

static void cell_write(const struct top_row *row, const struct top_column *column, const struct top_cell *cell,
		       char text[TOP_CELL])
{
	char used[8], size[8], bytes[12];

	if (row->blind && column->form != TOP_TEXT && column->form != TOP_EXACT) {
		strcpy(text, "-");
		return;
	}
	switch (column->form) {
	case TOP_TEXT:
		snprintf(text, TOP_CELL, "%s", cell->text && *cell->text ? cell->text : "-");
		break;
	case TOP_EXACT:
		snprintf(text, TOP_CELL, "%.0f", cell->number);
		break;
	case TOP_NUMBER:
	case TOP_RATE:
		short_number((uint64_t)(cell->number + 0.5), used);
		snprintf(text, TOP_CELL, "%s", used);
		break;
	case TOP_BYTES:
		short_bytes((uint64_t)cell->number, bytes);
		snprintf(text, TOP_CELL, "%s", bytes);
		break;
	case TOP_USED:
		short_number((uint64_t)cell->number, used);
		short_number((uint64_t)cell->of, size);
		snprintf(text, TOP_CELL, "%s/%s", used, size);
		break;
	}
}

unsigned top_fitting(const struct top_table *table, unsigned room)
{
	unsigned used = 0, c;

	for (c = 0; c < table->columns && used + table->column[c].width <= room; c++)
		used += table->column[c].width + 1;
	return c ? c : 1;
}

void top_line(const struct top_table *table, const struct top_row *row, const struct top_order *order,
	      unsigned room, char *text, size_t size)
{
	unsigned columns = top_fitting(table, room), c;
	size_t used = 0;
	char cell[TOP_CELL];

	if (row && row->blind && columns > BLIND_COLUMNS)
		columns = BLIND_COLUMNS;
	text[0] = '\0';
	for (c = 0; c < columns && used + 32 < size; c++) {
		const struct top_column *column = &table->column[c];
		bool left = column->form == TOP_TEXT;

		if (row)
			cell_write(row, column, &row->cell[c], cell);
		else
			snprintf(cell, sizeof(cell), "%s%s", order && order->column == c ? "*" : "",
				 column->title);
		used += (size_t)snprintf(text + used, size - used, left ? "%-*.*s " : "%*.*s ", (int)column->width,
					 (int)column->width, cell);
	}
	if (row && row->blind && used < room)
		snprintf(text + used, size - used, "%s", row->why);
	if (strlen(text) > room)
		text[room] = '\0';
	for (used = strlen(text); used && text[used - 1] == ' '; used--)
		text[used - 1] = '\0';
}

/* ---- which rows, in which order ---- */

static bool contains(const char *text, const char *part)
{
	size_t length = strlen(part);

	for (; *text; text++)
		if (!strncasecmp(text, part, length))
			return true;
	return !length;
}

static bool row_matches(const struct top_table *table, const struct top_row *row, const char *filter)
{
	char cell[TOP_CELL];

	for (unsigned c = 0; c < table->columns; c++) {
		cell_write(row, &table->column[c], &row->cell[c], cell);
		if (contains(cell, filter))
			return true;
	}
	return contains(row->why, filter);
}

static void table_filter(struct top_table *table, const char *filter)
{
	unsigned kept = 0;

	for (unsigned i = 0; *filter && i < table->rows; i++)
		if (row_matches(table, &table->row[i], filter))
			table->row[kept++] = table->row[i];
	if (*filter)
		table->rows = kept;
}

static struct {
	const struct top_column *column;
	struct top_order order;
} sorting;

/* The largest number, or the first text. Those that are not shown come last. */
static int by_order(const void *a, const void *b)
{
	const struct top_row *left = a, *right = b;
	const struct top_cell *one = &left->cell[sorting.order.column];
	const struct top_cell *other = &right->cell[sorting.order.column];
	int result;

	if (left->blind != right->blind)
		return left->blind ? 1 : -1;
	if (sorting.column->form == TOP_TEXT)
		result = strcmp(one->text ? one->text : "", other->text ? other->text : "");
	else
		result = (one->number < other->number) - (one->number > other->number);
	if (result)
		return sorting.order.reversed ? -result : result;
	return (left->place > right->place) - (left->place < right->place);
}

bool top_table_make(struct top_table *table, enum top_kind kind, const struct top_sample *now,
		    const struct top_sample *before, const char *filter, const struct top_order *order)
{
	unsigned most = now->err ? 0 : rows_at_most(kind, &now->observed);

	*table = (struct top_table){ .kind = kind, .column = views[kind].column, .columns = views[kind].columns };
	table->row = calloc(most + 1, sizeof(*table->row));
	if (!table->row)
		return false;
	if (most)
		table->rows = add_rows(table->row, kind, now, before);
	table_filter(table, filter);
	sorting.column = &table->column[order->column];
	sorting.order = *order;
	qsort(table->row, table->rows, sizeof(*table->row), by_order);
	return true;
}

void top_table_free(struct top_table *table)
{
	free(table->row);
	*table = (struct top_table){ .rows = 0 };
}

struct top_order top_order_default(enum top_kind kind)
{
	return (struct top_order){ .column = views[kind].sorted };
}

unsigned top_columns(enum top_kind kind)
{
	return views[kind].columns;
}
