/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded to any program: interrupts it 1000 to 50,000 times a second by a signal whose handler does nothing
 * and was installed with SA_RESTART. No program expects that, and none should notice.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>

static void set_alarm(void)
{
	static unsigned random = 1;
	struct itimerval next = { .it_value.tv_usec = 20 };

	random = random * 1664525u + 1013904223u;
	next.it_value.tv_usec += random >> 22;
	setitimer(ITIMER_REAL, &next, NULL);
}

static void on_alarm(int number)
{
	int saved = errno;

	(void)number;
	set_alarm();
	errno = saved;
}

__attribute__((constructor)) static void start(void)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };

	/* What starts the program by exec(): the timer would go on there, and the handler not. */
	if (!strcmp(program_invocation_short_name, "nsenter") ||
	    !strcmp(program_invocation_short_name, "setpriv"))
		return;
	sigaction(SIGALRM, &action, NULL);
	set_alarm();
}
