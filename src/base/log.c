/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logging and explanations (log.h). A line is composed on the stack and written to stderr in one
 * write, so that lines of several threads and processes do not mix; errno is kept, for %m and for the
 * caller. Control characters (a line may quote what a peer or a user sent) become '?'.
 *
 * Lines of a thread that holds a lock wait in a pool, chained by thread. Explanations are few;
 * VERBATIM_LOG=packet may exhaust the pool: further lines are written at once. No line is lost.
 * Lines for users that repeat themselves are counted (repeat.h).
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/call.h"
#include "base/fork.h"
#include "base/lock_news.h"
#include "base/repeat.h"

#define LINE_MAX_BYTES 1024
#define SUFFIX_MAX_BYTES 128
#define PROGRAM_MAX_BYTES 48
#define WAITING_MAX 64u

enum log_level log_level = LOG_OFF;
bool explain_enabled;

struct waiting {
	_Atomic bool used;
	struct waiting *next;
	size_t bytes;
	char text[LINE_MAX_BYTES];
};

static struct waiting pool[WAITING_MAX];

static void (*_Atomic listener)(const struct explained *explained);
static bool explain_wanted;		/* VERBATIM_EXPLAIN */
static bool explain_quiet;		/* they are made for the listener alone; atomic */

/* Not a struct lock, which counts itself by log_hold(). */
static pthread_mutex_t repeats_lock = PTHREAD_MUTEX_INITIALIZER;
static struct repeats repeats;	/* under repeats_lock */

/* Something failed that VERBATIM_EXPLAIN would have explained, but is not set. */
static _Atomic bool hint_is_due;
static bool hint_is_wanted;

/* Of this thread. In the static block of the libraries: to touch it allocates nothing. */
static _Thread_local struct {
	unsigned locks;
	struct waiting *first, *last;
} own __attribute__((tls_model("initial-exec")));

static const char *const level_names[] = {
	[LOG_OFF] = "off",
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
	[LOG_PACKET] = "packet",
};

static void write_line(const char *line, size_t bytes)
{
	call_shield();
	while (write(STDERR_FILENO, line, bytes) < 0 && errno == EINTR)
		;
}

static bool keep_line(const char *line, size_t bytes)
{
	struct waiting *place;
	unsigned i;

	for (i = 0; i < WAITING_MAX && atomic_exchange(&pool[i].used, true); i++)
		;
	if (i == WAITING_MAX)
		return false;
	place = &pool[i];
	memcpy(place->text, line, bytes);
	place->bytes = bytes;
	place->next = NULL;
	if (own.first)
		own.last->next = place;
	else
		own.first = place;
	own.last = place;
	return true;
}

static void write_kept(void)
{
	int saved = errno;

	while (own.first) {
		struct waiting *place = own.first;

		own.first = place->next;
		write_line(place->text, place->bytes);
		atomic_store(&place->used, false);
	}
	errno = saved;
}

void log_hold(void)
{
	own.locks++;
}

/* A count of 0: the lock was taken before counting began. */
void log_let_go(void)
{
	if (own.locks && !--own.locks && own.first)
		write_kept();
}

/* The child resets the lock count; pending lines are the parent's to write. */
static void log_after_fork_child(void)
{
	unsigned i;

	own.locks = 0;
	own.first = NULL;
	pthread_mutex_init(&repeats_lock, NULL);
	repeats = (struct repeats){ 0 };
	atomic_store(&hint_is_due, false);
	for (i = 0; i < WAITING_MAX; i++)
		atomic_store(&pool[i].used, false);
}

/* Writes, or keeps, @line and a newline. */
static void emit_line(char *line, size_t bytes)
{
	line[bytes++] = '\n';
	if (own.locks && keep_line(line, bytes))
		return;
	write_kept();
	write_line(line, bytes);
}

/*
 * Appends to the @used bytes of @line, and @suffix to that. Too long a text has "..." before the
 * suffix.
 */
