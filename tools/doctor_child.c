/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes in which `verbatim doctor` tries what may hang or be killed: bounded in time and output. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"

enum { OUTPUT_MAX = 65536 };

static long milliseconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until its end, or @seconds; false: time is up. */
static bool read_output(int fd, unsigned seconds, char *output)
{
	long end = milliseconds_now() + seconds * 1000L;
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	size_t used = 0;
	char more[512];

	for (;;) {
		long left = end - milliseconds_now();
		ssize_t got;

		if (left <= 0 || poll(&ready, 1, (int)left) == 0)
			return false;
		got = used < OUTPUT_MAX ? read(fd, output + used, OUTPUT_MAX - used) :
					  read(fd, more, sizeof(more));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return true;
		if (used < OUTPUT_MAX)
			used += (size_t)got;
		output[used] = '\0';
	}
}

int run_child(int (*child)(const void *argument), const void *argument, unsigned seconds, char **output)
{
	int pipe_fds[2], status;
	pid_t pid;

	*output = calloc(1, OUTPUT_MAX + 1);
	if (!*output)
		return -1;
	if (pipe2(pipe_fds, O_CLOEXEC)) {
		snprintf(*output, OUTPUT_MAX, "pipe: %m");
		return -1;
	}
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		dup2(pipe_fds[1], STDOUT_FILENO);
		dup2(pipe_fds[1], STDERR_FILENO);
		status = child(argument);
		fflush(stdout);
		_exit(status);
	}
	close(pipe_fds[1]);
	if (pid < 0) {
		snprintf(*output, OUTPUT_MAX, "fork: %m");
		close(pipe_fds[0]);
		return -1;
	}
	setpgid(pid, pid);
	if (!read_output(pipe_fds[0], seconds, *output))
		kill(-pid, SIGKILL);	/* its own children, too */
	close(pipe_fds[0]);
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
