/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two kinds of output, both off by default and both to stderr, one line per call, which begins
 * "verbatim: PROGRAM(PID): ":
 *
 *	log_*()    for developers of Verbatim: VERBATIM_LOG=error|warn|info|debug|packet,
 *	           levels by volume (packet: a line per packet; debug: per connection or less;
 *	           info: per process).
 *	explain()  for its users: VERBATIM_EXPLAIN=1. One line for each refused call and
 *	           each error completion: what, which object, why, what to do.
 *
 * Lines of a thread that holds a lock (base/lock.h) are written after it has released its last one: a slow
 * reader of stderr must not hold up other threads. If the process is killed before, or calls abort(), they
 * are lost.
 *
 * Lines of explain() that repeat themselves are counted and not repeated (base/repeat.h).
 *
 * The function that first decides the error explains it; those that pass it on are silent. Lower
 * case, no '=' between name and value, %m for errno, QPNs as 0x%06x, keys as 0x%08x.
 */
#ifndef VERBATIM_BASE_LOG_H
#define VERBATIM_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_PACKET };

extern enum log_level log_level;	/* set once, by log_init() */
extern bool explain_enabled;		/* they are printed, or somebody listens */
extern bool log_any;			/* one of the two is on: locks are counted */

/*
 * Reads VERBATIM_LOG and VERBATIM_EXPLAIN. Returns 0, or EINVAL after a line on stderr that
 * names the variable, its value and the values it may have. Safe to call again.
 */
int log_init(void);

void log_print(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void explain_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/*
 * As explain_print(), of what a remote process sends, and may send for ever: new lines of this kind are
 * limited to REPEAT_REMOTE a second.
 */
void explain_print_remote(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* With " (verbatim explain ABOUT)" at its end. @about: words that docs/errors has. */
void explain_print_about(const char *about, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Explanations and complaints go to @listener as well, whether or not they are printed; NULL: no longer. It may be
 * called with any lock held, by several threads; the line has no prefix, no newline, and no end.
 */
void log_listen(void (*listener)(const char *line, size_t bytes));
/* For base/lock.h: lock count of this thread, up and down. */
void log_hold(void);
void log_let_go(void);
/* As explain_print, whatever VERBATIM_EXPLAIN says: for wrong configuration values. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Two threads may open a device at once: both set the same values, so relaxed reads do. */
static inline bool log_is_on(enum log_level level)
{
	return __atomic_load_n(&log_level, __ATOMIC_RELAXED) >= level;
}

static inline bool explaining(void)
{
	return __atomic_load_n(&explain_enabled, __ATOMIC_RELAXED);
}

#define log_at(level, ...)                                      \
	do {                                                    \
		if (__builtin_expect(log_is_on(level), 0))  \
			log_print(level, __VA_ARGS__);          \
	} while (0)
#define log_error(...)	log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)	log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)	log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...)	log_at(LOG_DEBUG, __VA_ARGS__)
#define log_packet(...)	log_at(LOG_PACKET, __VA_ARGS__)

#define explain(...)                                            \
	do {                                                    \
		if (__builtin_expect(explaining(), 0))       \
			explain_print(__VA_ARGS__);             \
	} while (0)

/* A call that is refused with an errno; its man page has the name @call. */
void explain_print_refused(const char *call, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define explain_refused(call, err, ...)                         \
	do {                                                    \
		if (__builtin_expect(explaining(), 0))       \
			explain_print_refused(call, err, __VA_ARGS__); \
		else                                                   \
			explain_missed(err);                           \
	} while (0)

/*
 * Once per process, at its end, a terminal is told that VERBATIM_EXPLAIN=1 says why things
 * failed. For what
 * explain_refused() and explain_about() explain, but not for errors by which programs find out
 * what there is.
 * @err: errno; 0: of a request or connection.
 */
void explain_missed(int err);

/* An explanation of a failed request or connection, or of an event; @about as above. */
#define explain_about(about, ...)                               \
	do {                                                    \
		if (__builtin_expect(explaining(), 0))       \
			explain_print_about(about, __VA_ARGS__); \
		else                                             \
			explain_missed(0);                       \
	} while (0)

#endif
