/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process's end of a trace: attaching, and writing records into the ring (record.h). Everything that the
 * tracer could change (tail, the header) is checked against what is noted here.
 */
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fork.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/recent.h"
#include "platform/clock.h"
#include "platform/thread_cpu.h"
#include "platform/wait.h"
#include "trace/block.h"
#include "trace/expand.h"
#include "trace/file.h"
#include "wire/dump.h"
#include "wire/packet.h"
#include "wire/psn.h"

#define TRACER_VARIABLE	"VERBATIM_TRACER"
#define END_TRIES	100u
#define NAP_NS		200000
#define NAPS_MAX	50u		/* of one call, ... */
#define STUCK_NS	1000000000ull	/* ... and none once the tracer has read nothing for so long */
#define LOOK_EVERY	4096u		/* calls, to see whether the tracer still is there */
#define PATIENCE_S	2		/* for the tracer's first message */

struct trace_state {
	struct lock lock;
	struct trace_share *share GUARDED_BY_MEMBER(lock);	/* NULL: nobody traces */
	uint8_t *ring GUARDED_BY_MEMBER(lock);
	uint64_t head GUARDED_BY_MEMBER(lock);
	uint32_t ring_bytes GUARDED_BY_MEMBER(lock);
	int connection GUARDED_BY_MEMBER(lock);
	uint32_t wanted GUARDED_BY_MEMBER(lock);		/* by that tracer */
	uint32_t tracer GUARDED_BY_MEMBER(lock);		/* counts them */
	uint64_t stuck_tail GUARDED_BY_MEMBER(lock), stuck_since_ns GUARDED_BY_MEMBER(lock);
	struct recent *sent GUARDED_BY_MEMBER(lock);	/* request packets; kept once allocated */
};

static struct trace_state trace = { .lock = LOCK_INITIALIZER, .connection = -1 };

static _Atomic unsigned looks;
static void (*_Atomic switch_calls)(bool on);
static uint32_t trace_payload_bytes;		/* atomic */

void trace_set_switch(void (*function)(bool on))
{
	atomic_store_explicit(&switch_calls, function, memory_order_release);
}

static uint32_t what_is_wanted(void)
{
	uint32_t wanted;

	lock_acquire(&trace.lock);
	wanted = trace.share ? trace.wanted & (TRACE_KINDS | TRACE_PAYLOAD) : 0;
	lock_release(&trace.lock);
	if (trace_file_is_open())
		wanted |=
			TRACE_PACKETS | TRACE_FILE | (trace_file_as_packets() ? TRACE_PAYLOAD : 0);
	/* A check that runs goes on. */
	wanted |= atomic_load(&trace_wanted) & TRACE_CHECK;
	return wanted | (log_is_on(LOG_PACKET) ? TRACE_LOG : 0);
}

/*
 * The state of the trace changed. Threads that do this at once look again afterwards, so that the last to
 * finish has switched to what is true then.
 */
static void trace_switch(void)
{
	void (*function)(bool on) = atomic_load_explicit(&switch_calls, memory_order_acquire);
	uint32_t wanted;

	do {
		wanted = what_is_wanted();
		atomic_store(&trace_wanted, wanted);
		log_listen(wanted & TRACE_EXPLAIN ? trace_explanation : NULL);
		tracepoint_listen(wanted & TRACE_KINDS ? trace_take : NULL);
		if (function)
			function((wanted & (TRACE_KINDS | TRACE_CHECK)) != 0);
	} while (what_is_wanted() != wanted);
}

bool trace_is_attached(void)
{
	bool attached;

	lock_acquire(&trace.lock);
	attached = trace.share != NULL;
	lock_release(&trace.lock);
	return attached;
}

/* ---- fork() ---- */

static void trace_before_fork(void) ACQUIRES(trace.lock)
{
	lock_acquire(&trace.lock);
}

static void trace_after_fork_parent(void) RELEASES(trace.lock)
{
	lock_release(&trace.lock);
}

/* The ring is the parent's: a child that opens a device gets one of its own. */
static void trace_after_fork_child(void) RELEASES(trace.lock)
{
	atomic_fetch_and(&trace_wanted, TRACE_CHECK);
	log_listen(NULL);
	tracepoint_listen(NULL);
	if (trace.share) {
		munmap(trace.share, TRACE_SHARE_BYTES + (size_t)trace.ring_bytes);
		close(trace.connection);
	}
	trace.share = NULL;
	trace.connection = -1;
	lock_release(&trace.lock);
}

static const struct fork_handlers trace_fork = {
	.prepare = trace_before_fork, .parent = trace_after_fork_parent, .child = trace_after_fork_child,
};

/* ---- attaching ---- */

