/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Walking the application's buffers: a position in an array of struct iovec, and copies from and to
 * it. Checks sizes as the kernel does: no more than SSIZE_MAX bytes, no more than IOV_MAX pieces.
 */
#ifndef VERBATIM_RSOCKETS_IOV_H
#define VERBATIM_RSOCKETS_IOV_H

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "rsockets/flow.h"

struct rs_cursor {
	const struct iovec *iov;
	size_t count;			/* pieces left, the current one included */
	size_t offset;			/* into the current piece */
	size_t left;			/* bytes in all */
};

/* 0, EINVAL or EMSGSIZE. */
static inline int rs_cursor_init(struct rs_cursor *cursor, const struct iovec *iov, size_t count)
{
	*cursor = (struct rs_cursor){ .iov = iov, .count = count };
	if (count > IOV_MAX)
		return EMSGSIZE;
	for (size_t i = 0; i < count; i++) {
		if (iov[i].iov_len > SSIZE_MAX - cursor->left)
			return EINVAL;
		cursor->left += iov[i].iov_len;
	}
	return 0;
}

/* The bytes that lie together at the current position: none only if none are left. */
static inline size_t rs_cursor_piece(struct rs_cursor *cursor, char **at)
{
	while (cursor->count && cursor->offset == cursor->iov->iov_len) {
		cursor->iov++;
		cursor->count--;
		cursor->offset = 0;
	}
	*at = NULL;
	if (!cursor->count)
		return 0;
	*at = (char *)cursor->iov->iov_base + cursor->offset;
	return cursor->iov->iov_len - cursor->offset;
}

static inline void rs_cursor_skip(struct rs_cursor *cursor, size_t bytes)
{
	char *at;

	cursor->left -= bytes;
	while (bytes) {
		size_t n = rs_least(bytes, rs_cursor_piece(cursor, &at));

		cursor->offset += n;
		bytes -= n;
	}
}

/* @bytes <= cursor->left. */
static inline void rs_cursor_gather(struct rs_cursor *cursor, char *to, size_t bytes)
{
	char *at;

	while (bytes) {
		size_t n = rs_least(bytes, rs_cursor_piece(cursor, &at));

		memcpy(to, at, n);
		rs_cursor_skip(cursor, n);
		to += n;
		bytes -= n;
	}
}

static inline void rs_cursor_scatter(struct rs_cursor *cursor, const char *from, size_t bytes)
{
	char *at;

	while (bytes) {
		size_t n = rs_least(bytes, rs_cursor_piece(cursor, &at));

		memcpy(at, from, n);
		rs_cursor_skip(cursor, n);
		from += n;
		bytes -= n;
	}
}

#endif
