/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header of management datagrams (IBTA 13.4.2). Reserved fields are written as zeros and not
 * looked at.
 */
#include "wire/mad.h"

#include "base/bytes.h"

bool mad_parse(const uint8_t *data, size_t bytes, struct mad_header *header)
{
	if (bytes < MAD_BYTES || data[0] != MAD_BASE_VERSION)
		return false;
	*header = (struct mad_header){
		.base_version = data[0],
		.class = data[1],
		.class_version = data[2],
		.method = data[3],
		.status = get_be16(data + 4),
		.transaction_id = get_be64(data + 8),
		.attribute_id = get_be16(data + 16),
		.attribute_modifier = get_be32(data + 20),
	};
	return true;
}

void mad_write(const struct mad_header *header, uint8_t out[MAD_BYTES])
{
	out[0] = header->base_version;
	out[1] = header->class;
	out[2] = header->class_version;
	out[3] = header->method;
	put_be16(out + 4, header->status);
	put_be16(out + 6, 0);
	put_be64(out + 8, header->transaction_id);
	put_be16(out + 16, header->attribute_id);
	put_be16(out + 18, 0);
	put_be32(out + 20, header->attribute_modifier);
}
