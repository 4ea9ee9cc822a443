/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of state.def as functions. What it does not have is refused. */
#include <errno.h>

#include "cm/endpoint/internal.h"

#define CELL(id) STATE_##id

static const uint8_t after_call[STATE_COUNT][ENDPOINT_CALL_COUNT] = {
#define STATE(...)
#define EVENTS(...)
#define CALLS(id, a, b, c, d, e, f, g, h, i, j, k, l) \
	[STATE_##id] = { CELL(a), CELL(b), CELL(c), CELL(d), CELL(e), CELL(f), CELL(g), CELL(h), \
			 CELL(i), CELL(j), CELL(k), CELL(l) },
#include "cm/endpoint/state.def"
#undef EVENTS
#undef CALLS
};

static const uint8_t after_input[STATE_COUNT][INPUT_COUNT] = {
#define CALLS(...)
#define EVENTS(id, a, b, c, d, e, f, g, h) \
	[STATE_##id] = { CELL(a), CELL(b), CELL(c), CELL(d), CELL(e), CELL(f), CELL(g), CELL(h) },
#include "cm/endpoint/state.def"
#undef CALLS
#undef STATE
};

static const struct {
	const char *name, *next;
} states[STATE_COUNT] = {
#define STATE(id, name, next) [STATE_##id] = { name, next },
#define CALLS(...)
#undef EVENTS
#define EVENTS(...)
#include "cm/endpoint/state.def"
};

enum endpoint_state state_after_call(enum endpoint_state state, enum endpoint_call call)
{
	if (state >= STATE_COUNT || call >= ENDPOINT_CALL_COUNT)
		return STATE_REFUSE;
	return after_call[state][call];
}

enum endpoint_state state_after_input(enum endpoint_state state, enum endpoint_input input)
{
	if (state >= STATE_COUNT || input >= INPUT_COUNT)
		return STATE_IGNORE;
	return after_input[state][input];
}

int state_errno(enum endpoint_state cell)
{
	if (cell < STATE_COUNT)
		return 0;
	return cell == STATE_STANDS ? EISCONN : EINVAL;
}

const char *state_name(enum endpoint_state state)
{
	return state < STATE_COUNT ? states[state].name : "?";
}

const char *state_next(enum endpoint_state state)
{
	return state < STATE_COUNT ? states[state].next : "?";
}
