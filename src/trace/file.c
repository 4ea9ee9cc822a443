/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of VERBATIM_TRACE. Blocks are gathered in a buffer under any lock, and written by threads that
 * hold none of a QP: when much has gathered, and whenever there is nothing to receive. Not a place for errors:
 * a full disk ends the trace (said in the log), not the traffic.
 */
#include "trace/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"
#include "platform/fail.h"
#include "trace/block.h"

#define VARIABLE	"VERBATIM_TRACE"
#define LIMIT_OPTION	",limit="
#define LIMIT_DEFAULT	(1ull << 30)
#define BUFFER_BYTES	(4u << 20)	/* all that is received at once, twice */
#define BUFFER_MUCH	(1u << 20)

struct trace_file {
	struct lock lock;
	char setting[PATH_MAX] GUARDED_BY_MEMBER(lock);	/* the value it was opened for; "": none */
	int fd GUARDED_BY_MEMBER(lock);			/* -1: none, or ended early */
	uint64_t left GUARDED_BY_MEMBER(lock);		/* bytes until the limit */
	bool is_full GUARDED_BY_MEMBER(lock);		/* the limit was reached: what is gathered is the end */
	size_t used GUARDED_BY_MEMBER(lock);
	uint64_t lost GUARDED_BY_MEMBER(lock);		/* packets for which there was no room, not yet said */
	uint8_t *buffer GUARDED_BY_MEMBER(lock);	/* [BUFFER_BYTES], kept once allocated */
};

static struct trace_file the_file = { .lock = LOCK_INITIALIZER, .fd = -1 };

/* ---- writing ---- */

static void end_early(const char *why) REQUIRES(the_file.lock)
{
	log_warn("tracing stops: %s", why);
	close(the_file.fd);
	the_file.fd = -1;
	the_file.used = 0;
	the_file.is_full = false;
}

static void flush_locked(void) REQUIRES(the_file.lock)
{
	size_t done = 0;

	while (the_file.fd >= 0 && done < the_file.used) {
		ssize_t put = write(the_file.fd, the_file.buffer + done, the_file.used - done);

		if (put > 0)
			done += (size_t)put;
		else if (put == 0 || errno != EINTR)
			end_early(strerror(put ? errno : ENOSPC));
	}
	the_file.used = 0;
	if (the_file.lost)
		log_warn("%llu packets are missing in the trace: they came faster than it is written",
			 (unsigned long long)the_file.lost);
	the_file.lost = 0;
	if (the_file.fd >= 0 && the_file.is_full)
		end_early("the file has reached its size limit (" VARIABLE "=FILE,limit=N)");
}

/* Others write meanwhile, or (at exit(), in a handler of signals) this thread does. */
static void flush_beyond(size_t most)
{
	if (!lock_try(&the_file.lock))
		return;
	if (the_file.used > most || the_file.is_full)
		flush_locked();
	lock_release(&the_file.lock);
}

void trace_file_flush(void)
{
	flush_beyond(0);
}

void trace_file_relieve(void)
{
	flush_beyond(BUFFER_MUCH);
}

static void add_block_locked(const uint8_t *block, size_t bytes) REQUIRES(the_file.lock)
{
	if (the_file.fd < 0 || the_file.is_full)
		return;
	if (the_file.left < bytes) {
		the_file.is_full = true;
	} else if (BUFFER_BYTES - the_file.used < bytes) {
		the_file.lost++;
	} else {
		memcpy(the_file.buffer + the_file.used, block, bytes);
		the_file.used += bytes;
		the_file.left -= bytes;
	}
}

void trace_file_packet(const struct trace_record *record, const uint8_t *data, size_t bytes)
{
	uint8_t block[TRACE_BLOCK_MAX];
	size_t length = trace_packet_block(record, 0, record->flags & TRACE_OUTBOUND, data, bytes, record->length,
					   block);

	lock_acquire(&the_file.lock);
	add_block_locked(block, length);
	lock_release(&the_file.lock);
}

/* ---- the variable ---- */

/* "...%p..." to "...1234...". False: too long. */
static bool expand_name(const char *text, size_t length, char name[PATH_MAX])
{
	size_t i, used = 0;

	for (i = 0; i < length && used < PATH_MAX - 24; i++) {
		if (text[i] == '%' && i + 1 < length && text[i + 1] == 'p') {
			used += (size_t)snprintf(name + used, 12, "%d", (int)getpid());
			i++;
		} else {
			name[used++] = text[i];
		}
	}
	name[used] = 0;
	return i == length && used > 0;
}

static bool parse_limit(const char *text, uint64_t *limit)
{
	static const char units[] = "kMG";
	const char *unit;
	uint64_t value;

	if (!text_scan_number(&text, UINT64_MAX >> 30, &value))
		return false;
	unit = *text ? strchr(units, *text) : NULL;
	if (unit) {
		value <<= 10 * (unit - units + 1);
		text++;
	}
	*limit = value;
	return !*text && value >= 4096;
}

