/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link that writes the packets that pass through it to a pcapng file. One file per process, of which each
 * wrapped link holds a reference. Packets are gathered in a buffer, written when it is full and
 * whenever the link has nothing to receive: a process that is killed loses little of its trace.
 *
 * Not a place for errors: a full disk ends the trace (said in the log), not the traffic.
 */
#include "link/trace.h"

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
#include "trace/block.h"
#include "trace/trace.h"
#include "platform/clock.h"
#include "platform/fail.h"

#define VARIABLE	"VERBATIM_TRACE"
#define LIMIT_OPTION	",limit="
#define LIMIT_DEFAULT	(1ull << 30)
#define BUFFER_BYTES	(256u * 1024u)

struct trace_file {
	struct lock lock;
	unsigned references;
	pid_t pid;			/* of its owner: a fork()ed child opens its own file */
	int fd GUARDED_BY_MEMBER(lock);				/* -1: ended early */
	uint64_t left GUARDED_BY_MEMBER(lock);			/* bytes until the limit */
	size_t used GUARDED_BY_MEMBER(lock);
	uint8_t buffer[BUFFER_BYTES] GUARDED_BY_MEMBER(lock);
};

struct trace_link {
	struct link link;
	struct link *inner;
	struct trace_file *file;
	enum trace_path path;
};

#define trace_of(l) ((struct trace_link *)(l))

static struct lock the_file_lock = LOCK_INITIALIZER;
static struct trace_file *the_file GUARDED_BY(the_file_lock);
static trace_ip_id_fn *find_ip_id;
static bool (*is_internal)(const uint8_t *data, size_t bytes);

void trace_set_ip_id(trace_ip_id_fn *find)
{
	find_ip_id = find;
}

void trace_set_internal(bool (*function)(const uint8_t *data, size_t bytes))
{
	is_internal = function;
}

/* ---- the file ---- */

static void end_early(struct trace_file *file, const char *why) REQUIRES(file->lock)
{
	log_warn("tracing stops: %s", why);
	close(file->fd);
	file->fd = -1;
	file->used = 0;
}

static void flush_locked(struct trace_file *file) REQUIRES(file->lock)
{
	size_t done = 0;

	while (file->fd >= 0 && done < file->used) {
		ssize_t put = write(file->fd, file->buffer + done, file->used - done);

		if (put > 0)
			done += (size_t)put;
		else if (put == 0 || errno != EINTR)
			end_early(file, strerror(put ? errno : ENOSPC));
	}
	file->used = 0;
}

static void write_packet_locked(struct trace_file *file, const struct pcapng_packet *packet)
	REQUIRES(file->lock)
{
	size_t bytes = PCAPNG_COMMENTED_MAX(packet->bytes);

	if (file->fd < 0 || file->pid != getpid())
		return;
	if (file->left < bytes) {
		flush_locked(file);
		end_early(file, "the file has reached its size limit (" VARIABLE "=FILE,limit=N)");
		return;
	}
	if (BUFFER_BYTES - file->used < bytes)
		flush_locked(file);
	bytes = pcapng_write_packet(packet, file->buffer + file->used);
	file->used += bytes;
	file->left -= bytes;
}

static void describe_packet(const struct pcapng_packet *packet, enum trace_path path, char *comment, size_t size)
{
	unsigned times = packet->outbound ? trace_sent_before(packet->data, packet->bytes) : 0;

	if (times)
		snprintf(comment, size, "path %s; retransmission %u", trace_path_name(path), times);
	else
		snprintf(comment, size, "path %s", trace_path_name(path));
}

static void write_datagram(struct trace_file *file, const struct datagram *datagram, enum trace_path path,
			   bool outbound)
{
	size_t size = datagram->segment_bytes ? datagram->segment_bytes : datagram->bytes, done;
	char comment[64];
	struct pcapng_packet packet = { .datagram = datagram, .outbound = outbound, .comment = comment,
					.time_ns = clock_wall_ns() };
	unsigned segment = datagram->segment_number;

	if (!outbound && is_internal && is_internal(datagram->data, datagram->bytes))
		return;
	lock_acquire(&file->lock);
	for (done = 0; done < datagram->bytes; done += packet.bytes) {
		packet.data = datagram->data + done;
		packet.bytes = datagram->bytes - done < size ? datagram->bytes - done : size;
		packet.ip_id = (uint16_t)segment;
		packet.dont_fragment = true;
		if (!outbound && find_ip_id &&
		    !find_ip_id(datagram, packet.data, packet.bytes, segment, &packet.ip_id,
				&packet.dont_fragment)) {
			packet.ip_id = (uint16_t)segment;
			packet.dont_fragment = true;
		}
		describe_packet(&packet, path, comment, sizeof(comment));
		write_packet_locked(file, &packet);
		segment++;
	}
	lock_release(&file->lock);
}

/* ---- opening it ---- */

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

