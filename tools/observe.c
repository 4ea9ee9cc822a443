/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks processes for their statistics, and reads what they answer (observe.h). */
#include "observe.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TEXT_MAX	(256u << 20)	/* bytes that one process may answer */
#define COLUMNS_OTHER	120u

/* ---- reading records ---- */

/* A text in quotes at *at: terminated in place. NULL: it is none. */
static char *read_quoted(char **at)
{
	char *begin = *at + 1, *end;

	if (**at != '"')
		return NULL;
	for (end = begin; *end != '"'; end++) {
		if (!isprint((unsigned char)*end))
			return NULL;
		if (*end == '\\' && !(end[1] == 'u' && end[2] == '0' && end[3] == '0' &&
				      isxdigit((unsigned char)end[4]) && isxdigit((unsigned char)end[5])))
			return NULL;
	}
	*end = '\0';
	*at = end + 1;
	return begin;
}

/* A number, true or false: not terminated yet. */
static char *read_bare(char **at)
{
	char *begin = *at;
	size_t length = strcspn(begin, ",}");
	bool is_word = (length == 4 && !strncmp(begin, "true", 4)) || (length == 5 && !strncmp(begin, "false", 5));

	if (!length || length > 20 || !begin[length] || (!is_word && strspn(begin, "0123456789") != length))
		return NULL;
	*at += length;
	return begin;
}

/* {"record":"KIND","NAME":VALUE,...}: values are written behind @value. False: it is no record. */
static bool read_record(char *line, struct observed_record *record, struct observed_value *value)
{
	char *at = line, end = '{';

	record->value = value;
	record->count = 0;
	if (*at != '{')
		return false;
	do {
		struct observed_value *now = &value[record->count];

		at++;
		now->name = read_quoted(&at);
		if (!now->name || *at++ != ':')
			return false;
		now->quoted = *at == '"';
		now->text = now->quoted ? read_quoted(&at) : read_bare(&at);
		if (!now->text)
			return false;
		end = *at;
		if (!now->quoted)
			*at = '\0';
		record->count++;
	} while (end == ',');
	if (end != '}' || at[1] || strcmp(value[0].name, "record") || !value[0].quoted)
		return false;
	record->kind = value[0].text;
	return true;
}

static size_t occurrences(const char *text, char letter)
{
	size_t count = 0;

	while ((text = strchr(text, letter))) {
		count++;
		text++;
	}
	return count;
}

/* 0, ENOMEM, EPROTO. */
static int read_records(struct observed_process *process)
{
	size_t lines = occurrences(process->text, '\n'), values = occurrences(process->text, ':');
	struct observed_value *value = calloc(values + 1, sizeof(*value));
	char *line, *rest = process->text;

	process->values = value;
	process->record = calloc(lines + 1, sizeof(*process->record));
	if (!value || !process->record)
		return ENOMEM;
	while ((line = strsep(&rest, "\n")) && *line) {
		struct observed_record *record = &process->record[process->count];

		if (!read_record(line, record, value))
			return EPROTO;
		value += record->count;
		process->count++;
	}
	if (!process->count || strcmp(process->record[0].kind, "process"))
		return EPROTO;
	return 0;
}

/* ---- asking ---- */

struct collected {
	char *text;
	size_t bytes, room;
};

static int collect(void *context, const char *text, size_t bytes)
{
	struct collected *collected = context;

	if (memchr(text, '\0', bytes) || collected->bytes + bytes > TEXT_MAX)
		return EPROTO;
	if (collected->bytes + bytes + 1 > collected->room) {
		size_t room = 2 * collected->room + bytes + 4096;
		char *larger = realloc(collected->text, room);

		if (!larger)
			return ENOMEM;
		collected->text = larger;
		collected->room = room;
	}
	memcpy(collected->text + collected->bytes, text, bytes);
	collected->bytes += bytes;
	collected->text[collected->bytes] = '\0';
	return 0;
}

/* What came in time is shown. */
static void observe_process(struct observed_process *process, const char *command, unsigned wait_ms)
{
	struct collected collected = { .text = NULL };
	struct inspected *inspected = &process->process;
	int err = inspected->stage == INSPECTED_PROVEN ?
			  inspect_ask(inspected, command, NULL, 0, wait_ms, collect, &collected) :
			  inspected->err;

	process->cut = err == ETIMEDOUT && collected.text;
	if (process->cut)
		err = 0;

	inspect_end(inspected);
	process->text = collected.text;
	if (!err && process->text)
		err = read_records(process);
	if ((err == EPROTO || err == ENOMEM) && !inspected->why[0])
		snprintf(inspected->why, sizeof(inspected->why), "process %d (%s): %s", (int)inspected->pid,
			 inspected->program,
			 err == ENOMEM ? "out of memory" : "its answer is no table of records");
	process->shown = !err && process->count;
}

static void observe_each(struct observed *observed, struct inspected *list, unsigned count, const char *command,
			 unsigned wait_ms)
{
	unsigned i;

	inspect_prove_all(list, count, wait_ms);
	observed->count = count;
	for (i = 0; i < count; i++) {
		observed->process[i].process = list[i];
		observe_process(&observed->process[i], command, wait_ms);
		observed->shown += observed->process[i].shown;
	}
}

