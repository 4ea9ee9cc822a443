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

/* The rsocket's answer counts for what is its own state. */
static bool asks_rsocket(int level, int name)
{
	return level == SOL_RDMA ||
	       (level == SOL_SOCKET &&
		(name == SO_ERROR || name == SO_RCVBUF || name == SO_SNDBUF));
}

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict length)
{
	struct twin *twin = twin_get(fd);
	int result;

	if (twin && twin->mode == TWIN_CONNECTING)
		twin_settle(twin, fd);
	if (twin && (twin->mode == TWIN_RDMA || twin->mode == TWIN_CONNECTING) &&
	    asks_rsocket(level, name))
		result = RDMA_CALL(rgetsockopt(twin->rs, level, name, value, length));
	else
		result = REAL(getsockopt)(fd, level, name, value, length);
	if (twin)
		twin_put(twin);
	return result;
}

/* O_NONBLOCK of the rsocket follows that of the kernel socket. A listening one never blocks. */
static void follow_blocking(const struct twin *twin, bool nonblocking)
{
	if (twin->mode != TWIN_KERNEL && !twin->listening)
		RDMA_CALL(rfcntl(twin->rs, F_SETFL, nonblocking ? (long)O_NONBLOCK : 0L));
}

static int preload_option_control(int fd, int command, void *argument)
{
	struct twin *twin = twin_get(fd);
	int result = REAL(fcntl)(fd, command, argument);

	if (!twin)
		return result;
	if (result >= 0 && command == F_SETFL)
		follow_blocking(twin, (intptr_t)argument & O_NONBLOCK);
	if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC) &&
	    !twin_add(result, twin))
		return result;			/* the reference is the descriptor's */
	twin_put(twin);
	return result;
}

int fcntl(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return preload_option_control(fd, command, argument);
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
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (twin && twin->mode == TWIN_RDMA && request == FIONREAD)
		result = readable_bytes(twin, argument);
	else
		result = REAL(ioctl)(fd, request, argument);
	if (twin && !result && request == FIONBIO)
		follow_blocking(twin, *(int *)argument);
	if (twin)
		twin_put(twin);
	return result;
}