static int trace_parse(const char *text, char name[PATH_MAX], uint64_t *limit)
{
	const char *option = strstr(text, LIMIT_OPTION);
	size_t length = option ? (size_t)(option - text) : strlen(text);

	*limit = LIMIT_DEFAULT;
	if (expand_name(text, length, name) &&
	    (!option || parse_limit(option + strlen(LIMIT_OPTION), limit)))
		return 0;
	complain(VARIABLE ": invalid value '%s': expected FILE or FILE" LIMIT_OPTION "64M; %%p in "
		 "FILE stands for the process ID", text);
	return EINVAL;
}

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
static int trace_open_locked(const char *name)
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

int trace_check(void)
{
	const char *text = secure_getenv(VARIABLE);
	char name[PATH_MAX];
	uint64_t limit;

	return text ? trace_parse(text, name, &limit) : 0;
}

static const char *why_not(int err)
{
	return err == EPERM ? "it belongs to another user" : err == ELOOP ? "it is a symbolic "
		"link" : strerror(err);
}

static int open_file(const char *text, struct trace_file *file) REQUIRES(file->lock)
{
	char name[PATH_MAX];
	int err = trace_parse(text, name, &file->left);

	if (err)
		return err;
	file->fd = trace_open_locked(name);
	if (file->fd < 0 && errno == EWOULDBLOCK) {
		snprintf(name + strlen(name), 16, ".%d", (int)getpid());
		file->fd = trace_open_locked(name);
	}
	if (file->fd < 0) {
		err = errno;
		complain(VARIABLE ": cannot write '%s': %s", name, why_not(err));
		return err;
	}
	snprintf(name, sizeof(name), "%s(%d)", program_invocation_short_name, (int)getpid());
	file->used = pcapng_write_section(file->buffer);
	file->used += pcapng_write_interface(PCAPNG_RAW_IP, name, file->buffer + file->used);
	return 0;
}

static int file_get_locked(const char *text) REQUIRES(the_file_lock)
{
	struct trace_file *file;
	int err;

	if (the_file && the_file->pid == getpid()) {
		the_file->references++;
		return 0;
	}
	file = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*file));
	if (!file)
		return ENOMEM;
	file->pid = getpid();
	file->references = 1;
	lock_init(&file->lock);
	err = open_file(text, file);
	if (err)
		free(file);
	else
		the_file = file;
	return err;
}

static void file_put(struct trace_file *file)
{
	lock_acquire(&the_file_lock);
	if (--file->references == 0) {
		lock_destroy(&file->lock);
		flush_locked(file);
		if (file->fd >= 0)
			close(file->fd);
		if (the_file == file)
			the_file = NULL;
		free(file);
	}
	lock_release(&the_file_lock);
}

/* ---- the link ---- */

static unsigned trace_prepare(struct link *link, struct datagram *datagram)
{
	struct link *inner = trace_of(link)->inner;

	return inner->ops->prepare(inner, datagram);
}

static int trace_send(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	struct trace_link *trace = trace_of(link);
	int err = trace->inner->ops->send(trace->inner, datagram, count, sent);
	unsigned i;

	for (i = 0; i < *sent; i++)
		write_datagram(trace->file, &datagram[i], trace->path, true);
	return err;
}

static int trace_receive(struct link *link, struct datagram *datagram, unsigned max,
			 unsigned *received)
{
	struct trace_link *trace = trace_of(link);
	int err = trace->inner->ops->receive(trace->inner, datagram, max, received);
	unsigned i;

	for (i = 0; !err && i < *received; i++)
		write_datagram(trace->file, &datagram[i], trace->path, false);
	if (err || *received)
		return err;
	lock_acquire(&trace->file->lock);
	if (trace->file->used)
		flush_locked(trace->file);
	lock_release(&trace->file->lock);
	return 0;
}

static unsigned trace_event_fds(struct link *link, int *fds, unsigned max)
{
	struct link *inner = trace_of(link)->inner;

	return inner->ops->event_fds(inner, fds, max);
}

static void trace_close(struct link *link)
{
	struct trace_link *trace = trace_of(link);

	trace->inner->ops->close(trace->inner);
	file_put(trace->file);
	free(trace);
}

static const struct link_ops trace_ops = {
	.close = trace_close,
	.prepare = trace_prepare,
	.send = trace_send,
	.receive = trace_receive,
	.event_fds = trace_event_fds,
};

int trace_wrap(struct link **link, enum trace_path path)
{
	const char *text = secure_getenv(VARIABLE);
	struct trace_link *trace;
	int err;

	if (!text)
		return 0;
	trace = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*trace));
	if (!trace)
		return ENOMEM;
	lock_acquire(&the_file_lock);
	err = file_get_locked(text);
	trace->file = the_file;
	lock_release(&the_file_lock);
	if (err) {
		free(trace);
		return err;
	}
	trace_remember();
	trace->path = path;
	trace->link.ops = &trace_ops;
	trace->inner = *link;
	*link = &trace->link;
	return 0;
}
