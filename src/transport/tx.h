/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A batch of packets to send: written back to back into one buffer, with a copy of the payload, so
 * that the application's memory is not needed after transport_transmit() returns, and runs of
 * packets to one peer can leave in one call. ICRC_BYTES of room follow each packet; the sender
 * fills them (the ICRC depends on how the packets are batched).
 */
#ifndef VERBATIM_TRANSPORT_TX_H
#define VERBATIM_TRANSPORT_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/route.h"
#include "wire/packet.h"

#define TX_PACKETS_MAX	256u
/* Two messages of 64 KiB at an MTU of 4096 with their headers, and no packet of a third. */
#define TX_BYTES_MAX	(132u * 1024u)

struct tx_packet {
	uint32_t offset;		/* in data */
	uint32_t bytes;			/* BTH to the last pad byte; ICRC_BYTES of room follow */
	uint32_t source_qpn, dest_qpn;
	struct route route;
};

/* For a trace: of which request, and in which state of its QP. Written while packets are traced. */
struct tx_note {
	uint64_t wr_id;
	uint8_t state;			/* enum ibv_qp_state + 1; 0: none was written */
	bool has_wr_id;
};

/*
 * The datagram that left last from this buffer, addressed and prepared: engine/tx.c asks no more what it is
 * while the next one takes the same route. What precedes a BTH in the ICRC is the same, too, for packets of one
 * length: by the number of the packet in its datagram, which the IPv4 identification is.
 */
#define TX_BEGUN_MAX	64u

struct tx_kept {
	const void *way;		/* the link; NULL: none has left */
	uint32_t epoch;			/* of the link, when it was prepared */
	unsigned segments_max;
	struct route route;
	struct datagram datagram;
	unsigned begun;
	struct {
		uint32_t bytes, icrc;
	} packet[TX_BEGUN_MAX];
};

struct tx_batch {
	uint8_t *data;			/* [TX_BYTES_MAX] */
	size_t used;
	unsigned count;
	unsigned first_noted, noted;	/* packets with a note: a trace may begin in the middle */
	struct tx_note note[TX_PACKETS_MAX];
	struct tx_packet packet[TX_PACKETS_MAX];
	struct tx_kept kept;
};

static inline void tx_batch_reset(struct tx_batch *batch)
{
	batch->used = 0;
	batch->count = 0;
	batch->noted = 0;
}

/* Room for the note of the packet that is added next. */
static inline struct tx_note *tx_batch_add_note(struct tx_batch *batch)
{
	if (batch->first_noted + batch->noted != batch->count || !batch->noted) {
		batch->first_noted = batch->count;
		batch->noted = 0;
	}
	batch->noted++;
	return &batch->note[batch->count];
}

/* NULL: it has none. */
static inline const struct tx_note *tx_batch_note(const struct tx_batch *batch, unsigned i)
{
	return i - batch->first_noted < batch->noted ? &batch->note[i] : NULL;
}

/* Whether one more packet of any size fits. */
static inline bool tx_batch_has_room(const struct tx_batch *batch)
{
	return batch->count < TX_PACKETS_MAX &&
	       TX_BYTES_MAX - batch->used >= PACKET_BYTES_MAX;
}

#endif
