/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker's sleep: an epoll set with a doorbell (eventfd) and a timeout in nanoseconds;
 * event fds; the worker thread itself.
 */
#ifndef VERBATIM_PLATFORM_WAIT_H
#define VERBATIM_PLATFORM_WAIT_H

#include <stdbool.h>
#include <stdint.h>

struct waiter {
	int epoll_fd, doorbell_fd, nap_fd;
	int signal_fd;			/* of waiter_wait_progress(); -1: none yet */
};

#define WAIT_DOORBELL 0x1u	/* bits of waiter_wait()'s result; others are the tags given */

int waiter_open(struct waiter *waiter);
void waiter_close(struct waiter *waiter);
/* Level-triggered for reading; @tag is a bit other than WAIT_DOORBELL. */
int waiter_add(struct waiter *waiter, int fd, uint32_t tag);
void waiter_remove(struct waiter *waiter, int fd);
void waiter_ring(struct waiter *waiter);	/* from any thread */
/*
 * Sleep until an fd is readable, the doorbell rings, or @timeout_ns is over (UINT64_MAX: no
 * limit; 0: do not sleep). Returns the tags that are ready; the doorbell is silenced.
 */
uint32_t waiter_wait(struct waiter *waiter, uint64_t timeout_ns);

/*
 * Sleep until waiter_wake_nap(), or the doorbell if @doorbell; true when woken so (both are silenced
 * then). nap_fd wakes only threads in waiter_idle_wait().
 */
bool waiter_idle_wait(struct waiter *waiter, bool doorbell, uint64_t timeout_ns);
void waiter_wake_nap(struct waiter *waiter);

/*
 * Sleep until @fd is readable or waiter_wait() would return, and behave towards signals as read(@fd)
 * does: EINTR after a handler that was installed without SA_RESTART, else handlers run and 0 is
 * returned. *ready: the tags, WAIT_FD for @fd. With cancellation disabled; while it sleeps it is as
 * @cancel_state says. In a call that puts handlers off: 0 after those, too; see call_is_owed().
 */
#define WAIT_FD 0x80000000u
int waiter_wait_progress(struct waiter *waiter, int fd, uint64_t timeout_ns, int cancel_state,
			 uint32_t *ready);

int event_fd_open(void);	/* eventfd, semaphore, blocking, CLOEXEC; -1: errno */
int event_fd_open_level(void);	/* likewise, but no semaphore: who takes takes all that was raised */
void event_fd_raise(int fd);
int event_fd_take(int fd);			/* 0; EAGAIN (non-blocking); EINTR */
/* 0; EAGAIN: its count is 0; EOPNOTSUPP, ...: no non-blocking read here (kernels before 5.8, sandboxes). */
int event_fd_take_now(int fd);
/*
 * The same for a call of the application that holds nothing: deferred handlers (base/call.h) run before the
 * sleep and when they end it. ERESTART: one ran, and the caller sleeps again.
 */
int event_fd_wait(int fd);

struct worker_thread;
/*
 * A thread with all signals blocked, a small stack, a name, and where the kernel allows it a
 * short scheduling slice (100 us, normal policy).
 */
int worker_thread_start(struct worker_thread **thread, const char *name, void (*run)(void *),
			void *argument);
void worker_thread_join(struct worker_thread *thread);
bool thread_is_worker(void);		/* the calling one is such a thread */
void thread_yield(void);
void thread_sleep_ns(uint64_t ns);

#endif
