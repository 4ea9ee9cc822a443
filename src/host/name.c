/* SPDX-License-Identifier: BSD-2-Clause */
/* Abstract Unix sockets (name.h). */
#include "host/name.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/fail.h"

struct abstract_name name_of(const char *text)
{
	struct abstract_name name = { .address.sun_family = AF_UNIX };
	size_t length = strlen(text), room = sizeof(name.address.sun_path) - 1;

	if (length > room)
		length = room;
	memcpy(name.address.sun_path + 1, text, length);
	name.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
	return name;
}

struct abstract_name name_of_slot(const char *prefix, uint32_t slot)
{
	char text[sizeof(((struct sockaddr_un *)0)->sun_path)];

	snprintf(text, sizeof(text), "%s%u", prefix, slot);
	return name_of(text);
}

int name_socket(int type)
{
	return fail_now(FAIL_SOCKET) ? -1 : socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int name_bind(int fd, const struct abstract_name *name)
{
	return fail_now(FAIL_BIND) ||
	       bind(fd, (const struct sockaddr *)&name->address, name->bytes) ? errno : 0;
}

int name_listen(const struct abstract_name *name, int backlog, int *fd)
{
	int err, made = name_socket(SOCK_SEQPACKET);

	if (made < 0)
		return errno;
	err = name_bind(made, name);
	if (!err && (fail_now(FAIL_LISTEN) || listen(made, backlog)))
		err = errno;
	if (err)
		close(made);
	else
		*fd = made;
	return err;
}

int name_connect(const struct abstract_name *name, int type, int *fd)
{
	int err = 0, made = name_socket(type);

	if (made < 0)
		return errno;
	if (fail_now(FAIL_CONNECT) ||
	    connect(made, (const struct sockaddr *)&name->address, name->bytes))
		err = errno;
	if (err)
		close(made);
	else
		*fd = made;
	return err;
}

void name_disconnect(int fd)
{
	shutdown(fd, SHUT_RDWR);
	close(fd);
}
