/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connected twins after fork(). The rsocket works in the process that opened it alone, so that
 * process goes on to move the data, and the child has one end of a local socket in place of the
 * descriptor:
 *
 *	child: descriptor <-> socketpair <-> relay, a thread of the parent <-> rsocket <-> peer
 *
 * What the child sends goes to the peer at once. What the peer sends goes to the child as soon as
 * the child wants to receive, or the parent has closed the descriptor: before, it is the parent's,
 * as a parent that forks some helper does not expect to lose data. As with any socket, the
 * connection ends when all have closed it, or when the parent ends.
 *
 * A relay that cannot be made (descriptors, memory) leaves the child a socket whose calls fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "base/tsan.h"
#include "rspreload/rspreload.h"

#define PIPE_BYTES	65536u
#define STACK_BYTES	131072u
#define EXIT_MS		10000	/* at the end of the process, for data of children that have closed */

/* Data of one direction: [start, end) is to be sent. */
struct pipe {
	size_t start, end;
	bool is_over;		/* nothing more comes */
	char data[PIPE_BYTES];
};

struct relay {
	struct relay *next;	/* of one fork() */
	struct list node;	/* in relays */
	struct twin *twin;	/* a reference */
	int child, parent;	/* the socketpair */
	bool may_receive;	/* the peer's data is the child's */
	bool child_is_gone;
	struct pipe in, out;	/* from the peer, to the peer */
};

/* All that run, for the end of the process. */
static struct lock relays_lock = LOCK_INITIALIZER;
static struct list relays GUARDED_BY(relays_lock) = { &relays, &relays };
static struct condition relay_ended = CONDITION_INITIALIZER;

/* Between the handlers of a fork(), which run in one thread. */
static __thread struct relay *prepared;

/* ---- moving data ---- */

static bool pipe_is_empty(const struct pipe *pipe)
{
	return pipe->start == pipe->end;
}

/* The result of a receive. False: the connection has failed. */
static bool pipe_filled(struct pipe *pipe, ssize_t n)
{
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	pipe->start = 0;
	pipe->end = (size_t)n;
	pipe->is_over = n == 0;
	return true;
}

static bool pipe_drained(struct pipe *pipe, ssize_t n)
{
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	pipe->start += (size_t)n;
	return true;
}

/* Did the child close it, or only end its half? */
static bool is_hung_up(int fd)
{
	struct pollfd polled = { .fd = fd };

	return REAL(poll)(&polled, 1, 0) == 1 && polled.revents & POLLHUP;
}

static bool relay_from_child(struct relay *relay)
{
	struct pipe *out = &relay->out;

	if (!pipe_filled(out, REAL(recv)(relay->parent, out->data, PIPE_BYTES, MSG_DONTWAIT)))
		return false;
	if (out->is_over) {
		/* The child has nothing more to send. */
		relay->child_is_gone = is_hung_up(relay->parent);
		if (!relay->child_is_gone)
			rshutdown(relay->twin->rs, SHUT_WR);
	}
	return true;
}

/* What each side waits for; -1: it waits for nothing. */
static void relay_place(const struct relay *relay, struct pollfd fds[3])
{
	const struct pipe *in = &relay->in, *out = &relay->out;
	int peer = (relay->may_receive && pipe_is_empty(in) && !in->is_over ? POLLIN : 0) |
		   (pipe_is_empty(out) ? 0 : POLLOUT);
	int child = (pipe_is_empty(out) && !out->is_over ? POLLIN : 0) | (pipe_is_empty(in) ? 0 : POLLOUT);

	fds[0] = (struct pollfd){ .fd = peer ? relay->twin->rs : -1, .events = (short)peer };
	/* With no events it shows that the child has closed it. */
	fds[1] = (struct pollfd){ .fd = child || out->is_over ? relay->parent : -1, .events = (short)child };
	fds[2] = (struct pollfd){ .fd = relay->may_receive ? -1 : relay->twin->relayed, .events = POLLIN };
}

/* False: it is over. */
static bool relay_turn(struct relay *relay)
{
	struct pipe *in = &relay->in, *out = &relay->out;
	struct pollfd fds[3];

	relay_place(relay, fds);
	if (rpoll(fds, 3, -1) < 0)
		return errno == EINTR;
	if (fds[2].revents)
		relay->may_receive = true;
	if (out->is_over && fds[1].revents & (POLLHUP | POLLERR))
		return false;
	if (pipe_is_empty(out) && !out->is_over && fds[1].revents & (POLLIN | POLLHUP | POLLERR))
		return relay_from_child(relay) && !relay->child_is_gone;
	if (!pipe_is_empty(out) && fds[0].revents &&
	    !pipe_drained(out, rsend(relay->twin->rs, out->data + out->start, out->end - out->start,
				     MSG_DONTWAIT | MSG_NOSIGNAL)))
		return false;
	if (!pipe_is_empty(in) && fds[1].revents & (POLLOUT | POLLHUP | POLLERR) &&
	    !pipe_drained(in, REAL(send)(relay->parent, in->data + in->start, in->end - in->start,
					 MSG_DONTWAIT | MSG_NOSIGNAL)))
		return false;
	if (fds[0].events & POLLIN && fds[0].revents) {
		if (!pipe_filled(in, rrecv(relay->twin->rs, in->data, PIPE_BYTES, MSG_DONTWAIT)))
			return false;
		if (in->is_over)
			REAL(shutdown)(relay->parent, SHUT_WR);
	}
	return true;
}

