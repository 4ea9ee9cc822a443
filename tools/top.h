/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim top: two samples of what processes answer to "stats" (observe.h) make a table with rates.
 *
 *	top.c		options; batch mode
 *	top_table.c	samples, rows, sorting, filters, cells as text: no terminal
 *	top_history.c	how the rates of a row went
 *	top_screen.c	the terminal, by ncurses
 */
#ifndef VERBATIM_TOOLS_TOP_H
#define VERBATIM_TOOLS_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "observe.h"

#define TOP_COLUMNS	16u
#define TOP_CELL	24u		/* bytes of a cell's text */
#define TOP_HISTORY	60u		/* samples whose rates are remembered */
#define TOP_NAME	16u		/* of what tells rows apart: a process ID, a QP number */

enum top_form { TOP_TEXT, TOP_EXACT, TOP_NUMBER, TOP_RATE, TOP_BYTES, TOP_USED };

/* Columns come in the order of their importance: those that do not fit are left out. */
struct top_column {
	const char *title;
	unsigned width;
	enum top_form form;
};

struct top_cell {
	double number, of;		/* TOP_USED: "3/16" */
	const char *text;		/* TOP_TEXT: the sample's, or of the program */
};

struct top_row {
	char name[TOP_NAME];
	const char *why;		/* a process is not shown, the path of a QP is not the fastest; or "" */
	unsigned place;			/* in the sample: rows that are equal keep their order */
	bool blind;			/* a process that is not shown: its cells are empty */
	struct top_cell cell[TOP_COLUMNS];
};

enum top_kind { TOP_PROCESSES, TOP_QPS, TOP_KINDS };

struct top_sample {
	struct observed observed;
	uint64_t time_ns;		/* 0: there is none */
	int err;			/* then observed.why */
};

struct top_table {
	enum top_kind kind;
	const struct top_column *column;
	unsigned columns;
	struct top_row *row;
	unsigned rows;
};

struct top_order {
	unsigned column;
	bool reversed;			/* numbers: the smallest first; texts: the last */
};

/* Ask for what a table of that kind shows. @what as observe(). */
void top_sample_take(struct top_sample *sample, enum top_kind kind, const char *what);
void top_sample_free(struct top_sample *sample);

/*
 * The rows of @now with rates since @before, those that @filter is in ("": all), in that order. They lead into
 * the memory of @now. False: out of memory.
 */
bool top_table_make(struct top_table *table, enum top_kind kind, const struct top_sample *now,
		    const struct top_sample *before, const char *filter, const struct top_order *order);
void top_table_free(struct top_table *table);
/* The column by which a kind of table is sorted at first. */
struct top_order top_order_default(enum top_kind kind);
unsigned top_columns(enum top_kind kind);

/* How many columns fit into @room. */
unsigned top_fitting(const struct top_table *table, unsigned room);
/* A line of it, without what does not fit; row NULL: the titles, that of the order's marked. */
void top_line(const struct top_table *table, const struct top_row *row, const struct top_order *order,
	      unsigned room, char *text, size_t size);

struct top_history {
	struct top_past *past;
	unsigned rows, samples;
};

/* After each sample: what is in @table, unfiltered, of one kind always. */
void top_history_add(struct top_history *history, const struct top_table *table);
void top_history_free(struct top_history *history);
/* How the rates of row @name went, by column @wanted or the first that has some; "": no room, no such row. */
void top_history_line(const struct top_history *history, const struct top_table *table, const char *name,
		      unsigned wanted, unsigned room, char *text, size_t size);

/* top_screen.c: until the user ends it. 0, or 1 after a line on stderr. */
int top_screen(const char *what, unsigned delay_ms);

#endif