static int share_map(int memfd, struct trace_share **mapped, size_t *bytes)
{
	int seals = fcntl(memfd, F_GET_SEALS), err = 0;
	struct trace_share *share;
	struct stat status;
	uint32_t ring_bytes;

	/* A share that shrinks would be SIGBUS. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(memfd, &status) ||
	    status.st_size <= (off_t)TRACE_SHARE_BYTES ||
	    status.st_size > (off_t)(TRACE_SHARE_BYTES + TRACE_RING_MAX))
		return EINVAL;
	*bytes = (size_t)status.st_size;
	share = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (share == MAP_FAILED)
		return errno;
	ring_bytes = share->ring_bytes;
	if (share->magic != TRACE_MAGIC || share->version != TRACE_VERSION ||
	    share->record_bytes != sizeof(struct trace_record))
		err = EPROTO;
	else if (ring_bytes & (ring_bytes - 1) || *bytes != TRACE_SHARE_BYTES + (size_t)ring_bytes ||
		 ring_bytes < 4 * TRACE_RECORD_MAX)
		err = EINVAL;
	if (err) {
		munmap(share, *bytes);
		return err;
	}
	*mapped = share;
	return 0;
}

static int trace_install(struct trace_share *share, int connection, uint32_t *tracer)
{
	struct recent *sent = calloc(1, sizeof(*sent));

	if (!sent)
		return ENOMEM;
	lock_acquire(&trace.lock);
	if (trace.share) {
		lock_release(&trace.lock);
		free(sent);
		return EBUSY;
	}
	if (trace.sent)
		recent_forget(trace.sent, 0, 0);
	else
		trace.sent = sent, sent = NULL;
	snprintf(share->program, sizeof(share->program), "%s", program_invocation_short_name);
	share->parent = (uint32_t)getppid();
	trace.ring = (uint8_t *)share + TRACE_SHARE_BYTES;
	trace.ring_bytes = share->ring_bytes;
	__atomic_store_n(&trace_payload_bytes, share->payload_bytes, __ATOMIC_RELAXED);
	trace.connection = connection;
	trace.head = 0;
	trace.stuck_tail = 0;
	trace.stuck_since_ns = 0;
	trace.share = share;
	trace.wanted = share->wanted;
	trace.tracer += trace.tracer == UINT32_MAX ? 2 : 1;
	if (tracer)
		*tracer = trace.tracer;
	lock_release(&trace.lock);
	free(sent);
	return 0;
}

/* The one that is attached, if it has ended without a word; else 0. */
static uint32_t tracer_that_is_gone(void)
{
	struct pollfd look = { .events = 0 };
	uint32_t tracer;

	lock_acquire(&trace.lock);
	look.fd = trace.connection;
	tracer = trace.tracer;
	lock_release(&trace.lock);
	return look.fd >= 0 && poll(&look, 1, 0) > 0 && look.revents & (POLLHUP | POLLERR) ? tracer : 0;
}

int trace_attach(int memfd, int connection, uint32_t *tracer)
{
	struct trace_share *share = NULL;
	size_t bytes = 0;
	int err = share_map(memfd, &share, &bytes);

	close(memfd);
	if (err) {
		close(connection);
		return err;
	}
	fork_register(FORK_TRACE, &trace_fork);
	trace_detach(tracer_that_is_gone());
	err = trace_install(share, connection, tracer);
	if (err) {
		munmap(share, bytes);
		close(connection);
		return err;
	}
	trace_switch();
	return 0;
}

void trace_detach(uint32_t tracer)
{
	struct trace_share *share = NULL;
	size_t bytes;
	int connection;

	lock_acquire(&trace.lock);
	if (trace.tracer == tracer)
		share = trace.share;
	if (!share) {
		lock_release(&trace.lock);
		return;
	}
	bytes = TRACE_SHARE_BYTES + (size_t)trace.ring_bytes;
	connection = trace.connection;
	trace.share = NULL;
	trace.connection = -1;
	lock_release(&trace.lock);
	trace_switch();
	munmap(share, bytes);
	close(connection);
}

/* The tracer's first message: the share. -1: errno. */
static int receive_memfd(int connection)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
	char byte;
	struct iovec piece = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header;
	int memfd;

	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) {
		errno = EPROTO;
		return -1;
	}
	memcpy(&memfd, CMSG_DATA(header), sizeof(memfd));
	return memfd;
}

static int connect_to(const char *path, int *memfd, int *connection)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, err = 0;

	if (strlen(path) >= sizeof(address.sun_path))
		return ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		err = errno;
	if (!err) {
		*memfd = receive_memfd(fd);
		err = *memfd < 0 ? errno : 0;
	}
	if (err)
		close(fd);
	else
		*connection = fd;
	return err;
}

