/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a socket: spin for a moment (polling_time of rsocket(7)), then sleep in poll() on
 * its completion channel, its event channel and an eventfd of this thread, by which other threads
 * wake it when they have taken an event that it might have been waiting for. See rsocket.h.
 * A signal handler ends the sleep, and runs after the call has released the socket (base/call.h).
 *
 * A sleep costs both sides a system call and two or three switches, some 20 us; a spin of the
 * length of one costs no more than that. So a thread spins for long where that was enough lately,
 * and for an eighth of it where it had to sleep for long all the same.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rsockets/rsocket.h"

/* Non-blocking calls that find nothing look for events of the CM once in so many. */
enum { IDLE_CALLS = 64 };
/* Looks between two looks at the clock: together less than a microsecond. */
enum { LOOKS = 8 };

int64_t rs_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t rs_deadline_ns(const struct rsocket *rs, int flags, int timeout_ms)
{
	if (rs->nonblocking || flags & MSG_DONTWAIT)
		return RS_NOW;
	return timeout_ms ? rs_now_ns() + (int64_t)timeout_ms * 1000000 : RS_FOREVER;
}

/* ---- the eventfd of a thread ---- */

static pthread_key_t wake_key;
static pthread_once_t wake_once = PTHREAD_ONCE_INIT;
static bool wake_key_made;
static __thread int wake_fd = -1;
static __thread unsigned wake_generation;

/* The thread ends. The value of the key is the descriptor + 1, as 0 would mean none. */
static void close_wake_fd(void *value)
{
	close((int)(intptr_t)value - 1);
	wake_fd = -1;		/* destructors of other keys may call us */
}

static void make_wake_key(void)
{
	wake_key_made = pthread_key_create(&wake_key, close_wake_fd) == 0;
}

int rs_thread_wake_fd(void)
{
	if (wake_fd >= 0 && wake_generation == rs_generation())
		return wake_fd;
	if (wake_fd >= 0)
		close(wake_fd);		/* the parent's, too */
	wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	wake_generation = rs_generation();
	pthread_once(&wake_once, make_wake_key);
	if (wake_key_made)
		pthread_setspecific(wake_key, (void *)(intptr_t)(wake_fd + 1));
	return wake_fd;
}

void rs_drain(int fd)
{
	eventfd_t count;

	if (fd >= 0)
		eventfd_read(fd, &count);
}

void rs_wake_all_locked(struct rsocket *rs)
{
	struct list *node;

	list_for_each(node, &rs->sleepers) {
		struct rs_sleeper *sleeper = list_entry(node, struct rs_sleeper, node);

		if (sleeper->wake_fd >= 0)
			eventfd_write(sleeper->wake_fd, 1);
	}
}

/* ---- what there is to wait for ---- */

int rs_completion_fd(const struct rsocket *rs)
{
	if (rs->type == SOCK_DGRAM)
		return rs->epoll_fd;
	return rs->stream.channel ? rs->stream.channel->fd : -1;
}

int rs_event_fd(const struct rsocket *rs)
{
	return rs->type == SOCK_DGRAM ? -1 : rs->events->fd;
}

unsigned rs_progress_locked(struct rsocket *rs, bool events)
{
	if (rs->type == SOCK_DGRAM)
		return rs_links_progress_locked(rs);
	return rs_completions_locked(rs) + (events ? rs_connection_progress_locked(rs) : 0);
}

void rs_take_events_locked(struct rsocket *rs, bool completions, bool events)
{
	struct rs_stream *stream = &rs->stream;
	struct ibv_cq *cq;
	void *context;

	if (rs->closing || !(completions || events))
		return;
	if (rs->type == SOCK_DGRAM)
		rs_links_take_events_locked(rs);
	else if (completions && stream->channel)
		while (!ibv_get_cq_event(stream->channel, &cq, &context)) {
			stream->armed = 0;
			/* Acknowledged in batches: each ibv_ack_cq_events() takes a lock. */
			if (++stream->unacknowledged == 128) {
				ibv_ack_cq_events(cq, stream->unacknowledged);
				stream->unacknowledged = 0;
			}
		}
	rs_progress_locked(rs, events);
	if (rs->owner.watched) {		/* the service thread sleeps on, for the next */
		rs_arm_locked(rs, RS_READ);
		rs_progress_locked(rs, false);
	}
	rs_wake_all_locked(rs);
}

/* ---- spinning ---- */

static __thread int64_t spin_ns = -1;

