/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sigaction() and what is like it: between a signal and the application's handler stands ours, which puts
 * the handler off while its thread is inside a call of Verbatim (base/call.h). Without the core, and in no
 * call, handlers run at once.
 *
 * The kernel knows whether a signal has a handler, and its mask and flags; the table here knows which handler.
 * So a vfork()ed child that sets SIG_DFL takes nothing from its parent. Faults are left alone: they are
 * handled where they happen. So is everything under tools that deliver signals late themselves.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "base/call.h"
#include "preload.h"

#define SIGNALS		65	/* of the kernel, numbered from 1 */
#define OURS		(SA_SIGINFO | SA_RESETHAND)	/* flags that the kernel is not told as they are */

/* Exported to the core alone: call_hook. */
bool verbatim_preload_calls(const struct call_offer *offer);
/* Names without a declaration in today's headers. */
int __sigaction(int number, const struct sigaction *action, struct sigaction *old);
__sighandler_t bsd_signal(int number, __sighandler_t handler);
__sighandler_t __sysv_signal(int number, __sighandler_t handler);

typedef int real_sigaction(int number, const struct sigaction *action, struct sigaction *old);
typedef void any_handler(int number, siginfo_t *info, void *context);

static const struct call_offer *_Atomic offered;

/*
 * Each field is read by itself: a handler that is called with three arguments does not mind if it wants one,
 * as with the kernel. RESETHAND belongs to the handler, hence its own bit of the pointer's word.
 */
static struct entry {
	_Atomic uintptr_t handler;	/* 0: none yet */
	_Atomic int flags;		/* of OURS, and SA_RESTART */
} table[SIGNALS];

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;	/* writers, with signals blocked */
static bool passes_all;			/* a checking tool delivers signals late by itself */
static bool interrupts[SIGNALS];	/* siginterrupt(): of signal() from now on */
static real_sigaction *_Atomic real;

static real_sigaction *real_function(void)
{
	real_sigaction *found = atomic_load_explicit(&real, memory_order_relaxed);

	if (!found) {
		found = (real_sigaction *)dlsym(RTLD_NEXT, "sigaction");
		passes_all = dlsym(RTLD_DEFAULT, "__tsan_init") ||
			     dlsym(RTLD_DEFAULT, "_vgnU_freeres");
		atomic_store_explicit(&real, found, memory_order_relaxed);
	}
	return found;
}

static void after_fork(void)
{
	pthread_mutex_init(&table_lock, NULL);
}

/* sigaction() may be called in handlers, dlsym() may not. */
__attribute__((constructor)) static void prepare(void)
{
	real_function();
	pthread_atfork(NULL, NULL, after_fork);
}

bool verbatim_preload_calls(const struct call_offer *offer)
{
	real_function();
	if (passes_all || offer->version != CALL_VERSION)
		return false;
	atomic_store_explicit(&offered, offer, memory_order_release);
	return true;
}

static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

static bool is_ours_to_handle(int number)
{
	return number > 0 && number < SIGNALS && number != 32 && number != 33 &&
	       number != SIGKILL && number != SIGSTOP && !is_fault(number) && !passes_all;
}

/* SA_RESETHAND: the first that comes gets the handler, the next one the default action. */
static bool take_once(int number, uintptr_t handler)
{
	struct sigaction by_default = { .sa_handler = SIG_DFL };

	if (!atomic_compare_exchange_strong(&table[number].handler, &handler, 0)) {
		raise(number);
		return false;
	}
	real_function()(number, &by_default, NULL);
	return true;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const struct call_offer *offer = atomic_load_explicit(&offered, memory_order_acquire);
	int saved = errno, flags = atomic_load(&table[number].flags);
	uintptr_t handler;

	if (offer && offer->put_off(number, info, context, flags))
		return;
	handler = atomic_load(&table[number].handler);
	if (!handler || ((flags & SA_RESETHAND) && !take_once(number, handler)))
		return;
	errno = saved;
	((any_handler *)handler)(number, info, context);
}

/* ---- the table ---- */

