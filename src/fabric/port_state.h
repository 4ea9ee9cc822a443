/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a port and what leads from one to another: the rows of port_state.def. Pure data.
 */
#ifndef VERBATIM_FABRIC_PORT_STATE_H
#define VERBATIM_FABRIC_PORT_STATE_H

#include "fabric/fabric.h"

enum port_state {
#define PORT_STATE(state, phys, logical, ...) PORT_##state,
#include "fabric/port_state.def"
#undef PORT_STATE
	PORT_STATES,
	PORT_KEEP = PORT_STATES,	/* what port_state_next() says beside states */
	PORT_REFUSE,
};

/* In the order of the columns. */
enum port_event {
	PORT_TRAINED, PORT_LOST, PORT_SET_DOWN, PORT_SET_SLEEP, PORT_SET_POLL, PORT_SET_DISABLE,
	PORT_SET_INIT, PORT_SET_ARM, PORT_SET_ACTIVE, PORT_DATA, PORT_EVENTS
};

enum port_state port_state_next(enum port_state state, enum port_event event);
enum fabric_phys_state port_state_phys(enum port_state state);
enum fabric_port_state port_state_logical(enum port_state state);
const char *port_state_name(enum port_state state);

#endif
