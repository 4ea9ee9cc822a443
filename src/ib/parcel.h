/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between a program and a fabric that are longer than a datagram of the socket should be:
 * a datagram with the header and the first MAD, whose `length` says how much there is, and with it
 * a sealed memory file of the whole. The other end reads that with pread(), so nobody can pull it
 * away, or hold it up with a file of another kind.
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
/* Of a file that came: 0; EBADF: it is no sealed memory file of so many bytes. */
int parcel_read(int file, void *data, size_t bytes);

#endif
