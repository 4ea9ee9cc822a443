/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of faults: fault.def, expanded. */
#include "transport/fault.h"

#include <assert.h>

#define EVENT_NONE	 -1
#define EVENT_FATAL	 QP_EVENT_FATAL
#define EVENT_REQ_ERR	 QP_EVENT_REQ_ERR
#define EVENT_ACCESS_ERR QP_EVENT_ACCESS_ERR

static const struct fault_row rows[FAULT_COUNT] = {
#define FAULT(id, a, f, s, e, u, c)                                                       \
	[FAULT_##id] = { .name = #id, .about = "nak " #id,                                \
			 .answer = FAULT_ANSWER_##a, .fate = FAULT_FATE_##f,              \
			 .status = IBV_WC_##s, .event = EVENT_##e, .uc = FAULT_UC_##u,    \
			 .counter = COUNTER_##c },
#include "transport/fault.def"
#undef FAULT
};

const struct fault_row *fault_row(enum fault fault)
{
	assert(fault > FAULT_NONE && fault < FAULT_COUNT);
	return &rows[fault];
}
