/* SPDX-License-Identifier: BSD-2-Clause */
/* The command "stats": what the process is, and its counters; a line "NAME VALUE" for each. */
#include <unistd.h>

#include "base/counters.h"
#include "device/observer.h"
#include "inspect/inspect.h"

static int stats_answer(struct inspect_session *session, struct inspect_request *request,
			struct inspect_answer *answer)
{
	const struct counters *counters = hca_process_counters(session->hca);
	unsigned i;

	inspect_print(answer, "pid %d\n", (int)getpid());
	for (i = 0; i < COUNTER_COUNT; i++)
		inspect_print(answer, "%s %llu\n", counter_name(i), (unsigned long long)counter_get(counters, i));
	return 0;
}

const struct inspect_command inspect_stats = { .name = "stats", .answer = stats_answer };
