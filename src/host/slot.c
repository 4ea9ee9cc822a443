/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slot sockets: claiming a slot of QPNs, and handing packets on to the process that holds one.
 *
 * The queue of a Unix datagram socket is short (net.unix.max_dgram_qlen, 10 in a new network
 * namespace), and what waits in it is charged to the sender's socket. So each destination has
 * a sending socket of its own, of a small cache: a holder that does not take its packets (it is
 * stopped) fills its own queue and nobody else's.
 */
#include "host/slot.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/lock.h"
#include "platform/clock.h"
#include "platform/fail.h"

#define SLOT_FIRST	1u
#define SLOT_LAST	(SLOT_COUNT - 2)	/* 0 and 1023 are reserved */
#define RANDOM_TRIES	64u

/* ---- names ---- */

static socklen_t slot_name(uint32_t number, struct sockaddr_un *name)
{
	int length;

	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, SLOT_NAME "%u", number);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(void)
{
	return fail_now(FAIL_SOCKET) ? -1 :
	       socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* ---- sending sockets; a fork()ed child starts without ---- */

#define SENDERS 16u

struct sender {
	uint32_t number;		/* the slot it sends to; 0: unused */
	int fd;
};

static struct lock senders_lock = LOCK_INITIALIZER;
static struct sender senders[SENDERS] GUARDED_BY(senders_lock);
static unsigned next_victim GUARDED_BY(senders_lock);

static void before_fork(void) ACQUIRES(senders_lock)
{
	lock_acquire(&senders_lock);
}

static void after_fork_parent(void) RELEASES(senders_lock)
{
	lock_release(&senders_lock);
}

static void after_fork_child(void) UNCHECKED_LOCKS
{
	unsigned i;

	for (i = 0; i < SENDERS; i++) {
		if (senders[i].number)
			close(senders[i].fd);
		senders[i].number = 0;
	}
	lock_init(&senders_lock);
}

static void install_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- claiming ---- */

static int bind_slot(int fd, uint32_t number)
{
	struct sockaddr_un name;
	socklen_t length = slot_name(number, &name);

	return fail_now(FAIL_BIND) || bind(fd, (struct sockaddr *)&name, length) ? errno : 0;
}

/* At random first, so that a number is not reused soon; then whatever is left. */
static int bind_some_slot(int fd, uint32_t *number)
{
	uint32_t first = SLOT_FIRST + (uint32_t)(random_u64() % SLOT_LAST), i;
	int err = EADDRINUSE;

	for (i = 0; err == EADDRINUSE && i < RANDOM_TRIES; i++) {
		*number = SLOT_FIRST + (uint32_t)(random_u64() % SLOT_LAST);
		err = bind_slot(fd, *number);
	}
	for (i = 0; err == EADDRINUSE && i < SLOT_LAST; i++) {
		*number = SLOT_FIRST + (first + i) % SLOT_LAST;
		err = bind_slot(fd, *number);
	}
	return err == EADDRINUSE ? EUSERS : err;
}

int slot_claim(struct slot *slot)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err, fd = open_socket();
	uint32_t number = 0;

	if (fd < 0)
		return errno;
	pthread_once(&once, install_fork_handlers);
	err = bind_some_slot(fd, &number);
	if (err) {
		close(fd);
		return err;
	}
	*slot = (struct slot){ .number = number, .fd = fd };
	return 0;
}

void slot_release(struct slot *slot)
{
	if (slot->fd >= 0)
		close(slot->fd);
	slot->fd = -1;
}

bool slot_is_claimed(uint32_t number)
{
	struct sockaddr_un name;
	socklen_t length = slot_name(number, &name);
	int fd = open_socket();
	bool claimed;

	if (fd < 0)
		return false;
	claimed = !connect(fd, (struct sockaddr *)&name, length);
	close(fd);
	return claimed;
}

/* ---- what goes over the socket: a header of fixed layout, then the packet ---- */

#define HEADER_MAGIC	0x5662534cu	/* "VbSL" */
#define HEADER_VERSION	1u
#define HEADER_BYTES	64u

enum header_field {
	AT_MAGIC = 0, AT_VERSION = 4, AT_TRAFFIC_CLASS = 6, AT_HOP_LIMIT = 7, AT_SOURCE = 8,
	AT_DESTINATION = 24, AT_INTERFACE = 40, AT_SOURCE_PORT = 44, AT_SEGMENT_NUMBER = 46,
	AT_SEGMENT_BYTES = 48, AT_BYTES = 52, AT_FLOW_LABEL = 56, AT_SPREAD = 60,
};

