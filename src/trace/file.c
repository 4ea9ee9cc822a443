/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of VERBATIM_TRACE. Blocks are put into a window of the file that is mapped, under any lock and
 * without a system call: they are in the file at once, and stay there if the process is killed. Behind the last
 * one the window is a block of a type that readers pass over:
 *
 *	| blocks ... | filler, to the end of the window, where the file ends |
 *
 * A block takes the filler's place behind a shorter filler, which stands before the block's head does. Threads
 * that hold no lock of a QP move the window on when little of it is left; the end of the process cuts the
 * filler off. A file that cannot be mapped (a device) is written from a buffer by them. A full disk ends the
 * trace, behind its last whole block, and not the traffic; so does who cuts the file short.
 */
#include "trace/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/call.h"
#include "base/copy.h"
#include "base/fork.h"
#include "base/inline.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/thread_cpu.h"
#include "platform/wait.h"
#include "trace/block.h"

#define VARIABLE	"VERBATIM_TRACE"
#define LIMIT_OPTION	",limit="
#define PACKETS_OPTION	",as-packets"
#define LIMIT_DEFAULT	(1ull << 30)
#define AHEAD_BYTES	(4u << 20)	/* all that is received at once, twice */
#define WINDOW_BYTES	(2 * AHEAD_BYTES)
#define WINDOW_LEAST	(256u << 10)	/* where the disk has no room for one */
#define BUFFER_MUCH	(1u << 20)
#define FILLER		0x80566264u	/* the type of a block: for local use, and passed over */
#define FILLER_LEAST	12u
#define LOST_BYTES	512u		/* of the block that says how many are missing */
#define FINISH_TRIES	100u
#define FINISH_STEP_NS	1000000u
#define FILE_CLOCK_NS	20000000u	/* by which times of files and processes may be too early */

struct trace_file {
	struct lock lock;
	char setting[PATH_MAX] GUARDED_BY_MEMBER(lock);	/* the value it was opened for; "": none */
	int fd GUARDED_BY_MEMBER(lock);			/* -1: none, or ended early */
	uint64_t left GUARDED_BY_MEMBER(lock);		/* bytes until the limit */
	bool is_full GUARDED_BY_MEMBER(lock);		/* the limit was reached: what is gathered is the end */
	uint64_t base GUARDED_BY_MEMBER(lock);		/* where the window begins in the file */
	size_t room GUARDED_BY_MEMBER(lock);		/* bytes of the window, or of the buffer */
	size_t used GUARDED_BY_MEMBER(lock);		/* of these, by blocks */
	bool is_mapped GUARDED_BY_MEMBER(lock);		/* the buffer is a window */
	bool is_cut GUARDED_BY_MEMBER(lock);		/* somebody cut the file short: the window has a hole */
	uint64_t lost GUARDED_BY_MEMBER(lock);		/* records for which there was no room */
	uint64_t lost_told GUARDED_BY_MEMBER(lock);	/* of these, those that the file tells of */
	bool lost_said GUARDED_BY_MEMBER(lock);
	bool as_packets GUARDED_BY_MEMBER(lock);	/* and no events */
	uint32_t interfaces GUARDED_BY_MEMBER(lock);	/* that were declared when it began, and since */
	/* Of frames of RoCE v1, of packets by LID; 0: none so far. */
	uint32_t ethernet GUARDED_BY_MEMBER(lock), fabric GUARDED_BY_MEMBER(lock);
	uint8_t *buffer GUARDED_BY_MEMBER(lock);
};

static struct trace_file the_file = { .lock = LOCK_INITIALIZER, .fd = -1 };
static _Atomic bool flush_is_due;	/* a thread without locks has something to do */

/* Written to stderr when the lock is released: others listen to such lines under locks of theirs. */
struct news {
	const char *ended;		/* why the trace ended; NULL: it did not */
	bool is_lossy;			/* the first packets are missing */
};

static void tell_news(const struct news *news)
{
	if (news->is_lossy)
		complain(VARIABLE ": packets come faster than they are written: some are missing in the trace");
	if (news->ended)
		complain(VARIABLE ": %s: the trace ends here, the program goes on", news->ended);
}

/* ---- the window ---- */