static int parse_name(const char *text, char name[PATH_MAX], uint64_t *limit)
{
	const char *option = strstr(text, LIMIT_OPTION);
	size_t length = option ? (size_t)(option - text) : strlen(text);

	*limit = LIMIT_DEFAULT;
	if (strlen(text) < PATH_MAX && expand_name(text, length, name) &&
	    (!option || parse_limit(option + strlen(LIMIT_OPTION), limit)))
		return 0;
	complain(VARIABLE ": invalid value '%s': expected FILE or FILE" LIMIT_OPTION "64M; %%p in "
		 "FILE stands for the process ID", text);
	return EINVAL;
}

int trace_file_check(void)
{
	const char *text = secure_getenv(VARIABLE);
	char name[PATH_MAX];
	uint64_t limit;

	return text ? parse_name(text, name, &limit) : 0;
}

/* ---- opening ---- */

/*
 * In /tmp another user may have created the file first: only our own files and devices (/dev/null) are
 * written.
 */
static int check_ours(int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return errno;
	return S_ISCHR(status.st_mode) || status.st_uid == geteuid() ? 0 : EPERM;
}

/* Pipes and devices have no size; locking them is harmless. */
static int empty_and_lock(int fd)
{
	int err = check_ours(fd);

	if (err)
		return err;
	return flock(fd, LOCK_EX | LOCK_NB) || (ftruncate(fd, 0) && errno != EINVAL) ? errno : 0;
}

/*
 * An fd with the file empty and locked by us; -1: errno (EWOULDBLOCK: another process writes it,
 * EPERM: it is another user's, ELOOP: a symbolic link). Only the user may read the packets: mode 0600.
 */
static int open_locked(const char *name)
{
	int err, fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -1;
	err = empty_and_lock(fd);
	if (!err)
		return fd;
	close(fd);
	errno = err;
	return -1;
}

static const char *why_not(int err)
{
	return err == EPERM ? "it belongs to another user" : err == ELOOP ? "it is a symbolic "
		"link" : strerror(err);
}

static int open_named(char name[PATH_MAX])
{
	int err, fd = open_locked(name);

	if (fd < 0 && errno == EWOULDBLOCK) {
		snprintf(name + strlen(name), 16, ".%d", (int)getpid());
		fd = open_locked(name);
	}
	if (fd >= 0)
		return fd;
	err = errno;
	complain(VARIABLE ": cannot write '%s': %s", name, why_not(err));
	errno = err;
	return -1;
}

static bool allocate_buffer(void) REQUIRES(the_file.lock)
{
	if (!the_file.buffer && !fail_now(FAIL_ALLOCATE))
		the_file.buffer = malloc(BUFFER_BYTES);
	return the_file.buffer != NULL;
}

static int open_for(const char *text) REQUIRES(the_file.lock)
{
	char name[PATH_MAX];
	uint64_t limit;
	int fd, err = parse_name(text, name, &limit);

	if (err || !allocate_buffer())
		return err ? err : ENOMEM;
	fd = open_named(name);
	if (fd < 0)
		return errno;
	if (the_file.fd >= 0) {
		flush_locked();
		close(the_file.fd);
	}
	the_file.fd = fd;
	the_file.left = limit;
	the_file.is_full = false;
	snprintf(the_file.setting, sizeof(the_file.setting), "%s", text);
	snprintf(name, sizeof(name), "%s(%d)", program_invocation_short_name, (int)getpid());
	the_file.used = pcapng_write_section(the_file.buffer);
	the_file.used += pcapng_write_interface(PCAPNG_RAW_IP, name, the_file.buffer + the_file.used);
	return 0;
}

int trace_file_open(void)
{
	const char *text = secure_getenv(VARIABLE);
	int err = 0;

	if (!text)
		return 0;
	lock_acquire(&the_file.lock);
	if (strcmp(the_file.setting, text) || !*text)
		err = open_for(text);
	lock_release(&the_file.lock);
	return err;
}

bool trace_file_is_open(void)
{
	bool open;

	lock_acquire(&the_file.lock);
	open = the_file.fd >= 0;
	lock_release(&the_file.lock);
	return open;
}

/* ---- fork() ---- */

void trace_file_before_fork(void) ACQUIRES(the_file.lock)
{
	lock_acquire(&the_file.lock);
}

void trace_file_after_fork(bool child) RELEASES(the_file.lock)
{
	if (child) {
		if (the_file.fd >= 0)
			close(the_file.fd);
		the_file.fd = -1;
		the_file.used = 0;
		the_file.setting[0] = '\0';
	}
	lock_release(&the_file.lock);
}
