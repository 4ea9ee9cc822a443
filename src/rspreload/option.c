/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options are set on both sockets of a twin. Those that rsockets do not have are read from the
 * kernel socket (TCP_INFO, TCP_CONGESTION: of an idle connection).
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rspreload/rspreload.h"

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	struct twin *twin = twin_get(fd);
	int result, saved;

	if (twin && twin->inherited && level != SOL_SOCKET) {
		result = 0;		/* of TCP and IP: the parent's connection has them set already */
	} else if (twin && twin->mode != TWIN_KERNEL && level == SOL_RDMA) {
		result = RDMA_CALL(rsetsockopt(twin->rs, level, name, value, length));
	} else {
		result = REAL(setsockopt)(fd, level, name, value, length);
		saved = errno;
		if (!result && twin && twin->mode != TWIN_KERNEL)
			RDMA_CALL(rsetsockopt(twin->rs, level, name, value, length));
		errno = saved;
	}
	if (twin)
		twin_put(twin);
	return result;
}

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict length)
{
	struct twin *twin = twin_get(fd);
	bool is_state = level == SOL_RDMA ||
			(level == SOL_SOCKET && (name == SO_ERROR || name == SO_RCVBUF || name == SO_SNDBUF));
	int result;

	if (twin && twin->mode == TWIN_CONNECTING)
		twin_settle(twin, fd);
	/* The rsocket's answer counts for what is its own state. */
	if (twin && (twin->mode == TWIN_RDMA || twin->mode == TWIN_CONNECTING) && is_state)
		result = RDMA_CALL(rgetsockopt(twin->rs, level, name, value, length));
	else
		result = REAL(getsockopt)(fd, level, name, value, length);
	if (twin)
		twin_put(twin);
	return result;
}

/* What was done to the kernel socket is done to the rsocket. 0, or -1 and errno. */
static int option_follow(const struct twin *twin, int fd, int command, const void *argument)
{
	int flags;

	if (command == F_SETFL) {
		/*
		 * O_NONBLOCK and O_ASYNC of the rsocket follow those of the kernel socket. A
		 * listening one never blocks.
		 */
		flags = REAL(fcntl)(fd, F_GETFL);
		if (twin->mode == TWIN_KERNEL)
			return 0;
		flags = (flags & (O_NONBLOCK | O_ASYNC)) | (twin->listening ? O_NONBLOCK : 0);
		return RDMA_CALL(rfcntl(twin->rs, F_SETFL, (long)flags));
	}
	if ((command == F_SETOWN || command == F_SETOWN_EX) && twin->mode != TWIN_KERNEL)
		return RDMA_CALL(rfcntl(twin->rs, command, (long)argument));
	return 0;
}

int fcntl(int fd, int command, ...)
{
	va_list arguments;
	struct twin *twin;
	void *argument;
	int result;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	twin = twin_get(fd);
	result = REAL(fcntl)(fd, command, argument);
	if (!twin)
		return result;
	if (result >= 0 && option_follow(twin, fd, command, argument))
		result = -1;
	if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC) &&
	    !twin_add(result, twin))
		return result;			/* the reference is the descriptor's */
	twin_put(twin);
	return result;
}

int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

/* FIONREAD: bytes that can be read now, up to what a look at them shows. */
static int readable_bytes(const struct twin *twin, int *count)
{
	char bytes[16384];
	ssize_t n = RDMA_CALL(rrecv(twin->rs, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT));

	if (n < 0 && errno != EAGAIN)
		return -1;
	*count = n < 0 ? 0 : (int)n;
	return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	struct twin *twin = twin_get(fd);
	socklen_t length = sizeof(int);
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (twin && twin->mode == TWIN_RDMA && request == FIONREAD)
		result = readable_bytes(twin, argument);
	else if (twin && twin->mode == TWIN_RDMA && request == SIOCATMARK)
		/* Before the next byte to be read stands the mark of urgent data. */
		result = RDMA_CALL(rgetsockopt(twin->rs, SOL_RDMA, SIOCATMARK, argument, &length));
	else
		result = REAL(ioctl)(fd, request, argument);
	/* After the kernel socket: what is the rsocket's, too. */
	if (twin && !result && (request == FIONBIO || request == FIOASYNC))
		result = option_follow(twin, fd, F_SETFL, NULL);
	else if (twin && !result && (request == FIOSETOWN || request == SIOCSPGRP))
		result = option_follow(twin, fd, F_SETOWN, (void *)(intptr_t)*(const int *)argument);
	if (twin)
		twin_put(twin);
	return result;
}

/* The C library's asks the kernel without the name ioctl(). */
int sockatmark(int fd)
{
	int answer;

	return ioctl(fd, SIOCATMARK, &answer) ? -1 : answer;
}
