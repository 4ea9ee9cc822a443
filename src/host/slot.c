/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slot sockets: claiming a slot of QPNs, and forwarding packets to the process that holds one.
 *
 * The queue of a Unix datagram socket is short (net.unix.max_dgram_qlen, 10 in a new network
 * namespace), and queued datagrams are charged to the sender's socket. So each destination has its
 * own sending socket, from a small cache: a holder that does not take its packets (it is stopped)
 * fills only its own queue.
 */
#include "host/slot.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/lock.h"
#include "base/log.h"
#include "host/forward.h"
#include "host/holder.h"
#include "host/port_owner.h"
#include "host/service_owner.h"
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

static void slot_before_fork(void) ACQUIRES(senders_lock)
{
	lock_acquire(&senders_lock);
}

static void slot_after_fork_parent(void) RELEASES(senders_lock)
{
	lock_release(&senders_lock);
}

static void slot_after_fork_child(void)
{
	unsigned i;

	lock_init(&senders_lock);
	for (i = 0; i < SENDERS; i++) {
		if (senders[i].number)
			close(senders[i].fd);
		senders[i].number = 0;
	}
	port_owner_forget();
	service_owners_forget();
}

static const struct fork_handlers fork_handlers = {
	.prepare = slot_before_fork, .parent = slot_after_fork_parent, .child = slot_after_fork_child,
};

/* ---- claiming ---- */

static int bind_as(const char *prefix, int type, uint32_t number, int *fd)
{
	struct abstract_name name = name_of_slot(prefix, number);
	int err;

	*fd = name_socket(type);
	if (*fd < 0)
		return errno;
	err = name_bind(*fd, &name);
	if (err) {
		close(*fd);
		*fd = -1;
	}
	return err;
}

/*
 * Both names of a slot are claimed or neither: otherwise peers would ask a foreign process for our memory.
 */
static int bind_slot(struct slot *slot, uint32_t number)
{
	int err = bind_as(SLOT_NAME, SOCK_DGRAM, number, &slot->fd);

	if (err)
		return err;
	err = forward_prepare(slot->fd);
	if (!err)
		err = bind_as(SLOT_CHANNEL_NAME, SOCK_SEQPACKET, number, &slot->channel_fd);
	if (err)
		slot_release(slot);
	slot->number = number;
	return err;
}

/* Starts at a random number, so that numbers are not reused soon, and tries the rest in order. */
int slot_claim(struct slot *slot)
{
	uint32_t first = SLOT_FIRST + (uint32_t)(random_u64() % SLOT_LAST), i;
	struct slot claimed = { .fd = -1, .channel_fd = -1 };
	char slots[256], channels[256];
	int err = EADDRINUSE;

	fork_register(FORK_SLOTS, &fork_handlers);
	for (i = 0; err == EADDRINUSE && i < RANDOM_TRIES; i++)
		err = bind_slot(&claimed, SLOT_FIRST + (uint32_t)(random_u64() % SLOT_LAST));
	for (i = 0; err == EADDRINUSE && i < SLOT_LAST; i++)
		err = bind_slot(&claimed, SLOT_FIRST + (first + i) % SLOT_LAST);
	if (!err)
		*slot = claimed;
	/* A slot has two names; who bound either keeps it from others. */
	if (err == EADDRINUSE && explaining())
		explain("ibv_open_device: who has the %u slots of this host: %s; their channels: %s", SLOT_LAST,
			holders_describe(SLOT_NAME, slots, sizeof(slots)),
			holders_describe(SLOT_CHANNEL_NAME, channels, sizeof(channels)));
	return err == EADDRINUSE ? EUSERS : err;
}

void slot_release(struct slot *slot)
{
	if (slot->fd >= 0)
		close(slot->fd);
	if (slot->channel_fd >= 0)
		close(slot->channel_fd);
	slot->fd = slot->channel_fd = -1;
}

bool slot_is_claimed(uint32_t number)
{
	struct abstract_name name = name_of_slot(SLOT_NAME, number);
	int fd, err = name_connect(&name, SOCK_DGRAM, &fd);

	if (!err)
		close(fd);
	return !err;
}

/*
 * Nobody can connect to a socket that does not listen, but binding its name fails. Who claims the slot at
 * this very moment takes another one.
 */
int slot_has_port(uint32_t number, bool *has)
{
	int fd, err = bind_as(SLOT_CHANNEL_NAME, SOCK_SEQPACKET, number, &fd);

	if (!err)
		close(fd);
	if (err && err != EADDRINUSE)
		return err;
	*has = err && slot_is_claimed(number);
	return 0;
}

/* ---- handing on ---- */

/* An entry to reuse: unused, or one whose packets were all taken; else simply the next. */
static struct sender *choose_victim_locked(void) REQUIRES(senders_lock)
{
	struct sender *victim;
	unsigned i;

	for (i = 0; i < SENDERS; i++)
		if (!senders[i].number)
			return &senders[i];
	for (i = 0; i < SENDERS; i++) {
		int bytes = 0;		/* that were not taken */

		victim = &senders[next_victim++ % SENDERS];
		if (ioctl(victim->fd, SIOCOUTQ, &bytes) || bytes <= 0)
			break;
	}
	close(victim->fd);
	victim->number = 0;
	return victim;
}

int slot_forward(uint32_t number, const struct datagram *datagram)
{
	struct abstract_name name = name_of_slot(SLOT_NAME, number);
	struct sender *sender;
	unsigned i = 0;
	int err;

	if (number < SLOT_FIRST || number > SLOT_LAST)
		return ECONNREFUSED;
	lock_acquire(&senders_lock);
	while (i < SENDERS && senders[i].number != number)
		i++;
	sender = i < SENDERS ? &senders[i] : choose_victim_locked();
	if (!sender->number) {
		sender->fd = name_socket(SOCK_DGRAM);
		if (sender->fd >= 0)
			sender->number = number;
	}
	err = sender->fd < 0 ? errno : forward_send(sender->fd, &name, datagram);
	lock_release(&senders_lock);
	return err;
}

int slot_prove(const struct slot *slot, uint32_t number, uint64_t nonce)
{
	struct abstract_name name = name_of_slot(SLOT_NAME, number);

	return forward_send_nonce(slot->fd, &name, nonce);
}

/* The name of a socket is the sender's own: no two sockets have the same. */
static bool is_holder(const struct abstract_name *sender, uint32_t *number)
{
	static const char prefix[] = SLOT_NAME;
	const char *digits = sender->address.sun_path + sizeof(prefix);	/* behind the NUL and the prefix */
	size_t length = sender->bytes - offsetof(struct sockaddr_un, sun_path), i;
	struct abstract_name canonical;

	*number = 0;
	if (sender->bytes < offsetof(struct sockaddr_un, sun_path) + sizeof(prefix))
		return false;
	for (i = sizeof(prefix); i < length && *number < SLOT_COUNT; i++)
		*number = *number * 10 + (uint32_t)(digits[i - sizeof(prefix)] - '0');
	if (*number < SLOT_FIRST || *number > SLOT_LAST)
		return false;
	canonical = name_of_slot(SLOT_NAME, *number);
	return canonical.bytes == sender->bytes &&
	       !memcmp(&canonical.address, &sender->address, sender->bytes);
}

int slot_receive(struct slot *slot, struct datagram *datagram, uint8_t *buffer, size_t size,
		 struct slot_proof *proof)
{
	struct abstract_name sender;
	int err = forward_receive(slot->fd, datagram, buffer, size, &sender, &proof->nonce);

	return err == ENOMSG && !is_holder(&sender, &proof->number) ? EBADMSG : err;
}
