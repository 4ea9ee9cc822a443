/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IPv4 identification is solved for from the ICRC (wire/icrc.h), which leaves 16 bits less of
 * protection. A Verbatim sends 0, and k in segment k of a run: a connected peer that did nothing
 * else for long is held to it, and gets the 16 bits back.
 *
 * Others count their packets, so now and then they send exactly what a Verbatim would: 0 once
 * in 65536 packets, and 0..63 when the kernel merged those. Such a peer must never be held to it,
 * or nothing of its comes through any more: hence a streak that no counter can make.
 */
#ifndef VERBATIM_ENGINE_IP_ID_H
#define VERBATIM_ENGINE_IP_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"

#define IP_ID_STREAK	1024u	/* packets in a row with the predicted id, then no other is taken */

enum ip_id_kind {
	IP_ID_PREDICTED,
	IP_ID_SMALL,		/* a Verbatim's run that was batched otherwise on its way */
	IP_ID_OTHER,
};

static inline enum ip_id_kind ip_id_kind_of(bool predicted, uint16_t id, bool dont_fragment)
{
	if (predicted)
		return IP_ID_PREDICTED;
	return dont_fragment && id < LINK_SEGMENTS_MAX ? IP_ID_SMALL : IP_ID_OTHER;
}

/* May the packet be taken? *streak belongs to its QP, and is 0 at first. */
static inline bool ip_id_is_usual(uint32_t *streak, enum ip_id_kind kind)
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
