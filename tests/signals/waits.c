/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waits [--no-guard] [NAME]: each call that waits, in a process of its own, gets SIGINT or SIGTERM while it
 * does, with the default action and with handlers that end the process, leave the call or come back. What has to
 * happen happens before the process has slept for a second; that it waits for a processor does not count.
 * --no-guard: not under `verbatim run`, without handlers that leave.
 */
#include "waits.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform/rest_test.h"

enum reaction { BY_DEFAULT, EXITS, ENDS, LEAVES, COMES_BACK, RESTARTS, REACTIONS };

static const char *const reaction_names[] = {
	[BY_DEFAULT] = "default action", [EXITS] = "exit()", [ENDS] = "_exit()",
	[LEAVES] = "siglongjmp()", [COMES_BACK] = "handler", [RESTARTS] = "handler, SA_RESTART",
};

enum { AFTER_EXIT = 7, AFTER_LEAVING = 8, AFTER_EINTR = 9, FAILED = 1 };

#define LIMIT_MS	1000	/* of sleep */
#define HANGS_MS	60000

static int told[2];		/* child -> parent */
static enum reaction reaction;
static sigjmp_buf outside;
static const char *current = "";

void wait_fail(const char *what)
{
	fprintf(stderr, "# %s: %s is not true, errno %d (%s)\n", current, what, errno,
		strerror(errno));
	_exit(FAILED);
}

static void tell(char what)
{
	if (write(told[1], &what, 1) != 1)
		_exit(FAILED);
}

static void on_signal(int number)
{
	(void)number;
	tell('h');
	if (reaction == EXITS)
		exit(AFTER_EXIT);
	if (reaction == ENDS)
		_exit(AFTER_EXIT);
	if (reaction == LEAVES)
		siglongjmp(outside, 1);
}

/* A call that was left can be made again, and left again. */
static void child(const struct wait *wait, int number)
{
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = reaction == RESTARTS ? SA_RESTART : 0 };
	volatile int left = 0;

	wait->prepare();
	if (reaction != BY_DEFAULT)
		sigaction(number, &action, NULL);
	if (sigsetjmp(outside, 1) && ++left == 2)
		exit(AFTER_LEAVING);
	tell('w');
	wait->call();
	if (reaction != COMES_BACK)
		wait_fail("a call that waits for ever");
	exit(AFTER_EINTR);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What the child says within @limit_ms; 0: nothing; -1: it has closed the pipe. */
static int hear(int limit_ms)
{
	struct pollfd fd = { .fd = told[0], .events = POLLIN };
	char what;

	if (poll(&fd, 1, limit_ms) <= 0)
		return 0;
	return read(told[0], &what, 1) == 1 ? what : -1;
}

static bool fits(int status, int number, bool forever)
{
	switch (reaction) {
	case BY_DEFAULT:
		return WIFSIGNALED(status) && WTERMSIG(status) == number;
	case EXITS:
	case ENDS:
		return WIFEXITED(status) && WEXITSTATUS(status) == AFTER_EXIT;
	case LEAVES:
		return WIFEXITED(status) && WEXITSTATUS(status) == AFTER_LEAVING;
	default:
		return forever ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL :
		       WIFEXITED(status) && WEXITSTATUS(status) == AFTER_EINTR;
	}
}

static const char *interrupt(pid_t pid, int number)
{
	if (hear(20000) != 'w')
		return "does not get to the call";
	usleep(20000 + (unsigned)rand() % 100000);
	kill(pid, number);
	if (reaction != BY_DEFAULT && hear(HANGS_MS) != 'h')
		return "no handler runs";
	return NULL;
}

/* False: it has slept for @limit_ms meanwhile. */
static bool is_back(pid_t pid, int *status, unsigned limit_ms)
{
	long end_ms = now_ms() + HANGS_MS;
	unsigned slept_ms = 0;
	pid_t got;

	while (!(got = waitpid(pid, status, WNOHANG)) && slept_ms < limit_ms && now_ms() < end_ms) {
		usleep(1000);
		slept_ms += process_rests(pid);
	}
	return got == pid;
}

/* NULL: as it should be. */
static const char *try(const struct wait *wait, int number)
{
	bool stays = reaction == RESTARTS || (reaction == COMES_BACK && wait->forever);
	const char *wrong;
	int status = 0;
	pid_t pid;

	if (pipe(told))
		return "no pipe";
	pid = fork();
	if (!pid)
		child(wait, number);
	close(told[1]);
	wrong = interrupt(pid, number);
	if (!wrong && reaction == LEAVES)
		wrong = interrupt(pid, number);
	if (!wrong && is_back(pid, &status, stays ? 200 : LIMIT_MS))
		wrong = stays ? "it comes back" : fits(status, number, wait->forever) ? NULL : "another end";
	else if (!wrong && !stays)
		wrong = "it has slept for a second, and does not end";
	if (kill(pid, SIGKILL) == 0)
		waitpid(pid, &status, 0);
	close(told[0]);
	return wrong;
}

static unsigned count, failed;

static void report(const struct wait *wait, int number)
{
	const char *missing = wait->missing ? wait->missing() : NULL;
	const char *wrong = missing ? NULL : try(wait, number);

	if (missing) {
		printf("ok %u - %s, %s # SKIP %s\n", ++count, wait->name, reaction_names[reaction], missing);
		fflush(stdout);
		return;
	}

	count++;
	failed += wrong != NULL;
	printf("%sok %u - %s, %s, %s%s%s\n", wrong ? "not " : "", count, wait->name,
	       number == SIGINT ? "SIGINT" : "SIGTERM", reaction_names[reaction],
	       wrong ? ": " : "", wrong ? wrong : "");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	bool guarded = argc < 2 || strcmp(argv[1], "--no-guard");
	const char *only = argc > 1 + !guarded ? argv[1 + !guarded] : NULL;

	srand((unsigned)getpid());
	for (const struct wait *wait = waits; wait->name; wait++) {
		current = wait->name;
		for (reaction = 0; reaction < REACTIONS; reaction++)
			if ((guarded || reaction != LEAVES) && (!only || !strcmp(only, wait->name)) &&
			    (reaction != RESTARTS || !(wait->forever || wait->as_poll)))
				report(wait, rand() % 2 ? SIGINT : SIGTERM);
	}
	printf("1..%u\n", count);
	return failed != 0;
}
