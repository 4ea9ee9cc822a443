/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between a program and a fabric that are longer than a datagram of the socket should be:
 * a datagram with the header and the first MAD, whose `length` says how much there is, and with it
 * a sealed memory file of the whole. The datagram counts where both have something, so that the
 * fabric may pass on the file of the sender with another header. Nobody can change a sealed file,
 * pull it away, or hold a reader up with a file of another kind.
 */
#ifndef VERBATIM_IB_PARCEL_H
#define VERBATIM_IB_PARCEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define PARCEL_INLINE_MAX	65536u		/* bytes of a message that go as they are */
#define PARCEL_HEAD		(64u + 256u)	/* bytes in the datagram of a longer one */

/* 0 or errno; without waiting. */
int parcel_send(int fd, const struct iovec *iov, int count);
/* Receives a datagram; *file: what came with it, or -1. Bytes, or -1 and errno. */
ssize_t parcel_receive(int fd, void *data, size_t bytes, int *file);
/* Sends @head and the file of another message of as many bytes. 0 or errno; without waiting. */
int parcel_pass(int fd, const void *head, int file);
/*
 * Of a file that came: what is behind the head, for @data, a message of @bytes that has its head.
 * 0; EBADF: it is no sealed memory file of so many bytes.
 */
int parcel_read(int file, void *data, size_t bytes);
/*
 * The same in place, for reading; munmap() ends it. EBADF, as above; EOPNOTSUPP: to touch it might take
 * memory that there is not, as in a file of huge pages, with holes, or of another user, whose holes are not
 * to be seen: it has to be read.
 */
int parcel_map(int file, size_t bytes, void **memory);

#endif