/* Into the window; a page that the file no longer has is no signal. */
static void put_bytes(size_t at, const void *data, size_t bytes) REQUIRES(the_file.lock)
{
	the_file.is_cut |= copy_user(the_file.buffer + at, data, bytes) != 0;
}

/*
 * The block of @length bytes, behind what is there. A kill between any two stores leaves whole blocks,
 * or a filler that ends with its former length.
 */
static void put_block(const uint8_t *block, size_t length) REQUIRES(the_file.lock)
{
	uint32_t rest = (uint32_t)(the_file.room - the_file.used - length);
	const uint32_t filler[2] = { FILLER, rest };

	if (!the_file.is_mapped) {
		memcpy(the_file.buffer + the_file.used, block, length);
	} else {
		if (rest >= FILLER_LEAST)
			put_bytes(the_file.used + length, filler, sizeof(filler));
		put_bytes(the_file.used + 8, block + 8, length - 8);
		put_bytes(the_file.used, block, 8);
		if (rest >= FILLER_LEAST)
			put_bytes(the_file.room - sizeof(rest), &rest, sizeof(rest));
	}
	the_file.used += length;
	the_file.left -= length;
}

/* Its window, or buffer, is given back. @cut: the file ends with its last block. */
static void window_close(bool cut) REQUIRES(the_file.lock)
{
	if (the_file.is_mapped) {
		munmap(the_file.buffer, the_file.room);
		if (cut && ftruncate(the_file.fd, (off_t)(the_file.base + the_file.used)))
			log_warn("the end of the trace is not cut off: %m");
	} else {
		free(the_file.buffer);
	}
	the_file.buffer = NULL;
	the_file.is_mapped = false;
	the_file.room = the_file.used = 0;
}

/*
 * To the end of a window of @bytes at @base: its place on the disk first, which takes long, then the head of the
 * @filler at @end, and the end of it with the size. A kill leaves whole blocks, or a filler that the file ends in.
 */
static int file_extend(uint64_t base, size_t bytes, uint64_t end, const uint32_t filler[2])
	REQUIRES(the_file.lock)
{
	int fd = the_file.fd;

	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)base, (off_t)bytes))
		return errno;
	if (filler[1] < FILLER_LEAST)
		return ftruncate(fd, (off_t)(base + bytes)) ? errno : 0;
	if (pwrite(fd, filler, 8, (off_t)end) != 8 ||
	    pwrite(fd, &filler[1], 4, (off_t)(base + bytes - 4)) != 4)
		return errno;
	return 0;
}

/*
 * A window that begins with the page in which the last block ends, of @bytes, or of less: as the limit and the
 * disk have it. 0 or errno.
 */
static int window_move(size_t bytes) REQUIRES(the_file.lock)
{
	uint64_t end = the_file.base + the_file.used;
	uint64_t base = end & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	uint64_t most = (end + the_file.left - base) & ~(uint64_t)3;
	uint32_t filler[2] = { FILLER, 0 };
	uint8_t *window;
	int err;

	bytes = bytes < most ? bytes : most;
	filler[1] = (uint32_t)(base + bytes - end);
	call_shield();
	err = file_extend(base, bytes, end, filler);
	if (err)
		return err;
	window = fail_now(FAIL_MMAP) ? MAP_FAILED :
		 mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, the_file.fd, (off_t)base);
	if (window == MAP_FAILED) {
		err = errno;
		if (!the_file.is_mapped && ftruncate(the_file.fd, (off_t)end))
			log_warn("the end of the trace is not cut off: %m");
		return err;
	}
	if (the_file.is_mapped)
		munmap(the_file.buffer, the_file.room);
	the_file.is_mapped = true;
	the_file.buffer = window;
	the_file.base = base;
	the_file.room = bytes;
	the_file.used = end - base;
	return 0;
}

/* Little is left in front of the last block, and the limit does not end there. */
static bool window_is_short(void) REQUIRES(the_file.lock)
{
	size_t rest = the_file.room - the_file.used;

	return the_file.is_mapped && rest < AHEAD_BYTES && rest + 4 <= the_file.left;
}

/* ---- writing ---- */

