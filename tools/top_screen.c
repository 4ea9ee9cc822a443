/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim top on a terminal (top.h): a list of processes, and the queue pairs of one. Keys are read while the
 * next sample is waited for. The selected row keeps selected, wherever it moves.
 *
 *	line 0		what is shown		the last three	of the selected row: how its rates went; why
 *	line 1		titles				keys, or the filter as it is typed
 */
#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "top.h"

#define LINE_BYTES	1024u
#define FILTER_MAX	32u
#define NS_PER_MS	1000000ull
#define HEAD_LINES	2
#define FOOT_LINES	3
#define KEY_CODE_ESC	27

struct screen {
	enum top_kind kind;
	const char *given;		/* of the command line; NULL */
	char process[TOP_NAME];		/* whose QPs are shown */
	struct top_sample now, before;
	struct top_table table;
	struct top_order order[TOP_KINDS];
	char filter[FILTER_MAX + 1];
	bool typing;			/* the filter */
	bool helping;			/* keys and columns, instead of the rows */
	struct top_history history;
	char selected[TOP_NAME];
	int first, at;			/* rows: the first on the screen, the selected one */
	unsigned delay_ms;
	bool ended;
};

/* ---- what is shown ---- */

static const char *screen_what(const struct screen *screen)
{
	return screen->kind == TOP_QPS ? screen->process : screen->given;
}

static int screen_room(void)
{
	return LINES > HEAD_LINES + FOOT_LINES ? LINES - HEAD_LINES - FOOT_LINES : 0;
}

static void screen_keep_selected(struct screen *screen)
{
	int rows = (int)screen->table.rows, room = screen_room(), i;

	for (i = 0; i < rows; i++)
		if (!strcmp(screen->table.row[i].name, screen->selected))
			screen->at = i;
	if (screen->at >= rows)
		screen->at = rows ? rows - 1 : 0;
	if (screen->at < screen->first)
		screen->first = screen->at;
	if (room && screen->at >= screen->first + room)
		screen->first = screen->at - room + 1;
	if (rows)
		strcpy(screen->selected, screen->table.row[screen->at].name);
}

static void screen_make_table(struct screen *screen)
{
	top_table_free(&screen->table);
	if (!top_table_make(&screen->table, screen->kind, &screen->now, &screen->before, screen->filter,
			    &screen->order[screen->kind]))
		screen->table.rows = 0;
	screen_keep_selected(screen);
}

/* Rates of all rows: a filter may go. */
static void screen_remember(struct screen *screen)
{
	if (screen->before.time_ns &&
	    top_table_make(&screen->table, screen->kind, &screen->now, &screen->before, "",
			   &screen->order[screen->kind]))
		top_history_add(&screen->history, &screen->table);
	top_table_free(&screen->table);
}

static void screen_sample(struct screen *screen)
{
	top_table_free(&screen->table);
	top_sample_free(&screen->before);
	screen->before = screen->now;
	screen->now = (struct top_sample){ .time_ns = 0 };
	top_sample_take(&screen->now, screen->kind, screen_what(screen));
	screen_remember(screen);
	screen_make_table(screen);
}

/* Another kind: rates begin anew. */
static void screen_show(struct screen *screen, enum top_kind kind)
{
	top_table_free(&screen->table);
	top_sample_free(&screen->before);
	top_sample_free(&screen->now);
	top_history_free(&screen->history);
	screen->kind = kind;
	screen->filter[0] = screen->selected[0] = '\0';
	screen->first = screen->at = 0;
	if (kind == TOP_PROCESSES)
		strcpy(screen->selected, screen->process);
	screen_sample(screen);
}

/* ---- drawing ---- */

static void draw_line(int y, attr_t attributes, const char *text)
{
	if (y < 0 || y >= LINES)
		return;
	attrset(attributes);
	move(y, 0);
	clrtoeol();
	addnstr(text, COLS);
	if (attributes & A_REVERSE)
		for (int x = (int)strlen(text); x < COLS; x++)
			addch(' ');
	attrset(A_NORMAL);
}

