/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creation, connection and closing of twins. bind() and listen() apply to both sockets, with the
 * same port. accept() takes the first connection of either. connect() tries RDMA; without an
 * answer, TCP, and from then on the twin is a kernel socket only. Errors of the rsocket alone are
 * not reported: TCP is used instead.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rspreload/rspreload.h"

enum { KIND = ~(SOCK_NONBLOCK | SOCK_CLOEXEC) };

/* A call from Verbatim's own libraries, from a thread of theirs. */
static bool preload_socket_is_own(const void *caller)
{
	static const char *const own[] = { "/libverbatim-core.so", "/libibverbs.so.1",
					   "/librdmacm.so.1" };
	const char *name;
	Dl_info info;

	if (inside || !dladdr(caller, &info) || !info.dli_fname)
		return inside;
	name = strrchr(info.dli_fname, '/');
	for (size_t i = 0; name && i < sizeof(own) / sizeof(own[0]); i++)
		if (!strcmp(name, own[i]))
			return true;
	return false;
}

/* ---- socket ---- */

/* Gives the kernel socket @fd the twin @rs. Without memory it stays what it is. */
static struct twin *preload_socket_pair(int fd, int rs)
{
	struct twin *twin = twin_new(rs);

	if (!twin || twin_add(fd, twin)) {
		RDMA_CALL(rclose(rs));
		free(twin);
		return NULL;
	}
	return twin;
}

int socket(int domain, int type, int protocol)
{
	int fd = REAL(socket)(domain, type, protocol), rs, kind = type & KIND;
	int saved = errno;
	struct twin *twin;

	if (fd < 0 || preload_socket_is_own(__builtin_return_address(0)) ||
	    !config_takes(domain, kind, protocol))
		return fd;
	twin_remove(fd);			/* closed behind our back */
	rs = RDMA_CALL(rsocket(domain, type | SOCK_CLOEXEC, protocol));
	if (rs >= 0) {
		config_apply(rs);
		twin = preload_socket_pair(fd, rs);
		if (twin && kind == SOCK_DGRAM) {
			twin->datagram = true;
			twin->mode = TWIN_RDMA;
		}
	}
	errno = saved;
	return fd;
}

/* ---- bind, listen ---- */

static int bind_rsocket(struct twin *twin, int fd)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);

	if (REAL(getsockname)(fd, (struct sockaddr *)&address, &length))
		return -1;
	if (!(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port :
					     ((struct sockaddr_in6 *)&address)->sin6_port))
		return -1;
	return RDMA_CALL(rbind(twin->rs, (struct sockaddr *)&address, length));
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	struct twin *twin = twin_get(fd);
	int result = REAL(bind)(fd, address, length);

	if (!twin)
		return result;
	if (!result && twin->mode != TWIN_KERNEL && bind_rsocket(twin, fd)) {
		lock_acquire(&twin->lock);
		twin_to_kernel(twin);
		lock_release(&twin->lock);
	}
	twin_put(twin);
	return result;
}

int listen(int fd, int backlog)
{
	struct twin *twin = twin_get(fd);
	int result = REAL(listen)(fd, backlog);

	if (!twin)
		return result;
	lock_acquire(&twin->lock);
	if (!result && twin->mode == TWIN_BOTH) {
		/* accept() waits in rpoll(), for both. */
		if (RDMA_CALL(rfcntl(twin->rs, F_SETFL,
				     (long)(O_NONBLOCK | (REAL(fcntl)(fd, F_GETFL) & O_ASYNC)))) ||
		    RDMA_CALL(rlisten(twin->rs, backlog)))
			twin_to_kernel(twin);
		else
			twin->listening = true;
	}
	lock_release(&twin->lock);
	twin_put(twin);
	return result;
}

/* ---- accept ---- */

