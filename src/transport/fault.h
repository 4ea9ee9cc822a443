/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults of incoming requests: fault.def as an enum and a table. */
#ifndef VERBATIM_TRANSPORT_FAULT_H
#define VERBATIM_TRANSPORT_FAULT_H

#include <infiniband/verbs.h>

#include "object/qp.h"
#include "tracepoint/drop.h"

enum fault {
	FAULT_NONE,
#define FAULT(id, class, answer, fate, receive, status, event, uc) FAULT_##id,
#include "transport/fault.def"
#undef FAULT
	FAULT_COUNT
};

enum fault_answer {
	FAULT_ANSWER_NONE, FAULT_ANSWER_RNR, FAULT_ANSWER_NAK_SEQUENCE,
	FAULT_ANSWER_NAK_INVALID, FAULT_ANSWER_NAK_ACCESS, FAULT_ANSWER_NAK_OPERATION,
};

enum fault_class { FAULT_CLASS_A, FAULT_CLASS_B, FAULT_CLASS_C, FAULT_CLASS_J };
enum fault_receive { FAULT_LEAVES, FAULT_TAKES };
enum fault_fate { FAULT_FATE_KEEP, FAULT_FATE_ERROR };
enum fault_uc { FAULT_UC_DROP, FAULT_UC_FAIL };

struct fault_row {
	const char *name;
	enum fault_class class;
	enum fault_answer answer;
	enum fault_fate fate;
	enum fault_receive receive;
	enum ibv_wc_status status;
	int event;			/* enum qp_event, or -1 */
	enum fault_uc uc;
	enum drop drop;
};

const struct fault_row *fault_row(enum fault fault);

#endif
