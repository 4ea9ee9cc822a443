/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storm [--seed N] [--seconds N] [--group verbs|cm|sockets] [--exits N]
 *
 * Rounds: open, steps by chance, each interrupted after 20 to 1000 us by a signal whose handler mostly leaves
 * by siglongjmp(); then, in quiet, what was there before works as before: check, close. A round that
 * does not end hangs, and says in which step.
 *
 * --exits: instead, N processes for each group, which end by exit() or _exit() in the handler, within a second
 * beside what other programs take.
 */
#include "storm.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEPS_OF_A_ROUND	300
#define PATIENCE_S		30
#define EXIT_LIMIT_NS		1000000000u
#define LATE_TIMES		4u	/* it sleeps and is woken up several times, where we do once */
#define EXIT_STATUS		7

static const struct group {
	const char *name;
	const struct step *steps;
	void (*open)(void), (*check)(void), (*close)(void);
} groups[] = {
	{ "verbs", verbs_steps, verbs_open, verbs_check, verbs_close },
	{ "cm", cm_steps, cm_open, cm_check, cm_close },
	{ "sockets", socket_steps, sockets_open, sockets_check, sockets_close },
};

static sigjmp_buf outside;
static volatile bool storming;
volatile bool storm_stays;
static volatile unsigned long left, returned;
static const char *volatile doing = "start";
static volatile unsigned progress;
static unsigned state, seed = 1;

/* With a process that is to exit: what it tells its parent. NULL: none is. */
static struct {
	uint64_t handled_ns;
	char step[64];
} *shared;

unsigned storm_random(void)
{
	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

void storm_fail(const char *what)
{
	fprintf(stderr, "not ok: %s: %s is not true, errno %d (%s); seed %u\n", doing, what, errno,
		strerror(errno), seed);
	_exit(1);
}

static void set_alarm(void)
{
	struct itimerval next = { .it_value.tv_usec = 20 + storm_random() % 980 };

	setitimer(ITIMER_REAL, &next, NULL);
}

static void calm(void)
{
	struct itimerval never = { 0 };

	storming = false;
	setitimer(ITIMER_REAL, &never, NULL);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void on_alarm(int number)
{
	int saved = errno;

	(void)number;
	if (!storming)
		return;
	if (shared && !storm_stays) {
		shared->handled_ns = now_ns();
		if (storm_random() % 2)
			exit(EXIT_STATUS);
		_exit(EXIT_STATUS);
	}
	if (storm_random() % 8 && !storm_stays) {
		left++;
		siglongjmp(outside, 1);
	}
	returned++;
	set_alarm();
	errno = saved;
}

static unsigned count_steps(const struct step *steps)
{
	unsigned n = 0;

	while (steps[n].name)
		n++;
	return n;
}

/* Until a handler leaves it. */
static void interrupt(const struct step *step)
{
	doing = step->name;
	if (!sigsetjmp(outside, 1)) {
		storming = true;
		set_alarm();
		for (;;)
			step->run();
	}
	calm();
	progress++;
}

static void do_round(const struct group *group)
{
	unsigned count = count_steps(group->steps);

	doing = "open";
	group->open();
	for (volatile unsigned i = 0; i < STEPS_OF_A_ROUND; i++)
		interrupt(&group->steps[storm_random() % count]);
	doing = "check";
	group->check();
	doing = "close";
	group->close();
	progress++;
}

static void *watch(void *unused)
{
	unsigned before = progress, same = 0;

	for (;;) {
		sleep(1);
		same = progress == before ? same + 1 : 0;
		before = progress;
		if (same < PATIENCE_S)
			continue;
		fprintf(stderr, "not ok: %s hangs; seed %u, %lu handlers left, %lu returned\n",
			doing, seed, left, returned);
		if (getenv("STORM_WAITS_FOR_A_DEBUGGER"))
			pause();
		_exit(1);
	}
	return unused;
}

static void prepare(void)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct rlimit files;
	pthread_t watcher;
	sigset_t all, before;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	sigaction(SIGALRM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_create(&watcher, NULL, watch, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void storm_over(const struct group *group, unsigned seconds)
{
	time_t end = time(NULL) + seconds;
	unsigned rounds = 0;

	left = returned = 0;
	do {
		do_round(group);
		rounds++;
	} while (time(NULL) < end);
	printf("ok - %s: %u rounds of %u steps, %lu handlers left by siglongjmp(), %lu returned\n",
	       group->name, rounds, STEPS_OF_A_ROUND, left, returned);
	fflush(stdout);
}

/* ---- exits ---- */

static void do_and_exit(const struct group *group)
{
	const struct step *step = &group->steps[storm_random() % count_steps(group->steps)];

	snprintf(shared->step, sizeof(shared->step), "%s", step->name);
	group->open();
	interrupt(step);
}

/* *@late_ns: how much longer our own naps took than they were to: what other programs do to this machine. */
static int wait_for(pid_t pid, uint64_t limit_ns, uint64_t *late_ns)
{
	uint64_t end_ns = now_ns() + limit_ns, began_ns;
	int status = 0;

	*late_ns = 0;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		if (now_ns() > end_ns) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return -1;
		}
		began_ns = now_ns();
		usleep(500);
		*late_ns += now_ns() - began_ns - 500000;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void exits_over(const struct group *group, unsigned count)
{
	uint64_t longest_ns = 0, took_ns, late_ns;
	int status;
	pid_t pid;

	for (unsigned i = 0; i < count; i++) {
		shared->handled_ns = 0;
		storm_random();
		pid = fork();
		if (!pid)
			do_and_exit(group);
		status = wait_for(pid, 20000000000u, &late_ns);
		took_ns = now_ns() - shared->handled_ns;
		doing = shared->step;
		progress++;
		if (status != EXIT_STATUS)
			fprintf(stderr, "# status %d\n", status);
		NEED(status == EXIT_STATUS);
		NEED(took_ns < EXIT_LIMIT_NS + LATE_TIMES * late_ns);
		if (took_ns > longest_ns)
			longest_ns = took_ns;
	}
	printf("ok - %s: %u processes ended in a handler, within %u ms\n", group->name, count,
	       (unsigned)(longest_ns / 1000000));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned seconds = 3, exits = 0;
	const char *only = NULL;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seed"))
			seed = (unsigned)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--seconds"))
			seconds = (unsigned)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--group"))
			only = argv[i + 1];
		else if (!strcmp(argv[i], "--exits"))
			exits = (unsigned)atoi(argv[i + 1]);
	}
	if (exits) {
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		NEED(shared != MAP_FAILED);
	}
	state = seed;
	prepare();
	for (unsigned i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (only && strcmp(only, groups[i].name))
			continue;
		else if (exits)
			exits_over(&groups[i], exits);
		else
			storm_over(&groups[i], seconds);
	return 0;
}