/* What was accepted as the twin of a kernel socket. */
static int accept_rsocket(struct twin *twin, struct sockaddr *address, socklen_t *length, int flags)
{
	struct sockaddr_storage peer;
	socklen_t bytes = sizeof(peer);
	int rs = RDMA_CALL(raccept(twin->rs, (struct sockaddr *)&peer, &bytes)), fd;

	if (rs < 0)
		return -1;
	RDMA_CALL(rfcntl(rs, F_SETFD, (long)FD_CLOEXEC));
	if (address && length) {
		memcpy(address, &peer, *length < bytes ? *length : bytes);
		*length = bytes;
	}
	fd = REAL(socket)(peer.ss_family, SOCK_STREAM | flags, 0);
	if (fd < 0) {
		RDMA_CALL(rclose(rs));
		return -1;
	}
	twin_remove(fd);
	twin = preload_socket_pair(fd, rs);
	if (!twin) {
		REAL(close)(fd);
		errno = ENOMEM;
		return -1;
	}
	twin->mode = TWIN_RDMA;
	if (flags & SOCK_NONBLOCK)
		RDMA_CALL(rfcntl(rs, F_SETFL, (long)O_NONBLOCK));
	return fd;
}

static int accept_either(struct twin *twin, int fd, struct sockaddr *address, socklen_t *length,
			 int flags)
{
	int wait = REAL(fcntl)(fd, F_GETFL) & O_NONBLOCK ? 0 : -1, ready, accepted;

	for (;;) {
		struct pollfd fds[2] = { { .fd = twin->rs, .events = POLLIN },
					 { .fd = fd, .events = POLLIN } };

		ready = RDMA_CALL(rpoll(fds, 2, wait));
		if (ready < 0)
			return -1;
		if (fds[0].revents) {
			accepted = accept_rsocket(twin, address, length, flags);
			if (accepted >= 0 || (errno != EAGAIN && errno != ECONNABORTED))
				return accepted;
		}
		if (fds[1].revents)
			return REAL(accept4)(fd, address, length, flags);
		if (!wait) {
			errno = EAGAIN;
			return -1;
		}
	}
}

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict length, int flags)
{
	struct twin *twin TWIN_HELD = twin_get(fd);

	if (twin && twin->mode == TWIN_BOTH && twin->listening)
		return accept_either(twin, fd, address, length, flags);
	return REAL(accept4)(fd, address, length, flags);
}

int accept(int fd, struct sockaddr *restrict address, socklen_t *restrict length)
{
	return accept4(fd, address, length, 0);
}

/* ---- connect ---- */

/* TCP instead. The rsocket goes first: it may hold the port. */
static int fall_back(struct twin *twin, int fd, const struct sockaddr *address, socklen_t length)
{
	twin_to_kernel(twin);
	return REAL(connect)(fd, address, length);
}

void twin_settle(struct twin *twin, int fd)
{
	struct pollfd polled = { .fd = twin->rs, .events = POLLOUT };
	int saved = errno, cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	lock_acquire(&twin->lock);
	if (twin->mode == TWIN_CONNECTING && RDMA_CALL(rpoll(&polled, 1, 0)) > 0) {
		if (polled.revents & (POLLERR | POLLHUP | POLLNVAL))
			fall_back(twin, fd, (struct sockaddr *)&twin->peer, twin->peer_bytes);
		else
			twin->mode = TWIN_RDMA;
	}
	lock_release(&twin->lock);
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved;
}

static int connect_twin(struct twin *twin, int fd, const struct sockaddr *address, socklen_t length)
	REQUIRES(twin->lock)
{
	int result;

	if (length > sizeof(twin->peer) || length < sizeof(address->sa_family)) {
		errno = EINVAL;
		return -1;
	}
	result = RDMA_CALL(rconnect(twin->rs, address, length));
	if (!result) {
		twin->mode = TWIN_RDMA;
		return 0;
	}
	if (twin->datagram || errno == EINTR)
		return result;
	if (errno != EINPROGRESS)
		return fall_back(twin, fd, address, length);
	memcpy(&twin->peer, address, length);
	twin->peer_bytes = length;
	twin->mode = TWIN_CONNECTING;
	errno = EINPROGRESS;
	return -1;
}

/* The thread ends in its connect. */
static void connect_is_cancelled(void *cancelled)
{
	struct twin *twin = cancelled;

	lock_alias(&twin->lock);
	lock_release(&twin->lock);
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	struct twin *twin TWIN_HELD = twin_get(fd);
	int result;

	if (!twin)
		return REAL(connect)(fd, address, length);
	if (twin->mode == TWIN_CONNECTING) {
		/* A second connect() asks how the first one goes. */
		twin_settle(twin, fd);
		if (twin->mode == TWIN_KERNEL)
			return REAL(connect)(fd, address, length);
		errno = EALREADY;
		return twin->mode == TWIN_RDMA ? 0 : -1;
	}
	lock_acquire(&twin->lock);
	pthread_cleanup_push(connect_is_cancelled, twin);
	if (twin->mode == TWIN_KERNEL || twin->listening) {
		result = REAL(connect)(fd, address, length);
	} else if (twin->mode == TWIN_RDMA && !twin->datagram) {
		errno = EISCONN;
		result = -1;
	} else {
		result = connect_twin(twin, fd, address, length);
	}
	pthread_cleanup_pop(0);
	lock_release(&twin->lock);
	return result;
}

