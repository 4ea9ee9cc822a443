/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts, network, applications and checkers (cm_world.h). Small worlds: everything is found by
 * looking at all of it.
 */
#include "cm_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/test_random.h"
#include "wire/dump.h"

#define TRAVEL_NS	(50 * UINT64_C(1000))
#define LATE_NS		(400 * MILLISECOND)	/* behind the first time that it is sent again */
#define STEPS_MAX	200000u

void cm_world_fail(struct cm_world *world, const char *format, ...)
{
	va_list args;

	if (*world->failure)
		return;
	va_start(args, format);
	vsnprintf(world->failure, sizeof(world->failure), format, args);
	va_end(args);
}

/* ---- network ---- */

enum cm_fate cm_fate_by_mask(struct cm_world *world)
{
	if (world->sent > 32)
		return CM_FATE_PASS;
	return (enum cm_fate)(world->fates >> 2 * (world->sent - 1) & 3);
}

enum cm_fate cm_fate_by_chance(struct cm_world *world)
{
	unsigned dice = (unsigned)test_random(&world->random) % 100;

	if (dice < world->loss_percent)
		return CM_FATE_LOSS;
	if (dice < world->loss_percent + world->twice_percent)
		return CM_FATE_TWICE;
	if (dice < world->loss_percent + world->twice_percent + world->late_percent)
		return CM_FATE_LATE;
	return CM_FATE_PASS;
}

static void launch(struct cm_world *world, struct cm_host *from, struct cm_host *to,
		   const uint8_t mad[MAD_BYTES], uint64_t delay_ns, bool bounced)
{
	struct cm_flight *flight = &world->flight[world->flights];

	if (world->flights == CM_FLIGHTS_MAX) {
		cm_world_fail(world, "more messages on their way than there can be");
		return;
	}
	world->flights++;
	*flight = (struct cm_flight){ .at_ns = world->now_ns + delay_ns, .from = from, .to = to,
				      .bounced = bounced };
	memcpy(flight->mad, mad, MAD_BYTES);
}

static struct cm_host *host_at(struct cm_world *world, const uint8_t address[16])
{
	for (unsigned i = 0; i < CM_HOSTS; i++)
		if (!memcmp(world->host[i].address, address, 16))
			return &world->host[i];
	return NULL;
}

static void say(const struct cm_world *world, const struct cm_host *from, const char *arrow,
		const struct cm_host *to, const uint8_t mad[MAD_BYTES], const char *what)
{
	char line[DUMP_LINE_MAX];

	if (!world->speak)
		return;
	mad_dump(mad, line, sizeof(line));
	printf("%12.3f ms  %u %s %u  %s%s\n", (double)(world->now_ns - SECOND) / 1e6, from->index,
	       arrow, to->index, line, what);
}

static void host_send(void *opaque, const struct mad_address *to, const struct cm_message *message)
{
	static const char *const names[] = { "", "  lost", "  twice", "  late" };
	struct cm_host *host = opaque;
	struct cm_world *world = host->world;
	struct cm_host *peer = host_at(world, to->remote);
	uint8_t mad[MAD_BYTES];
	enum cm_fate fate;

	cm_message_write(message, mad);
	world->sent++;
	fate = world->fate ? world->fate(world) : CM_FATE_PASS;
	if (memcmp(to->local, host->address, 16) || !peer) {
		cm_world_fail(world, "a message from or to nowhere");
		return;
	}
	say(world, host, "->", peer, mad, names[fate]);
	if (fate == CM_FATE_LOSS)
		return;
	launch(world, host, peer, mad, TRAVEL_NS + test_random(&world->random) % 1000, false);
	if (fate == CM_FATE_LATE)
		world->flight[world->flights - 1].at_ns += LATE_NS;
	if (fate == CM_FATE_TWICE)
		launch(world, host, peer, mad,
		       TRAVEL_NS + test_random(&world->random) % (20 * MILLISECOND), false);
}

