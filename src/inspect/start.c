/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the control socket with the HCA, and closes it with the HCA. */
#include <string.h>

#include "base/log.h"
#include "device/observer.h"
#include "inspect/host.h"
#include "inspect/inspect.h"

static void *inspect_started(struct hca *hca, struct waiter *waiter, uint32_t tag)
{
	struct inspect_server *server;
	int err = inspect_server_open(&server, hca, waiter, tag, inspect_run);

	if (!err)
		return server;
	log_info("no control socket (%s): verbatim stats and trace do not see this process", strerror(err));
	return NULL;
}

static void inspect_stopped(void *server)
{
	inspect_server_close(server);
}

static void inspect_abandoned(void *server)
{
	inspect_server_abandon(server);
}

static void inspect_turn(void *server, uint64_t now_ns)
{
	inspect_server_turn(server, now_ns);
}

static uint64_t inspect_deadline(const void *server)
{
	return inspect_server_deadline(server);
}

static const struct hca_observer inspect_observer = {
	.started = inspect_started,
	.stopped = inspect_stopped,
	.abandoned = inspect_abandoned,
	.turn = inspect_turn,
	.deadline_ns = inspect_deadline,
	.add_others = host_add_counters,
};

__attribute__((constructor)) static void inspect_register(void)
{
	hca_observe(&inspect_observer);
}
