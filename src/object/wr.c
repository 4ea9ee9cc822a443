/* SPDX-License-Identifier: BSD-2-Clause */
/* The table wr.def as an array (wr.h). */
#include "object/wr.h"

const struct wr_row wr_rows[WR_FAULTY + 1] = {
#define WR(number, name, text, services, properties, verb, completion, right) \
	[number] = { "IBV_WR_" #name, text, services, properties, right, verb, (uint8_t)(completion) },
#include "object/wr.def"
	[WR_FAULTY] = { .is = WR_IS_LOCAL, .completion = IBV_WC_SEND },
};
