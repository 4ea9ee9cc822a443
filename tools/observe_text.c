/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics as tables for people. A table has the columns that fit: the last ones of its list go first
 * where the terminal is narrow, and what went is named below it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "observe.h"

#define COLUMNS_MAX	16u
#define CELL_MAX	96u

enum form { FORM_TEXT, FORM_EXACT, FORM_NUMBER, FORM_BYTES, FORM_USED, FORM_AGE, FORM_STATUS };

/* FORM_USED: "3/16", of field and second. FORM_NUMBER: "12k". */
struct column {
	const char *title, *field;
	enum form form;
	const char *second;
};

static const struct column device_columns[] = {
	{ "DEVICE", OBSERVED(device, device) }, { "STATE", OBSERVED(device, state) },
	{ "IFACE", OBSERVED(device, interface) }, { "MTU", OBSERVED(device, mtu), FORM_EXACT },
	{ "GIDS", OBSERVED(device, gids), FORM_NUMBER },
	{ "OPEN", OBSERVED(device, contexts), FORM_NUMBER },
};
static const struct column qp_columns[] = {
	{ "QP", OBSERVED(qp, qp) }, { "TYPE", OBSERVED(qp, type) },
	{ "STATE", OBSERVED(qp, state) }, { "PATH", OBSERVED(qp, path) },
	{ "SENT", OBSERVED(qp, sends_completed), FORM_NUMBER },
	{ "RECV", OBSERVED(qp, receives_taken), FORM_NUMBER },
	{ "SQ", OBSERVED(qp, send_posted), FORM_USED, OBSERVED(qp, send_size) },
	{ "RQ", OBSERVED(qp, recv_posted), FORM_USED, OBSERVED(qp, recv_size) },
	{ "PEER", OBSERVED(qp, peer) }, { "PEER QP", OBSERVED(qp, peer_qp) },
	{ "RETRY", OBSERVED(qp, retransmissions), FORM_NUMBER },
	{ "RNR", OBSERVED(qp, rnr_received), FORM_NUMBER },
	{ "LAST ERROR", OBSERVED(qp, last_error), FORM_STATUS },
	{ "IN FLIGHT", OBSERVED(qp, in_flight_bytes), FORM_BYTES },
	{ "WINDOW", OBSERVED(qp, window_bytes), FORM_BYTES },
	{ "WAITS FOR", OBSERVED(qp, waits_for) },
};
static const struct column cq_columns[] = {
	{ "CQ", OBSERVED(cq, cq) },
	{ "WAITING", OBSERVED(cq, waiting), FORM_USED, OBSERVED(cq, size) },
	{ "POLLED", OBSERVED(cq, polled), FORM_NUMBER }, { "ARMED", OBSERVED(cq, armed) },
	{ "USERS", OBSERVED(cq, users), FORM_NUMBER }, { "OVERFLOWED", OBSERVED(cq, overflowed) },
	{ "DEVICE", OBSERVED(cq, device) },
};
static const struct column srq_columns[] = {
	{ "SRQ", OBSERVED(srq, srq) },
	{ "POSTED", OBSERVED(srq, posted), FORM_USED, OBSERVED(srq, size) },
	{ "TAKEN", OBSERVED(srq, taken), FORM_NUMBER },
	{ "LIMIT", OBSERVED(srq, limit), FORM_NUMBER },
	{ "USERS", OBSERVED(srq, users), FORM_NUMBER }, { "DEVICE", OBSERVED(srq, device) },
};
static const struct column mr_columns[] = {
	{ "MR", OBSERVED(mr, key) }, { "BYTES", OBSERVED(mr, bytes), FORM_BYTES },
	{ "ACCESS", OBSERVED(mr, access) }, { "KIND", OBSERVED(mr, kind) },
	{ "AGE", OBSERVED(mr, age_ms), FORM_AGE }, { "ADDRESS", OBSERVED(mr, address) },
	{ "DEVICE", OBSERVED(mr, device) },
};
static const struct column id_columns[] = {
	{ "CM ID", OBSERVED(cm_id, id) }, { "STATE", OBSERVED(cm_id, state) },
	{ "TO", OBSERVED(cm_id, destination) }, { "FROM", OBSERVED(cm_id, source) },
	{ "QP", OBSERVED(cm_id, qp) }, { "SPACE", OBSERVED(cm_id, space) },
	{ "DEVICE", OBSERVED(cm_id, device) },
};

