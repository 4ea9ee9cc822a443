/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of state.def as functions. What it does not have is refused. */
#include <errno.h>

#include "cm/endpoint/internal.h"

/* 1 + the state after it; 0: no row. */
static const uint8_t after_call[STATE_COUNT][ENDPOINT_CALL_COUNT] = {
#define STATE(...)
#define ON_INPUT(...)
#define ON_CALL(state, call, next) [STATE_##state][ENDPOINT_CALL_##call] = 1 + STATE_##next,
#include "cm/endpoint/state.def"
#undef ON_INPUT
#undef ON_CALL
};

static const uint8_t after_input[STATE_COUNT][INPUT_COUNT] = {
#define ON_CALL(...)
#define ON_INPUT(state, input, next) [STATE_##state][INPUT_##input] = 1 + STATE_##next,
#include "cm/endpoint/state.def"
#undef ON_INPUT
#undef STATE
};

static const struct {
	const char *name, *next;
} states[STATE_COUNT] = {
#define STATE(id, name, next) [STATE_##id] = { name, next },
#define ON_INPUT(...)
#include "cm/endpoint/state.def"
#undef STATE
#undef ON_INPUT
#undef ON_CALL
};

enum endpoint_state state_after_call(enum endpoint_state state, enum endpoint_call call)
{
	if (state >= STATE_COUNT || call >= ENDPOINT_CALL_COUNT || !after_call[state][call])
		return STATE_REFUSE;
	return after_call[state][call] - 1u;
}

enum endpoint_state state_after_input(enum endpoint_state state, enum endpoint_input input)
{
	if (state >= STATE_COUNT || input >= INPUT_COUNT || !after_input[state][input])
		return STATE_IGNORE;
	return after_input[state][input] - 1u;
}

bool endpoint_move(struct endpoint *endpoint, enum endpoint_call call)
{
	enum endpoint_state next = state_after_call(endpoint->state, call);

	if (next >= STATE_COUNT)
		return false;
	endpoint->state = (uint8_t)next;
	return true;
}

bool endpoint_take(struct endpoint *endpoint, enum endpoint_input input)
{
	enum endpoint_state next = state_after_input(endpoint->state, input);

	if (next >= STATE_COUNT)
		return false;
	endpoint->state = (uint8_t)next;
	return true;
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
