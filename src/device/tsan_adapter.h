/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ThreadSanitizer of a program is told of the adapter: its accesses to memory of the
 * application, and what they come after and before. Those who return nothing do nothing where there
 * is no sanitizer, but for those that post and poll, which are for its twins alone (tsan.c).
 */
#ifndef VERBATIM_DEVICE_TSAN_ADAPTER_H
#define VERBATIM_DEVICE_TSAN_ADAPTER_H

#include "base/lock.h"
#include "base/tsan.h"

/* In the child of a fork(), where another thread may have held our locks. */
void tsan_watch_fork(void);

/* What the adapter accesses for a request. */
struct tsan_access {
	uintptr_t start;
	size_t bytes;
	uint32_t lkey;
	bool writes;
};

/* Where the application posted: the frames of its stack, the innermost first. */
#define TSAN_FRAMES 8
struct tsan_site {
	int frames;
	void *frame[TSAN_FRAMES];
};

/* In a call that tsan_enter_from() began. */
void tsan_find_site(struct tsan_site *site);

/* Held while one posts to @queue, and tells what was posted: tsan_polled() waits for it. */
struct lock *tsan_post_lock(const void *queue);
/* Request @number of the queue was posted. Its accesses may be told in parts. */
void tsan_record(const void *queue, uint32_t number, const struct tsan_site *site,
		 const struct tsan_access *access, unsigned count);
/* The completion of request @number, which names all that were posted to the queue before it, was polled. */
void tsan_polled(const void *queue, uint32_t number);
/* Numbers of the requests in @queue have changed. */
void tsan_renumber(const void *queue);
/* The queue was emptied or destroyed: no request of it accesses memory any more. */
void tsan_emptied(const void *queue);
/* The region was deregistered: nothing is accessed by this key any more. */
void tsan_deregistered(uint32_t lkey);
/* Messages to the QP: what their sender did before is before what their receiver does. */
void tsan_sending_to(uint32_t qpn);
void tsan_received_by(uint32_t qpn);

#endif