static const struct table {
	const char *kind;
	const struct column *column;
	unsigned columns;
} tables[] = {
#define TABLE(kind, columns) { kind, columns, sizeof(columns) / sizeof(columns[0]) }
	TABLE("device", device_columns), TABLE("qp", qp_columns), TABLE("cq", cq_columns),
	TABLE("srq", srq_columns), TABLE("mr", mr_columns), TABLE("cm_id", id_columns),
#undef TABLE
};

/* ---- cells ---- */

static const char *status_name(uint64_t status)
{
	static const char *const names[] = {
		"-", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR",
		"MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR",
		"REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR",
	};

	return status < sizeof(names) / sizeof(names[0]) ? names[status] : "?";
}

static void write_age(uint64_t ms, char *text)
{
	if (ms < 60000)
		snprintf(text, CELL_MAX, "%.1fs", (double)ms / 1000);
	else if (ms < 7200000)
		snprintf(text, CELL_MAX, "%um", (unsigned)(ms / 60000));
	else
		snprintf(text, CELL_MAX, "%uh", (unsigned)(ms / 3600000));
}

static void write_cell(const struct observed_record *record, const struct column *column, char text[CELL_MAX])
{
	uint64_t number = observed_number(record, column->field);
	char one[12], two[8];

	switch (column->form) {
	case FORM_TEXT:
	case FORM_EXACT:
		snprintf(text, CELL_MAX, "%s", observed_text(record, column->field));
		break;
	case FORM_NUMBER:
		short_number(number, text);
		break;
	case FORM_BYTES:
		short_bytes(number, one);
		snprintf(text, CELL_MAX, "%s", one);
		break;
	case FORM_USED:
		short_number(number, one);
		short_number(observed_number(record, column->second), two);
		snprintf(text, CELL_MAX, "%s/%s", one, two);
		break;
	case FORM_AGE:
		write_age(number, text);
		break;
	case FORM_STATUS:
		snprintf(text, CELL_MAX, "%s", status_name(number));
		break;
	}
	if (!*text)
		strcpy(text, "-");
}

/* ---- tables ---- */

static bool is_row(const struct observed_record *record, const char *kind)
{
	return !record->hidden && !strcmp(record->kind, kind);
}

/* The width of each column; returns how many rows there are. */
static unsigned measure(const struct observed_process *process, const struct table *table,
			unsigned width[COLUMNS_MAX])
{
	char cell[CELL_MAX];
	unsigned rows = 0, i, c;

	for (c = 0; c < table->columns; c++)
		width[c] = (unsigned)strlen(table->column[c].title);
	for (i = 0; i < process->count; i++) {
		if (!is_row(&process->record[i], table->kind))
			continue;
		rows++;
		for (c = 0; c < table->columns; c++) {
			write_cell(&process->record[i], &table->column[c], cell);
			if (strlen(cell) > width[c])
				width[c] = (unsigned)strlen(cell);
		}
	}
	return rows;
}

static unsigned fitting(const struct table *table, const unsigned *width, unsigned room)
{
	unsigned used = 0, c;

	for (c = 0; c < table->columns && used + width[c] + 2 <= room; c++)
		used += width[c] + 2;
	return c ? c : 1;
}

/* Numbers stand to the right. Trailing blanks are not printed. */
static void print_cells(const struct table *table, const struct observed_record *record, const unsigned *width,
			unsigned columns)
{
	char cell[CELL_MAX];
	unsigned c;

	for (c = 0; c < columns; c++) {
		bool right = table->column[c].form != FORM_TEXT && table->column[c].form != FORM_STATUS;

		if (record)
			write_cell(record, &table->column[c], cell);
		else
			snprintf(cell, sizeof(cell), "%s", table->column[c].title);
		if (right)
			printf("  %*s", (int)width[c], cell);
		else
			printf("  %-*s", c + 1 < columns ? (int)width[c] : 0, cell);
	}
	printf("\n");
}

