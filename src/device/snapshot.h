/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of the objects of this process, copied for statistics: a batch at a time, with hca.objects or
 * mr_table.lock held and the lock of one object after the other. Nothing on the data path waits for those two.
 *
 * Objects have places, in whose order they come. Each function copies up to SNAPSHOT_BATCH of those with places
 * from *from on, returns how many, and moves *from on: behind the last one, or to SNAPSHOT_END. It may return 0
 * before that: it does not look at many places that are empty in one call.
 */
#ifndef VERBATIM_DEVICE_SNAPSHOT_H
#define VERBATIM_DEVICE_SNAPSHOT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "object/arena.h"

struct hca;

#define SNAPSHOT_BATCH	64u
#define SNAPSHOT_END	((UINT64_C(1) << 40) - 1)
#define SNAPSHOT_NAME	64u	/* bytes of a device's name */

struct snapshot_process {
	uint64_t counter[COUNTER_COUNT];
	uint32_t contexts, qps, cqs, srqs, mrs;
	uint64_t mr_bytes;
	uint32_t slot, channels;	/* processes of this host that it shares memory with */
	const char *memory;		/* VERBATIM_MEMORY, "auto" */
};
void hca_snapshot_process(struct hca *hca, struct snapshot_process *process);

struct snapshot_device {
	uint64_t place;			/* the index of its interface */
	uint32_t contexts, mtu, gids;
	char name[SNAPSHOT_NAME], interface[16];
	bool active;
};
unsigned hca_snapshot_devices(struct hca *hca, uint64_t *from, struct snapshot_device *devices);

struct snapshot_queue {
	uint32_t size, posted;		/* entries, and of those in use */
	uint32_t done;			/* so far, modulo 2^32 */
};

/* Where requests go. Connected QPs, from RTR on; others: NULL. */
struct snapshot_path {
	const char *way, *why;		/* "mapped" "copied" "ring" "udp" "fabric" "itself", and why */
	uint8_t address[16];
	uint32_t qpn;
	uint32_t window_bytes, in_flight_bytes;	/* shared by all QPs to that process */
	uint64_t rtt_ns;		/* 0: not measured */
};

/* Large: a row of a table, which has a column for each. */
struct snapshot_qp {
	uint64_t place;
	uint32_t number, pd, send_cq, recv_cq, srq;	/* 0: none */
	char device[SNAPSHOT_NAME];
	enum ibv_qp_type type;
	enum ibv_qp_state state;
	struct snapshot_path path;
	struct snapshot_queue sends, receives;
	uint32_t mtu, in_flight_bytes, reads_in_flight, messages_in_flight;
	uint32_t next_psn, expected_psn;
	bool waits_for_receiver;	/* an RNR NAK came: it pauses */
	bool waits_for_window;
	uint32_t tally[QP_COUNTERS];
	enum ibv_wc_status last_error;	/* IBV_WC_SUCCESS: none */
};
unsigned hca_snapshot_qps(struct hca *hca, uint64_t *from, struct snapshot_qp *qps);

struct snapshot_cq {
	uint64_t place;
	uint32_t number, users;		/* QPs and SRQs */
	char device[SNAPSHOT_NAME];
	struct snapshot_queue queue;
	const char *armed;		/* "no" "solicited" "any" */
	bool overflowed;
};
unsigned hca_snapshot_cqs(struct hca *hca, uint64_t *from, struct snapshot_cq *cqs);

struct snapshot_srq {
	uint64_t place;
	uint32_t number, users, pd, limit;
	char device[SNAPSHOT_NAME];
	struct snapshot_queue queue;
};
unsigned hca_snapshot_srqs(struct hca *hca, uint64_t *from, struct snapshot_srq *srqs);

struct snapshot_mr {
	uint64_t place;
	uint32_t key, pd, access;
	char device[SNAPSHOT_NAME];
	uint64_t address, bytes, age_ns;	/* the first address as SGEs and peers name it */
	const char *kind;		/* "memory" "block" "device" "null" */
};
unsigned hca_snapshot_mrs(struct hca *hca, uint64_t *from, struct snapshot_mr *mrs);

#endif
