/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpoll and rselect, over rsockets and other descriptors mixed. All are checked
 * once, then repeatedly for the polling time; then the thread sleeps in poll() on the completion
 * channel and event channel of each socket. After a sleep all are checked again.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>

#include "rsockets/rsocket.h"

enum { FEW = 16 };		/* descriptors that need no allocation */

/* What rpoll() knows of an entry of the application's array. */
struct watched {
	struct rsocket *rs;		/* NULL: another descriptor */
	struct rs_sleeper sleeper;
};

struct poller {
	struct pollfd *fds;		/* the application's */
	nfds_t count;
	struct watched *watched;
	struct pollfd *slept_on;	/* two for each entry, then the wake_fd */
	bool others;			/* some are no rsockets */
	bool rsockets;
};

/* ---- readiness ---- */

static short stream_events(struct rsocket *rs) REQUIRES(rs->lock)
{
	const struct rs_stream *stream = &rs->stream;
	short events = 0;

	switch (rs->state) {
	case RS_LISTENING:
		return (list_empty(&stream->backlog.requests) ? 0 : POLLIN | POLLRDNORM) |
		       (rs->error ? POLLERR : 0);
	case RS_OPEN:
		return POLLOUT | POLLWRNORM | POLLHUP;
	case RS_RESOLVING:
	case RS_CONNECTING:
	case RS_ACCEPTING:
		return 0;
	default:
		break;
	}
	if (rs_stream_readable_locked(rs))
		events |= POLLIN | POLLRDNORM;
	if (rs_urgent_waits(&stream->urgent, stream->in.taken))
		events |= POLLPRI;
	if (rs_stream_writable_locked(rs))
		events |= POLLOUT | POLLWRNORM;
	if (stream->peer_done || stream->read_shut || rs->state != RS_CONNECTED)
		events |= POLLRDHUP;
	/* Not before all is read: programs that poll for POLLIN and see POLLHUP stop reading
	 * (rstream). */
	if ((rs->state != RS_CONNECTED || (stream->peer_done && stream->write_shut)) &&
	    (stream->read_shut || !rs_stream_waiting_locked(rs)))
		events |= POLLHUP;
	if (rs->error)
		events |= POLLERR;
	return events;
}

short rs_ready_events_locked(struct rsocket *rs, short wanted)
{
	short events = 0;

	if (rs->closing)
		return POLLNVAL;
	if (rs->type == SOCK_STREAM) {
		events = stream_events(rs);
	} else {
		if (rs_datagram_readable_locked(rs))
			events |= POLLIN | POLLRDNORM;
		if (rs_datagram_writable_locked(rs))
			events |= POLLOUT | POLLWRNORM;
		if (rs->error)
			events |= POLLERR;
	}
	return events & (wanted | POLLERR | POLLHUP | POLLNVAL);
}

static int look_at_rsockets(struct poller *poller)
{
	int ready = 0;

	for (nfds_t i = 0; i < poller->count; i++) {
		struct rsocket *rs = poller->watched[i].rs;

		if (!rs)
			continue;
		lock_acquire(&rs->lock);
		/* Events of the CM are looked for where they are what one waits for. */
		rs_progress_locked(rs, rs->type == SOCK_STREAM && rs->state != RS_CONNECTED &&
				       rs->state != RS_CLOSED);
		poller->fds[i].revents = rs_ready_events_locked(rs, poller->fds[i].events);
		lock_release(&rs->lock);
		ready += poller->fds[i].revents != 0;
	}
	return ready;
}

/* ---- sleeping ---- */

/*
 * What each entry sleeps on, in its two places; -1 is ignored by poll(). An rsocket is armed, joins its
 * sleepers, and is looked at once more. True: nothing is ready.
 */