static void arrive(struct cm_world *world, const struct cm_flight *flight)
{
	struct cm_host *to = flight->to;
	struct mad_address address = { .hop_limit = 60 };

	memcpy(address.local, to->address, 16);
	memcpy(address.remote, flight->from->address, 16);
	if (!to->protocol) {
		if (to->death == CM_CLOSED_PORT && !flight->bounced)
			launch(world, to, flight->from, flight->mad, TRAVEL_NS, true);
		return;
	}
	if (flight->bounced)
		cm_undeliverable(to->protocol, &address, flight->mad, world->now_ns);
	else
		cm_receive(to->protocol, &address, flight->mad, world->now_ns);
}

/* ---- applications ---- */

static struct cm_end *end_new(struct cm_world *world, struct cm_host *host,
			      const struct cm_plan *plan)
{
	struct cm_end *end;

	if (world->ends == CM_ENDS_MAX)
		return NULL;
	end = &world->end[world->ends++];
	*end = (struct cm_end){ .host = host, .plan = *plan, .token = world->ends,
				.act_ns = TIME_NEVER,
				.qpn = (host->index + 1) << 14 | host->next_qpn++ };
	return end;
}

static struct cm_end *end_of(struct cm_world *world, uint32_t token)
{
	return token && token <= world->ends ? &world->end[token - 1] : NULL;
}

struct cm_end *cm_world_peer(struct cm_world *world, const struct cm_end *end)
{
	return end_of(world, end->peer_token);
}

static uint64_t after(const struct cm_world *world, uint64_t delay_ns)
{
	return delay_ns == TIME_NEVER ? TIME_NEVER : world->now_ns + delay_ns;
}

static void let_go(struct cm_end *end)
{
	struct cm_connection *connection = end->connection;

	end->connection = NULL;
	end->knows = KNOWS_NOTHING;
	end->act_ns = TIME_NEVER;
	end->host->world->done_ns = end->host->world->now_ns;
	cm_abandon(connection, end->host->world->now_ns);
}

static void must(struct cm_end *end, int err, const char *what)
{
	if (err)
		cm_world_fail(end->host->world, "end %u: %s: %s in state %s", end->token, what,
			      strerror(err), cm_state_name(end->connection));
}

static void over(struct cm_end *end)
{
	end->knows = KNOWS_OVER;
	end->act_ns = end->host->world->now_ns + MILLISECOND;
}

static void answer_rep(struct cm_end *end)
{
	struct cm_world *world = end->host->world;

	if (end->plan.walk_away) {
		let_go(end);
	} else if (end->plan.refuse) {
		must(end, cm_reject(end->connection, 28, NULL, 0, NULL, 0, world->now_ns), "reject");
		over(end);
	} else {
		must(end, cm_ready_to_use(end->connection, NULL, 0, world->now_ns), "ready");
		end->knows = KNOWS_UP;
		end->was_up = true;
		end->act_ns = after(world, end->plan.hold_ns);
	}
}

static void put_tokens(const struct cm_end *end, uint8_t data[8])
{
	put_be32(data, end->token);
	put_be32(data + 4, end->peer_token);
}

static void accept_request(struct cm_end *end)
{
	uint8_t data[8];
	const struct cm_accept accept = { .local_qpn = end->qpn, .private_data = data,
					  .private_data_bytes = 8 };

	put_tokens(end, data);
	must(end, cm_accept(end->connection, &accept, end->host->world->now_ns), "accept");
	end->knows = KNOWS_ACCEPTED;
	end->act_ns = end->plan.regret ? after(end->host->world, 10 * MILLISECOND) : TIME_NEVER;
}

static void answer_datagram(struct cm_end *end)
{
	uint8_t data[8];

	put_tokens(end, data);
	must(end, cm_sidr_answer(end->connection,
				 end->plan.refuse ? CM_SIDR_REJECTED : CM_SIDR_SUCCESS, end->qpn, 1,
				 data, 8, end->host->world->now_ns), "answer");
	over(end);
}

static void answer_request(struct cm_end *end)
{
	uint64_t now_ns = end->host->world->now_ns;

	if (end->plan.walk_away) {
		let_go(end);
	} else if (end->datagram) {
		answer_datagram(end);
	} else if (end->plan.refuse) {
		must(end, cm_reject(end->connection, 28, NULL, 0, NULL, 0, now_ns), "reject");
		over(end);
	} else {
		accept_request(end);
	}
}