void trace_touch(void)
{
	size_t at;

	lock_acquire(&trace.lock);
	for (at = 0; trace.share && at < trace.ring_bytes; at += TRACE_SHARE_BYTES)
		__atomic_fetch_or(trace.ring + at, 0, __ATOMIC_RELAXED);
	lock_release(&trace.lock);
}

void trace_connect(void)
{
	static _Atomic bool refused;	/* it will not be there for the next device either */
	const char *path = secure_getenv(TRACER_VARIABLE);
	int err, memfd = -1, connection = -1;
	struct recent *sent;

	if (log_is_on(LOG_PACKET) || trace_file_is_open()) {
		fork_register(FORK_TRACE, &trace_fork);
		sent = calloc(1, sizeof(*sent));
		lock_acquire(&trace.lock);
		if (!trace.sent)
			trace.sent = sent, sent = NULL;
		lock_release(&trace.lock);
		free(sent);
		trace_switch();
	}
	if (!path || trace_is_attached() || atomic_load_explicit(&refused, memory_order_relaxed))
		return;
	err = connect_to(path, &memfd, &connection);
	if (!err)
		err = trace_attach(memfd, connection, NULL);
	if (!err)
		trace_touch();
	atomic_store_explicit(&refused, err != 0, memory_order_relaxed);
	if (err)
		complain("this process is not traced: %s", err == EPROTO ? "verbatim trace is of another release" :
			 err == ENOENT || err == ECONNREFUSED ? "verbatim trace has ended" : strerror(err));
}

/* ---- the ring ---- */

static uint64_t ring_used_locked(void) REQUIRES(trace.lock)
{
	/* R2 */
	uint64_t used = trace.head - atomic_load_explicit(&trace.share->tail, memory_order_acquire);

	return used <= trace.ring_bytes ? used : trace.ring_bytes;
}

static void ring_copy_locked(const void *data, size_t bytes) REQUIRES(trace.lock)
{
	size_t at = trace.head & (trace.ring_bytes - 1);
	size_t first = trace.ring_bytes - at < bytes ? trace.ring_bytes - at : bytes;

	memcpy(trace.ring + at, data, first);
	memcpy(trace.ring, (const uint8_t *)data + first, bytes - first);
	trace.head += bytes;
}

/* Only the tracer: what its filter leaves out may be wanted by the file. */
void trace_put(struct trace_record *record, uint32_t want, const void *data, size_t bytes)
{
	static const uint8_t zeros[8];

	record->captured = (uint32_t)bytes - record->route;
	record->bytes = (uint32_t)((sizeof(*record) + bytes + 7) & ~7u);
	record->thread = (uint32_t)thread_id();
	lock_acquire(&trace.lock);
	if (!record->time_ns)
		record->time_ns = clock_wall_ns();
	if (!trace.share || !(trace.wanted & want)) {
		lock_release(&trace.lock);
		return;
	}
	if (record->bytes <= TRACE_RECORD_MAX &&
	    trace.ring_bytes - ring_used_locked() >= record->bytes) {
		ring_copy_locked(record, sizeof(*record));
		ring_copy_locked(data, bytes);
		ring_copy_locked(zeros, record->bytes - sizeof(*record) - bytes);
		atomic_store_explicit(&trace.share->head, trace.head, memory_order_release);	/* R1 */
	} else {
		atomic_fetch_add_explicit(&trace.share->lost, 1, memory_order_relaxed);
	}
	lock_release(&trace.lock);
}

bool trace_may_end(void)
{
	unsigned tries;

	for (tries = 0; !lock_try(&trace.lock); tries++) {
		if (tries == END_TRIES)
			return false;
		thread_sleep_ns(NAP_NS);
	}
	lock_release(&trace.lock);
	return true;
}

/* ---- waiting for the tracer ---- */

/* Not for a tracer that has read nothing for long: waiting would only slow the program down. */
static bool should_nap(void)
{
	bool nap;

	lock_acquire(&trace.lock);
	nap = trace.share && ring_used_locked() > trace.ring_bytes / 4 * 3;
	if (nap) {
		uint64_t tail = atomic_load_explicit(&trace.share->tail, memory_order_relaxed);
		uint64_t now_ns = clock_now_ns();

		if (tail != trace.stuck_tail || !trace.stuck_since_ns) {
			trace.stuck_tail = tail;
			trace.stuck_since_ns = now_ns;
		}
		nap = now_ns - trace.stuck_since_ns <= STUCK_NS;
	}
	lock_release(&trace.lock);
	return nap;
}

