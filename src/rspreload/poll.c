/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll() and select() over twins and other descriptors: each descriptor of the program becomes one
 * or two of rpoll() (a listening twin: its rsocket and its kernel socket). Without twins among
 * them, the C library's own functions do it.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rspreload/rspreload.h"

enum { FEW = 16 };

void poll_free(struct pollfd **fds)
{
	int saved = errno;

	free(*fds);
	errno = saved;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t poll_deadline_ns(int timeout_ms)
{
	return timeout_ms < 0 ? INT64_MAX : now_ns() + (int64_t)timeout_ms * 1000000;
}

/* -1: no limit; 0: over. */
int poll_left_ms(int64_t deadline_ns)
{
	int64_t left;

	if (deadline_ns == INT64_MAX)
		return -1;
	left = (deadline_ns - now_ns() + 999999) / 1000000;
	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

unsigned poll_places(int fd, short events, struct pollfd places[2], struct twin **twin)
{
	*twin = fd < 0 ? NULL : twin_get(fd);
	places[0] = (struct pollfd){ .fd = fd, .events = events };
	if (*twin && events & POLLIN)
		twin_receives(*twin);
	if (!*twin || (*twin)->mode == TWIN_KERNEL)
		return 1;
	if ((*twin)->mode == TWIN_BOTH) {
		/* Not connected: the kernel socket answers as any such does. */
		places[1] = (struct pollfd){ .fd = (*twin)->rs, .events = events };
		return (*twin)->listening ? 2 : 1;
	}
	places[0].fd = (*twin)->rs;
	return 1;
}

struct request {
	struct pollfd *fds;			/* the program's */
	nfds_t count;
	struct pollfd *places;			/* two for each */
	struct twin **twins;
	unsigned char *widths;
	bool waits;				/* in rpoll(): has references to the twins */
	bool moved;				/* a connect went over to TCP */
};

/* Results go to the program's array; references are given back. Returns ready entries. */
static int preload_poll_collect(struct request *request, const unsigned char *widths)
{
	const struct pollfd *place = request->places;
	int ready = 0;

	request->moved = false;
	for (nfds_t i = 0; i < request->count; i++) {
		struct twin *twin = request->twins[i];
		short events = place[0].revents;

		if (widths[i] == 2)
			events |= place[1].revents;
		place += widths[i];
		if (twin && events && twin->mode == TWIN_CONNECTING) {
			twin_settle(twin, request->fds[i].fd);
			if (twin->mode != TWIN_RDMA) {
				request->moved = true;
				events = 0;
			}
		}
		request->fds[i].revents = events;
		ready += events != 0;
		if (twin)
			twin_put(twin);
	}
	return ready;
}

/* The thread ends in rpoll(). */
static void request_end(void *ended)
{
	struct request *request = ended;

	for (nfds_t i = 0; request->waits && i < request->count; i++)
		if (request->twins[i])
			twin_put(request->twins[i]);
	if (request->count > FEW) {
		free(request->places);
		free(request->twins);
		free(request->widths);
	}
}

/* With room for places, twins and their widths. */
static int poll_with(struct request *request, int64_t deadline_ns)
{
	unsigned char *widths = request->widths;
	int result, saved;
	nfds_t used;

	for (;;) {
		used = 0;
		for (nfds_t i = 0; i < request->count; i++) {
			widths[i] = (unsigned char)poll_places(request->fds[i].fd, request->fds[i].events,
							       &request->places[used], &request->twins[i]);
			used += widths[i];
		}
		request->waits = true;
		result = RDMA_CALL(rpoll(request->places, used, poll_left_ms(deadline_ns)));
		request->waits = false;
		saved = errno;
		if (result < 0)
			for (nfds_t i = 0; i < used; i++)
				request->places[i].revents = 0;
		if (result < 0) {
			preload_poll_collect(request, widths);
			errno = saved;
			return -1;
		}
		result = preload_poll_collect(request, widths);
		if (result || !request->moved || !poll_left_ms(deadline_ns))
			return result;
	}
}

int poll_until(struct pollfd *fds, nfds_t count, int64_t deadline_ns)
{
	struct pollfd few_places[2 * FEW];
	struct twin *few_twins[FEW];
	unsigned char few_widths[FEW];
	struct request request = { .fds = fds, .count = count, .places = few_places,
				   .twins = few_twins, .widths = few_widths };
	int result = -1, saved = ENOMEM;

	if (count > FEW) {
		request.places = reallocarray(NULL, count, 2 * sizeof(*request.places));
		request.twins = reallocarray(NULL, count, sizeof(struct twin *));
		request.widths = malloc(count);
	}
	pthread_cleanup_push(request_end, &request);
	if (request.places && request.twins && request.widths) {
		result = poll_with(&request, deadline_ns);
		saved = errno;
	}
	pthread_cleanup_pop(1);
	errno = saved;
	return result;
}

/*
 * Only reads @fds, but cannot have it const: glibc 2.41 declares that poll() only writes its array, so
 * gcc 14 warns where poll() hands the array on, as const, before anybody has written it.
 */
static bool has_twins(struct pollfd *fds, nfds_t count)
{
	struct twin *twin;

	for (nfds_t i = 0; !inside && i < count; i++) {
		twin = fds[i].fd < 0 ? NULL : twin_get(fds[i].fd);
		if (twin) {
			twin_put(twin);
			return true;
		}
	}
	return false;
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	if (!has_twins(fds, count))
		return REAL(poll)(fds, count, timeout);
	return poll_until(fds, count, poll_deadline_ns(timeout));
}

static int timespec_ms(const struct timespec *time)
{
	if (!time)
		return -1;
	if (time->tv_sec >= INT_MAX / 1000)
		return INT_MAX;
	return (int)(time->tv_sec * 1000 + (time->tv_nsec + 999999) / 1000000);
}

void poll_unmask(void *mask)
{
	pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* The mask is set around the sleep, not in it: a signal just before it does not end it. */
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	sigset_t old;
	int result;

	if (!has_twins(fds, count))
		return REAL(ppoll)(fds, count, timeout, mask);
	pthread_sigmask(SIG_SETMASK, mask, &old);
	pthread_cleanup_push(poll_unmask, &old);
	result = poll_until(fds, count, poll_deadline_ns(timespec_ms(timeout)));
	pthread_cleanup_pop(1);
	return result;
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t size);

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
	if (size / sizeof(*fds) < count)
		abort();
	return poll(fds, count, timeout);
}

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t size)
{
	if (size / sizeof(*fds) < count)
		abort();
	return ppoll(fds, count, timeout, mask);
}

