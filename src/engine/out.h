/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one way out of the engine, for packets of QPs and management datagrams: which link, the
 * addresses of the datagram, the ICRC, the trace, the send with a bounded wait.
 */
#ifndef VERBATIM_ENGINE_OUT_H
#define VERBATIM_ENGINE_OUT_H

#include "engine/engine.h"
#include "engine/internal.h"
#include "wire/icrc.h"
#include "wire/mad.h"

/* Where packets to @dest_qpn by @route go. */
void out_address(struct datagram *datagram, const struct route *route, uint32_t dest_qpn);
/* *channel: that of the link, if it is the channels' one. */
struct link *out_choose_link(struct engine *engine, const struct tx_packet *packet, uint32_t *channel);
/* The ICRC of a packet of @bytes at @data, the @segment-th of a datagram that its link has prepared. */
static inline void out_seal(const struct datagram *datagram, uint8_t *data, size_t bytes, unsigned segment)
{
	struct icrc_header header = icrc_header_of(datagram, segment);

	icrc_seal(&header, data, bytes);
}
/* Send all, with a bounded wait for room; then the rest is lost, as on any wire. */
void out_send(struct engine *engine, struct link *link, struct datagram *datagram, unsigned count);

/* A management datagram of QP1. */
struct out_mad {
	const uint8_t *bytes;		/* MAD_BYTES */
	uint32_t psn;
	uint16_t pkey;
};

/*
 * Answers of connection management to a process of this host, and requests with a to_slot, go through
 * the channel to it, if there is one with room. @datagram has addresses and non-default fields. 0, also
 * when it is lost on purpose; ENETUNREACH: there is no such link; else as struct link_ops: send, without
 * a wait, or as struct engine_ops: hand_over.
 */
int out_send_mad(struct engine *engine, struct datagram *datagram, const struct out_mad *mad);

#endif