static void relay_end(struct relay *relay)
{
	/* Children of later forks have copies of the descriptor. */
	REAL(shutdown)(relay->parent, SHUT_RDWR);
	twin_put(relay->twin);
	REAL(close)(relay->parent);
	lock_acquire(&relays_lock);
	list_remove(&relay->node);
	condition_say(&relay_ended);
	lock_release(&relays_lock);
	free(relay);
}

static void *relay_run(void *argument)
{
	struct relay *relay = argument;

	inside++;
	tsan_enter();
	while (relay_turn(relay))
		;
	relay_end(relay);
	tsan_leave();
	return NULL;
}

/* ---- fork ---- */

/* Takes the reference to @twin. */
static bool relay_make(struct twin *twin)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	int ends[2];

	if (relay && twin->relayed < 0)
		twin->relayed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!relay || twin->relayed < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		free(relay);
		return false;
	}
	twin->peer_bytes = twin->here_bytes = sizeof(twin->peer);
	if (RDMA_CALL(rgetpeername(twin->rs, (struct sockaddr *)&twin->peer, &twin->peer_bytes)))
		twin->peer_bytes = 0;
	if (RDMA_CALL(rgetsockname(twin->rs, (struct sockaddr *)&twin->here, &twin->here_bytes)))
		twin->here_bytes = 0;
	relay->twin = twin;
	relay->child = ends[0];
	relay->parent = ends[1];
	relay->next = prepared;
	prepared = relay;
	return true;
}

static void relay_before_fork(void)
{
	int saved = errno;

	prepared = NULL;
	for (int fd = 0; fd <= twin_highest(); fd++) {
		const struct relay *relay = prepared;
		struct twin *twin = twin_get(fd);

		if (!twin)
			continue;
		while (relay && relay->twin != twin)	/* another descriptor of it came first */
			relay = relay->next;
		if (twin->mode != TWIN_RDMA || twin->datagram || relay || !relay_make(twin))
			twin_put(twin);
	}
	errno = saved;
}

static bool relay_start(struct relay *relay)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, relay_run, relay);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return !err;
}

static void relay_in_parent(void)
{
	struct relay *relay = prepared, *next;
	int saved = errno;

	for (prepared = NULL; relay; relay = next) {
		next = relay->next;
		REAL(close)(relay->child);
		lock_acquire(&relays_lock);
		list_add_tail(&relays, &relay->node);
		lock_release(&relays_lock);
		if (!relay_start(relay))
			relay_end(relay);
	}
	errno = saved;
}

static void relay_in_child(void)
{
	lock_init(&relays_lock);
	list_init(&relays);
	condition_init(&relay_ended);
	twins_after_fork();
	for (struct relay *relay = prepared; relay; relay = relay->next) {
		/* The descriptors of its twin become those of the local socket. */
		for (int fd = 0; fd <= twin_highest(); fd++) {
			int status, flags;

			if (!twin_is_at(relay->twin, fd))
				continue;
			status = REAL(fcntl)(fd, F_GETFL);
			flags = REAL(fcntl)(fd, F_GETFD);
			if (REAL(dup2)(relay->child, fd) < 0)
				continue;
			REAL(fcntl)(fd, F_SETFL, status & O_NONBLOCK);
			REAL(fcntl)(fd, F_SETFD, flags);
		}
		REAL(close)(relay->child);
		REAL(close)(relay->parent);
		relay->twin->mode = TWIN_KERNEL;
		relay->twin->inherited = true;
		relay->twin->references--;	/* the relay's, which is the parent's */
	}
	prepared = NULL;
}

/* What a child has sent, and closed: the peer gets it although the process ends. */
static bool is_delivering(void) REQUIRES(relays_lock)
{
	struct list *node;

	list_for_each(node, &relays)
		if (is_hung_up(list_entry(node, struct relay, node)->parent))
			return true;
	return false;
}

static void __attribute__((destructor)) relay_await(void)
{
	uint64_t until_ns = (uint64_t)poll_deadline_ns(EXIT_MS);

	lock_acquire(&relays_lock);
	while (is_delivering() && poll_left_ms((int64_t)until_ns))
		condition_wait(&relay_ended, &relays_lock, until_ns);
	lock_release(&relays_lock);
}

static void __attribute__((constructor)) relay_announce(void)
{
	static const struct fork_handlers handlers = { .prepare = relay_before_fork,
						       .parent = relay_in_parent,
						       .child = relay_in_child };

	twin_fork_handlers = &handlers;
}
