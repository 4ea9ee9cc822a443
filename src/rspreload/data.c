/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moving data, by the socket of the twin that carries it. A connect that is under way is completed
 * first: the call waits for it, or returns EAGAIN.
 *
 * Programs compiled with _FORTIFY_SOURCE call __read_chk and so on: they are here, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "rspreload/rspreload.h"

/* The twin of @fd if its rsocket carries the data, with a reference. @receives: it is to be received from. */
static struct twin *rdma_twin_for(int fd, bool receives)
{
	struct twin *twin = twin_get(fd);

	if (!twin)
		return NULL;
	if (twin->mode == TWIN_CONNECTING)
		twin_settle(twin, fd);
	if (twin->mode == TWIN_RDMA || twin->mode == TWIN_CONNECTING)
		return twin;
	if (receives)
		twin_receives(twin);
	twin_put(twin);
	return NULL;
}

static struct twin *rdma_twin(int fd)
{
	return rdma_twin_for(fd, false);
}

static struct twin *rdma_twin_in(int fd)
{
	return rdma_twin_for(fd, true);
}

static ssize_t preload_sent(struct twin *twin, ssize_t result, size_t wanted)
{
	/* EPOLLET: after a send that found no room, EPOLLOUT is reported again. */
	if (result < (ssize_t)wanted)
		__atomic_store_n(&twin->out_reported, false, __ATOMIC_RELAXED);
	return result;
}

static size_t preload_total(const struct iovec *iov, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/* ---- in ---- */

ssize_t read(int fd, void *to, size_t count)
{
	struct twin *twin TWIN_HELD = rdma_twin_in(fd);

	return twin ? RDMA_CALL(rread(twin->rs, to, count))
		    : REAL(read)(fd, to, count);
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
	struct twin *twin TWIN_HELD = rdma_twin_in(fd);

	return twin ? RDMA_CALL(rreadv(twin->rs, iov, count))
		    : REAL(readv)(fd, iov, count);
}

ssize_t recv(int fd, void *to, size_t length, int flags)
{
	struct twin *twin TWIN_HELD = rdma_twin_in(fd);

	return twin ? RDMA_CALL(rrecv(twin->rs, to, length, flags))
		    : REAL(recv)(fd, to, length, flags);
}

ssize_t recvfrom(int fd, void *restrict to, size_t length, int flags,
		 struct sockaddr *restrict address, socklen_t *restrict bytes)
{
	struct twin *twin TWIN_HELD = rdma_twin_in(fd);

	return twin ? RDMA_CALL(rrecvfrom(twin->rs, to, length, flags,
								 address, bytes))
		    : REAL(recvfrom)(fd, to, length, flags, address, bytes);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	struct twin *twin TWIN_HELD = rdma_twin_in(fd);

	return twin ? RDMA_CALL(rrecvmsg(twin->rs, message, flags))
		    : REAL(recvmsg)(fd, message, flags);
}

/* The time-out, if there is one, is looked at after each message, as the kernel does. */
int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
	     struct timespec *timeout)
{
	struct twin *twin TWIN_HELD = rdma_twin_in(fd);
	int64_t deadline_ns;
	unsigned done = 0;
	ssize_t result = 0;

	if (!twin)
		return REAL(recvmmsg)(fd, messages, count, flags, timeout);
	deadline_ns = timeout ? poll_deadline_ns((int)(timeout->tv_sec * 1000 +
						       timeout->tv_nsec / 1000000)) : INT64_MAX;
	while (done < count) {
		result = RDMA_CALL(rrecvmsg(twin->rs, &messages[done].msg_hdr,
					    (flags & ~MSG_WAITFORONE) |
					    (done && flags & MSG_WAITFORONE ? MSG_DONTWAIT : 0)));
		if (result < 0)
			break;
		messages[done++].msg_len = (unsigned)result;
		if (!poll_left_ms(deadline_ns))
			break;
	}
	return done || result >= 0 ? (int)done : -1;
}

/* ---- out ---- */

ssize_t write(int fd, const void *from, size_t count)
{
	struct twin *twin TWIN_HELD = rdma_twin(fd);

	return twin ? preload_sent(twin, RDMA_CALL(rwrite(twin->rs, from, count)), count)
		    : REAL(write)(fd, from, count);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	struct twin *twin TWIN_HELD = rdma_twin(fd);

	return twin ? preload_sent(twin, RDMA_CALL(rwritev(twin->rs, iov, count)),
				   count > 0 ? preload_total(iov, (size_t)count) : 0)
		    : REAL(writev)(fd, iov, count);
}