static int64_t longest_spin_ns(void)
{
	return (int64_t)rs_defaults()->polling_us * 1000;
}

int64_t rs_spin_ns(void)
{
	if (spin_ns < 0)
		spin_ns = longest_spin_ns();
	return spin_ns;
}

void rs_spun(int64_t slept_ns)
{
	int64_t longest = longest_spin_ns();

	if (!slept_ns)
		spin_ns = longest;
	else if (slept_ns < longest)
		spin_ns = 2 * spin_ns < longest ? 2 * spin_ns : longest;
	else if (spin_ns > longest / 8)
		spin_ns /= 2;
}

/* ---- waiting ---- */

static int poll_timeout_ms(const struct rsocket *rs, int64_t deadline_ns)
{
	int64_t most = rs->options.wake_up_ms, left;

	if (deadline_ns == RS_FOREVER)
		return (int)most;
	left = (deadline_ns - rs_now_ns() + 999999) / 1000000;
	return left < 0 ? 0 : left < most ? (int)left : (int)most;
}

/* The thread ends in its sleep. */
static void sleep_is_cancelled(void *cancelled)
{
	struct rs_sleeper *sleeper = cancelled;

	lock_acquire(&sleeper->rs->lock);
	list_remove(&sleeper->node);
	lock_release(&sleeper->rs->lock);
}

/* One sleep. 0: look again; EINTR. */
static int sleep_locked(struct rsocket *rs, enum rs_interest interest, int64_t deadline_ns)
	REQUIRES(rs->lock)
{
	struct rs_sleeper sleeper = { .rs = rs, .wake_fd = rs_thread_wake_fd() };
	struct pollfd fds[3];
	int err = 0;

	rs_arm_locked(rs, interest);
	if (rs_progress_locked(rs, false))
		return 0;
	fds[0] = (struct pollfd){ .fd = rs_completion_fd(rs), .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = rs_event_fd(rs), .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = sleeper.wake_fd, .events = POLLIN };
	list_add_tail(&rs->sleepers, &sleeper.node);
	lock_release(&rs->lock);

	pthread_cleanup_push(sleep_is_cancelled, &sleeper);
	if ((rs->lingering ? poll : call_sleep)(fds, 3, poll_timeout_ms(rs, deadline_ns)) < 0)
		err = errno;
	pthread_cleanup_pop(0);

	lock_acquire(&rs->lock);
	list_remove(&sleeper.node);
	if (err)
		return err;
	if (fds[2].revents)
		rs_drain(sleeper.wake_fd);
	rs_take_events_locked(rs, fds[0].revents != 0, fds[1].revents != 0);
	return 0;
}

/* Until the deadline at the latest. True: @ready. */
static bool spin_locked(struct rsocket *rs, rs_condition *ready, int64_t deadline_ns)
	REQUIRES(rs->lock)
{
	int64_t end = rs_now_ns() + rs_spin_ns();

	if (end > deadline_ns)
		end = deadline_ns;
	while (!rs->closing && rs_now_ns() < end) {
		for (int i = 0; i < LOOKS; i++)
			if (rs_progress_locked(rs, false) && ready(rs)) {
				rs_spun(0);
				return true;
			}
		/* Others may want to send or to close meanwhile. */
		lock_release(&rs->lock);
		lock_acquire(&rs->lock);
	}
	return ready(rs);
}

int rs_wait_locked(struct rsocket *rs, rs_condition *ready, enum rs_interest interest,
		   int64_t deadline_ns)
{
	int64_t begin_ns;
	int err;

	if (rs->closing)
		return EBADF;
	if (ready(rs))
		return 0;
	rs_progress_locked(rs, rs->type == SOCK_STREAM &&
			   (rs->state != RS_CONNECTED ||
			    (deadline_ns == RS_NOW && ++rs->stream.idle % IDLE_CALLS == 0)));
	if (ready(rs))
		return 0;
	if (deadline_ns == RS_NOW)
		return EAGAIN;
	if (spin_locked(rs, ready, deadline_ns))
		return rs->closing ? EBADF : 0;
	/* In sleeps, until @ready. */
	begin_ns = rs_now_ns();
	while (!rs->closing) {
		err = sleep_locked(rs, interest, deadline_ns);
		if (rs->closing)
			break;
		if (ready(rs)) {
			rs_spun(rs_now_ns() - begin_ns + 1);
			return 0;
		}
		if (err)
			return err;
		if (deadline_ns != RS_FOREVER && rs_now_ns() >= deadline_ns)
			return EAGAIN;
	}
	return EBADF;
}
