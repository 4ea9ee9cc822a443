/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handler of SIGSEGV and SIGBUS: claims those that copy_user() & co (base/copy.h) raised, by
 * program counter, and makes the copy return EFAULT. All others go on to whoever handled the
 * signal before us, in the way the kernel would have called it, or to the default action.
 *
 * Handlers that the application installs later replace ours; those that save and call the
 * previous one (sanitizers, language runtimes) keep it working.
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
#include "platform/fail.h"
#include "platform/memory.h"

static struct sigaction previous_segv, previous_bus;

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
 * The default action, as if we had never been here. A fault happens again as soon as the handler
 * returns; a signal that somebody sent (si_code <= 0) has to be sent again. It is delivered when
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

static void on_fault(int signal, siginfo_t *info, void *context)
{
	uintptr_t fixup = info->si_code > 0 ? copy_fixup(context_pc(context)) : 0;
	int saved = errno;

	if (fixup)
		context_set_pc(context, fixup);
	else
		pass_on(signal == SIGSEGV ? &previous_segv : &previous_bus, signal, info, context);
	errno = saved;
}

static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
static bool installed;

static int install(void)
{
	struct sigaction action = { .sa_sigaction = on_fault,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

	sigemptyset(&action.sa_mask);
	if (fail_now(FAIL_SIGACTION) || sigaction(SIGSEGV, &action, &previous_segv))
		return errno;
	if (fail_now(FAIL_SIGACTION) || sigaction(SIGBUS, &action, &previous_bus)) {
		int err = errno;

		sigaction(SIGSEGV, &previous_segv, NULL);
		return err;
	}
	return 0;
}

int fault_handler_install(void)
{
	int err = 0;

	pthread_mutex_lock(&install_lock);
	if (!installed)
		err = install();
	installed = installed || !err;
	pthread_mutex_unlock(&install_lock);
	return err;
}
