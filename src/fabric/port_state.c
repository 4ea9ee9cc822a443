/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of port_state.def as data. */
#include "fabric/port_state.h"

struct port_state_row {
	const char *name;
	enum fabric_phys_state phys;
	enum fabric_port_state logical;
	enum port_state next[PORT_EVENTS];
};

static const struct port_state_row port_states[PORT_STATES] = {
#define PORT_STATE(state, phys, logical, a, b, c, d, e, f, g, h, i, j)                           \
	[PORT_##state] = { #state, FABRIC_PHYS_##phys, FABRIC_PORT_##logical,                    \
			   { PORT_##a, PORT_##b, PORT_##c, PORT_##d, PORT_##e, PORT_##f,         \
			     PORT_##g, PORT_##h, PORT_##i, PORT_##j } },
#include "fabric/port_state.def"
#undef PORT_STATE
};

enum port_state port_state_next(enum port_state state, enum port_event event)
{
	return port_states[state].next[event];
}

enum fabric_phys_state port_state_phys(enum port_state state)
{
	return port_states[state].phys;
}

enum fabric_port_state port_state_logical(enum port_state state)
{
	return port_states[state].logical;
}

const char *port_state_name(enum port_state state)
{
	return port_states[state].name;
}
