/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A public call in progress defers signal handlers (puts them off), so that they may leave it by
 * siglongjmp(), end the process, or call us again: they run where the call holds no lock and nothing is
 * half done.
 *
 *	application     CALL() ... lock ... unlock ...  leave: pay     handler, or siglongjmp()
 *	signal                    ^ put off: sent again, blocked         ^ delivered here
 *
 * libverbatim-preload.so (`verbatim run`) stands in front of all handlers that the application installs, and
 * asks struct call_offer for each signal. To put a handler off, all signals are blocked and the signal is sent
 * to its thread again: it stays pending until the outermost call ends or pauses. Without that library only a
 * counter changes.
 *
 * A call that waits must not delay handlers. It sleeps with the application's signal mask (call_poll(),
 * call_mask()): a signal is put off and ends the sleep. Then the call releases all it holds, and pauses
 * (call_pause()) or returns.
 *
 * Cancellation (pthread_cancel) acts in calls that wait for an event, on entry (CALL_POINT(), CALL_BLOCKING()) and
 * while they sleep, nowhere else: system calls that are cancellation points are made with locks held. Calls switch
 * it off at their beginning; those of the data path, where that would be seen, before the first such system call
 * (call_shield()), or make it without the C library's wrapper. It is switched on again where the outermost
 * call ends. In calls that hold locks across a sleep (CALL_HOLDING()) the stack is unwound: what is held is given
 * back by variables with a cleanup, which takes -fexceptions (src/rsockets, src/rspreload).
 */
#ifndef VERBATIM_BASE_CALL_H
#define VERBATIM_BASE_CALL_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/tsan.h"

#define CALL_VERSION	1u
#define CALL_HOOK	"verbatim_preload_calls"

/* What the core offers to the preloaded library. */
struct call_offer {
	unsigned version;		/* CALL_VERSION */
	/* Called from a handler with SA_SIGINFO. True: it was put off, return without doing anything. */
	bool (*put_off)(int signal, const siginfo_t *info, void *context, int flags);
};

extern const struct call_offer call_offered;

/* The type of the hook. False: handlers are not put off here. */
typedef bool call_hook(const struct call_offer *offer);

/* Read and written by this thread alone, and by signal handlers on it. */
struct call_thread {
	unsigned depth;			/* 0: in no call; calls call each other */
	union {
		uint16_t due;		/* at the end of the outermost call: either of these */
		struct {
			bool owed;	/* a handler was put off */
			bool shielded;	/* cancellation is switched off */
		};
	};
	bool interrupts;		/* one that was installed without SA_RESTART */
	unsigned long mask;		/* the application's, while handlers are owed */
	int cancel_state;		/* the application's, in a call of CALL_HOLDING(), and while shielded */
};

extern __thread struct call_thread call_thread __attribute__((tls_model("initial-exec")));
/* Handlers are put off in this process. */
extern bool call_guarded;

/* Depth of calls that hold locks while they call others: call_pause() does nothing in them. */
#define CALL_CLOSED	0x10000u

/*
 * If this thread is in no call: cancellation is as the application has it, and the handlers that are owed
 * run now. errno is kept.
 */
void call_pay(void);

static inline unsigned call_enter(unsigned depth)
{
	call_thread.depth += depth;
	atomic_signal_fence(memory_order_seq_cst);
	return depth;
}

static inline void call_leave(unsigned depth)
{
	atomic_signal_fence(memory_order_seq_cst);
	call_thread.depth -= depth;
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(call_thread.due, 0))
		call_pay();
}

void call_shield_now(void);

/* In a call, before a system call that is a cancellation point; until the outermost call ends. */
static inline void call_shield(void)
{
	if (!call_thread.shielded)
		call_shield_now();
}

/* Around one that sleeps, in a call that waits and holds nothing. */
static inline void call_bare(void)
{
	if (call_thread.shielded)
		pthread_setcancelstate(call_thread.cancel_state, NULL);
}

static inline void call_cover(void)
{
	if (call_thread.shielded)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static inline void call_left(const unsigned *depth)
{
	call_leave(*depth);
}

/* The same, in which ThreadSanitizer does not look at what this thread does. */
static inline unsigned call_enter_unseen(void)
{
	if (tsan_is_on())
		tsan_enter();
	call_enter(1);
	call_shield();
	return 1;
}

/* Of a call that waits: it is cancelled here if that is asked for already. */
static inline unsigned call_enter_point(void)
{
	if (!call_thread.depth)
		pthread_testcancel();
	return call_enter_unseen();
}

static inline void call_left_unseen(const unsigned *depth)
{
	call_leave(*depth);
	if (tsan_is_on())
		tsan_leave();
}

/* The first declaration of a public function: until it returns. */
#define CALL() \
	const unsigned call_depth __attribute__((cleanup(call_left_unseen), unused)) = call_enter_unseen()
/* Of one that waits for an event, and may be cancelled. */
#define CALL_POINT() \
	const unsigned call_depth __attribute__((cleanup(call_left_unseen), unused)) = call_enter_point()
/* Of a function that has a twin for ThreadSanitizer (verbs/tsan.c). */
#define CALL_TWIN() \
	const unsigned call_depth __attribute__((cleanup(call_left), unused)) = call_enter(1)

/* @point: of cancellation. Returns the cancellation state that call_unhold() restores. */
static inline int call_hold(bool point)
{
	bool outermost = call_thread.depth < CALL_CLOSED;
	int cancel_state;

	if (point && outermost)
		pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	if (outermost && !call_thread.shielded)
		call_thread.cancel_state = cancel_state;
	if (tsan_is_on())
		tsan_enter();
	call_enter(CALL_CLOSED);
	return cancel_state;
}

/* Also when the stack is unwound: call_abandon() has ended all calls then. */
static inline void call_unhold(const int *cancel_state)
{
	if (call_thread.depth >= CALL_CLOSED) {
		call_leave(CALL_CLOSED);
		if (tsan_is_on()) {
			tsan_leave();
			tsan_after(&tsan_calls);	/* as the sanitizer takes sockets */
		}
	}
	pthread_setcancelstate(*cancel_state, NULL);
}

#define CALL_HOLD(point) \
	const int call_held __attribute__((cleanup(call_unhold), unused)) = call_hold(point)
#define CALL_HOLDING()	CALL_HOLD(false)
#define CALL_BLOCKING()	CALL_HOLD(true)

static inline bool call_is_owed(void)
{
	return call_thread.owed;
}

/*
 * In a call that holds nothing. Deferred handlers run now and may leave by siglongjmp(). True: one lacked
 * SA_RESTART, so the wait ends with EINTR.
 */
bool call_pause(void);

/* The application's signal mask, for ppoll() & co. */
void call_mask(sigset_t *mask);

/*
 * poll(), a cancellation point in calls of CALL_POINT(), that ends with EINTR when a handler is put off, or was
 * since the call began.
 */
int call_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
/* The same, of no descriptors, and no cancellation point. */
int call_nap(int timeout_ms);
/* call_poll() in a call of CALL_HOLDING(), which may be cancelled here if the application lets it be. */
int call_sleep(struct pollfd *fds, nfds_t count, int timeout_ms);

/*
 * pthread_cond_wait(). Where handlers can be put off it returns after some milliseconds in any case: the
 * caller then asks call_is_owed().
 */
void call_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);

/* A cleanup handler: the thread is cancelled in a call and will not leave it otherwise. */
void call_abandon(void *unused);

#endif
