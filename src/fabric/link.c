/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link comes up when both of its ends poll, have power and a cable, and enable a width and a
 * speed in common: it trains at once, to the best of them. A port that leaves takes its peer along.
 */
#include <errno.h>
#include <strings.h>

#include "fabric/internal.h"

/* The widest first. */
static const uint8_t link_widths[] = { WIDTH_12X, WIDTH_8X, WIDTH_4X, WIDTH_2X, WIDTH_1X };

static bool link_speed_enabled(const struct ib_port_info *info, enum link_speed speed)
{
	if (speeds[speed].extended_2)
		return info->link_speed_ext_enabled_2 & speeds[speed].extended_2;
	if (speeds[speed].extended)
		return info->link_speed_ext_enabled != 30 &&
		       info->link_speed_ext_enabled & speeds[speed].extended;
	return info->link_speed_enabled & speeds[speed].legacy;
}

static void link_set_rate(struct ib_port_info *info, uint8_t width, enum link_speed speed)
{
	info->link_width_active = width;
	info->link_speed_active = speeds[speed].legacy;
	info->link_speed_ext_active = speeds[speed].extended;
	info->link_speed_ext_active_2 = speeds[speed].extended_2;
}

/* False: they have nothing in common. */
static bool link_negotiate(struct fabric_port *a, struct fabric_port *b)
{
	uint8_t widths = a->info.link_width_enabled & b->info.link_width_enabled;

	if (a->cable_widths)
		widths &= a->cable_widths;
	for (unsigned w = 0; w < sizeof(link_widths); w++)
		for (unsigned s = SPEEDS; widths & link_widths[w] && s-- > 0;) {
			enum link_speed speed = (enum link_speed)s;

			if ((a->cable_degraded && speed > a->cable_speed) ||
			    !link_speed_enabled(&a->info, speed) ||
			    !link_speed_enabled(&b->info, speed))
				continue;
			link_set_rate(&a->info, link_widths[w], speed);
			link_set_rate(&b->info, link_widths[w], speed);
			return true;
		}
	return false;
}

static bool link_is_lost(enum port_state state)
{
	return port_state_logical(state) == FABRIC_PORT_DOWN;
}

static void link_enter(struct fabric *fabric, uint32_t node, unsigned port, enum port_state next,
		       bool by_sm)
{
	struct fabric_node *at = &fabric->node[node];
	struct fabric_port *end = &at->port[port];
	enum port_state before = end->state;

	bit_errors_pass(fabric, end);
	end->counter[COUNTER_LINK_DOWNED] += port_state_logical(before) != FABRIC_PORT_DOWN &&
					     port_state_logical(next) == FABRIC_PORT_DOWN;
	end->state = next;
	fabric_changed(fabric, node);
	end->info.port_state = (uint8_t)port_state_logical(next);
	end->info.port_physical_state = (uint8_t)port_state_phys(next);
	if (next == PORT_INIT)
		bit_errors_link_up(fabric, end);
	if (next == PORT_ACTIVE)
		fabric_event_at(fabric, node, port, FABRIC_EVENT_PORT_ACTIVE);
	else if (before == PORT_ACTIVE)
		fabric_event_at(fabric, node, port, FABRIC_EVENT_PORT_ERROR);
	else
		fabric_event_at(fabric, node, port, FABRIC_EVENT_OTHER);
	if (node_is_switch(at) && !by_sm &&
	    port_state_logical(before) != port_state_logical(next)) {
		at->switch_info.port_state_change = 1;
		trap_link_state(fabric, node);
	}
}

bool link_event(struct fabric *fabric, uint32_t node, unsigned port, enum port_event event,
		bool by_sm)
{
	struct fabric_port *end = &fabric->node[node].port[port];
	enum port_state before = end->state, next = port_state_next(before, event);

	if (next == PORT_REFUSE)
		return false;
	if (next != PORT_KEEP) {
		link_enter(fabric, node, port, next, by_sm);
		if (!link_is_lost(before) && link_is_lost(next) && end->peer != FABRIC_NONE)
			link_event(fabric, end->peer, end->peer_port, PORT_LOST, false);
	}
	if (end->state == PORT_POLLING)
		link_try(fabric, node, port);
	return true;
}

void link_try(struct fabric *fabric, uint32_t node, unsigned port)
{
	struct fabric_port *a = &fabric->node[node].port[port], *b;

	if (a->peer == FABRIC_NONE || !a->plugged || !fabric->node[node].powered)
		return;
	b = &fabric->node[a->peer].port[a->peer_port];
	if (!b->plugged || !fabric->node[a->peer].powered || a->state != PORT_POLLING ||
	    b->state != PORT_POLLING || !bit_errors_may_train(fabric, a) ||
	    !bit_errors_may_train(fabric, b) || !link_negotiate(a, b))
		return;
	link_enter(fabric, node, port, PORT_INIT, false);
	link_enter(fabric, a->peer, a->peer_port, PORT_INIT, false);
}

