/* SPDX-License-Identifier: BSD-2-Clause */
/* The client of control sockets (client.h). */
#include "inspect/client.h"

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
#include <unistd.h>

#include "inspect/protocol.h"
#include "platform/clock.h"

#define NS_PER_MS	1000000ull
#define PROCESSES_MAX	4096u
#define SMALL_PIECE_NS	(20 * NS_PER_MS)	/* of the patience: 50 of them in a second */

/* ---- what the kernel says of a process ---- */

/* Its name is its own choice: nothing of it may move a terminal's cursor. */
static void client_make_printable(char *text)
{
	for (; *text; text++)
		if (!isprint((unsigned char)*text))
			*text = '?';
}

static void client_read_program(struct inspected *process)
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
	client_make_printable(process->program);
}

/* The letter of its state; '?': unknown. */
static char client_state_of(pid_t pid)
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

static int client_fail(struct inspected *process, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int client_fail(struct inspected *process, int err, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(process->why, sizeof(process->why), format, arguments);
	va_end(arguments);
	process->stage = INSPECTED_FAILED;
	process->err = err;
	return err;
}

/* @otherwise: what is said of one that runs. */
static int client_fail_stopped(struct inspected *process, const char *otherwise)
{
	char state = client_state_of(process->pid);

	if (state == 'T')
		return client_fail(process, ETIMEDOUT, "process %d (%s) is stopped: continue it with kill "
				   "-CONT %d", (int)process->pid, process->program, (int)process->pid);
	return client_fail(process, ETIMEDOUT, "process %d (%s) %s", (int)process->pid, process->program,
			   state == 't' ? "is stopped by a debugger" : otherwise);
}

static int client_fail_late(struct inspected *process)
{
	return client_fail_stopped(process, "does not answer: it has no processor, or is held up");
}

static int client_fail_gone(struct inspected *process)
{
	return client_fail(process, ECONNRESET, "process %d (%s) has ended, has closed its device, or is "
			   "looked at by too many", (int)process->pid, process->program);
}

/* ---- messages ---- */

/* What is waited goes from *patience_ns. */
static int client_wait_readable(struct inspected *process, uint64_t *patience_ns)
{
	struct pollfd readable = { .fd = process->fd, .events = POLLIN };
	uint64_t begin_ns = clock_now_ns(), waited_ns;
	int count;

	if (!*patience_ns)	/* however soon the answer comes */
		return client_fail_late(process);
	count = poll(&readable, 1, (int)(*patience_ns / NS_PER_MS) + 1);
	if (count < 0)
		return client_fail(process, errno, "interrupted");
	waited_ns = clock_now_ns() - begin_ns;
	*patience_ns = waited_ns < *patience_ns ? *patience_ns - waited_ns : 0;
	return count ? 0 : client_fail_late(process);
}

static int client_send_message(struct inspected *process, struct inspect_head *head, const void *text,
			       const int *fds, unsigned fd_count)
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
	return sendmsg(process->fd, &message, MSG_NOSIGNAL) < 0 ? client_fail_gone(process) : 0;
}