static size_t compose_line(char line[LINE_MAX_BYTES], size_t used, const char *suffix,
			   const char *format, va_list args)
{
	size_t suffix_bytes = strlen(suffix);
	size_t room = LINE_MAX_BYTES - 1 - used - suffix_bytes;	/* keeps one byte for the newline */
	int length = vsnprintf(line + used, room, format, args);

	if (length < 0)
		length = 0;
	if ((size_t)length >= room) {
		length = (int)room - 1;
		memcpy(line + used + length - 3, "...", 3);
	}
	for (char *c = line; c < line + used + length; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	used += (size_t)length;
	memcpy(line + used, suffix, suffix_bytes);
	return used + suffix_bytes;
}

/* "verbatim: PROGRAM(PID): ": who of several processes on one terminal says it. */
static size_t begin_line(char line[LINE_MAX_BYTES])
{
	return (size_t)snprintf(line, LINE_MAX_BYTES, "verbatim: %.*s(%d): ", PROGRAM_MAX_BYTES,
				program_invocation_short_name, (int)getpid());
}

static uint64_t log_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Its prefix, then "SECONDS LEVEL: ", the seconds of the monotonic clock. */
void log_print(enum log_level level, const char *format, ...)
{
	int saved = errno;
	uint64_t now_us = log_now_ns() / 1000;
	char line[LINE_MAX_BYTES];
	size_t used = begin_line(line);
	va_list args;

	used += (size_t)snprintf(line + used, sizeof(line) - used, "%llu.%06llu %s: ",
				 (unsigned long long)(now_us / 1000000),
				 (unsigned long long)(now_us % 1000000), level_names[level]);
	va_start(args, format);
	errno = saved;
	emit_line(line, compose_line(line, used, "", format, args));
	va_end(args);
	errno = saved;
}

static void tell_repeated(unsigned count, const char *text)
{
	char line[LINE_MAX_BYTES];
	size_t used = begin_line(line);

	used += (size_t)snprintf(line + used, sizeof(line) - used, "repeated %u time%s: %s", count,
				 count == 1 ? "" : "s", text);
	emit_line(line, used);
}

const char *explain_kind_name(enum explain_kind kind)
{
	static const char *const names[EXPLAIN_KIND_COUNT] = {
#define EXPLAIN_KIND(kind, name) [EXPLAIN_##kind] = name,
		EXPLAIN_KINDS(EXPLAIN_KIND)
#undef EXPLAIN_KIND
	};

	return names[kind];
}

/* @key is what stands in its suffix. @quiet: for the listener alone. */
static void log_write(const struct explanation *what, const char *key, bool quiet, uint64_t id,
		      const char *format, va_list args)
{
	void (*listen)(const struct explained *explained) = atomic_load(&listener);
	int saved = errno;
	char line[LINE_MAX_BYTES], suffix[SUFFIX_MAX_BYTES] = "";
	size_t prefix = begin_line(line), bytes;

	if (key)
		snprintf(suffix, sizeof(suffix), " (verbatim explain %s)", key);
	errno = saved;
	bytes = compose_line(line, prefix, suffix, format, args);
	if (listen)
		listen(&(const struct explained){ .key = key, .of = what->of, .line = line + prefix,
						  .bytes = bytes - prefix });
	if (quiet) {
		errno = saved;
		return;
	}
	if (!id)
		id = repeat_text(REPEAT_BASIS, line + prefix, bytes - prefix);
	pthread_mutex_lock(&repeats_lock);
	own.locks++;
	if (repeat_admit(&repeats, id, line + prefix, bytes - prefix, log_now_ns(), what->remote,
			 tell_repeated))
		emit_line(line, bytes);
	pthread_mutex_unlock(&repeats_lock);
	log_let_go();
	errno = saved;
}

void explain_vprint(const struct explanation *what, const char *format, va_list args)
{
	bool quiet = __atomic_load_n(&explain_quiet, __ATOMIC_RELAXED);
	const char *name = what->call ? strerrorname_np(what->err) : NULL, *key = what->key;
	uint64_t id = repeat_number(repeat_number(REPEAT_BASIS, what->of.kind), what->of.number);
	char refused[SUFFIX_MAX_BYTES];

	id = what->rule ? repeat_text(id, what->rule, strlen(what->rule)) :
			  repeat_rule(id, format, args);
	if (name) {
		int saved = errno;

		snprintf(refused, sizeof(refused), "%s %s", name, what->call);
		errno = saved;
		key = refused;
	}
	if (quiet && !what->remote && (what->call || what->key))
		explain_missed(what->err);
	log_write(what, key, quiet, id ? id : 1, format, args);
}

void explain_print(const struct explanation *what, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	explain_vprint(what, format, args);
	va_end(args);
}

void explain_print_plain(const char *format, ...)
{
	static const struct explanation plain;
	va_list args;

	va_start(args, format);
	explain_vprint(&plain, format, args);
	va_end(args);
}

void explain_print_refused(const char *call, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	explain_vprint(&(const struct explanation){ .call = call, .err = err }, format, args);
	va_end(args);
}

void complain(const char *format, ...)
{
	static const struct explanation complaint;
	va_list args;

	va_start(args, format);
	log_write(&complaint, NULL, false, 0, format, args);
	va_end(args);
}

void explain_missed(int err)
{
	bool probes = err == EAGAIN || err == ENOSYS || err == EOPNOTSUPP || err == EPROTONOSUPPORT;

	if (__atomic_load_n(&hint_is_wanted, __ATOMIC_RELAXED) && !probes)
		atomic_store_explicit(&hint_is_due, true, memory_order_relaxed);
}

/*
 * At exit(), which may be called in a handler of a signal that came while the thread held a lock:
 * the lock
 * of the counts is only tried.
 */
__attribute__((destructor)) static void write_the_rest(void)
{
	char line[LINE_MAX_BYTES];
	size_t used;

	write_kept();
	if (!pthread_mutex_trylock(&repeats_lock)) {
		repeat_tell_all(&repeats, tell_repeated);
		pthread_mutex_unlock(&repeats_lock);
	}
	write_kept();
	if (!atomic_load(&hint_is_due) || !isatty(STDERR_FILENO))
		return;
	used = begin_line(line);
	used += (size_t)snprintf(line + used, sizeof(line) - used,
				 "RDMA calls or requests failed: VERBATIM_EXPLAIN=1 says why");
	emit_line(line, used);
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
	complain("VERBATIM_LOG: invalid value '%s': expected off, error, warn, info, debug or "
		 "packet", value);
	return EINVAL;
}

static void explain_settle(void)
{
	bool heard = atomic_load(&listener) != NULL;
	bool wanted = __atomic_load_n(&explain_wanted, __ATOMIC_RELAXED);

	__atomic_store_n(&explain_quiet, heard && !wanted, __ATOMIC_RELAXED);
	__atomic_store_n(&explain_enabled, heard || wanted, __ATOMIC_RELAXED);
}

void log_listen(void (*function)(const struct explained *explained))
{
	atomic_store(&listener, function);
	explain_settle();
}

/*
 * Both are read before either is set or refused: a user sees all that is wrong at once. By any
 * thread: the worker looks at the interfaces, too.
 */
int log_init(void)
{
	static const struct fork_handlers fork_handlers = { .child = log_after_fork_child };
	enum log_level level;
	const char *value = secure_getenv("VERBATIM_EXPLAIN");
	bool enabled = value && !strcmp(value, "1");
	bool is_invalid = value && *value && !enabled && strcmp(value, "0");
	int level_err = read_level(&level);

	if (is_invalid)
		complain("VERBATIM_EXPLAIN: invalid value '%s': expected 0 or 1", value);
	if (level_err || is_invalid)
		return EINVAL;
	fork_register(FORK_LOG, &fork_handlers);
	__atomic_store_n(&hint_is_wanted, !value || !*value, __ATOMIC_RELAXED);
	if (!__atomic_exchange_n(&explain_wanted, enabled, __ATOMIC_RELAXED) && enabled) {
		pthread_mutex_lock(&repeats_lock);
		own.locks++;
		repeats = (struct repeats){ 0 };
		pthread_mutex_unlock(&repeats_lock);
		log_let_go();
	}
	__atomic_store_n(&log_level, level, __ATOMIC_RELAXED);
	explain_settle();
	lock_set_counted(level != LOG_OFF || enabled);
	return 0;
}