static void draw_head(const struct screen *screen)
{
	const struct observed *observed = &screen->now.observed;
	char text[LINE_BYTES];

	if (screen->now.err)
		snprintf(text, sizeof(text), "%s", observed->why);
	else if (screen->kind == TOP_QPS && observed->count && !observed->shown)
		snprintf(text, sizeof(text), "%s", observed->process[0].process.why);
	else if (screen->kind == TOP_QPS)
		snprintf(text, sizeof(text), "%s (%s): %u QPs, every %.1f s%s%s",
			 observed->count ? observed->process[0].process.program : "?", screen->process,
			 screen->table.rows, screen->delay_ms / 1000.0, *screen->filter ? ", filter " : "",
			 screen->filter);
	else
		snprintf(text, sizeof(text), "verbatim top: %u process%s, %u not shown, every %.1f s%s%s",
			 observed->count, observed->count == 1 ? "" : "es", observed->count - observed->shown,
			 screen->delay_ms / 1000.0, *screen->filter ? ", filter " : "", screen->filter);
	draw_line(0, A_BOLD, text);
	top_line(&screen->table, NULL, &screen->order[screen->kind], (unsigned)COLS, text, sizeof(text));
	draw_line(1, A_REVERSE, text);
}

static void draw_foot(const struct screen *screen)
{
	const struct top_row *row = screen->table.rows ? &screen->table.row[screen->at] : NULL;
	char text[LINE_BYTES] = "";

	if (row)
		top_history_line(&screen->history, &screen->table, row->name,
				 screen->order[screen->kind].column, (unsigned)COLS, text, sizeof(text));
	draw_line(LINES - 3, A_NORMAL, text);
	*text = '\0';
	if (row && screen->kind == TOP_QPS && *row->why)
		snprintf(text, sizeof(text), "%s: path %s: %s", row->name, row->cell[3].text, row->why);
	else if (row && row->blind)
		snprintf(text, sizeof(text), "%s", row->why);
	draw_line(LINES - 2, A_NORMAL, text);
	if (screen->typing)
		snprintf(text, sizeof(text), "filter: %s_", screen->filter);
	else if (screen->kind == TOP_QPS)
		snprintf(text, sizeof(text), "q quit  ? help  Esc back  < > sort  r reverse  / filter  "
			 "+ - delay");
	else
		snprintf(text, sizeof(text), "q quit  ? help  Enter QPs  < > sort  r reverse  / filter  "
			 "+ - delay");
	draw_line(LINES - 1, A_BOLD, text);
}

static void draw_help(void)
{
	static const char *const lines[] = {
		"Up Down PgUp PgDn Home End   select a row; it stays selected, wherever it moves",
		"Enter                        the queue pairs of the selected process",
		"Esc Left Backspace           back to the processes; or takes the filter away",
		"< >                          sort by the column before or behind the one with *",
		"r                            reverse the order",
		"/                            only rows that contain a text",
		"+ -                          half a second more or less between looks",
		"q                            quit",
		"",
		"DIRECT/s  operations without packets      TX/s RX/s  packets     TXB/s RXB/s  bytes",
		"RETRY  sent again    RNR  receiver was not ready    ERR  failed    DROP  dropped",
		"SQ RQ  posted/size   FLIGHT WINDOW  bytes under way, at most      WAITS  for what",
		"Below the rows: how the rate of the selected one went, the latest right.",
		"",
		"Any key goes back. More: man verbatim-top",
	};

	erase();
	draw_line(0, A_BOLD, "verbatim top: keys and columns");
	for (int i = 0; i < (int)(sizeof(lines) / sizeof(*lines)); i++)
		draw_line(i + 2, A_NORMAL, lines[i]);
	refresh();
}

static void draw(const struct screen *screen)
{
	int room = screen_room(), i;
	char text[LINE_BYTES];

	if (screen->helping) {
		draw_help();
		return;
	}
	erase();
	draw_head(screen);
	for (i = 0; i < room && screen->first + i < (int)screen->table.rows; i++) {
		const struct top_row *row = &screen->table.row[screen->first + i];
		attr_t attributes = screen->first + i == screen->at ? A_REVERSE : row->blind ? A_DIM : A_NORMAL;

		top_line(&screen->table, row, NULL, (unsigned)COLS, text, sizeof(text));
		draw_line(HEAD_LINES + i, attributes, text);
	}
	if (LINES > HEAD_LINES)
		draw_foot(screen);
	refresh();
}

/* ---- keys ---- */

static void move_selection(struct screen *screen, int by)
{
	int at = screen->at + by, rows = (int)screen->table.rows;

	if (!rows)
		return;
	at = at < 0 ? 0 : at >= rows ? rows - 1 : at;
	strcpy(screen->selected, screen->table.row[at].name);
	screen->at = at;
	screen_keep_selected(screen);
}

static void move_order(struct screen *screen, int by)
{
	struct top_order *order = &screen->order[screen->kind];
	unsigned columns = top_columns(screen->kind);

	order->column = (order->column + columns + (unsigned)by) % columns;
	screen_make_table(screen);
}