/* The application of @end does what is due. */
static void act(struct cm_end *end)
{
	struct cm_world *world = end->host->world;

	end->act_ns = TIME_NEVER;
	switch (end->knows) {
	case KNOWS_ANSWERED:
		answer_rep(end);
		break;
	case KNOWS_REQUESTED:
		answer_request(end);
		break;
	case KNOWS_ACCEPTED:
	case KNOWS_UP:
		if (end->plan.let_go) {
			let_go(end);
			break;
		}
		must(end, cm_disconnect(end->connection, NULL, 0, world->now_ns), "disconnect");
		end->knows = KNOWS_LEAVING;
		break;
	case KNOWS_ASKED:
		end->lost_patience = true;
		let_go(end);
		break;
	case KNOWS_OVER:
		let_go(end);
		break;
	default:
		break;
	}
}

/* ---- what applications are told ---- */

static void unexpected(struct cm_end *end, const struct cm_event *event)
{
	cm_world_fail(end->host->world, "end %u (knows %d): event %d is out of order", end->token,
		      end->knows, event->kind);
}

static void told_rep(struct cm_end *end, const struct cm_event *event)
{
	struct cm_world *world = end->host->world;
	const uint8_t *data = event->message->rep.private_data;
	const struct cm_end *peer = end_of(world, get_be32(data));

	if (end->knows != KNOWS_ASKED || !end->active)
		unexpected(end, event);
	if (!peer || get_be32(data + 4) != end->token || peer->peer_token != end->token ||
	    event->message->rep.local_qpn != peer->qpn)
		cm_world_fail(world, "end %u: a REP that no peer accepted with", end->token);
	end->peer_token = get_be32(data);
	end->knows = KNOWS_ANSWERED;
	end->act_ns = after(world, end->plan.think_ns);
}

/* Both sides must mean each other, and only one passive end may be up for a REQ. */
static void check_rtu(struct cm_end *end)
{
	struct cm_world *world = end->host->world;
	const struct cm_end *peer = cm_world_peer(world, end);

	if (!peer || !peer->was_up || peer->peer_token != end->token)
		cm_world_fail(world, "end %u is up for a peer that is not", end->token);
	for (unsigned i = 0; i < world->ends; i++)
		if (&world->end[i] != end && !world->end[i].active && world->end[i].was_up &&
		    world->end[i].peer_token == end->peer_token)
			cm_world_fail(world, "ends %u and %u are up for one REQ", end->token, i + 1);
}

static void told_rtu(struct cm_end *end, const struct cm_event *event)
{
	if (end->knows != KNOWS_ACCEPTED)
		unexpected(end, event);
	check_rtu(end);
	end->knows = KNOWS_UP;
	end->was_up = true;
	end->act_ns = after(end->host->world, end->plan.hold_ns);
}

static void told_failure(struct cm_end *end, const struct cm_event *event)
{
	bool down = end->knows == KNOWS_UP || end->knows == KNOWS_LEAVING;

	if (end->knows > KNOWS_LEAVING || (down && event->kind != CM_EVENT_REJ))
		unexpected(end, event);
	end->was_refused |= event->kind == CM_EVENT_REJ;
	end->timed_out |= event->kind == CM_EVENT_TIMEOUT;
	end->was_unreachable |= event->kind == CM_EVENT_UNREACHABLE;
	if (down)
		end->knows = KNOWS_DOWN;
	else
		over(end);
}

static void told_down(struct cm_end *end, const struct cm_event *event)
{
	bool expected = event->kind == CM_EVENT_DREP ? end->knows == KNOWS_LEAVING :
			end->knows == KNOWS_UP || end->knows == KNOWS_LEAVING ||
				end->knows == KNOWS_ACCEPTED;

	if (!expected)
		unexpected(end, event);
	end->gave_up |= event->kind == CM_EVENT_DREP && !event->message;
	end->knows = KNOWS_DOWN;
	end->act_ns = TIME_NEVER;
}

