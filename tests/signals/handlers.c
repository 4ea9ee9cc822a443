/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What sigaction(2) and signal(3) and their like promise, which `verbatim run` answers itself: the same
 * answers with and without it.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

__sighandler_t __sysv_signal(int number, __sighandler_t handler);

static unsigned count, failed;
static volatile sig_atomic_t calls, value, inner;

static void report(int good, const char *name)
{
	count++;
	failed += !good;
	printf("%sok %u - %s\n", good ? "" : "not ", count, name);
	fflush(stdout);
}

static void simple(int number)
{
	calls += number == SIGUSR1;
}

static void other(int number)
{
	(void)number;
	inner++;
}

static void with_info(int number, siginfo_t *info, void *context)
{
	(void)number;
	calls++;
	value = context ? info->si_value.sival_int : -1;
}

static struct sigaction install(int number, void *handler, int flags)
{
	struct sigaction action = { .sa_flags = flags }, old;

	if (flags & SA_SIGINFO)
		action.sa_sigaction = (void (*)(int, siginfo_t *, void *))handler;
	else
		action.sa_handler = (void (*)(int))handler;
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGHUP);
	sigaction(number, &action, &old);
	return old;
}

static struct sigaction now(int number)
{
	struct sigaction action;

	sigaction(number, NULL, &action);
	return action;
}

static int what_was_set_is_given_back(void)
{
	struct sigaction first = install(SIGUSR1, simple, SA_RESTART), second, third;

	second = install(SIGUSR1, with_info, SA_SIGINFO | SA_NODEFER);
	third = install(SIGUSR1, simple, SA_RESETHAND);
	return first.sa_handler == SIG_DFL && second.sa_handler == simple &&
	       (second.sa_flags & (SA_SIGINFO | SA_RESTART | SA_RESETHAND)) == SA_RESTART &&
	       sigismember(&second.sa_mask, SIGHUP) && third.sa_sigaction == with_info &&
	       (third.sa_flags & SA_SIGINFO) && (third.sa_flags & SA_NODEFER) &&
	       now(SIGUSR1).sa_handler == simple && (now(SIGUSR1).sa_flags & SA_RESETHAND);
}

static int handlers_get_what_belongs_to_them(void)
{
	union sigval queued = { .sival_int = 42 };

	calls = 0;
	install(SIGUSR1, with_info, SA_SIGINFO);
	sigqueue(getpid(), SIGUSR1, queued);
	return calls == 1 && value == 42;
}

static int once_is_once(void)
{
	calls = 0;
	install(SIGUSR1, simple, SA_RESETHAND);
	raise(SIGUSR1);
	return calls == 1 && now(SIGUSR1).sa_handler == SIG_DFL;
}

static int signal_is_bsds(void)
{
	__sighandler_t before = signal(SIGUSR1, simple);

	calls = 0;
	raise(SIGUSR1);
	raise(SIGUSR1);
	return before == SIG_DFL && calls == 2 && (now(SIGUSR1).sa_flags & SA_RESTART) &&
	       signal(SIGUSR1, SIG_IGN) == simple && signal(SIGUSR1, SIG_DFL) == SIG_IGN;
}

static int sysv_signal_is_once(void)
{
	calls = 0;
	__sysv_signal(SIGUSR1, simple);
	raise(SIGUSR1);
	return calls == 1 && now(SIGUSR1).sa_handler == SIG_DFL;
}

static int siginterrupt_changes_restarting(void)
{
	int without, with;

	signal(SIGUSR1, simple);
	siginterrupt(SIGUSR1, 1);
	without = !(now(SIGUSR1).sa_flags & SA_RESTART) && now(SIGUSR1).sa_handler == simple;
	signal(SIGUSR1, simple);
	without = without && !(now(SIGUSR1).sa_flags & SA_RESTART);
	siginterrupt(SIGUSR1, 0);
	with = now(SIGUSR1).sa_flags & SA_RESTART;
	return without && with;
}

static int sigset_holds(void)
{
	__sighandler_t first = sigset(SIGUSR2, other), second, third;

	inner = 0;
	second = sigset(SIGUSR2, SIG_HOLD);
	raise(SIGUSR2);
	if (inner)
		return 0;
	third = sigset(SIGUSR2, other);
	return first == SIG_DFL && second == other && third == SIG_HOLD && inner == 1;
}

static int mistakes_are_refused(void)
{
	struct sigaction action = { .sa_handler = simple };

	return sigaction(0, &action, NULL) == -1 && errno == EINVAL &&
	       sigaction(65, &action, NULL) == -1 && errno == EINVAL &&
	       sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL &&
	       signal(SIGSTOP, simple) == SIG_ERR && signal(99, simple) == SIG_ERR &&
	       !sigaction(SIGKILL, NULL, &action);
}

static int a_vforked_child_takes_nothing(void)
{
	int status = 0;
	pid_t child;

	install(SIGUSR1, simple, 0);
	calls = 0;
	child = vfork();
	if (!child) {
		signal(SIGUSR1, SIG_DFL);
		_exit(0);
	}
	waitpid(child, &status, 0);
	raise(SIGUSR1);
	return calls == 1 && now(SIGUSR1).sa_handler == simple;
}

static int a_forked_child_has_its_handlers(void)
{
	int status = 0;
	pid_t child;

	install(SIGUSR1, simple, 0);
	calls = 0;
	child = fork();
	if (!child) {
		raise(SIGUSR1);
		_exit(calls == 1 && now(SIGUSR1).sa_handler == simple ? 0 : 1);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static sigjmp_buf fault;

static void on_fault(int number)
{
	(void)number;
	siglongjmp(fault, 1);
}

static int faults_are_the_programs(void)
{
	static volatile int *volatile nowhere;

	install(SIGSEGV, on_fault, 0);
	if (!sigsetjmp(fault, 1)) {
		*nowhere = 1;
		return 0;
	}
	return now(SIGSEGV).sa_handler == on_fault;
}

static int all_real_time_signals_work(void)
{
	union sigval queued = { .sival_int = 0 };

	calls = 0;
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
		install(number, with_info, SA_SIGINFO);
		queued.sival_int = number;
		sigqueue(getpid(), number, queued);
		if (value != number)
			return 0;
	}
	return calls == SIGRTMAX - SIGRTMIN + 1;
}

int main(void)
{
	report(what_was_set_is_given_back(), "what was set is given back");
	report(handlers_get_what_belongs_to_them(), "a handler gets its signal's value and context");
	report(once_is_once(), "SA_RESETHAND: the handler runs once");
	report(signal_is_bsds(), "signal() restarts calls, and gives back what was there");
	report(sysv_signal_is_once(), "sysv_signal(): the handler runs once");
	report(siginterrupt_changes_restarting(), "siginterrupt() changes SA_RESTART, of signal() too");
	report(sigset_holds(), "sigset() with SIG_HOLD blocks");
	report(mistakes_are_refused(), "numbers that are no signals are refused, and SIGKILL");
	report(a_vforked_child_takes_nothing(), "a vfork()ed child takes no handler from its parent");
	report(a_forked_child_has_its_handlers(), "a fork()ed child has its parent's handlers");
	report(faults_are_the_programs(), "SIGSEGV is handled where it happens");
	report(all_real_time_signals_work(), "real-time signals come with their values");
	printf("1..%u\n", count);
	return failed != 0;
}
