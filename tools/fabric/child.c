/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the fabric starts: opensm (--sm) on its first host, and the command of the command line, on
 * the node of VERBATIM_NODE or the first host, both as by `verbatim run`. Both end with the fabric,
 * even if it is killed.
 */
#include "fabric/room.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

static void child_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGCHLD);
}

static void child_say_end(struct room *room, const char *name, int status, const char *more)
{
	if (WIFSIGNALED(status))
		room_say(room, "%s was ended by signal %d (%s)%s", name, WTERMSIG(status),
			 strsignal(WTERMSIG(status)), more);
	else
		room_say(room, "%s ended with status %d%s", name, WEXITSTATUS(status), more);
}

static void child_reap(struct room *room)
{
	char more[PATH_MAX + 64];
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == room->sm) {
			room->sm = 0;
			snprintf(more, sizeof(more), "; what it said: %s/opensm.out and opensm.log",
				 room->directory);
			if (!room->ended)
				child_say_end(room, "opensm", status, more);
		}
		if (pid == room->command) {
			room->command = 0;
			room->ended = true;
			room->status = WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status)
							   : WEXITSTATUS(status);
		}
	}
}

static void signals_ready(struct watch *watch, uint32_t events)
{
	struct room *room = container_of(watch, struct room, signals_watch);
	struct signalfd_siginfo info;

	while (read(room->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			child_reap(room);
			continue;
		}
		/* A second one, while opensm is waited for, is not waited for. */
		if (room->ended && room->sm)
			kill(room->sm, SIGKILL);
		room->ended = true;
		if (room->command)
			room->status = EXIT_SIGNAL + (int)info.ssi_signo;
	}
}

int child_open(struct room *room)
{
	sigset_t set;

	child_signals(&set);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return errno;
	room->signals_watch.ready = signals_ready;
	room->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return room->signals < 0 ? errno
				 : room_watch(room, room->signals, &room->signals_watch, EPOLLIN);
}

static void first_host(const struct room *room, char name[CTL_NODE_MAX])
{
	struct fabric_node_info info;

	name[0] = '\0';
	for (uint32_t node = 0; node < fabric_nodes(room->fabric); node++)
		if (fabric_node_info(room->fabric, node, &info) && info.type == FABRIC_CA) {
			room_host_name(room, node, name);
			return;
		}
}

/* In a child: the environment of `verbatim run`, at @host. */
static int child_environment(const struct room *room, const char *host)
{
	static struct variable variables[VARIABLE_COUNT];
	char directory[PATH_MAX];
	sigset_t set;

	if (environment_make(variables, false))
		return -1;
	for (int i = 0; i < VARIABLE_COUNT; i++)
		setenv(variables[i].name, variables[i].value, 1);
	/* A path may be relative to where we are. */
	setenv("VERBATIM_FABRIC",
	       strchr(room->name, '/') && realpath(room->directory, directory) ? directory
									       : room->name,
	       1);
	setenv("VERBATIM_NODE", host, 1);
	child_signals(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGPIPE, SIG_DFL);
	return 0;
}

/* In a child: @name becomes its standard output and error. */
static int child_output(const struct room *room, const char *name)
{
	char path[PATH_MAX + 32];
	int null = open("/dev/null", O_RDONLY), fd;

	snprintf(path, sizeof(path), "%s/%s", room->directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
	if (fd < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
	    dup2(fd, STDERR_FILENO) < 0)
		return -1;
	return 0;
}

static pid_t child_fork(struct room *room)
{
	pid_t parent = getpid(), child;

	fflush(stdout);
	fflush(stderr);
	child = fork();
	if (child < 0)
		fprintf(stderr, "verbatim fabric: no process: %s\n", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(EXIT_FAILURE);
	}
	return child;
}

/* Its directory is not in the search path of ordinary users. */
static void search_sbin(void)
{
	const char *path = getenv("PATH");
	char all[32768];

	snprintf(all, sizeof(all), "%s%s/usr/local/sbin:/usr/sbin:/sbin", path ? path : "",
		 path ? ":" : "");
	setenv("PATH", all, 1);
}

int child_start_sm(struct room *room)
{
	char host[CTL_NODE_MAX], log[PATH_MAX + 32];

	first_host(room, host);
	if (!*host) {
		fprintf(stderr, "verbatim fabric: --sm: no host for the subnet manager: the file "
				"has switches alone\n");
		return -1;
	}
	room->sm = child_fork(room);
	if (room->sm < 0)
		return -1;
	if (room->sm) {
		room_say(room, "subnet manager: opensm (%d) on %s; %s/opensm.log", (int)room->sm,
			 host, room->directory);
		return 0;
	}
	snprintf(log, sizeof(log), "%s/opensm.log", room->directory);
	unlink(log);
	if (child_environment(room, host) || child_output(room, "opensm.out"))
		_exit(EXIT_CANNOT_EXECUTE);
	setenv("OSM_TMP_DIR", room->directory, 1);
	setenv("OSM_CACHE_DIR", room->directory, 1);
	search_sbin();
	execlp("opensm", "opensm", "-f", log, (char *)NULL);
	fprintf(stderr, "verbatim fabric: opensm: %s%s\n", strerror(errno), errno == ENOENT ?
		": install it (Debian: apt-get install opensm)" : "");
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
}

int child_start_command(struct room *room)
{
	const char *chosen = getenv("VERBATIM_NODE");
	char host[CTL_NODE_MAX], **command = room->command_line;

	room->command_line = NULL;
	first_host(room, host);
	room->command = child_fork(room);
	if (room->command < 0) {
		room->ended = true;
		room->status = EXIT_FAILURE;
		return -1;
	}
	if (room->command)
		return 0;
	if (child_environment(room, chosen && *chosen ? chosen : host))
		_exit(EXIT_CANNOT_EXECUTE);
	execvp(command[0], command);
	fprintf(stderr, "verbatim fabric: %s: %s\n", command[0], strerror(errno));
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
}

uint64_t child_deadline_us(const struct room *room)
{
	return room->command_line ? room->command_us : FABRIC_NEVER;
}

/* The command begins when the subnet is up; without --sm, at once. */
void child_timer(struct room *room)
{
	if (!room->command_line || room->ended)
		return;
	if (room->is_up || room->command_us <= room->now_us) {
		if (!room->is_up && room->command_us)
			room_say(room, "the subnet is not up: not every host port is Active");
		child_start_command(room);
	} else if (!room->sm) {
		room_say(room, "no subnet manager: the command is not started");
		room->ended = true;
		room->status = EXIT_FAILURE;
	}
}

void child_end_all(struct room *room)
{
	if (room->sm)
		kill(room->sm, SIGKILL);
	if (room->command)
		kill(room->command, SIGTERM);
	while (room->sm || room->command) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);

		if (pid < 0 && errno != EINTR)
			break;
		if (pid == room->sm)
			room->sm = 0;
		if (pid == room->command)
			room->command = 0;
	}
	if (room->signals >= 0)
		close(room->signals);
}