static void told_sidr_rep(struct cm_end *end, const struct cm_event *event)
{
	const struct cm_sidr_rep *rep = &event->message->sidr_rep;

	if (end->knows != KNOWS_ASKED || !end->datagram)
		unexpected(end, event);
	if (rep->status == CM_SIDR_SUCCESS && get_be32(rep->private_data + 4) != end->token)
		cm_world_fail(end->host->world, "end %u: another's SIDR_REP", end->token);
	end->was_resolved = rep->status == CM_SIDR_SUCCESS;
	end->was_refused = rep->status != CM_SIDR_SUCCESS;
	over(end);
}

static struct cm_plan random_plan(struct cm_world *world)
{
	uint64_t dice = test_random(&world->random);

	return (struct cm_plan){
		.refuse = dice % 8 == 0,
		.walk_away = (dice >> 8) % 12 == 0,
		.forget_first = (dice >> 16) % 8 == 0,
		.let_go = (dice >> 24) % 3 == 0,
		.think_ns = (dice >> 32) % 4 ? (dice >> 34) % (2 * MILLISECOND) :
					       (dice >> 34) % (3 * SECOND),
		.hold_ns = (dice >> 48) % 3 ? (dice >> 50) * 100000 : TIME_NEVER,
		.patience_ns = (dice >> 60) == 0 ? 300 * MILLISECOND : TIME_NEVER,
	};
}

static void told_request(struct cm_host *host, const struct cm_event *event)
{
	struct cm_world *world = host->world;
	struct cm_plan plan = world->random_plans ? random_plan(world) : world->passive;
	bool datagram = event->kind == CM_EVENT_SIDR_REQ;
	const uint8_t *data = datagram ? event->message->sidr_req.private_data :
					 event->message->req.private_data;
	uint32_t token = get_be32(data + 36);
	struct cm_end *end;

	if (!end_of(world, token)) {
		cm_world_fail(world, "host %u: a request that nobody made", host->index);
		return;
	}
	if (plan.forget_first) {
		world->passive.forget_first = false;
		return;		/* no room */
	}
	end = end_new(world, host, &plan);
	if (!end)
		return;
	end_of(world, token)->requests++;
	end->datagram = datagram;
	end->peer_token = token;
	end->knows = KNOWS_REQUESTED;
	end->connection = event->connection;
	end->act_ns = after(world, plan.think_ns);
	cm_set_owner(event->connection, end);
}

static void host_event(void *opaque, const struct cm_event *event)
{
	struct cm_host *host = opaque;
	struct cm_end *end = event->owner;

	if (event->kind == CM_EVENT_REQ || event->kind == CM_EVENT_SIDR_REQ) {
		told_request(host, event);
		return;
	}
	if (host->world->speak)
		printf("%12.3f ms  end %u is told %d\n",
		       (double)(host->world->now_ns - SECOND) / 1e6, end->token, event->kind);
	if (end->connection != event->connection || end->host != host)
		cm_world_fail(host->world, "end %u is told of another connection", end->token);
	switch (event->kind) {
	case CM_EVENT_REP:
		told_rep(end, event);
		break;
	case CM_EVENT_RTU:
		told_rtu(end, event);
		break;
	case CM_EVENT_DREQ:
	case CM_EVENT_DREP:
		told_down(end, event);
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		if (end->knows != KNOWS_DOWN)
			unexpected(end, event);
		over(end);
		break;
	case CM_EVENT_SIDR_REP:
		told_sidr_rep(end, event);
		break;
	default:
		told_failure(end, event);
		break;
	}
}

/* ---- hosts ---- */

static uint32_t host_random(void *opaque)
{
	return (uint32_t)test_random(&((struct cm_host *)opaque)->world->random);
}

static void host_count(void *opaque, int counter)
{
	((struct cm_host *)opaque)->counts[counter]++;
}

static const struct cm_ops host_ops = {
	.send = host_send, .event = host_event, .random = host_random, .count = host_count,
};

static void host_start(struct cm_host *host)
{
	static const uint8_t any[16];

	host->protocol = cm_protocol_new(&host_ops, host, (host->index + 1) << 22, 22);
	if (!host->protocol || cm_listen(host->protocol, CM_SERVICE, any, 0, host, &host->listener))
		abort();
}

