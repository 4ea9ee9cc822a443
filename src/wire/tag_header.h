/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header of a message for a tag-matching SRQ (struct ibv_tmh), and what follows it in a request for
 * rendezvous (struct ibv_rvh). They begin the data of a SEND: no header of the transport.
 */
#ifndef VERBATIM_WIRE_TAG_HEADER_H
#define VERBATIM_WIRE_TAG_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define TAG_HEADER_BYTES	16u
#define TAG_RENDEZVOUS_BYTES	32u	/* with the place of the data */
#define TAG_RENDEZVOUS_MAX	64u	/* with what the sender adds for software (max_rndv_hdr_size) */

/* enum ibv_tmh_op */
enum tag_operation { TAG_NO_TAG, TAG_RENDEZVOUS, TAG_FIN, TAG_EAGER };

struct tag_header {
	enum tag_operation operation;
	uint32_t context;		/* the sender's, for the application */
	uint64_t tag;
	/* TAG_RENDEZVOUS: the data, in the sender's memory */
	uint64_t address;
	uint32_t rkey, length;
};

/*
 * Of the first @bytes of a message. One that is too short for what it says, or says what nobody knows, has no
 * tag: it is for software as it is.
 */
static inline struct tag_header tag_header_parse(const uint8_t *data, size_t bytes)
{
	struct tag_header header = { .operation = TAG_NO_TAG };

	if (bytes < TAG_HEADER_BYTES || data[0] > TAG_EAGER)
		return header;
	header.operation = (enum tag_operation)data[0];
	header.context = get_be32(data + 4);
	header.tag = get_be64(data + 8);
	if (header.operation != TAG_RENDEZVOUS)
		return header;
	if (bytes < TAG_RENDEZVOUS_BYTES || bytes > TAG_RENDEZVOUS_MAX) {
		header.operation = TAG_NO_TAG;
		return header;
	}
	header.address = get_be64(data + 16);
	header.rkey = get_be32(data + 24);
	header.length = get_be32(data + 28);
	return header;
}

#endif