static bool prepare_sleep(struct poller *poller, int wake_fd)
{
	bool idle = true;

	for (nfds_t i = 0; i < poller->count; i++) {
		struct watched *watched = &poller->watched[i];
		struct pollfd *places = &poller->slept_on[2 * i];
		short events = poller->fds[i].events;
		struct rsocket *rs = watched->rs;

		places[0] = (struct pollfd){ .fd = poller->fds[i].fd, .events = events };
		places[1] = (struct pollfd){ .fd = -1 };
		watched->sleeper.wake_fd = wake_fd;
		if (!rs)
			continue;
		lock_acquire(&rs->lock);
		list_add_tail(&rs->sleepers, &watched->sleeper.node);
		rs_arm_locked(rs, events & (POLLOUT | POLLWRNORM) ? RS_READ | RS_WRITE : RS_READ);
		rs_progress_locked(rs, false);
		idle &= !rs_ready_events_locked(rs, events);
		places[0] = (struct pollfd){ .fd = rs_completion_fd(rs), .events = POLLIN };
		places[1] = (struct pollfd){ .fd = rs_event_fd(rs), .events = POLLIN };
		lock_release(&rs->lock);
	}
	poller->slept_on[2 * poller->count] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	return idle;
}

static void finish_sleep(struct poller *poller)
{
	for (nfds_t i = 0; i < poller->count; i++) {
		struct watched *watched = &poller->watched[i];
		struct pollfd *places = &poller->slept_on[2 * i];

		if (!watched->rs)
			continue;
		lock_acquire(&watched->rs->lock);
		list_remove(&watched->sleeper.node);
		rs_take_events_locked(watched->rs, places[0].revents, places[1].revents);
		lock_release(&watched->rs->lock);
	}
}

/* The thread ends in its sleep. */
static void leave_sleepers(void *cancelled)
{
	struct poller *poller = cancelled;

	for (nfds_t i = 0; i < poller->count; i++) {
		struct watched *watched = &poller->watched[i];

		if (!watched->rs)
			continue;
		lock_acquire(&watched->rs->lock);
		list_remove(&watched->sleeper.node);
		lock_release(&watched->rs->lock);
	}
}

/* Sleeps at most @timeout_ms. Entries that are ready, or -1 and errno. */
static int sleep_once(struct poller *poller, int timeout_ms)
{
	int wake_fd = poller->rsockets ? rs_thread_wake_fd() : -1, ready, err = 0;

	if (!prepare_sleep(poller, wake_fd))
		timeout_ms = 0;
	pthread_cleanup_push(leave_sleepers, poller);
	if (call_sleep(poller->slept_on, 2 * poller->count + 1, timeout_ms) < 0)
		err = errno;
	pthread_cleanup_pop(0);
	if (err) {
		for (nfds_t i = 0; i < 2 * poller->count; i++)
			poller->slept_on[i].revents = 0;
		poller->slept_on[2 * poller->count].revents = 0;
	}
	if (poller->slept_on[2 * poller->count].revents)
		rs_drain(wake_fd);
	finish_sleep(poller);
	ready = look_at_rsockets(poller);
	if (err)
		return ready ? ready : rs_result(err);
	/* What poll() said of other descriptors is the answer for them. */
	for (nfds_t i = 0; i < poller->count; i++) {
		if (poller->watched[i].rs)
			continue;
		poller->fds[i].revents = poller->slept_on[2 * i].revents;
		ready += poller->fds[i].revents != 0;
	}
	return ready;
}

/* ---- rpoll ---- */

/* For the polling time at most. Ready entries; others are looked at by the sleep that follows. */
static int rs_poll_spin(struct poller *poller, int64_t deadline_ns)
{
	int64_t end = rs_now_ns() + rs_spin_ns();
	int ready = 0;

	if (end > deadline_ns)
		end = deadline_ns;
	while (!ready && rs_now_ns() < end)
		ready = look_at_rsockets(poller);
	if (ready)
		rs_spun(0);
	return ready;
}

static int poll_all(struct poller *poller, int timeout_ms)
{
	int64_t deadline_ns = timeout_ms < 0 ? RS_FOREVER : RS_NOW, left_ms, begin_ns;
	int ready;

	if (timeout_ms > 0)
		deadline_ns = rs_now_ns() + (int64_t)timeout_ms * 1000000;
	ready = look_at_rsockets(poller);
	if (!ready && !poller->others && timeout_ms)
		ready = rs_poll_spin(poller, deadline_ns);
	if (ready && !poller->others)
		return ready;
	if (ready)
		return sleep_once(poller, 0);
	begin_ns = rs_now_ns();
	do {
		left_ms = rs_defaults()->wake_up_ms;
		if (deadline_ns == RS_NOW)
			left_ms = 0;
		else if (deadline_ns != RS_FOREVER &&
			 (deadline_ns - rs_now_ns() + 999999) / 1000000 < left_ms)
			left_ms = (deadline_ns - rs_now_ns() + 999999) / 1000000;
		ready = sleep_once(poller, left_ms < 0 ? 0 : (int)left_ms);
	} while (!ready && (deadline_ns == RS_FOREVER || rs_now_ns() < deadline_ns));
	if (ready > 0 && timeout_ms)
		rs_spun(rs_now_ns() - begin_ns + 1);
	return ready;
}