static void write_header(uint8_t header[HEADER_BYTES], const struct datagram *datagram)
{
	put_be32(header + AT_MAGIC, HEADER_MAGIC);
	put_be16(header + AT_VERSION, HEADER_VERSION);
	header[AT_TRAFFIC_CLASS] = datagram->traffic_class;
	header[AT_HOP_LIMIT] = datagram->hop_limit;
	memcpy(header + AT_SOURCE, datagram->source, 16);
	memcpy(header + AT_DESTINATION, datagram->destination, 16);
	put_be32(header + AT_INTERFACE, datagram->interface);
	put_be16(header + AT_SOURCE_PORT, datagram->source_port);
	put_be16(header + AT_SEGMENT_NUMBER, (uint16_t)datagram->segment_number);
	put_be32(header + AT_SEGMENT_BYTES, (uint32_t)datagram->segment_bytes);
	put_be32(header + AT_BYTES, (uint32_t)datagram->bytes);
	put_be32(header + AT_FLOW_LABEL, datagram->flow_label);
	put_be32(header + AT_SPREAD, datagram->spread);
}

/* @bytes: how many came behind the header. Any local process can write here: all is checked. */
static int read_header(const uint8_t header[HEADER_BYTES], size_t bytes, struct datagram *datagram)
{
	struct datagram read = {
		.traffic_class = header[AT_TRAFFIC_CLASS],
		.hop_limit = header[AT_HOP_LIMIT],
		.interface = get_be32(header + AT_INTERFACE),
		.source_port = get_be16(header + AT_SOURCE_PORT),
		.segment_number = get_be16(header + AT_SEGMENT_NUMBER),
		.segment_bytes = get_be32(header + AT_SEGMENT_BYTES),
		.bytes = get_be32(header + AT_BYTES),
		.flow_label = get_be32(header + AT_FLOW_LABEL),
		.spread = get_be32(header + AT_SPREAD),
		.handed_on = true,
	};

	if (get_be32(header + AT_MAGIC) != HEADER_MAGIC ||
	    get_be16(header + AT_VERSION) != HEADER_VERSION || read.bytes != bytes || !bytes ||
	    read.segment_bytes > bytes)
		return EBADMSG;
	memcpy(read.source, header + AT_SOURCE, 16);
	memcpy(read.destination, header + AT_DESTINATION, 16);
	*datagram = read;
	return 0;
}

/* ---- handing on ---- */

static bool has_backlog(int fd)
{
	int bytes = 0;

	return !ioctl(fd, SIOCOUTQ, &bytes) && bytes > 0;
}

/* An entry to use anew: unused, or one whose packets were all taken; else simply the next. */
static struct sender *choose_victim_locked(void) REQUIRES(senders_lock)
{
	struct sender *victim;
	unsigned i;

	for (i = 0; i < SENDERS; i++)
		if (!senders[i].number)
			return &senders[i];
	for (i = 0; i < SENDERS; i++) {
		victim = &senders[next_victim++ % SENDERS];
		if (!has_backlog(victim->fd))
			break;
	}
	close(victim->fd);
	victim->number = 0;
	return victim;
}

/* -1: errno. */
static int sender_fd_locked(uint32_t number) REQUIRES(senders_lock)
{
	struct sender *sender;
	unsigned i;

	for (i = 0; i < SENDERS; i++)
		if (senders[i].number == number)
			return senders[i].fd;
	sender = choose_victim_locked();
	sender->fd = open_socket();
	if (sender->fd >= 0)
		sender->number = number;
	return sender->fd;
}

static int send_to(int fd, uint32_t number, const struct datagram *datagram)
{
	uint8_t header[HEADER_BYTES];
	struct sockaddr_un name;
	struct iovec iov[2] = {
		{ .iov_base = header, .iov_len = sizeof(header) },
		{ .iov_base = datagram->data, .iov_len = datagram->bytes },
	};
	struct msghdr message = { .msg_name = &name, .msg_namelen = slot_name(number, &name),
				  .msg_iov = iov, .msg_iovlen = 2 };

	write_header(header, datagram);
	if (fail_now(FAIL_SENDMSG) || sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return errno == EWOULDBLOCK || errno == ENOBUFS ? EAGAIN : errno;
	return 0;
}

int slot_hand_on(uint32_t number, const struct datagram *datagram)
{
	int fd, err;

	if (number < SLOT_FIRST || number > SLOT_LAST)
		return ECONNREFUSED;
	lock_acquire(&senders_lock);
	fd = sender_fd_locked(number);
	err = fd < 0 ? errno : send_to(fd, number, datagram);
	lock_release(&senders_lock);
	return err;
}

int slot_receive(struct slot *slot, struct datagram *datagram, uint8_t *buffer, size_t size)
{
	uint8_t header[HEADER_BYTES];
	struct iovec iov[2] = {
		{ .iov_base = header, .iov_len = sizeof(header) },
		{ .iov_base = buffer, .iov_len = size },
	};
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t got;
	int err;

	got = fail_now(FAIL_RECVMSG) ? -1 : recvmsg(slot->fd, &message, MSG_DONTWAIT);
	if (got < 0)
		return errno == EINTR || errno == EWOULDBLOCK ? EAGAIN : errno;
	if ((size_t)got <= sizeof(header) || (message.msg_flags & MSG_TRUNC))
		return EBADMSG;
	err = read_header(header, (size_t)got - sizeof(header), datagram);
	if (!err)
		datagram->data = buffer;
	return err;
}
