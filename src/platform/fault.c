/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGSEGV and SIGBUS raised while copying application memory (base/copy.h) become an error
 * return; every other fault goes on to whoever handled it before us, or kills the process as it
 * would have.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "base/copy.h"
#include "platform/memory.h"

static struct sigaction previous_segv, previous_bus;

#if defined(__x86_64__)
static uintptr_t get_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

static void set_pc(ucontext_t *context, uintptr_t pc)
{
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
}
#elif defined(__aarch64__)
static uintptr_t get_pc(const ucontext_t *context)
{
	return context->uc_mcontext.pc;
}

static void set_pc(ucontext_t *context, uintptr_t pc)
{
	context->uc_mcontext.pc = pc;
}
#else
static uintptr_t get_pc(const ucontext_t *context)
{
	return 0;
}

static void set_pc(ucontext_t *context, uintptr_t pc)
{
}
#endif

/* The default action happens when the faulting instruction is run again. */
static void pass_on(const struct sigaction *previous, int signal, siginfo_t *info, void *context)
{
	if (previous->sa_flags & SA_SIGINFO) {
		previous->sa_sigaction(signal, info, context);
	} else if (previous->sa_handler == SIG_DFL ||
		   (previous->sa_handler == SIG_IGN && info->si_code > 0)) {
		struct sigaction standard = { .sa_handler = SIG_DFL };

		sigaction(signal, &standard, NULL);
		if (info->si_code <= 0)
			raise(signal);	/* sent by kill(): no instruction will repeat it */
	} else if (previous->sa_handler != SIG_IGN) {
		previous->sa_handler(signal);
	}
}

static void handle(int signal, siginfo_t *info, void *context)
{
	uintptr_t fixup = copy_fixup(get_pc(context));

	if (fixup)
		set_pc(context, fixup);
	else
		pass_on(signal == SIGSEGV ? &previous_segv : &previous_bus, signal, info, context);
}

static int install_error;

static void install(void)
{
	struct sigaction action = { .sa_sigaction = handle,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	sigemptyset(&action.sa_mask);
	if (sigaction(SIGSEGV, &action, &previous_segv) || sigaction(SIGBUS, &action, &previous_bus))
		install_error = errno;
}

int fault_handler_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
	return install_error;
}
