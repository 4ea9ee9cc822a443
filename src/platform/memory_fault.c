/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handler of SIGSEGV and SIGBUS: claims those that copy_user() & co (base/copy.h) raised, by
 * program counter, and makes the copy return EFAULT. All others go on to the handler before ours, in
 * the way the kernel would have called it, or to the default action.
 *
 * Handlers that the application installs later replace ours; those that save and call the
 * previous one (sanitizers, language runtimes) keep it working. Others are found at the next
 * fault_handler_install(): ours goes in front of them again. A handler that then calls the one it
 * replaced, ours, gets the handler that was there before both.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/lock.h"
#include "platform/fail.h"
#include "platform/memory.h"

/* Handlers replaced by ours, by signal: the latest, and the one at first installation. */
static struct behind {
	struct sigaction previous, first;
} behind_segv, behind_bus;

/* The fault that this thread passes on: a handler behind ours that calls ours has the same context. */
static __thread struct {
	const void *context, *frame;
} passing __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__)
static uintptr_t context_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

static void context_set_pc(ucontext_t *context, uintptr_t pc)
{
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
}
#elif defined(__aarch64__)
static uintptr_t context_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.pc;
}

static void context_set_pc(ucontext_t *context, uintptr_t pc)
{
	context->uc_mcontext.pc = pc;
}
#else
static uintptr_t context_pc(const ucontext_t *context)
{
	return 0;	/* never in the range: nothing is claimed */
}

static void context_set_pc(ucontext_t *context, uintptr_t pc)
{
}
#endif

/*
 * The default action, as if no handler were installed. A fault happens again as soon as the handler
 * returns; a signal that was sent (si_code <= 0) has to be sent again. It is delivered when
 * the handler returns, since it is blocked until then.
 */
static void act_by_default(int signal, const siginfo_t *info)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	sigaction(signal, &action, NULL);
	if (info->si_code <= 0)
		syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), signal);
}

static void unblock_one(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void pass_on(struct sigaction *previous, int signal, siginfo_t *info, void *context)
{
	struct sigaction action = *previous;
	bool ignored = action.sa_handler == SIG_IGN && !(action.sa_flags & SA_SIGINFO);
	bool by_default = action.sa_handler == SIG_DFL && !(action.sa_flags & SA_SIGINFO);

	if (ignored && info->si_code <= 0)
		return;
	/* The kernel does not let a fault be ignored: it would happen again for ever. */
	if (ignored || by_default) {
		act_by_default(signal, info);
		return;
	}
	if (action.sa_flags & SA_RESETHAND) {
		previous->sa_handler = SIG_DFL;
		previous->sa_flags = 0;
	}
	if (!(action.sa_flags & SA_NODEFER))
		sigaddset(&action.sa_mask, signal);
	else if (!sigismember(&action.sa_mask, signal))
		unblock_one(signal);
	pthread_sigmask(SIG_BLOCK, &action.sa_mask, NULL);	/* sigreturn restores the mask */
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(signal, info, context);
	else
		action.sa_handler(signal);
}

static void pass_on_once(struct behind *behind, int signal, siginfo_t *info, void *context)
{
	const void *frame = __builtin_frame_address(0);

	/* The same fault, deeper in the stack: without the latter, a handler may have left by longjmp(). */
	if (passing.context == context && (uintptr_t)frame < (uintptr_t)passing.frame) {
		pass_on(&behind->first, signal, info, context);
		return;
	}
	passing.context = context;
	passing.frame = frame;
	pass_on(&behind->previous, signal, info, context);
	passing.context = NULL;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	uintptr_t fixup = info->si_code > 0 ? copy_fixup(context_pc(context)) : 0;
	int saved = errno;

	if (fixup)
		context_set_pc(context, fixup);
	else
		pass_on_once(signal == SIGSEGV ? &behind_segv : &behind_bus, signal, info, context);
	errno = saved;
}

static struct lock install_lock = LOCK_INITIALIZER;
static bool installed GUARDED_BY(install_lock);

/* Again, too, if another handler is in front. */
static int install_for(int signal, struct behind *behind) REQUIRES(install_lock)
{
	struct sigaction now, action = { .sa_sigaction = on_fault,
					 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

	if (fail_now(FAIL_SIGACTION) || sigaction(signal, NULL, &now))
		return errno;
	if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
		return 0;
	behind->previous = now;
	if (!installed)
		behind->first = now;
	sigemptyset(&action.sa_mask);
	return sigaction(signal, &action, NULL) ? errno : 0;
}

int fault_handler_install(void)
{
	int err;

	lock_acquire(&install_lock);
	err = install_for(SIGSEGV, &behind_segv);
	if (!err) {
		err = install_for(SIGBUS, &behind_bus);
		if (err && !installed)
			sigaction(SIGSEGV, &behind_segv.previous, NULL);
	}
	installed = installed || !err;
	lock_release(&install_lock);
	return err;
}
