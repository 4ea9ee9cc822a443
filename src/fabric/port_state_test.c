/* SPDX-License-Identifier: BSD-2-Clause */
/* Each cell of port_state.def, against rules that are written here in words of their own. */
#include "fabric/port_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* What must come out; the rules of IBTA 7.2.7, one after the other. */
static enum port_state expected(enum port_state state, enum port_event event)
{
	bool up = port_state_phys(state) == FABRIC_PHYS_LINK_UP;

	switch (event) {
	case PORT_TRAINED:			/* only who polls trains */
		return state == PORT_POLLING ? PORT_INIT : PORT_KEEP;
	case PORT_LOST:				/* a link that is lost is looked for again */
	case PORT_SET_DOWN:
		return up ? PORT_POLLING : PORT_KEEP;
	case PORT_SET_SLEEP:
		return state == PORT_SLEEPING ? PORT_KEEP : PORT_SLEEPING;
	case PORT_SET_POLL:
		return state == PORT_POLLING ? PORT_KEEP : PORT_POLLING;
	case PORT_SET_DISABLE:
		return state == PORT_DISABLED ? PORT_KEEP : PORT_DISABLED;
	case PORT_SET_INIT:			/* comes from training alone */
		return PORT_REFUSE;
	case PORT_SET_ARM:			/* Init -> Armed -> Active, one after the other */
		return state == PORT_INIT    ? PORT_ARMED
		       : state == PORT_ARMED ? PORT_KEEP
					     : PORT_REFUSE;
	case PORT_SET_ACTIVE:
		return state == PORT_ARMED    ? PORT_ACTIVE
		       : state == PORT_ACTIVE ? PORT_KEEP
					      : PORT_REFUSE;
	case PORT_DATA:				/* the neighbour is Active already */
		return state == PORT_ARMED ? PORT_ACTIVE : PORT_KEEP;
	default:
		fail();
		return PORT_REFUSE;
	}
}

static void every_cell_is_as_the_rules_say(void **unused)
{
	for (unsigned state = 0; state < PORT_STATES; state++)
		for (unsigned event = 0; event < PORT_EVENTS; event++)
			if (port_state_next((enum port_state)state, (enum port_event)event) !=
			    expected((enum port_state)state, (enum port_event)event))
				fail_msg("%s, event %u", port_state_name((enum port_state)state),
					 event);
}

static void a_state_is_a_pair_of_physical_and_logical_state(void **unused)
{
	for (unsigned i = 0; i < PORT_STATES; i++) {
		enum port_state state = (enum port_state)i;

		assert_true((port_state_phys(state) == FABRIC_PHYS_LINK_UP) ==
			    (port_state_logical(state) != FABRIC_PORT_DOWN));
		for (unsigned j = 0; j < i; j++)
			assert_false(port_state_phys(state) ==
					     port_state_phys((enum port_state)j) &&
				     port_state_logical(state) ==
					     port_state_logical((enum port_state)j));
	}
}

/* From everywhere there is a way to everywhere, without pulling a cable. */
static void every_state_is_reached_from_every_state(void **unused)
{
	for (unsigned from = 0; from < PORT_STATES; from++) {
		bool seen[PORT_STATES] = { false };

		seen[from] = true;
		for (unsigned round = 0; round < PORT_STATES; round++)
			for (unsigned state = 0; state < PORT_STATES; state++)
				for (unsigned event = 0; seen[state] && event < PORT_EVENTS;
				     event++) {
					enum port_state next = port_state_next(
						(enum port_state)state, (enum port_event)event);

					if (next < PORT_STATES)
						seen[next] = true;
				}
		for (unsigned state = 0; state < PORT_STATES; state++)
			assert_true(seen[state]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_is_as_the_rules_say),
		cmocka_unit_test(a_state_is_a_pair_of_physical_and_logical_state),
		cmocka_unit_test(every_state_is_reached_from_every_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