/* ---- the end, and copies ---- */

int shutdown(int fd, int how)
{
	struct twin *twin = twin_get(fd);
	int result;

	if (twin && twin->mode == TWIN_RDMA)
		result = RDMA_CALL(rshutdown(twin->rs, how));
	else
		result = REAL(shutdown)(fd, how);
	if (twin)
		twin_put(twin);
	return result;
}

/* The rsocket first: what is under way is delivered before the descriptor can be another's. */
int close(int fd)
{
	if (!inside) {
		epoll_forget(fd);
		twin_remove(fd);
	}
	return REAL(close)(fd);
}

int close_range(unsigned int first, unsigned int last, int flags)
{
	int highest = flags & CLOSE_RANGE_CLOEXEC ? -1 : twin_highest();

	for (unsigned fd = first; (int)fd <= highest && fd <= last; fd++) {
		epoll_forget((int)fd);
		twin_remove((int)fd);
	}
	return REAL(close_range)(first, last, flags);
}

void closefrom(int lowest)
{
	close_range(lowest < 0 ? 0 : (unsigned)lowest, ~0u, 0);
}

/* @copy is a new descriptor of the same socket. */
static int preload_socket_share(struct twin *twin, int copy)
{
	if (copy >= 0 && twin && !twin_add(copy, twin))
		return copy;			/* the reference is the descriptor's */
	if (twin)
		twin_put(twin);
	return copy;
}

int dup(int fd)
{
	struct twin *twin = twin_get(fd);

	return preload_socket_share(twin, REAL(dup)(fd));
}

static int preload_socket_duplicate(int fd, int copy, int flags)
{
	struct twin *twin = twin_get(fd);
	int result;

	if (fd != copy && !inside) {
		epoll_forget(copy);
		twin_remove(copy);
	}
	result = flags < 0 ? REAL(dup2)(fd, copy) : REAL(dup3)(fd, copy, flags);
	if (fd != copy)
		return preload_socket_share(twin, result);
	if (twin)
		twin_put(twin);
	return result;
}

int dup2(int fd, int copy)
{
	return preload_socket_duplicate(fd, copy, -1);
}

int dup3(int fd, int copy, int flags)
{
	return preload_socket_duplicate(fd, copy, flags);
}

/* ---- names ---- */

static int inherited_name(const struct sockaddr_storage *name, socklen_t bytes,
			  struct sockaddr *address, socklen_t *length)
{
	if (!bytes) {
		errno = ENOTCONN;
		return -1;
	}
	memcpy(address, name, *length < bytes ? *length : bytes);
	*length = bytes;
	return 0;
}

int getpeername(int fd, struct sockaddr *restrict address, socklen_t *restrict length)
{
	struct twin *twin = twin_get(fd);
	int result;

	if (twin && twin->mode == TWIN_CONNECTING)
		twin_settle(twin, fd);
	if (twin && twin->mode == TWIN_RDMA)
		result = RDMA_CALL(rgetpeername(twin->rs, address, length));
	else if (twin && twin->inherited)
		result = inherited_name(&twin->peer, twin->peer_bytes, address, length);
	else
		result = REAL(getpeername)(fd, address, length);
	if (twin)
		twin_put(twin);
	return result;
}

int getsockname(int fd, struct sockaddr *restrict address, socklen_t *restrict length)
{
	struct twin *twin = twin_get(fd);
	int result;

	if (twin && (twin->mode == TWIN_RDMA || twin->mode == TWIN_CONNECTING) && !twin->datagram)
		result = RDMA_CALL(rgetsockname(twin->rs, address, length));
	else if (twin && twin->inherited)
		result = inherited_name(&twin->here, twin->here_bytes, address, length);
	else
		result = REAL(getsockname)(fd, address, length);
	if (twin)
		twin_put(twin);
	return result;
}