ssize_t send(int fd, const void *from, size_t length, int flags)
{
	struct twin *twin TWIN_HELD = rdma_twin(fd);

	return twin ? preload_sent(twin, RDMA_CALL(rsend(twin->rs, from, length, flags)), length)
		    : REAL(send)(fd, from, length, flags);
}

ssize_t sendto(int fd, const void *from, size_t length, int flags, const struct sockaddr *address,
	       socklen_t bytes)
{
	struct twin *twin TWIN_HELD = rdma_twin(fd);

	return twin ? preload_sent(
			      twin,
			      RDMA_CALL(rsendto(twin->rs, from, length, flags, address, bytes)),
			      length)
		    : REAL(sendto)(fd, from, length, flags, address, bytes);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct twin *twin TWIN_HELD = rdma_twin(fd);

	return twin ? preload_sent(twin, RDMA_CALL(rsendmsg(twin->rs, message, flags)),
				   preload_total(message->msg_iov, message->msg_iovlen))
		    : REAL(sendmsg)(fd, message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	struct twin *twin TWIN_HELD = rdma_twin(fd);
	unsigned done = 0;
	ssize_t result = 0;

	if (!twin)
		return REAL(sendmmsg)(fd, messages, count, flags);
	while (done < count) {
		result = RDMA_CALL(rsendmsg(twin->rs, &messages[done].msg_hdr, flags));
		if (result < 0)
			break;
		messages[done++].msg_len = (unsigned)result;
	}
	preload_sent(twin, result, result < 0);
	return done || result >= 0 ? (int)done : -1;
}

static void preload_free(char **buffer)
{
	int saved = errno;

	free(*buffer);
	errno = saved;
}

/* Through a buffer; what was read but not sent is read again next time. */
static ssize_t copy_file(struct twin *twin, int in, off64_t *offset, size_t count)
{
	off64_t position = offset ? *offset : lseek64(in, 0, SEEK_CUR);
	size_t done = 0, size = 65536;
	char *buffer __attribute__((cleanup(preload_free))) = malloc(size);
	ssize_t n = 0, out;

	if (position < 0 || !buffer)
		return -1;
	while (done < count) {
		n = pread64(in, buffer, count - done < size ? count - done : size, position);
		if (n <= 0)
			break;
		out = RDMA_CALL(rsend(twin->rs, buffer, (size_t)n, 0));
		if (out < 0) {
			n = out;
			break;
		}
		done += (size_t)out;
		position += out;
		if (out < n)
			break;
	}
	if (offset)
		*offset = position;
	else if (done)
		lseek64(in, position, SEEK_SET);
	return done || n >= 0 ? (ssize_t)done : -1;
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
	struct twin *twin TWIN_HELD = rdma_twin(out);

	return twin ? preload_sent(twin, copy_file(twin, in, offset, count), count)
		    : REAL(sendfile64)(out, in, offset, count);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	return sendfile64(out, in, (off64_t *)offset, count);
}

/* ---- as _FORTIFY_SOURCE calls them ---- */

ssize_t __read_chk(int fd, void *to, size_t count, size_t size);
ssize_t __recv_chk(int fd, void *to, size_t length, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *restrict to, size_t length, size_t size, int flags,
		       struct sockaddr *restrict address, socklen_t *restrict bytes);

/* The program is about to write over the end of its buffer. */
static void preload_check(size_t length, size_t size)
{
	if (length > size)
		abort();
}

ssize_t __read_chk(int fd, void *to, size_t count, size_t size)
{
	preload_check(count, size);
	return read(fd, to, count);
}

ssize_t __recv_chk(int fd, void *to, size_t length, size_t size, int flags)
{
	preload_check(length, size);
	return recv(fd, to, length, flags);
}

ssize_t __recvfrom_chk(int fd, void *restrict to, size_t length, size_t size, int flags,
		       struct sockaddr *restrict address, socklen_t *restrict bytes)
{
	preload_check(length, size);
	return recvfrom(fd, to, length, flags, address, bytes);
}