void cm_world_init(struct cm_world *world, uint64_t seed)
{
	memset(world, 0, offsetof(struct cm_world, end));
	world->ends = world->flights = world->sent = world->steps = 0;
	world->done_ns = 0;
	world->now_ns = SECOND;
	world->random = seed;
	world->fate = NULL;
	world->fates = 0;
	world->loss_percent = world->twice_percent = world->late_percent = 0;
	world->passive = (struct cm_plan){ .hold_ns = TIME_NEVER };
	world->random_plans = world->speak = false;
	world->failure[0] = '\0';
	for (unsigned i = 0; i < CM_HOSTS; i++) {
		struct cm_host *host = &world->host[i];

		host->world = world;
		host->index = i;
		host->next_qpn = 1;
		host->address[10] = host->address[11] = 0xff;
		host->address[12] = 10;
		host->address[15] = (uint8_t)(i + 1);
		host_start(host);
	}
}

void cm_world_crash(struct cm_world *world, struct cm_host *host, enum cm_death death)
{
	for (unsigned i = 0; i < world->ends; i++)
		if (world->end[i].host == host) {
			world->end[i].connection = NULL;
			world->end[i].knows = KNOWS_NOTHING;
			world->end[i].act_ns = TIME_NEVER;
		}
	if (host->protocol)
		cm_protocol_free(host->protocol);
	host->protocol = NULL;
	host->death = death;
	if (death == CM_RESTARTED)
		host_start(host);
}

static void check_nothing_left(struct cm_host *host)
{
	const struct cm_protocol *protocol = host->protocol;

	if (protocol->count || protocol->by_id.count || protocol->by_remote.count ||
	    protocol->by_remote_qpn.count || protocol->by_qpn.count || protocol->timers.count ||
	    host->listener->pending)
		cm_world_fail(host->world, "host %u: %zu connections are left behind", host->index,
			      protocol->count);
}

/* A REQ whose sender had no patience may come late: a request that nobody waits for. */
void cm_world_check_answered(struct cm_world *world)
{
	for (unsigned i = 0; i < world->ends; i++) {
		const struct cm_end *end = &world->end[i];
		const struct cm_end *asker = end->active ? end : cm_world_peer(world, end);

		if (end->timed_out || end->was_unreachable)
			cm_world_fail(world, "end %u was not answered", i + 1);
		if (end->gave_up)
			cm_world_fail(world, "the DREQ of end %u was not answered", i + 1);
		if (end->requests > 1 && !end->lost_patience)
			cm_world_fail(world, "the request of end %u was told twice", i + 1);
		if (end->was_up && !end->active && !asker->was_up)
			cm_world_fail(world, "end %u alone was up", i + 1);
	}
}

void cm_world_finish(struct cm_world *world)
{
	for (unsigned i = 0; i < world->ends; i++)
		if (world->end[i].knows != KNOWS_NOTHING)
			cm_world_fail(world, "end %u never came to an end (knows %d, %s)", i + 1,
				      world->end[i].knows, cm_state_name(world->end[i].connection));
	for (unsigned i = 0; i < CM_HOSTS; i++) {
		struct cm_host *host = &world->host[i];

		if (!host->protocol)
			continue;
		if (!*world->failure)
			check_nothing_left(host);
		cm_protocol_free(host->protocol);
		host->protocol = NULL;
	}
}

/* ---- beginnings ---- */

static void put_private_data(const struct cm_end *end, uint8_t data[40])
{
	memset(data, 0, 36);
	data[1] = 0x40;			/* the header of annex A11, for the listener */
	put_be32(data + 36, end->token);
}

static struct mad_address way(const struct cm_host *from, const struct cm_host *to)
{
	struct mad_address address = { .hop_limit = 64 };

	memcpy(address.local, from->address, 16);
	memcpy(address.remote, to->address, 16);
	return address;
}

static struct cm_end *begun(struct cm_world *world, struct cm_end *end, int err)
{
	if (err) {
		cm_world_fail(world, "end %u: %s", end->token, strerror(err));
		return NULL;
	}
	end->active = true;
	end->knows = KNOWS_ASKED;
	end->act_ns = after(world, end->plan.patience_ns);
	return end;
}

