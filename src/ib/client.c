/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs ask of a fabric: client.h. */
#include "ib/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "config/config.h"
#include "platform/clock.h"

#define NS_PER_MS	1000000ull

int ib_bind(struct ib_binding *binding)
{
	static const char example[] =
		"VERBATIM_NODE: expected the name of a node of the fabric, at most %u "
		"characters; verbatim fabric --list shows them";
	struct config config;
	int err = log_init();

	if (!err)
		err = config_load(&config);
	if (err)
		return err;
	if (!config.fabric[0])
		return ENODEV;
	if (strlen(config.node) >= sizeof(binding->node)) {
		complain(example, CTL_NODE_MAX - 1);
		return EINVAL;
	}
	strcpy(binding->fabric, config.fabric);
	strcpy(binding->node, config.node);
	return 0;
}

int ib_connect(const char *fabric, int *fd, char why[PLACE_WHY_MAX])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[PATH_MAX];
	int err = place_find(fabric, path, why);

	if (err)
		return err;
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/" CTL_FILE, path) >=
	    (int)sizeof(address.sun_path)) {
		snprintf(why, PLACE_WHY_MAX, "%.100s is too long for a socket", path);
		return ENAMETOOLONG;
	}
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (*fd < 0) {
		err = errno;
		snprintf(why, PLACE_WHY_MAX, "no socket: %s", strerror(err));
		return err;
	}
	if (!connect(*fd, (struct sockaddr *)&address, sizeof(address)))
		return 0;
	err = errno;
	close(*fd);
	*fd = -1;
	if (err == ENOENT || err == ECONNREFUSED)
		snprintf(why, PLACE_WHY_MAX,
			 "the fabric '%s' does not run: verbatim fabric FILE --name %s starts it",
			 fabric, fabric);
	else
		snprintf(why, PLACE_WHY_MAX, "%s: %s", address.sun_path, strerror(err));
	return err;
}

static int ib_send(int fd, struct ctl_head *head, const void *body)
{
	struct iovec iov[2] = { { .iov_base = head, .iov_len = sizeof(*head) },
				{ .iov_base = (void *)(uintptr_t)body, .iov_len = head->bytes } };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };

	while (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return errno == EPIPE ? ECONNRESET : errno;
	return 0;
}

/* Keeps what is wanted and has not come so far; the rest is closed. */
static void ib_take_files(struct msghdr *message, struct ib_files *files)
{
	struct cmsghdr *head;

	for (head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
		size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fd;

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(head) + i * sizeof(fd), sizeof(fd));
			if (files && files->count < IB_FILES)
				files->fd[files->count++] = fd;
			else
				close(fd);
		}
	}
}

void ib_files_close(struct ib_files *files)
{
	while (files->count)
		close(files->fd[--files->count]);
}

