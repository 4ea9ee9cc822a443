/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of faults: fault.def, expanded; and the words of the last one. */
#include "transport/fault.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "transport/internal.h"

#define EVENT_NONE	 -1
#define EVENT_FATAL	 QP_EVENT_FATAL
#define EVENT_REQ_ERR	 QP_EVENT_REQ_ERR
#define EVENT_ACCESS_ERR QP_EVENT_ACCESS_ERR

static const struct fault_row rows[FAULT_COUNT] = {
#define FAULT(id, k, a, f, r, s, e, u)                                                    \
	[FAULT_##id] = { .name = #id, .class = FAULT_CLASS_##k,                           \
			 .answer = FAULT_ANSWER_##a, .fate = FAULT_FATE_##f,              \
			 .receive = FAULT_##r, .status = IBV_WC_##s, .event = EVENT_##e,  \
			 .uc = FAULT_UC_##u, .drop = DROP_##id },
#include "transport/fault.def"
#undef FAULT
};

const struct fault_row *fault_row(enum fault fault)
{
	assert(fault > FAULT_NONE && fault < FAULT_COUNT);
	return &rows[fault];
}

void reason_print(struct qp_call *call, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(call->why, sizeof(call->why), format, arguments);
	va_end(arguments);
}