static void poller_end(void *ended)
{
	struct poller *poller = ended;
	int saved = errno;

	for (nfds_t i = 0; i < poller->count && poller->watched && poller->slept_on; i++)
		if (poller->watched[i].rs)
			rs_put(poller->watched[i].rs);
	if (poller->count > FEW) {
		free(poller->watched);
		free(poller->slept_on);
	}
	errno = saved;
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	CALL_BLOCKING();
	struct watched few_watched[FEW];
	struct pollfd few_fds[2 * FEW + 1];
	struct poller poller = { .fds = fds, .count = nfds, .watched = few_watched,
				 .slept_on = few_fds };
	int result;

	if (nfds > FEW) {
		poller.watched = reallocarray(NULL, nfds, sizeof(*poller.watched));
		poller.slept_on = reallocarray(NULL, 2 * nfds + 1, sizeof(*poller.slept_on));
	}
	pthread_cleanup_push(poller_end, &poller);
	if (poller.watched && poller.slept_on) {
		for (nfds_t i = 0; i < nfds; i++) {
			poller.watched[i].rs = fds[i].fd < 0 ? NULL : rs_get(fds[i].fd);
			list_init(&poller.watched[i].sleeper.node);
			fds[i].revents = 0;
			if (poller.watched[i].rs)
				poller.rsockets = true;
			else
				poller.others = true;
		}
		result = poll_all(&poller, timeout);
	} else {
		result = rs_result(ENOMEM);
	}
	pthread_cleanup_pop(1);
	return result;
}

/* ---- rselect ---- */

/* The bits of one set; returns how many. */
static int rs_poll_give_set(fd_set *set, const struct pollfd *fds, nfds_t count, short wanted,
			    short events)
{
	int ready = 0;

	if (!set)
		return 0;
	FD_ZERO(set);
	for (nfds_t i = 0; i < count; i++)
		if (fds[i].events & wanted && fds[i].revents & events) {
			FD_SET(fds[i].fd, set);
			ready++;
		}
	return ready;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    struct timeval *timeout)
{
	CALL_BLOCKING();
	int64_t start_ns = rs_now_ns(), left_us;
	struct pollfd fds[FD_SETSIZE];
	int ready, timeout_ms = -1;
	nfds_t count = 0;

	if (nfds < 0 || nfds > FD_SETSIZE ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return rs_result(EINVAL);
	for (int fd = 0; fd < nfds; fd++) {
		short events = (short)((readfds && FD_ISSET(fd, readfds) ? POLLIN : 0) |
				       (writefds && FD_ISSET(fd, writefds) ? POLLOUT : 0) |
				       (exceptfds && FD_ISSET(fd, exceptfds) ? POLLPRI : 0));

		if (events)
			fds[count++] = (struct pollfd){ .fd = fd, .events = events };
	}
	if (timeout)
		timeout_ms = timeout->tv_sec > INT_MAX / 1000 - 1 ? INT_MAX :
			(int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	ready = rpoll(fds, count, timeout_ms);
	if (ready < 0)
		return ready;
	for (nfds_t i = 0; i < count; i++)
		if (fds[i].revents & POLLNVAL)
			return rs_result(EBADF);
	/* As Linux does: @timeout becomes what is left of it. */
	if (timeout) {
		left_us = (int64_t)timeout->tv_sec * 1000000 + timeout->tv_usec -
			  (rs_now_ns() - start_ns) / 1000;
		left_us = left_us < 0 ? 0 : left_us;
		timeout->tv_sec = left_us / 1000000;
		timeout->tv_usec = left_us % 1000000;
	}
	return rs_poll_give_set(readfds, fds, count, POLLIN, POLLIN | POLLHUP | POLLERR) +
	       rs_poll_give_set(writefds, fds, count, POLLOUT, POLLOUT | POLLERR) +
	       rs_poll_give_set(exceptfds, fds, count, POLLPRI, POLLPRI);
}