/* 0; ETIMEDOUT; ECONNRESET: the fabric ended; EPROTO: it is none. */
static int ib_receive(int fd, struct ctl_head *head, char body[CTL_TEXT_MAX + 1], uint64_t until_ns,
		      struct ib_files *files)
{
	struct iovec iov[2] = { { .iov_base = head, .iov_len = sizeof(*head) },
				{ .iov_base = body, .iov_len = CTL_TEXT_MAX } };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(IB_FILES * sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t got;

	for (;;) {
		uint64_t now_ns = clock_now_ns();
		struct pollfd pollfd = { .fd = fd, .events = POLLIN };
		int ready = now_ns < until_ns
				    ? poll(&pollfd, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1)
				    : 0;

		if (!ready)
			return ETIMEDOUT;
		if (ready < 0 && errno != EINTR)
			return errno;
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (got >= 0)
			ib_take_files(&message, files);
		if (got > 0)
			break;
		if (!got)
			return ECONNRESET;
		if (errno != EINTR && errno != EAGAIN)
			return errno;
	}
	if (got < (ssize_t)sizeof(*head) || (message.msg_flags & MSG_TRUNC) ||
	    head->magic != CTL_MAGIC || head->bytes != (size_t)got - sizeof(*head))
		return EPROTO;
	body[head->bytes] = '\0';
	return 0;
}

static void ib_explain(int err, char why[PLACE_WHY_MAX])
{
	if (err == ETIMEDOUT)
		snprintf(why, PLACE_WHY_MAX,
			 "the fabric does not answer: it is stopped, or has no processor");
	else if (err == ECONNRESET)
		snprintf(why, PLACE_WHY_MAX, "the fabric ended");
	else if (err == EPROTO)
		snprintf(why, PLACE_WHY_MAX, "what answers is no fabric of this version");
	else
		snprintf(why, PLACE_WHY_MAX, "the fabric cannot be asked: %s", strerror(err));
}

int ib_ask(int fd, enum ctl_kind kind, const void *body, size_t bytes, ib_take *take, void *context,
	   uint64_t *value, char why[PLACE_WHY_MAX])
{
	struct ctl_head head = { .kind = (uint16_t)kind, .bytes = (uint32_t)bytes };

	return ib_ask_within(fd, IB_PATIENCE_MS, &head, body, take, context, value, why);
}

int ib_ask_within(int fd, unsigned patience_ms, const struct ctl_head *question, const void *body,
		  ib_take *take, void *context, uint64_t *value, char why[PLACE_WHY_MAX])
{
	return ib_ask_for_files(fd, patience_ms, question, body, take, context, value, NULL, why);
}

int ib_ask_for_files(int fd, unsigned patience_ms, const struct ctl_head *question,
		     const void *body, ib_take *take, void *context, uint64_t *value,
		     struct ib_files *files, char why[PLACE_WHY_MAX])
{
	struct ctl_head head = { .magic = CTL_MAGIC, .version = CTL_VERSION, .kind = question->kind,
				 .bytes = question->bytes, .value = question->value };
	uint64_t until_ns = clock_now_ns() + patience_ms * NS_PER_MS;
	char *text = malloc(CTL_TEXT_MAX + 1);
	int err = text ? ib_send(fd, &head, body) : ENOMEM;

	while (!err) {
		err = ib_receive(fd, &head, text, until_ns, files);
		if (err || head.kind == CTL_END)
			break;
		if (take)
			take(context, &head, text);
	}
	if (err) {
		ib_explain(err, why);
	} else {
		err = (int)head.status;
		if (err)
			snprintf(why, PLACE_WHY_MAX, "%s", text);
		else if (value)
			*value = head.value;
	}
	free(text);
	return err;
}

int ib_question(const struct ib_binding *binding, enum ctl_kind kind, const void *body,
		size_t bytes, ib_take *take, void *context, uint64_t *value,
		char why[PLACE_WHY_MAX])
{
	int fd, err = ib_connect(binding->fabric, &fd, why);

	if (err)
		return err;
	err = ib_ask(fd, kind, body, bytes, take, context, value, why);
	close(fd);
	return err;
}

struct sysfs_answer {
	char *text;
	size_t size, used;
};

static void sysfs_take(void *context, const struct ctl_head *head, const char *body)
{
	struct sysfs_answer *answer = context;

	if (head->kind != CTL_TEXT || head->bytes >= answer->size - answer->used)
		return;
	memcpy(answer->text + answer->used, body, head->bytes + 1);
	answer->used += head->bytes;
}

int ib_sysfs(const char *path, bool *directory, char *text, size_t size)
{
	struct sysfs_answer answer = { .text = text, .size = size };
	struct {
		struct ctl_place place;
		char path[512];
	} question = { 0 };
	char why[PLACE_WHY_MAX];
	struct ib_binding binding;
	size_t length = strlen(path);
	uint64_t value;
	int err = ib_bind(&binding);

	if (err)
		return ENODEV;
	if (length >= sizeof(question.path))
		return ENOENT;
	text[0] = '\0';
	strcpy(question.place.node, binding.node);
	strcpy(question.path, path);
	err = ib_question(&binding, CTL_SYSFS, &question, sizeof(question.place) + length + 1,
			  sysfs_take, &answer, &value, why);
	if (!err)
		*directory = value == 1;
	return err;
}
