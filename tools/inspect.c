/* SPDX-License-Identifier: BSD-2-Clause */
/* The client of control sockets (inspect.h). */
#include "inspect.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "inspect/protocol.h"

#define NS_PER_MS	1000000ull
#define PROCESSES_MAX	4096u

uint64_t inspect_deadline_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 * NS_PER_MS + (uint64_t)now.tv_nsec + INSPECT_WAIT_MS * NS_PER_MS;
}

/* ---- what the kernel says of a process ---- */

/* Its name is its own choice: nothing of it may move a terminal's cursor. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if (!isprint((unsigned char)*text))
			*text = '?';
}

static void read_program(struct inspected *process)
{
	char path[64];
	FILE *file;

	snprintf(process->program, sizeof(process->program), "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)process->pid);
	file = process->pid ? fopen(path, "re") : NULL;
	if (!file)
		return;
	if (fgets(process->program, sizeof(process->program), file))
		process->program[strcspn(process->program, "\n")] = '\0';
	fclose(file);
	make_printable(process->program);
}

/* The letter of its state; '?': unknown. */
static char state_of(pid_t pid)
{
	char path[64], line[512] = "", *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return '?';
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	end = strrchr(line, ')');	/* the name between brackets may hold anything */
	return end && end[1] == ' ' ? end[2] : '?';
}

/* ---- failures ---- */