static bool has_handler(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) ||
	       (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN &&
		action->sa_handler != SIG_ERR);
}

static void give_back(struct sigaction *old, uintptr_t handler, int flags)
{
	if (!(old->sa_flags & SA_SIGINFO) || old->sa_sigaction != on_signal)
		return;
	old->sa_sigaction = (any_handler *)handler;
	old->sa_flags = (old->sa_flags & ~OURS) | (flags & OURS);
}

/* Before the kernel knows of it: afterwards would be too late. */
static int install_locked(int number, const struct sigaction *wanted, struct sigaction *old)
{
	struct entry *entry = &table[number];
	uintptr_t handler = atomic_load(&entry->handler);
	struct sigaction action, before;
	int flags = atomic_load(&entry->flags), failed;

	if (wanted && has_handler(wanted)) {
		action = *wanted;
		action.sa_flags = (wanted->sa_flags & ~OURS) | SA_SIGINFO;
		action.sa_sigaction = on_signal;
		atomic_store(&entry->flags, wanted->sa_flags & (OURS | SA_RESTART));
		atomic_store(&entry->handler, (uintptr_t)wanted->sa_sigaction);
		wanted = &action;
	}
	failed = real_function()(number, wanted, &before);
	if (failed) {
		atomic_store(&entry->handler, handler);
		atomic_store(&entry->flags, flags);
		return failed;
	}
	give_back(&before, handler, flags);
	if (old)
		*old = before;
	return 0;
}

static int install(int number, const struct sigaction *action, struct sigaction *old)
{
	sigset_t all, mask;
	int result;

	if (!is_ours_to_handle(number))
		return real_function()(number, action, old);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	pthread_mutex_lock(&table_lock);
	result = install_locked(number, action, old);
	pthread_mutex_unlock(&table_lock);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return result;
}

/* ---- the C library's names ---- */

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	return install(number, action, old);
}

int __sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	return install(number, action, old);
}

static __sighandler_t set_handler(int number, __sighandler_t handler, int flags, bool masks_itself)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags }, old;

	if (handler == SIG_ERR || number < 1 || number >= SIGNALS) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&action.sa_mask);
	if (masks_itself)
		sigaddset(&action.sa_mask, number);
	return install(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

static __sighandler_t bsd(int number, __sighandler_t handler)
{
	bool ends_calls = number > 0 && number < SIGNALS && interrupts[number];

	return set_handler(number, handler, ends_calls ? 0 : SA_RESTART, true);
}

__sighandler_t signal(int number, __sighandler_t handler)
{
	return bsd(number, handler);
}

__sighandler_t bsd_signal(int number, __sighandler_t handler)
{
	return bsd(number, handler);
}

__sighandler_t ssignal(int number, __sighandler_t handler)
{
	return bsd(number, handler);
}

__sighandler_t __sysv_signal(int number, __sighandler_t handler)
{
	return set_handler(number, handler, SA_RESETHAND | SA_NODEFER, false);
}

__sighandler_t sysv_signal(int number, __sighandler_t handler)
{
	return __sysv_signal(number, handler);
}

/* It also changes the mask: SIG_HOLD blocks the signal, all others let it in. */
__sighandler_t sigset(int number, __sighandler_t handler)
{
	__sighandler_t before;
	struct sigaction old;
	sigset_t set, mask;

	if (handler == SIG_HOLD) {
		if (install(number, NULL, &old))
			return SIG_ERR;
		before = old.sa_handler;
	} else {
		before = set_handler(number, handler, 0, false);
		if (before == SIG_ERR)
			return SIG_ERR;
	}
	sigemptyset(&set);
	sigaddset(&set, number);
	if (sigprocmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &set, &mask))
		return SIG_ERR;
	return sigismember(&mask, number) == 1 ? SIG_HOLD : before;
}

int siginterrupt(int number, int flag)
{
	struct sigaction action;

	if (install(number, NULL, &action))
		return -1;
	interrupts[number] = flag;
	action.sa_flags = flag ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
	return install(number, &action, NULL);
}