/* ---- of a device ---- */

/* Hide what is of other devices; true: it has that device. */
static bool keep_device(struct observed_process *process, const char *device)
{
	bool found = false;
	unsigned i;

	for (i = 0; i < process->count; i++) {
		const char *of = observed_text(&process->record[i], "device");

		process->record[i].hidden = *of && strcmp(of, device);
		found |= !strcmp(process->record[i].kind, "device") && !strcmp(of, device);
	}
	return found;
}

static void drop_process(struct observed *observed, unsigned i)
{
	struct observed_process *process = &observed->process[i];

	inspect_end(&process->process);
	free(process->text);
	free(process->values);
	free(process->record);
	observed->shown -= process->shown;
	memmove(process, process + 1, (observed->count - i - 1) * sizeof(*process));
	observed->count--;
}

/* Those that have the device open, or may have: those that are not shown stay. */
static int keep_processes_of_device(struct observed *observed, const char *device)
{
	for (unsigned i = observed->count; i-- > 0;)
		if (observed->process[i].shown && !keep_device(&observed->process[i], device))
			drop_process(observed, i);
	if (observed->shown)
		return 0;
	snprintf(observed->why, sizeof(observed->why), "no process that you may look at has the device '%s' open, "
		 "or is of a program '%s'; verbatim list shows devices", device, device);
	return ESRCH;
}

/* ---- which of them ---- */

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 10;
}

static bool is_program(const struct inspected *list, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(list[i].program, name))
			return true;
	return false;
}

/* The processes of that program alone, at the beginning of the list. */
static unsigned keep_program(struct inspected *list, unsigned count, const char *name)
{
	unsigned kept = 0, i;

	for (i = 0; i < count; i++) {
		if (strcmp(list[i].program, name))
			inspect_end(&list[i]);
		else
			list[kept++] = list[i];
	}
	return kept;
}

/* Connects to those that @what may mean; *device: they are to be chosen by that. */
static int begin(const char *what, struct inspected **list, unsigned *count, const char **device, char *why,
		 size_t size)
{
	int err;

	*device = NULL;
	if (!what || !is_number(what)) {
		err = inspect_begin_all(NULL, list, count, why, size);
		if (!err && what && is_program(*list, *count, what))
			*count = keep_program(*list, *count, what);
		else if (what)
			*device = what;
		return err;
	}
	*count = 1;
	*list = calloc(1, sizeof(**list));
	err = *list ? inspect_begin((pid_t)atoi(what), *list) : ENOMEM;
	if (err)
		snprintf(why, size, "%s", *list ? (*list)->why : "out of memory");
	return err;
}

int observe(const char *what, const char *command, unsigned wait_ms, struct observed *observed)
{
	struct inspected *list = NULL;
	const char *device;
	unsigned count = 0;
	int err;

	*observed = (struct observed){ .count = 0 };
	err = begin(what, &list, &count, &device, observed->why, sizeof(observed->why));
	if (!err) {
		observed->process = calloc(count + 1, sizeof(*observed->process));
		if (!observed->process) {
			snprintf(observed->why, sizeof(observed->why), "out of memory");
			err = ENOMEM;
		}
	}
	if (!err)
		observe_each(observed, list, count, command, wait_ms);
	free(list);
	return !err && device ? keep_processes_of_device(observed, device) : err;
}

void observed_free(struct observed *observed)
{
	while (observed->count)
		drop_process(observed, observed->count - 1);
	free(observed->process);
	*observed = (struct observed){ .count = 0 };
}

/* ---- fields ---- */

const char *observed_text(const struct observed_record *record, const char *name)
{
	for (unsigned i = 0; record && i < record->count; i++)
		if (!strcmp(record->value[i].name, name))
			return record->value[i].text;
	return "";
}

uint64_t observed_number(const struct observed_record *record, const char *name)
{
	return strtoull(observed_text(record, name), NULL, 10);
}

const struct observed_record *observed_first(const struct observed_process *process, const char *kind)
{
	for (unsigned i = 0; i < process->count; i++)
		if (!strcmp(process->record[i].kind, kind))
			return &process->record[i];
	return NULL;
}

/* ---- numbers for people ---- */

unsigned output_columns(void)
{
	const char *given = getenv("COLUMNS");
	struct winsize size;

	if (given && is_number(given) && atoi(given) > 0)
		return (unsigned)atoi(given);
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return COLUMNS_OTHER;
}

void short_number(uint64_t number, char text[static 8])
{
	static const char units[] = " kMGTPE";
	double value = (double)number;
	unsigned unit = 0;

	while (value >= 999.5 && unit < sizeof(units) - 2) {
		value /= 1000;
		unit++;
	}
	if (!unit)
		snprintf(text, 8, "%u", (unsigned)number);
	else
		snprintf(text, 8, value < 9.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
}

void short_bytes(uint64_t bytes, char text[static 12])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	unsigned unit = 0;

	while (value >= 1023.5 && unit < 6) {
		value /= 1024;
		unit++;
	}
	snprintf(text, 12, unit && value < 9.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}