static void end_early(struct news *news, const char *why) REQUIRES(the_file.lock)
{
	news->ended = why;
	window_close(!the_file.is_cut);
	close(the_file.fd);
	the_file.fd = -1;
	the_file.is_full = the_file.is_cut = false;
}

/* Behind what is gathered: what came after it, and found no room. */
static void tell_lost(void) REQUIRES(the_file.lock)
{
	const struct tracepoint_lost lost = { .records = the_file.lost - the_file.lost_told };
	const struct trace_record record = { .thread = (uint32_t)thread_id(),
					     .time_ns = clock_wall_ns() };
	uint8_t block[TRACE_BLOCK_MAX], data[TRACEPOINT_BYTES];
	char members[TRACEPOINT_BYTES];
	struct tracepoint_record point;
	size_t length;

	tracepoint_encode(TRACEPOINT_OF_lost, &lost, record.time_ns, data, &point);
	length = trace_event_block(&record, TRACE_AS_OPERATIONS, 1, members,
				   tracepoint_members(data, point.bytes, members), block);
	the_file.lost_told = the_file.lost;
	the_file.is_full |= length > the_file.left || length > the_file.room - the_file.used;
	if (!the_file.is_full)
		put_block(block, length);
}

/* What the buffer has goes to the file. */
static void write_buffer(struct news *news) REQUIRES(the_file.lock)
{
	size_t done = 0;

	call_shield();
	while (the_file.fd >= 0 && done < the_file.used) {
		ssize_t put = write(the_file.fd, the_file.buffer + done, the_file.used - done);
		int err = put ? errno : ENOSPC;

		if (put > 0) {
			done += (size_t)put;
		} else if (err != EINTR) {
			/* The file is to end with its last whole block. (Devices cannot.) */
			off_t end = lseek(the_file.fd, 0, SEEK_CUR);
			size_t whole = pcapng_whole_blocks(the_file.buffer, done);

			if (end < 0 || ftruncate(the_file.fd, end - (off_t)(done - whole)))
				log_warn("the last block of the trace is cut: %m");
			end_early(news, strerror(err));
		}
	}
	the_file.used = 0;
}

static void flush_locked(struct news *news) REQUIRES(the_file.lock)
{
	int err;

	atomic_store_explicit(&flush_is_due, false, memory_order_relaxed);
	if (the_file.lost != the_file.lost_told && !the_file.as_packets && !the_file.is_full)
		tell_lost();
	if (!the_file.is_mapped)
		write_buffer(news);
	news->is_lossy = the_file.lost && !the_file.lost_said;
	the_file.lost_said |= news->is_lossy;
	if (the_file.fd >= 0 && the_file.is_cut) {
		end_early(news, "another process has cut the file short");
	} else if (the_file.fd >= 0 && the_file.is_full) {
		end_early(news, "the file has reached its size limit (" VARIABLE "=FILE,limit=N or ulimit -f)");
	} else if (window_is_short()) {
		err = window_move(WINDOW_BYTES);
		if (err == ENOSPC || err == EDQUOT)
			err = window_move(the_file.room - the_file.used + WINDOW_LEAST);
		if (err)
			end_early(news, strerror(err));
	}
}

/* Others write meanwhile, or (at exit(), in a handler of signals) this thread does. */
static bool flush_beyond(size_t most)
{
	struct news news = { 0 };

	if (!atomic_load_explicit(&flush_is_due, memory_order_relaxed))
		return true;
	if (!lock_try(&the_file.lock))
		return false;
	if (the_file.is_mapped || the_file.used > most || the_file.is_full)
		flush_locked(&news);
	lock_release(&the_file.lock);
	tell_news(&news);
	return true;
}

APART void trace_file_flush(void)
{
	flush_beyond(0);
}

void trace_file_relieve(void)
{
	flush_beyond(BUFFER_MUCH);
}

void trace_file_finish(void)
{
	struct news news = { 0 };
	unsigned tries;
	uint64_t lost;

	for (tries = 0; !lock_try(&the_file.lock); tries++) {
		if (tries == FINISH_TRIES)
			return;
		thread_sleep_ns(FINISH_STEP_NS);
	}
	flush_locked(&news);
	if (the_file.is_mapped)		/* what other threads put from now on is lost with them */
		window_close(true);
	lost = the_file.lost;
	lock_release(&the_file.lock);
	tell_news(&news);
	if (lost)
		complain(VARIABLE ": %llu packets are missing in the trace", (unsigned long long)lost);
}

