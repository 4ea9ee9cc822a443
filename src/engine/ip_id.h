/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiver solves the ICRC for the IPv4 identification (wire/icrc.h), which costs 16 bits of
 * protection. Verbatim sends 0, and k in segment k of a run: a connected peer that has sent only
 * such identifications for long is required to continue, which restores the 16 bits.
 *
 * Other implementations count their packets, so now and then they send the same as Verbatim: 0 once
 * in 65536 packets, and 0..63 when the kernel merged those. They must never be held to the
 * prediction, or all their later packets would be dropped: hence a streak longer than any counter
 * produces.
 */
#ifndef VERBATIM_ENGINE_IP_ID_H
#define VERBATIM_ENGINE_IP_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"

#define IP_ID_STREAK	1024u	/* packets in a row with the predicted id; then no other is accepted */

enum ip_id_kind {
	IP_ID_PREDICTED,
	IP_ID_SMALL,		/* perhaps a run of Verbatim's, batched differently on its way */
	IP_ID_OTHER,
};

/* Of an identification that is not the predicted one. */
static inline enum ip_id_kind ip_id_kind_of(uint16_t id, bool dont_fragment)
{
	return dont_fragment && id < LINK_SEGMENTS_MAX ? IP_ID_SMALL : IP_ID_OTHER;
}

/* May the packet be accepted? Updates *streak, which belongs to its QP and is 0 at first. */
static inline bool ip_id_check(uint32_t *streak, enum ip_id_kind kind)
{
	if (kind == IP_ID_OTHER) {
		if (*streak >= IP_ID_STREAK)
			return false;
		*streak = 0;
	} else if (kind == IP_ID_PREDICTED && *streak < IP_ID_STREAK) {
		++*streak;
	}
	return true;
}

#endif
