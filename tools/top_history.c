/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rates of the last samples of verbatim top, of each row that is still there (top.h): how it went, as
 * characters that rise with the rate, the latest right.
 */
#include "top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX	4096u		/* more have no history */

struct top_past {
	char name[TOP_NAME];
	bool seen;			/* in the latest sample */
	double rate[TOP_HISTORY][TOP_COLUMNS];	/* by sample, a ring; below 0: none */
};

static struct top_past *history_of(const struct top_history *history, const char *name)
{
	for (unsigned i = 0; i < history->rows; i++)
		if (!strcmp(history->past[i].name, name))
			return &history->past[i];
	return NULL;
}

static struct top_past *history_begin(struct top_history *history, const char *name)
{
	struct top_past *past = history->rows < ROWS_MAX ?
		realloc(history->past, (history->rows + 1) * sizeof(*past)) : NULL;

	if (!past)
		return NULL;
	history->past = past;
	past += history->rows++;
	snprintf(past->name, sizeof(past->name), "%s", name);
	for (unsigned i = 0; i < TOP_HISTORY; i++)
		for (unsigned c = 0; c < TOP_COLUMNS; c++)
			past->rate[i][c] = -1;
	return past;
}

void top_history_add(struct top_history *history, const struct top_table *table)
{
	unsigned now = history->samples++ % TOP_HISTORY, kept = 0;

	for (unsigned i = 0; i < history->rows; i++)
		history->past[i].seen = false;
	for (unsigned i = 0; i < table->rows; i++) {
		const struct top_row *row = &table->row[i];
		struct top_past *past = history_of(history, row->name);

		past = past ? past : history_begin(history, row->name);
		if (!past)
			continue;
		past->seen = true;
		for (unsigned c = 0; c < table->columns; c++)
			past->rate[now][c] = row->blind ? -1 : row->cell[c].number;
	}
	for (unsigned i = 0; i < history->rows; i++)
		if (history->past[i].seen)
			history->past[kept++] = history->past[i];
	history->rows = kept;
}

void top_history_free(struct top_history *history)
{
	free(history->past);
	*history = (struct top_history){ .rows = 0 };
}

/* The column that is sorted by, if it has rates; else the first that has. */
static unsigned history_column(const struct top_table *table, unsigned wanted)
{
	unsigned column = 0;

	if (strstr(table->column[wanted].title, "/s"))
		return wanted;
	while (column + 1 < table->columns && !strstr(table->column[column].title, "/s"))
		column++;
	return column;
}

void top_history_line(const struct top_history *history, const struct top_table *table, const char *name,
		      unsigned wanted, unsigned room, char *text, size_t size)
{
	static const char levels[] = "_.-~=+*#";
	const struct top_past *past = history_of(history, name);
	unsigned column = history_column(table, wanted), shown;
	double most = 0;
	size_t used;

	used = (size_t)snprintf(text, size, "%s: %s ", name, table->column[column].title);
	if (!past || room < used + 24 || size < used + TOP_HISTORY + 24) {
		*text = '\0';
		return;
	}
	shown = room - (unsigned)used - 16 < TOP_HISTORY ? room - (unsigned)used - 16 : TOP_HISTORY;
	for (unsigned i = 0; i < shown; i++) {
		double rate = past->rate[(history->samples + TOP_HISTORY - 1 - i) % TOP_HISTORY][column];

		most = rate > most ? rate : most;
	}
	for (unsigned i = shown; i-- > 0;) {
		double rate = past->rate[(history->samples + TOP_HISTORY - 1 - i) % TOP_HISTORY][column];
		unsigned level = most > 0 && rate > 0 ? 1 + (unsigned)(rate / most * 6.999) : 0;

		text[used++] = rate < 0 ? ' ' : levels[level < 8 ? level : 7];
	}
	snprintf(text + used, size - used, most < 1e4 ? " most %.0f" : most < 1e7 ? " most %.0fk" : " most %.0fM",
		 most < 1e4 ? most : most < 1e7 ? most / 1e3 : most / 1e6);
}
