/* SPDX-License-Identifier: BSD-2-Clause */
/* What Verbatims tell each other of lost requests, as bytes (gaps.h). */
#include "wire/gaps.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/qpn.h"

#define KIND	7u
#define QPN	9u
#define HELD	16u

bool gaps_read(const uint8_t *data, size_t bytes, struct gaps *gaps)
{
	if (bytes != GAPS_BYTES || get_be32(data) != GAPS_MAGIC || data[KIND] == GAPS_NOTHING ||
	    data[KIND] >= GAPS_KINDS)
		return false;
	gaps->kind = (enum gaps_kind)data[KIND];
	gaps->qpn = get_be24(data + QPN);
	for (unsigned i = 0; i < GAPS_REACH / 64; i++)
		gaps->held[i] = get_be64(data + HELD + 8 * i);
	return true;
}

void gaps_write(const struct gaps *gaps, uint8_t *out)
{
	memset(out, 0, GAPS_BYTES);
	put_be32(out, GAPS_MAGIC);
	out[KIND] = (uint8_t)gaps->kind;
	put_be24(out + QPN, gaps->qpn & QPN_MASK);
	for (unsigned i = 0; i < GAPS_REACH / 64; i++)
		put_be64(out + HELD + 8 * i, gaps->held[i]);
}
