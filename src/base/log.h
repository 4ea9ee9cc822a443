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
 * Explanations are records: a rule, what they are about, and words made of those. What repeats itself, by rule and
 * object, is counted and not repeated (base/repeat.h).
 *
 * The function that first decides the error explains it; those that pass it on are silent. Lower
 * case, no '=' between name and value, %m for errno, QPNs as 0x%06x, keys as 0x%08x.
 */
#ifndef VERBATIM_BASE_LOG_H
#define VERBATIM_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_PACKET };

extern enum log_level log_level;	/* set once, by log_init() */
extern bool explain_enabled;		/* they are printed, or somebody listens */

/*
 * Reads VERBATIM_LOG and VERBATIM_EXPLAIN. Returns 0, or EINVAL after a line on stderr that
 * names the variable, its value and the values it may have. Safe to call again.
 */
int log_init(void);

void log_print(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What an explanation is about. The names are those of a trace (docs/trace-format.md). */
#define EXPLAIN_KINDS(KIND) \
	KIND(QP, "qp") KIND(CQ, "cq") KIND(SRQ, "srq") KIND(WQ, "wq") KIND(MR, "mr") KIND(PD, "pd") \
	KIND(COUNTER, "comp_cntr") KIND(HANDLE, "handle") KIND(REGION, "region") KIND(RSOCKET, "rsocket") \
	KIND(FD, "fd") KIND(PORT, "port") KIND(SLOT, "slot") KIND(PROCESS, "process") KIND(USER, "user")
enum explain_kind {
	EXPLAIN_NOTHING,
#define EXPLAIN_KIND(kind, name) EXPLAIN_##kind,
	EXPLAIN_KINDS(EXPLAIN_KIND)
#undef EXPLAIN_KIND
	EXPLAIN_KIND_COUNT
};
struct explain_object {
	enum explain_kind kind;
	bool has_wr_id;
	uint64_t number;
	uint64_t wr_id;			/* of its work request */
};
#define OF_NOTHING ((struct explain_object){ EXPLAIN_NOTHING, false, 0, 0 })
#define OF(kind, number) ((struct explain_object){ EXPLAIN_##kind, false, (number), 0 })
#define OF_WR(kind, number, wr_id) ((struct explain_object){ EXPLAIN_##kind, true, (number), (wr_id) })

struct explanation {
	/*
	 * "(verbatim explain KEY)" stands at its end; words that docs/errors has. NULL: the errno and the
	 * name of @call, if it is there.
	 */
	const char *key;
	const char *call;
	int err;
	/*
	 * The words that make another explanation of it, where a text of its format has numbers. NULL: the
	 * format and the texts in it.
	 */
	const char *rule;
	struct explain_object of;
	/* Of what another process may send for ever: new ones are limited to REPEAT_REMOTE a second. */
	bool remote;
};
void explain_print(const struct explanation *explanation, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void explain_vprint(const struct explanation *explanation, const char *format, va_list arguments);
/* Of nothing, and of a refused call: little where they are called. */
void explain_print_plain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void explain_print_refused(const char *call, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* What listeners get. The line has no prefix, no newline, and no end. */
struct explained {
	const char *key;		/* NULL: none */
	struct explain_object of;
	const char *line;
	size_t bytes;
};
/*
 * Explanations and complaints go to @listener as well, whether or not they are printed; NULL: no longer. It may be
 * called with any lock held, by several threads.
 */
void log_listen(void (*listener)(const struct explained *explained));
const char *explain_kind_name(enum explain_kind kind);	/* NULL: of nothing */
/* For base/lock.h: lock count of this thread, up and down. */
void log_hold(void);
void log_let_go(void);
/*
 * As an explanation of nothing, whatever VERBATIM_EXPLAIN says: for wrong configuration values. It repeats
 * itself if it is the same to the letter.
 */
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
		if (__builtin_expect(explaining(), 0))          \
			explain_print_plain(__VA_ARGS__);       \
	} while (0)
#define explain_of(object, ...)                                                                    \
	do {                                                                                       \
		if (__builtin_expect(explaining(), 0))                                             \
			explain_print(&(const struct explanation){ .of = object }, __VA_ARGS__);   \
	} while (0)

/* A call that is refused with an errno; its man page has the name @name. */
#define explain_refused(name, error, ...)                       \
	do {                                                    \
		if (__builtin_expect(explaining(), 0))          \
			explain_print_refused(name, error, __VA_ARGS__); \
		else                                            \
			explain_missed(error);                  \
	} while (0)
#define explain_refused_of(name, error, object, ...)                                               \
	do {                                                                                       \
		if (__builtin_expect(explaining(), 0))                                             \
			explain_print(&(const struct explanation){ .call = name, .err = error,     \
								   .of = object }, __VA_ARGS__);   \
		else                                                                               \
			explain_missed(error);                                                     \
	} while (0)

/*
 * Once per process, at its end, a terminal is told that VERBATIM_EXPLAIN=1 says why things
 * failed. For what
 * explain_refused() and explain_about() explain, but not for errors by which programs find out
 * what there is.
 * @err: errno; 0: of a request or connection.
 */
void explain_missed(int err);

/* An explanation of a failed request or connection, or of an event. */
#define explain_about(about, object, ...)                                                          \
	do {                                                                                       \
		if (__builtin_expect(explaining(), 0))                                             \
			explain_print(&(const struct explanation){ .key = about, .of = object },   \
				      __VA_ARGS__);                                                \
		else                                                                               \
			explain_missed(0);                                                         \
	} while (0)

#endif