static int fail(struct inspected *process, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int fail(struct inspected *process, int err, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(process->why, sizeof(process->why), format, arguments);
	va_end(arguments);
	return err;
}

static int fail_late(struct inspected *process)
{
	char state = state_of(process->pid);

	if (state == 'T')
		return fail(process, ETIMEDOUT, "process %d is stopped: continue it with kill -CONT %d",
			    (int)process->pid, (int)process->pid);
	if (state == 't')
		return fail(process, ETIMEDOUT, "process %d is stopped by a debugger", (int)process->pid);
	return fail(process, ETIMEDOUT, "process %d has not answered within %u s: it has no processor, or is "
		    "held up", (int)process->pid, INSPECT_WAIT_MS / 1000);
}

static int fail_gone(struct inspected *process)
{
	return fail(process, ECONNRESET, "process %d has ended, has closed its device, or is looked at by "
		    "too many", (int)process->pid);
}

/* ---- messages ---- */

static int wait_readable(struct inspected *process, uint64_t deadline_ns)
{
	struct pollfd readable = { .fd = process->fd, .events = POLLIN };
	uint64_t now_ns = inspect_deadline_ns() - INSPECT_WAIT_MS * NS_PER_MS;
	int timeout_ms = deadline_ns > now_ns ? (int)((deadline_ns - now_ns) / NS_PER_MS) + 1 : 0;
	int count = poll(&readable, 1, timeout_ms);

	if (count < 0)
		return fail(process, errno, "interrupted");
	return count ? 0 : fail_late(process);
}

static int send_message(struct inspected *process, struct inspect_head *head, const void *text, const int *fds,
			unsigned fd_count)
{
	struct iovec iov[2] = { { .iov_base = head, .iov_len = sizeof(*head) },
				{ .iov_base = (void *)(uintptr_t)text, .iov_len = head->bytes } };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(INSPECT_FDS * sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	struct cmsghdr *header;

	head->magic = INSPECT_MAGIC;
	head->version = INSPECT_VERSION;
	if (fd_count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
	}
	return sendmsg(process->fd, &message, MSG_NOSIGNAL) < 0 ? fail_gone(process) : 0;
}

static int receive_message(struct inspected *process, enum inspect_kind kind, uint64_t deadline_ns,
			   struct inspect_head *head, char text[INSPECT_ANSWER_MAX])
{
	struct iovec iov[2] = { { .iov_base = head, .iov_len = sizeof(*head) },
				{ .iov_base = text, .iov_len = INSPECT_ANSWER_MAX } };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	int err = wait_readable(process, deadline_ns);
	ssize_t got;

	if (err)
		return err;
	got = recvmsg(process->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got <= 0)
		return fail_gone(process);
	if (got < (ssize_t)sizeof(*head) || message.msg_flags & MSG_TRUNC || head->magic != INSPECT_MAGIC ||
	    head->version != INSPECT_VERSION || head->kind != (uint16_t)kind ||
	    head->bytes != (size_t)got - sizeof(*head))
		return fail(process, EPROTO, "process %d does not speak version %u of this protocol: its "
			    "libraries are of another release", (int)process->pid, INSPECT_VERSION);
	return 0;
}

/* ---- connecting ---- */

static int connect_to_name(const char *name, struct inspected *process)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(name);
	struct ucred ucred;
	socklen_t bytes = sizeof(ucred);
	struct inspect_head head = { .kind = INSPECT_HELLO };

	process->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (process->fd < 0)
		return fail(process, errno, "no socket: %m");
	memcpy(address.sun_path + 1, name, length);
	if (connect(process->fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
		goto failed;
	if (getsockopt(process->fd, SOL_SOCKET, SO_PEERCRED, &ucred, &bytes))
		goto failed;
	process->pid = ucred.pid;
	process->uid = ucred.uid;
	read_program(process);
	return send_message(process, &head, NULL, NULL, 0);
failed:
	return fail(process, errno, errno == EAGAIN ? "it is asked by too many" : "%m");
}

static void inspected_init(struct inspected *process)
{
	*process = (struct inspected){ .fd = -1 };
	process->why[0] = '\0';
}

/* Names "@verbatim-inspect-..." of the kernel's list, once each: accepted connections have it, too. */
static bool next_name(FILE *list, char name[static 64])
{
	char line[512], *found;

	while (fgets(line, sizeof(line), list)) {
		found = strstr(line, " @" INSPECT_PREFIX);
		if (!found)
			continue;
		found += 2;
		found[strcspn(found, "\n")] = '\0';
		if (strlen(found) >= 64)
			continue;
		strcpy(name, found);
		return true;
	}
	return false;
}

static bool is_known(const char (*names)[64], unsigned count, const char *name)
{
	while (count)
		if (!strcmp(names[--count], name))
			return true;
	return false;
}

/* 0 or errno. */
static int list_names(char (**names)[64], unsigned *count)
{
	FILE *list = fopen("/proc/self/net/unix", "re");
	char (*made)[64] = calloc(PROCESSES_MAX, sizeof(*made));
	char name[64];

	if (!list || !made) {
		int err = list ? ENOMEM : errno;

		if (list)
			fclose(list);
		free(made);
		return err;
	}
	*count = 0;
	while (*count < PROCESSES_MAX && next_name(list, name))
		if (!is_known(made, *count, name))
			strcpy(made[(*count)++], name);
	fclose(list);
	*names = made;
	return 0;
}

/* One that has ended meanwhile, or is of another program, is not kept. */
static void begin_each(const char (*names)[64], unsigned name_count, const char *program, struct inspected *list,
		       unsigned *count)
{
	unsigned i;

	for (i = 0; i < name_count; i++) {
		struct inspected *process = &list[*count];
		int err;

		inspected_init(process);
		err = connect_to_name(names[i], process);
		if (err == ECONNREFUSED || err == ECONNRESET || (program && strcmp(program, process->program)))
			inspect_end(process);
		else
			++*count;
	}
}

int inspect_begin_all(const char *program, struct inspected **list, unsigned *count, char *why, size_t size)
{
	char (*names)[64];
	unsigned name_count = 0;
	int err = list_names(&names, &name_count);

	if (err) {
		snprintf(why, size, "the list of processes, /proc/self/net/unix: %s", strerror(err));
		return err;
	}
	*list = calloc(name_count + 1, sizeof(**list));
	*count = 0;
	if (*list)
		begin_each(names, name_count, program, *list, count);
	free(names);
	if (*list)
		return 0;
	snprintf(why, size, "out of memory");
	return ENOMEM;
}

/* Where the kernel lets us see it. */
static bool is_elsewhere(pid_t pid)
{
	struct stat here, there;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	return !stat("/proc/self/ns/net", &here) && !stat(path, &there) && here.st_ino != there.st_ino;
}

int inspect_begin(pid_t pid, struct inspected *process)
{
	char name[64];
	unsigned i;
	int err, length = snprintf(name, sizeof(name), INSPECT_PREFIX "%d", (int)pid);

	for (i = 0; i < INSPECT_NAMES; i++) {
		inspected_init(process);
		if (i)
			snprintf(name + length, sizeof(name) - (size_t)length, "-%u", i);
		err = connect_to_name(name, process);
		if (!err && process->pid == pid)
			return 0;
		inspect_end(process);
	}
	process->pid = pid;
	read_program(process);
	if (state_of(pid) == '?')
		return fail(process, ESRCH, "there is no process %d", (int)pid);
	if (is_elsewhere(pid))
		return fail(process, ENOENT, "process %d (%s) is in another network namespace: go there with "
			    "nsenter --net --target %d", (int)pid, process->program, (int)pid);
	return fail(process, ENOENT, "process %d (%s) has no device of Verbatim open, or not in this network "
		    "namespace", (int)pid, process->program);
}

/* ---- proving, asking ---- */

static int fail_forbidden(struct inspected *process, int err)
{
	if (!process->pid)
		return fail(process, EPERM, "a process of a PID namespace that is not visible here");
	if (err == ESRCH)
		return fail_gone(process);
	return fail(process, EPERM, "process %d (%s, of user %u): the kernel does not let you read its memory "
		    "(%s): another user's, or Yama's ptrace_scope; try with sudo", (int)process->pid,
		    process->program, (unsigned)process->uid, strerror(err));
}

int inspect_prove(struct inspected *process, uint64_t deadline_ns)
{
	char *text = malloc(INSPECT_ANSWER_MAX), nonce[INSPECT_NONCE_BYTES];
	struct iovec here = { .iov_base = nonce, .iov_len = sizeof(nonce) }, there = here;
	struct inspect_head head;
	int err;

	if (!text)
		return fail(process, ENOMEM, "out of memory");
	err = receive_message(process, INSPECT_HELLO, deadline_ns, &head, text);
	if (err)
		goto free_text;
	there.iov_base = (void *)(uintptr_t)head.value;
	if (!process->pid || process_vm_readv(process->pid, &here, 1, &there, 1, 0) != sizeof(nonce)) {
		err = fail_forbidden(process, process->pid ? errno : 0);
		goto free_text;
	}
	head = (struct inspect_head){ .kind = INSPECT_PROOF, .bytes = sizeof(nonce) };
	err = send_message(process, &head, nonce, NULL, 0);
	if (!err)
		err = receive_message(process, INSPECT_PROOF, deadline_ns, &head, text);
free_text:
	free(text);
	return err;
}

static int ask_piece(struct inspected *process, const char *command, const int *fds, unsigned fd_count,
		     uint64_t *cursor, char *text, size_t *bytes)
{
	struct inspect_head head = { .kind = INSPECT_COMMAND, .bytes = (uint32_t)strlen(command),
				     .cursor = *cursor };
	int err = send_message(process, &head, command, fds, fd_count);

	if (!err)
		err = receive_message(process, INSPECT_COMMAND, inspect_deadline_ns(), &head, text);
	if (err)
		return err;
	if (head.status) {
		err = head.status < 4096 ? (int)head.status : EPROTO;
		text[head.bytes < sizeof(process->why) ? head.bytes : sizeof(process->why) - 1] = '\0';
		make_printable(text);
		return fail(process, err, "process %d: %s", (int)process->pid, *text ? text : strerror(err));
	}
	*cursor = head.cursor;
	*bytes = head.bytes;
	return 0;
}

int inspect_ask(struct inspected *process, const char *command, const int *fds, unsigned fd_count,
		inspect_take *take, void *context)
{
	char *text = malloc(INSPECT_ANSWER_MAX);
	uint64_t cursor = 0;
	size_t bytes = 0;
	int err;

	if (!text)
		return fail(process, ENOMEM, "out of memory");
	do {
		err = ask_piece(process, command, fds, fd_count, &cursor, text, &bytes);
		if (!err && take)
			err = take(context, text, bytes);
		fd_count = 0;
	} while (!err && cursor);
	free(text);
	return err;
}

void inspect_end(struct inspected *process)
{
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
}