static void print_table(const struct observed_process *process, const struct table *table, unsigned room)
{
	unsigned width[COLUMNS_MAX], columns, i;

	if (!measure(process, table, width))
		return;
	columns = fitting(table, width, room);
	print_cells(table, NULL, width, columns);
	for (i = 0; i < process->count; i++)
		if (is_row(&process->record[i], table->kind))
			print_cells(table, &process->record[i], width, columns);
	if (columns == table->columns)
		return;
	printf("  (no room for");
	for (i = columns; i < table->columns; i++)
		printf("%s %s", i > columns ? "," : "", table->column[i].title);
	printf(")\n");
}

/* ---- the rest of a process ---- */

#define REASONS_MAX	16u

/* Why requests do not take the fastest way: each reason once. */
static void print_reasons(const struct observed_process *process)
{
	const char *told[REASONS_MAX];
	unsigned count = 0, i, j;

	for (i = 0; i < process->count && count < REASONS_MAX; i++) {
		const struct observed_record *record = &process->record[i];
		const char *why = observed_text(record, "why");

		if (!is_row(record, "qp") || !*why)
			continue;
		for (j = 0; j < count && strcmp(told[j], why); j++)
			;
		if (j < count)
			continue;
		told[count++] = why;
		printf("  path %s: %s\n", observed_text(record, "path"), why);
	}
}

/* Only of counters that we know. */
static const char *meaning_of(const char *name)
{
	for (unsigned i = 0; i < COUNTER_COUNT; i++)
		if (!strcmp(counter_name(i), name))
			return counter_text(i);
	return "";
}

static void print_counters(const struct observed_record *record, unsigned room, bool all)
{
	int text_room = room > 44 ? (int)room - 42 : 0;
	unsigned zero = 0, i;

	for (i = 1; record && i < record->count; i++) {
		const struct observed_value *value = &record->value[i];

		if (!all && !strcmp(value->text, "0"))
			zero++;
		else
			printf("  %-24s %12s  %.*s\n", value->name, value->text, text_room,
			       meaning_of(value->name));
	}
	if (zero)
		printf("  (%u counters are 0: --all shows them)\n", zero);
}

static void print_count(uint64_t count, const char *what)
{
	const char *end = count == 1 ? "" : what[strlen(what) - 1] == 's' ? "es" : "s";

	printf("%llu %s%s", (unsigned long long)count, what, end);
}

static void print_process_text(const struct observed_process *process, unsigned room, bool all)
{
	const struct observed_record *record = observed_first(process, "process");
	char bytes[12];
	unsigned i;

	short_bytes(observed_number(record, "mr_bytes"), bytes);
	printf("%s (%d), user %u\n  ", process->process.program, (int)process->process.pid,
	       (unsigned)process->process.uid);
	print_count(observed_number(record, "qp_count"), "QP");
	printf(", ");
	print_count(observed_number(record, "mr_count"), "MR");
	printf(" of %s; memory %s, shared with ", bytes, observed_text(record, "memory"));
	print_count(observed_number(record, "shares_memory_with"), "process");
	printf("\n");
	for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		print_table(process, &tables[i], room);
	print_reasons(process);
	print_counters(observed_first(process, "counters"), room, all);
	if (process->cut)
		printf("  (cut: the process is slow to answer; --wait SECONDS waits longer)\n");
}

void observed_print(const struct observed *observed, bool all)
{
	unsigned room = output_columns(), printed = 0, i;

	for (i = 0; i < observed->count; i++) {
		if (!observed->process[i].shown)
			continue;
		if (printed++)
			printf("\n");
		print_process_text(&observed->process[i], room, all);
	}
	if (!observed->count)
		printf("no process of this network namespace has a device of Verbatim open\n");
	else if (printed < observed->count)
		printf("%s%u not shown: the reasons are above\n", printed ? "\n" : "", observed->count - printed);
}