/* Room for any block. What the limit leaves of the window may be too little: then the trace is full. */
static bool has_room(void) REQUIRES(the_file.lock)
{
	size_t rest = the_file.room - the_file.used;
	bool fits = rest >= TRACE_BLOCK_MAX + LOST_BYTES || rest + 3 >= the_file.left;

	if (the_file.fd < 0 || the_file.is_full || the_file.is_cut)
		return false;
	the_file.lost += !fits;
	if (!fits)
		atomic_store_explicit(&flush_is_due, true, memory_order_relaxed);
	return fits;
}

static void take_block(const uint8_t *block, size_t length) REQUIRES(the_file.lock)
{
	the_file.is_full = length > the_file.left || length > the_file.room - the_file.used;
	if (!the_file.is_full)
		put_block(block, length);
	if (!the_file.is_mapped || the_file.is_full || the_file.is_cut || window_is_short())
		atomic_store_explicit(&flush_is_due, true, memory_order_relaxed);
}

/* One of those that few processes need: declared before its first packet. */
static uint32_t file_interface(uint32_t *number, enum pcapng_link link, const char *what) REQUIRES(the_file.lock)
{
	uint8_t block[PCAPNG_INTERFACE_MAX];
	char name[PCAPNG_NAME_MAX];

	if (*number)
		return *number;
	snprintf(name, sizeof(name), "%.64s(%d) %s", program_invocation_short_name, (int)getpid(), what);
	take_block(block, pcapng_write_interface(link, name, block));
	*number = the_file.interfaces++;
	return *number;
}

void trace_file_packet(const struct trace_record *record, const uint8_t *data, size_t bytes)
{
	uint8_t block[TRACE_BLOCK_MAX];
	uint32_t interface = 0;
	bool fits;

	lock_acquire(&the_file.lock);
	fits = has_room();
	if (fits && record->slid)
		interface = file_interface(&the_file.fabric, PCAPNG_ERF, "fabric");
	else if (fits && record->path == TRACE_ETHERNET)
		interface = file_interface(&the_file.ethernet, PCAPNG_ETHERNET, "ethernet");
	if (fits && !the_file.is_full)
		take_block(block, trace_packet_block(record, interface, record->flags & TRACE_OUTBOUND, false,
						     data, bytes, record->length, block));
	lock_release(&the_file.lock);
}

