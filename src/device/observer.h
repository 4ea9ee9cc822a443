/* SPDX-License-Identifier: BSD-2-Clause */
/* What watches the HCA of this process from above: called when it starts and stops, and by its worker. */
#ifndef VERBATIM_DEVICE_OBSERVER_H
#define VERBATIM_DEVICE_OBSERVER_H

#include <stdint.h>

struct hca;
struct waiter;

struct hca_observer {
	/*
	 * Before the worker runs; @tag: of its descriptors in the waiter. The result is passed to
	 * the others; NULL: none of them is called.
	 */
	void *(*started)(struct hca *hca, struct waiter *waiter, uint32_t tag);
	/* The worker has ended. */
	void (*stopped)(void *observer);
	/* In a fork()ed child: close descriptors, touch nothing else. */
	void (*abandoned)(void *observer);
	/* By the worker, without locks: a descriptor is ready, or the deadline is over. */
	void (*turn)(void *observer, uint64_t now_ns);
	/* Any thread. UINT64_MAX: none. */
	uint64_t (*deadline_ns)(const void *observer);
	/*
	 * By an application thread, which may wait for a moment: adds the counters (by enum counter) of the
	 * other processes of this host that have @device open, as far as the kernel lets us look at them.
	 */
	void (*add_others)(const char *device, uint64_t *values);
};

/* Before the first device is opened, from a constructor: there is one observer. */
void hca_observe(const struct hca_observer *observer);

#endif