/* EAGAIN: there is none yet. */
static int client_receive_message(struct inspected *process, enum inspect_kind kind, struct inspect_head *head,
				  char text[INSPECT_ANSWER_MAX])
{
	struct iovec iov[2] = { { .iov_base = head, .iov_len = sizeof(*head) },
				{ .iov_base = text, .iov_len = INSPECT_ANSWER_MAX } };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t got = recvmsg(process->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return EAGAIN;
	if (got <= 0)
		return client_fail_gone(process);
	if (got < (ssize_t)sizeof(*head) || message.msg_flags & MSG_TRUNC || head->magic != INSPECT_MAGIC ||
	    head->version != INSPECT_VERSION || head->kind != (uint16_t)kind ||
	    head->bytes != (size_t)got - sizeof(*head))
		return client_fail(process, EPROTO, "process %d (%s) does not speak version %u of this protocol: "
				   "its libraries are of another release", (int)process->pid, process->program,
				   INSPECT_VERSION);
	return 0;
}

/* ---- connecting ---- */

static int client_connect_to_name(const char *name, struct inspected *process)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(name);
	struct ucred ucred;
	socklen_t bytes = sizeof(ucred);
	struct inspect_head head = { .kind = INSPECT_HELLO };

	process->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (process->fd < 0)
		return client_fail(process, errno, "no socket: %m");
	memcpy(address.sun_path + 1, name, length);
	if (connect(process->fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
		goto failed;
	if (getsockopt(process->fd, SOL_SOCKET, SO_PEERCRED, &ucred, &bytes))
		goto failed;
	process->pid = ucred.pid;
	process->uid = ucred.uid;
	client_read_program(process);
	process->stage = INSPECTED_HELLO;
	return client_send_message(process, &head, NULL, NULL, 0);
failed:
	if (errno != EAGAIN)
		return client_fail(process, errno, "%s: %m", name);
	/* As many as may wait to be let in: of the process there is the name that it gave its socket. */
	process->pid = atoi(name + strlen(INSPECT_PREFIX));
	client_read_program(process);
	return client_fail_stopped(process, "is asked by too many");
}

static void inspected_init(struct inspected *process)
{
	*process = (struct inspected){ .fd = -1 };
}

/* Names "@verbatim-inspect-..." of the kernel's list, once each: accepted connections have it, too. 0 or errno. */
static int client_list_names(char (**names)[64], unsigned *count)
{
	FILE *list = fopen("/proc/self/net/unix", "re");
	char (*made)[64] = calloc(PROCESSES_MAX, sizeof(*made));
	char line[512], *name;

	if (!list || !made) {
		int err = list ? ENOMEM : errno;

		if (list)
			fclose(list);
		free(made);
		return err;
	}
	*count = 0;
	while (*count < PROCESSES_MAX && fgets(line, sizeof(line), list)) {
		unsigned i = 0;

		name = strstr(line, " @" INSPECT_PREFIX);
		if (!name)
			continue;
		name += 2;
		name[strcspn(name, "\n")] = '\0';
		while (i < *count && strcmp(made[i], name))
			i++;
		if (i == *count && strlen(name) < sizeof(*made))
			strcpy(made[(*count)++], name);
	}
	fclose(list);
	*names = made;
	return 0;
}

int inspect_begin_all(const char *program, struct inspected **list, unsigned *count, char *why, size_t size)
{
	char (*names)[64] = NULL;
	unsigned name_count = 0, i;
	int err = client_list_names(&names, &name_count);

	if (err) {
		snprintf(why, size, "the list of processes, /proc/self/net/unix: %s", strerror(err));
		return err;
	}
	*list = calloc(name_count + 1, sizeof(**list));
	*count = 0;
	for (i = 0; *list && i < name_count; i++) {
		struct inspected *process = &(*list)[*count];

		inspected_init(process);
		err = client_connect_to_name(names[i], process);
		/* One that has ended meanwhile, or is of another program, is not kept. */
		if (err == ECONNREFUSED || err == ECONNRESET || (program && strcmp(program, process->program)))
			inspect_end(process);
		else
			++*count;
	}
	free(names);
	if (*list)
		return 0;
	snprintf(why, size, "out of memory");
	return ENOMEM;
}

int inspect_begin(pid_t pid, struct inspected *process)
{
	struct stat here, there;
	char name[64], path[64];
	unsigned i;
	int err, length = snprintf(name, sizeof(name), INSPECT_PREFIX "%d", (int)pid);

	for (i = 0; i < INSPECT_NAMES; i++) {
		inspected_init(process);
		if (i)
			snprintf(name + length, sizeof(name) - (size_t)length, "-%u", i);
		err = client_connect_to_name(name, process);
		if (process->pid == pid && (!err || err == ETIMEDOUT))
			return err;
		inspect_end(process);
	}
	process->pid = pid;
	client_read_program(process);
	if (client_state_of(pid) == '?')
		return client_fail(process, ESRCH, "there is no process %d", (int)pid);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);	/* where the kernel lets us see it */
	if (!stat("/proc/self/ns/net", &here) && !stat(path, &there) && here.st_ino != there.st_ino)
		return client_fail(process, ENOENT, "process %d (%s) is in another network namespace: go there "
				   "with nsenter --net --target %d", (int)pid, process->program, (int)pid);
	return client_fail(process, ENOENT, "process %d (%s) has no device of Verbatim open, or not in "
			   "this network namespace", (int)pid, process->program);
}

/* ---- proving, asking ---- */

static int client_fail_forbidden(struct inspected *process, int err)
{
	if (!process->pid)
		return client_fail(process, EPERM, "a process is not yours: it is of a PID namespace that is not "
				   "visible here");
	if (err == ESRCH)
		return client_fail_gone(process);
	if (process->uid != geteuid())
		return client_fail(process, EPERM, "process %d (%s) is not yours: it is of user %u, and the "
				   "kernel does not let you read its memory: try with sudo", (int)process->pid,
				   process->program, (unsigned)process->uid);
	return client_fail(process, EPERM, "process %d (%s): the kernel does not let you read its memory (%s), by "
			   "Yama's ptrace_scope or since it is set-id: try with sudo", (int)process->pid,
			   process->program, strerror(err));
}

/* A message has come. */
static void client_step(struct inspected *process, char *text)
{
	struct inspect_head head;
	char nonce[INSPECT_NONCE_BYTES];
	struct iovec here = { .iov_base = nonce, .iov_len = sizeof(nonce) }, there = here;

	if (process->stage != INSPECTED_HELLO) {
		if (!client_receive_message(process, INSPECT_PROOF, &head, text))
			process->stage = INSPECTED_PROVEN;
		return;
	}
	if (client_receive_message(process, INSPECT_HELLO, &head, text))
		return;
	there.iov_base = (void *)(uintptr_t)head.value;
	if (!process->pid || process_vm_readv(process->pid, &here, 1, &there, 1, 0) != sizeof(nonce)) {
		client_fail_forbidden(process, process->pid ? errno : 0);
		return;
	}
	head = (struct inspect_head){ .kind = INSPECT_PROOF, .bytes = sizeof(nonce) };
	process->stage = INSPECTED_PROOF;
	client_send_message(process, &head, nonce, NULL, 0);
}

static bool client_is_pending(const struct inspected *process)
{
	return process->stage == INSPECTED_HELLO || process->stage == INSPECTED_PROOF;
}

/* Those that are pending, for poll(), which skips descriptors below 0. How many there are. */
static unsigned client_watch(const struct inspected *list, unsigned count, struct pollfd *watched)
{
	unsigned pending = 0, i;

	for (i = 0; i < count; i++) {
		bool waits = client_is_pending(&list[i]);

		watched[i] = (struct pollfd){ .fd = waits ? list[i].fd : -1, .events = POLLIN };
		pending += waits;
	}
	return pending;
}

void inspect_prove_all(struct inspected *list, unsigned count, unsigned wait_ms)
{
	struct pollfd *watched = calloc(count + 1, sizeof(*watched));
	char *text = malloc(INSPECT_ANSWER_MAX);
	unsigned i;
	uint64_t until_ns;
	uint64_t now_ns;

	if (watched && text) {
		until_ns = clock_now_ns() + wait_ms * NS_PER_MS;
		while (client_watch(list, count, watched)) {
			now_ns = clock_now_ns();
			if (now_ns >= until_ns ||
			    poll(watched, count, (int)((until_ns - now_ns) / NS_PER_MS) + 1) < 0)
				break;
			for (i = 0; i < count; i++)
				if (watched[i].revents)
					client_step(&list[i], text);
		}
	}
	for (i = 0; i < count; i++)
		if (client_is_pending(&list[i]))
			client_fail_late(&list[i]);
	free(watched);
	free(text);
}

int inspect_ask(struct inspected *process, const char *command, const int *fds, unsigned fd_count,
		unsigned wait_ms, inspect_take *take, void *context)
{
	char *text = malloc(INSPECT_ANSWER_MAX);
	struct inspect_head head = { .cursor = 0 };
	uint64_t patience_ns = wait_ms * NS_PER_MS;
	int err;

	if (!text)
		return client_fail(process, ENOMEM, "out of memory");
	do {
		head = (struct inspect_head){ .kind = INSPECT_COMMAND, .bytes = (uint32_t)strlen(command),
					      .cursor = head.cursor };
		err = client_send_message(process, &head, command, fds, fd_count);
		if (!err)
			err = client_wait_readable(process, &patience_ns);
		if (!err)
			err = client_receive_message(process, INSPECT_COMMAND, &head, text);
		if (!err && head.status) {
			err = head.status < 4096 ? (int)head.status : EPROTO;
			text[head.bytes < sizeof(process->why) ? head.bytes : sizeof(process->why) - 1] = '\0';
			client_make_printable(text);
			client_fail(process, err, "process %d (%s): %.160s", (int)process->pid,
				    process->program, *text ? text : strerror(err));
		}
		if (err)
			break;
		/* Pieces but the last are nearly full: one who sends small ones for ever comes to an end. */
		if (head.bytes < INSPECT_ANSWER_MAX / 2)
			patience_ns -= patience_ns < SMALL_PIECE_NS ? patience_ns : SMALL_PIECE_NS;
		if (take)
			err = take(context, text, head.bytes);
		fd_count = 0;
	} while (!err && head.cursor);
	free(text);
	return err;
}

void inspect_end(struct inspected *process)
{
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
}
