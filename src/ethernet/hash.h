/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive side scaling: the Toeplitz hash of a frame, which chooses among the work queues of a table. */
#ifndef VERBATIM_ETHERNET_HASH_H
#define VERBATIM_ETHERNET_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "ethernet/frame.h"

#define HASH_KEY_BYTES	40u

/* enum ibv_rx_hash_fields: all that there are. */
#define HASH_FIELDS \
	(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 | \
	 IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP | \
	 IBV_RX_HASH_DST_PORT_UDP | IBV_RX_HASH_IPSEC_SPI | (uint64_t)IBV_RX_HASH_INNER)

/* Of @bytes, at most HASH_KEY_BYTES - 4. */
uint32_t hash_toeplitz(const uint8_t key[HASH_KEY_BYTES], const uint8_t *data, size_t bytes);
/*
 * Of the fields in the mask (enum ibv_rx_hash_fields) that the frame has, in the order of the
 * Windows specification: source and destination address, source and destination port, then the SPI.
 * 0: it has none.
 */
uint32_t hash_frame(const uint8_t key[HASH_KEY_BYTES], uint64_t fields, const struct frame *frame);

#endif
