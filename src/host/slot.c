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
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/lock.h"
#include "host/hand_on.h"
#include "platform/clock.h"

#define SLOT_FIRST	1u
#define SLOT_LAST	(SLOT_COUNT - 2)	/* 0 and 1023 are reserved */
#define RANDOM_TRIES	64u

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

void slot_install_fork_handlers(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install_fork_handlers);
}

/* ---- claiming ---- */

static int bind_slot(int fd, uint32_t number)
{
	struct name name = name_of_slot(SLOT_NAME, number);

	return name_bind(fd, &name);
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
	int err, fd = name_socket(SOCK_DGRAM);
	uint32_t number = 0;

	if (fd < 0)
		return errno;
	slot_install_fork_handlers();
	err = hand_on_prepare(fd);
	if (!err)
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
	struct name name = name_of_slot(SLOT_NAME, number);
	int fd, err = name_connect(&name, SOCK_DGRAM, &fd);

	if (!err)
		close(fd);
	return !err;
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
	sender->fd = name_socket(SOCK_DGRAM);
	if (sender->fd >= 0)
		sender->number = number;
	return sender->fd;
}

int slot_hand_on(uint32_t number, const struct datagram *datagram)
{
	struct name name = name_of_slot(SLOT_NAME, number);
	int fd, err;

	if (number < SLOT_FIRST || number > SLOT_LAST)
		return ECONNREFUSED;
	lock_acquire(&senders_lock);
	fd = sender_fd_locked(number);
	err = fd < 0 ? errno : hand_on_send(fd, &name, datagram);
	lock_release(&senders_lock);
	return err;
}

int slot_receive(struct slot *slot, struct datagram *datagram, uint8_t *buffer, size_t size)
{
	return hand_on_receive(slot->fd, datagram, buffer, size);
}