int fabric_set_cable(struct fabric *fabric, uint32_t node, uint32_t port, bool plugged,
		     uint64_t now_us)
{
	struct fabric_port *end = fabric_port_at(fabric, node, port);

	if (!end)
		return EINVAL;
	if (end->peer == FABRIC_NONE)
		return ENOENT;
	fabric_pass(fabric, now_us);
	end->plugged = plugged;
	fabric->node[end->peer].port[end->peer_port].plugged = plugged;
	if (plugged)
		link_try(fabric, node, port);
	else
		link_event(fabric, node, port, PORT_LOST, false);	/* and so does the peer */
	traps_due(fabric);
	return 0;
}

void link_errors_due(struct fabric *fabric, uint32_t node, unsigned port)
{
	struct fabric_port *end = &fabric->node[node].port[port];

	if (!link_is_lost(end->state) && bit_errors_link_falls(fabric, end))
		link_event(fabric, node, port, PORT_LOST, false);
	else if (end->state == PORT_POLLING)
		link_try(fabric, node, port);
}

int fabric_set_bit_errors(struct fabric *fabric, uint32_t node, uint32_t port, double rate,
			  uint64_t now_us)
{
	struct fabric_port *end = fabric_port_at(fabric, node, port);
	int err;

	if (!end || !(rate >= 0 && rate <= FABRIC_BIT_ERRORS_MAX))
		return EINVAL;
	if (end->peer == FABRIC_NONE)
		return ENOENT;
	fabric_pass(fabric, now_us);
	err = bit_errors_set(fabric, end, rate);
	if (!err)
		err = bit_errors_set(fabric, &fabric->node[end->peer].port[end->peer_port], rate);
	fabric_changed(fabric, node);
	fabric_changed(fabric, end->peer);
	link_try(fabric, node, port);	/* it may have rested */
	traps_due(fabric);
	return err;
}

int fabric_set_stuck(struct fabric *fabric, uint32_t node, uint32_t port, bool stuck,
		     uint64_t now_us)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at || !port)
		return EINVAL;
	fabric_pass(fabric, now_us);
	if (at->stuck != stuck && port_state_logical(at->state) != FABRIC_PORT_DOWN)
		link_event(fabric, node, port, PORT_LOST, false);	/* and up to Init again */
	at->stuck = stuck;
	traps_due(fabric);
	return 0;
}

int fabric_set_degraded(struct fabric *fabric, uint32_t node, uint32_t port, unsigned lanes,
			const char *speed_name, uint64_t now_us)
{
	struct fabric_port *end = fabric_port_at(fabric, node, port), *peer;
	uint8_t widths = 0, speed = SPEEDS - 1;

	for (unsigned i = 0; lanes && i < sizeof(link_widths); i++)
		if (port_lanes(link_widths[i]) <= lanes)
			widths |= link_widths[i];
	for (speed = 0; speed_name && speed < SPEEDS && strcasecmp(speeds[speed].name, speed_name);)
		speed++;
	if (!end || (lanes && !widths) || (speed_name && speed == SPEEDS))
		return EINVAL;
	if (end->peer == FABRIC_NONE)
		return ENOENT;
	peer = &fabric->node[end->peer].port[end->peer_port];
	end->cable_widths = peer->cable_widths = widths;
	end->cable_degraded = peer->cable_degraded = speed_name != NULL;
	end->cable_speed = peer->cable_speed = speed;
	fabric_pass(fabric, now_us);
	if (link_is_lost(end->state))
		link_try(fabric, node, port);
	else
		link_event(fabric, node, port, PORT_LOST, false);	/* it trains anew */
	traps_due(fabric);
	return 0;
}

int fabric_set_power(struct fabric *fabric, uint32_t node, bool on, uint64_t now_us)
{
	struct fabric_node *at = fabric_node_at(fabric, node);

	if (!at)
		return EINVAL;
	fabric_pass(fabric, now_us);
	if (at->powered == on)
		return 0;
	at->powered = on;
	for (unsigned port = node_is_switch(at) ? 0 : 1; port <= at->ports; port++) {
		const struct fabric_port *end = &at->port[port];

		if (!on && port && end->peer != FABRIC_NONE && !link_is_lost(end->state))
			link_event(fabric, end->peer, end->peer_port, PORT_LOST, false);
		if (!on && end->state == PORT_ACTIVE)
			fabric_event_at(fabric, node, port, FABRIC_EVENT_PORT_ERROR);
		port_reset(at, port);
		fabric_event_at(fabric, node, port, FABRIC_EVENT_OTHER);
	}
	fabric_changed(fabric, node);
	if (!on)
		node_forget(at);
	for (unsigned port = 1; on && port <= at->ports; port++)
		link_try(fabric, node, port);
	traps_due(fabric);
	return 0;
}
