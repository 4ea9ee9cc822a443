/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP port 4791, which the processes of this host share (host/port_group.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/ip_addr.h"
#include "base/log.h"
#include "engine/injection.h"
#include "engine/internal.h"
#include "engine/links.h"
#include "link/udp.h"
#include "platform/clock.h"

#define SETTLE_NS	100000000u	/* more than two rounds of 20 ms for members that do not answer */
#define SETTLE_STEP_NS	50000u
#define DRAINS_MAX	64u

/* ---- the source: who shares the port ---- */

static uint64_t group_deadline(struct source *source)
{
	const struct engine *engine = source->owner;

	return engine->group ? port_group_deadline(engine->group) : TIME_NEVER;
}

static void group_turn(struct source *source, bool ready, uint64_t now_ns)
{
	struct engine *engine = source->owner;

	lock_acquire(&engine->progress);
	if (engine->group)
		port_group_tick(engine->group, now_ns);
	lock_release(&engine->progress);
}

static void group_abandon(struct source *source)
{
	const struct engine *engine = source->owner;

	if (engine->group)
		port_group_abandon(engine->group);
}

const struct source_ops source_of_port_group = {
	.name = "port group", .turn = group_turn, .deadline_ns = group_deadline,
	.abandon = group_abandon,
};

/* ---- binding ---- */

/* Once a process: each device that is opened after all others were closed binds the port anew. */
static _Atomic bool port_is_explained;

int port_bind(struct engine *engine)
{
	char text[INET6_ADDRSTRLEN];
	struct port_group *group;
	const uint8_t *taken;
	int fd4, fd6, err;

	if (engine->group || engine->without_udp)
		return 0;
	err = udp_bind(engine->udp);
	if (err) {
		if (err == EADDRINUSE && !atomic_exchange(&port_is_explained, true))
			explain("UDP port 4791 is another user's or rdma_rxe's: 'verbatim doctor' says "
				"whose, and if packets of other hosts arrive");
		else if (err != EADDRINUSE)
			explain("ibv_open_device: UDP port 4791 cannot be bound: %s", strerror(err));
		return err == EMFILE || err == ENFILE ? err : 0;
	}
	taken = udp_first_taken(engine->udp);
	if (taken && !atomic_exchange(&port_is_explained, true)) {
		bool ipv4 = ip_addr_is_ipv4(taken);

		inet_ntop(ipv4 ? AF_INET : AF_INET6, taken + (ipv4 ? 12 : 0), text, sizeof(text));
		explain("ibv_open_device: another socket has UDP port 4791 of %s ('ss -lunp sport = 4791'): "
			"packets to that address go there and are lost; other addresses work, multicast may not",
			text);
	}
	udp_bound_fds(engine->udp, &fd4, &fd6);
	err = port_group_join(&group, fd4, fd6, engine->qps.slot, engine->qps.slot_count, engine->counters);
	if (err)
		explain("ibv_open_device: cannot share UDP port 4791 with other processes: %s",
				strerror(err));
	else
		engine->group = group;
	links_watch(engine, engine->links[ROUTE_ROCE_V2]);
	if (engine->group)
		source_watch(&engine->source.all, &engine->source.port_group,
			     port_group_event_fd(engine->group));
	return err == EMFILE || err == ENFILE ? err : 0;
}

/*
 * The port's selector has to know the slot of this process before a peer can know a QPN in it:
 * otherwise packets would be spread over the members, and a stopped member would keep its share. A
 * process without others does not wait.
 */
void port_settle(struct engine *engine)
{
	uint64_t until_ns = clock_now_ns() + SETTLE_NS, now_ns;

	lock_acquire(&engine->progress);
	while (engine->group && !port_group_is_settled(engine->group) &&
	       (now_ns = clock_now_ns()) < until_ns) {
		port_group_tick(engine->group, now_ns);
		source_set_due(&engine->source.all, &engine->source.slots);
		if (!rx_poll(engine, NULL, now_ns))
			thread_sleep_ns(SETTLE_STEP_NS);
	}
	progress_unlock(engine);
}

void port_drain(struct engine *engine)
{
	unsigned n = 0;

	lock_acquire(&engine->progress);
	do
		engine->rx.udp_looked_ns = 0;	/* beside shared memory the sockets may not be due */
	while (n++ < DRAINS_MAX && rx_poll(engine, NULL, clock_now_ns()));
	injection_flush(engine);
	progress_unlock(engine);
}