void trace_file_operation(const struct trace_record *record,
			  const struct trace_operation *operation)
{
	uint8_t block[TRACE_BLOCK_MAX];

	lock_acquire(&the_file.lock);
	if (!the_file.as_packets && has_room())
		take_block(block, trace_operation_block(record, operation, 1, block));
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

static bool parse_limit(const char *text, size_t bytes, uint64_t *limit)
{
	static const char units[] = "kMG";
	const char *unit, *end = text + bytes;
	uint64_t value;

	if (!text_scan_number(&text, UINT64_MAX >> 30, &value))
		return false;
	unit = text < end ? strchr(units, *text) : NULL;
	if (unit) {
		value <<= 10 * (unit - units + 1);
		text++;
	}
	*limit = value;
	return text == end && value >= 4096;
}

struct setting {
	char name[PATH_MAX];
	uint64_t limit;
	bool as_packets;
};

/* Options stand at the end: from the last on. What looks like one is no name. */
static bool parse_options(const char *text, size_t *length, struct setting *setting)
{
	const char *comma;

	for (; (comma = memrchr(text, ',', *length)); *length = (size_t)(comma - text)) {
		size_t bytes = (size_t)(text + *length - comma), word = strlen(LIMIT_OPTION);

		if (bytes == strlen(PACKETS_OPTION) && !memcmp(comma, PACKETS_OPTION, bytes))
			setting->as_packets = true;
		else if (bytes < word || memcmp(comma, LIMIT_OPTION, word))
			return !memchr(comma, '=', bytes);
		else if (!parse_limit(comma + word, bytes - word, &setting->limit))
			return false;
	}
	return true;
}

static int file_parse_name(const char *text, struct setting *setting)
{
	size_t length = strlen(text);

	setting->limit = LIMIT_DEFAULT;
	setting->as_packets = false;
	if (length < PATH_MAX && parse_options(text, &length, setting) &&
	    expand_name(text, length, setting->name))
		return 0;
	complain(VARIABLE ": invalid value '%s': expected FILE or FILE" LIMIT_OPTION "64M; %%p in "
		 "FILE stands for the process ID", text);
	return EINVAL;
}

int trace_file_check(void)
{
	const char *text = secure_getenv(VARIABLE);
	struct setting setting;

	return text ? file_parse_name(text, &setting) : 0;
}

/* ---- opening ---- */

/* When this process began, on the clock of files. 0: not known. */
static uint64_t process_began_ns(void)
{
	char text[1024] = "";
	FILE *file = fopen("/proc/self/stat", "re");
	size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	const char *at = bytes ? strrchr(text, ')') : NULL;	/* behind the name, which may be anything */
	unsigned long long ticks = 0;
	struct timespec now;

	if (file)
		fclose(file);
	if (!at || sscanf(at, ")%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
			  &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &now))
		return 0;
	return clock_wall_ns() - ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) +
	       ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* What this process wrote before it called exec() is kept: the file goes on with another section. */
static bool is_of_this_process(int fd)
{
	uint8_t head[PCAPNG_INTERFACE_MAX + 64];
	uint64_t began_ns = process_began_ns();
	struct stat status;
	char name[16];
	ssize_t bytes;
	int length;

	if (!began_ns || fstat(fd, &status) || !S_ISREG(status.st_mode) ||
	    (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec + FILE_CLOCK_NS <=
		    began_ns)
		return false;
	/* Its interface is PROGRAM(PID), whatever the program was called then. */
	bytes = pread(fd, head, sizeof(head), 0);
	length = snprintf(name, sizeof(name), "(%d)", (int)getpid());
	return bytes > 0 && memmem(head, (size_t)bytes, name, (size_t)length);
}

/* What a program left behind its last block when it called exec(). 0, -1: errno. */
static int cut_filler(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	uint32_t length, head[2];

	if (size < (off_t)FILLER_LEAST || pread(fd, &length, 4, size - 4) != 4 || length > size ||
	    pread(fd, head, sizeof(head), size - length) != sizeof(head) || head[0] != FILLER || head[1] != length)
		return 0;
	return ftruncate(fd, size - length);
}

/*
 * In /tmp another user may have created the file first: only our own files and devices (/dev/null) are
 * written. Not pipes: the program would wait for whoever reads them, and be killed when he ends.
 * Devices have no size; locking them is harmless.
 */
static int lock_and_empty(int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return errno;
	if (!S_ISCHR(status.st_mode) && !S_ISREG(status.st_mode))
		return ENXIO;
	if (S_ISREG(status.st_mode) && status.st_uid != geteuid())
		return EPERM;
	if (flock(fd, LOCK_EX | LOCK_NB))
		return errno;
	if (is_of_this_process(fd))
		return cut_filler(fd) || lseek(fd, 0, SEEK_END) < 0 ? errno : 0;
	return ftruncate(fd, 0) && errno != EINVAL ? errno : 0;
}

/*
 * An fd with the file locked by us, at its end; -1: errno (EWOULDBLOCK: another process writes it,
 * EPERM: it is another user's, ELOOP: a symbolic link, ENXIO: a pipe). Only the user may read the
 * packets: mode 0600.
 */
static int open_locked(const char *name)
{
	int err, fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	/* A program that was started with stdout closed would write into the trace. */
	if (fd >= 0 && fd <= STDERR_FILENO) {
		int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

		err = errno;
		close(fd);
		errno = err;
		fd = above;
	}
	if (fd < 0)
		return -1;
	err = lock_and_empty(fd);
	if (!err)
		return fd;
	close(fd);
	errno = err;
	return -1;
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
	complain(VARIABLE ": cannot write '%s': %s", name,
		 err == EPERM ? "it belongs to another user" : err == ELOOP ? "it is a symbolic link" :
		 err == ENXIO ? "it is no file; verbatim trace writes to pipes" : strerror(err));
	errno = err;
	return -1;
}

/* Sections and interfaces, in front of all blocks. Returns the bytes. */
static size_t write_head(bool as_packets, uint8_t *out)
{
	char name[PATH_MAX];
	size_t used = pcapng_write_section(out);

	snprintf(name, PATH_MAX, "%s(%d)", program_invocation_short_name, (int)getpid());
	used += pcapng_write_interface(PCAPNG_RAW_IP, name, out + used);
	if (!as_packets)
		used += pcapng_write_interface(PCAPNG_EXPORTED_PDU, strcat(name, " events"), out + used);
	return used;
}

static int open_for(const char *text, struct news *news) REQUIRES(the_file.lock)
{
	uint8_t head[TRACE_BLOCK_MAX];
	struct setting setting;
	struct rlimit kernels;
	size_t bytes;
	off_t written;
	int fd, err = file_parse_name(text, &setting);

	if (err)
		return err;
	fd = open_named(setting.name);
	if (fd < 0)
		return errno;
	if (the_file.fd >= 0) {
		flush_locked(news);
		window_close(true);
		close(the_file.fd);
	}
	/* The kernel kills who writes beyond RLIMIT_FSIZE. */
	if (!getrlimit(RLIMIT_FSIZE, &kernels) && kernels.rlim_cur < setting.limit)
		setting.limit = kernels.rlim_cur;
	written = lseek(fd, 0, SEEK_CUR);
	the_file.fd = fd;
	the_file.base = written > 0 ? (uint64_t)written : 0;
	the_file.left = setting.limit > the_file.base ? setting.limit - the_file.base : 0;
	bytes = write_head(setting.as_packets, head);
	the_file.is_full = bytes > the_file.left;
	if (!the_file.is_full && window_move(WINDOW_BYTES) && window_move(WINDOW_LEAST)) {
		the_file.buffer = fail_now(FAIL_ALLOCATE) ? NULL : malloc(AHEAD_BYTES);
		if (!the_file.buffer) {
			close(fd);
			the_file.fd = -1;
			return ENOMEM;
		}
		the_file.room = AHEAD_BYTES;
	}
	snprintf(the_file.setting, sizeof(the_file.setting), "%s", text);
	the_file.as_packets = setting.as_packets;
	the_file.interfaces = setting.as_packets ? 1 : 2;
	the_file.ethernet = the_file.fabric = 0;
	if (!the_file.is_full) {
		put_block(head, bytes);
		flush_locked(news);
	}
	atomic_store_explicit(&flush_is_due, true, memory_order_relaxed);
	return 0;
}

/* ---- fork() ---- */

static void file_before_fork(void) ACQUIRES(the_file.lock)
{
	lock_acquire(&the_file.lock);
}

static void file_after_fork_parent(void) RELEASES(the_file.lock)
{
	lock_release(&the_file.lock);
}

/* A child that opens a device gets a file of its own. */
static void file_after_fork_child(void) RELEASES(the_file.lock)
{
	window_close(false);
	if (the_file.fd >= 0)
		close(the_file.fd);
	the_file.fd = -1;
	the_file.is_full = the_file.is_cut = false;
	the_file.lost = the_file.lost_told = 0;
	the_file.lost_said = false;
	the_file.setting[0] = '\0';
	lock_release(&the_file.lock);
}

static const struct fork_handlers file_fork = {
	.prepare = file_before_fork, .parent = file_after_fork_parent, .child = file_after_fork_child,
};

int trace_file_open(void)
{
	const char *text = secure_getenv(VARIABLE);
	struct news news = { 0 };
	bool opened;
	int err = 0;

	fork_register(FORK_TRACE_FILE, &file_fork);
	if (!text)
		return 0;
	lock_acquire(&the_file.lock);
	opened = strcmp(the_file.setting, text) || !*text;
	if (opened)
		err = open_for(text, &news);
	lock_release(&the_file.lock);
	tell_news(&news);
	if (opened && !err && trace_file_as_packets())
		complain(VARIABLE ": as-packets: requests inside this host go as packets, "
			 "and are slower");
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

bool trace_file_as_packets(void)
{
	bool as_packets;

	lock_acquire(&the_file.lock);
	as_packets = the_file.fd >= 0 && the_file.as_packets;
	lock_release(&the_file.lock);
	return as_packets;
}
