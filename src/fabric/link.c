/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link comes up when both of its ends poll, have power and a cable, and enable a width and a
 * speed in common: it trains at once, to the best of them. A port that leaves takes its peer along.
 */
#include <errno.h>

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
static bool link_negotiate(struct ib_port_info *a, struct ib_port_info *b)
{
	uint8_t widths = a->link_width_enabled & b->link_width_enabled;

	for (unsigned w = 0; w < sizeof(link_widths); w++)
		for (unsigned s = SPEEDS; widths & link_widths[w] && s-- > 0;) {
			enum link_speed speed = (enum link_speed)s;

			if (!link_speed_enabled(a, speed) || !link_speed_enabled(b, speed))
				continue;
			link_set_rate(a, link_widths[w], speed);
			link_set_rate(b, link_widths[w], speed);
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

	end->counter[COUNTER_LINK_DOWNED] += port_state_logical(before) != FABRIC_PORT_DOWN &&
					     port_state_logical(next) == FABRIC_PORT_DOWN;
	end->state = next;
	fabric_changed(fabric, node);
	end->info.port_state = (uint8_t)port_state_logical(next);
	end->info.port_physical_state = (uint8_t)port_state_phys(next);
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
	    b->state != PORT_POLLING || !link_negotiate(&a->info, &b->info))
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