void trace_throttle_slowly(void)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	int saved = errno;
	unsigned n = 0;

	if (trace_wants(TRACE_FILE))
		trace_file_flush();
	while (n < NAPS_MAX && should_nap()) {
		nanosleep(&nap, NULL);
		n++;
	}
	if (n || atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed) % LOOK_EVERY == 0)
		trace_detach(tracer_that_is_gone());
	errno = saved;
}

/* ---- records ---- */

static uint64_t sent_key(uint32_t qpn, uint32_t psn)
{
	return (uint64_t)1 << 63 | (uint64_t)qpn << 32 | psn;
}

unsigned trace_repetition(uint32_t qpn, uint32_t psn)
{
	unsigned times = 0;

	lock_acquire(&trace.lock);
	if (trace.sent)
		times = (unsigned)(*recent_value(trace.sent, sent_key(qpn, psn)))++;
	lock_release(&trace.lock);
	return times;
}

void trace_forget(uint32_t qpn)
{
	lock_acquire(&trace.lock);
	if (trace.sent)
		recent_forget(trace.sent, sent_key(UINT32_MAX >> 1, 0), sent_key(qpn, 0));
	lock_release(&trace.lock);
}

/* How much of a packet is recorded: its headers, of its payload @payload, a MAD, an ICRC if there is one. */
static size_t captured_of(const struct trace_record *record, const uint8_t *data, size_t bytes, uint32_t payload)
{
	const struct opcode *op = bytes ? opcode_get(data[0]) : NULL;
	size_t most = record->flags & TRACE_HAS_ICRC ? bytes : bytes - (bytes < ICRC_BYTES ? bytes : ICRC_BYTES);

	if (op && packet_peek_qpn(data, bytes) != QPN_GSI && payload < most && op->header_bytes + payload < most)
		most = op->header_bytes + payload;
	return most <= TRACE_PACKET_MAX ? most : TRACE_PACKET_MAX;
}

/* A line of the log; @bytes of the whole packet, of which the headers stand at @data, and a MAD. */
static void log_traced(const struct trace_record *record, const uint8_t *data, size_t bytes, bool outbound)
{
	char line[DUMP_LINE_MAX], comment[TRACE_COMMENT_MAX];
	struct packet packet;

	if (packet_parse(data, bytes, &packet) != PARSE_OK)
		return;
	packet_dump(&packet, line, sizeof(line));
	trace_comment(record, NULL, comment);
	log_print(LOG_PACKET, "%s %s (%s)", outbound ? "sent" : "received", line, comment);
}

static void log_expanded(void *owner, const struct expanded *packet)
{
	log_traced(owner, packet->headers, packet->length, packet->outbound);
}

/* The packet with the words behind what is captured of it; @data, if there are none. */
static const uint8_t *with_route(const uint8_t *data, size_t bytes, const char *route, size_t words,
				 uint8_t routed[TRACE_RECORD_MAX])
{
	if (!words)
		return data;
	memcpy(routed, data, bytes);
	memcpy(routed + bytes, route, words);
	return routed;
}

/* What is received as a packet, the engine logs where it has been checked. */
void trace_packet(struct trace_record *record, const uint8_t *data, size_t bytes, const char *route)
{
	size_t words = route ? strnlen(route, TRACE_ROUTE_MAX - 1) : 0;
	uint8_t routed[TRACE_RECORD_MAX];

	if (trace_wants(TRACE_LOG) && record->flags & TRACE_OUTBOUND)
		log_traced(record, data, bytes, true);
	if (!trace_wants(TRACE_PACKETS))
		return;
	record->length = (uint32_t)bytes;
	if (!record->time_ns)
		record->time_ns = clock_wall_ns();
	record->route = (uint16_t)words;
	if (trace_wants(TRACE_FILE)) {
		size_t most = captured_of(record, data, bytes, UINT32_MAX);

		trace_file_packet(record, with_route(data, most, route, words, routed), most);
	}
	bytes = captured_of(record, data, bytes, __atomic_load_n(&trace_payload_bytes, __ATOMIC_RELAXED));
	trace_put(record, TRACE_PACKETS, with_route(data, bytes, route, words, routed), bytes + words);
}

void trace_operation(struct trace_record *record, const struct trace_operation *operation)
{
	uint32_t left_out;

	record->kind = TRACE_IS_OPERATION;
	if (trace_wants(TRACE_LOG))
		trace_expand(operation, record->flags & TRACE_OUTBOUND, record->qpn, log_expanded, record,
			     &left_out);
	if (!trace_wants(TRACE_PACKETS))
		return;
	if (!record->time_ns)
		record->time_ns = clock_wall_ns();
	record->thread = (uint32_t)thread_id();
	if (trace_wants(TRACE_FILE))
		trace_file_operation(record, operation);
	trace_put(record, TRACE_PACKETS, operation, sizeof(*operation));
}
