/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two voices. A line is put together on the stack and given to stderr in one write, so
 * that lines of several threads and processes do not mix; errno is kept, for %m and for the
 * caller. Control characters (a line may quote what a peer or a user sent) become '?'.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024

enum log_level log_level = LOG_OFF;
bool explain_enabled;

static const char *const level_names[] = {
	[LOG_OFF] = "off",
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
	[LOG_PACKET] = "packet",
};

/* @line has a prefix of @used bytes. Too long a line ends in "...". */
static void print_line(char line[LINE_MAX_BYTES], size_t used, const char *format, va_list args)
{
	size_t room = LINE_MAX_BYTES - 1 - used;	/* keeps one byte for the newline */
	int length = vsnprintf(line + used, room, format, args);

	if (length < 0)
		return;
	if ((size_t)length >= room) {
		length = (int)room - 1;
		memcpy(line + used + length - 3, "...", 3);
	}
	for (char *c = line + used; c < line + used + length; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	used += (size_t)length;
	line[used++] = '\n';
	while (write(STDERR_FILENO, line, used) < 0 && errno == EINTR)
		;
}

/* "verbatim[pid] seconds level: ", the seconds of the monotonic clock. */
void log_print(enum log_level level, const char *format, ...)
{
	int saved = errno;
	char line[LINE_MAX_BYTES];
	struct timespec now;
	va_list args;
	int used;

	clock_gettime(CLOCK_MONOTONIC, &now);
	used = snprintf(line, sizeof(line), "verbatim[%d] %lld.%06ld %s: ", (int)getpid(),
			(long long)now.tv_sec, now.tv_nsec / 1000, level_names[level]);
	va_start(args, format);
	errno = saved;
	print_line(line, (size_t)used, format, args);
	va_end(args);
	errno = saved;
}

static void say(const char *format, va_list args)
{
	static const char prefix[] = "verbatim: ";
	int saved = errno;
	char line[LINE_MAX_BYTES];

	memcpy(line, prefix, sizeof(prefix));
	print_line(line, sizeof(prefix) - 1, format, args);
	errno = saved;
}

void explain_print(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

static int read_level(enum log_level *level)
{
	const char *value = secure_getenv("VERBATIM_LOG");

	if (!value || !*value) {
		*level = LOG_OFF;
		return 0;
	}
	for (size_t i = 0; i < sizeof(level_names) / sizeof(*level_names); i++) {
		if (strcmp(value, level_names[i]) == 0) {
			*level = (enum log_level)i;
			return 0;
		}
	}
	complain("VERBATIM_LOG is \"%s\", but must be off, error, warn, info, debug or packet",
		 value);
	return EINVAL;
}

static int read_explain(bool *enabled)
{
	const char *value = secure_getenv("VERBATIM_EXPLAIN");

	if (!value || !*value || strcmp(value, "0") == 0) {
		*enabled = false;
		return 0;
	}
	if (strcmp(value, "1") == 0) {
		*enabled = true;
		return 0;
	}
	complain("VERBATIM_EXPLAIN is \"%s\", but must be 0 or 1", value);
	return EINVAL;
}

/* Both are read before either is set or refused: a user sees all that is wrong at once. */
int log_init(void)
{
	enum log_level level;
	bool enabled;
	int level_err = read_level(&level);
	int explain_err = read_explain(&enabled);

	if (level_err || explain_err)
		return EINVAL;
	__atomic_store_n(&log_level, level, __ATOMIC_RELAXED);
	__atomic_store_n(&explain_enabled, enabled, __ATOMIC_RELAXED);
	return 0;
}
