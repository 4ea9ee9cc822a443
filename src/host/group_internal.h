/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of the port group, shared by port_group.c (the interface, messages that come in) and
 * group_derive.c (deriving the map). All of it is under group->lock.
 */
#ifndef VERBATIM_HOST_GROUP_INTERNAL_H
#define VERBATIM_HOST_GROUP_INTERNAL_H

#include <stdatomic.h>

#include "base/timer_heap.h"
#include "base/lock.h"
#include "host/group_program.h"
#include "host/group_watch.h"
#include "host/port_group.h"

#define GROUP_MS		1000000ull
#define GROUP_BACKOFF_MIN_NS	(5 * GROUP_MS)

enum state { IDLE, ASKING, PROBING };

struct probe {
	uint64_t deadline_ns;		/* TIME_NEVER: not under way */
	uint8_t tries;
	bool answered;
};

struct family {
	int fd;				/* the bound socket; -1: none of this family */
	int probe_fd;
	uint8_t number;			/* 4 or 6 */
	enum state state;
	bool program_known;
	bool again;			/* something changed during the derivation */
	bool urgent;			/* we joined, or have a new slot: not to be postponed */
	unsigned size, answered;	/* members; how many of them answered */
	unsigned restarts;		/* of this derivation */
	uint64_t nonce;
	uint64_t start_ns;		/* next derivation, TIME_NEVER: none due */
	uint64_t allowed_ns;		/* no derivation for stale maps before this */
	uint64_t backoff_ns;
	uint64_t late_ns;		/* when to build the map again for late answers */
	struct probe probe[SLOT_COUNT];
	bool spoke[SLOT_COUNT];		/* by slot: its owner answered */
	struct group_map found, attached;
};

struct port_group {
	struct lock lock;
	struct counters *counters;
	uint16_t slots[SLOT_COUNT] GUARDED_BY_MEMBER(lock);	/* ours */
	unsigned slot_count GUARDED_BY_MEMBER(lock);
	uint64_t services[GROUP_SERVICES] GUARDED_BY_MEMBER(lock);	/* ours */
	unsigned service_count GUARDED_BY_MEMBER(lock);
	struct family family[2] GUARDED_BY_MEMBER(lock);
	struct group_watch watch;	/* its descriptors are fixed; the rest is used under lock */
	struct group_members members GUARDED_BY_MEMBER(lock);	/* scratch of finish() */
	struct group_message received GUARDED_BY_MEMBER(lock);	/* scratch of port_group_takes() */
	struct sock_filter program[BPF_MAXINSNS] GUARDED_BY_MEMBER(lock);
	_Atomic uint64_t deadline_ns;
};

/* group_derive.c */

/* Derive at @when_ns or before; during a derivation: once more after it. */
void group_schedule(struct family *family, uint64_t when_ns);
/* Do what is due at @now_ns. */
void group_turn(struct port_group *group, struct family *family, uint64_t now_ns)
	REQUIRES(group->lock);
/* After any change: updates port_group_deadline(). */
void group_update_deadline(struct port_group *group);
/* An answer for the derivation under way, or for the last one, late. */
void group_record(struct family *family, const struct group_message *answer, uint64_t now_ns);

#endif