static void key_of_filter(struct screen *screen, int key)
{
	size_t length = strlen(screen->filter);

	if (key == '\n' || key == KEY_ENTER || key == '\r') {
		screen->typing = false;
	} else if (key == KEY_CODE_ESC) {
		screen->typing = false;
		screen->filter[0] = '\0';
	} else if (key == KEY_BACKSPACE || key == 127 || key == 8) {
		if (length)
			screen->filter[length - 1] = '\0';
	} else if (key >= ' ' && key < 127 && length < FILTER_MAX) {
		screen->filter[length] = (char)key;
		screen->filter[length + 1] = '\0';
	}
	screen_make_table(screen);
}

static void key_enter(struct screen *screen)
{
	if (screen->kind != TOP_PROCESSES || !screen->table.rows || screen->table.row[screen->at].blind)
		return;
	strcpy(screen->process, screen->table.row[screen->at].name);
	screen_show(screen, TOP_QPS);
}

static void key_back(struct screen *screen)
{
	if (screen->kind == TOP_QPS)
		screen_show(screen, TOP_PROCESSES);
	else if (*screen->filter)
		screen->filter[0] = '\0';
	screen_make_table(screen);
}

static void change_delay(struct screen *screen, int by_ms)
{
	int delay_ms = (int)screen->delay_ms + by_ms;

	if (delay_ms >= 500 && delay_ms <= 60000)
		screen->delay_ms = (unsigned)delay_ms;
}

static void key_pressed(struct screen *screen, int key)
{
	if (screen->helping && key != KEY_RESIZE) {
		screen->helping = false;
		return;
	}
	switch (key) {
	case 'q':
		screen->ended = true;
		break;
	case '?':
	case 'h':
		screen->helping = true;
		break;
	case KEY_UP:
		return move_selection(screen, -1);
	case KEY_DOWN:
		return move_selection(screen, 1);
	case KEY_PPAGE:
		return move_selection(screen, -screen_room());
	case KEY_NPAGE:
		return move_selection(screen, screen_room());
	case KEY_HOME:
		return move_selection(screen, -(int)screen->table.rows);
	case KEY_END:
		return move_selection(screen, (int)screen->table.rows);
	case '<':
		return move_order(screen, -1);
	case '>':
		return move_order(screen, 1);
	case 'r':
		screen->order[screen->kind].reversed = !screen->order[screen->kind].reversed;
		return screen_make_table(screen);
	case '/':
		screen->typing = true;
		break;
	case '+':
		return change_delay(screen, 500);
	case '-':
		return change_delay(screen, -500);
	case '\n':
	case '\r':
	case KEY_ENTER:
		return key_enter(screen);
	case KEY_CODE_ESC:
	case KEY_BACKSPACE:
	case KEY_LEFT:
	case 127:
		return key_back(screen);
	default:	/* KEY_RESIZE: drawn anew in any case */
		screen_keep_selected(screen);
	}
}

/* Until it is time for the next sample. */
static void read_keys(struct screen *screen, uint64_t until_ns)
{
	uint64_t now_ns;
	int key;

	while (!screen->ended && (now_ns = clock_now_ns()) < until_ns) {
		timeout((int)((until_ns - now_ns) / NS_PER_MS) + 1);
		key = getch();
		if (key == ERR)
			continue;
		if (screen->typing && key != KEY_RESIZE)
			key_of_filter(screen, key);
		else
			key_pressed(screen, key);
		draw(screen);
	}
}

/* ---- the terminal ---- */

static bool is_process(const char *what)
{
	return what && *what && strspn(what, "0123456789") == strlen(what) && strlen(what) < TOP_NAME;
}

int top_screen(const char *what, unsigned delay_ms)
{
	static struct screen screen;
	SCREEN *terminal = newterm(NULL, stdout, stdin);

	if (!terminal) {
		fprintf(stderr, "verbatim top: the terminal '%s' (TERM) is not known; for text: verbatim top "
			"--batch ROUNDS\n", getenv("TERM") ? getenv("TERM") : "");
		return EXIT_FAILURE;
	}
	screen = (struct screen){ .delay_ms = delay_ms, .given = is_process(what) ? NULL : what,
				  .order = { top_order_default(TOP_PROCESSES), top_order_default(TOP_QPS) } };
	if (is_process(what)) {
		screen.kind = TOP_QPS;
		strcpy(screen.process, what);
	}
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	screen_sample(&screen);
	while (!screen.ended) {
		draw(&screen);
		read_keys(&screen, screen.now.time_ns + screen.delay_ms * NS_PER_MS);
		if (!screen.ended)
			screen_sample(&screen);
	}
	endwin();
	delscreen(terminal);
	top_table_free(&screen.table);
	top_sample_free(&screen.before);
	top_sample_free(&screen.now);
	top_history_free(&screen.history);
	return 0;
}