struct cm_end *cm_world_connect(struct cm_world *world, unsigned from, unsigned to,
				const struct cm_plan *plan)
{
	struct cm_host *host = &world->host[from];
	struct cm_end *end = host->protocol ? end_new(world, host, plan) : NULL;
	struct cm_connect connect;
	uint8_t data[40];

	if (!end)
		return NULL;
	put_private_data(end, data);
	connect = (struct cm_connect){
		.service_id = CM_SERVICE, .address = way(host, &world->host[to]),
		.local_qpn = end->qpn, .starting_psn = end->token, .path_mtu = 3,
		.response_timeout = 20, .max_retries = 15, .local_ack_timeout = 18,
		.hop_limit = 64, .private_data = data, .private_data_bytes = sizeof(data),
	};
	return begun(world, end, cm_connect(host->protocol, &connect, end, world->now_ns,
					    &end->connection));
}

struct cm_end *cm_world_resolve(struct cm_world *world, unsigned from, unsigned to,
				const struct cm_plan *plan)
{
	struct cm_host *host = &world->host[from];
	struct cm_end *end = host->protocol ? end_new(world, host, plan) : NULL;
	struct cm_sidr sidr;
	uint8_t data[40];

	if (!end)
		return NULL;
	put_private_data(end, data);
	end->datagram = true;
	sidr = (struct cm_sidr){
		.service_id = CM_SERVICE, .address = way(host, &world->host[to]),
		.response_timeout = 20, .max_retries = 15,
		.private_data = data, .private_data_bytes = sizeof(data),
	};
	return begun(world, end, cm_sidr(host->protocol, &sidr, end, world->now_ns,
					 &end->connection));
}

/* ---- time ---- */

enum what { NOTHING, FLIGHT, TIMER, ACTION };

static enum what next_event(struct cm_world *world, uint64_t *at_ns, unsigned *which)
{
	enum what what = NOTHING;

	*at_ns = TIME_NEVER;
	for (unsigned i = 0; i < world->flights; i++)
		if (world->flight[i].at_ns < *at_ns) {
			*at_ns = world->flight[i].at_ns;
			*which = i;
			what = FLIGHT;
		}
	for (unsigned i = 0; i < CM_HOSTS; i++)
		if (world->host[i].protocol && cm_deadline(world->host[i].protocol) < *at_ns) {
			*at_ns = cm_deadline(world->host[i].protocol);
			*which = i;
			what = TIMER;
		}
	for (unsigned i = 0; i < world->ends; i++)
		if (world->end[i].act_ns < *at_ns) {
			*at_ns = world->end[i].act_ns;
			*which = i;
			what = ACTION;
		}
	return what;
}

bool cm_world_step(struct cm_world *world)
{
	struct cm_flight flight;
	uint64_t at_ns;
	unsigned which = 0;
	enum what what = next_event(world, &at_ns, &which);

	if (what == NOTHING || *world->failure)
		return false;
	if (world->steps++ > STEPS_MAX) {
		cm_world_fail(world, "it does not end");
		return false;
	}
	if (at_ns > world->now_ns)
		world->now_ns = at_ns;
	if (what == FLIGHT) {
		flight = world->flight[which];
		world->flight[which] = world->flight[--world->flights];
		arrive(world, &flight);
	} else if (what == TIMER) {
		cm_tick(world->host[which].protocol, world->now_ns);
	} else {
		act(&world->end[which]);
	}
	return true;
}

void cm_world_run(struct cm_world *world, uint64_t until_ns)
{
	uint64_t at_ns;
	unsigned which;

	while (next_event(world, &at_ns, &which) != NOTHING && at_ns <= until_ns)
		if (!cm_world_step(world))
			return;
}

void cm_world_wind_down(struct cm_world *world)
{
	for (unsigned i = 0; i < world->ends; i++) {
		struct cm_end *end = &world->end[i];

		if ((end->knows == KNOWS_UP || end->knows == KNOWS_ACCEPTED) &&
		    end->act_ns == TIME_NEVER)
			end->act_ns = world->now_ns;
		end->plan.hold_ns = end->plan.hold_ns == TIME_NEVER ? MILLISECOND :
								      end->plan.hold_ns;
	}
}
