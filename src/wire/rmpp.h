/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header of the reliable multi-packet protocol (IBTA 13.6), of MADs of classes that have it: the
 * places of its bytes.
 */
#ifndef VERBATIM_WIRE_RMPP_H
#define VERBATIM_WIRE_RMPP_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/mad.h"

enum rmpp_place {
	RMPP_VERSION = 24, RMPP_TYPE = 25, RMPP_FLAGS = 26, RMPP_STATUS = 27, RMPP_SEGMENT = 28,
	RMPP_LENGTH = 32, RMPP_HEADER_END = 36,
};
enum rmpp_type { RMPP_DATA = 1, RMPP_ACK = 2, RMPP_STOP = 3, RMPP_ABORT = 4 };
enum rmpp_flag { RMPP_ACTIVE = 1, RMPP_FIRST = 2, RMPP_LAST = 4, RMPP_TIMES = 0xf8 };

/* Does the MAD say that it is a part of such a transaction? */
static inline bool rmpp_is_active(const uint8_t *mad)
{
	return mad[RMPP_FLAGS] & RMPP_ACTIVE;
}

#endif
