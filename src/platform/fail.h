/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tell a call to the kernel to fail, so that tests can walk every error path:
 *
 *	fail_set(FAIL_MEMFD, 2, EMFILE);	the second memfd from now on fails with EMFILE
 *
 * Each wrapped call asks fail_now() first: one relaxed load when nothing is set. Calls that are
 * made on the data path (sendmsg, recvmmsg, epoll) are among them, so the load is inline.
 */
#ifndef VERBATIM_PLATFORM_FAIL_H
#define VERBATIM_PLATFORM_FAIL_H

#include <stdatomic.h>
#include <stdbool.h>

enum fail_point {
	FAIL_MEMFD, FAIL_DUP, FAIL_SEAL, FAIL_FTRUNCATE, FAIL_MMAP, FAIL_MREMAP, FAIL_PWRITE,
	FAIL_MADVISE, FAIL_SIGACTION, FAIL_RANDOM,
	FAIL_EPOLL, FAIL_EPOLL_ADD, FAIL_EPOLL_WAIT, FAIL_EVENTFD, FAIL_NOWAIT, FAIL_THREAD, FAIL_SLICE,
	FAIL_NETLINK, FAIL_NETLINK_SEND, FAIL_NETLINK_RECEIVE, FAIL_ALLOCATE,
	FAIL_SOCKET, FAIL_BIND, FAIL_SETSOCKOPT, FAIL_SENDMSG, FAIL_RECVMSG, FAIL_GSO,
	FAIL_CONNECT, FAIL_LISTEN, FAIL_PROC, FAIL_PROCESS_VM,
	FAIL_POINT_COUNT
};

struct fail {
	_Atomic unsigned countdown;	/* 0: never; 1: the next call; publishes nothing */
	int error;
};

extern struct fail fail_table[FAIL_POINT_COUNT];

/* The @nth call from now (1: the next) fails with errno @error; 0: none does. */
void fail_set(enum fail_point point, unsigned nth, int error);
void fail_clear(void);			/* all points */

bool fail_count_down(enum fail_point point);

/* True: the caller behaves as if the system call had failed; errno is set. */
static inline bool fail_now(enum fail_point point)
{
	if (__builtin_expect(!atomic_load_explicit(&fail_table[point].countdown,
						   memory_order_relaxed), 1))
		return false;
	return fail_count_down(point);
}

#endif