/* ---- select ---- */

static bool in_set(const fd_set *set, int fd)
{
	return set && ((const unsigned long *)set)[fd / (8 * sizeof(long))] &
		      1ul << fd % (8 * sizeof(long));
}

static void set_bit(fd_set *set, int fd)
{
	((unsigned long *)set)[fd / (8 * sizeof(long))] |= 1ul << fd % (8 * sizeof(long));
}

static void clear_set(fd_set *set, int count)
{
	if (set)
		memset(set, 0, (size_t)(count + (int)(8 * sizeof(long)) - 1) / (8 * sizeof(long)) *
		       sizeof(long));
}

static int preload_poll_give_set(fd_set *set, const struct pollfd *fds, int count, short wanted,
				 short events)
{
	int ready = 0;

	for (int i = 0; set && i < count; i++)
		if (fds[i].events & wanted && fds[i].revents & events) {
			set_bit(set, fds[i].fd);
			ready++;
		}
	return ready;
}

/* True: twins are among them, and *result is the answer. */
static bool select_twins(int count, fd_set *in, fd_set *out, fd_set *bad, int timeout_ms,
			 int *result)
{
	struct pollfd *fds __attribute__((cleanup(poll_free))) = NULL;
	int used = 0;

	if (inside || count <= 0 || twin_highest() < 0)
		return false;
	fds = reallocarray(NULL, (size_t)count, sizeof(*fds));
	if (!fds)
		return false;
	for (int fd = 0; fd < count; fd++) {
		short events = (short)((in_set(in, fd) ? POLLIN : 0) |
				       (in_set(out, fd) ? POLLOUT : 0) |
				       (in_set(bad, fd) ? POLLPRI : 0));

		if (events)
			fds[used++] = (struct pollfd){ .fd = fd, .events = events };
	}
	if (!has_twins(fds, (nfds_t)used))
		return false;
	*result = -1;
	if (poll_until(fds, (nfds_t)used, poll_deadline_ns(timeout_ms)) < 0)
		return true;
	for (int i = 0; i < used; i++)
		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			return true;
		}
	clear_set(in, count);
	clear_set(out, count);
	clear_set(bad, count);
	*result = preload_poll_give_set(in, fds, used, POLLIN, POLLIN | POLLHUP | POLLERR) +
		  preload_poll_give_set(out, fds, used, POLLOUT, POLLOUT | POLLERR) +
		  preload_poll_give_set(bad, fds, used, POLLPRI, POLLPRI);
	return true;
}

int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict bad,
	   struct timeval *restrict timeout)
{
	int64_t start_ns = now_ns(), left_us;
	int result, timeout_ms = -1;

	if (timeout)
		timeout_ms = timeout->tv_sec >= INT_MAX / 1000 ? INT_MAX :
			(int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	if (!select_twins(count, in, out, bad, timeout_ms, &result))
		return REAL(select)(count, in, out, bad, timeout);
	if (timeout && result >= 0) {
		left_us = (int64_t)timeout->tv_sec * 1000000 + timeout->tv_usec -
			  (now_ns() - start_ns) / 1000;
		left_us = left_us < 0 ? 0 : left_us;
		timeout->tv_sec = left_us / 1000000;
		timeout->tv_usec = left_us % 1000000;
	}
	return result;
}

int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict bad,
	    const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
	sigset_t old;
	bool taken;
	int result;

	pthread_sigmask(SIG_SETMASK, mask, &old);
	pthread_cleanup_push(poll_unmask, &old);
	taken = select_twins(count, in, out, bad, timespec_ms(timeout), &result);
	pthread_cleanup_pop(1);
	return taken ? result : REAL(pselect)(count, in, out, bad, timeout, mask);
}
